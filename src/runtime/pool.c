/* pool.c - a queue of items, a list of jobs in chunks, one lock, and threads that sleep when both
 * are empty.
 *
 * Wake-ups are kept few. A thread that runs out of work looks for more for a short time before it
 * sleeps. While one thread is looking, nobody is woken. A looking thread that finds work wakes the
 * next one if there is more. */
#include "runtime/pool.h"

#include "base/thread.h"

struct job {
    struct kl_link link; /* in pool.jobs while chunks are left to claim; guarded by pool.mu */
    /* The caller takes chunks from the front and helpers take them from the back. When a job is run
     * again and again, each processor then finds its half in its own cache. */
    _Atomic(int64_t) n_claimed, n_from_back;
    int64_t n;
    void (*chunk)(void *arg, int64_t i);
    void *arg;
    _Atomic(int) helpers; /* threads, without the caller, in the job; written under pool.mu */
    bool caller_waits;    /* guarded by pool.mu */
    pthread_cond_t left;  /* signalled when the last helper has left the job */
};

/* Pauses before a thread sleeps: about 50 microseconds, which is about what waking it takes. */
enum { LOOKS = 2000 };

static struct {
    struct kl_mutex mu;
    pthread_cond_t work;
    struct kl_list items; /* of kl_item.link; guarded by mu */
    struct kl_list jobs;  /* of job.link; guarded by mu */
    int n_sleeping;       /* guarded by mu */
    int n_looking;        /* guarded by mu */
    int n_threads;        /* guarded by mu */
    int n_running;        /* threads that run an item or a chunk, callers included; guarded by mu */
    _Atomic(bool) started;
    _Atomic(int) n_ready; /* items + jobs; read without the lock by threads that look for work */
} pool = {.mu = KL_MUTEX_INIT,
          .work = PTHREAD_COND_INITIALIZER,
          .items = {{&pool.items.head, &pool.items.head}},
          .jobs = {{&pool.jobs.head, &pool.jobs.head}}};

static _Thread_local bool is_worker;

static void wake_one(void) {
    kl_assert(kl_mutex_held(&pool.mu));
    if (pool.n_sleeping > 0 && pool.n_looking == 0) pthread_cond_signal(&pool.work);
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
    /* A job comes first: its caller is in the middle of a kernel that others wait for. But no more
     * threads than processors may run: a chunk whose thread has to wait for a processor delays the
     * whole job. */
    if (n && pool.n_running < pool.n_threads) {
        struct job *j = kl_container(n, struct job, link);
        j->helpers++;
        if (++pool.n_running < pool.n_threads) wake_one();
        kl_mutex_unlock(&pool.mu);
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
    if (!kl_list_empty(&pool.items)) wake_one();
    pool.n_running++;
    kl_mutex_unlock(&pool.mu);
    struct kl_item *item = kl_container(n, struct kl_item, link);
    item->run(item);
    kl_mutex_lock(&pool.mu);
    pool.n_running--;
    return true;
}

static void worker(void *arg) {
    is_worker = true;
    kl_mutex_lock(&pool.mu);
    for (;;) {
        if (do_one()) continue;
        if (pool.n_looking == 0 && pool.n_running < pool.n_threads) {
            pool.n_looking++;
            kl_mutex_unlock(&pool.mu);
            for (int i = 0;
                 i < LOOKS && atomic_load_explicit(&pool.n_ready, memory_order_relaxed) == 0; i++)
                kl_pause_cpu();
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
    wake_one();
    kl_mutex_unlock(&pool.mu);
}

void kl_pool_parallel(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    if (n <= 1 || !atomic_load_explicit(&pool.started, memory_order_acquire)) {
        for (int64_t i = 0; i < n; i++) chunk(arg, i);
        return;
    }
    struct job j = {.n = n, .chunk = chunk, .arg = arg, .left = PTHREAD_COND_INITIALIZER};
    kl_mutex_lock(&pool.mu);
    kl_list_push(&pool.jobs, &j.link);
    atomic_fetch_add(&pool.n_ready, 1);
    pool.n_running += !is_worker;
    wake_one();
    kl_mutex_unlock(&pool.mu);
    job_run(&j, true);
    kl_mutex_lock(&pool.mu);
    unlist_job(&j);
    pool.n_running -= !is_worker;
    if (!kl_list_empty(&pool.jobs)) wake_one(); /* threads may have been kept from another job */
    if (atomic_load(&j.helpers)) { /* the rest nearly always takes less time than a sleep */
        kl_mutex_unlock(&pool.mu);
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
    pool.n_sleeping = pool.n_looking = pool.n_threads = pool.n_running = 0;
    atomic_store(&pool.n_ready, 0);
    atomic_store(&pool.started, false);
    kl_mutex_unlock(&pool.mu);
}
