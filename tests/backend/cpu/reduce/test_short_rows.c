/* test_short_rows.c - short rows are transposed (reduce/along.c) and give the bits that the kernel
 * for single rows gives. Nothing outside of the operands is touched. A failing allocation of a tile
 * is an error. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"
#include "base/number/half.h"

enum { LEAST = 1 << 14, MOST = 1 << 16, EDGE = 64 };

static const struct { int n_axes, axes[1]; } last = {1, {1}};
static const struct { int ddof, n_axes, axes[1]; } var = {1, 1, {1}};
static const struct kl_axis_params axis = {1};
static const struct kl_softmax_params softmax = {1, 1};
static const struct kl_scan_params scan = {1, false, true}, back = {1, true, true},
                                   before = {1, false, false};

static const struct {
    enum kl_op_id op;
    const void *params;
    bool reduces;
    int out; /* a dtype; -1: the dtype of the input */
} cases[] = {
    {KL_OP_SUM, &last, true, -1},         {KL_OP_PROD, &last, true, -1},
    {KL_OP_MAX, &last, true, -1},         {KL_OP_MIN, &last, true, -1},
    {KL_OP_ALL, &last, true, KL_BOOL},    {KL_OP_ANY, &last, true, KL_BOOL},
    {KL_OP_LOGSUMEXP, &last, true, -1},   {KL_OP_VAR, &var, true, -1},
    {KL_OP_ARGMAX, &axis, true, KL_U32},  {KL_OP_ARGMIN, &axis, true, KL_U32},
    {KL_OP_SOFTMAX, &softmax, false, -1}, {KL_OP_CUMSUM, &scan, false, -1},
    {KL_OP_CUMPROD, &back, false, -1},    {KL_OP_CUMMAX, &before, false, -1},
    {KL_OP_CUMMIN, &back, false, -1},     {KL_OP_LOGCUMSUMEXP, &scan, false, -1},
};
enum { N_CASES = (int)(sizeof cases / sizeof *cases) };

/* Whether operation i takes this dtype. Integers are only summed, compared and scanned. */
static bool takes(int i, enum kl_dtype dtype) {
    bool real = dtype == KL_F16 || dtype == KL_BF16 || dtype == KL_F32 || dtype == KL_F64;
    switch (cases[i].op) {
    case KL_OP_LOGSUMEXP:
    case KL_OP_LOGCUMSUMEXP:
    case KL_OP_SOFTMAX: return real || dtype == KL_C64;
    case KL_OP_VAR: return real;
    case KL_OP_SUM:
    case KL_OP_PROD: return real || dtype == KL_C64 || dtype == KL_I32 || dtype == KL_U64;
    case KL_OP_CUMSUM:
    case KL_OP_CUMPROD: return dtype != KL_BOOL;
    default: return true;
    }
}

static uint32_t seed;
static uint32_t next(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static uint32_t special_of = 997; /* 5 of this many numbers are special values */

/* Fills with numbers near 1, and a few NaNs, infinities and zeros of both signs. */
static void fill(void *data, enum kl_dtype dtype, int64_t n) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = next();
        float f = r % special_of < 5 ? special[r % special_of] : ((float)(r % 4001) - 2000) / 1500;
        switch (kl_dtype_size(dtype)) {
        case 1: ((uint8_t *)data)[i] = dtype == KL_BOOL ? r & 1 : (uint8_t)r; break;
        case 2:
            ((uint16_t *)data)[i] = dtype == KL_BF16  ? kl_f32_to_bf16(f)
                                    : dtype == KL_F16 ? kl_f32_to_f16(f)
                                                      : (uint16_t)r;
            break;
        case 4:
            if (dtype == KL_F32)
                ((float *)data)[i] = f;
            else
                ((uint32_t *)data)[i] = r;
            break;
        default:
            if (dtype == KL_F64)
                ((double *)data)[i] = (double)f;
            else if (dtype == KL_C64)
                memcpy((float *)data + 2 * i, (float[]){f, 1 - f}, 2 * sizeof f);
            else
                ((uint64_t *)data)[i] = (uint64_t)r << 20;
        }
    }
}

