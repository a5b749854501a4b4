/* test_quantized.c - packed numbers and scales against golden values; what they stand for;
 * products with quantized matrices against sums in double; indices; gradients; bad arguments. */
#include "ops/support/helpers.h"

#include "graph/node.h"
#include "ops/build/jvp.h"
#include "ops/quantized.h"
#include "ops/support/vjp_support.h"

#include "ops/golden/golden_quantized.inc"

enum { GROUPS = 8 };
static const struct kl_quant_format formats[] = {
    {KL_QUANT_AFFINE, 32, 2}, {KL_QUANT_AFFINE, 64, 3},  {KL_QUANT_AFFINE, 64, 4},
    {KL_QUANT_AFFINE, 32, 4}, {KL_QUANT_AFFINE, 128, 4}, {KL_QUANT_AFFINE, 32, 5},
    {KL_QUANT_AFFINE, 64, 6}, {KL_QUANT_AFFINE, 128, 8}, {KL_QUANT_AFFINE, 64, 8},
    {KL_QUANT_AFFINE, 32, 8}, {KL_QUANT_MXFP4, 32, 4},   {KL_QUANT_MXFP8, 32, 8},
    {KL_QUANT_NVFP4, 16, 4}};
enum { N_FORMATS = sizeof formats / sizeof *formats };
static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};

static double tolerance(enum kl_dtype dtype) {
    return dtype == KL_F16 ? 0x1p-10 : dtype == KL_BF16 ? 0x1p-7 : 4e-6;
}

static struct kl_array *as(enum kl_dtype dtype, struct kl_array *a /* taken */) {
    struct kl_array *out;
    EXPECT_OK(kl_astype(&out, a, (int)dtype, cpu(), &err));
    kl_array_release(a);
    return out;
}

/* The generator of tools/make/golden_quantized.py. */
static struct kl_array *golden_input(int g, uint32_t seed, enum kl_dtype dtype) {
    float *v = malloc((size_t)(GROUPS * g) * sizeof *v);
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < g; k++) {
            seed = seed * 1664525u + 1013904223u;
            v[i * g + k] = ldexpf((float)((int)((seed >> 16) % 255) - 127),
                                  -5 + (i == 7 ? (int)((seed >> 28) % 4) : 0));
        }
    for (int k = 0; k < g; k++) {
        v[g + k] = v[g];
        v[2 * g + k] = 0;
        v[3 * g + k] = fabsf(v[3 * g + k]);
        v[4 * g + k] = -fabsf(v[4 * g + k]);
    }
    v[5 * g + 3] = NAN;
    v[6 * g + 5] = INFINITY;
    struct kl_array *a = array_of(KL_F32, SHAPE(GROUPS, g), v);
    free(v);
    return as(dtype, a);
}

static uint32_t bits_at(const struct kl_array *a, const void *v, int64_t i) {
    switch (a->t.dtype) {
    case KL_U8: return ((const uint8_t *)v)[i];
    case KL_F16:
    case KL_BF16: return ((const uint16_t *)v)[i];
    default: return ((const uint32_t *)v)[i];
    }
}

/* Whether both are a NaN of the dtype, whichever one. */
static bool both_nan(enum kl_dtype dtype, uint32_t x, uint32_t y) {
    const uint32_t top = dtype == KL_F32 ? 0x7f800000u : dtype == KL_F16 ? 0x7c00u : 0x7f80u;
    const uint32_t sign = dtype == KL_F32 ? 0x80000000u : 0x8000u;
    return dtype != KL_U8 && dtype != KL_U32 && (x & ~sign) > top && (y & ~sign) > top;
}

static void same_bits(struct kl_array *a, const uint32_t *want, const char *what, size_t row) {
    void *v = values_of(a);
    for (int64_t i = 0; i < a->t.size; i++) {
        const uint32_t got = bits_at(a, v, i);
        if (got != want[i] && !both_nan((enum kl_dtype)a->t.dtype, got, want[i]))
            fail_msg("row %zu: %s %lld: %#x, not %#x", row, what, (long long)i, got, want[i]);
    }
    free(v);
}

static int quantize(struct kl_array **outs, struct kl_array *w, const struct kl_quant_format *f,
                    struct kl_array *scale) {
    int n = 0;
    outs[2] = NULL;
    EXPECT_OK(kl_quantize(outs, &n, w, f, scale, cpu(), &err));
    return n;
}

static void release(struct kl_array **a, int n) {
    for (int i = 0; i < n; i++) kl_array_release(a[i]);
}

static void golden(void **state) {
    for (size_t r = 0; r < sizeof golden_quantized / sizeof *golden_quantized; r++) {
        const struct golden_quantized *row = &golden_quantized[r];
        const struct kl_quant_format f = {row->mode, row->group_size, row->bits};
        for (int layout = 0; layout < 2; layout++) {
            struct kl_array *w = golden_input(f.group_size, row->seed, row->dtype), *q[3];
            if (layout) w = strided(w);
            const int n = quantize(q, w, &f, NULL);
            assert_int_equal(n, row->mode == KL_QUANT_AFFINE ? 3 : 2);
            assert_int_equal(q[0]->t.dtype, KL_U32);
            expect_shape(q[0], SHAPE(GROUPS, f.group_size * f.bits / 32));
            expect_shape(q[1], SHAPE(GROUPS, 1));
            same_bits(q[0], row->words, "word", r);
            same_bits(q[1], row->scales, "scale", r);
            if (n == 3) same_bits(q[2], row->biases, "bias", r);
            release(q, n);
            kl_array_release(w);
        }
    }
}

