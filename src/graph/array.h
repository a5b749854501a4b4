/* array.h - lazy arrays and the nodes that make them.
 *
 * An array is a tensor (shape and layout, final from the start; fate; buffer), perhaps with the
 * node that will make it. A node is one operation with its inputs and outputs. An array owns its
 * node. A node owns its inputs. It refers to its outputs without owning them until it is committed;
 * then it owns them until it is done, and they no longer own it. Nothing here recurses: a graph may
 * be a million nodes deep. Any thread may build, retain and release. */
#pragma once
#include "base/op/task.h"
#include "base/value/tensor.h"
#include "runtime/stream.h"

struct kl_node;
struct kl_trace;

struct kl_array {
    _Atomic(uint32_t) refs;
    uint32_t out_index; /* which output of its node */
    bool has_range;     /* every element is proved to be in [lo, hi] (integers) */
    bool implicit;      /* a broadcast that a builder made so that operands have one shape */
    bool multi;         /* one of several outputs: released under the commit lock */
    bool stopped;       /* stop_gradient made it */
    bool shapeless;     /* it follows from an argument of a trace for any shapes: see trace.h */
    bool is_let_go;     /* in the list of arrays to free: it lives, but its task is abandoned */
    int64_t lo, hi;
    /* the node that will make this array; NULL for data, for committed work, and for views of
     * either; guarded by the commit lock */
    struct kl_node *node;
    /* the committed node that makes this array, if it may be abandoned; in the same allocation */
    _Atomic(struct kl_node *) task;
    struct kl_trace *trace;     /* the innermost trace that it belongs to, owned; NULL: none */
    struct kl_array *next_dead; /* in the list of arrays to free */
    struct kl_parts *parts;     /* the allocation it is a part of; NULL: it has its own (views) */
    struct kl_tensor t;         /* dims and strides are stored after this struct */
};

struct kl_array *kl_array_retain(struct kl_array *a);
void kl_array_release(struct kl_array *a); /* NULL is fine */

/* ---- leaves ---- */
/* A settled array over a copy of `data` (row-major; NULL: uninitialised, to be written through
 * kl_array_host). dims may be NULL when ndim is 0. */
int kl_array_new_data(struct kl_array **out, const void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, struct kl_error **err);
/* A settled array over the caller's memory. dtor(payload) runs once, when nobody uses the memory
 * any more. On failure the caller keeps data and payload. */
int kl_array_new_user(struct kl_array **out, void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, void *payload, void (*dtor)(void *), struct kl_error **err);
/* A 0-d array of dtype with the value of x, converted (for KL_C64: x + 0i). */
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
/* The description of an operation. The inputs are borrowed and retained, the parameters copied. */
struct kl_operation {
    enum kl_op_id op;
    struct kl_stream *stream; /* the stream that will run the operation */
    const void *params;
    size_t params_bytes;
    struct kl_array *const *in;
    int n_in;
};
/* Builds a lazy operation: outs[0 .. n_out-1] are new row-major arrays with the dtypes and shapes
 * of specs. Operations with KL_OPF_VIEW go through kl_array_view instead. On failure outs is
 * untouched and *err is set; if the parameters own something (kl_call_params, kl_kernel_params),
 * the caller still owns it. */
int kl_array_op(struct kl_array **outs, int n_out, const struct kl_out_spec *specs,
                const struct kl_operation *o, struct kl_error **err);
/* kl_array_op for the common case of one output. */
int kl_array_op1(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype, int ndim,
                 const int *dims, struct kl_error **err);
/* An operation that is built many times, with the same parameters, dtype and shape: its array and
 * node as they are in memory, to be copied. o->in and o->stream are not used; the operation has one
 * output, is no view, and its parameters own nothing. kl_free frees an image. */
struct kl_image;
int kl_image_new(struct kl_image **out, const struct kl_operation *o,
                 const struct kl_out_spec *spec, struct kl_error **err);
