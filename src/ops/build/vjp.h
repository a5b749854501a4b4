/* vjp.h - the vector-Jacobian product of each differentiable operation: the rule by which it passes
 * gradients back. A rule is defined next to the builder of its operation and is an entry of the
 * table in vjp.c. It gets operands that have one type and shape already, because casts and
 * broadcasts are operations with rules of their own. It builds lazy arrays with the builders of
 * ops.h, so its results can be differentiated again. The cotangent of a complex z is (d/d re) + i
 * (d/d im), so a holomorphic f multiplies by the conjugate of f'. */
#pragma once
#include "base/op/declare.h"
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
/* For an operation with the flag KL_OPF_SUMS_BATCHES whose input 1 repeats `one`: whether its rule
 * takes `one` in place of that input. The rule then gives the gradient of `one`, as one product
 * over all batches instead of a sum of products. */
bool kl_vjp_sums_batches(struct kl_array *const *in, const struct kl_array *one);
/* Whether a has a type that has gradients: floats and complex64. */
bool kl_has_gradient(const struct kl_array *a);

/* The rules: the column vjp of op_list.def. kl_vjp_refuse gives KL_EUNSUPPORTED when the gradient
 * of an input of floats or complex numbers is wanted. */
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    KL_DECLARE(kl_vjp_fn, vjp)
#include "base/op/op_list.def"
