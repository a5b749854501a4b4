/* encode.c - encodes operations into the open command buffer of their stream. Only the holder of
 * the stream's executor role calls it. */
#include <stdlib.h>
#include <string.h>

#include "backend/fault.h"
#include "backend/gpu/gpu_internal.h"
#include "base/op/op_params.h"
#include "base/op/validate.h"

enum { MORE_MOVES = 3 }; /* operations that share a launch with the one before them, at most */

bool kl_gpu_waits_for(struct kl_backend *b, struct kl_queue *q, struct kl_fate *f,
                      struct kl_wait *w) {
    struct kl_timeline *t = f->timeline;
    /* The device itself waits for a value of its own; the host waits only until the command that
     * makes it has been handed over. */
    bool ours = t->handed && ((struct kl_queue *)t->queue)->dev == kl_gpu_device_of(b);
    *w = (struct kl_wait){ours ? t->handed : t, f->ticket};
    return kl_timeline_done(w->timeline) < w->ticket;
}

static int refuse(struct kl_gpu_device *dev, struct kl_error **err) {
    struct kl_error *lost = atomic_load(&dev->lost);
    if (lost) return kl_fail_with(err, kl_error_retain(lost));
    if (atomic_load(&dev->forked))
        return kl_fail(
            err, KL_EDEVICE,
            "the GPU was used before this process forked; it cannot be used in the child");
    return KL_OK;
}

static int copy_tensor(struct kl_command_buffer *cb, struct kl_tensor *to,
                       const struct kl_tensor *from) {
    if (!to) return KL_ENOMEM;
    size_t n = (size_t)from->ndim;
    int64_t *strides = kl_command_buffer_alloc(cb, n * (sizeof(int64_t) + sizeof(int)) + 1);
    if (!strides) return KL_ENOMEM;
    int *dims = (int *)(strides + n);
    if (n) {
        memcpy(strides, from->strides, n * sizeof *strides);
        memcpy(dims, from->dims, n * sizeof *dims);
    }
    *to = *from;
    to->strides = strides;
    to->dims = dims;
    to->fate = NULL;
    to->buffer = NULL;
    return KL_OK;
}

static void fill_arg(struct kl_arg *a, const struct kl_tensor *t, const struct kl_tensor *copy,
                     const struct kl_memory *m) {
    struct kl_block *b = kl_buffer_block_on(t->buffer, m);
    a->data = b ? (char *)b->ptr + t->offset * (int64_t)kl_dtype_size(t->dtype) : NULL;
    a->dtype = t->dtype;
    a->layout = t->layout;
    a->ndim = t->ndim;
    a->size = t->size;
    a->dims = copy->dims;
    a->strides = copy->strides;
}

/* The same for an element that comes with the command. The host may use its block for something
 * else once the input is released. */
static void fill_given(struct kl_arg *a, const struct kl_tensor *t) {
    const size_t item = kl_dtype_size(t->dtype);
    kl_assert(item <= sizeof a->value);
    a->given = true;
    a->data = (char *)t->buffer->block->ptr + t->offset * (int64_t)item;
    memcpy(&a->value, a->data, item);
}

/* The record of the operation, with everything that settlement needs. Nothing is retained yet. */
static struct kl_gpu_op *record(struct kl_command_buffer *cb, struct kl_task *t) {
    struct kl_gpu_op *op = kl_command_buffer_alloc(cb, sizeof *op);
    if (!op) return NULL;
    op->cb = cb;
    op->op = t->op;
    op->n_in = t->n_in;
    op->n_out = t->n_out;
    op->in = kl_command_buffer_alloc(cb, (size_t)t->n_in * sizeof *op->in);
    op->out = kl_command_buffer_alloc(cb, (size_t)t->n_out * sizeof *op->out);
    void *params = kl_command_buffer_alloc(cb, t->params_bytes);
    if (!op->in || !op->out || !params) return NULL;
    if (t->params_bytes) memcpy(params, t->params, t->params_bytes);
    op->params = params;
    op->name = kl_task_name(t);
    op->origin = t->origin;
    /* Their names live only as long as the task. */
    if (t->op == KL_OP_CALL || t->op == KL_OP_KERNEL) {
        char *own_name = kl_command_buffer_alloc(cb, strlen(op->name) + 1);
        if (!own_name) return NULL;
        op->name = strcpy(own_name, op->name);
    }
    for (int i = 0; i < t->n_in; i++)
        if (copy_tensor(cb, op->in[i] = kl_command_buffer_alloc(cb, sizeof(struct kl_tensor)),
                        t->in[i]))
            return NULL;
    return op;
}

