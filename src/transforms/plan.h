/* plan.h - a traced function as a table of steps, which can be replayed: each replay builds the
 * operations again, from new arguments. compile and export use it.
 *
 * A plan is immutable and counted; several threads may replay it at once. It owns no memory of
 * results. Values are numbered: arguments, then constants, then the outputs of the steps. */
#pragma once
#include "transforms/function.h"
#include "transforms/tape.h"

enum { KL_PLAN_FEW = 16 }; /* inputs or outputs of nearly every step */

struct kl_plan_spec {
    enum kl_dtype dtype;
    int ndim;
    int *dims; /* owned */
};

struct kl_plan_step {
    enum kl_op_id op;
    struct kl_origin origin;
    struct kl_stream *s; /* NULL: the calling thread's default stream at the replay */
    void *params;        /* owned; what is in them too (kernels, calls, custom functions) */
    size_t params_bytes;
    int32_t *in; /* numbers of values; owned */
    int n_in, n_out;
    int32_t out;               /* the number of output 0; the others follow */
    struct kl_plan_spec *spec; /* of each output; owned */
    /* A view: its layout, which holds when input 0 has the strides that it had. NULL: none */
    int64_t *strides, *base_strides; /* owned */
    int64_t offset;
    bool implicit; /* a broadcast that an element-wise builder made of its operand */
    bool loose; /* its operands are not broadcast yet: it goes through its builder in any replay */
    struct kl_image *image; /* for exact replays; NULL: none; owned */
};

/* An extent that the function saw as a number: the plan is of use where it is the same. */
struct kl_plan_guard {
    int32_t value;
    int axis, extent;
};

struct kl_plan {
    _Atomic(uint32_t) refs;
    bool shapeless; /* for arguments of any shapes that pass the guards */
    /* A builder used extents as numbers; then every extent of an argument has a guard. */
    bool fixed;
    enum kl_op_id fixed_by;
    struct kl_plan_guard *guards; /* owned; those of arguments come first */
    int n_guards;
    int n_args, n_constants, n_steps, n_values, n_outs;
    bool once; /* a constant is an argument of a trace around this one: of use only inside that */
    struct kl_plan_spec *args;
    struct kl_array **constants; /* owned references */
    struct kl_plan_step *steps;
    /* of operations of groups of processes, which a replay builds in the same order; 0: none */
    uint64_t first_serial, n_serials;
    int32_t *outs;  /* numbers of values */
    uint32_t *uses; /* of each value: how many inputs of steps and results it is */
};

/* Calls f with placeholders of these dtypes and shapes and makes a plan of what it computes. With
 * shapeless the extents are those of one call among many: nothing in the plan depends on them, but
 * for the guards. With simplify, equal operations on equal inputs are done once (not those that
 * call the user, and not across depends, checkpoints and custom rules). KL_ETRACE: f evaluates
 * what depends on an argument. */
int kl_plan_trace(struct kl_plan **out, const struct kl_function *f,
                  const struct kl_plan_spec *args, size_t n_args, bool simplify, bool shapeless,
                  struct kl_error **err);
/* Whether the arguments, which have the dtypes and numbers of axes of the plan's, pass its guards.
 * NULL: all do; else the first guard that fails. */
const struct kl_plan_guard *kl_plan_failed_guard(const struct kl_plan *p,
                                                 struct kl_array *const *args);
/* An empty plan to fill in, for import; kl_plan_release frees what is filled in. */
struct kl_plan *kl_plan_new(struct kl_error **err);
/* The parameters of an operation may own functions of the user, or a kernel. One more reference to
 * these; KL_EUNSUPPORTED: the operation cannot be done twice. */
int kl_plan_params_retain(enum kl_op_id op, const void *params, struct kl_error **err);
void kl_plan_params_release(const struct kl_plan_step *s);
/* While a plan is made, its constants have the numbers -1, -2, ... where steps and results name
 * them, and the values of steps follow the arguments. This gives all their final numbers and counts
 * the uses of values. */
int kl_plan_complete(struct kl_plan *p, struct kl_error **err);
struct kl_plan *kl_plan_retain(struct kl_plan *p);
void kl_plan_release(struct kl_plan *p); /* NULL is fine */

/* A constant as it was before an element-wise builder broadcast it: where elements repeat along an
 * axis, one of them stays. For operands of other shapes. */
int kl_plan_not_broadcast(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                          struct kl_error **err);
/* Builds the plan's operations on other arguments. `exact`: dtypes and shapes are those of the
 * trace, and the recorded shapes hold; otherwise every operation goes through its builder, with all
 * its checks, and shapes follow from the arguments; a plan for any shapes is replayed so. Nothing
 * is evaluated. KL_ESHAPE, of such a plan: a value is another kind of array than it was, or has
 * another extent where the function saw it. */
int kl_plan_replay(const struct kl_plan *p, struct kl_array *const *args, bool exact,
                   struct kl_arrays *outs, struct kl_error **err);
