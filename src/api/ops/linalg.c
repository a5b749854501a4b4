/* linalg.c - mlx/c/linalg.h and keel/linalg.h. */
#include "ops/linalg.h"

#include <keel/linalg.h>
#include <string.h>

#include "api/ops/api_ops.h"
#include "base/alloc.h"

typedef int with_flag(struct kl_array **out, struct kl_array *a, bool flag, struct kl_stream *s,
                      struct kl_error **err);

static int flagged(const char *func, with_flag *build, mlx_array *res, mlx_array a, bool flag,
                   mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, in, flag, on, &c.err);
    return kl_call_end(&c, res, out);
}

/* Which triangle a name means: "L" or "U", or the small letter. */
static bool is_upper(struct kl_call *c, const char *name) {
    const bool upper = !strcmp(name, "U") || !strcmp(name, "u");
    if (!c->err && !upper && strcmp(name, "L") != 0 && strcmp(name, "l") != 0)
        kl_fail(&c->err, KL_EARG, "UPLO is \"%s\"; \"L\" or \"U\" is needed", name);
    return upper;
}

/* The factorisation of a in `parts`; the call is ended by the caller. */
static void factored(struct kl_call *c, struct kl_array ***outs, size_t *n, enum kl_factors parts,
                     mlx_array a, bool upper, mlx_stream s) {
    struct kl_array *in = kl_in(c, a, "a");
    struct kl_stream *on = kl_in_stream(c, s);
    if (!c->err) kl_matrix_parts(outs, n, parts, in, upper, on, &c->err);
}

static int pair(const char *func, enum kl_factors parts, mlx_array *res_0, mlx_array *res_1,
                mlx_array a, const char *uplo, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res_0);
    struct kl_array **outs = NULL, *out[2] = {NULL};
    size_t n = 0;
    bool upper = false;
    kl_need(&c, res_1, "res_1");
    if (uplo) upper = is_upper(&c, uplo);
    factored(&c, &outs, &n, parts, a, upper, s);
    for (size_t i = 0; i < n; i++) out[i] = outs[i];
    kl_free(outs);
    return kl_call_end_pair(&c, res_0, res_1, out[0], out[1]);
}

KL_API_UNARY(mlx_linalg_inv, kl_inv)
KL_API_UNARY(mlx_linalg_pinv, kl_pinv)
KL_API_UNARY(mlx_linalg_eigvals, kl_eigvals)
KL_API_UNARY(keel_linalg_det, kl_det)
KL_API_BINARY(mlx_linalg_solve, kl_solve)

int mlx_linalg_tri_inv(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s) {
    return flagged(__func__, kl_tri_inv, res, a, upper, s);
}

int mlx_linalg_cholesky(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s) {
    return flagged(__func__, kl_cholesky, res, a, upper, s);
}

int mlx_linalg_cholesky_inv(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s) {
    return flagged(__func__, kl_cholesky_inv, res, a, upper, s);
}

int mlx_linalg_solve_triangular(mlx_array *res, const mlx_array a, const mlx_array b, bool upper,
                                const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *right = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_solve_triangular(&out, in, right, upper, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_linalg_lu(mlx_vector_array *res, const mlx_array a, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array **outs = NULL;
    size_t n = 0;
    factored(&c, &outs, &n, KL_FACTORS_LU, a, false, s);
    return kl_call_end_list(&c, res, outs, n);
}

int mlx_linalg_svd(mlx_vector_array *res, const mlx_array a, bool compute_uv, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array **outs = NULL;
    size_t n = 0;
    if (compute_uv) {
        factored(&c, &outs, &n, KL_FACTORS_SVD, a, false, s);
        return kl_call_end_list(&c, res, outs, n);
    }
    struct kl_array *in = kl_in(&c, a, "a");
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err && !(outs = kl_malloc(sizeof *outs))) kl_fail_nomem(&c.err);
    if (!c.err && !kl_singular_values(outs, in, on, &c.err)) n = 1;
    return kl_call_end_list(&c, res, outs, n);
}

int mlx_linalg_lu_factor(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                         const mlx_stream s) {
    return pair(__func__, KL_FACTORS_LU_FACTOR, res_0, res_1, a, NULL, s);
}

int mlx_linalg_qr(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s) {
    return pair(__func__, KL_FACTORS_QR, res_0, res_1, a, NULL, s);
}

int mlx_linalg_eig(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s) {
    return pair(__func__, KL_FACTORS_EIG, res_0, res_1, a, NULL, s);
}

int mlx_linalg_eigh(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const char *UPLO,
                    const mlx_stream s) {
    return pair(__func__, KL_FACTORS_EIGH, res_0, res_1, a, UPLO ? UPLO : "", s);
}

int mlx_linalg_eigvalsh(mlx_array *res, const mlx_array a, const char *UPLO, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    const bool upper = is_upper(&c, UPLO ? UPLO : "");
    if (!c.err) kl_eigvalsh(&out, in, upper, on, &c.err);
    return kl_call_end(&c, res, out);
}

int keel_linalg_slogdet(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    struct kl_array *in = kl_in(&c, a, "a"), *sign = NULL, *logarithm = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    kl_need(&c, res_1, "res_1");
    if (!c.err) kl_slogdet_part(&sign, in, false, on, &c.err);
    if (!c.err) kl_slogdet_part(&logarithm, in, true, on, &c.err);
    return kl_call_end_pair(&c, res_0, res_1, sign, logarithm);
}

int mlx_linalg_cross(mlx_array *res, const mlx_array a, const mlx_array b, int axis,
                     const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *other = kl_in(&c, b, "b"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_cross(&out, in, other, axis, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_linalg_norm(mlx_array *res, const mlx_array a, double ord, const int *axis, size_t axis_num,
                    bool keepdims, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_norm(&out, in, ord, axis, axis_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_linalg_norm_matrix(mlx_array *res, const mlx_array a, const char *ord, const int *axis,
                           size_t axis_num, bool keepdims, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_norm_matrix(&out, in, ord, axis, axis_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_linalg_norm_l2(mlx_array *res, const mlx_array a, const int *axis, size_t axis_num,
                       bool keepdims, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_norm_l2(&out, in, axis, axis_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}
