/* metal_queue.c - queues of streams, command buffers on them, and notice of their completion.
 *
 * A submission is one command buffer, which is committed by `end` alone: until then the device has
 * seen nothing of it. Metal calls a handler on a thread of its own when the command buffer is
 * complete; it finds the event by the command buffer, and wakes the settlement thread. */
#include <stdio.h>

#include "backend/metal/metal_internal.h"
#include "base/alloc.h"

/* Metal blocks a thread that asks for more command buffers than may be outstanding. */
enum { MOST_OUTSTANDING = 1024 };

static int refused(struct kl_metal *d, const char *call, struct kl_error **err) {
    return kl_fail(err, KL_ESUBMIT, "device '%s': %s gave nil", d->name, call);
}

static int make_queue(struct kl_metal *d, struct kl_metal_queue *q, struct kl_error **err) {
    if (!(q->queue = kl_metal_new_queue(d->device, MOST_OUTSTANDING)))
        return refused(d, "newCommandQueueWithMaxCommandBufferCount", err);
    if (!(q->event = kl_metal_new_event(d->device))) {
        kl_metal_release(q->queue);
        return refused(d, "newSharedEvent", err);
    }
    if (!(q->fence = kl_metal_new_fence(d->device))) {
        kl_metal_release(q->event);
        kl_metal_release(q->queue);
        return refused(d, "newFence", err);
    }
    return KL_OK;
}

int kl_metal_queue_new(struct kl_driver *driver, int stream_index, void **queue,
                       struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    KL_TRY(kl_metal_usable(d, err));
    struct kl_metal_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    void *pool = kl_metal_pool_push();
    int rc = pool ? make_queue(d, q, err) : kl_fail_nomem(err);
    kl_metal_pool_pop(pool);
    if (rc) {
        kl_free(q);
        return rc;
    }
    kl_mutex_lock(&d->mu);
    q->next = d->queues;
    d->queues = q;
    kl_mutex_unlock(&d->mu);
    *queue = q;
    return KL_OK;
}

/* ---- events ---- */

int kl_metal_event_new(struct kl_driver *driver, void **event, struct kl_error **err) {
    struct kl_metal_event *e = kl_calloc(1, sizeof *e);
    if (!e) return kl_fail_nomem(err);
    atomic_init(&e->refs, 1);
    e->d = kl_metal_of(driver);
    *event = e;
    return KL_OK;
}

static void release(struct kl_metal_event *e) {
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) == 1) kl_free(e);
}

void kl_metal_event_free(struct kl_driver *d, void *event) {
    /* In the child of a fork no handler will come. */
    if (!atomic_load(&kl_metal_of(d)->forked)) release(event);
}

/* All submissions that are not complete, on all devices: what the handler gets is a command buffer
 * and nothing else. */
static struct kl_mutex flights_mu = KL_MUTEX_INIT; /* taken before d->mu */
static struct kl_metal *devices[8];                /* guarded by flights_mu */

static void add_flight(struct kl_metal *d, struct kl_metal_event *e) {
    kl_mutex_lock(&flights_mu);
    devices[d->index] = d;
    kl_mutex_lock(&d->mu);
    e->next = d->flight;
    d->flight = e;
    kl_mutex_unlock(&d->mu);
    kl_mutex_unlock(&flights_mu);
}

static struct kl_metal_event *flight_of(kl_metal_id buffer) {
    struct kl_metal_event *found = NULL;
    kl_mutex_lock(&flights_mu);
    for (size_t i = 0; i < sizeof devices / sizeof *devices && !found; i++) {
        if (!devices[i]) continue;
        kl_mutex_lock(&devices[i]->mu);
        for (struct kl_metal_event *e = devices[i]->flight; e && !found; e = e->next)
            if (e->buffer == buffer) found = e;
        kl_mutex_unlock(&devices[i]->mu);
    }
    kl_mutex_unlock(&flights_mu);
    return found;
}

/* Commands that wait for one that failed would wait for ever: they go on. They read
 * garbage, but their memory is still theirs, and indices are checked. The caller holds d->mu. */
static void let_all_go_on(struct kl_metal *d) {
    for (struct kl_metal_queue *q = d->queues; q; q = q->next)
        kl_metal_set_signaled(q->event, UINT64_MAX);
}

static void lose(struct kl_metal *d, kl_metal_id error) {
    kl_mutex_lock(&d->mu);
    if (!d->lost) {
        snprintf(d->why, sizeof d->why, "a command buffer failed");
        kl_metal_error_text(error, d->why, sizeof d->why);
        d->lost = true;
    }
    let_all_go_on(d);
    kl_mutex_unlock(&d->mu);
}

