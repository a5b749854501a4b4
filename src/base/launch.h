/* launch.h - a kernel call: operands resolved to addresses. What the CPU's kernels take, and what the simulated
 * device hands to them.
 *
 * Checked kernels (KL_OPF_CHECKED) are total: at a position whose index is out of range they clamp and write 0 (gather)
 * or nothing (scatter), go on, and leave the smallest such position in `fault`. They write every element of their output. */
#pragma once
#include "base/error.h"
#include "base/op.h"
#include "base/tensor.h"

#define KL_NO_FAULT INT64_MAX

struct kl_arg {
    void *data; /* address of element 0 (offset already added); inputs are not written */
    uint8_t dtype;
    uint8_t layout; /* KL_ROW_CONTIGUOUS | ... */
    int ndim;
    int64_t size;
    const int *dims;
    const int64_t *strides; /* in elements */
};

struct kl_launch {
    enum kl_op_id op;
    const void *params;
    int n_in, n_out;
    const struct kl_arg *in, *out;
    bool checked; /* false: indices are proved, no test needed */
    int64_t pos_begin,
        pos_end;           /* checked kernels: the index positions to do; fault is among them */
    int64_t fault;         /* out: smallest failing position, KL_NO_FAULT when none */
    struct kl_error **err; /* for kernels that fail in other ways (no scratch memory, callbacks) */
    struct kl_memory *scratch; /* what large scratch memory is taken from; NULL: the heap */
    /* Runs chunk(arg, 0 .. n-1), in any order on any threads, and returns when all are done. A chunk never waits. */
    void (*parallel)(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
};

/* As kl_launch.parallel. */
typedef void kl_parallel_for(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);

/* 0, or a negative code with *l->err set. Faults are no failure of the call. */
typedef int kl_kernel_fn(struct kl_launch *l);
