/* matrix_lapack.h - svd, eigh and eig by LAPACK, which must be loaded; n is not 0. The contracts
 * are those of matrix.h. With a room without memory they only count their workspace. */
#pragma once
#include <complex.h>

#include "backend/cpu/linalg/matrix.h"

/* The workspace of a factorisation, and how much of it is taken. */
struct kl_room {
    char *at; /* NULL: nothing is computed, bytes are counted */
    size_t used;
    kl_parallel_for *parallel; /* as in struct kl_matrix */
};

/* NULL where bytes are counted. */
static inline void *kl_take(struct kl_room *r, size_t bytes) {
    char *at = r->at ? r->at + r->used : NULL;
    r->used += (bytes + 63) / 64 * 64;
    return at;
}

#define KL_DECLARE(T, R, C, NAME)                                                                 \
    enum kl_matrix_info kl_lapack_svd_##NAME(struct kl_room *r, int m, int n, T *a, T *u, R *s,   \
                                             T *vt);                                              \
    enum kl_matrix_info kl_lapack_eigh_##NAME(struct kl_room *r, int n, bool upper, bool vectors, \
                                              T *a, R *w);                                        \
    enum kl_matrix_info kl_lapack_eig_##NAME(struct kl_room *r, int n, T *a, C *w, C *v);
KL_DECLARE(float, float, float complex, f32)
KL_DECLARE(double, double, double complex, f64)
KL_DECLARE(float complex, float, float complex, c64)
#undef KL_DECLARE