/* ---- what quantized numbers stand for ---- */

static struct kl_array *random_of(enum kl_dtype dtype, int ndim, const int *dims, uint32_t seed) {
    int64_t n;
    assert_true(kl_shape_size(ndim, dims, 8, &n));
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(int32_t)seed * 0x1p-30f + 0.125f;
    }
    struct kl_array *a = array_of(KL_F32, ndim, dims, v);
    free(v);
    return as(dtype, a);
}

static double *doubles_of(struct kl_array *a) {
    struct kl_array *d;
    EXPECT_OK(kl_astype(&d, a, KL_F64, cpu(), &err));
    double *v = values_of(d);
    kl_array_release(d);
    return v;
}

static double e2m1(int code) {
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code & 8 ? -values[code & 7] : values[code & 7];
}
static double e4m3(int code) {
    const int e = code >> 3 & 15, m = code & 7;
    const double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -v : v;
}

/* The numbers that row-major words, scales and biases stand for. */
static double *meaning(struct kl_array *const *q, const struct kl_quant_format *f, double global,
                       int64_t *size) {
    uint8_t *words = values_of(q[0]);
    void *codes = q[1]->t.dtype == KL_U8 ? values_of(q[1]) : NULL;
    double *s = codes ? NULL : doubles_of(q[1]), *b = codes ? NULL : doubles_of(q[2]);
    const int64_t n = q[0]->t.size * 32 / f->bits;
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        int code = 0;
        const int64_t group = i / f->group_size;
        for (int k = 0; k < f->bits; k++) {
            const int64_t bit = i * f->bits + k;
            code |= (words[bit / 8] >> bit % 8 & 1) << k;
        }
        if (!codes)
            v[i] = code * s[group] + b[group];
        else {
            const int scale = ((uint8_t *)codes)[group];
            v[i] = (f->bits == 4 ? e2m1(code) : e4m3(code)) *
                   (f->mode == KL_QUANT_NVFP4 ? e4m3(scale) * global
                    : scale == 255            ? NAN
                                              : ldexp(1, scale - 127));
        }
    }
    free(words);
    free(codes);
    free(s);
    free(b);
    *size = n;
    return v;
}

static void near(struct kl_array *out, const double *want, double allowed, const char *what) {
    double *v = doubles_of(out);
    for (int64_t i = 0; i < out->t.size; i++)
        if (!(fabs(v[i] - want[i]) <= allowed * fmax(1, fabs(want[i]))) &&
            !(isnan(v[i]) && isnan(want[i])))
            fail_msg("%s of %s: element %lld is %.9g, not %.9g", what,
                     kl_dtype_name((enum kl_dtype)out->t.dtype), (long long)i, v[i], want[i]);
    free(v);
}

static void round_trips(void **state) {
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++)
            for (int global = 0; global < (formats[k].mode == KL_QUANT_NVFP4 ? 2 : 1); global++) {
                const struct kl_quant_format *f = &formats[k];
                struct kl_array *w = random_of(dtypes[d], SHAPE(3, 5, 384), 3), *q[3], *out, *wide;
                struct kl_array *g = global ? scalar_of(KL_F32, 2) : NULL;
                const int n = quantize(q, w, f, g), f32 = KL_F32;
                int64_t size;
                double *want = meaning(q, f, global ? 2 / 2688.0 : 1, &size), *x = doubles_of(w);
                assert_int_equal(size, w->t.size);
                EXPECT_OK(kl_dequantize(&out, q[0], q[1], q[2], f, g, NULL, cpu(), &err));
                assert_int_equal(out->t.dtype, n == 3 ? dtypes[d] : global ? KL_F32 : KL_BF16);
                expect_shape(out, SHAPE(3, 5, 384));
                near(out, want, tolerance((enum kl_dtype)out->t.dtype), "dequantize");
                kl_array_release(out);
                for (int i = 0; i < n; i++) q[i] = strided(q[i]);
                EXPECT_OK(kl_dequantize(&wide, q[0], q[1], q[2], f, g, &f32, cpu(), &err));
                near(wide, want, tolerance(KL_F32), "dequantize to float32");
                /* numbers in [-1.875, 2.125]: half a step, and again at the edge that is not met */
                const double most = f->mode == KL_QUANT_AFFINE ? 4.0 / ((1 << f->bits) - 1)
                                    : f->bits == 4             ? 0.5
                                                               : 0.13;
                for (int64_t i = 0; i < size; i++)
                    if (!(fabs(want[i] - x[i]) <= most * 1.1 + 0.02))
                        fail_msg("format %d: element %lld: %g became %g", k, (long long)i, x[i],
                                 want[i]);
                kl_array_release(wide);
                release(q, n);
                kl_array_release(w);
                kl_array_release(g);
                free(want);
                free(x);
            }
}

