/* quantized_few.c - products of few rows of x with a quantized matrix. Each row of the matrix is
 * unpacked in registers and multiplied at once (quantized_dots.inc). Where the matrix is not
 * transposed, a row is unpacked, scaled and added to the sums. */
#include "backend/cpu/quantized/quantized_words.h"

enum {
    TASK_FROM = 1 << 18,    /* multiply-adds of a task */
    MOST_COLS = 4,          /* columns that are computed together */
    AHEAD = 4096,           /* bytes of packed numbers between what is fetched and what is used */
    ONE_ROW_TASK = 1 << 16, /* multiply-adds of a task with one row of x: some microseconds */
    MOST_SHORT = 64,        /* such tasks up to which a product is short work */
    BLOCK = 8 * LANES,      /* the most elements in a vector of words */
    /* rows of x that are computed together; one where vectors are narrow, to save code */
    MOST_ROWS_OF_DOTS = KL_VECTOR > 16 ? 4 : 1,
    COLS_OF_ONE = KL_VECTOR > 16 ? 4 : 2, /* columns that are computed with one row; else 2 */
};
/* The operands of rows_fn: one row of x, as prepare_task leaves it, and rows of affine codes that
 * are read where they lie. Distances from row to row are in bytes. */
struct one_row {
    const float *x, *sums;
    int64_t words, groups;
    int64_t w_row, s_row, b_row;
    int64_t ahead;  /* words from what is used to what is fetched into the cache */
    int word_shift; /* 2^word_shift words share a scale */
};
/* Products of r's row with n rows of w, a multiple of four, into out[n]. */
typedef void rows_fn(const struct one_row *r, const uint8_t *w, const char *scales,
                     const char *biases, int64_t n, float *out);

#if defined(__AVX512F__)
#include "backend/cpu/quantized/quantized_avx512.h"
#elif defined(__AVX2__)
#include "backend/cpu/quantized/quantized_avx2.h"
#endif

/* x of one product, as float32: rows of `pitch` elements, then rows of sums by groups. */
struct few {
    enum way way;
    int per_word;          /* elements; 0: x is in its own order, else element e of each word of a
                            * vector follows element e - 1 of all */
    int64_t pitch, groups; /* rounded up to whole blocks and vectors, with zeros */
    int64_t all;           /* floats of one product */
    float *x;
    /* Of the rows of w: */
    int64_t words, ahead; /* words in one; words from the one in use to the one prefetched */
    int shift;            /* see struct columns */
    bool in_place;        /* scales and biases are read where they lie */
};

