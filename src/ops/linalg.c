/* linalg.c - see linalg.h: the operations on matrices that have a row of their own, and the parts
 * of their packed results. */
#include "ops/linalg.h"

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"

/* ---- one operation ---- */

static bool takes_complex(enum kl_op_id op) {
    return op == KL_OP_SVD || op == KL_OP_EIGH || op == KL_OP_EIG;
}

static bool has_params(enum kl_op_id op) {
    return takes_complex(op) || op == KL_OP_CHOLESKY || op == KL_OP_SOLVE_TRIANGULAR;
}

static int refuse_dtype(enum kl_op_id op, enum kl_dtype dtype, struct kl_error **err) {
    return kl_fail(err, KL_EDTYPE, "the matrices are %s; float32%s float64%s taken",
                   kl_dtype_name(dtype), takes_complex(op) ? "," : " and",
                   takes_complex(op) ? " and complex64 are" : " are");
}

static int check_matrices(enum kl_op_id op, const struct kl_array *a, struct kl_error **err) {
    const bool any = op == KL_OP_LU || op == KL_OP_QR || op == KL_OP_SVD || op == KL_OP_PINV;
    const int n = a->t.ndim;
    if (n < 2)
        return kl_fail(err, KL_ESHAPE, "an array of shape %s; matrices have two axes or more",
                       KL_SHAPE_TEXT_OF(a));
    if (!any && a->t.dims[n - 2] != a->t.dims[n - 1])
        return kl_fail(err, KL_ESHAPE, "an array of shape %s; square matrices are taken",
                       KL_SHAPE_TEXT_OF(a));
    return KL_OK;
}

/* Elements of the last axis where the result is packed, or is values; 0: it has matrices. */
static int64_t packed_size(enum kl_op_id op, const struct kl_matrix_params *p, int64_t m,
                           int64_t n) {
    const int64_t k = m < n ? m : n;
    switch (op) {
    case KL_OP_LU: return m * n + k + m;
    case KL_OP_QR: return m * k + k * n;
    case KL_OP_SVD: return p->vectors ? m * m + k + n * n : k;
    default: return p->vectors ? n + n * n : n;
    }
}

static bool is_packed(enum kl_op_id op) {
    return op == KL_OP_LU || op == KL_OP_QR || takes_complex(op);
}

static enum kl_dtype result_dtype(enum kl_op_id op, const struct kl_matrix_params *p,
                                  enum kl_dtype dtype) {
    if (op == KL_OP_EIG) return KL_C64;
    return takes_complex(op) && dtype == KL_C64 && !p->vectors ? KL_F32 : dtype;
}

static bool same_batch(const struct kl_array *a, const struct kl_array *b) {
    bool same = a->t.ndim == b->t.ndim;
    for (int i = 0; i < a->t.ndim - 2 && same; i++) same = a->t.dims[i] == b->t.dims[i];
    return same;
}

/* The operation of the row op on operands that are as the row asks; all of that is checked. */
static int matrix_op(struct kl_array **out, enum kl_op_id op, struct kl_array *const *in, int n_in,
                     struct kl_matrix_params p, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *a = in[0];
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    KL_TRY(kl_check_stream(s, err));
    if (dtype != KL_F32 && dtype != KL_F64 && !(dtype == KL_C64 && takes_complex(op)))
        return refuse_dtype(op, dtype, err);
    KL_TRY(check_matrices(op, a, err));
    struct kl_shape shape = kl_shape_of(n_in == 2 ? in[1] : a);
    const int m = a->t.dims[a->t.ndim - 2], n = a->t.dims[a->t.ndim - 1];
    if (n_in == 2) {
        if (in[1]->t.dtype != dtype)
            return kl_fail(err, KL_EDTYPE, "matrices of %s and right-hand sides of %s",
                           kl_dtype_name(dtype), kl_dtype_name((enum kl_dtype)in[1]->t.dtype));
        if (!same_batch(a, in[1]) || in[1]->t.dims[in[1]->t.ndim - 2] != n)
            return kl_fail(err, KL_ESHAPE, "matrices of shape %s and right-hand sides of shape %s",
                           KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(in[1]));
    }
    if (is_packed(op)) {
        const int64_t count = packed_size(op, &p, m, n);
        if (count > INT32_MAX)
            return kl_fail(err, KL_ELIMIT, "%s of matrices of %d rows and %d columns: %lld numbers",
                           kl_op_name(op), m, n, (long long)count);
        shape.dims[--shape.ndim - 1] = (int)count;
    } else if (op == KL_OP_PINV) {
        shape.dims[shape.ndim - 2] = n;
        shape.dims[shape.ndim - 1] = m;
    }
    const struct kl_operation o = {.op = op,
                                   .stream = s,
                                   .params = has_params(op) ? &p : NULL,
                                   .params_bytes = has_params(op) ? sizeof p : 0,
                                   .in = in,
                                   .n_in = n_in};
    return kl_array_op1(out, &o, result_dtype(op, &p, dtype), shape.ndim, shape.dims, err);
}

