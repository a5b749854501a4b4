/* test_elementwise_classify.c - tests of values, nan_to_num and clip: every dtype, special values,
 * ranges, bad arguments. */
#include "ops/golden/golden.h"

static const enum kl_dtype floats[] = {KL_F16, KL_BF16, KL_F32, KL_F64};

/* The result must be these bools; takes a. */
static void expect_bools(struct kl_array *a, int n, const char *want, const char *what) {
    assert_int_equal(a->t.dtype, KL_BOOL);
    assert_int_equal(a->t.size, n);
    uint8_t *v = values_of(a);
    for (int i = 0; i < n; i++)
        if (v[i] != (want[i] == '1')) fail_msg("%s: element %d is %d", what, i, v[i]);
    free(v);
    kl_array_release(a);
}

static const struct {
    const char *name;
    kl_unary_fn *build;
    const char *floats, *complex;
} kinds[] = {{"isnan", kl_isnan, "00001000", "110010000"},
             {"isinf", kl_isinf, "00110000", "001111110"},
             {"isfinite", kl_isfinite, "11000111", "000000001"},
             {"isposinf", kl_isposinf, "00100000", "000000000"},
             {"isneginf", kl_isneginf, "00010000", "000000000"}};

static void classes(void **state) {
    struct kl_array *x = F32(SHAPE(8), 0, -1, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, -3e38f), *y,
                    *out;
    float i = INFINITY, n = NAN;
    struct kl_array *z =
        array_of(KL_C64, SHAPE(9),
                 (float[]){n, 1, 1, n, i, 1, 1, i, -i, n, -i, 1, 1, -i, i, i, 3e38f, 3e38f});
    for (size_t k = 0; k < 5; k++) {
        for (int f = 0; f < 4; f++) {
            if (floats[f] == KL_F16) {
                struct kl_array *small =
                    F32(SHAPE(8), 0, -1, INFINITY, -INFINITY, NAN, 6e-8f, 65504, -65504);
                EXPECT_OK(kl_astype(&y, small, KL_F16, cpu(), &err));
                kl_array_release(small);
            } else {
                EXPECT_OK(kl_astype(&y, x, (int)floats[f], cpu(), &err));
            }
            EXPECT_OK(kinds[k].build(&out, y, cpu(), &err));
            expect_bools(out, 8, kinds[k].floats, kinds[k].name);
            kl_array_release(y);
        }
        EXPECT_OK(kinds[k].build(&out, z, cpu(), &err));
        expect_bools(out, 9, kinds[k].complex, kinds[k].name);
        struct kl_array *whole = I32(SHAPE(2), 0, 2147483647),
                        *empty = array_of(KL_F32, SHAPE(0, 2), NULL),
                        *none = array_of(KL_C64, SHAPE(0), NULL);
        EXPECT_OK(kinds[k].build(&out, whole, cpu(), &err));
        expect_bools(out, 2, k == 2 ? "11" : "00", kinds[k].name);
        EXPECT_OK(kinds[k].build(&out, empty, cpu(), &err));
        expect_bools(out, 0, "", kinds[k].name);
        EXPECT_OK(kinds[k].build(&out, none, cpu(), &err));
        expect_bools(out, 0, "", kinds[k].name);
        EXPECT_FAIL(KL_EARG, kinds[k].build(&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, kinds[k].build(&out, x, NULL, &err));
        EXPECT_FAIL(KL_EARG, kinds[k].build(&out, whole, NULL, &err));
        EXPECT_FAIL(KL_EARG, kinds[k].build(&out, z, NULL, &err));
        kl_array_release(whole);
        kl_array_release(empty);
        kl_array_release(none);
    }
    kl_array_release(x);
    kl_array_release(z);
}

static void replacing(void **state) {
    struct kl_array *x = F32(SHAPE(5), NAN, INFINITY, -INFINITY, -0.0f, 5), *h, *out;
    EXPECT_OK(kl_nan_to_num(&out, x, 0, NULL, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(5), 0, 3.4028234664e38f, -3.4028234664e38f, -0.0f, 5);
    double top = 2.5, bottom = -3.5;
    EXPECT_OK(kl_nan_to_num(&out, x, 1.5, &top, &bottom, cpu(), &err));
    EXPECT_F32(out, SHAPE(5), 1.5f, 2.5f, -3.5f, -0.0f, 5);
    top = (double)INFINITY; /* a replacement that is itself infinite stays */
    EXPECT_OK(kl_nan_to_num(&out, x, (double)-INFINITY, &top, NULL, cpu(), &err));
    float *v = values_of(out);
    assert_true(v[1] == INFINITY && v[2] < -3e38f && v[3] == 0 && v[4] == 5);
    free(v);
    kl_array_release(out);
    static const double largest[] = {65504, 0x1.fep127, 0x1.fffffep127, 0x1.fffffffffffffp1023};
    for (int f = 0; f < 4; f++) {
        EXPECT_OK(kl_astype(&h, x, (int)floats[f], cpu(), &err));
        EXPECT_OK(kl_nan_to_num(&out, h, 0, NULL, NULL, cpu(), &err));
        assert_int_equal(out->t.dtype, floats[f]);
        struct kl_array *wide;
        EXPECT_OK(kl_astype(&wide, out, KL_F64, cpu(), &err));
        double *d = values_of(wide);
        assert_true(d[0] == 0 && d[1] == largest[f] && d[2] == -largest[f] && signbit(d[3]) &&
                    d[4] == 5);
        free(d);
        kl_array_release(wide);
        kl_array_release(out);
        kl_array_release(h);
    }
    struct kl_array *whole = count_up(SHAPE(2)), *c = scalar_of(KL_C64, 1);
    EXPECT_OK(kl_nan_to_num(&out, whole, 7, NULL, NULL, cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 0, 1);
    EXPECT_FAIL(KL_EDTYPE, kl_nan_to_num(&out, c, 0, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_nan_to_num(&out, c, 0, &top, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_nan_to_num(&out, c, 0, NULL, &top, cpu(), &err));
    /* Real and imaginary parts are replaced separately. A transposed view, an array without
     * elements and a 0-d array are handled, too. */
    const double high = 8, low = 9;
    struct kl_array *z = strided(array_of(KL_C64, SHAPE(2, 3),
                                          (float[]){NAN, 1, 1, NAN, INFINITY, -INFINITY, -INFINITY,
                                                    NAN, NAN, NAN, 2, -0.0f})),
                    *re, *im, *none = array_of(KL_C64, SHAPE(0, 2), NULL);
    EXPECT_OK(kl_nan_to_num(&out, z, 7, &high, &low, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_C64);
    EXPECT_OK(kl_real(&re, out, cpu(), &err));
    EXPECT_OK(kl_imag(&im, out, cpu(), &err));
    EXPECT_F32(re, SHAPE(2, 3), 7, 1, 8, 9, 7, 2);
    EXPECT_F32(im, SHAPE(2, 3), 1, 7, 9, 7, 7, -0.0f);
    kl_array_release(out);
    EXPECT_OK(kl_nan_to_num(&out, none, 7, &high, &low, cpu(), &err));
    expect_shape(out, SHAPE(0, 2));
    kl_array_release(out);
    EXPECT_OK(kl_nan_to_num(&out, c, 7, &high, &low, cpu(), &err));
    EXPECT_OK(kl_real(&re, out, cpu(), &err));
    EXPECT_F32(re, SCALAR, 1);
    kl_array_release(out);
    kl_array_release(z);
    kl_array_release(none);
    EXPECT_FAIL(KL_EARG, kl_nan_to_num(&out, NULL, 0, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_nan_to_num(&out, x, 0, NULL, NULL, NULL, &err));
    kl_array_release(whole);
    kl_array_release(c);
    kl_array_release(x);
}

static bool truth(struct kl_array *a) {
    assert_int_equal(a->t.dtype, KL_BOOL);
    assert_int_equal(a->t.ndim, 0);
    uint8_t *v = values_of(a), yes = *v;
    free(v);
    kl_array_release(a);
    return yes;
}

static void closeness(void **state) {
    float i = INFINITY, n = NAN;
    struct kl_array *a = F32(SHAPE(8), 1, i, n, i, 1, -i, 3e38f, 0),
                    *b = F32(SHAPE(8), 1.000001f, i, n, -i, i, 1, -3e38f, 1e-9f), *out;
    EXPECT_OK(kl_isclose(&out, a, b, 1e-5, 1e-8, false, cpu(), &err));
    expect_bools(out, 8, "11000001", "isclose");
    EXPECT_OK(kl_isclose(&out, a, b, 1e-5, 1e-8, true, cpu(), &err));
    expect_bools(out, 8, "11100001", "isclose with NaN");
    EXPECT_OK(kl_isclose(&out, a, b, 0, 0, false, cpu(), &err));
    expect_bools(out, 8, "01000000", "isclose exactly");
    /* A difference of exactly the tolerance is close, and a larger one is not. The difference of
     * complex numbers is measured by magnitude. */
    struct kl_array *x = array_of(KL_F64, SHAPE(2), (double[]){1.25, 1.25000001}),
                    *one = scalar_of(KL_F64, 1),
                    *z = array_of(KL_C64, SHAPE(2), (float[]){1, 1, 1, 1.5f}),
                    *w = array_of(KL_C64, SHAPE(1), (float[]){1, 1});
    EXPECT_OK(kl_isclose(&out, x, one, 0, 0.25, false, cpu(), &err));
    expect_bools(out, 2, "10", "isclose of float64");
    EXPECT_OK(kl_isclose(&out, z, w, 0.1, 0.1, false, cpu(), &err));
    expect_bools(out, 2, "10", "isclose of complex64");
    /* A tolerance counts even where float16 would round it to 0. */
    struct kl_array *h = array_of(KL_F16, SHAPE(1), (uint16_t[]){1}), *zero = scalar_of(KL_F16, 0);
    EXPECT_OK(kl_isclose(&out, h, zero, 0, 6.1e-8, false, cpu(), &err));
    expect_bools(out, 1, "1", "isclose of float16");
    /* Integers, and operands that broadcast. */
    struct kl_array *p = I32(SHAPE(2, 1), 100, 7), *q = I32(SHAPE(3), 100, 101, 7),
                    *empty = array_of(KL_F32, SHAPE(0), NULL), *two = count_up(SHAPE(2));
    EXPECT_OK(kl_isclose(&out, p, q, 0.01, 0, false, cpu(), &err));
    expect_bools(out, 6, "110001", "isclose of integers");
    EXPECT_OK(kl_allclose(&out, p, q, 0.01, 0, false, cpu(), &err));
    assert_false(truth(out));
    EXPECT_OK(kl_allclose(&out, a, a, 0, 0, true, cpu(), &err));
    assert_true(truth(out));
    EXPECT_OK(kl_allclose(&out, a, a, 0, 0, false, cpu(), &err));
    assert_false(truth(out));
    EXPECT_OK(kl_allclose(&out, empty, empty, 0, 0, false, cpu(), &err));
    assert_true(truth(out));
    EXPECT_FAIL(KL_ESHAPE, kl_isclose(&out, q, two, 0, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_allclose(&out, q, two, 0, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_isclose(&out, NULL, a, 0, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_isclose(&out, a, NULL, 0, 0, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_allclose(&out, a, a, 0, 0, false, NULL, &err));
    struct kl_array *all[] = {a, b, x, one, z, w, h, zero, p, q, empty, two};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
}

static void equality(void **state) {
    struct kl_array *a = F32(SHAPE(3), 1, NAN, -0.0f), *b = F32(SHAPE(3), 1, NAN, 0),
                    *c = F32(SHAPE(3), 1, 2, 0), *out;
    struct kl_array *row = count_up(SHAPE(2)), *column = count_up(SHAPE(2, 1)),
                    *same = F32(SHAPE(2), 0, 1), *empty = array_of(KL_I32, SHAPE(0), NULL);
    EXPECT_OK(kl_array_equal(&out, a, b, false, cpu(), &err));
    assert_false(truth(out));
    EXPECT_OK(kl_array_equal(&out, a, b, true, cpu(), &err));
    assert_true(truth(out));
    EXPECT_OK(kl_array_equal(&out, a, c, true, cpu(), &err));
    assert_false(truth(out));
    EXPECT_OK(kl_array_equal(&out, row, column, false, cpu(), &err));
    assert_false(truth(out));
    EXPECT_OK(kl_array_equal(&out, row, same, false, cpu(), &err));
    assert_true(truth(out));
    EXPECT_OK(kl_array_equal(&out, empty, empty, false, cpu(), &err));
    assert_true(truth(out));
    EXPECT_FAIL(KL_EARG, kl_array_equal(&out, NULL, a, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_array_equal(&out, a, NULL, false, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_array_equal(&out, row, column, false, NULL, &err));
    struct kl_array *all[] = {a, b, c, row, column, same, empty};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
}

static void bounds(void **state) {
    struct kl_array *x = F32(SHAPE(4), -1, 0.5f, 3, NAN), *n = I32(SHAPE(2), -1, 3),
                    *zero = scalar_of(KL_F32, 0), *one = scalar_of(KL_F32, 1), *out;
    EXPECT_OK(kl_clip(&out, x, zero, one, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, 0.5f, 1, NAN);
    EXPECT_OK(kl_clip(&out, x, zero, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, 0.5f, 3, NAN);
    EXPECT_OK(kl_clip(&out, x, NULL, one, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), -1, 0.5f, 1, NAN);
    /* When the bounds are exchanged, the upper one wins. */
    EXPECT_OK(kl_clip(&out, x, one, zero, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), 0, 0, 0, NAN);
    EXPECT_OK(kl_clip(&out, n, zero, one, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 0, 1);
    struct kl_array *column = I32(SHAPE(2, 1), 0, 2);
    EXPECT_OK(kl_clip(&out, n, column, NULL, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 3, 2, 3);
    EXPECT_FAIL(KL_EARG, kl_clip(&out, x, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_clip(&out, NULL, one, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_clip(&out, x, one, NULL, NULL, &err));
    struct kl_array *three = count_up(SHAPE(3));
    EXPECT_FAIL(KL_ESHAPE, kl_clip(&out, n, three, NULL, cpu(), &err));
    struct kl_array *all[] = {x, n, zero, one, column, three};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
}

/* Bounds with values on the host prove the range of the result. Bounds that are computed later, and
 * bounds that the type does not hold, prove nothing. */
static void ranges(void **state) {
    struct kl_array *n = I32(SHAPE(3), -100, 5, 100), *low = scalar_of(KL_I32, 2),
                    *high = scalar_of(KL_I32, 9), *later, *out;
    EXPECT_OK(kl_clip(&out, n, low, high, cpu(), &err));
    assert_true(out->has_range && out->lo == 2 && out->hi == 9);
    EXPECT_I32(out, SHAPE(3), 2, 5, 9);
    EXPECT_OK(kl_clip(&out, n, high, low, cpu(), &err));
    assert_true(out->has_range && out->lo == 2 && out->hi == 2);
    EXPECT_I32(out, SHAPE(3), 2, 2, 2);
    EXPECT_OK(kl_clip(&out, n, low, NULL, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    EXPECT_OK(kl_add(&later, high, low, cpu(), &err));
    EXPECT_OK(kl_clip(&out, n, low, later, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    struct kl_array *wide = scalar_of(KL_U64, 1e19),
                    *u = array_of(KL_U64, SHAPE(1), (uint64_t[]){UINT64_MAX}),
                    *least = scalar_of(KL_U64, 0);
    EXPECT_OK(kl_clip(&out, u, least, wide, cpu(), &err));
    assert_false(out->has_range);
    kl_array_release(out);
    struct kl_array *byte = array_of(KL_U8, SHAPE(2), (uint8_t[]){200, 3}),
                    *five = scalar_of(KL_U8, 5), *minus = scalar_of(KL_I8, -5);
    EXPECT_OK(kl_clip(&out, byte, minus, five, cpu(), &err)); /* the promoted type is int16 */
    assert_true(out->has_range && out->lo == -5 && out->hi == 5 && out->t.dtype == KL_I16);
    kl_array_release(out);
    struct kl_array *all[] = {n, low, high, later, wide, u, least, byte, five, minus};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) kl_array_release(all[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(classes),   cmocka_unit_test(replacing),
                                       cmocka_unit_test(closeness), cmocka_unit_test(equality),
                                       cmocka_unit_test(bounds),    cmocka_unit_test(ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
