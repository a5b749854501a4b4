/* short_rows_avx512.c - see short_rows.h. Each row is reduced to one vector, whose lanes are joined
 * by halving, for 16 rows at once: a step of halving, one shuffle and one operation, serves two
 * rows, then four, eight and at last all 16. */
#include "backend/cpu/reduce/short_rows.h"

#if KL_HAS_SHORT
#include <string.h>

enum {
    ROWS = 16,
    LANES = 16,
    HALF_LANES = 32, /* lanes of 16 bits in a vector */
    AHEAD = 4096,    /* as in reduce_joins.c */
};

/* Joins the vectors of two groups of rows to one vector by a step of halving: with distances of 8,
 * 4, 2 and 1 lanes. */
#define BY_8(JOIN, a, b) JOIN(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
#define BY_4(JOIN, a, b) JOIN(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
#define BY_2(JOIN, a, b) JOIN(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee))
#define BY_1(JOIN, a, b) JOIN(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd))
#define FOUR(JOIN, t, r) BY_4(JOIN, BY_8(JOIN, t[r], t[r + 4]), BY_8(JOIN, t[r + 8], t[r + 12]))
/* The result's lane r is the join of all lanes of t[r]. */
#define TREE(NAME, JOIN)                                                  \
    static __attribute__((noinline)) __m512 NAME(const __m512 *t) {       \
        return BY_1(JOIN, BY_2(JOIN, FOUR(JOIN, t, 0), FOUR(JOIN, t, 1)), \
                    BY_2(JOIN, FOUR(JOIN, t, 2), FOUR(JOIN, t, 3)));      \
    }
#define LARGER(a, b) \
    _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)))
TREE(sums_of, _mm512_add_ps)
TREE(largest_of, LARGER)

/* Finds the addresses of rows from .. from + 15. In place of rows that do not exist, it takes the
 * last row. */
static __attribute__((noinline)) void take_rows(const char **row, const void *x, int bits,
                                                const int64_t *offsets, int64_t from,
                                                int64_t rows) {
    int64_t some[ROWS];
    const int64_t *o = offsets + from;
    if (rows - from < ROWS) {
        for (int r = 0; r < ROWS; r++) some[r] = offsets[kl_min64(from + r, rows - 1)];
        o = some;
    }
    for (int r = 0; r < ROWS; r++) row[r] = (const char *)x + o[r] * (INT64_C(1) << bits);
}

/* Prefetches at a distance of AHEAD bytes after `row`. */
static inline void ask(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + AHEAD + at);
}

/* Reduces row r to the vector t[r]. A lane without elements is NONE, the neutral element. */
#define BY_LANES(NAME, FROM, V, LANES_OF, NONE, LOAD, LOAD_PART, JOIN, MASK_JOIN)          \
    static __attribute__((noinline)) void NAME(struct kl_order o, __m512 *t,               \
                                               const char *const *row, int64_t n) {        \
        const int64_t left = n % LANES_OF, whole = n - left;                               \
        const uint32_t mask = (UINT32_C(1) << left) - 1;                                   \
        (void)o;                                                                           \
        for (int r = 0; r < ROWS; r++) {                                                   \
            const FROM *x = (const FROM *)(const void *)row[r];                            \
            V v = NONE;                                                                    \
            ask(row[r], n *(int64_t)sizeof *x);                                            \
            if (whole) v = LOAD(x);                                                        \
            for (int64_t i = LANES_OF; i < whole; i += LANES_OF) v = JOIN(v, LOAD(x + i)); \
            if (left) v = MASK_JOIN(v, mask, v, LOAD_PART(mask, x + whole));               \
            memcpy(&t[r], &v, sizeof v);                                                   \
        }                                                                                  \
    }
#define PART_F32(mask, x) _mm512_maskz_loadu_ps((__mmask16)(mask), x)
#define HALF_PART(mask, x) _mm256_maskz_loadu_epi16((__mmask16)(mask), x)
#define PART_F16(mask, x) _mm512_cvtph_ps(HALF_PART(mask, x))
#define PART_BF16(mask, x) \
    _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(HALF_PART(mask, x)), 16))
