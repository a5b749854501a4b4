/* piecewise_x86.h - kl_piecewise_runs of piecewise.h in registers, for both x86 widths: each row of
 * a table is in one register of AVX-512, or in two of AVX2, and is looked up there. Most vectors of
 * AVX2 need the first of the two only, which halves the work: then all arguments are below 3. For
 * piecewise.h, which includes it. */
#include <immintrin.h>

#ifdef __AVX512F__
#define FLOAT(op, ...) _mm512_##op(__VA_ARGS__)
#define LOOK_UP(row) _mm512_permutexvar_ps(i, _mm512_loadu_ps(t[row]))
#define INTEGER(op, ...) _mm512_##op(__VA_ARGS__)
#define OTHERWISE(i, a, b) _mm512_mask_mov_ps(a, _mm512_test_epi32_mask(i, i), b)
typedef __m512i kl_piecewise_integers;
#define AS_INTEGERS _mm512_castps_si512
#define AS_FLOATS _mm512_castsi512_ps
#define FMA _mm512_fmadd_ps
#define IN_FIRST_HALF(i) false
#else
#define FLOAT(op, ...) _mm256_##op(__VA_ARGS__)
#define LOOK_UP(row)                                                                         \
    (first_half ? _mm256_permutevar8x32_ps(_mm256_loadu_ps(t[row]), i)                       \
                : _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(t[row]), i),     \
                                   _mm256_permutevar8x32_ps(_mm256_loadu_ps(t[row] + 8), i), \
                                   _mm256_castsi256_ps(_mm256_slli_epi32(i, 28))))
#define IN_FIRST_HALF(i) (_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(i, 28))) == 0)
#define INTEGER(op, ...) _mm256_##op(__VA_ARGS__)
#define OTHERWISE(i, a, b) \
    _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(i, _mm256_setzero_si256())))
typedef __m256i kl_piecewise_integers;
#define AS_INTEGERS _mm256_castps_si256
#define AS_FLOATS _mm256_castsi256_ps
#define FMA _mm256_fmadd_ps
#endif
/* f(a) for a >= 0 in columns i; first_half: all of them are below 8. */
static inline __attribute__((always_inline)) kl_simd
kl_piecewise_of(kl_piecewise t, kl_simd a, kl_piecewise_integers i, bool first_half) {
    kl_simd d = a - LOOK_UP(KL_PIECEWISE_C), base = OTHERWISE(i, a, LOOK_UP(KL_PIECEWISE_BASE));
    kl_simd q = LOOK_UP(KL_PIECEWISE_LAST);
#pragma GCC unroll 8
    for (int k = KL_PIECEWISE_LAST - 1; k >= KL_PIECEWISE_Q; k--) q = FMA(q, d, LOOK_UP(k));
    return FMA(d, q, base);
}

static inline void kl_piecewise_runs(kl_piecewise t, float most, int64_t n, float *y,
                                     const float *x) {
    const kl_simd limit = kl_simd_set(most);
    const kl_piecewise_integers sign = AS_INTEGERS(kl_simd_set(-0.0f));
    for (n *= KL_MATH_RUN; n > 0; n -= KL_SIMD, x += KL_SIMD, y += KL_SIMD) {
        kl_math_ahead(x, y);
        kl_simd v = kl_simd_load_f32(x);
        kl_simd a = FLOAT(min_ps, limit, FLOAT(andnot_ps, AS_FLOATS(sign), v)); /* a NaN is kept */
        kl_piecewise_integers i = INTEGER(srli_epi32, AS_INTEGERS(a), KL_PIECEWISE_SHIFT);
        i = INTEGER(sub_epi32, i, INTEGER(set1_epi32, KL_PIECEWISE_FIRST));
        i = INTEGER(max_epi32, i, INTEGER(set1_epi32, 0));
        kl_simd q =
            IN_FIRST_HALF(i) ? kl_piecewise_of(t, a, i, true) : kl_piecewise_of(t, a, i, false);
        kl_simd_store_f32(y, FLOAT(or_ps, q, FLOAT(and_ps, AS_FLOATS(sign), v)));
    }
}
#undef FLOAT
#undef LOOK_UP
#undef INTEGER
#undef OTHERWISE
#undef AS_INTEGERS
#undef AS_FLOATS
#undef FMA
#undef IN_FIRST_HALF