/* Gives every NaN the same bits: which of two NaNs results is open (docs/numerics.md). */
static void one_nan(char *data, enum kl_dtype dtype, size_t bytes) {
    static const uint64_t nan_f64 = 0x7ff8000000000000;
    static const uint32_t nan_f32 = 0x7fc00000;
    static const uint16_t nan_f16 = 0x7e00, nan_bf16 = 0x7fc0;
    for (size_t at = 0; at < bytes; at += dtype == KL_C64 ? sizeof(float) : kl_dtype_size(dtype)) {
        uint16_t half = 0;
        float f;
        double d;
        if (kl_dtype_size(dtype) == sizeof half) memcpy(&half, data + at, sizeof half);
        if (dtype == KL_F64) {
            memcpy(&d, data + at, sizeof d);
            if (isnan(d)) memcpy(data + at, &nan_f64, sizeof d);
        } else if (dtype == KL_F32 || dtype == KL_C64) {
            memcpy(&f, data + at, sizeof f);
            if (isnan(f)) memcpy(data + at, &nan_f32, sizeof f);
        } else if (dtype == KL_F16 && (half & 0x7fff) > 0x7c00) {
            memcpy(data + at, &nan_f16, sizeof half);
        } else if (dtype == KL_BF16 && (half & 0x7fff) > 0x7f80) {
            memcpy(data + at, &nan_bf16, sizeof half);
        }
    }
}

static int run(int i, const struct operand *x, void *result, enum kl_dtype out, int rows,
               int length, bool shared, struct kl_error **err) {
    struct operand z;
    dense(&z, result, out, DIMS(rows, cases[i].reduces ? 1 : length));
    struct kl_launch l = {.op = cases[i].op,
                          .params = cases[i].params,
                          .n_in = 1,
                          .n_out = 1,
                          .in = &x->arg,
                          .out = &z.arg,
                          .err = err,
                          .parallel = shared ? backwards : NULL};
    return kl_cpu_kernel(l.op)(&l);
}

/* Computes rows x length elements, contiguous and in rows with a gap, in every variant, and
 * compares with the base variant's rows with a gap, which are computed one by one. The memory of
 * the operands ends with them, so a sanitizer sees an access beyond the end. The bytes around the
 * results must stay. */
static void compare(int i, enum kl_dtype dtype, int rows, int length) {
    if (!kl_test_takes("cpu", 8)) return;
    const size_t item = kl_dtype_size(dtype);
    const enum kl_dtype out = cases[i].out < 0 ? dtype : (enum kl_dtype)cases[i].out;
    const size_t n = (size_t)rows * (size_t)length,
                 bytes =
                     (size_t)rows * (cases[i].reduces ? 1 : (size_t)length) * kl_dtype_size(out);
    char *dense_data = malloc(n * item), *gaps = calloc((n + (size_t)rows - 1) * item, 1),
         *want = malloc(bytes), *got = malloc(bytes + 2 * EDGE);
    struct operand x[2];
    struct kl_error *err = NULL;
    fill(dense_data, dtype, (int64_t)n);
    for (int r = 0; r < rows; r++)
        memcpy(gaps + (size_t)(r * (length + 1)) * item, dense_data + (size_t)(r * length) * item,
               (size_t)length * item);
    dense(&x[0], dense_data, dtype, DIMS(rows, length));
    strided_operand(&x[1], gaps, dtype, DIMS(rows, length), (int64_t[]){length + 1, 1});
    kl_cpu_use_variant(0);
    assert_int_equal(run(i, &x[1], want, out, rows, length, false, &err), KL_OK);
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++)
        for (int gap = 0; gap < 2; gap++) {
            kl_cpu_use_variant(variant);
            memset(got, 0x5a, bytes + 2 * EDGE);
            assert_int_equal(run(i, &x[gap], got + EDGE, out, rows, length, true, &err), KL_OK);
            /* This is rare, so the NaNs get equal bits only here. */
            if (memcmp(got + EDGE, want, bytes)) {
                one_nan(got + EDGE, out, bytes);
                one_nan(want, out, bytes);
            }
            if (memcmp(got + EDGE, want, bytes)) {
                size_t at = 0;
                while (got[EDGE + at] == want[at]) at++;
                fail_msg("%s: case %d, %s, %d rows of %d%s: other bits at byte %zu",
                         kl_cpu_variant_name(variant), i, kl_dtype_name(dtype), rows, length,
                         gap ? " with a gap" : "", at);
            }
            for (int k = 0; k < EDGE; k++)
                if (got[k] != 0x5a || got[EDGE + bytes + (size_t)k] != 0x5a)
                    fail_msg("case %d, %s, %d rows of %d: written outside of the result", i,
                             kl_dtype_name(dtype), rows, length);
        }
    free(dense_data);
    free(gaps);
    free(want);
    free(got);
}

