/* sort_quick_avx512.h - a quicksort of uint32_t in vectors of 16, as static functions of each file
 * that includes it. A partition writes elements below the pivot over what it has read, and the
 * others to `room`; it packs the lanes of a comparison (as Bramas 2017, "A novel hybrid quicksort
 * algorithm vectorized using AVX-512", but not in place). Few elements are sorted in registers by
 * Batcher's bitonic network. */
#pragma once
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    KL_QUICK_FEW = 64, /* this many elements or fewer are sorted in registers */
    /* with this many elements or more the pivot is the median of nine elements, else of three */
    KL_QUICK_MEDIANS = 256,
    /* The most nested partitions; beyond it kl_quick_sort fails and the caller sorts in another
     * way. */
    KL_QUICK_DEPTH = 40
};

/* Compares each lane with its partner's: lanes of `high` keep the larger value. */
static inline __m512i kl_quick_step(__m512i v, __m512i partner, __mmask16 high) {
    return _mm512_mask_max_epu32(_mm512_min_epu32(v, partner), high, v, partner);
}

/* Sorts lanes that are bitonic: they rise and then fall, or fall and then rise. */
static inline __m512i kl_quick_merge(__m512i v) {
    v = kl_quick_step(v, _mm512_shuffle_i32x4(v, v, 0x4e), 0xff00);
    v = kl_quick_step(v, _mm512_shuffle_i32x4(v, v, 0xb1), 0xf0f0);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
    return kl_quick_step(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
}

static inline __m512i kl_quick_reverse(__m512i v) {
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), v);
}

static inline __m512i kl_quick_sort_lanes(__m512i v) {
    __m512i eighths = _mm512_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0x1b), 0xcccc);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
    v = kl_quick_step(v, _mm512_permutexvar_epi32(eighths, v), 0xf0f0);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
    v = kl_quick_step(v, kl_quick_reverse(v), 0xff00);
    v = kl_quick_step(v, _mm512_shuffle_i32x4(v, v, 0xb1), 0xf0f0);
    v = kl_quick_step(v, _mm512_shuffle_epi32(v, 0x4e), 0xcccc);
    return kl_quick_step(v, _mm512_shuffle_epi32(v, 0xb1), 0xaaaa);
}

/* Two sorted vectors become one sorted sequence. */
static inline void kl_quick_join(__m512i *a, __m512i *b) {
    __m512i reversed = kl_quick_reverse(*b);
    *b = kl_quick_merge(_mm512_max_epu32(*a, reversed));
    *a = kl_quick_merge(_mm512_min_epu32(*a, reversed));
}

/* The mask of the lanes of vector k that hold one of n elements. */
static inline __mmask16 kl_quick_lanes(int64_t n, int k) {
    int64_t left = n - 16 * k;
    return left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
}

static void kl_quick_few(uint32_t *x, int64_t n) {
    __m512i most = _mm512_set1_epi32(-1), v[4];
    int vectors = n <= 16 ? 1 : n <= 32 ? 2 : 4;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        v[k] = _mm512_mask_loadu_epi32(most, kl_quick_lanes(n, k), x + 16 * k);
    v[0] = kl_quick_sort_lanes(v[0]);
    if (vectors > 1) {
        v[1] = kl_quick_sort_lanes(v[1]);
        kl_quick_join(&v[0], &v[1]);
    }
    if (vectors > 2) {
        v[2] = kl_quick_sort_lanes(v[2]);
        v[3] = kl_quick_sort_lanes(v[3]);
        kl_quick_join(&v[2], &v[3]);
        __m512i a = kl_quick_reverse(v[3]), b = kl_quick_reverse(v[2]);
        __m512i low[2] = {_mm512_min_epu32(v[0], a), _mm512_min_epu32(v[1], b)};
        __m512i high[2] = {_mm512_max_epu32(v[0], a), _mm512_max_epu32(v[1], b)};
        v[0] = kl_quick_merge(_mm512_min_epu32(low[0], low[1]));
        v[1] = kl_quick_merge(_mm512_max_epu32(low[0], low[1]));
        v[2] = kl_quick_merge(_mm512_min_epu32(high[0], high[1]));
        v[3] = kl_quick_merge(_mm512_max_epu32(high[0], high[1]));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) _mm512_mask_storeu_epi32(x + 16 * k, kl_quick_lanes(n, k), v[k]);
}

