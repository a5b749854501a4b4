/* jvp.h - the Jacobian-vector product of each operation: how the derivatives of its inputs along
 * one direction give those of its outputs. Only operations whose product is cheaper to write down
 * than to derive have a rule, in the column jvp of base/op/op_list.def. For the others
 * transforms/forward.c derives it from the rule of vjp.h, which is linear in the cotangent: its
 * transpose is the product that is wanted. */
#pragma once
#include "base/op/declare.h"
#include "base/op/op.h"
#include "graph/array.h"

/* One operation of the graph. All pointers are borrowed. */
struct kl_jvp {
    enum kl_op_id op;
    const void *params;
    size_t params_bytes;
    int n_in;
    struct kl_array *const *in;
    struct kl_array *out;
    /* n_in tangents, each of the shape and dtype of its input; NULL: zeros everywhere */
    struct kl_array *const *tangent;
    struct kl_stream *s;
};

/* *tangent, NULL before: a new reference to the tangent of the output, of its shape and dtype. It
 * stays NULL where it is zero everywhere. */
typedef int kl_jvp_fn(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err);

/* NULL: the operation has no rule of its own. Rules are for real operands and results. */
kl_jvp_fn *kl_jvp_rule(enum kl_op_id op);
/* The rules: the column jvp of op_list.def. */
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    KL_DECLARE(kl_jvp_fn, jvp)
#include "base/op/op_list.def"
