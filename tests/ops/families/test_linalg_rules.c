/* test_linalg_rules.c - gradients of linear algebra against differences, in float64, and forward
 * derivatives. Symmetric gradients are those of a function that makes its operand symmetric first;
 * cases.h has the operations for vmap and for functions of any shapes. */
#include "ops/support/linalg_support.h"
#include "transforms/transforms.h"

/* What is computed from a matrix, or from a matrix and right-hand sides. */
struct subject {
    const char *name;
    int n_in;
    int (*build)(struct kl_array **out, struct kl_array *const *in, struct kl_error **err);
    int ndim, dims[4];
    bool symmetric; /* the matrix is made symmetric and positive definite first */
};

#define CALL(name, call)                                                                        \
    static int name(struct kl_array **out, struct kl_array *const *in, struct kl_error **err) { \
        struct kl_stream *s = cpu();                                                            \
        return call;                                                                            \
    }
CALL(inv, kl_inv(out, in[0], s, err))
CALL(pinv, kl_pinv(out, in[0], s, err))
CALL(tri_inv, kl_tri_inv(out, in[0], false, s, err))
CALL(tri_inv_upper, kl_tri_inv(out, in[0], true, s, err))
CALL(solve, kl_solve(out, in[0], in[1], s, err))
CALL(solve_lower, kl_solve_triangular(out, in[0], in[1], false, s, err))
CALL(solve_upper, kl_solve_triangular(out, in[0], in[1], true, s, err))
CALL(cholesky, kl_cholesky(out, in[0], false, s, err))
CALL(cholesky_upper, kl_cholesky(out, in[0], true, s, err))
CALL(det, kl_det(out, in[0], s, err))
CALL(slogdet, kl_slogdet_part(out, in[0], true, s, err))
CALL(singular_values, kl_singular_values(out, in[0], s, err))
CALL(eigvalsh, kl_eigvalsh(out, in[0], false, s, err))
CALL(cross, kl_cross(out, in[0], in[1], -1, s, err))
CALL(norm_l2, kl_norm_l2(out, in[0], NULL, 0, false, s, err))
CALL(norm_nuc, kl_norm_matrix(out, in[0], "nuc", LIST(-2, -1), false, s, err))

/* All parts of a factorisation, flat and one after the other; with signs that do not change by a
 * small step. */
static int parts(struct kl_array **out, enum kl_factors which, struct kl_array *a,
                 struct kl_error **err) {
    struct kl_array **all, *flat[3] = {NULL};
    size_t n;
    KL_TRY(kl_matrix_parts(&all, &n, which, a, false, cpu(), err));
    const size_t begin = which == KL_FACTORS_LU ? 1 : 0;
    const size_t end = which == KL_FACTORS_LU_FACTOR ? 1 : n;
    int rc = KL_OK;
    for (size_t i = begin; i < end && !rc; i++)
        rc = kl_reshape(&flat[i - begin], all[i], LIST(-1), cpu(), err);
    if (!rc) rc = kl_concatenate(out, flat, end - begin, cpu(), err);
    for (int i = 0; i < 3; i++) kl_array_release(flat[i]);
    for (size_t i = 0; i < n; i++) kl_array_release(all[i]);
    kl_free(all);
    return rc;
}
CALL(lu, ((void)s, parts(out, KL_FACTORS_LU, in[0], err)))
CALL(lu_factor, ((void)s, parts(out, KL_FACTORS_LU_FACTOR, in[0], err)))
CALL(qr, ((void)s, parts(out, KL_FACTORS_QR, in[0], err)))
CALL(svd, ((void)s, parts(out, KL_FACTORS_SVD, in[0], err)))
CALL(eigh, ((void)s, parts(out, KL_FACTORS_EIGH, in[0], err)))

