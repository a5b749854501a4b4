/* test_product_hadamard.c - hadamard_transform is its own inverse, for sizes of several factors,
 * and rejects bad arguments. Golden rows (test_products) have the values for single sizes. */
#include "ops/support/helpers.h"

static void inverse(void **state) {
    static const int sizes[] = {1, 2, 32, 64, 2048, 12 * 64, 20 * 2, 28 * 128};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int n = sizes[k];
        bool symmetric = (n & (n - 1)) == 0 || n % 12 == 0;
        double *v = malloc((size_t)n * 2 * sizeof *v);
        for (int i = 0; i < 2 * n; i++) v[i] = (i * 7919) % 101 - 50;
        struct kl_array *a = array_of(KL_F64, SHAPE(2, 1, n), v), *once, *twice;
        EXPECT_OK(kl_hadamard_transform(&once, a, NULL, cpu(), &err));
        EXPECT_OK(kl_hadamard_transform(&twice, once, NULL, cpu(), &err));
        expect_shape(twice, SHAPE(2, 1, n));
        double *x = values_of(once), *y = values_of(twice), before = 0, after = 0;
        for (int i = 0; i < 2 * n; i++) {
            before += v[i] * v[i];
            after += x[i] * x[i];
            if (symmetric) assert_true(fabs(y[i] - v[i]) < 1e-10);
        }
        /* The factor makes the rows orthonormal. */
        assert_true(fabs(before - after) < 1e-9 * before);
        free(v);
        free(x);
        free(y);
        kl_array_release(a);
        kl_array_release(once);
        kl_array_release(twice);
    }
}

static void bad(void **state) {
    struct kl_array *s = scalar_of(KL_F32, 3), *three = F32(SHAPE(3), 1, 2, 3),
                    *e = F32(SHAPE(2, 0), 0), *z = scalar_of(KL_C64, 1), *n36 = count_up(SHAPE(36)),
                    *out;
    EXPECT_OK(kl_hadamard_transform(&out, s, NULL, cpu(), &err));
    EXPECT_F32(out, SCALAR, 3);
    /* A row of one element keeps its dtype when the factor is 1; with another factor the result is
     * float32. */
    struct kl_array *whole = I32(SHAPE(2, 1), 3, -4);
    const float factors[] = {1, 2.5f};
    EXPECT_OK(kl_hadamard_transform(&out, whole, NULL, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1), 3, -4);
    EXPECT_OK(kl_hadamard_transform(&out, whole, &factors[0], cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1), 3, -4);
    EXPECT_OK(kl_hadamard_transform(&out, whole, &factors[1], cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1), 7.5f, -10);
    kl_array_release(whole);
    EXPECT_FAIL(KL_ESHAPE, kl_hadamard_transform(&out, three, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_hadamard_transform(&out, n36, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_hadamard_transform(&out, e, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_hadamard_transform(&out, z, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_hadamard_transform(&out, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_hadamard_transform(&out, s, NULL, NULL, &err));
    struct kl_array *all[] = {s, three, e, z, n36};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(inverse), cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
