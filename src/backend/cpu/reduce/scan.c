/* scan.c - CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP along one axis. The order of joins depends
 * on the length alone, so strides, threads and the way through memory change no bit;
 * docs/notes/cpu-kernels.md describes it. Memory is walked row by row along the axis, or, where
 * other axes lie closer together, by runs of columns side by side. Threads compute segments of long
 * rows, whose totals are found first. An exclusive scan is the scan of all elements but the last,
 * stored one place further. A reversed scan is a scan of the reversed row. */
#include <string.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/tile.h"
#include "backend/cpu/vector/simd.h"
#include "base/alloc.h"
#include "base/op_params.h"

enum {
    GROUP = 16,
    SEGMENT = 1 << 16, /* a multiple of KL_TILE and of GROUP */
    WIDTH = 4096,      /* bytes of values side by side: KL_TILE of the widest type */
    MIN_COLUMNS = 16,  /* fewer columns side by side are not worth it */
};
enum { PREFIX, TOTAL, LOCAL, OFFSET, N_PARTS };

/* The state of a scan: of one row (parts are single values) or of columns (parts are WIDTH
 * bytes). */
struct state {
    bool has_prefix, has_total;
    /* not 0: contiguous short rows of so many groups; whole squares of scan_simd.inc */
    int row_groups;
    _Alignas(64) char parts[N_PARTS * WIDTH];
};

#define SUM_OF(a, b) ((a) + (b))
#define PRODUCT_OF(a, b) ((a) * (b))
#define WRAPPED_PRODUCT_OF(a, b) ((a)*1u * (b)) /* products of 16-bit numbers would be signed */
#define AND_OF(a, b) ((a) & (b))

/* log(exp(a) + exp(b)) */
/* Not inlined: they call functions of the C library, and each place that uses them would grow. */
static __attribute__((noinline)) float log_add_f32(float a, float b) {
    float high = kl_max_f32(a, b), low = kl_min_f32(a, b);
    return high == low || fabsf(high) == INFINITY || low == -INFINITY
               ? (high == low && fabsf(high) < INFINITY ? high + 0.693147181f : high)
               : high + log1pf(expf(low - high));
}
static __attribute__((noinline)) double log_add_f64(double a, double b) {
    double high = kl_max_f64(a, b), low = kl_min_f64(a, b);
    return high == low || fabs(high) == INFINITY || low == -INFINITY
               ? (high == low && fabs(high) < INFINITY ? high + 0.69314718055994530942 : high)
               : high + log1p(exp(low - high));
}
static __attribute__((noinline)) struct kl_c64 log_add_c64(struct kl_c64 a, struct kl_c64 b) {
    float top = kl_max_f32(a.re, b.re);
    if (fabsf(top) == INFINITY) return a.re == top ? a : b;
    a.re -= top;
    b.re -= top;
    struct kl_c64 sum = kl_c64_log(kl_c64_add(kl_c64_exp(a), kl_c64_exp(b)));
    sum.re += top;
    return sum;
}

