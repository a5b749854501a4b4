/* axes.h - the axes of one or two operands that a kernel walks together, with neighbouring axes
 * merged where the strides allow it. For the families whose kernels take one space per launch:
 * reductions, sorts and products. */
#pragma once
#include "backend/gpu/lower/lower.h"

enum { KL_AXES_MAX = 64, KL_AXES_OPERANDS = 2 };

/* The outermost axis comes first. */
struct kl_axes {
    int64_t n; /* positions */
    int ndim;
    int64_t dims[KL_AXES_MAX]; /* each fits 32 bits, also when merged */
    int64_t strides[KL_AXES_OPERANDS][KL_AXES_MAX];
};
#define KL_NO_AXES ((struct kl_axes){.n = 1})

/* Adds an axis inside those that are present. a and b: the strides of the first and the second
 * operand (0 without a second one). */
static inline void kl_axes_add(struct kl_axes *x, int64_t dim, int64_t a, int64_t b) {
    x->n *= dim;
    if (dim == 1) return;
    int last = x->ndim - 1;
    if (last >= 0 && x->strides[0][last] == a * dim && x->strides[1][last] == b * dim &&
        x->dims[last] * dim <= INT32_MAX) {
        x->dims[last] *= dim;
        x->strides[0][last] = a;
        x->strides[1][last] = b;
        return;
    }
    x->dims[x->ndim] = dim;
    x->strides[0][x->ndim] = a;
    x->strides[1][x->ndim++] = b;
}

/* The innermost stride of the first operand; 0 when there are no axes. */
static inline int64_t kl_axes_step(const struct kl_axes *x) {
    return x->ndim ? x->strides[0][x->ndim - 1] : 0;
}

/* Whether all elements of the first operand lie at one constant distance, kl_axes_step: then
 * position times kl_axes_step is the offset, and the number of elements is not limited to 32
 * bits. */
static inline bool kl_axes_linear(const struct kl_axes *x) {
    for (int i = 0; i + 1 < x->ndim; i++)
        if (x->strides[0][i] != x->strides[0][i + 1] * x->dims[i + 1]) return false;
    return true;
}

/* Converts the axes to the form that kernels take. False when there are too many axes: then the
 * operand must be copied first. */
static inline bool kl_axes_space(const struct kl_axes *x, struct kl_space *s) {
    *s = (struct kl_space){.n = x->n};
    if (x->ndim > KL_SPACE_DIMS) return false;
    s->ndim = x->ndim;
    for (int i = 0; i < x->ndim; i++) {
        s->dims[i] = (int32_t)x->dims[i];
        for (int k = 0; k < KL_AXES_OPERANDS; k++) s->strides[k][i] = x->strides[k][i];
    }
    return true;
}

static inline int64_t kl_groups_for(int64_t n, int64_t per_group) {
    return (n + per_group - 1) / per_group;
}
/* The smallest power of two that is at least n, but no more than `most` (a power of two). */
static inline int64_t kl_pow2_for(int64_t n, int64_t most) {
    int64_t p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}
/* The largest power of two that is at most n (n is at least 1). */
static inline uint32_t kl_pow2_below(uint32_t n) {
    uint32_t p = 1;
    while (p <= n / 2) p *= 2;
    return p;
}
/* The number of work-items per group: `want`, or fewer when the device takes fewer. */
static inline uint32_t kl_local_size(const struct kl_emit *e, uint32_t want) {
    return want < e->driver->max_local ? want : kl_pow2_below(e->driver->max_local);
}
/* An address inside scratch memory; NULL in a dry run, which has no scratch memory. */
static inline void *kl_scratch_at(void *scratch, size_t offset) {
    return scratch ? (char *)scratch + offset : NULL;
}
