/* scatter.c - SCATTER and SCATTER_AXIS: positions are written one after another, in order, so that
 * of equal indices the highest position is assigned last, and sums are added in order. 16-bit
 * floats are rounded after each update, as memory holds them. A position whose index is out of
 * range writes nothing. Many positions are first sorted by where they are written
 * (scatter_buckets.c). */
#include "backend/cpu/index/scatter.h"

#include <string.h>

#include "backend/cpu/math/extremes.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/op/index.h"

enum { FETCHED = 4096 }; /* bytes of indices that are prefetched */

#define SCATTER_FUNCTIONS "backend/cpu/index/scatter_join.inc"
#include "backend/cpu/index/scatter_types.inc"

/* 16-bit floats are joined as float32, a run at a time: vector code for each kind of join would
 * take 40 KB. */
static void join_halves(enum kl_dtype dtype, kl_join_fn *join, char *dst, int64_t ds,
                        const char *src, int64_t ss, int64_t n) {
    enum { RUN = 64 };
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t m = kl_min64(RUN, n - at);
        uint16_t raw[RUN];
        float a[RUN], b[RUN];
        char *to = dst + at * ds;
        kl_copy_run(2, m, raw, 2, to, ds);
        kl_convert(KL_F32, a, dtype, raw, m);
        kl_copy_run(2, m, raw, 2, src + at * ss, ss);
        kl_convert(KL_F32, b, dtype, raw, m);
        join((char *)a, sizeof *a, (const char *)b, sizeof *b, m);
        kl_convert(dtype, raw, KL_F32, a, m);
        kl_copy_run(2, m, to, ds, raw, 2);
    }
}
#define HALVES(name, dtype, join_f32)                                                 \
    static void name(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) { \
        join_halves(dtype, join_f32, dst, ds, src, ss, n);                            \
    }
HALVES(add_f16, KL_F16, add_f32)
HALVES(add_bf16, KL_BF16, add_f32)
HALVES(prod_f16, KL_F16, prod_f32)
HALVES(prod_bf16, KL_BF16, prod_f32)
HALVES(max_f16, KL_F16, max_f32)
HALVES(max_bf16, KL_BF16, max_f32)
HALVES(min_f16, KL_F16, min_f32)
HALVES(min_bf16, KL_BF16, min_f32)

#define JOINS(op, signed_8, signed_16, signed_32, signed_64)                                 \
    {                                                                                        \
        [KL_BOOL] = op##_b8, [KL_U8] = op##_u8, [KL_U16] = op##_u16, [KL_U32] = op##_u32,    \
        [KL_U64] = op##_u64, [KL_I8] = op##_##signed_8, [KL_I16] = op##_##signed_16,         \
        [KL_I32] = op##_##signed_32, [KL_I64] = op##_##signed_64, [KL_F16] = op##_f16,       \
        [KL_BF16] = op##_bf16, [KL_F32] = op##_f32, [KL_F64] = op##_f64, [KL_C64] = op##_c64 \
    }
