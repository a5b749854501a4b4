/* test_array_data.c - reading items and addresses: every width, no conversion, no read past the
 * end. */
#include "api/api_support.h"

/* An array of one element. */
static mlx_array one(mlx_dtype dtype, const void *value) {
    mlx_array a = mlx_array_new_data(value, NULL, 0, dtype);
    assert_non_null(a.ctx);
    return a;
}

#define CHECK_TYPE(ITEM, DATA, TYPE, DTYPE, VALUE)        \
    do {                                                  \
        TYPE in_ = (VALUE), out_ = 0;                     \
        mlx_array a_ = one(DTYPE, &in_);                  \
        OK(ITEM(&out_, a_));                              \
        assert_true(out_ == in_);                         \
        assert_true(*DATA(a_) == in_);                    \
        FAILS(ITEM(NULL, a_), KEEL_EARG, "result");       \
        FAILS(ITEM(&out_, no_array), KEEL_EARG, "empty"); \
        FAILS_ZERO(DATA(no_array), KEEL_EARG, "empty");   \
        mlx_array_free(a_);                               \
    } while (0)

static void test_every_type(void **state) {
    CHECK_TYPE(mlx_array_item_bool, mlx_array_data_bool, bool, MLX_BOOL, true);
    CHECK_TYPE(mlx_array_item_uint8, mlx_array_data_uint8, uint8_t, MLX_UINT8, 0xfe);
    CHECK_TYPE(mlx_array_item_uint16, mlx_array_data_uint16, uint16_t, MLX_UINT16, 0xfffe);
    CHECK_TYPE(mlx_array_item_uint32, mlx_array_data_uint32, uint32_t, MLX_UINT32, 0xfffffffe);
    CHECK_TYPE(mlx_array_item_uint64, mlx_array_data_uint64, uint64_t, MLX_UINT64,
               0xfffffffffffffffe);
    CHECK_TYPE(mlx_array_item_int8, mlx_array_data_int8, int8_t, MLX_INT8, -2);
    CHECK_TYPE(mlx_array_item_int16, mlx_array_data_int16, int16_t, MLX_INT16, -2);
    CHECK_TYPE(mlx_array_item_int32, mlx_array_data_int32, int32_t, MLX_INT32, -2);
    CHECK_TYPE(mlx_array_item_int64, mlx_array_data_int64, int64_t, MLX_INT64, -2);
    CHECK_TYPE(mlx_array_item_float32, mlx_array_data_float32, float, MLX_FLOAT32, 1.5f);
    CHECK_TYPE(mlx_array_item_float64, mlx_array_data_float64, double, MLX_FLOAT64, 1.5);
    CHECK_TYPE(mlx_array_item_complex64, mlx_array_data_complex64, mlx_complex64_t, MLX_COMPLEX64,
               1.5f);
}

static void test_halves(void **state) {
    uint16_t bits = 0x3e00; /* the bits of 1.5 in float16 */
    mlx_array a = one(MLX_FLOAT16, &bits), b = one(MLX_BFLOAT16, &bits);
    float16_t h = 0;
    bfloat16_t f; /* gcc's type for ARM has no arithmetic, not even 0 */
    memset(&f, 0, sizeof f);
    OK(mlx_array_item_float16(&h, a));
    assert_memory_equal(&h, &bits, 2);
#ifdef HAS_FLOAT16
    assert_true((float)h == 1.5f);
#endif
    assert_memory_equal(mlx_array_data_float16(a), &bits, 2);
    OK(mlx_array_item_bfloat16(&f, b));
    assert_memory_equal(&f, &bits, 2);
    assert_memory_equal(mlx_array_data_bfloat16(b), &bits, 2);
    /* the raw bits, for compilers without such a type */
    uint16_t raw = 0;
    OK(mlx_array_item_uint16(&raw, a));
    assert_int_equal(raw, bits);
    assert_int_equal(*mlx_array_data_uint16(b), bits);
    FAILS(mlx_array_item_float16(NULL, a), KEEL_EARG, "result");
    FAILS(mlx_array_item_bfloat16(NULL, a), KEEL_EARG, "result");
    FAILS_ZERO(mlx_array_data_float16(no_array), KEEL_EARG, "empty");
    FAILS_ZERO(mlx_array_data_bfloat16(no_array), KEEL_EARG, "empty");
    mlx_array_free(a);
    mlx_array_free(b);
}

