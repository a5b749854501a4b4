/* dots_neon_bf16.c - see dots_neon_bf16.h. */
#include "backend/cpu/product/dots_neon_bf16.h"

#if defined __aarch64__ && defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#include <arm_neon.h>
#include <string.h>

#include "base/platform/processors.h"

bool kl_bfdot_there(void) {
    return kl_processors_have(KL_ARM_BF16);
}

#define FIXED static inline __attribute__((always_inline))
enum {
    PHASES = KL_BFDOT_PHASES,
    DEPTH = KL_BFDOT_DEPTH,
    LANES = 8,     /* elements of a vector */
    COLS = 4,      /* contiguous columns at a time */
    MOST_ROWS = 4, /* rows that use the same loaded vector of the matrix */
    GROUP = 4,     /* pairs of rows of the matrix that are added before sums are stored */
    WIDE = 2048,   /* elements of the sums of one phase: those of all phases stay in L2 */
};

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

FIXED bfloat16x8_t at(const uint16_t *from) {
    return vreinterpretq_bf16_u16(vld1q_u16(from));
}

/* ---- columns are contiguous ---- */

/* Adds one step of DEPTH elements to the sums of each row and column. */
FIXED void add_step(int rows, const uint16_t *a, int64_t a_line, const uint16_t *const *col,
                    int64_t k, float32x4_t (*sum)[COLS][2]) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        bfloat16x8_t x[MOST_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) x[r] = at(a + r * a_line + k + LANES * h);
#pragma GCC unroll 4
        for (int c = 0; c < COLS; c++) {
            const bfloat16x8_t y = at(col[c] + k + LANES * h);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) sum[r][c][h] = vbfdotq_f32(sum[r][c][h], x[r], y);
        }
    }
}

/* The last elements of each row and column, and zeros after them. */
FIXED void add_rest(int rows, int64_t n, const uint16_t *a, int64_t a_line,
                    const uint16_t *const *col, float32x4_t (*sum)[COLS][2]) {
    uint16_t x[MOST_ROWS * DEPTH] = {0}, y[COLS * DEPTH] = {0};
    const uint16_t *rest[COLS];
    for (int r = 0; r < rows; r++) memcpy(x + r * DEPTH, a + r * a_line, (size_t)n * sizeof *x);
    for (int c = 0; c < COLS; c++) {
        memcpy(y + c * DEPTH, col[c], (size_t)n * sizeof *y);
        rest[c] = y + c * DEPTH;
    }
    add_step(rows, x, DEPTH, rest, 0, sum);
}

FIXED float32x4_t joined(float32x4_t (*sum)[2]) {
    float32x4_t s[COLS];
#pragma GCC unroll 4
    for (int c = 0; c < COLS; c++) s[c] = vaddq_f32(sum[c][0], sum[c][1]);
    return vpaddq_f32(vpaddq_f32(s[0], s[1]), vpaddq_f32(s[2], s[3]));
}

FIXED void dots_of(int rows, int64_t depth, int64_t cols, const uint16_t *a, int64_t a_line,
                   const uint16_t *b, int64_t line, float *out, int64_t out_line) {
    const int64_t whole = depth / DEPTH * DEPTH;
    for (int64_t j = 0; j < cols; j += COLS) {
        const int64_t n = least(COLS, cols - j);
        const uint16_t *col[COLS];
        float32x4_t sum[MOST_ROWS][COLS][2];
        for (int c = 0; c < COLS; c++) col[c] = b + (j + least(c, n - 1)) * line;
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int c = 0; c < COLS; c++) sum[r][c][0] = sum[r][c][1] = vdupq_n_f32(0);
        for (int64_t k = 0; k < whole; k += DEPTH) add_step(rows, a, a_line, col, k, sum);
        if (whole < depth) {
            for (int c = 0; c < COLS; c++) col[c] += whole;
            add_rest(rows, depth - whole, a + whole, a_line, col, sum);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const float32x4_t y = joined(sum[r]);
            memcpy(out + r * out_line + j, &y, (size_t)n * sizeof *out);
        }
    }
}

/* ---- rows are contiguous ---- */

/* Two neighbours along k, in all lanes; the second is 0 where k ends before it. */
FIXED bfloat16x8_t pair_of(const uint16_t *a, bool two) {
    return vreinterpretq_bf16_u32(vdupq_n_u32(a[0] | (two ? (uint32_t)a[1] << 16 : 0)));
}

/* Adds `group` pairs of rows of the matrix, DEPTH rows apart, to n columns (whole vectors) of the
 * sums of one phase. Of the last pair there is only one row if `two` is not set. */
FIXED void add_pairs(int rows, int group, bool two, int64_t n, const uint16_t *a, int64_t a_line,
                     const uint16_t *b, int64_t line, int64_t pair, float *to, int64_t size) {
    bfloat16x8_t x[MOST_ROWS][GROUP];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int g = 0; g < group; g++) x[r][g] = pair_of(a + r * a_line + g * DEPTH, two);
    for (int64_t c = 0; c < n; c += LANES) {
        bfloat16x8_t y[GROUP][2];
#pragma GCC unroll 4
        for (int g = 0; g < group; g++) {
            const uint16x8_t first = vld1q_u16(b + g * pair + c),
                             second = two ? vld1q_u16(b + g * pair + line + c) : vdupq_n_u16(0);
            y[g][0] = vreinterpretq_bf16_u16(vzip1q_u16(first, second));
            y[g][1] = vreinterpretq_bf16_u16(vzip2q_u16(first, second));
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                float *at_sum = to + r * size + c + LANES / 2 * h;
                float32x4_t sum = vld1q_f32(at_sum);
#pragma GCC unroll 4
                for (int g = 0; g < group; g++) sum = vbfdotq_f32(sum, x[r][g], y[g][h]);
                vst1q_f32(at_sum, sum);
            }
    }
}