/* Codes that quantize never gives. */
static void every_code(void **state) {
    uint32_t words[64], all[2] = {0x7f3f1f00u, 0xff80fe01u};
    for (uint32_t i = 0; i < 64; i++) words[i] = 0x03020100u + i * 0x04040404u;
    for (int k = N_FORMATS - 3; k < N_FORMATS; k++) {
        const struct kl_quant_format *f = &formats[k];
        const int cols = 8 * f->group_size, n_words = cols * f->bits / 32, f32 = KL_F32;
        struct kl_array *q[3] = {array_of(KL_U32, SHAPE(1, n_words), words),
                                 array_of(KL_U8, SHAPE(1, 8), all), NULL},
                        *out;
        int64_t size;
        double *want = meaning(q, f, 1, &size);
        EXPECT_OK(kl_dequantize(&out, q[0], q[1], NULL, f, NULL, &f32, cpu(), &err));
        float *v = values_of(out);
        for (int64_t i = 0; i < size; i++)
            if (v[i] != (float)want[i] && !(isnan(v[i]) && isnan(want[i])))
                fail_msg("format %d: element %lld is %g, not %g", k, (long long)i, (double)v[i],
                         want[i]);
        free(v);
        free(want);
        kl_array_release(out);
        release(q, 2);
    }
}

/* ---- products ---- */

/* out[m][n] of x times the numbers of a matrix. */
static void expect_product(struct kl_array *out, const double *x, const double *w, int m, int n,
                           int k, bool transpose, const char *what) {
    double *v = doubles_of(out);
    for (int i = 0; i < m; i++)
        for (int c = 0; c < n; c++) {
            double sum = 0, size = 0;
            for (int e = 0; e < k; e++) {
                const double term = x[i * k + e] * (transpose ? w[c * k + e] : w[e * n + c]);
                sum += term;
                size += fabs(term);
            }
            const double allowed = tolerance((enum kl_dtype)out->t.dtype) * fabs(sum) + 2e-6 * size;
            if (!(fabs(v[i * n + c] - sum) <= allowed + 1e-6))
                fail_msg("%s (%d rows): (%d,%d) is %.9g, not %.9g", what, m, i, c, v[i * n + c],
                         sum);
        }
    free(v);
}

static const char *text_of(int k, int d, bool transpose) {
    static char text[80];
    snprintf(text, sizeof text, "format %d, %s%s", k, kl_dtype_name(dtypes[d]),
             transpose ? ", transposed" : "");
    return text;
}

static void products(void **state) {
    static const int rows[] = {1, 2, 3, 5, 8, 9, 40};
    for (int k = 0; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++)
            for (int way = 0; way < 4; way++) {
                const struct kl_quant_format *f = &formats[k];
                const bool transpose = way & 1, odd = way & 2;
                const int wide = 384, other = odd ? 37 : 70;
                struct kl_array *w = random_of(dtypes[d], SHAPE(other, wide), 11);
                struct kl_array *q[3], *out;
                const int n = quantize(q, w, f, NULL);
                int64_t size;
                double *numbers = meaning(q, f, 1, &size);
                for (int i = 0; i < n && odd; i++) q[i] = strided(q[i]);
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                    const int m = rows[r], depth = transpose ? wide : other;
                    const int cols = transpose ? other : wide;
                    struct kl_array *x = random_of(dtypes[d], SHAPE(m, depth), 5);
                    double *xv = doubles_of(x);
                    if (odd) x = strided(x);
                    EXPECT_OK(
                        kl_quantized_matmul(&out, x, q[0], q[1], q[2], transpose, f, cpu(), &err));
                    assert_int_equal(out->t.dtype, dtypes[d]);
                    expect_shape(out, SHAPE(m, cols));
                    expect_product(out, xv, numbers, m, cols, depth, transpose,
                                   text_of(k, d, transpose));
                    free(xv);
                    kl_array_release(x);
                    kl_array_release(out);
                }
                free(numbers);
                release(q, n);
                kl_array_release(w);
            }
}

/* With one and two rows a column has the same bits alone as among others, which are computed
 * together, and so has the first row. Some depths are no whole vectors of words, and most have
 * groups that are no whole vectors of biases, in even and odd numbers. */
