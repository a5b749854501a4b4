/* bind.c - memory for a task: donated or fresh blocks for its outputs, copies of operands that are
 * in another memory, and the notes of all uses. The role holder calls it, just before launch. */
#include <string.h>

#include "base/alloc.h"
#include "base/fork_locks.h"
#include "base/op/validate.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/fusion.h"

#ifdef KL_TEST_HOOKS
static _Atomic(uint64_t) copied;

uint64_t kl_test_bytes_copied(void) {
    return atomic_load(&copied);
}
#endif

/* Validation mode: writes the guards around a block that is written outside any stream. */
static int guard_mirror(struct kl_block *b, struct kl_error **err) {
    struct kl_memory *m = b->memory;
    b->needs_guard = false;
    if (!kl_validating() || m->is_host) return KL_OK; /* host blocks get guards at the hand-over */
    char guards[3 * KL_GUARD_BYTES];
    kl_guard_write(guards + KL_GUARD_BYTES, KL_GUARD_BYTES, b->tenant);
    KL_TRY(m->write(m, b->raw, 0, guards, KL_GUARD_BYTES, err));
    return m->write(m, b->raw, KL_GUARD_BYTES + b->bytes, guards, KL_GUARD_BYTES, err);
}

static int copy_across(struct kl_block *from, struct kl_block *to, size_t bytes,
                       struct kl_error **err) {
    struct kl_memory *f = from->memory, *t = to->memory;
    if (t->is_host) return f->read(f, from->ptr, 0, to->ptr, bytes, err);
    if (f->is_host) return t->write(t, to->ptr, 0, from->ptr, bytes, err);
    void *host = kl_malloc(bytes); /* a copy from one device to another passes through the host */
    if (!host) return kl_fail_nomem(err);
    int rc = f->read(f, from->ptr, 0, host, bytes, err);
    if (!rc) rc = t->write(t, to->ptr, 0, host, bytes, err);
    kl_free(host);
    return rc;
}

/* The device whose memory can decide that b needs no copy to be used from m, or NULL. */
static struct kl_memory *sharer(const struct kl_block *b, struct kl_memory *m) {
    if (!b || b->memory->is_host == m->is_host) return NULL;
    struct kl_memory *device = m->is_host ? b->memory : m;
    return device->share ? device : NULL;
}

int kl_buffer_reach(struct kl_buffer *b, struct kl_memory *m, struct kl_block **out,
                    struct kl_error **err) {
    struct kl_memory *device = sharer(b->block, m);
    if (device) KL_TRY(device->share(device, b->block, err));
    *out = kl_buffer_block_on(b, m);
    if (*out || !b->block) return KL_OK;
    struct kl_block *copy;
    /* Outside any stream the copy is finished on return, so the block must be free of every use.
     * Two streams may both make a copy at the same time. */
    KL_TRY(kl_block_alloc(m, b->bytes, NULL, &copy, err));
    int rc = guard_mirror(copy, err);
    if (!rc) rc = copy_across(b->block, copy, b->bytes, err);
#ifdef KL_TEST_HOOKS
    if (!rc) atomic_fetch_add(&copied, b->bytes);
#endif
    if (rc) {
        m->give_back(m, copy);
        return rc;
    }
    kl_buffer_add_mirror(b, copy);
    /* This may be the copy of another thread. All must use, and note the use of, the same copy. */
    *out = kl_buffer_block_on(b, m);
    return KL_OK;
}

/* Whether output o of t may be written into the block of input i. */
static bool may_donate(struct kl_stream *s, struct kl_task *t, int i, const struct kl_tensor *o) {
    const struct kl_tensor *in = t->in[i];
    struct kl_block *b = in->buffer->block;
    return b && b->memory == s->backend->memory && in->buffer->bytes == o->buffer->bytes &&
           kl_dtype_size(in->dtype) == kl_dtype_size(o->dtype) && in->size == o->size &&
           in->offset == 0 && (in->layout & KL_ROW_CONTIGUOUS) && t->owns_input(t, i) &&
           atomic_load_explicit(&in->buffer->mirrors, memory_order_relaxed) == NULL &&
           kl_block_free_for(b, &s->settled);
}

