/* dense_jacobi.c - Jacobi's method for symmetric matrices, and Hestenes's for rows that are to
 * become orthogonal, of float32 and float64: see dense.h and dense_jacobi.inc. */
#include <math.h>

#include "backend/cpu/linalg/dense.h"
#include "backend/cpu/product/products.h"

enum { MOST_SWEEPS = 60 };

#define T float
#define NAME f32
#define MADD KL_MADD_F32
#define ABS fabsf
#define SQRT sqrtf
#define EPSILON 0x1p-24f
#define FAR 0x1p30f
#define NOTHING 0x1p-120f
/* defines kl_dense_eigh_f32, kl_dense_orthogonal_f32, turn_f32, rotate_f32, products_f32 */
#include "backend/cpu/linalg/dense_jacobi.inc"
#define T double
#define NAME f64
#define MADD KL_MADD_F64
#define ABS fabs
#define SQRT sqrt
#define EPSILON 0x1p-53
#define FAR 0x1p60
#define NOTHING 0x1p-800
/* defines kl_dense_eigh_f64, kl_dense_orthogonal_f64, turn_f64, rotate_f64, products_f64 */
#include "backend/cpu/linalg/dense_jacobi.inc"
