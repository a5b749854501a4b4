/* test_elementwise.c - the element-wise kernel: layouts of operands and output, results in place,
 * chunks in any order. tests/ops has tests of the values. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/math/functions.h"
#include "base/number/dtype.h"

static void layouts(void **state) {
    int32_t a[24], b[24], out[48];
    for (int i = 0; i < 24; i++) {
        a[i] = i;
        b[i] = 100 * i;
    }
    struct operand x, y, z;
    /* Operand a is reversed, b is transposed, and the output has a stride of 2. */
    strided_operand(&x, a + 23, KL_I32, DIMS(2, 3, 4), STRIDES(-12, -4, -1));
    strided_operand(&y, b, KL_I32, DIMS(2, 3, 4), STRIDES(1, 2, 6));
    memset(out, 0xff, sizeof out);
    strided_operand(&z, out, KL_I32, DIMS(2, 3, 4), STRIDES(24, 8, 2));
    RUN(KL_OP_ADD, NULL, &z, IN(&x, &y), false);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++) {
                int at = 12 * i + 4 * j + k;
                assert_int_equal(out[2 * at], 23 - at + 100 * (i + 2 * j + 6 * k));
                /* The elements in the gaps are not written. */
                assert_int_equal(out[2 * at + 1], -1);
            }
    /* Both operands are broadcast: a scalar and a row. */
    strided_operand(&x, a + 5, KL_I32, DIMS(2, 3, 4), STRIDES(0, 0, 0));
    strided_operand(&y, b, KL_I32, DIMS(2, 3, 4), STRIDES(0, 0, 1));
    dense(&z, out, KL_I32, DIMS(2, 3, 4));
    RUN(KL_OP_SUBTRACT, NULL, &z, IN(&x, &y), false);
    for (int i = 0; i < 24; i++) assert_int_equal(out[i], 5 - 100 * (i % 4));
}

/* GREATER runs as LESS with exchanged operands. The operands here also differ in their layout. */
static void exchanged(void **state) {
    float a[] = {1, 2, 3, 4}, b[] = {2, 2, 2, 2};
    uint8_t out[4];
    struct operand x, y, z;
    strided_operand(&x, a, KL_F32, DIMS(2, 2), STRIDES(1, 2));
    strided_operand(&y, b, KL_F32, DIMS(2, 2), STRIDES(0, 0));
    dense(&z, out, KL_BOOL, DIMS(2, 2));
    RUN(KL_OP_GREATER, NULL, &z, IN(&x, &y), false);
    assert_memory_equal(out, ((uint8_t[]){0, 1, 0, 1}), 4);
    RUN(KL_OP_GREATER_EQUAL, NULL, &z, IN(&y, &x), false);
    assert_memory_equal(out, ((uint8_t[]){1, 0, 1, 0}), 4);
}

static void in_place(void **state) {
    enum { N = 1300 };
    float f[N];
    uint16_t h[N];
    int64_t w[N];
    struct operand x, z;
    for (int i = 0; i < N; i++) {
        f[i] = (float)i;
        h[i] = kl_f32_to_f16((float)(i % 100));
        w[i] = i;
    }
    dense(&x, f, KL_F32, DIMS(N));
    RUN(KL_OP_ADD, NULL, &x, IN(&x, &x), false);
    for (int i = 0; i < N; i++) assert_true(f[i] == 2 * i);
    dense(&x, h, KL_F16, DIMS(N)); /* this conversion goes through tiles of float32 */
    RUN(KL_OP_MULTIPLY, NULL, &x, IN(&x, &x), false);
    for (int i = 0; i < N; i++)
        assert_int_equal(h[i], kl_f32_to_f16((float)((i % 100) * (i % 100))));
    dense(&x, w, KL_I64, DIMS(N)); /* both dtypes have the same width */
    dense(&z, w, KL_F64, DIMS(N));
    RUN(KL_OP_CAST, NULL, &z, IN(&x), false);
    for (int i = 0; i < N; i++) assert_true(((double *)w)[i] == i);
    RUN(KL_OP_NEGATIVE, NULL, &z, IN(&z), false);
    RUN(KL_OP_CAST, NULL, &x, IN(&z), false);
    for (int i = 0; i < N; i++) assert_int_equal(w[i], -i);
    /* A square matrix is computed in place; the operand has the layout of the transpose. */
    for (int i = 0; i < 900; i++) f[i] = (float)i;
    strided_operand(&x, f, KL_F32, DIMS(30, 30), STRIDES(1, 30));
    RUN(KL_OP_SQUARE, NULL, &x, IN(&x), false);
    for (int i = 0; i < 900; i++) assert_true(f[i] == (float)i * (float)i);
}

