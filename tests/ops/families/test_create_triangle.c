/* test_create_triangle.c - eye, tri, tril, triu, diag, trace: cases that the golden rows
 * (test_rearrange, test_create) do not have. */
#include <limits.h>

#include "ops/support/helpers.h"

static void eye(void **state) {
    struct kl_array *out;
    EXPECT_OK(kl_eye(&out, 2, 3, INT_MIN, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_eye(&out, 2, 3, INT_MAX, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_tri(&out, 2, 3, INT_MIN, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_tri(&out, 2, 3, INT_MAX, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 1, 1, 1, 1, 1, 1);
    EXPECT_OK(kl_eye(&out, 0, 3, 0, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_eye(&out, -1, 3, 0, KL_I32, cpu(), &err));
    EXPECT_OK(kl_tri(&out, 3, -1, 0, KL_I32, cpu(), &err)); /* a negative extent counts as 0 */
    EXPECT_I32(out, SHAPE(3, 0), 0);
    EXPECT_OK(kl_tri(&out, INT_MIN, 3, 0, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_identity(&out, -1, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_eye(&out, 1, 1, 0, 99, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_eye(&out, 1, 1, 0, KL_I32, NULL, &err));
    /* Large enough for several threads. */
    EXPECT_OK(kl_eye(&out, 700, 900, 100, KL_I32, cpu(), &err));
    int32_t *v = values_of(out);
    for (int i = 0; i < 700 * 900; i++) assert_int_equal(v[i], i % 900 - i / 900 == 100);
    free(v);
    kl_array_release(out);
}

static void triangles(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 2, 2)), *v = count_up(SHAPE(3)), *out,
                    *nan = F32(SHAPE(1, 2), NAN, INFINITY), *e = count_up(SHAPE(0, 2));
    EXPECT_OK(kl_tril(&out, a, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 2), 0, 0, 2, 3, 4, 0, 6, 7);
    EXPECT_OK(kl_triu(&out, a, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 2), 0, 1, 0, 0, 0, 5, 0, 0);
    EXPECT_OK(kl_tril(&out, a, INT_MIN, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 2), 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_triu(&out, a, INT_MIN, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7);
    /* Elements that are cut off become 0, even NaN. */
    EXPECT_OK(kl_triu(&out, nan, 2, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 2), 0, 0);
    EXPECT_OK(kl_triu(&out, e, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 2), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_tril(&out, v, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_triu(&out, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_triu(&out, a, 0, NULL, &err));
    struct kl_array *all[] = {a, v, nan, e};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

static void diag(void **state) {
    struct kl_array *v = I32(SHAPE(2), 7, 8), *m = count_up(SHAPE(2, 3)), *e = count_up(SHAPE(0)),
                    *s = scalar_of(KL_I32, 1), *out;
    EXPECT_OK(kl_diag(&out, v, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 3), 0, 7, 0, 0, 0, 8, 0, 0, 0);
    EXPECT_OK(kl_diag(&out, v, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 3), 0, 0, 0, 7, 0, 0, 0, 8, 0);
    EXPECT_OK(kl_diag(&out, m, 5, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_diag(&out, e, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 0, 0, 0);
    EXPECT_OK(kl_diag(&out, e, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 0), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_diag(&out, s, 0, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_diag(&out, v, INT_MIN, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_diag(&out, NULL, 0, cpu(), &err));
    struct kl_array *all[] = {v, m, e, s};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

static void trace(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *b = count_up(SHAPE(2, 3, 4)), *out;
    EXPECT_OK(kl_diagonal_sum(&out, a, 0, 0, 1, KL_I8, cpu(), &err));
    EXPECT_I32(out, SCALAR, 4);
    EXPECT_OK(
        kl_diagonal_sum(&out, a, 3, 0, 1, KL_I32, cpu(), &err)); /* the diagonal has no elements */
    EXPECT_I32(out, SCALAR, 0);
    EXPECT_OK(kl_diagonal_sum(&out, a, 0, 0, 1, KL_F32, cpu(), &err));
    EXPECT_F32(out, SCALAR, 4);
    EXPECT_OK(kl_diagonal_sum(&out, b, 0, 0, 1, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), 16, 18, 20, 22);
    EXPECT_FAIL(KL_EAXIS, kl_diagonal_sum(&out, a, 0, 0, 0, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_diagonal_sum(&out, a, 0, 0, 1, -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_diagonal_sum(&out, a, 0, 0, 1, KL_I32, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_diagonal_sum(&out, NULL, 0, 0, 1, KL_I32, cpu(), &err));
    kl_array_release(a);
    kl_array_release(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(eye), cmocka_unit_test(triangles),
                                       cmocka_unit_test(diag), cmocka_unit_test(trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
