/* tiles_avx512.c - see tiles_avx512.h. */
#include "backend/cpu/product/tiles_avx512.h"

#if defined(__x86_64__) && defined(__AVX512BF16__)
#include <immintrin.h>
#include <string.h>

bool kl_bf16_there(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") != 0;
}

bool kl_bf16_is_fast(void) {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
}

enum {
    ROWS = 8, /* rows of the result that are in registers, two vectors wide */
    PAIRS = KL_AMX_DEPTH / 2,
    LINE = 32,           /* elements in a row of b's tile: pairs of 16 columns */
    TILE = PAIRS * LINE, /* elements of one of b's two tiles */
};

/* ROWS rows of the result; a is their first row. */
static inline __attribute__((always_inline)) void
rows_of_square(int64_t n, const struct kl_amx_left *left, const uint16_t *a, const uint16_t *b,
               const float *from, int64_t from_pitch, float *to, int64_t to_pitch) {
    __m512 sum[ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < 2; c++)
            sum[r][c] =
                from ? _mm512_loadu_ps(from + r * from_pitch + 16 * c) : _mm512_setzero_ps();
    for (; n > 0; n--, a += left->step, b += 2 * TILE)
        for (int p = 0; p < PAIRS; p++) {
            const __m512bh right[2] = {(__m512bh)_mm512_loadu_si512(b + p * LINE),
                                       (__m512bh)_mm512_loadu_si512(b + TILE + p * LINE)};
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) {
                int pair;
                memcpy(&pair, a + r * left->row + 2 * p, sizeof pair);
                const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, right[0]);
                sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, right[1]);
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < 2; c++) _mm512_storeu_ps(to + r * to_pitch + 16 * c, sum[r][c]);
}

void kl_bf16_square(int64_t n, const struct kl_amx_left *a, const uint16_t *b,
                    const struct kl_amx_place *from, const struct kl_amx_place *to) {
    for (int row = 0; row < KL_AMX_ROWS; row += ROWS) {
        const uint16_t *left = a->at + row / 16 * a->panel + row % 16 * a->row;
        rows_of_square(n, a, left, b, from ? from->at + row * from->pitch : NULL,
                       from ? from->pitch : 0, to->at + row * to->pitch, to->pitch);
    }
}
#else
bool kl_bf16_there(void) {
    return false;
}
bool kl_bf16_is_fast(void) {
    return false;
}
void kl_bf16_square(int64_t n, const struct kl_amx_left *a, const uint16_t *b,
                    const struct kl_amx_place *from, const struct kl_amx_place *to) {
}
#endif
