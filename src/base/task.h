/* task.h - one operation that has been committed: what streams queue and backends execute.
 * Embedded in a graph node, so queueing never allocates. */
#pragma once
#include "base/list.h"
#include "base/op.h"
#include "base/tensor.h"
#include "base/thread.h"

struct kl_task {
    struct kl_link link; /* in its stream's queue; guarded by the stream */
    enum kl_op_id op;
    int n_in, n_out;
    struct kl_tensor **in;  /* live until release_inputs */
    struct kl_tensor **out; /* live until finish */
    const void *params;     /* of base/op_params.h by op; lives as long as the task */
    size_t params_bytes;
    uint64_t ticket; /* on its stream */
    struct kl_buffer
        *workspace;     /* scratch bytes of this kernel alone, bound like an output; NULL: none */
    bool proved;        /* every index is known to be in range: the unchecked kernel may run */
    uint64_t submitter; /* number of the thread that committed it */
    /* Whether the task alone owns input i and its buffer, so that its block may be written. */
    bool (*owns_input)(struct kl_task *t, int i);
    /* Whether nobody but the task and `readers` inputs of other tasks knows its only output. */
    bool (*read_only_by)(struct kl_task *t, int readers);
    void (*release_inputs)(struct kl_task *t); /* drops them; n_in becomes 0 */
    void (*finish)(struct kl_task *t);         /* drops everything; t is gone */
};

/* Several element-wise operations over one shape, which a backend may run as one: what each step takes from the steps before it. */
enum {
    KL_GROUP_STEPS = 16,
    KL_GROUP_INPUTS = 16,  /* that lie in memory, over all steps */
    KL_GROUP_OPERANDS = 3, /* of a step */
};
struct kl_group_step {
    struct kl_task *task;
    int from[KL_GROUP_OPERANDS]; /* the earlier step that makes input k; -1: it lies in memory */
    bool stored; /* its output is bound to memory; else only steps of the group ever read it */
};

const char *kl_task_name(const struct kl_task *t); /* the operation's name in messages */