static void columns_alone(void **state) {
    static const int depths[] = {64, 128, 192, 320, 384, 448, 512, 576, 608, 832};
    enum { DEPTHS = sizeof depths / sizeof *depths, WAYS = DEPTHS * 3 };
    const int n = 70;
    for (int way = 0; way < N_FORMATS * WAYS; way++) {
        const struct kl_quant_format *f = &formats[way / WAYS];
        const enum kl_dtype dtype = dtypes[way % 3];
        const int k = depths[way / 3 % DEPTHS];
        if (k % f->group_size != 0) continue;
        struct kl_array *w = random_of(dtype, SHAPE(n, k), 11), *q[3], *all, *alone, *x;
        struct kl_array *two = random_of(dtype, SHAPE(2, k), 5);
        const int count = quantize(q, w, f, NULL);
        const char *what = text_of(way / WAYS, way % 3, true);
        int64_t size;
        double *numbers = meaning(q, f, 1, &size), *xv = doubles_of(two);
        EXPECT_OK(kl_slice(&x, two, LIST(0, 0), LIST(1, k), LIST(1, 1), cpu(), &err));
        EXPECT_OK(kl_quantized_matmul(&all, two, q[0], q[1], q[2], true, f, cpu(), &err));
        double *want = doubles_of(all);
        expect_product(all, xv, numbers, 2, n, k, true, what);
        kl_array_release(all);
        EXPECT_OK(kl_quantized_matmul(&all, x, q[0], q[1], q[2], true, f, cpu(), &err));
        near(all, want, 0, what);
        for (int col = 0; col < n; col += 3) {
            struct kl_array *row[3] = {NULL};
            for (int i = 0; i < count; i++)
                EXPECT_OK(kl_slice(&row[i], q[i], LIST(col, 0), LIST(col + 1, q[i]->t.dims[1]),
                                   LIST(1, 1), cpu(), &err));
            EXPECT_OK(kl_quantized_matmul(&alone, x, row[0], row[1], row[2], true, f, cpu(), &err));
            near(alone, want + col, 0, what);
            release(row, count);
            kl_array_release(alone);
        }
        free(want);
        free(numbers);
        free(xv);
        release(q, count);
        struct kl_array *rest[] = {w, x, two, all};
        release(rest, 4);
    }
}

