/* test_convert.c - astype against exact results; copy; contiguous. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_astype.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(astype_cases);
}

static void same_dtype_is_the_same_array(void **state) {
    struct kl_array *a = count_up(SHAPE(3)), *out;
    /* The dtype stays, so nothing runs and no stream is needed. */
    EXPECT_OK(kl_astype(&out, a, KL_I32, NULL, &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    kl_array_release(a);
}

static void copy_is_new(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 2)), *out, *t;
    EXPECT_OK(kl_copy(&out, a, cpu(), &err));
    assert_ptr_not_equal(out, a);
    assert_ptr_not_equal(out->t.buffer, a->t.buffer);
    EXPECT_I32(out, SHAPE(2, 2), 0, 1, 2, 3);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_copy(&out, t, cpu(), &err));
    assert_true(out->t.layout & KL_ROW_CONTIGUOUS);
    EXPECT_I32(out, SHAPE(2, 2), 0, 2, 1, 3);
    kl_array_release(t);
    kl_array_release(a);
}

static void contiguous(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *t, *out;
    EXPECT_OK(kl_contiguous(&out, a, false, cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_contiguous(&out, t, true, cpu(), &err));
    assert_ptr_equal(out, t);
    kl_array_release(out);
    EXPECT_OK(kl_contiguous(&out, t, false, cpu(), &err));
    assert_true(out->t.layout & KL_ROW_CONTIGUOUS);
    EXPECT_I32(out, SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    kl_array_release(t);
    kl_array_release(a);
}

static void ranges(void **state) {
    struct kl_array *a, *out, *b = scalar_of(KL_BOOL, 1);
    EXPECT_OK(kl_arange(&a, 0, 200, 1, KL_I32, cpu(), &err));
    EXPECT_OK(kl_astype(&out, a, KL_U8, cpu(), &err));
    assert_true(out->has_range && out->lo == 0 && out->hi == 199);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&out, a, KL_I8, cpu(), &err)); /* int8 does not hold 128 and more */
    assert_false(out->has_range);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&out, a, KL_F32, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&out, b, KL_I64, cpu(), &err));
    assert_true(out->has_range && out->lo == 0 && out->hi == 1);
    kl_array_release(out);
    EXPECT_OK(kl_copy(&out, a, cpu(), &err));
    assert_true(out->has_range && out->hi == 199);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 2)), *t, *out;
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_astype(&out, NULL, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_astype(&out, a, -1, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_astype(&out, a, KL_N_DTYPES, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_astype(&out, a, KL_F32, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_copy(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_copy(&out, a, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_contiguous(&out, NULL, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_contiguous(&out, t, false, NULL, &err));
    kl_array_release(t);
    kl_array_release(a);
}

/* ---- gradients ---- */

static int cast(struct kl_array **out, struct kl_array *const *in, const void *how,
                struct kl_error **err) {
    return kl_astype(out, in[0], *(const int *)how, cpu(), err);
}
static int copy(struct kl_array **out, struct kl_array *const *in, const void *how,
                struct kl_error **err) {
    return kl_copy(out, in[0], cpu(), err);
}

static void gradients(void **state) {
    struct kl_array *x = array_of(KL_F64, SHAPE(3), (double[]){0.5, -2, 3}),
                    *z = array_of(KL_C64, SHAPE(2), (float[]){1, 2, 3, 4});
    static const int f32 = KL_F32, f64 = KL_F64, c64 = KL_C64;
    check_vjp("float64 to float32", cast, &f32, &x, 1, 2e-2);
    check_vjp("float64 to complex64", cast, &c64, &x, 1, 0);
    check_vjp("complex64 to float64", cast, &f64, &z, 1, 0);
    check_vjp("copy", copy, NULL, &x, 1, 0);
    check_vjp("copy of complex64", copy, NULL, &z, 1, 0);
    /* Conversions from and to integers have no gradient. */
    struct kl_array *n = count_up(SHAPE(3)), *one = F32(SHAPE(3), 1, 1, 1), *g = NULL, *y;
    bool wanted = true;
    EXPECT_OK(kl_astype(&y, n, KL_F32, cpu(), &err));
    struct kl_vjp v = {KL_OP_CAST, NULL, 1, 1, &n, &y, &one, &wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(KL_OP_CAST)(&v, &g, &err));
    assert_null(g);
    v.in = &one;
    v.out = v.cotangent = &n;
    EXPECT_OK(kl_vjp_rule(KL_OP_CAST)(&v, &g, &err));
    assert_null(g);
    struct kl_array *all[] = {x, z, n, one, y};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}

/* stop_gradient gives a view with the same elements, through which no gradient passes. */
static void stopping(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *t, *out;
    EXPECT_OK(kl_stop_gradient(&out, a, cpu(), &err));
    assert_ptr_equal(out->t.buffer, a->t.buffer);
    assert_null(out->node);
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    struct kl_trace *trace = begin_trace(&t, 1);
    EXPECT_OK(kl_stop_gradient(&out, t, cpu(), &err));
    assert_int_equal(out->node->task.op, KL_OP_STOP_GRADIENT);
    assert_null(kl_vjp_rule(KL_OP_STOP_GRADIENT));
    EXPECT_I32(out, SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    kl_trace_end(trace);
    kl_array_release(t);
    EXPECT_OK(kl_negative(&t, a, cpu(), &err)); /* a view of an array that is not computed yet */
    EXPECT_OK(kl_stop_gradient(&out, t, cpu(), &err));
    kl_array_release(t);
    EXPECT_I32(out, SHAPE(2, 3), 0, -1, -2, -3, -4, -5);
    EXPECT_FAIL(KL_EARG, kl_stop_gradient(&out, NULL, cpu(), &err));
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),      cmocka_unit_test(same_dtype_is_the_same_array),
        cmocka_unit_test(copy_is_new), cmocka_unit_test(contiguous),
        cmocka_unit_test(ranges),      cmocka_unit_test(bad),
        cmocka_unit_test(gradients),   cmocka_unit_test(stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
