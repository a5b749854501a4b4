/* test_linalg_batches.c - small matrices that a kernel computes several at once: on every variant
 * each has the bits that it has alone, whatever stands beside it, and so has the fault. A large
 * matrix that threads share has the bits that one thread gives it. */
#include "backend/cpu/linalg_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/op/launch.h"
#include "base/op/op_params.h"

enum { BATCH = 37, MOST = 33, RIGHT_MOST = 65 };

/* The operations; for one with right-hand sides, how many. */
static const struct subject {
    enum kl_op_id op;
    bool upper;
    int right;
} subjects[] = {
    {KL_OP_INV, false, 0},
    {KL_OP_CHOLESKY, false, 0},
    {KL_OP_CHOLESKY, true, 0},
    {KL_OP_SOLVE, false, 1},
    {KL_OP_SOLVE, false, 3},
    {KL_OP_SOLVE, false, 17},
    {KL_OP_SOLVE, false, 64},
    {KL_OP_SOLVE, false, RIGHT_MOST},
    {KL_OP_SOLVE_TRIANGULAR, false, 1},
    {KL_OP_SOLVE_TRIANGULAR, true, 1},
    {KL_OP_SOLVE_TRIANGULAR, false, 33},
    {KL_OP_SOLVE_TRIANGULAR, true, 33},
};

/* Matrices with a diagonal of about 2, symmetric where `definite`, else in an order of rows that
 * needs exchanges. Some fail: number 5 is 0, of numbers 16 and 36 a row and its column are 0;
 * number 9 has a NaN and number 11 an infinity. Ties of sizes: all of number 3 is 1 or -1. */
static struct numbers batch(enum kl_dtype dtype, int n, bool definite, bool exchanged) {
    struct numbers a = numbers_of(dtype, BATCH * n * n);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                const int row = exchanged ? (7 * i + b) % n : i, at = (b * n + row) * n + j;
                const bool bad = b == 5 || ((b == 16 || b == 36) && (i == n / 2 || j == n / 2));
                double x = draw() / n + 2 * (i == j);
                if (b == 3) x = draw() < 0 ? -1 : 1;
                if (definite && j < i) x = numbers_get(&a, (b * n + j) * n + i);
                numbers_set(&a, at, bad ? 0 : x);
            }
    numbers_set(&a, 9 * n * n + n / 2, NAN);
    numbers_set(&a, 11 * n * n + n * n - 1, INFINITY);
    return a;
}

static bool same(const struct numbers *x, const struct numbers *y, int from, int count) {
    for (int i = from; i < from + count; i++) {
        const double p = numbers_get(x, i), q = numbers_get(y, i);
        if (!(p == q && signbit(p) == signbit(q)) && !(isnan(p) && isnan(q))) return false;
    }
    return true;
}

static void check(const struct subject *s, enum kl_dtype dtype, int n) {
    const int columns = s->right ? s->right : n, count = n * columns;
    struct numbers a = batch(dtype, n, s->op == KL_OP_CHOLESKY, n != 7 && s->op != KL_OP_CHOLESKY),
                   b = numbers_of(dtype, BATCH * count), all = numbers_copy(&b), one = all;
    for (int i = 0; i < b.n; i++) numbers_set(&b, i, draw());
    one = numbers_copy(&all);
    const int dims[] = {BATCH, n, n}, b_dims[] = {BATCH, n, columns};
    const int64_t strides[] = {n * n, n, 1}, b_strides[] = {count, columns, 1};
    const struct kl_arg in[] = {matrices_at(a.at, dtype, a.n, dims, strides),
                                matrices_at(b.at, dtype, b.n, b_dims, b_strides)};
    const struct kl_matrix_params how = {.upper = s->upper};
    struct kl_arg out = in[1];
    struct kl_launch l = {.op = s->op,
                          .n_in = s->right ? 2 : 1,
                          .n_out = 1,
                          .in = in,
                          .out = &out,
                          .params = &how,
                          .checked = true,
                          .pos_end = INT64_MAX,
                          .fault = KL_NO_FAULT};
    int64_t fault = KL_NO_FAULT;
    out.data = all.at;
    assert_int_equal(kl_cpu_kernel(s->op)(&l), KL_OK);
    out.data = one.at;
    for (int i = BATCH - 1; i >= 0; i--) {
        struct kl_launch alone = l;
        alone.pos_begin = KL_MATRIX_POSITIONS * i;
        alone.pos_end = KL_MATRIX_POSITIONS * (i + 1);
        assert_int_equal(kl_cpu_kernel(s->op)(&alone), KL_OK);
        if (alone.fault != KL_NO_FAULT) fault = alone.fault;
        if (!same(&all, &one, i * count, count))
            fail_msg("operation %d, n %d, right %d: matrix %d differs", (int)s->op, n, s->right, i);
    }
    assert_true(fault != KL_NO_FAULT && l.fault == fault);
    numbers_free(&a), numbers_free(&b), numbers_free(&all), numbers_free(&one);
}

