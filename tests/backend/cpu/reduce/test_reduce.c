/* test_reduce.c - reductions give the same bits for any order of chunks; long reductions are shared
 * by segments; a failing allocation is an error. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/math/extremes.h"

static struct { int n_axes, axes[2]; } last = {1, {1}}, first = {1, {0}};

static void fill(float *v, int n) {
    uint32_t seed = 7;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        v[i] = (float)(int32_t)seed * 0x1p-20f;
    }
}

static void shared_segments(void **state) {
    enum { N = (1 << 18) + 12345 };
    float *v = malloc(2 * N * sizeof *v), serial[2], shared[2], columns[2];
    fill(v, 2 * N);
    struct operand x, y, z;
    dense(&x, v, KL_F32, DIMS(2, N));
    RUN(KL_OP_SUM, &last, dense(&z, serial, KL_F32, DIMS(2, 1)), IN(&x), false);
    n_shared = 0;
    RUN(KL_OP_SUM, &last, dense(&z, shared, KL_F32, DIMS(2, 1)), IN(&x), true);
    assert_true(n_shared > 4);
    assert_memory_equal(serial, shared, sizeof serial);
    /* The same numbers, contiguous. */
    float *t = malloc(2 * N * sizeof *t);
    for (int i = 0; i < N; i++) {
        t[2 * i] = v[i];
        t[2 * i + 1] = v[N + i];
    }
    dense(&y, t, KL_F32, DIMS(N, 2));
    RUN(KL_OP_SUM, &first, dense(&z, columns, KL_F32, DIMS(1, 2)), IN(&y), true);
    assert_memory_equal(serial, columns, sizeof serial);
    /* A stride of 2 between the elements. */
    strided_operand(&y, t, KL_F32, DIMS(2, N), STRIDES(1, 2));
    RUN(KL_OP_SUM, &last, dense(&z, columns, KL_F32, DIMS(2, 1)), IN(&y), true);
    assert_memory_equal(serial, columns, sizeof serial);
    for (int op = 0; op < 2; op++) {
        float want = v[0];
        for (int i = 1; i < N; i++) want = op ? fminf(want, v[i]) : fmaxf(want, v[i]);
        RUN(op ? KL_OP_MIN : KL_OP_MAX, &last, dense(&z, columns, KL_F32, DIMS(2, 1)), IN(&x),
            true);
        assert_true(columns[0] == want);
    }
    free(v);
    free(t);
}

/* The element that decides may stand anywhere: in the first segment, which is looked at before any
 * thread is woken, in a later one, or nowhere. Its row and its neighbours do not matter. */
static void truths(void **state) {
    enum { N = (1 << 18) + 77, ROWS = 3 };
    static const int places[] = {-1, 0, 1, 511, 512, 65535, 65536, 65537, 1 << 18, N - 1};
    static const enum kl_op_id ops[] = {KL_OP_ANY, KL_OP_MAX, KL_OP_ALL, KL_OP_MIN};
    uint8_t *v = malloc(ROWS * N), out[ROWS];
    struct operand x, z;
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (size_t k = 0; k < sizeof places / sizeof *places * 4; k++) {
            const int at = places[k / 4];
            const enum kl_op_id op = ops[k % 4];
            const uint8_t rest = op == KL_OP_ALL || op == KL_OP_MIN, found = !rest;
            memset(v, rest, ROWS * N);
            if (at >= 0) v[N + at] = found;
            RUN(op, &last, dense(&z, out, KL_BOOL, DIMS(ROWS, 1)),
                IN(dense(&x, v, KL_BOOL, DIMS(ROWS, N))), true);
            assert_int_equal(out[0], rest);
            assert_int_equal(out[1], at >= 0 ? found : rest);
            assert_int_equal(out[2], rest);
            out[0] = 7;
            n_shared = 0;
            RUN(op, &last, dense(&z, out, KL_BOOL, DIMS(1, 1)),
                IN(dense(&x, v + N, KL_BOOL, DIMS(1, N))), true);
            assert_int_equal(out[0], at >= 0 ? found : rest);
            assert_int_equal(n_shared > 0, at < 0 || at >= 65536); /* decided before it is shared */
        }
    }
    free(v);
}

