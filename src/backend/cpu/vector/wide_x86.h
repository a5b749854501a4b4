/* wide_x86.h - what lanes of kl_wide and kl_pair give together, for both x86 widths: sums, largest
 * elements, and the largest of 16-bit floats. For wide.h, which includes it. */
#include <immintrin.h>

/* The largest lane of a vector without NaN. */
KL_INLINE float kl_wide_largest(kl_wide x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps(x.v);
#else
    __m256 h = _mm256_max_ps(x.v, x.w);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
#endif
}

/* Sums in the order of memory: element i is joined with i + 16, then with i + 8, 4, 2, 1. */
KL_INLINE __m128 kl_quarter(__m256 x) {
    return _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
}
KL_INLINE __m256 kl_half_sum(kl_wide x) {
#ifdef __AVX512F__
    return _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
#else
    return _mm256_add_ps(x.v, x.w);
#endif
}
KL_INLINE float kl_quarter_sum(__m128 q) {
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
KL_INLINE float kl_pair_sum_f32(kl_pair x) {
    return kl_quarter_sum(kl_quarter(kl_half_sum(kl_wide_add(x.a, x.b))));
}
#define kl_pair_sum_f16 kl_pair_sum_f32
KL_INLINE float kl_pair_sum_bf16(kl_pair x) {
#ifdef __AVX512F__
    __m256 even = kl_half_sum(x.a), odd = kl_half_sum(x.b);
#else
    kl_wide s = kl_wide_add(x.a, x.b);
    __m256 even = s.v, odd = s.w;
#endif
    /* Two quarters at a time: lanes i and i + 2 of both are joined, then lanes i and i + 1. */
    __m128 e = kl_quarter(even), o = kl_quarter(odd);
    __m128 s2 = _mm_add_ps(_mm_movelh_ps(e, o), _mm_movehl_ps(o, e));
    __m128 s1 = _mm_add_ps(s2, _mm_movehdup_ps(s2));
    return _mm_cvtss_f32(_mm_add_ss(s1, _mm_movehl_ps(s1, s1)));
}
/* Lane k of y is the join of the lanes of v[k], by halving. */
#ifdef __AVX512F__
#define KL_FOLD(name, op, one)                                                                \
    KL_INLINE void name(float *y, const kl_wide *v) {                                         \
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
    KL_INLINE void name(float *y, const kl_wide *v) {             \
        for (int k = 0; k < KL_WIDE_LANES; k++) y[k] = one(v[k]); \
    }
#endif
#define KL_WIDE_SUM(v) kl_quarter_sum(kl_quarter(kl_half_sum(v)))
KL_FOLD(kl_wide_sums, _mm512_add_ps, KL_WIDE_SUM)
KL_FOLD(kl_wide_tops, _mm512_max_ps, kl_wide_largest)
/* The sums of 16 pairs, as kl_pair_sum_f32 and kl_pair_sum_bf16 compute them. */
KL_INLINE void kl_pair_sums_f32(float *sum, const kl_pair *p) {
    kl_wide v[KL_WIDE_LANES];
    for (int k = 0; k < KL_WIDE_LANES; k++) v[k] = kl_wide_add(p[k].a, p[k].b);
    kl_wide_sums(sum, v);
}
KL_INLINE void kl_pair_sums_bf16(float *sum, const kl_pair *p) {
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

/* ---- the largest of 16-bit floats. Their bits are ordered as integers are: numbers above 0 as
 * signed ones, numbers below 0 as unsigned ones in reverse order ---- */
typedef struct {
#ifdef __AVX512F__
    __m512i above, below;
#else
    __m256i above[2], below[2];
#endif
} kl_extreme;
KL_INLINE kl_extreme kl_extreme_none(void) {
#ifdef __AVX512F__
    return (kl_extreme){_mm512_set1_epi16(INT16_MIN), _mm512_set1_epi16(-1)};
#else
    __m256i a = _mm256_set1_epi16(INT16_MIN), b = _mm256_set1_epi16(-1);
    return (kl_extreme){{a, a}, {b, b}};
#endif
}
/* Joins the next 32 elements to e. */
KL_INLINE kl_extreme kl_extreme_of(kl_extreme e, const uint16_t *x) {
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
/* The bits of the largest element at each of the 32 positions of a run. */
KL_INLINE void kl_extreme_each(kl_extreme e, uint16_t *top) {
    int16_t above[KL_HALVES];
    uint16_t below[KL_HALVES];
    memcpy(above, &e.above, sizeof above);
    memcpy(below, &e.below, sizeof below);
    for (int k = 0; k < KL_HALVES; k++) top[k] = above[k] < 0 ? below[k] : (uint16_t)above[k];
}
/* The bits of the largest element of all, found by the instruction for the smallest of eight
 * unsigned numbers. */
KL_INLINE uint16_t kl_extreme_one(kl_extreme e) {
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
/* Joins e and f. */
KL_INLINE kl_extreme kl_extreme_join(kl_extreme e, kl_extreme f) {
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
