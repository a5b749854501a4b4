/* task.c - see task.h. */
#include "base/task.h"

#include "base/op_params.h"

static const char *const gradient_names[KL_N_OPS] = {
#define KL_OP(ID, name, ...) [KL_OP_##ID] = "gradient of " #name,
#include "base/op_list.def"
};

static const char *const derivative_names[KL_N_OPS] = {
#define KL_OP(ID, name, ...) [KL_OP_##ID] = "derivative of " #name,
#include "base/op_list.def"
};

const char *kl_origin_name(struct kl_origin o) {
    const bool take = o.take && o.op == KL_OP_GATHER;
    if (o.kind == KL_ORIGIN_GRADIENT) return take ? "gradient of take" : gradient_names[o.op];
    if (o.kind == KL_ORIGIN_DERIVATIVE) return take ? "derivative of take" : derivative_names[o.op];
    return take ? "take" : kl_op_name((enum kl_op_id)o.op);
}

/* One kernel serves several operations of the API; a message must name the operation that the user
 * called. */
const char *kl_task_name(const struct kl_task *t) {
    static const char *const scatters[] = {"scatter", "scatter_add", "scatter_prod", "scatter_max",
                                           "scatter_min"};
    const struct kl_origin o = t->origin;
    const bool same = o.kind == KL_ORIGIN_BATCH && o.op == (uint16_t)t->op;
    if (o.kind && !same) return kl_origin_name(o);
    switch (t->op) {
    case KL_OP_CALL: return ((const struct kl_call_params *)t->params)->name;
    case KL_OP_KERNEL: return ((const struct kl_kernel_params *)t->params)->desc->name;
    case KL_OP_GATHER: return o.take ? "take" : kl_op_name(t->op);
    case KL_OP_SCATTER: return scatters[((const struct kl_scatter_params *)t->params)->mode];
    case KL_OP_SCATTER_AXIS:
        if (((const struct kl_scatter_axis_params *)t->params)->mode == KL_SCATTER_ADD)
            return "scatter_add_axis";
        return kl_op_name(t->op);
    default: return kl_op_name(t->op);
    }
}
