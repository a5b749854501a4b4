/* compiling.c - threads of the library that compile kernels, for all devices: a queue of kernels
 * under one lock.
 *
 * A kernel in the queue belongs to whoever takes it: a thread of these, or a thread that waits for
 * it. So it is compiled also where no thread could be started, and at the end of the process, when
 * these threads take nothing any more. */
#include "backend/gpu/lower/lowering.h"
#include "base/alloc.h"
#include "base/fork_locks.h"

enum { MOST_THREADS = 16 }; /* each compiler takes some 100 MB of memory */

static struct {
    struct kl_mutex mu; /* a leaf */
    pthread_cond_t work, done;
    struct kl_list queue;    /* of kl_compiled.link; guarded by mu */
    int n_queued;            /* guarded by mu */
    int n_threads, n_asleep; /* guarded by mu */
    bool closed;             /* the process ends: threads take nothing any more; guarded by mu */
} compiling = {.mu = KL_MUTEX_INIT,
               .work = PTHREAD_COND_INITIALIZER,
               .done = PTHREAD_COND_INITIALIZER,
               .queue = {{&compiling.queue.head, &compiling.queue.head}}};

__attribute__((constructor)) static void watch_fork(void) {
    kl_fork_lock_add(&compiling.mu);
}

static enum kl_compiled_state state_of(const struct kl_compiled *e) {
    return atomic_load_explicit(&e->state, memory_order_acquire);
}

static void set_state(struct kl_compiled *e, enum kl_compiled_state state) {
    kl_assert(kl_mutex_held(&compiling.mu));
    atomic_store_explicit(&e->state, state, memory_order_release);
}

/* The lock is held. */
static void take(struct kl_compiled *e) {
    kl_list_remove(&e->link);
    compiling.n_queued--;
    set_state(e, KL_KERNEL_RUNNING);
}

static void put(struct kl_compiled *e) {
    kl_list_push(&compiling.queue, &e->link);
    compiling.n_queued++;
    set_state(e, KL_KERNEL_QUEUED);
}

/* The lock is held, and released meanwhile. rc: why e cannot be compiled, with *why. */
static void finish(struct kl_compiled *e, int rc, struct kl_error *why) {
    char *source = e->source, *file = e->file;
    e->source = e->file = NULL;
    e->rc = rc;
    e->error = why;
    set_state(e, rc ? KL_KERNEL_FAILED : KL_KERNEL_READY);
    pthread_cond_broadcast(&compiling.done);
    kl_mutex_unlock(&compiling.mu);
    kl_free(source);
    kl_free(file);
    kl_mutex_lock(&compiling.mu);
}

/* ---- the threads ---- */

static int compile_as_helper(struct kl_compiled *e, struct kl_error **err) {
    struct kl_driver *d = e->lowering->driver;
    KL_TRY(d->ops->enter(d, err));
    const int rc = kl_compiled_make(e->lowering, e, e->source, e->file, err);
    if (d->ops->leave) d->ops->leave(d);
    return rc;
}

static void helper(void *arg) {
    kl_mutex_lock(&compiling.mu);
    while (!compiling.closed) {
        struct kl_link *n = kl_list_first(&compiling.queue);
        if (!n) {
            compiling.n_asleep++;
            kl_cond_wait(&compiling.work, &compiling.mu);
            compiling.n_asleep--;
            continue;
        }
        struct kl_compiled *e = kl_container(n, struct kl_compiled, link);
        struct kl_driver *d = e->lowering->driver;
        struct kl_error *why = NULL;
        take(e);
        kl_mutex_unlock(&compiling.mu);
        const bool may = d->ops->helper_begin(d);
        const int rc = may ? compile_as_helper(e, &why) : KL_OK;
        if (may) d->ops->helper_end(d);
        kl_mutex_lock(&compiling.mu);
        if (may) {
            finish(e, rc, why);
            continue;
        }
        compiling.closed = true;
        put(e);
        pthread_cond_broadcast(&compiling.work);
        pthread_cond_broadcast(&compiling.done); /* who waits for e compiles it */
    }
    compiling.n_threads--;
    kl_mutex_unlock(&compiling.mu);
}

/* Wakes a thread, or starts one more. The lock is held. When no thread can be started, those that
 * are there do the work, or those that need it. */
