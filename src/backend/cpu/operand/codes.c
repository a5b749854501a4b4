/* codes.c - see codes.h. */
#include "backend/cpu/operand/codes.h"

#if defined(__BMI2__) && defined(__x86_64__)
#include "backend/cpu/operand/codes_x86.h"
#else
/* Eight codes of `bits` bits in the low bits of x, one to a byte. */
static inline uint64_t kl_codes_spread(int bits, uint64_t x) {
    uint64_t to = 0;
    for (int k = 0; k < 8; k++) to |= (x >> k * bits & ((1u << bits) - 1)) << 8 * k;
    return to;
}
#endif

void kl_codes_unpack(int bits, int64_t n, const uint8_t *from, uint8_t *to) {
    if (bits == 8) {
        memcpy(to, from, (size_t)n);
        return;
    }
    if (bits == 4) {
        KL_EACH(i, n / 2) {
            to[2 * i] = from[i] & 15;
            to[2 * i + 1] = from[i] >> 4;
        }
        return;
    }
    for (int64_t i = 0; i < n; i += 8, from += bits) {
        uint64_t eight = 0;
        if (i + 32 <= n) /* what is read too much is still of the row */
            memcpy(&eight, from, 8);
        else
            for (int k = 0; k < bits; k++) eight |= (uint64_t)from[k] << 8 * k;
        eight = kl_codes_spread(bits, eight);
        memcpy(to + i, &eight, 8);
    }
}

void kl_codes_pack(int bits, int64_t n, const uint8_t *from, uint8_t *to) {
    for (int64_t i = 0; i < n; i += 8, to += bits) {
        uint64_t eight = 0;
        for (int k = 0; k < 8; k++) eight |= (uint64_t)from[i + k] << k * bits;
        memcpy(to, &eight, (size_t)bits);
    }
}

/* e2m1: sign, 2 bits of exponent, 1 of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
static inline float e2m1_value(uint8_t code) {
    const int m = code & 7, twice = m + (m > 4) + (m > 5) + (m > 6 ? 3 : 0);
    return kl_bits_f32(kl_f32_bits(0.5f * (float)twice) | (uint32_t)(code & 8) << 28);
}

void kl_codes_numbers(const struct kl_quant_format *f, int64_t n, const uint8_t *codes, float scale,
                      float bias, float *to) {
    if (kl_quant_has_biases(f->mode)) {
        KL_EACH(i, n) to[i] = (float)codes[i] * scale + bias;
    } else if (kl_quant_numbers_are(f->mode, KL_NUMBERS_E4M3)) {
        KL_EACH(i, n) to[i] = kl_e4m3_value(codes[i]) * scale;
    } else {
        KL_EACH(i, n) to[i] = e2m1_value(codes[i]) * scale;
    }
}

void kl_scales_values(enum kl_quant_mode mode, enum kl_dtype dtype, int64_t n, const void *from,
                      float *to) {
    const uint8_t *codes = from;
    if (kl_quant_has_biases(mode) && dtype == KL_BF16) { /* without a call for each row */
        const uint16_t *x = from;
        KL_EACH(i, n) to[i] = kl_bits_f32((uint32_t)x[i] << 16);
    } else if (kl_quant_has_biases(mode)) {
        kl_convert(KL_F32, to, dtype, from, n);
    } else if (kl_quant_scales_are(mode, KL_SCALES_E4M3)) {
        KL_EACH(i, n) to[i] = kl_e4m3_value(codes[i]);
    } else {
        KL_EACH(i, n) to[i] = kl_e8m0_value(codes[i]);
    }
}
