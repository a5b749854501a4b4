/* test_elementwise_silu_mul.c - a * sigmoid(a) * b against float64: its error, special values,
 * every dtype, broadcasting, layouts, refusals; its gradient against differences and the
 * composition. */
#include "ops/support/operations.h"
#include "ops/support/vjp_support.h"

#include "transforms/transforms.h"
#include "ulp.h"

static double silu(double a) {
    double e = exp(-fabs(a));
    return a < -800 ? -0.0 : a * (a < 0 ? e : 1) / (1 + e);
}

static struct kl_array *made(struct kl_array *a, struct kl_array *b) {
    struct kl_array *out;
    EXPECT_OK(kl_silu_mul(&out, a, b, cpu(), &err));
    kl_array_release(a);
    kl_array_release(b);
    return out;
}

/* Two roundings of half a unit each, in units of a result that may be just above a power of two. */
static void error_of_float32(void **state) {
    enum { N = 1 << 18 };
    const int n = N;
    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    for (int i = 0; i < N; i++) {
        a[i] = -86 + 186 * (float)i / N;
        b[i] = 0.5f + (float)(i * 7919 % N) / N;
    }
    struct kl_array *out = made(array_of(KL_F32, 1, &n, a), array_of(KL_F32, 1, &n, b));
    float *y = values_of(out);
    double most = 0;
    for (int i = 0; i < N; i++) {
        double want = silu((double)a[i]) * (double)b[i];
        if (fabs(want) < 0x1p-126) continue;
        most = fmax(most, fabs((double)y[i] - want) / kl_test_ulp_f32((double)(float)want));
    }
    printf("the largest error is %.3f ulp\n", most);
    assert_true(most > 0.5 && most <= 1.5);
    free(a);
    free(b);
    free(y);
    kl_array_release(out);
}

static void special_values(void **state) {
    struct kl_array *out =
        made(F32(SHAPE(10), 0, -0.0f, INFINITY, -INFINITY, NAN, 1, 200, -200, 1e-40f, -3e38f),
             F32(SHAPE(10), 1, 1, 2, 3, 1, NAN, 2, 2, 1, 3e38f));
    EXPECT_F32(out, SHAPE(10), 0, -0.0f, INFINITY, -0.0f, NAN, NAN, 400, -0.0f, 5e-41f, -0.0f);
    /* The limit of silu is 0, and 0 times infinity is no number. */
    out = made(F32(SHAPE(3), -INFINITY, -INFINITY, 0), F32(SHAPE(3), -2, INFINITY, INFINITY));
    EXPECT_F32(out, SHAPE(3), 0, NAN, NAN);
    const double a[] = {-INFINITY, -700, 0, 700, INFINITY, NAN, 1, -1};
    const double b[] = {1, 1e300, 1, 2, -1, 1, 2, 3};
    out = made(array_of(KL_F64, SHAPE(8), a), array_of(KL_F64, SHAPE(8), b));
    assert_int_equal(out->t.dtype, KL_F64);
    double *y = values_of(out);
    for (int i = 0; i < 8; i++) {
        double want = silu(a[i]) * b[i];
        if (isnan(a[i]) ? !isnan(y[i]) : !(y[i] == want || fabs(y[i] / want - 1) < 1e-15))
            fail_msg("silu_mul(%g, %g) is %.17g", a[i], b[i], y[i]);
    }
    assert_true(signbit(y[0]));
    free(y);
    kl_array_release(out);
    /* Silu keeps its digits where it is denormal. */
    out = made(F32(SHAPE(1), -95), F32(SHAPE(1), 1));
    float *f = values_of(out);
    assert_true(fabs((double)f[0] - silu(-95)) <= 0x1p-149);
    free(f);
    kl_array_release(out);
}

