/* logsumexp_few_avx512.h - logsumexp of rows of 16, 32 or 48 float32, which are transposed in
 * registers 16 rows at a time. For logsumexp_few.c, which includes it. */
#include <immintrin.h>

/* The function kl_centre_of for each lane. */
KL_INLINE kl_wide wide_centre_of(kl_wide top) {
    const __m512 round = _mm512_set1_ps(0x1.8p23f);
    const __mmask16 near =
        _mm512_cmp_ps_mask(_mm512_abs_ps(top.v), _mm512_set1_ps(KL_FAR), _CMP_LT_OQ);
    __m512 x = _mm512_fmadd_ps(_mm512_maskz_mov_ps(near, top.v), _mm512_set1_ps(KL_LOG2_E_F32 / 64),
                               round);
    return (kl_wide){_mm512_mul_ps(_mm512_sub_ps(x, round), _mm512_set1_ps(64))};
}
/* Loads four columns of 16 rows, which are `step` apart. A quarter of a register is loaded at a
 * time, so that half of the transposition is left to the execution port for shuffles, of which
 * there is one. */
KL_INLINE void four_columns(const float *x, int64_t step, kl_wide *v) {
    kl_simd t[4];
#pragma GCC unroll 4
    for (int row = 0; row < 4; row++) {
        t[row] = _mm512_castps128_ps512(_mm_loadu_ps(x + row * step));
#pragma GCC unroll 4
        for (int quarter = 1; quarter < 4; quarter++)
            t[row] = _mm512_mask_broadcast_f32x4(t[row], (__mmask16)(0xf << 4 * quarter),
                                                 _mm_loadu_ps(x + (row + 4 * quarter) * step));
    }
    KL_SIMD_FOUR(c, t);
    v[0].v = c0, v[1].v = c1, v[2].v = c2, v[3].v = c3;
}
/* The largest elements and the sums of n rows of float32, which are `step` apart. Square tiles of
 * side 16 cover the rows and are transposed in registers. */
static void few_squares(const float *x, int64_t step, int64_t length, int64_t n, float *top,
                        float *sum) {
    enum { FETCHED = 4096 }; /* the distance of prefetching, in bytes */
    kl_wide centre = kl_wide_set(0);
    for (int64_t k = 0; k < n; k += KL_WIDE_LANES)
        for (bool again = true; again;) {
            kl_wide t = kl_wide_set(-INFINITY), total = kl_wide_set(0);
            for (int64_t i = 0; i < length; i += KL_WIDE_LANES) {
                const float *from = x + k * step + i;
#pragma GCC unroll 16
                for (int row = 0; row < KL_WIDE_LANES; row++)
                    __builtin_prefetch((const char *)(from + row * step) + FETCHED);
#pragma GCC unroll 4
                for (int four = 0; four < KL_WIDE_LANES; four += 4) {
                    kl_wide v[4];
                    four_columns(from + four, step, v);
                    add_four_wide(&t, &total, centre, v);
                }
            }
            kl_wide_store(top + k, t);
            kl_wide_store(sum + k, total);
            const kl_wide now = wide_centre_of(t);
            again = _mm512_cmp_ps_mask(now.v, centre.v, _CMP_NEQ_UQ);
            centre = now;
        }
}
