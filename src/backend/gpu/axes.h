/* axes.h - the axes of one or two operands that are walked together, merged as far as they go: for the families whose kernels take one space
 * per launch (reductions, sorts, products). */
#pragma once
#include "backend/gpu/lower.h"

enum { KL_AXES_MAX = 64, KL_AXES_OPERANDS = 2 };

/* Outermost first. */
struct kl_axes {
    int64_t n; /* positions */
    int ndim;
    int64_t dims[KL_AXES_MAX]; /* each fits 32 bits, also when merged */
    int64_t strides[KL_AXES_OPERANDS][KL_AXES_MAX];
};
#define KL_NO_AXES ((struct kl_axes){.n = 1})

/* Adds an axis inside those that are there; b: the stride of a second operand, or 0. */
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

/* The innermost stride of the first operand; 0 without axes. */
static inline int64_t kl_axes_step(const struct kl_axes *x) {
    return x->ndim ? x->strides[0][x->ndim - 1] : 0;
}

/* One run with one step in the first operand, however long: the position times kl_axes_step is the offset. */
static inline bool kl_axes_linear(const struct kl_axes *x) {
    for (int i = 0; i + 1 < x->ndim; i++)
        if (x->strides[0][i] != x->strides[0][i + 1] * x->dims[i + 1]) return false;
    return true;
}

/* The form that kernels take. False when there are too many axes: then the operand must be copied first. */
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
/* The smallest power of two that is not below n, at most `most` (a power of two). */
static inline int64_t kl_pow2_for(int64_t n, int64_t most) {
    int64_t p = 1;
    while (p < n && p < most) p *= 2;
    return p;
}
/* The largest power of two up to n, which is at least 1. */
static inline uint32_t kl_pow2_below(uint32_t n) {
    uint32_t p = 1;
    while (p <= n / 2) p *= 2;
    return p;
}
/* Work-items per group: `want`, or what the device can do. */
static inline uint32_t kl_local_size(const struct kl_emit *e, uint32_t want) {
    return want < e->port->max_local ? want : kl_pow2_below(e->port->max_local);
}
/* A part of scratch memory, which there is none of when dry. */
static inline void *kl_scratch_at(void *scratch, size_t offset) {
    return scratch ? (char *)scratch + offset : NULL;
}
