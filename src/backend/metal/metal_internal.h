/* metal_internal.h - the structures of the Metal driver. Only files of backend/metal/ include
 * it. */
#pragma once
#include "backend/gpu/driver.h"
#include "backend/gpu/places.h"
#include "backend/metal/metal.h"
#include "backend/metal/metal_api.h"
#include "base/thread.h"

/* A device, in a table that lives for ever. The first group of fields is fixed when devices are
 * looked for, the second when the device is opened. */
struct kl_metal {
    struct kl_driver driver; /* first */
    char name[16];           /* "metal0" */
    int index;
    kl_metal_id device;
    struct kl_gpu_facts facts;
    size_t working_set_bytes, max_buffer_bytes, page_bytes;

    struct kl_backend *backend; /* NULL: the device is not opened */
    kl_metal_id options;        /* of the compiler */
    /* The buffer that is bound for an address which a kernel does not follow. */
    kl_metal_id nothing;

    _Atomic(bool) forked; /* this process is a child of the process that opened the device */

    /* An address of device memory is the host's address of the same memory; the objects are
     * buffers. */
    struct kl_places places;

    /* The library that `compile` made last, and its source, for the `load` that follows. */
    struct kl_mutex fresh_mu; /* a leaf */
    char *fresh_source;
    size_t fresh_bytes;
    kl_metal_id fresh;

    struct kl_metal_block handler; /* of every command buffer */
    struct kl_mutex mu;            /* a leaf; handlers of Metal take it */
    pthread_cond_t changed;
    bool woken, lost;
    char why[160];                 /* the words of the error that ended the device */
    struct kl_metal_event *flight; /* submissions that are not complete */
    struct kl_metal_queue *queues;
};

/* The queue of a stream. The fields of the submission belong to the thread between begin and
 * end. */
struct kl_metal_queue {
    kl_metal_id queue;
    /* A submission signals it with the next number; the next one waits for that number, since
     * nothing else orders the memory accesses of two command buffers. */
    kl_metal_id event;
    uint64_t signalled;
    kl_metal_id fence;           /* between the encoders of one command buffer */
    struct kl_metal_queue *next; /* in the device's list; fixed */

    void *pool;
    kl_metal_id buffer, encoder; /* encoder: NULL until the first launch, and during a copy */
    bool fenced;                 /* the next encoder waits for the fence */
};

/* Completion of a command buffer. The handler holds a reference. */
struct kl_metal_event {
    _Atomic(uint32_t) refs;
    struct kl_metal *d;
    kl_metal_id event; /* of the queue; NULL until submitted */
    uint64_t value;    /* at which the event says that this submission is complete */
    int state;         /* 0 pending, 1 complete, -1 failed; guarded by d->mu */
    kl_metal_id buffer;
    struct kl_metal_event *next; /* in d->flight */
};

static inline struct kl_metal *kl_metal_of(struct kl_driver *d) {
    return (struct kl_metal *)d;
}

/* ---- metal_memory.c ---- */
int kl_metal_alloc(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
void kl_metal_free(struct kl_driver *d, void *ptr, size_t bytes);
int kl_metal_read(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                  struct kl_error **err);
int kl_metal_write(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                   struct kl_error **err);
int kl_metal_words_new(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
void kl_metal_words_clear(struct kl_driver *d, struct kl_fault_words *w);
int kl_metal_share(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
void kl_metal_unshare(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
/* Finds the buffer and the byte offset in it for an address anywhere inside a block. KL_EINTERNAL:
 * no block has the address. */
int kl_metal_place(struct kl_metal *d, const void *address, kl_metal_id *buffer, size_t *offset,
                   struct kl_error **err);
/* KL_OK when the device can be used; fails when it is lost or this is the child of a fork. */
int kl_metal_usable(struct kl_metal *d, struct kl_error **err);

/* ---- metal_queue.c ---- */
int kl_metal_queue_new(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
int kl_metal_event_new(struct kl_driver *d, void **event, struct kl_error **err);
void kl_metal_event_free(struct kl_driver *d, void *event);
int kl_metal_begin(struct kl_driver *driver, void *queue, void *const *waits, int n_waits,
                   struct kl_error **err);
int kl_metal_end(struct kl_driver *driver, void *queue, struct kl_fault_words *brings_back,
                 void *signal, struct kl_error **err);
int kl_metal_abandon(struct kl_driver *driver, void *queue);
int kl_metal_event_query(struct kl_driver *d, void *event);
void kl_metal_why_lost(struct kl_driver *driver, char *text, size_t room);
void kl_metal_wait_any(struct kl_driver *d, void *const *events, int n);
void kl_metal_wake(struct kl_driver *d);
void kl_metal_handler_init(struct kl_metal *d);
/* Whether the device is lost. A caller that learns of a loss releases memory, which commands may
 * still use: so this blocks until none runs any more. */
bool kl_metal_is_lost(struct kl_metal *d);

/* ---- metal.c ---- */
kl_metal_id kl_metal_device(int index);

/* ---- metal_launch.c ---- */
int kl_metal_launch(struct kl_driver *driver, void *queue, void *kernel, uint32_t groups,
                    uint32_t local, const struct kl_karg *args, int n_args, struct kl_error **err);
int kl_metal_launch_3d(struct kl_driver *driver, void *queue, void *kernel, const uint32_t *groups,
                       const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                       int n_args, struct kl_error **err);
int kl_metal_copy(struct kl_driver *driver, void *queue, void *dst, const void *src, size_t bytes,
                  struct kl_error **err);
/* Ends the encoder of the submission, if there is one. */
void kl_metal_close_encoder(struct kl_metal_queue *q);

/* ---- metal_program.c ---- */
int kl_metal_compile(struct kl_driver *driver, const char *source, const char *name, void **binary,
                     size_t *bytes, struct kl_error **err);
int kl_metal_load_source(struct kl_driver *driver, const void *binary, size_t bytes, void **module,
                         struct kl_error **err);
int kl_metal_find_kernel(struct kl_driver *driver, void *module, const char *entry, void **kernel,
                         struct kl_error **err);
int kl_metal_limits(struct kl_driver *driver, void *kernel, struct kl_kernel_limits *limits,
                    struct kl_error **err);
/* Fills the facts about programs in d->driver, and d->options. KL_ENOMEM. */
int kl_metal_programs_init(struct kl_metal *d, struct kl_error **err);
