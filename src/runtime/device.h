/* device.h - which devices there are: the CPU, and the GPUs that a driver found. Opened on first use; never closed. */
#pragma once
#include "runtime/stream.h"

struct kl_device_fact {
    const char *key;
    const char *string; /* NULL: a number */
    size_t size;
};

int kl_device_count(enum kl_device_type type);
bool kl_device_available(enum kl_device_type type, int index);
/* The backend of a device; KL_EDEVICE when there is none. Borrowed, immortal. */
int kl_device_backend(enum kl_device_type type, int index, struct kl_backend **out,
                      struct kl_error **err);

void kl_device_default(enum kl_device_type *type, int *index);
int kl_device_set_default(enum kl_device_type type, int index, struct kl_error **err);

/* What is known of a device: borrowed, immortal. *n is their number. */
int kl_device_facts(enum kl_device_type type, int index, const struct kl_device_fact **facts,
                    size_t *n, struct kl_error **err);

/* The block of b as m sees it. It is copied there when it lies elsewhere and is not shared; the value
 * of b must be settled. Borrowed: b owns the copy. */
int kl_buffer_reach(struct kl_buffer *b, struct kl_memory *m, struct kl_block **out,
                    struct kl_error **err);

void kl_devices_fork_child(void);
#ifdef KL_TEST_HOOKS
/* Until nothing is left of what the host was told of this GPU. */
void kl_test_device_until_empty(struct kl_backend *gpu);
#endif
