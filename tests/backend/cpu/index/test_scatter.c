/* test_scatter.c - SCATTER and SCATTER_AXIS: launches over a part of the positions, results in
 * place, and wrong indices, after which nothing is written. */
#include "backend/cpu/kernel_support.h"

#include "base/alloc.h"
#include "base/number/half.h"

static struct {
    enum kl_scatter_mode mode;
    int n_axes, axes[1];
} add = {KL_SCATTER_ADD, 1, {0}}, assign = {KL_SCATTER_ASSIGN, 1, {0}};

static void parts(void **state) {
    int32_t base[] = {10, 20, 30}, up[] = {1, 2, 3, 4}, i[] = {0, 3, -1, -5}, out[3];
    struct operand x, u, y, z;
    dense(&x, base, KL_I32, DIMS(3));
    dense(&u, up, KL_I32, DIMS(4, 1));
    dense(&y, i, KL_I32, DIMS(4));
    dense(&z, out, KL_I32, DIMS(3));
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 0, 2, false), 1);
    assert_memory_equal(out, ((int32_t[]){11, 20, 30}), sizeof out);
    /* The elements before the first position are kept. */
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 2, 4, false), 3);
    assert_memory_equal(out, ((int32_t[]){11, 20, 33}), sizeof out);
    /* The output has the memory of the base. */
    assert_int_equal(launch(KL_OP_SCATTER, &add, &x, IN(&x, &u, &y), true, 0, 4, false), 1);
    assert_memory_equal(base, ((int32_t[]){11, 20, 33}), sizeof base);
    struct kl_scatter_axis_params axis = {KL_SCATTER_MAX, 0};
    dense(&u, up, KL_I32, DIMS(4));
    up[0] = 50;
    assert_int_equal(launch(KL_OP_SCATTER_AXIS, &axis, &z, IN(&x, &u, &y), true, 0, 1, false),
                     KL_NO_FAULT);
    assert_memory_equal(out, ((int32_t[]){50, 20, 33}), sizeof out);
    assert_int_equal(launch(KL_OP_SCATTER_AXIS, &axis, &z, IN(&x, &u, &y), true, 1, 4, false), 1);
    assert_memory_equal(out, ((int32_t[]){50, 20, 33}), sizeof out);
}

/* There are more positions than a tile holds. Of equal indices the highest position is assigned
 * last. Unchecked negative indices still count from the end. */
static void duplicates(void **state) {
    enum { N = 2000 };
    int32_t base[2] = {0, 0}, up[N], out[2];
    int8_t i[N];
    struct operand x, u, y, z;
    for (int k = 0; k < N; k++) {
        up[k] = k;
        i[k] = (int8_t)(k % 2 ? -1 : 0);
    }
    dense(&x, base, KL_I32, DIMS(2));
    dense(&u, up, KL_I32, DIMS(N, 1));
    dense(&y, i, KL_I8, DIMS(N));
    dense(&z, out, KL_I32, DIMS(2));
    for (int checked = 0; checked < 2; checked++) {
        assert_int_equal(launch(KL_OP_SCATTER, &assign, &z, IN(&x, &u, &y), checked, 0, N, true),
                         KL_NO_FAULT);
        assert_memory_equal(out, ((int32_t[]){N - 2, N - 1}), sizeof out);
    }
}

/* ---- many positions: by buckets ---- */
static uint32_t seed = 5;
static uint32_t next_random(void) {
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* Fills with numbers whose sum depends on the order of addition. */
static void fill(void *data, enum kl_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float f = ((float)next_random() - 8e6f) / (float)(1 + next_random() % 100000);
        uint16_t half = kl_f32_to_f16(f), brain = kl_f32_to_bf16(f);
        switch (dtype) {
        case KL_F16: ((uint16_t *)data)[i] = half; break;
        case KL_BF16: ((uint16_t *)data)[i] = brain; break;
        case KL_F32: ((float *)data)[i] = f; break;
        case KL_F64: ((double *)data)[i] = f / 3.0; break;
        case KL_C64:
            ((float *)data)[2 * i] = f;
            ((float *)data)[2 * i + 1] = 1 / f;
            break;
        case KL_BOOL: ((uint8_t *)data)[i] = next_random() & 1; break;
        default:
            for (size_t b = 0; b < kl_dtype_size(dtype); b++)
                ((uint8_t *)data)[(size_t)i * kl_dtype_size(dtype) + b] = (uint8_t)next_random();
        }
    }
}

