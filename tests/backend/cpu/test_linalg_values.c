/* test_linalg_values.c - QR, SVD, EIGH and EIG of matrix.h on the variant for any CPU: their parts
 * are multiplied together again, in double, and their vectors are orthonormal, for random, graded
 * and rank-deficient matrices, repeated values, and numbers near the largest and the smallest. It
 * runs with LAPACK, without it and with a stand-in (tests/CMakeLists.txt), which is slow: then the
 * largest matrices are left to the other runs. */
#include "backend/cpu/linalg_support.h"

typedef double complex number;
static const int sizes[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 24, 25, 31, 32, 33, 49, 64, 70, 130};
enum { N_SIZES = sizeof sizes / sizeof *sizes };
static const int shapes[][2] = {{0, 5},   {5, 0},   {1, 9},   {9, 1},   {7, 3},    {3, 7},
                                {40, 33}, {33, 40}, {20, 70}, {70, 20}, {130, 64}, {64, 130}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bool takes(int m, int n) {
    const char *given = getenv("KEEL_LAPACK");
    return !given || (m <= 40 && n <= 40);
}

static number get(enum kl_dtype dtype, const void *at, int i) {
    if (dtype == KL_F64) return ((const double *)at)[i];
    if (dtype == KL_C64) return ((const float complex *)at)[i];
    return ((const float *)at)[i];
}

static void set(enum kl_dtype dtype, void *at, int i, number x) {
    if (dtype == KL_F64)
        ((double *)at)[i] = creal(x);
    else if (dtype == KL_C64)
        ((float complex *)at)[i] = (float complex)x;
    else
        ((float *)at)[i] = (float)creal(x);
}

static void *elements(int n) {
    void *p = test_alloc((size_t)n * 16);
    memset(p, 0, (size_t)n * 16);
    return p;
}

static number *numbers(enum kl_dtype dtype, const void *at, int n) {
    number *p = elements(n);
    for (int i = 0; i < n; i++) p[i] = get(dtype, at, i);
    return p;
}

static number any(enum kl_dtype dtype) {
    double x = draw();
    return dtype == KL_C64 ? x + draw() * I : x;
}

/* The largest element of a b - c; a (m, k), b (k, n). */
static double residual(int m, int n, int k, const number *a, const number *b, const number *c) {
    double most = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            number sum = -c[i * n + j];
            for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            if (!(cabs(sum) <= most)) most = cabs(sum);
        }
    return most;
}

/* The largest element of the product of the columns (or rows) of a (m, n) with each other, less the
 * identity. */
static double skew(int m, int n, const number *a, bool rows) {
    double most = 0;
    int count = rows ? m : n, length = rows ? n : m;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            number sum = -(i == j);
            for (int p = 0; p < length; p++)
                sum += rows ? a[i * n + p] * conj(a[j * n + p]) : a[p * n + i] * conj(a[p * n + j]);
            if (!(cabs(sum) <= most)) most = cabs(sum);
        }
    return most;
}

static double largest(int n, const number *a) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, cabs(a[i]));
    return most;
}

/* The kinds of matrices. */
enum { RANDOM, LOW_RANK, ZERO, GRADED, REPEATED, HUGE_NUMBERS, TINY_NUMBERS, KINDS };

static void *matrix(enum kl_dtype dtype, int m, int n, int kind, bool hermitian) {
    number *a = elements(m * n), *b = elements(m * n);
    void *out = elements(m * n);
    for (int i = 0; i < m * n; i++) a[i] = any(dtype);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            number *x = &a[i * n + j];
            if (kind == LOW_RANK && i > 2) *x = a[(i % 3) * n + j] * (i + 1);
            if (kind == ZERO) *x = 0;
            if (kind == GRADED) *x *= pow(2, -(i + j) / 4.0);
            if (kind == REPEATED) *x = i == j ? 3 - i % 2 : 0;
            if (kind == HUGE_NUMBERS) *x *= dtype == KL_F64 ? 0x1p1016 : 0x1p118;
            if (kind == TINY_NUMBERS) *x *= dtype == KL_F64 ? 0x1p-1040 : 0x1p-135;
        }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            b[i * n + j] = hermitian ? (a[i * n + j] + conj(a[j * n + i])) / 2 : a[i * n + j];
    for (int i = 0; i < m * n; i++) set(dtype, out, i, b[i]);
    free(a), free(b);
    return out;
}

/* What the smallest numbers of a dtype are rounded to. */
static double grain(enum kl_dtype dtype) {
    return dtype == KL_F64 ? 0x1p-1073 : 0x1p-148;
}

static double bound(enum kl_dtype dtype, int n, double size) {
    return (10 * (n + 6) * kl_test_epsilon(dtype)) * size + n * grain(dtype);
}