/* Every operation and dtype, at lengths near the sides of squares and both limits; the number of
 * rows is no multiple of the tile's. */
static void same_bits(void **state) {
    static const int lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,  15,  16,  17,  23,
                                  31, 32, 33, 48, 49, 63, 64, 65, 127, 128, 129, 256};
    for (int i = 0; i < N_CASES; i++)
        for (int dtype = 0; dtype < KL_N_DTYPES; dtype++) {
            if (!takes(i, (enum kl_dtype)dtype)) continue;
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
                compare(i, (enum kl_dtype)dtype, LEAST / lengths[k] + 1 + (int)(next() % 40),
                        lengths[k]);
        }
}

/* Half of the elements are special values: rows that have only NaNs, zeros of both signs, an
 * extreme at every place. */
static void special_values(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    special_of = 10;
    for (int i = 0; i < N_CASES; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            if (cases[i].op == KL_OP_LOGSUMEXP || cases[i].op == KL_OP_LOGCUMSUMEXP ||
                cases[i].op == KL_OP_SOFTMAX)
                continue;
            for (int length = 1; length < 70; length += length < 4 ? 1 : 3)
                compare(i, dtypes[k], LEAST / length + 5, length);
        }
    special_of = 5;
    for (int length = 1; length < 70; length += 11)
        for (int i = 0; i < N_CASES; i++)
            if (cases[i].out == KL_U32) compare(i, KL_F32, 500, length);
    special_of = 997;
}

/* The softmax of a row has the same bits alone, among few rows and among many. */
static void batches(void **state) {
    enum { ROWS = 3000, LENGTH = 21 };
    float *x = malloc(ROWS * LENGTH * sizeof *x), *all = malloc(ROWS * LENGTH * sizeof *all),
          some[3 * LENGTH];
    struct operand a;
    struct kl_error *err = NULL;
    fill(x, KL_F32, ROWS * LENGTH);
    dense(&a, x, KL_F32, DIMS(ROWS, LENGTH));
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        assert_int_equal(run(10, &a, all, KL_F32, ROWS, LENGTH, true, &err), KL_OK);
        one_nan((char *)all, KL_F32, ROWS * LENGTH * sizeof *all);
        for (int r = 0; r + 3 <= ROWS; r += (1 + r % 7) * (kl_test_samples("cpu") ? 8 : 1))
            for (int n = 1; n <= 3; n++) {
                struct operand few;
                dense(&few, x + r * LENGTH, KL_F32, DIMS(n, LENGTH));
                assert_int_equal(run(10, &few, some, KL_F32, n, LENGTH, false, &err), KL_OK);
                one_nan((char *)some, KL_F32, (size_t)(n * LENGTH) * sizeof *some);
                assert_memory_equal(some, all + r * LENGTH, (size_t)(n * LENGTH) * sizeof *some);
            }
    }
    free(x);
    free(all);
}

/* The same check for logsumexp, which computes many rows together. The rows are longer than one
 * step of the kernel, the largest elements of their parts differ by much, and some parts must be
 * computed again. */
