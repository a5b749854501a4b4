/* matvec.c - see matvec.h. 16-bit floats are widened in registers. */
#include "backend/cpu/matmul/matvec.h"

#include "backend/cpu/matmul/products.h"
#if defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif

#ifdef __AVX512F__ /* registers for several rows that share what is loaded of the matrix */
#define SHARE_ROWS 1
#else
#define SHARE_ROWS 0
#endif
enum {
    PHASES = KL_MATVEC_PHASES,
    MOST_ROWS = 4,
    GROUP = VECTOR == 16 ? 4 : 8,
    SUMS_BYTES = 64 << 10 /* of partial sums: rows are read 4 KB at a time; L2 holds that easily */
};

static inline __attribute__((always_inline)) vec_f32 load_f32(const float *p) {
    return *(const loose_f32 *)p;
}
static inline __attribute__((always_inline)) vec_f64 load_f64(const double *p) {
    return *(const loose_f64 *)p;
}
/* A NaN becomes quiet in the first product. */
static inline __attribute__((always_inline)) vec_f32 load_bf16(const uint16_t *p) {
#if defined(__AVX512BW__) /* one instruction brings them to the upper halves, between zeros */
    static const _Alignas(64)
        uint16_t places[32] = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                               0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    __m512i v = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)p));
    return (vec_f32)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, _mm512_load_si512(places), v);
#elif defined(__AVX2__)
    return (vec_f32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
                                      16);
#else
    typedef uint16_t halves __attribute__((vector_size(VECTOR / 2), aligned(2)));
    typedef uint32_t words __attribute__((vector_size(VECTOR)));
    return (vec_f32)(__builtin_convertvector(*(const halves *)p, words) << 16);
#endif
}
#ifdef __F16C__
static inline __attribute__((always_inline))
#else
static __attribute__((noinline))
#endif
vec_f32
load_f16(const uint16_t *p) {
#if defined(__AVX512F__)
    return (vec_f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
    return (vec_f32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    vec_f32 v = {0};
    for (int i = 0; i < VECTOR / 4; i++) v[i] = kl_f16_load(p[i]);
    return v;
#endif
}

/* The sums of each of LANES vectors, added up by halving, in order. */
#if defined( \
    __AVX512F__) /* a step makes one vector of two: a third of the shuffles that turning them over takes */
static inline __attribute__((always_inline)) vec_f32 halved_f32(vec_f32 *lane) {
#pragma GCC unroll 4
    for (int w = 8; w > 0; w /= 2)
#pragma GCC unroll 8
        for (int l = 0; l < w; l++) {
            static const _Alignas(64) int others[9][16] = {
                [8] = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23},
                [4] = {4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27},
                [2] = {2, 3, 16, 17, 6, 7, 20, 21, 10, 11, 24, 25, 14, 15, 28, 29},
                [1] = {1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30}};
            static const uint16_t second[9] = {
                [8] = 0xff00, [4] = 0xf0f0, [2] = 0xcccc, [1] = 0xaaaa};
            __m512 a = (__m512)lane[l], b = (__m512)lane[l + w];
            __m512 other = _mm512_permutex2var_ps(a, _mm512_load_si512(others[w]), b);
            lane[l] = (vec_f32)_mm512_mask_blend_ps(second[w], a, b) + (vec_f32)other;
        }
    return lane[0];
}
#define HALVED(T)
#else
#define HALVED(T) HALVED_BY_TURNS(T)
#endif
#define HALVED_BY_TURNS(T)                                                           \
    static inline __attribute__((always_inline)) vec_##T halved_##T(vec_##T *lane) { \
        turn_##T(lane);                                                              \
        for (int w = (int)(sizeof *lane / sizeof lane[0][0]) / 2; w > 0; w /= 2)     \
            for (int l = 0; l < w; l++) lane[l] += lane[l + w];                      \
        return lane[0];                                                              \
    }
HALVED(f32)
HALVED_BY_TURNS(f64)

#define T float
#define S float
#define W uint32_t
#define NAME f32
#define COMPUTE f32
#define SHARES SHARE_ROWS
#include "backend/cpu/matmul/matvec.inc"
#define T float
#define S uint16_t
#define W uint32_t
#define NAME f16
#define COMPUTE f32
#define SHARES SHARE_ROWS
#include "backend/cpu/matmul/matvec.inc"
#define T float
#define S uint16_t
#define W uint32_t
#define NAME bf16
#define COMPUTE f32
#define SHARES SHARE_ROWS
#include "backend/cpu/matmul/matvec.inc"
#define T double
#define S double
#define W uint64_t
#define NAME f64
#define COMPUTE f64
#define SHARES 0
#include "backend/cpu/matmul/matvec.inc"

void kl_cpu_few_rows(bool dots, enum kl_dtype dtype, int64_t rows, int64_t depth, int64_t cols,
                     const void *a, int64_t a_line, const void *b, int64_t line, void *out,
                     int64_t out_line) {
    void (*few)(bool, int64_t, int64_t, int64_t, const void *, int64_t, const void *, int64_t,
                void *, int64_t) = dtype == KL_F32   ? few_f32
                                   : dtype == KL_F16 ? few_f16
                                   : dtype == KL_F64 ? few_f64
                                                     : few_bf16;
    few(dots, rows, depth, cols, a, a_line, b, line, out, out_line);
}

void kl_cpu_phase(enum kl_dtype dtype, int64_t depth, int64_t cols, const void *a, const void *b,
                  int64_t line, void *to) {
    (dtype == KL_F32   ? phase_f32
     : dtype == KL_F16 ? phase_f16
     : dtype == KL_F64 ? phase_f64
                       : phase_bf16)(depth, cols, a, b, line, to);
}
void kl_cpu_join_phases(enum kl_dtype dtype, void *sums, int64_t cols) {
    for (int64_t n = PHASES / 2 * cols; n >= cols; n /= 2) {
        if (dtype == KL_F64)
            KL_EACH(i, n)((double *)sums)[i] += ((const double *)sums)[i + n];
        else
            KL_EACH(i, n)((float *)sums)[i] += ((const float *)sums)[i + n];
    }
}
