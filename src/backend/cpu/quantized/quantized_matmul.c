/* quantized_matmul.c - QUANTIZED_MATMUL and GATHER_QMM. With few rows of x each row of the
 * quantized matrix is unpacked in registers and multiplied at once (quantized_dots.inc); with
 * many, panels are unpacked into the packed form that products of floats use (gemm.c), or into
 * tile registers (quantized_amx.h). Words of many rows are transposed, so that the numbers of a
 * register belong to different rows. Sums are float32, and so are activations. Where the matrix is
 * not transposed, a row is unpacked, scaled and added to the sums. An index outside of its range,
 * which the builder excludes, reads matrix 0. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/codes.h"
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/product/products.h"
#include "backend/cpu/vector/lanes.h"

enum {
    FEW = 8,                 /* with more rows of x than this, panels are unpacked */
    TASK_FROM = 1 << 18,     /* multiply-adds of a task */
    PARALLEL_FROM = 1 << 18, /* multiply-adds from which on several threads compute */
    MOST_COLS = 4,           /* columns that are computed together */
    AHEAD = 4096,            /* bytes of packed numbers between what is fetched and what is used */
    ONE_ROW_TASK = 1 << 16,  /* multiply-adds of a task with one row of x: some microseconds */
    MOST_SHORT = 64,         /* such tasks up to which a product is short work */
};

struct qmm {
    const struct kl_launch *l;
    struct kl_quant_format f;
    bool transpose, gather;
    enum kl_dtype scale_type;
    const struct kl_arg *x, *w, *scales, *biases; /* biases: NULL unless affine */
    int64_t m, n, k;
    int64_t x_row, x_col, w_row, s_row, b_row; /* strides, in elements */
    int64_t groups;                            /* of a row of w */
    int64_t batches, cols, col_tasks;          /* columns of a task */
    int n_lead, dims[KL_LONG_AXES];
    int64_t lead[4][KL_LONG_AXES]; /* strides of the leading axes of x, w, scales and biases */
    _Atomic(bool) no_memory;
};

/* One matrix of each operand. */
struct matrices {
    const char *x, *scales, *biases;
    const uint8_t *w;
};

static const char *at(const struct kl_arg *a, int64_t offset) {
    return (const char *)a->data + offset * (int64_t)kl_dtype_size(a->dtype);
}

static int64_t index_at(const struct qmm *q, int which, int64_t batch, int64_t size) {
    const struct kl_arg *a = &q->l->in[4 + which];
    int64_t offset;
    kl_offsets(a->ndim, a->dims, a->strides, batch, 1, &offset);
    const int64_t v = ((const int32_t *)a->data)[offset];
    return v >= 0 && v < size ? v : 0;
}

static struct matrices matrices_of(const struct qmm *q, int64_t batch) {
    const struct kl_arg *all[4] = {q->x, q->w, q->scales, q->biases};
    const char *found[4] = {NULL};
    int64_t index[2] = {0};
    for (int side = 0; side < 2 && q->gather; side++)
        index[side] = index_at(q, side, batch, all[side]->dims[0]);
    for (int i = 0; i < 4 && all[i]; i++) {
        int64_t offset;
        if (q->gather)
            offset = index[i > 0] * all[i]->strides[0];
        else
            kl_offsets(q->n_lead, q->dims, q->lead[i], batch, 1, &offset);
        found[i] = at(all[i], offset);
    }
    return (struct matrices){found[0], found[2], found[3], (const uint8_t *)found[1]};
}

/* Scale or bias number `i` from `from` on, as float32. */
static inline float number_at(enum kl_quant_mode mode, enum kl_dtype dtype, const char *from,
                              int64_t i) {
    uint16_t half;
    float x;
    if (kl_quant_scales_are(mode, KL_SCALES_E4M3)) return kl_e4m3_value((uint8_t)from[i]);
    if (!kl_quant_has_biases(mode)) return kl_e8m0_value((uint8_t)from[i]);
    if (dtype == KL_F32) {
        memcpy(&x, from + 4 * i, sizeof x);
        return x;
    }
    memcpy(&half, from + 2 * i, sizeof half);
    return dtype == KL_F16 ? kl_f16_load(half) : kl_bf16_load(half);
}

