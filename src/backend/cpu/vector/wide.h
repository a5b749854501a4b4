/* wide.h - thirty-two elements of a short float type as float32 in registers, and the terms of sums of exponentials. For the kernels of this folder only.
 *
 * In structures of the widest registers, passed to functions that are always inlined: arrays of 16, and vectors wider than the registers, gcc keeps in memory. What is loaded lies in
 * the order of half_blocks.h, which sums and stores know. Every function gives the same bits in every variant; where there are no wide registers (KL_HAS_WIDE 0) kernels have loops of the same tree. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/math/exp.h"
#include "backend/cpu/vector/half_blocks.h"
#include "base/half.h"

#define KL_WIDE static inline __attribute__((always_inline, unused))
enum { KL_WIDE_LANES = 16, KL_PAIR_LANES = 32 };

/* Over n elements with room for whole vectors, which makes a third of the code that any n does. */
#define KL_EACH_WIDE(k, n)                                       \
    for (int64_t k##_0 = 0; k##_0 < (n); k##_0 += KL_WIDE_LANES) \
    KL_WIDE_LOOP for (int64_t k = k##_0; k < k##_0 + KL_WIDE_LANES; k++)
#ifdef __clang__
#define KL_WIDE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define KL_WIDE_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

/* ---- terms of sums of exponentials ----
 * e^x is wanted times a power of two that is the same for all x: x / ln 2 = n + f with |f| <= 1/2, and 2^f is a polynomial in f, fitted to the least largest relative error. The rounding to n
 * comes of adding `base`, 1.5 * 2^23 + 127 - c: 2^(n - c) is then the exponent that the low bits hold. |c| is below 2^22, and n - c from -126 to 127. For float32 within 2^-22.4, for 16-bit floats 2^-18.3.
 *
 * kl_term_down: the same for 16-bit floats, n being the whole number below and 0 <= f < 1, since AVX-512 has one instruction each for f and for the scaling. 2^f is f^2 + KL_TERM_SQUARE times another quadratic polynomial, which takes a coefficient less; they are
 * multiplied where terms are added up. Within 2^-17.3; x / ln 2 - c is rounded, by 2^-20 at most near the largest term, so both errors together are 2^-17.1. */
#define KL_TERM_BASE (0x1.8p23f + 127)
#define KL_TERM_LOG2_E 0x1.715476p0f
static const float kl_term_f32[] = {
    1, 0.693147004f, 0.240222424f, 0.0555073358f, 0.00967151299f, 0.00132647273f};
static const float kl_term_half[] = {1, 0.693124175f, 0.240240991f, 0.0559064262f, 0.00958285294f};
static const float kl_term_below[] = {0.0776694268f, 0.0538445041f, 0.0126293665f};
#define KL_TERM_SQUARE 12.875f
/* *power times what is returned. */
KL_WIDE float kl_term(const float *c, int n, float x, float base, float *power) {
    float t = __builtin_fmaf(x, KL_TERM_LOG2_E, base);
    float f = __builtin_fmaf(x, KL_TERM_LOG2_E, base - t), y = c[n - 1];
#pragma GCC unroll 8
    for (int i = n - 2; i >= 0; i--) y = __builtin_fmaf(y, f, c[i]);
    *power = kl_bits_f32(kl_f32_bits(t) << 23);
    return y;
}

KL_WIDE float kl_term_down(float x, float base, float *power) {
    float u = __builtin_fmaf(x, KL_TERM_LOG2_E, base - KL_TERM_BASE),
          n = (u + 0x1.8p23f) - 0x1.8p23f;
    n = n > u ? n - 1 : n;
    const float f = u - n, *c = kl_term_below;
    *power =
        __builtin_fmaf(f, f, KL_TERM_SQUARE) * kl_bits_f32(kl_f32_bits(n + KL_TERM_BASE) << 23);
    return __builtin_fmaf(f, __builtin_fmaf(f, c[2], c[1]), c[0]);
}

/* ---- around what they are taken ----
 * One power of two of every 64, the one that is near the largest of some x: so most blocks have that of the one before, and need not be looked for their largest element first. Which power
 * it is changes no digit of a sum, since 2^-126 and 2^127 are far. From KL_FAR on a float has no room for powers of two beside the digits; what is not a number counts as 0. */
enum { KL_FAR = 1 << 20 };
#define KL_LN2_F32 0x1.62e43p-1f
KL_WIDE float kl_centre_of(float top) {
    float x = fabsf(top) < KL_FAR ? top : 0;
    return (__builtin_fmaf(x, KL_TERM_LOG2_E / 64, 0x1.8p23f) - 0x1.8p23f) * 64;
}
KL_WIDE bool kl_is_far(float top) {
    return fabsf(top) >= KL_FAR && fabsf(top) < INFINITY;
}

#if defined __AVX512F__ && KL_HAS_HALF_BLOCKS
#define KL_HAS_WIDE 1
typedef struct {
    __m512 v;
} kl_wide;
#define KL_WIDE_2(x, y, f)            \
    (kl_wide) {                       \
        _mm512_##f##_ps((x).v, (y).v) \
    }
KL_WIDE kl_wide kl_wide_set(float x) {
    return (kl_wide){_mm512_set1_ps(x)};
}
KL_WIDE kl_wide kl_wide_load(const float *x) {
    return (kl_wide){_mm512_loadu_ps(x)};
}
KL_WIDE kl_wide kl_wide_load_bf16(const uint16_t *x) {
    __m512i v = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return (kl_wide){_mm512_castsi512_ps(_mm512_slli_epi32(v, 16))};
}
KL_WIDE kl_wide kl_wide_load_f16(const uint16_t *x) {
    return (kl_wide){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x))};
}
KL_WIDE void kl_wide_store(float *y, kl_wide x) {
    _mm512_storeu_ps(y, x.v);
}
KL_WIDE kl_wide kl_wide_fma(kl_wide a, kl_wide b, kl_wide c) {
    return (kl_wide){_mm512_fmadd_ps(a.v, b.v, c.v)};
}
/* The power of two whose biased exponent the low bits hold. */
KL_WIDE kl_wide kl_wide_power(kl_wide x) {
    return (kl_wide){_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x.v), 23))};
}
/* y, but 0 where x < least. */
KL_WIDE kl_wide kl_wide_from(kl_wide y, kl_wide x, kl_wide least) {
    return (kl_wide){_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, least.v, _CMP_NLT_UQ), y.v)};
}
/* kl_centre_of each. */
KL_WIDE kl_wide kl_wide_centre_of(kl_wide top) {
    const __m512 round = _mm512_set1_ps(0x1.8p23f);
    const __mmask16 near =
        _mm512_cmp_ps_mask(_mm512_abs_ps(top.v), _mm512_set1_ps(KL_FAR), _CMP_LT_OQ);
    __m512 x = _mm512_fmadd_ps(_mm512_maskz_mov_ps(near, top.v),
                               _mm512_set1_ps(KL_TERM_LOG2_E / 64), round);
    return (kl_wide){_mm512_mul_ps(_mm512_sub_ps(x, round), _mm512_set1_ps(64))};
}
/* u less the whole number below. */
KL_WIDE kl_wide kl_wide_fraction(kl_wide u) {
    enum { DOWN = 1 };
    return (kl_wide){_mm512_reduce_ps(u.v, DOWN)};
}
/* y 2^n, n being the whole number below u. */
KL_WIDE kl_wide kl_wide_scale(kl_wide y, kl_wide u) {
    return (kl_wide){_mm512_scalef_ps(y.v, u.v)};
}
#elif defined __AVX2__ && defined __FMA__ && KL_HAS_HALF_BLOCKS
#define KL_HAS_WIDE 1
typedef struct {
    __m256 v, w;
} kl_wide;
#define KL_WIDE_2(x, y, f)                                           \
    (kl_wide) {                                                      \
        _mm256_##f##_ps((x).v, (y).v), _mm256_##f##_ps((x).w, (y).w) \
    }
