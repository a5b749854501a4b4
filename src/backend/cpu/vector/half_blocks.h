/* half_blocks.h - blocks of 16-bit floats as float32 and back, with the conversions in registers. For the kernels of this folder only.
 *
 * What is loaded lies in an order of the variant's own, the same for every load and undone by every store: that saves the instructions that bring lanes in order, and element-wise
 * functions do not see it (float16 is in order). A store of bfloat16 takes NaN only as arithmetic on what was loaded gives it (quiet, and without bits that rounding would carry into the sign), so that it need not look for it. */
#pragma once
#include <stdbool.h>

#include "base/half.h"

enum { KL_HALVES = 32 }; /* elements of a block */

#if defined __AVX512BW__
#include <immintrin.h>
/* The even elements, then the odd ones. */
static inline void kl_load_bf16(float *y, const uint16_t *x) {
    __m512i v = _mm512_loadu_si512(x);
    _mm512_storeu_si512(y, _mm512_slli_epi32(v, 16));
    _mm512_storeu_si512(y + 16, _mm512_and_si512(v, _mm512_set1_epi32(-0x10000)));
}
/* Whether all are positive, normal and finite. */
static inline bool kl_ordinary_bf16(const uint16_t *x) {
    __m512i v = _mm512_sub_epi16(_mm512_loadu_si512(x), _mm512_set1_epi16(0x0080));
    return !_mm512_cmpge_epu16_mask(v, _mm512_set1_epi16(0x7f00));
}
/* To at least lo and at most hi; NaN stays. (gcc makes two comparisons and three moves of that where two instructions are enough.) */
static inline void kl_clamp_halves(float *x, float lo, float hi) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m512 v = _mm512_max_ps(_mm512_set1_ps(lo), _mm512_loadu_ps(x + k));
        _mm512_storeu_ps(x + k, _mm512_min_ps(_mm512_set1_ps(hi), v));
    }
}
/* Upper halves, plus the carry of lower half + 0x7fff + (1 if the upper half is odd), which an average of 16-bit numbers has in its highest bit. */
static inline __m512i kl_round_halves(__m512i high, __m512i low) {
    __m512i half = _mm512_ternarylogic_epi32(high, _mm512_set1_epi16(1), _mm512_set1_epi16(0x7ffe),
                                             0xea); /* (a & b) | c */
    __m512i carry = _mm512_srli_epi16(_mm512_avg_epu16(low, half), 15);
    return _mm512_add_epi16(high, carry);
}
static inline void kl_store_bf16(uint16_t *y, const float *x) {
    const __mmask32 odd = 0xaaaaaaaa;
    __m512i even = _mm512_loadu_si512(x), other = _mm512_loadu_si512(x + 16);
    __m512i high = _mm512_mask_mov_epi16(_mm512_srli_epi32(even, 16), odd, other);
    __m512i low = _mm512_mask_mov_epi16(even, odd, _mm512_slli_epi32(other, 16));
    _mm512_storeu_si512(y, kl_round_halves(high, low));
}
/* Two vectors in order, one behind the other; NaN as in a store. */
static inline void kl_put_bf16(uint16_t *y, __m512 first, __m512 second) {
    static const _Alignas(64) uint16_t places[KL_HALVES] = {
        0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    __m512i a = _mm512_castps_si512(first), b = _mm512_castps_si512(second);
    __m512i even = _mm512_load_si512(places), one = _mm512_set1_epi16(1);
    __m512i low = _mm512_permutex2var_epi16(a, even, b);
    __m512i high = _mm512_permutex2var_epi16(a, _mm512_add_epi16(even, one), b);
    _mm512_storeu_si512(y, kl_round_halves(high, low));
}
/* In order, as every block that is not loaded by these functions. false, and nothing is done: one is NaN, which might have any bits. */
static inline bool kl_narrow_bf16(uint16_t *y, const float *x) {
    __m512 first = _mm512_loadu_ps(x), second = _mm512_loadu_ps(x + 16);
    if (_mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q)) return false;
    kl_put_bf16(y, first, second);
    return true;
}
#define KL_HAS_NARROW_BF16 1
static inline void kl_load_f16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 16)
        _mm512_storeu_ps(y + k, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + k))));
}
static inline void kl_store_f16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 16)
        _mm256_storeu_si256((__m256i *)(y + k),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
#define KL_HAS_HALF_BLOCKS 1
#elif defined __AVX2__ && defined __F16C__
#include <immintrin.h>
static inline void kl_load_bf16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(x + k));
        _mm256_storeu_si256((__m256i *)(y + k), _mm256_slli_epi32(v, 16));
        _mm256_storeu_si256((__m256i *)(y + k + 8),
                            _mm256_and_si256(v, _mm256_set1_epi32(-0x10000)));
    }
}
static inline bool kl_ordinary_bf16(const uint16_t *x) {
    const __m256i most = _mm256_set1_epi16(0x7eff);
    __m256i a = _mm256_loadu_si256((const __m256i *)x),
            b = _mm256_loadu_si256((const __m256i *)(x + 16)), first = _mm256_set1_epi16(0x0080);
    __m256i top = _mm256_max_epu16(_mm256_sub_epi16(a, first), _mm256_sub_epi16(b, first));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(top, most), most)) == -1;
}
static inline void kl_clamp_halves(float *x, float lo, float hi) {
    for (int k = 0; k < KL_HALVES; k += 8) {
        __m256 v = _mm256_max_ps(_mm256_set1_ps(lo), _mm256_loadu_ps(x + k));
        _mm256_storeu_ps(x + k, _mm256_min_ps(_mm256_set1_ps(hi), v));
    }
}
static inline void kl_store_bf16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 16) {
        __m256i even = _mm256_loadu_si256((const __m256i *)(x + k)),
                other = _mm256_loadu_si256((const __m256i *)(x + k + 8));
        __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), other, 0xaa);
        __m256i low = _mm256_blend_epi16(even, _mm256_slli_epi32(other, 16), 0xaa);
        __m256i half = _mm256_or_si256(_mm256_and_si256(high, _mm256_set1_epi16(1)),
                                       _mm256_set1_epi16(0x7ffe));
        __m256i carry = _mm256_srli_epi16(_mm256_avg_epu16(low, half), 15);
        _mm256_storeu_si256((__m256i *)(y + k), _mm256_add_epi16(high, carry));
    }
}
static inline void kl_load_f16(float *y, const uint16_t *x) {
    for (int k = 0; k < KL_HALVES; k += 8)
        _mm256_storeu_ps(y + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + k))));
}
static inline void kl_store_f16(uint16_t *y, const float *x) {
    for (int k = 0; k < KL_HALVES; k += 8)
        _mm_storeu_si128((__m128i *)(y + k),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
}
#define KL_HAS_HALF_BLOCKS 1
#else
#define KL_HAS_HALF_BLOCKS 0 /* they go through tiles, which operand/convert.c converts */
#endif
#ifndef KL_HAS_NARROW_BF16
#define KL_HAS_NARROW_BF16 0
#endif
