/* reduce.c - SUM, PROD, MAX, MIN, ALL, ANY, LOGSUMEXP, VAR over any set of axes: chooses the
 * kernel of reduce.kl and how the work is cut.
 *
 * All choices follow from shapes, strides and alignment, never from the load of the device, so that
 * every run gives the same bits. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 256,
    ENOUGH_GROUPS = 2048, /* with fewer groups a large device is partly idle */
    VEC_BYTES = 16,
    ROW_CHUNKS = 4,         /* vectors of a row that one work-item has in flight */
    COLUMN_WIDTH = 64,      /* neighbouring outputs of one group: two cache lines of float32 */
    WIDE_COLUMN_WIDTH = 32, /* neighbouring vectors of one group */
    ENOUGH_WIDE_GROUPS = 512,
    COLUMN_DEPTH = 32, /* elements of a column per work-item below which it is not cut */
    /* Bytes of the accumulators of a vector of outputs: a work-item has them in registers, a group
     * of 256 in 24 KB of local memory. */
    WIDE_BYTES = 96,
};

const struct kl_family kl_family_reduce = {
    .name = "reduce", .source = kl_source_reduce, .defines = {"T:IN", "T:OUT", "OP"}};

/* The numbers of the operations in reduce.kl. */
static int number_of(enum kl_op_id op) {
    switch (op) {
    case KL_OP_SUM: return 0;
    case KL_OP_MAX: return 1;
    case KL_OP_MIN: return 2;
    case KL_OP_PROD: return 3;
    case KL_OP_ALL: return 4;
    case KL_OP_ANY: return 5;
    case KL_OP_LOGSUMEXP: return 6;
    default: return 7; /* VAR */
    }
}

/* An accumulator, as reduce.kl defines it. */
struct accumulator {
    size_t bytes, item; /* item: of its members */
};
static struct accumulator accumulator_of(const struct kl_command *c) {
    enum kl_dtype in = c->args[0].dtype, out = c->args[1].dtype;
    size_t number = out == KL_F64 ? sizeof(double) : sizeof(float);
    bool is_complex = in == KL_C64;
    switch (c->op) {
    case KL_OP_ALL:
    case KL_OP_ANY: return (struct accumulator){sizeof(uint32_t), sizeof(uint32_t)};
    case KL_OP_LOGSUMEXP: return (struct accumulator){number * (is_complex ? 3 : 2), number};
    case KL_OP_VAR: return (struct accumulator){number * (is_complex ? 4 : 3), number};
    case KL_OP_PROD:
        if (is_complex) return (struct accumulator){3 * sizeof(float), sizeof(float)};
        break;
    default: break;
    }
    size_t bytes = kl_dtype_size(out == KL_F16 || out == KL_BF16 ? KL_F32 : out);
    return (struct accumulator){bytes, bytes};
}

/* The parts of a launch. */
struct plan {
    struct kl_axes kept, gone;
    int n_axes;
    const int *axes; /* the reduced ones */
    struct accumulator acc;
    const void *in;
    int64_t seg, n_segs, groups;
    int32_t width, vector, linear;
    bool columns, wide; /* wide: each work-item has a vector of outputs */
};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* Whether every run of VEC neighbours of a reduction is 16 aligned bytes. */
static bool vectors(const struct plan *p, size_t item) {
    int64_t vec = VEC_BYTES / (int64_t)item;
    const struct kl_axes *g = &p->gone;
    if (g->ndim == 0 || kl_axes_step(g) != 1 || (uintptr_t)p->in % VEC_BYTES) return false;
    for (int i = 0; i < g->ndim - 1; i++)
        if (!p->linear && (g->strides[0][i] % vec || g->dims[g->ndim - 1] % vec)) return false;
    for (int i = 0; i < p->kept.ndim; i++)
        if (p->kept.strides[0][i] % vec) return false;
    return true;
}

/* Whether VEC neighbouring outputs are made from 16 aligned bytes at each step of the reduction. */
static bool wide(const struct plan *p, size_t item) {
    int64_t vec = VEC_BYTES / (int64_t)item;
    const struct kl_axes *k = &p->kept;
    if (vec == 1 || (size_t)vec * p->acc.bytes > WIDE_BYTES || !p->linear || kl_axes_step(k) != 1 ||
        (uintptr_t)p->in % VEC_BYTES)
        return false;
    if (k->dims[k->ndim - 1] % vec || kl_axes_step(&p->gone) % vec) return false;
    for (int i = 0; i < k->ndim - 1; i++)
        if (k->strides[0][i] % vec) return false;
    return true;
}

