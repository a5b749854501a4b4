/* driver.h - the interface between the GPU layer and a driver: CUDA, OpenCL, or the simulated
 * device.
 *
 * The GPU layer owns order, faults, fates and lifetimes. A driver knows memory, kernels, queues and
 * events, but nothing of arrays, streams or errors of values. Unless the comment of a slot says
 * otherwise, several threads may call the slot at once, and it must not block. Codes: 0, KL_ENOMEM,
 * KL_ESUBMIT, KL_EDEVICELOST; prepare also returns KL_ECOMPILE. */
#pragma once
#include "base/op/launch.h"

/* A chunk of 32-bit words. Kernels write them with an atomic minimum; the host reads them after
 * completion. */
struct kl_fault_words {
    _Atomic(uint32_t) refs; /* command buffers that write or read the chunk */
    /* The words as the host sees them. Valid when a command buffer that names the chunk in
     * `brings_back` is complete. With a driver that has the slot words_fetch, only whether word 0
     * is clear is valid then. */
    uint32_t *host;
    void *device;                /* the address that kernels take */
    int n_used;                  /* owned by the encoding thread */
    struct kl_fault_words *next; /* in the queue's list of clear chunks */
    void *impl;
};
enum { KL_WORDS = 128 }; /* per chunk; word 0 is the summary */
#define KL_WORD_CLEAR UINT32_MAX

struct kl_word_ref {
    struct kl_fault_words *words;
    int index;
};

/* Commands of a run that becomes one kernel, and different operands that it reads. */
enum { KL_FUSED_STEPS = 24, KL_FUSED_LEAVES = 10 };

enum kl_command_kind {
    KL_CMD_LAUNCH, /* a kernel */
    KL_CMD_MERGE,  /* word = the smallest of the guard words */
    /* Validation: writes tenant[0] into the guards of arg[0] and the pattern into its body. */
    KL_CMD_GUARD_FILL,
    /* Validation: checks the guards of every arg against its tenant; a finding is written to `word`
     * as operand * 4 + finding. */
    KL_CMD_GUARD_CHECK,
};

struct kl_command {
    enum kl_command_kind kind;
    enum kl_op_id op;
    const char *name;
    const void *params;
    size_t params_bytes; /* 0 while params is not NULL: the size is not known */
    int n_in, n_out;
    struct kl_arg *args; /* inputs, then outputs; data holds device addresses */
    /* Bit i: no operation needs the memory of input i afterwards. When the operation that makes it
     * is part of the same kernel, the kernel need not store it. */
    uint32_t dead;
    bool checked;
    /* The index positions of this launch; a fault is stored as position - pos_begin. */
    int64_t pos_begin, pos_end;
    /* The word to which a fault is written; the index of that word goes to word 0 of the same
     * chunk. words is NULL when the command cannot fault. */
    struct kl_word_ref word;
    struct kl_word_ref *guards; /* the kernel must not run unless all of these are clear */
    int n_guards;
    /* Memory that only the kernels of this command use; NULL when `prepare` asked for none. */
    void *workspace;
    size_t workspace_bytes;
    uint64_t *tenants; /* validation: one per arg */
    size_t *bytes;     /* validation: one per arg */
};

struct kl_driver;
struct kl_driver_ops {
    int (*alloc)(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
    /* Called when no use is in flight. */
    void (*free)(struct kl_driver *d, void *ptr, size_t bytes);
    /* Copies between device and host. The copy is finished on return; the slot may block that
     * long. */
    int (*read)(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                struct kl_error **err);
    int (*write)(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                 struct kl_error **err);

    /* Queues are never freed. */
    int (*queue_new)(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
    int (*event_new)(struct kl_driver *d, void **event, struct kl_error **err);
    void (*event_free)(struct kl_driver *d, void *event);
    /* Makes a chunk in which all words are clear. */
    int (*words_new)(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
    /* Called when word 0 is not clear on the host: makes all of w->host valid. KL_EDEVICELOST.
     * NULL: all words are valid without it. */
    int (*words_fetch)(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
    /* Called when no use is in flight. */
    void (*words_clear)(struct kl_driver *d, struct kl_fault_words *w);

    /* Makes sure that c can run: compiles the missing kernels, and may block for that. Sets
     * *workspace_bytes to the size of the workspace that c must have when it is submitted; 0: none.
     * A failure is the failure of that operation alone. NULL: nothing to do. */
    int (*prepare)(struct kl_driver *d, const struct kl_command *c, size_t *workspace_bytes,
                   struct kl_error **err);

    /* Runs the commands in order on the queue, after the events, and then signals. What the
     * commands point to lives until the event is complete. On failure none of the commands runs,
     * and `signal` is never signalled. One thread at a time per queue. */
    int (*submit)(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                  void *const *waits, int n_waits, struct kl_fault_words *brings_back, void *signal,
                  struct kl_error **err);
    /* 1: complete; 0: not yet; KL_EDEVICELOST. */
    int (*event_query)(struct kl_driver *d, void *event);
    /* Writes the name of the error that ended a lost device into text, for messages. Leaves text
     * alone when the error is not known. NULL: the driver never knows it. */
    void (*why_lost)(struct kl_driver *d, char *text, size_t room);
    /* Blocks until one of the events is complete, the device is lost, or wake was called since the
     * last wait. Only the settlement thread calls it. */
    void (*wait_any)(struct kl_driver *d, void *const *events, int n);
    void (*wake)(struct kl_driver *d);
    /* In the child of a fork: touches nothing from now on; read and write fail. */
    void (*forked)(struct kl_driver *d);

    /* Makes a block usable by host and device at its one address, until unshare. NULL unless both
     * share memory. mine: the host will read this block of the device, which no command writes
     * meanwhile. Otherwise commands will read this block of the host, which nobody writes
     * meanwhile. KL_EUNSUPPORTED, without *err: the block has to be copied. May block as read does.
     * Calls are counted, since a race may share a block twice; each share is followed by one
     * unshare. unshare is still called after a loss; after a fork it does nothing. */
    int (*share)(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
    void (*unshare)(struct kl_driver *d, void *ptr, size_t bytes, bool mine);
};

struct kl_driver {
    const struct kl_driver_ops *ops;
    const char *name;
    int64_t max_positions; /* of one checked launch (below 2^32 - 1); larger operations are split */
    /* The device does not compute on the processor: a thread that waits may keep the processor
     * busy. */
    bool apart;
    bool shares; /* the slot share may succeed; fixed before the device is opened */
    /* After a fork the child has its own copy of shared blocks. Otherwise commands of the parent
     * may go on writing them. */
    bool copied_on_fork;
    /* The number of completion callbacks that a thread of the driver has still to run. Each of them
     * holds a reference to its event. Only tests read it: they wait until it is 0 before they count
     * what is left. */
    _Atomic(int) n_owed;
};
