/* matmul.c - MATMUL: in = {a (..., m, k), b (..., k, n)} with the same leading axes; out (..., m,
 * n). Shape and dtype alone decide how it is computed. With few rows (or few columns: then the
 * product is computed transposed) the matrix is read once, in place (matvec.inc; bfloat16 by BFDOT,
 * dots_neon_bf16.h). Larger products of floats use packed operands (gemm.c), those of complex64
 * are in matmul_complex.c. Where the CPU has tile registers, bfloat16 and large products of
 * float32 and float16 use them (gemm_amx.c). 16-bit floats are added up in float32 and rounded
 * once. The bits depend neither on strides nor on threads. */
#include "backend/cpu/product/matmul.h"

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/product/dots_neon_bf16.h"
#include "backend/cpu/product/matvec.h"
#include "backend/cpu/product/products.h"
#include "backend/cpu/operand/patch.h"
#include "backend/cpu/operand/scratch.h"
#include "base/alloc.h"

/* ---- the product ---- */

enum {
    FEW = 8, /* with fewer rows than this, the matrix is not packed */
    /* The same with at most NARROW rows and columns, where at least DEEP products are added up. */
    NARROW = 16,
    DEEP = 512,
    /* Products with at most this many rows, columns and depth are not packed. */
    SMALL = 64,
    /* The same where operands and result are used in place: a batch of 64 x 128 x 64. */
    SMALL_DEPTH = 128,
    MOST_SMALL = 1 << 19,    /* multiply-adds */
    VEC_COLS = 1024,         /* the fewest columns of a task for such products; a quarter of it */
    VEC_TASKS = 8,           /* where there would be fewer tasks than this */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute a product */
    PHASES_FROM = 1 << 21,   /* multiply-adds from which on threads share the phases of one row */
    MOST_PHASES = 1 << 20,   /* the most bytes of the sums of phases */
};

/* ---- small products ---- */

/* Copies rows x cols elements to the compute type, with rows that are `pitch` apart. */
static void copy_small(const struct kl_product *j, const struct kl_arg *arg, int64_t offset,
                       int64_t row, int64_t col, int64_t rows, int64_t cols, int64_t pitch,
                       char *to) {
    int item = (int)kl_dtype_size(arg->dtype);
    union kl_tile raw;
    for (int64_t i = 0; i < rows; i++) {
        const char *from = kl_element(arg, offset + i * row);
        char *dst = to + i * pitch * j->bytes;
        if (arg->dtype == j->type) {
            kl_copy_run(item, cols, dst, item, from, col * item);
        } else {
            kl_copy_run(item, cols, raw.bytes, item, from, col * item);
            kl_convert(j->type, dst, arg->dtype, raw.bytes, cols);
        }
    }
}

/* Whether neither operand nor result of small products must be copied. */
static bool all_in_place(const struct kl_product *j) {
    return j->a->dtype == j->type && j->b->dtype == j->type && j->l->out->dtype == j->type &&
           j->n % (KL_VECTOR / j->bytes) == 0 && j->b_col == 1;
}

/* Whether a task computes whole products. One alone is shared between threads from SMALL on. */
static bool is_small(const struct kl_product *j) {
    if (j->m <= SMALL && j->n <= SMALL && j->k <= SMALL) return true;
    return j->m >= FEW && j->m <= SMALL && j->n >= FEW && j->n <= SMALL_DEPTH &&
           j->k <= SMALL_DEPTH && j->m * j->n * j->k <= MOST_SMALL && j->batches > 1 &&
           all_in_place(j);
}

/* Whether products follow each other in memory, and each row of a result is a vector at most, or
 * whole vectors, but something must be converted, or rows are shorter than a vector. */
static bool is_packed(const struct kl_product *j) {
    const int64_t lanes = KL_VECTOR / j->bytes;
    return j->batches > 1 && j->a->layout & KL_ROW_CONTIGUOUS && j->b->layout & KL_ROW_CONTIGUOUS &&
           j->a->size == j->batches * j->m * j->k && j->b->size == j->batches * j->k * j->n &&
           (j->n < lanes || (j->n % lanes == 0 && !all_in_place(j)));
}

/* Computes `count` products that follow each other in memory, in the room of a, b and c. Where rows
 * are shorter than a vector, the kernel reads what follows a row, and writes what the next row then
 * overwrites. */
