/* test_linalg_determinants.c - derivatives of determinants, also of singular matrices, against
 * minors and against differences. Those of slogdet fail where the matrix is singular. */
#include "ops/support/linalg_support.h"
#include "transforms/transforms.h"

enum { N = 3, NN = N * N, BATCH = 9 };

/* Regular ones, and singular ones as LU can find them: with a pivot of 0 at any place, with two of
 * them and a rank of N - 1, and with smaller ranks. */
static const double matrices[BATCH][NN] = {
    {2, 1, 0, 1, 3, 1, 0, 1, 4},  {4, 2, 6, 2, 3, 5, 4, 4, 8}, {0, 1, 2, 0, 3, 5, 0, 4, 1},
    {1, 2, 3, 2, 4, 7, 4, 8, -2}, {0, 1, 2, 0, 0, 3, 0, 0, 0}, {1, 2, 3, 2, 4, 6, -1, -2, -3},
    {0, 0, 0, 0, 0, 0, 0, 0, 0},  {0, 0, 0, 0, 7, 0, 0, 0, 0}, {-4, 0, 4, 1, 5, -1, 2, 2, -2},
};

static double weight(int i) {
    return 1 + 0.25 * i;
}

/* Element (i, j) of the cofactors of a. */
static double cofactor(const double *a, int i, int j) {
    const int r0 = (i + 1) % N, r1 = (i + 2) % N, c0 = (j + 1) % N, c1 = (j + 2) % N;
    return a[r0 * N + c0] * a[r1 * N + c1] - a[r0 * N + c1] * a[r1 * N + c0];
}
static double determinant(const double *a) {
    double sum = 0;
    for (int j = 0; j < N; j++) sum += a[j] * cofactor(a, 0, j);
    return sum;
}

static struct kl_array *array_in(enum kl_dtype dtype, int ndim, const int *dims, const double *v) {
    struct kl_array *wide = array_of(KL_F64, ndim, dims, v), *out;
    EXPECT_OK(kl_astype(&out, wide, dtype, cpu(), &err));
    kl_array_release(wide);
    return out;
}

static double *doubles_of(struct kl_array *a) {
    struct kl_array *wide;
    EXPECT_OK(kl_astype(&wide, a, KL_F64, cpu(), &err));
    double *v = values_of(wide);
    kl_array_release(wide);
    return v;
}

/* outs[0] = the sum of x times the weights, which have its dtype. */
static int weighted(struct kl_array *x, struct kl_arrays *outs, struct kl_error **e) {
    double w[BATCH * NN];
    for (int i = 0; i < x->t.size; i++) w[i] = weight(i);
    struct kl_array *by = array_in((enum kl_dtype)x->t.dtype, x->t.ndim, x->t.dims, w), *all = NULL;
    int rc = kl_multiply(&all, x, by, cpu(), e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], all, false, cpu(), e);
    kl_array_release(by);
    kl_array_release(all);
    return rc;
}

static int of_det(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                  struct kl_error **e) {
    struct kl_array *d;
    KL_TRY(kl_det(&d, in[0], cpu(), e));
    const int rc = weighted(d, outs, e);
    kl_array_release(d);
    return rc;
}

/* The gradient of a sum of determinants; where ctx is set, its weighted sum. */
static int gradient_of_det(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                           struct kl_error **e) {
    const struct kl_function f = {.call = of_det};
    struct kl_arrays values = {0}, g = {0};
    KL_TRY(kl_value_and_grad(&f, (int[]){0}, 1, in, 1, &values, &g, e));
    kl_arrays_free(&values);
    if (!ctx) {
        *outs = g;
        return KL_OK;
    }
    const int rc = weighted(g.v[0], outs, e);
    kl_arrays_free(&g);
    return rc;
}

static void expect_close(const char *what, int i, double got, double want, double bound) {
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: element %d of matrix %d: %.12g, not %.12g", what, i % NN, i / NN, got, want);
}

/* Reverse: the cofactors; forward: their sum along a direction; lane by lane the same. */
static void gradients(void **state) {
    for (int d = 0; d < 2; d++) {
        const enum kl_dtype dtype = d ? KL_F64 : KL_F32;
        const double bound = d ? 1e-11 : 2e-3;
        struct kl_array *a = array_in(dtype, SHAPE(BATCH, N, N), &matrices[0][0]), *along;
        const struct kl_function f = {.call = of_det}, of_lane = {.call = gradient_of_det};
        struct kl_arrays values = {0}, g = {0}, tangents = {0}, in = {0}, out = {0}, lanes = {0};
        double direction[BATCH * NN], want_along = 0;
        const int axis = 0;
        for (int i = 0; i < BATCH * NN; i++) direction[i] = 0.125 * (i % 11) - 0.5;
        along = array_in(dtype, SHAPE(BATCH, N, N), direction);
        EXPECT_OK(kl_value_and_grad(&f, (int[]){0}, 1, &a, 1, &values, &g, &err));
        EXPECT_OK(kl_vmap_trace(&of_lane, &a, 1, &axis, &in, &out, &err));
        EXPECT_OK(kl_vmap_replace(&a, 1, in.v, out.v, 1, &axis, &axis, &lanes, &err));
        double *got = doubles_of(g.v[0]), *lane = doubles_of(lanes.v[0]);
        for (int i = 0; i < BATCH * NN; i++) {
            const double want = cofactor(matrices[i / NN], i % NN / N, i % N);
            expect_close("gradient", i, got[i], weight(i / NN) * want, bound);
            expect_close("gradient of lanes", i, lane[i], want, bound);
            want_along += weight(i / NN) * want * direction[i];
        }
        kl_arrays_free(&values);
        EXPECT_OK(kl_jvp(&f, &a, 1, &along, 1, &values, &tangents, &err));
        double *slope = doubles_of(tangents.v[0]);
        assert_true(fabs(*slope - want_along) <= 100 * bound);
        free(got), free(lane), free(slope);
        struct kl_arrays *all[] = {&values, &g, &tangents, &in, &out, &lanes};
        for (int i = 0; i < 6; i++) kl_arrays_free(all[i]);
        kl_array_release(a);
        kl_array_release(along);
    }
}

