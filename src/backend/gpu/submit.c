/* submit.c - hands command buffers to the driver, on the thread that encodes or on one of its own;
 * the tables of the backend and of its memory. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/platform/clock.h"

enum { FEW_WAITS = 16 };

/* Gives the commands to the driver. Returns 0 also when there are none. */
static int submit(struct kl_command_buffer *cb, struct kl_error **err) {
    struct kl_gpu_device *dev = cb->queue->dev;
    kl_assert_slow(kl_command_buffer_is_valid(cb));
    struct kl_error *lost = atomic_load(&dev->lost);
    if (cb->n_commands == 0) return KL_OK;
    if (lost) return kl_fail_with(err, kl_error_retain(lost));
    if (cb->first && cb->first->part && cb->first->part->broken)
        return kl_fail(err, KL_EGROUP, "the group was broken before an exchange began");
    void *few[FEW_WAITS], **events = few;
    if (cb->n_waits > FEW_WAITS) events = kl_malloc((size_t)cb->n_waits * sizeof *events);
    if (!events) return kl_fail_nomem(err);
    int n = 0;
    kl_mutex_lock(&dev->mu);
    for (int i = 0; i < cb->n_waits;
         i++) /* a refused command buffer never signals; its consumers were dropped */
        if (cb->waits[i]->submitted) events[n++] = cb->waits[i]->event;
    kl_mutex_unlock(&dev->mu);
    int rc = kl_driver_submit(dev->driver, cb->queue->driver_queue, cb->commands, cb->n_commands,
                              events, n, cb->words, cb->event, err);
    if (events != few) kl_free(events);
    return rc;
}

/* Other processes wait for an exchange, so it is tried once more where memory was short. */
static int submit_surely(struct kl_command_buffer *cb, struct kl_error **err) {
    int rc = submit(cb, err);
    if (rc != KL_ENOMEM || !cb->first || !cb->first->part) return rc;
    kl_error_release(*err);
    *err = NULL;
    return submit(cb, err);
}

/* The first one that was put off is handed over, and everybody who waits for that was told. */
static void leave_put_off(struct kl_queue *q) {
    kl_mutex_lock(&q->dev->mu);
    const int n = atomic_load(&q->n_put_off) - 1;
    memmove(q->put_off, q->put_off + 1, (size_t)n * sizeof *q->put_off);
    atomic_store(&q->n_put_off, n);
    q->giving = false;
    pthread_cond_broadcast(&q->dev->given);
    kl_mutex_unlock(&q->dev->mu);
}

void kl_gpu_hand_over(struct kl_command_buffer *cb) {
    struct kl_queue *q = cb->queue;
    struct kl_gpu_device *dev = q->dev;
    struct kl_error *e = NULL;
    if (!atomic_load(&dev->lost)) kl_gpu_kernels_settle(cb);
    bool ran = cb->n_commands > 0;
    int rc = submit_surely(cb, &e);
    if (rc && !e) e = kl_error_static(rc);
    /* This must happen before the command buffer can be settled: after its tickets are published,
     * no thread is bound to come here. */
    if (rc == KL_EDEVICELOST) kl_gpu_lose(dev, cb->first ? cb->first->name : NULL);
    kl_mutex_lock(&dev->mu);
    cb->error = e;
    cb->submitted = ran && !rc;
    cb->complete = !cb->submitted;
    if (q->tail)
        q->tail->next = cb;
    else
        q->head = cb;
    q->tail = cb;
    const bool was_put_off = q->giving;
    if (was_put_off) q->put_off[0] = NULL;
    atomic_store(&q->handing, NULL);
    dev->n_unsettled++;
    bool watched = dev->watched;
    const bool listens = kl_gpu_settler_told(dev);
    /* Another thread may settle and free cb as soon as the lock is released. */
    uint64_t ticket = cb->last_ticket;
    kl_mutex_unlock(&dev->mu);
    kl_timeline_publish(q->timeline->handed, ticket);
    if (was_put_off) leave_put_off(q); /* only now may another thread publish the next ticket */
    if (watched && !rc) return;        /* the thread that watches settles */
    if (listens) dev->driver->ops->wake(dev->driver);
    kl_gpu_settle(dev);
}

/* The open command buffer. NULL: there is none, or it is empty, since it was opened for an
 * operation whose encoding failed. */
static struct kl_command_buffer *encoded(struct kl_queue *q) {
    return q->open && q->open->last_ticket ? q->open : NULL;
}

/* The first command buffer that was put off, for the caller to hand over; NULL: there is none. The
 * caller holds dev->mu and nobody else is giving. */
static struct kl_command_buffer *claim(struct kl_queue *q) {
    struct kl_command_buffer *cb = atomic_load(&q->n_put_off) ? q->put_off[0] : NULL;
    q->giving = cb != NULL;
    atomic_store(&q->handing, cb);
    return cb;
}

