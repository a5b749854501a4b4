/* test_matmul.c - matmul: values, shapes, bad arguments. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_matmul.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(matmul_cases);
}

/* Sizes near multiples of the tile's. The numbers are whole, so the result must be exactly the
 * sum. */
static void sizes_near_tiles(void **state) {
    static const int sizes[][3] = {{63, 65, 64},  {65, 1, 130}, {1, 200, 129},
                                   {130, 129, 1}, {5, 300, 66}, {67, 127, 15}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
        float *a = malloc((size_t)(m * k) * 4), *b = malloc((size_t)(k * n) * 4);
        for (int i = 0; i < m * k; i++) a[i] = (float)(i * 7 % 11 - 5);
        for (int i = 0; i < k * n; i++) b[i] = (float)(i * 5 % 13 - 6);
        struct kl_array *x = array_of(KL_F32, SHAPE(m, k), a),
                        *y = strided(array_of(KL_F32, SHAPE(k, n), b)), *out;
        EXPECT_OK(kl_matmul(&out, x, y, cpu(), &err));
        float *c = values_of(out);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float want = 0;
                for (int l = 0; l < k; l++) want += a[i * k + l] * b[l * n + j];
                assert_true(c[i * n + j] == want);
            }
        free(a);
        free(b);
        free(c);
        kl_array_release(out);
        kl_array_release(x);
        kl_array_release(y);
    }
}

static void bad(void **state) {
    struct kl_array *a = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *i = count_up(SHAPE(3, 2)),
                    *s = scalar_of(KL_F32, 1), *out;
    struct kl_array *p, *q;
    EXPECT_OK(kl_broadcast_to(&p, a, LIST(2, 2, 3), cpu(), &err));
    EXPECT_OK(kl_zeros(&q, LIST(3, 3, 1), KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, a, a, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, s, a, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, a, s, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, p, q, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_matmul(&out, i, i, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, NULL, a, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, a, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, a, i, NULL, &err));
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(s);
    kl_array_release(p);
    kl_array_release(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(sizes_near_tiles),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
