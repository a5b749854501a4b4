/* opencl_queue.c - queues of streams, command buffers on them, and notice of their completion.
 *
 * For a complete event OpenCL calls us back on one of its threads: the callback sets a flag under
 * the device's lock and wakes the settlement thread. No function here sleeps in OpenCL, except
 * after a submission that failed half-way, and when a device that shares memory is lost. */
#include <stdio.h>

#include "backend/opencl/opencl_internal.h"
#include "base/alloc.h"

int kl_opencl_queue_new(struct kl_driver *driver, int stream_index, void **queue,
                        struct kl_error **err) {
    struct kl_opencl *d = kl_opencl_of(driver);
    KL_TRY(kl_opencl_usable(d, err));
    struct kl_opencl_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    cl_int status;
    q->cl = kl_cl.clCreateCommandQueue(d->context, d->device, 0, &status);
    int rc = kl_opencl_result(err, "clCreateCommandQueue", status);
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

int kl_opencl_event_new(struct kl_driver *driver, void **event, struct kl_error **err) {
    struct kl_opencl_event *e = kl_calloc(1, sizeof *e);
    if (!e) return kl_fail_nomem(err);
    atomic_init(&e->refs, 1);
    e->d = kl_opencl_of(driver);
    *event = e;
    return KL_OK;
}

static void release(struct kl_opencl_event *e) {
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1) return;
    if (e->cl) kl_opencl_release_event(e->cl);
    kl_free(e);
}

void kl_opencl_event_free(struct kl_driver *d, void *event) {
    /* In the child of a fork no callback will come. */
    if (atomic_load(&kl_opencl_of(d)->forked)) return;
    release(event);
}

void kl_opencl_lose(struct kl_opencl *d, cl_int status) {
    kl_mutex_lock(&d->mu);
    if (!d->lost) d->lost = status;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
}

cl_int kl_opencl_lost(struct kl_opencl *d) {
    kl_mutex_lock(&d->mu);
    cl_int status = d->lost;
    bool may_run = status && d->sharing != KL_OPENCL_COPIED && !d->at_rest;
    struct kl_opencl_queue *q = d->queues;
    kl_mutex_unlock(&d->mu);
    if (!may_run) return status;
    for (; q; q = q->next) kl_cl.clFinish(q->cl);
    kl_mutex_lock(&d->mu);
    d->at_rest = true;
    kl_mutex_unlock(&d->mu);
    return status;
}

void kl_opencl_why_lost(struct kl_driver *driver, char *text, size_t room) {
    struct kl_opencl *d = kl_opencl_of(driver);
    kl_mutex_lock(&d->mu);
    cl_int status = d->lost;
    kl_mutex_unlock(&d->mu);
    if (status) snprintf(text, room, "%d (%s)", (int)status, kl_opencl_status_text(status));
}

static void completed(cl_event cl, cl_int status, void *arg) {
    struct kl_opencl_event *e = arg;
    struct kl_opencl *d = e->d;
    if (status < 0) kl_opencl_lose(d, status);
    kl_mutex_lock(&d->mu);
    e->state = status < 0 ? -1 : 1;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
    release(e);
    atomic_fetch_sub(&d->driver.n_owed, 1);
}

int kl_opencl_event_query(struct kl_driver *driver, void *event) {
    struct kl_opencl *d = kl_opencl_of(driver);
    struct kl_opencl_event *e = event;
    if (atomic_load_explicit(&d->forked, memory_order_relaxed)) return KL_EDEVICELOST;
    kl_mutex_lock(&d->mu);
    int rc = e->state > 0 ? 1 : e->state < 0 || d->lost ? KL_EDEVICELOST : 0;
    kl_mutex_unlock(&d->mu);
    if (rc < 0) kl_opencl_lost(d);
    if (rc || !e->cl) return rc;
    /* Not every OpenCL implementation calls back for a command that failed. */
    cl_int status = 1;
    cl_int asked = kl_cl.clGetEventInfo(e->cl, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                        &status, NULL);
    if (asked) status = asked;
    if (status < 0) {
        kl_opencl_lose(d, status);
        kl_opencl_lost(d);
    }
    return status < 0 ? KL_EDEVICELOST : status == CL_COMPLETE;
}

