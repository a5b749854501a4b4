/* Element-wise operations of one operand, against NumPy; bad arguments. */
#include "golden.h"

#include "golden_unary.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(unary_cases);
}

static void shapes(void **state) {
    struct kl_array *a = scalar_of(KL_F32, 2), *empty = array_of(KL_F32, SHAPE(3, 0), NULL), *out;
    EXPECT_OK(kl_negative(&out, a, cpu(), &err));
    EXPECT_F32(out, SCALAR, -2);
    EXPECT_OK(kl_exp(&out, empty, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 0), 0);
    kl_array_release(a);
    kl_array_release(empty);
}

/* Long enough to be shared among threads and to need several tiles, with a ragged end. */
static void large(void **state) {
    int n = (1 << 18) + 700;
    struct kl_array *a = count_up(1, &n), *b, *out;
    EXPECT_OK(kl_astype(&b, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_negative(&out, a, cpu(), &err));
    int32_t *v = values_of(out);
    for (int i = 0; i < n; i++) assert_int_equal(v[i], -i);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_negative(&out, b, cpu(), &err));
    uint16_t *h = values_of(out);
    for (int i = 0; i < n; i += 7) assert_int_equal(h[i], kl_f32_to_f16(-(float)i));
    free(h);
    kl_array_release(out);
    kl_array_release(b);
    kl_array_release(a);
}

static void bad(void **state) {
    struct kl_array *a = scalar_of(KL_F32, 1), *b = scalar_of(KL_BOOL, 1),
                    *c = scalar_of(KL_C64, 1), *out;
    kl_unary_fn *const all[] = {kl_negative, kl_abs,    kl_exp,    kl_log,
                                kl_sqrt,     kl_square, kl_erfinv, kl_logical_not};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, NULL, &err));
        assert_int_equal(all[i](NULL, NULL, cpu(), NULL), KL_EARG);
    }
    EXPECT_FAIL(KL_EDTYPE, kl_negative(&out, b, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_erfinv(&out, c, cpu(), &err));
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(shapes),
                                       cmocka_unit_test(large), cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
