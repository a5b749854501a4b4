/* cpu_matmul.c - MATMUL: in = {a (..., m, k), b (..., k, n)} with the same leading axes;
 * out (..., m, n).
 *
 * Three ways, chosen by shape and dtype alone. With few rows (or columns: then the product is computed transposed) the matrix is read once, as it lies (cpu_matvec.inc). Larger ones of floats: blocks of the output
 * are tasks; each walks along k in steps of DEPTH, packs both operands' parts, of any strides, and lets a tile of registers run over them (cpu_gemm.inc). complex64:
 * plain loops over packed blocks (cpu_matmul.inc). bfloat16 where the CPU has tile registers: theirs (cpu_amx.h), which take denormals for zero. 16-bit floats are added up in float32 and rounded once. The bits depend neither on layout nor on threads. */
#include "backend/cpu/cpu_matmul.h"

#include "backend/cpu/cpu_amx.h"
#include "backend/cpu/cpu_complex.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_matvec.h"
#include "backend/cpu/cpu_products.h"
#include "base/alloc.h"

enum { COMPLEX_ROWS = 64, COMPLEX_COLS = 64, COMPLEX_DEPTH = 128 };
static inline struct kl_c64 c64_madd(struct kl_c64 c, struct kl_c64 a, struct kl_c64 b) {
    return kl_c64_add(c, kl_c64_mul(a, b));
}
#define T struct kl_c64
#define NAME c64
#define MADD c64_madd
#define COLS COMPLEX_COLS
#define DEPTH COMPLEX_DEPTH
#include "backend/cpu/cpu_matmul.inc"
#undef COLS
#undef DEPTH

/* ---- the product ---- */

enum {
    FEW = 8,             /* rows below this: the matrix is not packed */
    SMALL = 64,          /* up to this every way: no packing */
    VEC_COLS = 1024,     /* columns of a task then, at least */
    SHARE_FROM = 1 << 18 /* products */
};

/* ---- bfloat16 in tile registers: of the variant that CPUs with them use ---- */
#ifdef __AVX512F__

enum { AMX_ROWS = 256, AMX_COLS = 256, AMX_DEPTH = 1024, TILE_ITEMS = 16 * KL_AMX_DEPTH };

/* Rows of a, 16 to a tile, by 32 along k: tile t of row panel r is at (r n + t). What is missing is 0. */
static void pack_tiles(const struct kl_product *j, int64_t offset, int64_t rows, int64_t depth,
                       int64_t n, uint16_t *to) {
    for (int64_t row = 0; row < round_up(rows, KL_AMX_ROWS); row++) {
        uint16_t *panel = to + row / 16 * n * TILE_ITEMS + row % 16 * KL_AMX_DEPTH;
        for (int64_t t = 0; t < n; t++) {
            int64_t have = row < rows ? kl_min64(KL_AMX_DEPTH, depth - t * KL_AMX_DEPTH) : 0;
            uint16_t *dst = panel + t * TILE_ITEMS;
            if (have < KL_AMX_DEPTH) memset(dst, 0, KL_AMX_DEPTH * sizeof *dst);
            if (have)
                kl_copy_run(2, have, dst, 2,
                            element(j->a, offset + row * j->a_row + t * KL_AMX_DEPTH * j->a_col),
                            j->a_col * 2);
        }
    }
}

static inline void interleave(uint16_t *restrict to, const uint16_t *restrict x,
                              const uint16_t *restrict y) {
    uint32_t pairs[16]; /* the first of a pair lies in the low half: AMX is of little-endian CPUs */
    for (int c = 0; c < 16; c++) pairs[c] = x[c] | (uint32_t)y[c] << 16;
    memcpy(to, pairs, sizeof pairs);
}

/* Columns of b, 32 to a pair of tiles; a tile's row is two of b's, interleaved: tile t of column panel c is at (c n + t) and its neighbour behind it. */
static void pack_pairs(const struct kl_product *j, int64_t offset, int64_t cols, int64_t depth,
                       int64_t n, uint16_t *to) {
    bool whole_rows = j->b_col == 1;
    for (int64_t col = 0; col < round_up(cols, KL_AMX_ROWS); col += 16) {
        int64_t wide = col < cols ? kl_min64(16, cols - col) : 0;
        for (int64_t k = 0; k < n * KL_AMX_DEPTH; k += 2) {
            uint16_t *dst = to +
                            (col / 32 * n * 2 + k / KL_AMX_DEPTH * 2 + col / 16 % 2) * TILE_ITEMS +
                            k % KL_AMX_DEPTH / 2 * 32;
            const uint16_t *b =
                (const uint16_t *)element(j->b, offset + k * j->b_row + col * j->b_col);
            if (whole_rows && wide == 16 && k + 1 < depth) {
                interleave(dst, b, b + j->b_row);
                continue;
            }
            memset(dst, 0, 32 * sizeof *dst);
            for (int64_t c = 0; c < wide; c++) {
                if (k < depth) dst[2 * c] = b[c * j->b_col];
                if (k + 1 < depth) dst[2 * c + 1] = b[c * j->b_col + j->b_row];
            }
        }
    }
}

