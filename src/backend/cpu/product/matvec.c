/* matvec.c - see matvec.h. 16-bit floats are widened in registers. */
#include "backend/cpu/product/matvec.h"

#include "backend/cpu/product/products.h"

/* 1: there are registers for several rows that use the same loaded vector of the matrix */
#ifdef __AVX512F__
#define SHARE_ROWS 1
#else
#define SHARE_ROWS 0
#endif
/* 1: two vectors of 16-bit floats are loaded at once, by load_two_NAME(p, y) */
#ifdef __aarch64__
#define LOADS_TWO 1
#define GROUPS_OF_16 1 /* there are registers for them */
#else
#define LOADS_TWO 0
#define GROUPS_OF_16 0
#endif
enum {
    PHASES = KL_MATVEC_PHASES,
    MOST_ROWS = 4,
    GROUP = KL_REGISTERS == 16 && KL_VECTOR == 16 ? 4 : 8,
    /* Rows of one phase that are added together where there are as many; then GROUP, then one. */
    MOST_GROUP = GROUPS_OF_16 ? 16 : GROUP,
    /* Bytes of partial sums: rows are read 4 KB at a time, and the sums stay in L2. */
    SUMS_BYTES = 64 << 10
};

static inline __attribute__((always_inline)) kl_vec_f32 load_f32(const float *p) {
    return *(const kl_loose_f32 *)p;
}
static inline __attribute__((always_inline)) kl_vec_f64 load_f64(const double *p) {
    return *(const kl_loose_f64 *)p;
}
#if defined __AVX512F__
#include "backend/cpu/product/matvec_avx512.h"
#elif defined __AVX2__ && defined __F16C__
#include "backend/cpu/product/matvec_avx2.h"
#elif defined __aarch64__
#include "backend/cpu/product/matvec_neon.h"
#else
/* The first product makes a NaN quiet. */
static inline __attribute__((always_inline)) kl_vec_f32 load_bf16(const uint16_t *p) {
    typedef uint16_t halves __attribute__((vector_size(KL_VECTOR / 2), aligned(2)));
    typedef uint32_t words __attribute__((vector_size(KL_VECTOR)));
    return (kl_vec_f32)(__builtin_convertvector(*(const halves *)p, words) << 16);
}
static __attribute__((noinline)) kl_vec_f32 load_f16(const uint16_t *p) {
    kl_vec_f32 v = {0};
    for (int i = 0; i < KL_VECTOR / 4; i++) v[i] = kl_f16_load(p[i]);
    return v;
}
#endif

/* How many of `left` rows of one phase are added next. */
static inline int group_of(int64_t left) {
    return left >= MOST_GROUP ? MOST_GROUP : left >= GROUP ? GROUP : 1;
}

/* Lane k of the result is the sum of the lanes of lane[k], joined by halving. The number of vectors
 * is the number of lanes. */
#define HALVED_BY_TRANSPOSING(name, T)                                               \
    static inline __attribute__((always_inline)) kl_vec_##T name(kl_vec_##T *lane) { \
        kl_vec_transpose_##T(lane);                                                  \
        for (int w = (int)(sizeof *lane / sizeof lane[0][0]) / 2; w > 0; w /= 2)     \
            for (int l = 0; l < w; l++) lane[l] += lane[l + w];                      \
        return lane[0];                                                              \
    }
#ifndef __AVX512F__
HALVED_BY_TRANSPOSING(halved_f32, f32)
#endif
HALVED_BY_TRANSPOSING(halved_f64, f64)

#define T float
#define S float
#define W uint32_t
#define NAME f32
#define COMPUTE f32
#define SHARES SHARE_ROWS
#define TWO 0
/* defines dots_run_f32, dots_f32, add_rows_f32, add_group_f32,
 * sums_f32, phase_f32, dots1_f32, sums1_f32, few_f32, dots2_f32,
 * sums2_f32, dots3_f32, sums3_f32, dots4_f32, sums4_f32 */
#include "backend/cpu/product/matvec.inc"
#define T float
#define S uint16_t
#define W uint32_t
#define NAME f16
#define COMPUTE f32
#define SHARES SHARE_ROWS
#define TWO LOADS_TWO
/* defines dots_run_f16, dots_f16, add_rows_f16, add_group_f16,
 * sums_f16, phase_f16, dots1_f16, sums1_f16, few_f16, dots2_f16,
 * sums2_f16, dots3_f16, sums3_f16, dots4_f16, sums4_f16 */
#include "backend/cpu/product/matvec.inc"
#define T float
#define S uint16_t
#define W uint32_t
#define NAME bf16
#define COMPUTE f32
#define SHARES SHARE_ROWS
#define TWO LOADS_TWO
/* defines dots_run_bf16, dots_bf16, add_rows_bf16, add_group_bf16,
 * sums_bf16, phase_bf16, dots1_bf16, sums1_bf16, few_bf16, dots2_bf16,
 * sums2_bf16, dots3_bf16, sums3_bf16, dots4_bf16, sums4_bf16 */
#include "backend/cpu/product/matvec.inc"
#define T double
#define S double
#define W uint64_t
#define NAME f64
#define COMPUTE f64
#define SHARES 0
#define TWO 0
/* defines dots_run_f64, dots_f64, add_rows_f64, add_group_f64,
 * sums_f64, phase_f64, dots1_f64, sums1_f64, few_f64 */
#include "backend/cpu/product/matvec.inc"

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
