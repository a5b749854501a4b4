/* submit.c - the one way of commands into a driver: what stands around lowering, which is the same
 * for all drivers. */
#include "backend/gpu/lower/lower.h"

int kl_driver_prepare(struct kl_driver *d, const struct kl_command *c, size_t *workspace_bytes,
                      struct kl_error **err) {
    *workspace_bytes = 0;
    if (!d->lowering) return d->ops->takes ? d->ops->takes(d, c, err) : KL_OK;
    KL_TRY(d->ops->enter(d, err));
    const int rc = kl_lower_prepare(d->lowering, c, workspace_bytes, err);
    if (d->ops->leave) d->ops->leave(d);
    return rc;
}

int kl_driver_submit(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                     void *const *waits, int n_waits, struct kl_fault_words *brings_back,
                     void *signal, struct kl_error **err) {
    const struct kl_driver_ops *ops = d->ops;
    if (ops->run) return ops->run(d, queue, commands, n, waits, n_waits, brings_back, signal, err);
    int rc = ops->begin(d, queue, waits, n_waits, err);
    const bool begun = !rc;
    if (begun) rc = kl_lower(d->lowering, queue, commands, n, err);
    if (begun && !rc) rc = ops->end(d, queue, brings_back, signal, err);
    if (!rc) return KL_OK;
    if (begun && ops->abandon(d, queue)) return KL_EDEVICELOST;
    /* The commands that ran may have left faults of operations that have now failed for another
     * reason. The GPU layer takes words for clear when no submission brought them back. */
    if (brings_back && rc != KL_EDEVICELOST && rc != KL_EDEVICE) ops->words_clear(d, brings_back);
    return rc;
}
