/* cpu_half_order.h - 16-bit floats as integers of the same order, so that extremes of them are integer maxima, twice as many to a register as float32. For the kernels of this folder only.
 *
 * A pattern with its sign, as an integer, ascends with the number it means once the lower bits of negative ones are inverted; -0.0 is then below +0.0. NaNs are at both ends; what is subtracted, wrapping,
 * brings those of the far end round to the others. For minima all bits are inverted before. */
#pragma once
#include "backend/cpu/cpu_tile.h"

struct kl_half_order {
    uint16_t flip, shift;
};

/* dtype: KL_F16 or KL_BF16; max: else the keys of maxima are those of minima. */
static inline struct kl_half_order kl_half_order(enum kl_dtype dtype, bool max) {
    int inf = dtype == KL_F16 ? 0x7c00 : 0x7f80;
    return (struct kl_half_order){max ? 0 : 0xffff, (uint16_t)(0x7fff - inf)};
}

static inline int16_t kl_half_key(struct kl_half_order o, uint16_t x) {
    uint16_t lower = (uint16_t)((int16_t)x >> 15 & 0x7fff);
    return (int16_t)(uint16_t)((x ^ lower ^ o.flip) - o.shift);
}

static inline uint16_t kl_half_of_key(struct kl_half_order o, int16_t key) {
    uint16_t t = (uint16_t)(((uint16_t)key + o.shift) ^ o.flip);
    return (uint16_t)(t ^ ((int16_t)t >> 15 & 0x7fff));
}

/* The same for who wants the place of an extreme: zeros are equal, and so are NaNs, which have the highest rank. */
struct kl_half_rank {
    uint16_t sign;
    int16_t inf;
};

static inline struct kl_half_rank kl_half_rank(enum kl_dtype dtype, bool max) {
    return (struct kl_half_rank){max ? 0 : 0x8000, dtype == KL_F16 ? 0x7c00 : 0x7f80};
}

static inline int16_t kl_half_rank_of(struct kl_half_rank r, uint16_t x) {
    int16_t negative = (int16_t)((int16_t)(uint16_t)(x ^ r.sign) >> 15);
    int16_t magnitude = (int16_t)(x & 0x7fff);
    int16_t number = (int16_t)((magnitude ^ negative) - negative);
    return magnitude > r.inf ? INT16_MAX : number;
}