static void check_qr(enum kl_dtype dtype, int m, int n, int kind) {
    if (!takes(m, n)) return;
    int k = m < n ? m : n;
    void *a = matrix(dtype, m, n, kind, false), *q = elements(m * k), *r = elements(k * n);
    number *given = numbers(dtype, a, m * n);
    struct kl_matrix x = matrix_of(KL_OP_QR, dtype, m, n, 0);
    kl_matrix_qr(&x, a, q, r);
    number *y = numbers(dtype, q, m * k), *z = numbers(dtype, r, k * n);
    assert_true(skew(m, k, y, false) <= bound(dtype, m, 1));
    for (int i = 0; i < k; i++)
        for (int j = 0; j < i; j++) assert_true(z[i * n + j] == 0);
    assert_true(residual(m, n, k, y, z, given) <= bound(dtype, m, largest(m * n, given)));
    matrix_free(&x);
    free(a), free(q), free(r), free(given), free(y), free(z);
}

static void check_svd(enum kl_dtype dtype, int m, int n, int kind) {
    if (!takes(m, n)) return;
    int k = m < n ? m : n;
    enum kl_dtype real = dtype == KL_C64 ? KL_F32 : dtype;
    if (!kl_matrix_can((enum kl_op_id)KL_OP_SVD, dtype, m, n)) return;
    void *a = matrix(dtype, m, n, kind, false), *u = elements(m * m), *s = elements(k),
         *vt = elements(n * n), *alone = elements(k);
    number *given = numbers(dtype, a, m * n);
    struct kl_matrix x = matrix_of(KL_OP_SVD, dtype, m, n, 0);
    assert_int_equal(kl_matrix_svd(&x, a, u, s, vt), KL_MATRIX_DONE);
    number *y = numbers(dtype, u, m * m), *z = numbers(dtype, vt, n * n);
    assert_true(skew(m, m, y, false) <= bound(dtype, m, 1));
    assert_true(skew(n, n, z, true) <= bound(dtype, n, 1));
    double most = largest(m * n, given);
    number *us = elements(m * k);
    for (int i = 0; i < k; i++) {
        double value = creal(get(real, s, i));
        assert_true(value >= 0 && isfinite(value));
        if (i) assert_true(value <= creal(get(real, s, i - 1)));
        for (int j = 0; j < m; j++) us[j * k + i] = y[j * m + i] * value;
    }
    assert_true(residual(m, n, k, us, z, given) <= bound(dtype, m + n, most * 4));
    /* the singular values alone */
    for (int i = 0; i < m * n; i++) set(dtype, a, i, given[i]);
    assert_int_equal(kl_matrix_svd(&x, a, NULL, alone, NULL), KL_MATRIX_DONE);
    for (int i = 0; i < k; i++)
        assert_true(cabs(get(real, alone, i) - get(real, s, i)) <= bound(dtype, m + n, most * 4));
    for (int what = 0; what < 2 && k; what++) {
        for (int i = 0; i < m * n; i++)
            set(dtype, a, i, i == m * n / 2 ? what ? NAN : -INFINITY : given[i]);
        assert_int_equal(kl_matrix_svd(&x, a, u, s, vt), KL_MATRIX_NOT_FINITE);
    }
    matrix_free(&x);
    free(a), free(u), free(s), free(vt), free(alone), free(given), free(y), free(z), free(us);
}

static void check_eigh(enum kl_dtype dtype, int n, int kind, bool upper) {
    if (!takes(n, n)) return;
    enum kl_dtype real = dtype == KL_C64 ? KL_F32 : dtype;
    if (!kl_matrix_can((enum kl_op_id)KL_OP_EIGH, dtype, n, n)) return;
    void *a = matrix(dtype, n, n, kind, true), *w = elements(n), *alone = elements(n);
    number *given = numbers(dtype, a, n * n);
    /* the other triangle is not read */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (upper ? j < i : j > i) set(dtype, a, i * n + j, NAN);
    struct kl_matrix x = matrix_of(KL_OP_EIGH, dtype, n, n, 0);
    assert_int_equal(kl_matrix_eigh(&x, upper, true, a, w), KL_MATRIX_DONE);
    number *v = numbers(dtype, a, n * n), *vw = elements(n * n), *back = elements(n * n);
    double most = largest(n * n, given);
    assert_true(skew(n, n, v, false) <= bound(dtype, n, 1));
    for (int i = 0; i < n; i++) {
        double value = creal(get(real, w, i));
        assert_true(isfinite(value) && (!i || value >= creal(get(real, w, i - 1))));
        for (int j = 0; j < n; j++) {
            vw[j * n + i] = v[j * n + i] * value;
            back[i * n + j] = conj(v[j * n + i]);
        }
    }
    assert_true(residual(n, n, n, vw, back, given) <= bound(dtype, 2 * n, most * 4));
    for (int i = 0; i < n * n; i++) set(dtype, a, i, given[i]);
    assert_int_equal(kl_matrix_eigh(&x, upper, false, a, alone), KL_MATRIX_DONE);
    for (int i = 0; i < n; i++)
        assert_true(cabs(get(real, alone, i) - get(real, w, i)) <= bound(dtype, 2 * n, most * 4));
    for (int what = 0; what < 2 && n; what++) {
        for (int i = 0; i < n * n; i++) set(dtype, a, i, given[i]);
        set(dtype, a, upper ? n - 1 : (n - 1) * n, what ? NAN : INFINITY);
        assert_int_equal(kl_matrix_eigh(&x, upper, true, a, w), KL_MATRIX_NOT_FINITE);
    }
    matrix_free(&x);
    free(a), free(w), free(alone), free(given), free(v), free(vw), free(back);
}

