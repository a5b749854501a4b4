/* quantized_many.c - products of many rows of x with a quantized matrix: panels of the matrix are
 * unpacked into the packed form that products of floats use (gemm.c), or into tile registers
 * (quantized_amx.h). */
#include "backend/cpu/product/matmul.h"
#include "backend/cpu/quantized/quantized_words.h"

struct panel {
    const struct kl_qmm *q;
    struct kl_qmm_matrices a;
};

/* Elements of one row of w, which has the columns of the product. */
static void load_row_of(const struct kl_product *j, int64_t offset, int64_t n, void *to) {
    const struct panel *p = j->from;
    kl_qmm_numbers(p->q, &p->a, offset / p->q->n, offset % p->q->n, n, to);
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
static void scales_of_rows(const struct kl_qmm *q, const char *from, int64_t pitch, int64_t row,
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
    const struct kl_qmm *q = p->q;
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
static bool many_rows_amx(struct kl_qmm *q, int64_t batch, const struct kl_launch *alone) {
    return false;
}
#endif

void kl_qmm_many_rows(struct kl_qmm *q, int64_t batch, const struct kl_launch *alone) {
    if (many_rows_amx(q, batch, alone)) return;
    const struct panel p = {q, kl_qmm_matrices_of(q, batch)};
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
