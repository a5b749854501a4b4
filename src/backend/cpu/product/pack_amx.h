/* pack_amx.h - packs operands of products in tile registers, in the layout of tiles_amx.h. For
 * products and attention, in the variant of CPUs that may have those registers.
 * kl_vec_transpose_f32 of products.h transposes any words of 32 bits. */
#pragma once
#include "backend/cpu/product/tiles_amx.h"
#ifdef __AVX512F__
#include <immintrin.h>

#include "backend/cpu/product/products.h"
#include "base/number/half.h"

enum { KL_AMX_LINES = 16, KL_AMX_TILE = KL_AMX_LINES * KL_AMX_DEPTH };

/* Packs 16 lines by 32 elements along k of an operand, `line` and `step` elements apart. A tile of
 * a left operand has one line in each row. In a tile of a right operand (pairs), each row has two
 * neighbours along k of every line. As words of two elements, the second tile is the transpose of
 * the first. Missing elements are 0. */
static inline void kl_amx_pack(const uint16_t *from, int64_t line, int64_t step, int64_t lines,
                               int64_t depth, bool pairs, uint16_t *to) {
    _Alignas(64) uint16_t whole[KL_AMX_TILE];
    kl_vec_f32 r[KL_AMX_LINES];
    if (lines < KL_AMX_LINES || depth < KL_AMX_DEPTH || (line != 1 && step != 1)) {
        memset(whole, 0, sizeof whole);
        for (int64_t i = 0; i < lines; i++)
            for (int64_t k = 0; k < depth; k++)
                whole[i * KL_AMX_DEPTH + k] = from[i * line + k * step];
        from = whole;
        line = KL_AMX_DEPTH;
        step = 1;
    }
#pragma GCC unroll 16
    for (int i = 0; i < KL_AMX_LINES; i++) {
        if (step == 1) {
            r[i] = (kl_vec_f32)_mm512_loadu_si512(from + i * line);
        } else {
            const uint16_t *x = from + 2 * i * step;
            __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
            __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(x + step)));
            r[i] = (kl_vec_f32)_mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
        }
    }
    if (pairs == (step == 1)) kl_vec_transpose_f32(r);
    memcpy(to, r, sizeof r);
}

/* The range of an operand's magnitudes, as bits of a float32: the largest one; and the smallest one
 * that is not 0, minus 1. */
struct kl_amx_range {
    uint32_t most, least;
};
#define KL_AMX_NO_RANGE ((struct kl_amx_range){0, UINT32_MAX})

static inline void kl_amx_range_join(struct kl_amx_range *r, struct kl_amx_range more) {
    if (more.most > r->most) r->most = more.most;
    if (more.least < r->least) r->least = more.least;
}

/* Whether sums of k products of bfloat16 parts are as exact as those of whole elements: no part and
 * no product may overflow or be denormal, since tile registers take denormals as 0. False for
 * infinities and NaN. */
static inline bool kl_amx_takes(struct kl_amx_range a, struct kl_amx_range b, int64_t k) {
    const struct kl_amx_range *both[] = {&a, &b};
    double most = (double)k, least = 1;
    for (int i = 0; i < 2; i++) {
        bool zeros = both[i]->least == UINT32_MAX;
        float x = kl_bits_f32(both[i]->most), y = zeros ? 1 : kl_bits_f32(both[i]->least + 1);
        if (!(x < 0x1p120f) || y < 0x1p-100f) return false;
        most *= x;
        least *= y;
    }
    return most < 0x1p120 && least >= 0x1p-100;
}

static inline kl_vec_f32 kl_amx_load(const char *from, int64_t at, bool halves) {
    if (!halves) return (kl_vec_f32)_mm512_loadu_ps((const float *)from + at);
    return (kl_vec_f32)_mm512_cvtph_ps(
        _mm256_loadu_si256((const __m256i *)((const uint16_t *)from + at)));
}

/* Packs float32, or float16 (halves): each element becomes the sum of three (two) bfloat16 parts,
 * rounded to nearest; the last part has the remainder. Part p goes to to + p * between. Element i
 * along k is placed next to element i + 16, in both operands, instead of its neighbour. */
static inline struct kl_amx_range kl_amx_split(const char *from, bool halves, int64_t line,
                                               int64_t step, int64_t lines, int64_t depth,
                                               bool pairs, uint16_t *to, int64_t between) {
    _Alignas(64) float whole[KL_AMX_TILE];
    enum { HALF = KL_AMX_DEPTH / 2 };
    int bf16_parts = halves ? 2 : 3;
    kl_vec_f32 r[2][KL_AMX_LINES];
    if (lines < KL_AMX_LINES || depth < KL_AMX_DEPTH || (line != 1 && step != 1)) {
        memset(whole, 0, sizeof whole);
        for (int64_t i = 0; i < lines; i++)
            for (int64_t k = 0; k < depth; k++) {
                int64_t at = i * line + k * step;
                whole[i * KL_AMX_DEPTH + k] =
                    halves ? kl_f16_load(((const uint16_t *)from)[at]) : ((const float *)from)[at];
            }
        from = (const char *)whole;
        halves = false;
        line = KL_AMX_DEPTH;
        step = 1;
    }
    for (int e = 0; e < 2; e++) {
        int64_t first = e * HALF * step, next = step == 1 ? line : step;
#pragma GCC unroll 16
        for (int i = 0; i < KL_AMX_LINES; i++)
            r[e][i] = kl_amx_load(from, first + i * next, halves);
        if (pairs == (step == 1)) kl_vec_transpose_f32(r[e]);
    }
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000), half = _mm512_set1_epi32(0x8000),
                  magnitude = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(1);
    __m512i most = _mm512_setzero_si512(), least = _mm512_set1_epi32(-1);
    for (int i = 0; i < KL_AMX_LINES; i++) {
        __m512i x[2];
        for (int e = 0; e < 2; e++) {
            x[e] = (__m512i)r[e][i];
            __m512i size = _mm512_and_si512(x[e], magnitude);
            most = _mm512_max_epu32(most, size);
            least = _mm512_min_epu32(least, _mm512_sub_epi32(size, one));
        }
        for (int p = 0; p < bf16_parts; p++) {
            __m512i part[2];
            for (int e = 0; e < 2; e++) {
                part[e] = p + 1 < bf16_parts ? _mm512_add_epi32(x[e], half) : x[e];
                part[e] = _mm512_and_si512(part[e], upper);
                x[e] = (__m512i)_mm512_sub_ps((__m512)x[e], (__m512)part[e]);
            }
            _mm512_store_si512(to + p * between + i * KL_AMX_DEPTH,
                               _mm512_or_si512(_mm512_srli_epi32(part[0], 16), part[1]));
        }
    }
    return (struct kl_amx_range){_mm512_reduce_max_epu32(most), _mm512_reduce_min_epu32(least)};
}
#endif
