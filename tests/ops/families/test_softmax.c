/* test_softmax.c - softmax and log_softmax: values, axes, dtypes, gradients, bad arguments. */
#include "ops/golden/golden.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/support/vjp_support.h"
#include "transforms/transforms.h"

#include "ops/golden/golden_softmax.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(softmax_cases);
}

static void special_rows(void **state) {
    struct kl_array *a = F32(SHAPE(4, 2), 1000, 1000, -INFINITY, 3, -INFINITY, -INFINITY, NAN, 1),
                    *out;
    EXPECT_OK(kl_softmax_axis(&out, a, 1, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(4, 2), 0.5f, 0.5f, 0, 1, NAN, NAN, NAN, NAN);
    /* Over no axes each element is a row of its own. */
    EXPECT_OK(kl_softmax_axes(&out, a, NULL, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(4, 2), 1, 1, NAN, 1, NAN, NAN, NAN, 1);
    kl_array_release(a);
    struct kl_array *s = scalar_of(KL_I32, 5), *e = array_of(KL_F32, SHAPE(0, 3), NULL);
    EXPECT_OK(kl_softmax(&out, s, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    EXPECT_OK(kl_softmax_axis(&out, e, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_softmax_axis(&out, e, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    kl_array_release(s);
    kl_array_release(e);
}

/* A row that spans many tiles, in float32 and float16. */
static void long_rows(void **state) {
    enum { N = 5000 };
    struct kl_array *a, *b, *out, *sum;
    EXPECT_OK(kl_arange(&a, 0, 50, 0.01, KL_F32, cpu(), &err));
    EXPECT_OK(kl_softmax(&out, a, true, cpu(), &err));
    EXPECT_OK(kl_sum(&sum, out, false, cpu(), &err));
    float *v = values_of(out), *total = values_of(sum);
    assert_true(fabsf(total[0] - 1) < 1e-6f);
    for (int i = 1; i < N; i += 99) assert_true(fabs(v[i] / v[i - 1] - exp(0.01)) < 1e-5);
    free(v);
    free(total);
    kl_array_release(sum);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&b, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_softmax(&out, b, true, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F16);
    uint16_t *h = values_of(out);
    assert_true(fabsf(kl_f16_to_f32(h[N - 1]) - 0.00995f) < 2e-4f);
    free(h);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
}

/* Rows of every length near those of vectors, tiles and the kernel's buffer, against the formula. A
 * NaN or +infinity makes its own row NaN, and no other. */
static void rows(void **state) {
    static const int lengths[] = {1,  2,   15,  16,  17,  31,   32,   33,   63,   64,
                                  65, 511, 512, 513, 529, 4097, 8191, 8192, 8193, 9001};
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    enum { ROWS = 4 };
    for (size_t k = 0; k < 4 * (sizeof lengths / sizeof *lengths); k++) {
        if (!kl_test_takes("cpu", 1)) continue;
        const int n = lengths[k / 4], d = (int)(k % 4);
        float *v = malloc((size_t)(ROWS * n) * sizeof *v);
        uint32_t seed = 3;
        for (int i = 0; i < ROWS * n; i++) {
            seed = seed * 1664525 + 1013904223;
            /* 16-bit floats hold these numbers exactly, up to 8. */
            v[i] = (float)((int32_t)seed >> 20) * 0x1p-7f;
            if (d < 2) v[i] = (float)((int32_t)seed >> 26) * 0x1p-2f;
        }
        v[n + n / 2] = NAN;
        v[2 * n + n - 1] = INFINITY;
        v[3 * n] = -INFINITY;
        struct kl_array *f = array_of(KL_F32, SHAPE(ROWS, n), v), *a, *out, *w;
        EXPECT_OK(kl_astype(&a, f, (int)dtypes[d], cpu(), &err));
        EXPECT_OK(kl_softmax_axis(&out, a, 1, true, cpu(), &err));
        EXPECT_OK(kl_astype(&w, out, KL_F64, cpu(), &err));
        double *got = values_of(w);
        const double allowed = d == 0 ? 0x1p-10 : d == 1 ? 0x1p-7 : d == 2 ? 1e-6 : 1e-14;
        for (int r = 0; r < ROWS; r++) {
            double total = 0;
            for (int i = 0; i < n; i++) total += exp((double)v[r * n + i]);
            for (int i = 0; i < n; i++) {
                double want = exp((double)v[r * n + i]) / total, x = got[r * n + i];
                bool lost = r == 1 || r == 2 || (r == 3 && n == 1);
                if (lost ? !isnan(x) : !(fabs(x - want) <= allowed * want + 6e-8))
                    fail_msg("%s, length %d, row %d: element %d is %g, not %g",
                             kl_dtype_name(dtypes[d]), n, r, i, x, lost ? (double)NAN : want);
            }
        }
        free(got);
        free(v);
        struct kl_array *made[] = {f, a, out, w};
        for (int i = 0; i < 4; i++) kl_array_release(made[i]);
    }
}

/* Softmax over the first, the middle and two middle axes, which are wide, narrow or long, agrees
 * with softmax over the last axis, within rounding error. Strided operands give the same bits. */
static void columns(void **state) {
    static const int shapes[][3] = {
        {5, 700, 1}, {300, 3, 2}, {1, 40, 600}, {4, 9000, 17}, {2, 100, 1100}};
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (int d = 0; d < 4; d++)
            for (int axis = 0; axis < 2; axis++) {
                if (!kl_test_takes("cpu", 1)) continue;
                const int *dims = shapes[k];
                int n = dims[0] * dims[1] * dims[2];
                float *v = malloc((size_t)n * sizeof *v);
                uint32_t seed = 8;
                for (int i = 0; i < n; i++) {
                    seed = seed * 1664525 + 1013904223;
                    v[i] = (float)(int32_t)seed * 0x1p-29f;
                }
                struct kl_array *f = array_of(KL_F32, 3, dims, v), *a, *t, *moved, *want, *out,
                                *other, *w, *o;
                free(v);
                EXPECT_OK(kl_astype(&a, f, (int)dtypes[d], cpu(), &err));
                EXPECT_OK(kl_softmax_axis(&out, a, axis, true, cpu(), &err));
                EXPECT_OK(kl_moveaxis(&t, a, axis, -1, cpu(), &err));
                EXPECT_OK(kl_softmax_axis(&moved, t, -1, true, cpu(), &err));
                EXPECT_OK(kl_moveaxis(&want, moved, -1, axis, cpu(), &err));
                kl_array_release(t);
                t = strided(kl_array_retain(a));
                EXPECT_OK(kl_softmax_axis(&other, t, axis, true, cpu(), &err));
                size_t bytes = (size_t)n * kl_dtype_size(dtypes[d]);
                void *x = values_of(out), *y = values_of(other);
                assert_memory_equal(x, y, bytes);
                free(x);
                free(y);
                EXPECT_OK(kl_astype(&w, want, KL_F64, cpu(), &err));
                EXPECT_OK(kl_astype(&o, out, KL_F64, cpu(), &err));
                double *p = values_of(w), *q = values_of(o);
                double allowed = d == 0 ? 0x1p-10 : d == 1 ? 0x1p-7 : d == 2 ? 1e-6 : 1e-14;
                for (int i = 0; i < n; i++)
                    if (!(fabs(p[i] - q[i]) <= allowed * p[i] + 6e-8))
                        fail_msg("case %zu of %s, axis %d: %g, not %g", k, kl_dtype_name(dtypes[d]),
                                 axis, q[i], p[i]);
                free(p);
                free(q);
                struct kl_array *made[] = {f, a, t, moved, want, out, other, w, o};
                for (int i = 0; i < 9; i++) kl_array_release(made[i]);
            }
}

/* Each of n equal values has the weight 1 / n, rounded once: in rows and columns, short and long,
 * alone and among many, in every variant. */
static void equal_values(void **state) {
    enum { MOST = 9000, SIZES = 77 };
    static const float values[] = {0, -1000, 1000, 3.7f, -0.3f, 88, -104, 1e6f, 1e9f, 12345.678f};
    static const int longer[] = {127, 128, 129, 777, 1000, 8192, MOST};
    static float v[3 * MOST];
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int k = 0; k < 4 * SIZES; k++)
            for (size_t at = 0; at < sizeof values / sizeof *values; at++) {
                if (!kl_test_takes("cpu", 1)) continue;
                const int n = k / 4 < 70 ? k / 4 + 1 : longer[k / 4 - 70], rows = k % 4 < 2 ? 1 : 3;
                const int axis = k % 2;
                for (int i = 0; i < rows * n; i++) v[i] = values[at];
                const int dims[] = {axis ? rows : n, axis ? n : rows};
                struct kl_array *a = array_of(KL_F32, 2, dims, v), *out;
                EXPECT_OK(kl_softmax_axis(&out, a, axis, true, cpu(), &err));
                float *got = values_of(out);
                for (int i = 0; i < rows * n; i++)
                    if (got[i] != (float)(1.0 / n))
                        fail_msg("variant %d: %d times %g, axis %d: %.9g, not %.9g", variant, n,
                                 (double)values[at], axis, (double)got[i],
                                 (double)(float)(1.0 / n));
                free(got);
                kl_array_release(a);
                kl_array_release(out);
            }
    }
}

/* Rows, and columns, whose values differ by much from their neighbours' and from 0, so each needs a
 * scale of its own. The results are near the formula, with the same bits in every variant. */
static void values_of_different_scale(void **state) {
    enum { MOST = 600, ROWS = 40 };
    static const int lengths[] = {1, 3, 15, 16, 17, 37, MOST};
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32};
    static float v[ROWS * MOST];
    for (size_t k = 0; k < 3 * (sizeof lengths / sizeof *lengths); k++)
        for (int axis = 0; axis < 2; axis++) {
            if (!kl_test_takes("cpu", 1)) continue;
            const int n = lengths[k / 3], d = (int)(k % 3);
            for (int r = 0; r < ROWS; r++)
                for (int i = 0; i < n; i++) {
                    float x = (float)((r - 20) * 61) + (float)((i * 7 + r) % 11) / 4;
                    if (r % 10 == 3 && d == 2) x += 0x1p21f;
                    if (r % 10 == 7) x = -x * (float)(i % 5);
                    if (r == 11) x = i == n - 1 ? 900 : -INFINITY;
                    if (r == 12) x = -INFINITY;
                    v[axis == 1 ? r * n + i : i * ROWS + r] = x;
                }
            struct kl_array *f = array_of(KL_F32, SHAPE(axis ? ROWS : n, axis ? n : ROWS), v), *a,
                            *wide, *out, *w;
            EXPECT_OK(kl_astype(&a, f, (int)dtypes[d], cpu(), &err));
            EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
            const double *x = values_of(wide), allowed = d == 0 ? 0x1p-10 : d == 1 ? 0x1p-7 : 1e-6;
            void *first = NULL;
            for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
                kl_cpu_use_variant(variant);
                EXPECT_OK(kl_softmax_axis(&out, a, axis, true, cpu(), &err));
                EXPECT_OK(kl_astype(&w, out, KL_F64, cpu(), &err));
                double *got = values_of(w);
                void *bits = values_of(out);
                for (int r = 0; r < ROWS; r++) {
                    const int step = axis ? 1 : ROWS, from = axis ? r * n : r;
                    double total = 0, top = -INFINITY;
                    for (int i = 0; i < n; i++) top = fmax(top, x[from + i * step]);
                    for (int i = 0; i < n; i++) total += exp(x[from + i * step] - top);
                    for (int i = 0; i < n; i++) {
                        double want = exp(x[from + i * step] - top) / total,
                               y = got[from + i * step];
                        if (r == 12 ? !isnan(y) : !(fabs(y - want) <= allowed * want + 6e-8))
                            fail_msg("%s, axis %d of %d, variant %d, %d: element %d is %g, not %g",
                                     kl_dtype_name(dtypes[d]), axis, n, variant, r, i, y, want);
                        if (isnan(y))
                            memset((char *)bits +
                                       (size_t)(from + i * step) * kl_dtype_size(dtypes[d]),
                                   0, kl_dtype_size(dtypes[d]));
                    }
                }
                if (!first)
                    first = bits;
                else {
                    assert_memory_equal(first, bits, (size_t)(ROWS * n) * kl_dtype_size(dtypes[d]));
                    free(bits);
                }
                free(got);
                kl_array_release(out);
                kl_array_release(w);
            }
            free(first);
            free((void *)x);
            struct kl_array *made[] = {f, a, wide};
            for (int i = 0; i < 3; i++) kl_array_release(made[i]);
        }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

/* Results so large that non-temporal stores write them have the bits of the parts computed
 * alone. */
static void larger_than_cache(void **state) {
    enum { ROWS = 8200, WIDTH = 1024, PART = 37 };
    static const enum kl_dtype dtypes[] = {KL_BF16, KL_F32};
    float *v = malloc((size_t)ROWS * WIDTH * sizeof *v);
    for (int i = 0; i < ROWS * WIDTH; i++) v[i] = (float)(i * 37 % 1009) / 128;
    for (int d = 0; d < 2; d++) {
        struct kl_array *f = array_of(KL_F32, SHAPE(ROWS, WIDTH), v),
                        *few = array_of(KL_F32, SHAPE(PART, WIDTH), v), *a, *b, *all, *part, *t,
                        *rows, *moved;
        EXPECT_OK(kl_astype(&a, f, (int)dtypes[d], cpu(), &err));
        EXPECT_OK(kl_astype(&b, few, (int)dtypes[d], cpu(), &err));
        EXPECT_OK(kl_softmax_axis(&all, a, 1, true, cpu(), &err));
        EXPECT_OK(kl_softmax_axis(&part, b, 1, true, cpu(), &err));
        char *x = values_of(all), *y = values_of(part);
        assert_memory_equal(x, y, PART * WIDTH * kl_dtype_size(dtypes[d]));
        free(x);
        free(y);
        kl_array_release(all);
        kl_array_release(part);
        /* Columns agree with rows of the same numbers, within rounding error. */
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_softmax_axis(&all, a, 0, true, cpu(), &err));
        EXPECT_OK(kl_softmax_axis(&rows, t, 1, true, cpu(), &err));
        EXPECT_OK(kl_transpose(&moved, rows, cpu(), &err));
        EXPECT_OK(kl_astype(&part, moved, KL_F32, cpu(), &err));
        struct kl_array *wide;
        EXPECT_OK(kl_astype(&wide, all, KL_F32, cpu(), &err));
        float *p = values_of(wide), *q = values_of(part);
        for (int i = 0; i < ROWS * WIDTH; i++)
            if (!(fabsf(p[i] - q[i]) <= (d ? 1e-6f : 0x1p-7f) * q[i] + 6e-8f))
                fail_msg("%s, element %d: %g, not %g", kl_dtype_name(dtypes[d]), i, (double)p[i],
                         (double)q[i]);
        free(p);
        free(q);
        struct kl_array *made[] = {f, few, a, b, all, part, t, rows, moved, wide};
        for (int i = 0; i < 10; i++) kl_array_release(made[i]);
    }
    free(v);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *out;
    EXPECT_FAIL(KL_EARG, kl_softmax(&out, NULL, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax(&out, a, true, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_softmax_axis(&out, a, 2, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axis(&out, NULL, 0, true, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_softmax_axes(&out, a, LIST(0, 0), true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axes(&out, a, NULL, 1, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axes(&out, NULL, NULL, 0, true, cpu(), &err));
    kl_array_release(a);
}

/* ---- log_softmax ---- */
static int log_softmax(struct kl_array **out, struct kl_array *const *in, const void *axis,
                       struct kl_error **e) {
    return kl_op_make(out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, *(const int *)axis), in, 1, cpu(),
                      e);
}

/* x has outer * length * inner elements and `got` their results along the middle axis. */
static void check_logarithms(const char *what, const double *x, const double *got, int outer,
                             int length, int inner, double eps, double least) {
    for (int r = 0; r < outer * inner; r++) {
        const int64_t first = (int64_t)(r / inner) * length * inner + r % inner;
        long double total = 0;
        double top = -INFINITY;
        for (int64_t i = 0; i < length; i++) top = fmax(top, x[first + i * inner]);
        for (int64_t i = 0; i < length; i++) total += (long double)exp(x[first + i * inner] - top);
        for (int64_t i = 0; i < length; i++) {
            const int64_t at = first + i * inner;
            const double want = x[at] - top - log((double)total);
            if (!(fabs(got[at] - want) <= eps * (fabs(want) + least)))
                fail_msg("%s, %d x %d x %d, %d: element %d is %.17g, not %.17g", what, outer,
                         length, inner, r, (int)i, got[at], want);
        }
    }
}

static const struct {
    enum kl_dtype dtype;
    double eps, least; /* a result y may differ by eps * (|y| + least) */
} bounds[] = {{KL_F16, 0x1p-11, 0x1p-6},
              {KL_BF16, 0x1p-8, 0x1p-9},
              {KL_F32, 0x1p-23, 8},
              {KL_F64, 0x1p-51, 8}};

/* Every variant gives the same bits, also of strided operands. */
static void check_variants(const float *v, int outer, int length, int inner, size_t k) {
    struct kl_array *f = array_of(KL_F32, SHAPE(outer, length, inner), v), *a, *wide;
    EXPECT_OK(kl_astype(&a, f, (int)bounds[k].dtype, cpu(), &err));
    EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
    double *x = values_of(wide);
    const size_t bytes = (size_t)a->t.size * kl_dtype_size(bounds[k].dtype);
    const int axis = -2;
    void *first = NULL;
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        struct kl_array *t = strided(kl_array_retain(a)), *out, *other, *w;
        kl_cpu_use_variant(variant);
        EXPECT_OK(log_softmax(&out, &a, &axis, &err));
        EXPECT_OK(log_softmax(&other, &t, &axis, &err));
        assert_int_equal(out->t.dtype, bounds[k].dtype);
        EXPECT_OK(kl_astype(&w, out, KL_F64, cpu(), &err));
        void *bits = values_of(out), *same = values_of(other);
        assert_memory_equal(bits, same, bytes);
        if (first) assert_memory_equal(first, bits, bytes);
        double *got = values_of(w);
        if (!first)
            check_logarithms(kl_dtype_name(bounds[k].dtype), x, got, outer, length, inner,
                             bounds[k].eps, bounds[k].least);
        free(first);
        first = bits;
        free(same);
        free(got);
        struct kl_array *made[] = {t, out, other, w};
        for (int i = 0; i < 4; i++) kl_array_release(made[i]);
    }
    free(first);
    free(x);
    struct kl_array *made[] = {f, a, wide};
    for (int i = 0; i < 3; i++) kl_array_release(made[i]);
}

/* Rows near the lengths of lanes, tiles and segments, and few or many columns, with elements far
 * below the others, and rows far from 0. */
static void logarithms(void **state) {
    static const int shapes[][3] = {{5, 1, 1},     {5, 2, 1},     {70, 15, 1},    {70, 16, 1},
                                    {5, 17, 1},    {40, 48, 1},   {40, 49, 1},    {5, 511, 1},
                                    {300, 513, 1}, {5, 3000, 1},  {1, 1, 5},      {2, 2, 5},
                                    {1, 513, 5},   {3, 17, 16},   {2, 48, 33},    {2, 49, 1100},
                                    {1, 3000, 16}, {1, 70000, 1}, {17, 66000, 1}, {1, 66000, 17}};
    for (size_t i = 0; i < 4 * (sizeof shapes / sizeof *shapes); i++) {
        const int *d = shapes[i / 4], size = d[0] * d[1] * d[2];
        if (!kl_test_takes("cpu", 1)) continue;
        float *v = malloc((size_t)size * sizeof *v);
        for (int e = 0; e < size; e++) {
            const int r = e / (d[1] * d[2]) * d[2] + e % d[2], at = e / d[2] % d[1];
            v[e] = (float)((at * 37 + r * 11) % 101) / 8 - (at % 7 == 3 ? 900 : 0) +
                   256 * (float)(r % 50) + (r % 41 == 40 && i % 4 > 1 ? 0x1p21f : 0);
        }
        check_variants(v, d[0], d[1], d[2], i % 4);
        free(v);
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

/* Results that are written past the caches. */
static void large_logarithms(void **state) {
    enum { ROWS = 2080, COLUMNS = 1024 };
    double *x = malloc(sizeof *x * ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (double)(i * 37 % 1009) / 64;
    struct kl_array *a = array_of(KL_F64, SHAPE(ROWS, COLUMNS), x), *out;
    for (int axis = 0; axis < 2; axis++) {
        EXPECT_OK(log_softmax(&out, &a, &axis, &err));
        double *got = values_of(out);
        check_logarithms("large", x, got, axis ? ROWS : 1, axis ? COLUMNS : ROWS,
                         axis ? 1 : COLUMNS, 0x1p-51, 8);
        free(got);
        kl_array_release(out);
    }
    free(x);
    kl_array_release(a);
}

static void special_logarithms(void **state) {
    const int last = 1, first = 0;
    struct kl_array *a = F32(SHAPE(6, 2), 1000, 1000, -INFINITY, 3, -INFINITY, -INFINITY, INFINITY,
                             5, NAN, 1, NAN, INFINITY),
                    *out, *none = array_of(KL_F32, SHAPE(0, 3), NULL),
                    *whole = array_of(KL_I32, SHAPE(1, 1), (int[]){5});
    const float half = -0.693147181f;
    EXPECT_OK(log_softmax(&out, &a, &last, &err));
    EXPECT_F32(out, SHAPE(6, 2), half, half, -INFINITY, 0, NAN, NAN, NAN, -INFINITY, NAN, NAN, NAN,
               NAN);
    EXPECT_OK(log_softmax(&out, &none, &first, &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    EXPECT_OK(log_softmax(&out, &whole, &first, &err));
    EXPECT_F32(out, SHAPE(1, 1), 0);
    struct kl_array *all[] = {a, none, whole};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* The same in rows and columns that the kernels for long ones take: lines with infinity, with NaN
 * and infinity, with nothing but -infinity, and with some -infinity. */
static void special_long_logarithms(void **state) {
    enum { LINES = 20, N = 100 };
    float v[LINES * N];
    for (int axis = 0; axis < 2; axis++) {
        const int step = axis ? 1 : LINES;
        for (int r = 0; r < LINES; r++)
            for (int i = 0; i < N; i++) {
                float *x = &v[(axis ? r * N : r) + i * step];
                *x = r % 4 == 2 || (r % 4 == 3 && i > 1) ? -INFINITY : (float)(i % 2);
                if (r % 4 < 2 && i == 3) *x = INFINITY;
                if (r % 4 == 1 && i == 50) *x = NAN;
            }
        struct kl_array *a = array_of(KL_F32, SHAPE(axis ? LINES : N, axis ? N : LINES), v), *out;
        EXPECT_OK(log_softmax(&out, &a, &axis, &err));
        float *y = values_of(out);
        for (int r = 0; r < LINES; r++)
            for (int i = 0; i < N; i++) {
                const float got = y[(axis ? r * N : r) + i * step],
                            want = r % 4 == 0  ? i == 3 ? NAN : -INFINITY
                                   : r % 4 < 3 ? NAN
                                   : i > 1     ? -INFINITY
                                               : (float)i - 1.31326169f;
                if (!(isnan(want) ? isnan(got) : got == want || fabsf(got - want) < 1e-6f))
                    fail_msg("axis %d, line %d: element %d is %g, not %g", axis, r, i, (double)got,
                             (double)want);
            }
        free(y);
        kl_array_release(a);
        kl_array_release(out);
    }
}

/* As a - logsumexp(a), also where imaginary parts are large and real ones infinite. */
static void complex_logarithms(void **state) {
    enum { ROWS = 5, N = 3 };
    static const float v[ROWS * N][2] = {
        {1, 2}, {0, -9},       {-3, 30},       {-INFINITY, 1}, {2, 2},
        {1, 1}, {INFINITY, 1}, {0, 0},         {1, 1},         {NAN, 0},
        {1, 1}, {2, 2},        {-INFINITY, 0}, {-INFINITY, 1}, {-INFINITY, 2}};
    const int axis = -1;
    struct kl_array *a = array_of(KL_C64, SHAPE(ROWS, N), v), *out, *total, *want;
    EXPECT_OK(log_softmax(&out, &a, &axis, &err));
    EXPECT_OK(kl_logsumexp_axis(&total, a, axis, true, cpu(), &err));
    EXPECT_OK(kl_subtract(&want, a, total, cpu(), &err));
    float *x = values_of(out), *y = values_of(want);
    for (int i = 0; i < 2 * ROWS * N; i++)
        if (!(isnan(y[i]) ? isnan(x[i]) : x[i] == y[i] || fabsf(x[i] - y[i]) <= 1e-5f))
            fail_msg("part %d: %g, not %g", i, (double)x[i], (double)y[i]);
    free(x);
    free(y);
    struct kl_array *all[] = {a, out, total, want};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

static int logarithms_of(void *axis, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                         struct kl_error **e) {
    KL_TRY(kl_arrays_new(outs, 1, e));
    return log_softmax(&outs->v[0], in, axis, e);
}

/* The last axis, so that the operation takes its input directly; complex numbers too. */
static void slopes_of_logarithms(void **state) {
    static const double v[] = {0.5, -1, 2, 0.25, 3, 1};
    static const float z[] = {0.5f, 1, -1, 0.25f, 2, -0.5f, 0, 1};
    int axis = 1;
    struct kl_array *a = array_of(KL_F64, SHAPE(2, 3), v), *c = array_of(KL_C64, SHAPE(2, 2), z);
    check_vjp("log_softmax", log_softmax, &axis, &a, 1, 0);
    check_vjp("log_softmax of complex64", log_softmax, &axis, &c, 1, 0);
    const double along[] = {1, 0, -2, 0.5, 1, 1};
    struct kl_array *t = array_of(KL_F64, SHAPE(2, 3), along);
    for (axis = 0; axis < 2; axis++) {
        const struct kl_function f = {.call = logarithms_of, .ctx = &axis};
        struct kl_arrays outs = {0}, tangents = {0};
        EXPECT_OK(kl_jvp(&f, &a, 1, &t, 1, &outs, &tangents, &err));
        double *y = values_of(outs.v[0]), *got = values_of(tangents.v[0]);
        for (int i = 0; i < 6; i++) {
            double want = along[i];
            for (int k = 0; k < 6; k++)
                if (axis ? k / 3 == i / 3 : k % 3 == i % 3) want -= exp(y[k]) * along[k];
            if (!(fabs(got[i] - want) <= 1e-14)) fail_msg("%d: %.17g, not %.17g", i, got[i], want);
        }
        free(y);
        free(got);
        kl_arrays_free(&outs);
        kl_arrays_free(&tangents);
    }
    struct kl_array *all[] = {a, c, t};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

static void bad_logarithms(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *none = NULL, *out;
    int axis = 2, last = -1;
    EXPECT_FAIL(KL_EAXIS, log_softmax(&out, &a, &axis, &err));
    axis = -3;
    EXPECT_FAIL(KL_EAXIS, log_softmax(&out, &a, &axis, &err));
    EXPECT_FAIL(KL_EARG, log_softmax(&out, &none, &last, &err));
    EXPECT_FAIL(KL_EARG,
                kl_op_make(&out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, 1), &a, 1, NULL, &err));
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(special_rows),
                                       cmocka_unit_test(long_rows),
                                       cmocka_unit_test(rows),
                                       cmocka_unit_test(columns),
                                       cmocka_unit_test(equal_values),
                                       cmocka_unit_test(values_of_different_scale),
                                       cmocka_unit_test(larger_than_cache),
                                       cmocka_unit_test(bad),
                                       cmocka_unit_test(logarithms),
                                       cmocka_unit_test(large_logarithms),
                                       cmocka_unit_test(special_long_logarithms),
                                       cmocka_unit_test(special_logarithms),
                                       cmocka_unit_test(complex_logarithms),
                                       cmocka_unit_test(slopes_of_logarithms),
                                       cmocka_unit_test(bad_logarithms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
