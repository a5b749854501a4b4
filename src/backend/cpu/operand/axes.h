/* axes.h - the axes of a reduction's input: which ones are kept and which ones are reduced. */
#pragma once
#include <limits.h>

#include "backend/cpu/operand/tile.h"

/* Axes of length 1 are left out, and axes that are contiguous to each other are merged. Strides in
 * elements. */
struct kl_split {
    int n_kept, n_gone;
    int kept_dims[KL_LONG_AXES], gone_dims[KL_LONG_AXES];
    int64_t kept_strides[KL_LONG_AXES], gone_strides[KL_LONG_AXES];
    /* The number of outputs; the number of elements that each output reduces. */
    int64_t n_out, n_red;
};

static inline void kl_split_add(int *n, int *dims, int64_t *strides, int dim, int64_t stride) {
    if (*n && strides[*n - 1] == stride * dim && (int64_t)dims[*n - 1] * dim <= INT_MAX) {
        dims[*n - 1] *= dim;
        strides[*n - 1] = stride;
    } else if (*n < KL_LONG_AXES) {
        dims[*n] = dim;
        strides[(*n)++] = stride;
    }
}

static inline void kl_split_axes(struct kl_split *s, const struct kl_arg *in, int n_axes,
                                 const int *axes) {
    int next = 0;
    s->n_kept = s->n_gone = 0;
    s->n_out = s->n_red = 1;
    for (int i = 0; i < in->ndim; i++) {
        bool gone = next < n_axes && axes[next] == i;
        next += gone;
        if (gone)
            s->n_red *= in->dims[i];
        else
            s->n_out *= in->dims[i];
        if (in->dims[i] == 1) continue;
        if (gone)
            kl_split_add(&s->n_gone, s->gone_dims, s->gone_strides, in->dims[i], in->strides[i]);
        else
            kl_split_add(&s->n_kept, s->kept_dims, s->kept_strides, in->dims[i], in->strides[i]);
    }
}

/* Whether neighbouring outputs lie closer together in memory than neighbouring elements of one
 * reduction. */
static inline bool kl_split_columns(const struct kl_split *s) {
    if (!s->n_kept || !s->n_gone) return false;
    int64_t kept = s->kept_strides[s->n_kept - 1], gone = s->gone_strides[s->n_gone - 1];
    return (kept < 0 ? -kept : kept) < (gone < 0 ? -gone : gone);
}

/* How many neighbouring outputs have elements that are contiguous in memory; 0 where neighbours do
 * not. */
static inline int64_t kl_split_run(const struct kl_split *s) {
    return s->n_kept && s->kept_strides[s->n_kept - 1] == 1 ? s->kept_dims[s->n_kept - 1] : 0;
}
