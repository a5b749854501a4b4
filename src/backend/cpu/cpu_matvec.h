/* cpu_matvec.h - products of a few rows with a matrix that is read once, as it lies: of matrix products and attention. */
#pragma once
#include "backend/cpu/cpu_tile.h"

/* out[r][j] = sum over k < depth of a[r][k] b[k][j], for rows x cols elements. a and out are of the type that `dtype` is computed in, with rows a_line and out_line apart; b is of `dtype` (a float) and
 * lies by columns (`dots`: they are `line` apart) or by rows. The bits of an element depend on nothing but the a[r] and b that it is made of. */
void kl_cpu_few_rows(bool dots, enum kl_dtype dtype, int64_t rows, int64_t depth, int64_t cols,
                     const void *a, int64_t a_line, const void *b, int64_t line, void *out,
                     int64_t out_line);
