/* index.h - indices as data: how one is read, and where the failing one of a checked operation is.
 * Pure arithmetic on shapes and parameters; used by the kernels and by whoever turns a fault into
 * an error. */
#pragma once
#include "base/op.h"
#include "base/tensor.h"

/* Whether arrays of dtype can be indices: every integer type. */
bool kl_index_dtype(enum kl_dtype dtype);
/* The index at p, of uint64 its bits. False: not an index dtype. */
bool kl_index_read(const void *p, enum kl_dtype dtype, int64_t *v);
/* n indices, step_bytes apart; uint64 values above INT64_MAX become INT64_MAX, which is out of every
 * range. */
void kl_index_read_run(const void *p, enum kl_dtype dtype, int64_t step_bytes, int64_t n,
                       int64_t *v);
/* The place that index v names on an axis of axis_size elements, of which `extent` are taken from
 * there on: negative v count from the end, once. -1: out of range. */
static inline int64_t kl_index_wrap(int64_t v, int64_t axis_size, int64_t extent) {
    int64_t at = v < 0 ? v + axis_size : v;
    return at >= 0 && at <= axis_size - extent ? at : -1;
}

/* The index operands of a checked operation. */
struct kl_index_use {
    int first, n;    /* inputs first .. first + n - 1 */
    const int *axes; /* of input 0, one per index operand */
    const int
        *extents; /* per axis of input 0: how much is taken from the index on; NULL: 1 everywhere */
};
/* in_1: the operation's second input; source_ndim: of its first. False when op takes no indices. */
bool kl_index_use_of(enum kl_op_id op, const void *params, const struct kl_tensor *in_1,
                     int source_ndim, struct kl_index_use *u);

/* Which index failed at a position. */
struct kl_fault_site {
    int input;      /* the operand that holds it */
    int64_t index;  /* as given, before wrapping; INT64_MAX where it is larger */
    uint64_t above; /* the index where it is above INT64_MAX, else 0 */
    int64_t axis;   /* that it is an index on */
    int64_t axis_size;
    int64_t
        extent; /* elements taken from the index on along the axis; 1 unless slices are longer */
};

/* Finds the lowest axis whose index is out of range at `position` (flat, row-major in the common
 * shape of the indices) of a checked operation with these inputs. `read` gives the element of an
 * input at an offset in elements from the start of its block (t->offset is in it), as kl_index_read
 * gives it; false when it cannot. False when nothing is out of range, or something cannot be
 * read. */
bool kl_fault_locate(enum kl_op_id op, const void *params, int n_in, struct kl_tensor *const *in,
                     int64_t position,
                     bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                     void *ctx, struct kl_fault_site *site);
