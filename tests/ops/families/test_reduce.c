/* test_reduce.c - reductions against NumPy; the rules for NaN, zero and no elements; the same bits
 * for every layout; bad arguments. */
#include "ops/golden/golden.h"

#include "backend/cpu/cpu_kernels.h"

#include "ops/golden/golden_reduce.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(reduce_cases);
}

static void zero_axes_and_scalars(void **state) {
    struct kl_array *b = scalar_of(KL_BOOL, 1), *a = count_up(SHAPE(2, 2)), *out;
    /* Over no axes nothing is reduced, and bool stays, as in MLX. */
    EXPECT_OK(kl_sum(&out, b, false, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_BOOL);
    kl_array_release(out);
    EXPECT_OK(kl_sum_axes(&out, a, NULL, 0, false, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 1, 2, 3);
    EXPECT_OK(kl_max_axes(&out, a, NULL, 0, true, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 1, 2, 3);
    EXPECT_OK(kl_mean_axes(&out, a, NULL, 0, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 0, 1, 2, 3);
    EXPECT_OK(kl_argmax(&out, b, true, cpu(), &err));
    expect_shape(out, SCALAR);
    kl_array_release(out);
    EXPECT_OK(kl_argmin(&out, a, true, cpu(), &err));
    expect_shape(out, SHAPE(1, 1));
    assert_true(out->has_range && out->lo == 0 && out->hi == 3);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
}

static void empty(void **state) {
    struct kl_array *a = array_of(KL_F32, SHAPE(0, 3), NULL), *out;
    EXPECT_OK(kl_sum(&out, a, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 0);
    EXPECT_OK(kl_sum_axis(&out, a, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), 0, 0, 0);
    EXPECT_OK(kl_sum_axis(&out, a, 1, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 1), 0);
    EXPECT_OK(kl_mean(&out, a, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, NAN);
    EXPECT_OK(kl_max_axis(&out, a, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0), 0);
    EXPECT_FAIL(KL_EARG, kl_max(&out, a, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_min_axis(&out, a, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_argmax(&out, a, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_argmin_axis(&out, a, 0, false, cpu(), &err));
    EXPECT_OK(kl_argmin_axis(&out, a, 1, false, cpu(), &err));
    expect_shape(out, SHAPE(0));
    kl_array_release(out);
    kl_array_release(a);
}

static void signed_zeros(void **state) {
    struct kl_array *a = F32(SHAPE(2, 2), 0.0f, -0.0f, -0.0f, 0.0f), *out;
    EXPECT_OK(kl_max_axis(&out, a, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 0.0f, 0.0f);
    EXPECT_OK(kl_min_axis(&out, a, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), -0.0f, -0.0f);
    kl_array_release(a);
}

/* Means that wrap around or overflow when they are computed as MLX computes them. */
static void wide_means(void **state) {
    int n = 100000;
    struct kl_array *one = scalar_of(KL_F16, 100), *big = scalar_of(KL_I8, 100), *a, *out, *f;
    EXPECT_OK(kl_broadcast_to(&a, one, &n, 1, cpu(), &err));
    EXPECT_OK(kl_mean(&out, a, false, cpu(), &err)); /* the sum is too large for float16 */
    assert_int_equal(out->t.dtype, KL_F16);
    EXPECT_OK(kl_astype(&f, out, KL_F32, cpu(), &err));
    EXPECT_F32(f, SCALAR, 100);
    kl_array_release(out);
    kl_array_release(a);
    EXPECT_OK(kl_broadcast_to(&a, big, &n, 1, cpu(), &err));
    EXPECT_OK(kl_mean(&out, a, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 100);
    EXPECT_OK(kl_sum(&out, a, false, cpu(), &err));
    EXPECT_I32(out, SCALAR, 10000000);
    kl_array_release(a);
    kl_array_release(one);
    kl_array_release(big);
    /* A small sum remains when large integers cancel. The sum of their magnitudes does not fit
     * int32, and float32 would lose the small ones. */
    a = I32(SHAPE(6), 2147483647, 2147483647, 5, -2147483647, -2147483647, 1);
    EXPECT_OK(kl_mean(&out, a, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    kl_array_release(a);
}

/* The reduction tree depends on the shape alone. Rows of every length near the sizes of runs and
 * segments have the same bits contiguous, strided and as columns, and are close to the exact
 * sum. */
static void one_reduction_tree(void **state) {
    static const int lengths[] = {1,   2,    15,   16,   17,   127,   128,   129,  500,
                                  512, 1000, 1024, 1100, 4097, 65536, 65537, 70001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int n = lengths[i], dims[2] = {n, 3};
        float *v = malloc((size_t)n * 3 * sizeof *v);
        uint32_t seed = 12345;
        double exact[3] = {0, 0, 0};
        for (int k = 0; k < 3 * n; k++) {
            seed = seed * 1664525 + 1013904223;
            v[k] = (float)(int32_t)seed * 0x1p-31f;
            exact[k % 3] += (double)v[k];
        }
        struct kl_array *a = array_of(KL_F32, 2, dims, v), *t, *dense, *s[3];
        free(v);
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
        EXPECT_OK(kl_sum_axis(&s[0], a, 0, false, cpu(), &err));     /* columns */
        EXPECT_OK(kl_sum_axis(&s[1], dense, 1, false, cpu(), &err)); /* rows */
        EXPECT_OK(kl_sum_axis(&s[2], t, 1, false, cpu(), &err));
        float *x = values_of(s[0]), *y = values_of(s[1]), *z = values_of(s[2]);
        assert_memory_equal(x, y, 3 * sizeof *x);
        assert_memory_equal(x, z, 3 * sizeof *x);
        for (int k = 0; k < 3; k++) assert_true(fabs(x[k] - exact[k]) <= 1e-6 * sqrt(n) + 1e-7);
        free(x);
        free(y);
        free(z);
        for (int k = 0; k < 3; k++) kl_array_release(s[k]);
        kl_array_release(a);
        kl_array_release(t);
        kl_array_release(dense);
    }
}

/* A million ones in float32 and in bfloat16. Partial sums in bfloat16 would stop at 256. */
static void long_sums(void **state) {
    int n = 1 << 20;
    struct kl_array *a, *out;
    EXPECT_OK(kl_ones(&a, &n, 1, KL_F32, cpu(), &err));
    EXPECT_OK(kl_sum(&out, a, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 1 << 20);
    kl_array_release(a);
    EXPECT_OK(kl_ones(&a, &n, 1, KL_BF16, cpu(), &err));
    EXPECT_OK(kl_sum(&out, a, true, cpu(), &err));
    uint16_t *v = values_of(out);
    assert_int_equal(v[0], kl_f32_to_bf16(1 << 20));
    free(v);
    kl_array_release(out);
    kl_array_release(a);
}

/* Rows, columns and strided operands, short ones and ones cut into segments, with equal elements
 * and NaN. The result is always the first one, as a plain loop finds it. */
static void arg_reductions_in_every_layout(void **state) {
    static const int lengths[] = {1, 2, 31, 32, 33, 511, 512, 513, 1500, 65536, 65537, 140000};
    static const enum kl_dtype dtypes[] = {KL_BOOL, KL_U8,  KL_I16, KL_F16,
                                           KL_F32,  KL_I64, KL_F64, KL_C64};
    enum { WIDTH = 20 };
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int kind = 0; kind < 3; kind++) {
            int n = lengths[l], dims[2] = {n, WIDTH};
            float *v = malloc((size_t)n * WIDTH * sizeof *v);
            uint32_t seed = 3;
            for (int k = 0; k < n * WIDTH; k++) {
                seed = seed * 1664525 + 1013904223;
                /* Many elements are equal. */
                v[k] = kind ? (float)(seed >> 24) : (float)(seed >> 31);
                if (kind == 2 && (seed >> 8) % 5000 == 0) v[k] = NAN;
                if (kind == 2 && v[k] == 0) v[k] = k % 2 ? -INFINITY : INFINITY;
            }
            struct kl_array *f = array_of(KL_F32, 2, dims, v);
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
                if (!kl_test_takes("cpu", 1)) continue;
                bool is_float = dtypes[d] == KL_F16 || dtypes[d] == KL_F32 || dtypes[d] == KL_F64 ||
                                dtypes[d] == KL_C64;
                if (kind == 2 ? !is_float : kind == 1 && dtypes[d] == KL_BOOL) continue;
                struct kl_array *a, *t, *dense, *out[3];
                EXPECT_OK(kl_astype(&a, f, (int)dtypes[d], cpu(), &err));
                EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
                EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
                for (int max = 0; max < 2; max++) {
                    kl_reduce_axis_fn *fn = max ? kl_argmax_axis : kl_argmin_axis;
                    EXPECT_OK(fn(&out[0], a, 0, false, cpu(), &err));
                    EXPECT_OK(fn(&out[1], dense, 1, false, cpu(), &err));
                    EXPECT_OK(fn(&out[2], t, 1, false, cpu(), &err));
                    for (int way = 0; way < 3; way++) {
                        uint32_t *got = values_of(out[way]);
                        for (int c = 0; c < WIDTH; c++) {
                            int want = 0;
                            for (int r = 1; r < n && !isnan(v[want * WIDTH + c]); r++) {
                                float x = v[r * WIDTH + c], y = v[want * WIDTH + c];
                                if (isnan(x) || (max ? x > y : x < y)) want = r;
                            }
                            if (got[c] != (uint32_t)want)
                                fail_msg("%s of %d x %s, way %d: %u, not %d",
                                         max ? "argmax" : "argmin", n, kl_dtype_name(dtypes[d]),
                                         way, got[c], want);
                        }
                        free(got);
                        kl_array_release(out[way]);
                    }
                }
                kl_array_release(a);
                kl_array_release(t);
                kl_array_release(dense);
            }
            free(v);
            kl_array_release(f);
        }
}

static void arg_of_all(void **state) {
    struct kl_array *a = F32(SHAPE(2, 3), 1, 5, 5, NAN, 7, NAN), *out;
    EXPECT_OK(kl_argmax(&out, a, false, cpu(), &err));
    uint32_t *v = values_of(out);
    assert_int_equal(v[0], 3); /* the position of the first NaN */
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    a = array_of(KL_C64, SHAPE(3), (float[]){1, 2, 1, 3, 0, 9});
    EXPECT_OK(kl_argmax_axis(&out, a, -1, true, cpu(), &err));
    expect_shape(out, SHAPE(1));
    v = values_of(out);
    assert_int_equal(v[0], 1);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_max(&out, a, false, cpu(), &err));
    float *z = values_of(out);
    assert_true(z[0] == 1 && z[1] == 3);
    free(z);
    kl_array_release(out);
    kl_array_release(a);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *out;
    kl_reduce_fn *const all[] = {kl_sum, kl_mean, kl_max, kl_min, kl_argmax, kl_argmin};
    kl_reduce_axis_fn *const axis[] = {kl_sum_axis, kl_mean_axis,   kl_max_axis,
                                       kl_min_axis, kl_argmax_axis, kl_argmin_axis};
    kl_reduce_axes_fn *const axes[] = {kl_sum_axes, kl_mean_axes, kl_max_axes, kl_min_axes};
    for (int i = 0; i < 6; i++) {
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, false, NULL, &err));
        EXPECT_FAIL(KL_EARG, axis[i](&out, NULL, 0, false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axis[i](&out, a, 0, false, NULL, &err));
        EXPECT_FAIL(KL_EAXIS, axis[i](&out, a, 2, false, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, axis[i](&out, a, -3, true, cpu(), &err));
    }
    for (int i = 0; i < 4; i++) {
        EXPECT_FAIL(KL_EAXIS, axes[i](&out, a, LIST(0, -2), false, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, axes[i](&out, a, LIST(0, 5), false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axes[i](&out, a, NULL, 1, false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axes[i](&out, NULL, NULL, 0, false, cpu(), &err));
    }
    kl_array_release(a);
}

/* Rows of a reversed view, whose strides are negative, have the bits of a copy, in every
 * variant. */
static void backward_rows(void **state) {
    enum { ROWS = 40, LENGTH = 21 };
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_I32, KL_F64};
    kl_reduce_axis_fn *const builds[] = {kl_sum_axis, kl_max_axis, kl_min_axis, kl_argmax_axis};
    float v[ROWS * LENGTH];
    for (int i = 0; i < ROWS * LENGTH; i++) v[i] = (float)(i * 37 % 101) - 50;
    struct kl_array *f = array_of(KL_F32, SHAPE(ROWS, LENGTH), v);
    for (int k = 0; k < kl_cpu_n_variants() * 5 * 4; k++) {
        struct kl_array *typed, *view, *copy, *out[2];
        kl_cpu_use_variant(k / 20);
        EXPECT_OK(kl_astype(&typed, f, (int)dtypes[k % 5], cpu(), &err));
        EXPECT_OK(kl_slice(&view, typed, LIST(ROWS - 1, 0), LIST(-ROWS - 1, LENGTH), LIST(-1, 1),
                           cpu(), &err));
        EXPECT_OK(kl_copy(&copy, view, cpu(), &err));
        for (int w = 0; w < 2; w++)
            EXPECT_OK(builds[k / 5 % 4](&out[w], w ? copy : view, 1, false, cpu(), &err));
        void *x = values_of(out[0]), *y = values_of(out[1]);
        assert_memory_equal(x, y, ROWS * kl_dtype_size(out[0]->t.dtype));
        free(x);
        free(y);
        struct kl_array *used[] = {typed, view, copy, out[0], out[1]};
        for (int i = 0; i < 5; i++) kl_array_release(used[i]);
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    kl_array_release(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(zero_axes_and_scalars),
        cmocka_unit_test(empty),
        cmocka_unit_test(signed_zeros),
        cmocka_unit_test(wide_means),
        cmocka_unit_test(one_reduction_tree),
        cmocka_unit_test(long_sums),
        cmocka_unit_test(arg_of_all),
        cmocka_unit_test(arg_reductions_in_every_layout),
        cmocka_unit_test(backward_rows),
        cmocka_unit_test(bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
