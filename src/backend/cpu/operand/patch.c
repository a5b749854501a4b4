/* patch.c - see patch.h. */
#include "backend/cpu/operand/patch.h"

#include <string.h>

#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/vector/shuffle.h"

/* The fewest elements of an operand, and of its sides. All cache lines of smaller operands stay in
 * the cache anyway. */
enum { MIN_SIZE = 1 << 14, MIN_SIDE = 32 };

bool kl_grid_of(struct kl_grid *g, const struct kl_arg *const *operands, int n) {
    for (int k = 0; k < n; k++) {
        const struct kl_arg *a = operands[k];
        if (!a || a->size < MIN_SIZE || a->ndim < 2 || a->ndim > KL_LONG_AXES) continue;
        int last = a->ndim - 1;
        int64_t step = a->strides[last] < 0 ? -a->strides[last] : a->strides[last];
        if (a->dims[last] < MIN_SIDE || step < KL_PATCH_ROWS) continue;
        for (int i = 0; i < last; i++) {
            if (a->strides[i] != 1 || a->dims[i] < MIN_SIDE) continue;
            *g = (struct kl_grid){.axis = i, .rows = a->dims[i], .cols = a->dims[last], .shape = a};
            g->row_parts = kl_ceil_div(g->rows, KL_PART_ROWS);
            g->col_parts = kl_ceil_div(g->cols, KL_PART_COLS);
            g->tasks = a->size / (g->rows * g->cols) * g->row_parts * g->col_parts;
            return true;
        }
    }
    return false;
}

void kl_patches_init(struct kl_patches *p, const struct kl_grid *g, const struct kl_arg *a,
                     int64_t task) {
    int dims[KL_LONG_AXES], n = 0, last = a->ndim - 1;
    int64_t strides[KL_LONG_AXES], offset = 0;
    for (int i = 0; i < last; i++) {
        if (i == g->axis) continue;
        dims[n] = a->dims[i];
        strides[n++] = a->strides[i];
    }
    kl_offsets(n, dims, strides, task / (g->row_parts * g->col_parts), 1, &offset);
    p->item = (int)kl_dtype_size(a->dtype);
    p->data = (char *)a->data + offset * p->item;
    p->row_step = a->strides[g->axis] * p->item;
    p->col_step = a->strides[last] * p->item;
    p->nontemporal = kl_nontemporal(a, KL_PATCH_COLS * p->item) && p->col_step == p->item &&
                     p->row_step % KL_LINE == 0 && (uintptr_t)p->data % KL_LINE == 0;
}

bool kl_patch_of(struct kl_patch *at, const struct kl_grid *g, int64_t task, int64_t i) {
    int64_t part = task % (g->row_parts * g->col_parts);
    int64_t top = part / g->col_parts * KL_PART_ROWS, left = part % g->col_parts * KL_PART_COLS;
    int64_t down = kl_ceil_div(kl_min64(KL_PART_ROWS, g->rows - top), KL_PATCH_ROWS);
    at->row = top + i % down * KL_PATCH_ROWS;
    at->col = left + i / down * KL_PATCH_COLS;
    at->rows = kl_min64(KL_PATCH_ROWS, g->rows - at->row);
    at->cols = kl_min64(KL_PATCH_COLS, g->cols - at->col);
    return at->col < kl_min64(left + KL_PART_COLS, g->cols);
}

/* ---- square tiles, which are transposed in registers: pairs of vectors are interleaved log2(side)
 * times ---- */
#if defined __AVX512BW__
#define WIDE 64
#elif defined __AVX2__
#define WIDE 32
#else
#define WIDE 16
#endif