/* a in the dtype in which op computes. */
static int converted(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                     struct kl_stream *s, struct kl_error **err) {
    const enum kl_dtype dtype = kl_dtype_inexact((enum kl_dtype)a->t.dtype);
    KL_TRY(kl_check_stream(s, err));
    if (dtype != KL_F32 && dtype != KL_F64 && !(dtype == KL_C64 && takes_complex(op)))
        return refuse_dtype(op, dtype, err);
    return kl_cast_to(out, a, dtype, s, err);
}

static int unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a,
                 struct kl_matrix_params p, enum kl_alias alias, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_array *x;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(check_matrices(op, a, err));
    KL_TRY(converted(&x, op, a, s, err));
    const struct kl_origin before = kl_alias_set(alias);
    const int rc = matrix_op(out, op, &x, 1, p, s, err);
    kl_origin_set(before);
    kl_array_release(x);
    return rc;
}

static const struct kl_matrix_params plain;

int kl_inv(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return unary(out, KL_OP_INV, a, plain, KL_ALIAS_NONE, s, err);
}

int kl_pinv(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    return unary(out, KL_OP_PINV, a, plain, KL_ALIAS_NONE, s, err);
}

int kl_cholesky(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                struct kl_error **err) {
    return unary(out, KL_OP_CHOLESKY, a, (struct kl_matrix_params){.upper = upper}, KL_ALIAS_NONE,
                 s, err);
}

int kl_singular_values(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                       struct kl_error **err) {
    return unary(out, KL_OP_SVD, a, plain, KL_ALIAS_NONE, s, err);
}

int kl_eigvals(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err) {
    return unary(out, KL_OP_EIG, a, plain, KL_ALIAS_EIGVALS, s, err);
}

int kl_eigvalsh(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                struct kl_error **err) {
    return unary(out, KL_OP_EIGH, a, (struct kl_matrix_params){.upper = upper}, KL_ALIAS_EIGVALSH,
                 s, err);
}

/* ---- equations ---- */

/* x broadcast to the batch of `to`, whose last two axes do not count. */
static struct kl_array *in_batch(struct kl_terms *t, struct kl_array *x, struct kl_shape to) {
    if (t->rc) return NULL;
    to.dims[to.ndim - 2] = x->t.dims[x->t.ndim - 2];
    to.dims[to.ndim - 1] = x->t.dims[x->t.ndim - 1];
    return KL_TERM(t, kl_broadcast_view(&t->made, x, to.ndim, to.dims, t->err));
}

