/* share.c - blocks that host and device use at one address, where the driver can do that.
 *
 * Lifetimes need no further rule: the uses of both sides are noted in the one block, so it is
 * neither donated nor reused before all uses are done. This file decides when each side may read.
 * The host reads a block of the device when its value is settled, so no command writes it; a
 * command reads a block of the host under the same rule. Whether a block is shared is decided once
 * per tenancy, because one operation looks its blocks up more than once. */
#include "backend/gpu/gpu_internal.h"

static struct kl_gpu_device *device_of_memory(struct kl_memory *m) {
    return m->impl;
}

/* The memory that the other side may read. It includes the guards, because the other side checks
 * them. */
static void *begin_of(const struct kl_block *b, size_t *bytes) {
    *bytes = b->memory->pool ? b->raw_bytes : b->bytes;
    return b->memory->pool ? b->raw : b->ptr;
}

int kl_gpu_share(struct kl_memory *m, struct kl_block *b, struct kl_error **err) {
    struct kl_gpu_device *dev = device_of_memory(m);
    struct kl_error *lost = atomic_load(&dev->lost);
    size_t bytes;
    void *begin = begin_of(b, &bytes);
    bool shared = atomic_load_explicit(&b->shared_by, memory_order_acquire) != NULL;
    if (shared && dev->driver->copied_on_fork) return KL_OK;
    if (atomic_load(&dev->forked))
        return kl_fail(
            err, KL_EDEVICE,
            "the GPU was used before this process forked; its memory cannot be read in the child");
    if (shared) return KL_OK;
    if (lost) return kl_fail_with(err, kl_error_retain(lost));
    int rc = dev->driver->ops->share(dev->driver, begin, bytes, b->memory == m, err);
    if (rc == KL_EDEVICELOST) kl_gpu_lose(dev, NULL);
    if (rc && rc != KL_EUNSUPPORTED) return rc;
    struct kl_memory *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&b->shared_by, &none, rc ? &kl_memory_copied : m,
                                                 memory_order_acq_rel, memory_order_relaxed) &&
        !rc)
        dev->driver->ops->unshare(dev->driver, begin, bytes, b->memory == m);
    return KL_OK;
}

void kl_gpu_unshare(struct kl_memory *m, struct kl_block *b) {
    struct kl_gpu_device *dev = device_of_memory(m);
    size_t bytes;
    void *begin = begin_of(b, &bytes);
    dev->driver->ops->unshare(dev->driver, begin, bytes, b->memory == m);
}
