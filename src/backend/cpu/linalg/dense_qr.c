/* dense_qr.c - Householder QR of float32 and float64: see dense.h and dense_qr.inc. */
#include <math.h>
#include <string.h>

#include "backend/cpu/linalg/dense.h"
#include "backend/cpu/product/products.h"

enum { PANEL = KL_DENSE_PANEL };

#define T float
#define NAME f32
#define MADD KL_MADD_F32
#define ABS fabsf
#define SQRT sqrtf
#define HYPOT hypotf
#define LITTLE 0x1p-60f
#define MUCH 0x1p100f
/* defines kl_dense_qr_f32, kl_dense_q_f32, kl_dense_qr_room_f32, norm_below_f32, qr_panel_f32,
 * block_of_f32, block_set_f32, block_apply_f32 */
#include "backend/cpu/linalg/dense_qr.inc"
#define T double
#define NAME f64
#define MADD KL_MADD_F64
#define ABS fabs
#define SQRT sqrt
#define HYPOT hypot
#define LITTLE 0x1p-500
#define MUCH 0x1p1000
/* defines kl_dense_qr_f64, kl_dense_q_f64, kl_dense_qr_room_f64, norm_below_f64, qr_panel_f64,
 * block_of_f64, block_set_f64, block_apply_f64 */
#include "backend/cpu/linalg/dense_qr.inc"
