/* driver.h - the seam between the GPU layer and a driver: CUDA, OpenCL, or the simulated device.
 *
 * The GPU layer owns order, faults, fates and lifetimes; a driver knows memory, kernels, queues and events, and nothing of arrays, streams or
 * errors of values. Unless a slot says so it may be called from several threads at once and must not block. Codes: 0, KL_ENOMEM,
 * KL_ESUBMIT, KL_EDEVICELOST; from prepare KL_ECOMPILE too. */
#pragma once
#include "base/launch.h"

/* A chunk of 32-bit words that kernels write with atomic minimum and the host reads after completion. */
struct kl_fault_words {
    _Atomic(uint32_t) refs; /* command buffers that write or read it */
    /* Valid when a command buffer that names the chunk in `brings_back` is complete; where there is a slot words_fetch only whether word 0 is clear is. */
    uint32_t *host;
    void *device;                /* what kernels get */
    int n_used;                  /* the encoding thread's */
    struct kl_fault_words *next; /* in the queue's list of clear chunks */
    void *impl;
};
enum { KL_WORDS = 128 }; /* per chunk; word 0 is the summary */
#define KL_WORD_CLEAR UINT32_MAX

struct kl_word_ref {
    struct kl_fault_words *words;
    int index;
};

enum kl_command_kind {
    KL_CMD_LAUNCH,     /* a kernel */
    KL_CMD_MERGE,      /* word = smallest of the guard words */
    KL_CMD_GUARD_FILL, /* validation: guards of arg[0] spell tenant[0]; its body gets the pattern */
    KL_CMD_GUARD_CHECK, /* validation: guards of every arg against its tenant; a finding goes to `word` as operand * 4 + finding */
};

struct kl_command {
    enum kl_command_kind kind;
    enum kl_op_id op;
    const char *name;
    const void *params;
    size_t params_bytes; /* 0 with params: not known */
    int n_in, n_out;
    struct kl_arg *args; /* inputs, then outputs; data are device addresses */
    uint32_t
        dead; /* bit i: nobody needs the memory of input i afterwards, so that it need not be written when its maker is part of this kernel */
    bool checked;
    int64_t pos_begin,
        pos_end; /* index positions of this launch; a fault is stored as position - pos_begin */
    struct kl_word_ref
        word; /* where a fault goes, and its index into word 0 of the same chunk; words NULL: cannot fault */
    struct kl_word_ref *guards; /* the kernel must not run when any of these is not clear */
    int n_guards;
    uint64_t *tenants; /* validation, per arg */
    size_t *bytes;     /* validation, per arg */
};

struct kl_driver;
struct kl_driver_ops {
    int (*alloc)(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
    void (*free)(struct kl_driver *d, void *ptr, size_t bytes); /* no use is in flight */
    /* Finished on return; may block for the time of the copy. */
    int (*read)(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                struct kl_error **err);
    int (*write)(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                 struct kl_error **err);

    int (*queue_new)(struct kl_driver *d, int stream_index, void **queue,
                     struct kl_error **err); /* never freed */
    int (*event_new)(struct kl_driver *d, void **event, struct kl_error **err);
    void (*event_free)(struct kl_driver *d, void *event);
    int (*words_new)(struct kl_driver *d, struct kl_fault_words *w,
                     struct kl_error **err); /* all clear */
    /* Word 0 is not clear on the host: makes all of w->host valid. KL_EDEVICELOST. NULL: it is already. */
    int (*words_fetch)(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
    void (*words_clear)(struct kl_driver *d, struct kl_fault_words *w); /* no use is in flight */

    /* Makes sure that c can run: compiles what is missing; may block for that. Its failure is that operation's alone. NULL: nothing to do. */
    int (*prepare)(struct kl_driver *d, const struct kl_command *c, struct kl_error **err);

    /* Runs the commands in order on the queue, after the events, and signals. What commands point to lives until the event is
     * complete. On failure nothing of it runs, and `signal` is never signalled. One thread at a time per queue. */
    int (*submit)(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                  void *const *waits, int n_waits, struct kl_fault_words *brings_back, void *signal,
                  struct kl_error **err);
    /* 1 complete, 0 not yet, KL_EDEVICELOST. */
    int (*event_query)(struct kl_driver *d, void *event);
    /* The error that ended a lost device, by its name, for messages; text is left alone when it is not known. NULL: it never is. */
    void (*why_lost)(struct kl_driver *d, char *text, size_t room);
    /* Blocks until one of the events is complete, the device is lost, or wake was called since the last wait. Settlement thread only. */
    void (*wait_any)(struct kl_driver *d, void *const *events, int n);
    void (*wake)(struct kl_driver *d);
    void (*forked)(
        struct kl_driver *d); /* in the child: touch nothing any more; read and write fail */

    /* Where host and device share memory, else NULL. mine: the host will read this block of ours, which no command writes; else commands will read this memory of the
     * host, which nobody writes. At its address, until unshare. KL_EUNSUPPORTED, without *err, when it has to be copied; may block as read does. Both are counted: a
     * race may share twice what is then unshared once. After a loss unshare is still called, after a fork it does nothing. */
    int (*share)(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
    void (*unshare)(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
};

struct kl_driver {
    const struct kl_driver_ops *ops;
    const char *name;
    int64_t max_positions; /* of one checked launch; larger ones are split (below 2^32 - 1) */
    bool apart;  /* it does not compute on the processor: who waits for it may keep that busy */
    bool shares; /* the slot share may say yes; fixed before the device is opened */
    bool
        copied_on_fork; /* the child has what is shared for itself; else commands of the parent may go on writing it */
    _Atomic(int) n_owed; /* events that a thread of the driver's will let go of; for tests */
};
