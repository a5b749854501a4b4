/* test_linalg.c - the factorisations of matrix.h on the variant for any CPU: their parts are
 * multiplied together again, in double, and compared with the matrix, for extents up to 257, in
 * float32 and float64. */
#include "backend/cpu/linalg_support.h"

enum { MATRIX_MOST = 257 };
static const int sizes[] = {0,  1,  2,  3,  5,  8,  15, 16, 17,  31,         32,
                            33, 47, 48, 49, 63, 64, 65, 70, 130, MATRIX_MOST};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* sum over k of a[i][k] b[k][j], less c[i][j], at most. */
static double residual(int m, int n, int k, const double *a, const double *b, const double *c) {
    double most = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = -c[i * n + j];
            for (int p = 0; p < k; p++) sum += a[i * k + p] * b[p * n + j];
            most = !(fabs(sum) <= most) ? fabs(sum) : most;
        }
    return most;
}

static void check_cholesky(enum kl_dtype dtype, int n, bool upper) {
    struct numbers a = numbers_of(dtype, n * n), original, given;
    double *l = doubles(n * n), *t = doubles(n * n), *s = doubles(n * n);
    for (int i = 0; i < n * n; i++) l[i] = draw();
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = i == j;
            for (int p = 0; p < n; p++) sum += l[i * n + p] * l[j * n + p] / n;
            numbers_set(&a, i * n + j, sum);
        }
    original = numbers_copy(&a);
    /* the other triangle is not read */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (upper ? j < i : j > i) numbers_set(&a, i * n + j, NAN);
    given = numbers_copy(&a);
    struct kl_matrix x = matrix_of(KL_OP_CHOLESKY, dtype, n, n, 0);
    assert_int_equal(kl_matrix_cholesky(&x, upper, a.at), KL_MATRIX_DONE);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double e = numbers_get(&a, i * n + j);
            if (upper ? j < i : j > i) assert_true(e == 0);
            (upper ? t : l)[i * n + j] = e;
            (upper ? l : t)[j * n + i] = e;
            s[i * n + j] = numbers_get(&original, i * n + j);
        }
    assert_true(residual(n, n, n, l, t, s) <= 4 * (n + 4) * kl_test_epsilon(dtype) * (n ? 3 : 0));
    /* a pivot that is negative, zero or NaN */
    for (int what = 0; what < 3 && n; what++) {
        int at = (n - 1) * (what + 1) / 3;
        numbers_assign(&a, &given);
        numbers_set(&a, at * n + at, what == 0 ? -1 : what == 1 ? 0 : NAN);
        assert_int_equal(kl_matrix_cholesky(&x, upper, a.at), KL_MATRIX_FAILS);
    }
    free(l), free(t), free(s);
    matrix_free(&x);
    numbers_free(&a), numbers_free(&original), numbers_free(&given);
}

static void test_cholesky(void **state) {
    for (int i = 0; i < N_SIZES; i++)
        for (int upper = 0; upper < 2; upper++) {
            check_cholesky(KL_F32, sizes[i], upper);
            check_cholesky(KL_F64, sizes[i], upper);
        }
}

static void check_lu(enum kl_dtype dtype, int m, int n, int rank) {
    int k = m < n ? m : n;
    struct numbers a = matrix_of_rank(dtype, m, n, rank);
    double *l = doubles(m * k), *u = doubles(k * n), *s = doubles(m * n);
    int *pivots = test_alloc((size_t)(k + 1) * sizeof *pivots);
    for (int i = 0; i < m * n; i++) s[i] = numbers_get(&a, i);
    struct kl_matrix x = matrix_of(KL_OP_LU, dtype, m, n, 0);
    kl_matrix_lu(&x, a.at, pivots);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double e = numbers_get(&a, i * n + j);
            if (j < i && j < k) l[i * k + j] = e;
            if (i == j && j < k) l[i * k + j] = 1;
            if (i <= j && i < k) u[i * n + j] = e;
            if (j < i && j < k) assert_true(fabs(e) <= 1);
        }
    for (int i = 0; i < k; i++) {
        assert_true(pivots[i] >= i && pivots[i] < m);
        for (int j = 0; j < n; j++) {
            double t = s[i * n + j];
            s[i * n + j] = s[pivots[i] * n + j];
            s[pivots[i] * n + j] = t;
        }
    }
    assert_true(residual(m, n, k, l, u, s) <= 8 * (k + 4) * kl_test_epsilon(dtype) * (k ? 3 : 0));
    free(l), free(u), free(s), free(pivots);
    matrix_free(&x);
    numbers_free(&a);
}

