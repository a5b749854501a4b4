/* taints.c - the fault words that values depend on: those of the operations that made them, on
 * which their consumers depend in turn. The device looks at them where a failure must be known
 * before the host knows of it: in kernels of users, and in exchanges with other processes. */
#include <string.h>

#include "backend/gpu/gpu_internal.h"
#include "base/value/out_of_range.h"

static bool has_word(const struct kl_word_ref *words, int n, struct kl_word_ref w) {
    for (int i = 0; i < n; i++)
        if (words[i].words == w.words && words[i].index == w.index) return true;
    return false;
}

static void add_taint(struct kl_gpu_inputs *in, struct kl_word_ref w) {
    if (!has_word(in->taints, in->n_taints, w)) in->taints[in->n_taints++] = w;
}

/* Leaves out what the word of the last exchange tells as well. Otherwise each value of a model
 * whose layers end in exchanges would depend on the words of all of them. */
static void leave_out_covered(const struct kl_gpu_op *exchange, struct kl_gpu_inputs *in) {
    if (!exchange || !has_word(in->taints, in->n_taints, exchange->word)) return;
    int n = 0;
    for (int i = 0; i < in->n_taints; i++)
        if (!has_word(exchange->covered, exchange->n_covered, in->taints[i]))
            in->taints[n++] = in->taints[i];
    in->n_taints = n;
}

/* An upper bound of the number of fault words that the inputs depend on. Inputs that are settled
 * between this call and the next lock need none, so the final number may be smaller. */
static int count_taints(struct kl_gpu_device *dev, const struct kl_task *t) {
    int n = 0;
    kl_mutex_lock(&dev->mu);
    for (int i = 0; i < t->n_in; i++) {
        const struct kl_gpu_op *producer = t->in[i]->fate->device_op;
        n += producer ? producer->n_taints : 0;
    }
    kl_mutex_unlock(&dev->mu);
    return n;
}

int kl_gpu_look_at_inputs(struct kl_command_buffer *cb, struct kl_task *t,
                          struct kl_gpu_inputs *in) {
    struct kl_gpu_device *dev = cb->queue->dev;
    int rc = KL_OK, n_taints = count_taints(dev, t);
    if (n_taints &&
        !(in->taints = kl_command_buffer_alloc(cb, (size_t)n_taints * sizeof *in->taints)))
        return KL_ENOMEM;
    kl_mutex_lock(&dev->mu);
    for (int i = 0; i < t->n_in && !rc; i++) {
        struct kl_fate *f = t->in[i]->fate;
        struct kl_gpu_op *producer = f->device_op;
        if (!producer) { /* the input is settled, perhaps since the count was taken */
            in->drop = in->drop || kl_fate_error(f) != NULL;
            continue;
        }
        /* A process that takes part in an exchange without a value has no memory for the result. */
        const bool no_value = producer->part && producer->part->failed;
        in->drop = in->drop || producer->dropped || producer->cb->error || no_value;
        for (int k = 0; k < producer->n_taints && !rc; k++) {
            add_taint(in, producer->taints[k]);
            rc = kl_command_buffer_hold_words(cb, producer->taints[k].words);
        }
        if (!rc && producer->cb->queue != cb->queue)
            rc = kl_command_buffer_wait_for(cb, producer->cb);
    }
    kl_mutex_unlock(&dev->mu);
    leave_out_covered(cb->exchange, in);
    return rc;
}

/* The number of the operation's own fault words that make its outputs fail. */
static int own_taints(const struct kl_gpu_op *op) {
    const bool of_indices = op->op != KL_OP_KERNEL && op->op != KL_OP_CALL && !op->part &&
                            !(kl_op_flags(op->op) & KL_OPF_OF_MATRICES);
    return of_indices && kl_out_of_range_zero() ? 0 : op->n_words;
}

#ifdef KL_TEST_HOOKS
static _Atomic(int) n_merged;
int kl_test_merged_words(void) {
    return atomic_load(&n_merged);
}
static void note_merged(void) {
    atomic_fetch_add(&n_merged, 1);
}
#else
static void note_merged(void) {
}
#endif

int kl_gpu_set_taints(struct kl_command_buffer *cb, struct kl_gpu_op *op, struct kl_gpu_inputs *in,
                      struct kl_error **err) {
    const int n = op->exchange_tells ? 0 : in->n_taints, own = own_taints(op);
    struct kl_word_ref *all = in->taints;
    if (n + own == 0) return KL_OK;
    bool merge = n + own > KL_MAX_TAINTS;
    op->taints = kl_command_buffer_alloc(cb, (size_t)(merge ? 1 : n + own) * sizeof *op->taints);
    if (!op->taints) return KL_ENOMEM;
    if (merge) {
        struct kl_word_ref *list = kl_command_buffer_alloc(cb, (size_t)(n + own) * sizeof *list);
        struct kl_word_ref merged;
        if (!list) return KL_ENOMEM;
        if (n) memcpy(list, all, (size_t)n * sizeof *list);
        for (int k = 0; k < own; k++)
            list[n + k] = (struct kl_word_ref){op->word.words, op->word.index + k};
        KL_TRY(kl_command_buffer_words(cb, 1, &merged, err));
        struct kl_command *c = kl_gpu_command_new(cb, KL_CMD_MERGE, op, 0);
        if (!c) return KL_ENOMEM;
        note_merged();
        c->guards = list;
        c->n_guards = n + own;
        c->word = merged;
        op->taints[0] = merged;
        op->n_taints = 1;
        return KL_OK;
    }
    if (n) memcpy(op->taints, all, (size_t)n * sizeof *all);
    for (int k = 0; k < own; k++)
        op->taints[n + k] = (struct kl_word_ref){op->word.words, op->word.index + k};
    op->n_taints = n + own;
    return KL_OK;
}