#define MASK_ADD(v, mask, a, b) _mm512_mask_add_ps(v, (__mmask16)(mask), a, b)
#define MINUS_ZERO _mm512_set1_ps(-0.0f)
BY_LANES(lanes_f32, float, __m512, LANES, MINUS_ZERO, kl_simd_load_f32, PART_F32, _mm512_add_ps,
         MASK_ADD)
BY_LANES(lanes_f16, uint16_t, __m512, LANES, MINUS_ZERO, kl_simd_load_f16, PART_F16, _mm512_add_ps,
         MASK_ADD)
BY_LANES(lanes_bf16, uint16_t, __m512, LANES, MINUS_ZERO, kl_simd_load_bf16, PART_BF16,
         _mm512_add_ps, MASK_ADD)

/* The keys that kl_key32 and kl_key16 give. */
static inline __m512i keys_32(struct kl_order o, __m512i x) {
    __m512i lower = _mm512_and_si512(_mm512_srai_epi32(x, 31), _mm512_set1_epi32(INT32_MAX));
    __m512i key = _mm512_xor_si512(_mm512_xor_si512(x, lower), _mm512_set1_epi32((int)o.flip));
    return _mm512_sub_epi32(key, _mm512_set1_epi32((int)o.shift));
}
static inline __m512i keys_16(struct kl_order o, __m512i x) {
    __m512i lower = _mm512_and_si512(_mm512_srai_epi16(x, 15), _mm512_set1_epi16(INT16_MAX));
    __m512i key = _mm512_xor_si512(_mm512_xor_si512(x, lower), _mm512_set1_epi16((short)o.flip));
    return _mm512_sub_epi16(key, _mm512_set1_epi16((short)o.shift));
}
#define KEYS_32(x) keys_32(o, _mm512_loadu_si512(x))
#define KEYS_16(x) keys_16(o, _mm512_loadu_si512(x))
#define PART_32(mask, x) keys_32(o, _mm512_maskz_loadu_epi32((__mmask16)(mask), x))
#define PART_16(mask, x) keys_16(o, _mm512_maskz_loadu_epi16(mask, x))
#define MASK_32(v, mask, a, b) _mm512_mask_max_epi32(v, (__mmask16)(mask), a, b)
#define LOWEST_32 _mm512_set1_epi32(INT32_MIN)
#define LOWEST_16 _mm512_set1_epi16(INT16_MIN)
BY_LANES(lanes_32, uint32_t, __m512i, LANES, LOWEST_32, KEYS_32, PART_32, _mm512_max_epi32, MASK_32)
BY_LANES(lanes_16, uint16_t, __m512i, HALF_LANES, LOWEST_16, KEYS_16, PART_16, _mm512_max_epi16,
         _mm512_mask_max_epi16)

static inline __mmask16 first_of(int64_t rows) {
    return (__mmask16)(rows >= ROWS ? 0xffff : (1 << rows) - 1);
}

void kl_short_sums(enum kl_dtype dtype, float *out, const void *x, const int64_t *offsets,
                   int64_t rows, int64_t n) {
    const struct kl_order none = {0, 0};
    const char *row[ROWS];
    __m512 t[ROWS];
    for (int64_t from = 0; from < rows; from += ROWS) {
        take_rows(row, x, dtype == KL_F32 ? 2 : 1, offsets, from, rows);
        (dtype == KL_F32 ? lanes_f32 : dtype == KL_F16 ? lanes_f16 : lanes_bf16)(none, t, row, n);
        _mm512_mask_storeu_ps(out + from, first_of(rows - from), sums_of(t));
    }
}

/* The largest keys of 16 rows, as 32-bit numbers. */
static __attribute__((noinline)) __m512i largest(bool half, struct kl_order order,
                                                 const char *const *row, int64_t n) {
    __m512 t[ROWS];
    (half ? lanes_16 : lanes_32)(order, t, row, n);
    for (int r = 0; half && r < ROWS; r++) { /* one lane of 32 bits is made from two of 16 bits */
        const __m512i v = _mm512_castps_si512(t[r]);
        t[r] = _mm512_castsi512_ps(
            _mm512_srai_epi32(_mm512_max_epi16(v, _mm512_slli_epi32(v, 16)), 16));
    }
    return _mm512_castps_si512(largest_of(t));
}