static void logsumexp_batches(void **state) {
    enum { ROWS = 270, LOGSUMEXP = 6, BLOCK = 1024 };
    static const int lengths[] = {16, 32, 40, 48, 64, 100, BLOCK, BLOCK + 1, 2500};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    assert_int_equal(cases[LOGSUMEXP].op, KL_OP_LOGSUMEXP);
    for (size_t c = 0; c < 3 * sizeof lengths / sizeof *lengths; c++) {
        if (!kl_test_takes("cpu", 4)) continue;
        const int length = lengths[c / 3];
        const enum kl_dtype dtype = dtypes[c % 3];
        const size_t item = kl_dtype_size(dtype);
        float *x = malloc((size_t)(ROWS * length) * sizeof *x);
        char *data = malloc((size_t)(ROWS * length) * item), *all = malloc(ROWS * item);
        struct operand a;
        struct kl_error *err = NULL;
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < length; i++) {
                float *to = x + r * length + i;
                *to = (float)((int)next() % 4001 - 2000) / 700 + (float)(r % 9 / 8 * 70);
                if (i >= BLOCK) *to += (float)(r % 5 - 2) * 50;
                if (r % 31 == 5 && i < BLOCK) *to = -INFINITY;
                if (r % 31 == 6) *to = -INFINITY;
            }
        for (int r = 0; r < ROWS; r++) {
            static const float special[] = {NAN, INFINITY, 60000};
            if (r % 31 < 3) x[r * length + (int)next() % length] = special[r % 31];
            if (r % 31 == 3 && dtype != KL_F16) x[r * length + (int)next() % length] = 3e6f;
        }
        for (int64_t i = 0; i < ROWS * length; i++) {
            uint16_t half = dtype == KL_F16 ? kl_f32_to_f16(x[i]) : kl_f32_to_bf16(x[i]);
            memcpy(data + i * (int64_t)item, dtype == KL_F32 ? (void *)(x + i) : &half, item);
        }
        dense(&a, data, dtype, DIMS(ROWS, length));
        for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
            kl_cpu_use_variant(variant);
            assert_int_equal(run(LOGSUMEXP, &a, all, dtype, ROWS, length, true, &err), KL_OK);
            one_nan(all, dtype, ROWS * item);
            for (int r = 0; r < ROWS; r++) {
                struct operand one;
                char alone[sizeof(float)];
                dense(&one, data + (size_t)(r * length) * item, dtype, DIMS(1, length));
                assert_int_equal(run(LOGSUMEXP, &one, alone, dtype, 1, length, false, &err), KL_OK);
                one_nan(alone, dtype, item);
                if (memcmp(alone, all + (size_t)r * item, item))
                    fail_msg("%s, %s, rows of %d: row %d has other bits alone",
                             kl_cpu_variant_name(variant), kl_dtype_name(dtype), length, r);
            }
        }
        free(x);
        free(data);
        free(all);
    }
}

/* The last tile has a few rows only, down to one. */
static void partial_tiles(void **state) {
    for (int more = 0; more < 40; more++) {
        compare(0, KL_F32, 16 * 1024 + more, 3);
        compare(10, KL_BF16, 4 * 1024 + more, 7);
        compare(11, KL_F32, 2 * 1024 + more, 20);
    }
}

/* An axis of extent 1 among the trailing axes, two trailing axes, and axes that are not
 * trailing. */
static void which_axes(void **state) {
    enum { ROWS = 4096 };
    static const struct { int n_axes, axes[2]; } both = {2, {1, 3}}, outer = {2, {0, 3}};
    float *x = malloc(ROWS * 6 * sizeof *x), *got = malloc(ROWS * sizeof *got), sums[2] = {0, 0};
    for (int i = 0; i < ROWS * 6; i++) x[i] = (float)(i % 11);
    struct operand a, z;
    dense(&a, x, KL_F32, DIMS(ROWS, 2, 1, 3));
    dense(&z, got, KL_F32, DIMS(ROWS, 1, 1, 1));
    launch(KL_OP_SUM, &both, &z, 1, (struct operand *[]){&a}, false, 0, 0, true);
    for (int r = 0; r < ROWS; r++) {
        float want = 0;
        for (int k = 0; k < 6; k++) want += x[r * 6 + k];
        assert_float_equal(got[r], want, 0);
    }
    dense(&z, got, KL_F32, DIMS(1, 2, 1, 1));
    launch(KL_OP_SUM, &outer, &z, 1, (struct operand *[]){&a}, false, 0, 0, true);
    for (int i = 0; i < ROWS * 6; i++) sums[i / 3 % 2] += x[i];
    assert_float_equal(got[0], sums[0], 0);
    assert_float_equal(got[1], sums[1], 0);
    free(x);
    free(got);
}