static inline uint32_t kl_quick_middle(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    high = high < c ? high : c;
    return low < high ? high : low;
}

/* Partitions x: elements below the pivot (or up to it) come first, then the others. Returns
 * the number of elements that come first. */
static inline __attribute__((always_inline)) int64_t
kl_quick_part(bool up_to, uint32_t *x, uint32_t *room, int64_t n, uint32_t pivot) {
    __m512i p = _mm512_set1_epi32((int)pivot);
    int64_t front = 0, back = 0, i = 0;
    for (; i + 16 <= n;
         /* Stores are whole vectors. They may overwrite elements beyond their own, which have been
          * read already or are written again. */
         i += 16) {
        __m512i v = _mm512_loadu_si512(x + i);
        __mmask16 m = up_to ? _mm512_cmple_epu32_mask(v, p) : _mm512_cmplt_epu32_mask(v, p);
        int some = __builtin_popcount(m);
        _mm512_storeu_si512(x + front, _mm512_maskz_compress_epi32(m, v));
        _mm512_storeu_si512(room + back, _mm512_maskz_compress_epi32(_mm512_knot(m), v));
        front += some;
        back += 16 - some;
    }
    if (i < n) {
        __mmask16 there = kl_quick_lanes(n - i, 0);
        __m512i v = _mm512_mask_loadu_epi32(p, there, x + i);
        __mmask16 m =
            (up_to ? _mm512_cmple_epu32_mask(v, p) : _mm512_cmplt_epu32_mask(v, p)) & there;
        int some = __builtin_popcount(m), others = (int)(n - i) - some;
        _mm512_mask_storeu_epi32(x + front, kl_quick_lanes(some, 0),
                                 _mm512_maskz_compress_epi32(m, v));
        _mm512_mask_storeu_epi32(room + back, kl_quick_lanes(others, 0),
                                 _mm512_maskz_compress_epi32(there & (__mmask16)~m, v));
        front += some;
        back += others;
    }
    for (i = 0; i + 16 <= back; i += 16)
        _mm512_storeu_si512(x + front + i, _mm512_loadu_si512(room + i));
    __mmask16 rest = kl_quick_lanes(back - i, 0);
    _mm512_mask_storeu_epi32(x + front + i, rest, _mm512_maskz_loadu_epi32(rest, room + i));
    return front;
}

/* Sorts x[0 .. n-1]; room is memory for n elements. Returns false where too many partitions were
 * uneven; x then has the same elements in some order. */
static inline bool kl_quick_sort(uint32_t *x, uint32_t *room, int64_t n, int depth) {
    while (n > KL_QUICK_FEW) {
        if (depth-- == 0) return false;
        int64_t s = n / 8;
        uint32_t pivot = kl_quick_middle(x[s], x[4 * s], x[7 * s]);
        if (n > KL_QUICK_MEDIANS)
            pivot = kl_quick_middle(pivot, kl_quick_middle(x[0], x[2 * s], x[5 * s]),
                                    kl_quick_middle(x[3 * s], x[6 * s], x[n - 1]));
        int64_t front = kl_quick_part(false, x, room, n, pivot);
        /* No element is smaller than the pivot, so elements equal to it are at their place. */
        if (front == 0)
            front = kl_quick_part(true, x, room, n, pivot);
        else if (!kl_quick_sort(x, room, front, depth))
            return false;
        x += front;
        n -= front;
    }
    if (n > 1) kl_quick_few(x, n);
    return true;
}