/* Signed sums and products wrap, so unsigned ones serve for both. */
#define T uint8_t
#define NAME sum_u8
#define JOIN SUM_OF
/* defines row_sum_u8, column_sum_u8, group_sum_u8, segment_sum_u8 */
#include "backend/cpu/reduce/scan.inc"
#define T uint16_t
#define NAME sum_u16
#define JOIN SUM_OF
/* defines row_sum_u16, column_sum_u16, group_sum_u16, segment_sum_u16 */
#include "backend/cpu/reduce/scan.inc"
#define T uint32_t
#define NAME sum_u32
#define JOIN SUM_OF
/* defines row_sum_u32, column_sum_u32, group_sum_u32, segment_sum_u32 */
#include "backend/cpu/reduce/scan.inc"
#define T uint64_t
#define NAME sum_u64
#define JOIN SUM_OF
/* defines row_sum_u64, column_sum_u64, group_sum_u64, segment_sum_u64 */
#include "backend/cpu/reduce/scan.inc"
#define T float
#define NAME sum_f32
#define JOIN SUM_OF
/* defines row_sum_f32, column_sum_f32, group_sum_f32, segment_sum_f32 */
#include "backend/cpu/reduce/scan.inc"
#define T double
#define NAME sum_f64
#define JOIN SUM_OF
/* defines row_sum_f64, column_sum_f64, group_sum_f64, segment_sum_f64 */
#include "backend/cpu/reduce/scan.inc"
#define T struct kl_c64
#define NAME sum_c64
#define JOIN kl_c64_add
/* defines row_sum_c64, column_sum_c64, group_sum_c64, segment_sum_c64 */
#include "backend/cpu/reduce/scan.inc"
#define T uint8_t
#define NAME prod_u8
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u8, column_prod_u8, group_prod_u8, segment_prod_u8 */
#include "backend/cpu/reduce/scan.inc"
#define T uint16_t
#define NAME prod_u16
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u16, column_prod_u16, group_prod_u16, segment_prod_u16 */
#include "backend/cpu/reduce/scan.inc"
#define T uint32_t
#define NAME prod_u32
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u32, column_prod_u32, group_prod_u32, segment_prod_u32 */
#include "backend/cpu/reduce/scan.inc"
#define T uint64_t
#define NAME prod_u64
#define JOIN WRAPPED_PRODUCT_OF
/* defines row_prod_u64, column_prod_u64, group_prod_u64, segment_prod_u64 */
#include "backend/cpu/reduce/scan.inc"
#define T float
#define NAME prod_f32
#define JOIN PRODUCT_OF
/* defines row_prod_f32, column_prod_f32, group_prod_f32, segment_prod_f32 */
#include "backend/cpu/reduce/scan.inc"
#define T double
#define NAME prod_f64
#define JOIN PRODUCT_OF
/* defines row_prod_f64, column_prod_f64, group_prod_f64, segment_prod_f64 */
#include "backend/cpu/reduce/scan.inc"
#define T struct kl_c64
#define NAME prod_c64
#define JOIN kl_c64_mul
/* defines row_prod_c64, column_prod_c64, group_prod_c64, segment_prod_c64 */
#include "backend/cpu/reduce/scan.inc"
#define T uint8_t
#define NAME and_b8
#define JOIN AND_OF
/* defines row_and_b8, column_and_b8, group_and_b8, segment_and_b8 */
#include "backend/cpu/reduce/scan.inc"
#define KL_TEMPLATE "backend/cpu/reduce/scan.inc"
/* defines row_max_u8, column_max_u8, group_max_u8, segment_max_u8, row_max_u16, column_max_u16,
 * group_max_u16, segment_max_u16, row_max_u32, column_max_u32, group_max_u32, segment_max_u32,
 * row_max_u64, column_max_u64, group_max_u64, segment_max_u64, row_max_i8, column_max_i8,
 * group_max_i8, segment_max_i8, row_max_i16, column_max_i16, group_max_i16, segment_max_i16,
 * row_max_i32, column_max_i32, group_max_i32, segment_max_i32, row_max_i64, column_max_i64,
 * group_max_i64, segment_max_i64, row_max_f32, column_max_f32, group_max_f32, segment_max_f32,
 * row_max_f64, column_max_f64, group_max_f64, segment_max_f64, row_max_c64, column_max_c64,
 * group_max_c64, segment_max_c64, row_min_u8, column_min_u8, group_min_u8, segment_min_u8,
 * row_min_u16, column_min_u16, group_min_u16, segment_min_u16, row_min_u32, column_min_u32,
 * group_min_u32, segment_min_u32, row_min_u64, column_min_u64, group_min_u64, segment_min_u64,
 * row_min_i8, column_min_i8, group_min_i8, segment_min_i8, row_min_i16, column_min_i16,
 * group_min_i16, segment_min_i16, row_min_i32, column_min_i32, group_min_i32, segment_min_i32,
 * row_min_i64, column_min_i64, group_min_i64, segment_min_i64, row_min_f32, column_min_f32,
 * group_min_f32, segment_min_f32, row_min_f64, column_min_f64, group_min_f64, segment_min_f64,
 * row_min_c64, column_min_c64, group_min_c64, segment_min_c64 */
