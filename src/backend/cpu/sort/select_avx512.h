/* select_avx512.h - moving keys and elements by a key in vectors, for select.c, which includes
 * it. */
#include "backend/cpu/sort/sort_quick_avx512.h"

/* Stores the first lanes of v, which `first` has, as items of 1, 2, 4 or 8 bytes. */
static inline void put_lanes_32(int item, char *dst, __m512i v, __mmask16 first) {
    if (item == 4)
        _mm512_mask_storeu_epi32(dst, first, v);
    else if (item == 2)
        _mm256_mask_storeu_epi16(dst, first, _mm512_cvtepi32_epi16(v));
    else
        _mm_mask_storeu_epi8(dst, first, _mm512_cvtepi32_epi8(v));
}
static inline void put_lanes_64(int item, char *dst, __m512i v, __mmask8 first) {
    if (item == 8)
        _mm512_mask_storeu_epi64(dst, first, v);
    else
        _mm256_mask_storeu_epi32(dst, first, _mm512_cvtepi64_epi32(v));
}

static inline void put_lanes_16(int item, char *dst, __m512i v, __mmask32 first) {
    (void)item; /* 2 */
    _mm512_mask_storeu_epi16(dst, first, v);
}

/* The items of the lanes that are there. */
static inline __m512i get_lanes_16(int item, const char *src, __mmask32 there) {
    (void)item;
    return _mm512_maskz_loadu_epi16(there, src);
}
static inline __m512i get_lanes_32(int item, const char *src, __mmask16 there) {
    if (item == 4) return _mm512_maskz_loadu_epi32(there, src);
    if (item == 2) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, src));
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, src));
}
static inline __m512i get_lanes_64(int item, const char *src, __mmask8 there) {
    if (item == 8) return _mm512_maskz_loadu_epi64(there, src);
    return _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(there, src));
}

/* The numbers of the lanes of a vector. */
static inline __m512i lanes_32(void) {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
static inline __m512i lanes_64(void) {
    return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
}

#define KEYS 16
#define BITS 16
#define LANES 32
#define NAME packed
#define TARGET __attribute__((target("avx512vbmi2")))
/* defines move_items_packed, move_vectors_packed, keys_above_packed */
#include "backend/cpu/sort/select_avx512.inc"
#define KEYS 16
#define BITS 32
#define LANES 16
#define NAME 16
#define TARGET
/* defines move_items_16, move_vectors_16, keys_above_16 */
#include "backend/cpu/sort/select_avx512.inc"
#define KEYS 32
#define BITS 32
#define LANES 16
#define NAME 32
#define TARGET
/* defines move_items_32, move_vectors_32, keys_above_32 */
#include "backend/cpu/sort/select_avx512.inc"
#define KEYS 64
#define BITS 64
#define LANES 8
#define NAME 64
#define TARGET
/* defines move_items_64, move_vectors_64, keys_above_64 */
#include "backend/cpu/sort/select_avx512.inc"