/* Builds on these inputs what kl_array_op would. On success it takes over a reference to each. */
int kl_array_of_image(struct kl_array **out, const struct kl_image *m, struct kl_array *const *in,
                      struct kl_stream *s, struct kl_error **err);
/* A view, which shares fate and buffer of base. Strides and offset are in elements; offset is
 * relative to element 0 of base. The view keeps the proved range of base. op and params are kept
 * for the rules of transforms. */
int kl_array_view(struct kl_array **out, enum kl_op_id op, const void *params, size_t params_bytes,
                  struct kl_array *base, int ndim, const int *dims, const int64_t *strides,
                  int64_t offset, struct kl_error **err);
/* A view that may have another dtype, and therefore has its own offset: `start` is the position of
 * element 0 from the start of the block, in elements of dtype. The proved range is kept when the
 * dtype is that of base. */
int kl_array_view_as(struct kl_array **out, enum kl_op_id op, const void *params,
                     size_t params_bytes, struct kl_array *base, enum kl_dtype dtype, int ndim,
                     const int *dims, const int64_t *strides, int64_t start, struct kl_error **err);
/* States that every element of a is in [lo, hi]. Only the builder of a may call it, before others
 * see a. */
void kl_array_set_range(struct kl_array *a, int64_t lo, int64_t hi);

/* A view in several parts: outs[i] is a view of in[i] with its layout, and all of them belong to
 * one node of the operation o, with all its inputs, which the rules of transforms see. n_out is at
 * most o->n_in. */
int kl_array_view_many(struct kl_array **outs, int n_out, const struct kl_operation *o,
                       struct kl_error **err);

/* Says how messages about a wrong index describe it. a: the result of a checked operation that the
 * caller has just built; any other array is left as it is. lanes: the extent of the first axis of
 * the index operands, which is an axis of vmap; 0: the indices are the same for all lanes. source:
 * axis 0 of the first input is an axis of vmap too, of which the user does not know. */
void kl_array_note_lanes(struct kl_array *a, int lanes, bool source);

/* Sets on whose behalf the calling thread builds from now on; returns what was set before. */
struct kl_origin kl_origin_set(struct kl_origin o);
/* Sets which call of the user the calling thread builds gathers and scatters for, unless it builds
 * for a call already, or for a rule of a transform; returns what kl_origin_set restores. */
struct kl_origin kl_alias_set(enum kl_alias alias);

/* The stream on which a will be made. NULL when a is settled, committed, or a view of such an
 * array. */
struct kl_stream *kl_array_stream(struct kl_array *a);

/* The array that a is a transpose of, retained, while it is still to be computed on the stream s by
 * an element-wise operation without parameters. NULL otherwise. */
struct kl_array *kl_array_turned_map(struct kl_array *a, const struct kl_stream *s);
/* An element-wise operation without parameters. */
enum { KL_MAP_INPUTS = 3 };
struct kl_map_parts {
    enum kl_op_id op;
    int n_in;
    struct kl_array *in[KL_MAP_INPUTS];
};
/* The one that is still to compute a on the stream s, its inputs retained. false: there is none. */
bool kl_array_map_parts(struct kl_array *a, const struct kl_stream *s, struct kl_map_parts *p);

/* Whether a is a placeholder of a trace, or a view of one: what is computed later may have another
 * layout there. */
bool kl_array_of_placeholder(struct kl_array *a);

/* ---- evaluation ---- */
/* Commits, runs and waits. After all arrays have settled, delivers the first failure in argument
 * order, which marks the failure as seen. */
int kl_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err);
/* Commits and hands the work over. The caller executes nothing; it only encodes work for a device
 * that is idle. The result is not 0 only when nothing was committed. */
int kl_async_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err);
bool kl_array_settled(const struct kl_array *a);
/* Evaluates a, then gives the host address of element 0. For device memory that is not shared with
 * the host, it is the address of a copy on the host. It is valid as long as a handle on a lives.
 * When a has failed, returns the code of its failure and sets *err. An empty array gives a non-NULL
 * address that must not be read. */
int kl_array_host(struct kl_array *a, void **data, struct kl_error **err);
