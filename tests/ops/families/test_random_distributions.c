/* test_random_distributions.c - random distributions: golden values, normal vectors by their
 * moments, bad arguments. */
#include "ops/golden/golden_make.h"

#include "ops/golden/golden_distributions.inc"

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(distributions_cases);
}

static struct kl_array *key_of(uint64_t seed) {
    struct kl_array *key;
    EXPECT_OK(kl_random_key(&key, seed, &err));
    return key;
}

/* Without a key, the random state gives one. The same seed gives the same numbers again. */
static void without_key(void **state) {
    struct kl_array *out[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(kl_random_seed(5, &err));
        EXPECT_OK(kl_random_permutation_arange(&out[i], 100, NULL, cpu(), &err));
    }
    void *a = values_of(out[0]), *b = values_of(out[1]);
    assert_memory_equal(a, b, 400);
    free(a);
    free(b);
    kl_array_release(out[0]);
    kl_array_release(out[1]);
}

static void empty(void **state) {
    struct kl_array *key = key_of(1), *p = scalar_of(KL_F32, 0.5), *e = F32(SHAPE(0, 3), 0), *out;
    EXPECT_OK(kl_random_bernoulli(&out, p, LIST(0), key, cpu(), &err));
    expect_shape(out, SHAPE(0));
    kl_array_release(out);
    EXPECT_OK(kl_random_permutation_arange(&out, 0, key, cpu(), &err));
    expect_shape(out, SHAPE(0));
    kl_array_release(out);
    EXPECT_OK(kl_random_permutation(&out, e, 0, key, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_random_categorical(&out, e, 1, key, cpu(), &err));
    expect_shape(out, SHAPE(0));
    kl_array_release(out);
    EXPECT_OK(kl_random_categorical_num_samples(&out, e, 1, 0, key, cpu(), &err));
    expect_shape(out, SHAPE(0, 0));
    kl_array_release(out);
    kl_array_release(key);
    kl_array_release(p);
    kl_array_release(e);
}

/* When the logits are a single row, the draws are those that MLX makes with the same key, in each
 * form that draws several times. A result without axes is drawn by the method for several rows. */
static void one_row(void **state) {
    static const float logits[] = {0.5f, -1, 2, 0.25f, 1};
    static const uint32_t draws[] = {2, 0, 2, 2, 2, 4, 4, 0, 0, 2, 1, 2},
                          rows[] = {2, 0, 2, 4, 2, 2, 2, 4}, alone[] = {3, 2, 2, 2, 2, 2, 2, 2};
    struct kl_array *flat = array_of(KL_F32, SHAPE(5), logits), *key = key_of(7), *out,
                    *row = array_of(KL_F32, SHAPE(1, 5), logits),
                    *column = array_of(KL_F32, SHAPE(5, 1), logits), *drawn[4];
    EXPECT_OK(kl_random_categorical_shape(&drawn[0], flat, 0, LIST(12), key, cpu(), &err));
    EXPECT_OK(kl_random_categorical_num_samples(&drawn[1], flat, 0, 12, key, cpu(), &err));
    EXPECT_OK(kl_random_categorical_shape(&drawn[2], row, 1, LIST(3, 4), key, cpu(), &err));
    EXPECT_OK(kl_random_categorical_num_samples(&drawn[3], column, 0, 12, key, sim(), &err));
    for (int k = 0; k < 4; k++) {
        assert_int_equal(drawn[k]->t.dtype, KL_U32);
        uint32_t *v = values_of(drawn[k]);
        assert_memory_equal(v, draws, sizeof draws);
        free(v);
        kl_array_release(drawn[k]);
    }
    for (uint32_t seed = 0; seed < 8; seed++) {
        struct kl_array *other = key_of(seed);
        EXPECT_OK(kl_random_categorical(&drawn[0], row, -1, other, cpu(), &err));
        EXPECT_OK(kl_random_categorical(&drawn[1], column, 0, other, cpu(), &err));
        EXPECT_OK(kl_random_categorical(&drawn[2], flat, 0, other, cpu(), &err));
        expect_shape(drawn[0], SHAPE(1));
        expect_shape(drawn[2], SCALAR);
        for (int k = 0; k < 3; k++) {
            uint32_t *v = values_of(drawn[k]);
            assert_int_equal(v[0], k == 2 ? alone[seed] : rows[seed]);
            free(v);
            kl_array_release(drawn[k]);
        }
        kl_array_release(other);
    }
    /* A category with weight 0 is never drawn, and one with infinite weight always. A result
     * without elements draws nothing. */
    struct kl_array *some = F32(SHAPE(1, 4), -INFINITY, 0, 1, -INFINITY),
                    *sure = F32(SHAPE(1, 4), 5, 1, INFINITY, 2);
    EXPECT_OK(kl_random_categorical_num_samples(&out, some, 1, 500, key, cpu(), &err));
    uint32_t *v = values_of(out);
    int counts[4] = {0};
    for (int i = 0; i < 500; i++) counts[v[i]]++;
    assert_true(counts[0] == 0 && counts[3] == 0 && counts[1] > 80 && counts[2] > 280);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_random_categorical_num_samples(&out, sure, 1, 20, key, cpu(), &err));
    v = values_of(out);
    for (int i = 0; i < 20; i++) assert_int_equal(v[i], 2);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_random_categorical_num_samples(&out, some, 1, 0, key, cpu(), &err));
    expect_shape(out, SHAPE(1, 0));
    kl_array_release(out);
    EXPECT_FAIL(KL_ESHAPE, kl_random_categorical_shape(&out, row, 1, NULL, 0, key, cpu(), &err));
    struct kl_array *used[] = {flat, key, row, column, some, sure};
    for (int k = 0; k < 6; k++) kl_array_release(used[k]);
}