/* Cuts reductions of n_red elements into segments whose size is a multiple of `unit`, so that
 * `blocks` times the number of segments is enough work for the device. */
static void cut(struct plan *p, int64_t blocks, int64_t n_red, int64_t unit) {
    int64_t enough = p->wide ? ENOUGH_WIDE_GROUPS : ENOUGH_GROUPS;
    int64_t most = kl_groups_for(n_red, unit), want = kl_groups_for(enough, blocks);
    p->n_segs = most < want ? most : want;
    if (blocks * 2 > enough || p->n_segs < 1) p->n_segs = 1;
    p->seg = kl_groups_for(kl_groups_for(n_red, p->n_segs), unit) * unit;
    p->n_segs = n_red ? kl_groups_for(n_red, p->seg) : 1;
    p->groups = blocks * p->n_segs;
}

static void choose(struct plan *p, size_t item, uint32_t local) {
    int64_t n_out = p->kept.n, n_red = p->gone.n, vec = VEC_BYTES / (int64_t)item;
    p->linear = kl_axes_linear(&p->gone);
    p->columns = p->kept.ndim && p->gone.ndim && n_red > 0 &&
                 magnitude(kl_axes_step(&p->kept)) < magnitude(kl_axes_step(&p->gone));
    if (p->columns) {
        p->wide = wide(p, item);
        if (p->wide) n_out /= vec;
        int64_t high = kl_pow2_for(n_red, local);
        int64_t width = kl_pow2_for(n_out, p->wide ? WIDE_COLUMN_WIDTH : COLUMN_WIDTH);
        if (width > local) width = local;
        p->width = (int32_t)(local / high > width ? local / high : width);
        cut(p, kl_groups_for(n_out, p->width), n_red, local / p->width * COLUMN_DEPTH);
    } else {
        p->vector = vectors(p, item);
        p->width = (int32_t)kl_pow2_for(kl_groups_for(n_red, vec * ROW_CHUNKS), local);
        cut(p, kl_groups_for(n_out, local / p->width), n_red, (int64_t)local * vec * ROW_CHUNKS);
    }
}

/* Sets the reduced axes of p. Returns what a variance divides by; other operations divide by
 * nothing. */
static double read_params(struct plan *p, const struct kl_command *c) {
    if (c->op != KL_OP_VAR) {
        const struct kl_reduce_params *reduce = c->params;
        p->n_axes = reduce->n_axes;
        p->axes = reduce->axes;
        return 1;
    }
    const struct kl_var_params *var = c->params;
    double n = 1;
    p->n_axes = var->n_axes;
    p->axes = var->axes;
    for (int i = 0; i < var->n_axes; i++) n *= c->args[0].dims[var->axes[i]];
    return n > var->ddof ? n - var->ddof : 0;
}

static void split_axes(struct plan *p, const struct kl_command *c, const int64_t *strides) {
    const struct kl_arg *in = &c->args[0];
    int next = 0;
    p->kept = p->gone = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++) {
        bool gone = next < p->n_axes && p->axes[next] == i;
        next += gone;
        kl_axes_add(gone ? &p->gone : &p->kept, in->dims[i], strides[i], 0);
    }
}

/* Row-major strides of the input's shape with the reduced axes innermost. */
static void strides_apart(const struct plan *p, const struct kl_command *c, int64_t *strides) {
    const struct kl_arg *in = &c->args[0];
    int64_t step = 1;
    for (int gone = 1; gone >= 0; gone--) {
        int next = p->n_axes - 1;
        for (int i = in->ndim - 1; i >= 0; i--) {
            bool is = next >= 0 && p->axes[next] == i;
            next -= is;
            if (is != gone) continue;
            strides[i] = step;
            step *= in->dims[i];
        }
    }
}

