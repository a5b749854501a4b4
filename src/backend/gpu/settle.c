/* settle.c - settlement: turns complete command buffers into fates.
 *
 * One thread per device settles at a time (dev->settling); a thread that comes meanwhile notes that
 * there may be more to do. A command buffer is settled when it is complete, is the oldest of its
 * stream, and all command buffers that it waited for are settled. A complete consumer proves that
 * its submitted producers are complete, whatever the driver says of them at that moment. */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "backend/fault.h"
#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"
#include "base/op/index.h"
#include "base/op/validate.h"
#include "base/platform/clock.h"
#include "base/value/failures.h"

/* ---- one operation ---- */

static bool read_index(void *arg, int input, int64_t element_offset, int64_t *value) {
    struct kl_gpu_op *op = arg;
    struct kl_tensor *t = op->in[input];
    if (!t->buffer || !t->buffer->block) return false;
    struct kl_block *b = t->buffer->block;
    size_t item = kl_dtype_size(t->dtype);
    uint64_t bits = 0;
    if (b->memory->is_host)
        return kl_index_read((char *)b->ptr + element_offset * (int64_t)item, t->dtype, value);
    if (b->memory->read(b->memory, b->ptr, (size_t)element_offset * item, &bits, item, NULL))
        return false;
    return kl_index_read(&bits, t->dtype, value);
}

/* The error that the operation itself caused, owned by the caller, or NULL. Called when all inputs
 * are known to be good. */
static struct kl_error *own_failure(struct kl_gpu_op *op) {
    struct kl_command_buffer *cb = op->cb;
    int64_t stream = cb->queue->timeline->stream_index;
    struct kl_error *e = NULL;
    if (op->error) return kl_error_retain(op->error);
    if (cb->error) return kl_error_retain(cb->error);
    kl_assert(!op->dropped);
    /* Word 0, the summary, says whether any operation of the command buffer has failed. */
    if (!cb->words || cb->words->host[0] == KL_WORD_CLEAR) return NULL;
    bool met = false; /* one word is enough: an operation fails, or is counted, once */
    for (int k = 0; k < op->n_words && !met; k++) {
        uint32_t word = op->word.words->host[op->word.index + k];
        if (word == KL_WORD_CLEAR) continue;
        met = true;
        if (op->op == KL_OP_KERNEL) {
            uint32_t position = op->word.words->host[op->word.index + 1];
            struct kl_error_info info = {.code = KL_EKERNEL,
                                         .op = op->name,
                                         .has = KL_HAS_STREAM | KL_HAS_POSITION | KL_HAS_INDEX,
                                         .stream = stream,
                                         .position = position,
                                         .index = word};
            e = kl_error_new(&info, "kernel '%s' raised %u at position %u", op->name, word,
                             position);
        } else if (op->op == KL_OP_CALL) {
            struct kl_error_info info = {
                .code = KL_EKERNEL, .op = op->name, .has = KL_HAS_STREAM, .stream = stream};
            e = kl_error_new(&info, "%s: the kernel failed with code %u", op->name, word);
        } else {
            int64_t position = k * op->positions_per_word + word;
            kl_fault_fail(&e, op->op, op->name, op->origin, op->params, op->n_in, op->in, position,
                          stream, read_index, op);
        }
    }
    if (!e && op->check.words) {
        uint32_t word = op->check.words->host[op->check.index];
        if (word != KL_WORD_CLEAR)
            kl_guard_report(&e, op->name, (int)(word / 4), op->n_in, op->n_out,
                            op->check_bytes[word / 4], word % 4, stream);
    }
    return e;
}

static void settle_op(struct kl_gpu_op *op) {
    struct kl_gpu_device *dev = op->cb->queue->dev;
    struct kl_error *e = NULL;
    for (int i = 0; i < op->n_in && !e; i++) {
        kl_assert(kl_fate_settled(op->in[i]->fate));
        e = kl_error_retain(kl_fate_error(op->in[i]->fate));
    }
    if (op->part)
        e = kl_gpu_exchange_outcome(op, e);
    else if (!e)
        e = own_failure(op);
    const int64_t stream = op->part ? op->part->user_index : op->cb->queue->timeline->stream_index;
    if (e) kl_failures_note(stream, e, op->submitter);
    for (int i = 0; i < op->n_out; i++) {
        /* Both change together under the lock, so that a thread which encodes a consumer sees
         * either the record or the fate. */
        kl_mutex_lock(&dev->mu);
        op->out[i]->device_op = NULL;
        if (e)
            kl_fate_set_failed(op->out[i], e);
        else
            kl_fate_set_ready(op->out[i]);
        kl_mutex_unlock(&dev->mu);
    }
    kl_error_release(e);
}

