/* train.h - tools for training: optimisers, learning rates that follow a schedule, the clipping of
 * gradients, and checkpoints.
 *
 *     keel_optimizer opt = keel_optimizer_new_adamw(1e-3, NULL);
 *     for (each batch) {
 *         mlx_closure_value_and_grad_apply(&loss, &grads, loss_and_grads, params);
 *         keel_clip_by_global_norm(&grads, NULL, grads, 1.0, s);
 *         if (keel_optimizer_step_checked(&params, opt, params, grads, s)) ... (skipped; why is in
 *     }                                                              keel_last_error of error.h)
 *
 * Parameters and gradients are vectors of equal length, gradient i of the shape and dtype of
 * parameter i. Parameters are floats. Parameters of float16 and bfloat16 have a state in float32,
 * and their update is computed in float32 and rounded once.
 *
 * The functions return 0, or 1 with an error raised (keel/error.h); results are then unchanged. A
 * result handle is empty, or live and overwritten; it may be one of the inputs. Any thread may
 * call; one optimiser is used by one thread at a time. Schedules are immutable. */
#ifndef KEEL_TRAIN_H
#define KEEL_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/map.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- schedules: the learning rate as a function of the step ----
 * Steps count from 0. Constructors return an empty handle on failure: KEEL_EARG for a rate that is
 * not finite and for a number of steps below 1, KEEL_ENOMEM. The caller frees a schedule with
 * keel_schedule_free; what uses it keeps a reference. */
typedef struct keel_schedule_ {
    void *ctx;
} keel_schedule;

KEEL_API keel_schedule keel_schedule_new_constant(double rate);
/* from + (to - from) step / n_steps, then `to`. A warmup goes from 0 to the rate. */
KEEL_API keel_schedule keel_schedule_new_linear(double from, double to, int64_t n_steps);
/* Half a period of the cosine, from `from` at step 0 to `to` at n_steps, then `to`. */
KEEL_API keel_schedule keel_schedule_new_cosine(double from, double to, int64_t n_steps);
/* rate * factor^k, where k is the number of whole periods of n_steps steps before this step. */
KEEL_API keel_schedule keel_schedule_new_step(double rate, double factor, int64_t n_steps);
/* One schedule after the other: parts[i + 1] begins at step starts[i]. Each part counts its own
 * steps from 0. n_starts is n_parts - 1, and the starts grow. KEEL_ELIMIT: more than 16 parts, or
 * joins nested more than 8 deep. */
KEEL_API keel_schedule keel_schedule_new_join(const keel_schedule *parts, size_t n_parts,
                                              const int64_t *starts, size_t n_starts);
KEEL_API int keel_schedule_free(keel_schedule schedule); /* An empty handle is allowed. */
/* Puts the rate at `step`, a 0-d array of an integer dtype, into *res: 0-d float32, lazy. It is
 * computed in float32 (KEEL_ESHAPE, KEEL_EDTYPE). */
KEEL_API int keel_schedule_at(mlx_array *res, keel_schedule schedule, const mlx_array step,
                              const mlx_stream s);

/* ---- optimisers ---- */
typedef struct keel_optimizer_ {
    void *ctx;
} keel_optimizer;

/* Options of stochastic gradient descent:
 *     g' = g + weight_decay p
 *     m' = momentum m + (1 - dampening) g'            (only with a momentum above 0)
 *     p' = p - rate d, d = m', with nesterov g' + momentum m', without momentum g'
 * m is 0 at first, as in MLX; PyTorch leaves out the dampening of the first step. nesterov needs a
 * momentum above 0 and no dampening (KEEL_EARG). */
typedef struct keel_sgd_options_ {
    double momentum, dampening, weight_decay;
    bool nesterov;
} keel_sgd_options;

/* Options of Adam and AdamW:
 *     m' = beta1 m + (1 - beta1) g,  v' = beta2 v + (1 - beta2) g^2
 *     p' = p - rate m'/(1 - beta1^t) / (sqrt(v'/(1 - beta2^t)) + eps),  t = 1, 2, ...
 * Without bias_correction the divisions by 1 - beta^t are left out (the default of MLX, not of
 * PyTorch). Adam adds weight_decay p to the gradient first; AdamW multiplies p by 1 - rate
 * weight_decay first. The betas are in [0, 1), eps and weight_decay at least 0 (KEEL_EARG). */
typedef struct keel_adam_options_ {
    double beta1, beta2, eps, weight_decay;
    bool bias_correction;
} keel_adam_options;

/* 0.9, 0.999, 1e-8, no decay, with bias correction. */
static inline keel_adam_options keel_adam_defaults(void) {
    keel_adam_options o = {0.9, 0.999, 1e-8, 0, true};
    return o;
}

/* Optimisers with a constant learning rate. options may be NULL: then all options of SGD are 0,
 * Adam has keel_adam_defaults(), and AdamW has the same with a weight_decay of 0.01.
 * The handle is empty on failure (KEEL_EARG, KEEL_ENOMEM). The caller frees it with
 * keel_optimizer_free. */
KEEL_API keel_optimizer keel_optimizer_new_sgd(double rate, const keel_sgd_options *options);
KEEL_API keel_optimizer keel_optimizer_new_adam(double rate, const keel_adam_options *options);
KEEL_API keel_optimizer keel_optimizer_new_adamw(double rate, const keel_adam_options *options);
KEEL_API int keel_optimizer_free(keel_optimizer optimizer); /* An empty handle is allowed. */

