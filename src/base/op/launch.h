/* launch.h - a kernel call with its operands resolved to addresses. The CPU's kernels take it; the
 * simulated device passes it to them.
 *
 * A checked kernel (KL_OPF_CHECKED) does not stop at an index out of range. At such a position it
 * writes 0 (gather) or nothing (scatter), goes on, and leaves the smallest such position in
 * `fault`. It writes every element of its output. With KL_OPF_OF_MATRICES positions are those of
 * matrices, which it writes as 0 where they fail. */
#pragma once
#include "base/error.h"
#include "base/op/op.h"
#include "base/value/tensor.h"

#define KL_NO_FAULT INT64_MAX

/* KL_OPF_OF_MATRICES: position KL_MATRIX_POSITIONS * i + KL_MATRIX_BAD says that matrix i of the
 * batch is singular, not positive definite, or that iterations did not converge; the next one that
 * it has elements that are NaN or infinite. */
enum { KL_MATRIX_BAD, KL_MATRIX_HAS_NAN, KL_MATRIX_POSITIONS };

struct kl_arg {
    void *data; /* address of element 0 (offset already added); inputs are not written */
    uint8_t dtype;
    uint8_t layout; /* KL_ROW_CONTIGUOUS | ... */
    int ndim;
    int64_t size;
    const int *dims;
    const int64_t *strides; /* in elements */
    /* The only element comes with the command (kl_task_gives): the first bytes of `value`. Then
     * data, an address of the host, tells only that two operands are the same. */
    bool given;
    uint64_t value;
};

/* Who takes the results of a reduction in the place of its output's memory: those of the outputs
 * [begin, begin + n), as long as the call lasts. Any thread calls, once for each output. */
struct kl_takes_results {
    void (*run)(void *ctx, int64_t begin, int64_t n, const void *results);
    void *ctx;
};

struct kl_launch {
    enum kl_op_id op;
    const void *params;
    int n_in, n_out;
    const struct kl_arg *in, *out;
    bool checked;               /* false: every index is proved to be in range, no test is needed */
    int64_t pos_begin, pos_end; /* checked kernels: the index positions to do */
    int64_t fault;              /* result: the smallest failing position, KL_NO_FAULT when none */
    struct kl_error **err; /* for kernels that fail in other ways (no scratch memory, callbacks) */
    const struct kl_takes_results *taker; /* of reductions in a fusion; else NULL */
    struct kl_memory *scratch;            /* the source of large scratch memory; NULL: the heap */
    /* Runs chunk(arg, 0 .. n-1), in any order on any threads, and returns when all chunks are done.
     * A chunk never waits. parallel_short is for work of some ten microseconds, chunks of a few. */
    void (*parallel)(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
    void (*parallel_short)(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);
};

/* The type of kl_launch.parallel. */
typedef void kl_parallel_for(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg);

/* 0, or a negative code with *l->err set. A fault does not make the call fail. */
typedef int kl_kernel_fn(struct kl_launch *l);