/* The sum of the lanes, by halving. */
static inline __attribute__((always_inline)) float total(vec v) {
    float lane[LANES];
    memcpy(lane, &v, sizeof lane);
#pragma GCC unroll 8
    for (int half = LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

/* The first n of a vector of numbers, and zeros. */
static inline __attribute__((always_inline)) vec up_to(int64_t n, const float *from) {
    float lane[LANES] = {0};
    if (n >= LANES) return *(const loose *)from;
    for (int64_t i = 0; i < n; i++) lane[i] = from[i];
    return *(const loose *)lane;
}

struct prepare {
    struct kl_qmm *q;
    struct few *few;
    rows_fn *rows; /* NULL: few_task multiplies */
};

/* Converts the rows of matrix `i` of x, and adds them up by groups. */
static void prepare_task(void *arg, int64_t i) {
    const struct prepare *p = arg;
    const struct kl_qmm *q = p->q;
    const struct few *r = p->few;
    const int item = (int)kl_dtype_size(q->x->dtype);
    float *to = r->x + i * r->all, *sums = to + q->m * r->pitch;
    int64_t offset = i * q->x->strides[0];
    union kl_tile raw, tile;
    if (!q->gather) kl_offsets(q->n_lead, q->dims, q->lead[0], i, 1, &offset);
    const int per = r->per_word;
    for (int64_t row = 0; row < q->m; row++, to += r->pitch, sums += r->groups) {
        memset(sums, 0, (size_t)r->groups * sizeof(float));
        for (int64_t k = 0; k < q->k; k += KL_TILE) {
            const int64_t n = kl_min64(KL_TILE, q->k - k);
            const char *from = kl_qmm_at(q->x, offset + row * q->x_row + k * q->x_col);
            float *x = per ? (float *)tile.bytes : to + k;
            if (q->x_col != 1) {
                kl_copy_run(item, n, raw.bytes, item, from, q->x_col * item);
                from = (const char *)raw.bytes;
            }
            kl_convert(KL_F32, x, q->x->dtype, from, n);
            for (int64_t e = 0; q->biases && q->transpose && e < n; e += q->f.group_size)
                sums[(k + e) / q->f.group_size] = sum_of(x + e, q->f.group_size);
            if (!per) continue;
            if (n < KL_TILE) memset(x + n, 0, (size_t)(KL_TILE - n) * sizeof(float));
            for (int64_t b = 0; b < n; b += per * LANES)
                for (int e = 0; e < per; e++) {
                    const float by = in_place(r->way, e) ? 1.0f / (float)(1u << 32 / per * e) : 1;
                    for (int w = 0; w < LANES; w++)
                        to[k + b + e * LANES + w] = by * x[b + per * w + e];
                }
        }
    }
}

/* The scratch memory of a task for its rows of w. */
struct room {
    float *scales, *biases; /* [groups], followed by zeros */
    float *by_words;        /* [pitch / 4]: the scale of each word, where groups end in vectors */
    uint32_t *last;         /* [LANES]: the last words of a row, with zeros */
    uint8_t *codes;         /* [pitch]: a row as bytes, followed by zeros */
    /* Of all rows of the task, the first of which is `first_row`: read at once, where they stand
     * side by side. NULL: each row is read by itself. */
    const float *all_scales, *all_biases;
    int64_t first_row;
};

/* Columns of the product that are computed together: rows of w. */
struct columns {
    int64_t n;                       /* words */
    const uint8_t *words[MOST_COLS]; /* or codes as bytes */
    const float *scales[MOST_COLS], *biases[MOST_COLS];
    const uint32_t *last[MOST_COLS]; /* NULL: the row ends with a whole vector */
    int shift;                       /* 2^shift vectors share a scale; -1: each word has its own */
    int64_t ahead;                   /* words from here to what is fetched into the cache */
};

#define ROWS 1
#define COLS COLS_OF_ONE
/* defines dots_of_words_1, dots_1 */
#include "backend/cpu/quantized/quantized_dots.inc"
#ifdef __AVX2__
#define ROWS 4
#define COLS 2
/* defines dots_of_words_4, dots_4 */
#include "backend/cpu/quantized/quantized_dots.inc"
#else
#define dots_4 dots_1
#endif

/* Each of n numbers `times` times; a constant. */
static inline __attribute__((always_inline)) void repeat(int times, int64_t n, const float *from,
                                                         float *to) {
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < times; k++) to[i * times + k] = from[i];
}

/* Reads row `row` of w into place i. */
static inline void load_row(const struct kl_qmm *q, const struct kl_qmm_matrices *a,
                            const struct few *r, const struct room *room, int64_t row, int i,
                            struct columns *c) {
    const int item = !kl_quant_has_biases(q->f.mode) ? 1 : q->scale_type == KL_F32 ? 4 : 2;
    const int64_t n = r->words;
    const uint8_t *words = a->w + row * q->w_row * 4;
    const char *scales = a->scales + row * q->s_row * item;
    const char *biases = q->biases ? a->biases + row * q->b_row * item : NULL;
    c->words[i] = words;
    c->last[i] = NULL;
    if (r->in_place)
        for (int64_t line = 0; line < q->groups * item; line += KL_LINE) { /* of the next rows */
            __builtin_prefetch(scales + MOST_COLS * q->s_row * item + line);
            __builtin_prefetch(biases + MOST_COLS * q->b_row * item + line);
        }
    if (r->in_place) {
        c->scales[i] = (const float *)(const void *)scales;
        c->biases[i] = (const float *)(const void *)biases;
    } else if (room->all_scales) {
        c->scales[i] = room->all_scales + (row - room->first_row) * q->groups;
        c->biases[i] = room->all_biases + (row - room->first_row) * q->groups;
    } else {
        float *own_scales = room->scales + i * r->groups,
              *own_biases = room->biases + i * r->groups;
        kl_scales_values(q->f.mode, q->scale_type, q->groups, scales, own_scales);
        if (biases) kl_scales_values(q->f.mode, q->scale_type, q->groups, biases, own_biases);
        c->scales[i] = own_scales;
        c->biases[i] = own_biases;
    }
    if (q->f.bits * r->per_word != 32) {
        c->words[i] = room->codes + i * r->pitch;
        kl_codes_unpack(q->f.bits, q->k, words, room->codes + i * r->pitch);
    } else if (n % LANES) {
        uint32_t *last = room->last + i * LANES;
        memcpy(last, words + n / LANES * LANES * 4, (size_t)(n % LANES) * 4);
        c->last[i] = last;
    }
    if (r->shift >= 0) return;
    float *each = room->by_words + i * (r->pitch / 4);
    const float *from = c->scales[i];
    switch (q->f.group_size / r->per_word) {
    case 2: repeat(2, q->groups, from, each); break;
    case 4: repeat(4, q->groups, from, each); break;
    default: repeat(8, q->groups, from, each);
    }
    c->scales[i] = each;
}

/* Columns of the product are rows of w. */
static void dots(const struct kl_qmm *q, const struct kl_qmm_matrices *a, int64_t col, int64_t n,
                 const struct few *r, const struct room *room, const float *x, float *out) {
    const int64_t rows = q->m > 2 ? MOST_ROWS_OF_DOTS : 1;
    const int most = rows > 1 ? 2 : COLS_OF_ONE;
    struct columns c = {.n = r->words, .shift = r->shift, .ahead = r->ahead};
    for (int64_t first = 0; first < n; first += most) {
        for (int i = 0; i < most; i++)
            load_row(q, a, r, room, col + kl_min64(first + i, n - 1), i, &c);
        for (int64_t row = 0; row < q->m;) {
            const int64_t left = q->m - row;
            /* where rows are missing, the last one is computed again */
            const float *from[MOST_ROWS_OF_DOTS], *sums[MOST_ROWS_OF_DOTS];
            float result[MOST_ROWS_OF_DOTS * 4];
            for (int64_t i = 0; i < rows; i++) {
                const int64_t which = kl_min64(row + i, q->m - 1);
                from[i] = x + which * r->pitch;
                sums[i] = x + q->m * r->pitch + which * r->groups;
            }
            (rows > 1 ? dots_4 : dots_1)(q, r, &c, from, sums, result);
            for (int64_t i = 0; i < kl_min64(rows, left); i++)
                for (int e = 0; e < most && first + e < n; e++)
                    out[(row + i) * n + first + e] = result[i * most + e];
            row += rows;
        }
    }
}

/* Rows of w are rows of the second operand. */
static void add_rows(const struct kl_qmm *q, const struct kl_qmm_matrices *a, int64_t col,
                     int64_t n, const struct few *r, const float *x, float *out) {
    float row[KL_TILE];
    memset(out, 0, (size_t)(q->m * n) * sizeof(float));
    for (int64_t c = 0; c < n; c += KL_TILE)
        for (int64_t k = 0; k < q->k; k++) {
            const int64_t some = kl_min64(KL_TILE, n - c);
            kl_qmm_numbers(q, a, k, col + c, some, row);
            for (int64_t i = 0; i < q->m; i++) {
                const float by = x[i * r->pitch + k];
                float *to = out + i * n + c;
                KL_EACH(e, some) to[e] = KL_MADD_F32(by, row[e], to[e]);
            }
        }
}

static void few_task(void *arg, int64_t task) {
    const struct prepare *p = arg;
    struct kl_qmm *q = p->q;
    const struct few *r = p->few;
    const int64_t batch = task / q->col_tasks, col = task % q->col_tasks * q->cols;
    const int64_t n = kl_min64(q->cols, q->n - col);
    const struct kl_qmm_matrices a = kl_qmm_matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    const float *x = r->x + (q->gather ? kl_qmm_index(q, 0, batch, q->x->dims[0]) : batch) * r->all;
    const int64_t of_rows = 2 * r->groups + r->pitch / 4 + LANES + r->pitch / 4;
    struct kl_scratch scratch;
    const bool together = q->transpose && q->biases && r->shift >= 0 && !r->in_place &&
                          q->s_row == q->groups && q->b_row == q->groups;
    const size_t bytes =
        (size_t)((MOST_COLS * of_rows + q->m * n + (together ? 2 * n * q->groups : 0)) * 4);
    if (!kl_scratch_take(&scratch, q->l, bytes)) {
        atomic_store(&q->no_memory, true);
        return;
    }
    float *at_end = (float *)scratch.ptr;
    struct room room = {.scales = at_end};
    room.biases = at_end += MOST_COLS * r->groups;
    room.by_words = at_end += MOST_COLS * r->groups;
    room.last = (uint32_t *)(at_end += MOST_COLS * (r->pitch / 4));
    room.codes = (uint8_t *)(at_end += MOST_COLS * LANES);
    float *result = at_end += MOST_COLS * (r->pitch / 4);
    if (r->shift >= 0 && q->f.bits * r->per_word == 32)
        memset(room.last, 0, (size_t)(MOST_COLS * LANES * 4));
    else
        memset(scratch.ptr, 0, (size_t)(MOST_COLS * of_rows * 4));
    if (together) {
        float *scales = at_end + q->m * n, *biases = scales + n * q->groups;
        const int64_t bytes_before = col * q->groups * (int64_t)kl_dtype_size(q->scale_type);
        kl_scales_values(q->f.mode, q->scale_type, n * q->groups, a.scales + bytes_before, scales);
        kl_scales_values(q->f.mode, q->scale_type, n * q->groups, a.biases + bytes_before, biases);
        room.all_scales = scales;
        room.all_biases = biases;
        room.first_row = col;
    }
    if (q->transpose)
        dots(q, &a, col, n, r, &room, x, result);
    else
        add_rows(q, &a, col, n, r, x, result);
    for (int64_t i = 0; i < q->m; i++)
        kl_convert(out->dtype, (char *)out->data + ((batch * q->m + i) * q->n + col) * item, KL_F32,
                   result + i * n, n);
    kl_scratch_give(&scratch);
}

/* ---- one or two rows, by four rows of w at a time ---- */

/* The kernel for q, or NULL where each row of w is multiplied by itself. */
static rows_fn *rows_fn_of(const struct kl_qmm *q) {
#ifdef __AVX2__
    static rows_fn *const all[2][3] = {{rows_4_f32, rows_4_f16, rows_4_bf16},
                                       {rows_8_f32, rows_8_f16, rows_8_bf16}};
    const int bits = q->f.bits;
    const bool whole = KL_VECTOR == 64 || q->f.group_size * bits / 32 >= LANES;
    if (kl_quant_has_biases(q->f.mode) && (bits == 4 || bits == 8) && q->transpose && q->m <= 2 &&
        q->n >= 4 && whole)
        return all[bits == 8][q->scale_type == KL_F32 ? 0 : q->scale_type == KL_F16 ? 1 : 2];
#endif
    return NULL;
}

static void one_row_task(void *arg, int64_t task) {
    enum { SOME = 256, SOME_OF_TWO = 16 }; /* few enough for the nearest cache */
    const struct prepare *p = arg;
    const struct kl_qmm *q = p->q;
    const struct few *r = p->few;
    const int64_t batch = task / q->col_tasks, begin = task % q->col_tasks * q->cols;
    const int64_t end = kl_min64(begin + q->cols, q->n);
    const struct kl_qmm_matrices a = kl_qmm_matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    const int64_t scale_item = (int64_t)kl_dtype_size(q->scale_type);
    const float *x = r->x + (q->gather ? kl_qmm_index(q, 0, batch, q->x->dims[0]) : batch) * r->all;
    struct one_row one = {.words = r->words,
                          .groups = q->groups,
                          .w_row = q->w_row * 4,
                          .s_row = q->s_row * scale_item,
                          .b_row = q->b_row * scale_item,
                          .ahead = r->ahead,
                          .word_shift = __builtin_ctz((unsigned)(q->f.group_size / r->per_word))};
    float result[SOME], four[4];
    const int64_t some = q->m > 1 ? SOME_OF_TWO : SOME;
    for (int64_t block = begin; block < end; block += some) {
        const int64_t n = kl_min64(some, end - block), rest = n % 4;
        for (int64_t i = 0; i < q->m; i++) {
            one.x = x + i * r->pitch;
            one.sums = x + q->m * r->pitch + i * r->groups;
            p->rows(&one, a.w + block * one.w_row, a.scales + block * one.s_row,
                    a.biases + block * one.b_row, n - rest, result);
            if (rest) { /* at the end of w, where rows that are done are computed again */
                const int64_t row = q->n - 4;
                p->rows(&one, a.w + row * one.w_row, a.scales + row * one.s_row,
                        a.biases + row * one.b_row, 4, four);
                memcpy(result + n - rest, four + 4 - rest, (size_t)rest * sizeof(float));
            }
            kl_convert(out->dtype, (char *)out->data + ((batch * q->m + i) * q->n + block) * item,
                       KL_F32, result, n);
        }
    }
}

void kl_qmm_few_rows(struct kl_qmm *q, const struct kl_launch *alone) {
    const int64_t matrices = q->gather ? q->x->dims[0] : q->batches;
    struct few r = {.way = way_of(q), .pitch = kl_round_up(q->k, BLOCK)};
    struct prepare p = {q, &r, rows_fn_of(q)};
    struct kl_scratch scratch;
    if (q->transpose) r.per_word = r.way == NIBBLES || r.way == E2M1 ? 8 : 4;
    r.groups = kl_round_up(q->transpose ? q->groups : 1, LANES);
    if (q->transpose) {
        const int vectors = q->f.group_size / r.per_word / LANES; /* a power of two, or 0 */
        r.words = q->k / r.per_word;
        r.shift = vectors ? __builtin_ctz((unsigned)vectors) : -1;
        r.in_place = kl_quant_has_biases(q->f.mode) && q->scale_type == KL_F32;
        /* Rows are short, so that the processor does not see far enough ahead by itself. */
        r.ahead = MOST_COLS * (1 + AHEAD / (MOST_COLS * 4 * r.words + 1)) * q->w_row;
    }
    r.all = q->m * (r.pitch + r.groups);
    if (!kl_scratch_take(&scratch, q->l, (size_t)(matrices * r.all * 4))) {
        atomic_store(&q->no_memory, true);
        return;
    }
    r.x = (float *)scratch.ptr;
    const struct kl_launch both = {.parallel =
                                       matrices * q->m * q->k >= KL_CHUNK ? alone->parallel : NULL};
    kl_run_tasks(&both, matrices, prepare_task, &p);
    if (p.rows) {
        /* An even number of equal tasks, for two threads or a multiple of two. */
        q->col_tasks = kl_round_up(kl_ceil_div(q->n * q->m * q->k, ONE_ROW_TASK), 2);
        q->cols = kl_round_up(kl_ceil_div(q->n, q->col_tasks), 4);
        q->col_tasks = kl_ceil_div(q->n, q->cols);
        const int64_t tasks = q->batches * q->col_tasks;
        const bool is_short = alone->parallel && tasks <= MOST_SHORT;
        const struct kl_launch by = {.parallel = is_short ? q->l->parallel_short : alone->parallel};
        kl_run_tasks(&by, tasks, one_row_task, &p);
    } else {
        q->cols =
            kl_round_up(TASK_FROM / (q->m * q->k + 1) + 1, q->transpose ? MOST_COLS : KL_TILE);
        q->col_tasks = kl_ceil_div(q->n, q->cols);
        kl_run_tasks(alone, q->batches * q->col_tasks, few_task, &p);
    }
    kl_scratch_give(&scratch);
}