static void amx_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    struct place p = place_of(j, task);
    struct kl_amx_config before;
    int64_t rows = round_up(p.m, KL_AMX_ROWS), cols = round_up(p.n, KL_AMX_ROWS);
    int64_t depth = round_up(kl_min64(AMX_DEPTH, j->k), KL_AMX_DEPTH);
    size_t a_bytes = (size_t)(rows * depth) * 2, b_bytes = (size_t)(cols * depth) * 2;
    char *room = kl_malloc(a_bytes + b_bytes + (size_t)(rows * cols) * sizeof(float) + 64);
    if (!room) {
        atomic_store(&j->no_memory, true);
        return;
    }
    uint16_t *a = (uint16_t *)(room + (64 - (uintptr_t)room % 64) % 64), *b = a + a_bytes / 2;
    float *c = (float *)(b + b_bytes / 2);
    if (j->k == 0) memset(c, 0, (size_t)(rows * cols) * sizeof *c);
    kl_amx_begin(&before);
    for (int64_t k = 0; k < j->k; k += AMX_DEPTH) {
        int64_t d = kl_min64(AMX_DEPTH, j->k - k), n = kl_ceil_div(d, KL_AMX_DEPTH);
        pack_tiles(j, p.a + p.row * j->a_row + k * j->a_col, p.m, d, n, a);
        pack_pairs(j, p.b + k * j->b_row + p.col * j->b_col, p.n, d, n, b);
        for (int64_t col = 0; col < cols; col += KL_AMX_ROWS)
            for (int64_t row = 0; row < rows; row += KL_AMX_ROWS)
                kl_amx_block(n, a + row * n * KL_AMX_DEPTH, n, b + col * n * KL_AMX_DEPTH,
                             c + row * cols + col, cols, k > 0);
    }
    kl_amx_end(&before);
    for (int64_t i = 0; i < p.m; i++) store_row(j, &p, i, 0, p.n, (const char *)(c + i * cols));
    kl_free(room);
}

#endif

/* ---- small ones ---- */

/* rows x cols elements of the compute type, `pitch` apart. */
static void copy_small(const struct kl_product *j, const struct kl_arg *arg, int64_t offset,
                       int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t pitch,
                       char *to) {
    int item = (int)kl_dtype_size(arg->dtype);
    union kl_tile raw;
    for (int64_t i = 0; i < rows; i++) {
        const char *from = element(arg, offset + i * row);
        char *dst = to + i * pitch * j->bytes;
        if (arg->dtype == j->type) {
            kl_copy_run(item, cols, dst, item, from, col * item);
        } else {
            kl_copy_run(item, cols, raw.bytes, item, from, col * item);
            kl_convert(j->type, dst, arg->dtype, raw.bytes, cols);
        }
    }
}

