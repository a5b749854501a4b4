/* backend.h - the interface between the scheduler and the devices that execute tasks.
 *
 * A backend is one device: a memory and a table of functions. runtime/ checks the fates of the
 * inputs, binds blocks to the outputs, notes uses and calls launch. Two kinds of backends exist:
 * the CPU finishes a task before launch returns; a GPU (gpu/) encodes it and settles it later.
 * Among the slots, watch alone may wait for a device. The caller of launch, flush, cut and
 * waits_for holds the executor role of the queue's stream. */
#pragma once
#include "base/op/task.h"

struct kl_backend;
struct kl_queue; /* what a backend keeps per stream; the CPU has none */

/* Something that must happen before a task can be launched. */
struct kl_wait {
    struct kl_timeline *timeline;
    uint64_t ticket;
};

/* How much one kernel may hold that runs several element-wise operations: operations, operands in
 * memory, and different ones among these. A commit plans with it what is computed twice; there, a
 * function such as exp costs as much as it does to store `function` values and to load them. */
struct kl_fusion_limits {
    int steps, reads, leaves, function;
};

/* KL_HOLDS_FULL: no further task may be launched. */
enum kl_holds { KL_HOLDS_NOTHING, KL_HOLDS_SOME, KL_HOLDS_FULL };

struct kl_backend_ops {
    struct kl_fusion_limits fusion; /* 0: every operation is a kernel */

    /* Makes a queue that publishes its tickets on t. *q stays NULL for backends that keep nothing
     * per stream. Queues are never freed. */
    int (*queue_new)(struct kl_backend *b, struct kl_timeline *t, struct kl_queue **q,
                     struct kl_error **err);

    /* Whether input f (pending, from another timeline) must be waited for before the task can be
     * launched on q. If so, *w says which ticket to wait for. The CPU waits until f is settled; a
     * device waits for a value of its own only until the command that makes it is handed over. */
    bool (*waits_for)(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w);

    /* Runs or encodes t. The outputs are bound and uses are noted already. An operation of
     * several processes (kl_op_is_collective) is launched also when an input of it has failed or no
     * memory could be bound: *err then says why, and launch takes it. Result:
     * KL_LAUNCH_DONE: t is finished; *err is NULL or says how it failed. The caller writes the
     * fates and publishes the ticket.
     * KL_LAUNCH_PENDING: the backend keeps what it needs (but not t, which the caller finishes);
     * the backend writes the fates and publishes the ticket later. */
    int (*launch)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                  struct kl_error **err);

    /* Tasks of one queue may be settled long after the next one is launched, and its host memory
     * read only then: so a task waits also for an input that its own queue makes. */
    bool waits_for_own;

    /* Whether t can be a step of a fusion, which launch_fusion takes. NULL: there are none here. */
    bool (*joins)(struct kl_backend *b, const struct kl_task *t);
    /* Whether t, which is no step itself, can be the first one, whose output later steps read: a
     * reduction. NULL: none can. */
    bool (*leads)(struct kl_backend *b, const struct kl_task *t);
    /* Whether t, which is no step itself, can be the last one after n steps, one of whose outputs
     * it reads alone: a sum. NULL: none can. */
    bool (*ends)(struct kl_backend *b, const struct kl_fusion_step *steps, int n,
                 const struct kl_task *t);
    /* Runs the steps, all of one queue and with outputs of one shape, but for one that `ends`. The
     * results are those of running them one after another. All are finished when it returns. false:
     * there is not enough memory, and nothing is written. */
    bool (*launch_fusion)(struct kl_backend *b, const struct kl_fusion_step *steps, int n);

    /* The fates of t are already written (an input failed, or memory ran out); the backend
     * publishes the ticket of t in its order. NULL: the caller publishes it. */
    void (*skip)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t);

    /* An input of t has failed while an input with a lower number is pending. Nothing is bound or
     * launched; which error the outputs get is decided when the other inputs are settled. Devices
     * only. The result is that of launch. */
    int (*drop)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t, struct kl_error **err);

    /* Hands over the commands that are encoded. Called before the executor role is given up or
     * parked. NULL: the backend never holds commands back. */
    void (*flush)(struct kl_backend *b, struct kl_queue *q);
    /* The same where the stream has more tasks, which the next holder of the role encodes: commands
     * that would have to wait for a compiler may be put off until then. NULL: as flush. */
    void (*cut)(struct kl_backend *b, struct kl_queue *q);
    /* Whether the commands that are encoded end before t whoever encodes it. NULL: they may end
     * before each task. */
    bool (*ends_before)(struct kl_backend *b, struct kl_queue *q, const struct kl_task *t);

    /* Hands over what could not be handed over before; the rest is held. Nothing that is encoded
     * later is handed over before it, nor by `flush`. patient: the executor has nothing else to do
     * for the queue, and *w says for what it can wait. NULL: nothing is ever held. */
    enum kl_holds (*holds)(struct kl_backend *b, struct kl_queue *q, bool patient,
                           struct kl_wait *w);

    /* A thread is about to wait for this queue: settles the command buffers that are complete. NULL
     * for the CPU. */
    void (*poll)(struct kl_backend *b, struct kl_queue *q);

    /* A thread would otherwise sleep until `ticket` of t, a timeline of this backend, is published.
     * This slot settles complete command buffers again and again instead. true: the ticket is
     * published. false: it gave up after a while, or at once because another thread does the same.
     * NULL: this backend never does so. */
    bool (*watch)(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket);

    /* In the child of a fork: everything unsettled fails with KL_EFORK, and the device refuses all
     * work from now on. NULL: nothing to do. */
    void (*forked)(struct kl_backend *b);
};
enum { KL_LAUNCH_DONE, KL_LAUNCH_PENDING };

struct kl_backend {
    const struct kl_backend_ops *ops;
    const char *name; /* "cpu", "sim", ... */
    int index;        /* number among the devices of its type */
    struct kl_memory *memory;
};

/* parallel_for of the thread pool. runtime/ passes it to the backend at start. */
typedef void kl_parallel_fn(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