KL_WIDE kl_wide kl_wide_set(float x) {
    return (kl_wide){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
KL_WIDE kl_wide kl_wide_load(const float *x) {
    return (kl_wide){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}
KL_WIDE __m256 kl_wide_eight_bf16(const uint16_t *x) {
    __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
KL_WIDE kl_wide kl_wide_load_bf16(const uint16_t *x) {
    return (kl_wide){kl_wide_eight_bf16(x), kl_wide_eight_bf16(x + 8)};
}
KL_WIDE kl_wide kl_wide_load_f16(const uint16_t *x) {
    return (kl_wide){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + 8)))};
}
KL_WIDE void kl_wide_store(float *y, kl_wide x) {
    _mm256_storeu_ps(y, x.v);
    _mm256_storeu_ps(y + 8, x.w);
}
KL_WIDE kl_wide kl_wide_fma(kl_wide a, kl_wide b, kl_wide c) {
    return (kl_wide){_mm256_fmadd_ps(a.v, b.v, c.v), _mm256_fmadd_ps(a.w, b.w, c.w)};
}
KL_WIDE __m256 kl_wide_power_of(__m256 x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
}
KL_WIDE kl_wide kl_wide_power(kl_wide x) {
    return (kl_wide){kl_wide_power_of(x.v), kl_wide_power_of(x.w)};
}
KL_WIDE __m256 kl_wide_below(__m256 u) {
    return _mm256_round_ps(u, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
KL_WIDE kl_wide kl_wide_fraction(kl_wide u) {
    return (kl_wide){_mm256_sub_ps(u.v, kl_wide_below(u.v)),
                     _mm256_sub_ps(u.w, kl_wide_below(u.w))};
}
/* u is -126 at least here. */
KL_WIDE __m256 kl_wide_scaled(__m256 y, __m256 u) {
    const __m256 n = _mm256_add_ps(kl_wide_below(u), _mm256_set1_ps(KL_TERM_BASE));
    return _mm256_mul_ps(y, kl_wide_power_of(n));
}
KL_WIDE kl_wide kl_wide_scale(kl_wide y, kl_wide u) {
    return (kl_wide){kl_wide_scaled(y.v, u.v), kl_wide_scaled(y.w, u.w)};
}
KL_WIDE kl_wide kl_wide_from(kl_wide y, kl_wide x, kl_wide least) {
    return (kl_wide){_mm256_and_ps(_mm256_cmp_ps(x.v, least.v, _CMP_NLT_UQ), y.v),
                     _mm256_and_ps(_mm256_cmp_ps(x.w, least.w, _CMP_NLT_UQ), y.w)};
}
#else
#define KL_HAS_WIDE 0
#endif

#if KL_HAS_WIDE
KL_WIDE kl_wide kl_wide_add(kl_wide x, kl_wide y) {
    return KL_WIDE_2(x, y, add);
}
KL_WIDE kl_wide kl_wide_sub(kl_wide x, kl_wide y) {
    return KL_WIDE_2(x, y, sub);
}
KL_WIDE kl_wide kl_wide_mul(kl_wide x, kl_wide y) {
    return KL_WIDE_2(x, y, mul);
}
/* x > y ? x : y; so the second one where either is NaN. */
KL_WIDE kl_wide kl_wide_max(kl_wide x, kl_wide y) {
    return KL_WIDE_2(x, y, max);
}
/* The largest lane of numbers. */
KL_WIDE float kl_wide_largest(kl_wide x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps(x.v);
#else
    __m256 h = _mm256_max_ps(x.v, x.w);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
#endif
}

/* As kl_term, of m vectors (four at most): step by step of all of them, whose chains stand side by side then. */
KL_WIDE void kl_wide_terms(const float *c, int n, int m, const kl_wide *x, kl_wide base, kl_wide *y,
                           kl_wide *power) {
    const kl_wide log2_e = kl_wide_set(KL_TERM_LOG2_E);
    kl_wide f[4];
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) power[i] = kl_wide_fma(x[i], log2_e, base);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) f[i] = kl_wide_sub(base, power[i]);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) f[i] = kl_wide_fma(x[i], log2_e, f[i]);
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) y[i] = kl_wide_set(c[n - 1]);
#pragma GCC unroll 8
    for (int k = n - 2; k >= 0; k--)
