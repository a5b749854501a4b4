/* executor.h - the executor role: which thread runs a stream's tasks, how a stream parks, how a
 * caller waits. */
#pragma once
#include "runtime/pool.h"
#include "runtime/stream.h"

/* Who may run a stream:
 *   IDLE     nothing is queued, so nobody has to run the stream
 *   QUEUED   the stream is in the pool (or with the reader threads); the thread that takes it from
 *            there, or a waiting caller, runs it
 *   RUNNING  one thread holds the role
 *   PARKED   the first task waits for another timeline, whose waiter will queue the stream again */
enum kl_role { KL_IDLE, KL_QUEUED, KL_RUNNING, KL_PARKED };

struct kl_stream {
    struct kl_timeline settled; /* tickets whose fates are final */
    /* devices: the tickets handed to the driver; settled.handed points to it */
    struct kl_timeline handed;
    struct kl_backend *backend; /* fixed */
    struct kl_queue *queue;     /* the backend's state; fixed */
    enum kl_device_type type;   /* fixed */
    int index;                  /* fixed */
    bool is_reader;             /* runs on the reader threads; fixed */
    _Atomic(bool) of_group;     /* runs, or ran, what groups of processes do */
    _Atomic(uint32_t) handles;  /* 0: the stream may be handed out again */

    _Atomic(int64_t) n_shared;     /* unsettled tasks for this stream that streams of groups run */
    _Atomic(uint64_t) last_ticket; /* the last ticket given; written under the commit lock */
    struct kl_list staged;         /* of kl_task.link; commit lock */
    struct kl_stream *next_staged; /* commit lock */
    bool is_staged;                /* commit lock */
    _Atomic(bool) waking;          /* a committing thread will wake the stream after it unlocks */
    struct kl_stream *next_wake;   /* belongs to the thread that set waking */

    /* taken after the commit lock, before pool and leaf locks; several streams share one mutex */
    struct kl_mutex *mu;
    enum kl_role role; /* guarded by mu */
    bool in_pool;      /* item is linked in the pool; guarded by mu */
    /* of kl_task.link: committed, not yet taken by the executor; guarded by mu */
    struct kl_list inbox;
    struct kl_wait parked_on; /* valid when PARKED; guarded by mu */

    struct kl_list local;            /* of kl_task.link: taken from the inbox; role holder only */
    struct kl_task *_Atomic running; /* while a task runs; any thread may ask whether one does */
    struct kl_waiter park;           /* registered while PARKED */
    struct kl_item item;             /* in the pool while in_pool */
};

/* Whether role, queue and tickets of s agree. The caller holds s->mu. For self-checks and their
 * tests. */
bool kl_stream_is_valid(const struct kl_stream *s);

/* Queues a stream that has new work, unless a thread runs it or it is parked. The caller holds no
 * lock. */
void kl_executor_wake(struct kl_stream *s);
/* The caller holds the role of s. Runs tasks until the ticket `until` is launched, nothing is left,
 * or the stream parks; then gives the role up. to_cut: it first runs what belongs to the same
 * commands. */
void kl_executor_run(struct kl_stream *s, uint64_t until, bool to_cut);
void kl_executor_stream_init(struct kl_stream *s);
/* Locks or unlocks the mutexes of all streams, around fork. */
void kl_executor_fork_lock(bool lock);
/* Whether this thread runs a task now. If so, a callback of that task called the library. */
bool kl_executor_in_task(void);
/* Whether some thread waits for a stream inside a callback, perhaps of a custom reader. */
bool kl_executor_callback_waits(void);
/* In a forked child: fails every task that s has not settled, and makes s idle. */
void kl_executor_forked(struct kl_stream *s);

#ifdef KL_TEST_HOOKS
uint64_t kl_test_n_cancelled(void); /* tasks that were abandoned, and did not run, so far */
#endif

/* ---- stream.c ---- */
struct kl_stream *kl_stream_at(int index); /* NULL: there are fewer */
void kl_streams_fork_prepare(void);
void kl_streams_fork_parent(void);
void kl_streams_fork_child(void);

/* ---- bind.c ---- */
/* Finds memory for the outputs of t (donated or fresh), makes the operands accessible to the
 * stream's device, and notes all uses. When it fails, t has not run and must fail with *err. */
int kl_bind_task(struct kl_stream *s, struct kl_task *t, struct kl_error **err);
/* After the launch: takes a donated block away from the input that it came from. */
void kl_bind_after_launch(struct kl_task *t);
/* Validation mode: checks the guards of all operands after a CPU task has run. */
void kl_bind_check_guards(struct kl_stream *s, struct kl_task *t, struct kl_error **err);
#ifdef KL_TEST_HOOKS
uint64_t kl_test_bytes_copied(void); /* bytes copied between memories so far */
#endif
