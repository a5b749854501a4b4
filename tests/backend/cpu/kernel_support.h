/* kernel_support.h - calls kernels directly: launches made from literals, and a loop that runs
 * chunks in reverse order. */
#pragma once
#include "support.h"

#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"

enum { MAX_DIMS = 5 };

/* An operand, with space for its extents and strides. */
struct operand {
    struct kl_arg arg;
    int dims[MAX_DIMS];
    int64_t strides[MAX_DIMS];
};

static inline void describe(struct operand *o) {
    o->arg.dims = o->dims;
    o->arg.strides = o->strides;
    assert_true(kl_shape_size(o->arg.ndim, o->dims, 8, &o->arg.size));
    o->arg.layout = kl_layout_of(o->arg.ndim, o->dims, o->strides);
}

/* A row-major operand. */
static inline struct operand *dense(struct operand *o, void *data, enum kl_dtype dtype, int ndim,
                                    const int *dims) {
    o->arg = (struct kl_arg){.data = data, .dtype = (uint8_t)dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) o->dims[i] = dims[i];
    kl_strides_row_major(ndim, dims, o->strides);
    describe(o);
    return o;
}

static inline struct operand *strided_operand(struct operand *o, void *data, enum kl_dtype dtype,
                                              int ndim, const int *dims, const int64_t *strides) {
    dense(o, data, dtype, ndim, dims);
    for (int i = 0; i < ndim; i++) o->strides[i] = strides[i];
    describe(o);
    return o;
}

static int64_t n_shared; /* number of chunks that ran through backwards() */

/* Runs the chunks in reverse order, since a pool may run them in any order. */
static inline void backwards(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    n_shared += n;
    for (int64_t i = n - 1; i >= 0; i--) chunk(arg, i);
}

/* Runs op, which must succeed. in has up to 4 operands. */
static inline int64_t launch(enum kl_op_id op, const void *params, struct operand *out, int n_in,
                             struct operand *const *in, bool checked, int64_t pos_begin,
                             int64_t pos_end, bool shared) {
    struct kl_arg args[4];
    struct kl_error *err = NULL;
    for (int i = 0; i < n_in; i++) args[i] = in[i]->arg;
    struct kl_launch l = {.op = op,
                          .params = params,
                          .n_in = n_in,
                          .n_out = 1,
                          .in = args,
                          .out = &out->arg,
                          .checked = checked,
                          .pos_begin = pos_begin,
                          .pos_end = pos_end,
                          .fault = KL_NO_FAULT,
                          .err = &err,
                          .parallel = shared ? backwards : NULL};
    assert_non_null(kl_cpu_kernel(op));
    assert_int_equal(kl_cpu_kernel(op)(&l), KL_OK);
    assert_null(err);
    return l.fault;
}
#define DIMS(...)                                                \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) { \
        __VA_ARGS__                                              \
    }
#define STRIDES(...) \
    (int64_t[]) {    \
        __VA_ARGS__  \
    }
#define IN(...)                                                                               \
    (int)(sizeof((struct operand *[]){__VA_ARGS__}) / sizeof(void *)), (struct operand *[]) { \
        __VA_ARGS__                                                                           \
    }
#define RUN(op, params, out, in, shared) launch(op, params, out, in, true, 0, 0, shared)
