/* kernel_desc.h - what a custom kernel is: complete source and geometry of one launch. Immutable and shared; text and numbers only. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KL_KERNEL_MAX_ARGS = 24 }; /* inputs and outputs together */

/* The kernel takes, in this order: an address for every input and output, that of the guard, that of the fault words when it raises, and one
 * struct by value. The struct holds, for every argument in `described`: i64 size, i64 strides[ndim, at least 1]; then i32 grid[3], i32
 * index of the guard (-1: none) and of the fault word; then for every one of these i32 dims[ndim, at least 1]. */
struct kl_kernel_desc {
    _Atomic(uint32_t) refs;
    const char *name;   /* as the user knows it; in messages. The texts lie behind the struct */
    const char *entry;  /* of the function */
    const char *source; /* complete, but for the preludes of the common dialect */
    bool is_cuda;       /* CUDA C++ without any prelude; else the common dialect */
    bool raises;        /* may raise errors of its own */
    bool uses_f64;
    bool has_init; /* outputs are filled with init_value first */
    float init_value;
    uint32_t described;  /* bit i: argument i, inputs then outputs */
    int grid[3];         /* threads, positive */
    int group[3];        /* threads of a group, positive */
    size_t shared_bytes; /* dynamic shared memory */
};

/* A copy of *d with texts of its own, and one reference. NULL when out of memory. */
struct kl_kernel_desc *kl_kernel_desc_new(const struct kl_kernel_desc *d);
struct kl_kernel_desc *kl_kernel_desc_retain(struct kl_kernel_desc *d);
void kl_kernel_desc_release(struct kl_kernel_desc *d); /* NULL is fine */
