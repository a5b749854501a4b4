/* readers.c - see readers.h. An idle thread waits a few seconds and then ends; the last thread
 * never ends. */
#include "runtime/readers.h"

#include "base/platform/clock.h"
#include "base/thread.h"

static const int64_t idle_ns = INT64_C(5000000000);

static struct {
    struct kl_mutex mu;
    pthread_cond_t work;   /* of kl_cond_init_clock, once has_clock */
    bool has_clock;        /* guarded by mu */
    struct kl_list items;  /* of kl_item.link; guarded by mu */
    int n_items;           /* guarded by mu */
    int n_idle, n_threads; /* guarded by mu */
    _Atomic(bool) started; /* true once n_threads > 0 */
} readers = {.mu = KL_MUTEX_INIT, .items = {{&readers.items.head, &readers.items.head}}};

static void reader(void *arg) {
    kl_mutex_lock(&readers.mu);
    for (;;) {
        struct kl_link *n = kl_list_pop(&readers.items);
        if (n) {
            readers.n_items--;
            kl_mutex_unlock(&readers.mu);
            struct kl_item *item = kl_container(n, struct kl_item, link);
            item->run(item);
            kl_mutex_lock(&readers.mu);
            continue;
        }
        readers.n_idle++;
        int rc = kl_cond_wait_until(&readers.work, &readers.mu, kl_clock_ns() + idle_ns);
        readers.n_idle--;
        if (rc && kl_list_empty(&readers.items) && readers.n_threads > 1) break;
    }
    readers.n_threads--;
    kl_mutex_unlock(&readers.mu);
}

static int start_one(void) { /* the caller holds the lock; the new thread waits for it */
    kl_assert(kl_mutex_held(&readers.mu));
    if (kl_thread_start(reader, NULL, "keel-reader")) return KL_ENOMEM;
    readers.n_threads++;
    return KL_OK;
}

int kl_readers_start(struct kl_error **err) {
    if (atomic_load_explicit(&readers.started, memory_order_acquire)) return KL_OK;
    kl_mutex_lock(&readers.mu);
    if (!readers.has_clock) kl_cond_init_clock(&readers.work);
    readers.has_clock = true;
    int rc = readers.n_threads ? KL_OK : start_one();
    if (!rc) atomic_store_explicit(&readers.started, true, memory_order_release);
    kl_mutex_unlock(&readers.mu);
    return rc ? kl_fail(err, rc, "no reader thread could be started") : KL_OK;
}

void kl_readers_push(struct kl_item *item) {
    kl_mutex_lock(&readers.mu);
    kl_list_push(&readers.items, &item->link);
    readers.n_items++;
    /* When no thread can be added, the item waits for one of the existing threads; there is always
     * at least one. */
    if (readers.n_idle < readers.n_items) (void)start_one();
    pthread_cond_signal(&readers.work);
    kl_mutex_unlock(&readers.mu);
}

int kl_readers_n_threads(void) {
    kl_mutex_lock(&readers.mu);
    int n = readers.n_threads;
    kl_mutex_unlock(&readers.mu);
    return n;
}

void kl_readers_fork_prepare(void) {
    kl_mutex_lock(&readers.mu);
}

void kl_readers_fork_parent(void) {
    kl_mutex_unlock(&readers.mu);
}

void kl_readers_fork_child(void) {
    kl_list_init(&readers.items);
    kl_cond_init_clock(&readers.work);
    readers.has_clock = true;
    readers.n_items = readers.n_idle = readers.n_threads = 0;
    atomic_store(&readers.started, false);
    kl_mutex_unlock(&readers.mu);
}