/* Hands over the oldest one that was put off; with only_ready only when its kernels are compiled.
 * Returns false when none was handed over. Waits while another thread hands one over. */
static bool hand_over_oldest(struct kl_queue *q, bool only_ready) {
    struct kl_gpu_device *dev = q->dev;
    kl_mutex_lock(&dev->mu);
    while (q->giving) kl_cond_wait(&dev->given, &dev->mu);
    struct kl_command_buffer *cb = claim(q);
    kl_mutex_unlock(&dev->mu);
    if (!cb) return false;
    if (!only_ready || kl_gpu_kernels_ready(cb)) {
        kl_gpu_hand_over(cb);
        return true;
    }
    kl_mutex_lock(&dev->mu);
    q->giving = false;
    atomic_store(&q->handing, NULL);
    kl_mutex_unlock(&dev->mu);
    return false;
}

/* At each moment the child of a fork finds every command buffer somewhere. */
static void hand_over_open(struct kl_queue *q) {
    struct kl_command_buffer *cb = q->open;
    atomic_store(&q->handing, cb);
    q->open = NULL;
    kl_gpu_hand_over(cb);
}

void kl_gpu_flush(struct kl_backend *b, struct kl_queue *q) {
    struct kl_command_buffer *cb = encoded(q);
    if (q->held) return;
    const bool compile = q->compile && atomic_load(&q->n_put_off);
    if (cb && (compile || !kl_gpu_kernels_ready(cb))) kl_gpu_kernels_ahead(cb);
    while (hand_over_oldest(q, false)) continue;
    if (cb) hand_over_open(q);
}

/* ---- the thread that hands over ---- */

/* A queue with something that this thread can hand over without waiting. The caller holds the
 * lock. */
static struct kl_queue *queue_to_give(struct kl_gpu_device *dev) {
    struct kl_queue *q = dev->queues;
    while (q && (q->giving || q->compile || !atomic_load(&q->n_put_off))) q = q->next;
    return q;
}

static void giver(void *arg) {
    struct kl_gpu_device *dev = arg;
    kl_mutex_lock(&dev->mu);
    for (;;) {
        struct kl_queue *q = queue_to_give(dev);
        if (!q) {
            kl_cond_wait(&dev->offered, &dev->mu);
            continue;
        }
        struct kl_command_buffer *cb = claim(q);
        kl_mutex_unlock(&dev->mu);
        kl_gpu_hand_over(cb);
        kl_mutex_lock(&dev->mu);
    }
}

/* Whether there is such a thread. When it cannot be started, each thread hands over itself. */
static bool has_giver(struct kl_gpu_device *dev) {
    if (atomic_load_explicit(&dev->giver_started, memory_order_acquire)) return true;
    kl_mutex_lock(&dev->mu);
    if (!atomic_load(&dev->giver_started))
        atomic_store_explicit(&dev->giver_started, kl_thread_start(giver, dev, "keel-submit") == 0,
                              memory_order_release);
    const bool has = atomic_load(&dev->giver_started);
    kl_mutex_unlock(&dev->mu);
    return has;
}

/* Whether the device is busy, so that nothing is lost when another thread hands over a little
 * later: to encode a command buffer and to hand it over take about the same time. */
static bool can_wait(struct kl_queue *q) {
    struct kl_gpu_device *dev = q->dev;
    if (!dev->driver->apart || q->exchanges) return false;
    kl_mutex_lock(&dev->mu);
    const bool busy = q->head || atomic_load(&q->n_put_off);
    kl_mutex_unlock(&dev->mu);
    return busy && has_giver(dev);
}

void kl_gpu_cut(struct kl_backend *b, struct kl_queue *q) {
    struct kl_command_buffer *cb = encoded(q);
    struct kl_gpu_device *dev = q->dev;
    if (!cb || q->held) return;
    const bool ready = kl_gpu_kernels_ready(cb), alone = !atomic_load(&q->n_put_off);
    if (alone && ready && !can_wait(q)) {
        hand_over_open(q);
        return;
    }
    const bool compile = !ready || (!alone && q->compile);
    if (compile) kl_gpu_kernels_ahead(cb);
    if (atomic_load(&q->n_put_off) == KL_MOST_PUT_OFF) hand_over_oldest(q, false);
    kl_mutex_lock(&dev->mu);
    const int n = atomic_load(&q->n_put_off);
    q->put_off[n] = cb;
    atomic_store(&q->n_put_off, n + 1);
    q->open = NULL;
    q->compile = compile;
    if (!compile) pthread_cond_signal(&dev->offered);
    kl_mutex_unlock(&dev->mu);
    while (compile && hand_over_oldest(q, true)) continue;
}

