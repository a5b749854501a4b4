/* stream.c - the table of streams, default streams, tickets, and what a commit appends.
 * executor.c runs the streams. */
#include "runtime/stream.h"

#include <sched.h>

#include "base/alloc.h"
#include "base/value/failures.h"
#include "base/value/release.h"
#include "base/value/wait_hook.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/fork.h"
#include "runtime/readers.h"

/* The commit lock comes first in the lock order: commit, stream, pool, leaf. */
static struct kl_mutex commit_mu = KL_MUTEX_INIT;
static struct kl_stream *staged_head, *staged_tail; /* streams with staged tasks; commit lock */
static struct kl_stream *wake_head;                 /* streams to wake at unlock; commit lock */

static struct {
    struct kl_mutex mu; /* leaf; guards the table, not the streams */
    struct kl_stream **streams;
    int n, room;
} all = {.mu = KL_MUTEX_INIT};

/* ---- creation and reuse ---- */

static bool idle(struct kl_stream *s) {
    return atomic_load(&s->handles) == 0 &&
           kl_timeline_done(&s->settled) >= atomic_load(&s->last_ticket);
}

static struct kl_stream *find_unused(struct kl_backend *b, enum kl_device_type type,
                                     bool is_reader) {
    kl_assert(kl_mutex_held(&all.mu));
    for (int i = 0; i < all.n; i++) {
        struct kl_stream *s = all.streams[i];
        if (s->backend == b && s->type == type && s->is_reader == is_reader && idle(s)) return s;
    }
    return NULL;
}

static int make(struct kl_stream **out, int index, struct kl_backend *b, enum kl_device_type type,
                bool is_reader, struct kl_error **err) {
    struct kl_stream *s = kl_calloc(1, sizeof *s);
    if (!s) return kl_fail_nomem(err);
    s->index = index;
    s->backend = b;
    s->type = type;
    s->is_reader = is_reader;
    kl_executor_stream_init(s);
    s->settled.owner = s->handed.owner = s;
    s->settled.stream_index = s->handed.stream_index = index;
    s->settled.is_device = type == KL_GPU;
    if (type == KL_GPU) s->settled.handed = &s->handed;
    int rc = b->ops->queue_new ? b->ops->queue_new(b, &s->settled, &s->queue, err) : KL_OK;
    if (rc) {
        kl_free(s);
        return rc;
    }
    *out = s;
    return KL_OK;
}

static int stream_get(struct kl_stream **out, struct kl_backend *b, enum kl_device_type type,
                      bool is_reader, struct kl_error **err) {
    kl_mutex_lock(&all.mu);
    struct kl_stream *s = find_unused(b, type, is_reader);
    int rc = KL_OK;
    if (s) kl_failures_orphan(s->index);
    if (!s) {
        if (all.n == all.room) {
            int room = all.room ? 2 * all.room : 16;
            struct kl_stream **more = kl_realloc(all.streams, (size_t)room * sizeof *more);
            if (!more) {
                rc = kl_fail_nomem(err);
                goto out;
            }
            all.streams = more;
            all.room = room;
        }
        if ((rc = make(&s, all.n, b, type, is_reader, err))) goto out;
        all.streams[all.n++] = s;
    }
    atomic_fetch_add(&s->handles, 1);
    *out = s;
out:
    kl_mutex_unlock(&all.mu);
    return rc;
}

int kl_stream_new(struct kl_stream **out, enum kl_device_type type, int device_index,
                  struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(type, device_index, &b, err));
    return stream_get(out, b, type, false, err);
}

static _Atomic(bool) have_readers; /* a reader stream exists */

int kl_stream_new_reader(struct kl_stream **out, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(KL_CPU, 0, &b, err));
    atomic_store(&have_readers, true);
    return stream_get(out, b, KL_CPU, true, err);
}

int kl_stream_new_of(struct kl_stream **out, struct kl_backend *b, bool on_device,
                     struct kl_error **err) {
    KL_TRY(stream_get(out, b, on_device ? KL_GPU : KL_CPU, false, err));
    atomic_store(&(*out)->of_group, true);
    return KL_OK;
}

uint64_t kl_stream_promise(struct kl_stream *s) {
    return atomic_fetch_add(&s->last_ticket, 1) + 1;
}

struct kl_stream *kl_stream_retain(struct kl_stream *s) {
    if (s) atomic_fetch_add(&s->handles, 1);
    return s;
}

void kl_stream_release(struct kl_stream *s) {
    if (s) atomic_fetch_sub(&s->handles, 1);
}

int kl_stream_index(const struct kl_stream *s) {
    return s->index;
}
enum kl_device_type kl_stream_device_type(const struct kl_stream *s) {
    return s->type;
}
int kl_stream_device_index(const struct kl_stream *s) {
    return s->backend->index;
}
struct kl_backend *kl_stream_backend(const struct kl_stream *s) {
    return s->backend;
}
struct kl_timeline *kl_stream_timeline(struct kl_stream *s) {
    return &s->settled;
}