/* n complex numbers of the precision of dtype. */
static number *complex_numbers(enum kl_dtype dtype, const void *at, int n) {
    number *p = elements(n);
    for (int i = 0; i < n; i++)
        p[i] = dtype == KL_F64 ? ((const double complex *)at)[i] : ((const float complex *)at)[i];
    return p;
}

static void check_eig(enum kl_dtype dtype, int n, int kind) {
    if (!takes(n, n)) return;
    if (!kl_matrix_can((enum kl_op_id)KL_OP_EIG, dtype, n, n)) return;
    void *a = matrix(dtype, n, n, kind, false);
    void *values = elements(n), *vectors = elements(n * n);
    number *given = numbers(dtype, a, n * n), *av = elements(n * n);
    struct kl_matrix x = matrix_of(KL_OP_EIG, dtype, n, n, 0);
    assert_int_equal(kl_matrix_eig(&x, a, values, vectors), KL_MATRIX_DONE);
    double most = largest(n * n, given);
    number *w = complex_numbers(dtype, values, n), *v = complex_numbers(dtype, vectors, n * n);
    for (int j = 0; j < n; j++) {
        double norm = 0;
        for (int i = 0; i < n; i++) {
            norm += creal(v[i * n + j] * conj(v[i * n + j]));
            av[i * n + j] = v[i * n + j] * w[j];
        }
        assert_true(fabs(norm - 1) <= bound(dtype, n, 1));
    }
    assert_true(residual(n, n, n, given, v, av) <= bound(dtype, 4 * n, most * 4));
    for (int i = 0; i < n * n; i++) set(dtype, a, i, i == n * n / 2 ? NAN : given[i]);
    if (n) assert_int_equal(kl_matrix_eig(&x, a, values, vectors), KL_MATRIX_NOT_FINITE);
    matrix_free(&x);
    free(a), free(given), free(w), free(v), free(av), free(values), free(vectors);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_C64};

static void test_qr(void **state) {
    for (int d = 0; d < 2; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            for (int i = 0; i < N_SIZES; i++) check_qr(dtypes[d], sizes[i], sizes[i], kind);
            for (int i = 0; i < N_SHAPES; i++)
                check_qr(dtypes[d], shapes[i][0], shapes[i][1], kind);
        }
}

static void test_svd(void **state) {
    for (int d = 0; d < 3; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            for (int i = 0; i < N_SIZES; i++) check_svd(dtypes[d], sizes[i], sizes[i], kind);
            for (int i = 0; i < N_SHAPES; i++)
                check_svd(dtypes[d], shapes[i][0], shapes[i][1], kind);
        }
}

static void test_eigh(void **state) {
    for (int d = 0; d < 3; d++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < N_SIZES; i++) check_eigh(dtypes[d], sizes[i], kind, i % 2);
}

static void test_eig(void **state) {
    for (int d = 0; d < 3; d++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < N_SIZES; i++) check_eig(dtypes[d], sizes[i], kind);
}

/* Without LAPACK there are neither eig nor complex numbers, and everything else. */
static void test_can(void **state) {
    const char *libs = getenv("KEEL_LIBS");
    bool none = libs && !strcmp(libs, "none");
    for (int op = KL_OP_CHOLESKY; op <= KL_OP_EIG; op++)
        for (int d = 0; d < 2; d++) {
            bool can = kl_matrix_can((enum kl_op_id)op, dtypes[d], 100, 100);
            if (op != KL_OP_EIG) assert_true(can);
            if (op == KL_OP_EIG && none) assert_false(can);
        }
    if (none) assert_false(kl_matrix_can((enum kl_op_id)KL_OP_SVD, KL_C64, 4, 4));
    assert_true(kl_matrix_can((enum kl_op_id)KL_OP_EIG, KL_F32, 0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_qr), cmocka_unit_test(test_svd),
                                       cmocka_unit_test(test_eigh), cmocka_unit_test(test_eig),
                                       cmocka_unit_test(test_can)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
