/* progress.c - who moves exchanges on, and when.
 *
 * One thread at a time makes a pass over all that is pending: under the lock it asks the engine and
 * reads the control connections, and after that it settles what is done, without the lock. A thread
 * that waits for a value makes such passes itself; else the progress thread does, which sleeps
 * while nothing is pending. A pool thread that launches holds the lock for the launch alone. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/collective/collective.h"
#include "backend/collective/device.h"
#include "backend/collective/mpi.h"
#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/platform/clock.h"

enum {
    SPIN_NS = 20000000,      /* after the last event passes follow each other this long, */
    NAP_NS = 50000,          /* then with such pauses, */
    IDLE_MS = 1000,          /* and without anything pending the thread sleeps so long at most, */
    DEVICE_MS = 20,          /* with only a device's exchanges pending so long, */
    CHANGING_NS = 200000,    /* and while a communicator is made or ended it naps so long */
    WATCH_NS = 20000000,     /* how long a waiting thread makes passes before it sleeps */
    LINGER_NS = 200000000,   /* how long the thread naps before it sleeps */
    WATCHED_NAP_NS = 200000, /* pause of the thread while a waiting thread makes the passes */
};

static struct {
    struct kl_mutex mu;
    struct kl_queue *queues;    /* all of them */
    struct kl_control *control; /* NULL: not started */
    _Atomic(int64_t) moved;     /* when something was added or done last */
    _Atomic(int) n_pending;
    _Atomic(int) n_watchers;
    _Atomic(bool) polling; /* a thread makes a pass */
    _Atomic(bool) asleep;  /* the progress thread is, and must be woken */
    _Atomic(bool) ends;    /* the process ends */
    pid_t pid;
} progress = {.mu = KL_MUTEX_INIT};

struct kl_group_host kl_collective_host;
int64_t kl_collective_limit_ns;

void kl_progress_lock(void) {
    kl_mutex_lock(&progress.mu);
}

void kl_progress_unlock(void) {
    kl_mutex_unlock(&progress.mu);
}

void kl_progress_wake(void) {
    if (atomic_load(&progress.asleep)) kl_control_wake(progress.control);
}

void kl_progress_moved(void) {
    atomic_store(&progress.moved, kl_clock_ns());
    kl_progress_wake();
}

void kl_progress_add(struct kl_queue *q, struct kl_request *r) {
    kl_list_push(&q->pending, &r->link);
    atomic_fetch_add(&progress.n_pending, 1);
    kl_progress_moved();
}

void kl_progress_each(void (*f)(struct kl_request *r, void *arg), void *arg) {
    for (struct kl_queue *q = progress.queues; q; q = q->next)
        for (struct kl_link *k = q->pending.head.next; k != &q->pending.head; k = k->next)
            f(kl_container(k, struct kl_request, link), arg);
}

/* ---- a pass ---- */

/* Moves the requests of q on, and moves those at its front that are done to `done`. */
static void advance_queue(struct kl_queue *q, struct kl_list *done, int64_t now) {
    bool is_first = true;
    for (struct kl_link *k = q->pending.head.next; k != &q->pending.head; k = k->next) {
        struct kl_request *r = kl_container(k, struct kl_request, link);
        if (r->state != KL_REQUEST_DONE) kl_request_advance(r, is_first, now);
        is_first = is_first && r->state == KL_REQUEST_DONE;
    }
    for (struct kl_link *k; (k = kl_list_first(&q->pending));) {
        struct kl_request *r = kl_container(k, struct kl_request, link);
        if (r->state != KL_REQUEST_DONE) break;
        kl_list_remove(k);
        kl_list_push(done, k);
        kl_group_forget_causes(KL_NAME_OF(r));
        progress.moved = now;
    }
}

/* Writes the fates of what is done, then publishes the tickets. */
static void settle(struct kl_list *done) {
    for (struct kl_link *k; (k = kl_list_pop(done));) {
        struct kl_request *r = kl_container(k, struct kl_request, link);
        struct kl_timeline *t = r->fate->timeline;
        const uint64_t ticket = r->ticket;
        kl_request_settle(r);
        atomic_fetch_sub(&progress.n_pending, 1);
        kl_timeline_publish(t, ticket);
    }
}

bool kl_progress_poll(void) {
    struct kl_list done;
    if (!progress.control || atomic_exchange(&progress.polling, true)) return false;
    kl_list_init(&done);
    kl_mutex_lock(&progress.mu);
    const int64_t now = kl_clock_ns();
    kl_control_poll(progress.control);
    for (struct kl_queue *q = progress.queues; q; q = q->next) advance_queue(q, &done, now);
    kl_groups_advance_devices(now);
    kl_groups_end_broken(now);
    kl_mutex_unlock(&progress.mu);
    settle(&done);
    kl_device_work();
    atomic_store(&progress.polling, false);
    return true;
}

static void nap(int64_t ns) {
    struct timespec t = {0, (long)ns};
    nanosleep(&t, NULL);
}

/* ---- the thread ---- */