static void test_lu(void **state) {
    static const int shapes[][2] = {{1, 9},   {9, 1},    {20, 70},  {70, 20},   {40, 33},
                                    {33, 40}, {130, 64}, {64, 130}, {100, 257}, {257, 100}};
    for (int d = 0; d < 2; d++) {
        enum kl_dtype dtype = d ? KL_F64 : KL_F32;
        for (int i = 0; i < N_SIZES; i++) check_lu(dtype, sizes[i], sizes[i], sizes[i]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            check_lu(dtype, shapes[i][0], shapes[i][1], 300);
            check_lu(dtype, shapes[i][0], shapes[i][1], 1);
            check_lu(dtype, shapes[i][0], shapes[i][1], 0);
        }
    }
}

/* NaN is never a pivot while there is a number, and where there is none the pivot is a row of the
 * matrix all the same: the columns are searched in whole vectors, which end behind the matrix. */
static void check_pivots_of_nan(enum kl_dtype dtype, int m, int n) {
    const int k = m < n ? m : n;
    struct numbers a = numbers_of(dtype, m * n);
    int *pivots = test_alloc((size_t)k * sizeof *pivots);
    struct kl_matrix x = matrix_of(KL_OP_LU, dtype, m, n, 0);
    for (int bad = 0; bad < n; bad++) {
        for (int i = 0; i < m * n; i++) numbers_set(&a, i, i % n == bad ? NAN : draw());
        kl_matrix_lu(&x, a.at, pivots);
        for (int i = 0; i < k; i++) assert_in_range(pivots[i], i, m - 1);
    }
    for (int i = 0; i < m * n; i++) numbers_set(&a, i, i % n || i == (m - 1) * n ? draw() : NAN);
    kl_matrix_lu(&x, a.at, pivots);
    assert_int_equal(pivots[0], m - 1);
    free(pivots);
    matrix_free(&x);
    numbers_free(&a);
}

static void test_pivots_of_nan(void **state) {
    static const int shapes[][2] = {{1, 1}, {3, 3}, {7, 5}, {5, 7}, {17, 17}, {33, 20}, {70, 70}};
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_pivots_of_nan(d ? KL_F64 : KL_F32, shapes[i][0], shapes[i][1]);
}

/* a, whose condition is small: a dominant diagonal in an order of rows that needs exchanges. */
static struct numbers regular(enum kl_dtype dtype, int n) {
    struct numbers a = numbers_of(dtype, n * n);
    for (int i = 0; i < n * n; i++) numbers_set(&a, i, draw());
    for (int i = 0; i < n; i++) numbers_set(&a, (n - 1 - i) * n + i, n + 1.5);
    return a;
}

static void check_solve(enum kl_dtype dtype, int n, int right) {
    struct numbers a = regular(dtype, n), b = numbers_of(dtype, n * right), given;
    double *m = doubles(n * n), *y = doubles(n * right), *s = doubles(n * right);
    for (int i = 0; i < n * right; i++) numbers_set(&b, i, draw());
    given = numbers_copy(&b);
    struct numbers a0 = numbers_copy(&a);
    struct kl_matrix x = matrix_of(KL_OP_SOLVE, dtype, n, n, right);
    assert_int_equal(kl_matrix_solve(&x, a.at, right, b.at), KL_MATRIX_DONE);
    for (int i = 0; i < n * n; i++) m[i] = numbers_get(&a0, i);
    for (int i = 0; i < n * right; i++) y[i] = numbers_get(&b, i), s[i] = numbers_get(&given, i);
    assert_true(residual(n, right, n, m, y, s) <= 20 * (n + 4) * kl_test_epsilon(dtype));
    /* exactly singular */
    if (n) {
        for (int j = 0; j < n; j++) numbers_set(&a0, n / 2 + j * n, 0);
        numbers_assign(&a, &a0);
        assert_int_equal(kl_matrix_solve(&x, a.at, right, b.at), KL_MATRIX_FAILS);
    }
    free(m), free(y), free(s);
    matrix_free(&x);
    numbers_free(&a), numbers_free(&a0), numbers_free(&b), numbers_free(&given);
}

