/* task.h - one committed operation: streams queue tasks, backends execute them.
 * A task is a member of a graph node, so that queueing never allocates. */
#pragma once
#include <stdatomic.h>

#include "base/list.h"
#include "base/op/op.h"
#include "base/thread.h"
#include "base/value/tensor.h"

/* On whose behalf an operation was built. The rules of transforms build operations for one that the
 * user wrote, and messages name that one. */
enum kl_origin_kind { KL_ORIGIN_USER, KL_ORIGIN_GRADIENT, KL_ORIGIN_DERIVATIVE, KL_ORIGIN_BATCH };
/* The call of the user for which a gather, a scatter or an operation on matrices was built:
 * messages name that call. */
enum kl_alias {
    KL_ALIAS_NONE,
    KL_ALIAS_TAKE,
    KL_ALIAS_SLICE,
    KL_ALIAS_SLICE_UPDATE,
    KL_ALIAS_MASKED_SCATTER,
    KL_ALIAS_GATHER_MM,
    KL_ALIAS_SEGMENTED_MM,
    KL_ALIAS_GATHER_QMM,
    /* of matrices */
    KL_ALIAS_TRI_INV,
    KL_ALIAS_CHOLESKY_INV,
    KL_ALIAS_EIGVALS,
    KL_ALIAS_EIGVALSH,
    KL_ALIAS_NORM,
    KL_ALIAS_MULTIVARIATE_NORMAL,
};
struct kl_origin {
    uint8_t kind : 3;  /* enum kl_origin_kind */
    uint8_t alias : 5; /* enum kl_alias */
    /* how many axes of lanes the source of a checked operation has in front */
    uint8_t lane_axes;
    uint16_t op; /* of the user's operation; unless kind is KL_ORIGIN_USER */
    int lanes;   /* how many lanes the positions of the indices hold, the first slowest; 0: none */
};

/* The bits of kl_task.state: the executor looks at the inputs of the task; nobody who will ever
 * look at its output owns it. Whoever sets its bit first has the inputs: a task that was
 * dropped before it was started is abandoned, and the thread that dropped it releases them. */
enum { KL_TASK_STARTED = 1, KL_TASK_DROPPED = 2 };

struct kl_task {
    struct kl_link link; /* in its stream's queue; guarded by the stream */
    enum kl_op_id op;
    int n_in, n_out;
    struct kl_tensor **in;  /* live until release_inputs */
    struct kl_tensor **out; /* live until finish */
    const void *params;     /* a struct of base/op/op_params.h, by op; lives as long as the task */
    size_t params_bytes;
    uint64_t ticket; /* on its stream */
    /* scratch memory of this kernel alone, bound like an output; NULL: none */
    struct kl_buffer *workspace;
    bool begins;             /* a device gets it as the first of a command buffer */
    bool proved;             /* every index is known to be in range: the unchecked kernel may run */
    _Atomic(uint32_t) state; /* KL_TASK_STARTED | ... */
    uint64_t submitter;      /* number of the thread that committed the task */
    struct kl_origin origin; /* the operation of the user that messages name */
    /* Whether the task alone owns input i and its buffer, so that its block may be written. */
    bool (*owns_input)(struct kl_task *t, int i);
    /* Whether only the task and `readers` inputs of other tasks refer to its only output. */
    bool (*read_only_by)(struct kl_task *t, int readers);
    void (*release_inputs)(struct kl_task *t); /* drops the inputs; n_in becomes 0 */
    void (*finish)(struct kl_task *t);         /* drops everything; t may be freed */
};

/* Whether input i of t, whose value is there, goes to a device with memory m as an argument of the
 * command: one element of the host's memory that an element-wise operation reads. Programs have
 * many such numbers, and to copy one takes longer than the operation. */
bool kl_task_gives(const struct kl_task *t, int i, const struct kl_memory *m);

/* For the executor, before it looks at the inputs of t. false: t is abandoned. */
static inline bool kl_task_start(struct kl_task *t) {
    uint32_t was = 0;
    if (atomic_compare_exchange_strong_explicit(&t->state, &was, KL_TASK_STARTED,
                                                memory_order_acq_rel, memory_order_acquire))
        return true;
    return !(was & KL_TASK_DROPPED); /* it was started before, to see whether it could run */
}
/* t must wait: whoever drops it meanwhile may abandon it. false: it has been dropped already. */
static inline bool kl_task_put_off(struct kl_task *t) {
    uint32_t was = KL_TASK_STARTED;
    return atomic_compare_exchange_strong_explicit(&t->state, &was, 0, memory_order_acq_rel,
                                                   memory_order_acquire);
}
/* The caller knows that nobody will look at the output of t. true: t is abandoned, and the caller
 * must release its inputs. */
static inline bool kl_task_abandon(struct kl_task *t) {
    return atomic_fetch_or_explicit(&t->state, KL_TASK_DROPPED, memory_order_acq_rel) == 0;
}

/* A fusion: several element-wise operations over one shape, which a backend may run as one kernel;
 * before them perhaps a reduction to that shape, after them perhaps a sum of one of their results.
 * Each step says which of its operands are results of earlier steps. */
enum {
    KL_FUSION_STEPS = 20,
    KL_FUSION_INPUTS = 16,  /* operands in memory, over all steps */
    KL_FUSION_OPERANDS = 3, /* operands of one step */
    /* Elements; below it, looking for a fusion on a CPU costs more than a kernel. */
    KL_FUSION_MIN_SIZE = 1024,
};
struct kl_fusion_step {
    struct kl_task *task;
    int from[KL_FUSION_OPERANDS]; /* the earlier step that makes input k; -1: it is in memory */
    bool stored; /* the output is bound to memory; false: only steps of the fusion ever read it */
};

/* The operation's name in messages, such as "scatter_add" or "gradient of gather". */
const char *kl_task_name(const struct kl_task *t);
/* "gradient of " or "derivative of " and the name of the operation; static. */
const char *kl_origin_name(struct kl_origin o);