static const struct kl_kernel_desc *kernel_of(const struct kl_task *t) {
    return t->op == KL_OP_KERNEL ? ((const struct kl_kernel_params *)t->params)->desc : NULL;
}

static bool can_fault(const struct kl_task *t) {
    if (t->op == KL_OP_KERNEL) return kernel_of(t)->raises;
    return t->op == KL_OP_CALL || ((kl_op_flags(t->op) & KL_OPF_CHECKED) && !t->proved);
}

struct kl_command *kl_gpu_command_new(struct kl_command_buffer *cb, enum kl_command_kind kind,
                                      const struct kl_gpu_op *op, int n_args) {
    struct kl_arg *args = kl_command_buffer_alloc(cb, (size_t)n_args * sizeof *args + 1);
    struct kl_command *c = args ? kl_command_buffer_command(cb) : NULL;
    if (!c) return NULL;
    c->kind = kind;
    c->op = op->op;
    c->name = op->name;
    c->params = op->params;
    c->args = args;
    return c;
}

/* Validation: memory for the guards of n blocks, of which c writes or checks those that are set. */
static int guard_room(struct kl_command_buffer *cb, struct kl_command *c, int n) {
    if (!c) return KL_ENOMEM;
    c->tenants = kl_command_buffer_alloc(cb, (size_t)n * sizeof *c->tenants);
    c->bytes = kl_command_buffer_alloc(cb, (size_t)n * sizeof *c->bytes);
    return c->tenants && c->bytes ? KL_OK : KL_ENOMEM;
}

static void guard_set(struct kl_command *c, int i, const struct kl_block *b) {
    c->args[i].data = b->ptr;
    c->tenants[i] = b->tenant;
    c->bytes[i] = b->bytes;
}

/* Writes the guards of b, in front of what is encoded next. */
static int guard_fill(struct kl_command_buffer *cb, struct kl_gpu_op *op,
                      const struct kl_block *b) {
    struct kl_command *c = kl_gpu_command_new(cb, KL_CMD_GUARD_FILL, op, 1);
    KL_TRY(guard_room(cb, c, 1));
    guard_set(c, 0, b);
    return KL_OK;
}

static struct kl_block *operand_block(const struct kl_gpu_device *dev, const struct kl_task *t,
                                      int i) {
    struct kl_buffer *buf = i < t->n_in ? t->in[i]->buffer : t->out[i - t->n_in]->buffer;
    struct kl_block *b = kl_buffer_block_on(buf, &dev->memory);
    return b && b->memory->pool ? b : NULL; /* the user's memory has no guards */
}

static int guard_fills(struct kl_command_buffer *cb, struct kl_gpu_op *op, struct kl_task *t) {
    for (int i = 0; i < t->n_in + t->n_out; i++) {
        const struct kl_block *b = operand_block(cb->queue->dev, t, i);
        if (b && b->needs_guard) KL_TRY(guard_fill(cb, op, b));
    }
    return KL_OK;
}

static int guard_check(struct kl_command_buffer *cb, struct kl_gpu_op *op, struct kl_task *t,
                       const struct kl_block *workspace, struct kl_error **err) {
    const int n = t->n_in + t->n_out;
    KL_TRY(kl_command_buffer_words(cb, 1, &op->check, err));
    struct kl_command *check = kl_gpu_command_new(cb, KL_CMD_GUARD_CHECK, op, n + 1);
    KL_TRY(guard_room(cb, check, n + 1));
    check->word = op->check;
    op->check_bytes = check->bytes;
    check->n_in = t->n_in;
    check->n_out = t->n_out + 1;
    for (int i = 0; i < n; i++) {
        const struct kl_block *b = operand_block(cb->queue->dev, t, i);
        if (b) guard_set(check, i, b);
    }
    if (workspace) guard_set(check, n, workspace);
    return KL_OK;
}

/* ---- workspaces ---- */

