/* cpu_scatter.c - SCATTER and SCATTER_AXIS: positions one after another, in order, so that of equal
 * indices the highest position is assigned last, and sums are made in order. 16-bit floats are
 * rounded after each update, as memory holds them. A position whose index is out of range writes
 * nothing. */
#include <string.h>

#include "backend/cpu/cpu_extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_tile.h"
#include "base/index.h"
#include "base/op_params.h"

typedef void join_fn(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t n);

#define PLAIN_MAX(a, b) ((a) > (b) ? (a) : (b))
#define PLAIN_MIN(a, b) ((a) < (b) ? (a) : (b))
#define PLAIN_ADD(a, b) ((a) + (b))
#define PLAIN_PROD(a, b) ((a) * (b))
#define OR(a, b) (((a) | (b)) != 0)
#define AND(a, b) (((a) != 0) & ((b) != 0))
/* Signed integers wrap: computed as unsigned. */
#define WRAP_ADD(a, b) ((T)((uint64_t)(a) + (uint64_t)(b)))
#define WRAP_PROD(a, b) ((T)((uint64_t)(a) * (uint64_t)(b)))
#define HALF(kind, f, a, b) kl_##kind##_store(f(kl_##kind##_load(a), kl_##kind##_load(b)))
#define F16_ADD(a, b) HALF(f16, PLAIN_ADD, a, b)
#define F16_PROD(a, b) HALF(f16, PLAIN_PROD, a, b)
#define F16_MAX(a, b) HALF(f16, kl_max_f32, a, b)
#define F16_MIN(a, b) HALF(f16, kl_min_f32, a, b)
#define BF16_ADD(a, b) HALF(bf16, PLAIN_ADD, a, b)
#define BF16_PROD(a, b) HALF(bf16, PLAIN_PROD, a, b)
#define BF16_MAX(a, b) HALF(bf16, kl_max_f32, a, b)
#define BF16_MIN(a, b) HALF(bf16, kl_min_f32, a, b)

#define T uint8_t
#define NAME b8
#define ADD OR
#define PROD AND
#define MAX OR
#define MIN AND
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint8_t
#define NAME u8
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T int8_t
#define NAME i8
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint16_t
#define NAME u16
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T int16_t
#define NAME i16
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint32_t
#define NAME u32
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T int32_t
#define NAME i32
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint64_t
#define NAME u64
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T int64_t
#define NAME i64
#define ADD WRAP_ADD
#define PROD WRAP_PROD
#define MAX PLAIN_MAX
#define MIN PLAIN_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint16_t
#define NAME f16
#define ADD F16_ADD
#define PROD F16_PROD
#define MAX F16_MAX
#define MIN F16_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T uint16_t
#define NAME bf16
#define ADD BF16_ADD
#define PROD BF16_PROD
#define MAX BF16_MAX
#define MIN BF16_MIN
#include "backend/cpu/cpu_scatter_join.inc"
#define T float
#define NAME f32
#define ADD PLAIN_ADD
#define PROD PLAIN_PROD
#define MAX kl_max_f32
#define MIN kl_min_f32
#include "backend/cpu/cpu_scatter_join.inc"
#define T double
#define NAME f64
#define ADD PLAIN_ADD
#define PROD PLAIN_PROD
#define MAX kl_max_f64
#define MIN kl_min_f64
#include "backend/cpu/cpu_scatter_join.inc"
#define T struct kl_c64
#define NAME c64
#define ADD kl_c64_add
#define PROD kl_c64_mul
#define MAX kl_max_c64
#define MIN kl_min_c64
#include "backend/cpu/cpu_scatter_join.inc"

#define JOINS(op)                                                                             \
    {                                                                                         \
        [KL_BOOL] = op##_b8, [KL_U8] = op##_u8, [KL_U16] = op##_u16, [KL_U32] = op##_u32,     \
        [KL_U64] = op##_u64, [KL_I8] = op##_i8, [KL_I16] = op##_i16, [KL_I32] = op##_i32,     \
        [KL_I64] = op##_i64, [KL_F16] = op##_f16, [KL_BF16] = op##_bf16, [KL_F32] = op##_f32, \
        [KL_F64] = op##_f64, [KL_C64] = op##_c64                                              \
    }
static join_fn *const joins[][KL_N_DTYPES] = {
    [KL_SCATTER_ADD] = JOINS(add),
    [KL_SCATTER_PROD] = JOINS(prod),
    [KL_SCATTER_MAX] = JOINS(max),
    [KL_SCATTER_MIN] = JOINS(min),
};

static void assign_1(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
    kl_copy_run(1, n, dst, ds, src, ss);
}
static void assign_2(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
    kl_copy_run(2, n, dst, ds, src, ss);
}
static void assign_4(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
    kl_copy_run(4, n, dst, ds, src, ss);
}
static void assign_8(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
    kl_copy_run(8, n, dst, ds, src, ss);
}

static join_fn *join_of(enum kl_scatter_mode mode, enum kl_dtype dtype) {
    if (mode != KL_SCATTER_ASSIGN) return joins[mode][dtype];
    switch (kl_dtype_size(dtype)) {
    case 1: return assign_1;
    case 2: return assign_2;
    case 4: return assign_4;
    default: return assign_8;
    }
}

struct job {
    const struct kl_launch *l;
    join_fn *join;
    int item;
    /* What one position writes, as loops: the last is done by join. Strides in bytes. */
    int n;
    int64_t len[KL_LONG_AXES], dst_steps[KL_LONG_AXES], src_steps[KL_LONG_AXES];
    /* Where position p finds its updates, and (SCATTER_AXIS) the part of its place that no index
     * gives; elements. */
    int n_pos, pos_dims[KL_LONG_AXES];
    int64_t src_strides[KL_LONG_AXES], dst_strides[KL_LONG_AXES];
};

