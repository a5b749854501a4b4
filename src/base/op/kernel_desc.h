/* kernel_desc.h - the description of a custom kernel: the complete source, or a compiled program,
 * and the geometry of one launch. A description is immutable and shared. It holds text, numbers and
 * the bytes of a program only. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KL_KERNEL_MAX_ARGS = 24,  /* inputs and outputs together */
    KL_KERNEL_MAX_PARAMS = 32 /* inputs, outputs and scalars of a compiled program together */
};

/* A number that a kernel of a compiled program takes by value. */
struct kl_kernel_scalar {
    uint32_t bytes; /* 1 or 4 */
    char value[4];
};

/* The parameters of a kernel made from source are, in this order: an address for every input and
 * output, the address of the guard, the address of the fault words when the kernel raises, and one
 * struct by value. The struct holds, for every argument in `described`: i64 size, i64 strides[ndim,
 * at least 1]; then i32 grid[3], i32 index of the guard (-1: none) and of the fault word; then,
 * again for every argument in `described`, i32 dims[ndim, at least 1].
 *
 * The parameters of a kernel of a compiled program are one address for every input and output, and
 * then the scalars. Such a kernel knows no guards. */
struct kl_kernel_desc {
    _Atomic(uint32_t) refs;
    const char *name;  /* the name that the user gave, for messages; text after the struct */
    const char *entry; /* name of the function; text after the struct */
    /* Complete, without the preludes of the common dialect; or a program of CUDA (PTX, a CUBIN or a
     * fatbin). After the struct, followed by a zero byte. */
    const char *source;
    size_t program_bytes; /* of the program, without that zero byte; 0: a source */
    int n_scalars;        /* of a program */
    struct kl_kernel_scalar scalars[KL_KERNEL_MAX_PARAMS];
    /* CUDA C++ or Metal's language, without any prelude; else the common dialect */
    bool is_cuda, is_metal;
    bool raises; /* the kernel may raise errors */
    bool uses_f64;
    bool row_contiguous; /* every input is row-contiguous */
    bool has_init;       /* outputs are filled with init_value first */
    float init_value;
    uint32_t described;  /* bit i: argument i, inputs first, then outputs */
    int grid[3];         /* threads in all, positive */
    int group[3];        /* threads of a work-group, positive */
    size_t shared_bytes; /* dynamic shared memory of a work-group */
};

/* A copy of *d with its own copies of the texts, and one reference. NULL when out of memory. */
struct kl_kernel_desc *kl_kernel_desc_new(const struct kl_kernel_desc *d);
struct kl_kernel_desc *kl_kernel_desc_retain(struct kl_kernel_desc *d);
void kl_kernel_desc_release(struct kl_kernel_desc *d); /* NULL is fine */