/* Prepares the launches of an operation, which are the commands from `first` on, and gives them the
 * workspace that they ask for. They run one after the other, so they share it. *workspace is the
 * caller's, also after a failure. */
static int prepare_launches(struct kl_command_buffer *cb, struct kl_gpu_op *op,
                            const struct kl_task *t, int first, struct kl_pending *pending,
                            struct kl_block **workspace, struct kl_error **err) {
    struct kl_driver *d = cb->queue->dev->driver;
    struct kl_memory *m = &cb->queue->dev->memory;
    size_t most = 0;
    for (int i = first; i < cb->n_commands; i++) {
        size_t bytes = 0;
        KL_TRY(kl_driver_start(d, &cb->commands[i], pending, &bytes, err));
        if (most < bytes) most = bytes;
    }
    if (most == 0) return KL_OK;
    KL_TRY(m->take(m, most, cb->queue->timeline, workspace, err));
    struct kl_block *b = *workspace;
    KL_TRY(kl_block_note_use(b, cb->queue->timeline, t->ticket));
    for (int i = first; i < cb->n_commands; i++) {
        cb->commands[i].workspace = b->ptr;
        cb->commands[i].workspace_bytes = most;
    }
    if (!kl_validating()) return KL_OK;
    strncpy(b->last_op, op->name, sizeof b->last_op - 1);
    b->last_op[sizeof b->last_op - 1] = 0;
    /* Its guards are written in front of the launches, which were encoded to find its size. */
    KL_TRY(guard_fill(cb, op, b));
    struct kl_command fill = cb->commands[cb->n_commands - 1];
    memmove(&cb->commands[first + 1], &cb->commands[first],
            (size_t)(cb->n_commands - 1 - first) * sizeof fill);
    cb->commands[first] = fill;
    return KL_OK;
}

static int launch_commands(struct kl_command_buffer *cb, struct kl_gpu_op *op, struct kl_task *t,
                           const struct kl_gpu_inputs *in) {
    struct kl_gpu_device *dev = cb->queue->dev;
    /* The guards of an exchange are what it tells the other processes. */
    bool guarded = t->op == KL_OP_KERNEL || op->part ||
                   (t->op == KL_OP_CALL && ((const struct kl_call_params *)t->params)->guarded);
    bool checked = (kl_op_flags(t->op) & KL_OPF_CHECKED) != 0;
    int n_args = t->n_in + t->n_out + (t->workspace != NULL);
    int64_t positions = checked ? kl_fault_positions(t->op, t->n_in, t->in) : INT64_MAX;
    struct kl_arg *args = NULL;
    int64_t begin = 0;
    for (int k = 0; k == 0 || begin < positions; k++) {
        struct kl_command *c = kl_gpu_command_new(cb, KL_CMD_LAUNCH, op, k ? 0 : n_args);
        if (!c) return KL_ENOMEM;
        if (k) {
            c->args = args; /* the launches of one operation share their arguments */
        } else {
            args = c->args;
            for (int i = 0; i < t->n_in; i++) {
                fill_arg(&args[i], t->in[i], op->in[i], &dev->memory);
                if (kl_task_gives(t, i, &dev->memory)) fill_given(&args[i], t->in[i]);
                if (i < 32 && t->owns_input(t, i)) c->dead |= UINT32_C(1) << i;
            }
            for (int i = 0; i < t->n_out; i++) {
                struct kl_tensor copy;
                if (copy_tensor(cb, &copy, t->out[i])) return KL_ENOMEM;
                fill_arg(&args[t->n_in + i], t->out[i], &copy, &dev->memory);
            }
            if (t->workspace) {
                int *dims = kl_command_buffer_alloc(cb, sizeof(int64_t) * 2);
                if (!dims) return KL_ENOMEM;
                int64_t *stride = (int64_t *)(void *)(dims + 2);
                *dims = t->workspace->bytes < INT32_MAX ? (int)t->workspace->bytes : INT32_MAX;
                *stride = 1;
                args[n_args - 1] = (struct kl_arg){.data = t->workspace->block->ptr,
                                                   .dtype = KL_U8,
                                                   .ndim = 1,
                                                   .layout = KL_ROW_CONTIGUOUS | KL_DENSE,
                                                   .dims = dims,
                                                   .strides = stride,
                                                   .size = (int64_t)t->workspace->bytes};
            }
        }
        c->params_bytes = t->params_bytes;
        c->n_in = t->n_in;
        c->n_out = n_args - t->n_in;
        c->checked = checked && !t->proved;
        c->pos_begin = begin;
        c->pos_end = checked && positions - begin > op->positions_per_word
                         ? begin + op->positions_per_word
                         : positions;
        if (op->n_words) c->word = (struct kl_word_ref){op->word.words, op->word.index + k};
        if (guarded && in->n_taints) {
            c->guards = in->taints;
            c->n_guards = in->n_taints;
        }
        begin = c->pos_end;
        if (!checked) break;
    }
    return KL_OK;
}

