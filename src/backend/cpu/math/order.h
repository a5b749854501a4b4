/* order.h - floats as integers of the same order, so that maxima and minima of them are integer
 * maxima: twice as many 16-bit floats fit a register as when widened, and float32 needs no
 * comparisons for NaN and for the sign of zeros. The bits of a float, as a signed integer, ascend
 * with its value once the lower bits of negative numbers are inverted; -0.0 is then below +0.0.
 * NaNs are at both ends; a wrapping subtraction moves those of the lower end to the upper one. For
 * minima all bits are inverted first. */
#pragma once
#include "backend/cpu/operand/tile.h"

/* The constants of a dtype, in its lower bits. */
struct kl_order {
    uint32_t flip, shift;
};

static inline uint32_t kl_infinity(enum kl_dtype dtype) {
    return dtype == KL_F16 ? 0x7c00 : dtype == KL_BF16 ? 0x7f80 : 0x7f800000;
}

/* dtype: KL_F16, KL_BF16 or KL_F32. Where max is false, the keys are such that their maximum is
 * that of the minimum. */
static inline struct kl_order kl_order(enum kl_dtype dtype, bool max) {
    uint32_t last = dtype == KL_F32 ? INT32_MAX : INT16_MAX;
    return (struct kl_order){max ? 0 : UINT32_MAX, last - kl_infinity(dtype)};
}

static inline int16_t kl_key16(struct kl_order o, uint16_t x) {
    uint16_t lower = (uint16_t)((int16_t)x >> 15 & INT16_MAX);
    return (int16_t)(uint16_t)((x ^ lower ^ (uint16_t)o.flip) - (uint16_t)o.shift);
}
static inline uint16_t kl_of_key16(struct kl_order o, int16_t key) {
    uint16_t t = (uint16_t)(((uint16_t)key + o.shift) ^ o.flip);
    return (uint16_t)(t ^ ((int16_t)t >> 15 & INT16_MAX));
}
static inline int32_t kl_key32(struct kl_order o, uint32_t x) {
    return (int32_t)((x ^ ((uint32_t)((int32_t)x >> 31) & INT32_MAX) ^ o.flip) - o.shift);
}
static inline uint32_t kl_of_key32(struct kl_order o, int32_t key) {
    uint32_t t = ((uint32_t)key + o.shift) ^ o.flip;
    return t ^ ((uint32_t)((int32_t)t >> 31) & INT32_MAX);
}

/* The same for argmax and argmin: zeros are equal, and so are NaNs, which have the highest rank. */
struct kl_ranking {
    uint32_t sign, inf;
};

static inline struct kl_ranking kl_ranking(enum kl_dtype dtype, bool max) {
    return (struct kl_ranking){max               ? 0
                               : dtype == KL_F32 ? UINT32_C(1) << 31
                                                 : UINT32_C(1) << 15,
                               kl_infinity(dtype)};
}

static inline int16_t kl_rank16(struct kl_ranking r, uint16_t x) {
    int16_t negative = (int16_t)((int16_t)(uint16_t)(x ^ (uint16_t)r.sign) >> 15);
    int16_t magnitude = (int16_t)(x & INT16_MAX);
    int16_t number = (int16_t)((magnitude ^ negative) - negative);
    return magnitude > (int16_t)r.inf ? INT16_MAX : number;
}
static inline int32_t kl_rank32(struct kl_ranking r, uint32_t x) {
    int32_t negative = (int32_t)(x ^ r.sign) >> 31;
    int32_t magnitude = (int32_t)(x & INT32_MAX);
    int32_t number = (magnitude ^ negative) - negative;
    return magnitude > (int32_t)r.inf ? INT32_MAX : number;
}
