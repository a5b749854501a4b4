/* pool.c - a queue of items, a list of jobs in chunks, one lock, and threads that sleep when both
 * are empty. In addition there is one short job, which threads join without the lock.
 *
 * Wake-ups are kept few. A thread that runs out of work looks for more for a short time before it
 * sleeps. While one thread is looking, nobody is woken. A looking thread that finds work wakes the
 * next one if there is more. */
#include "runtime/pool.h"

#include <sched.h>

#include "base/platform/processors.h"
#include "base/thread.h"

struct job {
    struct kl_link link; /* in pool.jobs while chunks are left to claim; guarded by pool.mu */
    /* The caller takes chunks from the front and helpers take them from the back. When a job is run
     * again and again, each processor then finds its half in its own cache. */
    _Atomic(int64_t) n_claimed, n_from_back;
    int64_t n;
    void (*chunk)(void *arg, int64_t i);
    void *arg;
    int processor;        /* of the caller */
    _Atomic(int) helpers; /* threads, without the caller, in the job; written under pool.mu */
    bool caller_waits;    /* guarded by pool.mu */
    pthread_cond_t left;  /* signalled when the last helper has left the job */
};

enum {
    /* Pauses before a thread sleeps: about 50 microseconds, which is about what waking it takes. */
    LOOKS = 2000,
    /* Pauses after which such a thread offers its processor to a thread that has something to do,
     * as one that builds the next graph. */
    LOOKS_PER_YIELD = 100,
    /* Chunks of a short job for which it pays to wake a thread: they take as long as waking it. */
    CHUNKS_PER_WAKE = 12
};

static struct {
    struct kl_mutex mu;
    pthread_cond_t work;
    struct kl_list items; /* of kl_item.link; guarded by mu */
    struct kl_list jobs;  /* of job.link; guarded by mu */
    int n_sleeping;       /* guarded by mu */
    _Atomic(int) n_looking;
    _Atomic(int) n_threads; /* written under mu */
    _Atomic(int) n_running; /* threads that run an item or a chunk, callers included */
    _Atomic(bool) started;
    _Atomic(int) n_ready; /* items + jobs; read without the lock by threads that look for work */
} pool = {.mu = KL_MUTEX_INIT,
          .work = PTHREAD_COND_INITIALIZER,
          .items = {{&pool.items.head, &pool.items.head}},
          .jobs = {{&pool.jobs.head, &pool.jobs.head}}};

/* The job of kl_pool_parallel_short. A thread first counts itself in `helpers` and then looks at
 * `open`; the caller first closes the job and then waits until `helpers` is 0. So the other fields,
 * which a caller writes while the job is closed and without helpers, are read in between only. */
static struct {
    _Alignas(64) _Atomic(bool) taken; /* by a caller */
    _Atomic(bool) open, caller_waits;
    _Atomic(int) helpers;
    int64_t n;
    void (*chunk)(void *arg, int64_t i);
    void *arg;
    int processor;
    pthread_cond_t left; /* used with pool.mu: signalled when the last helper has left */
    _Alignas(64) _Atomic(int64_t) n_claimed; /* as in struct job */
    _Atomic(int64_t) n_from_back;
} brief = {.left = PTHREAD_COND_INITIALIZER};

static _Thread_local bool is_worker;

/* Whether a thread should be woken for more work. The lock is held. */
static bool must_wake(void) {
    kl_assert(kl_mutex_held(&pool.mu));
    return pool.n_sleeping > 0 && pool.n_looking == 0;
}

/* Unlocks first: where the woken thread gets this thread's processor, it would find the lock taken
 * and sleep again. */
static void unlock_and_wake(bool wake) {
    kl_mutex_unlock(&pool.mu);
    if (wake) pthread_cond_signal(&pool.work);
}

static void wake_for_short_job(void) {
    kl_mutex_lock(&pool.mu);
    unlock_and_wake(must_wake());
}

/* Counts this thread as running, unless as many threads run as there are processors: a chunk whose
 * thread has to wait for a processor delays the whole job. */
static bool begin_helping(void) {
    if (atomic_fetch_add(&pool.n_running, 1) < pool.n_threads) return true;
    atomic_fetch_sub(&pool.n_running, 1);
    return false;
}

/* Linux may wake a thread on the processor of the thread that wakes it, though another one has
 * nothing to do: as seen in virtual machines, where an idle processor looks taken. Then one of the
 * two waits for the other, for as long as they follow each other so. */
static void part_from_caller(int processor) {
    if (processor >= 0 && kl_processor_here() == processor) kl_processor_leave(processor);
}

static void job_run(struct job *j, bool is_caller) {
    int64_t n_from_front = 0;
    while (atomic_fetch_add_explicit(&j->n_claimed, 1, memory_order_relaxed) < j->n)
        j->chunk(j->arg, is_caller ? n_from_front++
                                   : j->n - 1 -
                                         atomic_fetch_add_explicit(&j->n_from_back, 1,
                                                                   memory_order_relaxed));
}

