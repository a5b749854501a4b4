/* exchange.c - operations that a group of processes does, each on a device of its own.
 *
 * Such an operation is never dropped, because others wait for it: where its input has failed or
 * there is no memory it takes part with spare memory and says so. News of failures goes along with
 * the values, from the fault words of the input on one rank to that of the operation on
 * the others, so no thread waits in between. Small ones run among the other operations of a stream;
 * others on a stream of the group, where each is a command buffer of its own, which is handed over
 * when all ranks are ready for it. The order of launches is that of all ranks. */
#include "backend/gpu/gpu_internal.h"
#include "base/op/op_params.h"

static struct kl_device_part *take_part(struct kl_task *t) {
    struct kl_collective_params *p = (struct kl_collective_params *)(uintptr_t)t->params;
    struct kl_device_part *part = p->part;
    p->part = NULL;
    return part;
}

/* Encodes t, at the second attempt without its value. */
static int encode(struct kl_queue *q, struct kl_task *t, struct kl_device_part *part,
                  struct kl_error **err) {
    int rc = kl_gpu_encode(q, t, false, part, err);
    if (!rc || part->failed) return rc;
    part->failed = true;
    part->own = *err ? *err : kl_error_static(rc);
    *err = NULL;
    return kl_gpu_encode(q, t, false, part, err);
}

/* The open command buffer, which has the exchange alone, waits for the other processes. */
static void hold(struct kl_queue *q, struct kl_device_part *part) {
    struct kl_command_buffer *cb = q->open;
    q->open = NULL;
    if (q->held)
        q->held_tail->next = cb;
    else
        q->held = cb;
    q->held_tail = cb;
    q->n_held++;
    part->ops->ready(part);
}

int kl_gpu_exchange(struct kl_backend *b, struct kl_queue *q, struct kl_task *t,
                    struct kl_error **err) {
    struct kl_device_part *part = take_part(t);
    part->own = *err;
    part->failed = *err != NULL;
    *err = NULL;
    /* It must know whether its inputs have failed. */
    q->exchanges = true;
    if (!part->in_line || atomic_load(&q->n_put_off) || (q->open && q->open->uncertain))
        kl_gpu_flush(b, q);
    int rc = part->ops->begin(part, part->own, err);
    if (!rc && (rc = encode(q, t, part, err)))
        part->ops->refused(part, *err ? *err : kl_error_static(rc));
    if (rc) {
        part->ops->drop(part);
        return KL_LAUNCH_DONE;
    }
    if (!part->in_line) hold(q, part);
    return KL_LAUNCH_PENDING;
}

enum kl_holds kl_gpu_holds(struct kl_backend *b, struct kl_queue *q, bool patient,
                           struct kl_wait *w) {
    while (q->held) {
        struct kl_command_buffer *cb = q->held;
        struct kl_device_part *part = cb->first->part;
        const struct kl_device_part_ops *of_part = part->ops;
        void *token;
        if (!of_part->may_start(part, patient, w, &token))
            return q->n_held < KL_MOST_HELD ? KL_HOLDS_SOME : KL_HOLDS_FULL;
        atomic_store(&q->handing, cb);
        q->held = cb->next;
        q->n_held--;
        cb->next = NULL;
        kl_gpu_hand_over(cb);
        of_part->started(token);
    }
    return KL_HOLDS_NOTHING;
}

static const uint32_t *brought(const struct kl_gpu_op *op) {
    static const uint32_t nothing[KL_BROUGHT_WORDS] = {KL_WORD_CLEAR};
    const struct kl_command_buffer *cb = op->cb;
    if (cb->error || !op->word.words || cb->words->host[0] == KL_WORD_CLEAR) return nothing;
    return op->word.words->host + op->word.index;
}

/* Why this process took part without a value; borrowed. Where its command buffer was refused the
 * group is broken, and says why. */
static struct kl_error *own_of(const struct kl_gpu_op *op, struct kl_error *input) {
    return input ? input : op->part->own;
}

bool kl_gpu_exchange_is_ready(struct kl_gpu_op *op) {
    const struct kl_command_buffer *cb = op->cb;
    struct kl_error *input = NULL;
    for (int i = 0; i < op->n_in && !input; i++) input = kl_fate_error(op->in[i]->fate);
    if (cb->error) op->part->ops->refused(op->part, cb->error);
    return op->part->ops->is_ready(op->part, own_of(op, input), brought(op));
}

struct kl_error *kl_gpu_exchange_outcome(struct kl_gpu_op *op, struct kl_error *input) {
    struct kl_error *e = op->part->ops->outcome(op->part, own_of(op, input), brought(op));
    kl_error_release(input);
    return e;
}

/* ---- communicators ---- */

static struct kl_driver *driver_of(struct kl_backend *b) {
    return kl_gpu_device_of(b)->driver;
}

const char *kl_gpu_comm_missing(struct kl_backend *b) {
    const struct kl_driver_ops *ops = driver_of(b)->ops;
    return ops->comm_missing ? ops->comm_missing(driver_of(b)) : "this device has no such library";
}

int64_t kl_gpu_comm_device(struct kl_backend *b) {
    return driver_of(b)->ops->comm_device(driver_of(b));
}

int kl_gpu_comm_id(struct kl_backend *b, char *id, struct kl_error **err) {
    return driver_of(b)->ops->comm_id(driver_of(b), id, err);
}

int kl_gpu_comm_new(struct kl_backend *b, const char *id, int rank, int size, void **comm,
                    struct kl_error **err) {
    return driver_of(b)->ops->comm_new(driver_of(b), id, rank, size, comm, err);
}

int kl_gpu_comm_state(struct kl_backend *b, void *comm, struct kl_error **err) {
    return driver_of(b)->ops->comm_state(driver_of(b), comm, err);
}

bool kl_gpu_comm_end(struct kl_backend *b, void *comm, bool abort) {
    return driver_of(b)->ops->comm_end(driver_of(b), comm, abort);
}

int kl_gpu_comm_flag(struct kl_backend *b, _Atomic(int64_t) **host, void **device,
                     struct kl_error **err) {
    return driver_of(b)->ops->comm_flag(driver_of(b), host, device, err);
}

void kl_gpu_nudge(struct kl_backend *b) {
    driver_of(b)->ops->wake(driver_of(b));
}
