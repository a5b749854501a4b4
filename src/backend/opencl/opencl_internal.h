/* opencl_internal.h - the structures of the OpenCL driver; inside backend/opencl/ only. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/lower.h"
#include "backend/gpu/port.h"
#include "backend/opencl/opencl.h"
#include "backend/opencl/opencl_api.h"
#include "base/thread.h"

/* OpenCL 1.2 gives no addresses of device memory to the host. The layers above want one, to add offsets to and to compare: each block has a
 * range of addresses of its own, and this table leads from it to the buffer. Where host and device share memory the range is that memory: the buffer was made over
 * it. Otherwise it is only reserved, and inaccessible. */
struct block {
    char *base;
    size_t bytes;    /* as asked for; base + bytes is still the block's own address */
    size_t reserved; /* of address space, ours; 0: it is not */
    cl_mem mem;
    int n_given; /* it is the host's, which has given it to the device so many times */
};

/* How the host sees blocks of a device. */
enum sharing {
    COPIED,  /* by copies: they are not in the host's memory, as far as we are told */
    MAPPED,  /* in place, between a map and an unmap, which copy nothing on such devices */
    COHERENT /* in place, whenever no command writes (fine-grained shared virtual memory) */
};

/* A device. In a table that lives for ever; the first group is fixed when devices are looked for, the second when it is opened. */
struct opencl {
    struct kl_driver driver; /* first */
    struct kl_port port;
    char name[16]; /* "opencl0" */
    int index;
    cl_platform_id platform;
    cl_device_id device;
    struct kl_gpu_facts facts;
    bool is_gpu;
    char options[128]; /* of the compiler */
    /* The implementation keeps what it compiled on disk itself, and compiles for groups of every
     * size when it is asked for a binary (PoCL): then what is stored of a program is its source. */
    bool keeps_programs;
    size_t memory_bytes, max_alloc_bytes;
    enum sharing sharing;
    size_t
        share_from; /* bytes; to copy less costs less than a buffer over it, or a map and an unmap */

    cl_context context;
    cl_command_queue transfers; /* reads and writes of the host: never behind a stream's work */
    cl_command_queue touches;   /* of new memory: never behind a long transfer */
    struct kl_lowering *lowering;
    struct kl_backend *backend; /* NULL: not opened */

    _Atomic(bool) forked; /* this is the child of the process that opened it */

    struct kl_mutex blocks_mu; /* leaf; guards the table */
    struct block *
        blocks; /* by address, highest first: the system maps downwards, so most are added at the end */
    int n_blocks, blocks_room;
    size_t used_bytes;

    struct kl_mutex
        launching; /* the arguments of a kernel object are set one by one; taken before blocks_mu */

    struct kl_mutex mu; /* leaf; never held while OpenCL is called, whose callbacks take it */
    pthread_cond_t changed;
    bool woken;
    cl_int lost;          /* the status of the command that failed; 0: none has. Guarded by mu */
    bool at_rest;         /* lost, and nothing runs any more; guarded by mu */
    struct queue *queues; /* all; guarded by mu */
};

/* A stream's queue. */
struct queue {
    cl_command_queue cl;
    struct queue *next; /* in the device's list; fixed */
    void *scratch;      /* the submitting thread's */
    size_t scratch_bytes;
};

/* Completion of a command buffer. OpenCL tells it late, perhaps after the event is freed: then the callback frees it. */
struct event {
    _Atomic(uint32_t) refs;
    struct opencl *d;
    cl_event cl; /* NULL until submitted */
    int state;   /* 0 pending, 1 complete, -1 failed; guarded by d->mu */
};

static inline struct opencl *opencl_of(struct kl_driver *d) {
    return (struct opencl *)d;
}

/* ---- opencl_memory.c ---- */
int ocl_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
void ocl_free(struct kl_driver *d, void *ptr, size_t bytes);
int ocl_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
             struct kl_error **err);
int ocl_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
              struct kl_error **err);
int ocl_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
void ocl_words_clear(struct kl_driver *d, struct kl_fault_words *w);
/* The buffer behind an address anywhere inside a block, and the byte offset in it; KL_EINTERNAL when it is none of ours. */
int ocl_place(struct opencl *d, const void *address, cl_mem *mem, size_t *offset,
              struct kl_error **err);
int ocl_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
void ocl_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
/* Whether the device can be asked for anything: not lost, not the child of a fork. */
int ocl_usable(struct opencl *d, struct kl_error **err);

/* ---- opencl_queue.c ---- */
int ocl_queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
int ocl_event_new(struct kl_driver *d, void **event, struct kl_error **err);
void ocl_event_free(struct kl_driver *d, void *event);
int ocl_submit(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
               void *const *waits, int n_waits, struct kl_fault_words *brings_back, void *signal,
               struct kl_error **err);
int ocl_event_query(struct kl_driver *d, void *event);
void ocl_why_lost(struct kl_driver *driver, char *text, size_t room);
void ocl_wait_any(struct kl_driver *d, void *const *events, int n);
void ocl_wake(struct kl_driver *d);
/* A command has failed where no caller can be told: the device is of no further use. */
void ocl_lose(struct opencl *d, cl_int status);
/* 0, or the status that the device was lost with. Who is told of a loss gives memory back, so where that is also the host's it blocks until nothing runs any more. */
cl_int ocl_lost(struct opencl *d);

/* ---- opencl_port.c ---- */
extern const struct kl_port_ops ocl_port_ops;
/* Fills d->port and d->options from what the device says of itself. */
void ocl_port_init(struct opencl *d);

/* ---- opencl.c ---- */
/* What the device says, cut to room; empty when it says nothing. */
void ocl_device_text(cl_device_id device, cl_uint what, char *out, size_t room);
uint64_t ocl_device_number(cl_device_id device, cl_uint what, size_t bytes);
