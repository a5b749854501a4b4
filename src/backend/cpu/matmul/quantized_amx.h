/* quantized_amx.h - products of rows of bfloat16 with a transposed affine matrix of 4 or 8 bits in
 * tile registers. For quantized_matmul.c, which includes it. Codes are whole numbers that bfloat16
 * holds, so their products are exact; the sums of a group are scaled in vectors, and biases are
 * multiplied by the sums of groups of x. Each element is added up group by group, however the
 * product is cut. */
#include "backend/cpu/matmul/pack_amx.h"

enum {
    AMX_ROWS = 512,  /* rows of x that use the codes of a part of the matrix, once unpacked */
    AMX_CHUNK = 512, /* elements along k that are unpacked at a time, of KL_AMX_ROWS columns */
    AMX_STEP = 2 * KL_AMX_TILE, /* elements of a right operand for each tile of the left one */
    AMX_TASKS = 32,
};

struct amx_product {
    struct qmm *q;
    struct matrices a;
    char *out;
    uint16_t *left; /* x, packed: panels of KL_AMX_LINES rows, each whole along k */
    float *of;      /* [m][groups]: the sums of groups of x */
};

/* Packs a panel of x, and adds it up by groups. */
static void pack_left(void *arg, int64_t panel) {
    const struct amx_product *p = arg;
    const struct qmm *q = p->q;
    const int64_t tiles = q->k / KL_AMX_DEPTH, row = panel * KL_AMX_LINES;
    const int64_t lines = row < q->m ? kl_min64(KL_AMX_LINES, q->m - row) : 0;
    const uint16_t *from = (const uint16_t *)(const void *)p->a.x + row * q->x_row;
    for (int64_t t = 0; t < tiles; t++)
        kl_amx_pack(from + t * KL_AMX_DEPTH * q->x_col, q->x_row, q->x_col, lines, KL_AMX_DEPTH,
                    false, p->left + (panel * tiles + t) * KL_AMX_TILE);
    for (int64_t line = 0; line < lines; line++)
        for (int64_t group = 0; group < q->groups; group++) {
            const int g = q->f.group_size;
            float x[KL_MOST_GROUP];
            for (int k = 0; k < g; k += KL_AMX_DEPTH)
                kl_convert(KL_F32, x + k, KL_BF16,
                           p->left +
                               (panel * tiles + (group * g + k) / KL_AMX_DEPTH) * KL_AMX_TILE +
                               line * KL_AMX_DEPTH,
                           KL_AMX_DEPTH);
            p->of[(row + line) * q->groups + group] = sum_of(x, g);
        }
}

/* Pair number `pair` of the codes in each word, as two numbers of bfloat16. */
static inline __attribute__((always_inline)) __m512i pair_of_codes(enum way way, __m512i w,
                                                                   int pair) {
    if (way == NIBBLES) {
        const __m512i table = _mm512_castsi256_si512(
            _mm256_setr_epi16(0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100,
                              0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170));
        const __m512i low =
            _mm512_and_si512(_mm512_srli_epi32(w, (unsigned)(8 * pair)), _mm512_set1_epi32(255));
        const __m512i both = _mm512_or_si512(low, _mm512_slli_epi32(low, 12));
        return _mm512_permutexvar_epi16(_mm512_and_si512(both, _mm512_set1_epi32(0x000f000f)),
                                        table);
    }
    const __m512i byte = _mm512_set1_epi32(255);
    const __m512i low = _mm512_and_si512(_mm512_srli_epi32(w, (unsigned)(16 * pair)), byte);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi32(w, (unsigned)(16 * pair + 8)), byte);
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(low)), 16),
                           _mm512_castps_si512(_mm512_cvtepi32_ps(high)));
}

/* Unpacks n elements along k of rows of w, of which `lines` are there, as tiles of a right
 * operand. */
static inline __attribute__((always_inline)) void unpack_right(enum way way, const uint8_t *rows,
                                                               int64_t row_bytes, int64_t lines,
                                                               int64_t n, uint16_t *to) {
    const int per_word = way == NIBBLES ? 8 : 4, pairs = per_word / 2;
    const int words = KL_AMX_DEPTH / per_word; /* of one row in a tile */
    for (int64_t word = 0; word < n / per_word; word += LANES) {
        const int64_t some = kl_min64(LANES, n / per_word - word);
        struct square s;
        for (int64_t c = 0; c < lines; c++)
            __builtin_prefetch(rows + (c + 2 * LANES) * row_bytes + word * 4);
        read_square(rows + word * 4, row_bytes, lines, some, &s);
        for (int64_t i = 0; i < some; i++) {
            const int64_t line = (word + i) % words * pairs;
            uint16_t *at = to + (word + i) / words * AMX_STEP + line * KL_AMX_DEPTH;
            for (int half = 0; half < 2; half++)
#pragma GCC unroll 4
                for (int pair = 0; pair < pairs; pair++)
                    _mm512_store_si512(at + half * KL_AMX_TILE + pair * KL_AMX_DEPTH,
                                       pair_of_codes(way, (__m512i)s.words[i][half], pair));
        }
    }
}

/* sums += part * scale + of_x * bias, for `rows` rows of 32 columns. */
static void add_group(int64_t rows, const float *part, const float *scale, const float *bias,
                      const float *of_x, int64_t pitch, float *sums) {
    const __m512 scales[2] = {_mm512_loadu_ps(scale), _mm512_loadu_ps(scale + 16)};
    const __m512 biases[2] = {_mm512_loadu_ps(bias), _mm512_loadu_ps(bias + 16)};
    for (int64_t i = 0; i < rows; i++) {
        const __m512 x = _mm512_set1_ps(of_x[i * pitch]);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            float *to = sums + i * KL_AMX_ROWS + half * 16;
            const __m512 sum = _mm512_fmadd_ps(x, biases[half], _mm512_load_ps(to));
            _mm512_store_ps(to,
                            _mm512_fmadd_ps(_mm512_load_ps(part + (to - sums)), scales[half], sum));
        }
    }
}

