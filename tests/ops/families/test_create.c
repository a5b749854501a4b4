/* test_create.c - full, zeros, ones, arange, linspace; golden rows of all arrays that are made from
 * parameters. */
#include <limits.h>
#include <math.h>

#include "ops/golden/golden_make.h"

#include "ops/golden/golden_create.inc"

static void zeros_and_ones(void **state) {
    struct kl_array *out, *a = F32(SHAPE(2, 1), 5, 6);
    EXPECT_OK(kl_zeros(&out, LIST(2, 3), KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_ones(&out, NULL, 0, KL_F32, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    EXPECT_OK(kl_ones(&out, LIST(3, 0), KL_F32, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 0), 0);
    EXPECT_OK(kl_zeros_like(&out, a, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1), 0, 0);
    EXPECT_OK(kl_ones_like(&out, a, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1), 1, 1);
    for (int dtype = 0; dtype < KL_N_DTYPES; dtype++) {
        struct kl_array *f, *sum;
        EXPECT_OK(kl_ones(&out, LIST(300), dtype, cpu(), &err));
        assert_int_equal(out->t.dtype, dtype);
        EXPECT_OK(kl_astype(&f, out, KL_F32, cpu(), &err));
        EXPECT_OK(kl_sum(&sum, f, false, cpu(), &err));
        EXPECT_F32(sum, SCALAR, 300);
        kl_array_release(f);
        kl_array_release(out);
    }
    kl_array_release(a);
}

static void full(void **state) {
    struct kl_array *out, *v = F32(SHAPE(2, 1), 1.9f, -1.9f);
    EXPECT_OK(kl_full(&out, LIST(2, 3), v, KL_F32, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 3), 1.9f, 1.9f, 1.9f, -1.9f, -1.9f, -1.9f);
    EXPECT_OK(kl_full(&out, LIST(2, 2), v, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 1, 1, -1, -1);
    struct kl_array *like = count_up(SHAPE(1, 2, 1));
    EXPECT_OK(kl_full_like(&out, like, v, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2, 1), 1, -1);
    kl_array_release(like);
    kl_array_release(v);
}

static void arange(void **state) {
    struct kl_array *out;
    EXPECT_OK(kl_arange(&out, 2, 11, 3, KL_I32, cpu(), &err));
    assert_true(out->has_range && out->lo == 2 && out->hi == 8);
    EXPECT_I32(out, SHAPE(3), 2, 5, 8);
    EXPECT_OK(kl_arange(&out, 3, 0, -1, KL_I32, cpu(), &err));
    assert_true(out->has_range && out->lo == 1 && out->hi == 3);
    EXPECT_I32(out, SHAPE(3), 3, 2, 1);
    EXPECT_OK(kl_arange(&out, 5, 0, 1, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    /* The step is the second element minus the first, as integers: 1 - 0, as in MLX and NumPy. */
    EXPECT_OK(kl_arange(&out, 0.5, 3.9, 0.5, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 0, 1, 2, 3, 4, 5, 6);
    EXPECT_OK(kl_arange(&out, -1.5, 2.5, 1, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), -1, 0, 1, 2);
    EXPECT_OK(kl_arange(&out, 0, 1, 0.25, KL_F32, cpu(), &err));
    assert_false(out->has_range);
    EXPECT_F32(out, SHAPE(4), 0, 0.25f, 0.5f, 0.75f);
    EXPECT_OK(kl_arange(&out, 0, 5, INFINITY, KL_F32, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 0);
    /* The values wrap around, so no range is proved. */
    EXPECT_OK(kl_arange(&out, 250, 260, 1, KL_U8, cpu(), &err));
    assert_false(out->has_range);
    uint8_t *v = values_of(out);
    for (int i = 0; i < 10; i++) assert_int_equal(v[i], (uint8_t)(250 + i));
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_arange(&out, 0, 3e5, 1, KL_I64, cpu(), &err));
    int64_t *w = values_of(out);
    for (int i = 0; i < 300000; i++) assert_int_equal(w[i], i);
    free(w);
    kl_array_release(out);
}

static void bad(void **state) {
    struct kl_array *out, *v = count_up(SHAPE(3));
    EXPECT_FAIL(KL_ESHAPE, kl_zeros(&out, LIST(2, -1), KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_zeros(&out, NULL, 2, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_zeros(&out, LIST(2), 14, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_ones(&out, LIST(2), -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_ones(&out, LIST(2), KL_F32, NULL, &err));
    EXPECT_FAIL(KL_ELIMIT, kl_zeros(&out, LIST(INT_MAX, INT_MAX), KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_zeros(&out, LIST(INT_MAX, INT_MAX, INT_MAX, 0), KL_F32, cpu(), &err));
    int many[65];
    for (int i = 0; i < 65; i++) many[i] = 1;
    EXPECT_FAIL(KL_ESHAPE, kl_zeros(&out, many, 65, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_zeros_like(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_ones_like(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_full(&out, LIST(3), NULL, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_full(&out, LIST(2), v, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_full(&out, LIST(3), v, 99, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_full_like(&out, NULL, v, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_full_like(&out, v, NULL, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_full_like(&out, v, v, -3, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_arange(&out, 0, 5, 0, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_arange(&out, NAN, 5, 1, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_arange(&out, 0, INFINITY, 1, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_arange(&out, 0, 1e12, 1, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_arange(&out, 1e19, 1.1e19, 1e18, KL_I64, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_arange(&out, 0, 5, 1, KL_BOOL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_arange(&out, 0, 5, 1, 77, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_arange(&out, 0, 5, 1, KL_F32, NULL, &err));
    kl_array_release(v);
}

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(create_cases);
}

/* Every element of float64 is within a unit of its last place of the exact one, also where start
 * and the steps cancel. */
static void linspace_is_exact_to_a_unit(void **state) {
    static const double ends[][2] = {
        {0, 1},       {-1, 1},           {0.1, 0.7}, {-0.3, 0.1}, {1e15, 1e15 + 3},
        {-7, 6.9999}, {1e-270, -3e-270}, {5, 2.5},   {-1e200, 1}, {0.3, 0.3000001}};
    static const int counts[] = {2, 3, 7, 10, 49, 1000, 65537};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const long double start = ends[k][0], stop = ends[k][1];
            const int n = counts[c];
            struct kl_array *out;
            EXPECT_OK(kl_linspace(&out, ends[k][0], ends[k][1], n, KL_F64, cpu(), &err));
            double *v = values_of(out);
            for (int i = 0; i < n; i++) {
                long double want = (start * (n - 1 - i) + stop * i) / (n - 1);
                long double unit = fabsl(want) * 0x1p-52L;
                if (fabsl(want) > fabsl(start) * 0x1p-9L && fabsl(v[i] - want) > unit)
                    fail_msg("element %d of %d from %g to %g: %.17g, want %.20Lg", i, n, ends[k][0],
                             ends[k][1], v[i], want);
            }
            free(v);
            kl_array_release(out);
        }
}

static void linspace(void **state) {
    struct kl_array *out;
    EXPECT_OK(kl_linspace(&out, 1, 5, 0, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_linspace(&out, 3, -3, 7, KL_I32, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 3, 2, 1, 0, -1, -2, -3);
    /* The difference of the ends is infinite. */
    EXPECT_OK(kl_linspace(&out, -1e308, 1e308, 3, KL_F64, cpu(), &err));
    double *v = values_of(out);
    assert_true(v[0] == -1e308 && v[1] == 0 && v[2] == 1e308);
    free(v);
    kl_array_release(out);
    for (int n = 2; n < 200; n++) { /* both ends are exact, for every number of elements */
        EXPECT_OK(kl_linspace(&out, 0.1, 0.7, n, KL_F64, cpu(), &err));
        v = values_of(out);
        assert_true(v[0] == 0.1 && v[n - 1] == 0.7);
        for (int i = 1; i < n; i++) assert_true(v[i] > v[i - 1]);
        free(v);
        kl_array_release(out);
    }
    EXPECT_FAIL(KL_EARG, kl_linspace(&out, 0, 1, -1, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_linspace(&out, 0, 1, 2, 99, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_linspace(&out, 0, 1, 2, KL_F32, NULL, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(zeros_and_ones),
                                       cmocka_unit_test(full),
                                       cmocka_unit_test(arange),
                                       cmocka_unit_test(bad),
                                       cmocka_unit_test(golden),
                                       cmocka_unit_test(linspace),
                                       cmocka_unit_test(linspace_is_exact_to_a_unit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
