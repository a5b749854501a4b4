/* quantized_words.h - vectors of the words of a quantized matrix, and the codes in them. For
 * quantized_few.c and quantized_many.c. */
#pragma once
#include "backend/cpu/quantized/quantized_matmul.h"
#include "backend/cpu/vector/lanes.h"

enum { LANES = KL_VECTOR / 4 };
typedef kl_vec_f32 vec;
typedef kl_loose_f32 loose;
typedef uint32_t word_vec __attribute__((vector_size(KL_VECTOR)));
typedef int32_t int_vec __attribute__((vector_size(KL_VECTOR)));
typedef uint32_t loose_words __attribute__((vector_size(KL_VECTOR), aligned(4)));

#ifdef __AVX2__
#include "backend/cpu/quantized/quantized_x86.h"
#endif

/* The form of the codes in a row. Codes of 2, 3, 5 and 6 bits were unpacked to bytes. */
enum way { NIBBLES, BYTES, E2M1, E4M3 };

static inline enum way way_of(const struct kl_qmm *q) {
    if (kl_quant_has_biases(q->f.mode)) return q->f.bits == 4 ? NIBBLES : BYTES;
    return kl_quant_numbers_are(q->f.mode, KL_NUMBERS_E4M3) ? E4M3 : E2M1;
}

/* Whether code e of a word is converted where it stands, 16^e or 256^e times as large as it is,
 * which saves a shift. Then x is that much smaller: exact, unless it is below 2^-102. */
static inline bool in_place(enum way way, int e) {
#if defined(__AVX512F__) /* nibbles are looked up there */
    return way == BYTES && e < 3;
#else
    return way == NIBBLES ? e < 7 : way == BYTES && e < 3;
#endif
}

/* The sum of n numbers, a multiple of 16, in 16 lanes that are joined by halving. */
static inline float sum_of(const float *x, int64_t n) {
    float lane[16] = {0};
    for (int64_t i = 0; i < n; i += 16) KL_LANES(k, 16) lane[k] += x[i + k];
    KL_HALVE_16(KL_LANE_SUM, lane);
    return lane[0];
}

/* Element e of each word as float32; `way` and e are constants. */
static inline __attribute__((always_inline)) vec element(enum way way, word_vec w, int e) {
    const int bits = way == NIBBLES || way == E2M1 ? 4 : 8, top = 32 / bits - 1;
    if (in_place(way, e))
        return __builtin_convertvector((int_vec)(w & ((1u << bits) - 1) << bits * e), vec);
    const int_vec code = (int_vec)(e == top ? w >> bits * e : (w >> bits * e) & ((1u << bits) - 1));
#if defined(__AVX512F__)
    if (way == NIBBLES) {
        const vec table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        return looked_up(table, (int_vec)(w >> 4 * e));
    }
#endif
    if (way == NIBBLES || way == BYTES) return __builtin_convertvector(code, vec);
    if (way == E2M1) { /* twice the number */
#if defined(__AVX512F__)
        const vec table = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
        return looked_up(table, (int_vec)(w >> 4 * e));
#elif defined(__AVX2__)
        const int_vec two = (int_vec)e2m1_bytes((e % 2 ? w >> 4 : w) & 0x0f0f0f0fu);
        return __builtin_convertvector((two << (24 - e / 2 * 8)) >> 24, vec);
#else
        const int_vec m = code & 7; /* a comparison gives -1 where it holds */
        const int_vec v = m - (m > 4) - (m > 5) - 3 * (m > 6), minus = code > 7;
        return __builtin_convertvector((v ^ minus) - minus, vec);
#endif
    }
    const int_vec m = code & 127, sign = (code & 128) << 24;
    const int_vec large = (m << 20) + 0x3c000000, none = (m == 127) & 0x7fc00000;
    const int_vec small = (int_vec)(__builtin_convertvector(m, vec) * 0x1p-9f), is_small = m < 8;
    return (vec)((small & is_small) | (large & ~is_small) | none | sign);
}
