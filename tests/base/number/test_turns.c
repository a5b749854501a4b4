/* test_turns.c - fractions of a turn against numbers of 1200 bits, for scales and frequencies over
 * the whole range of float32; what is no angle. */
#include "support.h"

#include <math.h>

#include "base/number/turns.h"

static const struct {
    float scale, freq;
    uint64_t turns;
} rows[] = {
    {1, 1, 0x28be60db9391054a},
    {-2.5F, 1, 0x9a240ddb0f1572c6},
    {1e-30F, 1, 0x0000000000000000},
    {1.40129846e-45F, 1, 0x0000000000000000},
    {1, 10000, 0x00010b04870e0488},
    {3.00000001e+38F, 10000, 0xbda73c092d0dd1d4},
    {1, -0.5F, 0xae833e48d8ddf56c},
    {0.300000012F, -0.5F, 0xe78dc5d25b4f0b66},
    {3.00000001e+38F, 0.5F, 0xa9324cdfd7a8dc52},
    {1, -9.99999972e-10F, 0x682a4b14d36d64ca},
    {3.00000001e+38F, -9.99999972e-10F, 0x5f6fd4cfd609adde},
    {1.40129846e-45F, -9.99999972e-10F, 0x0000000000000000},
    {1, 2.99999997e-10F, 0x2915c3b94787f5dc},
    {-2.5F, 2.99999997e-10F, 0x994996b0cd2c195a},
    {1e-30F, 2.99999997e-10F, 0x0000000000000000},
    {3.00000001e+38F, 2.99999997e-10F, 0x9385ff915581ffa6},
    {1.40129846e-45F, 2.99999997e-10F, 0x0000000000000000},
    {1, 9.99999968e-21F, 0x4f4d638fa183f1f1},
    {1, 1e-30F, 0x7449cece91528d4d},
    {1, -9.99999935e-39F, 0x5fc1d3fb5cce014b},
    {0.300000012F, 9.99999935e-39F, 0xd7c7d3ee3d649a23},
    {1.40129846e-45F, -9.99999935e-39F, 0xffffffa0364bf7e6},
    {1, 1.40129846e-45F, 0xacc9e21c820ff28b},
    {-2.5F, -1.40129846e-45F, 0xaff8b5474527de5b},
    {1e-30F, 1.40129846e-45F, 0xa04b8e53a646423b},
    {3.00000001e+38F, -1.40129846e-45F, 0x831ed34b52431101},
    {1.40129846e-45F, -1.40129846e-45F, 0xd7419f246c6efab6},
    {1, 3.39999995e+38F, 0x0000000000000000},
    {0.300000012F, 3.39999995e+38F, 0x0000000000000000},
    {3.00000001e+38F, 3.39999995e+38F, 0x23f34670fc553e13},
    {1.40129846e-45F, 3.39999995e+38F, 0x0000000000000000},
    {1, 1.00000002e+30F, 0x0000000000000000},
    {0.300000012F, -1.00000002e+30F, 0x0000000000000000},
    {3.00000001e+38F, 1.00000002e+30F, 0x4bee4620adf3ce1c},
    {1, 7, 0x05d20dd639a700c1},
    {1.40129846e-45F, -7, 0x0000000000000000},
    {1, 123.456001F, 0x00547c921c6637c3},
    {3.00000001e+38F, 123.456001F, 0x6c2b4dcc96c0433e},
    {1, 0.00100000005F, 0x27a9dae4d3223ca7},
    {0.300000012F, 0.00100000005F, 0xbf197b19614fa65c},
    {1.40129846e-45F, -0.00100000005F, 0x0000000000000000},
};

static void frequencies(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kl_turns_scale by = kl_turns_scale(rows[i].scale);
        const uint64_t got = kl_turns_of_freq(&by, rows[i].freq);
        if (got != rows[i].turns)
            fail_msg("%a / %a: %016llx, not %016llx", (double)rows[i].scale, (double)rows[i].freq,
                     (unsigned long long)got, (unsigned long long)rows[i].turns);
    }
}

/* A rate is a double, whose product with scale has 64 bits. */
static void rates(void **state) {
    (void)state;
    for (int k = 0; k < 64; k++) {
        const double freq = ldexp(1 + k / 64.0, k % 32), rate = 1 / freq;
        const struct kl_turns_scale by = kl_turns_scale(3);
        const int64_t apart =
            (int64_t)(kl_turns_of_rate(rate, 3) - kl_turns_of_freq(&by, (float)freq));
        assert_true(llabs(apart) < 1 << 12);
    }
}

static void no_angles(void **state) {
    (void)state;
    const struct kl_turns_scale one = kl_turns_scale(1), zero = kl_turns_scale(0),
                                endless = kl_turns_scale(INFINITY), none = kl_turns_scale(NAN);
    assert_true(kl_turns_of_freq(&one, 0) == KL_NO_ANGLE);
    assert_true(kl_turns_of_freq(&one, -0.0F) == KL_NO_ANGLE);
    assert_true(kl_turns_of_freq(&one, NAN) == KL_NO_ANGLE);
    assert_true(kl_turns_of_freq(&one, INFINITY) == 0);
    assert_true(kl_turns_of_freq(&one, -INFINITY) == 0);
    assert_true(kl_turns_of_freq(&zero, 1e-30F) == 0);
    assert_true(kl_turns_of_freq(&zero, 0) == KL_NO_ANGLE);
    assert_true(kl_turns_of_freq(&endless, INFINITY) == KL_NO_ANGLE);
    assert_true(kl_turns_of_freq(&none, 1) == KL_NO_ANGLE);
    assert_true(kl_turns_of_rate(INFINITY, 1) == KL_NO_ANGLE);
    assert_true(kl_turns_of_rate(1, NAN) == KL_NO_ANGLE);
    assert_true(kl_turns_of_rate(0, 1) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frequencies), cmocka_unit_test(rates),
                                       cmocka_unit_test(no_angles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