static bool donate(struct kl_stream *s, struct kl_task *t) {
    if (t->n_out != 1 || t->out[0]->buffer->bytes == 0) return false;
    unsigned flags = kl_op_flags(t->op);
    int n = flags & KL_OPF_ELEMENTWISE ? t->n_in : flags & KL_OPF_BASE_IN_PLACE ? 1 : 0;
    for (int i = 0; i < n && i < t->n_in; i++) {
        if (!may_donate(s, t, i, t->out[0])) continue;
        t->out[0]->buffer->block = t->in[i]->buffer->block;
        kl_block_unshare(t->out[0]->buffer->block);
        return true;
    }
    return false;
}

/* Until here the input keeps its pointer to a donated block, so that the launch finds it. Now the
 * input's buffer must lose the pointer, or it would give the block back. */
static void forget_donated(struct kl_task *t) {
    for (int i = 0; i < t->n_in; i++)
        for (int o = 0; o < t->n_out; o++)
            if (t->in[i]->buffer->block && t->in[i]->buffer->block == t->out[o]->buffer->block)
                t->in[i]->buffer->block = NULL;
}

/* leaf; guards kl_block.last_op while the block is owned */
static struct kl_mutex last_op_mu = KL_MUTEX_INIT;

__attribute__((constructor)) static void watch_fork(void) {
    kl_fork_lock_add(&last_op_mu);
}

static int note(struct kl_stream *s, struct kl_task *t, struct kl_block *b, struct kl_error **err) {
    if (!b) return KL_OK;
    if (kl_block_note_use(b, &s->settled, t->ticket)) return kl_fail_nomem(err);
    if (kl_validating()) { /* several streams may read one block at the same time */
        kl_mutex_lock(&last_op_mu);
        strncpy(b->last_op, kl_task_name(t), sizeof b->last_op - 1);
        b->last_op[sizeof b->last_op - 1] = 0;
        kl_mutex_unlock(&last_op_mu);
    }
    return KL_OK;
}

int kl_bind_task(struct kl_stream *s, struct kl_task *t, struct kl_error **err) {
    struct kl_memory *m = s->backend->memory;
    for (int i = 0; i < t->n_in; i++) {
        struct kl_block *b;
        if (kl_task_gives(t, i, m)) continue;
        KL_TRY(kl_buffer_reach(t->in[i]->buffer, m, &b, err));
        KL_TRY(note(s, t, b, err));
    }
    bool donated = donate(s, t);
    for (int o = 0; o < t->n_out && !donated; o++) {
        struct kl_buffer *buf = t->out[o]->buffer;
        if (buf->bytes == 0) continue;
        KL_TRY(kl_block_alloc(m, buf->bytes, &s->settled, &buf->block, err));
        KL_TRY(note(s, t, buf->block, err));
    }
    if (t->workspace) {
        KL_TRY(kl_block_alloc(m, t->workspace->bytes, &s->settled, &t->workspace->block, err));
        KL_TRY(note(s, t, t->workspace->block, err));
    }
    return KL_OK;
}

/* ---- fusions ---- */

/* A block for the output of step j, taken from one of its inputs. No other task, and no later step
 * of the fusion, may read that input. */
static bool donate_to_step(struct kl_stream *s, const struct kl_fusion_step *steps, int j) {
    struct kl_tensor *out = steps[j].task->out[0];
    for (int i = 0; i <= j; i++) {
        struct kl_task *t = steps[i].task;
        for (int k = 0; k < t->n_in; k++) {
            if (steps[i].from[k] >= 0 || !may_donate(s, t, k, out)) continue;
            struct kl_block *b = t->in[k]->buffer->block;
            bool taken = false;
            for (int o = 0; o < j; o++) taken = taken || steps[o].task->out[0]->buffer->block == b;
            if (taken) continue;
            out->buffer->block = b;
            kl_block_unshare(b);
            return true;
        }
    }
    return false;
}

