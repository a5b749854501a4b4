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

/* Adds `group` rows (a constant) of 16-bit floats, `line` apart, to `pairs` (a constant) pairs of
 * vectors of sums, which stay in registers meanwhile. Row g is multiplied by one[g]. */
enum { MOST_PAIRS = 4 };
static inline __attribute__((always_inline)) void
add_pairs(void (*load_two)(const uint16_t *p, kl_vec_f32 *y), int pairs, int group,
          const kl_vec_f32 *one, const uint16_t *b, int64_t line, float *to) {
    kl_vec_f32 sum[2 * MOST_PAIRS];
#pragma GCC unroll 8
    for (int v = 0; v < 2 * pairs; v++) sum[v] = *(const kl_vec_f32 *)(to + 4 * v);
#pragma GCC unroll 16
    for (int g = 0; g < group; g++) {
        kl_vec_f32 y[2 * MOST_PAIRS];
#pragma GCC unroll 4
        for (int v = 0; v < pairs; v++) load_two(b + 8 * v, y + 2 * v);
#pragma GCC unroll 8
        for (int v = 0; v < 2 * pairs; v++) sum[v] = kl_madd_f32(one[g], y[v], sum[v]);
        b += line;
        /* Each row is loaded when the sums of the one before it are there: the compiler would load
         * all of them at once, for which there are too few registers. */
        if (pairs == MOST_PAIRS)
            __asm__(""
                    : "+r"(b), "+w"(sum[0]), "+w"(sum[1]), "+w"(sum[2]), "+w"(sum[3]), "+w"(sum[4]),
                      "+w"(sum[5]), "+w"(sum[6]), "+w"(sum[7]));
    }
#pragma GCC unroll 8
    for (int v = 0; v < 2 * pairs; v++) *(kl_vec_f32 *)(to + 4 * v) = sum[v];
}