/* *workspace: the caller gives it back, also after a failure. */
static int encode_into(struct kl_command_buffer *cb, struct kl_task *t, bool drop,
                       struct kl_device_part *part, struct kl_gpu_op **out,
                       struct kl_block **workspace, struct kl_error **err) {
    struct kl_gpu_inputs in = {.drop = drop};
    struct kl_gpu_op *op = record(cb, t);
    if (!op) return KL_ENOMEM;
    op->part = part;
    if (part) ((struct kl_collective_params *)(uintptr_t)op->params)->part = part;
    KL_TRY(kl_gpu_look_at_inputs(cb, t, &in));
    op->dropped = in.drop && !part;
    if (part && in.drop) part->failed = true;
    *out = op;
    if (op->dropped) return KL_OK;
    if (part) {
        struct kl_word_ref brought;
        /* The word of a receipt is what the other process says. */
        op->exchange_tells = part->kind != KL_EXCHANGE_RECEIVE;
        op->covered = in.taints;
        op->n_covered = op->exchange_tells ? in.n_taints : 0;
        op->positions_per_word = INT64_MAX;
        op->n_words = 1;
        KL_TRY(kl_command_buffer_words(cb, 1, &op->word, err));
        KL_TRY(kl_command_buffer_words(cb, KL_BROUGHT_WORDS - 1, &brought, err));
    } else if (kernel_of(t) && can_fault(t)) {
        /* A pair of words holds code and position. Each of the two tells consumers of a failure, so
         * consumers depend on one word only. */
        op->positions_per_word = INT64_MAX;
        op->n_words = 1;
        KL_TRY(kl_command_buffer_word_pair(cb, &op->word, err));
    } else if (can_fault(t)) {
        int64_t positions = t->op == KL_OP_CALL ? 1 : kl_fault_positions(t->op, t->n_in, t->in);
        op->positions_per_word = cb->queue->dev->driver->max_positions;
        op->n_words = (int)((positions + op->positions_per_word - 1) / op->positions_per_word);
        if (op->n_words < 1) op->n_words = 1;
        if (op->n_words >= KL_WORDS)
            return kl_fail(err, KL_EUNSUPPORTED,
                           "%s has %lld positions, more than one device operation can check",
                           op->name, (long long)positions);
        KL_TRY(kl_command_buffer_words(cb, op->n_words, &op->word, err));
    } else {
        op->positions_per_word = INT64_MAX;
    }
    int first = cb->n_commands;
    if (kl_validating()) KL_TRY(guard_fills(cb, op, t));
    int launches = cb->n_commands;
    /* An exchange must know now whether it has a value. */
    struct kl_pending found = {0}, *pending = part ? NULL : &found;
    KL_TRY(launch_commands(cb, op, t, &in));
    KL_TRY(prepare_launches(cb, op, t, launches, pending, workspace, err));
    if (kl_validating()) KL_TRY(guard_check(cb, op, t, *workspace, err));
    KL_TRY(kl_gpu_set_taints(cb, op, &in, err));
    struct kl_driver *d = cb->queue->dev->driver;
    for (int i = first; i < cb->n_commands; i++) {
        size_t none = 0;
        if (cb->commands[i].kind == KL_CMD_LAUNCH) continue;
        KL_TRY(kl_driver_start(d, &cb->commands[i], pending, &none, err));
        kl_assert(none == 0);
    }
    op->first_command = first;
    op->n_commands = cb->n_commands - first;
    if (found.n == 0) return KL_OK;
    if (!(op->pending = kl_command_buffer_alloc(cb, sizeof found))) return KL_ENOMEM;
    *op->pending = found;
    return KL_OK;
}

