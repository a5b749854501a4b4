/* port.h - what the driver of a real device supplies beyond driver.h: programs and launches.
 *
 * The kernels are written in the common dialect (kernels/prelude.kl defines it); lower.c turns
 * commands into launches. A driver embeds a kl_port and calls kl_lower from its submit slot; it
 * knows no operations. Any thread may call compile, load, find and limits; only the thread that
 * submits to the queue calls launch and copy. Codes: 0, KL_ENOMEM, KL_ECOMPILE,
 * KL_EKERNEL, KL_ESUBMIT, KL_EDEVICELOST; *err names the call of the driver that failed. */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct kl_command;
struct kl_emit;
struct kl_port;

/* An argument of a kernel. Device memory is passed as two parameters, base and byte offset, because
 * OpenCL has no pointer arithmetic on the host; in the dialect PTR(x) declares both. */
struct kl_karg {
    /* The address of a plain value, or, when bytes is 0, a device address as in kl_arg.data. */
    const void *value;
    /* 0: `value` is a device address; it may be NULL when the kernel does not follow it */
    size_t bytes;
    /* For device addresses: the widest access of the kernel there, in bytes. The address must be a
     * multiple of it, since some devices stop at a misaligned access. lower.c checks it. */
    uint32_t item;
};

/* Limits of one compiled kernel. */
struct kl_kernel_limits {
    uint32_t max_local;  /* most work-items per group; 0: only the limit of the device holds */
    size_t shared_bytes; /* shared memory per group that the source declares */
};

struct kl_port_ops {
    /* Compiles a complete source (with the driver's prelude) to a binary that can be stored in a
     * file. The caller owns *binary (kl_malloc). Messages quote the compiler's log with `name` as
     * the file. */
    int (*compile)(struct kl_port *p, const char *source, const char *name, void **binary,
                   size_t *bytes, struct kl_error **err);
    /* Loads a binary that compile made, perhaps in another process with the same identity.
     * KL_ECOMPILE: the driver does not take it. */
    int (*load)(struct kl_port *p, const void *binary, size_t bytes, void **module,
                struct kl_error **err);
    /* Finds a kernel of a module by name. Kernels and modules live for ever. KL_ECOMPILE: there is
     * no such kernel. */
    int (*find)(struct kl_port *p, void *module, const char *entry, void **kernel,
                struct kl_error **err);
    /* Called once per kernel, before its first launch; *limits is zero then. NULL: kernels have no
     * limits beyond those of the device. */
    int (*limits)(struct kl_port *p, void *kernel, struct kl_kernel_limits *limits,
                  struct kl_error **err);
    /* Launches `groups` work-groups of `local` work-items, in one dimension, after everything that
     * is in the queue. */
    int (*launch)(struct kl_port *p, void *queue, void *kernel, uint32_t groups, uint32_t local,
                  const struct kl_karg *args, int n_args, struct kl_error **err);
    /* The same in three dimensions, with shared_bytes of dynamic shared memory. When shared_bytes
     * is not 0 and the port does not compile CUDA C++, that memory is one more argument, the last
     * one. */
    int (*launch_3d)(struct kl_port *p, void *queue, void *kernel, const uint32_t *groups,
                     const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                     int n_args, struct kl_error **err);
    /* Loads a program that the user compiled, and that names the kernel `name` in messages.
     * KL_ECOMPILE: the driver does not take it. NULL: the port takes kernels as source only. */
    int (*load_program)(struct kl_port *p, const void *program, size_t bytes, const char *name,
                        void **module, struct kl_error **err);
    /* As launch_3d, for kernels of such programs: it begins when everything before it in the queue
     * is complete. Kernels of the dialect wait for that themselves (BEGIN). */
    int (*launch_program)(struct kl_port *p, void *queue, void *kernel, const uint32_t *groups,
                          const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                          int n_args, struct kl_error **err);
    /* Copies from device to device, after everything that is in the queue. */
    int (*copy)(struct kl_port *p, void *queue, void *dst, const void *src, size_t bytes,
                struct kl_error **err);
    /* May run a whole command in another way (by a vendor's library): 1 when it did, 0 when it did
     * not, or a negative code. In a dry run it only says whether it would, and asks for the
     * workspace (kl_emit_workspace). NULL: the port never does so. */
    int (*override)(struct kl_emit *e, const struct kl_command *c);
};

struct kl_port {
    const struct kl_port_ops *ops;
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
    bool has_f64;      /* without it operations on float64 are refused */
    bool has_atomic64; /* the device has 64-bit compare-and-swap */
    /* The device adds four float32 to memory at once, each atomically
     * (kernels/index_scatter.kl). */
    bool has_wide_sums;
    /* The prelude has MERGED_KERNEL: several launches of a kernel can be one, side by side. */
    bool merges;
    /* Single words that go to many places far apart are stored faster by an atomic exchange
     * (kernels/index_scatter.kl). */
    bool fast_exchange;
    bool has_matrix_units; /* the device multiplies matrices of 16-bit floats (attention.kl) */
    /* The fields below concern launch_3d. */
    bool compiles_cuda;     /* `compile` takes CUDA C++ too, for kernels of users */
    size_t argument_bytes;  /* most bytes of the arguments of one launch, at most 4096 */
    uint32_t max_groups[3]; /* of a grid, per dimension; 0: no limit */
    /* work-items of a group, per dimension; 0: only max_local limits them */
    uint32_t max_group[3];
    size_t dynamic_bytes; /* most dynamic shared memory of a group; 0: as local_bytes */
};

/* What users are told of a device that is not opened. */
struct kl_gpu_facts {
    char name[128], vendor[64], driver[128], architecture[64];
    size_t memory_bytes;
    uint32_t units;
};
