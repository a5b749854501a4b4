/* cpu_block.c - see cpu_block.h. */
#include "backend/cpu/cpu_block.h"

enum { MIN_SIZE = 1 << 14 }; /* elements; below, all lines stay in the cache anyway */

int kl_block_axis(const struct kl_arg *const *operands, int n) {
    for (int k = 0; k < n; k++) {
        const struct kl_arg *a = operands[k];
        if (!a || a->size < MIN_SIZE || a->ndim < 2 || a->ndim + 2 > KL_BLOCK_AXES) continue;
        int last = a->ndim - 1;
        int64_t step = a->strides[last] < 0 ? -a->strides[last] : a->strides[last];
        if (a->dims[last] < 2 * KL_BLOCK || step < KL_BLOCK)
            continue; /* a block itself is not cut again */
        for (int i = 0; i < last; i++)
            if (a->strides[i] == 1 && a->dims[i] >= 2 * KL_BLOCK) return i;
    }
    return -1;
}

int kl_block_cut(struct kl_region *regions, const struct kl_arg *out, int axis) {
    int64_t rows = out->dims[axis], cols = out->dims[out->ndim - 1];
    int64_t whole_rows = rows / KL_BLOCK * KL_BLOCK, whole_cols = cols / KL_BLOCK * KL_BLOCK;
    int n = 0;
    regions[n++] = (struct kl_region){axis, 0, whole_rows, 0, whole_cols, true};
    if (cols > whole_cols)
        regions[n++] =
            (struct kl_region){axis, 0, whole_rows, whole_cols, cols - whole_cols, false};
    if (rows > whole_rows)
        regions[n++] = (struct kl_region){axis, whole_rows, rows - whole_rows, 0, cols, false};
    return n;
}

const struct kl_arg *kl_block_view(struct kl_block_arg *to, const struct kl_arg *a,
                                   const struct kl_region *r) {
    int last = a->ndim - 1, n = 0;
    int64_t row_step = a->strides[r->axis], col_step = a->strides[last];
    to->arg = *a;
    to->arg.data = (char *)a->data +
                   (r->row * row_step + r->col * col_step) * (int64_t)kl_dtype_size(a->dtype);
    to->arg.size = r->rows * r->cols;
    for (int i = 0; i < last; i++) {
        to->dims[n] = i == r->axis ? (int)(r->blocks ? r->rows / KL_BLOCK : r->rows) : a->dims[i];
        to->strides[n++] = i == r->axis && r->blocks ? row_step * KL_BLOCK : a->strides[i];
        if (i != r->axis) to->arg.size *= a->dims[i];
    }
    to->dims[n] = (int)(r->blocks ? r->cols / KL_BLOCK : r->cols);
    to->strides[n++] = r->blocks ? col_step * KL_BLOCK : col_step;
    if (r->blocks) {
        to->dims[n] = to->dims[n + 1] = KL_BLOCK;
        to->strides[n++] = row_step;
        to->strides[n++] = col_step;
    }
    to->arg.ndim = n;
    to->arg.dims = to->dims;
    to->arg.strides = to->strides;
    to->arg.layout = kl_layout_of(n, to->dims, to->strides);
    return &to->arg;
}