/* The shape to which the batches of a and b broadcast, with two axes of which nothing is said. */
static int common_batch(struct kl_shape *out, const struct kl_array *a, const struct kl_array *b,
                        struct kl_error **err) {
    *out = kl_shape_of(a->t.ndim > b->t.ndim ? a : b);
    for (int i = 3; i <= out->ndim; i++) { /* counted from the last axis */
        const int p = i <= a->t.ndim ? a->t.dims[a->t.ndim - i] : 1;
        const int q = i <= b->t.ndim ? b->t.dims[b->t.ndim - i] : 1;
        if (p != q && p != 1 && q != 1)
            return kl_fail(err, KL_ESHAPE,
                           "matrices of shape %s and right-hand sides of shape %s; their batches "
                           "do not broadcast",
                           KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b));
        out->dims[out->ndim - i] = p == 1 ? q : p;
    }
    return KL_OK;
}

static int check_right(const struct kl_array *a, const struct kl_array *b, struct kl_error **err) {
    const int n = a->t.dims[a->t.ndim - 1];
    if (b->t.ndim >= 1 && b->t.dims[b->t.ndim - (b->t.ndim > 1 ? 2 : 1)] == n) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "a right-hand side of shape %s for matrices of shape %s; (%d) or (..., %d, k) "
                   "is needed",
                   KL_SHAPE_TEXT_OF(b), KL_SHAPE_TEXT_OF(a), n, n);
}

static int solve(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                 bool upper, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape batch = {0};
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(check_matrices(op, a, err));
    KL_TRY(check_right(a, b, err));
    const bool vector = b->t.ndim == 1;
    const enum kl_dtype dtype =
        kl_dtype_inexact(kl_dtype_promote((enum kl_dtype)a->t.dtype, (enum kl_dtype)b->t.dtype));
    KL_TRY(kl_check_stream(s, err));
    if (dtype != KL_F32 && dtype != KL_F64) return refuse_dtype(op, dtype, err);
    struct kl_array *x = KL_TERM(&t, kl_cast_to(&t.made, a, dtype, s, err));
    struct kl_array *y = KL_TERM(&t, kl_cast_to(&t.made, b, dtype, s, err));
    if (vector) y = KL_TERM(&t, kl_expand_dims(&t.made, y, -1, s, err));
    if (!t.rc) t.rc = common_batch(&batch, x, y, err);
    struct kl_array *both[] = {in_batch(&t, x, batch), in_batch(&t, y, batch)};
    const struct kl_matrix_params p = {.upper = upper};
    struct kl_array *r = KL_TERM(&t, matrix_op(&t.made, op, both, 2, p, s, err));
    if (vector) r = KL_TERM(&t, kl_squeeze_axis(&t.made, r, -1, s, err));
    return kl_terms_end(&t, r, out);
}

int kl_solve(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
             struct kl_error **err) {
    KL_DEFER(SOLVE, a, b);
    return solve(out, KL_OP_SOLVE, a, b, false, s, err);
}

int kl_solve_triangular(struct kl_array **out, struct kl_array *a, struct kl_array *b, bool upper,
                        struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SOLVE_TRIANGULAR, a, b, upper);
    return solve(out, KL_OP_SOLVE_TRIANGULAR, a, b, upper, s, err);
}

/* The solution of a x = 1. */
int kl_tri_inv(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
               struct kl_error **err) {
    KL_DEFER(TRI_INV, a, upper);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(check_matrices(KL_OP_INV, a, err));
    struct kl_array *x = KL_TERM(&t, converted(&t.made, KL_OP_INV, a, s, err));
    struct kl_array *one =
        KL_TERM(&t, kl_identity(&t.made, a->t.dims[a->t.ndim - 1], x->t.dtype, s, err));
    const struct kl_origin before = kl_alias_set(KL_ALIAS_TRI_INV);
    x = KL_TERM(&t, solve(&t.made, KL_OP_SOLVE_TRIANGULAR, x, one, upper, s, err));
    kl_origin_set(before);
    return kl_terms_end(&t, x, out);
}