#pragma GCC unroll 4
        for (int i = 0; i < m; i++) y[i] = kl_wide_fma(y[i], f[i], kl_wide_set(c[k]));
#pragma GCC unroll 4
    for (int i = 0; i < m; i++) power[i] = kl_wide_power(power[i]);
}
KL_WIDE kl_wide kl_wide_term(const float *c, int n, kl_wide x, kl_wide base, kl_wide *power) {
    kl_wide y;
    kl_wide_terms(c, n, 1, &x, base, &y, power);
    return y;
}

/* sum and what kl_term_down gives. */
KL_WIDE kl_wide kl_wide_add_down(kl_wide sum, kl_wide x, kl_wide base) {
    kl_wide c = kl_wide_sub(base, kl_wide_set(KL_TERM_BASE));
    kl_wide u = kl_wide_fma(x, kl_wide_set(KL_TERM_LOG2_E), c), f = kl_wide_fraction(u);
    kl_wide y = kl_wide_fma(f, kl_wide_set(kl_term_below[2]), kl_wide_set(kl_term_below[1]));
    y = kl_wide_fma(f, y, kl_wide_set(kl_term_below[0]));
    return kl_wide_fma(y, kl_wide_scale(kl_wide_fma(f, f, kl_wide_set(KL_TERM_SQUARE)), u), sum);
}

