/* cuda_queue.c - streams, events, submissions, and waking the settlement thread.
 *
 * CUDA is asked to notify of an event only when the settlement thread is about to sleep on it: the
 * threads that submit or wait settle most command buffers themselves, and a notification costs
 * microseconds. For a notification a second stream per queue waits for the event and calls the
 * host. */
#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "base/platform/clock.h"

enum {
    /* CUDA does not promise the call when the device is lost, so the sleeping thread checks at this
     * interval, */
    LOOK_EVERY_MS = 50,
    /* And at this one when CUDA could not be asked to notify. */
    LOOK_UNARMED_MS = 1,
};

int kl_cuda_queue_new(struct kl_driver *driver, int stream_index, void **queue,
                      struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    KL_TRY(kl_cuda_enter(d, err));
    struct kl_cuda_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    int rc = KL_CUDA(d, err, StreamCreate, (&q->stream, KL_CU_STREAM_IS_NON_BLOCKING));
    if (!rc) rc = KL_CUDA(d, err, StreamCreate, (&q->notify, KL_CU_STREAM_IS_NON_BLOCKING));
    if (!rc) rc = kl_cuda_chain_new(d, &q->chain, err);
    if (!rc) rc = kl_cuda_alloc(d, KL_COUNTERS * sizeof(uint32_t), &q->counters, err);
    if (!rc) rc = KL_CUDA(d, err, MemsetD32Async, (q->counters, 0, KL_COUNTERS, q->stream));
    if (rc) {
        kl_free(q->chain);
        if (q->counters) {
            const bool begun = kl_driver_stall_begin();
            d->api->MemFree(q->counters);
            kl_driver_stall_end(begun);
        }
        if (q->notify) d->api->StreamDestroy(q->notify);
        if (q->stream) d->api->StreamDestroy(q->stream);
        kl_free(q);
        return rc;
    }
    *queue = q;
    return KL_OK;
}

void *kl_cuda_counters(void *queue) {
    return (void *)(uintptr_t)((struct kl_cuda_queue *)queue)->counters;
}

/* ---- events ---- */

int kl_cuda_event_new(struct kl_driver *driver, void **event, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    KL_TRY(kl_cuda_enter(d, err));
    kl_mutex_lock(&d->mu);
    struct kl_cuda_event *e = d->free_events;
    if (e) d->free_events = e->next;
    kl_mutex_unlock(&d->mu);
    if (!e) {
        if (!(e = kl_calloc(1, sizeof *e))) return kl_fail_nomem(err);
        int rc = KL_CUDA(d, err, EventCreate, (&e->cu, KL_CU_EVENT_HAS_NO_TIMING));
        if (rc) {
            kl_free(e);
            return rc;
        }
        e->dev = d;
    }
    atomic_store(&e->refs, 1);
    atomic_store(&e->recorded, false);
    atomic_store(&e->done, false);
    atomic_store(&e->armed, false);
    *event = e;
    return KL_OK;
}

static void event_release(struct kl_cuda_event *e) {
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    kl_mutex_lock(&e->dev->mu);
    e->next = e->dev->free_events;
    e->dev->free_events = e;
    kl_mutex_unlock(&e->dev->mu);
}

void kl_cuda_event_free(struct kl_driver *driver, void *event) {
    if (!atomic_load(&kl_cuda_of(driver)->forked)) event_release(event);
}

int kl_cuda_event_query(struct kl_driver *driver, void *event) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_event *e = event;
    if (atomic_load_explicit(&e->done, memory_order_acquire)) return 1;
    if (kl_cuda_enter(d, NULL)) return KL_EDEVICELOST;
    /* CUDA reports an event that was never recorded as complete. */
    if (!atomic_load_explicit(&e->recorded, memory_order_acquire)) return 0;
    int result = d->api->EventQuery(e->cu);
    if (result == KL_CU_NOT_READY) return 0;
    /* Whatever the error is, the commands will never be known to be complete. */
    if (result != KL_CU_SUCCESS) {
        kl_cuda_note_lost(d, result);
        return KL_EDEVICELOST;
    }
    atomic_store_explicit(&e->done, true, memory_order_release);
    return 1;
}

void kl_cuda_why_lost(struct kl_driver *driver, char *text, size_t room) {
    int result = atomic_load(&kl_cuda_of(driver)->lost);
    if (result) kl_cuda_error_name(result, text, room);
}

/* ---- waking the settlement thread ---- */

/* Called on a thread of CUDA, which must not call CUDA. */
static void notified(void *arg) {
    struct kl_cuda_event *e = arg;
    struct kl_cuda *d = e->dev;
    atomic_store_explicit(&e->done, true, memory_order_release);
    kl_mutex_lock(&d->mu);
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
    event_release(e);
}