/* Leading axes broadcast; a 1-d x is a row; dtypes meet; nothing to add up gives zeros. */
static void shapes_and_dtypes(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 32, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(2, 1, 5, 64), 1), *q[3], *out, *one[3], *part;
    struct kl_array *x = random_of(KL_F32, SHAPE(3, 2, 64), 2),
                    *row = random_of(KL_F32, SHAPE(64), 3);
    quantize(q, w, &f, NULL);
    EXPECT_OK(kl_quantized_matmul(&out, x, q[0], q[1], q[2], true, &f, cpu(), &err));
    expect_shape(out, SHAPE(2, 3, 2, 5));
    int64_t size;
    double *numbers = meaning(q, &f, 1, &size), *xv = doubles_of(x), *rv = doubles_of(row);
    for (int i = 0; i < 6; i++) {
        struct kl_array *a, *b;
        EXPECT_OK(kl_slice(&a, out, LIST(i / 3, i % 3, 0, 0), LIST(i / 3 + 1, i % 3 + 1, 2, 5),
                           LIST(1, 1, 1, 1), cpu(), &err));
        EXPECT_OK(kl_reshape(&b, a, LIST(2, 5), cpu(), &err));
        expect_product(b, xv + i % 3 * 128, numbers + i / 3 * 320, 2, 5, 64, true, "batch");
        kl_array_release(a);
        kl_array_release(b);
    }
    kl_array_release(out);
    EXPECT_OK(kl_quantized_matmul(&out, row, q[0], q[1], q[2], true, &f, cpu(), &err));
    expect_shape(out, SHAPE(2, 1, 5));
    kl_array_release(out);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(kl_slice(&part, q[i], LIST(0, 0, 0, 0), LIST(1, 1, 5, q[i]->t.dims[3]),
                           LIST(1, 1, 1, 1), cpu(), &err));
        EXPECT_OK(kl_reshape(&one[i], part, LIST(5, q[i]->t.dims[3]), cpu(), &err));
        kl_array_release(part);
    }
    EXPECT_OK(kl_quantized_matmul(&out, row, one[0], one[1], one[2], true, &f, cpu(), &err));
    expect_shape(out, SHAPE(5));
    expect_product(out, rv, numbers, 1, 5, 64, true, "a row");
    kl_array_release(out);
    /* float16 with float32 scales meets in float32, and so do integers */
    struct kl_array *h = as(KL_F16, kl_array_retain(row)), *i32 = as(KL_I32, kl_array_retain(row));
    EXPECT_OK(kl_quantized_matmul(&out, h, one[0], one[1], one[2], true, &f, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F32);
    kl_array_release(out);
    EXPECT_OK(kl_quantized_matmul(&out, i32, one[0], one[1], one[2], true, &f, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F32);
    kl_array_release(out);
    one[1] = as(KL_F16, one[1]);
    one[2] = as(KL_F16, one[2]);
    EXPECT_OK(kl_quantized_matmul(&out, h, one[0], one[1], one[2], true, &f, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F16);
    kl_array_release(out);
    /* empty */
    struct kl_array *none = array_of(KL_F32, SHAPE(0, 64), NULL),
                    *deep = array_of(KL_U32, SHAPE(0, 8), NULL),
                    *no_scales = array_of(KL_F32, SHAPE(0, 2), NULL),
                    *flat = array_of(KL_F32, SHAPE(2, 0), NULL);
    EXPECT_OK(kl_quantized_matmul(&out, none, one[0], one[1], one[2], true, &f, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 5), 0);
    EXPECT_OK(kl_quantized_matmul(&out, flat, deep, no_scales, no_scales, false, &f, cpu(), &err));
    expect_shape(out, SHAPE(2, 64));
    near(out, (double[128]){0}, 0, "no terms");
    kl_array_release(out);
    struct kl_array *all[] = {w, x, row, h, i32, none, deep, no_scales, flat};
    release(all, 9);
    release(q, 3);
    release(one, 3);
    free(numbers);
    free(xv);
    free(rv);
}

static void gathered(void **state) {
    for (int k = 0; k < N_FORMATS; k++)
        for (int way = 0; way < 4; way++) {
            const struct kl_quant_format *f = &formats[k];
            const bool transpose = way & 1;
            const int m = way & 2 ? 9 : 1, wide = 128, other = 6;
            struct kl_array *w = random_of(KL_F32, SHAPE(2, 2, other, wide), 1), *q[3], *out;
            struct kl_array *x = random_of(KL_F32, SHAPE(3, m, transpose ? wide : other), 2);
            struct kl_array *lhs = I32(SHAPE(2, 1), 2, -3), *rhs = I32(SHAPE(3), 3, 0, -2);
            const int n = quantize(q, w, f, NULL), cols = transpose ? other : wide;
            int64_t size;
            double *numbers = meaning(q, f, 1, &size), *xv = doubles_of(x);
            EXPECT_OK(
                kl_gather_qmm(&out, x, q[0], q[1], q[2], lhs, rhs, transpose, f, cpu(), &err));
            expect_shape(out, SHAPE(2, 3, m, cols));
            double *all = doubles_of(out);
            static const int at_x[] = {2, 0}, at_w[] = {3, 0, 2};
            for (int i = 0; i < 6; i++) {
                struct kl_array *each = array_of(KL_F64, SHAPE(m, cols), all + i * m * cols);
                each = as(KL_F32, each);
                expect_product(each, xv + at_x[i / 3] * m * (transpose ? wide : other),
                               numbers + at_w[i % 3] * other * wide, m, cols,
                               transpose ? wide : other, transpose, "gather");
                kl_array_release(each);
            }
            kl_array_release(out);
            /* without indices: all matrices in order */
            struct kl_array *four = random_of(KL_F32, SHAPE(2, 2, m, transpose ? wide : other), 4);
            struct kl_array *same;
            EXPECT_OK(
                kl_gather_qmm(&out, four, q[0], q[1], q[2], NULL, NULL, transpose, f, cpu(), &err));
            EXPECT_OK(
                kl_quantized_matmul(&same, four, q[0], q[1], q[2], transpose, f, cpu(), &err));
            expect_shape(out, SHAPE(2, 2, m, cols));
            float *a = values_of(out), *b = values_of(same);
            assert_memory_equal(a, b, (size_t)out->t.size * 4);
            free(a);
            free(b);
            struct kl_array *used[] = {w, x, lhs, rhs, out, four, same};
            release(used, 7);
            release(q, n);
            free(numbers);
            free(xv);
            free(all);
        }
}

static void bad_indices(void **state) {
    const struct kl_quant_format f = {KL_QUANT_MXFP4, 32, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(4, 5, 32), 1), *q[3], *out;
    struct kl_array *x = random_of(KL_F32, SHAPE(3, 2, 32), 2);
    struct kl_array *good = I32(SHAPE(3), 0, 1, 2), *high = I32(SHAPE(3), 0, 1, 4),
                    *low = I32(SHAPE(3), 0, -4, 1), *none = array_of(KL_I32, SHAPE(0), NULL),
                    *real = F32(SHAPE(3), 0, 1, 2);
    quantize(q, w, &f, NULL);
    EXPECT_OK(kl_gather_qmm(&out, x, q[0], q[1], NULL, good, high, true, &f, cpu(), &err));
    expect_index_fault(out, 2, 0, 4, 4);
    EXPECT_OK(kl_gather_qmm(&out, x, q[0], q[1], NULL, low, good, true, &f, cpu(), &err));
    expect_index_fault(out, 1, 0, -4, 3);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, none, good, true, &f, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, real, good, true, &f, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, good, real, true, &f, cpu(), &err));
    struct kl_array *one = I32(SHAPE(2), 0, 1);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, x, q[0], q[1], NULL, good, one, true, &f, cpu(), &err));
    struct kl_array *row = random_of(KL_F32, SHAPE(32), 2);
    EXPECT_FAIL(KL_ESHAPE,
                kl_gather_qmm(&out, row, q[0], q[1], NULL, good, good, true, &f, cpu(), &err));
    struct kl_array *used[] = {w, x, good, high, low, none, real, one, row};
    release(used, 9);
    release(q, 2);
}