/* ---- command buffers ---- */

/* cb has run, so all command buffers that it waited for on the device have run, and all before
 * those in their queues. A command buffer that was never submitted proves nothing, and nothing is
 * proved of it: the device did not wait for it, nor for those before it. Returns whether anything
 * was news; then queues that this pass has already visited may have something to settle. */
static bool imply_complete(struct kl_command_buffer *cb) {
    bool news = false;
    if (!cb->complete || !cb->submitted || cb->error) return false;
    for (int i = 0; i < cb->n_waits; i++) {
        struct kl_command_buffer *producer = cb->waits[i];
        if (producer->settled || !producer->submitted) continue;
        for (struct kl_command_buffer *c = producer->queue->head; c; c = c->next) {
            news = news || !c->complete;
            c->complete = true;
            if (c == producer) break;
        }
    }
    return news;
}

/* Makes the words that fired readable on the host. */
static void fetch_words(struct kl_gpu_device *dev, struct kl_command_buffer *cb) {
    const struct kl_driver_ops *ops = dev->driver->ops;
    if (!ops->words_fetch || cb->error || !cb->words || cb->words->host[0] == KL_WORD_CLEAR) return;
    if (!ops->words_fetch(dev->driver, cb->words, NULL)) return;
    kl_gpu_lose(dev, NULL);
    cb->error = kl_error_retain(atomic_load(&dev->lost));
}

static bool may_settle(const struct kl_command_buffer *cb) {
    if (!cb->complete) return false;
    for (int i = 0; i < cb->n_waits; i++)
        if (!cb->waits[i]->settled) return false;
    return true;
}

/* Releases index arrays before the ticket is published, so that a thread that waits for the ticket
 * sees their memory released. Index arrays over the user's memory are released later, because their
 * destructor may wait for this device. */
static void drop_indices(struct kl_gpu_op *op) {
    for (int i = 0; i < op->n_in; i++) {
        struct kl_buffer *b = op->in[i]->buffer;
        if (!b || !b->block || !b->block->memory->pool) continue;
        kl_buffer_release(b);
        op->in[i]->buffer = NULL;
    }
}

/* Settles the head of a queue. false: it goes on there later, when other processes have told why an
 * operation failed. The caller is the settling thread and does not hold the lock. */
static bool settle_cb(struct kl_gpu_device *dev, struct kl_command_buffer *cb) {
    if (!cb->at) {
        fetch_words(dev, cb);
        cb->at = cb->first;
    }
    for (; cb->at; cb->at = cb->at->next) {
        if (cb->at->part && !kl_gpu_exchange_is_ready(cb->at)) return false;
        settle_op(cb->at);
        drop_indices(cb->at);
    }
    struct kl_queue *q = cb->queue;
    kl_mutex_lock(&dev->mu);
    uint64_t published = 0;
    /* kl_gpu_skip may raise last_ticket until cb has left the queue */
    while (published < cb->last_ticket) {
        published = cb->last_ticket;
        kl_mutex_unlock(&dev->mu);
        kl_timeline_publish(q->timeline, published);
        kl_mutex_lock(&dev->mu);
    }
    cb->settled = true;
    q->head = cb->next;
    if (!q->head) q->tail = NULL;
    cb->next = NULL;
    dev->n_unsettled--;
    dev->n_settled++;
    kl_mutex_unlock(&dev->mu);
    return true;
}

/* Fails everything that is still in flight on a lost device. Called by the settling thread with the
 * lock held; no other thread writes these fields. */
static void give_up_all(struct kl_gpu_device *dev, struct kl_error *lost) {
    for (struct kl_queue *q = dev->queues; q; q = q->next)
        for (struct kl_command_buffer *cb = q->head; cb; cb = cb->next) {
            if (!cb->error) cb->error = kl_error_retain(lost);
            cb->complete = true;
        }
}

/* Asks the driver whether a command buffer is complete; true when the answer changed something. The
 * lock is held on entry and on return, but not during the call of the driver. */