#define T uint8_t
#define N 16
/* defines transpose_uint8_t, transpose_all_uint8_t, transpose_rows_uint8_t */
#include "backend/cpu/operand/patch_square.inc"
#define T uint16_t
#define N 8
/* defines transpose_uint16_t, transpose_all_uint16_t, transpose_rows_uint16_t */
#include "backend/cpu/operand/patch_square.inc"
#if WIDE == 64
#define T uint32_t
#define N 16
/* defines transpose_uint32_t, transpose_all_uint32_t, transpose_rows_uint32_t */
#include "backend/cpu/operand/patch_square.inc"
#define T uint64_t
#define N 8
/* defines transpose_uint64_t, transpose_all_uint64_t, transpose_rows_uint64_t */
#include "backend/cpu/operand/patch_square.inc"
#elif WIDE == 32
#define T uint32_t
#define N 8
/* defines transpose_uint32_t, transpose_all_uint32_t, transpose_rows_uint32_t */
#include "backend/cpu/operand/patch_square.inc"
#define T uint64_t
#define N 4
/* defines transpose_uint64_t, transpose_all_uint64_t, transpose_rows_uint64_t */
#include "backend/cpu/operand/patch_square.inc"
#else
#define T uint32_t
#define N 4
/* defines transpose_uint32_t, transpose_all_uint32_t, transpose_rows_uint32_t */
#include "backend/cpu/operand/patch_square.inc"
#define T uint64_t
#define N 2
/* defines transpose_uint64_t, transpose_all_uint64_t, transpose_rows_uint64_t */
#include "backend/cpu/operand/patch_square.inc"
#endif

static void transpose(int item, char *dst, const char *src, int64_t step) {
    if (item == 4)
        transpose_all_uint32_t(dst, src, step);
    else if (item == 2)
        transpose_all_uint16_t(dst, src, step);
    else if (item == 8)
        transpose_all_uint64_t(dst, src, step);
    else
        transpose_all_uint8_t(dst, src, step);
}

void kl_cpu_transpose(int item, void *dst, int64_t dst_step, const void *src, int64_t src_step,
                      int64_t rows, int64_t cols) {
    if (item == 4)
        transpose_rows_uint32_t(dst, dst_step, src, src_step, rows, cols);
    else if (item == 2)
        transpose_rows_uint16_t(dst, dst_step, src, src_step, rows, cols);
    else if (item == 8)
        transpose_rows_uint64_t(dst, dst_step, src, src_step, rows, cols);
    else
        transpose_rows_uint8_t(dst, dst_step, src, src_step, rows, cols);
}

/* Copies one row of a patch. Most rows are whole and contiguous in both memories. */
static void copy_line(int item, int64_t n, char *to, int64_t to_step, const char *from,
                      int64_t from_step) {
    if (n != KL_PATCH_COLS || to_step != item || from_step != item)
        kl_copy_run(item, n, to, to_step, from, from_step);
    else if (item == 4)
        memcpy(to, from, 4 * KL_PATCH_COLS);
    else if (item == 2)
        memcpy(to, from, 2 * KL_PATCH_COLS);
    else if (item == 8)
        memcpy(to, from, 8 * KL_PATCH_COLS);
    else
        memcpy(to, from, KL_PATCH_COLS);
}

void kl_patch_read(const struct kl_patches *p, const struct kl_patch *at, void *tile) {
    const char *from = p->data + at->row * p->row_step + at->col * p->col_step;
    char *to = tile;
    const int64_t line = at->cols * p->item;
    if (p->row_step == p->item && at->rows == KL_PATCH_ROWS && at->cols == KL_PATCH_COLS)
        transpose(p->item, to, from, p->col_step);
    else
        for (int64_t r = 0; r < at->rows; r++)
            copy_line(p->item, at->cols, to + r * line, p->item, from + r * p->row_step,
                      p->col_step);
}

void kl_patch_write(const struct kl_patches *p, const struct kl_patch *at, const void *tile) {
    char *to = p->data + at->row * p->row_step + at->col * p->col_step;
    const int64_t line = at->cols * p->item;
    /* Rows that are far apart make the processor read each cache line before it is written.
     * Non-temporal stores avoid that: half the time of a large transposition. */
    const bool nontemporal = p->nontemporal && at->cols == KL_PATCH_COLS;
    for (int64_t r = 0; r < at->rows; r++) {
        const char *from = (const char *)tile + r * line;
        if (nontemporal)
            kl_nontemporal_copy(to + r * p->row_step, from, line);
        else
            copy_line(p->item, at->cols, to + r * p->row_step, p->col_step, from, p->item);
    }
}