static int queue_new(struct kl_backend *b, struct kl_timeline *t, struct kl_queue **out,
                     struct kl_error **err) {
    struct kl_gpu_device *dev = kl_gpu_device_of(b);
    struct kl_queue *q = kl_calloc(1, sizeof *q);
    if (!q) return kl_fail_nomem(err);
    q->dev = dev;
    q->timeline = t;
    int rc = dev->driver->ops->queue_new(dev->driver, (int)t->stream_index, &q->driver_queue, err);
    if (rc) {
        kl_free(q);
        return rc;
    }
    t->queue = q;
    t->awaited = kl_gpu_awaited;
    kl_mutex_lock(&dev->mu);
    q->next = dev->queues;
    dev->queues = q;
    kl_mutex_unlock(&dev->mu);
    *out = q;
    return KL_OK;
}

/* ---- memory ---- */

static struct kl_gpu_device *device_of_memory(struct kl_memory *m) {
    return m->impl;
}

static int mem_alloc(struct kl_memory *m, size_t bytes, void **ptr, struct kl_error **err) {
    struct kl_gpu_device *dev = device_of_memory(m);
    struct kl_error *lost = atomic_load(&dev->lost);
    if (lost) return kl_fail_with(err, kl_error_retain(lost));
    return dev->driver->ops->alloc(dev->driver, bytes, ptr, err);
}

static void mem_free(struct kl_memory *m, void *ptr, size_t bytes) {
    struct kl_gpu_device *dev = device_of_memory(m);
    const bool begun = kl_driver_stall_begin();
    dev->driver->ops->free(dev->driver, ptr, bytes);
    kl_driver_stall_end(begun);
}

static int usable(struct kl_gpu_device *dev, struct kl_error **err) {
    struct kl_error *lost = atomic_load(&dev->lost);
    if (lost) return kl_fail_with(err, kl_error_retain(lost));
    if (atomic_load(&dev->forked))
        return kl_fail(
            err, KL_EDEVICE,
            "the GPU was used before this process forked; its memory cannot be read in the child");
    return KL_OK;
}

static int mem_read(struct kl_memory *m, const void *ptr, size_t offset, void *dst, size_t n,
                    struct kl_error **err) {
    struct kl_gpu_device *dev = device_of_memory(m);
    KL_TRY(usable(dev, err));
    int rc = dev->driver->ops->read(dev->driver, ptr, offset, dst, n, err);
    if (rc == KL_EDEVICELOST) kl_gpu_lose(dev, NULL);
    return rc;
}

static int mem_write(struct kl_memory *m, void *ptr, size_t offset, const void *src, size_t n,
                     struct kl_error **err) {
    struct kl_gpu_device *dev = device_of_memory(m);
    KL_TRY(usable(dev, err));
    int rc = dev->driver->ops->write(dev->driver, ptr, offset, src, n, err);
    if (rc == KL_EDEVICELOST) kl_gpu_lose(dev, NULL);
    return rc;
}

static const struct kl_backend_ops ops = {
    .fusion = {KL_FUSED_STEPS, KL_FUSED_STEPS *KL_FUSION_OPERANDS, KL_FUSED_LEAVES, 0},
    .queue_new = queue_new,
    .waits_for = kl_gpu_waits_for,
    .launch = kl_gpu_launch,
    .skip = kl_gpu_skip,
    .drop = kl_gpu_drop,
    .flush = kl_gpu_flush,
    .holds = kl_gpu_holds,
    .cut = kl_gpu_cut,
    .ends_before = kl_gpu_ends_before,
    .poll = kl_gpu_poll,
    .watch = kl_gpu_watch,
    .forked = kl_gpu_forked};

struct kl_backend *kl_gpu_backend_new(struct kl_driver *driver, int index, struct kl_error **err) {
    struct kl_gpu_device *dev = kl_calloc(1, sizeof *dev);
    if (!dev) {
        kl_fail_nomem(err);
        return NULL;
    }
    dev->driver = driver;
    kl_mutex_init(&dev->mu);
    kl_cond_init_clock(&dev->work);
    kl_cond_init_clock(&dev->offered);
    kl_cond_init_clock(&dev->given);
    dev->memory = (struct kl_memory){.name = driver->name,
                                     .raw_alloc = mem_alloc,
                                     .raw_free = mem_free,
                                     .read = mem_read,
                                     .write = mem_write,
                                     .share = driver->shares ? kl_gpu_share : NULL,
                                     .unshare = driver->shares ? kl_gpu_unshare : NULL,
                                     .takes_values = driver->lowering != NULL,
                                     .impl = dev};
    dev->backend = (struct kl_backend){
        .ops = &ops, .name = driver->name, .index = index, .memory = &dev->memory};
    kl_fork_lock_add(&dev->mu);
    return &dev->backend;
}
