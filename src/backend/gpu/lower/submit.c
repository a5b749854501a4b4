/* submit.c - the one way of commands into a driver: what stands around lowering, which is the same
 * for all drivers. */
#include <stdatomic.h>

#include "backend/gpu/lower/lower.h"

/* ---- calls that wait for the device ---- */

static bool (*_Atomic stall_begin)(void);
static void (*_Atomic stall_end)(bool begun);

void kl_driver_set_stall(bool (*begin)(void), void (*end)(bool begun)) {
    atomic_store(&stall_end, end);
    atomic_store(&stall_begin, begin);
}

bool kl_driver_stall_begin(void) {
    bool (*begin)(void) = atomic_load_explicit(&stall_begin, memory_order_acquire);
    return begin && begin();
}

void kl_driver_stall_end(bool begun) {
    if (begun) atomic_load (&stall_end)(begun);
}

int kl_driver_load(struct kl_driver *d, const void *binary, size_t bytes, void **module,
                   struct kl_error **err) {
    const bool begun = kl_driver_stall_begin();
    const int rc = d->ops->load(d, binary, bytes, module, err);
    kl_driver_stall_end(begun);
    return rc;
}

int kl_driver_load_program(struct kl_driver *d, const void *program, size_t bytes, const char *name,
                           void **module, struct kl_error **err) {
    const bool begun = kl_driver_stall_begin();
    const int rc = d->ops->load_program(d, program, bytes, name, module, err);
    kl_driver_stall_end(begun);
    return rc;
}

static int takes(struct kl_driver *d, const struct kl_command *c, struct kl_error **err) {
    const bool begun = kl_driver_stall_begin();
    const int rc = d->ops->takes(d, c, err);
    kl_driver_stall_end(begun);
    return rc;
}

static void leave(struct kl_driver *d) {
    if (d->ops->leave) d->ops->leave(d);
}

int kl_driver_start(struct kl_driver *d, const struct kl_command *c, struct kl_pending *pending,
                    size_t *workspace_bytes, struct kl_error **err) {
    *workspace_bytes = 0;
    if (!d->lowering) return d->ops->takes ? takes(d, c, err) : KL_OK;
    KL_TRY(d->ops->enter(d, err));
    const int rc = kl_lower_start(d->lowering, c, pending, workspace_bytes, err);
    leave(d);
    return rc;
}

int kl_driver_prepare(struct kl_driver *d, const struct kl_command *c, size_t *workspace_bytes,
                      struct kl_error **err) {
    return kl_driver_start(d, c, NULL, workspace_bytes, err);
}

bool kl_driver_is_ready(const struct kl_pending *pending) {
    return kl_lower_is_ready(pending);
}

int kl_driver_wait(struct kl_driver *d, const struct kl_pending *pending, struct kl_error **err) {
    if (pending->n == 0) return KL_OK;
    KL_TRY(d->ops->enter(d, err));
    const int rc = kl_lower_wait(pending, err);
    leave(d);
    return rc;
}

void kl_driver_look_ahead(struct kl_driver *d, const struct kl_command *commands, int n,
                          struct kl_pending *pending) {
    if (!d->lowering || d->ops->enter(d, NULL)) return;
    kl_lower_ahead(d->lowering, commands, n, pending);
    leave(d);
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

void kl_driver_forked(struct kl_driver *d) {
    if (d->lowering) kl_lowering_forked(d->lowering);
    d->ops->forked(d);
}