static const struct subject subjects[] = {
    {"inv", 1, inv, 3, {2, 4, 4}, false},
    {"pinv of tall", 1, pinv, 3, {2, 5, 3}, false},
    {"pinv of wide", 1, pinv, 2, {3, 4}, false},
    {"tri_inv", 1, tri_inv, 3, {2, 3, 3}, false},
    {"tri_inv, upper", 1, tri_inv_upper, 2, {4, 4}, false},
    {"solve", 2, solve, 3, {2, 4, 4}, false},
    {"solve_triangular", 2, solve_lower, 3, {2, 4, 4}, false},
    {"solve_triangular, upper", 2, solve_upper, 2, {4, 4}, false},
    {"cholesky", 1, cholesky, 3, {2, 4, 4}, true},
    {"cholesky, upper", 1, cholesky_upper, 2, {4, 4}, true},
    {"det", 1, det, 3, {2, 4, 4}, false},
    {"slogdet", 1, slogdet, 2, {4, 4}, false},
    {"lu", 1, lu, 3, {2, 4, 4}, false},
    {"lu of tall", 1, lu, 3, {2, 5, 3}, false},
    {"lu of wide", 1, lu, 3, {2, 3, 5}, false},
    {"lu_factor", 1, lu_factor, 2, {4, 3}, false},
    {"qr", 1, qr, 3, {2, 4, 4}, false},
    {"qr of tall", 1, qr, 3, {2, 5, 3}, false},
    {"qr of wide", 1, qr, 3, {2, 3, 5}, false},
    {"svd", 1, svd, 3, {2, 3, 3}, false},
    {"singular values", 1, singular_values, 3, {2, 4, 3}, false},
    {"eigh", 1, eigh, 3, {2, 4, 4}, true},
    {"eigvalsh", 1, eigvalsh, 2, {4, 4}, true},
    {"cross", 2, cross, 2, {4, 3}, false},
    {"norm, l2", 1, norm_l2, 2, {4, 3}, false},
    {"norm, nuc", 1, norm_nuc, 3, {2, 4, 3}, false},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

/* The sum of the results times fixed numbers. */
static int total(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                 struct kl_error **e) {
    const struct subject *x = ctx;
    struct kl_array *m = NULL, *t = NULL, *y = NULL, *w, *sum = NULL, *args[2] = {in[0], in[n - 1]};
    int rc = KL_OK;
    if (x->symmetric) { /* a a' + 1 */
        struct kl_array *one;
        rc = kl_swapaxes(&t, in[0], -1, -2, cpu(), e);
        if (!rc) rc = kl_matmul(&y, in[0], t, cpu(), e);
        EXPECT_OK(kl_identity(&one, x->dims[x->ndim - 1], in[0]->t.dtype, cpu(), &err));
        if (!rc) rc = kl_add(&m, y, one, cpu(), e);
        kl_array_release(one);
        kl_array_release(y);
        y = NULL;
        args[0] = m;
    }
    if (!rc) rc = x->build(&y, args, e);
    if (!rc) {
        w = random_matrices(KL_F64, y->t.ndim, y->t.dims, 77);
        rc = kl_multiply(&sum, y, w, cpu(), e);
        kl_array_release(w);
    }
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], sum, false, cpu(), e);
    struct kl_array *all[] = {m, t, y, sum};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    return rc;
}

static bool missing(const struct kl_error *e, const char *name) {
    if (e->code != KL_EUNSUPPORTED || !strstr(e->message, "needs LAPACK"))
        fail_msg("%s: %s", name, e->message);
    print_message("NOT RUN: %s\n", e->message);
    return true;
}

/* false: this machine has no library for it. */
static bool value(double *y, const struct subject *x, struct kl_array *const *in) {
    struct kl_arrays outs = {0};
    struct kl_error *e = NULL;
    if (total((void *)(uintptr_t)x, in, (size_t)x->n_in, &outs, &e))
        fail_msg("%s: %s", x->name, e->message);
    if (kl_eval(outs.v, 1, &e)) {
        missing(e, x->name);
        kl_error_release(e);
        kl_arrays_free(&outs);
        return false;
    }
    double *v = values_of(outs.v[0]);
    *y = *v;
    free(v);
    kl_arrays_free(&outs);
    return true;
}

