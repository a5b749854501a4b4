/* test_reduce_statistics.c - var, std, median, and the reductions that test_reduce.c does not have,
 * against NumPy; special cases; the same tree of additions for every layout; gradients; bad
 * arguments. */
#include "ops/golden/golden.h"

#include "backend/cpu/cpu_kernels.h"

#include "ops/golden/golden_statistics.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(statistics_cases);
}

static void nothing_and_no_axes(void **state) {
    struct kl_array *e = array_of(KL_F32, SHAPE(0, 3), NULL), *a = I32(SHAPE(2), 3, 0),
                    *s = scalar_of(KL_I32, 3), *b = scalar_of(KL_BOOL, 1), *out;
    EXPECT_OK(kl_prod(&out, e, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    EXPECT_OK(kl_prod_axis(&out, e, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), 1, 1, 1);
    EXPECT_OK(kl_logsumexp_axis(&out, e, 0, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 3), -INFINITY, -INFINITY, -INFINITY);
    EXPECT_OK(kl_var_axis(&out, e, 0, false, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), NAN, NAN, NAN);
    EXPECT_OK(kl_std(&out, e, false, 0, cpu(), &err));
    EXPECT_F32(out, SCALAR, NAN);
    kl_reduce_fn *const truths[] = {kl_all, kl_any};
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(truths[i](&out, e, false, cpu(), &err));
        bool *v = values_of(out);
        assert_true(v[0] == (i == 0));
        free(v);
        kl_array_release(out);
    }
    EXPECT_OK(kl_median_axes(&out, e, LIST(1), false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0), 0);
    EXPECT_FAIL(KL_EARG, kl_median_axes(&out, e, LIST(0), false, cpu(), &err));
    /* over no axes only the dtype changes */
    EXPECT_OK(kl_prod_axes(&out, b, NULL, 0, false, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_BOOL);
    kl_array_release(out);
    EXPECT_OK(kl_all_axes(&out, a, NULL, 0, false, cpu(), &err));
    bool *v = values_of(out);
    assert_true(v[0] && !v[1]);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_logsumexp(&out, s, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 3);
    EXPECT_OK(kl_median_axes(&out, a, NULL, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 3, 0);
    EXPECT_OK(kl_var_axes(&out, a, NULL, 0, false, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 0, 0);
    EXPECT_OK(kl_var(&out, s, true, 1, cpu(), &err));
    EXPECT_F32(out, SCALAR, NAN);
    EXPECT_OK(kl_var_axis(&out, a, -1, true, 2, cpu(), &err)); /* fewer elements than ddof */
    EXPECT_F32(out, SHAPE(1), INFINITY);
    EXPECT_OK(kl_std_axis(&out, a, 0, false, -1, cpu(), &err));
    EXPECT_F32(out, SCALAR, sqrtf(1.5f));
    kl_array_release(e);
    kl_array_release(a);
    kl_array_release(s);
    kl_array_release(b);
}

/* Numbers far from 0 lose nothing, since there are two passes. Sums and means that 16 bits and
 * int32 do not hold are right. */
static void hard_cases(void **state) {
    struct kl_array *a = F32(SHAPE(4), 1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 3), *h, *out,
                    *i = I32(SHAPE(4), INT32_MAX, INT32_MAX, -5, INT32_MAX),
                    *big = F32(SHAPE(2), 60000, 65504);
    EXPECT_OK(kl_var(&out, a, false, 0, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1.25f);
    EXPECT_OK(kl_median_axes(&out, i, LIST(0), true, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), (float)INT32_MAX);
    EXPECT_OK(kl_astype(&h, big, KL_F16, cpu(), &err));
    EXPECT_OK(kl_median_axes(&out, h, LIST(0), false, cpu(), &err));
    uint16_t *v = values_of(out);
    assert_int_equal(v[0], kl_f32_to_f16(62752));
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(h);
    kl_array_release(i);
    kl_array_release(big);
    struct kl_array *z = array_of(KL_C64, SHAPE(3), (float[]){1, 2, 1, 1, 0, 5});
    EXPECT_OK(kl_var(&out, z, false, 0, cpu(), &err));
    float *w = values_of(out);
    assert_true(fabsf(w[0] - 3.1111112f) < 1e-6f);
    free(w);
    kl_array_release(out);
    kl_array_release(z);
}

typedef int plain_fn(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                     struct kl_stream *s, struct kl_error **err);
static int var_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                    struct kl_stream *s, struct kl_error **err) {
    return kl_var_axis(out, a, axis, keepdims, 0, s, err);
}

/* At any place, a NaN decides the result, then +infinity; -infinity adds nothing. Checked for rows
 * and columns. */
static void logsumexp_of_specials(void **state) {
    enum { LENGTH = 600, WIDTH = 40 };
    static const float nan = NAN, top = INFINITY, low = -INFINITY;
    static float v[LENGTH * WIDTH];
    for (int at = 0; at < LENGTH; at += 1 + at % 7)
        for (int kind = 0; kind < 4; kind++) {
            /* Column 1 has the special value. Column 2 has it after a +infinity or before one, and
             * column 3 among -infinities. */
            float special = kind == 0 ? nan : kind == 1 ? top : kind == 2 ? low : 2.0f;
            for (int i = 0; i < LENGTH * WIDTH; i++) v[i] = i % WIDTH == 3 ? low : 1;
            for (int c = 1; c <= 3; c++) v[at * WIDTH + c] = special;
            v[(at + 300) % LENGTH * WIDTH + 2] = top;
            struct kl_array *a = array_of(KL_F32, SHAPE(LENGTH, WIDTH), v), *t, *dense, *s[2];
            EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
            EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
            EXPECT_OK(kl_logsumexp_axis(&s[0], a, 0, false, cpu(), &err));
            EXPECT_OK(kl_logsumexp_axis(&s[1], dense, 1, false, cpu(), &err));
            for (int k = 0; k < 2; k++) {
                float *x = values_of(s[k]);
                const float plain = 1 + logf(LENGTH), less = 1 + logf(LENGTH - 1);
                assert_true(fabsf(x[0] - plain) < 1e-5f && fabsf(x[WIDTH - 1] - plain) < 1e-5f);
                if (kind == 0)
                    assert_true(isnan(x[1]) && isnan(x[2]) && isnan(x[3]));
                else
                    assert_true(x[2] == top && x[3] == special);
                if (kind == 1) assert_true(x[1] == top);
                if (kind == 2) assert_true(fabsf(x[1] - less) < 1e-5f);
                free(x);
                kl_array_release(s[k]);
            }
            kl_array_release(a);
            kl_array_release(t);
            kl_array_release(dense);
        }
}

/* The largest element of a column rises from row to row, is far from 0, follows only -infinities,
 * or is far larger than the others. Columns have the bits of rows, near the formula, in every float
 * type and variant. The result of a single element is this element. */
static void logsumexp_of_rising_columns(void **state) {
    static const int lengths[] = {1,  7,  8,   9,   31,   32,   33,   47,
                                  48, 49, 100, 512, 1023, 1024, 1025, 3100};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    for (size_t l = 0; l < 3 * sizeof lengths / sizeof *lengths; l++)
        for (int far = 0; far < 2; far++) {
            if (!kl_test_takes("cpu", 4)) continue;
            const int n = lengths[l / 3], width = n == 33 ? 4100 : 70;
            const enum kl_dtype dtype = dtypes[l % 3];
            float *v = malloc((size_t)(n * width) * sizeof *v);
            for (int i = 0; i < n * width; i++) {
                const int r = i / width, c = i % width;
                const float wave = (float)(i * 37 % 101) / 32;
                v[i] = c % 7 == 0   ? (float)r / 4
                       : c % 7 == 1 ? -(float)r * 2
                       : c % 7 == 2 ? wave + (float)(c % 70 - 35) * 300
                       : c % 7 == 3 ? (r < n - 1 ? -INFINITY : wave)
                       : c % 7 == 4 ? (r == n / 2 ? 30000 : wave - 30000)
                       : c % 7 == 5 ? wave
                                    : wave / 1024;
                if (far && c % 7 == 2) v[i] *= 0x1p10f; /* becomes an infinity in float16 */
            }
            struct kl_array *f = array_of(KL_F32, SHAPE(n, width), v), *a, *t, *dense, *wide, *s[2];
            EXPECT_OK(kl_astype(&a, f, (int)dtype, cpu(), &err));
            EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
            EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
            EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
            const double *x = values_of(wide);
            void *first = NULL;
            for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
                kl_cpu_use_variant(variant);
                EXPECT_OK(kl_logsumexp_axis(&s[0], a, 0, false, cpu(), &err));
                EXPECT_OK(kl_logsumexp_axis(&s[1], dense, 1, false, cpu(), &err));
                for (int k = 0; k < 2; k++) {
                    struct kl_array *d;
                    void *got = values_of(s[k]);
                    if (!first)
                        first = got;
                    else {
                        assert_memory_equal(first, got, (size_t)width * kl_dtype_size(dtype));
                        free(got);
                    }
                    EXPECT_OK(kl_astype(&d, s[k], KL_F64, cpu(), &err));
                    double *y = values_of(d);
                    for (int c = 0; c < width; c++) {
                        double top = -INFINITY, sum = 0;
                        for (int r = 0; r < n; r++) top = fmax(top, x[r * width + c]);
                        for (int r = 0; r < n; r++) sum += exp(x[r * width + c] - top);
                        double want = isinf(top) ? top : top + log(sum);
                        double unit = dtype == KL_F32    ? 0x1p-23
                                      : dtype == KL_BF16 ? 0x1p-8
                                                         : 0x1p-10;
                        if (!(y[c] == want || fabs(y[c] - want) <= unit * fabs(want) + 6e-7))
                            fail_msg("%s, length %d, column %d: %.9g, not %.9g",
                                     kl_dtype_name(dtype), n, c, y[c], want);
                        if (n == 1) assert_true(y[c] == x[c]);
                    }
                    free(y);
                    kl_array_release(d);
                    kl_array_release(s[k]);
                }
            }
            free(first);
            free(v);
            free((void *)x);
            struct kl_array *made[] = {f, a, t, dense, wide};
            for (int i = 0; i < 5; i++) kl_array_release(made[i]);
        }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

/* Rows, columns (few and many, and along a middle axis) and strided operands give the same bits,
 * for lengths near the sizes of runs and segments. */
static void one_reduction_tree(void **state) {
    static const int lengths[] = {1,   2,   15,  16,  17,  47,  48,  49,  63,   64,    65,
                                  100, 127, 128, 129, 255, 256, 257, 300, 1024, 65536, 70001};
    static plain_fn *const fns[] = {kl_sum_axis, kl_prod_axis, kl_logsumexp_axis, var_axis,
                                    kl_max_axis, kl_all_axis,  kl_mean_axis};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F64, KL_I16, KL_C64};
    static const int widths[] = {3, 17, 70, 600};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int w = 0; w < (lengths[l] > 2000 ? 2 : 4); w++) {
            if (!kl_test_takes("cpu", 8)) continue;
            int n = lengths[l], width = widths[w];
            size_t count = (size_t)n * (size_t)width;
            float *v = malloc(count * sizeof *v);
            uint32_t seed = 5;
            for (size_t k = 0; k < count; k++) {
                seed = seed * 1664525 + 1013904223;
                v[k] = 1 + (float)(int32_t)seed * 0x1p-36f;
            }
            struct kl_array *plain = array_of(KL_F32, SHAPE(n, width), v);
            free(v);
            for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
                struct kl_array *a, *t, *dense, *twice, *middle, *s[4];
                EXPECT_OK(kl_astype(&a, plain, (int)dtypes[d], cpu(), &err));
                EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
                EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
                EXPECT_OK(kl_broadcast_to(&twice, a, LIST(2, n, width), cpu(), &err));
                EXPECT_OK(kl_copy(&middle, twice, cpu(), &err));
                for (size_t f = 0; f < sizeof fns / sizeof *fns; f++) {
                    EXPECT_OK(fns[f](&s[0], a, 0, false, cpu(), &err));
                    EXPECT_OK(fns[f](&s[1], dense, 1, false, cpu(), &err));
                    EXPECT_OK(fns[f](&s[2], t, 1, false, cpu(), &err));
                    EXPECT_OK(fns[f](&s[3], middle, 1, false, cpu(), &err));
                    void *x[4];
                    for (int k = 0; k < 4; k++) x[k] = values_of(s[k]);
                    size_t bytes = (size_t)width * kl_dtype_size((enum kl_dtype)s[0]->t.dtype);
                    for (int k = 1; k < 4; k++)
                        if (memcmp(x[0], x[k], bytes))
                            fail_msg("function %zu, %d x %d of %s: way %d differs", f, n, width,
                                     kl_dtype_name(dtypes[d]), k);
                    if (memcmp(x[0], (char *)x[3] + bytes, bytes)) fail_msg("second half");
                    for (int k = 0; k < 4; k++) {
                        free(x[k]);
                        kl_array_release(s[k]);
                    }
                }
                kl_array_release(a);
                kl_array_release(t);
                kl_array_release(dense);
                kl_array_release(twice);
                kl_array_release(middle);
            }
            kl_array_release(plain);
        }
}

/* A long row and long columns of 16-bit floats, which threads share. */
static void long_ones(void **state) {
    struct kl_array *a, *b, *out;
    EXPECT_OK(kl_ones(&a, LIST(1 << 19, 4), KL_BF16, cpu(), &err));
    EXPECT_OK(kl_logsumexp(&out, a, false, cpu(), &err)); /* the result is 1 + log(2^21) */
    uint16_t *v = values_of(out);
    assert_int_equal(v[0], kl_f32_to_bf16(15.556091f));
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&b, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_logsumexp_axis(&out, b, 0, false, cpu(), &err)); /* the result is 1 + log(2^19) */
    float *w = values_of(out);
    for (int i = 0; i < 4; i++) assert_true(fabsf(w[i] - 14.169796f) < 2e-6f);
    free(w);
    kl_array_release(out);
    EXPECT_OK(kl_var(&out, b, false, 1, cpu(), &err));
    EXPECT_F32(out, SCALAR, 0);
    EXPECT_OK(kl_prod(&out, b, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    kl_array_release(a);
    kl_array_release(b);
}

/* ---- gradients ---- */
struct how {
    kl_reduce_axes_fn *fn;
    kl_variance_axes_fn *variance;
    int axes[2], n;
};
static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    const struct how *h = how;
    if (h->variance) return h->variance(out, in[0], h->axes, (size_t)h->n, true, 1, cpu(), err);
    return h->fn(out, in[0], h->axes, (size_t)h->n, true, cpu(), err);
}
static int build_softmax(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err) {
    return kl_softmax_axis(out, in[0], how ? 0 : -1, true, cpu(), err);
}

static void gradients(void **state) {
    double v[12] = {0.5, -1.25, 2, 0.75, 1.5, -0.5, 3, 0.25, -2, 1, 0.3, -0.7};
    float z[8] = {1, 2, -1, 0.5f, 3, -2, 0.25f, 1};
    struct kl_array *a = array_of(KL_F64, SHAPE(3, 4), v), *zero,
                    *c = array_of(KL_C64, SHAPE(2, 2), z);
    static const struct how hows[] = {
        {kl_sum_axes, NULL, {1}, 1},       {kl_sum_axes, NULL, {0, 1}, 2},
        {kl_prod_axes, NULL, {0}, 1},      {kl_prod_axes, NULL, {1, 0}, 2},
        {kl_max_axes, NULL, {1}, 1},       {kl_min_axes, NULL, {0, 1}, 2},
        {kl_logsumexp_axes, NULL, {0}, 1}, {kl_logsumexp_axes, NULL, {0, 1}, 2},
        {NULL, kl_var_axes, {1}, 1},       {NULL, kl_var_axes, {0, 1}, 2},
    };
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++)
        check_vjp("reduction", build, &hows[i], &a, 1, 0);
    v[3] = v[6] = v[7] = 0;
    zero = array_of(KL_F64, SHAPE(3, 4), v);
    for (int i = 2; i < 4; i++) check_vjp("prod with zeros", build, &hows[i], &zero, 1, 0);
    check_vjp("sum of complex", build, &hows[0], &c, 1, 0);
    check_vjp("var of complex", build, &hows[8], &c, 1, 0);
    check_vjp("softmax", build_softmax, NULL, &a, 1, 0);
    check_vjp("softmax by columns", build_softmax, "", &a, 1, 0);
    kl_array_release(a);
    kl_array_release(zero);
    kl_array_release(c);
}

