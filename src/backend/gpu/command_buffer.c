/* command_buffer.c - what a command buffer owns (arena, commands, waits, fault words) and how it is
 * released. */
#include <string.h>

#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"

/* ---- arena ---- */

struct kl_gpu_arena_chunk {
    struct kl_gpu_arena_chunk *next;
    size_t used, room;
};
enum { CHUNK_BYTES = 16 << 10 };

void *kl_command_buffer_alloc(struct kl_command_buffer *cb, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    struct kl_gpu_arena_chunk *c = cb->arena.chunks;
    if (!c || c->room - c->used < bytes) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct kl_gpu_arena_chunk *fresh = kl_malloc(sizeof *fresh + 16 + room);
        if (!fresh) return NULL;
        *fresh = (struct kl_gpu_arena_chunk){c, 0, room};
        cb->arena.chunks = c = fresh;
    }
    char *base = (char *)(((uintptr_t)(c + 1) + 15) & ~(uintptr_t)15);
    void *p = base + c->used;
    c->used += bytes;
    return memset(p, 0, bytes);
}

static int reserve(void **v, int n, int *room, size_t item) {
    if (n < *room) return KL_OK;
    int more = *room ? 2 * *room : 16;
    void *p = kl_realloc(*v, (size_t)more * item);
    if (!p) return KL_ENOMEM;
    *v = p;
    *room = more;
    return KL_OK;
}

struct kl_command *kl_command_buffer_command(struct kl_command_buffer *cb) {
    void *v = cb->commands;
    if (reserve(&v, cb->n_commands, &cb->commands_room, sizeof *cb->commands)) return NULL;
    cb->commands = v;
    struct kl_command *c = &cb->commands[cb->n_commands++];
    memset(c, 0, sizeof *c);
    return c;
}

int kl_command_buffer_wait_for(struct kl_command_buffer *cb, struct kl_command_buffer *other) {
    for (int i = 0; i < cb->n_waits; i++)
        if (cb->waits[i] == other) return KL_OK;
    void *v = cb->waits;
    if (reserve(&v, cb->n_waits, &cb->waits_room, sizeof *cb->waits)) return KL_ENOMEM;
    cb->waits = v;
    atomic_fetch_add(&other->refs, 1);
    cb->waits[cb->n_waits++] = other;
    return KL_OK;
}

/* ---- fault words ---- */

int kl_command_buffer_hold_words(struct kl_command_buffer *cb, struct kl_fault_words *w) {
    if (w == cb->words) return KL_OK;
    for (int i = 0; i < cb->n_held; i++)
        if (cb->held[i] == w) return KL_OK;
    void *v = cb->held;
    if (reserve(&v, cb->n_held, &cb->held_room, sizeof *cb->held)) return KL_ENOMEM;
    cb->held = v;
    atomic_fetch_add(&w->refs, 1);
    cb->held[cb->n_held++] = w;
    return KL_OK;
}

static int words_take(struct kl_queue *q, struct kl_fault_words **out, struct kl_error **err) {
    kl_mutex_lock(&q->dev->mu);
    struct kl_fault_words *w = q->clear_words;
    if (w) q->clear_words = w->next;
    kl_mutex_unlock(&q->dev->mu);
    if (!w) {
        if (!(w = kl_calloc(1, sizeof *w))) return kl_fail_nomem(err);
        int rc = q->dev->driver->ops->words_new(q->dev->driver, w, err);
        if (rc) {
            kl_free(w);
            return rc;
        }
    }
    atomic_store(&w->refs, 1);
    w->n_used = 1; /* word 0 is the summary */
    *out = w;
    return KL_OK;
}

int kl_command_buffer_words(struct kl_command_buffer *cb, int n, struct kl_word_ref *out,
                            struct kl_error **err) {
    if (!cb->words) KL_TRY(words_take(cb->queue, &cb->words, err));
    if (cb->words->n_used + n > KL_WORDS) return KL_ELIMIT;
    *out = (struct kl_word_ref){cb->words, cb->words->n_used};
    cb->words->n_used += n;
    return KL_OK;
}

