/* test_elementwise_bits.c - operations on bits against NumPy; 8-bit floats against their
 * definition; bad arguments. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_bitwise.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(bitwise_cases);
}

/* A negative count counts as one that is at least the width of the type. */
static void counts(void **state) {
    struct kl_array *a = I32(SHAPE(4), -8, 8, -8, 1), *n = I32(SHAPE(4), -1, -1, 32, 31), *out;
    EXPECT_OK(kl_left_shift(&out, a, n, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), 0, 0, 0, -2147483647 - 1);
    EXPECT_OK(kl_right_shift(&out, a, n, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), -1, 0, -1, 0);
    struct kl_array *small = array_of(KL_U8, SHAPE(1), (uint8_t[]){1}), *row = I32(SHAPE(2), 9, 1);
    EXPECT_OK(kl_left_shift(&out, small, row, cpu(), &err)); /* computed in the promoted type */
    EXPECT_I32(out, SHAPE(2), 512, 2);
    struct kl_array *all[] = {a, n, small, row};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* Converts every code of an 8-bit float to each float type and back, and compares the value. */
static void eight_bits(void **state) {
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    struct kl_array *a = array_of(KL_U8, SHAPE(16, 16), codes);
    static const enum kl_dtype floats[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (int k = 0; k < 4; k++) {
        struct kl_array *x, *single, *back;
        EXPECT_OK(kl_from_fp8(&x, a, (int)floats[k], cpu(), &err));
        assert_int_equal(x->t.dtype, floats[k]);
        EXPECT_OK(kl_to_fp8(&back, x, cpu(), &err));
        EXPECT_OK(kl_astype(&single, x, KL_F32, cpu(), &err));
        float *v = values_of(single);
        uint8_t *again = values_of(back);
        for (int i = 0; i < 256; i++) {
            int e = i >> 3 & 15, f = i & 7;
            double want = e ? ldexp(8 + f, e - 10) : ldexp(f, -9);
            if ((i & 127) == 127) {
                assert_true(isnan(v[i]));
                assert_int_equal(again[i] & 127, 127);
                continue;
            }
            assert_true(v[i] == (i & 128 ? -want : want) && !signbit(v[i]) == !(i & 128));
            assert_int_equal(again[i], i);
        }
        free(v);
        free(again);
        kl_array_release(x);
        kl_array_release(single);
        kl_array_release(back);
    }
    kl_array_release(a);
}

static void bad(void **state) {
    struct kl_array *a = scalar_of(KL_I32, 1), *f = scalar_of(KL_F32, 1), *c = scalar_of(KL_C64, 1),
                    *u = scalar_of(KL_U64, 1), *i64 = scalar_of(KL_I64, 1),
                    *byte = scalar_of(KL_U8, 1), *two = count_up(SHAPE(2)),
                    *three = count_up(SHAPE(3)), *out;
    kl_binary_fn *const all[] = {kl_bitwise_and, kl_bitwise_or, kl_bitwise_xor, kl_left_shift,
                                 kl_right_shift};
    for (size_t i = 0; i < 5; i++) {
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, a, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, a, NULL, &err));
        EXPECT_FAIL(KL_ESHAPE, all[i](&out, two, three, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, all[i](&out, a, f, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, all[i](&out, c, a, cpu(), &err));
        /* The promoted type is float32, which has no bit operations. */
        EXPECT_FAIL(KL_EDTYPE, all[i](&out, u, i64, cpu(), &err));
    }
    EXPECT_FAIL(KL_EARG, kl_bitwise_invert(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_bitwise_invert(&out, a, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_bitwise_invert(&out, f, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_to_fp8(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_to_fp8(&out, f, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_to_fp8(&out, a, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_to_fp8(&out, c, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_from_fp8(&out, NULL, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_from_fp8(&out, byte, KL_F32, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_from_fp8(&out, a, KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_from_fp8(&out, byte, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_from_fp8(&out, byte, KL_C64, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_from_fp8(&out, byte, 99, cpu(), &err));
    struct kl_array *every[] = {a, f, c, u, i64, byte, two, three};
    for (int i = 0; i < 8; i++) kl_array_release(every[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(counts),
                                       cmocka_unit_test(eight_bits), cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