static void check_triangular(enum kl_dtype dtype, int n, int right, bool upper) {
    struct numbers a = numbers_of(dtype, n * n), b = numbers_of(dtype, n * right), given;
    double *m = doubles(n * n), *y = doubles(n * right), *s = doubles(n * right);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            bool in = upper ? j >= i : j <= i;
            numbers_set(&a, i * n + j, !in ? NAN : i == j ? 2 + draw() / 2 : draw() / n);
            m[i * n + j] = in ? numbers_get(&a, i * n + j) : 0;
        }
    for (int i = 0; i < n * right; i++) numbers_set(&b, i, draw());
    given = numbers_copy(&b);
    struct kl_matrix x = matrix_of(KL_OP_SOLVE_TRIANGULAR, dtype, n, n, right);
    assert_int_equal(kl_matrix_solve_triangular(&x, upper, a.at, right, b.at), KL_MATRIX_DONE);
    for (int i = 0; i < n * right; i++) y[i] = numbers_get(&b, i), s[i] = numbers_get(&given, i);
    assert_true(residual(n, right, n, m, y, s) <= 10 * (n + 4) * kl_test_epsilon(dtype));
    if (n) {
        numbers_set(&a, (n / 2) * (n + 1), 0);
        assert_int_equal(kl_matrix_solve_triangular(&x, upper, a.at, right, b.at), KL_MATRIX_FAILS);
    }
    free(m), free(y), free(s);
    matrix_free(&x);
    numbers_free(&a), numbers_free(&b), numbers_free(&given);
}

static void check_inv(enum kl_dtype dtype, int n) {
    struct numbers a = regular(dtype, n), a0 = numbers_copy(&a);
    double *m = doubles(n * n), *y = doubles(n * n), *s = doubles(n * n);
    struct kl_matrix x = matrix_of(KL_OP_INV, dtype, n, n, 0);
    assert_int_equal(kl_matrix_inv(&x, a.at), KL_MATRIX_DONE);
    for (int i = 0; i < n * n; i++)
        m[i] = numbers_get(&a0, i), y[i] = numbers_get(&a, i), s[i] = i % (n + 1) == 0;
    assert_true(residual(n, n, n, m, y, s) <= 20 * (n + 4) * kl_test_epsilon(dtype));
    if (n) {
        for (int j = 0; j < n; j++) numbers_set(&a0, n / 2 + j * n, 0);
        assert_int_equal(kl_matrix_inv(&x, a0.at), KL_MATRIX_FAILS);
    }
    free(m), free(y), free(s);
    matrix_free(&x);
    numbers_free(&a), numbers_free(&a0);
}

static void test_solve(void **state) {
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < N_SIZES; i++) {
            enum kl_dtype dtype = d ? KL_F64 : KL_F32;
            static const int rights[] = {0, 1, 16, 37, 100};
            for (int r = 0; r < 5; r++) {
                check_solve(dtype, sizes[i], rights[r]);
                check_triangular(dtype, sizes[i], rights[r], false);
                check_triangular(dtype, sizes[i], rights[r], true);
            }
            check_inv(dtype, sizes[i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cholesky), cmocka_unit_test(test_lu),
                                       cmocka_unit_test(test_pivots_of_nan),
                                       cmocka_unit_test(test_solve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
