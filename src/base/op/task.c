/* task.c - see task.h. */
#include "base/op/task.h"

#include "base/op/op_params.h"

static const char *const gradient_names[KL_N_OPS] = {
#define KL_OP(ID, name, ...) [KL_OP_##ID] = "gradient of " #name,
#include "base/op/op_list.def"
};

static const char *const derivative_names[KL_N_OPS] = {
#define KL_OP(ID, name, ...) [KL_OP_##ID] = "derivative of " #name,
#include "base/op/op_list.def"
};

#define ALIAS(name) \
    { name, "gradient of " name, "derivative of " name }
static const char *const alias_names[][3] = {
    [KL_ALIAS_TAKE] = ALIAS("take"),
    [KL_ALIAS_SLICE] = ALIAS("slice"),
    [KL_ALIAS_SLICE_UPDATE] = ALIAS("slice_update"),
    [KL_ALIAS_MASKED_SCATTER] = ALIAS("masked_scatter"),
    [KL_ALIAS_GATHER_MM] = ALIAS("gather_mm"),
    [KL_ALIAS_SEGMENTED_MM] = ALIAS("segmented_mm"),
    [KL_ALIAS_GATHER_QMM] = ALIAS("gather_qmm"),
    [KL_ALIAS_TRI_INV] = ALIAS("tri_inv"),
    [KL_ALIAS_CHOLESKY_INV] = ALIAS("cholesky_inv"),
    [KL_ALIAS_EIGVALS] = ALIAS("eigvals"),
    [KL_ALIAS_EIGVALSH] = ALIAS("eigvalsh"),
    [KL_ALIAS_NORM] = ALIAS("norm"),
    [KL_ALIAS_MULTIVARIATE_NORMAL] = ALIAS("random_multivariate_normal"),
};

/* The names of an operation built for another call; NULL for those that have their own name. */
static const char *const *alias_of(struct kl_origin o, enum kl_op_id op) {
    const bool shared =
        op == KL_OP_GATHER || op == KL_OP_SCATTER || (kl_op_flags(op) & KL_OPF_OF_MATRICES);
    return o.alias && shared ? alias_names[o.alias] : NULL;
}

const char *kl_origin_name(struct kl_origin o) {
    const char *const *alias = alias_of(o, (enum kl_op_id)o.op);
    if (o.kind == KL_ORIGIN_GRADIENT) return alias ? alias[1] : gradient_names[o.op];
    if (o.kind == KL_ORIGIN_DERIVATIVE) return alias ? alias[2] : derivative_names[o.op];
    return alias ? alias[0] : kl_op_name((enum kl_op_id)o.op);
}

/* One kernel serves several operations of the API; a message must name the operation that the user
 * called. */
const char *kl_task_name(const struct kl_task *t) {
    static const char *const scatters[] = {"scatter",     "scatter_add", "scatter_prod",
                                           "scatter_max", "scatter_min", "scatter_add"};
    const struct kl_origin o = t->origin;
    const bool same = o.kind == KL_ORIGIN_BATCH && o.op == (uint16_t)t->op;
    if (o.kind && !same) return kl_origin_name(o);
    const char *const *alias = alias_of(o, t->op);
    if (alias) return alias[0];
    switch (t->op) {
    case KL_OP_CALL: return ((const struct kl_call_params *)t->params)->name;
    case KL_OP_KERNEL: return ((const struct kl_kernel_params *)t->params)->desc->name;
    case KL_OP_SCATTER: return scatters[((const struct kl_scatter_params *)t->params)->mode];
    case KL_OP_SCATTER_AXIS:
        if (kl_scatter_adds(((const struct kl_scatter_axis_params *)t->params)->mode))
            return "scatter_add_axis";
        return kl_op_name(t->op);
    default: return kl_op_name(t->op);
    }
}

bool kl_task_gives(const struct kl_task *t, int i, const struct kl_memory *m) {
    const struct kl_tensor *in = t->in[i];
    const struct kl_block *b = in->buffer->block;
    /* A copy may have a kernel that moves rows and knows addresses alone. */
    if (!m->takes_values || !(kl_op_flags(t->op) & KL_OPF_ELEMENTWISE) || t->op == KL_OP_COPY ||
        !b || !b->memory->is_host || in->size == 0)
        return false;
    for (int d = 0; d < in->ndim; d++)
        if (in->strides[d] != 0 && in->dims[d] != 1) return false;
    return true;
}