/* With a = L L': the product of the inverse of L, transposed, and the inverse of L. */
int kl_cholesky_inv(struct kl_array **out, struct kl_array *a, bool upper, struct kl_stream *s,
                    struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    const struct kl_origin before = kl_alias_set(KL_ALIAS_CHOLESKY_INV);
    struct kl_array *x = KL_TERM(&t, kl_tri_inv(&t.made, a, upper, s, err));
    kl_origin_set(before);
    struct kl_array *y = KL_TERM(&t, kl_swapaxes(&t.made, x, -1, -2, s, err));
    x = upper ? kl_term2(&t, kl_matmul, x, y) : kl_term2(&t, kl_matmul, y, x);
    return kl_terms_end(&t, x, out);
}

/* ---- parts of packed results ---- */

/* Elements from `from` on of the last axis: rows * cols as matrices, or `rows` as vectors. */
static int part(struct kl_array **out, struct kl_array *packed, int from, int rows, int cols,
                bool flat, struct kl_error **err) {
    struct kl_shape shape = kl_shape_of(packed);
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    struct kl_array *piece;
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    start[shape.ndim - 1] = from;
    shape.dims[shape.ndim - 1] = flat ? rows : rows * cols;
    KL_TRY(kl_slice_to(&piece, packed, start, step, shape.dims, err));
    if (flat) {
        *out = piece;
        return KL_OK;
    }
    const int dims[] = {rows, cols};
    const int rc = kl_unflatten(out, piece, -1, dims, 2, NULL, err);
    kl_array_release(piece);
    return rc;
}

int kl_matrix_unpack(struct kl_array *outs[3], enum kl_op_id op, struct kl_array *packed, int m,
                     int n, struct kl_error **err) {
    const int k = m < n ? m : n;
    const struct {
        int rows, cols;
        bool flat;
    } of_lu[] = {{m, n, false}, {k, 0, true}, {m, 0, true}},
      of_qr[] = {{m, k, false}, {k, n, false}},
      of_svd[] = {{m, m, false}, {k, 0, true}, {n, n, false}},
      of_eig[] = {{n, 0, true}, {n, n, false}}, *at = of_eig;
    int count = 2, from = 0, rc = KL_OK, made = 0;
    switch (op) {
    case KL_OP_LU: at = of_lu, count = 3; break;
    case KL_OP_QR: at = of_qr; break;
    case KL_OP_SVD: at = of_svd, count = 3; break;
    default: break;
    }
    for (; made < count && !rc; made++) {
        rc = part(&outs[made], packed, from, at[made].rows, at[made].cols, at[made].flat, err);
        if (rc) break;
        from += at[made].flat ? at[made].rows : at[made].rows * at[made].cols;
    }
    if (!rc) return count;
    while (made > 0) kl_array_release(outs[--made]);
    return rc;
}

static const struct {
    enum kl_op_id op;
    int n;
} calls[KL_N_FACTORS] = {
    [KL_FACTORS_LU] = {KL_OP_LU, 3},     [KL_FACTORS_LU_FACTOR] = {KL_OP_LU, 2},
    [KL_FACTORS_QR] = {KL_OP_QR, 2},     [KL_FACTORS_SVD] = {KL_OP_SVD, 3},
    [KL_FACTORS_EIGH] = {KL_OP_EIGH, 2}, [KL_FACTORS_EIG] = {KL_OP_EIG, 2},
};

/* The first rows, or columns, of matrices. */
static struct kl_array *corner(struct kl_terms *t, struct kl_array *x, int rows, int cols) {
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(x);
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    shape.dims[shape.ndim - 2] = rows;
    shape.dims[shape.ndim - 1] = cols;
    return KL_TERM(t, kl_slice_to(&t->made, x, start, step, shape.dims, t->err));
}