static void wider_output(void **state) {
    uint16_t *h = malloc(70000 * sizeof *h);
    float out[1];
    struct operand x, z;
    for (int i = 0; i < 70000; i++) h[i] = 0x3c00; /* the bits of 1 in float16 */
    RUN(KL_OP_SUM, &last, dense(&z, out, KL_F32, DIMS(1, 1)),
        IN(dense(&x, h, KL_F16, DIMS(1, 70000))), false);
    assert_true(out[0] == 70000);
    free(h);
}

static void broadcast_input(void **state) {
    float one = 1, out[3];
    struct operand x, z;
    strided_operand(&x, &one, KL_F32, DIMS(3, 1000), STRIDES(0, 0));
    RUN(KL_OP_SUM, &last, dense(&z, out, KL_F32, DIMS(3, 1)), IN(&x), false);
    assert_true(out[0] == 1000 && out[2] == 1000);
}

static void no_memory(void **state) {
    enum { N = 1 << 17 };
    float *v = calloc(N, sizeof *v), out;
    struct operand x, z;
    struct kl_error *err = NULL;
    dense(&x, v, KL_F32, DIMS(1, N));
    dense(&z, &out, KL_F32, DIMS(1, 1));
    struct kl_launch l = {.op = KL_OP_SUM,
                          .params = &last,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &x.arg,
                          .out = &z.arg,
                          .err = &err};
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_cpu_reduce(&l), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    err = NULL;
    struct kl_axis_params axis = {1};
    int32_t order[4];
    dense(&x, v, KL_F32, DIMS(1, 4));
    dense(&z, order, KL_U32, DIMS(1, 4));
    l.op = KL_OP_ARGSORT;
    l.params = &axis;
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_cpu_sort(&l), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    free(v);
}

/* The extreme is found at every place of rows of every length near a multiple of the vector's. A
 * NaN wins at every place. Of zeros the sign counts. */
