/* keys_avx512.h - which of 64 float32 reach a threshold, as a set of bits, for keys.c, which
 * includes it. Written with intrinsics, since gcc cannot turn a comparison of vectors into bits. */
#include <immintrin.h>

static inline uint64_t reaching_64(const float *x, float low) {
    __m512 least = _mm512_set1_ps(low);
    uint64_t bits = 0;
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++)
        bits |= (uint64_t)_mm512_cmp_ps_mask(_mm512_loadu_ps(x + 16 * v), least, _CMP_NLT_UQ)
                << 16 * v;
    return bits;
}
