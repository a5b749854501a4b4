/* test_linalg.c - inverses, equations and factorisations: their products give the matrices back, in
 * all dtypes, batches and strides. */
#include "ops/support/linalg_support.h"

static const enum kl_dtype reals[] = {KL_F32, KL_F64};
static const enum kl_dtype numbers[] = {KL_F32, KL_F64, KL_C64};
/* Shapes of square matrices, and of others. */
static const struct {
    int ndim, dims[4];
} squares[] = {{2, {1, 1}}, {2, {5, 5}}, {3, {4, 3, 3}}, {4, {2, 1, 7, 7}}, {2, {70, 70}}},
  shapes[] = {{2, {4, 4}}, {2, {6, 3}}, {3, {2, 3, 5}}, {3, {3, 1, 4}}, {2, {40, 33}}};
enum { N_SQUARES = 5, N_SHAPES = 5 };

#define EACH_MATRIX(dtypes, list, n)                                                            \
    for (size_t d_ = 0; d_ < sizeof(dtypes) / sizeof *(dtypes); d_++)                           \
        for (int i_ = 0; i_ < (n); i_++)                                                        \
            for (struct kl_array *a = random_matrices(dtypes[d_], list[i_].ndim, list[i_].dims, \
                                                      (uint32_t)(7 + i_));                      \
                 a; kl_array_release(a), a = NULL)

static void inverses(void **state) {
    EACH_MATRIX(reals, squares, N_SQUARES) {
        struct kl_array *x;
        EXPECT_OK(kl_inv(&x, a, cpu(), &err));
        assert_int_equal(x->t.dtype, a->t.dtype);
        expect_identity("inv", times(a, x));
        kl_array_release(x);
    }
}

/* A triangle with a large diagonal, of which the other triangle has numbers that nobody reads. */
static void triangles(void **state) {
    EACH_MATRIX(reals, squares, N_SQUARES) {
        struct kl_array *one, *three, *full, *t, *x, *b;
        EXPECT_OK(kl_identity(&one, a->t.dims[a->t.ndim - 1], a->t.dtype, cpu(), &err));
        three = scalar_of(a->t.dtype, 30);
        EXPECT_OK(kl_multiply(&b, one, three, cpu(), &err));
        EXPECT_OK(kl_add(&full, a, b, cpu(), &err));
        for (int upper = 0; upper < 2; upper++) {
            if (upper)
                EXPECT_OK(kl_triu(&t, full, 0, cpu(), &err));
            else
                EXPECT_OK(kl_tril(&t, full, 0, cpu(), &err));
            EXPECT_OK(kl_tri_inv(&x, full, upper, cpu(), &err));
            expect_identity("tri_inv", times(t, x));
            kl_array_release(x);
            EXPECT_OK(kl_solve_triangular(&x, full, a, upper, cpu(), &err));
            expect_near("solve_triangular", times(t, x), kl_array_retain(a));
            kl_array_release(x);
            kl_array_release(t);
        }
        struct kl_array *all[] = {one, three, full, b};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
}

static void choleskys(void **state) {
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < N_SQUARES; i++)
            for (int upper = 0; upper < 2; upper++) {
                struct kl_array *a = definite(reals[d], squares[i].ndim, squares[i].dims, 3), *l,
                                *t, *x, *zero;
                EXPECT_OK(kl_cholesky(&l, a, upper, cpu(), &err));
                t = adjoint_of(l);
                expect_near("cholesky", upper ? times(t, l) : times(l, t), kl_array_retain(a));
                if (upper)
                    EXPECT_OK(kl_triu(&zero, l, 0, cpu(), &err));
                else
                    EXPECT_OK(kl_tril(&zero, l, 0, cpu(), &err));
                assert_true(distance(zero, l) == 0);
                EXPECT_OK(kl_cholesky_inv(&x, l, upper, cpu(), &err));
                expect_identity("cholesky_inv", times(a, x));
                struct kl_array *all[] = {a, l, t, x, zero};
                for (int k = 0; k < 5; k++) kl_array_release(all[k]);
            }
}

