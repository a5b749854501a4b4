/* cpu_arg_reduce.c - ARGMAX and ARGMIN along one axis: the first of equals, the first NaN before
 * all (a complex number with a NaN in either part is one). */
#include <string.h>

#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"
#include "base/op_params.h"

struct best {
    int64_t at; /* -1: none yet */
    unsigned char value[8];
};

#define ABOVE(a, b) ((a) > (b))
#define BELOW(a, b) ((a) < (b))
#define NAN_FIRST_ABOVE(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
#define NAN_FIRST_BELOW(a, b) ((a) < (b) || ((a) != (a) && (b) == (b)))

static bool c64_above(struct kl_c64 a, struct kl_c64 b) {
    if (kl_c64_is_nan(b)) return false;
    return kl_c64_is_nan(a) || kl_c64_less(b, a);
}
static bool c64_below(struct kl_c64 a, struct kl_c64 b) {
    if (kl_c64_is_nan(b)) return false;
    return kl_c64_is_nan(a) || kl_c64_less(a, b);
}

#define T uint8_t
#define NAME max_u8
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint16_t
#define NAME max_u16
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint32_t
#define NAME max_u32
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint64_t
#define NAME max_u64
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int8_t
#define NAME max_i8
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int16_t
#define NAME max_i16
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int32_t
#define NAME max_i32
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int64_t
#define NAME max_i64
#define BETTER ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T float
#define NAME max_f32
#define BETTER NAN_FIRST_ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T double
#define NAME max_f64
#define BETTER NAN_FIRST_ABOVE
#include "backend/cpu/cpu_arg_reduce.inc"
#define T struct kl_c64
#define NAME max_c64
#define BETTER c64_above
#include "backend/cpu/cpu_arg_reduce.inc"

#define T uint8_t
#define NAME min_u8
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint16_t
#define NAME min_u16
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint32_t
#define NAME min_u32
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T uint64_t
#define NAME min_u64
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int8_t
#define NAME min_i8
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int16_t
#define NAME min_i16
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int32_t
#define NAME min_i32
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T int64_t
#define NAME min_i64
#define BETTER BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T float
#define NAME min_f32
#define BETTER NAN_FIRST_BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T double
#define NAME min_f64
#define BETTER NAN_FIRST_BELOW
#include "backend/cpu/cpu_arg_reduce.inc"
#define T struct kl_c64
#define NAME min_c64
#define BETTER c64_below
#include "backend/cpu/cpu_arg_reduce.inc"

typedef void scan_fn(const void *x, int64_t n, int64_t first, struct best *best);
#define SCANS(op)                                                                           \
    {                                                                                       \
        [KL_BOOL] = scan_##op##_u8, [KL_U8] = scan_##op##_u8, [KL_U16] = scan_##op##_u16,   \
        [KL_U32] = scan_##op##_u32, [KL_U64] = scan_##op##_u64, [KL_I8] = scan_##op##_i8,   \
        [KL_I16] = scan_##op##_i16, [KL_I32] = scan_##op##_i32, [KL_I64] = scan_##op##_i64, \
        [KL_F32] = scan_##op##_f32, [KL_F64] = scan_##op##_f64, [KL_C64] = scan_##op##_c64  \
    }
static scan_fn *const scan_max[KL_N_DTYPES] = SCANS(max);
static scan_fn *const scan_min[KL_N_DTYPES] = SCANS(min);

struct job {
    const struct kl_launch *l;
    scan_fn *scan;
    int axis;
    int64_t group;                 /* outputs of one task */
    int64_t strides[KL_LONG_AXES]; /* of the axes that stay and are longer than 1 */
    int dims[KL_LONG_AXES], n;
};

static void arg_chunk(void *arg, int64_t i) {
    const struct job *j = arg;
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    int64_t begin = i * j->group, end = kl_min64(begin + j->group, j->l->out->size);
    int64_t length = in->dims[j->axis], offsets[KL_TILE];
    uint32_t *out = j->l->out->data;
    struct kl_cursor c;
    union kl_tile raw, tile;
    kl_cursor_init(&c, in->data, item, 1, &in->dims[j->axis], &in->strides[j->axis]);
    for (int64_t o = begin; o < end; o++) {
        if ((o - begin) % KL_TILE == 0)
            kl_offsets(j->n, j->dims, j->strides, o, kl_min64(KL_TILE, end - o), offsets);
        struct best best = {.at = -1};
        c.data = (char *)in->data + offsets[(o - begin) % KL_TILE] * item;
        c.filled = false;
        kl_cursor_seek(&c, 0);
        for (int64_t at = 0; at < length; at += KL_TILE) {
            int64_t m = kl_min64(KL_TILE, length - at);
            j->scan(kl_cursor_next_as(&c, m, in->dtype, kl_compute_dtype(in->dtype), &raw, &tile),
                    m, at, &best);
        }
        out[o] = (uint32_t)best.at;
    }
}

int kl_cpu_arg_reduce(struct kl_launch *l) {
    struct job j = {.l = l, .axis = ((const struct kl_axis_params *)l->params)->axis};
    const struct kl_arg *in = l->in;
    if (l->out->size == 0) return KL_OK;
    j.scan = (l->op == KL_OP_ARGMAX ? scan_max : scan_min)[kl_compute_dtype(in->dtype)];
    for (int i = 0; i < in->ndim; i++) {
        if (i == j.axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.strides[j.n++] = in->strides[i];
    }
    j.group = kl_ceil_div(KL_CHUNK, in->dims[j.axis]);
    struct kl_launch alone = {.parallel = in->size >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_share(&alone, kl_ceil_div(l->out->size, j.group), arg_chunk, &j);
    return KL_OK;
}