/* The same check for rows of every length near powers of 2, against the formula, on the CPU and on
 * a device. */
static void long_row(void **state) {
    enum { MOST = 3000, DRAWS = 200 };
    static const int lengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, MOST};
    for (size_t k = 0; k < 2 * (sizeof lengths / sizeof *lengths); k++) {
        const int n = lengths[k / 2];
        struct kl_stream *s = k % 2 ? sim() : cpu();
        float x[MOST];
        for (int i = 0; i < n; i++) x[i] = (float)(i * 37 % 101) / 16;
        struct kl_array *key = key_of(n), *row = array_of(KL_F32, SHAPE(1, n), x), *out, *u,
                        *zero = scalar_of(KL_F32, 0), *one = scalar_of(KL_F32, 1);
        EXPECT_OK(kl_random_categorical_num_samples(&out, row, 1, DRAWS, key, s, &err));
        EXPECT_OK(kl_random_uniform(&u, zero, one, LIST(DRAWS), KL_F32, key, cpu(), &err));
        uint32_t *at = values_of(out);
        float *uniform = values_of(u);
        double total = 0, sum = 0;
        for (int i = 0; i < n; i++) total += exp((double)x[i]);
        /* The uniform number lies between the cumulated weights before the drawn category and with
         * it, within rounding error. */
        for (int d = 0; d < DRAWS; d++) {
            assert_true(at[d] < (uint32_t)n);
            sum = 0;
            for (uint32_t i = 0; i < at[d]; i++) sum += exp((double)x[i]);
            assert_true(sum <= ((double)uniform[d] + 1e-6) * total);
            assert_true(sum + exp((double)x[at[d]]) >= ((double)uniform[d] - 1e-6) * total);
        }
        free(at);
        free(uniform);
        struct kl_array *used[] = {key, row, out, u, zero, one};
        for (int i = 0; i < 6; i++) kl_array_release(used[i]);
    }
}

/* Bounds in the tails, far away, equal, or in the wrong order. */
static void truncated(void **state) {
    static const float bounds[][2] = {{-1, 1},     {3, 4}, {-4, -3.5f}, {-INFINITY, 0},
                                      {-100, 100}, {2, 2}, {2, 1}};
    struct kl_array *key = key_of(3);
    for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
        float lo = bounds[k][0], hi = bounds[k][1];
        struct kl_array *l = scalar_of(KL_F32, lo), *h = scalar_of(KL_F32, hi), *out;
        EXPECT_OK(kl_random_truncated_normal(&out, l, h, LIST(2000), KL_F32, key, cpu(), &err));
        float *v = values_of(out);
        double sum = 0;
        for (int i = 0; i < 2000; i++) {
            assert_true(v[i] >= lo && (v[i] <= hi || lo > hi));
            sum += v[i];
        }
        if (k == 1)
            assert_true(fabs(sum / 2000 - 3.2628) <
                        0.03); /* the mean is (phi(3) - phi(4)) / (Phi(4) - Phi(3)) */
        free(v);
        kl_array_release(l);
        kl_array_release(h);
        kl_array_release(out);
    }
    kl_array_release(key);
}