/* ---- qqmm ---- */
static void both_quantized(void **state) {
    for (int k = N_FORMATS - 3; k < N_FORMATS; k++)
        for (int d = 0; d < 3; d++)
            for (int way = 0; way < 4; way++) {
                const struct kl_quant_format *f = &formats[k];
                const bool packed = way & 1, global = (way & 2) && f->mode == KL_QUANT_NVFP4;
                struct kl_array *x = random_of(dtypes[d], SHAPE(3, 2, 128), 1), *qx[3], *qw[3];
                struct kl_array *w = random_of(dtypes[d], SHAPE(7, 128), 2), *out;
                struct kl_array *gx = global ? scalar_of(KL_F32, 3) : NULL,
                                *gw = global ? scalar_of(KL_F32, 2.5) : NULL;
                quantize(qx, x, f, gx);
                quantize(qw, w, f, gw);
                int64_t n;
                double *xv = meaning(qx, f, global ? 3 / 2688.0 : 1, &n),
                       *wv = meaning(qw, f, global ? 2.5 / 2688.0 : 1, &n);
                EXPECT_OK(kl_qqmm(&out, x, packed ? qw[0] : w, packed ? qw[1] : NULL, f, gx, gw,
                                  cpu(), &err));
                assert_int_equal(out->t.dtype, dtypes[d]);
                expect_shape(out, SHAPE(3, 2, 7));
                expect_product(out, xv, wv, 6, 7, 128, true, text_of(k, d, packed));
                struct kl_array *used[] = {x, w, out, gx, gw};
                release(used, 5);
                release(qx, 2);
                release(qw, 2);
                free(xv);
                free(wv);
            }
}

/* ---- gradients ---- */
struct how {
    struct kl_quant_format f;
    bool transpose, gather;
};
static int build_product(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err) {
    const struct how *h = how;
    if (h->gather)
        return kl_gather_qmm(out, in[0], in[1], in[2], in[3], in[4], in[5], h->transpose, &h->f,
                             cpu(), err);
    return kl_quantized_matmul(out, in[0], in[1], in[2], in[3], h->transpose, &h->f, cpu(), err);
}
static int build_numbers(struct kl_array **out, struct kl_array *const *in, const void *how,
                         struct kl_error **err) {
    const struct how *h = how;
    const int f32 = KL_F32;
    const bool affine = h->f.mode == KL_QUANT_AFFINE;
    return kl_dequantize(out, in[0], in[1], affine ? in[2] : NULL, &h->f, affine ? NULL : in[2],
                         &f32, cpu(), err);
}

static void gradients(void **state) {
    static const struct how ways[] = {{{KL_QUANT_AFFINE, 32, 4}, true, false},
                                      {{KL_QUANT_AFFINE, 32, 3}, false, false},
                                      {{KL_QUANT_AFFINE, 64, 2}, true, true},
                                      {{KL_QUANT_AFFINE, 32, 5}, false, true}};
    for (int i = 0; i < 4; i++) {
        const struct how *h = &ways[i];
        const int wide = 64, other = 3;
        struct kl_array *w =
            random_of(KL_F32, h->gather ? 3 : 2,
                      h->gather ? (int[]){2, other, wide} : (int[]){other, wide}, 1);
        struct kl_array *q[3], *in[6];
        const int x_cols = h->transpose ? wide : other;
        quantize(q, w, &h->f, NULL);
        in[0] = random_of(KL_F32, h->gather ? 3 : 2,
                          h->gather ? (int[]){3, 2, x_cols} : (int[]){2, x_cols}, 2);
        for (int k = 0; k < 3; k++) {
            EXPECT_OK(kl_copy(&in[1 + k], q[k], cpu(), &err)); /* views have another node */
            EXPECT_OK(kl_eval(&in[1 + k], 1, &err));
        }
        in[4] = I32(SHAPE(4), 0, 2, 2, 1);
        in[5] = I32(SHAPE(4), 1, 1, 0, 1);
        check_vjp("a quantized product", build_product, h, in, h->gather ? 6 : 4, 0);
        if (!h->gather) check_vjp("dequantize", build_numbers, h, in + 1, 3, 0);
        release(in, 6);
        release(q, 3);
        kl_array_release(w);
    }
    /* the global scale */
    const struct how nv = {{KL_QUANT_NVFP4, 16, 4}, true, false};
    struct kl_array *w = random_of(KL_F32, SHAPE(3, 32), 1), *q[3], *in[3];
    struct kl_array *scale = scalar_of(KL_F32, 100);
    quantize(q, w, &nv.f, scale);
    in[0] = q[0];
    in[1] = q[1];
    in[2] = scale;
    check_vjp("dequantize", build_numbers, &nv, in, 3, 0);
    release(q, 2);
    kl_array_release(w);
    kl_array_release(scale);
}

