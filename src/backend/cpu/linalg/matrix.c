/* matrix.c - chooses how an operation of matrix.h is computed, and lays out its workspace: the
 * functions of matrix_real.inc run once without memory, and count what they take. */
#include "backend/cpu/linalg/matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/linalg/dense.h"
#include "backend/cpu/linalg/lapack.h"
#include "backend/cpu/linalg/matrix_lapack.h"
#include "backend/cpu/operand/tile.h"

/* Row i of the permuted matrix is row order[i] of the given one. */
static void order_of(int n, const int *pivots, int *order) {
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 0; i < n; i++) {
        int t = order[i];
        order[i] = order[pivots[i]];
        order[pivots[i]] = t;
    }
}

/* The least extents of matrices that LAPACK computes. */
enum { SVD_FROM = 33, EIGH_FROM = 25 };

static void identity_c64(int n, void *at) {
    float complex *a = at;
    for (ptrdiff_t i = 0; i < (ptrdiff_t)n * n; i++) a[i] = i % (n + 1) == 0;
}

#define T float
#define NAME f32
#define FABS fabsf
#define FREXP (void)frexpf
#define LDEXP ldexpf
#define SQRT sqrtf
#define LARGEST FLT_MAX
#define NOTHING 0x1p-120f
/* defines padded_f32, framed_f32, copy_f32, team_f32, cholesky_f32, solve_triangular_f32, lu_f32,
 * singular_f32, solve_f32, inv_f32, finite_f32, exponent_f32, scale_f32, qr_pitch_f32, sort_f32,
 * qr_f32, eigh_f32, complete_f32, svd_f32 */
#include "backend/cpu/linalg/matrix_real.inc"
#define T double
#define NAME f64
#define FABS fabs
#define FREXP (void)frexp
#define LDEXP ldexp
#define SQRT sqrt
#define LARGEST DBL_MAX
#define NOTHING 0x1p-800
/* defines padded_f64, framed_f64, copy_f64, team_f64, cholesky_f64, solve_triangular_f64, lu_f64,
 * singular_f64, solve_f64, inv_f64, finite_f64, exponent_f64, scale_f64, qr_pitch_f64, sort_f64,
 * qr_f64, eigh_f64, complete_f64, svd_f64 */
#include "backend/cpu/linalg/matrix_real.inc"