#include "backend/cpu/reduce/extremes.inc"
#define T float
#define NAME log_f32
#define JOIN log_add_f32
/* defines row_log_f32, column_log_f32, group_log_f32, segment_log_f32 */
#include "backend/cpu/reduce/scan.inc"
#define T double
#define NAME log_f64
#define JOIN log_add_f64
/* defines row_log_f64, column_log_f64, group_log_f64, segment_log_f64 */
#include "backend/cpu/reduce/scan.inc"
#define T struct kl_c64
#define NAME log_c64
#define JOIN log_add_c64
/* defines row_log_c64, column_log_c64, group_log_c64, segment_log_c64 */
#include "backend/cpu/reduce/scan.inc"

#if KL_HAS_SIMD
#define EACH_OF_16(DO) \
    DO(0)              \
    DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#if defined __AVX512F__
#define TRANSPOSE(t) kl_simd_transpose(t)
#define EACH_PAIR(DO) DO(0, 1) DO(2, 3) DO(4, 5) DO(6, 7) DO(8, 9) DO(10, 11) DO(12, 13) DO(14, 15)
#else
#define EACH_PAIR(DO) DO(0, 8) DO(1, 9) DO(2, 10) DO(3, 11) DO(4, 12) DO(5, 13) DO(6, 14) DO(7, 15)
#define TRANSPOSE(t) (kl_simd_transpose(t), kl_simd_transpose((t) + KL_SIMD))
#endif
/* Stores two vectors, the second behind the first. */
static inline void put_f32(float *y, kl_simd first, kl_simd second) {
    kl_simd_store_f32(y, first);
    kl_simd_store_f32(y + KL_SIMD, second);
}
static inline void put_f16(uint16_t *y, kl_simd first, kl_simd second) {
    kl_simd_store_f16(y, first);
    kl_simd_store_f16(y + KL_SIMD, second);
}
#define IS_F32
#define NAME sum_f32
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM float
#define DTYPE KL_F32
#define WIDE kl_simd_load_f32
#define PUT put_f32
#define OF sum_f32
/* defines groups_sum_f32 */
#include "backend/cpu/reduce/scan_simd.inc"
#define NAME sum_f16
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM uint16_t
#define DTYPE KL_F16
#define WIDE kl_simd_load_f16
#define PUT put_f16
#define OF sum_f32
/* defines groups_sum_f16, columns_sum_f16 */
#include "backend/cpu/reduce/scan_simd.inc"
#ifdef __AVX512F__
#include "backend/cpu/reduce/scan_avx512.h"
#define PAIRS
#endif
#define NAME sum_bf16
#define JOIN SUM_OF
#define IDENTITY -0.0f
#define FROM uint16_t
#define DTYPE KL_BF16
#define WIDE kl_simd_load_bf16
#define PUT kl_simd_store_bf16
#define OF sum_f32
/* defines groups_sum_bf16, columns_sum_bf16 */
#include "backend/cpu/reduce/scan_simd.inc"
#else
#define groups_sum_f32 row_sum_f32
#endif

