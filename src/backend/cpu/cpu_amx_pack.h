/* cpu_amx_pack.h - operands of products in tile registers, packed as cpu_amx.h wants them. For products and attention, in the variant of CPUs that may have those registers; what includes this has
 * cpu_products.h, whose `turn_f32` turns over any words of 32 bits. */
#pragma once
#include "backend/cpu/cpu_amx.h"
#ifdef __AVX512F__
#include <immintrin.h>

#include "backend/cpu/cpu_products.h"

enum { KL_AMX_LINES = 16, KL_AMX_TILE = KL_AMX_LINES * KL_AMX_DEPTH };

/* 16 lines by 32 elements along k of an operand, `line` and `step` elements apart. A left operand's tile has a line in each row, a right one's (pairs) two neighbours along k of each line in a row: the rows of the one
 * are the columns of the other, of words of two elements. What is missing is 0. */
static inline void kl_amx_pack(const uint16_t *from, int64_t line, int64_t step, int64_t lines,
                               int64_t depth, bool pairs, uint16_t *to) {
    _Alignas(64) uint16_t whole[KL_AMX_TILE];
    vec_f32 r[KL_AMX_LINES];
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
            r[i] = (vec_f32)_mm512_loadu_si512(from + i * line);
        } else {
            const uint16_t *x = from + 2 * i * step;
            __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
            __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(x + step)));
            r[i] = (vec_f32)_mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
        }
    }
    if (pairs == (step == 1)) turn_f32(r);
    memcpy(to, r, sizeof r);
}
#endif
