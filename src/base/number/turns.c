/* turns.c - angles as fractions of a turn. See turns.h. */
#include "base/number/turns.h"

#include <float.h>
#include <math.h>

enum { WORDS = 12, BITS = 32 * WORDS, MANTISSA = FLT_MANT_DIG };

/* 2^BITS / (2 pi), the highest word first. A float32 is below 2^128, and its inverse below 2^149:
 * their product with 1 / (2 pi) has up to 275 bits in front of the point, and 64 more are kept. */
static const uint32_t turn[WORDS] = {0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770,
                                     0x36d8a566, 0x4f10e410, 0x7f9458ea, 0xf7aef158,
                                     0x6dc91b8e, 0x909374b8, 0x01924bba, 0x82746487};

/* |x| as a whole number below 2^24 times 2^*exponent. */
static uint32_t whole_of(float x, int *exponent) {
    const float part = frexpf(fabsf(x), exponent);
    *exponent -= MANTISSA;
    return (uint32_t)ldexpf(part, MANTISSA);
}

struct kl_turns_scale kl_turns_scale(float scale) {
    struct kl_turns_scale r = {.sign = !isfinite(scale) ? 0 : scale < 0 ? -1 : 1};
    if (!r.sign) return r;
    int exponent;
    const uint64_t whole = whole_of(scale, &exponent);
    uint64_t carry = 0;
    for (int i = WORDS; i-- > 0;) {
        carry += whole * turn[i];
        r.word[i + 1] = (uint32_t)carry;
        carry >>= 32;
    }
    r.word[0] = (uint32_t)carry;
    r.exponent = exponent - BITS;
    return r;
}

static uint64_t angle_of(uint64_t fraction) {
    return fraction == KL_NO_ANGLE ? fraction + 1 : fraction;
}

uint64_t kl_turns_of_freq(const struct kl_turns_scale *by, float freq) {
    if (by->sign == 0 || freq == 0 || isnan(freq)) return KL_NO_ANGLE;
    if (isinf(freq)) return 0;
    int exponent;
    const uint64_t divisor = whole_of(freq, &exponent);
    /* The quotient times 2^64 is the number of the words, moved down by `down` bits and divided;
     * what falls out there is too little to show. */
    const int down = exponent - by->exponent - 64, words = down / 32, bits = down % 32;
    uint64_t rest = 0, fraction = 0, both = 0;
    for (int i = 0; i + words <= WORDS; i++) {
        both = both << 32 | by->word[i];
        rest = rest << 32 | (uint32_t)(both >> bits);
        fraction = fraction << 32 | rest / divisor;
        rest %= divisor;
    }
    return angle_of((freq < 0) != (by->sign < 0) ? ~fraction + 1 : fraction);
}

uint64_t kl_turns_of_rate(double rate, float scale) {
    const long double x =
        (long double)rate * (long double)scale / 6.283185307179586476925286766559L;
    if (!isfinite(x)) return KL_NO_ANGLE;
    const long double rest = ldexpl(x - floorl(x), 64); /* in [0, 2^64], since it may be rounded */
    return angle_of(rest < 0x1p64L ? (uint64_t)rest : 0);
}