/* Whether all elements have equal bits, or are NaN on both sides. */
static bool same(const void *x, const void *y, enum kl_dtype dtype, int64_t n) {
    if (memcmp(x, y, (size_t)n * kl_dtype_size(dtype)) == 0) return true;
    int64_t parts = dtype == KL_C64 ? 2 * n : n;
    for (int64_t i = 0; i < parts; i++) {
        double a = NAN, b = 0;
        switch (dtype) {
        case KL_F16:
            a = (double)kl_f16_to_f32(((const uint16_t *)x)[i]);
            b = (double)kl_f16_to_f32(((const uint16_t *)y)[i]);
            break;
        case KL_BF16:
            a = (double)kl_bf16_to_f32(((const uint16_t *)x)[i]);
            b = (double)kl_bf16_to_f32(((const uint16_t *)y)[i]);
            break;
        case KL_F32:
        case KL_C64:
            a = (double)((const float *)x)[i];
            b = (double)((const float *)y)[i];
            break;
        case KL_F64:
            a = ((const double *)x)[i];
            b = ((const double *)y)[i];
            break;
        default: return false;
        }
        if (!(a == b && signbit(a) == signbit(b)) && !(isnan(a) && isnan(b))) return false;
    }
    return true;
}

/* Runs the whole scatter at once, and again in launches of a few positions each, which are written
 * one by one. Both give the same bits and report the same wrong index, in every variant. Single
 * elements are written to small outputs by one thread. */
static void whole_and_in_parts(enum kl_op_id op, const void *params, struct operand *base, int n_in,
                               struct operand *const *in, int64_t positions, bool in_place,
                               int64_t fault) {
    enum { FEW = 60, SMALL = 1 << 17 };
    size_t bytes = (size_t)base->arg.size * kl_dtype_size(base->arg.dtype);
    char *want = malloc(bytes), *got = malloc(bytes);
    struct operand out;
    struct operand *all[4] = {base, in[0], n_in > 1 ? in[1] : NULL, n_in > 2 ? in[2] : NULL};
    int64_t found = KL_NO_FAULT;
    dense(&out, want, base->arg.dtype, base->arg.ndim, base->dims);
    for (int64_t at = 0; at < positions; at += FEW) {
        int64_t end = at + FEW < positions ? at + FEW : positions;
        int64_t f = launch(op, params, &out, n_in + 1, all, true, at, end, false);
        if (f < found) found = f;
    }
    assert_int_equal(found, fault);
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        struct operand start = *base;
        kl_cpu_use_variant(v);
        memset(got, 0x55, bytes);
        out.arg.data = got;
        if (in_place) {
            memcpy(got, base->arg.data, bytes);
            dense(&start, got, base->arg.dtype, base->arg.ndim, base->dims);
        }
        start.arg.dims = start.dims;
        start.arg.strides = start.strides;
        all[0] = &start;
        n_shared = 0;
        assert_int_equal(launch(op, params, &out, n_in + 1, all, true, 0, positions, true), fault);
        assert_true(n_shared > 0 || base->arg.size <= SMALL);
        if (!same(got, want, base->arg.dtype, base->arg.size))
            fail_msg("%s: mode %d, %s", kl_cpu_variant_name(v), *(const int *)params,
                     kl_dtype_name(base->arg.dtype));
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(want);
    free(got);
}

/* Elements and slices of every dtype, and every mode; many different places and few; some cases
 * have a wrong index. */
