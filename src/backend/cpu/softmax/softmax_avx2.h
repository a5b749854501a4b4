/* softmax_avx2.h - the function kl_wide_sums for two square tiles at once, for softmax_rows.c,
 * which includes it. */
#include <immintrin.h>

KL_INLINE void both_sums(float *a, float *b, const kl_wide *v, const kl_wide *w) {
    for (int row = 0; row < SIDE; row += 4) {
        /* Each has a quarter of v in its lower half, and a quarter of w in its upper half. */
        __m256 q[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const __m256 x = _mm256_add_ps(v[row + k].v, v[row + k].w),
                         y = _mm256_add_ps(w[row + k].v, w[row + k].w);
            q[k] = _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20),
                                 _mm256_permute2f128_ps(x, y, 0x31));
        }
        for (int k = 0; k < 4; k += 2)
            q[k] = _mm256_add_ps(_mm256_shuffle_ps(q[k], q[k + 1], 0x44),
                                 _mm256_shuffle_ps(q[k], q[k + 1], 0xee));
        q[0] =
            _mm256_add_ps(_mm256_shuffle_ps(q[0], q[2], 0x88), _mm256_shuffle_ps(q[0], q[2], 0xdd));
        _mm_storeu_ps(a + row, _mm256_castps256_ps128(q[0]));
        _mm_storeu_ps(b + row, _mm256_extractf128_ps(q[0], 1));
    }
}