static void test_batches(void **state) {
    static const int sizes[] = {1, 2, 3, 4, 7, 16, 17, 32, MOST};
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++) {
                check(&subjects[k], KL_F32, sizes[i]);
                check(&subjects[k], KL_F64, sizes[i]);
            }
    }
}

/* ---- large matrices ---- */
static int64_t parts;
static void backwards(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    parts += n;
    while (n > 0) chunk(arg, --n);
}

/* Two matrices of m rows and n columns; the second one is of lower rank. */
static void check_large(enum kl_op_id op, bool upper, enum kl_dtype dtype, int m, int n,
                        int right) {
    if (!kl_test_takes("cpu", 1)) return;
    enum { TWO = 2 };
    const int k = m < n ? m : n, size = m * n;
    const int count = op == KL_OP_LU ? size + k + m : right ? n * right : size;
    struct numbers a = numbers_of(dtype, TWO * size), b = numbers_of(dtype, TWO * n * (right + 1)),
                   out[2] = {numbers_of(dtype, TWO * count), numbers_of(dtype, TWO * count)};
    for (int i = 0; i < a.n; i++) {
        const int row = i % size / n, column = i % n;
        const bool is_zero = i >= size && (row == k / 2 || column == k / 2);
        double x = draw() + (op == KL_OP_SOLVE_TRIANGULAR ? 2 * n * (row == column) : 0);
        if (op == KL_OP_CHOLESKY) x = row == column ? n : 1.0 / (1 + abs(row - column));
        numbers_set(&a, i, is_zero ? 0 : x);
    }
    for (int i = 0; i < b.n; i++) numbers_set(&b, i, draw());
    const int dims[] = {TWO, m, n}, b_dims[] = {TWO, n, right}, out_dims[] = {TWO, count};
    const int64_t strides[] = {size, n, 1}, b_strides[] = {n * right, right, 1},
                  out_strides[] = {count, 1};
    const struct kl_arg in[] = {matrices_at(a.at, dtype, a.n, dims, strides),
                                matrices_at(b.at, dtype, TWO * n * right, b_dims, b_strides)};
    const struct kl_matrix_params how = {.upper = upper};
    struct kl_arg result = {.data = NULL,
                            .dtype = dtype,
                            .layout = KL_ROW_CONTIGUOUS,
                            .ndim = 2,
                            .size = TWO * count,
                            .dims = out_dims,
                            .strides = out_strides};
    int64_t fault[2];
    for (int way = 0; way < 2; way++) {
        struct kl_launch l = {.op = op,
                              .n_in = right ? 2 : 1,
                              .n_out = 1,
                              .in = in,
                              .out = &result,
                              .params = &how,
                              .checked = true,
                              .pos_end = INT64_MAX,
                              .fault = KL_NO_FAULT,
                              .parallel = way ? backwards : NULL};
        result.data = out[way].at;
        parts = 0;
        assert_int_equal(kl_cpu_kernel(op)(&l), KL_OK);
        fault[way] = l.fault;
    }
    assert_true(parts > 2);
    if (!same(&out[0], &out[1], 0, TWO * count))
        fail_msg("operation %d of %d x %d, %d columns: other bits in parts", (int)op, m, n, right);
    assert_int_equal(fault[0], op == KL_OP_LU ? KL_NO_FAULT : KL_MATRIX_POSITIONS);
    assert_int_equal(fault[1], fault[0]);
    numbers_free(&a), numbers_free(&b), numbers_free(&out[0]), numbers_free(&out[1]);
}

static void test_large(void **state) {
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++)
        for (int d = 0; d < 2; d++) {
            const enum kl_dtype dtype = d ? KL_F64 : KL_F32;
            kl_cpu_use_variant(variant);
            check_large(KL_OP_INV, false, dtype, 515, 515, 0);
            check_large(KL_OP_LU, false, dtype, 515, 515, 0);
            check_large(KL_OP_LU, false, dtype, 410, 515, 0);
            check_large(KL_OP_LU, false, dtype, 515, 410, 0);
            check_large(KL_OP_SOLVE, false, dtype, 300, 300, 515);
            check_large(KL_OP_SOLVE_TRIANGULAR, d, dtype, 515, 515, 300);
            check_large(KL_OP_CHOLESKY, d, dtype, 515, 515, 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batches),
                                       cmocka_unit_test(test_large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