static kl_join_fn *const joins[][KL_N_DTYPES] = {
    [KL_SCATTER_ADD] = JOINS(add, u8, u16, u32, u64),
    [KL_SCATTER_PROD] = JOINS(prod, u8, u16, u32, u64),
    [KL_SCATTER_MAX] = JOINS(max, i8, i16, i32, i64),
    [KL_SCATTER_MIN] = JOINS(min, i8, i16, i32, i64),
    [KL_SCATTER_ADD_DENORMAL] = JOINS(add, u8, u16, u32, u64),
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

static kl_join_fn *join_of(enum kl_scatter_mode mode, enum kl_dtype dtype) {
    if (mode != KL_SCATTER_ASSIGN) return joins[mode][dtype];
    switch (kl_dtype_size(dtype)) {
    case 1: return assign_1;
    case 2: return assign_2;
    case 4: return assign_4;
    default: return assign_8;
    }
}

void kl_scatter_position(const struct kl_scatter_job *j, char *dst, const char *src) {
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

/* Adds to places[i] what index i contributes. places[i] becomes -1, and stays -1, where an index is
 * out of range. The cursor is at the first of these positions. */
static void add_index(const struct kl_scatter_job *j, int k, struct kl_cursor *c, int64_t n,
                      int64_t *places) {
    const struct kl_arg *indices = &j->l->in[2 + k], *out = j->l->out;
    int64_t v[KL_TILE], size = out->dims[j->axes[k]], stride = out->strides[j->axes[k]];
    int64_t last = size - (j->extents ? j->extents[j->axes[k]] : 1);
    union kl_tile raw;
    c->filled = 0; /* the tile is another one at each call */
    kl_convert(KL_I64, v, indices->dtype, kl_cursor_next(c, n, &raw), n);
    /* An index above 2^63 is out of range; as a signed number it would be negative. */
    if (indices->dtype == KL_U64) KL_EACH(i, n) v[i] = v[i] < 0 ? INT64_MAX : v[i];
    if (j->follows) last = INT64_MAX - 1;
    KL_EACH(i, n) {
        int64_t at = v[i] + (v[i] < 0 ? size : 0);
        bool bad = (at < 0) | (at > last) | (places[i] < 0);
        places[i] = bad ? -1 : places[i] + at * stride;
    }
}

void kl_scatter_walk_init(struct kl_scatter_walk *w, const struct kl_scatter_job *j,
                          int64_t position) {
    w->j = j;
    w->position = position;
    w->moves = false;
    for (int i = 0; i < j->n_pos; i++) w->moves = w->moves || j->dst_strides[i];
    for (int k = 0; k < j->n_axes && k < KL_SCATTER_CURSORS; k++) {
        kl_cursor_init_arg(&w->cursors[k], &j->l->in[2 + k]);
        kl_cursor_seek(&w->cursors[k], position);
    }
}

void kl_scatter_places(struct kl_scatter_walk *w, int64_t n, int64_t *places) {
    const struct kl_scatter_job *j = w->j;
    if (w->moves)
        kl_offsets(j->n_pos, j->pos_dims, j->dst_strides, w->position, n, places);
    else
        memset(places, 0, (size_t)n * sizeof *places);
    for (int k = 0; k < j->n_axes; k++) {
        struct kl_cursor more, *c = &w->cursors[k];
        if (k >= KL_SCATTER_CURSORS) {
            c = &more;
            kl_cursor_init_arg(c, &j->l->in[2 + k]);
            kl_cursor_seek(c, w->position);
        }
        add_index(j, k, c, n, places);
    }
    w->position += n;
}

void kl_scatter_near_places(struct kl_scatter_walk *w, int64_t n, uint32_t *places) {
    const struct kl_scatter_job *j = w->j;
    const struct kl_arg *indices = &j->l->in[2], *out = j->l->out;
    if (j->n_axes == 1 && !w->moves && indices->dtype == KL_I32) {
        /* the usual case, which needs no 64-bit arithmetic */
        union kl_tile raw;
        w->cursors[0].filled = 0; /* the tile is another one at each call */
        const int32_t *v = kl_cursor_next(&w->cursors[0], n, &raw);
        kl_prefetch((const char *)v + FETCHED, n * 4);
        const uint32_t size = (uint32_t)out->dims[j->axes[0]];
        const uint32_t stride = (uint32_t)out->strides[j->axes[0]];
        KL_EACH(i, n) {
            uint32_t at = (uint32_t)v[i] + (v[i] < 0 ? size : 0);
            places[i] = at < size ? at * stride : UINT32_MAX;
        }
        w->position += n;
        return;
    }
    int64_t wide[KL_TILE];
    kl_scatter_places(w, n, wide);
    KL_EACH(i, n) places[i] = (uint32_t)wide[i];
}

static void write_positions(struct kl_launch *l, const struct kl_scatter_job *j) {
    int64_t places[KL_TILE], sources[KL_TILE];
    struct kl_scatter_walk w;
    kl_scatter_walk_init(&w, j, l->pos_begin);
    for (int64_t at = l->pos_begin; at < l->pos_end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, l->pos_end - at);
        kl_offsets(j->n_pos, j->pos_dims, j->src_strides, at, n, sources);
        kl_scatter_places(&w, n, places);
        for (int64_t i = 0; i < n; i++) {
            if (places[i] >= 0)
                kl_scatter_position(j, (char *)l->out->data + places[i] * j->item,
                                    (const char *)l->in[1].data + sources[i] * j->item);
            else if (l->fault == KL_NO_FAULT)
                l->fault = at + i;
        }
    }
}

/* Checks the indices of slices without elements. */
static void check_positions(struct kl_launch *l, const struct kl_scatter_job *j) {
    int64_t places[KL_TILE];
    struct kl_scatter_walk w;
    if (l->pos_begin >= l->pos_end) return; /* without positions there are no indices */
    kl_scatter_walk_init(&w, j, l->pos_begin);
    for (int64_t at = l->pos_begin; at < l->pos_end && l->fault == KL_NO_FAULT; at += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, l->pos_end - at);
        kl_scatter_places(&w, n, places);
        for (int64_t i = n - 1; i >= 0; i--)
            if (places[i] < 0) l->fault = at + i;
    }
}

