/* vmap.h - the batched form of each operation: the rule by which a function that was traced for one
 * lane is made for all lanes at once. A rule is defined beside the builder of its operation and
 * stands in its row of base/op_list.def. It builds with the builders of ops.h. */
#pragma once
#include "base/op.h"
#include "graph/array.h"

/* One operation of the traced function. All pointers are borrowed. */
struct kl_vmap {
    enum kl_op_id op;
    const void *params; /* those of the operation of one lane */
    size_t params_bytes;
    int n_in;
    /* The lane axis of a mapped input is its axis 0; an unmapped input is the same for all lanes
     * and has no such axis. At least one input is mapped. */
    struct kl_array *const *in;
    const bool *mapped; /* n_in flags */
    int lanes;          /* the extent of the lane axis */
    struct kl_stream *s;
};

/* *out: a new reference to the batched result; *axis: its lane axis, or -1 when it is the same for
 * all lanes. An unmapped input is never copied for each lane: it is broadcast as a view. */
typedef int kl_vmap_fn(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err);

/* The rule of an operation; NULL: it has none. */
kl_vmap_fn *kl_vmap_rule(enum kl_op_id op);