static void completed(struct kl_metal_block *self, kl_metal_id buffer) {
    struct kl_metal_event *e = flight_of(buffer);
    kl_assert(e);
    struct kl_metal *d = e->d;
    void *pool = kl_metal_pool_push();
    bool well = kl_metal_status(buffer) == KL_METAL_STATUS_COMPLETED;
    if (!well) lose(d, kl_metal_error_of(buffer));
    kl_metal_pool_pop(pool);
    kl_mutex_lock(&d->mu);
    struct kl_metal_event **at = &d->flight;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    e->state = well ? 1 : -1;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
    release(e);
    atomic_fetch_sub(&d->driver.n_owed, 1);
}

bool kl_metal_is_lost(struct kl_metal *d) {
    kl_mutex_lock(&d->mu);
    bool lost = d->lost;
    while (lost && d->flight) kl_cond_wait(&d->changed, &d->mu);
    kl_mutex_unlock(&d->mu);
    return lost;
}

void kl_metal_why_lost(struct kl_driver *driver, char *text, size_t room) {
    struct kl_metal *d = kl_metal_of(driver);
    kl_mutex_lock(&d->mu);
    if (d->lost) snprintf(text, room, "%s", d->why);
    kl_mutex_unlock(&d->mu);
}

int kl_metal_event_query(struct kl_driver *driver, void *event) {
    struct kl_metal *d = kl_metal_of(driver);
    struct kl_metal_event *e = event;
    if (atomic_load_explicit(&d->forked, memory_order_relaxed)) return KL_EDEVICELOST;
    kl_mutex_lock(&d->mu);
    int rc = e->state > 0 ? 1 : e->state < 0 || d->lost ? KL_EDEVICELOST : 0;
    kl_mutex_unlock(&d->mu);
    if (rc < 0) (void)kl_metal_is_lost(d);
    return rc;
}

void kl_metal_wait_any(struct kl_driver *driver, void *const *events, int n) {
    struct kl_metal *d = kl_metal_of(driver);
    kl_mutex_lock(&d->mu);
    for (bool any = false; !any;) {
        any = d->woken || d->lost;
        for (int i = 0; i < n && !any; i++) any = ((struct kl_metal_event *)events[i])->state != 0;
        if (!any) kl_cond_wait(&d->changed, &d->mu);
    }
    d->woken = false;
    kl_mutex_unlock(&d->mu);
}

void kl_metal_wake(struct kl_driver *driver) {
    struct kl_metal *d = kl_metal_of(driver);
    if (atomic_load_explicit(&d->forked, memory_order_relaxed)) return;
    kl_mutex_lock(&d->mu);
    d->woken = true;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
}

/* ---- submitting ---- */

static void forget(struct kl_metal_queue *q) {
    void *pool = q->pool;
    q->buffer = q->encoder = q->pool = NULL;
    q->fenced = false;
    kl_metal_pool_pop(pool);
}

int kl_metal_begin(struct kl_driver *driver, void *queue, void *const *waits, int n_waits,
                   struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    struct kl_metal_queue *q = queue;
    KL_TRY(kl_metal_usable(d, err));
    if (!(q->pool = kl_metal_pool_push())) return kl_fail_nomem(err);
    if (!(q->buffer = kl_metal_command_buffer(q->queue))) {
        forget(q);
        return refused(d, "commandBufferWithUnretainedReferences", err);
    }
    if (q->signalled) kl_metal_encode_wait(q->buffer, q->event, q->signalled);
    for (int i = 0; i < n_waits; i++) {
        const struct kl_metal_event *e = waits[i];
        kl_assert(e->event); /* it was submitted */
        if (e->event != q->event) kl_metal_encode_wait(q->buffer, e->event, e->value);
    }
    return KL_OK;
}

/* Words are in memory that both share, so there is nothing to bring back. */
int kl_metal_end(struct kl_driver *driver, void *queue, struct kl_fault_words *brings_back,
                 void *signal, struct kl_error **err) {
    struct kl_metal *d = kl_metal_of(driver);
    struct kl_metal_queue *q = queue;
    struct kl_metal_event *e = signal;
    KL_TRY(kl_metal_usable(d, err));
    kl_metal_close_encoder(q);
    e->event = q->event;
    e->value = ++q->signalled;
    e->buffer = q->buffer;
    atomic_fetch_add(&e->refs, 1);
    atomic_fetch_add(&driver->n_owed, 1);
    kl_metal_encode_signal(q->buffer, e->event, e->value);
    add_flight(d, e);
    kl_metal_add_handler(q->buffer, &d->handler);
    kl_metal_commit(q->buffer);
    forget(q);
    return KL_OK;
}

int kl_metal_abandon(struct kl_driver *driver, void *queue) {
    struct kl_metal_queue *q = queue;
    kl_metal_close_encoder(q);
    forget(q); /* a command buffer that was not committed is dropped with the pool */
    return KL_OK;
}

void kl_metal_handler_init(struct kl_metal *d) {
    kl_metal_block_init(&d->handler, completed);
}
