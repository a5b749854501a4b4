/* quantized_neon_i8mm.h - two or four rows of x by rows of affine codes of 4 and 8 bits, by the
 * instruction SMMLA, which adds the products of 2 x 8 by 8 x 2 bytes to four sums. Rows are split
 * as for SDOT (quantized_neon_dot.h), and results have the bits of kl_sdot_rows. Compiled once,
 * apart from the variants. */
#pragma once
#include "backend/cpu/quantized/quantized_neon_dot.h"

enum { KL_SMMLA_PAIRS = 2 };

/* Whether this CPU has the instruction. */
bool kl_smmla_there(void);
/* out[i * pitch + j] = the product of row i of x with row j of w, for `pairs` (at most
 * KL_SMMLA_PAIRS) pairs of rows of x, each side by side, and n rows of w, a multiple of four. */
void kl_smmla_rows(const struct kl_sdot_row *r, int pairs, const uint8_t *w, const char *scales,
                   const char *biases, int64_t n, float *out, int64_t pitch);
