/* select_avx512.h - selection by keys of 32 bits in vectors of 16, for select.c, which includes
 * it. */
#include "backend/cpu/sort/sort_quick_avx512.h"

/* Stores the lanes of v that m has, side by side, as items of 1, 2 or 4 bytes. */
static inline void put_lanes(int item, char *dst, __m512i v, __mmask16 m) {
    const __mmask16 first = (__mmask16)((1u << __builtin_popcount(m)) - 1);
    const __m512i packed = _mm512_maskz_compress_epi32(m, v);
    if (item == 4)
        _mm512_mask_storeu_epi32(dst, first, packed);
    else if (item == 2)
        _mm256_mask_storeu_epi16(dst, first, _mm512_cvtepi32_epi16(packed));
    else
        _mm_mask_storeu_epi8(dst, first, _mm512_cvtepi32_epi8(packed));
}

static inline __m512i get_lanes(int item, const char *src, __mmask16 there) {
    if (item == 4) return _mm512_maskz_loadu_epi32(there, src);
    if (item == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, src));
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, src));
}

/* kl_select_move for contiguous results. */
static inline __attribute__((always_inline)) void move_items(int item, char *dst, int64_t *to,
                                                             const uint32_t *key, int64_t n,
                                                             uint32_t middle, const char *src,
                                                             uint32_t first) {
    const __m512i m = _mm512_set1_epi32((int)middle);
    __m512i place =
        _mm512_add_epi32(_mm512_set1_epi32((int)first),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    int64_t below = to[0], like = to[1], above = to[2];
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 there = kl_quick_lanes_32(n - i, 0);
        const __m512i k = _mm512_maskz_loadu_epi32(there, key + i);
        const __m512i v = src ? get_lanes(item, src + i * item, there) : place;
        const __mmask16 less = _mm512_mask_cmplt_epu32_mask(there, k, m),
                        more = _mm512_mask_cmpgt_epu32_mask(there, k, m);
        const __mmask16 equal = (__mmask16)(there & ~(less | more));
        put_lanes(item, dst + below * item, v, less);
        put_lanes(item, dst + above * item, v, more);
        if (equal) put_lanes(item, dst + like * item, v, equal);
        below += __builtin_popcount(less);
        above += __builtin_popcount(more);
        like += __builtin_popcount(equal);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
    to[0] = below;
    to[1] = like;
    to[2] = above;
}

static void move_vectors(int item, char *dst, int64_t *to, const uint32_t *key, int64_t n,
                         uint32_t middle, const char *src, uint32_t first) {
    if (item == 4)
        move_items(4, dst, to, key, n, middle, src, first);
    else if (item == 2)
        move_items(2, dst, to, key, n, middle, src, first);
    else
        move_items(1, dst, to, key, n, middle, src, first);
}

/* kl_select_keys */
static void keys_above(const uint32_t *key, int64_t n, uint32_t middle, uint32_t *found) {
    const __m512i m = _mm512_set1_epi32((int)middle);
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 there = kl_quick_lanes_32(n - i, 0);
        const __m512i k = _mm512_maskz_loadu_epi32(there, key + i);
        const __mmask16 more = _mm512_mask_cmpgt_epu32_mask(there, k, m);
        put_lanes(4, (char *)found, k, more);
        found += __builtin_popcount(more);
    }
}
