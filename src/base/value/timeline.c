/* timeline.c - see timeline.h. */
#include "base/value/timeline.h"

#include "base/value/wait_hook.h"

enum { N_LOCKS = 12 };
/* Each lock has its own cache line, so that threads that take different locks do not slow each
 * other down. */
static struct {
    _Alignas(64) struct kl_mutex mu;
} locks[N_LOCKS] = {[0 ... N_LOCKS - 1] = {KL_MUTEX_INIT}};

void kl_timelines_fork_lock(bool lock) {
    for (int i = 0; i < N_LOCKS; i++) {
        if (lock)
            kl_mutex_lock(&locks[i].mu);
        else
            kl_mutex_unlock(&locks[N_LOCKS - 1 - i].mu);
    }
}

void kl_timeline_init(struct kl_timeline *t) {
    static _Atomic(unsigned) next;
    atomic_init(&t->word, 0);
    t->mu = &locks[atomic_fetch_add(&next, 1) % N_LOCKS].mu;
    kl_list_init(&t->waiters);
    t->handed = NULL;
    t->owner = NULL;
    t->queue = NULL;
    t->awaited = NULL;
    t->stream_index = -1;
    t->is_device = false;
}

void kl_timeline_deinit(struct kl_timeline *t) {
    kl_assert(kl_list_empty(&t->waiters));
}

static void wake_satisfied(struct kl_timeline *t) {
    struct kl_list woken;
    kl_list_init(&woken);
    kl_mutex_lock(t->mu);
    /* The word is read again under the lock: another thread that published meanwhile saw the bit,
     * too, but may find that this call has already taken the list. */
    uint64_t done = atomic_load_explicit(&t->word, memory_order_seq_cst) >> 1;
    for (struct kl_link *n = t->waiters.head.next, *next; n != &t->waiters.head; n = next) {
        next = n->next;
        if (kl_container(n, struct kl_waiter, link)->ticket > done) continue;
        kl_list_remove(n);
        kl_list_push(&woken, n);
    }
    /* The bit is set and cleared only under the lock, together with the list. */
    if (kl_list_empty(&t->waiters))
        atomic_fetch_and_explicit(&t->word, ~(uint64_t)1, memory_order_seq_cst);
    kl_mutex_unlock(t->mu);
    for (struct kl_link *n; (n = kl_list_pop(&woken));) {
        struct kl_waiter *w = kl_container(n, struct kl_waiter, link);
        w->wake(w);
    }
}

void kl_timeline_publish(struct kl_timeline *t, uint64_t ticket) {
    uint64_t done = atomic_load_explicit(&t->word, memory_order_relaxed) >> 1;
    kl_assert(ticket >= done);
    uint64_t old = atomic_fetch_add_explicit(&t->word, 2 * (ticket - done), memory_order_seq_cst);
    if (old & 1) wake_satisfied(t);
}

bool kl_timeline_register(struct kl_timeline *t, struct kl_waiter *w) {
    kl_mutex_lock(t->mu);
    uint64_t word = atomic_fetch_or_explicit(&t->word, 1, memory_order_seq_cst);
    bool wait = (word >> 1) < w->ticket;
    if (wait)
        kl_list_push(&t->waiters, &w->link);
    else if (kl_list_empty(&t->waiters))
        atomic_fetch_and_explicit(&t->word, ~(uint64_t)1, memory_order_seq_cst);
    void (*const awaited)(struct kl_timeline *) = wait ? t->awaited : NULL;
    kl_mutex_unlock(t->mu);
    /* w may be gone, but timelines live for ever. */
    if (awaited) awaited(t);
    return wait;
}

bool kl_timeline_cancel(struct kl_timeline *t, struct kl_waiter *w) {
    kl_mutex_lock(t->mu);
    bool mine = false;
    for (struct kl_link *n = t->waiters.head.next; n != &t->waiters.head && !mine; n = n->next)
        mine = n == &w->link;
    if (mine) {
        kl_list_remove(&w->link);
        if (kl_list_empty(&t->waiters))
            atomic_fetch_and_explicit(&t->word, ~(uint64_t)1, memory_order_seq_cst);
    }
    kl_mutex_unlock(t->mu);
    return mine;
}

struct blocked {
    struct kl_waiter waiter;
    struct kl_parker parker;
};

static void wake_blocked(struct kl_waiter *w) {
    kl_parker_set(&kl_container(w, struct blocked, waiter)->parker);
}

void kl_timeline_block(struct kl_timeline *t, uint64_t ticket) {
    if (kl_timeline_done(t) >= ticket) return;
    struct blocked b = {.waiter = {.ticket = ticket, .wake = wake_blocked}};
    kl_parker_init(&b.parker);
    if (kl_timeline_register(t, &b.waiter)) kl_parker_wait(&b.parker);
    kl_parker_deinit(&b.parker);
}

bool kl_timeline_wait(struct kl_timeline *t, uint64_t ticket) {
    if (kl_timeline_done(t) >= ticket) return true;
    struct blocked b = {.waiter = {.ticket = ticket, .wake = wake_blocked}};
    bool ended = false;
    kl_parker_init(&b.parker);
    if (kl_timeline_register(t, &b.waiter)) {
        ended = !kl_wait_parked(&b.parker);
        /* Where the registration cannot be taken back, the wake-up is on its way, and b must live
         * until it has come. */
        if (ended && !kl_timeline_cancel(t, &b.waiter)) kl_parker_wait(&b.parker);
    }
    kl_parker_deinit(&b.parker);
    return !ended;
}
