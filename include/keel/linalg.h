/* linalg.h - determinants, which mlx/c/linalg.h does not have. Its rules for dtypes, shapes,
 * ownership and errors hold here too; float16 and bfloat16 are taken too, computed with in
 * float32, and the result rounded to their type.
 *
 * They are made by LU. The gradient of det is the matrix of cofactors, also where a is singular:
 * exact zeros where its rank is n - 2 or less, where second derivatives come out as 0 too. That of
 * slogdet fails with KEEL_EMATRIX if a is singular. */
#ifndef KEEL_LINALG_H
#define KEEL_LINALG_H

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The determinant of square matrices (..., n, n), of shape (...). 0 for a singular matrix. */
KEEL_API int keel_linalg_det(mlx_array *res, const mlx_array a, const mlx_stream s);
/* The sign of the determinant and the logarithm of its size, in which no product can overflow; 0
 * and -infinity for a singular matrix. */
KEEL_API int keel_linalg_slogdet(mlx_array *res_0, mlx_array *res_1, const mlx_array a,
                                 const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