static void no_memory(void **state) {
    enum { ROWS = MOST / 8, CASE = 7 };
    assert_int_equal(cases[CASE].op, KL_OP_VAR); /* an operation that allocates memory */
    float *x = malloc((size_t)ROWS * 8 * sizeof *x), *y = malloc((size_t)ROWS * sizeof *y);
    struct operand a;
    int failures = 0;
    fill(x, KL_F32, ROWS * 8);
    dense(&a, x, KL_F32, DIMS(ROWS, 8));
    for (int n = 0;; n++) {
        struct kl_error *err = NULL;
        int64_t live = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        int rc = run(CASE, &a, y, KL_F32, ROWS, 8, true, &err);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_int_equal(rc, failed ? KL_ENOMEM : KL_OK);
        assert_true(failed == (err != NULL));
        kl_error_release(err);
        assert_int_equal(kl_test_n_live(), live);
        if (!failed) break;
        failures++;
    }
    assert_true(failures > 1); /* at least one allocation per tile fails */
    free(x);
    free(y);
}

/* Rows that do not follow each other, but of which each 64th is where it would be if they did. */
static void turned_rows(void **state) {
    enum { A = 8, B = 8, C = 3 };
    static const struct { int n_axes, axes[1]; } inner = {1, {3}};
    for (int n = 4; n <= 48; n *= 2) {
        int64_t *x = malloc(sizeof(int64_t[C]) * A * B * (size_t)n), got[C * B * A];
        struct operand view, z;
        for (int i = 0; i < C * A * B * n; i++) x[i] = next();
        strided_operand(&view, x, KL_I64, DIMS(C, B, A, n), STRIDES(A * B * n, n, B * n, 1));
        RUN(KL_OP_SUM, &inner, dense(&z, got, KL_I64, DIMS(C, B, A, 1)), IN(&view), false);
        for (int o = 0; o < C * B * A; o++) {
            int64_t want = 0;
            const int row = o / (A * B) * A * B + o % A * B + o / A % B;
            for (int i = 0; i < n; i++) want += x[row * n + i];
            if (got[o] != want) fail_msg("%d: %d is %lld", n, o, (long long)got[o]);
        }
        free(x);
    }
}

/* Columns of few numbers are reduced as wide rows up to a number of bytes, and give the bits of
 * rows. */
static void narrow_columns(void **state) {
    enum { ROWS = 277, MOST_COLUMNS = 513 };
    static const int columns[] = {63, 64, 65, 127, 128, 129, 255, 256, 257, 512, MOST_COLUMNS};
    static const struct { int n_axes, axes[1]; } down = {1, {0}};
    char *x = malloc(ROWS * MOST_COLUMNS * 8), *turned = malloc(ROWS * MOST_COLUMNS * 8);
    char want[MOST_COLUMNS * 8], got[MOST_COLUMNS * 8];
    special_of = 997;
    for (int i = 0; i < N_CASES && cases[i].params == &last; i++)
        for (int dtype = 0; dtype < KL_N_DTYPES; dtype++)
            for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
                const enum kl_dtype type = (enum kl_dtype)dtype;
                const int n = columns[k];
                const size_t item = kl_dtype_size(type);
                if (!takes(i, type) || cases[i].out >= 0) continue;
                if (!kl_test_takes("cpu", 8)) continue;
                struct operand a, z;
                fill(x, type, ROWS * n);
                for (int r = 0; r < ROWS; r++)
                    for (int c = 0; c < n; c++)
                        memcpy(turned + (size_t)(c * ROWS + r) * item,
                               x + (size_t)(r * n + c) * item, item);
                kl_cpu_use_variant(0);
                RUN(cases[i].op, &last, dense(&z, want, type, DIMS(n, 1)),
                    IN(dense(&a, turned, type, DIMS(n, ROWS))), false);
                for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
                    kl_cpu_use_variant(variant);
                    memset(got, 0x5a, sizeof got);
                    RUN(cases[i].op, &down, dense(&z, got, type, DIMS(1, n)),
                        IN(dense(&a, x, type, DIMS(ROWS, n))), true);
                    one_nan(got, type, (size_t)n * item);
                    one_nan(want, type, (size_t)n * item);
                    if (memcmp(got, want, (size_t)n * item))
                        fail_msg("case %d, %s, %d columns: other bits", i, kl_dtype_name(type), n);
                }
            }
    kl_cpu_use_variant(-1);
    free(x);
    free(turned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),      cmocka_unit_test(turned_rows),
        cmocka_unit_test(narrow_columns), cmocka_unit_test(special_values),
        cmocka_unit_test(batches),        cmocka_unit_test(logsumexp_batches),
        cmocka_unit_test(partial_tiles),  cmocka_unit_test(which_axes),
        cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
