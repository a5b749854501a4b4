/* tiles_neon_bf16.h - products of bfloat16 by the instruction BFMMLA, which adds the product of
 * 2 x 4 by 4 x 2 numbers to four sums. Compiled once, apart from the variants. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    KL_BFMMLA_LINES = 8, /* rows, and columns, of a tile of the result */
    KL_BFMMLA_DEPTH = 4, /* elements along k of one step */
};

/* Whether this CPU has the instruction. */
bool kl_bfmmla_there(void);
/* c = a b, or with `add` c += a b, for a tile: n steps along k. A step of an operand is four pairs
 * of lines, each four elements of the first and then of the second. c has `pitch` elements from row
 * to row. */
void kl_bfmmla_tile(int64_t n, const uint16_t *a, const uint16_t *b, float *c, int64_t pitch,
                    bool add);
