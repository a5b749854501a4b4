/* opencl_internal.h - the structures of the OpenCL driver. Only files of backend/opencl/ include
 * it. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/lower/lower.h"
#include "backend/gpu/places.h"
#include "backend/opencl/opencl.h"
#include "backend/opencl/opencl_api.h"
#include "base/thread.h"

/* How the host accesses blocks of a device. */
enum kl_opencl_sharing {
    KL_OPENCL_COPIED, /* by copies: the device reports no memory in common with the host */
    KL_OPENCL_MAPPED, /* in place, between a map and an unmap, which copy nothing on such devices */
    /* In place, whenever no command writes (fine-grained shared virtual memory). */
    KL_OPENCL_COHERENT
};

/* A device, in a table that lives for ever. The first group of fields is fixed when devices are
 * looked for, the second when the device is opened. */
struct kl_opencl {
    struct kl_driver driver; /* first */
    char name[16];           /* "opencl0" */
    int index;
    cl_platform_id platform;
    cl_device_id device;
    struct kl_gpu_facts facts;
    bool is_gpu;
    char options[128]; /* options of the compiler */
    /* Options that are tried first: with them the prelude declares the built-in functions, and the
     * compiler does not. Empty: there are none. */
    char brief_options[192];
    /* The implementation itself keeps on disk what it compiled, and compiles for groups of every
     * size when it is asked for a binary (PoCL). Then the source is stored instead of the
     * binary. */
    bool keeps_programs;
    size_t memory_bytes, max_alloc_bytes;
    enum kl_opencl_sharing sharing;
    /* The fewest bytes that are shared. A copy of fewer bytes takes less time than making a buffer
     * over them, or a map and an unmap. */
    size_t share_from;

    cl_context context;
    /* For reads and writes of the host, so that they never wait for the work of a stream. */
    cl_command_queue transfers;
    /* For the first use of new memory, so that it never waits for a long transfer. */
    cl_command_queue touches;
    struct kl_backend *backend; /* NULL: the device is not opened */

    _Atomic(bool) forked; /* this process is a child of the process that opened the device */

    /* OpenCL 1.2 gives the host no addresses of device memory, but the layers above need an
     * address, to add offsets to it and to compare it. So each block has an address range of its
     * own. Where host and device share memory, the range is that memory, and the buffer was made
     * over it. Otherwise the range is only reserved (reserved: its bytes; 0: the range is the
     * host's), and inaccessible. */
    struct kl_places places;

    /* Held while the arguments of a kernel object are set, one by one, until its launch. Taken
     * before the lock of places. */
    struct kl_mutex launching;

    struct kl_mutex mu; /* a leaf; not held during calls of OpenCL, because its callbacks take it */
    pthread_cond_t changed;
    bool woken;
    cl_int lost;  /* the status of the command that failed; 0: none failed. Guarded by mu */
    bool at_rest; /* the device is lost and no command runs any more; guarded by mu */
    struct kl_opencl_queue *queues; /* all queues; guarded by mu */
};

/* The queue of a stream. */
struct kl_opencl_queue {
    cl_command_queue cl;
    struct kl_opencl_queue *next; /* next in the device's list; fixed */
};

/* Completion of a command buffer. OpenCL may report it after event_free was called; then the
 * callback frees the event. */
struct kl_opencl_event {
    _Atomic(uint32_t) refs;
    struct kl_opencl *d;
    cl_event cl; /* NULL until submitted */
    int state;   /* 0 pending, 1 complete, -1 failed; guarded by d->mu */
};

static inline struct kl_opencl *kl_opencl_of(struct kl_driver *d) {
    return (struct kl_opencl *)d;
}

/* ---- opencl_memory.c ---- */
int kl_opencl_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
void kl_opencl_free(struct kl_driver *d, void *ptr, size_t bytes);
int kl_opencl_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                   struct kl_error **err);
int kl_opencl_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                    struct kl_error **err);
int kl_opencl_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
void kl_opencl_words_clear(struct kl_driver *d, struct kl_fault_words *w);
/* Finds the buffer and the byte offset in it for an address anywhere inside a block. KL_EINTERNAL:
 * no block has the address. */
int kl_opencl_place(struct kl_opencl *d, const void *address, cl_mem *mem, size_t *offset,
                    struct kl_error **err);
int kl_opencl_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
void kl_opencl_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
/* KL_OK when the device can be used; fails when it is lost or this is the child of a fork. */
int kl_opencl_usable(struct kl_opencl *d, struct kl_error **err);

/* ---- opencl_queue.c ---- */
int kl_opencl_queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
int kl_opencl_event_new(struct kl_driver *d, void **event, struct kl_error **err);
void kl_opencl_event_free(struct kl_driver *d, void *event);
int kl_opencl_begin(struct kl_driver *driver, void *queue, void *const *waits, int n_waits,
                    struct kl_error **err);
int kl_opencl_end(struct kl_driver *driver, void *queue, struct kl_fault_words *brings_back,
                  void *signal, struct kl_error **err);
int kl_opencl_abandon(struct kl_driver *driver, void *queue);
int kl_opencl_event_query(struct kl_driver *d, void *event);
void kl_opencl_why_lost(struct kl_driver *driver, char *text, size_t room);
void kl_opencl_wait_any(struct kl_driver *d, void *const *events, int n);
void kl_opencl_wake(struct kl_driver *d);
/* Marks the device as lost, after a command failed where no caller can be told. */
void kl_opencl_lose(struct kl_opencl *d, cl_int status);
/* 0, or the status with which the device was lost. A caller that learns of a loss releases memory;
 * where that is also the host's memory, this blocks until no command runs any more. */
cl_int kl_opencl_lost(struct kl_opencl *d);

/* ---- opencl_launch.c ---- */
int kl_opencl_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                      size_t *bytes, struct kl_error **err);
int kl_opencl_load_binary(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                          struct kl_error **err);
int kl_opencl_find(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                   struct kl_error **err);
int kl_opencl_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                     struct kl_error **err);
int kl_opencl_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                     uint32_t local, const struct kl_karg *args, int n_args, struct kl_error **err);
int kl_opencl_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                        const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                        int n_args, struct kl_error **err);
int kl_opencl_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                   struct kl_error **err);
/* Fills the facts about programs in d->driver, and d->options, from what the device reports of
 * itself. */
void kl_opencl_programs_init(struct kl_opencl *d);

/* ---- opencl.c ---- */
/* Does nothing when the process ends. A callback of OpenCL may call it. */
void kl_opencl_release_event(cl_event event);
/* A text that the device reports, cut to `room`; empty when there is none. */
void kl_opencl_device_text(cl_device_id device, cl_uint what, char *out, size_t room);
uint64_t kl_opencl_device_number(cl_device_id device, cl_uint what, size_t bytes);