/* ---- default streams: one per thread and device ---- */

enum { MAX_DEFAULTS = 9 }; /* the CPU and eight GPUs */
static __thread struct kl_stream *defaults[MAX_DEFAULTS];
static __thread bool defaults_kept;

static void drop_defaults(void *arg) {
    struct kl_stream **mine = arg;
    for (int i = 0; i < MAX_DEFAULTS; i++) {
        kl_stream_release(mine[i]);
        mine[i] = NULL;
    }
    defaults_kept = false;
}

static int default_slot(struct kl_stream ***slot, enum kl_device_type type, int index,
                        struct kl_error **err) {
    int i = type == KL_CPU ? index : 1 + index;
    if (index < 0 || i >= (type == KL_CPU ? 1 : MAX_DEFAULTS))
        return kl_fail(err, KL_EDEVICE, "device %s %d does not exist",
                       type == KL_CPU ? "cpu" : "gpu", index);
    if (!defaults_kept) {
        if (kl_thread_at_exit(drop_defaults, defaults)) return kl_fail_nomem(err);
        defaults_kept = true;
    }
    *slot = &defaults[i];
    return KL_OK;
}

int kl_stream_default(struct kl_stream **out, enum kl_device_type type, int device_index,
                      struct kl_error **err) {
    struct kl_stream **slot = NULL;
    KL_TRY(default_slot(&slot, type, device_index, err));
    if (!*slot) KL_TRY(kl_stream_new(slot, type, device_index, err));
    *out = kl_stream_retain(*slot);
    return KL_OK;
}

int kl_stream_set_default(struct kl_stream *s, struct kl_error **err) {
    struct kl_stream **slot = NULL;
    KL_TRY(default_slot(&slot, s->type, s->backend->index, err));
    struct kl_stream *old = *slot;
    *slot = kl_stream_retain(s);
    kl_stream_release(old);
    return KL_OK;
}

/* ---- commit ---- */

void kl_commit_lock(void) {
    kl_mutex_lock(&commit_mu);
}

void kl_commit_unlock(void) {
    struct kl_stream *list = wake_head; /* its links belong to this thread while `waking` is set */
    wake_head = NULL;
    kl_mutex_unlock(&commit_mu);
    while (list) {
        struct kl_stream *s = list;
        list = s->next_wake;
        s->next_wake = NULL;
        atomic_store_explicit(&s->waking, false, memory_order_release);
        kl_executor_wake(s);
    }
}

bool kl_commit_lock_held(void) {
    return kl_mutex_held(&commit_mu);
}

uint64_t kl_stream_take_ticket(struct kl_stream *s) {
    kl_assert(kl_commit_lock_held());
    uint64_t t = atomic_load_explicit(&s->last_ticket, memory_order_relaxed) + 1;
    atomic_store_explicit(&s->last_ticket, t, memory_order_release);
    return t;
}

void kl_stream_stage(struct kl_stream *s, struct kl_task *t) {
    kl_assert(kl_commit_lock_held());
    if (!s->is_staged) {
        s->is_staged = true;
        s->next_staged = NULL;
        if (staged_tail)
            staged_tail->next_staged = s;
        else
            staged_head = s;
        staged_tail = s;
    }
    kl_list_push(&s->staged, &t->link);
}

bool kl_streams_append(struct kl_stream *keep) {
    kl_assert(kl_commit_lock_held());
    bool kept = false;
    for (struct kl_stream *s = staged_head; s; s = s->next_staged) {
        s->is_staged = false;
        kl_mutex_lock(s->mu);
        kl_list_splice(&s->inbox, &s->staged);
        bool start = s->role == KL_IDLE;
        if (start && s == keep && !s->is_reader) {
            s->role = KL_RUNNING;
            kept = true;
            start = false;
            /* The role holder would do this first anyway; done here, it needs no second lock. */
            kl_list_splice(&s->local, &s->inbox);
        }
        kl_mutex_unlock(s->mu);
        /* The stream is woken after the unlock, because a thread must not be started or woken under
         * this lock. If another thread is about to wake the stream, it is left to that thread. */
        if (start && !atomic_exchange_explicit(&s->waking, true, memory_order_acquire)) {
            s->next_wake = wake_head;
            wake_head = s;
        }
    }
    staged_head = staged_tail = NULL;
    return kept;
}

void kl_stream_run_kept(struct kl_stream *s, uint64_t ticket, bool to_cut) {
    kl_executor_run(s, ticket, to_cut);
}

void kl_stream_shares(struct kl_stream *s) {
    atomic_fetch_add(&s->n_shared, 1);
}

void kl_stream_shared_settled(struct kl_stream *s) {
    atomic_fetch_sub(&s->n_shared, 1);
}

