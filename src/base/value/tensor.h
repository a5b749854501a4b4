/* tensor.h - how a value is laid out in its buffer: what kernels need to know, and no more.
 * Shape and strides are final when the array is built. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/number/dtype.h"
#include "base/value/buffer.h"
#include "base/value/fate.h"

enum {
    /* the strides are those of a dense row-major array (axes of size 1 do not matter) */
    KL_ROW_CONTIGUOUS = 1,
    KL_COL_CONTIGUOUS = 2, /* the same for a column-major array */
    KL_DENSE = 4, /* the elements fill `size` consecutive places, in some order of the axes */
};

struct kl_tensor {
    uint8_t dtype;  /* enum kl_dtype */
    uint8_t layout; /* KL_ROW_CONTIGUOUS | ... */
    int ndim;
    int64_t size;   /* elements: the product of dims, 1 for 0-d */
    int64_t offset; /* of element 0 from the start of the block, in elements */
    const int *dims;
    const int64_t *strides; /* in elements; negative and 0 are legal */
    struct kl_fate *fate;
    struct kl_buffer *buffer;
};

/* Row-major strides of dims. */
void kl_strides_row_major(int ndim, const int *dims, int64_t *strides);
/* The layout flags of a shape with these strides. */
uint8_t kl_layout_of(int ndim, const int *dims, const int64_t *strides);
/* Whether the elements are KL_DENSE when broadcast axes (stride 0) are left out. */
bool kl_fills_memory(const struct kl_tensor *t);
/* Computes the number of elements. False when that number, or that number * item_bytes, is over
 * 2^62. */
bool kl_shape_size(int ndim, const int *dims, size_t item_bytes, int64_t *size);