/* The product along tangents of x, scales and biases is the sum of three products. */
static void forward(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 32, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(3, 64), 1), *q[3], *out, *made = NULL;
    struct kl_array *x = random_of(KL_F32, SHAPE(2, 64), 2),
                    *dx = random_of(KL_F32, SHAPE(2, 64), 3);
    struct kl_array *ds = random_of(KL_F32, SHAPE(3, 2), 4), *want[2], *sum, *zeros;
    quantize(q, w, &f, NULL);
    EXPECT_OK(kl_quantized_matmul(&out, x, q[0], q[1], q[2], true, &f, cpu(), &err));
    EXPECT_OK(kl_zeros_like(&zeros, ds, cpu(), &err));
    struct kl_node *n = out->node;
    struct kl_array *tangent[4] = {dx, NULL, ds, NULL};
    const struct kl_jvp j = {n->task.op, n->task.params, n->task.params_bytes, n->n_in, n->in, out,
                             tangent,    cpu()};
    EXPECT_OK(kl_jvp_rule(KL_OP_QUANTIZED_MATMUL)(&j, &made, &err));
    EXPECT_OK(kl_quantized_matmul(&want[0], dx, q[0], q[1], q[2], true, &f, cpu(), &err));
    EXPECT_OK(kl_quantized_matmul(&want[1], x, q[0], ds, zeros, true, &f, cpu(), &err));
    EXPECT_OK(kl_add(&sum, want[0], want[1], cpu(), &err));
    double *v = doubles_of(sum);
    near(made, v, 1e-5, "tangent");
    free(v);
    struct kl_array *used[] = {w, x, dx, ds, zeros, out, made, want[0], want[1], sum};
    release(used, 10);
    release(q, 3);
}

/* The gradient of qqmm is that of the product without rounding; scales of quantize have none. */
static void gradients_of_rounding(void **state) {
    const struct kl_quantize_params p = {{KL_QUANT_MXFP4, 32, 4}, KL_QUANTIZE_VALUES, KL_F32};
    struct kl_array *x = random_of(KL_F16, SHAPE(2, 32), 1),
                    *g = random_of(KL_F32, SHAPE(2, 32), 2);
    struct kl_array *grad[1] = {NULL}, *out = g;
    const bool wanted = true;
    struct kl_vjp v = {KL_OP_QUANTIZE, &p, 1, 1, &x, &out, &g, &wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_QUANTIZE)(&v, grad, &err));
    assert_int_equal(grad[0]->t.dtype, KL_F16);
    double *want = doubles_of(g);
    near(grad[0], want, 0x1p-10, "gradient of rounding");
    free(want);
    kl_array_release(grad[0]);
    grad[0] = NULL;
    struct kl_quantize_params scales = p;
    scales.part = KL_QUANTIZE_SCALES;
    scales.format = (struct kl_quant_format){KL_QUANT_AFFINE, 32, 4};
    v.params = &scales;
    struct kl_error *err = NULL;
    assert_int_equal(kl_vjp_rule(KL_OP_QUANTIZE)(&v, grad, &err), KL_EUNSUPPORTED);
    assert_null(grad[0]);
    kl_error_release(err);
    kl_array_release(x);
    kl_array_release(g);
}

