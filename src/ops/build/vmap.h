/* vmap.h - the batched form of each operation: the rule by which a function that was traced for one
 * lane is made for all lanes at once. A rule is defined next to the builder of its operation and
 * stands in its row of base/op/op_list.def. It builds with the builders of ops.h. */
#pragma once
#include "base/op/declare.h"
#include "base/op/op.h"
#include "graph/array.h"

/* One operation of the traced function. All pointers are borrowed. */
struct kl_vmap {
    enum kl_op_id op;
    const void *params; /* of the operation of one lane */
    size_t params_bytes;
    int n_in;
    /* The lane axis of a mapped input is its axis 0; an unmapped input is the same for all lanes
     * and has no such axis. At least one input is mapped. */
    struct kl_array *const *in;
    const bool *mapped;  /* n_in flags */
    int lanes;           /* the extent of the lane axis */
    struct kl_stream *s; /* never NULL: also a rule of a view may have to copy */
    /* dtype and shape of the result of one lane, as in struct kl_build */
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
};

/* *out: a new reference to the batched result; *axis: its lane axis, or -1 when it is the same for
 * all lanes. An unmapped input is never copied for each lane: it is broadcast as a view. */
typedef int kl_vmap_fn(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err);

/* The rule of an operation; NULL: it has none. */
kl_vmap_fn *kl_vmap_rule(enum kl_op_id op);

/* The rules: the column vmap of op_list.def. */
#define KL_OP(ID, name, n_in, flags, kernel, lowering, indices, range, vjp, jvp, vmap, build, \
              params)                                                                         \
    KL_DECLARE(kl_vmap_fn, vmap)
#include "base/op/op_list.def"

/* ---- what the rules share ---- */

/* Makes the operation of v again, with other parameters and inputs that have the lane axis first
 * (kl_op_build). The recorded shape is that of one lane with the lanes in front. */
int kl_vmap_build(const struct kl_vmap *v, struct kl_array **out, const void *params,
                  size_t params_bytes, struct kl_array *const *in, struct kl_error **err);
/* Input i with the lane axis first: the array itself when it is mapped, else a broadcast view. */
int kl_vmap_input(const struct kl_vmap *v, struct kl_array **out, int i, struct kl_error **err);
/* All inputs like that. On failure no reference is held. */
int kl_vmap_inputs(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err);
/* The dims of a with an axis of n elements put in front of axis `at`; KL_ESHAPE: too many axes. */
int kl_vmap_dims(int *dims, const struct kl_array *a, int at, int n, struct kl_error **err);
/* For what no single operation computes: the operation once for each lane, with the inputs of that
 * lane as views; the results are stacked, lane axis first. */
int kl_vmap_each(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err);
/* The numbers 0 .. lanes - 1 as indices, with ndim further axes of size 1. */
int kl_vmap_lane_index(const struct kl_vmap *v, struct kl_array **out, int ndim,
                       struct kl_error **err);