static void unlist_job(struct job *j) {
    kl_assert(kl_mutex_held(&pool.mu));
    if (!kl_list_linked(&j->link)) return;
    kl_list_remove(&j->link);
    atomic_fetch_sub(&pool.n_ready, 1);
}

/* Does one item or helps one job. The lock is held at the call and on return. false: there was no
 * work. */
static bool do_one(void) {
    struct kl_link *n = kl_list_first(&pool.jobs);
    /* A job comes first: its caller is in the middle of a kernel that others wait for. */
    if (n && begin_helping()) {
        struct job *j = kl_container(n, struct job, link);
        j->helpers++;
        unlock_and_wake(pool.n_running < pool.n_threads && must_wake());
        part_from_caller(j->processor);
        job_run(j, false);
        kl_mutex_lock(&pool.mu);
        pool.n_running--;
        unlist_job(j);
        if (--j->helpers == 0 && j->caller_waits) pthread_cond_signal(&j->left);
        return true;
    }
    n = kl_list_pop(&pool.items);
    if (!n) return false;
    atomic_fetch_sub(&pool.n_ready, 1);
    pool.n_running++;
    unlock_and_wake(!kl_list_empty(&pool.items) && must_wake());
    struct kl_item *item = kl_container(n, struct kl_item, link);
    item->run(item);
    kl_mutex_lock(&pool.mu);
    pool.n_running--;
    return true;
}

/* Computes chunks of the short job while there are some. The lock is not held. Returns whether
 * there was one. */
static bool help_short_job(void) {
    int64_t n_done = 0;
    if (!atomic_load_explicit(&brief.open, memory_order_relaxed) || !begin_helping()) return false;
    atomic_fetch_add(&brief.helpers, 1);
    while (atomic_load(&brief.open)) {
        const int64_t claimed =
            atomic_fetch_add_explicit(&brief.n_claimed, 1, memory_order_relaxed);
        if (claimed >= brief.n) {
            atomic_store(&brief.open, false);
            break;
        }
        if (n_done++ == 0) {
            if (brief.n - claimed > CHUNKS_PER_WAKE) wake_for_short_job();
            part_from_caller(brief.processor);
        }
        const int64_t from_back =
            atomic_fetch_add_explicit(&brief.n_from_back, 1, memory_order_relaxed);
        brief.chunk(brief.arg, brief.n - 1 - from_back);
    }
    if (atomic_fetch_sub(&brief.helpers, 1) == 1 && atomic_load(&brief.caller_waits)) {
        kl_mutex_lock(&pool.mu);
        pthread_cond_signal(&brief.left);
        kl_mutex_unlock(&pool.mu);
    }
    atomic_fetch_sub(&pool.n_running, 1);
    return n_done > 0;
}

/* Waits for work for a short time. Short jobs come one after another: who has helped one stays. The
 * lock is not held. */
static void look(void) {
    for (int i = 0; i < LOOKS && atomic_load_explicit(&pool.n_ready, memory_order_relaxed) == 0;
         i++) {
        if (atomic_load_explicit(&brief.open, memory_order_relaxed)) {
            pool.n_looking--; /* others are woken for what comes meanwhile */
            if (help_short_job()) i = 0;
            pool.n_looking++;
        }
        if (i % LOOKS_PER_YIELD == LOOKS_PER_YIELD - 1) sched_yield();
        kl_pause_cpu();
    }
}

static void worker(void *arg) {
    is_worker = true;
    kl_mutex_lock(&pool.mu);
    for (;;) {
        bool helped = false;
        if (atomic_load(&brief.open)) { /* the job for which this thread was woken */
            kl_mutex_unlock(&pool.mu);
            helped = help_short_job();
            kl_mutex_lock(&pool.mu);
        }
        if (do_one()) continue;
        if ((helped || pool.n_looking == 0) && pool.n_running < pool.n_threads) {
            pool.n_looking++;
            kl_mutex_unlock(&pool.mu);
            look();
            kl_mutex_lock(&pool.mu);
            pool.n_looking--;
            /* The thread that pushed work has woken nobody, since this thread was looking. So this
             * thread takes an item even when it may not join a job. */
            if (atomic_load(&pool.n_ready) > 0) continue;
        }
        pool.n_sleeping++;
        kl_cond_wait(&pool.work, &pool.mu);
        pool.n_sleeping--;
    }
}

int kl_pool_start(struct kl_error **err) {
    if (atomic_load_explicit(&pool.started, memory_order_acquire)) return KL_OK;
    int want = kl_n_processors();
    kl_mutex_lock(&pool.mu);
    while (pool.n_threads < want && !atomic_load(&pool.started)) {
        if (kl_thread_start(worker, NULL, "keel-pool")) break;
        pool.n_threads++;
    }
    int n = pool.n_threads;
    if (n) atomic_store_explicit(&pool.started, true, memory_order_release);
    kl_mutex_unlock(&pool.mu);
    if (n) return KL_OK;
    return kl_fail(err, KL_ENOMEM, "no thread of the pool could be started");
}

