/* callback_waits.c - threads that wait inside callbacks of the user; see callback_waits.h. */
#include "runtime/callback_waits.h"

__thread struct kl_frame *kl_frames;
_Atomic(int) kl_n_callback_waits;

struct callback_wait {        /* a thread waits inside a task's callback: a possible deadlock */
    struct kl_link link;      /* guarded by waits.mu */
    struct kl_frame *frames;  /* the streams whose tasks this thread is running */
    struct kl_stream *target; /* the stream that it waits for */
    struct kl_waiter waiter;
    pthread_mutex_t m;
    pthread_cond_t c;
    bool woken, deadlock, kicked; /* guarded by m */
};
static struct {
    struct kl_mutex mu;  /* taken before stream locks, never while one is held */
    struct kl_list list; /* of callback_wait.link */
} waits = {.mu = KL_MUTEX_INIT, .list = {{&waits.list.head, &waits.list.head}}};

/* Whether the wait of w's thread keeps x from going on. Follows parked streams and other waits in
 * callbacks. */
static bool leads_back(struct callback_wait *w) {
    struct kl_stream *x = w->target;
    for (int steps = 0; x && steps < 10000; steps++) {
        for (struct kl_frame *f = w->frames; f; f = f->outer)
            if (f->stream == x) return true;
        struct kl_stream *next = NULL;
        kl_mutex_lock(x->mu);
        if (x->role == KL_PARKED && kl_timeline_done(x->parked_on.timeline) < x->parked_on.ticket)
            next = x->parked_on.timeline->owner;
        kl_mutex_unlock(x->mu);
        for (struct kl_link *n = waits.list.head.next; !next && n != &waits.list.head;
             n = n->next) {
            struct callback_wait *o = kl_container(n, struct callback_wait, link);
            for (struct kl_frame *f = o->frames; o != w && f; f = f->outer)
                if (f->stream == x) next = o->target;
        }
        x = next;
    }
    return false;
}

void kl_callback_waits_check_all(void) {
    kl_mutex_lock(&waits.mu);
    for (struct kl_link *n = waits.list.head.next; n != &waits.list.head; n = n->next) {
        struct callback_wait *w = kl_container(n, struct callback_wait, link);
        if (!leads_back(w)) continue;
        pthread_mutex_lock(&w->m);
        w->deadlock = true;
        pthread_cond_signal(&w->c);
        pthread_mutex_unlock(&w->m);
    }
    kl_mutex_unlock(&waits.mu);
}

static void callback_woken(struct kl_waiter *waiter) {
    struct callback_wait *w = kl_container(waiter, struct callback_wait, waiter);
    pthread_mutex_lock(&w->m);
    w->woken = true;
    pthread_cond_signal(&w->c);
    pthread_mutex_unlock(&w->m);
}

void kl_callback_waits_kick_all(void) {
    kl_mutex_lock(&waits.mu);
    for (struct kl_link *n = waits.list.head.next; n != &waits.list.head; n = n->next) {
        struct callback_wait *w = kl_container(n, struct callback_wait, link);
        pthread_mutex_lock(&w->m);
        w->kicked = true;
        pthread_cond_signal(&w->c);
        pthread_mutex_unlock(&w->m);
    }
    kl_mutex_unlock(&waits.mu);
}

int kl_callback_waits_block(struct kl_timeline *t, uint64_t ticket,
                            bool (*help)(struct kl_wait *on), struct kl_error **err) {
    struct callback_wait w = {.frames = kl_frames,
                              .target = t->owner,
                              .waiter = {.ticket = ticket, .wake = callback_woken},
                              .m = PTHREAD_MUTEX_INITIALIZER,
                              .c = PTHREAD_COND_INITIALIZER};
    kl_mutex_lock(&waits.mu);
    kl_list_push(&waits.list, &w.link);
    /* A stream that parks or is queued from now on sees the count; or else we see the stream's
     * state. */
    atomic_fetch_add_explicit(&kl_n_callback_waits, 1, memory_order_seq_cst);
    bool deadlock = leads_back(&w);
    struct kl_wait on = {t, ticket};
    kl_mutex_unlock(&waits.mu);
    if (!deadlock && !help(&on) && kl_timeline_register(t, &w.waiter)) {
        pthread_mutex_lock(&w.m);
        while (!w.woken && !w.deadlock && !w.kicked) pthread_cond_wait(&w.c, &w.m);
        bool woken = w.woken;
        pthread_mutex_unlock(&w.m);
        if (!woken && !kl_timeline_cancel(t, &w.waiter)) {
            /* The wake-up is already on its way, and w must live until it has come. */
            pthread_mutex_lock(&w.m);
            while (!w.woken) pthread_cond_wait(&w.c, &w.m);
            pthread_mutex_unlock(&w.m);
        }
        deadlock = w.deadlock && !w.woken;
    }
    kl_mutex_lock(&waits.mu);
    kl_list_remove(&w.link);
    atomic_fetch_sub_explicit(&kl_n_callback_waits, 1, memory_order_seq_cst);
    kl_mutex_unlock(&waits.mu);
    pthread_cond_destroy(&w.c);
    pthread_mutex_destroy(&w.m);
    if (!deadlock) return KL_OK;
    return kl_fail(
        err, KL_EDEADLOCK,
        "a callback that stream %d runs waits for stream %d, which waits for the callback",
        kl_frames->stream->index, ((struct kl_stream *)t->owner)->index);
}

void kl_callback_waits_fork_prepare(void) {
    kl_mutex_lock(&waits.mu);
}

void kl_callback_waits_fork_parent(void) {
    kl_mutex_unlock(&waits.mu);
}

void kl_callback_waits_fork_child(void) {
    kl_list_init(&waits.list); /* the child does not have those threads */
    atomic_store(&kl_n_callback_waits, 0);
    kl_frames = NULL;
    kl_mutex_unlock(&waits.mu);
}
