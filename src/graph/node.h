/* node.h - a node: one operation with its inputs and outputs. It becomes the task that streams
 * queue. */
#pragma once
#include "base/op/task.h"
#include "graph/array.h"

struct kl_node {
    struct kl_task task;      /* task.in and task.out point to the tensors of the arrays below */
    struct kl_parts *parts;   /* the allocation shared with its only output; NULL: its own */
    _Atomic(uint32_t) refs;   /* one for all output arrays together, one for the claimed task */
    struct kl_stream *stream; /* borrowed; streams are immortal */
    uint64_t mark;            /* number of the last walk that saw the node; commit lock */
    struct kl_link kept;      /* in the list of its trace; see trace.c; commit lock */
    bool may_be_kept;         /* an output belongs to a trace; fixed */
    bool was_kept;            /* it has been in the list of a trace; commit lock */
    bool claimed;             /* committed: it is a task, or already done; commit lock */
    int32_t index;            /* what the walk `mark` knows of the node; commit lock */
    int n_in, n_out;          /* n_in becomes 0 when the task takes the inputs over */
    struct kl_array **in;     /* owned */
    /* Not owned until the task is claimed, which then owns them; always owned when n_out > 1. NULL
     * in a node of a trace: that output was freed. */
    struct kl_array **out;
};

/* The number of a new walk, for the field mark. The caller holds the commit lock. */
uint64_t kl_walk_number(void);

/* Whether n may be claimed now: its outputs point to n, and each input is already made or belongs
 * to a claimed node. The caller holds the commit lock. For self-checks and their tests. */
bool kl_node_is_valid(const struct kl_node *n);
/* Drops one reference to n; the last one releases all its inputs and frees n. The caller holds no
 * lock. */
void kl_node_release(struct kl_node *n);

/* ---- lifetime.c: for array.c ---- */
/* The functions of kl_task that a node's task has. */
bool kl_node_owns_input(struct kl_task *t, int i);
bool kl_node_read_only_by(struct kl_task *t, int readers);
void kl_node_release_inputs(struct kl_task *t);
void kl_node_finish(struct kl_task *t);
/* Frees a node that could not be completed. The caller keeps whatever the parameters own. */
void kl_node_abandon(struct kl_node *n);

/* ---- array.c: for image.c ---- */
/* An array of spec and the node that makes it by o, in one memory of *bytes bytes: the node begins
 * at *node. The inputs of the node are not set. */
int kl_array_op_size(const struct kl_operation *o, const struct kl_out_spec *spec, int64_t *size,
                     size_t *node, size_t *bytes, struct kl_error **err);
void kl_array_op_init(char *memory, const struct kl_operation *o, const struct kl_out_spec *spec,
                      int64_t size);
/* Whether an input has the flag; kl_any_shapeless asks whether its extents are unknown now. */
static inline bool kl_inputs_shapeless(struct kl_array *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i]->shapeless) return true;
    return false;
}
