/* executor.h - the executor role: who runs a stream's tasks, how a stream parks, how a caller waits.
 * Inside runtime/ only. */
#pragma once
#include "runtime/pool.h"
#include "runtime/stream.h"

/* Who may run a stream:
 *   IDLE     nobody needs to: nothing is queued
 *   QUEUED   it is in the pool (or with the reader threads); whoever takes it there, or a waiting caller, runs it
 *   RUNNING  one thread holds the role
 *   PARKED   its first task waits for another timeline, whose waiter will queue it again */
enum kl_role { KL_IDLE, KL_QUEUED, KL_RUNNING, KL_PARKED };

struct kl_stream {
    struct kl_timeline settled; /* tickets whose fates are final */
    struct kl_timeline
        handed; /* devices: tickets handed to the driver; settled.handed points here */
    struct kl_backend *backend; /* fixed */
    struct kl_queue *queue;     /* the backend's state; fixed */
    enum kl_device_type type;   /* fixed */
    int index;                  /* fixed */
    bool is_reader;             /* runs on the reader threads; fixed */
    _Atomic(uint32_t) handles;  /* 0: may be handed out again */

    _Atomic(uint64_t) last_ticket; /* last one given; written under the commit lock */
    struct kl_list staged;         /* of kl_task.link; commit lock */
    struct kl_stream *next_staged; /* commit lock */
    bool is_staged;                /* commit lock */
    _Atomic(bool) waking;          /* a committing thread will wake it as soon as it has unlocked */
    struct kl_stream *next_wake;   /* whoever set waking */

    struct kl_mutex
        *mu; /* taken after commit, before pool and leaf locks; shared as those of timelines are */
    enum kl_role role; /* guarded by mu */
    bool in_pool;      /* item is linked there; guarded by mu */
    struct kl_list
        inbox; /* of kl_task.link: committed, not yet taken by the executor; guarded by mu */
    struct kl_wait parked_on; /* when PARKED; guarded by mu */

    struct kl_list local;            /* of kl_task.link: taken from the inbox; role holder only */
    struct kl_task *_Atomic running; /* role holder; read by a forked child */
    struct kl_waiter park;           /* registered while PARKED */
    struct kl_item item;             /* in the pool while in_pool */
};

/* Whether role, queue and tickets of s agree. With s->mu held. For self-checks and their tests. */
bool kl_stream_is_valid(const struct kl_stream *s);

/* Makes a stream's new work run: queues it, unless somebody runs it or it is parked. Call without locks. */
void kl_executor_wake(struct kl_stream *s);
/* The caller holds the role of s: runs tasks until `until` is launched, nothing is left, or it parks; then gives the role up. */
void kl_executor_run(struct kl_stream *s, uint64_t until);
void kl_executor_stream_init(struct kl_stream *s);
/* Takes or gives back the locks of all streams, around fork. */
void kl_executor_fork_lock(bool lock);
/* Whether this thread runs a task right now (so that a callback made it call the library). */
bool kl_executor_in_task(void);
/* Whether some thread waits inside a callback, perhaps for a custom reader. */
bool kl_executor_callback_waits(void);
/* Around fork; after prepare nobody is inside a callback wait list. */
void kl_executor_fork_prepare(void);
void kl_executor_fork_parent(void);
void kl_executor_fork_child(void);
/* In a forked child: fails everything that s has not settled, and makes it idle. */
void kl_executor_forked(struct kl_stream *s);

/* ---- stream.c ---- */
void kl_streams_fork_prepare(void);
void kl_streams_fork_parent(void);
void kl_streams_fork_child(void);

/* ---- bind.c ---- */
/* Finds memory for the outputs of t (donated or fresh), makes operands reachable from the stream's device, and notes all
 * uses. On failure t has not run and must fail with *err. */
int kl_bind_task(struct kl_stream *s, struct kl_task *t, struct kl_error **err);
/* After launch: an input whose block became the output's lets go of it. */
void kl_bind_after_launch(struct kl_task *t);
/* Validation, after a task of the CPU has run. */
void kl_bind_check_guards(struct kl_stream *s, struct kl_task *t, struct kl_error **err);
#ifdef KL_TEST_HOOKS
uint64_t kl_test_bytes_copied(void); /* between memories, so far */
#endif
