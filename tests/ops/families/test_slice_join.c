/* test_slice_join.c - slice_update_add and its like: broadcasting, NaN and bad arguments. Golden
 * rows (test_rearrange) have the values. */
#include "ops/support/helpers.h"

static void joins(void **state) {
    struct kl_array *a = F32(SHAPE(4), 1, NAN, -3, 4), *u = F32(SHAPE(2), NAN, 2),
                    *one = scalar_of(KL_I32, 2), *wide = F32(SHAPE(3), 1, 2, 3), *out;
    EXPECT_OK(kl_slice_update_max(&out, a, u, LIST(0), LIST(4), LIST(2), cpu(), &err));
    EXPECT_F32(out, SHAPE(4), NAN, NAN, 2, 4);
    EXPECT_OK(kl_slice_update_min(&out, a, one, LIST(-1), LIST(-9), LIST(-1), cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 1, NAN, -3, 2);
    EXPECT_OK(kl_slice_update_prod(&out, a, one, LIST(2), LIST(4), LIST(1), cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 1, NAN, -6, 8);
    /* A slice without elements. */
    EXPECT_OK(kl_slice_update_add(&out, a, one, LIST(3), LIST(3), LIST(1), cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 1, NAN, -3, 4);
    kl_slice_join_fn *const all[] = {kl_slice_update_add, kl_slice_update_prod, kl_slice_update_max,
                                     kl_slice_update_min};
    for (int i = 0; i < 4; i++) {
        EXPECT_FAIL(KL_ESHAPE, all[i](&out, a, wide, LIST(0), LIST(2), LIST(1), cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, all[i](&out, a, u, LIST(0, 0), LIST(2), LIST(1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, u, LIST(0), LIST(2), LIST(0), cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, u, LIST(0), LIST(2), LIST(1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, NULL, LIST(0), LIST(2), LIST(1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, u, LIST(0), LIST(2), LIST(1), NULL, &err));
    }
    struct kl_array *used[] = {a, u, one, wide};
    for (int i = 0; i < 4; i++) kl_array_release(used[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(joins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