static void by_buckets(void **state) {
    enum { N = 70001, MOST = 200000 };
    static const struct {
        int rows, width, n, bad;
        bool in_place;
    } cases[] = {{MOST, 1, N, -1, false},     {3, 1, N, -1, true},
                 {1, 1, N, 0, false},         {5000, 1, N, N - 1, true},
                 {1 << 16, 1, N, 333, false}, {999, 7, N / 7, -1, false},
                 {65, 64, 1000, 999, true},   {20000, 5, N / 5, 511, false}};
    char *base = malloc(MOST * 8), *up = malloc((size_t)N * 8);
    int32_t *i = malloc(N * sizeof *i);
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (int mode = KL_SCATTER_ASSIGN; mode <= KL_SCATTER_ADD_DENORMAL; mode++) {
                int rows = cases[c].rows, width = cases[c].width, n = cases[c].n;
                struct {
                    enum kl_scatter_mode mode;
                    int n_axes, axes[1];
                } p = {(enum kl_scatter_mode)mode, 1, {0}};
                struct operand x, u, y;
                if (kl_dtype_size((enum kl_dtype)d) * (size_t)n * (size_t)width < 1 << 17) n = 0;
                if (n == 0) continue; /* scatters of fewer bytes do not use buckets */
                if (!kl_test_takes("cpu", 1)) continue;
                fill(base, (enum kl_dtype)d, (int64_t)rows * width);
                fill(up, (enum kl_dtype)d, (int64_t)n * width);
                for (int k = 0; k < n; k++)
                    i[k] = (int32_t)(next_random() % (uint32_t)(2 * rows)) - rows;
                if (cases[c].bad >= 0) {
                    i[cases[c].bad] = rows;
                    i[n - 1] = INT32_MIN;
                }
                dense(&x, base, (enum kl_dtype)d, DIMS(rows, width));
                dense(&u, up, (enum kl_dtype)d, DIMS(n, 1, width));
                dense(&y, i, KL_I32, DIMS(n));
                whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y), n, cases[c].in_place,
                                   cases[c].bad >= 0 ? cases[c].bad : KL_NO_FAULT);
            }
    free(base);
    free(up);
    free(i);
}

/* A bucket gets a few entries less than a whole number of cache lines or chunks, exactly that
 * number, or a few more. Updates are single elements or slices. */
static void chunks(void **state) {
    enum { N = 33000, ROWS = 140000, WIDTH = 8 };
    static const int few[] = {0,  1,  7,   8,   9,   15,  16,  17,  63,
                              64, 65, 127, 128, 129, 255, 256, 257, 1024};
    char *base = malloc((size_t)ROWS * WIDTH * 8), *up = malloc((size_t)N * WIDTH * 8);
    int32_t *i = malloc(N * sizeof *i);
    for (size_t c = 0; c < sizeof few / sizeof *few; c++)
        for (int which = 0; which < 8; which++) {
            enum kl_dtype dtype = which & 1 ? KL_F64 : KL_F32;
            int width = which & 4 ? WIDTH : 1;
            struct operand x, u, y;
            if (!kl_test_takes("cpu", 1)) continue;
            fill(base, dtype, (int64_t)ROWS * width);
            fill(up, dtype, (int64_t)N * width);
            for (int k = 0; k < N; k++) i[k] = ROWS - 1 - (int32_t)(next_random() % 50);
            for (int k = 0; k < few[c]; k++) i[k * 30] = (int32_t)(next_random() % 10);
            dense(&x, base, dtype, DIMS(ROWS, width));
            dense(&u, up, dtype, DIMS(N, 1, width));
            dense(&y, i, KL_I32, DIMS(N));
            whole_and_in_parts(KL_OP_SCATTER, which & 2 ? &add : &assign, &x, IN(&u, &y), N, false,
                               KL_NO_FAULT);
        }
    free(base);
    free(up);
    free(i);
}