static void small_packed(const struct kl_product *j, int64_t first, int64_t count, char *a, char *b,
                         char *c) {
    const struct kl_arg *out = j->l->out;
    const int64_t left_size = j->m * j->k, right_size = j->k * j->n, size = j->m * j->n;
    const int64_t pitch = kl_round_up(j->n, KL_VECTOR / j->bytes), beyond = pitch - j->n;
    const char *left = kl_element(j->a, first * left_size);
    const char *right = kl_element(j->b, first * right_size);
    const bool direct = out->dtype == j->type;
    char *stored = (char *)out->data + first * size * (int64_t)kl_dtype_size(out->dtype);
    char *to = direct ? stored : c;
    if (j->a->dtype != j->type) {
        kl_convert(j->type, a, j->a->dtype, left, count * left_size);
        left = a;
    }
    if (j->b->dtype != j->type || (first + count) * right_size + beyond > j->b->size) {
        kl_convert(j->type, b, j->b->dtype, right, count * right_size);
        memset(b + count * right_size * j->bytes, 0, KL_VECTOR);
        right = b;
    }
    for (int64_t i = 0; i < count; i++) {
        /* what is beyond the last products belongs to another task */
        const bool last = direct && (i + 1) * size + beyond > count * size;
        char *at = to + i * size * j->bytes, *result = last ? c : at;
        (j->type == KL_F32 ? kl_small_f32 : kl_small_f64)(
            j->m, pitch, j->k, left + i * left_size * j->bytes, j->k, 1,
            right + i * right_size * j->bytes, j->n, result, j->n);
        if (last) memcpy(at, c, (size_t)(size * j->bytes));
    }
    if (!direct) kl_convert(out->dtype, stored, j->type, c, count * size);
}

/* A task is several products. Operands are read in place, and results written in place, where they
 * have the compute type; but rows of b and of the result must be whole vectors. */
static void small_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    enum { SOME = 32, ROOM = SMALL * SMALL };
    const struct kl_arg *out = j->l->out;
    _Alignas(64) char a[ROOM * 8], b[ROOM * 8 + KL_VECTOR], c[ROOM * 8 + KL_VECTOR];
    int64_t last = kl_min64((task + 1) * j->batches_each, j->batches), offsets[2][SOME];
    int64_t pitch = kl_round_up(j->n, KL_VECTOR / j->bytes);
    bool a_in_place = j->a->dtype == j->type;
    bool b_in_place = j->b->dtype == j->type && pitch == j->n && j->b_col == 1;
    bool c_in_place = out->dtype == j->type && pitch == j->n;
    if (is_packed(j)) {
        const int64_t most = kl_max64(j->m * j->k, kl_max64(j->k, j->m) * j->n);
        const int64_t fit = kl_max64(ROOM / most, 1);
        for (int64_t batch = task * j->batches_each; batch < last; batch += fit)
            small_packed(j, batch, kl_min64(fit, last - batch), a, b, c);
        return;
    }
    if (pitch > j->n) memset(b, 0, (size_t)(j->k * pitch * j->bytes));
    for (int64_t batch = task * j->batches_each; batch < last; batch += SOME) {
        int64_t some = kl_min64(SOME, last - batch);
        for (int side = 0; side < 2; side++)
            kl_offsets(j->n_lead, j->dims, j->lead[side], batch, some, offsets[side]);
        for (int64_t i = 0; i < some; i++) {
            struct kl_place p = {.batch = batch + i};
            const char *left = a_in_place ? kl_element(j->a, offsets[0][i]) : a;
            const char *right = b_in_place ? kl_element(j->b, offsets[1][i]) : b;
            char *to = c_in_place ? (char *)out->data + p.batch * j->m * j->n * j->bytes : c;
            if (!a_in_place)
                copy_small(j, j->a, offsets[0][i], j->a_row, j->a_col, j->m, j->k, j->k, a);
            if (!b_in_place)
                copy_small(j, j->b, offsets[1][i], j->b_row, j->b_col, j->k, j->n, pitch, b);
            (j->type == KL_F32 ? kl_small_f32 : kl_small_f64)(
                j->m, pitch, j->k, left, a_in_place ? j->a_row : j->k, a_in_place ? j->a_col : 1,
                right, b_in_place ? j->b_row : pitch, to, pitch);
            for (int64_t row = 0; !c_in_place && row < j->m; row++)
                kl_store_row(j, &p, row, 0, j->n, c + row * pitch * j->bytes);
        }
    }
}

/* ---- few rows ---- */

/* Copies the columns of the matrix that a task needs to `to`, as rows. Used where neither rows nor
 * columns are contiguous. */
static void gather_columns(const struct kl_product *j, int64_t offset, int64_t cols, char *to) {
    int item = (int)kl_dtype_size(j->b->dtype);
    for (int64_t k = 0; k < j->k; k++)
        kl_copy_run(item, cols, to + k * cols * item, item, kl_element(j->b, offset + k * j->b_row),
                    j->b_col * item);
}

/* The same where columns are few and rows contiguous: columns become contiguous. */
static void turn_columns(const struct kl_product *j, int64_t offset, int64_t cols, char *to) {
    const int item = (int)kl_dtype_size(j->b->dtype);
    kl_cpu_transpose(item, to, j->k * item, kl_element(j->b, offset), j->b_row * item, j->k, cols);
}

