/* test_elementwise_transcendental.c - the elementary functions against NumPy and SciPy: every
 * dtype, special values, branch cuts; their gradients. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_transcendental.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(transcendental_cases);
}

/* Arguments at which the textbook formulas overflow, cancel, or lose small numbers. */
static void hard_cases(void **state) {
    struct kl_array *x = F32(SHAPE(4), -100, 100, -88, -103), *out;
    EXPECT_OK(kl_sigmoid(&out, x, cpu(), &err));
    float *v = values_of(out);
    assert_true(v[0] > 3.7e-44f && v[0] < 3.9e-44f); /* a denormal number, not 0 */
    assert_true(v[1] == 1 && v[2] > 6.05e-39f && v[2] < 6.06e-39f && v[3] > 0);
    free(v);
    kl_array_release(out);
    kl_array_release(x);
    struct kl_array *a = F32(SHAPE(3), 1000, -1000, 1e30f), *b = F32(SHAPE(3), 1000, -1001, -1e30f);
    EXPECT_OK(kl_logaddexp(&out, a, b, cpu(), &err));
    EXPECT_F32(out, SHAPE(3), 1000.6931472f, -999.6867384f, 1e30f);
    kl_array_release(a);
    kl_array_release(b);
    /* The result is small beside the terms of its sum: log(1/2) with log(1/2), and -0.7 with a
     * number that makes the sum close to 1. */
    a = F32(SHAPE(1), -0.6931472f);
    b = F32(SHAPE(1), -0.7f);
    EXPECT_OK(kl_logaddexp(&out, a, b, cpu(), &err));
    double right = log(exp(-(double)0.6931472f) + exp(-(double)0.7f));
    v = values_of(out);
    assert_true(fabs((double)*v - right) < 1e-7 * fabs(right));
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
    /* The parts of the result fit float32, although exp of the real part alone overflows. */
    struct kl_array *z = array_of(KL_C64, SHAPE(2), (float[]){89, 1.5707963f, 0, 700});
    EXPECT_OK(kl_sinh(&out, z, cpu(), &err));
    float *w = values_of(out);
    assert_true(fabsf(w[0]) < 1e32f && w[1] > 2.2e38f && w[1] < 2.3e38f);
    assert_true(w[2] == 0 && fabsf(w[3] - 0.5439705f) < 1e-6f);
    free(w);
    kl_array_release(out);
    kl_array_release(z);
}

static void shapes(void **state) {
    struct kl_array *a = scalar_of(KL_F32, 0), *empty = array_of(KL_F32, SHAPE(3, 0), NULL),
                    *row = F32(SHAPE(3), 0, 1, -1), *column = F32(SHAPE(2, 1), 1, 0), *out;
    EXPECT_OK(kl_cos(&out, a, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    EXPECT_OK(kl_sigmoid(&out, empty, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 0), 0);
    EXPECT_OK(kl_power(&out, row, column, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 3), 0, 1, -1, 1, 1, 1);
    EXPECT_OK(kl_arctan2(&out, empty, a, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 0), 0);
    kl_array_release(a);
    kl_array_release(empty);
    kl_array_release(row);
    kl_array_release(column);
}

/* The arrays are large enough for several threads, and give the bits of the operation on parts. */
static void large(void **state) {
    int n = (1 << 18) + 700;
    struct kl_array *a = count_up(1, &n), *x, *y, *whole, *part;
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_sin(&whole, x, cpu(), &err));
    EXPECT_OK(kl_slice(&y, x, LIST(n - 900), LIST(n), LIST(1), cpu(), &err));
    EXPECT_OK(kl_sin(&part, y, cpu(), &err));
    float *v = values_of(whole), *w = values_of(part);
    assert_memory_equal(v + n - 900, w, 900 * sizeof *w);
    free(v);
    free(w);
    kl_array_release(a);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(whole);
    kl_array_release(part);
}

static void promotion(void **state) {
    static const struct {
        enum kl_dtype a, b, power, arctan2;
    } rows[] = {{KL_BOOL, KL_BOOL, KL_BOOL, KL_F32}, {KL_U8, KL_I8, KL_I16, KL_F32},
                {KL_U64, KL_I8, KL_F32, KL_F32},     {KL_F16, KL_I64, KL_F16, KL_F16},
                {KL_F16, KL_BF16, KL_F32, KL_F32},   {KL_F64, KL_F32, KL_F64, KL_F64}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kl_array *a = scalar_of(rows[i].a, 1), *b = scalar_of(rows[i].b, 1), *out;
        EXPECT_OK(kl_power(&out, a, b, cpu(), &err));
        assert_int_equal(out->t.dtype, rows[i].power);
        kl_array_release(out);
        EXPECT_OK(kl_arctan2(&out, b, a, cpu(), &err));
        assert_int_equal(out->t.dtype, rows[i].arctan2);
        kl_array_release(out);
        EXPECT_OK(kl_logaddexp(&out, a, b, cpu(), &err));
        assert_int_equal(out->t.dtype, rows[i].arctan2);
        kl_array_release(out);
        kl_array_release(a);
        kl_array_release(b);
    }
}

/* ---- gradients ---- */

/* The gradient of one operation with the cotangent 1, in float32; takes the inputs. */
static struct kl_array *gradient(kl_binary_fn *f, struct kl_array *a, struct kl_array *b,
                                 int which) {
    struct kl_array *out, *one, *grad[2] = {NULL, NULL};
    EXPECT_OK(f(&out, a, b, cpu(), &err));
    EXPECT_OK(kl_ones_like(&one, out, cpu(), &err));
    struct kl_node *n = out->node;
    bool wanted[2] = {which == 0, which == 1};
    struct kl_vjp v = {n->task.op, n->task.params, 2, 1, n->in, &out, &one, wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(n->task.op)(&v, grad, &err));
    assert_null(grad[!which]); /* a gradient that was not requested is not made */
    kl_array_release(out);
    kl_array_release(one);
    kl_array_release(a);
    kl_array_release(b);
    return grad[which];
}

/* Places where the gradient of a power is not NaN although its terms are, and equal infinities. */
static void gradients_at_corners(void **state) {
    struct kl_array *g = gradient(kl_power, F32(SHAPE(3), 0, 0, 2), F32(SHAPE(3), 0, 2, 0), 0);
    EXPECT_F32(g, SHAPE(3), 0, 0, 0);
    g = gradient(kl_power, F32(SHAPE(3), 0, 0, 2), F32(SHAPE(3), 1, 2, 0), 1);
    EXPECT_F32(g, SHAPE(3), 0, 0, 0.69314718056f);
    g = gradient(kl_logaddexp, F32(SHAPE(4), -INFINITY, INFINITY, -INFINITY, 1),
                 F32(SHAPE(4), -INFINITY, INFINITY, 1, INFINITY), 0);
    EXPECT_F32(g, SHAPE(4), 0.5f, 0.5f, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),    cmocka_unit_test(hard_cases),
        cmocka_unit_test(shapes),    cmocka_unit_test(large),
        cmocka_unit_test(promotion), cmocka_unit_test(gradients_at_corners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