static void test_never_converts(void **state) {
    mlx_array a = mlx_array_new_float(1.0f);
    int32_t bits = 0;
    OK(mlx_array_item_int32(&bits, a));
    assert_int_equal(bits, 1065353216);
    assert_int_equal(*mlx_array_data_int32(a), 1065353216);
    mlx_array_free(a);
    uint8_t two = 2; /* a byte other than 0 becomes true */
    a = one(MLX_UINT8, &two);
    bool b = false;
    OK(mlx_array_item_bool(&b, a));
    assert_true(b == true);
    mlx_array_free(a);
}

static void test_width_is_checked(void **state) {
    mlx_array a = mlx_array_new_float(1.0f), bytes = mlx_array_new_bool(true);
    double d = 5;
    uint16_t h = 5;
    bool b = false;
    float f = 5;
    FAILS(mlx_array_item_float64(&d, a), KEEL_EDTYPE, "float32, 4 bytes wide");
    FAILS(mlx_array_item_uint16(&h, a), KEEL_EDTYPE, "elements of 2");
    FAILS(mlx_array_item_bool(&b, a), KEEL_EDTYPE, "elements of 1");
    FAILS(mlx_array_item_float32(&f, bytes), KEEL_EDTYPE, "bool, 1 bytes wide");
    assert_true(d == 5 && h == 5 && !b && f == 5);
    FAILS_ZERO(mlx_array_data_int64(a), KEEL_EDTYPE, "mlx_array_data_int64: ");
    FAILS_ZERO(mlx_array_data_bool(a), KEEL_EDTYPE, "mlx_array_data_bool: ");
    FAILS_ZERO(mlx_array_data_complex64(a), KEEL_EDTYPE, "elements of 8");
    mlx_array_free(a);
    mlx_array_free(bytes);
}

static void test_item_needs_one_element(void **state) {
    mlx_array three = INTS(1, 2, 3), none = mlx_array_new_data(NULL, LIST(0), 1, MLX_INT32);
    mlx_array one_1d = INTS(4), r = mlx_array_new();
    int32_t v = 0;
    FAILS(mlx_array_item_int32(&v, three), KEEL_ESHAPE, "size 3");
    FAILS(mlx_array_item_int32(&v, none), KEEL_ESHAPE, "size 0");
    OK(mlx_array_item_int32(&v, one_1d));
    assert_int_equal(v, 4);
    OK(mlx_slice(&r, three, AXES(2), AXES(3), AXES(1), cpu)); /* a view with an offset */
    OK(mlx_array_item_int32(&v, r));
    assert_int_equal(v, 3);
    assert_non_null(mlx_array_data_int32(none));
    mlx_array_free(three);
    mlx_array_free(none);
    mlx_array_free(one_1d);
    mlx_array_free(r);
}

static void test_reading_evaluates(void **state) {
    mlx_array a = INTS(1, 2, 3), r = mlx_array_new(), s = mlx_array_new();
    OK(mlx_add(&r, a, a, cpu));
    const int32_t *data = mlx_array_data_int32(r);
    assert_non_null(data);
    assert_int_equal(data[2], 6);
    OK(mlx_sum(&s, r, false, cpu));
    int32_t v = 0;
    OK(mlx_array_item_int32(&v, s));
    assert_int_equal(v, 12);
    /* Element 0 is the third one in memory. */
    OK(mlx_slice(&r, a, AXES(2), AXES(-4), AXES(-2), cpu));
    data = mlx_array_data_int32(r);
    assert_int_equal(data[0], 3);
    assert_int_equal(data[(int64_t)mlx_array_strides(r)[0]], 1);
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_array_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_never_converts),
        cmocka_unit_test(test_width_is_checked),
        cmocka_unit_test(test_item_needs_one_element),
        cmocka_unit_test(test_reading_evaluates),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