static bool donated(const struct kl_task *t, int out) {
    for (int i = 0; i < t->n_in; i++)
        if (t->in[i]->buffer->block && t->in[i]->buffer->block == t->out[out]->buffer->block)
            return true;
    return false;
}

static void release_kernel(void *desc) {
    kl_kernel_desc_release(desc);
}

/* Called when nothing can fail any more: retains what settlement needs, and makes the operation
 * visible to consumers. */
static void adopt(struct kl_command_buffer *cb, struct kl_task *t, struct kl_gpu_op *op) {
    struct kl_gpu_device *dev = cb->queue->dev;
    bool keeps_index = op->n_words && t->op != KL_OP_CALL && t->op != KL_OP_KERNEL && !op->part;
    for (int i = 0; i < t->n_in; i++) {
        op->in[i]->fate = kl_fate_retain(t->in[i]->fate);
        /* The index values are read at settlement: until then their block is neither donated nor
         * reused. */
        if (!keeps_index || !kl_dtype_is_int(op->in[i]->dtype)) continue;
        op->in[i]->buffer = kl_buffer_retain(t->in[i]->buffer);
        struct kl_block *b = t->in[i]->buffer->block;
        cb->runs_user_code = cb->runs_user_code || (b && !b->memory->pool);
    }
    for (int i = 0; i < t->n_out; i++) {
        op->out[i] = kl_fate_retain(t->out[i]->fate);
        if (!donated(t, i)) cb->new_bytes += (int64_t)t->out[i]->buffer->bytes;
    }
    /* The commands that write the guards of these blocks are certain to be kept now. */
    for (int i = 0; i < t->n_in + t->n_out; i++) {
        struct kl_buffer *buf = i < t->n_in ? t->in[i]->buffer : t->out[i - t->n_in]->buffer;
        struct kl_block *b = kl_buffer_block_on(buf, &dev->memory);
        if (b && b->needs_guard && !op->dropped) b->needs_guard = false;
    }
    op->submitter = t->submitter;
    cb->uncertain = cb->uncertain || op->pending;
    if (op->part && op->word.words) cb->exchange = op;
    if (t->op == KL_OP_KERNEL) {
        op->ctx = kl_kernel_desc_retain(((const struct kl_kernel_params *)t->params)->desc);
        op->release_ctx = release_kernel;
    }
    if (t->op == KL_OP_CALL) {
        const struct kl_call_params *call = t->params;
        if (call->retain) {
            call->retain(call->ctx);
            op->release_ctx = call->release;
            op->ctx = call->ctx;
            cb->runs_user_code = true;
        }
    }
    if (cb->last)
        cb->last->next = op;
    else
        cb->first = op;
    cb->last = op;
    cb->n_ops++;
    cb->last_ticket = t->ticket;
    kl_mutex_lock(&dev->mu);
    for (int i = 0; i < t->n_out; i++) op->out[i]->device_op = op;
    kl_mutex_unlock(&dev->mu);
}

int kl_gpu_encode(struct kl_queue *q, struct kl_task *t, bool drop, struct kl_device_part *part,
                  struct kl_error **err) {
    KL_TRY(refuse(q->dev, err));
    KL_TRY(kl_gpu_settlement_start(q->dev, err));
    for (int attempt = 0;; attempt++) {
        if (!q->open && !(q->open = kl_command_buffer_new(q, err))) return KL_ENOMEM;
        q->open->uncertain = q->open->uncertain || atomic_load(&q->n_put_off) > 0;
        struct kl_gpu_op *op = NULL;
        struct kl_block *workspace = NULL;
        int n_commands = q->open->n_commands;
        int rc = encode_into(q->open, t, drop, part, &op, &workspace, err);
        if (rc == KL_OK) adopt(q->open, t, op);
        /* As the memory of an input that nobody else owns, it may now serve later operations of
         * this stream, and others when the ticket of its use is done. */
        if (workspace) workspace->memory->give_back(workspace->memory, workspace);
        if (rc == KL_OK) return KL_OK;
        /* The arena memory of the failed attempt is freed with the command buffer. */
        q->open->n_commands = n_commands;
        if (rc != KL_ELIMIT || attempt) return err && *err ? rc : kl_fail_nomem(err);
        /* The command buffer has no free fault words: go on in a new one. */
        kl_gpu_cut(&q->dev->backend, q);
    }
}

