/* custom.h - functions with rules of the user's own, and functions that are computed again for
 * their gradient (checkpoint). A call of one inside a trace becomes a node of the operation
 * CUSTOM, whose outputs are views of the function's results and which the drivers treat as one
 * operation. */
#pragma once
#include "ops/build/jvp.h"
#include "ops/build/vjp.h"
#include "transforms/function.h"
#include "transforms/tape.h"

/* A rule of the user. All lists are borrowed; *outs is empty before and stays so on failure. */
struct kl_custom_call {
    struct kl_array *const *list[3];
    size_t n[3];
    const int
        *numbers; /* jvp: the arguments that have a tangent; vmap: an axis per argument or -1 */
    size_t n_numbers;
    int *out_axes; /* vmap: the rule writes one axis or -1 per output here; room for n_out_axes */
    size_t n_out_axes;
};
struct kl_custom_rule {
    /* vjp: (arguments, cotangents, outputs) give one gradient per argument; jvp: (arguments, their
     * tangents) give one tangent per output; vmap: (arguments) give the outputs. NULL: no rule. */
    int (*call)(void *ctx, struct kl_custom_call *c, struct kl_arrays *outs, struct kl_error **err);
    void *ctx; /* one reference */
    void (*retain)(void *ctx);
    void (*release)(void *ctx);
};

struct kl_custom_function; /* shared, counted */
/* Takes over no reference: f and the rules are retained. vjp, jvp, vmap: NULL for none. */
int kl_custom_function_new(struct kl_custom_function **out, const struct kl_function *f,
                           const struct kl_custom_rule *vjp, const struct kl_custom_rule *jvp,
                           const struct kl_custom_rule *vmap, struct kl_error **err);
/* A function whose values are not kept for its gradient: the gradient makes them again, from the
 * operations that were recorded when it was called. */
int kl_checkpoint_new(struct kl_custom_function **out, const struct kl_function *f,
                      struct kl_error **err);
struct kl_custom_function *kl_custom_function_retain(struct kl_custom_function *c);
void kl_custom_function_release(struct kl_custom_function *c);
/* Calls the function; inside a trace the rules stand for it. */
int kl_custom_function_call(struct kl_custom_function *c, struct kl_array *const *args,
                            size_t n_args, struct kl_arrays *outs, struct kl_error **err);

/* ---- for the drivers: the rules of a node CUSTOM ---- */
int kl_custom_vjp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err);
/* tangent: n_in entries, NULL for zeros; out: n_out entries, NULL before. */
int kl_custom_jvp(const struct kl_node *n, struct kl_array *const *tangent, struct kl_stream *s,
                  struct kl_array **out, struct kl_error **err);
/* in: n_in batched inputs with their axes (0 or -1); out, axis: n_out entries. */
int kl_custom_vmap(const struct kl_node *n, struct kl_array *const *in, const int *in_axes,
                   int lanes, struct kl_array **out, int *axis, struct kl_error **err);

/* Makes the operation of a step again with other inputs; out: n_out new references. A node CUSTOM
 * stays one. */
int kl_step_again(const struct kl_tape_step *step, struct kl_array *const *in, struct kl_stream *s,
                  struct kl_array **out, struct kl_error **err);
