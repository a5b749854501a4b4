/* vjp.h - the rule by which each differentiable operation passes gradients back: its vector-Jacobian product.
 *
 * A rule stands beside the builder of its operation (src/ops/<family>.c) and is an entry of the table in vjp.c. It sees the operation as the graph has it: operands already of one
 * type and shape, since casts and broadcasts are operations with rules of their own. It builds lazy arrays with the builders of ops.h, so that what it builds can be
 * differentiated again. Complex gradients are those of the real and imaginary parts as two real numbers: the cotangent of z is (d/d re) + i (d/d im), so a holomorphic f
 * multiplies by the conjugate of f'. */
#pragma once
#include "base/op.h"
#include "graph/array.h"

/* One operation of the graph; all borrowed. */
struct kl_vjp {
    enum kl_op_id op;
    const void *params;
    int n_in, n_out;
    struct kl_array *const *in;
    struct kl_array *const *out;
    struct kl_array *const *cotangent; /* n_out; each of the shape and dtype of its output */
    const bool *wanted;                /* n_in; the others' gradients need not be made */
    struct kl_stream *s;
};

/* grad[i], n_in of them and NULL at first: for a wanted input a new reference to its gradient, of its shape and dtype; left NULL where it is zero everywhere (integers,
 * indices, steps). On failure the caller releases what is there. */
typedef int kl_vjp_fn(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err);

/* NULL: the operation has no gradient (what it gives is constant almost everywhere, or integer). */
kl_vjp_fn *kl_vjp_rule(enum kl_op_id op);
/* Whether a is of a type that has gradients: floats and complex64. */
bool kl_has_gradient(const struct kl_array *a);

/* The rules that rows of base/op_list.def name; each stands beside the builder of its operation. */
kl_vjp_fn kl_vjp_copy, kl_vjp_cast, kl_vjp_where;
kl_vjp_fn kl_vjp_reshape, kl_vjp_transpose, kl_vjp_broadcast, kl_vjp_slice, kl_vjp_as_strided;
kl_vjp_fn kl_vjp_diagonal, kl_vjp_slice_update, kl_vjp_concatenate, kl_vjp_depends;
kl_vjp_fn kl_vjp_sum, kl_vjp_prod, kl_vjp_extreme, kl_vjp_logsumexp, kl_vjp_var, kl_vjp_softmax;
kl_vjp_fn kl_vjp_cumsum, kl_vjp_cumprod, kl_vjp_cumextreme, kl_vjp_logcumsumexp, kl_vjp_order;
kl_vjp_fn kl_vjp_norm, kl_vjp_rope, kl_vjp_matmul, kl_vjp_attention;
kl_vjp_fn kl_vjp_gather, kl_vjp_gather_axis, kl_vjp_scatter, kl_vjp_scatter_axis;