static void chunks(void **state) {
    enum { ROWS = 700, COLS = 500 };
    float *a = malloc(ROWS * COLS * sizeof *a), *serial = malloc(ROWS * COLS * sizeof *a),
          *shared = malloc(ROWS * COLS * sizeof *a);
    for (int i = 0; i < ROWS * COLS; i++) a[i] = (float)(i % 1000) * 0.37f;
    struct operand x, y, p, q;
    dense(&x, a, KL_F32, DIMS(ROWS, COLS));
    strided_operand(&y, a, KL_F32, DIMS(ROWS, COLS), STRIDES(1, ROWS));
    dense(&p, serial, KL_F32, DIMS(ROWS, COLS));
    dense(&q, shared, KL_F32, DIMS(ROWS, COLS));
    n_shared = 0;
    RUN(KL_OP_DIVIDE, NULL, &p, IN(&x, &y), false);
    RUN(KL_OP_DIVIDE, NULL, &q, IN(&x, &y), true);
    assert_true(n_shared > 1);
    assert_memory_equal(serial, shared, ROWS * COLS * sizeof *a);
    RUN(KL_OP_EXP, NULL, &q, IN(&x), true);
    for (int i = 0; i < ROWS * COLS; i += 997) assert_true(shared[i] == kl_exp_f32(a[i]));
    free(a);
    free(serial);
    free(shared);
}

/* Results that are larger than the cache, of a transposed operand. The cases have rows that are
 * whole cache lines and rows that are not, sides that are no multiple of the tile's side, results
 * that begin inside of a cache line, and elements of every size. */
static void large_transposed(void **state) {
    static const struct {
        enum kl_dtype dtype;
        int rows, cols, shift; /* shift: number of elements before the result */
    } cases[] = {{KL_I32, 2050, 2064, 0},  {KL_I32, 2050, 2064, 4},  {KL_I32, 2049, 2061, 0},
                 {KL_I32, 16, 1 << 18, 0}, {KL_I32, 1 << 17, 48, 0}, {KL_I16, 2900, 2912, 0},
                 {KL_I8, 4103, 4160, 0},   {KL_I64, 1449, 1456, 0}};
    enum { GUARD = 64 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const enum kl_dtype dtype = cases[c].dtype;
        const int rows = cases[c].rows, cols = cases[c].cols;
        const size_t item = kl_dtype_size(dtype), n = (size_t)rows * (size_t)cols;
        const size_t before = (size_t)cases[c].shift * item;
        unsigned char *a = aligned_alloc(64, n * item / 64 * 64 + 64);
        unsigned char *z = aligned_alloc(64, (n * item + before + GUARD) / 64 * 64 + 64);
        for (size_t i = 0; i < n; i++) { /* a number that every dtype can negate */
            int64_t v = (int64_t)(i * 2654435761u >> 7) % 100;
            memcpy(a + i * item, &v, item);
        }
        struct operand x, y;
        strided_operand(&x, a, dtype, DIMS(rows, cols), STRIDES(1, rows));
        dense(&y, z + before, dtype, DIMS(rows, cols));
        for (int shared = 0; shared < 2; shared++) {
            memset(z, 0xa5, n * item + before + GUARD);
            RUN(KL_OP_NEGATIVE, NULL, &y, IN(&x), shared);
            for (size_t r = 0; r < (size_t)rows; r++)
                for (size_t k = 0; k < (size_t)cols; k++) {
                    int64_t from = 0, to = 0;
                    memcpy(&from, a + (k * (size_t)rows + r) * item, item);
                    memcpy(&to, z + before + (r * (size_t)cols + k) * item, item);
                    from = -from;
                    if (memcmp(&from, &to, item)) fail_msg("case %zu: [%zu, %zu]", c, r, k);
                }
            for (size_t i = 0; i < before; i++) assert_int_equal(z[i], 0xa5);
            for (size_t i = 0; i < GUARD; i++) assert_int_equal(z[before + n * item + i], 0xa5);
        }
        free(a);
        free(z);
    }
}

static void empty(void **state) {
    struct operand x, z;
    dense(&x, NULL, KL_F16, DIMS(0, 3));
    dense(&z, NULL, KL_F16, DIMS(0, 3));
    RUN(KL_OP_EXP, NULL, &z, IN(&x), true);
}

static void no_kernel(void **state) {
    float v = 1;
    struct operand x, z;
    struct kl_error *err = NULL;
    dense(&x, &v, KL_C64, 0, NULL);
    dense(&z, &v, KL_C64, 0, NULL);
    struct kl_launch l = {
        .op = KL_OP_ERFINV, .n_in = 1, .n_out = 1, .in = &x.arg, .out = &z.arg, .err = &err};
    assert_int_equal(kl_cpu_elementwise(&l), KL_EDTYPE);
    assert_non_null(err);
    kl_error_release(err);
}

