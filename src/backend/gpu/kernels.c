/* kernels.c - kernels that are still compiled when the operations that need them have been encoded.
 *
 * A failure of one must be the failure of its operation alone, though other operations, perhaps in
 * command buffers after it, have been encoded as if it would run. These belong to the same queue,
 * since other queues wait until it is handed over. So, in the order of the queue and before each
 * hand-over, operations that cannot run lose their commands; also where the driver has refused a
 * command buffer after later ones were encoded. */
#include "backend/gpu/gpu_internal.h"

bool kl_gpu_kernels_ready(const struct kl_command_buffer *cb) {
    for (const struct kl_gpu_op *op = cb->first; op && cb->uncertain; op = op->next)
        if (op->pending && !kl_driver_is_ready(op->pending)) return false;
    return kl_driver_is_ready(&cb->ahead);
}

void kl_gpu_kernels_ahead(struct kl_command_buffer *cb) {
    kl_driver_look_ahead(cb->queue->dev->driver, cb->commands, cb->n_commands, &cb->ahead);
}

/* Whether an input is known to have failed, or will fail. The caller holds dev->mu. */
static bool lacks_input(struct kl_gpu_op *op) {
    bool lacks = false;
    for (int i = 0; i < op->n_in && !lacks; i++) {
        const struct kl_gpu_op *producer = op->in[i]->fate->device_op;
        lacks = producer ? producer->dropped || producer->cb->error
                         : kl_fate_error(op->in[i]->fate) != NULL;
    }
    return lacks;
}

/* Another thread may encode operations that need its value. The caller holds dev->mu. */
static void drop(struct kl_gpu_op *op) {
    op->dropped = true;
    op->n_words = op->n_taints = 0;
    op->check.words = NULL;
}

/* The guards of blocks are still written: later operations check them. */
static void remove_dropped(struct kl_command_buffer *cb) {
    int n = 0;
    for (const struct kl_gpu_op *op = cb->first; op; op = op->next)
        for (int i = op->first_command; i < op->first_command + op->n_commands; i++)
            if (!op->dropped || cb->commands[i].kind == KL_CMD_GUARD_FILL)
                cb->commands[n++] = cb->commands[i];
    cb->n_commands = n;
}

void kl_gpu_kernels_settle(struct kl_command_buffer *cb) {
    struct kl_mutex *mu = &cb->queue->dev->mu;
    bool any = false;
    if (!cb->uncertain) return;
    kl_mutex_lock(mu);
    for (struct kl_gpu_op *op = cb->first; op; op = op->next) {
        /* Exchanges wait for their kernels, and for those of their inputs, when they are
         * encoded. */
        if (op->dropped || op->part) continue;
        bool fails = lacks_input(op);
        if (!fails && op->pending) {
            kl_mutex_unlock(mu);
            const int rc = kl_driver_wait(cb->queue->dev->driver, op->pending, &op->error);
            if (rc && !op->error) op->error = kl_error_static(rc);
            fails = rc != KL_OK;
            kl_mutex_lock(mu);
        }
        if (fails) drop(op);
        any = any || fails;
    }
    kl_mutex_unlock(mu);
    if (any) remove_dropped(cb);
}
