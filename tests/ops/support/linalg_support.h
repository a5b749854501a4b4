/* linalg_support.h - matrices for the tests of linear algebra, and their products. */
#pragma once
#include "ops/linalg.h"
#include "ops/support/helpers.h"

/* Numbers from -1 to 1, which the seed decides. */
static inline struct kl_array *random_matrices(enum kl_dtype dtype, int ndim, const int *dims,
                                               uint32_t seed) {
    int64_t size;
    struct kl_array *a, *out;
    assert_true(kl_shape_size(ndim, dims, 8, &size));
    double *v = malloc(((size_t)size + 1) * 2 * sizeof *v);
    for (int64_t i = 0; i < 2 * size; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (double)(seed >> 8) / (1 << 23) - 1;
    }
    if (dtype == KL_C64) {
        float *f = malloc(((size_t)size + 1) * 2 * sizeof *f);
        for (int64_t i = 0; i < 2 * size; i++) f[i] = (float)v[i];
        out = array_of(KL_C64, ndim, dims, f);
        free(f);
    } else {
        a = array_of(KL_F64, ndim, dims, v);
        EXPECT_OK(kl_astype(&out, a, dtype, cpu(), &err));
        kl_array_release(a);
    }
    free(v);
    return out;
}

/* The product of matrices, which are borrowed; y NULL: of x and its conjugate transpose. */
static inline struct kl_array *times(struct kl_array *x, struct kl_array *y) {
    struct kl_array *out, *c, *t;
    if (y) {
        EXPECT_OK(kl_matmul(&out, x, y, cpu(), &err));
        return out;
    }
    EXPECT_OK(kl_conjugate(&c, x, cpu(), &err));
    EXPECT_OK(kl_swapaxes(&t, c, -1, -2, cpu(), &err));
    EXPECT_OK(kl_matmul(&out, x, t, cpu(), &err));
    kl_array_release(c);
    kl_array_release(t);
    return out;
}

/* x' */
static inline struct kl_array *adjoint_of(struct kl_array *x) {
    struct kl_array *c, *t;
    EXPECT_OK(kl_conjugate(&c, x, cpu(), &err));
    EXPECT_OK(kl_swapaxes(&t, c, -1, -2, cpu(), &err));
    kl_array_release(c);
    return t;
}

/* Symmetric or Hermitian matrices (..., n, n), positive definite: x x' + 1. */
static inline struct kl_array *definite(enum kl_dtype dtype, int ndim, const int *dims,
                                        uint32_t seed) {
    struct kl_array *x = random_matrices(dtype, ndim, dims, seed), *y = times(x, NULL), *one, *out;
    EXPECT_OK(kl_identity(&one, dims[ndim - 1], dtype, cpu(), &err));
    EXPECT_OK(kl_add(&out, y, one, cpu(), &err));
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(one);
    return out;
}

/* The largest size of an element of x - y; both are borrowed. */
static inline double distance(struct kl_array *x, struct kl_array *y) {
    struct kl_array *d, *size, *most, *wide;
    EXPECT_OK(kl_subtract(&d, x, y, cpu(), &err));
    EXPECT_OK(kl_abs(&size, d, cpu(), &err));
    EXPECT_OK(kl_max(&most, size, false, cpu(), &err));
    EXPECT_OK(kl_astype(&wide, most, KL_F64, cpu(), &err));
    double *v = values_of(wide), r = *v;
    free(v);
    struct kl_array *all[] = {d, size, most, wide};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    return r;
}

static inline double precision(const struct kl_array *x) {
    return x->t.dtype == KL_F64 ? 1e-11 : 1e-4;
}

/* Both, which are taken, have one shape and are the same up to rounding. */
static inline void expect_near(const char *what, struct kl_array *x, struct kl_array *y) {
    assert_int_equal(x->t.ndim, y->t.ndim);
    for (int i = 0; i < x->t.ndim; i++) assert_int_equal(x->t.dims[i], y->t.dims[i]);
    struct kl_array *zero;
    EXPECT_OK(kl_zeros_like(&zero, y, cpu(), &err));
    const double d = x->t.size ? distance(x, y) : 0, size = x->t.size ? distance(y, zero) : 0;
    kl_array_release(zero);
    if (!(d <= precision(x) * (1 + size))) fail_msg("%s: %g away", what, d);
    kl_array_release(x);
    kl_array_release(y);
}

/* x, which is taken, is identity matrices. */
static inline void expect_identity(const char *what, struct kl_array *x) {
    struct kl_array *one, *all;
    EXPECT_OK(kl_identity(&one, x->t.dims[x->t.ndim - 1], x->t.dtype, cpu(), &err));
    EXPECT_OK(kl_broadcast_to(&all, one, x->t.dims, (size_t)x->t.ndim, cpu(), &err));
    kl_array_release(one);
    expect_near(what, x, all);
}

/* A factorisation; 0 when this machine has no library for it. */
static inline size_t factors_of(struct kl_array *out[3], enum kl_factors which, struct kl_array *a,
                                bool upper) {
    struct kl_array **all = NULL;
    struct kl_error *e = NULL;
    size_t n = 0;
    EXPECT_OK(kl_matrix_parts(&all, &n, which, a, upper, cpu(), &err));
    const int rc = kl_eval(all, n, &e);
    if (rc && rc != KL_EUNSUPPORTED) fail_msg("%s", e->message);
    if (rc) {
        assert_non_null(strstr(e->message, "needs LAPACK"));
        print_message("NOT RUN: %s\n", e->message);
        kl_error_release(e);
    }
    for (size_t i = 0; i < n; i++) {
        if (rc)
            kl_array_release(all[i]);
        else
            out[i] = all[i];
    }
    kl_free(all);
    return rc ? 0 : n;
}
