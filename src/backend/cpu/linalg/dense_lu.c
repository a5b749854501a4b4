/* dense_lu.c - products, triangular systems, LU with partial pivoting and Cholesky factors of
 * float32 and float64: see dense.h. */
#include <math.h>
#include <string.h>

#include "backend/cpu/linalg/dense.h"
#include "backend/cpu/product/products.h"

/* The work that threads share by columns: to solve a system of a for b, also with c -= left b after
 * it or b -= left c before it; or b -= left c alone, of which the part below the diagonal need not
 * be right. */
enum shared { LOWER, UPPER, LOWER_THEN_ADD, ADD_THEN_LOWER, ADD_UPPER };

#define T float
#define NAME f32
#define MADD KL_MADD_F32
#define ABS fabsf
#define SQRT sqrtf
#define TILE_AT kl_tile_at_f32
#define PANEL_OF kl_panel_f32
/* defines kl_dense_add_f32, kl_dense_lower_f32, kl_dense_upper_f32, kl_dense_lower_inverse_f32,
 * kl_dense_lu_f32, kl_dense_cholesky_f32, pack_left_f32, pack_right_f32, multiply_f32,
 * solve_columns_f32, solve_small_f32, lower_few_f32, upper_few_f32, lower_f32, upper_f32,
 * columns_run_f32, columns_part_f32, columns_f32, largest_f32, lu_rows_f32, lu_leaf_f32,
 * lu_columns_f32, cholesky_leaf_f32 */
#include "backend/cpu/linalg/dense_lu.inc"
#define T double
#define NAME f64
#define MADD KL_MADD_F64
#define ABS fabs
#define SQRT sqrt
#define TILE_AT kl_tile_at_f64
#define PANEL_OF kl_panel_f64
/* defines kl_dense_add_f64, kl_dense_lower_f64, kl_dense_upper_f64, kl_dense_lower_inverse_f64,
 * kl_dense_lu_f64, kl_dense_cholesky_f64, pack_left_f64, pack_right_f64, multiply_f64,
 * solve_columns_f64, solve_small_f64, lower_few_f64, upper_few_f64, lower_f64, upper_f64,
 * columns_run_f64, columns_part_f64, columns_f64, largest_f64, lu_rows_f64, lu_leaf_f64,
 * lu_columns_f64, cholesky_leaf_f64 */
#include "backend/cpu/linalg/dense_lu.inc"