/* Equal extremes share the gradient. Also 16-bit floats, and integers, which have no gradient. */
static void shares(void **state) {
    struct kl_array *a = F32(SHAPE(4), 1, 3, 3, 2), *h, *ct = F32(SHAPE(1), 6), *hct, *out,
                    *grad = NULL, *f, *i = count_up(SHAPE(4));
    bool wanted = true;
    EXPECT_OK(kl_max_axes(&out, a, LIST(0), true, cpu(), &err));
    const void *p = out->node->task.params;
    struct kl_vjp v = {KL_OP_MAX, p, 1, 1, &a, &out, &ct, &wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_MAX)(&v, &grad, &err));
    EXPECT_F32(grad, SHAPE(4), 0, 3, 3, 0);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&h, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_astype(&hct, ct, KL_F16, cpu(), &err));
    EXPECT_OK(kl_max_axes(&out, h, LIST(0), true, cpu(), &err));
    struct kl_vjp w = {KL_OP_MAX, out->node->task.params, 1, 1, &h, &out, &hct, &wanted, cpu()};
    grad = NULL;
    EXPECT_OK(kl_vjp_rule(KL_OP_MAX)(&w, &grad, &err));
    assert_int_equal(grad->t.dtype, KL_F16);
    EXPECT_OK(kl_astype(&f, grad, KL_F32, cpu(), &err));
    EXPECT_F32(f, SHAPE(4), 0, 3, 3, 0);
    kl_array_release(grad);
    kl_array_release(out);
    EXPECT_OK(kl_max_axes(&out, i, LIST(0), true, cpu(), &err));
    struct kl_vjp u = {KL_OP_MAX, out->node->task.params, 1, 1, &i, &out, &out, &wanted, cpu()};
    grad = NULL;
    EXPECT_OK(kl_vjp_rule(KL_OP_MAX)(&u, &grad, &err));
    assert_null(grad);
    kl_array_release(out);
    struct kl_array *made[] = {a, h, ct, hct, i};
    for (int k = 0; k < 5; k++) kl_array_release(made[k]);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *out;
    kl_reduce_fn *const all[] = {kl_prod, kl_all, kl_any, kl_logsumexp};
    kl_reduce_axis_fn *const axis[] = {kl_prod_axis, kl_all_axis, kl_any_axis, kl_logsumexp_axis};
    kl_reduce_axes_fn *const axes[] = {kl_prod_axes, kl_all_axes, kl_any_axes, kl_logsumexp_axes,
                                       kl_median_axes};
    kl_variance_axes_fn *const variances[] = {kl_var_axes, kl_std_axes};
    for (int i = 0; i < 5; i++) {
        EXPECT_FAIL(KL_EAXIS, axes[i](&out, a, LIST(0, -2), false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axes[i](&out, a, NULL, 1, false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axes[i](&out, NULL, LIST(0), false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, axes[i](&out, a, LIST(0), false, NULL, &err));
        if (i == 4) break;
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, false, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, false, NULL, &err));
        EXPECT_FAIL(KL_EAXIS, axis[i](&out, a, 2, false, cpu(), &err));
    }
    for (int i = 0; i < 2; i++) {
        EXPECT_FAIL(KL_EAXIS, variances[i](&out, a, LIST(0, 2), false, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, variances[i](&out, NULL, LIST(0), false, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, variances[i](&out, a, LIST(0), false, 0, NULL, &err));
    }
    EXPECT_FAIL(KL_EARG, kl_var(&out, NULL, false, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_std(&out, a, false, 0, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_std_axis(&out, a, -3, false, 0, cpu(), &err));
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(nothing_and_no_axes),
                                       cmocka_unit_test(hard_cases),
                                       cmocka_unit_test(logsumexp_of_specials),
                                       cmocka_unit_test(logsumexp_of_rising_columns),
                                       cmocka_unit_test(one_reduction_tree),
                                       cmocka_unit_test(long_ones),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(shares),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
