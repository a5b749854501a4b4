/* dots_neon_bf16.h - products of few rows of bfloat16 with a matrix that is read once, in place, by
 * the instruction BFDOT, which adds two products to each of four sums. An element has eight partial
 * sums, of the pairs of k with k / 2 % 8 == 0 to 7, in the order of k, so its bits do not depend on
 * how the matrix lies. Denormal numbers count as 0, as with BFMMLA. Compiled once, apart from the
 * variants. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { KL_BFDOT_PHASES = 8, KL_BFDOT_DEPTH = 2 * KL_BFDOT_PHASES };

/* Whether this CPU has the instruction. */
bool kl_bfdot_there(void);
/* out[r][j] = sum over k < depth of a[r][k] b[k][j], for rows x cols elements; rows of a and of out
 * are a_line and out_line apart, and contiguous. Columns of b (`dots`) or its rows are contiguous,
 * and `line` is the distance between them. */
void kl_bfdot_rows(bool dots, int64_t rows, int64_t depth, int64_t cols, const uint16_t *a,
                   int64_t a_line, const uint16_t *b, int64_t line, float *out, int64_t out_line);
/* The partial sums of one phase of one row, for a matrix with contiguous rows: a and b begin with
 * the first k of the phase, `depth` is the distance from there to the end, and cols is a multiple
 * of 8. kl_bfdot_join adds the sums of all phases, which follow each other in memory, and leaves
 * the result in the first. */
void kl_bfdot_phase(int64_t depth, int64_t cols, const uint16_t *a, const uint16_t *b, int64_t line,
                    float *to);
void kl_bfdot_join(float *sums, int64_t cols);