static bool query(struct kl_gpu_device *dev, struct kl_command_buffer *cb) {
    if (cb->complete) return false;
    kl_mutex_unlock(&dev->mu);
    int rc = dev->driver->ops->event_query(dev->driver, cb->event);
    if (rc < 0) kl_gpu_lose(dev, NULL);
    kl_mutex_lock(&dev->mu);
    if (rc == 1) cb->complete = true;
    return rc != 0;
}

static void empty_later(struct kl_release *r) {
    struct kl_command_buffer *cb = kl_container(r, struct kl_command_buffer, release);
    kl_command_buffer_empty(cb);
    kl_command_buffer_release(cb);
}

void kl_gpu_settle(struct kl_gpu_device *dev) {
    struct kl_command_buffer *done = NULL;
    kl_mutex_lock(&dev->mu);
    if (dev->settling) {
        dev->settle_again = true;
        kl_mutex_unlock(&dev->mu);
        return;
    }
    dev->settling = true;
    bool progress = true;
    while (progress || dev->settle_again) {
        progress = dev->settle_again = false;
        struct kl_error *lost = atomic_load(&dev->lost);
        if (lost) give_up_all(dev, lost);
        for (struct kl_queue *q = dev->queues; q; q = q->next) {
            struct kl_command_buffer *cb = q->head; /* only the settling thread removes heads */
            if (!cb) continue;
            if (query(dev, cb)) progress = true;
            if (imply_complete(cb)) progress = true;
            if (!may_settle(cb)) continue;
            kl_mutex_unlock(&dev->mu);
            const bool settled = settle_cb(dev, cb);
            if (settled) {
                cb->next = done;
                done = cb;
            }
            kl_mutex_lock(&dev->mu);
            progress = progress || settled;
        }
    }
    dev->settling = false;
    kl_mutex_unlock(&dev->mu);
    while (done) {
        struct kl_command_buffer *cb = done;
        done = cb->next;
        if (cb->runs_user_code) { /* the destructor of the user may wait for the settling thread */
            cb->release.run = empty_later;
            kl_release_later(&cb->release);
        } else {
            kl_command_buffer_empty(cb);
            kl_command_buffer_release(cb);
        }
    }
}

void kl_gpu_poll(struct kl_backend *b, struct kl_queue *q) {
    kl_gpu_settle(kl_gpu_device_of(b));
}

/* ---- waiting callers ---- */

/* A notification by the driver and the wake-up of a thread take a third of a millisecond on an
 * H200, as long as summing 2^28 floats. Therefore one waiting caller per device polls instead, for
 * as long as that delay matters: after WATCH_NS the delay is less than 0.5 % of the time waited. */