void kl_opencl_wait_any(struct kl_driver *driver, void *const *events, int n) {
    struct kl_opencl *d = kl_opencl_of(driver);
    kl_mutex_lock(&d->mu);
    for (bool any = false; !any;) {
        any = d->woken || d->lost;
        for (int i = 0; i < n && !any; i++) any = ((struct kl_opencl_event *)events[i])->state != 0;
        if (!any) kl_cond_wait(&d->changed, &d->mu);
    }
    d->woken = false;
    kl_mutex_unlock(&d->mu);
}

void kl_opencl_wake(struct kl_driver *driver) {
    struct kl_opencl *d = kl_opencl_of(driver);
    if (atomic_load_explicit(&d->forked, memory_order_relaxed)) return;
    kl_mutex_lock(&d->mu);
    d->woken = true;
    pthread_cond_broadcast(&d->changed);
    kl_mutex_unlock(&d->mu);
}

/* ---- submitting ---- */

static int wait_for(struct kl_opencl_queue *q, void *const *waits, int n_waits,
                    struct kl_error **err) {
    cl_event few[16], *events = few;
    if (n_waits == 0) return KL_OK;
    if ((size_t)n_waits > sizeof few / sizeof *few &&
        !(events = kl_malloc((size_t)n_waits * sizeof *events)))
        return kl_fail_nomem(err);
    for (int i = 0; i < n_waits; i++) {
        events[i] = ((struct kl_opencl_event *)waits[i])->cl;
        kl_assert(events[i]); /* it was submitted, and therefore flushed */
    }
    int rc = KL_CL(err, clEnqueueBarrierWithWaitList, q->cl, (cl_uint)n_waits, events, NULL);
    if (events != few) kl_free(events);
    return rc;
}

int kl_opencl_begin(struct kl_driver *driver, void *queue, void *const *waits, int n_waits,
                    struct kl_error **err) {
    KL_TRY(kl_opencl_usable(kl_opencl_of(driver), err));
    const int rc = wait_for(queue, waits, n_waits, err);
    return rc && kl_opencl_abandon(driver, queue) ? KL_EDEVICELOST : rc;
}

/* Enqueues the end of a submission; *done: its event. */
static int enqueue_end(struct kl_opencl *d, struct kl_opencl_queue *q,
                       struct kl_fault_words *brings_back, cl_event *done, struct kl_error **err) {
    if (brings_back) {
        cl_mem mem;
        size_t at;
        KL_TRY(kl_opencl_place(d, brings_back->device, &mem, &at, err));
        KL_TRY(KL_CL(err, clEnqueueReadBuffer, q->cl, mem, CL_FALSE, at,
                     KL_WORDS * sizeof(uint32_t), brings_back->host, 0, NULL, NULL));
    }
    KL_TRY(KL_CL(err, clEnqueueMarkerWithWaitList, q->cl, 0, NULL, done));
    KL_TRY(KL_CL(err, clFlush, q->cl));
    /* The device may have been lost since the beginning: kl_opencl_lost may have visited the queues
     * before our commands were in one. */
    return kl_opencl_usable(d, err);
}

int kl_opencl_end(struct kl_driver *driver, void *queue, struct kl_fault_words *brings_back,
                  void *signal, struct kl_error **err) {
    struct kl_opencl_event *e = signal;
    cl_event done = NULL;
    int rc = enqueue_end(kl_opencl_of(driver), queue, brings_back, &done, err);
    if (!rc) {
        e->cl = done;
        atomic_fetch_add(&e->refs, 1);
        atomic_fetch_add(&driver->n_owed, 1);
        /* This comes after all other steps that can fail: from here on the event may be
         * signalled. */
        rc = KL_CL(err, clSetEventCallback, done, CL_COMPLETE, completed, e);
        if (!rc) return KL_OK;
        atomic_fetch_sub(&driver->n_owed, 1);
        atomic_fetch_sub(&e->refs, 1);
        e->cl = NULL;
    }
    if (done) kl_cl.clReleaseEvent(done);
    return rc;
}

int kl_opencl_abandon(struct kl_driver *driver, void *queue) {
    const cl_int status = kl_cl.clFinish(((struct kl_opencl_queue *)queue)->cl);
    if (status) kl_opencl_lose(kl_opencl_of(driver), status);
    return status ? KL_EDEVICELOST : KL_OK;
}