/* The covariance of n vectors is near cov, and their mean is near `mean`. */
static void check_moments(struct kl_array *x, int n, const float *mean, const float *cov) {
    float *v = values_of(x);
    double m[3] = {0}, c[9] = {0};
    for (int i = 0; i < n; i++)
        for (int a = 0; a < 3; a++) m[a] += (double)v[i * 3 + a] / n;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < 9; a++)
            c[a] += (v[i * 3 + a / 3] - m[a / 3]) * (v[i * 3 + a % 3] - m[a % 3]) / n;
    for (int a = 0; a < 3; a++) assert_true(fabs(m[a] - mean[a]) < 0.1);
    for (int a = 0; a < 9; a++) assert_true(fabs(c[a] - cov[a]) < 0.25);
    free(v);
}

/* The factor is made on the CPU, and everything else on the device. */
static void multivariate_on_a_device(void **state) {
    enum { N = 100 };
    struct kl_array *key = key_of(11), *m = F32(SHAPE(2), 1, -2),
                    *c = F32(SHAPE(2, 2), 2, 0.5f, 0.5f, 1), *want, *got;
    EXPECT_OK(kl_random_multivariate_normal(&want, m, c, LIST(N), KL_F32, key, cpu(), &err));
    EXPECT_OK(kl_random_multivariate_normal(&got, m, c, LIST(N), KL_F32, key, sim(), &err));
    float *v = values_of(want), *w = values_of(got);
    for (int i = 0; i < 2 * N; i++) assert_true(fabsf(v[i] - w[i]) < 1e-5f);
    free(v);
    free(w);
    struct kl_array *used[] = {key, m, c, want, got};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) kl_array_release(used[i]);
}

static void multivariate(void **state) {
    enum { N = 10000 };
    static const float mean[3] = {1, -2, 0.5f};
    /* A positive definite matrix; a singular one, whose third variable is the sum of the others;
     * and a matrix with one entry that is not 0. */
    static const float covs[3][9] = {{2, 0.5f, 0.25f, 0.5f, 1, -0.5f, 0.25f, -0.5f, 3},
                                     {1, 0.5f, 1.5f, 0.5f, 2, 2.5f, 1.5f, 2.5f, 4},
                                     {0, 0, 0, 0, 4, 0, 0, 0, 0}};
    struct kl_array *key = key_of(11), *m = F32(SHAPE(3), 1, -2, 0.5f), *out,
                    *all = array_of(KL_F32, SHAPE(3, 1, 3, 3), covs);
    for (int k = 0; k < 3; k++) {
        struct kl_array *c = strided(array_of(KL_F32, SHAPE(3, 3), covs[k]));
        EXPECT_OK(kl_random_multivariate_normal(&out, m, c, LIST(N), KL_F32, key, cpu(), &err));
        expect_shape(out, SHAPE(N, 3));
        check_moments(out, N, mean, covs[k]);
        float *v = values_of(out);
        /* The vectors lie in a plane, but for the root of what rounding leaves of the smallest
         * singular value. */
        for (int i = 0; i < N && k == 1; i++)
            assert_true(fabs((v[i * 3] - 1) + (v[i * 3 + 1] + 2) - (v[i * 3 + 2] - 0.5)) < 0.02);
        for (int i = 0; i < N && k == 2; i++) assert_true(v[i * 3] == 1 && v[i * 3 + 2] == 0.5f);
        free(v);
        kl_array_release(out);
        kl_array_release(c);
    }
    EXPECT_OK(kl_random_multivariate_normal(&out, m, all, LIST(3, N), KL_F32, key, cpu(), &err));
    expect_shape(out, SHAPE(3, N, 3));
    for (int k = 0; k < 3; k++) {
        struct kl_array *part;
        EXPECT_OK(
            kl_slice(&part, out, LIST(k, 0, 0), LIST(k + 1, N, 3), LIST(1, 1, 1), cpu(), &err));
        check_moments(part, N, mean, covs[k]);
        kl_array_release(part);
    }
    kl_array_release(out);
    EXPECT_OK(kl_random_multivariate_normal(&out, m, all, LIST(3, 0), KL_F32, key, cpu(), &err));
    expect_shape(out, SHAPE(3, 0, 3));
    kl_array_release(out);
    struct kl_array *nan = F32(SHAPE(1, 1), NAN), *zero = F32(SHAPE(1), 0);
    EXPECT_OK(kl_random_multivariate_normal(&out, zero, nan, NULL, 0, KL_F32, key, cpu(), &err));
    expect_eval_fails(out, KL_EMATRIX,
                      "random_multivariate_normal: the matrix has an element that");
    /* The symmetric root of a diagonal matrix. */
    struct kl_array *z, *two = F32(SHAPE(2), 0, 0), *d = F32(SHAPE(2, 2), 4, 0, 0, 9);
    EXPECT_OK(kl_random_normal(&z, LIST(2), KL_F32, 0, 1, key, cpu(), &err));
    float *w = values_of(z);
    EXPECT_OK(kl_random_multivariate_normal(&out, two, d, NULL, 0, KL_F32, key, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 2 * w[0], 3 * w[1]);
    free(w);
    struct kl_array *used[] = {key, m, all, nan, zero, z, two, d};
    for (int i = 0; i < 8; i++) kl_array_release(used[i]);
}

/* An allocation for the scratch memory of the factorization fails. The result fails, and its
 * message says so. */
static void without_memory(void **state) {
    struct kl_array *key = key_of(1), *m = F32(SHAPE(2), 0, 1), *c = F32(SHAPE(2, 2), 1, 0, 0, 1),
                    *out;
    int n_failed = 0;
    for (int n = 0;; n++) {
        struct kl_error *why = NULL;
        EXPECT_OK(kl_random_multivariate_normal(&out, m, c, LIST(2), KL_F32, key, cpu(), &err));
        kl_test_fail_alloc_at(n);
        int rc = kl_eval(&out, 1, &why);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) assert_int_equal(rc, KL_ENOMEM);
        assert_true(failed || !rc);
        n_failed += rc != 0;
        kl_error_release(why);
        kl_array_release(out);
        if (!failed) break;
    }
    assert_true(n_failed >= 1);
    struct kl_array *used[] = {key, m, c};
    for (int k = 0; k < 3; k++) kl_array_release(used[k]);
}