/* Rows [first, first + rows) of 32 columns from `col` on, of which `lines` are there. */
static void amx_block(const struct amx_product *p, bool few, int64_t first, int64_t rows,
                      int64_t col, int64_t lines, float *sums, uint16_t *right) {
    const struct qmm *q = p->q;
    const enum way way = way_of(q);
    const int64_t g = q->f.group_size, tiles = q->k / KL_AMX_DEPTH, row_bytes = q->w_row * 4;
    _Alignas(64) float part[KL_AMX_ROWS * KL_AMX_ROWS];
    const struct kl_amx_place to = {part, KL_AMX_ROWS};
    memset(sums, 0, (size_t)(rows * KL_AMX_ROWS) * sizeof *sums);
    for (int64_t k = 0; k < q->k; k += AMX_CHUNK) {
        const int64_t n = kl_min64(AMX_CHUNK, q->k - k);
        const uint8_t *codes = p->a.w + col * row_bytes + k * q->f.bits / 8;
        if (way == NIBBLES)
            unpack_right(NIBBLES, codes, row_bytes, lines, n, right);
        else
            unpack_right(BYTES, codes, row_bytes, lines, n, right);
        for (int64_t at = 0; at < n; at += g) {
            const int64_t group = (k + at) / g;
            float scales[KL_AMX_ROWS], biases[KL_AMX_ROWS];
            scales_of_rows(q, p->a.scales, q->s_row, col, group, lines, scales);
            scales_of_rows(q, p->a.biases, q->b_row, col, group, lines, biases);
            for (int64_t row = 0; row < rows; row += KL_AMX_ROWS) {
                const int64_t line = first + row;
                const struct kl_amx_left left = {
                    p->left + (line / KL_AMX_LINES * tiles + (k + at) / KL_AMX_DEPTH) * KL_AMX_TILE,
                    KL_AMX_DEPTH, KL_AMX_TILE, tiles * KL_AMX_TILE};
                kl_amx_square(few, 1, g / KL_AMX_DEPTH, &left, right + at / KL_AMX_DEPTH * AMX_STEP,
                              NULL, &to);
                add_group(kl_min64(KL_AMX_ROWS, rows - row), part, scales, biases,
                          p->of + line * q->groups + group, q->groups, sums + row * KL_AMX_ROWS);
            }
        }
    }
}

static void amx_task(void *arg, int64_t task) {
    const struct amx_product *p = arg;
    struct qmm *q = p->q;
    const struct kl_arg *out = q->l->out;
    const int64_t item = (int64_t)kl_dtype_size(out->dtype), begin = task * q->cols;
    const int64_t end = kl_min64(begin + q->cols, q->n), most = kl_min64(AMX_ROWS, q->m);
    const size_t sums_bytes = (size_t)(most * KL_AMX_ROWS) * sizeof(float);
    struct kl_amx_config before;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, q->l, sums_bytes + AMX_CHUNK / KL_AMX_DEPTH * AMX_STEP * 2)) {
        atomic_store(&q->no_memory, true);
        return;
    }
    float *sums = (float *)room.ptr;
    const bool few = kl_amx_begin(&before);
    for (int64_t first = 0; first < q->m; first += most)
        for (int64_t col = begin; col < end; col += KL_AMX_ROWS) {
            const int64_t rows = kl_min64(most, q->m - first),
                          lines = kl_min64(KL_AMX_ROWS, end - col);
            amx_block(p, few, first, rows, col, lines, sums, (uint16_t *)(room.ptr + sums_bytes));
            for (int64_t i = 0; i < rows; i++)
                kl_convert(out->dtype, p->out + ((first + i) * q->n + col) * item, KL_F32,
                           sums + i * KL_AMX_ROWS, lines);
        }
    kl_amx_end(&before);
    kl_scratch_give(&room);
}

/* The product of one batch. Returns false, and does nothing, where vectors compute it. */
static bool many_rows_amx(struct qmm *q, int64_t batch, const struct kl_launch *alone) {
    if (!kl_cpu_uses_amx() || !q->transpose || q->f.mode != KL_QUANT_AFFINE ||
        (q->f.bits != 4 && q->f.bits != 8) || q->x->dtype != KL_BF16)
        return false;
    struct amx_product p = {.q = q, .a = matrices_of(q, batch)};
    const int64_t panels = kl_round_up(q->m, KL_AMX_ROWS) / KL_AMX_LINES;
    const size_t left_bytes = (size_t)(panels * KL_AMX_LINES * q->k) * sizeof *p.left;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, q->l, left_bytes + (size_t)(q->m * q->groups) * sizeof *p.of)) {
        atomic_store(&q->no_memory, true);
        return true;
    }
    p.left = (uint16_t *)room.ptr;
    p.of = (float *)(room.ptr + left_bytes);
    p.out =
        (char *)q->l->out->data + batch * q->m * q->n * (int64_t)kl_dtype_size(q->l->out->dtype);
    kl_run_tasks(alone, panels, pack_left, &p);
    q->cols = kl_round_up(kl_ceil_div(q->n, AMX_TASKS), KL_AMX_ROWS);
    kl_run_tasks(alone, kl_ceil_div(q->n, q->cols), amx_task, &p);
    kl_scratch_give(&room);
    return true;
}