struct join {
    void (*row)(struct state *s, void *y, const void *x, int64_t n); /* y NULL: the totals alone */
    void (*column)(struct state *s, void *y, const void *x, int64_t r, int64_t n);
    void (*group)(struct state *s, int64_t n);
    void (*segment)(struct state *s, int64_t apart, int64_t n);
};
#define JOIN_OF(name) \
    { row_##name, column_##name, group_##name, segment_##name }
#define FLOATS(op) [KL_F64] = JOIN_OF(op##_f64), [KL_C64] = JOIN_OF(op##_c64)
#define UNSIGNEDS(op)                                                                       \
    [KL_U8] = JOIN_OF(op##_u8), [KL_U16] = JOIN_OF(op##_u16), [KL_U32] = JOIN_OF(op##_u32), \
    [KL_U64] = JOIN_OF(op##_u64)
#define SIGNEDS(op, of)                                                 \
    [KL_I8] = JOIN_OF(op##_##of##8), [KL_I16] = JOIN_OF(op##_##of##16), \
    [KL_I32] = JOIN_OF(op##_##of##32), [KL_I64] = JOIN_OF(op##_##of##64)
static const struct join joins[][KL_N_DTYPES] = {
    {UNSIGNEDS(sum),
     SIGNEDS(sum, u), [KL_F32] = {groups_sum_f32, column_sum_f32, group_sum_f32, segment_sum_f32},
     FLOATS(sum)},
    {[KL_BOOL] = JOIN_OF(and_b8),
     UNSIGNEDS(prod),
     SIGNEDS(prod, u),
     [KL_F32] = JOIN_OF(prod_f32),
     FLOATS(prod)},
    {[KL_BOOL] = JOIN_OF(max_u8),
     UNSIGNEDS(max),
     SIGNEDS(max, i),
     [KL_F32] = JOIN_OF(max_f32),
     FLOATS(max)},
    {[KL_BOOL] = JOIN_OF(min_u8),
     UNSIGNEDS(min),
     SIGNEDS(min, i),
     [KL_F32] = JOIN_OF(min_f32),
     FLOATS(min)},
    {[KL_F32] = JOIN_OF(log_f32), FLOATS(log)},
};
#if KL_HAS_SIMD
/* Sums of 16-bit floats, which are read and stored without tiles. */
static const struct join halves[KL_N_DTYPES] = {
    [KL_F16] = {groups_sum_f16, columns_sum_f16, group_sum_f32, segment_sum_f32},
    [KL_BF16] = {groups_sum_bf16, columns_sum_bf16, group_sum_f32, segment_sum_f32}};
#endif
_Static_assert(KL_OP_CUMPROD == KL_OP_CUMSUM + 1 && KL_OP_CUMMAX == KL_OP_CUMSUM + 2 &&
                   KL_OP_CUMMIN == KL_OP_CUMSUM + 3 && KL_OP_LOGCUMSUMEXP == KL_OP_CUMSUM + 4,
               "the order of joins");

struct job {
    const struct kl_launch *l;
    struct join join;
    enum kl_dtype type; /* the compute type */
    /* what rows read and write: `type`, or the dtype of 16-bit floats without tiles */
    enum kl_dtype read;
    int bytes, in_item, out_item;
    int64_t length;            /* of a scan: of the axis, or one less for an exclusive scan */
    int64_t in_step, out_step; /* along the axis, in elements, in the direction of the scan */
    /* from the start of a row to the first element of the scan, in elements */
    int64_t in_first, out_first;
    unsigned char first[8]; /* as the output's dtype: the first element of an exclusive scan */
    bool inclusive;
    /* The other axes. */
    int n, dims[KL_LONG_AXES];
    int64_t in_strides[KL_LONG_AXES], out_strides[KL_LONG_AXES];
    /* rows of one task; segments of each row, where threads divide rows */
    int64_t rows, group, segments;
    int64_t run, run_groups; /* columns side by side; tasks of each run */
    char *totals;            /* [rows][segments] of type: totals, then prefixes */
};

static char *element(const struct kl_arg *a, int64_t offset) {
    return (char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

static void put_first(const struct job *j, int64_t out_offset, int64_t n) {
    char *y = element(j->l->out, out_offset - j->out_step);
    for (int64_t c = 0; c < n; c++) memcpy(y + c * j->out_item, j->first, (size_t)j->out_item);
}

/* Elements [from, from + count) of the scan of a row; count <= SEGMENT, except for whole rows.
 * write: the results are stored. */
static void scan_part(const struct job *j, struct state *s, int64_t in_offset, int64_t out_offset,
                      int64_t from, int64_t count, bool write) {
    int dim = (int)j->length;
    struct kl_cursor x, y;
    union kl_tile raw, tile, result, stored;
    if (count == 0) return;
    kl_cursor_init(&x, element(j->l->in, in_offset), j->in_item, 1, &dim, &j->in_step);
    kl_cursor_init(&y, element(j->l->out, out_offset), j->out_item, 1, &dim, &j->out_step);
    kl_cursor_seek(&x, from);
    kl_cursor_seek(&y, from);
    bool same = j->l->out->dtype == j->read;
    for (int64_t at = 0; at < count; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, count - at);
        const void *v = kl_cursor_next_as(&x, n, j->l->in->dtype, j->read, &raw, &tile);
        void *to = write && same ? kl_cursor_claim(&y, n) : NULL;
        j->join.row(s, write ? (to ? to : (void *)result.bytes) : NULL, v, n);
        if (write && !to) {
            if (!same) kl_convert(j->l->out->dtype, stored.bytes, j->read, result.bytes, n);
            kl_cursor_write(&y, n, same ? result.bytes : stored.bytes);
        }
        if ((from + at + n) % SEGMENT == 0 && write) j->join.segment(s, 1, 1);
    }
}

static void offsets_of(const struct job *j, int64_t row, int64_t *in, int64_t *out) {
    kl_offsets(j->n, j->dims, j->in_strides, row, 1, in);
    kl_offsets(j->n, j->dims, j->out_strides, row, 1, out);
    *in += j->in_first;
    *out += j->out_first;
}

/* Whole rows. */
static void row_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows), in, out;
    struct state s;
    s.row_groups = 0;
    for (int64_t row = i * j->group; row < end; row++) {
        offsets_of(j, row, &in, &out);
        if (!j->inclusive) put_first(j, out, 1);
        s.has_prefix = s.has_total = false;
        scan_part(j, &s, in, out, 0, j->length, true);
    }
}

bool kl_cpu_scans_squares(const struct kl_launch *l, int64_t length) {
#if KL_HAS_SIMD
    const struct kl_scan_params *p = l->params;
    const enum kl_dtype dtype = l->in->dtype;
    return l->op == KL_OP_CUMSUM && p->inclusive && !p->reverse && dtype == l->out->dtype &&
           (dtype == KL_F32 || dtype == KL_F16 || dtype == KL_BF16) && length % GROUP == 0 &&
           GROUP * KL_SIMD % length == 0;
#else
    return false;
#endif
}

#if KL_HAS_SIMD
/* Whether the rows are contiguous, so that several are scanned as one. */
static bool has_squares(const struct job *j) {
    return kl_cpu_scans_squares(j->l, j->length) && j->in_step == 1 && j->out_step == 1 &&
           (j->n == 0 ||
            (j->n == 1 && j->in_strides[0] == j->length && j->out_strides[0] == j->length));
}

static void squares_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    const int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->rows),
                  rest = (end - begin) % (GROUP * KL_SIMD / j->length);
    struct state s;
    for (int64_t row = begin, n; row < end; row += n) { /* the whole squares, then row by row */
        n = row == begin && end - begin > rest ? end - begin - rest : 1;
        s.has_prefix = s.has_total = false;
        s.row_groups = n > 1 ? (int)(j->length / GROUP) : 0;
        j->join.row(&s, element(j->l->out, row * j->length), element(j->l->in, row * j->length),
                    n * j->length);
    }
}
#endif

/* Segments of long rows: first their totals, then, with the totals of segments before them, their
 * elements. */
static void total_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t row = i / j->segments, segment = i % j->segments, from = segment * SEGMENT, in, out;
    struct state s = {.has_prefix = false};
    offsets_of(j, row, &in, &out);
    scan_part(j, &s, in, out, from, kl_min64(SEGMENT, j->length - from), false);
    memcpy(j->totals + i * j->bytes, s.parts + TOTAL * j->bytes, (size_t)j->bytes);
}
static void segment_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    int64_t row = i / j->segments, segment = i % j->segments, from = segment * SEGMENT, in, out;
    struct state s = {.has_prefix = segment > 0};
    offsets_of(j, row, &in, &out);
    if (segment > 0) /* what the segments before it give */
        memcpy(s.parts + PREFIX * j->bytes, j->totals + (i - 1) * j->bytes, (size_t)j->bytes);
    else if (!j->inclusive)
        put_first(j, out, 1);
    scan_part(j, &s, in, out, from, kl_min64(SEGMENT, j->length - from), true);
}

