/* matvec.h - products of a few rows with a matrix that is read once, in place. For products and
 * attention. */
#pragma once
#include "backend/cpu/operand/tile.h"

/* out[r][j] = sum over k < depth of a[r][k] b[k][j], for rows x cols elements. a and out have the
 * compute type of `dtype`, with rows that are a_line and out_line apart. b has `dtype` (a float).
 * Its columns (`dots`) or its rows are contiguous, and `line` is the distance between them. The
 * bits of an element depend only on its row of a and its column of b. */
void kl_cpu_few_rows(bool dots, enum kl_dtype dtype, int64_t rows, int64_t depth, int64_t cols,
                     const void *a, int64_t a_line, const void *b, int64_t line, void *out,
                     int64_t out_line);

enum { KL_MATVEC_PHASES = 16, KL_MATVEC_COLS = 16 };
/* The same for one row and a row-major matrix, in phases that can be computed separately. Phase p
 * has the k with k % KL_MATVEC_PHASES == p. a and b begin with the first k of the phase, `depth` is
 * the distance from there to the end, and the partial sums go to `to`. cols is a multiple of
 * KL_MATVEC_COLS. kl_cpu_join_phases adds the sums of all phases, which follow each other in
 * memory, and leaves the result in the first. */
void kl_cpu_phase(enum kl_dtype dtype, int64_t depth, int64_t cols, const void *a, const void *b,
                  int64_t line, void *to);
void kl_cpu_join_phases(enum kl_dtype dtype, void *sums, int64_t cols);
