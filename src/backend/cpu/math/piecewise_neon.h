/* piecewise_neon.h - kl_piecewise_runs of piecewise.h in registers of NEON: a row of a table is in
 * four of them, which one instruction looks up by bytes. For piecewise.h, which includes it. */
#include <arm_neon.h>

enum { KL_PIECEWISE_VECTORS = KL_MATH_RUN / KL_SIMD };

/* x[k] = t[row][i] for each vector of a run, whose columns i are given as places of bytes. */
static inline __attribute__((always_inline)) void
kl_piecewise_look_up(float32x4_t *x, const float *row, const uint8x16_t *places) {
    const uint8x16x4_t bytes = vld1q_u8_x4((const uint8_t *)row);
#pragma GCC unroll 4
    for (int k = 0; k < KL_PIECEWISE_VECTORS; k++)
        x[k] = vreinterpretq_f32_u8(vqtbl4q_u8(bytes, places[k]));
}

static inline void kl_piecewise_runs(kl_piecewise t, float most, int64_t n, float *y,
                                     const float *x) {
    const float32x4_t limit = vdupq_n_f32(most);
    const uint32x4_t sign = vdupq_n_u32(0x80000000);
    for (; n > 0; n--, x += KL_MATH_RUN, y += KL_MATH_RUN) {
        float32x4_t a[KL_PIECEWISE_VECTORS], d[KL_PIECEWISE_VECTORS], q[KL_PIECEWISE_VECTORS],
            c[KL_PIECEWISE_VECTORS];
        uint8x16_t places[KL_PIECEWISE_VECTORS];
        uint32x4_t first[KL_PIECEWISE_VECTORS]; /* all bits, in lanes of column 0 */
        kl_math_ahead(x, y);
#pragma GCC unroll 4
        for (int k = 0; k < KL_PIECEWISE_VECTORS; k++) {
            a[k] = vminq_f32(limit, vabsq_f32(vld1q_f32(x + 4 * k))); /* a NaN is kept */
            uint32x4_t i = vshrq_n_u32(vreinterpretq_u32_f32(a[k]), KL_PIECEWISE_SHIFT);
            i = vqsubq_u32(i, vdupq_n_u32(KL_PIECEWISE_FIRST));
            first[k] = vceqzq_u32(i);
            places[k] = vreinterpretq_u8_u32(
                vmlaq_u32(vdupq_n_u32(0x03020100), i, vdupq_n_u32(0x04040404)));
        }
        kl_piecewise_look_up(c, t[KL_PIECEWISE_C], places);
#pragma GCC unroll 4
        for (int k = 0; k < KL_PIECEWISE_VECTORS; k++) d[k] = vsubq_f32(a[k], c[k]);
        kl_piecewise_look_up(q, t[KL_PIECEWISE_LAST], places);
#pragma GCC unroll 8
        for (int row = KL_PIECEWISE_LAST - 1; row >= KL_PIECEWISE_Q; row--) {
            kl_piecewise_look_up(c, t[row], places);
#pragma GCC unroll 4
            for (int k = 0; k < KL_PIECEWISE_VECTORS; k++) q[k] = vfmaq_f32(c[k], q[k], d[k]);
        }
        kl_piecewise_look_up(c, t[KL_PIECEWISE_BASE], places);
#pragma GCC unroll 4
        for (int k = 0; k < KL_PIECEWISE_VECTORS; k++) {
            q[k] = vfmaq_f32(vbslq_f32(first[k], a[k], c[k]), d[k], q[k]);
            vst1q_f32(y + 4 * k, vbslq_f32(sign, vld1q_f32(x + 4 * k), q[k]));
        }
    }
}