void kl_short_extremes(bool half, struct kl_order order, void *out, const void *x,
                       const int64_t *offsets, int64_t rows, int64_t n) {
    const char *row[ROWS];
    for (int64_t from = 0; from < rows; from += ROWS) {
        take_rows(row, x, half ? 1 : 2, offsets, from, rows);
        __m512i v = largest(half, order, row, n);
        if (half)
            _mm256_mask_storeu_epi16((int16_t *)out + from, first_of(rows - from),
                                     _mm512_cvtepi32_epi16(v));
        else
            _mm512_mask_storeu_epi32((int32_t *)out + from, first_of(rows - from), v);
    }
}

/* place[r] becomes the position of the first element of row r that equals the number top[r] (both
 * zeros are equal), or 64 where top[r] is NaN. */
static void find_32(uint32_t *place, const char *const *row, int64_t n, const uint32_t *top) {
    const int64_t left = n % LANES, whole = n - left;
    const __mmask16 rest = first_of(left);
    for (int r = 0; r < ROWS; r++) {
        const float *x = (const float *)(const void *)row[r];
        const __m512 v = _mm512_castsi512_ps(_mm512_set1_epi32((int)top[r]));
        uint64_t found = 0;
        for (int64_t i = 0; i < whole; i += LANES)
            found |= (uint64_t)_mm512_cmp_ps_mask(kl_simd_load_f32(x + i), v, _CMP_EQ_OQ) << i;
        if (left)
            found |=
                (uint64_t)_mm512_mask_cmp_ps_mask(rest, PART_F32(rest, x + whole), v, _CMP_EQ_OQ)
                << whole;
        place[r] = (uint32_t)_tzcnt_u64(found);
    }
}
/* The same for 16-bit floats, compared by their bits. */
static void find_16(uint32_t *place, const char *const *row, int64_t n, const uint32_t *top) {
    for (int r = 0; r < ROWS; r++) {
        const uint16_t *x = (const uint16_t *)(const void *)row[r];
        const __m512i v = _mm512_set1_epi16((short)top[r]);
        const __m512i w = _mm512_set1_epi16((short)(top[r] & INT16_MAX ? top[r] : top[r] ^ 0x8000));
        uint64_t found = 0;
        for (int64_t i = 0; i < n; i += HALF_LANES) {
            __mmask32 mask = n - i < HALF_LANES ? (UINT32_C(1) << (n - i)) - 1 : UINT32_MAX;
            __m512i some = _mm512_maskz_loadu_epi16(mask, x + i);
            found |= (uint64_t)(_mm512_mask_cmpeq_epi16_mask(mask, some, v) |
                                _mm512_mask_cmpeq_epi16_mask(mask, some, w))
                     << i;
        }
        place[r] = (uint32_t)_tzcnt_u64(found);
    }
}

/* The position of the first NaN in a row. */
static uint32_t place_of_nan(bool half, const char *row, uint32_t inf) {
    for (uint32_t at = 0;; at++) {
        uint32_t x = half ? ((const uint16_t *)(const void *)row)[at]
                          : ((const uint32_t *)(const void *)row)[at];
        if ((x & (half ? INT16_MAX : INT32_MAX)) > inf) return at;
    }
}

