/* test_exp.c - exp of numbers that are not positive: within 1 ulp of the result in double, over a
 * sample of all float32 (over all of them with KEEL_TEST_ALL set), and at the ends of the range. */
#include "support.h"

#include <math.h>

#include "backend/cpu/math/exp.h"
#include "ulp.h"

static void within_an_ulp(void **state) {
    uint32_t step = getenv("KEEL_TEST_ALL") ? 1 : 997;
    double worst = 0;
    for (uint32_t bits = 0x80000000u; bits <= 0xff800000u && bits >= 0x80000000u; bits += step) {
        float x = kl_bits_f32(bits);
        double want = exp((double)x), got = kl_exp_negative_f32(x);
        double off = fabs(got - want) / kl_test_ulp_f32((double)(float)want);
        if (off > worst) worst = off;
        if (!(off < 1)) fail_msg("exp(%a): %a, not %a", (double)x, got, want);
    }
    assert_true(worst > 0.4); /* a smaller value would mean that nothing was compared */
}

static void ends(void **state) {
    assert_true(kl_exp_negative_f32(0.0f) == 1 && kl_exp_negative_f32(-0.0f) == 1);
    assert_true(kl_exp_negative_f32(-INFINITY) == 0 && kl_exp_negative_f32(-3e38f) == 0);
    assert_true(isnan(kl_exp_negative_f32(NAN)));
    assert_true(kl_exp_negative_f32(-103.9f) == 0x1p-149f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(within_an_ulp), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