/* Operands of random numbers, in which the steps of differences change no pivot. */
static void operands(struct kl_array *in[2], const struct subject *x) {
    for (int k = 0; k < x->n_in; k++)
        in[k] = random_matrices(KL_F64, x->ndim, x->dims, (uint32_t)(3 + 40 * k));
}

static void gradients(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *x = &subjects[i];
        const struct kl_function f = {.call = total, .ctx = (void *)(uintptr_t)x};
        const int both[] = {0, 1};
        struct kl_array *in[2] = {NULL};
        struct kl_arrays values = {0}, g = {0};
        double y;
        operands(in, x);
        if (value(&y, x, in)) {
            EXPECT_OK(kl_value_and_grad(&f, both, (size_t)x->n_in, in, (size_t)x->n_in, &values, &g,
                                        &err));
            for (int k = 0; k < x->n_in; k++) {
                double *got = values_of(g.v[k]), *at = values_of(in[k]), most = 1;
                for (int64_t j = 0; j < in[k]->t.size; j++) most = fmax(most, fabs(got[j]));
                for (int64_t j = 0; j < in[k]->t.size; j++) {
                    const double was = at[j], step = 1e-6;
                    double side[2];
                    for (int up = 0; up < 2; up++) {
                        struct kl_array *moved[2] = {in[0], in[1]};
                        at[j] = was + (up ? step : -step);
                        moved[k] = array_of(KL_F64, x->ndim, x->dims, at);
                        assert_true(value(&side[up], x, moved));
                        kl_array_release(moved[k]);
                    }
                    at[j] = was;
                    const double want = (side[1] - side[0]) / (2 * step);
                    if (!(fabs(want - got[j]) <= 1e-5 * most))
                        fail_msg("%s: input %d, element %lld: %.10g, difference %.10g", x->name, k,
                                 (long long)j, got[j], want);
                }
                free(got);
                free(at);
            }
            kl_arrays_free(&values);
            kl_arrays_free(&g);
        }
        for (int k = 0; k < x->n_in; k++) kl_array_release(in[k]);
    }
}

/* The forward derivative along a direction is the product of gradient and direction. */
static void derivatives(void **state) {
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *x = &subjects[i];
        const struct kl_function plain = {.call = total, .ctx = (void *)(uintptr_t)x};
        const int both[] = {0, 1};
        struct kl_array *in[2] = {NULL}, *along[2] = {NULL};
        struct kl_arrays values = {0}, g = {0}, outs = {0}, tangents = {0};
        double y, want = 0, most = 1;
        operands(in, x);
        for (int k = 0; k < x->n_in; k++)
            along[k] = random_matrices(KL_F64, x->ndim, x->dims, (uint32_t)(90 + k));
        if (value(&y, x, in)) {
            const size_t n = (size_t)x->n_in;
            EXPECT_OK(kl_value_and_grad(&plain, both, n, in, n, &values, &g, &err));
            for (int k = 0; k < x->n_in; k++) {
                double *got = values_of(g.v[k]), *to = values_of(along[k]);
                for (int64_t j = 0; j < in[k]->t.size; j++) {
                    want += got[j] * to[j];
                    most = fmax(most, fabs(got[j]));
                }
                free(got);
                free(to);
            }
            EXPECT_OK(kl_jvp(&plain, in, n, along, n, &outs, &tangents, &err));
            double *d = values_of(tangents.v[0]);
            if (!(fabs(*d - want) <= 1e-9 * most))
                fail_msg("%s: %.15g along the direction, %.15g by the gradient", x->name, *d, want);
            free(d);
            struct kl_arrays *all[] = {&values, &g, &outs, &tangents};
            for (int k = 0; k < 4; k++) kl_arrays_free(all[k]);
        }
        for (int k = 0; k < x->n_in; k++) {
            kl_array_release(in[k]);
            kl_array_release(along[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients),
        cmocka_unit_test(derivatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
