/* matvec_neon.h - widens 16-bit floats for matvec.c, which includes it. A whole vector of them, two
 * vectors of float32, takes one load. */
#include <arm_neon.h>

/* The first product makes a NaN quiet. */
static inline __attribute__((always_inline)) kl_vec_f32 load_bf16(const uint16_t *p) {
    return (kl_vec_f32)vshll_n_u16(vld1_u16(p), 16);
}
static inline __attribute__((always_inline)) kl_vec_f32 load_f16(const uint16_t *p) {
    return (kl_vec_f32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline __attribute__((always_inline)) void load_two_bf16(const uint16_t *p, kl_vec_f32 *y) {
    const uint16x8_t v = vld1q_u16(p);
    y[0] = (kl_vec_f32)vshll_n_u16(vget_low_u16(v), 16);
    y[1] = (kl_vec_f32)vshll_high_n_u16(v, 16);
}
static inline __attribute__((always_inline)) void load_two_f16(const uint16_t *p, kl_vec_f32 *y) {
    const float16x8_t v = vreinterpretq_f16_u16(vld1q_u16(p));
    y[0] = (kl_vec_f32)vcvt_f32_f16(vget_low_f16(v));
    y[1] = (kl_vec_f32)vcvt_high_f32_f16(v);
}