static int scan_long(struct job *j, const struct kl_launch *alone) {
    int64_t n = j->rows * j->segments;
    struct state s;
    j->totals = kl_malloc((size_t)(n * j->bytes));
    if (!j->totals) return kl_fail_nomem(j->l->err);
    kl_run_tasks(alone, n, total_chunk, j);
    for (int64_t row = 0; row < j->rows; row++) { /* totals become totals up to their segment */
        s.has_prefix = false;
        for (int64_t k = 0; k < j->segments; k++) {
            char *total = j->totals + (row * j->segments + k) * j->bytes;
            memcpy(s.parts + TOTAL * j->bytes, total, (size_t)j->bytes);
            j->join.segment(&s, 1, 1);
            memcpy(total, s.parts + PREFIX * j->bytes, (size_t)j->bytes);
        }
    }
    kl_run_tasks(alone, n, segment_chunk, j);
    kl_free(j->totals);
    return KL_OK;
}

/* Columns side by side. */
static void column_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    const struct kl_arg *in_arg = j->l->in, *out_arg = j->l->out;
    int64_t place = i % j->run_groups * j->group, n = kl_min64(j->group, j->run - place), in, out;
    struct state s;
    union kl_tile typed, result;
    s.has_prefix = s.has_total = false;
    offsets_of(j, i / j->run_groups * j->run + place, &in, &out);
    if (!j->inclusive) put_first(j, out, n);
    for (int64_t r = 0; r < j->length; r++) {
        const void *x = element(in_arg, in + r * j->in_step);
        void *y = element(out_arg, out + r * j->out_step);
        if (in_arg->dtype != j->read) {
            kl_convert(j->read, typed.bytes, in_arg->dtype, x, n);
            x = typed.bytes;
        }
        if (out_arg->dtype == j->read) {
            j->join.column(&s, y, x, r, n);
        } else {
            j->join.column(&s, result.bytes, x, r, n);
            kl_convert(out_arg->dtype, y, j->read, result.bytes, n);
        }
        if ((r + 1) % GROUP == 0) j->join.group(&s, n);
        if ((r + 1) % SEGMENT == 0) j->join.segment(&s, WIDTH / j->bytes, n);
    }
}