static void extremes(void **state) {
    enum { MOST = 300 };
    struct {
        int n_axes, axes[1];
    } p = {1, {0}};
    static const int lengths[] = {1,  7,  8,   9,   15,  16,  17,  63,
                                  64, 65, 127, 129, 255, 256, 257, MOST};
    struct operand x, z;
    float f[MOST], most_f;
    double d[MOST], most_d;
    int8_t b[MOST], most_b;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (int at = 0, n = lengths[l]; at < n; at++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    enum kl_op_id op = sign > 0 ? KL_OP_MAX : KL_OP_MIN;
                    for (int i = 0; i < n; i++) {
                        f[i] = (float)(-sign * (i == at ? 1 : 2 + i % 50));
                        d[i] = (double)f[i];
                        b[i] = (int8_t)f[i];
                    }
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    RUN(op, &p, dense(&z, &most_d, KL_F64, 0, NULL),
                        IN(dense(&x, d, KL_F64, DIMS(n))), false);
                    RUN(op, &p, dense(&z, &most_b, KL_I8, 0, NULL),
                        IN(dense(&x, b, KL_I8, DIMS(n))), false);
                    assert_true(most_f == -sign && most_d == -sign && most_b == -sign);
                    f[at] = NAN;
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    assert_true(isnan(most_f));
                    for (int i = 0; i < n; i++) f[i] = i == at ? sign * 0.0f : -sign * 0.0f;
                    RUN(op, &p, dense(&z, &most_f, KL_F32, 0, NULL),
                        IN(dense(&x, f, KL_F32, DIMS(n))), false);
                    assert_true(most_f == 0 && !signbit(most_f) == (sign > 0));
                }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

static float widened(enum kl_dtype dtype, uint16_t h) {
    return dtype == KL_F16 ? kl_f16_load(h) : kl_bf16_load(h);
}
static uint16_t narrowed(enum kl_dtype dtype, float x) {
    return dtype == KL_F16 ? kl_f16_store(x) : kl_bf16_store(x);
}
static const enum kl_dtype half_types[] = {KL_F16, KL_BF16};

/* Every 16-bit float beside special values: the extremes are those of the widened numbers, for
 * rows, for columns, and for strided operands. */
static void extremes_of_halves(void **state) {
    enum { ALL = 1 << 16 };
    static const uint16_t beside[] = {0,      0x8000, 1,      0x8001, 0x3c00, 0xbf80, 0x7c00,
                                      0xfc00, 0x7c01, 0xfc01, 0x7f80, 0xff80, 0x7f81, 0xff81,
                                      0x7fff, 0xffff, 0x7bff, 0xfbff, 0x7f7f, 0xff7f};
    enum { N = sizeof beside / sizeof *beside };
    uint16_t *pairs = malloc(4 * ALL * sizeof *pairs), *columns = pairs + 2 * ALL;
    uint16_t *out = malloc(ALL * sizeof *out), *want = malloc(ALL * sizeof *want);
    struct operand x, z;
    for (int b = 0; b < 4 * N; b++) {
        enum kl_dtype dtype = half_types[b & 1];
        enum kl_op_id op = b & 2 ? KL_OP_MIN : KL_OP_MAX;
        if (!kl_test_takes("cpu", 2)) continue;
        float other = widened(dtype, beside[b / 4]);
        for (int i = 0; i < ALL; i++) {
            float f = widened(dtype, (uint16_t)i);
            pairs[2 * i] = columns[i] = (uint16_t)i;
            pairs[2 * i + 1] = columns[ALL + i] = beside[b / 4];
            f = op == KL_OP_MAX ? kl_max_f32(f, other) : kl_min_f32(f, other);
            want[i] = isnan(f) ? 0xffff : narrowed(dtype, f);
        }
        for (int v = 0; v < kl_cpu_n_variants(); v++)
            for (int way = 0; way < 3; way++) {
                kl_cpu_use_variant(v);
                if (way == 0)
                    dense(&x, pairs, dtype, DIMS(ALL, 2));
                else if (way == 1)
                    dense(&x, columns, dtype, DIMS(2, ALL));
                else
                    strided_operand(&x, pairs + 2 * ALL - 1, dtype, DIMS(ALL, 2), STRIDES(-2, -1));
                RUN(op, way == 1 ? &first : &last,
                    dense(&z, out, dtype, 2, (int[]){way == 1 ? 1 : ALL, way == 1 ? ALL : 1}),
                    IN(&x), true);
                for (int i = 0; i < ALL; i++) {
                    uint16_t got = out[way == 2 ? ALL - 1 - i : i];
                    if (isnan(widened(dtype, got))) got = 0xffff;
                    if (got != want[i])
                        fail_msg("%s, way %d, %04x and %04x: %04x, not %04x",
                                 kl_cpu_variant_name(v), way, (unsigned)i, beside[b / 4], got,
                                 want[i]);
                }
            }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(pairs);
    free(out);
    free(want);
}

/* The same check for pairs of special and random float32. */
static void extremes_of_pairs(void **state) {
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7fffff,
                                       0x807fffff, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff,
                                       0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fffffff,
                                       0xffffffff, 0x7fc00000, 0xffc00000};
    enum { N = 64, N_SPECIALS = sizeof special / sizeof *special, ALL = N * N };
    static float pairs[2 * ALL], columns[2 * ALL], out[ALL], want[2][ALL];
    uint32_t seed = 3;
    struct operand x, z;
    for (int i = 0; i < ALL; i++) {
        float both[2];
        for (int k = 0; k < 2; k++) {
            int n = k ? i % N : i / N;
            seed = seed * 1664525 + 1013904223;
            both[k] = kl_bits_f32(n < N_SPECIALS ? special[n] : seed);
            pairs[2 * i + k] = columns[k * ALL + i] = both[k];
        }
        want[0][i] = kl_max_f32(both[0], both[1]);
        want[1][i] = kl_min_f32(both[0], both[1]);
    }
    for (int v = 0; v < kl_cpu_n_variants(); v++)
        for (int op = 0; op < 2; op++)
            for (int way = 0; way < 3; way++) {
                kl_cpu_use_variant(v);
                if (way == 0)
                    dense(&x, pairs, KL_F32, DIMS(ALL, 2));
                else if (way == 1)
                    dense(&x, columns, KL_F32, DIMS(2, ALL));
                else
                    strided_operand(&x, columns, KL_F32, DIMS(ALL, 2), STRIDES(1, ALL));
                RUN(op ? KL_OP_MIN : KL_OP_MAX, way == 1 ? &first : &last,
                    dense(&z, out, KL_F32, 2, (int[]){way == 1 ? 1 : ALL, way == 1 ? ALL : 1}),
                    IN(&x), false);
                for (int i = 0; i < ALL; i++)
                    if (kl_f32_bits(out[i]) != kl_f32_bits(want[op][i]) &&
                        !(isnan(out[i]) && isnan(want[op][i])))
                        fail_msg("%s, way %d: %a and %a give %a", kl_cpu_variant_name(v), way,
                                 (double)pairs[2 * i], (double)pairs[2 * i + 1], (double)out[i]);
            }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

/* Reductions of 16-bit floats have the bits of the reductions of the widened numbers, at every
 * length and width near those of runs and registers, in every layout. */
static void halves_as_widened(void **state) {
    static const int lengths[] = {1, 2, 16, 17, 127, 128, 129, 511, 512, 513, 640, 1153, 2100};
    static const int widths[] = {1, 7, 16, 33, 100};
    static const enum kl_op_id ops[] = {KL_OP_SUM, KL_OP_PROD, KL_OP_MAX, KL_OP_MIN, KL_OP_VAR};
    static const struct {
        int ddof, n_axes, axes[1];
    } var_last = {1, 1, {1}}, var_first = {1, 1, {0}};
    enum {
        N_LENGTHS = sizeof lengths / sizeof *lengths,
        N_WIDTHS = sizeof widths / sizeof *widths
    };
    enum { MOST = 2 * 2100 * 105, WAYS = 5 };
    uint16_t *h = malloc(MOST * sizeof *h);
    float *f = malloc(MOST * sizeof *f), want[100], got[100];
    uint32_t seed = 5;
    struct operand x, z;
    for (int type = 0; type < 2; type++) {
        for (int i = 0; i < MOST; i++) { /* products of these numbers do not overflow */
            seed = seed * 1664525 + 1013904223;
            float magnitude = seed >> 31 ? 0.75f : 1.25f;
            h[i] = narrowed(half_types[type], (seed & 1 << 20 ? -magnitude : magnitude) +
                                                  (float)(seed >> 20 & 63) * 0x1p-9f);
            f[i] = widened(half_types[type], h[i]);
        }
        for (int k = 0; k < N_LENGTHS * N_WIDTHS * 5 * WAYS; k++) {
            int n = lengths[k % N_LENGTHS], m = widths[k / N_LENGTHS % N_WIDTHS];
            int op = k / N_LENGTHS / N_WIDTHS % 5, way = k / N_LENGTHS / N_WIDTHS / 5;
            if (!kl_test_takes("cpu", 2)) continue;
            /* The layouts are rows, columns, and both of them with gaps between the elements. */
            bool rows = way == 0 || way == 2;
            int64_t along = (int64_t[]){1, m, 2, m + 5, 2 * m}[way],
                    side = (int64_t[]){n, 1, 2 * n, 1, 2}[way];
            int dims[2] = {rows ? m : n, rows ? n : m}, out[2] = {rows ? m : 1, rows ? 1 : m};
            int64_t strides[2] = {rows ? side : along, rows ? along : side};
            const void *axes = rows ? (const void *)&last : &first;
            if (ops[op] == KL_OP_VAR) axes = rows ? (const void *)&var_last : &var_first;
            kl_cpu_use_variant(0);
            RUN(ops[op], axes, dense(&z, want, KL_F32, 2, out),
                IN(strided_operand(&x, f, KL_F32, 2, dims, strides)), false);
            for (int v = 0; v < kl_cpu_n_variants(); v++) {
                kl_cpu_use_variant(v);
                RUN(ops[op], axes, dense(&z, got, KL_F32, 2, out),
                    IN(strided_operand(&x, h, half_types[type], 2, dims, strides)), false);
                if (memcmp(want, got, (size_t)m * sizeof *got) != 0)
                    fail_msg("%s of %d by %d, operation %d, way %d: differs in %s",
                             kl_dtype_name(half_types[type]), n, m, op, way,
                             kl_cpu_variant_name(v));
            }
        }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(h);
    free(f);
}

static void put_number(enum kl_dtype dtype, void *data, int64_t i, double x) {
    float f = (float)x;
    if (dtype == KL_F64)
        ((double *)data)[i] = x;
    else if (dtype == KL_F32)
        ((float *)data)[i] = f;
    else if (kl_dtype_is_float(dtype))
        ((uint16_t *)data)[i] = narrowed(dtype, f);
    else
        memcpy((char *)data + i * (int64_t)kl_dtype_size(dtype), &(int64_t){(int64_t)x},
               kl_dtype_size(dtype));
}

/* Windows of a pooling: outputs in short runs, each of which joins a few rows, have the bits of the
 * same elements one output after another. */
static void windows(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64, KL_C64, KL_I32, KL_U8};
    static const enum kl_op_id ops[] = {KL_OP_SUM, KL_OP_PROD, KL_OP_MAX, KL_OP_MIN};
    static const int runs[] = {16, 17, 64, 100, 500, 700};
    enum { OUTER = 30, MOST = OUTER * 16 * 700 };
    char *a = malloc(MOST * 8), *b = malloc(MOST * 8), *want = malloc(MOST), *got = malloc(MOST);
    struct {
        int n_axes, axes[2];
    } both = {2, {1, 2}}, one = {1, {2}};
    struct operand x, y, z;
    for (int k = 0; k < 7 * 4 * 6 * 16; k++) {
        const enum kl_dtype dtype = dtypes[k % 7];
        const enum kl_op_id op = ops[k / 7 % 4];
        const int run = runs[k / 28 % 6], m = 1 + k / 168, high = m % 3 ? 1 : 3, wide = m / high;
        const size_t item = kl_dtype_size(dtype);
        const bool joins = op == KL_OP_SUM || op == KL_OP_PROD;
        if (joins ? dtype == KL_U8 : dtype == KL_C64) continue; /* no such kernel */
        if (!kl_test_takes("cpu", 4)) continue;
        for (int64_t i = 0; i < OUTER * m * run; i++) {
            float f[2] = {(float)(i * 7919 % 1009 - 500) / 256, (float)(i % 33)};
            if (dtype == KL_C64)
                memcpy(a + i * 8, f, 8);
            else
                put_number(dtype, a, i, (double)f[0]);
        }
        for (int64_t o = 0; o < OUTER; o++)
            for (int64_t r = 0; r < m; r++)
                for (int64_t c = 0; c < run; c++)
                    memcpy(b + ((o * run + c) * m + r) * (int64_t)item,
                           a + ((o * m + r) * run + c) * (int64_t)item, item);
        /* The axes of a window are not contiguous to each other. */
        const int dims[] = {OUTER / 2, high, wide, run};
        const int64_t strides[] = {(int64_t)m * run, (int64_t)wide * run, run, 1};
        RUN(op, &one, dense(&z, want, dtype, DIMS(OUTER / 2, run, 1)),
            IN(dense(&y, b, dtype, DIMS(OUTER / 2, run, m))), true);
        for (int v = 0; v < kl_cpu_n_variants(); v++) {
            kl_cpu_use_variant(v);
            RUN(op, &both, dense(&z, got, dtype, DIMS(OUTER / 2, 1, 1, run)),
                IN(strided_operand(&x, a, dtype, 4, dims, strides)), true);
            if (memcmp(got, want, (size_t)(OUTER / 2 * run) * item))
                fail_msg("%s: operation %d of %d rows of %d %s", kl_cpu_variant_name(v), op, m, run,
                         kl_dtype_name(dtype));
        }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(a);
    free(b);
    free(want);
    free(got);
}

/* Whether b is a better result than a, which stands before b. */
static bool beats(enum kl_op_id op, double b, double a) {
    if (isnan(a) || isnan(b)) return !isnan(a);
    return op == KL_OP_ARGMAX ? b > a : b < a;
}

/* The kinds of data: few different numbers; one number of each row that is larger or smaller than
 * the others, at any place; equal numbers; signed zeros, infinities and NaNs. */
enum numbers { FEW, ONE_OUT, ALIKE, SPECIAL, N_NUMBERS };
static double number(enum numbers kind, uint32_t random) {
    static const double special[] = {0.0, -0.0, 3, -3, 3, -INFINITY, INFINITY, 0.0};
    if (kind == ALIKE) return 1;
    if (kind == SPECIAL) return random >> 8 & 127 ? special[random >> 20 & 7] : NAN;
    return 1 + random % 3;
}

/* The result is the first of the best elements, or the first NaN where there is one: for every
 * type, at every length near those of vectors, tiles and segments, in every layout. */
static void arg_reductions(void **state) {
    static const enum kl_dtype dtypes[] = {KL_U8,  KL_U16, KL_U32, KL_U64, KL_I8,  KL_I16,
                                           KL_I32, KL_I64, KL_F32, KL_F64, KL_F16, KL_BF16};
    static const struct {
        int n, m;
    } sizes[] = {{1, 3},    {15, 3},   {16, 17},  {17, 16},   {31, 3},   {32, 40},
                 {33, 31},  {65, 3},   {511, 3},  {513, 3},   {8, 2048}, {9, 2049},
                 {2047, 2}, {2048, 1}, {4100, 3}, {66003, 16}};
    enum { N_SIZES = sizeof sizes / sizeof *sizes, N_DTYPES = sizeof dtypes / sizeof *dtypes };
    enum { MOST = 2 * 66003 * 16, WAYS = 4 };
    double *numbers = malloc(MOST * sizeof *numbers);
    void *data = malloc(MOST * sizeof(double));
    uint32_t *got = malloc(4096 * sizeof *got), *want = malloc(4096 * sizeof *want), seed = 1;
    struct kl_axis_params along[] = {{0}, {1}};
    struct operand x, z;
    for (int k = 0; k < N_SIZES * N_DTYPES * WAYS * N_NUMBERS * 2; k++) {
        int n = sizes[k % N_SIZES].n, m = sizes[k % N_SIZES].m;
        enum kl_dtype dtype = dtypes[k / N_SIZES % N_DTYPES];
        int way = k / N_SIZES / N_DTYPES % WAYS;
        enum numbers kind = k / N_SIZES / N_DTYPES / WAYS % N_NUMBERS;
        enum kl_op_id op = k / N_SIZES / N_DTYPES / WAYS / N_NUMBERS ? KL_OP_ARGMIN : KL_OP_ARGMAX;
        bool floating = kl_dtype_is_float(dtype), large = n > 5000;
        if ((kind == SPECIAL && !floating) ||
            (large && (kind == ALIKE || way > 1 || dtype < KL_F16)) || !kl_test_takes("cpu", 4))
            continue;
        /* The layouts are rows and columns, each without and with gaps between the elements. */
        bool rows = way % 2 == 0;
        int64_t apart = way < 2 ? 1 : 2, step = apart * (rows ? 1 : m),
                side = apart * (rows ? n : 1);
        for (int o = 0; o < m; o++) {
            for (int64_t i = 0; i < n; i++) {
                seed = seed * 1664525 + 1013904223;
                numbers[o * side + i * step] = number(kind, seed >> 3);
            }
            if (kind == ONE_OUT)
                numbers[o * side + (seed >> 8) % (uint32_t)n * step] = op == KL_OP_ARGMAX ? 9 : 0;
            double best = numbers[o * side];
            want[o] = 0;
            for (int64_t i = 0; i < n; i++) {
                double here = numbers[o * side + i * step];
                put_number(dtype, data, o * side + i * step, here);
                if (beats(op, here, best)) {
                    best = here;
                    want[o] = (uint32_t)i;
                }
            }
        }
        int dims[] = {rows ? m : n, rows ? n : m}, out[] = {rows ? m : 1, rows ? 1 : m};
        int64_t strides[] = {rows ? side : step, rows ? step : side};
        for (int v = 0; v < kl_cpu_n_variants(); v++) {
            kl_cpu_use_variant(v);
            RUN(op, &along[rows], dense(&z, got, KL_U32, 2, out),
                IN(strided_operand(&x, data, dtype, 2, dims, strides)), large);
            for (int o = 0; o < m; o++)
                if (got[o] != want[o])
                    fail_msg("%s of %d by %d, way %d, numbers %d, %s: %u, not %u",
                             kl_dtype_name(dtype), n, m, way, kind, kl_cpu_variant_name(v), got[o],
                             want[o]);
        }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(numbers);
    free(data);
    free(got);
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(extremes),
                                       cmocka_unit_test(extremes_of_halves),
                                       cmocka_unit_test(extremes_of_pairs),
                                       cmocka_unit_test(halves_as_widened),
                                       cmocka_unit_test(arg_reductions),
                                       cmocka_unit_test(windows),
                                       cmocka_unit_test(shared_segments),
                                       cmocka_unit_test(wider_output),
                                       cmocka_unit_test(broadcast_input),
                                       cmocka_unit_test(no_memory),
                                       cmocka_unit_test(truths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
