/* vjp.h - the vector-Jacobian product of each differentiable operation: the rule by which it passes
 * gradients back. A rule is defined beside the builder of its operation and is an entry of the
 * table in vjp.c. It gets operands that have one type and shape already, because casts and
 * broadcasts are operations with rules of their own. It builds lazy arrays with the builders of
 * ops.h, so its results can be differentiated again. The cotangent of a complex z is (d/d re) + i
 * (d/d im), so a holomorphic f multiplies by the conjugate of f'. */
#pragma once
#include "base/op/op.h"
#include "graph/array.h"

/* One operation of the graph. All pointers are borrowed. */
struct kl_vjp {
    enum kl_op_id op;
    const void *params;
    int n_in, n_out;
    struct kl_array *const *in;
    struct kl_array *const *out;
    /* n_out cotangents, each of the shape and dtype of its output */
    struct kl_array *const *cotangent;
    const bool *wanted; /* n_in flags; a rule may skip the gradients of the other inputs */
    struct kl_stream *s;
};

/* grad[i], n_in entries that are NULL at first: for a wanted input a new reference to its gradient,
 * of the shape and dtype of the input. It stays NULL where the gradient is zero everywhere
 * (integers, indices, steps). On failure the caller releases the entries that are set. */
typedef int kl_vjp_fn(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err);

/* The rule of an operation. NULL: it has no gradient, because its result is an integer or constant
 * almost everywhere. */
kl_vjp_fn *kl_vjp_rule(enum kl_op_id op);
/* Whether a has a type that has gradients: floats and complex64. */
bool kl_has_gradient(const struct kl_array *a);

/* The rules that rows of base/op/op_list.def name; each is defined beside the builder of its
 * operation. */
kl_vjp_fn kl_vjp_refuse; /* KL_EUNSUPPORTED when an input of floats or complex numbers is wanted */
kl_vjp_fn kl_vjp_copy, kl_vjp_cast, kl_vjp_where;
kl_vjp_fn kl_vjp_reshape, kl_vjp_transpose, kl_vjp_broadcast, kl_vjp_slice, kl_vjp_as_strided;
kl_vjp_fn kl_vjp_diagonal, kl_vjp_slice_update, kl_vjp_concatenate, kl_vjp_depends;
kl_vjp_fn kl_vjp_sum, kl_vjp_prod, kl_vjp_extreme, kl_vjp_logsumexp, kl_vjp_var, kl_vjp_softmax;
kl_vjp_fn kl_vjp_cumsum, kl_vjp_cumprod, kl_vjp_cumextreme, kl_vjp_logcumsumexp, kl_vjp_order;
kl_vjp_fn kl_vjp_norm_backward;
kl_vjp_fn kl_vjp_norm, kl_vjp_rope, kl_vjp_matmul, kl_vjp_attention, kl_vjp_convolution;
kl_vjp_fn kl_vjp_quantize, kl_vjp_dequantize, kl_vjp_quantized_matmul, kl_vjp_gather_qmm;
kl_vjp_fn kl_vjp_attention_backward, kl_vjp_convolution_backward;
kl_vjp_fn kl_vjp_gather_mm, kl_vjp_segmented_mm;
kl_vjp_fn kl_vjp_gather, kl_vjp_gather_axis, kl_vjp_scatter, kl_vjp_scatter_axis;
