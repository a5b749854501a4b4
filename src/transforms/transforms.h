/* transforms.h - functions made from functions of arrays. All of them give a function
 * tracers as its arguments, and the operations between these and its results say what it
 * computes. Arrays that the function finds elsewhere are constants of the trace. Rules are those
 * of the operations' rows in base/op/op_list.def; they build on the stream of the operation. All
 * functions return 0, or a code with *err set and all results empty. Nothing is evaluated. Any
 * thread may call. */
#pragma once
#include "graph/trace.h"
#include "transforms/function.h"

/* ---- reverse.c ---- */
/* outs: f(primals). grads[i]: the sum over the outputs of cotangent times Jacobian, of the dtype
 * and shape of primals[i], zeros where no output depends on it. One cotangent for each output,
 * of its shape and dtype, but none for an output that stop_gradient made. KL_EDTYPE: a primal is
 * no float or complex array; KL_ESHAPE, KL_EDTYPE, KL_EARG: cotangents; KL_EUNSUPPORTED: an
 * operation has no gradient, which the message names. */
int kl_vjp(const struct kl_function *f, struct kl_array *const *primals, size_t n_primals,
           struct kl_array *const *cotangents, size_t n_cotangents, struct kl_arrays *outs,
           struct kl_arrays *grads, struct kl_error **err);
/* values: f(args). grads[k]: the gradient of values[0] with respect to args[argnums[k]].
 * KL_EARG: no argument number, one given twice, one that does not exist; KL_ESHAPE: values[0]
 * has not one element and 0 axes. */
int kl_value_and_grad(const struct kl_function *f, const int *argnums, size_t n_argnums,
                      struct kl_array *const *args, size_t n_args, struct kl_arrays *values,
                      struct kl_arrays *grads, struct kl_error **err);
/* The part that both share, and other transforms too: the gradients with respect to the
 * arguments of a trace. cotangents: n_outs entries; NULL: zeros. grads: n_args new references;
 * NULL: zeros. */
int kl_pull_back(const struct kl_trace *t, struct kl_array *const *args, size_t n_args,
                 struct kl_array *const *outs, size_t n_outs, struct kl_array *const *cotangents,
                 struct kl_array **grads, struct kl_error **err);

/* ---- forward.c ---- */
/* outs: f(primals). out_tangents[i]: Jacobian times tangents, of the shape of outs[i]. The tangents
 * have the shapes and dtypes of the primals. Errors as for kl_vjp. */
int kl_jvp(const struct kl_function *f, struct kl_array *const *primals, size_t n_primals,
           struct kl_array *const *tangents, size_t n_tangents, struct kl_arrays *outs,
           struct kl_arrays *out_tangents, struct kl_error **err);

/* ---- batch.c ---- */
/* Calls f once with placeholders for one lane: inputs[i] without its axis in_axes[i];
 * KL_VMAP_NONE: the input is the same for all lanes. */
#define KL_VMAP_NONE (-1)
int kl_vmap_trace(const struct kl_function *f, struct kl_array *const *inputs, size_t n_inputs,
                  const int *in_axes, struct kl_arrays *lane_inputs, struct kl_arrays *lane_outputs,
                  struct kl_error **err);
/* Makes the outputs of a traced function for all lanes of the inputs. */
int kl_vmap_replace(struct kl_array *const *inputs, size_t n_inputs,
                    struct kl_array *const *lane_inputs, struct kl_array *const *lane_outputs,
                    size_t n_outputs, const int *in_axes, const int *out_axes,
                    struct kl_arrays *outputs, struct kl_error **err);
