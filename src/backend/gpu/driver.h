/* driver.h - what a driver (CUDA, OpenCL, the simulated device) fills for the GPU layer: one table
 * of functions, and the facts about the device.
 *
 * The GPU layer owns order, faults, fates and lifetimes; lower/ turns commands into launches. A
 * driver knows memory, queues, events, programs and launches, but no arrays, streams or operations.
 * Unless the comment of a slot says otherwise, several threads may call it at once, it must not
 * block, and it is never NULL. Codes: 0, KL_ENOMEM, KL_ESUBMIT, KL_EDEVICELOST, KL_EDEVICE. */
#pragma once
#include "backend/exchange.h"
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

/* An argument of a kernel. Device memory is passed as two parameters, base and byte offset, because
 * OpenCL has no pointer arithmetic on the host; in the dialect PTR(x) declares both. */
struct kl_karg {
    /* The address of a plain value, or, when bytes is 0, a device address as in kl_arg.data. */
    const void *value;
    /* 0: `value` is a device address; it may be NULL when the kernel does not follow it */
    size_t bytes;
    /* For device addresses: the widest access of the kernel there, in bytes. The address must be a
     * multiple of it, since some devices stop at a misaligned access. lower/ checks it. */
    uint32_t item;
};

/* Limits of one compiled kernel. */
struct kl_kernel_limits {
    uint32_t max_local;  /* most work-items per group; 0: only the limit of the device holds */
    size_t shared_bytes; /* shared memory per group that the source declares */
};

/* Kernels that a command needs and that are still compiled. The structures are immortal. */
enum { KL_MOST_PENDING = 24 };
struct kl_compiled;
struct kl_pending {
    int n;
    struct kl_compiled *kernel[KL_MOST_PENDING];
};

/* Words of a queue in which kernels count their groups. */
enum { KL_COUNTERS = 1024 };

struct kl_driver;
struct kl_emit;
struct kl_lowering;
struct kl_driver_ops {
    /* ---- memory ---- */
    int (*alloc)(struct kl_driver *d, size_t bytes, void **ptr, struct kl_error **err);
    /* Called when no use is in flight. */
    void (*free)(struct kl_driver *d, void *ptr, size_t bytes);
    /* Copies between device and host. The copy is finished on return; the slot may block that
     * long. */
    int (*read)(struct kl_driver *d, const void *ptr, size_t offset, void *dst, size_t n,
                struct kl_error **err);
    int (*write)(struct kl_driver *d, void *ptr, size_t offset, const void *src, size_t n,
                 struct kl_error **err);

