/* quantized_neon_dot.h - one row of x by rows of affine codes of 4 and 8 bits, by the instruction
 * SDOT, which adds four products of bytes to each of four sums. x is a sum of three digits of base
 * 256 times a unit for each group, so products and their sums are exact integers until they are
 * scaled. Compiled once, apart from the variants. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/number/dtype.h"

/* Digits of a number; of a piece, and of a vector of them. */
enum { KL_SDOT_DIGITS = 3, KL_SDOT_PIECE = 8, KL_SDOT_VECTOR = 16 };

/* A row of x, or two side by side (quantized_neon_i8mm.h): then a vector has KL_SDOT_PIECE digits
 * of the first row and as many of the second, so do units lie, and sums of the second row come
 * after all of the first. Vectors of each digit in turn lie one after the other, the highest digit
 * first. Distances from row to row of w are in bytes. */
struct kl_sdot_row {
    const int8_t *digits;
    const float *units, *sums; /* of each group: its unit, and the sum of x */
    int64_t groups;
    int group_size, bits;
    enum kl_dtype scale_type;
    int64_t w_row, s_row, b_row;
};

/* Whether this CPU has the instruction. */
bool kl_sdot_there(void);
/* Splits n numbers, whole groups, of which the first is element `first` of its row, one of `lines`
 * rows (1 or 2) side by side: digits of the second begin KL_SDOT_PIECE bytes later, and its units
 * one float. With 4 bits the even ones of 32 come first, as codes do in the lower halves of bytes.
 * Units are 2^-22 of a power of two above the group's largest number. Returns false where that
 * cannot be: for infinities, NaN and groups whose largest number is below 2^-90 but not 0. */
bool kl_sdot_split(int bits, int group_size, int64_t first, int64_t n, int lines, const float *x,
                   int8_t *digits, float *units);
/* out[i] = the product with row i of w, for n rows, a multiple of four. */
void kl_sdot_rows(const struct kl_sdot_row *r, const uint8_t *w, const char *scales,
                  const char *biases, int64_t n, float *out);