/* A task is several products. Operands are read, and results written, where they lie, if they are of the type that is computed in; but rows of b and of the result are whole vectors. */
static void small_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    enum { SOME = 32 };
    const struct kl_arg *out = j->l->out;
    _Alignas(64) char a[SMALL * SMALL * 8], b[SMALL * SMALL * 8], c[SMALL * SMALL * 8];
    int64_t last = kl_min64((task + 1) * j->batches_each, j->batches), offsets[2][SOME];
    int64_t pitch = round_up(j->n, VECTOR / j->bytes);
    bool a_lies = j->a->dtype == j->type;
    bool b_lies = j->b->dtype == j->type && pitch == j->n && j->b_col == 1;
    bool c_lies = out->dtype == j->type && pitch == j->n;
    if (pitch > j->n) memset(b, 0, (size_t)(j->k * pitch * j->bytes));
    for (int64_t batch = task * j->batches_each; batch < last; batch += SOME) {
        int64_t some = kl_min64(SOME, last - batch);
        for (int side = 0; side < 2; side++)
            kl_offsets(j->n_lead, j->dims, j->lead[side], batch, some, offsets[side]);
        for (int64_t i = 0; i < some; i++) {
            struct place p = {.batch = batch + i};
            const char *left = a_lies ? element(j->a, offsets[0][i]) : a;
            const char *right = b_lies ? element(j->b, offsets[1][i]) : b;
            char *to = c_lies ? (char *)out->data + p.batch * j->m * j->n * j->bytes : c;
            if (!a_lies)
                copy_small(j, j->a, offsets[0][i], j->a_row, j->a_col, j->m, j->k, j->k, a);
            if (!b_lies)
                copy_small(j, j->b, offsets[1][i], j->b_row, j->b_col, j->k, j->n, pitch, b);
            (j->type == KL_F32 ? small_f32 : small_f64)(
                j->m, pitch, j->k, left, a_lies ? j->a_row : j->k, a_lies ? j->a_col : 1, right,
                b_lies ? j->b_row : pitch, to, pitch);
            for (int64_t row = 0; !c_lies && row < j->m; row++)
                store_row(j, &p, row, 0, j->n, c + row * pitch * j->bytes);
        }
    }
}

/* ---- few rows ---- */

/* The matrix's columns of a task, when they lie neither by rows nor by columns: as rows, at `to`. */
static void gather_columns(const struct kl_product *j, int64_t offset, int64_t cols, char *to) {
    int item = (int)kl_dtype_size(j->b->dtype);
    for (int64_t k = 0; k < j->k; k++)
        kl_copy_run(item, cols, to + k * cols * item, item, element(j->b, offset + k * j->b_row),
                    j->b_col * item);
}

static void vector_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    struct place p = place_of(j, task);
    bool dots = j->b_row == 1 && j->b_col != 1, lies = j->b_row == 1 || j->b_col == 1;
    int item = (int)kl_dtype_size(j->b->dtype), a_item = (int)kl_dtype_size(j->a->dtype);
    bool a_lies = j->a->dtype == j->type && j->a_col == 1;
    size_t rows_bytes = a_lies ? 0 : (size_t)round_up(p.m * j->k * j->bytes, 64);
    size_t out_bytes = (size_t)round_up(p.m * p.n * j->bytes, 64);
    char *room = kl_malloc(rows_bytes + out_bytes + (lies ? 0 : (size_t)(j->k * p.n * item)));
    if (!room) {
        atomic_store(&j->no_memory, true);
        return;
    }
    char *rows = room, *out = room + rows_bytes;
    const char *b = element(j->b, p.b + p.col * j->b_col);
    int64_t line = dots ? j->b_col : j->b_row;
    if (!lies) {
        gather_columns(j, p.b + p.col * j->b_col, p.n, out + out_bytes);
        b = out + out_bytes;
        line = p.n;
    }
    union kl_tile raw;
    for (int64_t i = 0; !a_lies && i < p.m; i++)
        for (int64_t k = 0; k < j->k; k += KL_TILE) {
            int64_t n = kl_min64(KL_TILE, j->k - k);
            kl_copy_run(a_item, n, raw.bytes, a_item,
                        element(j->a, p.a + i * j->a_row + k * j->a_col), j->a_col * a_item);
            kl_convert(j->type, rows + (i * j->k + k) * j->bytes, j->a->dtype, raw.bytes, n);
        }
    const char *a = a_lies ? element(j->a, p.a) : rows;
    kl_cpu_few_rows(dots, j->b->dtype, p.m, j->k, p.n, a, a_lies ? j->a_row : j->k, b, line, out,
                    p.n);
    for (int64_t i = 0; i < p.m; i++) store_row(j, &p, i, 0, p.n, out + i * p.n * j->bytes);
    kl_free(room);
}

/* ---- complex ---- */

