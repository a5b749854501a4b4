/* device.h - the devices of the process: the CPU, and the GPUs that a driver found. They are opened
 * on first use and never closed. */
#pragma once
#include "runtime/stream.h"

struct kl_device_fact {
    const char *key;
    const char *string; /* NULL: the fact is a number, `size` */
    size_t size;
};

int kl_device_count(enum kl_device_type type);
bool kl_device_available(enum kl_device_type type, int index);
/* The backend of a device, borrowed and immortal. KL_EDEVICE when there is no such device. */
int kl_device_backend(enum kl_device_type type, int index, struct kl_backend **out,
                      struct kl_error **err);

void kl_device_default(enum kl_device_type *type, int *index);
int kl_device_set_default(enum kl_device_type type, int index, struct kl_error **err);
/* Several processes share the GPUs of this host: where nobody has set a default device, this
 * process's is the GPU of its number, modulo how many there are. Until this is called the number is
 * the one that the launcher's variables say. */
void kl_device_prefer(int rank_on_host);
/* "The GPU", where no index says which: the default device if that is one, else the one that
 * kl_device_choose would take. */
int kl_device_own_gpu(void);
/* Whether the driver of this name, such as "cuda", has devices and KEEL_GPU allows them. This loads
 * no other driver. */
bool kl_device_driver_is_there(const char *name);
/* Whether the driver is there and one of its devices is open: *any. */
int kl_device_driver_opens(const char *name, bool *any, struct kl_error **err);
/* Starts a recording of what the first device of Metal does, in a file at path; path NULL: ends it.
 * KL_EUNSUPPORTED: there is none, or Metal refuses, or none was started. */
int kl_device_capture(const char *path, struct kl_error **err);
/* Makes GPU 0, or the one that kl_device_prefer says, the default device when it is one of CUDA, or
 * of the driver that KEEL_GPU names. *gpu: whether it is. Without KEEL_GPU this loads CUDA's driver
 * alone, unless that has devices and none of them opens. */
int kl_device_choose(bool *gpu, struct kl_error **err);

/* The facts known about a device, borrowed and immortal. *n is their number. */
int kl_device_facts(enum kl_device_type type, int index, const struct kl_device_fact **facts,
                    size_t *n, struct kl_error **err);

/* The block of b that m can use. The value of b must be settled. When the value is in another
 * memory that is not shared with m, it is copied. Borrowed: b owns the copy. */
int kl_buffer_reach(struct kl_buffer *b, struct kl_memory *m, struct kl_block **out,
                    struct kl_error **err);

void kl_devices_fork_child(void);
#ifdef KL_TEST_HOOKS
/* Waits until no command buffer of this GPU is outstanding and its driver holds no event of one. */
void kl_test_device_until_empty(struct kl_backend *gpu);
#endif