static void summon(void) {
    if (compiling.closed) return;
    if (compiling.n_asleep >= compiling.n_queued) {
        pthread_cond_signal(&compiling.work);
        return;
    }
    const int processors = kl_n_processors();
    const int most = processors < MOST_THREADS ? processors : MOST_THREADS;
    if (compiling.n_threads < most && kl_thread_start(helper, NULL, "keel-compile") == KL_OK)
        compiling.n_threads++;
}

/* ---- for those who need kernels ---- */

void kl_compiling_start(struct kl_compiled *e, char *source, char *file) {
    struct kl_error *before = NULL;
    kl_mutex_lock(&compiling.mu);
    const enum kl_compiled_state state = state_of(e);
    const bool mine = state == KL_KERNEL_NEW || state == KL_KERNEL_FAILED;
    if (mine) {
        before = e->error;
        e->error = NULL;
        e->source = source;
        e->file = file;
        put(e);
        summon();
    }
    kl_mutex_unlock(&compiling.mu);
    kl_error_release(before);
    if (mine) return;
    kl_free(source);
    kl_free(file);
}

/* Each operation has an error of its own: an error is delivered once. */
static int fail_like(struct kl_error **err, int rc, const struct kl_error *why) {
    if (!why || why->is_static) return kl_fail_with(err, kl_error_static(rc));
    struct kl_error_info info = {.code = rc, .op = why->op};
    return kl_fail_with(err, kl_error_new(&info, "%s", why->message));
}

/* The kernel that a thread compiles while it waits for e: e, or another one of the device, which it
 * probably needs next. NULL: all of them are being compiled. The lock is held. */
static struct kl_compiled *for_who_waits(struct kl_compiled *e) {
    if (state_of(e) == KL_KERNEL_QUEUED) return e;
    for (struct kl_link *n = compiling.queue.head.next; n != &compiling.queue.head; n = n->next) {
        struct kl_compiled *other = kl_container(n, struct kl_compiled, link);
        if (other->lowering == e->lowering) return other;
    }
    return NULL;
}

static int wait_for(struct kl_compiled *e, struct kl_error **err) {
    kl_mutex_lock(&compiling.mu);
    while (state_of(e) == KL_KERNEL_QUEUED || state_of(e) == KL_KERNEL_RUNNING) {
        struct kl_compiled *mine = for_who_waits(e);
        if (!mine) {
            kl_cond_wait(&compiling.done, &compiling.mu);
            continue;
        }
        struct kl_error *why = NULL;
        take(mine);
        kl_mutex_unlock(&compiling.mu);
        const int rc = kl_compiled_make(mine->lowering, mine, mine->source, mine->file, &why);
        kl_mutex_lock(&compiling.mu);
        finish(mine, rc, why);
    }
    const int rc = state_of(e) == KL_KERNEL_READY ? KL_OK : e->rc;
    struct kl_error *why = rc ? kl_error_retain(e->error) : NULL;
    kl_mutex_unlock(&compiling.mu);
    if (rc) fail_like(err, rc, why);
    kl_error_release(why);
    return rc;
}

/* The thread that loads the kernel may wait until an exchange is handed over whose stream this
 * thread runs. So it is handed over first, or kept back. */
int kl_compiling_wait(struct kl_compiled *e, struct kl_error **err) {
    if (state_of(e) == KL_KERNEL_READY) return KL_OK;
    const bool begun = kl_driver_stall_begin();
    const int rc = wait_for(e, err);
    kl_driver_stall_end(begun);
    return rc;
}

/* ---- fork ---- */

void kl_compiling_forked(void) {
    kl_list_init(&compiling.queue);
    pthread_cond_init(&compiling.work, NULL);
    pthread_cond_init(&compiling.done, NULL);
    compiling.n_queued = compiling.n_threads = compiling.n_asleep = 0;
}

void kl_compiling_fail_forked(struct kl_compiled *e) {
    const enum kl_compiled_state state = state_of(e);
    if (state != KL_KERNEL_QUEUED && state != KL_KERNEL_RUNNING) return;
    e->source = e->file = NULL; /* a thread of the parent may have been using them */
    e->rc = KL_EFORK;
    e->error = kl_error_static(KL_EFORK);
    atomic_store(&e->state, KL_KERNEL_FAILED);
}
