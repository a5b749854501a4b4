/* port.h - what the driver of a real device supplies beyond driver.h: programs and launches.
 *
 * The kernels are written once, in the common dialect (kernels/prelude.kl says what it is); lower.c turns commands into launches of them.
 * A driver embeds a kl_port, calls kl_lower from its submit slot, and knows nothing of operations. Any thread may call compile, load,
 * find and limits; launch, copy and scratch are called by the one thread that submits to that queue. Codes: 0, KL_ENOMEM, KL_ECOMPILE, KL_EKERNEL,
 * KL_ESUBMIT, KL_EDEVICELOST; *err says which call of the driver failed. */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct kl_command;
struct kl_port;

/* An argument of a kernel. Device memory is passed as two parameters, base and byte offset, since OpenCL has no pointer arithmetic on the host:
 * in the dialect PTR(x) declares both. */
struct kl_karg {
    /* The address of a plain value, or (bytes == 0) a device address as in kl_arg.data. */
    const void *value;
    size_t bytes; /* 0: a device address; may be NULL, then the kernel must not follow it */
    /* Of a device address: the widest access of the kernel there, of which the address is a
     * multiple: some devices stop at one that is not. lower.c checks it. */
    uint32_t item;
};

/* What compiling has made of a kernel. */
struct kl_kernel_limits {
    uint32_t max_local;  /* work-items per group, at most; 0: as many as the device takes */
    size_t shared_bytes; /* per group, declared in its source */
};

struct kl_port_ops {
    /* Source (complete, the driver's prelude included) to something that can be stored in a file, of kl_malloc, for the caller. Messages quote the compiler's log with
     * `name` as the file. */
    int (*compile)(struct kl_port *p, const char *source, const char *name, void **binary,
                   size_t *bytes, struct kl_error **err);
    /* A binary that compile made, perhaps in another process with the same identity. KL_ECOMPILE: the driver does not take it. */
    int (*load)(struct kl_port *p, const void *binary, size_t bytes, void **module,
                struct kl_error **err);
    /* A kernel of a module, by name. Kernels and modules live for ever. KL_ECOMPILE: there is none. */
    int (*find)(struct kl_port *p, void *module, const char *entry, void **kernel,
                struct kl_error **err);
    /* Asked once, before the first launch. *limits is zero. NULL: the device's own limits are all there are. */
    int (*limits)(struct kl_port *p, void *kernel, struct kl_kernel_limits *limits,
                  struct kl_error **err);
    /* groups work-groups of `local` work-items, in one dimension, behind what is in the queue. */
    int (*launch)(struct kl_port *p, void *queue, void *kernel, uint32_t groups, uint32_t local,
                  const struct kl_karg *args, int n_args, struct kl_error **err);
    /* The same in three dimensions; shared_bytes of dynamic shared memory: where they are not 0 and the language is not CUDA, they are one
     * more argument, the last. */
    int (*launch_3d)(struct kl_port *p, void *queue, void *kernel, const uint32_t *groups,
                     const uint32_t *local, size_t shared_bytes, const struct kl_karg *args,
                     int n_args, struct kl_error **err);
    /* Device to device, behind what is in the queue. */
    int (*copy)(struct kl_port *p, void *queue, void *dst, const void *src, size_t bytes,
                struct kl_error **err);
    /* Memory of the queue for the time of one command, device address, aligned to 64 bytes at least;
     * grows, is never given back. */
    int (*scratch)(struct kl_port *p, void *queue, size_t bytes, void **ptr, struct kl_error **err);
    /* May run a whole command in its own way (a vendor's library): 1 when it did, 0 when not, negative codes. dry: only says whether it would.
     * NULL: never. */
    int (*override)(struct kl_port *p, void *queue, const struct kl_command *c, bool dry,
                    struct kl_error **err);
};

struct kl_port {
    const struct kl_port_ops *ops;
    const char
        *prelude;       /* maps the dialect to the driver's language; comes first in every source */
    char identity[256]; /* driver, device, versions: what a stored binary is good for */
    uint32_t max_local; /* work-items per group, at least 1 */
    size_t local_bytes; /* of shared memory per group */
    uint32_t n_units;   /* multiprocessors or cores */
    bool
        on_processor; /* work-items of a group are a loop: they get more work (kernels/indexed.kl) */
    uint32_t subgroup; /* work-items that run in step; 1 when unknown */
    bool has_f64;      /* else operations on float64 are refused */
    bool has_atomic64; /* 64-bit compare-and-swap */
    bool
        has_wide_sums; /* four float32 are added to memory at once, each atomically (kernels/scatter.kl) */
    /* Of launch_3d. */
    bool is_cuda;           /* compile takes CUDA C++ */
    uint32_t max_groups[3]; /* of a grid, per dimension; 0: no limit */
    uint32_t max_group[3];  /* work-items of a group, per dimension; 0: no limit but max_local */
    size_t dynamic_bytes;   /* most dynamic shared memory; 0: local_bytes */
};

/* What is told of a device to users, without opening it. */
struct kl_gpu_facts {
    char name[128], vendor[64], driver[128], architecture[64];
    size_t memory_bytes;
    uint32_t units;
};
