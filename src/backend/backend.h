/* backend.h - the seam between the scheduler and what executes tasks.
 *
 * A backend is one device: a memory and a table of functions. runtime/ checks the fates of inputs, binds blocks to outputs, notes uses and calls
 * launch; what launch does is the backend's affair. Two kinds fit: one that finishes a task before launch returns (CPU), and
 * one that encodes it and settles it later (devices, gpu/). Nothing here may block, but for read, write and
 * finish_waiting. The executor role of a stream's queue is held by the caller of launch, flush and waits_for. */
#pragma once
#include "base/task.h"

struct kl_backend;
struct kl_queue; /* a backend's own state of one stream; the CPU has none */

/* Something that must happen before a task can be launched. */
struct kl_wait {
    struct kl_timeline *timeline;
    uint64_t ticket;
};

struct kl_backend_ops {
    /* A queue that publishes on t; *q stays NULL for backends without state. Queues are never freed. */
    int (*queue_new)(struct kl_backend *b, struct kl_timeline *t, struct kl_queue **q,
                     struct kl_error **err);

    /* Whether input f (pending, from another timeline) must be waited for before the task can be launched on q: then *w says what. The CPU waits
     * until f is settled; a device waits for a value of its own only until it is handed over. */
    bool (*waits_for)(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w);

    /* Runs or encodes t; outputs are bound, uses noted. Result:
     * KL_LAUNCH_DONE: it is finished, and *err says how (NULL: well); the caller writes fates and publishes the ticket.
     * KL_LAUNCH_PENDING: the backend keeps what it needs (not t, which the caller finishes), and will write the fates and publish. */
    int (*launch)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                  struct kl_error **err);

    /* Whether t can be a step of a group: then launch_group may be given it. NULL: there are no groups. */
    bool (*joins)(struct kl_backend *b, const struct kl_task *t);
    /* Runs the steps, all of one shape and of one queue, as if one after another, and is done when it returns; it cannot fail. */
    void (*launch_group)(struct kl_backend *b, const struct kl_group_step *steps, int n);

    /* The fates of t are already written (failed inputs, no memory): its ticket is to be published in its order. NULL: caller publishes. */
    void (*skip)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t);

    /* An input of t has failed while a lower-numbered one is pending: nothing is bound or launched; which error the outputs get is decided
     * when the others are settled. Devices only. Result as of launch. */
    int (*drop)(struct kl_backend *b, struct kl_queue *q, struct kl_task *t, struct kl_error **err);

    /* Hands over what is encoded. Called before the role is given up or parked. NULL: nothing is ever held back. */
    void (*flush)(struct kl_backend *b, struct kl_queue *q);

    /* A thread is about to wait for this queue: settle what is done. NULL for the CPU. */
    void (*poll)(struct kl_backend *b, struct kl_queue *q);

    /* A thread would sleep until `ticket` of t, a timeline of this backend, is published: settles what is done again and again instead, until it is (true); or
     * for a while, or not at all when another thread does so (false). NULL: never. */
    bool (*watch)(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket);

    /* In the child of a fork: everything unsettled fails with KL_EFORK; the device refuses from now on. NULL: nothing to do. */
    void (*forked)(struct kl_backend *b);
};
enum { KL_LAUNCH_DONE, KL_LAUNCH_PENDING };

struct kl_backend {
    const struct kl_backend_ops *ops;
    const char *name; /* "cpu", "sim", ... */
    int index;        /* of its device type */
    struct kl_memory *memory;
};

/* parallel_for of the pool, handed down by runtime/ at start. */
typedef void kl_parallel_fn(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
