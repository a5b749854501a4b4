/* params.h - the parameter structs of op_params.h with space for their trailing lists, to be
 * put on the stack. Each function fills one and returns the number of bytes used. */
#pragma once
#include <stddef.h>
#include <string.h>

#include "base/op/op_params.h"
#include "ops/build/check.h"

struct kl_dims_buf {
    int n;
    int v[KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_dims_buf, v) == offsetof(struct kl_dims_params, v), "one layout");
_Static_assert(offsetof(struct kl_dims_buf, v) == offsetof(struct kl_reduce_params, axes),
               "one layout");

/* Also fills kl_reduce_params. */
static inline size_t kl_dims_params(struct kl_dims_buf *p, int n, const int *v) {
    p->n = n;
    if (n) memcpy(p->v, v, (size_t)n * sizeof *v);
    return offsetof(struct kl_dims_buf, v) + (size_t)n * sizeof *v;
}

struct kl_var_buf {
    int ddof, n;
    int v[KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_var_buf, v) == offsetof(struct kl_var_params, axes),
               "one layout");

static inline size_t kl_var_params_bytes(const struct kl_var_buf *p) {
    return offsetof(struct kl_var_buf, v) + (size_t)p->n * sizeof *p->v;
}

struct kl_slice_buf {
    int ndim;
    int64_t v[2 * KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_slice_buf, v) == offsetof(struct kl_slice_params, v),
               "one layout");

static inline size_t kl_slice_params_bytes(const struct kl_slice_buf *p) {
    return offsetof(struct kl_slice_buf, v) + 2 * (size_t)p->ndim * sizeof *p->v;
}

struct kl_strided_buf {
    int ndim;
    int64_t v[1 + KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_strided_buf, v) == offsetof(struct kl_strided_params, v),
               "one layout");

static inline size_t kl_strided_params_bytes(const struct kl_strided_buf *p) {
    return offsetof(struct kl_strided_buf, v) + (1 + (size_t)p->ndim) * sizeof *p->v;
}

struct kl_gather_buf {
    int n_axes, ndim;
    int v[2 * KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_gather_buf, v) == offsetof(struct kl_gather_params, v),
               "one layout");

static inline size_t kl_gather_params_bytes(const struct kl_gather_buf *p) {
    return offsetof(struct kl_gather_buf, v) + (size_t)(p->n_axes + p->ndim) * sizeof *p->v;
}

struct kl_scatter_buf {
    enum kl_scatter_mode mode;
    int n_axes;
    int axes[KL_MAX_NDIM];
};
_Static_assert(offsetof(struct kl_scatter_buf, axes) == offsetof(struct kl_scatter_params, axes),
               "one layout");

static inline size_t kl_scatter_params_bytes(const struct kl_scatter_buf *p) {
    return offsetof(struct kl_scatter_buf, axes) + (size_t)p->n_axes * sizeof *p->axes;
}