/* 16-bit floats are those of float32, rounded once. */
static void small_floats(void **state) {
    enum { N = 1024 };
    const int n = N;
    static const enum kl_dtype small[] = {KL_F16, KL_BF16};
    for (int d = 0; d < 2; d++) {
        struct kl_array *a = special_bits(small[d], 1, &n, 3),
                        *b = special_bits(small[d], 1, &n, 5), *wide[2], *want, *rounded, *out;
        EXPECT_OK(kl_astype(&wide[0], a, KL_F32, cpu(), &err));
        EXPECT_OK(kl_astype(&wide[1], b, KL_F32, cpu(), &err));
        want = made(wide[0], wide[1]);
        EXPECT_OK(kl_astype(&rounded, want, small[d], cpu(), &err));
        out = made(a, b);
        assert_int_equal(out->t.dtype, small[d]);
        void *x = values_of(out), *y = values_of(rounded);
        for (int64_t i = 0; i < n; i++)
            if (!same_element(small[d], x, y, i)) fail_msg("element %lld", (long long)i);
        free(x);
        free(y);
        kl_array_release(want);
        kl_array_release(rounded);
        kl_array_release(out);
    }
}

static void dtypes_and_shapes(void **state) {
    struct kl_array *out = made(I32(SHAPE(2, 1), 0, 2), scalar_of(KL_BOOL, 1));
    EXPECT_F32(out, SHAPE(2, 1), 0, 1.7615942f);
    out = made(I32(SHAPE(2, 1), 20, 30), F32(SHAPE(3), 1, 2, 3));
    EXPECT_F32(out, SHAPE(2, 3), 20, 40, 60, 30, 60, 90);
    out = made(F32(SHAPE(0, 3), 0), F32(SHAPE(3), 1, 2, 3));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    out =
        made(strided(F32(SHAPE(2, 3), 20, 30, 40, 50, 60, 70)), F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6));
    EXPECT_F32(out, SHAPE(2, 3), 20, 60, 120, 200, 300, 420);
    out = made(scalar_of(KL_F16, 1), scalar_of(KL_BF16, 1));
    assert_int_equal(out->t.dtype, KL_F32);
    kl_array_release(out);
}