/* Makes the results of the user from the views `x` of a packed one. */
static void finish(struct kl_terms *t, enum kl_factors parts, struct kl_array *x[3], int m, int n,
                   enum kl_dtype dtype) {
    struct kl_stream *s = t->s;
    const int k = m < n ? m : n;
    if (parts == KL_FACTORS_LU_FACTOR) x[1] = kl_term_cast(t, x[1], KL_U32);
    if (parts == KL_FACTORS_LU) {
        struct kl_array *places = kl_term_cast(t, x[2], KL_U32);
        struct kl_array *one = KL_TERM(t, kl_eye(&t->made, m, k, 0, dtype, s, t->err));
        struct kl_array *l = corner(t, x[0], m, k), *u = corner(t, x[0], k, n);
        l = KL_TERM(t, kl_tril(&t->made, l, -1, s, t->err));
        x[1] = kl_term2(t, kl_add, l, one);
        x[2] = KL_TERM(t, kl_triu(&t->made, u, 0, s, t->err));
        x[0] = places;
    }
    const int real = parts == KL_FACTORS_SVD ? 1 : 0;
    if (dtype == KL_C64 && (parts == KL_FACTORS_SVD || parts == KL_FACTORS_EIGH))
        x[real] = kl_term(t, kl_real, x[real]);
}

int kl_matrix_parts(struct kl_array ***outs, size_t *n_outs, enum kl_factors parts,
                    struct kl_array *a, bool upper, struct kl_stream *s, struct kl_error **err) {
    int deferred;
    if ((unsigned)parts >= KL_N_FACTORS)
        return kl_fail(err, KL_EARG, "%d is no factorisation", (int)parts);
    const int count = calls[parts].n;
    if (kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n_outs, (size_t)count, KL_DEFERRED_MATRIX_PARTS, s, err,
                      (int)parts, a, upper, 0))
        return deferred;
    const enum kl_op_id op = calls[parts].op;
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(check_matrices(op, a, err));
    const int m = a->t.dims[a->t.ndim - 2], n = a->t.dims[a->t.ndim - 1];
    const struct kl_matrix_params p = {.upper = upper, .vectors = takes_complex(op)};
    struct kl_array *x[3] = {NULL}, **made = kl_malloc((size_t)count * sizeof *made);
    if (!made) return kl_fail_nomem(err);
    struct kl_array *all = KL_TERM(&t, unary(&t.made, op, a, p, KL_ALIAS_NONE, s, err));
    if (!t.rc) {
        const int got = kl_matrix_unpack(x, op, all, m, n, err);
        if (got < 0) t.rc = got;
        for (int i = 0; i < got; i++) t.all[t.n++] = x[i];
    }
    if (!t.rc) finish(&t, parts, x, m, n, (enum kl_dtype)x[0]->t.dtype);
    for (int i = 0; i < count; i++) made[i] = kl_terms_keep(&t, x[i]);
    const int rc = kl_terms_end(&t, NULL, NULL);
    if (rc) {
        kl_free(made);
        return rc;
    }
    *outs = made;
    *n_outs = (size_t)count;
    return KL_OK;
}

/* ---- made again ---- */
int kl_rebuild_matrix(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_matrix_params p = {0};
    if (!has_params(b->op)) {
        KL_TRY(kl_build_no_params(b, err));
    } else {
        KL_TRY(kl_build_params(b, &p, sizeof p, err));
        KL_TRY(kl_build_flag(&p.upper, err));
        KL_TRY(kl_build_flag(&p.vectors, err));
        if ((p.vectors && !takes_complex(b->op)) ||
            (p.upper && (b->op == KL_OP_SVD || b->op == KL_OP_EIG)))
            return kl_fail(err, KL_EARG, "parameters that %s does not have", kl_op_name(b->op));
    }
    return matrix_op(out, b->op, b->in, b->n_in, p, b->s, err);
}

/* ---- batches: the lanes are one more axis of the batch ---- */
int kl_vmap_matrix(const struct kl_vmap *v, struct kl_array **out, int *axis,
                   struct kl_error **err) {
    struct kl_array *in[2];
    KL_TRY(kl_vmap_inputs(v, in, err));
    const int rc = kl_vmap_build(v, out, v->params, v->params_bytes, in, err);
    for (int i = 0; i < v->n_in; i++) kl_array_release(in[i]);
    if (rc) return rc;
    kl_array_note_lanes(*out, v->lanes, true);
    *axis = 0;
    return KL_OK;
}
