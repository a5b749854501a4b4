/* turns.h - angles as 64-bit fractions of a turn, for ROPE on the CPU and on devices. The fraction
 * of a position is that of position 1 times the position, which wraps around as angles do, so no
 * angle is too large. backend/gpu/kernels/rope.kl divides as kl_turns_of_freq does. */
#pragma once
#include <stdint.h>

/* Stands for an angle that is not a number. An angle that has this value by chance is moved by
 * 2^-64 of a turn. */
#define KL_NO_ANGLE UINT64_C(0x8000000000000001)

/* |scale| / (2 pi): the whole number of these words, the highest first, times 2^exponent. */
struct kl_turns_scale {
    uint32_t word[13];
    int32_t exponent;
    int32_t sign; /* of scale; 0 when scale is no finite number */
};
struct kl_turns_scale kl_turns_scale(float scale);

/* The fraction of scale / freq radians, counted in turns: right to 2^-64, rounded down. */
uint64_t kl_turns_of_freq(const struct kl_turns_scale *by, float freq);
/* The same of rate * scale, to 64 bits before and after the point. */
uint64_t kl_turns_of_rate(double rate, float scale);