void kl_short_places(bool half, struct kl_order order, uint32_t *out, const void *x,
                     const int64_t *offsets, int64_t rows, int64_t n) {
    const __m512i highest = _mm512_set1_epi32(half ? INT16_MAX : INT32_MAX);
    const uint32_t inf = (half ? INT16_MAX : INT32_MAX) - order.shift;
    const char *row[ROWS];
    uint32_t top[ROWS], few[ROWS];
    for (int64_t from = 0; from < rows; from += ROWS) {
        uint32_t *place = rows - from < ROWS ? few : out + from;
        take_rows(row, x, half ? 1 : 2, offsets, from, rows);
        __m512i v = largest(half, order, row, n);
        /* Converts keys to the bits of floats; a key of 16 bits is sign-extended. */
        v = _mm512_add_epi32(v, _mm512_set1_epi32((int)order.shift));
        v = _mm512_xor_si512(v, _mm512_set1_epi32((int)order.flip));
        if (half) v = _mm512_srai_epi32(_mm512_slli_epi32(v, 16), 16);
        v = _mm512_xor_si512(v, _mm512_and_si512(_mm512_srai_epi32(v, 31), highest));
        _mm512_storeu_si512(top, v);
        (half ? find_16 : find_32)(place, row, n, top);
        __mmask16 nan =
            _mm512_cmpgt_epu32_mask(_mm512_and_si512(v, highest), _mm512_set1_epi32((int)inf));
        for (; nan; nan &= (__mmask16)(nan - 1)) {
            int r = __builtin_ctz(nan);
            place[r] = place_of_nan(half, row[r], inf);
        }
        if (place == few) memcpy(out + from, few, (size_t)(rows - from) * sizeof *out);
    }
}
/* ---- rows of 64-bit elements ---- */

enum { SIDE_BY_SIDE = 64 /* rows */ };
typedef uint64_t eight __attribute__((vector_size(64), aligned(8)));

/* Takes runs of `half` elements to lo and to hi by turns. n is a multiple of 16. lo may be x. */
static void split_runs(const uint64_t *x, uint64_t *lo, uint64_t *hi, int64_t n, int half) {
    static const int64_t places[3][8] = {
        {0, 2, 4, 6, 8, 10, 12, 14}, {0, 1, 4, 5, 8, 9, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
    if (half == 8)
        for (int64_t i = 0; i < n; i += 16) {
            const eight a = *(const eight *)(x + i), b = *(const eight *)(x + i + 8);
            ask((const char *)(x + i), 128);
            *(eight *)(lo + i / 2) = a;
            *(eight *)(hi + i / 2) = b;
        }
    else {
        const __m512i first = _mm512_loadu_si512(places[half / 2]),
                      second = _mm512_add_epi64(first, _mm512_set1_epi64(half));
        for (int64_t i = 0; i < n; i += 16) {
            const __m512i a = _mm512_loadu_si512(x + i), b = _mm512_loadu_si512(x + i + 8);
            _mm512_storeu_si512(lo + i / 2, _mm512_permutex2var_epi64(a, first, b));
            _mm512_storeu_si512(hi + i / 2, _mm512_permutex2var_epi64(a, second, b));
        }
    }
}

void kl_short_halves(void (*fold)(void *a, const void *b, int64_t n), uint64_t *out,
                     const uint64_t *x, const int64_t *offsets, int64_t rows, int64_t n) {
    _Alignas(64) uint64_t lo[SIDE_BY_SIDE * LANES] = {0}, hi[SIDE_BY_SIDE * LANES];
    const int64_t wide = kl_min64(n, LANES);
    for (int64_t at = 0; at < rows; at += SIDE_BY_SIDE) {
        const int64_t some = kl_min64(SIDE_BY_SIDE, rows - at), all = kl_round_up(some, ROWS);
        const uint64_t *from = x + offsets[at];
        bool apart = some < SIDE_BY_SIDE || n > wide;
        for (int64_t r = 0; r < some; r++) apart |= offsets[at + r] != offsets[at] + r * n;
        if (apart) {
            for (int64_t r = 0; r < some; r++)
                memcpy(lo + r * wide, x + offsets[at + r], (size_t)wide * 8);
            from = lo;
        }
        for (int64_t part = wide; part < n; part += wide) {
            for (int64_t r = 0; r < some; r++)
                memcpy(hi + r * wide, x + offsets[at + r] + part, (size_t)wide * 8);
            fold(lo, hi, some * wide);
        }
        for (int64_t half = wide / 2; half; half /= 2, from = lo) {
            split_runs(from, lo, hi, 2 * half * all, (int)half);
            fold(lo, hi, half * all);
        }
        memcpy(out + at, lo, (size_t)some * 8);
    }
}
#else
typedef int kl_short_nothing; /* C requires at least one declaration in a file */
#endif