/* The value of an empty scan, in the output's dtype. */
static void find_first(struct job *j, enum kl_op_id op) {
    enum kl_dtype dtype = j->l->out->dtype;
    size_t bytes = kl_dtype_size(dtype);
    memset(j->first, 0, sizeof j->first);
    if (op == KL_OP_CUMSUM) return;
    bool high = op == KL_OP_CUMMIN;
    if (op == KL_OP_CUMPROD || kl_dtype_is_float(dtype) || dtype == KL_C64) {
        float x = op == KL_OP_CUMPROD ? 1 : high ? INFINITY : -INFINITY;
        struct kl_c64 z = {x, op == KL_OP_CUMMAX || high ? x : 0};
        if (dtype == KL_C64)
            memcpy(j->first, &z, sizeof z);
        else
            kl_convert(dtype, j->first, KL_F32, &x, 1);
    } else if (dtype == KL_BOOL) {
        j->first[0] = high;
    } else if (kl_dtype_is_signed(
                   dtype)) { /* for either byte order: all bytes but the sign's are equal */
        uint64_t sign = UINT64_C(1) << (8 * bytes - 1), value = high ? sign - 1 : sign;
        kl_convert(dtype, j->first, KL_U64, &value, 1);
    } else {
        memset(j->first, high ? 0xff : 0, bytes);
    }
}