/* Against differences: of determinants for the gradient, and of minors for the second one, which is
 * right where the rank is N - 1 or N. */
static void differences(void **state) {
    struct kl_array *a = array_in(KL_F64, SHAPE(BATCH, N, N), &matrices[0][0]);
    const struct kl_function f = {.call = of_det},
                             second = {.call = gradient_of_det, .ctx = (void *)(uintptr_t)&f};
    struct kl_arrays values = {0}, g = {0}, h = {0};
    EXPECT_OK(kl_value_and_grad(&f, (int[]){0}, 1, &a, 1, &values, &g, &err));
    kl_arrays_free(&values);
    EXPECT_OK(kl_value_and_grad(&second, (int[]){0}, 1, &a, 1, &values, &h, &err));
    double *got = doubles_of(g.v[0]), *twice = doubles_of(h.v[0]);
    for (int i = 0; i < BATCH * NN; i++) {
        double side[2], of_gradient[2] = {0}, m[NN];
        const int which = i / NN;
        for (int up = 0; up < 2; up++) {
            memcpy(m, matrices[which], sizeof m);
            m[i % NN] += up ? 1e-4 : -1e-4;
            side[up] = determinant(m) * weight(which);
            for (int k = 0; k < NN; k++)
                of_gradient[up] +=
                    weight(which * NN + k) * weight(which) * cofactor(m, k / N, k % N);
        }
        expect_close("gradient", i, got[i], (side[1] - side[0]) / 2e-4, 1e-7);
        if (which >= 5 && which <= 7) continue;
        expect_close("second gradient", i, twice[i], (of_gradient[1] - of_gradient[0]) / 2e-4,
                     1e-6);
    }
    free(got), free(twice);
    kl_arrays_free(&values);
    kl_arrays_free(&g);
    kl_arrays_free(&h);
    kl_array_release(a);
}

/* One row and column, none, and larger ones of rank n - 1: row and column `hole` are 0, so that
 * their cofactor alone is not, the determinant of what is left. */
static void sizes(void **state) {
    static const int sizes[] = {0, 1, 2, 17, 70};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int n = sizes[k], hole = n / 2;
        double *v = calloc((size_t)(n * n + 1), sizeof *v), want = 1;
        for (int i = 0; i < n; i++)
            for (int j = i; j < n; j++)
                v[i * n + j] = i == hole || j == hole ? 0 : i == j ? 1 + 0.01 * i : 0.1 / (1 + j);
        for (int i = 0; i < n; i++) want *= i == hole ? 1 : 1 + 0.01 * i;
        struct kl_array *a = array_in(KL_F64, SHAPE(1, n, n), v);
        const struct kl_function f = {.call = of_det};
        struct kl_arrays values = {0}, g = {0};
        EXPECT_OK(kl_value_and_grad(&f, (int[]){0}, 1, &a, 1, &values, &g, &err));
        double *got = doubles_of(g.v[0]);
        for (int i = 0; i < n * n; i++)
            expect_close("sizes", i, got[i], i == hole * (n + 1) ? want : 0, 1e-9 * want);
        free(v), free(got);
        kl_arrays_free(&values);
        kl_arrays_free(&g);
        kl_array_release(a);
    }
}

static void refusals(void **state) {
    const double v[2][4] = {{2, 0, 0, 3}, {1, 2, 2, 4}};
    struct kl_array *a = array_of(KL_F64, SHAPE(2, 2, 2), v), *d = array_of(KL_F64, SHAPE(3), v),
                    *narrow = array_in(KL_F32, SHAPE(2), v[0]), *out;
    EXPECT_FAIL(KL_ESHAPE, kl_determinant(&out, d, a, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_determinant(&out, d, d, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_determinant(&out, narrow, a, cpu(), &err));
    kl_array_release(d);
    kl_array_release(narrow);
    kl_array_release(a);
}

static int of_slogdet(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                      struct kl_error **e) {
    struct kl_array *d;
    KL_TRY(kl_slogdet_part(&d, in[0], true, cpu(), e));
    const int rc = weighted(d, outs, e);
    kl_array_release(d);
    return rc;
}

static void slogdet_fails(void **state) {
    const double v[2][4] = {{2, 0, 0, 3}, {1, 2, 2, 4}};
    struct kl_array *a = array_of(KL_F64, SHAPE(2, 2, 2), v);
    const struct kl_function f = {.call = of_slogdet};
    struct kl_arrays values = {0}, g = {0};
    struct kl_error *e = NULL;
    EXPECT_OK(kl_value_and_grad(&f, (int[]){0}, 1, &a, 1, &values, &g, &err));
    EXPECT_OK(kl_eval(values.v, 1, &err));
    assert_int_equal(kl_eval(g.v, 1, &e), KL_EMATRIX);
    assert_non_null(strstr(e->message, "matrix 1 of the batch is singular"));
    kl_error_release(e);
    kl_arrays_free(&values);
    kl_arrays_free(&g);
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients), cmocka_unit_test(differences),   cmocka_unit_test(sizes),
        cmocka_unit_test(refusals),  cmocka_unit_test(slogdet_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