static void write_block(const struct job *j, char *dst, const char *src) {
    int64_t at[KL_LONG_AXES];
    if (j->n == 0) {
        j->join(dst, 0, src, 0, 1);
        return;
    }
    int last = j->n - 1;
    for (int i = 0; i < last; i++) at[i] = 0;
    for (;;) {
        j->join(dst, j->dst_steps[last], src, j->src_steps[last], j->len[last]);
        int i = last - 1;
        for (; i >= 0; i--) {
            dst += j->dst_steps[i];
            src += j->src_steps[i];
            if (++at[i] < j->len[i]) break;
            dst -= j->len[i] * j->dst_steps[i];
            src -= j->len[i] * j->src_steps[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

/* Adds to places[i] what index i contributes; clears ok[i] where it is out of range. */
static void add_index(const struct job *j, int operand, int axis, int64_t extent, int64_t position,
                      int64_t n, int64_t *places, bool *ok) {
    const struct kl_arg *indices = &j->l->in[operand], *out = j->l->out;
    int64_t v[KL_TILE];
    struct kl_cursor c;
    union kl_tile raw;
    kl_cursor_init_arg(&c, indices);
    kl_cursor_seek(&c, position);
    kl_index_read_run(kl_cursor_next(&c, n, &raw), indices->dtype,
                      (int64_t)kl_dtype_size(indices->dtype), n, v);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = v[i] < 0 ? v[i] + out->dims[axis] : v[i];
        if (j->l->checked) at = kl_index_wrap(v[i], out->dims[axis], extent);
        if (at < 0)
            ok[i] = false;
        else
            places[i] += at * out->strides[axis];
    }
}

static void write_positions(struct kl_launch *l, const struct job *j, const int *axes, int n_axes,
                            const int *extents) {
    int64_t places[KL_TILE], sources[KL_TILE];
    bool ok[KL_TILE];
    for (int64_t at = l->pos_begin; at < l->pos_end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, l->pos_end - at);
        kl_offsets(j->n_pos, j->pos_dims, j->src_strides, at, n, sources);
        kl_offsets(j->n_pos, j->pos_dims, j->dst_strides, at, n, places);
        memset(ok, true, sizeof ok);
        for (int k = 0; k < n_axes; k++)
            add_index(j, 2 + k, axes[k], extents ? extents[axes[k]] : 1, at, n, places, ok);
        for (int64_t i = 0; i < n; i++) {
            if (ok[i])
                write_block(j, (char *)l->out->data + places[i] * j->item,
                            (const char *)l->in[1].data + sources[i] * j->item);
            else if (l->fault == KL_NO_FAULT)
                l->fault = at + i;
        }
    }
}

/* The output starts as the base, unless it is its memory or an earlier part of the positions has
 * begun. */
static void start(struct kl_launch *l) {
    const struct kl_arg *base = &l->in[0], *out = l->out;
    l->fault = KL_NO_FAULT;
    if (l->pos_begin == 0 && out->data != base->data)
        kl_copy_strided((int)kl_dtype_size(out->dtype), out->ndim, out->dims, out->data,
                        out->strides, base->data, base->strides);
}

int kl_cpu_scatter(struct kl_launch *l) {
    const struct kl_scatter_params *p = l->params;
    const struct kl_arg *updates = &l->in[1], *out = l->out;
    struct job j = {
        .l = l, .join = join_of(p->mode, out->dtype), .item = (int)kl_dtype_size(out->dtype)};
    start(l);
    if (updates->size == 0 || out->size == 0) return KL_OK;
    int lead = updates->ndim - out->ndim;
    for (int i = 0; i < lead; i++) {
        if (updates->dims[i] == 1 || j.n_pos == KL_LONG_AXES) continue;
        j.pos_dims[j.n_pos] = updates->dims[i];
        j.src_strides[j.n_pos++] = updates->strides[i];
    }
    for (int i = 0; i < out->ndim; i++) {
        if (updates->dims[lead + i] == 1 || j.n == KL_LONG_AXES) continue;
        int64_t ds = out->strides[i] * j.item, ss = updates->strides[lead + i] * j.item,
                len = updates->dims[lead + i];
        if (j.n && j.dst_steps[j.n - 1] == ds * len && j.src_steps[j.n - 1] == ss * len) {
            j.len[j.n - 1] *= len;
            j.dst_steps[j.n - 1] = ds;
            j.src_steps[j.n - 1] = ss;
        } else {
            j.len[j.n] = len;
            j.dst_steps[j.n] = ds;
            j.src_steps[j.n++] = ss;
        }
    }
    write_positions(l, &j, p->axes, p->n_axes, updates->dims + lead);
    return KL_OK;
}

int kl_cpu_scatter_axis(struct kl_launch *l) {
    const struct kl_scatter_axis_params *p = l->params;
    const struct kl_arg *values = &l->in[1], *out = l->out;
    struct job j = {
        .l = l, .join = join_of(p->mode, out->dtype), .item = (int)kl_dtype_size(out->dtype)};
    start(l);
    if (values->size == 0) return KL_OK;
    for (int i = 0; i < out->ndim; i++) {
        if (values->dims[i] == 1 || j.n_pos == KL_LONG_AXES) continue;
        j.pos_dims[j.n_pos] = values->dims[i];
        j.src_strides[j.n_pos] = values->strides[i];
        j.dst_strides[j.n_pos++] = i == p->axis ? 0 : out->strides[i];
    }
    write_positions(l, &j, &p->axis, 1, NULL);
    return KL_OK;
}