int kl_cpu_scan(struct kl_launch *l) {
    const struct kl_scan_params *p = l->params;
    const struct kl_arg *in = l->in, *out = l->out;
    struct job j = {.l = l, .inclusive = p->inclusive, .rows = 1};
    if (out->size == 0) return KL_OK;
    j.type = j.read = kl_compute_dtype(out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.in_item = (int)kl_dtype_size(in->dtype);
    j.out_item = (int)kl_dtype_size(out->dtype);
    j.join = joins[l->op - KL_OP_CUMSUM][j.type];
    if (!j.join.row)
        return kl_fail(l->err, KL_EDTYPE, "no kernel for dtype %s", kl_dtype_name(out->dtype));
#if KL_HAS_SIMD
    if (l->op == KL_OP_CUMSUM && in->dtype == out->dtype && halves[in->dtype].row) {
        j.join = halves[in->dtype];
        j.read = in->dtype;
    }
#endif
    find_first(&j, l->op);
    int sign = p->reverse ? -1 : 1;
    int64_t last = in->dims[p->axis] - 1;
    j.length = last + p->inclusive;
    j.in_step = sign * in->strides[p->axis];
    j.out_step = sign * out->strides[p->axis];
    j.in_first = p->reverse ? last * in->strides[p->axis] : 0;
    j.out_first = (p->reverse ? last * out->strides[p->axis] : 0) + (p->inclusive ? 0 : j.out_step);
    for (int i = 0; i < in->ndim; i++) {
        if (i == p->axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.in_strides[j.n] = in->strides[i];
        j.out_strides[j.n++] = out->strides[i];
        j.rows *= in->dims[i];
    }
    /* Merges axes behind that of the scan which are contiguous in both operands. */
    while (j.n > 1 && j.in_strides[j.n - 2] == j.in_strides[j.n - 1] * j.dims[j.n - 1] &&
           j.out_strides[j.n - 2] == j.out_strides[j.n - 1] * j.dims[j.n - 1] &&
           (int64_t)j.dims[j.n - 2] * j.dims[j.n - 1] <= INT32_MAX) {
        j.n--;
        j.dims[j.n - 1] *= j.dims[j.n];
        j.in_strides[j.n - 1] = j.in_strides[j.n];
        j.out_strides[j.n - 1] = j.out_strides[j.n];
    }
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (j.n && j.in_strides[j.n - 1] == 1 && j.out_strides[j.n - 1] == 1 &&
        j.dims[j.n - 1] >= MIN_COLUMNS) {
        j.run = j.dims[j.n - 1];
        j.group = j.read == j.type ? kl_min64(KL_TILE, WIDTH / j.bytes) : WIDTH / j.bytes;
        j.run_groups = kl_ceil_div(j.run, j.group);
        kl_run_tasks(&alone, j.rows / j.run * j.run_groups, column_chunk, &j);
        return KL_OK;
    }
    j.segments = kl_ceil_div(j.length, SEGMENT);
    enum { FEW = 16 }; /* rows; fewer are not enough for all threads */
    if (alone.parallel && j.rows < FEW && j.segments > 1) return scan_long(&j, &alone);
    j.group = kl_ceil_div(KL_CHUNK / 4, in->dims[p->axis]);
#if KL_HAS_SIMD
    if (has_squares(&j)) {
        kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), squares_chunk, &j);
        return KL_OK;
    }
#endif
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), row_chunk, &j);
    return KL_OK;
}