/* As kl_exp_around_f32. */
KL_WIDE kl_wide kl_wide_exp(kl_wide x, kl_wide base) {
    static const float ln2[] = {KL_EXP_LN2}, c[] = {KL_EXP_POLYNOMIAL};
    kl_wide t = kl_wide_fma(x, kl_wide_set(KL_EXP_LOG2_E), base), n = kl_wide_sub(t, base);
    kl_wide r = kl_wide_fma(n, kl_wide_set(ln2[0]), x), p = kl_wide_set(c[0]);
    r = kl_wide_fma(n, kl_wide_set(ln2[1]), r);
#pragma GCC unroll 8
    for (int i = 1; i < 7; i++) p = kl_wide_fma(p, r, kl_wide_set(c[i]));
    return kl_wide_mul(p, kl_wide_power(t));
}

/* ---- pairs ---- */
typedef struct {
    kl_wide a, b;
} kl_pair;
KL_WIDE kl_pair kl_pair_load(const float *x) {
    return (kl_pair){kl_wide_load(x), kl_wide_load(x + KL_WIDE_LANES)};
}
KL_WIDE void kl_pair_store(float *y, kl_pair x) {
    kl_wide_store(y, x.a);
    kl_wide_store(y + KL_WIDE_LANES, x.b);
}
KL_WIDE kl_pair kl_pair_set(float x) {
    return (kl_pair){kl_wide_set(x), kl_wide_set(x)};
}
/* Sums and stores of float32 and float16 take lanes in order, those of bfloat16 in that of its loads. */
KL_WIDE kl_pair kl_pair_load_f32(const float *x) {
    return kl_pair_load(x);
}
KL_WIDE void kl_pair_store_f32(float *y, kl_pair x) {
    kl_pair_store(y, x);
}
#define KL_PAIR_OF(type)                                        \
    KL_WIDE kl_pair kl_pair_load_##type(const uint16_t *x) {    \
        _Alignas(64) float room[KL_HALVES];                     \
        kl_load_##type(room, x);                                \
        return kl_pair_load(room);                              \
    }                                                           \
    KL_WIDE void kl_pair_store_##type(uint16_t *y, kl_pair x) { \
        _Alignas(64) float room[KL_HALVES];                     \
        kl_pair_store(room, x);                                 \
        kl_store_##type(y, room);                               \
    }
KL_PAIR_OF(bf16)
KL_PAIR_OF(f16)

