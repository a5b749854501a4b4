/* test_dtype.c - dtype.h: sizes and kinds of dtypes, promotion, and every 16-bit float. */
#include "support.h"

#include <math.h>

#include "base/number/dtype.h"
#include "base/number/half.h"

static void facts(void **state) {
    static const struct {
        enum kl_dtype dtype;
        const char *name;
        size_t size;
        bool is_float, is_int, is_signed;
    } rows[] = {
        {KL_BOOL, "bool", 1, false, false, false},    {KL_U8, "uint8", 1, false, true, false},
        {KL_U16, "uint16", 2, false, true, false},    {KL_U32, "uint32", 4, false, true, false},
        {KL_U64, "uint64", 8, false, true, false},    {KL_I8, "int8", 1, false, true, true},
        {KL_I16, "int16", 2, false, true, true},      {KL_I32, "int32", 4, false, true, true},
        {KL_I64, "int64", 8, false, true, true},      {KL_F16, "float16", 2, true, false, false},
        {KL_F32, "float32", 4, true, false, false},   {KL_F64, "float64", 8, true, false, false},
        {KL_BF16, "bfloat16", 2, true, false, false}, {KL_C64, "complex64", 8, false, false, false},
    };
    for (int i = 0; i < KL_N_DTYPES; i++) {
        assert_int_equal(rows[i].dtype, i);
        assert_string_equal(kl_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(kl_dtype_size(rows[i].dtype), rows[i].size);
        assert_int_equal(kl_dtype_is_float(rows[i].dtype), rows[i].is_float);
        assert_int_equal(kl_dtype_is_int(rows[i].dtype), rows[i].is_int);
        assert_int_equal(kl_dtype_is_signed(rows[i].dtype), rows[i].is_signed);
        assert_true(kl_dtype_valid(i));
    }
    assert_false(kl_dtype_valid(-1));
    assert_false(kl_dtype_valid(KL_N_DTYPES));
    assert_string_equal(kl_dtype_name((enum kl_dtype)99), "unknown");
}

/* The table of promotions as observed in MLX 0.32. Rows and columns have the order of the enum. */
static void promotion(void **state) {
    static const char *const names[] = {"b",  "u1", "u2", "u4", "u8", "i1", "i2",
                                        "i4", "i8", "f2", "f4", "f8", "bf", "c8"};
    static const char table[KL_N_DTYPES][KL_N_DTYPES * 3 + 1] = {
        "b  u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 bf c8 ", "u1 u1 u2 u4 u8 i2 i2 i4 i8 f2 f4 f8 bf c8 ",
        "u2 u2 u2 u4 u8 i4 i4 i4 i8 f2 f4 f8 bf c8 ", "u4 u4 u4 u4 u8 i8 i8 i8 i8 f2 f4 f8 bf c8 ",
        "u8 u8 u8 u8 u8 f4 f4 f4 f4 f2 f4 f8 bf c8 ", "i1 i2 i4 i8 f4 i1 i2 i4 i8 f2 f4 f8 bf c8 ",
        "i2 i2 i4 i8 f4 i2 i2 i4 i8 f2 f4 f8 bf c8 ", "i4 i4 i4 i8 f4 i4 i4 i4 i8 f2 f4 f8 bf c8 ",
        "i8 i8 i8 i8 f4 i8 i8 i8 i8 f2 f4 f8 bf c8 ", "f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f8 f4 c8 ",
        "f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 f4 c8 ", "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c8 ",
        "bf bf bf bf bf bf bf bf bf f4 f4 f8 bf c8 ", "c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 ",
    };
    for (int a = 0; a < KL_N_DTYPES; a++)
        for (int b = 0; b < KL_N_DTYPES; b++) {
            const char *got = names[kl_dtype_promote((enum kl_dtype)a, (enum kl_dtype)b)];
            assert_memory_equal(got, &table[a][3 * b], strlen(got));
        }
}

/* The value of a float16 with these bits, computed from the definition. */
static double f16_value(unsigned bits) {
    int e = bits >> 10 & 31, m = bits & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
               : e     ? ldexp(1024 + m, e - 25)
                       : ldexp(m, -24);
    return bits >> 15 ? -v : v;
}

static void every_f16(void **state) {
    for (unsigned b = 0; b < 65536; b++) {
        double want = f16_value(b);
        float got = kl_f16_to_f32((uint16_t)b);
        if (isnan(want)) {
            assert_true(isnan(got) && (kl_f32_bits(got) >> 22 & 1));
            assert_true(isnan(kl_f16_to_f32(kl_f32_to_f16(got))));
        } else {
            assert_true(got == want && !signbit(got) == !signbit(want));
            assert_int_equal(kl_f32_to_f16(got), b);
        }
    }
}

static void every_bf16(void **state) {
    for (unsigned b = 0; b < 65536; b++) {
        float f = kl_bf16_to_f32((uint16_t)b);
        if (isnan(f)) {
            assert_true((b & 0x7fff) > 0x7f80);
            assert_int_equal(kl_f32_bits(f), (b | 0x40) << 16); /* quiet, with its sign and bits */
            assert_true(isnan(kl_bf16_to_f32(kl_f32_to_bf16(f))));
        } else {
            assert_int_equal(kl_f32_bits(f), b << 16);
            assert_int_equal(kl_f32_to_bf16(f), b);
        }
    }
}

/* Numbers at, below and above the middle between two neighbours are rounded to the nearest, ties to
 * even. */
static void rounding(void **state) {
    for (unsigned b = 0; b < 0x7c00; b++) {
        double mid = (f16_value(b) + (b == 0x7bff ? 65536.0 : f16_value(b + 1))) / 2;
        float tie = (float)mid;
        assert_true(tie == mid);
        assert_int_equal(kl_f32_to_f16(tie), b & 1 ? b + 1 : b);
        assert_int_equal(kl_f32_to_f16(nextafterf(tie, 0)), b);
        assert_int_equal(kl_f32_to_f16(nextafterf(tie, 1e9f)), b + 1);
        assert_int_equal(kl_f32_to_f16(-tie), 0x8000 | (b & 1 ? b + 1 : b));
    }
    for (unsigned b = 0; b < 0x7f80; b++) {
        float tie = kl_bits_f32(b << 16 | 0x8000);
        assert_int_equal(kl_f32_to_bf16(tie), b & 1 ? b + 1 : b);
        assert_int_equal(kl_f32_to_bf16(nextafterf(tie, 0)), b);
        assert_int_equal(kl_f32_to_bf16(nextafterf(tie, INFINITY)), b + 1);
    }
    assert_int_equal(kl_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(kl_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(kl_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(kl_f32_to_f16(1e-30f), 0);
}

/* A double that goes through float32, rounded to odd, is rounded as if directly. */
static void once_rounded(void **state) {
    for (unsigned b = 0; b < 0x7bff; b++) {
        double tie = (f16_value(b) + f16_value(b + 1)) / 2;
        assert_int_equal(kl_f32_to_f16(kl_f64_to_f32_odd(tie)), b & 1 ? b + 1 : b);
        assert_int_equal(kl_f32_to_f16(kl_f64_to_f32_odd(nextafter(tie, 0))), b);
        assert_int_equal(kl_f32_to_f16(kl_f64_to_f32_odd(nextafter(tie, 1e9))), b + 1);
        assert_int_equal(kl_f32_to_f16(kl_f64_to_f32_odd(-nextafter(tie, 1e9))), 0x8000 | (b + 1));
    }
    assert_true(isnan(kl_f64_to_f32_odd(NAN)));
    assert_true(kl_f64_to_f32_odd(INFINITY) == INFINITY);
    assert_true(kl_f64_to_f32_odd(1e300) == 3.40282347e38f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts),     cmocka_unit_test(promotion),
                                       cmocka_unit_test(every_f16), cmocka_unit_test(every_bf16),
                                       cmocka_unit_test(rounding),  cmocka_unit_test(once_rounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
