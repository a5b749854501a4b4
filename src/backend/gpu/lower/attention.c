/* attention.c - ATTENTION of every float type but float64: a kernel for few rows that share
 * keys, which is as fast as memory, one for float32 by matrix units, and one for everything.
 * Drivers override it where they have better. Keys are cut into segments where there are few rows,
 * so that the device is busy. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    /* attention.kl has the same two numbers. */
    KEYS = 64,
    SEGMENTS = 64,   /* of a row, at most */
    TILES_FEW = 16,  /* rows of a group of attend_tiles, */
    TILES_MANY = 64, /* and with sub-groups: PoCL is slower, since its registers are memory */
    COLUMNS = 64,    /* of a group of attend_tiles, or twice as many */
    TILES_LOCAL = 128,
    FEW_LOCAL = 128,
    PARTS_LOCAL = 256, /* of attend_parts, */
    PARTS_ROWS = 128,
    PARTS_SHARED = 128 << 10, /* and bytes that a device with fast units for it has */
    JOIN_LOCAL = 128,
    MOST_FEW = 8,       /* rows of a group of attend_few, */
    MOST_VALUES = 1024, /* and elements of them, which are in shared memory for each sub-group */
    FEW_ROWS = 16, /* attend_few reads keys once for each MOST_FEW rows; with more it is slow */
    WIDEST_FEW = 256,
    VEC_BYTES = 16,
    GROUPS_PER_UNIT = 2, /* run at once on a multiprocessor: attend_matrix is compiled for this */
    LEAST_SEGMENT = 128, /* keys; a multiple of KEYS */
};

const struct kl_family kl_family_attention = {
    .name = "attention",
    .source = kl_source_attention,
    .defines = {"T:IN", "WIDTH", "FEW", "MASKED", "MATRIX", "ROWS"}};

struct attention { /* attention.kl has the same */
    int64_t n, m, d, e, q[4], k[4], v[4], mask[4], sink, seg, n_segs;
    int32_t key_heads, per_key, causal, has_mask, has_sinks;
    float scale, power;
    int32_t pad;
};

/* The operands of a command; NULL where there is none. */
struct operands {
    const struct kl_arg *q, *k, *v, *mask, *sinks, *out;
};

static struct operands operands_of(const struct kl_command *c) {
    const struct kl_attention_params *p = c->params;
    return (struct operands){&c->args[0],
                             &c->args[1],
                             &c->args[2],
                             p->has_mask ? &c->args[3] : NULL,
                             p->has_sinks ? &c->args[3 + p->has_mask] : NULL,
                             &c->args[c->n_in]};
}

static struct attention describe(const struct kl_command *c, const struct operands *o) {
    const struct kl_attention_params *p = c->params;
    struct attention a = {.n = o->q->dims[2],
                          .m = o->k->dims[2],
                          .d = o->q->dims[3],
                          .e = o->v->dims[3],
                          .sink = o->sinks ? o->sinks->strides[0] : 0,
                          .n_segs = 1,
                          .key_heads = o->k->dims[1],
                          .per_key = o->q->dims[1] / o->k->dims[1],
                          .causal = p->causal && o->q->dims[2] > 1, /* the last sees all keys */
                          .has_mask = !o->mask                    ? 0
                                      : o->mask->dtype == KL_BOOL ? 1
                                                                  : 2,
                          .has_sinks = p->has_sinks,
                          .scale = p->scale,
                          .power = kl_attention_power(o->q->dtype, p->scale)};
    for (int i = 0; i < 4; i++) {
        a.q[i] = o->q->strides[i];
        a.k[i] = o->k->strides[i];
        a.v[i] = o->v->strides[i];
        a.mask[i] = o->mask ? o->mask->strides[i] : 0;
    }
    return a;
}

/* Whether each row of x is contiguous and aligned to 16 bytes. */
static bool rows_aligned(const struct kl_arg *x) {
    const int64_t vec = VEC_BYTES / (int64_t)kl_dtype_size(x->dtype);
    if (x->strides[3] != 1 || (uintptr_t)x->data % VEC_BYTES) return false;
    for (int i = 0; i < 3; i++)
        if (x->strides[i] % vec && x->dims[i] > 1) return false;
    return true;
}

static bool takes_few(const struct kl_emit *e, const struct operands *o,
                      const struct attention *a) {
    const int64_t vec = VEC_BYTES / (int64_t)kl_dtype_size(o->q->dtype);
    return e->driver->subgroup == 32 && e->driver->max_local >= FEW_LOCAL &&
           a->n * a->per_key <= FEW_ROWS && a->d == a->e && a->d % vec == 0 && a->d / vec <= 32 &&
           a->d <= WIDEST_FEW && rows_aligned(o->q) && rows_aligned(o->k) && rows_aligned(o->v);
}

/* Whether matrix units multiply float32 in two parts. Where a group has less shared memory, as on
 * graphics cards, they are no faster at it than multiply-adds. */
static bool takes_parts(const struct kl_emit *e, const struct operands *o,
                        const struct attention *a) {
    return e->driver->has_matrix_units && e->driver->subgroup == 32 &&
           e->driver->max_local >= PARTS_LOCAL && e->driver->dynamic_bytes >= PARTS_SHARED &&
           o->q->dtype == KL_F32 && a->n * a->per_key > FEW_ROWS && (a->d == 64 || a->d == 128) &&
           a->e == a->d && rows_aligned(o->q) && rows_aligned(o->k) && rows_aligned(o->v) &&
           (uintptr_t)o->out->data % VEC_BYTES == 0;
}

