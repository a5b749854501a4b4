/* norm.h - builders of norms; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* Over the last axis of a float array with at least one axis. weight and bias (NULL for none) are
 * 1-d, of the length of that axis. The result has the common dtype of all; 16-bit floats are
 * computed in float32. rms_norm is x / sqrt(mean(x^2) + eps) * weight. KL_EDTYPE: integers only, or
 * complex64. */
int kl_rms_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight, float eps,
                struct kl_stream *s, struct kl_error **err);
/* (x - mean) / sqrt(var + eps) * weight + bias */
int kl_layer_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                  struct kl_array *bias, float eps, struct kl_stream *s, struct kl_error **err);
/* The backward pass of both norms: the operation NORM_BACKWARD (base/op/op_params.h) on x, weight
 * (NULL: none) and the cotangent of the norm's result, which has the shape of x. p->has_weight is
 * not read. The gradients are one array with one axis, of the common dtype of all. KL_ESHAPE for
 * other shapes; KL_EDTYPE as above; KL_ELIMIT when there are more than INT32_MAX gradients. */
struct kl_norm_backward_params;
int kl_norm_backward(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                     struct kl_array *cotangent, const struct kl_norm_backward_params *p,
                     struct kl_stream *s, struct kl_error **err);