/* Whether the block of step j is the block of an input of the fusion. */
static bool is_donated(const struct kl_fusion_step *steps, int n, int j) {
    struct kl_block *b = steps[j].task->out[0]->buffer->block;
    for (int i = 0; b && i < n; i++)
        for (int k = 0; k < steps[i].task->n_in; k++)
            if (steps[i].from[k] < 0 && steps[i].task->in[k]->buffer->block == b) return true;
    return false;
}

static bool bind_step(struct kl_stream *s, struct kl_fusion_step *steps, int j) {
    struct kl_memory *m = s->backend->memory;
    struct kl_task *t = steps[j].task;
    struct kl_buffer *buf = t->out[0]->buffer;
    for (int i = 0; i < t->n_in; i++) {
        struct kl_block *b;
        if (steps[j].from[i] >= 0) continue;
        if (kl_buffer_reach(t->in[i]->buffer, m, &b, NULL) || note(s, t, b, NULL)) return false;
    }
    if (!steps[j].stored || buf->bytes == 0) return true;
    if (!donate_to_step(s, steps, j) &&
        kl_block_alloc(m, buf->bytes, &s->settled, &buf->block, NULL))
        return false;
    return note(s, t, buf->block, NULL) == KL_OK;
}

/* Takes their memory away from the first `done` of n steps. */
static void unbind(struct kl_fusion_step *steps, int done, int n) {
    for (int j = 0; j < done; j++) {
        struct kl_buffer *buf = steps[j].task->out[0]->buffer;
        struct kl_block *b = buf->block;
        bool own = b && !is_donated(steps, n, j);
        buf->block = NULL;
        if (own) b->memory->give_back(b->memory, b);
    }
}

bool kl_fusion_bind(struct kl_stream *s, struct kl_fusion_step *steps, int n) {
    int done = 0;
    while (done < n && bind_step(s, steps, done)) done++;
    if (done < n) unbind(steps, done + 1, n);
    return done == n;
}

void kl_fusion_unbind(struct kl_fusion_step *steps, int n) {
    unbind(steps, n, n);
}

void kl_fusion_after_launch(struct kl_fusion_step *steps, int n) {
    for (int j = 0; j < n; j++) {
        struct kl_block *b = steps[j].task->out[0]->buffer->block;
        for (int i = 0; b && i < n; i++)
            for (int k = 0; k < steps[i].task->n_in; k++)
                if (steps[i].from[k] < 0 && steps[i].task->in[k]->buffer->block == b)
                    steps[i].task->in[k]->buffer->block = NULL;
    }
}

void kl_bind_after_launch(struct kl_task *t) {
    if (t->n_out == 1) forget_donated(t);
}

void kl_bind_check_guards(struct kl_stream *s, struct kl_task *t, struct kl_error **err) {
    struct kl_memory *m = s->backend->memory;
    for (int i = 0; i < t->n_in + t->n_out; i++) {
        struct kl_buffer *buf = i < t->n_in ? t->in[i]->buffer : t->out[i - t->n_in]->buffer;
        struct kl_block *b = kl_buffer_block_on(buf, m);
        if (!b || !b->memory->pool) continue; /* the user's memory has no guards */
        enum kl_guard_finding f = kl_guard_check(b->ptr, b->bytes, b->tenant);
        if (f == KL_GUARD_INTACT) continue;
        kl_guard_report(err, kl_task_name(t), i, t->n_in, t->n_out, buf->bytes, f, s->index);
        if (b->memory->is_host) kl_guard_fill(b); /* so that later kernels do not report it again */
    }
}
