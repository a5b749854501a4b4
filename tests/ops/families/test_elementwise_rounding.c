/* test_elementwise_rounding.c - rounding, integer division and the parts of complex numbers
 * against NumPy; decimals; gradients; bad arguments. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_rounding.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(rounding_cases);
}

static void decimals(void **state) {
    struct kl_array *a = F32(SHAPE(7), 0.5f, 1.5f, -2.5f, 1234.5678f, INFINITY, NAN, -0.2f), *out;
    EXPECT_OK(kl_round(&out, a, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(7), 0, 2, -2, 1235, INFINITY, NAN, -0.0f);
    EXPECT_OK(kl_round(&out, a, 1, cpu(), &err));
    EXPECT_F32(out, SHAPE(7), 0.5f, 1.5f, -2.5f, 1234.6f, INFINITY, NAN, -0.2f);
    EXPECT_OK(kl_round(&out, a, -2, cpu(), &err));
    EXPECT_F32(out, SHAPE(7), 0, 0, -0.0f, 1200, INFINITY, NAN, -0.0f);
    EXPECT_OK(kl_round(&out, a, -300, cpu(), &err));
    EXPECT_F32(out, SHAPE(7), 0, 0, -0.0f, 0, INFINITY, NAN, -0.0f);
    EXPECT_OK(kl_round(&out, a, 300, cpu(), &err));
    EXPECT_F32(out, SHAPE(7), 0.5f, 1.5f, -2.5f, 1234.5678f, INFINITY, NAN, -0.2f);
    kl_array_release(a);
    /* Scaling overflows float32, so these numbers have no such decimals. */
    a = F32(SHAPE(2), 1e30f, 1.25f);
    EXPECT_OK(kl_round(&out, a, 10, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 1e30f, 1.25f);
    kl_array_release(a);
    a = array_of(KL_F16, SHAPE(2), (uint16_t[]){kl_f32_to_f16(100.126f), kl_f32_to_f16(1.26f)});
    EXPECT_OK(kl_round(&out, a, 3, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F16);
    uint16_t *h = values_of(out);
    assert_int_equal(h[0], kl_f32_to_f16(100.126f));
    assert_int_equal(h[1], kl_f32_to_f16(1.26f));
    free(h);
    kl_array_release(out);
    kl_array_release(a);
    a = array_of(KL_F64, SHAPE(2), (double[]){1.23456789012, -0.55});
    EXPECT_OK(kl_round(&out, a, 10, cpu(), &err));
    double *d = values_of(out);
    assert_true(d[0] == 1.2345678901 && d[1] == -0.55);
    free(d);
    kl_array_release(out);
    kl_array_release(a);
    a = array_of(KL_C64, SHAPE(2), (float[]){1.26f, 2.75f, 1.5f, -2.5f});
    EXPECT_OK(kl_round(&out, a, 1, cpu(), &err));
    float *c = values_of(out);
    assert_true(c[0] == 1.3f && c[1] == 2.8f && c[2] == 1.5f && c[3] == -2.5f);
    free(c);
    kl_array_release(out);
    EXPECT_OK(kl_round(&out, a, 0, cpu(), &err));
    c = values_of(out);
    assert_true(c[0] == 1 && c[1] == 3 && c[2] == 2 && c[3] == -2);
    free(c);
    kl_array_release(out);
    kl_array_release(a);
}

static void whole_decimals(void **state) {
    struct kl_array *a = I32(SHAPE(7), 15, 25, -15, -25, 1234, -16, 2147483647), *out;
    EXPECT_OK(kl_round(&out, a, 3, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 15, 25, -15, -25, 1234, -16, 2147483647);
    EXPECT_OK(kl_round(&out, a, -1, cpu(), &err));
    /* The result wraps around. */
    EXPECT_I32(out, SHAPE(7), 20, 20, -20, -20, 1230, -20, -2147483646);
    EXPECT_OK(kl_round(&out, a, -9, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 0, 0, 0, 0, 0, 0, 2000000000);
    EXPECT_OK(kl_round(&out, a, -10, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 0, 0, 0, 0, 0, 0, 0);
    EXPECT_OK(kl_round(&out, a, -2147483647 - 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(7), 0, 0, 0, 0, 0, 0, 0);
    kl_array_release(a);
    /* The numbers have more digits than a float64 holds. */
    a = array_of(KL_I64, SHAPE(2), (int64_t[]){(INT64_C(1) << 60) + 9, -INT64_C(25)});
    EXPECT_OK(kl_round(&out, a, -1, cpu(), &err));
    int64_t *v = values_of(out);
    assert_true(v[0] == INT64_C(1152921504606846980) && v[1] == -20);
    free(v);
    kl_array_release(out);
    kl_array_release(a);
    a = array_of(KL_BOOL, SHAPE(2), (uint8_t[]){0, 1});
    EXPECT_OK(kl_round(&out, a, -1, cpu(), &err));
    uint8_t *b = values_of(out);
    assert_true(out->t.dtype == KL_BOOL && !b[0] && !b[1]);
    free(b);
    kl_array_release(out);
    kl_array_release(a);
}

static void both(void **state) {
    struct kl_array *a = I32(SHAPE(4), 7, -7, 7, 5), *b = I32(SHAPE(4), 3, 3, -3, 0), *q, *r;
    EXPECT_OK(kl_divmod(&q, &r, a, b, cpu(), &err));
    EXPECT_I32(q, SHAPE(4), 2, -3, -3, 0);
    EXPECT_I32(r, SHAPE(4), 1, 2, -2, 0);
    struct kl_array *out;
    EXPECT_FAIL(KL_EARG, kl_divmod(&out, &q, a, NULL, cpu(), &err));
    kl_array_release(a);
    kl_array_release(b);
}

/* Where there is nothing to do, the result is the array itself. */
static void nothing_to_round(void **state) {
    struct kl_array *a = count_up(SHAPE(3)), *f = F32(SHAPE(1), 1), *out;
    kl_unary_fn *const of_int[] = {kl_floor, kl_ceil, kl_conjugate, kl_real};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(of_int[i](&out, a, cpu(), &err));
        assert_ptr_equal(out, a);
        kl_array_release(out);
    }
    EXPECT_OK(kl_imag(&out, f, cpu(), &err));
    EXPECT_F32(out, SHAPE(1), 0);
    kl_array_release(a);
    kl_array_release(f);
}

static void shapes(void **state) {
    struct kl_array *empty = array_of(KL_C64, SHAPE(0, 2), NULL), *one = scalar_of(KL_C64, -3),
                    *out;
    EXPECT_OK(kl_real(&out, empty, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 2), 0);
    EXPECT_OK(kl_real(&out, one, cpu(), &err));
    EXPECT_F32(out, SCALAR, -3);
    struct kl_array *row = I32(SHAPE(3), 7, 8, 9), *column = I32(SHAPE(2, 1), 2, 5);
    EXPECT_OK(kl_remainder(&out, row, column, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 1, 0, 1, 2, 3, 4);
    kl_array_release(empty);
    kl_array_release(one);
    kl_array_release(row);
    kl_array_release(column);
}

/* A remainder by a positive number on the host is proved to be in range of an axis of that size. */
static void ranges(void **state) {
    struct kl_array *n = I32(SHAPE(4), -100, 5, 100, 7), *by = scalar_of(KL_I32, 7),
                    *minus = scalar_of(KL_I32, -7), *none = scalar_of(KL_I32, 0), *later, *out;
    EXPECT_OK(kl_remainder(&out, n, by, cpu(), &err));
    assert_true(out->has_range && out->lo == 0 && out->hi == 6);
    EXPECT_I32(out, SHAPE(4), 5, 5, 2, 0);
    struct kl_array *bad[] = {minus, none, n};
    for (int k = 0; k < 3; k++) {
        EXPECT_OK(kl_remainder(&out, n, bad[k], cpu(), &err));
        assert_false(out->has_range);
        kl_array_release(out);
    }
    EXPECT_OK(kl_negative(&later, minus, cpu(), &err));
    EXPECT_OK(kl_remainder(&out, n, later, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    EXPECT_OK(kl_floor_divide(&out, n, by, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    struct kl_array *all[] = {n, by, minus, none, later};
    for (int k = 0; k < 5; k++) kl_array_release(all[k]);
}

static int rounded(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_round(out, a, 1, s, err);
}

static void bad(void **state) {
    struct kl_array *a = scalar_of(KL_F32, 1), *c = scalar_of(KL_C64, 1), *two = count_up(SHAPE(2)),
                    *three = count_up(SHAPE(3)), *out;
    kl_unary_fn *const unaries[] = {kl_floor,     kl_ceil, rounded, kl_sign,
                                    kl_conjugate, kl_real, kl_imag};
    for (size_t i = 0; i < 7; i++) {
        EXPECT_FAIL(KL_EARG, unaries[i](&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, unaries[i](&out, a, NULL, &err));
    }
    kl_binary_fn *const binaries[] = {kl_floor_divide, kl_remainder};
    for (size_t i = 0; i < 2; i++) {
        EXPECT_FAIL(KL_EARG, binaries[i](&out, NULL, a, cpu(), &err));
        EXPECT_FAIL(KL_EARG, binaries[i](&out, a, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, binaries[i](&out, a, a, NULL, &err));
        EXPECT_FAIL(KL_ESHAPE, binaries[i](&out, two, three, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, binaries[i](&out, a, c, cpu(), &err));
    }
    EXPECT_FAIL(KL_EDTYPE, kl_floor(&out, c, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_ceil(&out, c, cpu(), &err));
    struct kl_array *all[] = {a, c, two, three};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* ---- gradients ---- */

static int unary(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    return (*(kl_unary_fn *const *)how)(out, in[0], cpu(), err);
}
static int binary(struct kl_array **out, struct kl_array *const *in, const void *how,
                  struct kl_error **err) {
    return (*(kl_binary_fn *const *)how)(out, in[0], in[1], cpu(), err);
}

static void gradients(void **state) {
    static kl_unary_fn *const of_complex[] = {kl_sign, kl_conjugate, kl_real, kl_imag};
    static kl_binary_fn *const rest = kl_remainder;
    struct kl_array *z = array_of(KL_C64, SHAPE(3), (float[]){1, 2, -0.5f, 0.7f, 0.6f, -0.9f});
    for (int i = 0; i < 4; i++) check_vjp("of complex64", unary, &of_complex[i], &z, 1, 0);
    struct kl_array *in[2] = {array_of(KL_F64, SHAPE(4), (double[]){7, -7.5, 3.3, 0.4}),
                              array_of(KL_F64, SHAPE(4), (double[]){3.1, 3.2, -1.3, 2})};
    check_vjp("remainder", binary, &rest, in, 2, 0);
    kl_array_release(z);
    kl_array_release(in[0]);
    kl_array_release(in[1]);
    static const enum kl_op_id none[] = {KL_OP_FLOOR, KL_OP_CEIL, KL_OP_ROUND, KL_OP_FLOOR_DIVIDE};
    for (int i = 0; i < 4; i++) assert_null(kl_vjp_rule(none[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(decimals),
                                       cmocka_unit_test(whole_decimals),
                                       cmocka_unit_test(both),
                                       cmocka_unit_test(nothing_to_round),
                                       cmocka_unit_test(shapes),
                                       cmocka_unit_test(bad),
                                       cmocka_unit_test(ranges),
                                       cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