/* Bytes of shared memory of a group of attend_parts: its queries, and a tile of keys and of
 * values. */
static size_t parts_shared(const struct attention *a) {
    return (size_t)(PARTS_ROWS + 2 * KEYS) * (size_t)a->d * sizeof(float);
}

/* Cuts the keys, so that `blocks` times the number of segments is as many groups as run at once: a
 * few more would take twice as long. On 132 multiprocessors decoding with 8 key heads has one
 * segment at batch 32, 4 at batch 8, 32 of LEAST_SEGMENT keys at batch 1. */
static void cut(const struct kl_emit *e, struct attention *a, int64_t blocks) {
    int64_t want = (int64_t)e->driver->n_units * GROUPS_PER_UNIT / blocks,
            most = kl_groups_for(a->m, LEAST_SEGMENT);
    if (most > SEGMENTS) most = SEGMENTS;
    a->n_segs = want < 1 ? 1 : want < most ? want : most;
    a->seg = kl_groups_for(kl_groups_for(a->m, a->n_segs), KEYS) * KEYS;
    a->n_segs = kl_groups_for(a->m, a->seg);
}

int kl_lower_attention(struct kl_emit *e, const struct kl_command *c) {
    const struct operands o = operands_of(c);
    const size_t item = kl_dtype_size(o.q->dtype);
    if (o.out->size == 0) return KL_OK;
    /* Without keys the result is 0. */
    if (o.k->dims[2] == 0) return kl_emit_fill(e, o.out->data, item, o.out->size, 0);
    struct attention a = describe(c, &o);
    const bool few = takes_few(e, &o, &a), parts = takes_parts(e, &o, &a),
               matrix = few && e->driver->has_matrix_units && item == 2 &&
                        (a.d == 64 || a.d == 128) && a.power != 0;
    const int64_t rows = a.n * a.per_key, heads = (int64_t)o.q->dims[0] * a.key_heads;
    const int most_few = a.d * MOST_FEW > MOST_VALUES ? MOST_FEW / 2 : MOST_FEW,
              few_rows = matrix ? (rows > 8 ? 16 : 8) : (int)kl_pow2_for(rows, most_few),
              is_masked = a.causal || a.has_mask,
              tile_rows = parts                                         ? PARTS_ROWS
                          : rows > TILES_FEW && e->driver->subgroup > 1 ? TILES_MANY
                                                                        : TILES_FEW,
              columns = a.e > COLUMNS ? 2 * COLUMNS : COLUMNS,
              values[] = {o.q->dtype, few ? (int)a.d : columns, few ? few_rows : 0,
                          is_masked,  matrix || parts,          few ? 0 : tile_rows},
              plain[] = {o.q->dtype, 0, 0, 0, 0, 0};
    const uint32_t local = kl_local_size(e, few     ? FEW_LOCAL
                                            : parts ? PARTS_LOCAL
                                                    : TILES_LOCAL),
                   join_local = kl_local_size(e, JOIN_LOCAL);
    int64_t n_blocks = kl_groups_for(rows, few ? few_rows : tile_rows),
            n_columns = few ? 1 : kl_groups_for(a.e, columns),
            n_join_columns = kl_groups_for(a.e, join_local);
    void *part = NULL;
    cut(e, &a, heads * n_blocks * n_columns);
    if (a.n_segs > 1)
        KL_TRY(kl_emit_workspace(e, (size_t)(heads * rows * a.n_segs * (a.e + 2)) * 4, &part));
    const size_t access = few || parts ? VEC_BYTES : item;
    const char *name = matrix  ? "attend_matrix"
                       : few   ? "attend_few"
                       : parts ? "attend_parts"
                               : "attend_tiles";
    /* The groups of such a kernel join segments themselves, where the queue has enough counters. */
    const bool counts = few && e->driver->counts_groups,
               joins = counts && heads * n_blocks <= KL_COUNTERS;
    void *counters = joins && e->queue ? e->driver->ops->counters(e->queue) : NULL;
    struct kl_karg args[10] = {
        KL_KARG_PTR(o.q->data, access),
        KL_KARG_PTR(o.k->data, access),
        KL_KARG_PTR(o.v->data, access),
        KL_KARG_PTR(o.mask ? o.mask->data : NULL, o.mask ? kl_dtype_size(o.mask->dtype) : 1),
        KL_KARG_PTR(o.sinks ? o.sinks->data : NULL, item),
        KL_KARG_PTR(o.out->data, parts ? VEC_BYTES : item),
        KL_KARG_PTR(part, counts ? 2 * sizeof(float) : sizeof(float))};
    int n = 7;
    if (counts) args[n++] = KL_KARG_PTR(counters, sizeof(uint32_t));
    args[n++] = KL_KARG(n_blocks);
    if (!few && !parts) args[n++] = KL_KARG(n_columns);
    args[n++] = KL_KARG(a);
    KL_TRY(kl_emit_shared(e, &kl_family_attention, values, name,
                          heads * n_blocks * n_columns * a.n_segs, local,
                          parts ? parts_shared(&a) : 0, args, n));
    if (a.n_segs == 1 || joins) return KL_OK;
    struct kl_karg join[] = {KL_KARG_PTR(part, 4),
                             KL_KARG_PTR(o.sinks ? o.sinks->data : NULL, item),
                             KL_KARG_PTR(o.out->data, item), KL_KARG(n_join_columns), KL_KARG(a)};
    return kl_emit(e, &kl_family_attention, plain, "attend_join", heads * rows * n_join_columns,
                   join_local, join, 5);
}