/* A kernel reads transposed operands in square tiles, and in strips at the edges. Every element of
 * the operand is read once, and goes to its own place. */
static void transposed(void **state) {
    enum { A = 3, ROWS_3 = 16 * 7 + 5, COLS_3 = 16 * 9 + 11, N_3 = A * ROWS_3 * COLS_3 };
    float *x = malloc(N_3 * sizeof *x), *y = malloc(N_3 * sizeof *y),
          *out = malloc(N_3 * sizeof *out);
    uint16_t *h = malloc(N_3 * sizeof *h), *g = malloc(N_3 * sizeof *g);
    for (int i = 0; i < N_3; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 1009) * 0.5f;
        h[i] = kl_f32_to_f16((float)(i % 2003));
    }
    /* The strides of y[k][j][i] and y[j][i][k] for element (k, i, j), and of a reversed y. */
    const int64_t strides[3][3] = {
        {ROWS_3 * COLS_3, 1, ROWS_3}, {1, A, A * ROWS_3}, {-ROWS_3 * COLS_3, 1, ROWS_3}};
    for (int way = 0; way < 3; way++) {
        int64_t first = way == 2 ? (A - 1) * ROWS_3 * COLS_3 : 0;
        const int64_t *step = strides[way];
        struct operand p, q, r;
        dense(&p, x, KL_F32, DIMS(A, ROWS_3, COLS_3));
        strided_operand(&q, y + first, KL_F32, DIMS(A, ROWS_3, COLS_3), step);
        memset(out, 0xAB, N_3 * sizeof *out);
        dense(&r, out, KL_F32, DIMS(A, ROWS_3, COLS_3));
        RUN(KL_OP_SUBTRACT, NULL, &r, IN(&p, &q), way == 1);
        strided_operand(&q, h + first, KL_F16, DIMS(A, ROWS_3, COLS_3), step);
        memset(g, 0xAB, N_3 * sizeof *g);
        dense(&r, g, KL_F16, DIMS(A, ROWS_3, COLS_3));
        RUN(KL_OP_NEGATIVE, NULL, &r, IN(&q), way == 2);
        for (int k = 0, at = 0; k < A; k++)
            for (int i = 0; i < ROWS_3; i++)
                for (int j = 0; j < COLS_3; j++, at++) {
                    int64_t from = first + k * step[0] + i * step[1] + j * step[2];
                    assert_true(out[at] == x[at] - y[from]);
                    assert_int_equal(g[at], h[from] ^ 0x8000);
                }
    }
    free(x);
    free(y);
    free(out);
    free(h);
    free(g);
}

/* Elements of every size, with sides close to those of tiles and tasks, and a broadcast operand, in
 * every variant. The value of an element is its own position, modulo the range of its type. */
static void transposed_sizes(void **state) {
    static const enum kl_dtype dtypes[] = {KL_U8, KL_U16, KL_U32, KL_U64};
    static const int sides[] = {32, 33, 47, 48, 127, 128, 129, 161};
    enum { MOST = 161 * 161 * 16, N_SIDES = sizeof sides / sizeof *sides };
    unsigned char *x = malloc(MOST * 8), *copy = malloc(MOST * 8), *sum = malloc(MOST * 8);
    for (int d = 0; d < 4 * kl_cpu_n_variants(); d++) {
        enum kl_dtype dtype = dtypes[d % 4];
        const int item = (int)kl_dtype_size(dtype);
        kl_cpu_use_variant(d / 4);
        for (int way = 0; way < N_SIDES * N_SIDES; way++) {
            const int rows = sides[way / N_SIDES], cols = sides[way % N_SIDES],
                      n = (1 << 14) / (rows * cols) + 1;
            uint64_t one = 3;
            struct operand a, b, to, total;
            for (int i = 0; i < n * rows * cols; i++) {
                uint64_t v = (uint64_t)i * 0x9e3779b1u;
                memcpy(x + i * item, &v, (size_t)item); /* low bytes come first (little-endian) */
            }
            strided_operand(&a, x, dtype, DIMS(n, rows, cols), STRIDES(rows * cols, 1, rows));
            strided_operand(&b, &one, dtype, DIMS(n, rows, cols), STRIDES(0, 0, 0));
            memset(copy, 0xAB, (size_t)(n * rows * cols * item));
            memset(sum, 0xAB, (size_t)(n * rows * cols * item));
            dense(&to, copy, dtype, DIMS(n, rows, cols));
            dense(&total, sum, dtype, DIMS(n, rows, cols));
            RUN(KL_OP_COPY, NULL, &to, IN(&a), false);
            RUN(KL_OP_ADD, NULL, &total, IN(&a, &b), false);
            for (int k = 0, at = 0; k < n; k++)
                for (int r = 0; r < rows; r++)
                    for (int c = 0; c < cols; c++, at++) {
                        uint64_t v = (uint64_t)(k * rows * cols + c * rows + r) * 0x9e3779b1u,
                                 w = v + 3;
                        if (memcmp(copy + at * item, &v, (size_t)item) ||
                            memcmp(sum + at * item, &w, (size_t)item))
                            fail_msg("%s, %d bytes, %d x %d: element %d, %d of matrix %d",
                                     kl_cpu_variant_name(d / 4), item, rows, cols, r, c, k);
                    }
        }
    }
    free(x);
    free(copy);
    free(sum);
}

