/* tensor.c - see tensor.h. Works on shapes and strides as plain numbers, and never touches
 * memory. */
#include "base/value/tensor.h"

enum { MAX_LONG_AXES = 62 }; /* axes longer than 1 that a shape under 2^62 elements can have */

void kl_strides_row_major(int ndim, const int *dims, int64_t *strides) {
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= dims[i]; /* cannot overflow: kl_shape_size accepted the shape */
    }
}

/* Whether the axes longer than 1 can be ordered so that each stride is the product of the extents
 * of the axes before. If `repeats`, axes of stride 0 are left out. */
static bool is_dense(int ndim, const int *dims, const int64_t *strides, bool repeats) {
    int order[MAX_LONG_AXES], n = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 1 || (repeats && strides[i] == 0)) continue;
        if (n == MAX_LONG_AXES || strides[i] <= 0) return false;
        int k = n++;
        for (; k > 0 && strides[order[k - 1]] > strides[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    int64_t step = 1;
    for (int k = 0; k < n; k++) {
        if (strides[order[k]] != step) return false;
        step *= dims[order[k]];
    }
    return true;
}

uint8_t kl_layout_of(int ndim, const int *dims, const int64_t *strides) {
    uint8_t layout = KL_ROW_CONTIGUOUS | KL_COL_CONTIGUOUS | KL_DENSE;
    for (int i = 0; i < ndim; i++)
        if (dims[i] == 0) return layout; /* no element can contradict any of the flags */
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (dims[i] == 1) continue;
        if (strides[i] != step) {
            layout &= (uint8_t)~KL_ROW_CONTIGUOUS;
            break;
        }
        step *= dims[i];
    }
    step = 1;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 1) continue;
        if (strides[i] != step) {
            layout &= (uint8_t)~KL_COL_CONTIGUOUS;
            break;
        }
        step *= dims[i];
    }
    if (!(layout & (KL_ROW_CONTIGUOUS | KL_COL_CONTIGUOUS)) &&
        !is_dense(ndim, dims, strides, false))
        layout &= (uint8_t)~KL_DENSE;
    return layout;
}

bool kl_fills_memory(const struct kl_tensor *t) {
    return (t->layout & KL_DENSE) || is_dense(t->ndim, t->dims, t->strides, true);
}

bool kl_shape_size(int ndim, const int *dims, size_t item_bytes, int64_t *size) {
    const uint64_t limit = UINT64_C(1) << 62;
    /* The product of the extents that are not 0. Zeros are left out so that the strides of an empty
     * shape stay in range, too. */
    uint64_t n = 1;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] < 0) return false;
        if (dims[i] == 0) {
            empty = true;
            continue;
        }
        if (__builtin_mul_overflow(n, (uint64_t)dims[i], &n) || n > limit) return false;
    }
    uint64_t bytes;
    if (__builtin_mul_overflow(n, (uint64_t)item_bytes, &bytes) || bytes > limit) return false;
    *size = empty ? 0 : (int64_t)n;
    return true;
}
