/* root_avx512.h - kl_roots of root.h. The processor's square root of 16 floats takes as long as 25
 * other instructions. This gives the same bits: an approximation of 1/sqrt(a) within 2^-14, one
 * step of Goldschmidt's method for the root and its half reciprocal, and Markstein's last step. Its
 * remainder a - g^2 is exact, so it rounds the root correctly ("Computation of elementary functions
 * on the IBM RISC System/6000 processor", 1990). For root.h, which includes it. */
#include <immintrin.h>
/* Whether a lane needs the processor's instruction: it is below 2^-96, where the remainder would
 * not be exact, zero, negative, infinite or NaN. */
static inline __mmask16 kl_root_special(__m512 a) {
    __m512i from = _mm512_set1_epi32((127 - 96) << 23),
            range = _mm512_set1_epi32((255 - 127 + 96) << 23);
    return _mm512_cmpge_epu32_mask(_mm512_sub_epi32(_mm512_castps_si512(a), from), range);
}
static inline void kl_roots(float *y, const float *x) {
    __m512 a = _mm512_loadu_ps(x), half = _mm512_set1_ps(0.5f);
    if (__builtin_expect(kl_root_special(a), 0)) {
        _mm512_storeu_ps(y, _mm512_sqrt_ps(a));
        return;
    }
    __m512 r = _mm512_rsqrt14_ps(a), g = _mm512_mul_ps(a, r), h = _mm512_mul_ps(r, half);
    __m512 e = _mm512_fnmadd_ps(g, h, half);
    g = _mm512_fmadd_ps(g, e, g);
    h = _mm512_fmadd_ps(h, e, h);
    _mm512_storeu_ps(y, _mm512_fmadd_ps(_mm512_fnmadd_ps(g, g, a), h, g));
}