static void complex_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    struct place p = place_of(j, task);
    _Alignas(64) struct kl_c64 a[COMPLEX_ROWS * COMPLEX_DEPTH], b[COMPLEX_DEPTH * COMPLEX_COLS],
        c[COMPLEX_ROWS * COMPLEX_COLS];
    memset(c, 0, sizeof c);
    for (int64_t k = 0; k < j->k; k += COMPLEX_DEPTH) {
        int64_t depth = kl_min64(COMPLEX_DEPTH, j->k - k);
        for (int64_t i = 0; i < p.m; i++)
            kl_copy_run(8, depth, a + i * COMPLEX_DEPTH, 8,
                        element(j->a, p.a + (p.row + i) * j->a_row + k * j->a_col), j->a_col * 8);
        for (int64_t i = 0; i < depth; i++)
            kl_copy_run(8, p.n, b + i * COMPLEX_COLS, 8,
                        element(j->b, p.b + (k + i) * j->b_row + p.col * j->b_col), j->b_col * 8);
        block_c64(p.m, p.n, depth, a, b, c);
    }
    for (int64_t i = 0; i < p.m; i++)
        store_row(j, &p, i, 0, p.n, (const char *)(c + i * COMPLEX_COLS));
}

/* ---- the kernel ---- */

static void transpose_job(struct kl_product *j) {
    const struct kl_arg *arg = j->a;
    int64_t m = j->m, row = j->a_row, col = j->a_col, out_row = j->out_row;
    int64_t lead[KL_LONG_AXES];
    j->a = j->b;
    j->b = arg;
    j->m = j->n;
    j->n = m;
    j->a_row = j->b_col;
    j->a_col = j->b_row;
    j->b_row = col;
    j->b_col = row;
    j->out_row = j->out_col;
    j->out_col = out_row;
    memcpy(lead, j->lead[0], sizeof lead);
    memcpy(j->lead[0], j->lead[1], sizeof lead);
    memcpy(j->lead[1], lead, sizeof lead);
}

int kl_cpu_matmul(struct kl_launch *l) {
    struct kl_product j = {.l = l, .a = &l->in[0], .b = &l->in[1]};
    const struct kl_arg *out = l->out;
    int last = out->ndim - 1;
    if (out->size == 0) return KL_OK;
    j.type = kl_compute_dtype(out->dtype);
    j.bytes = (int)kl_dtype_size(j.type);
    j.m = out->dims[last - 1];
    j.n = out->dims[last];
    j.k = j.a->dims[last];
    j.a_row = j.a->strides[last - 1];
    j.a_col = j.a->strides[last];
    j.b_row = j.b->strides[last - 1];
    j.b_col = j.b->strides[last];
    j.out_row = j.n;
    j.out_col = 1;
    for (int i = 0; i < last - 1; i++) {
        if (out->dims[i] == 1 || j.n_lead == KL_LONG_AXES) continue;
        j.dims[j.n_lead] = out->dims[i];
        j.lead[0][j.n_lead] = j.a->strides[i];
        j.lead[1][j.n_lead++] = j.b->strides[i];
    }
    j.batches = out->size / (j.m * j.n);
    void (*task)(void *, int64_t) = NULL; /* by blocks */
    if (j.type == KL_C64) {
        task = complex_task;
        j.rows = COMPLEX_ROWS;
        j.cols = COMPLEX_COLS;
    } else if (j.m <= SMALL && j.n <= SMALL && j.k <= SMALL) {
        task = small_task;
        j.rows = j.m;
        j.cols = j.n;
        j.batches_each = SHARE_FROM / 4 / (j.m * j.n * (j.k + 1)) + 1;
    } else if (j.m < FEW || j.n < FEW) {
        task = vector_task;
        if (j.n < j.m) transpose_job(&j);
        j.rows = j.m;
        /* Tasks of about SHARE_FROM products; of rows long pieces. */
        j.cols = round_up(SHARE_FROM / (j.m * j.k + 1) + 1,
                          j.b_row == 1 && j.b_col != 1 ? VEC_COLS / 16 : VEC_COLS);
#ifdef __AVX512F__
    } else if (out->dtype == KL_BF16 && kl_cpu_uses_amx()) {
        task = amx_task;
        j.rows = round_up(kl_ceil_div(j.m, kl_ceil_div(j.m, AMX_ROWS)), KL_AMX_ROWS);
        j.cols = round_up(kl_ceil_div(j.n, kl_ceil_div(j.n, AMX_COLS)), KL_AMX_ROWS);
#endif
    }
    bool big = (double)out->size * (double)j.k >= SHARE_FROM;
    struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    if (!task) {
        kl_cpu_blocks(&j, &alone);
        return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
    }
    j.row_blocks = kl_ceil_div(j.m, j.rows);
    j.col_blocks = kl_ceil_div(j.n, j.cols);
    int64_t tasks = task == small_task ? kl_ceil_div(j.batches, j.batches_each)
                                       : j.batches * j.row_blocks * j.col_blocks;
    kl_share(&alone, tasks, task, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
