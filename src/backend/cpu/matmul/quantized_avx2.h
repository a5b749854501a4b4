/* quantized_avx2.h - looks numbers of 4 bits up in a register, for quantized_matmul.c, which
 * includes it. */
#include <immintrin.h>

/* In each byte twice the number of e2m1 whose code is in its low bits; the high bits are 0. */
static inline __attribute__((always_inline)) word_vec e2m1_bytes(word_vec codes) {
    const __m128i twice = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return (word_vec)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(twice), (__m256i)codes);
}
