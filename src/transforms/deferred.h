/* deferred.h - transforms of operations whose extents are not known yet. In a trace for any shapes
 * a rule would build with the extents of the trace. So the transform of an operation is recorded as
 * a call (deferred.h), and made at the replay by the transform itself: on a function that makes
 * the operation again from the arrays of the replay. Such calls nest: the operation may be a
 * deferred call. */
#pragma once
#include "graph/node.h"
#include "ops/build/deferred.h"

/* The calls:
 *   OP    the name of an operation, its dtype and shape as recorded, its parameters (params.h)
 *   VJP   the number of inputs, one of them, then the call of the operation; in = the inputs, then
 *         the cotangent; it gives the gradient of that input
 *   JVP   the number of inputs, the list of those that have tangents, then the call; in = the
 *         inputs, then the tangents
 *   VMAP  the list of the lane axes of the inputs (0; -1: none), then the call; in = the inputs; it
 *         gives the result with the lanes along axis 0
 *   LANES an axis of lanes, and where it goes; in = {a, an array with that axis}; it gives a, the
 *         same for each lane
 * Makes one of these, or a call of a builder. */
kl_deferred_fn kl_deferred_call;
/* Makes it, or records it again where an input is shapeless. */
int kl_deferred_again(const void *params, size_t params_bytes, struct kl_array *const *in, int n_in,
                      struct kl_stream *s, struct kl_array **out, struct kl_error **err);

/* The user's operation of a call, as "squeeze" or "gradient of squeeze", for messages. */
enum { KL_DEFERRED_NAME = 80 };
const char *kl_deferred_name(char text[KL_DEFERRED_NAME], const void *params, size_t params_bytes);

/* Whether transforms of n, which gets the arrays `with` as well, are recorded. */
bool kl_defers_rules(const struct kl_node *n, struct kl_array *const *with, int n_with);
/* *out: the gradient of input k of n, whose only output has that cotangent. */
int kl_deferred_vjp(struct kl_array **out, const struct kl_node *n, int k,
                    struct kl_array *cotangent, struct kl_stream *s, struct kl_error **err);
/* *out: the tangent of the output of n. tangent: n_in entries; NULL: zeros. */
int kl_deferred_jvp(struct kl_array **out, const struct kl_node *n, struct kl_array *const *tangent,
                    struct kl_stream *s, struct kl_error **err);
/* *out: the operation of n on inputs of which those with a flag have their lanes along axis 0. */
int kl_deferred_vmap(struct kl_array **out, const struct kl_node *n, struct kl_array *const *in,
                     const bool *mapped, struct kl_stream *s, struct kl_error **err);
/* *out: a, with its lanes, which are all the same, along out_axis. mapped: an array with the lanes
 * along `axis`. */
int kl_deferred_lanes(struct kl_array **out, struct kl_array *a, int out_axis,
                      struct kl_array *mapped, int axis, struct kl_stream *s,
                      struct kl_error **err);