/* Every type of index; indices of two axes; slices that are strided; updates and a base that are
 * transposed; and SCATTER_AXIS. */
static void layouts(int rows) {
    enum { COLUMNS = 200, N = 40000 };
    float *base = malloc((size_t)rows * COLUMNS * 4), *up = malloc(N * 64);
    int64_t *wide = malloc(N * 8);
    int32_t *i = malloc(N * 4), *k = malloc(N * 4);
    struct operand x, u, y, z;
    fill(base, KL_F32, rows * COLUMNS);
    fill(up, KL_F32, N * 16);
    for (int mode = KL_SCATTER_ASSIGN; mode <= KL_SCATTER_ADD; mode++) {
        struct {
            enum kl_scatter_mode mode;
            int n_axes, axes[2];
        } p = {(enum kl_scatter_mode)mode, 2, {0, 1}};
        for (int e = 0; e < N; e++) {
            i[e] = (int32_t)(next_random() % (2 * rows)) - rows;
            k[e] = (int32_t)(next_random() % (2 * COLUMNS)) - COLUMNS;
        }
        dense(&y, i, KL_I32, DIMS(N));
        dense(&z, k, KL_I32, DIMS(N));
        dense(&x, base, KL_F32, DIMS(rows, COLUMNS));
        dense(&u, up, KL_F32, DIMS(N, 1, 1));
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y, &z), N, false, KL_NO_FAULT);
        k[7000] = COLUMNS;
        i[31] = -rows - 1;
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y, &z), N, false, 31);
        i[31] = 0;
        /* The positions have two axes. The updates and the base are transposed. */
        strided_operand(&u, up, KL_F32, DIMS(200, 200, 1, 1), STRIDES(1, 200, 1, 1));
        strided_operand(&y, i, KL_I32, DIMS(200, 200), STRIDES(1, 200));
        strided_operand(&z, k, KL_I32, DIMS(200, 200), STRIDES(0, 1));
        strided_operand(&x, base, KL_F32, DIMS(rows, COLUMNS), STRIDES(1, rows));
        k[7000] = 0;
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y, &z), N, false, KL_NO_FAULT);
        dense(&x, base, KL_F32, DIMS(rows, COLUMNS));
        dense(&y, i, KL_I32, DIMS(N));
        dense(&z, k, KL_I32, DIMS(N));
        p.n_axes = 1;
        /* Slices that are shorter than a row; then slices that are columns; then transposed
         * slices. */
        dense(&u, up, KL_F32, DIMS(N, 1, 7));
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y), N, true, KL_NO_FAULT);
        p.axes[0] = 1;
        dense(&u, up, KL_F32, DIMS(N, 16, 1));
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &z), N, false, KL_NO_FAULT);
        strided_operand(&u, up, KL_F32, DIMS(N, 16, 1), STRIDES(1, N, 1));
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &z), N, false, KL_NO_FAULT);
        /* One update is broadcast to all positions. */
        strided_operand(&u, up, KL_F32, DIMS(N, 1, 1), STRIDES(0, 0, 0));
        whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &z), N, false, KL_NO_FAULT);
        static const enum kl_dtype types[] = {KL_U8,  KL_U16, KL_U32, KL_U64,     KL_I8,
                                              KL_I16, KL_I32, KL_I64, KL_N_DTYPES};
        p.axes[0] = 0;
        dense(&u, up, KL_F32, DIMS(N, 1, 1));
        for (int t = 0; types[t] != KL_N_DTYPES; t++) {
            bool is_signed = types[t] >= KL_I8;
            for (int e = 0; e < N; e++) {
                int v = (int)(next_random() % 127) - (is_signed ? 63 : 0);
                switch (kl_dtype_size(types[t])) {
                case 1: ((int8_t *)wide)[e] = (int8_t)v; break;
                case 2: ((int16_t *)wide)[e] = (int16_t)v; break;
                case 4: ((int32_t *)wide)[e] = v; break;
                default: wide[e] = v; break;
                }
            }
            dense(&y, wide, types[t], DIMS(N));
            whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y), N, false, KL_NO_FAULT);
            /* As uint64 this is the largest number, not index -1. */
            if (types[t] == KL_U64) wide[9] = -1;
            if (types[t] == KL_I64) wide[9] = INT64_C(1) << 32;
            if (kl_dtype_size(types[t]) == 8)
                whole_and_in_parts(KL_OP_SCATTER, &p, &x, IN(&u, &y), N, false, 9);
        }
        struct kl_scatter_axis_params axis = {(enum kl_scatter_mode)mode, 0};
        dense(&u, up, KL_F32, DIMS(200, COLUMNS));
        dense(&y, i, KL_I32, DIMS(200, COLUMNS));
        whole_and_in_parts(KL_OP_SCATTER_AXIS, &axis, &x, IN(&u, &y), N, false, KL_NO_FAULT);
        axis.axis = 1;
        dense(&y, k, KL_I32, DIMS(200, COLUMNS));
        whole_and_in_parts(KL_OP_SCATTER_AXIS, &axis, &x, IN(&u, &y), N, true, KL_NO_FAULT);
    }
    free(base);
    free(up);
    free(wide);
    free(i);
    free(k);
}

