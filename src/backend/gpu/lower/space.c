/* space.c - see lower.h: iteration spaces of operands that are walked together, with as few axes as
 * possible. */
#include "backend/gpu/lower/lower.h"

#include <string.h>

#include "base/alloc.h"

enum { MAX_AXES = 64 };

struct walk {
    int n_operands, ndim;
    int dims[MAX_AXES];
    int64_t strides[KL_SPACE_OPERANDS][MAX_AXES];
};

/* Drops axes of size 1 and merges neighbouring axes where the strides of every operand allow it.
 * false: more axes than an array can have. */
static bool collapse(struct walk *w, int ndim, const int *dims, int n_operands,
                     const int64_t *const *strides) {
    w->n_operands = n_operands;
    w->ndim = 0;
    for (int d = 0; d < ndim; d++) {
        if (dims[d] == 1) continue;
        int last = w->ndim - 1;
        bool joins = last >= 0 && (int64_t)w->dims[last] * dims[d] <= INT32_MAX;
        for (int k = 0; k < n_operands && joins; k++)
            joins = w->strides[k][last] == strides[k][d] * dims[d];
        if (!joins) {
            if (w->ndim == MAX_AXES) return false;
            last = w->ndim++;
            w->dims[last] = 1;
        }
        w->dims[last] *= dims[d];
        for (int k = 0; k < n_operands; k++) w->strides[k][last] = strides[k][d];
    }
    return true;
}

int kl_space_each(int ndim, const int *dims, int n_operands, const int64_t *const *strides,
                  int (*each)(void *ctx, const struct kl_space *s, const int64_t *offsets),
                  void *ctx) {
    struct walk w;
    struct kl_space s = {.n = 1};
    for (int d = 0; d < ndim; d++)
        if (dims[d] == 0) return KL_OK;
    if (!collapse(&w, ndim, dims, n_operands, strides)) return KL_EUNSUPPORTED;
    int outer = w.ndim > KL_SPACE_DIMS ? w.ndim - KL_SPACE_DIMS : 0;
    s.ndim = w.ndim - outer;
    for (int d = 0; d < s.ndim; d++) {
        s.dims[d] = w.dims[outer + d];
        s.n *= s.dims[d];
        for (int k = 0; k < n_operands; k++) s.strides[k][d] = w.strides[k][outer + d];
    }
    int at[MAX_AXES] = {0};
    int64_t offsets[KL_SPACE_OPERANDS] = {0};
    for (;;) {
        int rc = each(ctx, &s, offsets);
        if (rc) return rc;
        int d = outer - 1; /* the next position of the axes that the kernel does not walk */
        for (; d >= 0; d--) {
            for (int k = 0; k < n_operands; k++) offsets[k] += w.strides[k][d];
            if (++at[d] < w.dims[d]) break;
            for (int k = 0; k < n_operands; k++) offsets[k] -= w.strides[k][d] * (int64_t)w.dims[d];
            at[d] = 0;
        }
        if (d < 0) return KL_OK;
    }
}

bool kl_space_contiguous(const struct kl_space *s, int operand) {
    int64_t next = 1;
    for (int d = s->ndim - 1; d >= 0; d--) {
        if (s->strides[operand][d] != next) return false;
        next *= s->dims[d];
    }
    return true;
}