/* The learning rate from now on: a schedule, or a 0-d float array (which may be an input of a
 * function that is traced). Each replaces what was there. */
KEEL_API int keel_optimizer_set_schedule(keel_optimizer optimizer, keel_schedule schedule);
KEEL_API int keel_optimizer_set_rate(keel_optimizer optimizer, const mlx_array rate);
/* Puts the rate of the coming step into *res: 0-d, lazy. */
KEEL_API int keel_optimizer_rate(mlx_array *res, keel_optimizer optimizer, const mlx_stream s);

/* The state: [the number of steps taken, 0-d int64; then for each parameter m; then for each
 * parameter v], as far as the optimiser has these. It is made by the first step, or before by
 * keel_optimizer_init; until then it is an empty vector. Setting an empty vector goes back to that.
 * Whether a state fits the parameters is checked by the next step. */
KEEL_API int keel_optimizer_init(keel_optimizer optimizer, const mlx_vector_array params,
                                 const mlx_stream s);
KEEL_API int keel_optimizer_state(mlx_vector_array *res, keel_optimizer optimizer);
KEEL_API int keel_optimizer_set_state(keel_optimizer optimizer, const mlx_vector_array state);

/* One step, lazy: puts the updated parameters into *res, and the optimiser's state becomes the
 * updated one. Errors of the call: KEEL_EARG (counts that differ), KEEL_ESHAPE, KEEL_EDTYPE.
 * A gradient that fails makes its parameter fail, and that parameter's state, in this and all later
 * steps; the other parameters go on. To undo such a step, put back the parameters, and the state
 * that keel_optimizer_state gave before. keel_optimizer_step_checked does that by itself. */
KEEL_API int keel_optimizer_step(mlx_vector_array *res, keel_optimizer optimizer,
                                 const mlx_vector_array params, const mlx_vector_array grads,
                                 const mlx_stream s);
/* The same, and evaluates the updated parameters and state. When one of them fails, the call fails
 * with that error, and neither *res nor the optimiser changes: the step did not happen. Needs
 * memory for the old and the new parameters and state at once. */
KEEL_API int keel_optimizer_step_checked(mlx_vector_array *res, keel_optimizer optimizer,
                                         const mlx_vector_array params,
                                         const mlx_vector_array grads, const mlx_stream s);
/* One step as a function of arrays alone, for steps that are traced or compiled whole: the new
 * parameters and state, both lazy, from parameters, gradients and a state. The optimiser gives its
 * rule and learning rate; its own state is neither read nor changed. In a function that is traced,
 * the other steps would leave arrays of the trace in the optimiser. */
KEEL_API int keel_optimizer_apply(mlx_vector_array *res_0, mlx_vector_array *res_1,
                                  keel_optimizer optimizer, const mlx_vector_array params,
                                  const mlx_vector_array grads, const mlx_vector_array state,
                                  const mlx_stream s);

/* ---- clipping ---- */
/* Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the square root of
 * the sum of the squares of all their elements, computed in float32 (float64 when a gradient is).
 * norm, 0-d, is put into *norm unless norm is NULL. A gradient that fails makes all fail. */
KEEL_API int keel_clip_by_global_norm(mlx_vector_array *res, mlx_array *norm,
                                      const mlx_vector_array grads, double max_norm,
                                      const mlx_stream s);
/* Limits each element to [-limit, limit]. NaN stays NaN. */
KEEL_API int keel_clip_by_value(mlx_vector_array *res, const mlx_vector_array grads, double limit,
                                const mlx_stream s);

/* ---- checkpoints: parameters and the state of the optimiser in one safetensors file ----
 * The tensor names[i] is parameter i; "optimizer.step", "optimizer.m.<name>" and
 * "optimizer.v.<name>" are the state. No parameter's name begins with "optimizer." (KEEL_EARG).
 * Readers of safetensors files read these files, and files of others can be loaded without an
 * optimiser. */
/* Evaluates all arrays and writes the file. An old file is replaced when the new one is complete,
 * and stays as it is when anything fails. optimizer and metadata may be empty handles. KEEL_EARG:
 * counts that differ, a name that is given twice; KEEL_EFILE; or the error of an array that
 * failed. */
KEEL_API int keel_checkpoint_save(const char *path, const mlx_vector_string names,
                                  const mlx_vector_array params, keel_optimizer optimizer,
                                  const mlx_map_string_to_string metadata);
/* Puts lazy arrays of the named tensors into *params, and the lazy state into the optimiser, unless
 * it is an empty handle. *metadata gets the metadata of the file, unless metadata is NULL. Only the
 * header is read: a tensor whose bytes are missing fails when it is evaluated (KEEL_ETRUNCATED,
 * naming tensor, file and bytes). KEEL_EFORMAT: the file has no such tensor, or the state of
 * another kind of optimiser; then nothing changes. KEEL_EFILE. */
KEEL_API int keel_checkpoint_load(mlx_vector_array *params, mlx_map_string_to_string *metadata,
                                  keel_optimizer optimizer, const char *path,
                                  const mlx_vector_string names);

#ifdef __cplusplus
}
#endif
#endif
