/* division_neon.h - quotients of signed integers of 32 bits rounded down, and remainders, for
 * division.c, which includes it. The quotient of float64 is rounded, but never to a whole number
 * that the exact one lies below: that is at least 1 / b below any, and the error is at most
 * a 2^-53 / b. One conversion rounds it down. */
#include <arm_neon.h>

/* Division by 0 gives 0; 2^31, of the lowest number and -1, wraps where halves are put together. */
static inline int32x4_t quotients_of_4(int32x4_t a, int32x4_t b) {
    const float64x2_t low = vdivq_f64(vcvtq_f64_s64(vmovl_s32(vget_low_s32(a))),
                                      vcvtq_f64_s64(vmovl_s32(vget_low_s32(b)))),
                      high = vdivq_f64(vcvtq_f64_s64(vmovl_high_s32(a)),
                                       vcvtq_f64_s64(vmovl_high_s32(b)));
    const int32x4_t q = vuzp1q_s32(vreinterpretq_s32_s64(vcvtmq_s64_f64(low)),
                                   vreinterpretq_s32_s64(vcvtmq_s64_f64(high)));
    return vandq_s32(q, vreinterpretq_s32_u32(vtstq_s32(b, b)));
}

/* z[i] = the quotient of x[i] and y[i], or with `rest` (a constant) the remainder, for as many of n
 * elements as are whole steps; returns how many. z may be x or y. */
static inline __attribute__((always_inline)) int64_t
quotients_i32(int64_t n, int32_t *z, const int32_t *x, const int32_t *y, bool rest) {
    enum { LANES = 4, VECTORS = 4 };
    int64_t i = 0;
    for (; i + VECTORS * LANES <= n; i += VECTORS * LANES) {
        int32x4_t a[VECTORS], b[VECTORS], q[VECTORS];
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            a[k] = vld1q_s32(x + i + k * LANES), b[k] = vld1q_s32(y + i + k * LANES);
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++) {
            q[k] = quotients_of_4(a[k], b[k]);
            if (rest)
                q[k] = vandq_s32(vmlsq_s32(a[k], q[k], b[k]),
                                 vreinterpretq_s32_u32(vtstq_s32(b[k], b[k])));
        }
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++) vst1q_s32(z + i + k * LANES, q[k]);
    }
    return i;
}
