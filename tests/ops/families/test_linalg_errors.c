/* test_linalg_errors.c - arguments that linear algebra refuses, and matrices that fail: the result
 * of their batch alone, with the smallest one of them in the message, whatever runs it. */
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"
#include "base/op/launch.h"
#include "ops/build/vmap.h"
#include "ops/support/linalg_support.h"
#include "runtime/pool.h"
#include "transforms/transforms.h"

static void refusals(void **state) {
    struct kl_array *a = F32(SHAPE(2, 2), 1, 2, 3, 5), *wide = F32(SHAPE(1, 2), 1, 2),
                    *row = F32(SHAPE(2), 1, 2), *two = F32(SHAPE(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8),
                    *three = F32(SHAPE(3, 2, 1), 1, 2, 3, 4, 5, 6), *small, *complex, *out, **outs;
    size_t n = 0;
    EXPECT_OK(kl_astype(&small, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_astype(&complex, a, KL_C64, cpu(), &err));
    static kl_unary_fn *const square[] = {kl_inv, kl_det, kl_eigvals};
    for (int i = 0; i < 3; i++) {
        EXPECT_FAIL(KL_ESHAPE, square[i](&out, wide, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, square[i](&out, row, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, square[i](&out, i == 1 ? complex : small, cpu(), &err));
        EXPECT_FAIL(KL_EARG, square[i](&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, square[i](&out, a, NULL, &err));
    }
    static kl_unary_fn *const any[] = {kl_pinv, kl_singular_values};
    for (int i = 0; i < 2; i++) {
        EXPECT_FAIL(KL_ESHAPE, any[i](&out, row, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, any[i](&out, small, cpu(), &err));
        EXPECT_FAIL(KL_EARG, any[i](&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, any[i](&out, a, NULL, &err));
    }
    EXPECT_FAIL(KL_EDTYPE, kl_inv(&out, complex, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_pinv(&out, complex, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_solve(&out, a, complex, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_solve(&out, small, small, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_solve(&out, a, wide, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_solve(&out, wide, row, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_solve(&out, two, three, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_solve(&out, a, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_solve_triangular(&out, a, a, false, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, kl_tri_inv(&out, wide, false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_cholesky(&out, wide, false, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_cholesky(&out, complex, false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_cholesky_inv(&out, row, false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_eigvalsh(&out, wide, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm(&out, a, 3, NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm(&out, row, NAN, NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_norm(&out, two, 1, NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_norm(&out, two, 1, LIST(5), false, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_norm(&out, two, 1, LIST(0, 0), false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm_matrix(&out, a, "max", NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm_matrix(&out, a, NULL, NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_norm_matrix(&out, row, "fro", NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_norm_matrix(&out, small, "nuc", NULL, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_norm_l2(&out, a, LIST(2), false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_cross(&out, wide, three, -1, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_cross(&out, row, row, 1, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_cross(&out, row, two, 0, cpu(), &err));
    for (int i = 0; i < KL_N_FACTORS; i++) {
        struct kl_error *e = NULL;
        assert_int_equal(kl_matrix_parts(&outs, &n, (enum kl_factors)i, row, false, cpu(), &e),
                         KL_ESHAPE);
        kl_error_release(e);
        e = NULL;
        assert_int_equal(kl_matrix_parts(&outs, &n, (enum kl_factors)i, small, false, cpu(), &e),
                         KL_EDTYPE);
        kl_error_release(e);
    }
    struct kl_array *all[] = {a, wide, row, two, three, small, complex};
    for (int i = 0; i < 7; i++) kl_array_release(all[i]);
}

/* Five matrices of size 3: identities, but number 2 is `bad` in its first element and number 4 in
 * its last. */
static struct kl_array *batch(float bad) {
    float v[5][3][3] = {{{0}}};
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < 3; i++) v[b][i][i] = 1;
    v[2][0][0] = v[4][2][2] = bad;
    return array_of(KL_F32, SHAPE(5, 3, 3), v);
}

typedef int one_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
static int tri_inv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_tri_inv(out, a, true, s, err);
}
static int cholesky(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_cholesky(out, a, true, s, err);
}
static int cholesky_inv(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                        struct kl_error **err) {
    return kl_cholesky_inv(out, a, false, s, err);
}
static int solve(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err) {
    return kl_solve(out, a, a, s, err);
}
static int solve_triangular(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                            struct kl_error **err) {
    return kl_solve_triangular(out, a, a, false, s, err);
}
static int eigvalsh(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                    struct kl_error **err) {
    return kl_eigvalsh(out, a, false, s, err);
}
static int nuclear(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_norm_matrix(out, a, "nuc", LIST(1, 2), false, s, err);
}

static const struct {
    const char *name;
    one_fn *build;
    float bad;
    const char *text;
} failing[] = {
    {"inv", kl_inv, 0, "is singular"},
    {"tri_inv", tri_inv, 0, "is singular"},
    {"solve", solve, 0, "is singular"},
    {"solve_triangular", solve_triangular, 0, "is singular"},
    {"cholesky", cholesky, -1, "is not positive definite"},
    {"cholesky_inv", cholesky_inv, 0, "is singular"},
    {"svd", kl_singular_values, NAN, "has an element that is NaN or infinite"},
    {"pinv", kl_pinv, INFINITY, "has an element that is NaN or infinite"},
    {"eigvalsh", eigvalsh, NAN, "has an element that is NaN or infinite"},
    {"eigvals", kl_eigvals, INFINITY, "has an element that is NaN or infinite"},
    {"norm", nuclear, NAN, "has an element that is NaN or infinite"},
};
enum { N_FAILING = sizeof failing / sizeof *failing };

/* The error of the value; KL_EUNSUPPORTED where there is no library for it. */
static struct kl_error *error_of(struct kl_array *a) {
    struct kl_error *e = NULL;
    assert_int_not_equal(kl_eval(&a, 1, &e), 0);
    assert_non_null(e);
    return e;
}

static void expect_message(struct kl_error *e, const char *what, int64_t index) {
    if (e->code == KL_EUNSUPPORTED && strstr(e->message, "needs LAPACK")) return;
    assert_int_equal(e->code, KL_EMATRIX);
    if (strcmp(e->message, what) != 0) fail_msg("\"%s\", not \"%s\"", e->message, what);
    assert_true(e->has & KL_HAS_INDEX);
    assert_int_equal(e->index, index);
}

/* The result fails, what is made of it fails with the same error, and nothing else does. */
static void in_a_batch(void **state) {
    struct kl_stream *streams[] = {cpu(), sim()};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_FAILING; i++) {
            struct kl_array *a = batch(failing[i].bad), *fine = batch(1), *x, *y, *z;
            char text[160];
            EXPECT_OK(failing[i].build(&x, a, streams[k], &err));
            EXPECT_OK(failing[i].build(&z, fine, streams[k], &err));
            EXPECT_OK(kl_add(&y, x, x, streams[k], &err));
            snprintf(text, sizeof text, "%s: matrix 2 of the batch %s", failing[i].name,
                     failing[i].text);
            struct kl_error *e = error_of(x), *again = error_of(y);
            expect_message(e, text, 2);
            assert_string_equal(e->message, again->message);
            if (e->code == KL_EMATRIX) free(values_of(z));
            kl_error_release(e);
            kl_error_release(again);
            struct kl_array *all[] = {a, fine, x, y, z};
            for (int n = 0; n < 5; n++) kl_array_release(all[n]);
        }
}

static void one_matrix(void **state) {
    for (int i = 0; i < N_FAILING - 1; i++) {
        const float v[4] = {1, 0, 0, failing[i].bad};
        struct kl_array *a = array_of(KL_F32, SHAPE(2, 2), v), *x;
        char text[160];
        EXPECT_OK(failing[i].build(&x, a, cpu(), &err));
        snprintf(text, sizeof text, "%s: the matrix %s", failing[i].name, failing[i].text);
        struct kl_error *e = error_of(x);
        expect_message(e, text, 0);
        kl_error_release(e);
        kl_array_release(a);
        kl_array_release(x);
    }
}

/* A failing matrix gives zeros, its neighbours their results, in the kernel itself; also where a
 * launch does some of the positions only. */
static void zeros_of_failing(void **state) {
    float in[5][3][3] = {{{0}}}, out[5][3][3];
    const int dims[] = {5, 3, 3};
    const int64_t strides[] = {9, 3, 1};
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < 3; i++) in[b][i][i] = 2;
    in[2][0][0] = in[4][2][2] = 0;
    for (int64_t begin = 0; begin <= 10; begin++)
        for (int64_t end = begin; end <= 10; end++) {
            memset(out, 0x7f, sizeof out);
            struct kl_arg arg = {.data = in,
                                 .dtype = KL_F32,
                                 .layout = KL_ROW_CONTIGUOUS,
                                 .ndim = 3,
                                 .size = 45,
                                 .dims = dims,
                                 .strides = strides},
                          result = arg;
            result.data = out;
            struct kl_launch l = {.op = KL_OP_INV,
                                  .n_in = 1,
                                  .n_out = 1,
                                  .in = &arg,
                                  .out = &result,
                                  .checked = true,
                                  .pos_begin = begin,
                                  .pos_end = end,
                                  .fault = KL_NO_FAULT};
            assert_int_equal(kl_cpu_kernel(KL_OP_INV)(&l), KL_OK);
            int64_t fault = KL_NO_FAULT;
            for (int b = 4; b >= 0; b--) {
                const bool done = 2 * b >= begin && 2 * b < end, bad = b == 2 || b == 4;
                if (done && bad) fault = 2 * b;
                if (done) assert_true(out[b][1][1] == (bad ? 0 : 0.5f));
                if (!done) assert_true(out[b][1][1] > 1e38f);
            }
            assert_true(l.fault == fault);
        }
}

/* Factors of singular matrices are results. */
static void singular_factors(void **state) {
    struct kl_array *a = F32(SHAPE(2, 2), 0, 0, 0, 0), *f[3];
    assert_int_equal(factors_of(f, KL_FACTORS_LU, a, false), 3);
    EXPECT_F32(f[1], SHAPE(2, 2), 1, 0, 0, 1);
    EXPECT_F32(f[2], SHAPE(2, 2), 0, 0, 0, 0);
    kl_array_release(f[0]);
    kl_array_release(a);
}

/* Every allocation that fails makes the result fail, and the next evaluation succeeds. */
static void without_memory(void **state) {
    static one_fn *const builds[] = {kl_inv, solve, kl_singular_values, kl_det};
    for (int i = 0; i < 4; i++)
        for (int n = 0;; n++) {
            struct kl_array *a = batch(1), *x;
            struct kl_error *e = NULL;
            EXPECT_OK(builds[i](&x, a, cpu(), &err));
            kl_test_fail_alloc_at(n);
            const int rc = kl_eval(&x, 1, &e);
            const bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (rc) assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(e);
            kl_array_release(a);
            kl_array_release(x);
            if (!failed) break;
            assert_in_range(n, 0, 500);
        }
}

/* Under vmap the message has the lane, and the number of the matrix in the batch of that lane. */
static void in_a_lane(void **state) {
    static const struct {
        int lane_dims[4], ndim;
        const char *text;
        int64_t index;
    } cases[] = {
        {{5, 3, 3}, 3, "inv: lane 2, the matrix is singular", 0},
        {{2, 3, 3, 3}, 4, "inv: lane 1, matrix 1 of the batch is singular", 1},
    };
    for (int i = 0; i < 2; i++) {
        const int n = i ? 6 : 5, bad = i ? 4 : 2;
        float v[6][3][3] = {{{0}}};
        for (int b = 0; b < n; b++)
            for (int k = 0; k < 3; k++) v[b][k][k] = b == bad ? 0 : 1;
        struct kl_array *a = array_of(KL_F32, cases[i].ndim, cases[i].lane_dims, v), *out;
        const bool mapped = true;
        const struct kl_vmap vm = {.op = KL_OP_INV,
                                   .n_in = 1,
                                   .in = &a,
                                   .mapped = &mapped,
                                   .lanes = cases[i].lane_dims[0],
                                   .s = cpu(),
                                   .dtype = KL_F32,
                                   .ndim = cases[i].ndim - 1,
                                   .dims = cases[i].lane_dims + 1};
        int axis = -1;
        EXPECT_OK(kl_vmap_rule(KL_OP_INV)(&vm, &out, &axis, &err));
        assert_int_equal(axis, 0);
        struct kl_error *e = error_of(out);
        expect_message(e, cases[i].text, cases[i].index);
        kl_error_release(e);
        kl_array_release(out);
        kl_array_release(a);
    }
}

/* One thread, several, and one that takes the chunks backwards give the same bits and the same
 * fault. */
static void backwards(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    while (n > 0) chunk(arg, --n);
}

static void threads(void **state) {
    kl_parallel_fn *const loops[] = {kl_pool_parallel, NULL, backwards};
    static one_fn *const builds[] = {kl_inv, cholesky, kl_det, kl_singular_values, kl_pinv};
    for (int i = 0; i < 5; i++) {
        struct kl_array *a = definite(KL_F32, SHAPE(60, 24, 24), 8), *x;
        struct kl_array *bad, *zero = scalar_of(KL_F32, i < 2 ? 0 : NAN);
        float *first = NULL;
        EXPECT_OK(kl_multiply(&bad, a, zero, cpu(), &err));
        EXPECT_OK(kl_eval(&a, 1, &err));
        EXPECT_OK(kl_eval(&bad, 1, &err));
        for (int way = 0; way < 3; way++) {
            kl_cpu_backend(loops[way], loops[way]);
            EXPECT_OK(builds[i](&x, a, cpu(), &err));
            float *got = values_of(x);
            if (first) assert_memory_equal(first, got, (size_t)x->t.size * sizeof *got);
            if (first)
                free(got);
            else
                first = got;
            kl_array_release(x);
            EXPECT_OK(builds[i](&x, bad, cpu(), &err));
            if (builds[i] != kl_det) {
                struct kl_error *e = error_of(x);
                assert_int_equal(e->code, KL_EMATRIX);
                assert_int_equal(e->index, 0);
                kl_error_release(e);
            }
            kl_array_release(x);
            kl_cpu_backend(kl_pool_parallel, kl_pool_parallel_short);
        }
        free(first);
        struct kl_array *all[] = {a, bad, zero};
        for (int k = 0; k < 3; k++) kl_array_release(all[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),         cmocka_unit_test(in_a_batch),
        cmocka_unit_test(one_matrix),       cmocka_unit_test(zeros_of_failing),
        cmocka_unit_test(singular_factors), cmocka_unit_test(without_memory),
        cmocka_unit_test(in_a_lane),        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
