/* interleaved.c - several small matrices at once, of float32 and float64: see interleaved.h. */
#include "backend/cpu/linalg/interleaved.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/product/products.h"

#define T float
#define INDEX int32_t
#define SIGN INT32_MIN
#define NAME f32
#define SQRT sqrtf
/* defines kl_interleaved_f32, kl_interleave_f32, kl_separate_f32, kl_interleaved_solve_f32,
 * kl_interleaved_triangular_f32, kl_interleaved_cholesky_f32, select_f32, bits_f32, at_lanes_f32,
 * find_pivots_f32, eliminate_f32, upper_f32, lower_f32 */
#include "backend/cpu/linalg/interleaved.inc"
#define T double
#define INDEX int64_t
#define SIGN INT64_MIN
#define NAME f64
#define SQRT sqrt
/* defines kl_interleaved_f64, kl_interleave_f64, kl_separate_f64, kl_interleaved_solve_f64,
 * kl_interleaved_triangular_f64, kl_interleaved_cholesky_f64, select_f64, bits_f64, at_lanes_f64,
 * find_pivots_f64, eliminate_f64, upper_f64, lower_f64 */
#include "backend/cpu/linalg/interleaved.inc"