#ifdef KL_TEST_HOOKS
/* Tests of the order of command buffers make many small ones. */
static int most_ops(void) {
    static _Atomic(int) known;
    if (atomic_load(&known)) return atomic_load(&known);
    const char *text = getenv("KEEL_TEST_MAX_OPS");
    const int n = text ? atoi(text) : KL_MAX_OPS;
    atomic_store(&known, n);
    return n;
}
#else
static int most_ops(void) {
    return KL_MAX_OPS;
}
#endif

/* Whether t belongs to a run of element-wise operations that use each other's values, which random
 * bits may begin and a reduction end. Such a run is not cut, because it becomes one kernel, which
 * needs memory only for its last result and does not store the others. Nor are a few operations
 * whose rows one kernel moves. */
static bool goes_on(struct kl_command_buffer *cb, const struct kl_task *t) {
    const unsigned before = cb->last ? kl_op_flags(cb->last->op) : 0, now = kl_op_flags(t->op);
    const bool in_run = now & KL_OPF_ELEMENTWISE
                            ? (before & (KL_OPF_ELEMENTWISE | KL_OPF_BEGINS_RUN)) != 0
                        : now & KL_OPF_FETCHES ? (before & KL_OPF_ELEMENTWISE) != 0
                                               : false;
    if (now & before & KL_OPF_MOVES_ROWS)
        return cb->n_ops < most_ops() + MORE_MOVES && cb->new_bytes < kl_max_new_bytes;
    if (!in_run) return false;
    bool uses = false;
    kl_mutex_lock(&cb->queue->dev->mu);
    for (int i = 0; i < t->n_in && !uses; i++) {
        const struct kl_gpu_op *maker = t->in[i]->fate->device_op;
        uses = maker && maker->cb == cb;
    }
    kl_mutex_unlock(&cb->queue->dev->mu);
    return uses;
}

static bool is_full(struct kl_command_buffer *cb, const struct kl_task *t) {
    if (t->begins || cb->n_ops >= KL_MOST_OPS) return true;
    return (cb->n_ops >= most_ops() || cb->new_bytes >= kl_max_new_bytes) && !goes_on(cb, t);
}

bool kl_gpu_ends_before(struct kl_backend *b, struct kl_queue *q, const struct kl_task *t) {
    return !q->open || is_full(q->open, t);
}

static int encode_and_cut(struct kl_queue *q, struct kl_task *t, bool drop, struct kl_error **err) {
    if (q->open && is_full(q->open, t)) kl_gpu_cut(&q->dev->backend, q);
    return kl_gpu_encode(q, t, drop, NULL, err) ? KL_LAUNCH_DONE : KL_LAUNCH_PENDING;
}

int kl_gpu_launch(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                  struct kl_error **err) {
    if (kl_op_is_collective(t->op)) return kl_gpu_exchange(b, q, t, err);
    return encode_and_cut(q, t, false, err);
}

int kl_gpu_drop(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                struct kl_error **err) {
    return encode_and_cut(q, t, true, err);
}

void kl_gpu_skip(struct kl_backend *b, struct kl_queue *q, struct kl_task *t) {
    if (!q->open) q->open = kl_command_buffer_new(q, NULL);
    if (q->open) {
        q->open->last_ticket = t->ticket;
        return;
    }
    /* There is no memory to note the ticket in: it is published with the last command buffer in
     * flight, if there is one. */
    kl_mutex_lock(&q->dev->mu);
    while (q->giving) kl_cond_wait(&q->dev->given, &q->dev->mu);
    const int n = atomic_load(&q->n_put_off);
    bool under_way = q->tail != NULL;
    if (n)
        q->put_off[n - 1]->last_ticket = t->ticket;
    else if (under_way)
        q->tail->last_ticket = t->ticket;
    kl_mutex_unlock(&q->dev->mu);
    if (n) return;
    kl_timeline_publish(q->timeline->handed, t->ticket);
    if (!under_way) kl_timeline_publish(q->timeline, t->ticket);
}