/* n elements of a row of w from column `col` on, as numbers. Both are multiples of 8. */
static void numbers(const struct qmm *q, const struct matrices *a, int64_t row, int64_t col,
                    int64_t n, float *to) {
    const int g = q->f.group_size, bits = q->f.bits;
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    const char *scales = a->scales + row * q->s_row * item;
    const char *biases = q->biases ? a->biases + row * q->b_row * item : NULL;
    const uint8_t *words = a->w + row * q->w_row * 4 + col * bits / 8;
    for (int64_t group = col / g; n > 0; group++) {
        const int64_t some = kl_min64(n, (group + 1) * g - col);
        const float scale = number_at(q->f.mode, q->scale_type, scales, group);
        const float bias = biases ? number_at(q->f.mode, q->scale_type, biases, group) : 0;
        uint8_t codes[KL_MOST_GROUP];
        kl_codes_unpack(bits, some, words, codes);
        kl_codes_numbers(&q->f, some, codes, scale, bias, to);
        words += some * bits / 8;
        to += some;
        col += some;
        n -= some;
    }
}

/* ---- few rows ---- */

typedef kl_vec_f32 vec;
typedef kl_loose_f32 loose;
enum {
    LANES = KL_VECTOR / 4,
    BLOCK = 8 * LANES, /* the most elements in a vector of words */
    /* rows of x that are computed together; one where vectors are narrow, to save code */
    MOST_ROWS_OF_DOTS = KL_VECTOR > 16 ? 4 : 1,
    COLS_OF_ONE = KL_VECTOR > 16 ? 4 : 2, /* columns that are computed with one row; else 2 */
};
typedef uint32_t word_vec __attribute__((vector_size(KL_VECTOR)));
typedef int32_t int_vec __attribute__((vector_size(KL_VECTOR)));
typedef uint32_t loose_words __attribute__((vector_size(KL_VECTOR), aligned(4)));

/* What rows_fn multiplies: one row of x, as prepare_task leaves it, and rows of affine codes that
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

/* What the words of a row hold. Codes of 2, 3, 5 and 6 bits are unpacked to bytes before. */
enum way { NIBBLES, BYTES, E2M1, E4M3 };

/* x of one product, as float32: rows of `pitch` elements, behind them rows of sums by groups. */
struct few {
    enum way way;
    int per_word;          /* elements; 0: x is in its own order, else element e of each word of a
                            * vector follows element e - 1 of all */
    int64_t pitch, groups; /* rounded up to whole blocks and vectors, with zeros */
    int64_t all;           /* floats of one product */
    float *x;
    /* Of the rows of w: */
    int64_t words, ahead; /* words in one; those between what is used and what is fetched */
    int shift;            /* see struct columns */
    bool in_place;        /* scales and biases are read where they lie */
};

static enum way way_of(const struct qmm *q) {
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
    struct qmm *q;
    struct few *few;
    rows_fn *rows; /* NULL: few_task multiplies */
};

/* The sum of n numbers, a multiple of 16, in 16 lanes that are joined by halving. */
static float sum_of(const float *x, int64_t n) {
    float lane[16] = {0};
    for (int64_t i = 0; i < n; i += 16) KL_LANES(k, 16) lane[k] += x[i + k];
    KL_HALVE_16(KL_LANE_SUM, lane);
    return lane[0];
}

