/* test_quantized.c - packed numbers and scales against golden values; what they stand for; products
 * against sums in float64. */
#include "ops/support/quantized_support.h"

#include "ops/golden/golden_quantized.inc"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden),
                                       cmocka_unit_test(round_trips),
                                       cmocka_unit_test(every_code),
                                       cmocka_unit_test(products),
                                       cmocka_unit_test(columns_alone),
                                       cmocka_unit_test(gathered),
                                       cmocka_unit_test(shapes_and_dtypes),
                                       cmocka_unit_test(both_quantized)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