static void bucket_layouts(void **state) {
    layouts(700);
}
static void small_layouts(void **state) {
    layouts(300);
}

/* Overlapping slices are written one after another, in the order of their positions. */
static void overlapping(void **state) {
    enum { N = 40000, ROWS = 5000 };
    float *base = calloc(ROWS, 4), *up = malloc(N * 8), *want = calloc(ROWS, 4),
          *out = malloc(ROWS * 4);
    int32_t *i = malloc(N * 4);
    struct operand x, u, y, z;
    fill(up, KL_F32, N * 2);
    for (int k = 0; k < N; k++) {
        i[k] = (int32_t)(next_random() % (ROWS - 1));
        memcpy(want + i[k], up + 2 * k, 8);
    }
    dense(&x, base, KL_F32, DIMS(ROWS));
    dense(&u, up, KL_F32, DIMS(N, 2));
    dense(&y, i, KL_I32, DIMS(N));
    dense(&z, out, KL_F32, DIMS(ROWS));
    assert_int_equal(launch(KL_OP_SCATTER, &assign, &z, IN(&x, &u, &y), true, 0, N, true),
                     KL_NO_FAULT);
    assert_memory_equal(out, want, ROWS * 4);
    free(base);
    free(up);
    free(want);
    free(out);
    free(i);
}

/* When the memory for the buckets is missing, the result is the same. */
static void no_memory(void **state) {
    enum { N = 140000 };
    int32_t *base = calloc(N, 4), *up = malloc(N * 4), *out = malloc(N * 4), *want = malloc(N * 4);
    struct operand x, u, z;
    fill(up, KL_I32, N);
    for (int k = 0; k < N; k++) base[k] = k * 7 % N;
    struct operand y;
    dense(&x, base, KL_I32, DIMS(N));
    dense(&y, base, KL_I32, DIMS(N));
    dense(&u, up, KL_I32, DIMS(N, 1));
    dense(&z, out, KL_I32, DIMS(N));
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 0, N, true),
                     KL_NO_FAULT);
    memcpy(want, out, N * 4);
    kl_test_fail_alloc_at(0);
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 0, N, true),
                     KL_NO_FAULT);
    assert_true(kl_test_alloc_failed());
    kl_test_fail_alloc_at(-1);
    assert_memory_equal(out, want, N * 4);
    free(base);
    free(up);
    free(out);
    free(want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts),          cmocka_unit_test(duplicates),
        cmocka_unit_test(by_buckets),     cmocka_unit_test(chunks),
        cmocka_unit_test(bucket_layouts), cmocka_unit_test(small_layouts),
        cmocka_unit_test(overlapping),    cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
