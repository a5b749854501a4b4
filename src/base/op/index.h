/* index.h - indices as data: how an index is read, and which index of a checked operation is out of
 * range. Pure arithmetic on shapes and parameters. The kernels call it, and so does the code that
 * turns a fault into an error. */
#pragma once
#include "base/op/op.h"
#include "base/value/tensor.h"

/* Whether arrays of dtype can be indices: every integer type. */
bool kl_index_dtype(enum kl_dtype dtype);
/* Reads the index at p into *v; of a uint64, its 64 bits. False when dtype is not an index
 * dtype. */
bool kl_index_read(const void *p, enum kl_dtype dtype, int64_t *v);
/* Reads n indices that are step_bytes apart. uint64 values above INT64_MAX become INT64_MAX, which
 * is out of every range. */
void kl_index_read_run(const void *p, enum kl_dtype dtype, int64_t step_bytes, int64_t n,
                       int64_t *v);
/* The position that index v means on an axis of axis_size elements, when `extent` elements are
 * taken from that position on. A negative v counts from the end of the axis. -1: out of range. */
static inline int64_t kl_index_wrap(int64_t v, int64_t axis_size, int64_t extent) {
    int64_t at = v < 0 ? v + axis_size : v;
    return at >= 0 && at <= axis_size - extent ? at : -1;
}

/* The index operands of a checked operation. */
struct kl_index_use {
    int first, n;    /* inputs first .. first + n - 1 are the index operands */
    const int *axes; /* axes of input 0, one for each index operand */
    /* per axis of input 0: how many elements are taken from the index on; NULL: 1 on every axis */
    const int *extents;
};
/* in_1 is the second input of the operation; source_ndim is the rank of the first. False when op
 * takes no indices. */
bool kl_index_use_of(enum kl_op_id op, const void *params, const struct kl_tensor *in_1,
                     int source_ndim, struct kl_index_use *u);

/* The index that is out of range at a position. */
struct kl_fault_site {
    int input;      /* the operand that holds the index */
    int64_t index;  /* as given, before wrapping; INT64_MAX where it is larger */
    uint64_t above; /* the index where it is above INT64_MAX, else 0 */
    int64_t axis;   /* the axis of input 0 that the index belongs to */
    int64_t axis_size;
    /* elements taken along the axis from the index on; 1 unless slices are longer */
    int64_t extent;
};

/* Finds the lowest axis whose index is out of range at `position` (flat, row-major in the common
 * shape of the indices) of a checked operation with these inputs. `read` gives the element of an
 * input, as kl_index_read gives it, at an offset in elements from the start of the input's block
 * (t->offset included); it returns false when it cannot. kl_fault_locate returns false when no
 * index is out of range, or an index cannot be read. */
bool kl_fault_locate(enum kl_op_id op, const void *params, int n_in, struct kl_tensor *const *in,
                     int64_t position,
                     bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                     void *ctx, struct kl_fault_site *site);
