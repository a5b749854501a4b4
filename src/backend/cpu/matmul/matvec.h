/* matvec.h - products of a few rows with a matrix that is read once, as it lies: of matrix products and attention. */
#pragma once
#include "backend/cpu/operand/tile.h"

/* out[r][j] = sum over k < depth of a[r][k] b[k][j], for rows x cols elements. a and out are of the type that `dtype` is computed in, with rows a_line and out_line apart; b is of `dtype` (a float) and
 * lies by columns (`dots`: they are `line` apart) or by rows. The bits of an element depend on nothing but the a[r] and b that it is made of. */
void kl_cpu_few_rows(bool dots, enum kl_dtype dtype, int64_t rows, int64_t depth, int64_t cols,
                     const void *a, int64_t a_line, const void *b, int64_t line, void *out,
                     int64_t out_line);

enum { KL_MATVEC_PHASES = 16, KL_MATVEC_COLS = 16 };
/* The same of one row and a matrix by rows, in parts that can be computed apart: `to` is the partial sums of one phase, of the k that leave the same rest modulo KL_MATVEC_PHASES; a and b begin with the first
 * of them, of `depth` k to the last. cols is a multiple of KL_MATVEC_COLS. kl_cpu_join_phases brings those of all phases, one behind the other, together, in the first. */
void kl_cpu_phase(enum kl_dtype dtype, int64_t depth, int64_t cols, const void *a, const void *b,
                  int64_t line, void *to);
void kl_cpu_join_phases(enum kl_dtype dtype, void *sums, int64_t cols);