struct kl_stream *kl_stream_at(int index) {
    kl_mutex_lock(&all.mu);
    struct kl_stream *s = index < all.n ? all.streams[index] : NULL;
    kl_mutex_unlock(&all.mu);
    return s;
}

int kl_runtime_ready(struct kl_error **err) {
    KL_TRY(kl_fork_watch(err));
    KL_TRY(kl_pool_start(err));
    /* Handing work over cannot fail, so the first thread must exist before the commit. */
    if (atomic_load_explicit(&have_readers, memory_order_relaxed)) KL_TRY(kl_readers_start(err));
    if (!kl_thread_id()) return kl_fail_nomem(err);
    return KL_OK;
}

/* ---- back-pressure ---- */

enum { MAX_QUEUED = 1 << 16 }; /* tasks on one stream before its callers are slowed down */

/* Finds a ticket that is certain to be published without anybody's help: of a task that runs now,
 * or that a device has. A stream whose role is held is not enough: between two tasks its thread may
 * find that the next one waits for a reader. */
static bool in_flight(struct kl_stream *s, uint64_t *ticket) {
    *ticket = kl_timeline_done(&s->settled) + 1;
    /* A reader may wait for its user, and a stream whose callback waits may not go on, either. */
    if (s->is_reader || kl_executor_callback_waits()) return false;
    if (kl_timeline_done(&s->handed) >= *ticket) return true;
    /* Other processes settle what runs for a group, and they may wait for this one. */
    return s->type == KL_CPU && !atomic_load(&s->of_group) && atomic_load(&s->running);
}

static bool any_in_flight(struct kl_stream **found, uint64_t *ticket) {
    kl_mutex_lock(&all.mu);
    int n = all.n;
    kl_mutex_unlock(&all.mu);
    for (int i = 0; i < n; i++) {
        kl_mutex_lock(&all.mu);
        struct kl_stream *s = all.streams[i];
        kl_mutex_unlock(&all.mu);
        if (in_flight(s, ticket)) {
            *found = s;
            return true;
        }
    }
    return false;
}

int kl_runtime_back_pressure(struct kl_stream *s, struct kl_error **err) {
    kl_memory_tick();
    if (kl_executor_in_task()) return KL_OK;
    kl_memory_within_limit(0);
    uint64_t ticket;
    while (s && atomic_load(&s->last_ticket) - kl_timeline_done(&s->settled) > MAX_QUEUED &&
           in_flight(s, &ticket)) {
        if (!kl_timeline_wait(&s->settled, ticket)) return kl_wait_fail(err);
        KL_TRY(kl_wait_ask(err));
    }
    while (kl_memory_active() > kl_memory_limit()) {
        kl_memory_clear_cache();
        struct kl_stream *busy;
        /* Nothing in flight can free memory, so the soft limit is exceeded. */
        if (!any_in_flight(&busy, &ticket)) break;
        if (!kl_timeline_wait(&busy->settled, ticket)) return kl_wait_fail(err);
        KL_TRY(kl_wait_ask(err));
    }
    return KL_OK;
}

#ifdef KL_TEST_HOOKS
/* ---- for tests ---- */

static bool quiet(struct kl_stream *s) {
    kl_mutex_lock(s->mu);
    bool is = s->role == KL_IDLE && kl_list_empty(&s->inbox);
    kl_mutex_unlock(s->mu);
    return is && kl_timeline_done(&s->settled) >= atomic_load(&s->last_ticket);
}

void kl_until_quiet(void) {
    kl_mutex_lock(&all.mu);
    int n = all.n;
    kl_mutex_unlock(&all.mu);
    for (int i = 0; i < n; i++) {
        kl_mutex_lock(&all.mu);
        struct kl_stream *s = all.streams[i];
        kl_mutex_unlock(&all.mu);
        while (!quiet(s)) {
            if (s->backend->ops->poll) s->backend->ops->poll(s->backend, s->queue);
            sched_yield();
        }
        if (s->type == KL_GPU) kl_test_device_until_empty(s->backend);
    }
    kl_release_drain();
    kl_threads_until_begun();
}
#endif

/* ---- fork ---- */

void kl_streams_fork_prepare(void) {
    kl_mutex_lock(&commit_mu);
    kl_mutex_lock(&all.mu);
    kl_executor_fork_lock(true);
}

void kl_streams_fork_parent(void) {
    kl_executor_fork_lock(false);
    kl_mutex_unlock(&all.mu);
    kl_mutex_unlock(&commit_mu);
}

void kl_streams_fork_child(void) {
    wake_head = NULL;
    for (int i = 0; i < all.n; i++) {
        struct kl_stream *s = all.streams[i];
        s->next_wake = NULL;
        atomic_store(&s->waking, false);
        kl_executor_forked(s);
    }
    kl_streams_fork_parent();
}