/* Asks CUDA to notify of e; true when it will. Only the settlement thread calls it. */
static bool arm(struct kl_cuda *d, struct kl_cuda_event *e) {
    if (atomic_load(&e->armed)) return true;
    if (!atomic_load_explicit(&e->recorded, memory_order_acquire)) return false;
    atomic_fetch_add(&e->refs, 1);
    if (KL_CUDA(d, NULL, StreamWaitEvent, (e->notify, e->cu, 0)) ||
        KL_CUDA(d, NULL, LaunchHostFunc, (e->notify, notified, e))) {
        event_release(e);
        return false;
    }
    atomic_store(&e->armed, true);
    return true;
}

/* Whether an event is complete or the device is lost. Otherwise asks CUDA to notify of the events;
 * *all: it will, of every one. */
static bool any_done(struct kl_cuda *d, void *const *events, int n, bool *all) {
    *all = true;
    for (int i = 0; i < n; i++)
        if (kl_cuda_event_query(&d->driver, events[i])) return true;
    for (int i = 0; i < n; i++)
        if (!arm(d, events[i])) *all = false;
    return atomic_load(&d->lost) != 0;
}

static bool flagged(struct kl_cuda *d, void *const *events, int n) {
    if (d->woken || atomic_load(&d->lost)) return true;
    for (int i = 0; i < n; i++)
        if (atomic_load_explicit(&((struct kl_cuda_event *)events[i])->done, memory_order_acquire))
            return true;
    return false;
}

/* Sleeps until `changed` is signalled or `ms` have passed. The caller holds mu. */
static void sleep_ms(struct kl_cuda *d, long ms) {
    (void)kl_cond_wait_until(&d->changed, &d->mu, kl_clock_ns() + ms * INT64_C(1000000));
}

void kl_cuda_wait_any(struct kl_driver *driver, void *const *events, int n) {
    struct kl_cuda *d = kl_cuda_of(driver);
    if (kl_cuda_enter(d, NULL)) return;
    kl_mutex_lock(&d->mu);
    while (!flagged(d, events, n)) {
        bool all;
        kl_mutex_unlock(&d->mu);
        bool any = any_done(d, events, n, &all);
        kl_mutex_lock(&d->mu);
        if (any) break;
        if (!flagged(d, events, n)) sleep_ms(d, all ? LOOK_EVERY_MS : LOOK_UNARMED_MS);
    }
    d->woken = false;
    kl_mutex_unlock(&d->mu);
}

void kl_cuda_wake(struct kl_driver *driver) {
    struct kl_cuda *d = kl_cuda_of(driver);
    if (atomic_load(&d->forked)) return;
    kl_mutex_lock(&d->mu);
    d->woken = true;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
}

/* ---- submissions ---- */

static int wait_first(struct kl_cuda *d, struct kl_cuda_queue *q, void *const *waits, int n_waits,
                      struct kl_error **err) {
    for (int i = 0; i < n_waits; i++) {
        struct kl_cuda_event *w = waits[i];
        if (!atomic_load_explicit(&w->done, memory_order_acquire))
            KL_TRY(KL_CUDA(d, err, StreamWaitEvent, (q->stream, w->cu, 0)));
    }
    return kl_cuda_after_posted(d, q->stream, &q->posted, err);
}

int kl_cuda_begin(struct kl_driver *driver, void *queue, void *const *waits, int n_waits,
                  struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    KL_TRY(kl_cuda_enter(d, err));
    const int rc = wait_first(d, q, waits, n_waits, err);
    if (rc) return kl_cuda_abandon(driver, queue) ? KL_EDEVICELOST : rc;
    kl_cuda_chain_begin(q->chain);
    return KL_OK;
}

int kl_cuda_end(struct kl_driver *driver, void *queue, struct kl_fault_words *brings_back,
                void *signal, struct kl_error **err) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    struct kl_cuda_event *e = signal;
    KL_TRY(kl_cuda_chain_end(d, q, KL_OK, err));
    KL_TRY(KL_CUDA(d, err, EventRecord, (e->cu, q->stream)));
    e->notify = q->notify;
    atomic_store_explicit(&e->recorded, true, memory_order_release);
    return KL_OK;
}

int kl_cuda_abandon(struct kl_driver *driver, void *queue) {
    struct kl_cuda *d = kl_cuda_of(driver);
    struct kl_cuda_queue *q = queue;
    (void)kl_cuda_chain_end(d, q, KL_ESUBMIT, NULL); /* drops the launches that wait */
    const int result = d->api->StreamSynchronize(q->stream);
    if (result == KL_CU_SUCCESS) return KL_OK;
    kl_cuda_note_lost(d, result);
    return KL_EDEVICELOST;
}