/* Of the elements' order in memory: i and i + 16 are joined, then i and i + 8, 4, 2, 1. */
KL_WIDE __m128 kl_quarter(__m256 x) {
    return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}
KL_WIDE __m256 kl_half_sum(kl_wide x) {
#ifdef __AVX512F__
    return _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
#else
    return _mm256_add_ps(x.v, x.w);
#endif
}
KL_WIDE float kl_quarter_sum(__m128 q) {
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
KL_WIDE float kl_pair_sum_f32(kl_pair x) {
    return kl_quarter_sum(kl_quarter(kl_half_sum(kl_wide_add(x.a, x.b))));
}
#define kl_pair_sum_f16 kl_pair_sum_f32
KL_WIDE float kl_pair_sum_bf16(kl_pair x) {
#ifdef __AVX512F__
    __m256 even = kl_half_sum(x.a), odd = kl_half_sum(x.b);
#else
    kl_wide s = kl_wide_add(x.a, x.b);
    __m256 even = s.v, odd = s.w;
#endif
    /* Two quarters at a time: lanes i and i + 2 of both, then i and i + 1. */
    __m128 e = kl_quarter(even), o = kl_quarter(odd);
    __m128 s2 = _mm_add_ps(_mm_movelh_ps(e, o), _mm_movehl_ps(o, e));
    __m128 s1 = _mm_add_ps(s2, _mm_movehdup_ps(s2));
    return _mm_cvtss_f32(_mm_add_ss(s1, _mm_movehl_ps(s1, s1)));
}
/* Where element k of a block of bfloat16 is after a load. */
KL_WIDE int kl_place_bf16(int k) {
#ifdef __AVX512F__
    return k % 2 * 16 + k / 2;
#else
    return k / 16 * 16 + k % 2 * 8 + k % 16 / 2;
#endif
}

/* Element k: what the lanes of v[k] give, joined by halving. */
#ifdef __AVX512F__
#define KL_FOLD(name, op, one)                                                                \
    KL_WIDE void name(float *y, const kl_wide *v) {                                           \
        __m512 q[4], p[2];                                                                    \
        for (int e = 0; e < 4; e++) {                                                         \
            __m512 a = v[e].v, b = v[e + 4].v, c = v[e + 8].v, d = v[e + 12].v;               \
            a = op(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));       \
            c = op(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));       \
            q[e] = op(_mm512_shuffle_f32x4(a, c, 0x88), _mm512_shuffle_f32x4(a, c, 0xdd));    \
        }                                                                                     \
        for (int e = 0; e < 2; e++) {                                                         \
            __m512 a = q[2 * e], b = q[2 * e + 1];                                            \
            p[e] = op(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));          \
        }                                                                                     \
        _mm512_storeu_ps(                                                                     \
            y, op(_mm512_shuffle_ps(p[0], p[1], 0x88), _mm512_shuffle_ps(p[0], p[1], 0xdd))); \
    }
#else
#define KL_FOLD(name, op, one)                                    \
    KL_WIDE void name(float *y, const kl_wide *v) {               \
        for (int k = 0; k < KL_WIDE_LANES; k++) y[k] = one(v[k]); \
    }
#endif
#define KL_WIDE_SUM(v) kl_quarter_sum(kl_quarter(kl_half_sum(v)))
KL_FOLD(kl_wide_sums, _mm512_add_ps, KL_WIDE_SUM)
KL_FOLD(kl_wide_tops, _mm512_max_ps, kl_wide_largest)
/* The sums of 16 pairs, as kl_pair_sum has them. */
KL_WIDE void kl_pair_sums_f32(float *sum, const kl_pair *p) {
    kl_wide v[KL_WIDE_LANES];
    for (int k = 0; k < KL_WIDE_LANES; k++) v[k] = kl_wide_add(p[k].a, p[k].b);
    kl_wide_sums(sum, v);
}
KL_WIDE void kl_pair_sums_bf16(float *sum, const kl_pair *p) {
#ifdef __AVX512F__
    float odd[KL_WIDE_LANES];
    kl_wide a[KL_WIDE_LANES], b[KL_WIDE_LANES];
    for (int k = 0; k < KL_WIDE_LANES; k++) a[k] = p[k].a, b[k] = p[k].b;
    kl_wide_sums(sum, a);
    kl_wide_sums(odd, b);
    for (int k = 0; k < KL_WIDE_LANES; k++) sum[k] += odd[k];
#else
    for (int k = 0; k < KL_WIDE_LANES; k++) sum[k] = kl_pair_sum_bf16(p[k]);
#endif
}
#define kl_pair_sums_f16 kl_pair_sums_f32