/* Whether BFDOT multiplies few rows, which it takes as bfloat16. */
static bool by_bfdot(const struct kl_product *j) {
    return kl_bfdot_there() && kl_cpu_uses_bf16() && j->l->out->dtype == KL_BF16 &&
           j->a->dtype == KL_BF16 && j->b->dtype == KL_BF16;
}
/* The type of the rows that are multiplied by the matrix. */
static enum kl_dtype type_of_rows(const struct kl_product *j) {
    return by_bfdot(j) ? KL_BF16 : j->type;
}

/* A row of a, which has any strides, in that type. */
static void row_as_computed(const struct kl_product *j, int64_t offset, char *to) {
    const int item = (int)kl_dtype_size(j->a->dtype);
    const enum kl_dtype type = type_of_rows(j);
    const int64_t bytes = (int64_t)kl_dtype_size(type);
    union kl_tile raw;
    for (int64_t k = 0; k < j->k; k += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, j->k - k);
        const void *from = kl_element(j->a, offset + k * j->a_col);
        if (j->a_col != 1) {
            kl_copy_run(item, n, raw.bytes, item, from, j->a_col * item);
            from = raw.bytes;
        }
        kl_convert(type, to + k * bytes, j->a->dtype, from, n);
    }
}

/* The rows of a, in that type, one after another. */
static void rows_as_computed(const struct kl_product *j, int64_t offset, int64_t m, char *to) {
    const enum kl_dtype type = type_of_rows(j);
    const int64_t item = (int64_t)kl_dtype_size(j->a->dtype), bytes = (int64_t)kl_dtype_size(type),
                  line = j->k * bytes;
    enum { PART = KL_TILE / 2 };
    if (j->a_row != 1 || j->a_col == 1 || m > NARROW) {
        for (int64_t i = 0; i < m; i++) row_as_computed(j, offset + i * j->a_row, to + i * line);
        return;
    }
    _Alignas(64) char turned[NARROW * PART * 8]; /* a is stored by columns */
    for (int64_t k = 0; k < j->k; k += PART) {
        const int64_t n = kl_min64(PART, j->k - k);
        kl_cpu_transpose((int)item, turned, n * item, kl_element(j->a, offset + k * j->a_col),
                         j->a_col * item, n, m);
        for (int64_t i = 0; i < m; i++)
            kl_convert(type, to + i * line + k * bytes, j->a->dtype, turned + i * n * item, n);
    }
}

static void vector_task(void *arg, int64_t task) {
    struct kl_product *j = arg;
    struct kl_place p = kl_place_of(j, task);
    const bool narrow = j->b_col == 1 && j->b_row != 1 && p.n <= NARROW && j->k > NARROW;
    bool dots = narrow || (j->b_row == 1 && j->b_col != 1);
    bool in_place = !narrow && (j->b_row == 1 || j->b_col == 1);
    int item = (int)kl_dtype_size(j->b->dtype);
    const enum kl_dtype type = type_of_rows(j);
    bool a_in_place = j->a->dtype == type && j->a_col == 1;
    size_t rows_bytes =
        a_in_place ? 0 : (size_t)kl_round_up(p.m * j->k * (int64_t)kl_dtype_size(type), 64);
    size_t out_bytes = (size_t)kl_round_up(p.m * p.n * j->bytes, 64);
    char *room = kl_malloc(rows_bytes + out_bytes + (in_place ? 0 : (size_t)(j->k * p.n * item)));
    if (!room) {
        atomic_store(&j->no_memory, true);
        return;
    }
    char *rows = room, *out = room + rows_bytes;
    const char *b = kl_element(j->b, p.b + p.col * j->b_col);
    int64_t line = dots ? j->b_col : j->b_row;
    if (!in_place) {
        (narrow ? turn_columns : gather_columns)(j, p.b + p.col * j->b_col, p.n, out + out_bytes);
        b = out + out_bytes;
        line = narrow ? j->k : p.n;
    }
    if (!a_in_place) rows_as_computed(j, p.a, p.m, rows);
    const char *a = a_in_place ? kl_element(j->a, p.a) : rows;
    const int64_t a_line = a_in_place ? j->a_row : j->k;
    if (by_bfdot(j))
        kl_bfdot_rows(dots, p.m, j->k, p.n, (const uint16_t *)a, a_line, (const uint16_t *)b, line,
                      (float *)out, p.n);
    else
        kl_cpu_few_rows(dots, j->b->dtype, p.m, j->k, p.n, a, a_line, b, line, out, p.n);
    for (int64_t i = 0; i < p.m; i++) kl_store_row(j, &p, i, 0, p.n, out + i * p.n * j->bytes);
    kl_free(room);
}