enum { WATCH_NS = 100 * 1000 * 1000 };
/* About two microseconds. */
enum { PAUSES = 64 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Whether another thread gives commands to the driver: what the ticket waits for, or what comes
 * after it. */
static bool is_handing(const struct kl_timeline *t, uint64_t ticket) {
    if (!t->handed || kl_timeline_done(t->handed) < ticket) return true;
    return atomic_load(&((struct kl_queue *)t->queue)->handing) != NULL;
}

/* Each question to the driver makes the threads that give it commands wait for its lock. */
static void give_way(struct kl_timeline *t, uint64_t ticket) {
    for (int i = 0; i < PAUSES && kl_timeline_done(t) < ticket && is_handing(t, ticket); i++)
        kl_pause_cpu();
}

bool kl_gpu_watch(struct kl_backend *b, struct kl_timeline *t, uint64_t ticket) {
    struct kl_gpu_device *dev = kl_gpu_device_of(b);
    kl_mutex_lock(&dev->mu);
    bool mine = dev->driver->apart && !dev->watched;
    if (mine) dev->watched = true;
    kl_mutex_unlock(&dev->mu);
    if (!mine) return false;
    int64_t until = now_ns() + WATCH_NS;
    bool done;
    do {
        kl_gpu_settle(dev);
        give_way(t, ticket);
        sched_yield(); /* there may be more threads than processors */
        done = kl_timeline_done(t) >= ticket;
    } while (!done && now_ns() < until);
    kl_mutex_lock(&dev->mu);
    dev->watched = false;
    /* The settlement thread may be waiting for older command buffers alone: it was not told of what
     * was handed over meanwhile. */
    const bool listens = dev->n_unsettled > 0 && kl_gpu_settler_told(dev);
    kl_mutex_unlock(&dev->mu);
    if (listens) dev->driver->ops->wake(dev->driver);
    return done;
}

/* ---- the settlement thread ---- */

enum {
    /* Streams beyond this number are settled by threads that wait or submit, and whenever the
     * others are. */
    MAX_EVENTS = 1024,
    DOZE_NS = 1000 * 1000
};

bool kl_gpu_settler_told(struct kl_gpu_device *dev) {
    kl_assert(kl_mutex_held(&dev->mu));
    if (dev->settler == KL_SETTLER_RESTS && !dev->watched) pthread_cond_signal(&dev->work);
    return dev->settler == KL_SETTLER_LISTENS;
}

void kl_gpu_awaited(struct kl_timeline *t) {
    struct kl_gpu_device *dev = ((struct kl_queue *)t->queue)->dev;
    kl_mutex_lock(&dev->mu);
    if (dev->settler == KL_SETTLER_DOZES) pthread_cond_signal(&dev->work);
    kl_mutex_unlock(&dev->mu);
}

static bool is_awaited(const struct kl_gpu_device *dev) {
    for (const struct kl_queue *q = dev->queues; q; q = q->next)
        if (kl_timeline_is_awaited(q->timeline)) return true;
    return false;
}

/* Waits until something is handed over. While nobody sleeps until a value is there, the threads
 * that submit and watch settle enough, and to be told by the driver costs it calls and them a lock:
 * then this looks again after a while. Returns whether something was settled meanwhile. */
static bool rest_and_doze(struct kl_gpu_device *dev) {
    kl_mutex_lock(&dev->mu);
    dev->settler = KL_SETTLER_RESTS;
    while (dev->n_unsettled == 0 || dev->watched) kl_cond_wait(&dev->work, &dev->mu);
    const uint64_t before = dev->n_settled;
    const bool dozes = dev->driver->apart && !is_awaited(dev);
    if (dozes) {
        dev->settler = KL_SETTLER_DOZES;
        (void)kl_cond_wait_until(&dev->work, &dev->mu, kl_clock_ns() + DOZE_NS);
    }
    dev->settler = KL_SETTLER_RUNS;
    kl_mutex_unlock(&dev->mu);
    if (!dozes) return false;
    kl_gpu_settle(dev);
    kl_mutex_lock(&dev->mu);
    const bool news = dev->n_settled != before;
    kl_mutex_unlock(&dev->mu);
    return news;
}

/* Whether a command buffer can be settled of which the driver will tell nothing more: it is known
 * to be complete, or has never run. A caller that watched may not have seen it. The settling
 * thread, if there is one, is told to look again instead. One whose settlement has begun waits for
 * other processes, which wake this thread. The caller holds the lock. */
static bool has_complete(struct kl_gpu_device *dev) {
    bool has = false;
    if (dev->settling)
        dev->settle_again = true;
    else
        for (const struct kl_queue *q = dev->queues; q && !has; q = q->next)
            has = q->head && may_settle(q->head) && !q->head->at;
    return has;
}

static void settlement_thread(void *arg) {
    struct kl_gpu_device *dev = arg;
    for (;;) {
        struct kl_command_buffer *held[MAX_EVENTS];
        void *events[MAX_EVENTS];
        int n = 0;
        if (rest_and_doze(dev)) continue;
        kl_mutex_lock(&dev->mu);
        if (has_complete(dev)) {
            kl_mutex_unlock(&dev->mu);
            kl_gpu_settle(dev);
            continue;
        }
        dev->settler = KL_SETTLER_LISTENS;
        for (struct kl_queue *q = dev->queues; q && n < MAX_EVENTS; q = q->next) {
            struct kl_command_buffer *cb = q->head;
            while (cb && cb->complete) cb = cb->next;
            if (!cb) continue;
            atomic_fetch_add(&cb->refs, 1);
            held[n] = cb;
            events[n++] = cb->event;
        }
        kl_mutex_unlock(&dev->mu);
        dev->driver->ops->wait_any(dev->driver, events, n);
        kl_mutex_lock(&dev->mu);
        dev->settler = KL_SETTLER_RUNS;
        kl_mutex_unlock(&dev->mu);
        kl_gpu_settle(dev);
        for (int i = 0; i < n; i++) kl_command_buffer_release(held[i]);
    }
}

int kl_gpu_settlement_start(struct kl_gpu_device *dev, struct kl_error **err) {
    if (atomic_load_explicit(&dev->thread_started, memory_order_acquire)) return KL_OK;
    int rc = kl_release_start();
    kl_mutex_lock(&dev->mu);
    if (!rc && !atomic_load(&dev->thread_started)) {
        rc = kl_thread_start(settlement_thread, dev, "keel-settle");
        atomic_store_explicit(&dev->thread_started, rc == KL_OK, memory_order_release);
    }
    kl_mutex_unlock(&dev->mu);
    return rc ? kl_fail(err, rc, "the settlement thread of the GPU could not be started") : KL_OK;
}

/* ---- the end of a device ---- */

void kl_gpu_lose(struct kl_gpu_device *dev, const char *submitting) {
    if (!atomic_load(&dev->lost)) {
        char cause[128] = "nothing was in flight", why[96] = "";
        if (submitting)
            snprintf(cause, sizeof cause, "probably while '%s' was handed over", submitting);
        kl_mutex_lock(&dev->mu);
        /* The oldest command buffer of a stream is the most probable cause. */
        for (struct kl_queue *q = dev->queues; q; q = q->next)
            for (struct kl_command_buffer *cb = q->head; cb; cb = cb->next)
                if ((!cb->complete || cb->error) && cb->first) {
                    snprintf(cause, sizeof cause,
                             "probably while running '%s' (%d operations) on stream %lld",
                             cb->first->name, cb->n_ops, (long long)q->timeline->stream_index);
                    break;
                }
        kl_mutex_unlock(&dev->mu);
        struct kl_error_info info = {.code = KL_EDEVICELOST};
        if (dev->driver->ops->why_lost) dev->driver->ops->why_lost(dev->driver, why, sizeof why);
        struct kl_error *e = kl_error_new(&info, "device '%s' was lost%s%s, %s", dev->backend.name,
                                          why[0] ? " with " : "", why, cause),
                        *none = NULL;
        if (!atomic_compare_exchange_strong(&dev->lost, &none, e)) kl_error_release(e);
    }
    dev->driver->ops->wake(dev->driver);
}

static void fail_forked(struct kl_command_buffer *cb) {
    for (struct kl_gpu_op *op = cb->first; op; op = op->next)
        for (int i = 0; i < op->n_out; i++) {
            op->out[i]->device_op = NULL;
            if (!kl_fate_settled(op->out[i]))
                kl_fate_set_failed(op->out[i], kl_error_static(KL_EFORK));
        }
}

void kl_gpu_forked(struct kl_backend *b) {
    struct kl_gpu_device *dev = kl_gpu_device_of(b);
    bool used = false;
    for (struct kl_queue *q = dev->queues; q; q = q->next) {
        used = true;
        for (struct kl_command_buffer *cb = q->head; cb; cb = cb->next) fail_forked(cb);
        for (int i = 0; i < atomic_load(&q->n_put_off); i++)
            if (q->put_off[i]) fail_forked(q->put_off[i]);
        for (struct kl_command_buffer *cb = q->held; cb; cb = cb->next) fail_forked(cb);
        if (q->open) fail_forked(q->open);
        if (q->handing) fail_forked(q->handing);
        /* The objects that the command buffers hold belong to the parent process. */
        q->open = q->head = q->tail = NULL;
        q->held = NULL;
        q->n_held = 0;
        atomic_store(&q->n_put_off, 0);
        q->giving = q->compile = false;
        q->handing = NULL;
    }
    dev->n_unsettled = 0;
    dev->settling = dev->settle_again = dev->watched = false;
    atomic_store(&dev->thread_started, false);
    atomic_store(&dev->giver_started, false);
    dev->settler = KL_SETTLER_RUNS;
    kl_cond_init_clock(&dev->work);
    kl_cond_init_clock(&dev->offered);
    kl_cond_init_clock(&dev->given);
    if (used) atomic_store(&dev->forked, true);
    kl_driver_forked(dev->driver);
}

#ifdef KL_TEST_HOOKS
void kl_gpu_revive(struct kl_backend *b) {
    kl_error_release(atomic_exchange(&kl_gpu_device_of(b)->lost, NULL));
}

void kl_gpu_until_empty(struct kl_backend *b) {
    struct kl_gpu_device *dev = kl_gpu_device_of(b);
    while (atomic_load(&dev->n_cbs) > 0 ||
           (atomic_load(&dev->driver->n_owed) > 0 && !atomic_load(&dev->lost)))
        sched_yield();
}
#endif
