/* division_neon.h - quotients of signed integers of 32 bits rounded down, and remainders, for
 * division.c, which includes it. The quotient of float64 is rounded, but never to a whole number
 * that the exact one lies below: that is at least 1 / b below any, and the error is at most
 * a 2^-53 / b. One conversion rounds it down. */
#include <arm_neon.h>

enum { LANES = 4, AT_ONCE = 4, MANY = 8 };

/* 2^31, of the lowest number and -1, wraps where halves are put together. */
static inline int32x4_t quotients_of_4(int32x4_t a, int32x4_t b) {
    const float64x2_t low = vdivq_f64(vcvtq_f64_s64(vmovl_s32(vget_low_s32(a))),
                                      vcvtq_f64_s64(vmovl_s32(vget_low_s32(b)))),
                      high = vdivq_f64(vcvtq_f64_s64(vmovl_high_s32(a)),
                                       vcvtq_f64_s64(vmovl_high_s32(b)));
    return vuzp1q_s32(vreinterpretq_s32_s64(vcvtmq_s64_f64(low)),
                      vreinterpretq_s32_s64(vcvtmq_s64_f64(high)));
}

/* `n` (a constant, at most MANY) vectors of z, as below. Division by 0 gives 0: whether there is
 * any is asked of all vectors together, since it is rare. AT_ONCE vectors are stored before the
 * next ones are read, so that registers suffice. */
static inline __attribute__((always_inline)) void
some_quotients(int n, int32_t *z, const int32_t *x, const int32_t *y, bool rest) {
    int32x4_t a[MANY], b[MANY];
    uint32x4_t least = vdupq_n_u32(UINT32_MAX);
#pragma GCC unroll 8
    for (int first = 0; first < n; first += AT_ONCE) {
        const int end = first + AT_ONCE < n ? first + AT_ONCE : n;
#pragma GCC unroll 8
        for (int k = first; k < end; k++)
            a[k] = vld1q_s32(x + k * LANES), b[k] = vld1q_s32(y + k * LANES);
#pragma GCC unroll 8
        for (int k = first; k < end; k++) {
            const int32x4_t q = quotients_of_4(a[k], b[k]);
            a[k] = rest ? vmlsq_s32(a[k], q, b[k]) : q;
            least = vminq_u32(least, vreinterpretq_u32_s32(b[k]));
        }
#pragma GCC unroll 8
        for (int k = first; k < end; k++) vst1q_s32(z + k * LANES, a[k]);
    }
    if (__builtin_expect(vminvq_u32(least) == 0, 0))
#pragma GCC unroll 8
        for (int k = 0; k < n; k++) {
            const uint32x4_t keep = vtstq_s32(b[k], b[k]);
            vst1q_s32(z + k * LANES,
                      vandq_s32(vld1q_s32(z + k * LANES), vreinterpretq_s32_u32(keep)));
        }
}

/* z[i] = the quotient of x[i] and y[i], or with `rest` (a constant) the remainder, for as many of n
 * elements as are whole vectors; returns how many. z may be x or y. */
static inline __attribute__((always_inline)) int64_t
quotients_i32(int64_t n, int32_t *z, const int32_t *x, const int32_t *y, bool rest) {
    int64_t i = 0;
    for (; i + MANY * LANES <= n; i += MANY * LANES)
        some_quotients(MANY, z + i, x + i, y + i, rest);
    for (; i + LANES <= n; i += LANES) some_quotients(1, z + i, x + i, y + i, rest);
    return i;
}
