/* gpu.h - the GPU layer: command buffers, hand-over, settlement, fault words and guards, the same
 * for all drivers.
 *
 * launch encodes an operation into the open command buffer of its stream (encode.c); flush hands
 * that to the driver (submit.c); later it is settled in order: fault words are read, fates written,
 * tickets published (settle.c). Lock: one mutex per device, a leaf. While it is held, no driver is
 * called and no object of the user is released. */
#pragma once
#include "backend/backend.h"
#include "backend/gpu/driver.h"

/* The driver must live for ever, because the backend does. NULL with *err when out of memory. */
struct kl_backend *kl_gpu_backend_new(struct kl_driver *driver, int index, struct kl_error **err);

/* Communicators of a device with those of other processes: the slots of its driver (driver.h).
 * kl_gpu_comm_missing: why there are none, or NULL; then the others must not be called. */
const char *kl_gpu_comm_missing(struct kl_backend *b);
int64_t kl_gpu_comm_device(struct kl_backend *b);
int kl_gpu_comm_id(struct kl_backend *b, char *id, struct kl_error **err);
int kl_gpu_comm_new(struct kl_backend *b, const char *id, int rank, int size, void **comm,
                    struct kl_error **err);
int kl_gpu_comm_state(struct kl_backend *b, void *comm, struct kl_error **err);
bool kl_gpu_comm_end(struct kl_backend *b, void *comm, bool abort);
int kl_gpu_comm_flag(struct kl_backend *b, _Atomic(int64_t) **host, void **device,
                     struct kl_error **err);
/* Something has come for which the settlement of an exchange may wait. Never blocks. */
void kl_gpu_nudge(struct kl_backend *b);

#ifdef KL_TEST_HOOKS
/* Forgets that the device was lost. Nothing may be in flight. */
void kl_gpu_revive(struct kl_backend *b);
/* Waits until every command buffer is freed, with what it held and what the threads of the driver
 * held for it; that happens some time after its tickets are published. Nothing may be encoded
 * meanwhile. */
void kl_gpu_until_empty(struct kl_backend *b);
#endif