static void sleep_until_woken(void) {
    atomic_store(&progress.asleep, true);
    /* Work that was added before `asleep` could be seen is found here. */
    if (!atomic_load(&progress.n_pending) && !kl_device_n_changing() && !kl_device_n_held())
        kl_control_sleep(progress.control, kl_device_n_pending() ? DEVICE_MS : IDLE_MS);
    atomic_store(&progress.asleep, false);
}

static void run(void *arg) {
    while (!atomic_load(&progress.ends)) {
        const int64_t quiet = kl_clock_ns() - atomic_load(&progress.moved);
        if (atomic_load(&progress.n_watchers)) {
            nap(WATCHED_NAP_NS);
            continue;
        }
        kl_progress_poll();
        if (atomic_load(&progress.n_pending) || kl_device_n_held()) {
            if (quiet < SPIN_NS)
                sched_yield();
            else
                nap(NAP_NS);
        } else if (kl_device_n_changing()) {
            nap(CHANGING_NS);
        } else if (quiet < LINGER_NS) {
            nap(NAP_NS);
        } else {
            sleep_until_woken();
        }
    }
}

/* ---- the end of the process ---- */

static bool tell_end(void) {
    const struct kl_control_message m = {.kind = KL_CONTROL_ENDS};
    bool whole = true;
    kl_mutex_lock(&progress.mu);
    for (int i = 0; i < kl_control_size(progress.control); i++) {
        kl_control_send(progress.control, i, &m, NULL);
        whole = whole && !kl_control_is_lost(progress.control, i);
    }
    kl_mutex_unlock(&progress.mu);
    return whole;
}

/* The engine's own end waits for all processes. So it is begun only when all have said that they
 * end, none is lost, and nothing is under way; else the process ends without it. */
static void end(void) {
    if (getpid() != progress.pid) return;
    const int64_t until = kl_clock_ns() + kl_collective_limit_ns;
    const int others = kl_control_size(progress.control) - 1;
    atomic_store(&progress.ends, true);
    if (!tell_end()) return;
    while (atomic_load(&progress.n_pending) || kl_device_n_pending() || kl_group_n_ended < others) {
        kl_progress_poll();
        if (kl_control_any_lost(progress.control) || kl_clock_ns() > until) return;
        nap(NAP_NS);
    }
    while (atomic_exchange(&progress.polling, true)) nap(NAP_NS);
    if (!kl_group_any_given_up()) kl_mpi_close();
}

int kl_progress_start(struct kl_control *control, struct kl_error **err) {
    progress.control = control;
    progress.pid = getpid();
    progress.moved = kl_clock_ns();
    kl_fork_lock_add(&progress.mu);
    if (kl_thread_start(run, NULL, "keel-collective")) {
        progress.control = NULL;
        return kl_fail(err, KL_ENOMEM, "the thread of collective operations could not be started");
    }
    (void)atexit(end);
    return KL_OK;
}

/* ---- the backend ---- */

static int queue_new(struct kl_backend *b, struct kl_timeline *t, struct kl_queue **out,
                     struct kl_error **err) {
    struct kl_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    kl_list_init(&q->pending);
    q->timeline = t;
    kl_mutex_lock(&progress.mu);
    q->next = progress.queues;
    progress.queues = q;
    kl_mutex_unlock(&progress.mu);
    *out = q;
    return KL_OK;
}

static bool waits_for(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w) {
    *w = (struct kl_wait){f->timeline, f->ticket};
    return true;
}

static void poll(struct kl_backend *b, struct kl_queue *q) {
    kl_progress_poll();
}

static bool watch(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket) {
    const int64_t until = kl_clock_ns() + WATCH_NS;
    int n = 0;
    atomic_fetch_add(&progress.n_watchers, 1);
    while (kl_timeline_done(t) < ticket) {
        if (!kl_progress_poll()) sched_yield();
        if (++n % 64) continue;
        if (kl_clock_ns() > until) break;
        sched_yield(); /* where there are more processes than processors */
    }
    atomic_fetch_sub(&progress.n_watchers, 1);
    return kl_timeline_done(t) >= ticket;
}

static void fail_forked(struct kl_request *r, void *arg) {
    if (!kl_fate_settled(r->fate)) kl_fate_set_failed(r->fate, kl_error_static(KL_EFORK));
}

void kl_collective_forked(void) {
    if (!progress.control) return;
    kl_control_forked(progress.control);
    kl_progress_each(fail_forked, NULL);
    for (struct kl_queue *q = progress.queues; q; q = q->next) kl_list_init(&q->pending);
    atomic_store(&progress.n_pending, 0);
    atomic_store(&progress.n_watchers, 0);
    atomic_store(&progress.polling, false);
    atomic_store(&progress.asleep, false);
    kl_groups_forked();
}

static const struct kl_backend_ops ops = {.queue_new = queue_new,
                                          .waits_for = waits_for,
                                          .launch = kl_collective_launch,
                                          .waits_for_own = true,
                                          .poll = poll,
                                          .watch = watch};
struct kl_backend kl_collective_backend = {.ops = &ops, .name = "collective", .index = 0};