/* ---- the largest of 16-bit floats, which are ordered as integers are: above 0 signed ones, below it unsigned ones the other way round ---- */
typedef struct {
#ifdef __AVX512F__
    __m512i above, below;
#else
    __m256i above[2], below[2];
#endif
} kl_extreme;
KL_WIDE kl_extreme kl_extreme_none(void) {
#ifdef __AVX512F__
    return (kl_extreme){_mm512_set1_epi16(INT16_MIN), _mm512_set1_epi16(-1)};
#else
    __m256i a = _mm256_set1_epi16(INT16_MIN), b = _mm256_set1_epi16(-1);
    return (kl_extreme){{a, a}, {b, b}};
#endif
}
/* Of 32 elements more. */
KL_WIDE kl_extreme kl_extreme_of(kl_extreme e, const uint16_t *x) {
#ifdef __AVX512F__
    __m512i v = _mm512_loadu_si512(x);
    return (kl_extreme){_mm512_max_epi16(e.above, v), _mm512_min_epu16(e.below, v)};
#else
    for (int k = 0; k < 2; k++) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(x + 16 * k));
        e.above[k] = _mm256_max_epi16(e.above[k], v);
        e.below[k] = _mm256_min_epu16(e.below[k], v);
    }
    return e;
#endif
}
/* As bits, of each of 32. */
KL_WIDE void kl_extreme_each(kl_extreme e, uint16_t *top) {
    int16_t above[KL_HALVES];
    uint16_t below[KL_HALVES];
    memcpy(above, &e.above, sizeof above);
    memcpy(below, &e.below, sizeof below);
    for (int k = 0; k < KL_HALVES; k++) top[k] = above[k] < 0 ? below[k] : (uint16_t)above[k];
}
/* And of all of them, by the instruction that finds the smallest of eight unsigned numbers. */
KL_WIDE uint16_t kl_extreme_one(kl_extreme e) {
#ifdef __AVX512F__
    __m256i above = _mm256_max_epi16(_mm512_castsi512_si256(e.above),
                                     _mm512_extracti64x4_epi64(e.above, 1)),
            below = _mm256_min_epu16(_mm512_castsi512_si256(e.below),
                                     _mm512_extracti64x4_epi64(e.below, 1));
#else
    __m256i above = _mm256_max_epi16(e.above[0], e.above[1]),
            below = _mm256_min_epu16(e.below[0], e.below[1]);
#endif
    __m128i a = _mm_max_epi16(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1)),
            b = _mm_min_epu16(_mm256_castsi256_si128(below), _mm256_extracti128_si256(below, 1));
    int high = 0x7fff ^ (uint16_t)_mm_cvtsi128_si32(
                            _mm_minpos_epu16(_mm_xor_si128(a, _mm_set1_epi16(0x7fff))));
    int low = _mm_cvtsi128_si32(_mm_minpos_epu16(b));
    return (uint16_t)(high & 0x8000 ? low : high);
}
/* Of both. */
KL_WIDE kl_extreme kl_extreme_join(kl_extreme e, kl_extreme f) {
#ifdef __AVX512F__
    return (kl_extreme){_mm512_max_epi16(e.above, f.above), _mm512_min_epu16(e.below, f.below)};
#else
    for (int k = 0; k < 2; k++) {
        e.above[k] = _mm256_max_epi16(e.above[k], f.above[k]);
        e.below[k] = _mm256_min_epu16(e.below[k], f.below[k]);
    }
    return e;
#endif
}
#endif
