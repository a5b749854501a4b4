/* quantized_avx2.h - products of one row with affine codes of 4 and 8 bits, four rows of w at a
 * time, and e2m1 looked up in a register. For quantized_few.c, which includes it. */
#include "backend/cpu/quantized/quantized_x86.h"

static inline __attribute__((always_inline)) __m256 eight_floats(enum kl_dtype type, __m128i half) {
    if (type == KL_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* A scale in all lanes. */
static inline __attribute__((always_inline)) __m256 scale_at(enum kl_dtype type, const char *from) {
    uint16_t half;
    if (type == KL_F32) return _mm256_broadcast_ss((const float *)(const void *)from);
    memcpy(&half, from, sizeof half);
    if (type == KL_F16) return _mm256_cvtph_ps(_mm_set1_epi16((short)half));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_set1_epi16((short)half), 16));
}

/* Eight biases. */
static inline __attribute__((always_inline)) __m256 biases_at(enum kl_dtype type,
                                                              const char *from) {
    if (type == KL_F32) return _mm256_loadu_ps((const float *)(const void *)from);
    return eight_floats(type, _mm_loadu_si128((const __m128i *)(const void *)from));
}

/* How the last biases of a row, fewer than eight, are read without reading beyond them. Biases of
 * 16 bits are read as pairs, and the last one alone where their number is odd. Copying them one by
 * one and loading the copy as a vector would wait for the stores: rows of 576 numbers took 1.4
 * times as long. */
struct rest {
    __m256i floats;
    __m128i pairs, last;
    int64_t last_at; /* in bytes */
};

static inline __attribute__((always_inline)) struct rest rest_of(int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m128i half = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7);
    return (struct rest){.floats = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane),
                         .pairs =
                             _mm_cmpgt_epi32(_mm_set1_epi32(n / 2), _mm256_castsi256_si128(lane)),
                         .last = _mm_cmpeq_epi16(_mm_set1_epi16((short)(n % 2 ? n - 1 : -1)), half),
                         .last_at = n % 2 ? 2 * (n - 1) : 0};
}

/* The last biases, and zeros. */
static inline __attribute__((always_inline)) __m256
last_biases_at(enum kl_dtype type, const struct rest *rest, const char *from) {
    uint16_t last;
    if (type == KL_F32) return _mm256_maskload_ps((const float *)(const void *)from, rest->floats);
    memcpy(&last, from + rest->last_at, sizeof last);
    const __m128i pairs = _mm_maskload_epi32((const int *)(const void *)from, rest->pairs);
    return eight_floats(
        type, _mm_or_si128(pairs, _mm_and_si128(_mm_set1_epi16((short)last), rest->last)));
}

/* The same sums in all bits as those of dots_1 (quantized_dots.inc), for n rows of w, a multiple of
 * four, of whole vectors, none of which belongs to several groups. Bits and type are constants.
 * With two pointers in the place of eight everything stays in registers, but for the masks, which
 * gcc would keep there in the place of the sums. x is scaled for in_place. */
static inline __attribute__((always_inline)) void rows_of(int bits, enum kl_dtype type,
                                                          const struct one_row *r, const uint8_t *w,
                                                          const char *scales, const char *biases,
                                                          int64_t n, float *out) {
    const int per_word = 32 / bits, item = type == KL_F32 ? 4 : 2;
    const int64_t vectors = r->words / 8, row_bytes = r->w_row, per_row = r->s_row,
                  ahead = r->ahead, whole = r->groups / 8 * 8;
    const int shift = r->word_shift - 3;
    const struct rest rest = rest_of((int)(r->groups - whole));
    __m256i masks[8];
    for (int e = 0; e < per_word; e++)
        masks[e] = _mm256_set1_epi32((int)(((1u << bits) - 1) << bits * e));
    for (int64_t row = 0; row < n; row += 4) {
        __m256 all[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                         _mm256_setzero_ps()};
        for (int64_t i = 0; i < vectors; i++) {
            const uint8_t *words = w + 32 * i;
            const float *from = r->x + 8 * per_word * i;
            const char *scale = scales + (i >> shift) * item;
            __m256i v[4];
            __m256 sum[4];
            __asm__("" : "+m"(masks));
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                _mm_prefetch((const char *)(words + c * row_bytes + 4 * ahead), _MM_HINT_T0);
                v[c] = _mm256_loadu_si256((const __m256i *)(const void *)(words + c * row_bytes));
            }
#pragma GCC unroll 8
            for (int e = 0; e < per_word; e++) {
                const __m256 left = _mm256_loadu_ps(from + 8 * e);
#pragma GCC unroll 4
                for (int c = 0; c < 4; c++) {
                    const __m256i code = e < per_word - 1 ? _mm256_and_si256(v[c], masks[e])
                                                          : _mm256_srli_epi32(v[c], 32 - bits);
                    const __m256 y = _mm256_cvtepi32_ps(code);
                    sum[c] = e == 0 ? _mm256_mul_ps(left, y) : _mm256_fmadd_ps(left, y, sum[c]);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                all[c] = _mm256_fmadd_ps(sum[c], scale_at(type, scale + c * per_row), all[c]);
        }
        for (int64_t g = 0; g < whole; g += 8) {
            const __m256 sums = _mm256_loadu_ps(r->sums + g);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                all[c] = _mm256_fmadd_ps(biases_at(type, biases + c * r->b_row + g * item), sums,
                                         all[c]);
        }
        if (whole < r->groups) {
            const __m256 sums = _mm256_loadu_ps(r->sums + whole);
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                all[c] = _mm256_fmadd_ps(
                    last_biases_at(type, &rest, biases + c * r->b_row + whole * item), sums,
                    all[c]);
        }
        _mm_storeu_ps(out, totals(all));
        w += 4 * row_bytes;
        scales += 4 * per_row;
        biases += 4 * r->b_row;
        out += 4;
    }
}

/* rows_of for constant bits and type. */
#define ROWS_OF(name, bits, type)                                                                 \
    static __attribute__((noinline)) void name(const struct one_row *r, const uint8_t *w,         \
                                               const char *scales, const char *biases, int64_t n, \
                                               float *out) {                                      \
        rows_of(bits, type, r, w, scales, biases, n, out);                                        \
    }
ROWS_OF(rows_4_f32, 4, KL_F32)
ROWS_OF(rows_4_f16, 4, KL_F16)
ROWS_OF(rows_4_bf16, 4, KL_BF16)
ROWS_OF(rows_8_f32, 8, KL_F32)
ROWS_OF(rows_8_f16, 8, KL_F16)
ROWS_OF(rows_8_bf16, 8, KL_BF16)