static void bad(void **state) {
    struct kl_array *key = key_of(1), *f = F32(SHAPE(2), 0, 1), *i = count_up(SHAPE(2)),
                    *s = scalar_of(KL_F32, 0), *z = scalar_of(KL_C64, 1), *e = F32(SHAPE(2, 0), 0),
                    *m = F32(SHAPE(2, 2), 1, 0, 0, 1), *wide = F32(SHAPE(2, 3), 1, 0, 0, 1, 0, 0),
                    *zz, *out;
    EXPECT_OK(kl_astype(&zz, m, KL_C64, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_bernoulli(&out, i, LIST(2), key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_bernoulli(&out, z, LIST(2), key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_bernoulli(&out, f, LIST(3), key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_bernoulli(&out, f, LIST(-2), key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bernoulli(&out, NULL, LIST(2), key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_bernoulli(&out, f, LIST(2), key, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_bernoulli(&out, f, LIST(2), i, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_gumbel(&out, LIST(2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_gumbel(&out, LIST(-2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_gumbel(&out, LIST(2), KL_F32, key, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_laplace(&out, LIST(2), KL_I32, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_laplace(&out, LIST(2), KL_C64, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_laplace(&out, LIST(-2), KL_F32, 0, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_laplace(&out, LIST(2), KL_F32, 0, 1, key, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_random_truncated_normal(&out, s, f, LIST(2), KL_I32, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_random_truncated_normal(&out, z, f, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_truncated_normal(&out, s, f, LIST(3), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_random_truncated_normal(&out, s, NULL, LIST(3), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_random_categorical(&out, f, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_random_categorical(&out, s, 0, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_categorical(&out, e, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_random_categorical(&out, zz, 1, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_categorical(&out, NULL, 0, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_categorical_num_samples(&out, f, 0, -1, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_categorical_shape(&out, m, 1, LIST(3), key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_random_categorical_shape(&out, m, 1, NULL, 0, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_permutation_arange(&out, -1, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_permutation_arange(&out, 1, key, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_random_permutation(&out, s, 0, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_random_permutation(&out, NULL, 0, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_random_multivariate_normal(&out, f, m, LIST(2), KL_F64, key, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE,
                kl_random_multivariate_normal(&out, f, zz, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_multivariate_normal(&out, f, wide, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_multivariate_normal(&out, s, m, LIST(2), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE,
                kl_random_multivariate_normal(&out, m, m, LIST(3), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_random_multivariate_normal(&out, NULL, m, LIST(3), KL_F32, key, cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_random_multivariate_normal(&out, f, m, LIST(3), KL_F32, key, NULL, &err));
    struct kl_array *used[] = {key, f, i, s, z, e, m, wide, zz};
    for (int k = 0; k < 9; k++) kl_array_release(used[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden),
                                       cmocka_unit_test(without_key),
                                       cmocka_unit_test(empty),
                                       cmocka_unit_test(truncated),
                                       cmocka_unit_test(one_row),
                                       cmocka_unit_test(long_row),
                                       cmocka_unit_test(multivariate),
                                       cmocka_unit_test(without_memory),
                                       cmocka_unit_test(multivariate_on_a_device),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
