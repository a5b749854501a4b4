/* wide_neon.h - what wide_x86.h has, for NEON: what lanes of kl_wide and kl_pair give together. For
 * wide.h, which includes it. */
#include <arm_neon.h>

/* The largest lane of a vector without NaN. */
KL_INLINE float32x4_t kl_quarter_max(kl_wide a) {
    return vmaxq_f32(vmaxq_f32(a.v, a.x), vmaxq_f32(a.w, a.y));
}
KL_INLINE float kl_wide_largest(kl_wide a) {
    return vmaxvq_f32(kl_quarter_max(a));
}

/* Sums in the order of memory: element i is joined with i + 16, then with i + 8, 4, 2, 1. */
KL_INLINE float32x4_t kl_quarter(kl_wide a) {
    return vaddq_f32(vaddq_f32(a.v, a.x), vaddq_f32(a.w, a.y));
}
KL_INLINE float kl_pair_sum_f32(kl_pair x) {
    const float32x4_t q = kl_quarter(kl_wide_add(x.a, x.b));
    return vpadds_f32(vadd_f32(vget_low_f32(q), vget_high_f32(q)));
}
#define kl_pair_sum_f16 kl_pair_sum_f32
#define kl_pair_sum_bf16 kl_pair_sum_f32
/* The sums of the lanes of four vectors, each by halving. */
KL_INLINE float32x4_t kl_four_sums(float32x4_t p, float32x4_t q, float32x4_t r, float32x4_t s) {
    float32x4_t pq = vaddq_f32(vzip1q_f32(p, q), vzip2q_f32(p, q)),
                rs = vaddq_f32(vzip1q_f32(r, s), vzip2q_f32(r, s));
    return vaddq_f32(kl_simd_zip_low_2(pq, rs), kl_simd_zip_high_2(pq, rs));
}
KL_INLINE float32x4_t kl_four_tops(float32x4_t p, float32x4_t q, float32x4_t r, float32x4_t s) {
    return vpmaxq_f32(vpmaxq_f32(p, q), vpmaxq_f32(r, s));
}
/* Lane k of y is the join of the lanes of v[k], by halving. */
#define KL_FOLD(name, four, quarter)                                                   \
    KL_INLINE void name(float *y, const kl_wide *v) {                                  \
        for (int k = 0; k < KL_WIDE_LANES; k += 4)                                     \
            vst1q_f32(y + k, four(quarter(v[k]), quarter(v[k + 1]), quarter(v[k + 2]), \
                                  quarter(v[k + 3])));                                 \
    }
KL_FOLD(kl_wide_sums, kl_four_sums, kl_quarter)
KL_FOLD(kl_wide_tops, kl_four_tops, kl_quarter_max)
/* The sums of 16 pairs, as kl_pair_sum_f32 computes them. */
KL_INLINE void kl_pair_sums_f32(float *sum, const kl_pair *p) {
    kl_wide v[KL_WIDE_LANES];
    for (int k = 0; k < KL_WIDE_LANES; k++) v[k] = kl_wide_add(p[k].a, p[k].b);
    kl_wide_sums(sum, v);
}
#define kl_pair_sums_bf16 kl_pair_sums_f32
#define kl_pair_sums_f16 kl_pair_sums_f32

/* ---- the largest of 16-bit floats. Their bits are ordered as integers are: numbers above 0 as
 * signed ones, numbers below 0 as unsigned ones in reverse order ---- */
typedef struct {
    int16x8_t above[4];
    uint16x8_t below[4];
} kl_extreme;
KL_INLINE kl_extreme kl_extreme_none(void) {
    int16x8_t a = vdupq_n_s16(INT16_MIN);
    uint16x8_t b = vdupq_n_u16(UINT16_MAX);
    return (kl_extreme){{a, a, a, a}, {b, b, b, b}};
}
/* Joins the next 32 elements to e. */
KL_INLINE kl_extreme kl_extreme_of(kl_extreme e, const uint16_t *x) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        uint16x8_t v = vld1q_u16(x + 8 * k);
        e.above[k] = vmaxq_s16(e.above[k], vreinterpretq_s16_u16(v));
        e.below[k] = vminq_u16(e.below[k], v);
    }
    return e;
}
/* The bits of the largest element at each of the 32 positions of a run. */
KL_INLINE void kl_extreme_each(kl_extreme e, uint16_t *top) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        uint16x8_t any = vcltzq_s16(e.above[k]), high = vreinterpretq_u16_s16(e.above[k]);
        vst1q_u16(top + 8 * k, vbslq_u16(any, e.below[k], high));
    }
}
/* The bits of the largest element of all. */
KL_INLINE uint16_t kl_extreme_one(kl_extreme e) {
    const int16_t above =
        vmaxvq_s16(vmaxq_s16(vmaxq_s16(e.above[0], e.above[1]), vmaxq_s16(e.above[2], e.above[3])));
    const uint16_t below =
        vminvq_u16(vminq_u16(vminq_u16(e.below[0], e.below[1]), vminq_u16(e.below[2], e.below[3])));
    return above < 0 ? below : (uint16_t)above;
}
/* Joins e and f. */
KL_INLINE kl_extreme kl_extreme_join(kl_extreme e, kl_extreme f) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        e.above[k] = vmaxq_s16(e.above[k], f.above[k]);
        e.below[k] = vminq_u16(e.below[k], f.below[k]);
    }
    return e;
}