#define BY_DTYPE(dtype, name, ...) \
    ((dtype) == KL_F64 ? name##_f64(__VA_ARGS__) : name##_f32(__VA_ARGS__))
#define BY_DTYPE_3(dtype, name, ...) \
    ((dtype) == KL_C64 ? name##_c64(__VA_ARGS__) : BY_DTYPE(dtype, name, __VA_ARGS__))

/* Whether LAPACK computes svd, eigh or eig. Below these extents plain C is faster, or as fast; it
 * has no complex numbers, and no eig. */
static bool by_lapack(enum kl_op_id op, enum kl_dtype dtype, int m, int n) {
    const int from = (int)op == KL_OP_SVD ? SVD_FROM : EIGH_FROM;
    if (m == 0 || n == 0) return false;
    if ((int)op == KL_OP_EIG || dtype == KL_C64) return true;
    return (m > n ? m : n) >= from && kl_lapack();
}

static enum kl_matrix_info svd(struct kl_room *r, const struct kl_matrix *x, void *a, void *u,
                               void *s, void *vt) {
    if (by_lapack((enum kl_op_id)KL_OP_SVD, x->dtype, x->m, x->n))
        return BY_DTYPE_3(x->dtype, kl_lapack_svd, r, x->m, x->n, a, u, s, vt);
    if (x->dtype == KL_C64) {
        /* an empty matrix */
        if (u) identity_c64(x->m, u);
        if (vt) identity_c64(x->n, vt);
        return KL_MATRIX_DONE;
    }
    return BY_DTYPE(x->dtype, svd, r, x->m, x->n, a, u, s, vt);
}

static enum kl_matrix_info eigh(struct kl_room *r, const struct kl_matrix *x, bool upper,
                                bool vectors, void *a, void *w) {
    if (by_lapack((enum kl_op_id)KL_OP_EIGH, x->dtype, x->n, x->n))
        return BY_DTYPE_3(x->dtype, kl_lapack_eigh, r, x->n, upper, vectors, a, w);
    if (x->dtype == KL_C64) return KL_MATRIX_DONE; /* an empty matrix */
    return BY_DTYPE(x->dtype, eigh, r, x->n, upper, vectors, a, w);
}

static enum kl_matrix_info eig(struct kl_room *r, const struct kl_matrix *x, void *a, void *w,
                               void *v) {
    if (x->n == 0) return KL_MATRIX_DONE;
    return BY_DTYPE_3(x->dtype, kl_lapack_eig, r, x->n, a, w, v);
}

bool kl_matrix_can(enum kl_op_id op, enum kl_dtype dtype, int m, int n) {
    bool lapack_alone = (int)op == KL_OP_EIG || dtype == KL_C64;
    return !lapack_alone || m == 0 || n == 0 || kl_lapack();
}

size_t kl_matrix_work(enum kl_op_id op, enum kl_dtype dtype, int m, int n, int right,
                      kl_parallel_for *parallel) {
    struct kl_room r = {.parallel = parallel};
    const struct kl_matrix x = {dtype, m, n, NULL, parallel};
    if (!kl_matrix_can(op, dtype, m, n)) return 0;
    switch ((int)op) {
    case KL_OP_CHOLESKY: (void)BY_DTYPE(dtype, cholesky, &r, n, false, NULL); break;
    case KL_OP_SOLVE_TRIANGULAR:
        (void)BY_DTYPE(dtype, solve_triangular, &r, n, false, NULL, right, NULL);
        break;
    case KL_OP_LU: BY_DTYPE(dtype, lu, &r, m, n, NULL, NULL); break;
    case KL_OP_SOLVE: (void)BY_DTYPE(dtype, solve, &r, n, NULL, right, NULL); break;
    case KL_OP_INV: (void)BY_DTYPE(dtype, inv, &r, n, NULL); break;
    case KL_OP_QR: BY_DTYPE(dtype, qr, &r, m, n, NULL, NULL, NULL); break;
    case KL_OP_SVD: (void)svd(&r, &x, NULL, NULL, NULL, NULL); break;
    case KL_OP_EIGH: (void)eigh(&r, &x, false, true, NULL, NULL); break;
    case KL_OP_EIG: (void)eig(&r, &x, NULL, NULL, NULL); break;
    default: break;
    }
    return r.used;
}

enum kl_matrix_info kl_matrix_cholesky(const struct kl_matrix *x, bool upper, void *a) {
    struct kl_room r = {x->work, 0, x->parallel};
    return BY_DTYPE(x->dtype, cholesky, &r, x->n, upper, a);
}

enum kl_matrix_info kl_matrix_solve_triangular(const struct kl_matrix *x, bool upper, const void *a,
                                               int right, void *b) {
    struct kl_room r = {x->work, 0, x->parallel};
    return BY_DTYPE(x->dtype, solve_triangular, &r, x->n, upper, a, right, b);
}

void kl_matrix_lu(const struct kl_matrix *x, void *a, int *pivots) {
    struct kl_room r = {x->work, 0, x->parallel};
    BY_DTYPE(x->dtype, lu, &r, x->m, x->n, a, pivots);
}

enum kl_matrix_info kl_matrix_solve(const struct kl_matrix *x, void *a, int right, void *b) {
    struct kl_room r = {x->work, 0, x->parallel};
    return BY_DTYPE(x->dtype, solve, &r, x->n, a, right, b);
}

enum kl_matrix_info kl_matrix_inv(const struct kl_matrix *x, void *a) {
    struct kl_room r = {x->work, 0, x->parallel};
    return BY_DTYPE(x->dtype, inv, &r, x->n, a);
}

void kl_matrix_qr(const struct kl_matrix *x, void *a, void *q, void *r) {
    struct kl_room room = {x->work, 0, x->parallel};
    BY_DTYPE(x->dtype, qr, &room, x->m, x->n, a, q, r);
}

/* Whether all numbers of a are finite; a complex one is two. Some LAPACKs do not return else. */
static bool is_finite(enum kl_dtype dtype, int m, int n, const void *a) {
    ptrdiff_t count = (ptrdiff_t)m * n * (dtype == KL_C64 ? 2 : 1);
    return BY_DTYPE(dtype, finite, count, a);
}

enum kl_matrix_info kl_matrix_svd(const struct kl_matrix *x, void *a, void *u, void *s, void *vt) {
    struct kl_room r = {x->work, 0, x->parallel};
    if (!is_finite(x->dtype, x->m, x->n, a)) return KL_MATRIX_NOT_FINITE;
    return svd(&r, x, a, u, s, vt);
}

enum kl_matrix_info kl_matrix_eigh(const struct kl_matrix *x, bool upper, bool vectors, void *a,
                                   void *w) {
    struct kl_room r = {x->work, 0, x->parallel};
    const size_t item = kl_dtype_size(x->dtype);
    for (int i = 0; i < x->n; i++) {
        int from = upper ? i : 0, count = upper ? x->n - i : i + 1;
        const char *row = (const char *)a + ((size_t)i * (size_t)x->n + (size_t)from) * item;
        if (!is_finite(x->dtype, 1, count, row)) return KL_MATRIX_NOT_FINITE;
    }
    return eigh(&r, x, upper, vectors, a, w);
}

enum kl_matrix_info kl_matrix_eig(const struct kl_matrix *x, void *a, void *w, void *v) {
    struct kl_room r = {x->work, 0, x->parallel};
    if (!is_finite(x->dtype, x->n, x->n, a)) return KL_MATRIX_NOT_FINITE;
    return eig(&r, x, a, w, v);
}