/* Floats to integers of 8 and 16 bits: truncated, at the ends of the type where they are beyond,
 * and NaN as 0; more of them than are converted at once. */
static void floats_to_short_integers(void **state) {
    enum { MOST = 700 };
    static const enum kl_dtype from[] = {KL_F32, KL_F64, KL_C64},
                               to[] = {KL_U8, KL_I8, KL_U16, KL_I16};
    static const double some[] = {0,
                                  -0.0,
                                  0.99,
                                  -0.99,
                                  6,
                                  127.9,
                                  128,
                                  -128.9,
                                  -129,
                                  254.5,
                                  255.5,
                                  256,
                                  32767.5,
                                  32768,
                                  65535,
                                  65535.9,
                                  65536,
                                  -32768,
                                  -32769,
                                  0x1p31,
                                  -0x1p31,
                                  0x1p70,
                                  -5.5,
                                  41.25,
                                  1e-40,
                                  (double)NAN,
                                  (double)INFINITY,
                                  -(double)INFINITY};
    enum { N_SOME = sizeof some / sizeof *some };
    static union {
        float f[2 * MOST];
        double d[MOST];
    } in;
    static uint8_t bytes[2 * MOST + 8];
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int f = 0; f < 3; f++)
            for (int t = 0; t < 4; t++)
                for (int n = 1; n <= MOST; n += n < 70 ? 1 : 209) {
                    const int item = t < 2 ? 1 : 2;
                    const double lo = (double[]){0, -128, 0, -32768}[t],
                                 hi = (double[]){255, 127, 65535, 32767}[t];
                    struct operand x, y;
                    for (int i = 0; i < n; i++) {
                        /* 6 less the least difference is 5, in float64 too */
                        const double value = some[i % N_SOME], less = nextafter(value, 0);
                        if (from[f] == KL_F64)
                            in.d[i] = i / N_SOME % 2 ? less : value;
                        else if (from[f] == KL_F32)
                            in.f[i] = (float)value;
                        else
                            in.f[2 * i] = (float)value, in.f[2 * i + 1] = 77;
                    }
                    memset(bytes, 0xee, sizeof bytes);
                    RUN(KL_OP_CAST, NULL, dense(&y, bytes, to[t], DIMS(n)),
                        IN(dense(&x, &in, from[f], DIMS(n))), false);
                    for (int i = 0; i < n; i++) {
                        const double value = from[f] == KL_F64   ? in.d[i]
                                             : from[f] == KL_F32 ? (double)in.f[i]
                                                                 : (double)in.f[2 * i];
                        const double want = isnan(value) ? 0 : fmin(fmax(trunc(value), lo), hi);
                        uint16_t wide;
                        memcpy(&wide, bytes + i * item, 2);
                        const int got = t == 0   ? bytes[i]
                                        : t == 1 ? (int8_t)bytes[i]
                                        : t == 2 ? wide
                                                 : (int16_t)wide;
                        if (got != (int)want)
                            fail_msg("%s to %s: %a gives %d, not %d (element %d of %d)",
                                     kl_dtype_name(from[f]), kl_dtype_name(to[t]), value, got,
                                     (int)want, i, n);
                    }
                    assert_int_equal(bytes[n * item], 0xee);
                }
    }
    kl_cpu_use_variant(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(floats_to_short_integers),
                                       cmocka_unit_test(layouts),
                                       cmocka_unit_test(exchanged),
                                       cmocka_unit_test(in_place),
                                       cmocka_unit_test(chunks),
                                       cmocka_unit_test(large_transposed),
                                       cmocka_unit_test(transposed),
                                       cmocka_unit_test(transposed_sizes),
                                       cmocka_unit_test(empty),
                                       cmocka_unit_test(no_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