/* All pairs of one phase, for n columns. */
FIXED void add_phase(int rows, int64_t depth, int64_t n, const uint16_t *a, int64_t a_line,
                     const uint16_t *b, int64_t line, float *to, int64_t size) {
    int64_t k = 0;
    for (; k + (GROUP - 1) * DEPTH + 1 < depth; k += GROUP * DEPTH)
        add_pairs(rows, GROUP, true, n, a + k, a_line, b + k * line, line, DEPTH * line, to, size);
    for (; k + 1 < depth; k += DEPTH)
        add_pairs(rows, 1, true, n, a + k, a_line, b + k * line, line, 0, to, size);
    if (k < depth) add_pairs(rows, 1, false, n, a + k, a_line, b + k * line, line, 0, to, size);
}

/* The same for the n columns after the last vector: fewer than LANES of them, and zeros. */
FIXED void add_phase_rest(int rows, int64_t depth, int64_t n, const uint16_t *a, int64_t a_line,
                          const uint16_t *b, int64_t line, float *to, int64_t size) {
    uint16_t pair[2 * LANES] = {0};
    for (int64_t k = 0; k < depth; k += DEPTH) {
        const bool two = k + 1 < depth;
        memcpy(pair, b + k * line, (size_t)n * sizeof *pair);
        if (two) memcpy(pair + LANES, b + (k + 1) * line, (size_t)n * sizeof *pair);
        add_pairs(rows, 1, two, LANES, a + k, a_line, pair, LANES, 0, to, size);
    }
}

void kl_bfdot_join(float *sums, int64_t cols) {
    for (int64_t c = 0; c < PHASES / 2 * cols; c++) sums[c] += sums[c + PHASES / 2 * cols];
    for (int64_t c = 0; c < cols; c++)
        sums[c] = (sums[c] + sums[c + cols]) + (sums[c + 2 * cols] + sums[c + 3 * cols]);
}

/* `sums` has room for PHASES * WIDE floats. */
FIXED void sums_of(int rows, int64_t depth, int64_t cols, const uint16_t *a, int64_t a_line,
                   const uint16_t *b, int64_t line, float *out, int64_t out_line, float *sums) {
    const int64_t wide = WIDE / rows / LANES * LANES;
    for (int64_t j = 0; j < cols; j += wide) {
        const int64_t n = least(wide, cols - j), whole = n / LANES * LANES,
                      pitch = whole < n ? whole + LANES : whole, size = PHASES * pitch;
        memset(sums, 0, (size_t)(rows * size) * sizeof *sums);
        for (int64_t p = 0; p < PHASES && 2 * p < depth; p++) {
            const int64_t left = depth - 2 * p;
            const uint16_t *from = b + 2 * p * line + j;
            add_phase(rows, left, whole, a + 2 * p, a_line, from, line, sums + p * pitch, size);
            if (whole < n)
                add_phase_rest(rows, left, n - whole, a + 2 * p, a_line, from + whole, line,
                               sums + p * pitch + whole, size);
        }
        for (int r = 0; r < rows; r++) {
            kl_bfdot_join(sums + r * size, pitch);
            memcpy(out + r * out_line + j, sums + r * size, (size_t)n * sizeof *out);
        }
    }
}

void kl_bfdot_phase(int64_t depth, int64_t cols, const uint16_t *a, const uint16_t *b, int64_t line,
                    float *to) {
    memset(to, 0, (size_t)cols * sizeof *to);
    add_phase(1, depth, cols, a, 0, b, line, to, 0);
}

/* Products of a constant number of rows. */
FIXED void some_rows(int rows, bool dots, int64_t depth, int64_t cols, const uint16_t *a,
                     int64_t a_line, const uint16_t *b, int64_t line, float *out, int64_t out_line,
                     float *sums) {
    if (dots)
        dots_of(rows, depth, cols, a, a_line, b, line, out, out_line);
    else
        sums_of(rows, depth, cols, a, a_line, b, line, out, out_line, sums);
}

void kl_bfdot_rows(bool dots, int64_t rows, int64_t depth, int64_t cols, const uint16_t *a,
                   int64_t a_line, const uint16_t *b, int64_t line, float *out, int64_t out_line) {
    float sums[PHASES * WIDE];
    for (; rows > 0; rows -= MOST_ROWS, a += MOST_ROWS * a_line, out += MOST_ROWS * out_line) {
        switch (rows) {
        case 1: some_rows(1, dots, depth, cols, a, a_line, b, line, out, out_line, sums); break;
        case 2: some_rows(2, dots, depth, cols, a, a_line, b, line, out, out_line, sums); break;
        case 3: some_rows(3, dots, depth, cols, a, a_line, b, line, out, out_line, sums); break;
        default: some_rows(MOST_ROWS, dots, depth, cols, a, a_line, b, line, out, out_line, sums);
        }
    }
}
#else
bool kl_bfdot_there(void) {
    return false;
}
void kl_bfdot_rows(bool dots, int64_t rows, int64_t depth, int64_t cols, const uint16_t *a,
                   int64_t a_line, const uint16_t *b, int64_t line, float *out, int64_t out_line) {
}
void kl_bfdot_phase(int64_t depth, int64_t cols, const uint16_t *a, const uint16_t *b, int64_t line,
                    float *to) {
}
void kl_bfdot_join(float *sums, int64_t cols) {
}
#endif
