/* test_product_composed.c - outer, inner, kron, tensordot, addmm: golden values, shapes, bad
 * arguments. */
#include <limits.h>

#include "ops/golden/golden_make.h"

#include "ops/golden/golden_products.inc"

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(products_cases); /* with the rows of hadamard_transform */
}

static void shapes(void **state) {
    struct kl_array *s = scalar_of(KL_I32, 2), *v = I32(SHAPE(2), 3, 4), *m = count_up(SHAPE(2, 3)),
                    *f = F32(SHAPE(2, 3), 0, 1, 2, 3, 4, 5), *e = F32(SHAPE(3, 0), 0),
                    *n = F32(SHAPE(0, 3), 0), *out;
    EXPECT_OK(kl_outer(&out, s, v, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 6, 8);
    /* Multiplied, not summed, so integers are allowed. */
    EXPECT_OK(kl_inner(&out, s, m, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 2, 4, 6, 8, 10);
    EXPECT_OK(kl_kron(&out, s, s, cpu(), &err));
    EXPECT_I32(out, SCALAR, 4);
    EXPECT_OK(kl_kron(&out, v, m, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 6), 0, 3, 6, 0, 4, 8, 9, 12, 15, 12, 16, 20);
    EXPECT_OK(kl_kron(&out, e, f, cpu(), &err));
    EXPECT_F32(out, SHAPE(6, 0), 0);
    EXPECT_OK(kl_tensordot_axis(&out, f, f, 2, cpu(), &err));
    EXPECT_F32(out, SCALAR, 55);
    EXPECT_OK(kl_tensordot(&out, f, f, LIST(-1), LIST(1), cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 5, 14, 14, 50);
    /* Sums without terms are 0. */
    EXPECT_OK(kl_tensordot(&out, e, n, LIST(1), LIST(0), cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 3), 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_tensordot(&out, f, e, LIST(1), LIST(0), cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 0), 0);
    EXPECT_FAIL(KL_EDTYPE, kl_inner(&out, m, m, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_inner(&out, f, e, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_tensordot_axis(&out, m, m, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_tensordot_axis(&out, f, f, 3, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_tensordot_axis(&out, f, f, -1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_tensordot(&out, f, f, LIST(0, 1), LIST(1, 0), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_tensordot(&out, f, f, LIST(0), LIST(1, 0), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_tensordot(&out, f, f, LIST(0, 0), LIST(0, 0), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_tensordot(&out, f, f, LIST(5), LIST(0), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_tensordot(&out, f, f, NULL, 1, LIST(0), cpu(), &err));
    kl_binary_fn *const all[] = {kl_outer, kl_inner, kl_kron};
    for (int i = 0; i < 3; i++) {
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, f, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, f, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, f, f, NULL, &err));
    }
    struct kl_array *used[] = {s, v, m, f, e, n};
    for (int i = 0; i < 6; i++) kl_array_release(used[i]);
}

static void addmm(void **state) {
    struct kl_array *a = F32(SHAPE(2, 2), 1, 2, 3, 4), *i = count_up(SHAPE(2, 2)),
                    *inf = F32(SHAPE(2), INFINITY, NAN), *one = scalar_of(KL_I32, 1),
                    *wrong = F32(SHAPE(2, 2, 2), 0, 0, 0, 0, 0, 0, 0, 0), *v = F32(SHAPE(2), 1, 1),
                    *out;
    EXPECT_OK(kl_addmm(&out, one, a, a, 1, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 8, 11, 16, 23);
    /* With beta 0 the values of the first operand do not count. */
    EXPECT_OK(kl_addmm(&out, inf, a, a, 2, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 14, 20, 30, 44);
    /* One operand is floating point, so all are converted. */
    EXPECT_OK(kl_addmm(&out, v, i, i, 1, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 3, 4, 7, 12);
    EXPECT_OK(kl_addmm(&out, one, v, v, 1, 1, cpu(), &err));
    EXPECT_F32(out, SCALAR, 3);
    EXPECT_FAIL(KL_EDTYPE, kl_addmm(&out, one, i, i, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_addmm(&out, wrong, a, a, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_addmm(&out, one, a, one, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_addmm(&out, wrong, a, a, 1, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_addmm(&out, NULL, a, a, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_addmm(&out, a, NULL, a, 1, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_addmm(&out, a, a, a, 1, 1, NULL, &err));
    struct kl_array *used[] = {a, i, inf, one, wrong, v};
    for (int k = 0; k < 6; k++) kl_array_release(used[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(shapes),
                                       cmocka_unit_test(addmm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
