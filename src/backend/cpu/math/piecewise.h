/* piecewise.h - tanh and erf of float32: odd functions that come to 1, by a polynomial for each half of a binade from 1/4 on, whose coefficients are looked up in registers: no division and no exponential. For elementwise/transcendental.c only.
 *
 * f(a) = base + d q(d), d = a - c: column 0 is for a < 1/4, where c is 0 and the base a itself; else c is a number near the middle at which f comes very close to a float32, which is the base (S. Gal's accurate tables). So what is rounded
 * before the last addition is a fraction of the result. */
#pragma once
#include "backend/cpu/math/functions.h"
#include "backend/cpu/vector/simd.h"

enum { KL_PIECE_C, KL_PIECE_BASE, KL_PIECE_Q, KL_PIECE_LAST = KL_PIECE_Q + 6, KL_PIECE_ROWS };
typedef const float kl_pieces[KL_PIECE_ROWS][16];

extern kl_pieces kl_tanh_pieces, kl_erf_pieces; /* piecewise.c: once for all variants */

#define KL_PIECE_SHIFT 22  /* halves of binades */
#define KL_PIECE_FIRST 249 /* of 1/8 to 1/4: column 0 */

/* n blocks; f is 1 from `most` on, which the last column takes. */
static inline void kl_pieces_blocks(kl_pieces t, float most, int64_t n, float *y, const float *x) {
#if KL_HAS_SIMD
#ifdef __AVX512F__
#define LOOK_UP(row) _mm512_permutexvar_ps(i, _mm512_loadu_ps(t[row]))
#define INTEGER(op, ...) _mm512_##op(__VA_ARGS__)
#define OTHERWISE(i, a, b) _mm512_mask_mov_ps(a, _mm512_test_epi32_mask(i, i), b)
    typedef __m512i integers;
#define AS_INTEGERS _mm512_castps_si512
#define AS_FLOATS _mm512_castsi512_ps
#define FMA _mm512_fmadd_ps
#else
#define LOOK_UP(row)                                                           \
    _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(t[row]), i),     \
                     _mm256_permutevar8x32_ps(_mm256_loadu_ps(t[row] + 8), i), \
                     _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)))
#define INTEGER(op, ...) _mm256_##op(__VA_ARGS__)
#define OTHERWISE(i, a, b) \
    _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(i, _mm256_setzero_si256())))
    typedef __m256i integers;
#define AS_INTEGERS _mm256_castps_si256
#define AS_FLOATS _mm256_castsi256_ps
#define FMA _mm256_fmadd_ps
#endif
    const kl_simd limit = kl_simd_all(most);
    const integers sign = AS_INTEGERS(kl_simd_all(-0.0f));
    for (n *= KL_MATH_BLOCK; n > 0; n -= KL_SIMD, x += KL_SIMD, y += KL_SIMD) {
        kl_math_ahead(x, y);
        kl_simd v = kl_simd_f32(x);
        kl_simd a =
            KL_SIMD_DO(min_ps, limit, KL_SIMD_DO(andnot_ps, AS_FLOATS(sign), v)); /* NaN stays */
        integers i = INTEGER(srli_epi32, AS_INTEGERS(a), KL_PIECE_SHIFT);
        i = INTEGER(sub_epi32, i, INTEGER(set1_epi32, KL_PIECE_FIRST));
        i = INTEGER(max_epi32, i, INTEGER(set1_epi32, 0));
        kl_simd d = a - LOOK_UP(KL_PIECE_C), base = OTHERWISE(i, a, LOOK_UP(KL_PIECE_BASE));
        kl_simd q = LOOK_UP(KL_PIECE_LAST);
#pragma GCC unroll 8
        for (int k = KL_PIECE_LAST - 1; k >= KL_PIECE_Q; k--) q = FMA(q, d, LOOK_UP(k));
        q = FMA(d, q, base);
        kl_simd_put(y, KL_SIMD_DO(or_ps, q, KL_SIMD_DO(and_ps, AS_FLOATS(sign), v)));
    }
#undef LOOK_UP
#undef INTEGER
#undef OTHERWISE
#undef AS_INTEGERS
#undef AS_FLOATS
#undef FMA
#else
    for (int64_t k = 0; k < n * KL_MATH_BLOCK; k++) {
        float a = fabsf(x[k]);
        a = a > most ? most : a;
        int32_t i = (int32_t)(kl_f32_bits(a) >> KL_PIECE_SHIFT) - KL_PIECE_FIRST;
        i = (i < 0 ? 0 : i) & 15;
        float d = a - t[KL_PIECE_C][i], q = t[KL_PIECE_LAST][i];
        for (int row = KL_PIECE_LAST - 1; row >= KL_PIECE_Q; row--)
            q = __builtin_fmaf(q, d, t[row][i]);
        y[k] = copysignf(__builtin_fmaf(d, q, i ? t[KL_PIECE_BASE][i] : a), x[k]);
    }
#endif
}
