/* linalg_rules.c - gradients of the operations on matrices. Sources: M. B. Giles, "Collected
 * Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation", 2008
 * (inverse, solve, eigenvalues, singular values); I. Murray, "Differentiation of the Cholesky
 * decomposition", 2016; G. H. Golub, V. Pereyra, "The differentiation of pseudo-inverses and
 * nonlinear least squares problems whose variables separate", 1973; S. F. Walter, L. Lehmann,
 * "Algorithmic differentiation of linear algebra functions", 2010 (QR). g is always the cotangent;
 * h' is the conjugate transpose. */
#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/linalg.h"

typedef struct kl_array *term;

static term transposed(struct kl_terms *t, term x) {
    return KL_TERM(t, kl_swapaxes(&t->made, x, -1, -2, t->s, t->err));
}

/* x', of real or complex matrices. */
static term adjoint(struct kl_terms *t, term x) {
    return transposed(t, kl_term_conjugate(t, x));
}

static term product(struct kl_terms *t, term a, term b) {
    return kl_term2(t, kl_matmul, a, b);
}

static term sum(struct kl_terms *t, term a, term b) {
    return kl_term2(t, kl_add, a, b);
}

static term difference(struct kl_terms *t, term a, term b) {
    return kl_term2(t, kl_subtract, a, b);
}

static term lower(struct kl_terms *t, term x, int k) {
    return KL_TERM(t, kl_tril(&t->made, x, k, t->s, t->err));
}

static term upper(struct kl_terms *t, term x, int k) {
    return KL_TERM(t, kl_triu(&t->made, x, k, t->s, t->err));
}

/* The solution of a x = b, for a triangular a. */
static term triangular(struct kl_terms *t, term a, term b, bool is_upper) {
    return KL_TERM(t, kl_solve_triangular(&t->made, a, b, is_upper, t->s, t->err));
}

/* b a^-1, for a triangular a. */
static term triangular_right(struct kl_terms *t, term b, term a, bool is_upper) {
    return transposed(t, triangular(t, transposed(t, a), transposed(t, b), !is_upper));
}

/* Rows from `row` on and columns from `col` on, rows * cols of them. */
static term block(struct kl_terms *t, term x, int row, int col, int rows, int cols) {
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(x);
    const int n = shape.ndim;
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    for (int i = 0; i < n; i++) step[i] = 1;
    start[n - 2] = row;
    start[n - 1] = col;
    shape.dims[n - 2] = rows;
    shape.dims[n - 1] = cols;
    return KL_TERM(t, kl_slice_to(&t->made, x, start, step, shape.dims, t->err));
}

/* a above b, or with axis -1 to the left of it. */
static term joined(struct kl_terms *t, term a, term b, int axis) {
    if (t->rc) return NULL;
    term both[] = {a, b};
    return KL_TERM(t, kl_concatenate_axis(&t->made, both, 2, axis, t->s, t->err));
}

/* The parts of a packed array, as terms. */
static void unpack(struct kl_terms *t, term parts[3], const struct kl_vjp *v, term packed) {
    const struct kl_tensor *a = &v->in[0]->t;
    for (int i = 0; i < 3; i++) parts[i] = NULL;
    if (t->rc) return;
    const int n =
        kl_matrix_unpack(parts, v->op, packed, a->dims[a->ndim - 2], a->dims[a->ndim - 1], t->err);
    if (n < 0) t->rc = n;
    for (int i = 0; i < n; i++) t->all[t->n++] = parts[i];
}

/* A vector as a row, or as a column, for products with each row or column of a matrix. */
static term as_row(struct kl_terms *t, term x) {
    return KL_TERM(t, kl_expand_dims(&t->made, x, -2, t->s, t->err));
}

static term as_column(struct kl_terms *t, term x) {
    return KL_TERM(t, kl_expand_dims(&t->made, x, -1, t->s, t->err));
}

static term times(struct kl_terms *t, term a, term b) {
    return kl_term2(t, kl_multiply, a, b);
}

/* The matrix with x on its diagonal. */
static term diagonal(struct kl_terms *t, term x) {
    if (t->rc) return NULL;
    const int n = x->t.dims[x->t.ndim - 1];
    return KL_TERM(t, kl_embed_diagonal(&t->made, x, n, n, 0, t->s, t->err));
}