/* ---- one row, and a large matrix by rows: threads divide the phases, not the columns, so that
 * rows are read from end to end ---- */
struct row_product {
    const struct kl_product *j;
    const char *a; /* one row */
    char *sums;    /* [phases][j->n] */
};
static void bfdot_phase_task(void *arg, int64_t phase) {
    const struct row_product *s = arg;
    const struct kl_product *j = s->j;
    kl_bfdot_phase(j->k - 2 * phase, j->n, (const uint16_t *)s->a + 2 * phase,
                   (const uint16_t *)kl_element(j->b, 2 * phase * j->b_row), j->b_row,
                   (float *)s->sums + phase * j->n);
}
static void phase_task(void *arg, int64_t phase) {
    const struct row_product *s = arg;
    const struct kl_product *j = s->j;
    kl_cpu_phase(j->b->dtype, j->k - phase, j->n, s->a + phase * j->bytes,
                 kl_element(j->b, phase * j->b_row), j->b_row, s->sums + phase * j->n * j->bytes);
}
static bool row_by_phases(struct kl_product *j, const struct kl_launch *l) {
    const bool bfdot = by_bfdot(j), a_in_place = j->a->dtype == type_of_rows(j) && j->a_col == 1;
    const int64_t phases = bfdot ? KL_BFDOT_PHASES : KL_MATVEC_PHASES,
                  sums = phases * j->n * j->bytes;
    struct kl_scratch room;
    if (j->m != 1 || j->batches != 1 || j->b_col != 1 || j->n % KL_MATVEC_COLS != 0 ||
        j->k < KL_MATVEC_PHASES || j->n * j->k < PHASES_FROM || sums > MOST_PHASES)
        return false;
    if (!kl_scratch_take(&room, j->l, (size_t)(sums + kl_round_up(j->k * j->bytes, 64)))) {
        atomic_store(&j->no_memory, true);
        return true;
    }
    struct row_product s = {.j = j, .a = room.ptr + sums, .sums = room.ptr};
    if (a_in_place)
        s.a = kl_element(j->a, 0);
    else
        row_as_computed(j, 0, room.ptr + sums);
    kl_run_tasks(l, phases, bfdot ? bfdot_phase_task : phase_task, &s);
    if (bfdot)
        kl_bfdot_join((float *)s.sums, j->n);
    else
        kl_cpu_join_phases(j->type, s.sums, j->n);
    struct kl_place first = {.n = j->n};
    kl_store_row(j, &first, 0, 0, j->n, s.sums);
    kl_scratch_give(&room);
    return true;
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
    if (j.k == 0) { /* the sums have no terms, and the operands may have no address */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
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
    void (*task)(void *, int64_t) = NULL; /* NULL: gemm.c computes the product */
    if (j.type == KL_C64) {
        if (j.n < NARROW && j.n < j.m) transpose_job(&j);
    } else if (is_small(&j)) {
        task = small_task;
        j.rows = j.m;
        j.cols = j.n;
        j.batches_each = PARALLEL_FROM / 4 / (j.m * j.n * (j.k + 1)) + 1;
    } else if (j.m < FEW || j.n < FEW || (j.m <= NARROW && j.n <= NARROW && j.k >= DEEP)) {
        task = vector_task;
        if (j.n < j.m) transpose_job(&j);
        j.rows = j.m;
        /* Tasks of about PARALLEL_FROM multiply-adds, which read long parts of rows, unless that
         * would leave threads without work. */
        const int64_t part = kl_max64(kl_min64(j.n / VEC_TASKS, VEC_COLS), VEC_COLS / 4);
        j.cols = kl_round_up(PARALLEL_FROM / (j.m * j.k + 1) + 1,
                             j.b_row == 1 && j.b_col != 1 ? VEC_COLS / 16
                                                          : kl_round_up(part, VEC_COLS / 16));
    }
    bool big = (double)out->size * (double)j.k >= PARALLEL_FROM;
    struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    if (task == vector_task && row_by_phases(&j, &alone))
        return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
    if (!task) {
        if (j.type == KL_C64)
            kl_cpu_complex_product(&j, &alone);
        else if (!kl_cpu_gemm_amx(&j, &alone) && !kl_cpu_gemm_bf16(&j, &alone))
            kl_cpu_gemm(&j, &alone);
        return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
    }
    j.row_tasks = kl_ceil_div(j.m, j.rows);
    j.col_tasks = kl_ceil_div(j.n, j.cols);
    int64_t tasks = task == small_task ? kl_ceil_div(j.batches, j.batches_each)
                                       : j.batches * j.row_tasks * j.col_tasks;
    kl_run_tasks(&alone, tasks, task, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
