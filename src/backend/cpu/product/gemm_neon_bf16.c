/* gemm_neon_bf16.c - MATMUL of bfloat16 by BFMMLA: kl_cpu_gemm_bf16 of matmul.h. Each task packs
 * its rows and columns, a part of k at a time, and lets the tile (tiles_neon_bf16.c) run over them.
 * An element is added up along k in the same steps, however the product is cut. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/product/tiles_neon_bf16.h"

#ifdef __aarch64__
#include <arm_neon.h>

enum {
    LINES = KL_BFMMLA_LINES,
    STEP = KL_BFMMLA_DEPTH,
    PART = 1024, /* elements along k that are packed at a time: 128 lines of them stay in L2 */
    MOST = 128,  /* rows, and columns, of a task */
    TASKS = 16,
    TASK_FROM = 1 << 19, /* the fewest multiply-adds of a task that is made for more threads */
    WORTH_FROM = LINES,  /* rows, and columns: fewer are multiplied by BFDOT */
};

/* LINES lines that are contiguous along k, two steps from k on. */
static void pack_along(const uint16_t *const *line, int64_t k, uint16_t *to) {
#pragma GCC unroll 4
    for (int p = 0; p < LINES / 2; p++) {
        const uint64x2_t a = vreinterpretq_u64_u16(vld1q_u16(line[2 * p] + k)),
                         b = vreinterpretq_u64_u16(vld1q_u16(line[2 * p + 1] + k));
        vst1q_u16(to + 8 * p, vreinterpretq_u16_u64(vzip1q_u64(a, b)));
        vst1q_u16(to + LINES * STEP + 8 * p, vreinterpretq_u16_u64(vzip2q_u64(a, b)));
    }
}

/* LINES lines side by side, one step. */
static void pack_across(const uint16_t *from, int64_t step, uint16_t *to) {
    const uint16x8_t a = vld1q_u16(from), b = vld1q_u16(from + step),
                     c = vld1q_u16(from + 2 * step), d = vld1q_u16(from + 3 * step);
    const uint32x4_t ab[2] = {vreinterpretq_u32_u16(vzip1q_u16(a, b)),
                              vreinterpretq_u32_u16(vzip2q_u16(a, b))},
                     cd[2] = {vreinterpretq_u32_u16(vzip1q_u16(c, d)),
                              vreinterpretq_u32_u16(vzip2q_u16(c, d))};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        vst1q_u16(to + 16 * i, vreinterpretq_u16_u32(vzip1q_u32(ab[i], cd[i])));
        vst1q_u16(to + 16 * i + 8, vreinterpretq_u16_u32(vzip2q_u32(ab[i], cd[i])));
    }
}

/* Packs `lines` lines of `depth` elements along k into panels of LINES lines by whole steps. After
 * the last element comes 0, and after the last line what may be any number, since the elements that
 * it would give are not stored. */
static void pack(const uint16_t *from, int64_t line, int64_t step, int64_t lines, int64_t depth,
                 uint16_t *to) {
    const int64_t whole = kl_round_up(depth, STEP);
    for (int64_t l = 0; l < lines; l += LINES, to += LINES * whole) {
        const uint16_t *first = from + l * line;
        const bool full = l + LINES <= lines;
        const uint16_t *each[LINES];
        int64_t k = 0;
        for (int i = 0; i < LINES; i++) each[i] = first + kl_min64(i, lines - l - 1) * line;
        if (step == 1)
            for (; k + 2 * STEP <= depth; k += 2 * STEP) pack_along(each, k, to + k * LINES);
        else if (full && line == 1)
            for (; k + STEP <= depth; k += STEP)
                pack_across(first + k * step, step, to + k * LINES);
        for (; k < whole; k++)
            for (int64_t i = 0; i < LINES; i++)
                to[k / STEP * STEP * LINES + i * STEP + k % STEP] =
                    k < depth && l + i < lines ? first[i * line + k * step] : 0;
    }
}

static void multiply_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    const struct kl_place p = kl_place_of(j, task);
    const int64_t rows = kl_round_up(p.m, LINES), cols = kl_round_up(p.n, LINES),
                  part = kl_min64(PART, kl_round_up(j->k, STEP));
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, (size_t)((rows + cols) * part * 2 + rows * cols * 4))) {
        atomic_store(&j->no_memory, true);
        return;
    }
    float *sums = (float *)room.ptr;
    uint16_t *a = (uint16_t *)(sums + rows * cols), *b = a + rows * part;
    for (int64_t k = 0; k < j->k; k += PART) {
        const int64_t depth = kl_min64(PART, j->k - k), whole = kl_round_up(depth, STEP);
        pack((const uint16_t *)kl_element(j->a, p.a + p.row * j->a_row + k * j->a_col), j->a_row,
             j->a_col, p.m, depth, a);
        pack((const uint16_t *)kl_element(j->b, p.b + p.col * j->b_col + k * j->b_row), j->b_col,
             j->b_row, p.n, depth, b);
        for (int64_t col = 0; col < cols; col += LINES)
            for (int64_t row = 0; row < rows; row += LINES)
                kl_bfmmla_tile(whole / STEP, a + row * whole, b + col * whole,
                               sums + row * cols + col, cols, k > 0);
    }
    for (int64_t i = 0; i < p.m; i++)
        kl_store_row(j, &p, i, 0, p.n, (const char *)(sums + i * cols));
    kl_scratch_give(&room);
}

static int64_t part_of(int64_t n, int64_t most) {
    return kl_round_up(kl_ceil_div(n, kl_ceil_div(n, most)), LINES);
}

bool kl_cpu_gemm_bf16(struct kl_product *j, const struct kl_launch *l) {
    if (!kl_cpu_uses_bf16() || j->from || j->k == 0 || j->l->out->dtype != KL_BF16 ||
        j->a->dtype != KL_BF16 || j->b->dtype != KL_BF16 || kl_min64(j->m, j->n) < WORTH_FROM)
        return false;
    for (int64_t most_rows = MOST, most_cols = MOST;;) {
        j->rows = part_of(j->m, most_rows);
        j->cols = part_of(j->n, most_cols);
        j->row_tasks = kl_ceil_div(j->m, j->rows);
        j->col_tasks = kl_ceil_div(j->n, j->cols);
        if (j->batches * j->row_tasks * j->col_tasks >= TASKS ||
            j->rows * j->cols * j->k / 2 < TASK_FROM || j->rows + j->cols <= 4 * LINES)
            break;
        if (j->cols > j->rows)
            most_cols = j->cols / 2;
        else
            most_rows = j->rows / 2;
    }
    kl_run_tasks(l, j->batches * j->row_tasks * j->col_tasks, multiply_task, j);
    return true;
}
#else
bool kl_cpu_gemm_bf16(struct kl_product *j, const struct kl_launch *l) {
    return false;
}
#endif