/* Element (i, j) is 1 / (w[j] - w[i]), and 0 where the two are equal, as on the diagonal. */
static term gaps(struct kl_terms *t, term w) {
    if (t->rc) return NULL;
    term gap = difference(t, as_row(t, w), as_column(t, w));
    if (t->rc) return NULL;
    term zero = kl_term_number(t, 0, (enum kl_dtype)gap->t.dtype),
         one = kl_term_number(t, 1, (enum kl_dtype)gap->t.dtype);
    term equal = kl_term2(t, kl_equal, gap, zero);
    term inverse = kl_term2(t, kl_divide, one, kl_term_where(t, equal, one, gap));
    return kl_term_where(t, equal, zero, inverse);
}

static int one_gradient(struct kl_terms *t, const struct kl_vjp *v, term g,
                        struct kl_array **grad) {
    if (!t->rc) g = kl_term_cast(t, g, (enum kl_dtype)v->in[0]->t.dtype);
    return kl_terms_end(t, g, grad);
}

/* ---- inverses and equations ---- */

/* y = a^-1: -y' g y'. */
int kl_vjp_inv(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    term y = transposed(&t, v->out[0]);
    term g = product(&t, product(&t, y, v->cotangent[0]), y);
    return one_gradient(&t, v, kl_term(&t, kl_negative, g), grad);
}

/* a x = b: for b the solution h of a' h = g, and for a -h x', without the triangle that is not
 * read. */