/* Converts the rows of matrix `i` of x, and adds them up by groups. */
static void prepare_task(void *arg, int64_t i) {
    const struct prepare *p = arg;
    const struct qmm *q = p->q;
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
            const char *from = at(q->x, offset + row * q->x_row + k * q->x_col);
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

/* What a task needs besides: MOST_COLS rows of each. */
struct room {
    float *scales, *biases; /* [groups], zero behind the last */
    float *by_words;        /* [pitch / 4]: the scale of each word, where groups end in vectors */
    uint32_t *last;         /* [LANES]: the last words of a row, with zeros */
    uint8_t *codes;         /* [pitch]: a row as bytes, zero behind the last */
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

/* Element e of each word as float32; `way` and e are constants. */
static inline __attribute__((always_inline)) vec element(enum way way, word_vec w, int e) {
    const int bits = way == NIBBLES || way == E2M1 ? 4 : 8, top = 32 / bits - 1;
    if (in_place(way, e))
        return __builtin_convertvector((int_vec)(w & ((1u << bits) - 1) << bits * e), vec);
    const int_vec code = (int_vec)(e == top ? w >> bits * e : (w >> bits * e) & ((1u << bits) - 1));
#if defined(__AVX512F__) /* a shuffle takes as many low bits of an index as it needs */
    if (way == NIBBLES) {
        const vec table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        return __builtin_shuffle(table, (int_vec)(w >> 4 * e));
    }
#endif
    if (way == NIBBLES || way == BYTES) return __builtin_convertvector(code, vec);
    if (way == E2M1) { /* twice the number */
#if defined(__AVX512F__)
        const vec table = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
        return __builtin_shuffle(table, (int_vec)(w >> 4 * e));
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
static inline void load_row(const struct qmm *q, const struct matrices *a, const struct few *r,
                            const struct room *room, int64_t row, int i, struct columns *c) {
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
static void dots(const struct qmm *q, const struct matrices *a, int64_t col, int64_t n,
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
static void add_rows(const struct qmm *q, const struct matrices *a, int64_t col, int64_t n,
                     const struct few *r, const float *x, float *out) {
    float row[KL_TILE];
    memset(out, 0, (size_t)(q->m * n) * sizeof(float));
    for (int64_t c = 0; c < n; c += KL_TILE)
        for (int64_t k = 0; k < q->k; k++) {
            const int64_t some = kl_min64(KL_TILE, n - c);
            numbers(q, a, k, col + c, some, row);
            for (int64_t i = 0; i < q->m; i++) {
                const float by = x[i * r->pitch + k];
                float *to = out + i * n + c;
                KL_EACH(e, some) to[e] = KL_MADD_F32(by, row[e], to[e]);
            }
        }
}

static void few_task(void *arg, int64_t task) {
    const struct prepare *p = arg;
    struct qmm *q = p->q;
    const struct few *r = p->few;
    const int64_t batch = task / q->col_tasks, col = task % q->col_tasks * q->cols;
    const int64_t n = kl_min64(q->cols, q->n - col);
    const struct matrices a = matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int item = (int)kl_dtype_size(out->dtype);
    const float *x = r->x + (q->gather ? index_at(q, 0, batch, q->x->dims[0]) : batch) * r->all;
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
static rows_fn *rows_fn_of(const struct qmm *q) {
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
    const struct qmm *q = p->q;
    const struct few *r = p->few;
    const int64_t batch = task / q->col_tasks, begin = task % q->col_tasks * q->cols;
    const int64_t end = kl_min64(begin + q->cols, q->n);
    const struct matrices a = matrices_of(q, batch);
    const struct kl_arg *out = q->l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype);
    const int64_t scale_item = (int64_t)kl_dtype_size(q->scale_type);
    const float *x = r->x + (q->gather ? index_at(q, 0, batch, q->x->dims[0]) : batch) * r->all;
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

static void few_rows(struct qmm *q, const struct kl_launch *alone) {
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

/* ---- many rows ---- */

struct panel {
    const struct qmm *q;
    struct matrices a;
};

/* Elements of one row of w, which has the columns of the product. */
static void load_row_of(const struct kl_product *j, int64_t offset, int64_t n, void *to) {
    const struct panel *p = j->from;
    numbers(p->q, &p->a, offset / p->q->n, offset % p->q->n, n, to);
}

/* Words of a panel of the product: for each word along k one of every row of w. */
struct square {
    word_vec words[LANES][2];
};

/* Element e of each word, as a number without its scale; `way` and e are constants. */
static inline __attribute__((always_inline)) vec number(enum way way, word_vec w, int e) {
    const int bits = way == NIBBLES || way == E2M1 ? 4 : 8;
    const vec y = element(way, in_place(way, e) ? w >> bits * e : w, in_place(way, e) ? 0 : e);
    return way == E2M1 ? 0.5f * y : y;
}

/* Writes the numbers of n words of each row, from `first` on in a group with these scales. */
static inline __attribute__((always_inline)) void
numbers_of_words(enum way way, const struct square *s, int64_t first, int64_t n,
                 const float *scales, const float *biases, float *to) {
    const int per_word = way == NIBBLES || way == E2M1 ? 8 : 4;
    for (int half = 0; half < 2; half++) {
        const vec scale = *(const loose *)(scales + half * LANES),
                  bias = *(const loose *)(biases + half * LANES);
        for (int64_t i = first; i < first + n; i++) {
            loose *row = (loose *)(to + i * per_word * 2 * LANES + half * LANES);
            const word_vec w = s->words[i][half];
#pragma GCC unroll 8
            for (int e = 0; e < per_word; e++, row += 2) {
                const vec y = number(way, w, e) * scale;
                *row = way == NIBBLES || way == BYTES ? y + bias : y;
            }
        }
    }
}

static void numbers_of_square(enum way way, const struct square *s, int64_t first, int64_t n,
                              const float *scales, const float *biases, float *to) {
    switch (way) {
    case NIBBLES: numbers_of_words(NIBBLES, s, first, n, scales, biases, to); break;
    case BYTES: numbers_of_words(BYTES, s, first, n, scales, biases, to); break;
    case E2M1: numbers_of_words(E2M1, s, first, n, scales, biases, to); break;
    default: numbers_of_words(E4M3, s, first, n, scales, biases, to);
    }
}

/* Reads n words of 2 LANES rows, `pitch` bytes apart, of which `lines` are there; the last stands
 * for those that are missing. */
static void read_square(const uint8_t *rows, int64_t pitch, int64_t lines, int64_t n,
                        struct square *to) {
    for (int half = 0; half < 2; half++) {
        kl_vec_f32 r[LANES];
        for (int c = 0; c < LANES; c++) {
            const uint8_t *from = rows + kl_min64(half * LANES + c, lines - 1) * pitch;
            if (n == LANES)
                r[c] = *(const loose *)(const void *)from;
            else
                memcpy(memset(&r[c], 0, sizeof r[c]), from, (size_t)n * 4);
        }
        kl_vec_transpose_f32(r);
        for (int i = 0; i < LANES; i++) to->words[i][half] = (word_vec)r[i];
    }
}

/* The scales or biases of `lines` rows of w from `row` on, in one group; 0 for missing rows. */
static void scales_of_rows(const struct qmm *q, const char *from, int64_t pitch, int64_t row,
                           int64_t group, int64_t lines, float *to) {
    const int64_t item = (int64_t)kl_dtype_size(q->scale_type);
    _Alignas(4) char some[2 * LANES * 4];
    memset(to, 0, 2 * LANES * sizeof *to);
    if (!from) return;
    kl_copy_run((int)item, lines, some, item, from + (row * pitch + group) * item, pitch * item);
    kl_scales_values(q->f.mode, q->scale_type, lines, some, to);
}

/* Packs a panel: rows of w, which has the depth of the product as columns. */
static void pack_rows_of(const struct kl_product *j, int64_t offset, int64_t lines, int64_t depth,
                         void *tov) {
    const struct panel *p = j->from;
    const struct qmm *q = p->q;
    const enum way way = way_of(q);
    const int64_t row = offset / q->k, col = offset % q->k, row_bytes = q->w_row * 4;
    const int per_word = way == NIBBLES || way == E2M1 ? 8 : 4, g = q->f.group_size;
    const uint8_t *at = p->a.w + row * row_bytes + col * q->f.bits / 8;
    const bool whole = q->f.bits * per_word == 32;
    struct square s;
    float scales[2 * LANES], biases[2 * LANES], *to = tov;
    int64_t of_group = -1;
    for (int64_t k = 0; k < depth; k += LANES * per_word, to += LANES * per_word * 2 * LANES) {
        const int64_t n = kl_min64(LANES, (depth - k) / per_word);
        uint8_t codes[2 * LANES * LANES * 4];
        const uint8_t *bytes = at + k * q->f.bits / 8;
        for (int64_t c = 0; c < lines; c++) {
            __builtin_prefetch(bytes + (c + 2 * LANES) * row_bytes);
            if (!whole)
                kl_codes_unpack(q->f.bits, n * 4, bytes + c * row_bytes, codes + c * LANES * 4);
        }
        read_square(whole ? bytes : codes, whole ? row_bytes : LANES * 4, lines, n, &s);
        for (int64_t i = 0; i < n;) {
            const int64_t group = (col + k + i * per_word) / g;
            const int64_t some = kl_min64(n - i, ((group + 1) * g - col - k) / per_word - i);
            if (group != of_group) {
                scales_of_rows(q, p->a.scales, q->s_row, row, group, lines, scales);
                scales_of_rows(q, p->a.biases, q->b_row, row, group, lines, biases);
                of_group = group;
            }
            numbers_of_square(way, &s, i, some, scales, biases, to);
            i += some;
        }
    }
}

#if defined(__AVX512F__)
#include "backend/cpu/quantized/quantized_amx.h"
#else
static bool many_rows_amx(struct qmm *q, int64_t batch, const struct kl_launch *alone) {
    return false;
}
#endif

/* The product of one batch. */
static void many_rows(struct qmm *q, int64_t batch, const struct kl_launch *alone) {
    if (many_rows_amx(q, batch, alone)) return;
    const struct panel p = {q, matrices_of(q, batch)};
    struct kl_arg x = *q->x, w = *q->w, out = *q->l->out;
    struct kl_launch l = *q->l;
    x.data = (void *)(uintptr_t)p.a.x;
    out.data = (char *)out.data + batch * q->m * q->n * (int64_t)kl_dtype_size(out.dtype);
    out.size = q->m * q->n;
    w.dtype = KL_F32;
    l.out = &out;
    struct kl_product j = {.l = &l,
                           .type = KL_F32,
                           .bytes = 4,
                           .a = &x,
                           .b = &w,
                           .m = q->m,
                           .n = q->n,
                           .k = q->k,
                           .a_row = q->x_row,
                           .a_col = q->x_col,
                           .b_row = q->transpose ? 1 : q->n,
                           .b_col = q->transpose ? q->k : 1,
                           .out_row = q->n,
                           .out_col = 1,
                           .batches = 1,
                           .from = &p,
                           .load_b = load_row_of,
                           .pack_b = pack_rows_of};
    kl_cpu_gemm(&j, alone);
    if (atomic_load(&j.no_memory)) atomic_store(&q->no_memory, true);
}

/* ---- the kernel ---- */

static void multiply(struct qmm *q) {
    const struct kl_launch *l = q->l;
    const struct kl_arg *args[4] = {q->x, q->w, q->scales, q->biases};
    const int last = q->x->ndim - 1;
    q->x_row = q->x->strides[last - 1];
    q->x_col = q->x->strides[last];
    q->w_row = q->w->strides[last - 1];
    q->s_row = q->scales->strides[last - 1];
    q->b_row = q->biases ? q->biases->strides[last - 1] : 0;
    for (int i = 0; i < last - 1 && !q->gather; i++) {
        if (l->out->dims[i] == 1 || q->n_lead == KL_LONG_AXES) continue;
        q->dims[q->n_lead] = l->out->dims[i];
        for (int k = 0; k < 4 && args[k]; k++) q->lead[k][q->n_lead] = args[k]->strides[i];
        q->n_lead++;
    }
    q->batches = l->out->size / (q->m * q->n);
    const bool big = (double)l->out->size * (double)q->k >= PARALLEL_FROM;
    const struct kl_launch alone = {.parallel = big ? l->parallel : NULL};
    if (q->m > FEW) {
        for (int64_t b = 0; b < q->batches; b++) many_rows(q, b, &alone);
        return;
    }
    few_rows(q, &alone);
}

int kl_cpu_quantized_matmul(struct kl_launch *l) {
    const struct kl_qmm_params *p = l->params;
    const struct kl_arg *out = l->out;
    const bool affine = kl_quant_has_biases(p->format.mode);
    struct qmm q = {.l = l,
                    .f = p->format,
                    .transpose = p->transpose,
                    .gather = l->op == KL_OP_GATHER_QMM,
                    .scale_type = l->in[2].dtype,
                    .x = &l->in[0]};
    struct kl_rows rows[3];
    int n = 0;
    if (out->size == 0) return KL_OK;
    q.m = out->dims[out->ndim - 2];
    q.n = out->dims[out->ndim - 1];
    q.k = q.x->dims[q.x->ndim - 1];
    if (q.k == 0) { /* the sums have no terms */
        memset(out->data, 0, (size_t)out->size * kl_dtype_size(out->dtype));
        return KL_OK;
    }
    q.groups = (q.transpose ? q.k : q.n) / q.f.group_size;
    for (; n < (affine ? 3 : 2); n++)
        if (!kl_rows_begin(&rows[n], l, &l->in[1 + n])) break;
    const bool room = n == (affine ? 3 : 2);
    q.w = &rows[0].arg;
    q.scales = &rows[1].arg;
    q.biases = affine ? &rows[2].arg : NULL;
    if (room) multiply(&q);
    while (n > 0) kl_rows_end(&rows[--n]);
    return !room || atomic_load(&q.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
