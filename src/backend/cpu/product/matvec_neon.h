/* matvec_neon.h - widens 16-bit floats for matvec.c, which includes it. */
#include <arm_neon.h>

/* The first product makes a NaN quiet. */
static inline __attribute__((always_inline)) kl_vec_f32 load_bf16(const uint16_t *p) {
    return (kl_vec_f32)vshll_n_u16(vld1_u16(p), 16);
}
static inline __attribute__((always_inline)) kl_vec_f32 load_f16(const uint16_t *p) {
    return (kl_vec_f32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