int kl_vjp_solve(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const bool of_triangle = v->op == KL_OP_SOLVE_TRIANGULAR;
    const struct kl_matrix_params *p = v->params;
    if (!v->wanted[0] && !v->wanted[1]) return KL_OK;
    term a = transposed(&t, v->in[0]);
    term h = of_triangle ? triangular(&t, a, v->cotangent[0], !p->upper)
                         : KL_TERM(&t, kl_solve(&t.made, a, v->cotangent[0], v->s, err));
    if (v->wanted[0]) {
        term g = kl_term(&t, kl_negative, product(&t, h, transposed(&t, v->out[0])));
        if (of_triangle) g = p->upper ? upper(&t, g, 0) : lower(&t, g, 0);
        grad[0] = kl_terms_keep(&t, g);
    }
    if (v->wanted[1]) grad[1] = kl_terms_keep(&t, h);
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- determinants ---- */

/* Element i of n fixed numbers, of no simple relation to each other. */
static term fixed_numbers(struct kl_terms *t, kl_unary_fn *wave, int n, enum kl_dtype dtype) {
    term i = KL_TERM(t, kl_arange(&t->made, 0, n, 1, dtype, t->s, t->err));
    return kl_term(t, wave, kl_term_by(t, kl_add, kl_term(t, kl_square, i), 1));
}

/* a with one more column and row, of fixed numbers of a's size; 0 in the corner. */
static term bordered(struct kl_terms *t, term a, int n) {
    if (t->rc) return NULL;
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    const int matrix[] = {-2, -1};
    term size = kl_term_reduce(t, kl_max_axes, kl_term(t, kl_abs, a), matrix, 2);
    size = kl_term(t, kl_stop_gradient, size);
    if (t->rc) return NULL;
    term zero = kl_term_by(t, kl_multiply, size, 0), none = kl_term_number(t, 0, dtype);
    size = kl_term_where(t, kl_term2(t, kl_equal, size, none), kl_term_number(t, 1, dtype), size);
    term column = times(t, size, as_column(t, fixed_numbers(t, kl_cos, n, dtype)));
    term row = times(t, size, as_row(t, fixed_numbers(t, kl_sin, n, dtype)));
    return joined(t, joined(t, a, column, -1), joined(t, row, zero, -1), -2);
}

/* x where `which` says so, of each matrix of the batch; else the identity. */
static term or_identity(struct kl_terms *t, term which, term x, int n) {
    if (t->rc) return NULL;
    term one = KL_TERM(t, kl_identity(&t->made, n, x->t.dtype, t->s, t->err));
    return kl_term_where(t, which, x, one);
}

/* The transposed cofactors of a, also of singular a. Let b be a with one more column and row, and
 * (m, x; y, z) its inverse: as polynomials, they are det(b) (z m - x y). b has an inverse where the
 * rank of a is n - 1 or n; where it is less they are 0. */
static term adjugate_of_singular(struct kl_terms *t, term singular, term a, int n) {
    term b = bordered(t, a, n), d = kl_term(t, kl_det, b);
    if (t->rc) return NULL;
    term zero = kl_term_number(t, 0, (enum kl_dtype)a->t.dtype);
    d = as_column(t, as_column(t, d));
    term has_inverse = kl_term2(t, kl_not_equal, d, zero);
    has_inverse = kl_term2(t, kl_logical_and, has_inverse, singular);
    term r = kl_term(t, kl_inv, or_identity(t, has_inverse, b, n + 1));
    term x = product(t, block(t, r, 0, n, n, 1), block(t, r, n, 0, 1, n));
    term zm = times(t, block(t, r, n, n, 1, 1), block(t, r, 0, 0, n, n));
    return kl_term_where(t, has_inverse, times(t, d, difference(t, zm, x)), zero);
}

/* The cofactors times g: of a regular a, g det(a) a'^-1. */
int kl_vjp_det(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    term a = v->in[1];
    const int n = a->t.dims[a->t.ndim - 1];
    if (!v->wanted[1] || n == 0) return KL_OK;
    term zero = kl_term_number(&t, 0, (enum kl_dtype)a->t.dtype);
    term d = as_column(&t, as_column(&t, v->out[0]));
    term g = as_column(&t, as_column(&t, v->cotangent[0]));
    term singular = kl_term2(&t, kl_equal, d, zero);
    term inverse =
        kl_term(&t, kl_inv, or_identity(&t, kl_term(&t, kl_logical_not, singular), a, n));
    term x = kl_term_where(&t, singular, adjugate_of_singular(&t, singular, a, n),
                           times(&t, d, inverse));
    grad[1] = kl_terms_keep(&t, times(&t, g, transposed(&t, x)));
    return kl_terms_end(&t, NULL, NULL);
}

/* p = pinv(a): -p' g p' + (p p' g (1 - a p))' + ((1 - p a) g p' p)'. */
int kl_vjp_pinv(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    term a = v->in[0], p = v->out[0], g = v->cotangent[0];
    term q = transposed(&t, p);
    term first = product(&t, product(&t, q, g), q);
    term outside = difference(&t, g, product(&t, product(&t, g, a), p));
    term second = transposed(&t, product(&t, p, product(&t, q, outside)));
    outside = difference(&t, g, product(&t, p, product(&t, a, g)));
    term third = transposed(&t, product(&t, product(&t, outside, q), p));
    return one_gradient(&t, v, difference(&t, sum(&t, second, third), first), grad);
}

/* ---- factors ---- */

/* a = l l': the symmetric part of l^-T f l^-1, where f is the lower triangle of l' g with half of
 * its diagonal. The gradient is symmetric, as changes of a are. */
int kl_vjp_cholesky(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct kl_matrix_params *p = v->params;
    if (!v->wanted[0]) return KL_OK;
    term l = v->out[0], g = v->cotangent[0];
    if (p->upper) {
        l = transposed(&t, l);
        g = transposed(&t, g);
    }
    term f = product(&t, transposed(&t, l), g);
    f = kl_term_by(&t, kl_multiply, sum(&t, lower(&t, f, 0), lower(&t, f, -1)), 0.5);
    f = triangular(&t, transposed(&t, l), f, true);
    f = triangular_right(&t, f, l, false);
    f = kl_term_by(&t, kl_multiply, sum(&t, f, transposed(&t, f)), 0.5);
    return one_gradient(&t, v, f, grad);
}

/* The rows of the product of the factors are those of a in another order. With l1, u1 the square
 * parts of the factors, l2 and u2 what is below or to the right of them and the same names for
 * their cotangents with g, f = lower(l1' gl1 - gu2 u2') + upper(gu1 u1' - l2' gl2), strictly
 * lower, gives l1^-T f u1^-T, l1^-T gu2 to the right of it and gl2 u1^-T below it. */
int kl_vjp_lu(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct kl_tensor *a = &v->in[0]->t;
    const int m = a->dims[a->ndim - 2], n = a->dims[a->ndim - 1], k = m < n ? m : n;
    term f[3], g[3];
    if (!v->wanted[0]) return KL_OK;
    unpack(&t, f, v, v->out[0]);
    unpack(&t, g, v, v->cotangent[0]);
    term square = block(&t, f[0], 0, 0, k, k), of_square = block(&t, g[0], 0, 0, k, k);
    if (t.rc) return kl_terms_end(&t, NULL, NULL);
    term one = KL_TERM(&t, kl_identity(&t.made, k, a->dtype, v->s, err));
    term l = transposed(&t, sum(&t, lower(&t, square, -1), one));
    term u = transposed(&t, upper(&t, square, 0));
    term low = product(&t, l, lower(&t, of_square, -1));
    term high = product(&t, upper(&t, of_square, 0), u);
    term u2 = NULL, l2 = NULL;
    if (n > k) {
        u2 = block(&t, g[0], 0, k, k, n - k);
        low = difference(&t, low, product(&t, u2, transposed(&t, block(&t, f[0], 0, k, k, n - k))));
    }
    if (m > k) {
        l2 = block(&t, g[0], k, 0, m - k, k);
        high =
            difference(&t, high, product(&t, transposed(&t, block(&t, f[0], k, 0, m - k, k)), l2));
    }
    term r = triangular(&t, l, sum(&t, lower(&t, low, -1), upper(&t, high, 0)), true);
    r = triangular_right(&t, r, u, false);
    if (u2) r = joined(&t, r, triangular(&t, l, u2, true), -1);
    if (l2) r = joined(&t, r, triangular_right(&t, l2, u, false), -2);
    term places = as_column(&t, kl_term_cast(&t, f[2], KL_I32));
    if (!t.rc) places = kl_term_broadcast(&t, places, v->in[0]);
    r = KL_TERM(&t, kl_take_along_axis(&t.made, r, places, -2, v->s, err));
    return one_gradient(&t, v, r, grad);
}

/* Of matrices with at least as many rows as columns: (gq + q c) r^-T, where c is the symmetric
 * matrix with the lower triangle of r gr' - gq' q. Further columns y of a give r as q' y, so they
 * add y gr' to gq. */
int kl_vjp_qr(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct kl_tensor *a = &v->in[0]->t;
    const int m = a->dims[a->ndim - 2], n = a->dims[a->ndim - 1], k = m < n ? m : n;
    term f[3], g[3];
    if (!v->wanted[0]) return KL_OK;
    unpack(&t, f, v, v->out[0]);
    unpack(&t, g, v, v->cotangent[0]);
    term q = f[0], gq = g[0], further = NULL;
    term r = block(&t, f[1], 0, 0, k, k), gr = upper(&t, block(&t, g[1], 0, 0, k, k), 0);
    if (n > k) {
        term of_r = block(&t, g[1], 0, k, k, n - k), y = block(&t, v->in[0], 0, k, m, n - k);
        further = product(&t, q, of_r);
        gq = sum(&t, gq, product(&t, y, transposed(&t, of_r)));
    }
    term c = difference(&t, product(&t, r, transposed(&t, gr)), product(&t, transposed(&t, gq), q));
    c = sum(&t, lower(&t, c, 0), transposed(&t, lower(&t, c, -1)));
    term x = sum(&t, gq, product(&t, q, c));
    x = triangular_right(&t, x, transposed(&t, r), false);
    if (further) x = joined(&t, x, further, -1);
    return one_gradient(&t, v, x, grad);
}

/* ---- values and vectors ---- */

/* The results of a factorisation of the operand, as terms. */
static void factors(struct kl_terms *t, term f[3], const struct kl_vjp *v, enum kl_factors parts,
                    bool of_upper) {
    struct kl_array **all = NULL;
    size_t count = 0;
    t->rc = kl_matrix_parts(&all, &count, parts, v->in[0], of_upper, v->s, t->err);
    for (size_t i = 0; i < count; i++) f[i] = t->all[t->n++] = all[i];
    kl_free(all);
}

/* v (diag(gw) + e o (v' gv)) v', with e of gaps; its Hermitian part. */
int kl_vjp_eigh(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct kl_matrix_params *p = v->params;
    if (!v->wanted[0]) return KL_OK;
    term f[3] = {NULL}, g[3] = {v->cotangent[0], NULL}, vectors, inner;
    if (p->vectors) {
        unpack(&t, f, v, v->out[0]);
        unpack(&t, g, v, v->cotangent[0]);
        vectors = f[1];
    } else {
        factors(&t, f, v, KL_FACTORS_EIGH, p->upper);
        vectors = f[1];
    }
    inner = diagonal(&t, p->vectors ? kl_term(&t, kl_real, g[0]) : g[0]);
    if (p->vectors) {
        term e = gaps(&t, kl_term(&t, kl_real, f[0]));
        inner = sum(&t, inner, times(&t, e, product(&t, adjoint(&t, vectors), g[1])));
    }
    if (!t.rc) inner = kl_term_cast(&t, inner, (enum kl_dtype)v->in[0]->t.dtype);
    term x = product(&t, product(&t, vectors, inner), adjoint(&t, vectors));
    x = kl_term_by(&t, kl_multiply, sum(&t, x, adjoint(&t, x)), 0.5);
    return one_gradient(&t, v, x, grad);
}

/* With s on the diagonal and, for matrices of at least as many rows as columns, u = (u1 u2): the
 * inner matrix is diag(gs) + (h + h') s + s (k + k') with h = e o (u1' gu1), k = e o (v' gv) and e
 * the gaps of s^2; below it stands (u2' gu1 - gu2' u1) s^-1, where u2 turns with u1 as little as
 * it can. The gradient is u (inner) vt. Matrices of more columns than rows are transposed. */
static term svd_gradient(struct kl_terms *t, const term f[3], const term g[3], int m, int n) {
    term u1 = block(t, f[0], 0, 0, m, n), gu1 = block(t, g[0], 0, 0, m, n);
    term row = as_row(t, f[1]), column = as_column(t, f[1]);
    term e = gaps(t, kl_term(t, kl_square, f[1]));
    term h = times(t, e, product(t, transposed(t, u1), gu1));
    term k = times(t, e, product(t, f[2], transposed(t, g[2])));
    term inner = diagonal(t, g[1]);
    inner = sum(t, inner, times(t, sum(t, h, transposed(t, h)), row));
    inner = sum(t, inner, times(t, column, sum(t, k, transposed(t, k))));
    if (m > n) {
        term u2 = block(t, f[0], 0, n, m, m - n), gu2 = block(t, g[0], 0, n, m, m - n);
        term below =
            difference(t, product(t, transposed(t, u2), gu1), product(t, transposed(t, gu2), u1));
        inner = joined(t, inner, kl_term2(t, kl_divide, below, row), -2);
        return product(t, product(t, f[0], inner), f[2]);
    }
    return product(t, product(t, u1, inner), f[2]);
}

int kl_vjp_svd(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const struct kl_matrix_params *p = v->params;
    const struct kl_tensor *a = &v->in[0]->t;
    const int m = a->dims[a->ndim - 2], n = a->dims[a->ndim - 1];
    term f[3] = {NULL}, g[3];
    if (!v->wanted[0]) return KL_OK;
    if (!p->vectors) { /* u1 diag(g) vt */
        const int k = m < n ? m : n;
        factors(&t, f, v, KL_FACTORS_SVD, false);
        term u = times(&t, block(&t, f[0], 0, 0, m, k), as_row(&t, v->cotangent[0]));
        return one_gradient(&t, v, product(&t, u, block(&t, f[2], 0, 0, k, n)), grad);
    }
    if (a->dtype == KL_C64)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "svd of complex64 has no gradient for its vectors; its values have one");
    unpack(&t, f, v, v->out[0]);
    unpack(&t, g, v, v->cotangent[0]);
    if (m >= n) return one_gradient(&t, v, svd_gradient(&t, f, g, m, n), grad);
    const term ft[3] = {transposed(&t, f[2]), f[1], transposed(&t, f[0])};
    const term gt[3] = {transposed(&t, g[2]), g[1], transposed(&t, g[0])};
    return one_gradient(&t, v, transposed(&t, svd_gradient(&t, ft, gt, n, m)), grad);
}