/* ---- the base ---- */
struct copy {
    char *to;
    const char *from;
    int64_t bytes;
};
enum { COPIED = 1 << 20 };

static void copy_chunk(void *arg, int64_t i) {
    const struct copy *c = arg;
    int64_t at = i * COPIED;
    memcpy(c->to + at, c->from + at, (size_t)kl_min64(COPIED, c->bytes - at));
}

void kl_scatter_start(const struct kl_launch *l) {
    const struct kl_arg *base = &l->in[0], *out = l->out;
    int item = (int)kl_dtype_size(out->dtype);
    if (l->pos_begin != 0 || out->data == base->data) return;
    if (base->layout & KL_ROW_CONTIGUOUS && out->size > 0) {
        struct copy c = {out->data, base->data, out->size * item};
        kl_run_tasks(l, kl_ceil_div(c.bytes, COPIED), copy_chunk, &c);
    } else {
        kl_copy_strided(item, out->ndim, out->dims, out->data, out->strides, base->data,
                        base->strides);
    }
}

static int scatter(struct kl_launch *l, struct kl_scatter_job *j) {
    l->fault = KL_NO_FAULT;
    if (kl_scatter_each(l, j) || kl_scatter_by_buckets(l, j)) return KL_OK;
    j->follows = !l->checked;
    kl_scatter_start(l);
    write_positions(l, j);
    return KL_OK;
}

int kl_cpu_scatter(struct kl_launch *l) {
    const struct kl_scatter_params *p = l->params;
    const struct kl_arg *updates = &l->in[1], *out = l->out;
    struct kl_scatter_job j = {.l = l,
                               .join = join_of(p->mode, out->dtype),
                               .mode = p->mode,
                               .assigns = p->mode == KL_SCATTER_ASSIGN,
                               .item = (int)kl_dtype_size(out->dtype),
                               .axes = p->axes,
                               .n_axes = p->n_axes};
    int lead = updates->ndim - out->ndim;
    j.extents = updates->dims + lead;
    if (updates->size == 0 || out->size == 0) {
        l->fault = KL_NO_FAULT;
        kl_scatter_start(l);
        if (l->checked) check_positions(l, &j);
        return KL_OK;
    }
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
    return scatter(l, &j);
}

int kl_cpu_scatter_axis(struct kl_launch *l) {
    const struct kl_scatter_axis_params *p = l->params;
    const struct kl_arg *values = &l->in[1], *out = l->out;
    struct kl_scatter_job j = {.l = l,
                               .join = join_of(p->mode, out->dtype),
                               .mode = p->mode,
                               .assigns = p->mode == KL_SCATTER_ASSIGN,
                               .item = (int)kl_dtype_size(out->dtype),
                               .axes = &p->axis,
                               .n_axes = 1};
    if (values->size == 0) {
        l->fault = KL_NO_FAULT;
        kl_scatter_start(l);
        return KL_OK;
    }
    for (int i = 0; i < out->ndim; i++) {
        if (values->dims[i] == 1 || j.n_pos == KL_LONG_AXES) continue;
        j.pos_dims[j.n_pos] = values->dims[i];
        j.src_strides[j.n_pos] = values->strides[i];
        j.dst_strides[j.n_pos++] = i == p->axis ? 0 : out->strides[i];
    }
    return scatter(l, &j);
}
