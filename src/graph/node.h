/* node.h - a node: one operation with its inputs and outputs, which becomes the task that streams queue. Inside graph/ and transforms/. */
#pragma once
#include "base/task.h"
#include "graph/array.h"

struct kl_node {
    struct kl_task task;      /* in and out point to the tensors of the arrays below */
    struct kl_parts *parts;   /* the allocation shared with its only output; NULL: its own */
    _Atomic(uint32_t) refs;   /* its output array(s) as one, and the task once claimed */
    struct kl_stream *stream; /* borrowed; streams are immortal */
    uint64_t mark;            /* the walk that last saw it; commit lock */
    bool claimed;             /* committed: a task, or already done; commit lock */
    bool keep;                /* an output is a tracer: inputs are kept after evaluation; fixed */
    int n_in, n_out;          /* n_in becomes 0 when inputs are dropped */
    struct kl_array **in;     /* owned */
    struct kl_array *
        *out; /* known weakly; owned by the task once claimed, and always when n_out > 1 */
};

/* Whether n may be claimed now: its outputs know it, and each input is made already or by a node that
 * is claimed. Commit lock. For self-checks and their tests. */
bool kl_node_is_valid(const struct kl_node *n);
/* Releases all inputs of n and n itself; no lock is held. */
void kl_node_release(struct kl_node *n);