static void equations(void **state) {
    static const struct {
        int n_a, a[4], n_b, b[4], n_x, x[4];
    } cases[] = {
        {2, {4, 4}, 1, {4}, 1, {4}},
        {2, {4, 4}, 2, {4, 3}, 2, {4, 3}},
        {3, {2, 4, 4}, 2, {4, 3}, 3, {2, 4, 3}},
        {3, {2, 4, 4}, 1, {4}, 2, {2, 4}},
        {2, {4, 4}, 3, {5, 4, 2}, 3, {5, 4, 2}},
        {4, {3, 1, 4, 4}, 3, {2, 4, 1}, 4, {3, 2, 4, 1}},
        {3, {0, 4, 4}, 2, {4, 3}, 3, {0, 4, 3}},
        {2, {4, 4}, 2, {4, 0}, 2, {4, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int d = 0; d < 2; d++) {
            struct kl_array *a = random_matrices(reals[d], cases[i].n_a, cases[i].a, 11),
                            *b = random_matrices(reals[d], cases[i].n_b, cases[i].b, 12), *x;
            EXPECT_OK(kl_solve(&x, a, b, cpu(), &err));
            expect_shape(x, cases[i].n_x, cases[i].x);
            struct kl_array *y, *want;
            if (cases[i].n_b == 1) { /* a vector is no column for a product with batches */
                struct kl_array *column, *product;
                EXPECT_OK(kl_expand_dims(&column, x, -1, cpu(), &err));
                product = times(a, column);
                EXPECT_OK(kl_squeeze_axis(&y, product, -1, cpu(), &err));
                kl_array_release(column);
                kl_array_release(product);
            } else {
                y = times(a, x);
            }
            EXPECT_OK(kl_broadcast_to(&want, b, y->t.dims, (size_t)y->t.ndim, cpu(), &err));
            expect_near("solve", y, want);
            struct kl_array *all[] = {a, b, x};
            for (int k = 0; k < 3; k++) kl_array_release(all[k]);
        }
}

/* Integers meet a float in its dtype, and are float32 alone. */
static void dtypes(void **state) {
    struct kl_array *a = I32(SHAPE(2, 2), 2, 0, 0, 4),
                    *b = array_of(KL_F64, SHAPE(2), (double[]){2, 2}), *out;
    EXPECT_OK(kl_inv(&out, a, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 0.5f, 0, 0, 0.25f);
    EXPECT_OK(kl_solve(&out, a, b, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F64);
    double *v = values_of(out);
    assert_true(v[0] == 1 && v[1] == 0.5);
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
}

static void lus(void **state) {
    EACH_MATRIX(reals, shapes, N_SHAPES) {
        struct kl_array *f[3], *g[3], *product, *places, *at, *rows;
        assert_int_equal(factors_of(f, KL_FACTORS_LU, a, false), 3);
        assert_int_equal(f[0]->t.dtype, KL_U32);
        product = times(f[1], f[2]);
        EXPECT_OK(kl_expand_dims(&places, f[0], -1, cpu(), &err));
        EXPECT_OK(kl_broadcast_to(&at, places, a->t.dims, (size_t)a->t.ndim, cpu(), &err));
        EXPECT_OK(kl_take_along_axis(&rows, product, at, -2, cpu(), &err));
        expect_near("lu", rows, kl_array_retain(a));
        assert_int_equal(factors_of(g, KL_FACTORS_LU_FACTOR, a, false), 2);
        assert_int_equal(g[1]->t.dtype, KL_U32);
        /* The exchanges give the same order of rows. */
        uint32_t *pivot = values_of(g[1]), *place = values_of(f[0]);
        const int m = a->t.dims[a->t.ndim - 2], n = a->t.dims[a->t.ndim - 1], k = m < n ? m : n;
        for (int64_t b = 0; b < a->t.size / m / n; b++) {
            uint32_t order[64];
            for (int i = 0; i < m; i++) order[i] = (uint32_t)i;
            for (int i = 0; i < k; i++) {
                const uint32_t with = pivot[b * k + i], was = order[i];
                assert_in_range(with, i, m - 1);
                order[i] = order[with];
                order[with] = was;
            }
            for (int i = 0; i < m; i++) assert_int_equal(place[b * m + order[i]], i);
        }
        free(pivot);
        free(place);
        struct kl_array *all[] = {f[0], f[1], f[2], g[0], g[1], product, places, at};
        for (int i = 0; i < 8; i++) kl_array_release(all[i]);
    }
}

static void qrs(void **state) {
    EACH_MATRIX(reals, shapes, N_SHAPES) {
        struct kl_array *f[3], *t, *zero;
        if (!factors_of(f, KL_FACTORS_QR, a, false)) continue;
        expect_near("qr", times(f[0], f[1]), kl_array_retain(a));
        t = adjoint_of(f[0]);
        expect_identity("q", times(t, f[0]));
        EXPECT_OK(kl_triu(&zero, f[1], 0, cpu(), &err));
        assert_true(distance(zero, f[1]) == 0);
        struct kl_array *all[] = {f[0], f[1], t, zero};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
}

/* The columns of x times the numbers in s. */
static struct kl_array *scaled(struct kl_array *x, struct kl_array *s) {
    struct kl_array *row, *out;
    EXPECT_OK(kl_expand_dims(&row, s, -2, cpu(), &err));
    EXPECT_OK(kl_multiply(&out, x, row, cpu(), &err));
    kl_array_release(row);
    return out;
}

/* The first k rows or, with axis -1, columns. */
static struct kl_array *first(struct kl_array *x, int axis, int k) {
    struct kl_array **parts, *out;
    size_t n;
    EXPECT_OK(kl_split_sections(&parts, &n, x, (int[]){k}, 1, axis, cpu(), &err));
    out = kl_array_retain(parts[0]);
    for (size_t i = 0; i < n; i++) kl_array_release(parts[i]);
    kl_free(parts);
    return out;
}

static void svds(void **state) {
    EACH_MATRIX(numbers, shapes, N_SHAPES) {
        struct kl_array *f[3], *values;
        const int m = a->t.dims[a->t.ndim - 2], n = a->t.dims[a->t.ndim - 1], k = m < n ? m : n;
        if (!factors_of(f, KL_FACTORS_SVD, a, false)) continue;
        assert_int_equal(f[1]->t.dtype, a->t.dtype == KL_C64 ? KL_F32 : a->t.dtype);
        struct kl_array *u = first(f[0], -1, k), *vt = first(f[2], -2, k), *us = scaled(u, f[1]);
        expect_near("svd", times(us, vt), kl_array_retain(a));
        expect_identity("u", times(f[0], NULL));
        expect_identity("vt", times(f[2], NULL));
        EXPECT_OK(kl_singular_values(&values, a, cpu(), &err));
        expect_near("singular values", values, kl_array_retain(f[1]));
        struct kl_array *all[] = {f[0], f[1], f[2], u, vt, us};
        for (int i = 0; i < 6; i++) kl_array_release(all[i]);
    }
}

static void pinvs(void **state) {
    EACH_MATRIX(reals, shapes, N_SHAPES) {
        struct kl_array *x, *ax;
        struct kl_error *e = NULL;
        EXPECT_OK(kl_pinv(&x, a, cpu(), &err));
        if (kl_eval(&x, 1, &e)) {
            assert_non_null(strstr(e->message, "pinv: needs LAPACK"));
            kl_error_release(e);
            kl_array_release(x);
            continue;
        }
        ax = times(a, x);
        expect_near("a p a", times(ax, a), kl_array_retain(a));
        expect_near("p a p", times(x, ax), kl_array_retain(x));
        kl_array_release(x);
        kl_array_release(ax);
    }
}

static void eighs(void **state) {
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < N_SQUARES; i++)
            for (int upper = 0; upper < 2; upper++) {
                struct kl_array *a = definite(numbers[d], squares[i].ndim, squares[i].dims, 5),
                                *half, *f[3], *values;
                if (upper)
                    EXPECT_OK(kl_triu(&half, a, 0, cpu(), &err));
                else
                    EXPECT_OK(kl_tril(&half, a, 0, cpu(), &err));
                if (factors_of(f, KL_FACTORS_EIGH, half, upper)) {
                    struct kl_array *vw = scaled(f[1], f[0]), *t = adjoint_of(f[1]);
                    expect_near("eigh", times(vw, t), kl_array_retain(a));
                    expect_identity("v", times(f[1], t));
                    EXPECT_OK(kl_eigvalsh(&values, half, upper, cpu(), &err));
                    expect_near("eigvalsh", values, kl_array_retain(f[0]));
                    struct kl_array *all[] = {f[0], f[1], vw, t};
                    for (int k = 0; k < 4; k++) kl_array_release(all[k]);
                }
                kl_array_release(half);
                kl_array_release(a);
            }
}

static void eigs(void **state) {
    EACH_MATRIX(numbers, squares, N_SQUARES) {
        struct kl_array *f[3], *c, *values;
        if (!factors_of(f, KL_FACTORS_EIG, a, false)) continue;
        EXPECT_OK(kl_astype(&c, a, KL_C64, cpu(), &err));
        expect_near("eig", times(c, f[1]), scaled(f[1], f[0]));
        EXPECT_OK(kl_eigvals(&values, a, cpu(), &err));
        expect_near("eigvals", values, kl_array_retain(f[0]));
        struct kl_array *all[] = {f[0], f[1], c};
        for (int i = 0; i < 3; i++) kl_array_release(all[i]);
    }
}

/* Determinants of triangles with exchanged rows are known. */
static void determinants(void **state) {
    struct kl_array *a = F32(SHAPE(3, 2, 2), 0, 2, 3, 5, 4, 1, 0, -2, 1, 1, 1, 1), *out;
    EXPECT_OK(kl_det(&out, a, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), -6, -8, 0);
    EXPECT_OK(kl_slogdet_part(&out, a, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), -1, -1, 0);
    EXPECT_OK(kl_slogdet_part(&out, a, true, cpu(), &err));
    float *v = values_of(out);
    assert_true(fabsf(v[0] - logf(6)) < 1e-6f && fabsf(v[1] - logf(8)) < 1e-6f);
    assert_true(v[2] == -INFINITY);
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    a = F32(SHAPE(0, 0), 0);
    EXPECT_OK(kl_det(&out, a, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    kl_array_release(a);
}

/* Of 16 bits: in float32, rounded once. */
static void determinants_of_half(void **state) {
    struct kl_array *a = F32(SHAPE(2, 2), 0.125f, 1, 1, 0.3125f), *half, *wide, *out;
    for (int i = 0; i < 2; i++) {
        const enum kl_dtype dtype = i ? KL_BF16 : KL_F16;
        EXPECT_OK(kl_astype(&half, a, dtype, cpu(), &err));
        EXPECT_OK(kl_det(&out, half, cpu(), &err));
        assert_int_equal(out->t.dtype, dtype);
        EXPECT_OK(kl_astype(&wide, out, KL_F32, cpu(), &err));
        EXPECT_F32(wide, SCALAR, -0.9609375f);
        kl_array_release(out);
        for (int logarithm = 0; logarithm < 2; logarithm++) {
            EXPECT_OK(kl_slogdet_part(&out, half, logarithm, cpu(), &err));
            assert_int_equal(out->t.dtype, dtype);
            kl_array_release(out);
        }
        kl_array_release(half);
    }
    kl_array_release(a);
}

/* Matrices without rows or columns, and batches without matrices. */
static void empty(void **state) {
    struct kl_array *none = F32(SHAPE(0, 0), 0), *no_batch = F32(SHAPE(0, 3, 3), 0),
                    *tall = F32(SHAPE(2, 3, 0), 0), *out, *f[3];
    EXPECT_OK(kl_inv(&out, none, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 0), 0);
    EXPECT_OK(kl_cholesky(&out, no_batch, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3, 3), 0);
    EXPECT_OK(kl_pinv(&out, tall, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 0, 3), 0);
    assert_int_equal(factors_of(f, KL_FACTORS_LU, tall, false), 3);
    uint32_t *p = values_of(f[0]);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(p[i], i % 3);
    free(p);
    for (int i = 0; i < 3; i++) kl_array_release(f[i]);
    assert_int_equal(factors_of(f, KL_FACTORS_SVD, tall, false), 3);
    expect_shape(f[1], SHAPE(2, 0));
    expect_shape(f[2], SHAPE(2, 0, 0));
    expect_identity("u of nothing", f[0]);
    for (int i = 1; i < 3; i++) kl_array_release(f[i]);
    assert_int_equal(factors_of(f, KL_FACTORS_EIG, none, false), 2);
    for (int i = 0; i < 2; i++) kl_array_release(f[i]);
    struct kl_array *all[] = {none, no_batch, tall};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* The bits do not depend on how the operand lies in memory. */
static void strides(void **state) {
    static kl_unary_fn *const builds[] = {kl_inv, kl_pinv, kl_det, kl_singular_values, kl_eigvals};
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        struct kl_array *a = random_matrices(KL_F32, SHAPE(3, 9, 9), 4), *b, *x, *y;
        struct kl_error *e = NULL;
        EXPECT_OK(kl_copy(&b, a, cpu(), &err));
        b = strided(b);
        EXPECT_OK(builds[i](&x, a, cpu(), &err));
        EXPECT_OK(builds[i](&y, b, cpu(), &err));
        if (kl_eval(&x, 1, &e)) {
            assert_int_equal(e->code, KL_EUNSUPPORTED);
            kl_error_release(e);
        } else {
            assert_true(distance(x, y) == 0);
        }
        struct kl_array *all[] = {a, b, x, y};
        for (int k = 0; k < 4; k++) kl_array_release(all[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inverses),
        cmocka_unit_test(triangles),
        cmocka_unit_test(choleskys),
        cmocka_unit_test(equations),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(lus),
        cmocka_unit_test(qrs),
        cmocka_unit_test(svds),
        cmocka_unit_test(pinvs),
        cmocka_unit_test(eighs),
        cmocka_unit_test(eigs),
        cmocka_unit_test(determinants),
        cmocka_unit_test(determinants_of_half),
        cmocka_unit_test(empty),
        cmocka_unit_test(strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