int kl_pool_n_threads(void) {
    kl_mutex_lock(&pool.mu);
    int n = pool.n_threads;
    kl_mutex_unlock(&pool.mu);
    return n;
}

void kl_pool_push(struct kl_item *item) {
    kl_mutex_lock(&pool.mu);
    kl_list_push(&pool.items, &item->link);
    atomic_fetch_add(&pool.n_ready, 1);
    unlock_and_wake(must_wake());
}

void kl_pool_parallel(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    if (n <= 1 || !atomic_load_explicit(&pool.started, memory_order_acquire)) {
        for (int64_t i = 0; i < n; i++) chunk(arg, i);
        return;
    }
    struct job j = {.n = n,
                    .chunk = chunk,
                    .arg = arg,
                    .processor = kl_processor_here(),
                    .left = PTHREAD_COND_INITIALIZER};
    kl_mutex_lock(&pool.mu);
    kl_list_push(&pool.jobs, &j.link);
    atomic_fetch_add(&pool.n_ready, 1);
    pool.n_running += !is_worker;
    unlock_and_wake(must_wake());
    job_run(&j, true);
    kl_mutex_lock(&pool.mu);
    unlist_job(&j);
    pool.n_running -= !is_worker;
    /* Threads may have been kept from another job. */
    bool wake = !kl_list_empty(&pool.jobs) && must_wake();
    if (wake || atomic_load(&j.helpers)) {
        unlock_and_wake(wake);
        /* The rest nearly always takes less time than a sleep. */
        for (int i = 0; i < LOOKS && atomic_load_explicit(&j.helpers, memory_order_relaxed); i++)
            kl_pause_cpu();
        kl_mutex_lock(&pool.mu);
    }
    j.caller_waits = true;
    /* The helpers are in chunks that they have claimed, and chunks never wait. */
    while (j.helpers) kl_cond_wait(&j.left, &pool.mu);
    kl_mutex_unlock(&pool.mu);
    pthread_cond_destroy(&j.left);
}

void kl_pool_parallel_short(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    if (n <= 1 || !atomic_load_explicit(&pool.started, memory_order_acquire) ||
        atomic_exchange(&brief.taken, true)) {
        kl_pool_parallel(n, chunk, arg);
        return;
    }
    brief.n = n;
    brief.chunk = chunk;
    brief.arg = arg;
    brief.processor = kl_processor_here();
    atomic_store_explicit(&brief.n_claimed, 0, memory_order_relaxed);
    atomic_store_explicit(&brief.n_from_back, 0, memory_order_relaxed);
    pool.n_running += !is_worker;
    atomic_store(&brief.open, true);
    for (int64_t from_front = 0;
         atomic_fetch_add_explicit(&brief.n_claimed, 1, memory_order_relaxed) < n;) {
        chunk(arg, from_front++);
        if (from_front == 1 && n > CHUNKS_PER_WAKE &&
            atomic_load_explicit(&brief.helpers, memory_order_relaxed) == 0)
            wake_for_short_job();
    }
    atomic_store(&brief.open, false);
    pool.n_running -= !is_worker;
    for (int i = 0; i < LOOKS && atomic_load(&brief.helpers); i++) kl_pause_cpu();
    if (atomic_load(&brief.helpers)) {
        kl_mutex_lock(&pool.mu);
        atomic_store(&brief.caller_waits, true);
        while (atomic_load(&brief.helpers)) kl_cond_wait(&brief.left, &pool.mu);
        atomic_store(&brief.caller_waits, false);
        kl_mutex_unlock(&pool.mu);
    }
    atomic_store(&brief.taken, false);
}

void kl_pool_fork_prepare(void) {
    kl_mutex_lock(&pool.mu);
}

void kl_pool_fork_parent(void) {
    kl_mutex_unlock(&pool.mu);
}

void kl_pool_fork_child(void) {
    /* The owner of the items' streams empties them. The jobs were on the stacks of threads that the
     * child does not have. */
    kl_list_init(&pool.items);
    kl_list_init(&pool.jobs);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&brief.left, NULL);
    pool.n_sleeping = 0;
    atomic_store(&pool.n_looking, 0);
    atomic_store(&pool.n_threads, 0);
    atomic_store(&pool.n_running, 0);
    atomic_store(&brief.helpers, 0);
    atomic_store(&brief.open, false);
    atomic_store(&brief.caller_waits, false);
    atomic_store(&brief.taken, false);
    atomic_store(&pool.n_ready, 0);
    atomic_store(&pool.started, false);
    kl_mutex_unlock(&pool.mu);
}