/* ---- bad arguments ---- */
static void bad_formats(void **state) {
    struct kl_quant_format format, *out = &format;
    static const struct {
        const char *mode;
        int group_size, bits;
        const char *says;
    } bad[] = {{"affine", 16, 4, "32, 64 and 128"},
               {"affine", 64, 7, "2, 3, 4, 5, 6 and 8"},
               {"affine", 64, 1, "is 1"},
               {"affine", 0, 4, "is 0"},
               {"mxfp4", 64, 4, "takes 32"},
               {"mxfp8", 32, 4, "takes 8"},
               {"affine", 96, 4, "is 96"},
               {"affine", -32, 4, "is -32"},
               {"affine", 64, 32, "is 32"},
               {"affine", 64, -1, "is -1"},
               {"nvfp4", 32, 4, "takes 16"},
               {"int4", 64, 4, "int4"},
               {"int4", 64, 4, "affine, mxfp4, mxfp8 and nvfp4 are"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kl_error *err = NULL;
        assert_int_equal(
            kl_quant_format_of(out, bad[i].mode, &bad[i].group_size, &bad[i].bits, &err), KL_EARG);
        if (!strstr(err->message, bad[i].says)) fail_msg("%s", err->message);
        kl_error_release(err);
    }
    struct kl_error *why = NULL;
    assert_int_equal(kl_quant_format_of(out, NULL, NULL, NULL, &why), KL_EARG);
    kl_error_release(why);
    EXPECT_OK(kl_quant_format_of(out, "affine", NULL, NULL, &err));
    assert_int_equal(format.group_size, 64);
    assert_int_equal(format.bits, 4);
    EXPECT_OK(kl_quant_format_of(out, "nvfp4", NULL, NULL, &err));
    assert_int_equal(format.group_size, 16);
}

#define BAD_QUANTIZE(want, ...)                                     \
    do {                                                            \
        struct kl_error *err = NULL;                                \
        assert_int_equal(kl_quantize(q, &n, __VA_ARGS__), want);    \
        assert_true(err->code == want && strlen(err->message) > 8); \
        kl_error_release(err);                                      \
    } while (0)

static void bad(void **state) {
    const struct kl_quant_format f = {KL_QUANT_AFFINE, 32, 4}, mx = {KL_QUANT_MXFP4, 32, 4},
                                 nv = {KL_QUANT_NVFP4, 16, 4}, wrong = {KL_QUANT_AFFINE, 48, 4};
    struct kl_array *w = random_of(KL_F32, SHAPE(5, 64), 1),
                    *x = random_of(KL_F32, SHAPE(2, 64), 1),
                    *odd = random_of(KL_F32, SHAPE(2, 40), 1),
                    *row = random_of(KL_F32, SHAPE(64), 1), *i = I32(SHAPE(1, 1), 3),
                    *one = scalar_of(KL_F32, 1), *two = F32(SHAPE(2), 1, 2),
                    *half = scalar_of(KL_F16, 1), *wide = random_of(KL_F32, SHAPE(2, 64), 1);
    struct kl_array *q[3], *m[3], *h[3], *out, *c = as(KL_C64, kl_array_retain(x));
    int n = 0;
    wide = as(KL_F64, wide);
    BAD_QUANTIZE(KL_EARG, NULL, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &wrong, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &f, one, cpu(), &err);
    BAD_QUANTIZE(KL_EARG, w, &mx, one, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, w, &nv, half, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, w, &nv, two, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, i, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, wide, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_EDTYPE, c, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, row, &f, NULL, cpu(), &err);
    BAD_QUANTIZE(KL_ESHAPE, odd, &f, NULL, cpu(), &err);
    quantize(q, w, &f, NULL);
    quantize(m, w, &mx, NULL);
    quantize(h, x, &f, NULL); /* of another shape */
    const int i32 = KL_I32;
#define DEQUANTIZE(...) kl_dequantize(&out, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(q[0], q[1], NULL, &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(NULL, q[1], q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(q[0], NULL, q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(m[0], m[1], m[1], &mx, NULL, NULL));
    EXPECT_FAIL(KL_EARG, DEQUANTIZE(m[0], m[1], NULL, &mx, one, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(w, q[1], q[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(m[0], q[1], NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, DEQUANTIZE(q[0], q[1], q[2], &f, NULL, &i32));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(q[0], h[1], h[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(q[0], q[1], h[2], &f, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE,
                DEQUANTIZE(q[0], q[1], q[2], (&(struct kl_quant_format){KL_QUANT_AFFINE, 32, 8}),
                           NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE,
                DEQUANTIZE(q[0], q[1], q[2], (&(struct kl_quant_format){KL_QUANT_AFFINE, 64, 4}),
                           NULL, NULL));
    struct kl_array *flat[3];
    for (int k = 0; k < 3; k++) EXPECT_OK(kl_flatten(&flat[k], q[k], 0, -1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, DEQUANTIZE(flat[0], flat[1], flat[2], &f, NULL, NULL));
#define MULTIPLY(x, ...) kl_quantized_matmul(&out, x, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, MULTIPLY(NULL, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EARG, MULTIPLY(x, q[0], q[1], NULL, true, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(odd, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(x, q[0], q[1], q[2], false, &f));
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(one, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(c, q[0], q[1], q[2], true, &f));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(wide, q[0], q[1], q[2], true, &f));
    struct kl_array *ints = as(KL_I32, kl_array_retain(x));
    EXPECT_FAIL(KL_EDTYPE, MULTIPLY(ints, m[0], m[1], NULL, true, &mx));
    EXPECT_FAIL(KL_EARG, kl_quantized_matmul(&out, x, q[0], q[1], q[2], true, &f, NULL, &err));
    struct kl_array *deep = random_of(KL_F32, SHAPE(3, 5, 64), 1), *d[3],
                    *two_rows = random_of(KL_F32, SHAPE(2, 2, 64), 1);
    quantize(d, deep, &f, NULL);
    EXPECT_FAIL(KL_ESHAPE, MULTIPLY(two_rows, d[0], d[1], d[2], true, &f));
#define BOTH(x, ...) kl_qqmm(&out, x, __VA_ARGS__, cpu(), &err)
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &f, NULL, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, m[0], NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &nv, one, NULL));
    EXPECT_FAIL(KL_EARG, BOTH(x, w, NULL, &mx, one, one));
    EXPECT_FAIL(KL_EDTYPE, BOTH(ints, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, BOTH(x, ints, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(one, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(x, deep, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(odd, w, NULL, &mx, NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, BOTH(odd, odd, NULL, &mx, NULL, NULL));
    struct kl_array *used[] = {w, x, odd, row, i, one, two, half, wide, c, ints, deep, two_rows};
    release(used, 13);
    release(q, 3);
    release(m, 2);
    release(h, 3);
    release(d, 3);
    release(flat, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden),
                                       cmocka_unit_test(round_trips),
                                       cmocka_unit_test(every_code),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(columns_alone),
                                       cmocka_unit_test(gathered),
                                       cmocka_unit_test(shapes_and_dtypes),
                                       cmocka_unit_test(bad_indices),
                                       cmocka_unit_test(both_quantized),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(forward),
                                       cmocka_unit_test(bad_formats),
                                       cmocka_unit_test(gradients_of_rounding),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
