/* gpu.h - the GPU layer: command buffers, hand-over, settlement, fault words, guards. One for all drivers.
 *
 * Life of an operation here: launch encodes it into the open command buffer of its stream (encode.c); flush hands
 * that to the driver (submit.c); when its event is complete, and every command buffer that it waited for is settled, it is settled: fault words
 * read, fates written in operation order, ticket published (settle.c).
 *
 * Lock: one mutex per device, a leaf. Under it no driver is called, nothing of the user is released. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/driver.h"

/* The driver must outlive it, that is, for ever. NULL with *err when out of memory. */
struct kl_backend *kl_gpu_backend_new(struct kl_driver *driver, int index, struct kl_error **err);

#ifdef KL_TEST_HOOKS
void kl_gpu_revive(
    struct kl_backend *b); /* forgets that the device was lost; nothing may be in flight */
/* Until every command buffer is gone, with what it held and what the driver's threads held for it: some time after its tickets are
 * published. Nothing may be encoded meanwhile. */
void kl_gpu_until_empty(struct kl_backend *b);
#endif