    /* ---- queues, events and fault words ---- */
    /* Queues are never freed. */
    int (*queue_new)(struct kl_driver *d, int stream_index, void **queue, struct kl_error **err);
    /* The address of KL_COUNTERS words of 32 bits that belong to the queue, and are 0 whenever none
     * of its kernels runs. NULL unless the driver has counts_groups. */
    void *(*counters)(void *queue);
    int (*event_new)(struct kl_driver *d, void **event, struct kl_error **err);
    void (*event_free)(struct kl_driver *d, void *event);
    /* Makes a chunk in which all words are clear. */
    int (*words_new)(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
    /* Called when word 0 is not clear on the host: makes all of w->host valid. KL_EDEVICELOST.
     * NULL: all words are valid without it. */
    int (*words_fetch)(struct kl_driver *d, struct kl_fault_words *w, struct kl_error **err);
    /* Called when no use is in flight. */
    void (*words_clear)(struct kl_driver *d, struct kl_fault_words *w);

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

    /* ---- shared memory ---- */
    /* Makes a block usable by host and device at its one address, until unshare. NULL unless both
     * share memory. mine: the host will read this block of the device, which no command writes
     * meanwhile. Otherwise commands will read this block of the host, which nobody writes
     * meanwhile. KL_EUNSUPPORTED, without *err: the block has to be copied. May block as read does.
     * Calls are counted, since a race may share a block twice; each share is followed by one
     * unshare. unshare is still called after a loss; after a fork it does nothing. */
    int (*share)(struct kl_driver *d, void *ptr, size_t bytes, bool mine, struct kl_error **err);
    void (*unshare)(struct kl_driver *d, void *ptr, size_t bytes, bool mine);

    /* ---- programs, called between enter and leave ---- */
    /* Kernels are compiled on threads of the library, several at once: such a thread calls enter,
     * compile, load, find, limits and leave between these two. begin: false: not any more, since
     * the process ends; the thread that needs the kernel compiles it then. Both NULL: kernels are
     * compiled, one at a time, by the threads that need them. */
    bool (*helper_begin)(struct kl_driver *d);
    void (*helper_end)(struct kl_driver *d);
    /* The calling thread will call the slots below until `leave`; called for each operation.
     * KL_EDEVICE: the device cannot be used in this process (a fork), or the process ends. */
    int (*enter)(struct kl_driver *d, struct kl_error **err);
    void (*leave)(struct kl_driver *d); /* NULL: there is nothing to do */
    /* Compiles a complete source (with the driver's prelude) to a binary that can be stored in a
     * file. The caller owns *binary (kl_malloc). Messages quote the compiler's log with `name` as
     * the file. KL_ECOMPILE. */
    int (*compile)(struct kl_driver *d, const char *source, const char *name, void **binary,
                   size_t *bytes, struct kl_error **err);
    /* Loads a binary that compile made, perhaps in another process with the same identity.
     * KL_ECOMPILE: the driver does not take it. */
    int (*load)(struct kl_driver *d, const void *binary, size_t bytes, void **module,
                struct kl_error **err);
    /* Loads a program that the user compiled, and that names the kernel `name` in messages.
     * KL_ECOMPILE: the driver does not take it. NULL: the driver takes kernels as source only. */
    int (*load_program)(struct kl_driver *d, const void *program, size_t bytes, const char *name,
                        void **module, struct kl_error **err);
    /* Finds a kernel of a module by name. Kernels and modules live for ever. KL_ECOMPILE: there is
     * no such kernel. */
    int (*find)(struct kl_driver *d, void *module, const char *entry, void **kernel,
                struct kl_error **err);
    /* Called once per kernel, before its first launch; *limits is zero then. NULL: kernels have no
     * limits beyond those of the device. */
    int (*limits)(struct kl_driver *d, void *kernel, struct kl_kernel_limits *limits,
                  struct kl_error **err);

    /* ---- submissions, called by kl_driver_submit; one thread at a time per queue ---- */
    /* Launches in the queue start after the events from now on. It is followed by launches
     * and then by `end` or `abandon`, but for a failure: then nothing is left to do. Does what
     * `enter` does. */
    int (*begin)(struct kl_driver *d, void *queue, void *const *waits, int n_waits,
                 struct kl_error **err);
    /* Signals the event when everything launched since `begin` is complete, after making
     * `brings_back`, which may be NULL, valid on the host. On failure it never will, and `abandon`
     * follows. Otherwise does what `leave` does. */
    int (*end)(struct kl_driver *d, void *queue, struct kl_fault_words *brings_back, void *signal,
               struct kl_error **err);
    /* After a launch or `end` failed: waits until nothing that was launched runs any more, since
     * the memory that it uses is about to be released, and does what `leave` does. Blocks.
     * KL_EDEVICELOST: that will never be known. */
    int (*abandon)(struct kl_driver *d, void *queue);
    /* Launches `groups` work-groups of `local` work-items, in one dimension, after everything that
     * is in the queue. This slot and those down to `copy` are called between begin and end, and
     * also return KL_EKERNEL; *err names the call of the driver that failed. */
    int (*launch)(struct kl_driver *d, void *queue, void *kernel, uint32_t groups, uint32_t local,
                  const struct kl_karg *args, int n_args, struct kl_error **err);
    /* The same in three dimensions, with shared_bytes of dynamic shared memory. When shared_bytes
     * is not 0 and the driver does not compile CUDA C++, that memory is one more argument, the last
     * one. */
    int (*launch_3d)(struct kl_driver *d, void *queue, void *kernel, const uint32_t *groups,
                     const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                     int n_args, struct kl_error **err);
    /* As launch_3d, for kernels of load_program: it begins when everything before it in the queue
     * is complete. Kernels of the dialect wait for that themselves (BEGIN). NULL where load_program
     * is NULL. */
    int (*launch_program)(struct kl_driver *d, void *queue, void *kernel, const uint32_t *groups,
                          const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                          int n_args, struct kl_error **err);
    /* Copies from device to device, after everything that is in the queue. */
    int (*copy)(struct kl_driver *d, void *queue, void *dst, const void *src, size_t bytes,
                struct kl_error **err);
    /* May run a whole command in another way (by a vendor's library): 1 when it did, 0 when it did
     * not, or a negative code. In a dry run it only says whether it would, and asks for the
     * workspace (kl_emit_workspace). NULL: the driver never does so. */
    int (*override)(struct kl_emit *e, const struct kl_command *c);

    /* ---- communicators of the devices of several processes; all NULL: there are none ---- */
    /* Says why communicators cannot be made; NULL: they can. */
    const char *(*comm_missing)(struct kl_driver *d);
    /* A number of this device that no other one of the host has, the same in all processes. */
    int64_t (*comm_device)(struct kl_driver *d);
    /* Makes the address of a new communicator. */
    int (*comm_id)(struct kl_driver *d, char id[KL_COMM_ID_BYTES], struct kl_error **err);
    /* Begins to make a communicator of `size` processes, all of which call this with the same
     * address. It does not wait for them. KL_EGROUP. */
    int (*comm_new)(struct kl_driver *d, const char *id, int rank, int size, void **comm,
                    struct kl_error **err);
    /* 1: all processes have joined; 0: not yet; KL_EGROUP: it has failed. */
    int (*comm_state)(struct kl_driver *d, void *comm, struct kl_error **err);
    /* Ends a communicator, of which nothing is under way; false: call it again later. abort:
     * exchanges that are under way end now, whatever the others do; their results mean nothing. May
     * block for milliseconds. */
    bool (*comm_end)(struct kl_driver *d, void *comm, bool abort);
    /* A word of the host's memory, which is 0: kernels read it at *device while the host writes it.
     * It lives for ever. */
    int (*comm_flag)(struct kl_driver *d, _Atomic(int64_t) **host, void **device,
                     struct kl_error **err);
    /* Starts an exchange after everything that is in the queue; called between begin and end. One
     * exchange of a communicator at a time. KL_EGROUP. */
    int (*exchange)(struct kl_driver *d, void *queue, void *comm, const struct kl_transfer *t,
                    struct kl_error **err);

    /* ---- in place of programs and submissions: a driver without kernels of its own ---- */
    /* As kl_driver_submit. NULL: commands are lowered to launches. When it is not NULL, slots of
     * programs and submissions are NULL. */
    int (*run)(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
               void *const *waits, int n_waits, struct kl_fault_words *brings_back, void *signal,
               struct kl_error **err);
    /* Whether `run` can run c. A failure is the failure of that operation alone. NULL: it runs
     * every command. */
    int (*takes)(struct kl_driver *d, const struct kl_command *c, struct kl_error **err);
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
    struct kl_lowering *lowering; /* of kl_lowering_new; NULL for a driver with the slot `run` */

    /* ---- the fields below concern programs ---- */
    /* Maps the dialect to the driver's language; the first part of every source. */
    const char *prelude;
    /* Driver, device and versions: a stored binary is valid for this identity only. */
    char identity[256];
    uint32_t max_local; /* work-items per group, at least 1 */
    size_t local_bytes; /* shared memory per group */
    uint32_t n_units;   /* multiprocessors or cores */
    /* The work-items of a group run as a loop, so each gets more work (kernels/index.kl). */
    bool on_processor;
    uint32_t subgroup; /* work-items that run in step (a sub-group); 1 when unknown */
    int max_args;      /* of one launch; 0: as many as lower/ makes */
    bool has_f64;      /* without it operations on float64 are refused */
    bool has_atomic64; /* the device has 64-bit compare-and-swap */
    /* The device adds four float32 to memory at once, each atomically
     * (kernels/index_scatter.kl). */
    bool has_wide_sums;
    /* Its addition of float32 to memory takes denormal numbers for zero, and makes none. */
    bool flushes_sums;
    /* Single words that go to many places far apart are stored faster by an atomic exchange
     * (kernels/index_scatter.kl). */
    bool fast_exchange;
    bool has_matrix_units; /* the device multiplies matrices of 16-bit floats (attention.kl) */
    bool has_sub_matrix;   /* the prelude has HAS_SUB_MATRIX (prelude.kl) */
    bool has_warp_groups;  /* four sub-groups do so together (product_gather_sm90.kl) */
    /* The prelude has LAST_GROUP, which counts the groups of a launch in the slot `counters`. */
    bool counts_groups;
    /* The prelude leaves out the kernels of a source that are not wanted (ONE_KERNEL). */
    bool leaves_out;
    /* The prelude has MERGED_KERNEL: several launches of a kernel can be one, side by side. */
    bool merges;
    /* Kernels of users: */
    bool compiles_cuda;     /* `compile` takes CUDA C++ too */
    bool compiles_metal;    /* `compile` takes Metal's language too */
    size_t argument_bytes;  /* most bytes of the arguments of one launch, at most 4096 */
    uint32_t max_groups[3]; /* of a grid, per dimension; 0: no limit */
    /* work-items of a group, per dimension; 0: only max_local limits them */
    uint32_t max_group[3];
    size_t dynamic_bytes; /* most dynamic shared memory of a group; 0: as local_bytes */

    /* The number of completion callbacks that a thread of the driver has still to run. Each of them
     * holds a reference to its event. Only tests read it: they wait until it is 0 before they count
     * what is left. */
    _Atomic(int) n_owed;
};

/* Around a call that waits for all that runs on the device, with a lock that launches need, as CUDA
 * does when it loads a kernel or frees memory: no exchange that other processes count on is kept
 * back by it. begin returns what end takes. The caller holds no lock that the hand-over of an
 * exchange needs. */
bool kl_driver_stall_begin(void);
void kl_driver_stall_end(bool begun);
/* The functions that these two call. */
void kl_driver_set_stall(bool (*begin)(void), void (*end)(bool begun));
/* The slots load and load_program, which may wait for all that runs on the device. */
int kl_driver_load(struct kl_driver *d, const void *binary, size_t bytes, void **module,
                   struct kl_error **err);
int kl_driver_load_program(struct kl_driver *d, const void *program, size_t bytes, const char *name,
                           void **module, struct kl_error **err);

/* Makes sure that c can run: compiles the missing kernels, and may block for that. Sets
 * *workspace_bytes to the size of the workspace that c must have when it is submitted; 0: none. A
 * failure, KL_ECOMPILE among them, is the failure of that operation alone. */
int kl_driver_prepare(struct kl_driver *d, const struct kl_command *c, size_t *workspace_bytes,
                      struct kl_error **err);
/* The same without waiting for compilers: kernels that are still compiled are added to *pending,
 * and a failure of one is told by kl_driver_wait. */
int kl_driver_start(struct kl_driver *d, const struct kl_command *c, struct kl_pending *pending,
                    size_t *workspace_bytes, struct kl_error **err);
/* Whether these kernels are compiled, or have failed. */
bool kl_driver_is_ready(const struct kl_pending *pending);
/* Waits until they are compiled. KL_ECOMPILE and others: the failure of the first one that
 * failed. */
int kl_driver_wait(struct kl_driver *d, const struct kl_pending *pending, struct kl_error **err);
/* Starts to compile what the submission of these commands will need and kl_driver_start did not
 * know: kernels of several commands together. Adds what is not ready to *pending. */
void kl_driver_look_ahead(struct kl_driver *d, const struct kl_command *commands, int n,
                          struct kl_pending *pending);
/* Runs the commands in order on the queue, after the events, and then signals. All that the
 * commands point to lives until the event is complete. On failure none of the commands runs,
 * `signal` is never signalled, and the words are clear. One thread at a time per queue. */
int kl_driver_submit(struct kl_driver *d, void *queue, const struct kl_command *commands, int n,
                     void *const *waits, int n_waits, struct kl_fault_words *brings_back,
                     void *signal, struct kl_error **err);

/* In the child of a fork: as the slot `forked`, and nothing goes on being compiled. */
void kl_driver_forked(struct kl_driver *d);

/* The facts that users are told of a device that is not opened. */
struct kl_gpu_facts {
    char name[128], vendor[64], driver[128], architecture[64];
    size_t memory_bytes;
    uint32_t units;
};