static void refusals(void **state) {
    struct kl_array *a = F32(SHAPE(2), 1, 2), *c, *three = F32(SHAPE(3), 1, 2, 3), *out;
    EXPECT_OK(kl_astype(&c, a, KL_C64, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_silu_mul(&out, c, a, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_silu_mul(&out, a, c, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_silu_mul(&out, a, three, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_silu_mul(&out, NULL, a, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_silu_mul(&out, a, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_silu_mul(&out, a, a, NULL, &err));
    struct kl_array *all[] = {a, c, three};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* ---- gradients ---- */

static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    return kl_silu_mul(out, in[0], in[1], cpu(), err);
}

/* sum(silu_mul(a, b)); with `ctx`, of the operations that it stands for. */
static int total(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                 struct kl_error **e) {
    struct kl_array *s = NULL, *x = NULL, *y = NULL;
    int rc;
    if (ctx) {
        rc = kl_sigmoid(&s, in[0], cpu(), e);
        if (!rc) rc = kl_multiply(&x, in[0], s, cpu(), e);
        if (!rc) rc = kl_multiply(&y, x, in[1], cpu(), e);
    } else {
        rc = kl_silu_mul(&y, in[0], in[1], cpu(), e);
    }
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], y, false, cpu(), e);
    struct kl_array *all[] = {s, x, y};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
    return rc;
}

/* The sum of the gradients of total, so that its gradient is a row sum of second derivatives. */
static int total_of_slopes(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                           struct kl_error **e) {
    const struct kl_function f = {.call = total, .ctx = ctx};
    const int both[] = {0, 1};
    struct kl_arrays values = {0}, slopes = {0};
    struct kl_array *sum = NULL;
    int rc = kl_value_and_grad(&f, both, 2, in, 2, &values, &slopes, e);
    if (!rc) rc = kl_add(&sum, slopes.v[0], slopes.v[1], cpu(), e);
    if (!rc) rc = kl_arrays_new(outs, 1, e);
    if (!rc) rc = kl_sum(&outs->v[0], sum, false, cpu(), e);
    kl_array_release(sum);
    kl_arrays_free(&values);
    kl_arrays_free(&slopes);
    return rc;
}

static const double points[] = {-200, -20, -1.3, -0.0, 0, 0.7, 3, 200};
enum { POINTS = sizeof points / sizeof *points };

static void against_differences(void **state) {
    struct kl_array *in[2] = {array_of(KL_F64, SHAPE(6), points + 1),
                              array_of(KL_F64, SHAPE(6), (double[]){1, -2, 0.5, 3, -1, 0})};
    check_vjp("silu_mul", build, NULL, in, 2, 0);
    for (int k = 0; k < 2; k++) kl_array_release(in[k]);
}

/* First and second derivatives. */
static void against_the_composition(void **state) {
    struct kl_array *in[2] = {
        array_of(KL_F64, SHAPE(POINTS), points),
        array_of(KL_F64, SHAPE(POINTS), (double[]){1, -2, 3, 4, 5, -6, 7, 8})};
    const int both[] = {0, 1};
    for (int order = 1; order <= 2; order++) {
        struct kl_arrays values[2] = {{0}}, g[2] = {{0}};
        for (int composed = 0; composed < 2; composed++) {
            const struct kl_function f = {.call = order == 1 ? total : total_of_slopes,
                                          .ctx = composed ? state : NULL};
            EXPECT_OK(kl_value_and_grad(&f, both, 2, in, 2, &values[composed], &g[composed], &err));
        }
        for (int k = 0; k < 2; k++) {
            double *x = values_of(g[0].v[k]), *y = values_of(g[1].v[k]);
            for (int i = 0; i < POINTS; i++)
                if (!(fabs(x[i] - y[i]) <= 1e-14 * (1 + fabs(y[i]))))
                    fail_msg("order %d, input %d, at %g: %.17g, composed %.17g", order, k,
                             points[i], x[i], y[i]);
            free(x);
            free(y);
        }
        for (int k = 0; k < 2; k++) {
            kl_arrays_free(&values[k]);
            kl_arrays_free(&g[k]);
        }
    }
    for (int k = 0; k < 2; k++) kl_array_release(in[k]);
}

/* Where |a| is large or infinite, the gradient is its limit, not NaN, in every dtype. */
static void limits_of_gradients(void **state) {
    static const enum kl_dtype floats[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    const struct kl_function f = {.call = total};
    const int both[] = {0, 1};
    for (int d = 0; d < 4; d++) {
        struct kl_array *a = F32(SHAPE(4), -INFINITY, -2000, 2000, INFINITY),
                        *b = F32(SHAPE(4), 2, 2, 2, 2), *in[2], *wide;
        struct kl_arrays values = {0}, g = {0};
        EXPECT_OK(kl_astype(&in[0], a, floats[d], cpu(), &err));
        EXPECT_OK(kl_astype(&in[1], b, floats[d], cpu(), &err));
        EXPECT_OK(kl_value_and_grad(&f, both, 2, in, 2, &values, &g, &err));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(g.v[k]->t.dtype, floats[d]);
            EXPECT_OK(kl_astype(&wide, g.v[k], KL_F32, cpu(), &err));
            float *v = values_of(wide);
            assert_true(v[0] == 0 && v[1] == 0);
            assert_true(k ? v[2] == 2000 && v[3] == INFINITY : v[2] == 2 && v[3] == 2);
            free(v);
            kl_array_release(wide);
        }
        kl_arrays_free(&values);
        kl_arrays_free(&g);
        struct kl_array *all[] = {a, b, in[0], in[1]};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_of_float32),
        cmocka_unit_test(special_values),
        cmocka_unit_test(small_floats),
        cmocka_unit_test(dtypes_and_shapes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(against_differences),
        cmocka_unit_test(against_the_composition),
        cmocka_unit_test(limits_of_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