int kl_command_buffer_word_pair(struct kl_command_buffer *cb, struct kl_word_ref *out,
                                struct kl_error **err) {
    struct kl_word_ref skipped;
    if (!cb->words) KL_TRY(words_take(cb->queue, &cb->words, err));
    if (cb->words->n_used % 2) KL_TRY(kl_command_buffer_words(cb, 1, &skipped, err));
    return kl_command_buffer_words(cb, 2, out, err);
}

void kl_fault_words_release(struct kl_gpu_device *dev, struct kl_queue *q,
                            struct kl_fault_words *w) {
    if (atomic_fetch_sub(&w->refs, 1) != 1) return;
    /* No command in flight reads or writes this chunk any more. It needs clearing only when a word
     * in it fired. */
    if (w->host[0] != KL_WORD_CLEAR) dev->driver->ops->words_clear(dev->driver, w);
    kl_mutex_lock(&dev->mu);
    w->next = q->clear_words;
    q->clear_words = w;
    kl_mutex_unlock(&dev->mu);
}

/* ---- life ---- */

struct kl_command_buffer *kl_command_buffer_new(struct kl_queue *q, struct kl_error **err) {
    struct kl_command_buffer *cb = kl_calloc(1, sizeof *cb);
    if (!cb) {
        kl_fail_nomem(err);
        return NULL;
    }
    atomic_init(&cb->refs, 1);
    cb->queue = q;
    if (q->dev->driver->ops->event_new(q->dev->driver, &cb->event, err)) {
        kl_free(cb);
        return NULL;
    }
    atomic_fetch_add(&q->dev->n_cbs, 1);
    return cb;
}

static void op_drop(struct kl_gpu_op *op) {
    for (int i = 0; i < op->n_in; i++) {
        kl_fate_release(op->in[i]->fate);
        kl_buffer_release(op->in[i]->buffer);
    }
    for (int i = 0; i < op->n_out; i++) kl_fate_release(op->out[i]);
    kl_error_release(op->error);
    if (op->release_ctx) op->release_ctx(op->ctx);
    if (op->part) op->part->ops->drop(op->part);
}

void kl_command_buffer_empty(struct kl_command_buffer *cb) {
    struct kl_gpu_device *dev = cb->queue->dev;
    for (struct kl_gpu_op *op = cb->first; op; op = op->next) op_drop(op);
    cb->first = cb->last = NULL;
    for (int i = 0; i < cb->n_held; i++) kl_fault_words_release(dev, cb->queue, cb->held[i]);
    cb->n_held = 0;
    if (cb->words) kl_fault_words_release(dev, cb->queue, cb->words);
    cb->words = NULL;
    int n_waits = cb->n_waits;
    cb->n_waits = 0;
    for (int i = 0; i < n_waits; i++)
        kl_command_buffer_release(
            cb->waits[i]); /* the producers are settled, so they hold nothing further */
    for (struct kl_gpu_arena_chunk *c = cb->arena.chunks, *next; c; c = next) {
        next = c->next;
        kl_free(c);
    }
    cb->arena.chunks = NULL;
}

void kl_command_buffer_release(struct kl_command_buffer *cb) {
    if (atomic_fetch_sub_explicit(&cb->refs, 1, memory_order_acq_rel) != 1) return;
    struct kl_gpu_device *dev = cb->queue->dev;
    kl_assert(!cb->first && cb->n_waits == 0);
    dev->driver->ops->event_free(dev->driver, cb->event);
    kl_error_release(cb->error);
    kl_free(cb->commands);
    kl_free(cb->waits);
    kl_free(cb->held);
    kl_free(cb);
    atomic_fetch_sub(&dev->n_cbs, 1);
}

bool kl_command_buffer_is_valid(const struct kl_command_buffer *cb) {
    int n = 0;
    const struct kl_gpu_op *last = NULL;
    for (const struct kl_gpu_op *op = cb->first; op; op = op->next, n++) {
        if (op->cb != cb || op->n_taints > KL_MAX_TAINTS) return false;
        last = op;
    }
    if (n != cb->n_ops || last != cb->last) return false;
    if (cb->n_commands > cb->commands_room || cb->n_waits > cb->waits_room) return false;
    for (int i = 0; i < cb->n_waits; i++)
        if (cb->waits[i] == cb || cb->waits[i]->queue == cb->queue) return false;
    return !cb->settled || cb->complete;
}
