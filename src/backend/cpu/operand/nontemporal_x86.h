/* nontemporal_x86.h - non-temporal stores of cache lines, for nontemporal.h, which includes it. */
#ifdef __AVX__
#include <immintrin.h>
#else /* which is parsed in a tenth of the time */
#include <emmintrin.h>
#endif

static inline void kl_nontemporal_line(void *dst, const void *src) {
#if defined __AVX512F__
    _mm512_stream_si512(dst, _mm512_load_si512(src));
#elif defined __AVX__
    for (int i = 0; i < 2; i++)
        _mm256_stream_si256((__m256i *)dst + i, _mm256_load_si256((const __m256i *)src + i));
#else
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)dst + i, _mm_load_si128((const __m128i *)src + i));
#endif
}
static inline void kl_nontemporal_end(void) {
    _mm_sfence();
}
