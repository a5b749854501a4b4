/* madd_neon.h - the multiply-add of NEON's vectors for products.h, which includes it. */
#include <arm_neon.h>

#define KL_MADD_VEC_F32(a, b, c) \
    (kl_vec_f32) vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#define KL_MADD_VEC_F64(a, b, c) \
    (kl_vec_f64) vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b))