int kl_lower_reduce(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    size_t item = kl_dtype_size(in->dtype);
    uint32_t local = kl_local_size(e, WANT_LOCAL);
    int values[] = {in->dtype, out->dtype, number_of(c->op)};
    struct plan p = {.in = in->data, .acc = accumulator_of(c)};
    double divisor = read_params(&p, c);
    float divisor_f32 = (float)divisor;
    struct kl_space kept, gone;
    int64_t apart[KL_AXES_MAX];
    void *scratch = NULL;
    size_t copied = 0, parts;
    if (out->size == 0) return KL_OK;
    split_axes(&p, c, in->strides);
    if (!kl_axes_space(&p.kept, &kept) || !kl_axes_space(&p.gone, &gone)) {
        /* Too many axes for a kernel: makes a copy in which the reduced axes are innermost and
         * merge. */
        copied = kl_scratch_bytes((size_t)in->size * item);
        strides_apart(&p, c, apart);
        split_axes(&p, c, apart);
        kl_axes_space(&p.kept, &kept);
        kl_axes_space(&p.gone, &gone);
    }
    if (copied) p.in = NULL; /* the copy is in scratch memory, which is aligned */
    choose(&p, item, local);
    parts = p.n_segs > 1 ? (size_t)(p.n_segs * p.kept.n) * p.acc.bytes : 0;
    KL_TRY(kl_emit_workspace(e, copied + parts, &scratch));
    if (copied) {
        p.in = scratch;
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, apart, in->data, in->strides));
    }
    void *part = parts ? kl_scratch_at(scratch, copied) : NULL;
    int64_t step = kl_axes_step(&p.gone);
    int more = c->op == KL_OP_VAR; /* arguments: the divisor, in the type of the output's */
    struct kl_karg by = out->dtype == KL_F64 ? KL_KARG(divisor) : KL_KARG(divisor_f32);
    struct kl_karg rows[] = {KL_KARG_PTR(p.in, p.vector ? VEC_BYTES : item),
                             KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                             KL_KARG_PTR(part, p.acc.item),
                             KL_KARG(p.kept.n),
                             KL_KARG(p.gone.n),
                             KL_KARG(p.seg),
                             KL_KARG(p.n_segs),
                             KL_KARG(p.width),
                             KL_KARG(p.vector),
                             KL_KARG(p.linear),
                             KL_KARG(step),
                             KL_KARG(kept),
                             KL_KARG(gone),
                             by};
    struct kl_karg columns[] = {KL_KARG_PTR(p.in, item),
                                KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                                KL_KARG_PTR(part, p.acc.item),
                                KL_KARG(p.kept.n),
                                KL_KARG(p.gone.n),
                                KL_KARG(p.seg),
                                KL_KARG(p.n_segs),
                                KL_KARG(p.width),
                                KL_KARG(p.linear),
                                KL_KARG(step),
                                KL_KARG(kept),
                                KL_KARG(gone),
                                by};
    struct kl_karg wide_columns[] = {KL_KARG_PTR(p.in, VEC_BYTES),
                                     KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                                     KL_KARG_PTR(part, p.acc.item),
                                     KL_KARG(p.kept.n),
                                     KL_KARG(p.gone.n),
                                     KL_KARG(p.seg),
                                     KL_KARG(p.n_segs),
                                     KL_KARG(p.width),
                                     KL_KARG(step),
                                     KL_KARG(kept),
                                     by};
    if (p.wide)
        KL_TRY(kl_emit(e, &kl_family_reduce, values, "wide_columns", p.groups, local, wide_columns,
                       10 + more));
    else if (p.columns)
        KL_TRY(
            kl_emit(e, &kl_family_reduce, values, "columns", p.groups, local, columns, 12 + more));
    else
        KL_TRY(kl_emit(e, &kl_family_reduce, values, "rows", p.groups, local, rows, 13 + more));
    if (p.n_segs == 1) return KL_OK;
    int64_t high = kl_pow2_for(p.n_segs, local);
    int32_t width = (int32_t)(local / high);
    struct kl_karg join[] = {KL_KARG_PTR(part, p.acc.item),
                             KL_KARG_PTR(out->data, kl_dtype_size(out->dtype)),
                             KL_KARG(p.kept.n),
                             KL_KARG(p.n_segs),
                             KL_KARG(width),
                             by};
    return kl_emit(e, &kl_family_reduce, values, "join_parts", kl_groups_for(p.kept.n, width),
                   local, join, 5 + more);
}
