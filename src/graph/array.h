/* array.h - lazy arrays and the nodes that make them.
 *
 * An array is a tensor (shape and layout, final from the start; fate; buffer), perhaps with the node that will make it. A node is one operation with
 * its inputs and outputs. An array owns its node; a node owns its inputs and knows its outputs weakly until it is
 * committed; then it owns them until it is done, and they let go of it. Nothing here recurses: graphs may be a million deep.
 * Any thread may build, retain and release; node fields belong to the commit lock. */
#pragma once
#include "base/tensor.h"
#include "runtime/stream.h"

struct kl_node;

struct kl_array {
    _Atomic(uint32_t) refs;
    uint32_t out_index;   /* which output of its node */
    uint16_t trace_level; /* 0: an ordinary array; else a tracer of that level */
    bool has_range;       /* every element is proved to be in [lo, hi] (integers) */
    bool multi;           /* one of several outputs: released under the commit lock */
    int64_t lo, hi;
    struct kl_node *
        node; /* who will make it; NULL for data, for committed work and for views of such. Commit lock. */
    struct kl_array *next_dead; /* while being freed */
    struct kl_parts *parts;     /* the allocation it is a part of; NULL: its own (views) */
    struct kl_tensor t;         /* dims and strides lie behind this struct */
};

struct kl_array *kl_array_retain(struct kl_array *a);
void kl_array_release(struct kl_array *a); /* NULL is fine */

/* ---- leaves ---- */
/* A settled array over a copy of `data` (row-major; NULL: uninitialised, see kl_array_host). dims may be NULL when ndim is 0. */
int kl_array_new_data(struct kl_array **out, const void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, struct kl_error **err);
/* A settled array over the caller's memory; dtor(payload) runs once when nobody uses it. On failure nothing was taken. */
int kl_array_new_user(struct kl_array **out, void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, void *payload, void (*dtor)(void *), struct kl_error **err);
/* A 0-d array of dtype holding x converted (or, for KL_C64, x + 0i). */
int kl_array_new_scalar(struct kl_array **out, double x, enum kl_dtype dtype,
                        struct kl_error **err);
/* An array that has failed from the start with e (retained). */
int kl_array_new_failed(struct kl_array **out, enum kl_dtype dtype, int ndim, const int *dims,
                        struct kl_error *e, struct kl_error **err);

/* ---- operations ---- */
struct kl_out_spec {
    enum kl_dtype dtype;
    int ndim;
    const int *dims;
};
/* What an operation is made of. The inputs are borrowed and retained, the parameters copied. */
struct kl_operation {
    enum kl_op_id op;
    struct kl_stream *stream; /* on which it will run */
    const void *params;
    size_t params_bytes;
    struct kl_array *const *in;
    int n_in;
};
/* A lazy operation: outs[0 .. n_out-1] are new row-major arrays, as specs say. Operations with
 * KL_OPF_VIEW go through kl_array_view. On failure outs is untouched and *err set; parameters that own
 * something (kl_call_params, kl_kernel_params) are then still the caller's. */
int kl_array_op(struct kl_array **outs, int n_out, const struct kl_out_spec *specs,
                const struct kl_operation *o, struct kl_error **err);
/* The common case: one output. */
int kl_array_op1(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype, int ndim,
                 const int *dims, struct kl_error **err);
/* A view: shares fate and buffer of base. Strides and offset in elements; offset is relative to element 0 of base. Keeps
 * base's proved range. params as for op (kept for the rules of transforms). */
int kl_array_view(struct kl_array **out, enum kl_op_id op, const void *params, size_t params_bytes,
                  struct kl_array *base, int ndim, const int *dims, const int64_t *strides,
                  int64_t offset, struct kl_error **err);
/* The same with another dtype and therefore an offset of its own: `start` is where element 0 lies from the start of the block, in elements of dtype. The
 * proved range is kept when the dtype stays. */
int kl_array_view_as(struct kl_array **out, enum kl_op_id op, const void *params,
                     size_t params_bytes, struct kl_array *base, enum kl_dtype dtype, int ndim,
                     const int *dims, const int64_t *strides, int64_t start, struct kl_error **err);
/* States that every element of a is in [lo, hi]. Only for the builder, before a is seen by others. */
void kl_array_set_range(struct kl_array *a, int64_t lo, int64_t hi);

/* The stream on which a will be made; NULL when it is settled, under way, or a view of such. */
struct kl_stream *kl_array_stream(struct kl_array *a);

/* ---- evaluation ---- */
/* Commits, runs and waits; reports the first failure in argument order after all have settled. Delivers it (marks it seen). */
int kl_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err);
/* Commits and hands over; executes nothing on the caller, who only encodes for a device that stands idle. Non-zero only when nothing was committed. */
int kl_async_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err);
bool kl_array_settled(const struct kl_array *a);
/* Evaluates a, then gives the host address of element 0 (in device memory that is not shared: of a shadow), valid as long as a handle on a
 * lives. The failure of a, with *err, when it failed. Empty arrays give a non-NULL address that must not be read. */
int kl_array_host(struct kl_array *a, void **data, struct kl_error **err);
