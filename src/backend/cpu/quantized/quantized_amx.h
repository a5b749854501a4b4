/* quantized_amx.h - many rows of x by a transposed affine matrix of 4 or 8 bits in tile registers.
 * For quantized_many.c, which includes it. Codes are whole numbers that bfloat16 holds, and x is
 * one bfloat16 or the sum of two or three, so all products are exact; the sums of a group are
 * scaled in vectors, and biases are multiplied by the sums of groups of x. Each element is added up
 * group by group, however the product is cut. */
#include "backend/cpu/product/pack_amx.h"

enum {
    AMX_ROWS = 512,  /* rows of x that use the codes of a part of the matrix, once unpacked */
    AMX_CHUNK = 512, /* elements along k that are unpacked at a time, of KL_AMX_ROWS columns */
    AMX_STEP = 2 * KL_AMX_TILE, /* elements of a right operand for each tile of the left one */
    AMX_TASKS = 32,
};

struct amx_product {
    struct kl_qmm *q;
    struct kl_qmm_matrices a;
    char *out;
    int parts;             /* bfloat16 parts of an element of x */
    uint16_t *left;        /* x, packed: panels of KL_AMX_LINES rows, each whole along k */
    float *of;             /* [m][groups]: the sums of groups of x */
    _Atomic(bool) refused; /* an element of x is too large, or cannot be split into parts */
};

/* The first part of tile t along k of a panel. */
static uint16_t *left_tile(const struct amx_product *p, int64_t panel, int64_t t) {
    return p->left + (panel * (p->q->k / KL_AMX_DEPTH) + t) * p->parts * KL_AMX_TILE;
}

/* Writes n floats, of whole tiles, to line `line` of tiles; returns their range. Part number i of
 * an element goes to tile number i, the largest first; the last one has the remainder. */
static struct kl_amx_range split_line(const float *x, int64_t n, int parts, int64_t line,
                                      uint16_t *tiles) {
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000), half = _mm512_set1_epi32(0x8000),
                  magnitude = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(1);
    __m512i most = _mm512_setzero_si512(), least = _mm512_set1_epi32(-1);
    for (int64_t i = 0; i < n; i += 16) {
        uint16_t *to =
            tiles + i / KL_AMX_DEPTH * parts * KL_AMX_TILE + line * KL_AMX_DEPTH + i % KL_AMX_DEPTH;
        __m512 rest = _mm512_loadu_ps(x + i);
        const __m512i size = _mm512_and_si512(_mm512_castps_si512(rest), magnitude);
        most = _mm512_max_epu32(most, size);
        least = _mm512_min_epu32(least, _mm512_sub_epi32(size, one));
        for (int k = 0; k < parts; k++) {
            __m512i part = _mm512_castps_si512(rest);
            if (k + 1 < parts) part = _mm512_add_epi32(part, half);
            part = _mm512_and_si512(part, upper);
            rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(part));
            _mm256_storeu_si256((__m256i *)(void *)(to + k * KL_AMX_TILE),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32(part, 16)));
        }
    }
    return (struct kl_amx_range){_mm512_reduce_max_epu32(most), _mm512_reduce_min_epu32(least)};
}

/* Packs a panel of x, and adds it up by groups. */
static void pack_left(void *arg, int64_t panel) {
    struct amx_product *p = arg;
    const struct kl_qmm *q = p->q;
    const int g = q->f.group_size, item = (int)kl_dtype_size(q->x->dtype);
    const struct kl_amx_range codes = {kl_f32_bits(255), kl_f32_bits(1) - 1};
    const int64_t first = panel * KL_AMX_LINES;
    if (first + KL_AMX_LINES > q->m)
        memset(left_tile(p, panel, 0), 0, (size_t)(q->k * p->parts * KL_AMX_LINES) * 2);
    for (int64_t row = first; row < kl_min64(first + KL_AMX_LINES, q->m); row++)
        for (int64_t k = 0; k < q->k; k += g) {
            const char *from = p->a.x + (row * q->x_row + k * q->x_col) * item;
            float x[KL_MOST_GROUP], raw[KL_MOST_GROUP];
            if (q->x_col != 1) {
                kl_copy_run(item, g, (char *)raw, item, from, q->x_col * item);
                from = (const char *)raw;
            }
            kl_convert(KL_F32, x, q->x->dtype, from, g);
            p->of[row * q->groups + k / g] = sum_of(x, g);
            struct kl_amx_range range =
                split_line(x, g, p->parts, row - first, left_tile(p, panel, k / KL_AMX_DEPTH));
            if (p->parts == 1) range.least = KL_AMX_NO_RANGE.least; /* only sums may overflow */
            if (!kl_amx_takes(range, codes, g)) atomic_store(&p->refused, true);
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
    const struct kl_qmm *q = p->q;
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
                struct kl_amx_left left = {
                    left_tile(p, line / KL_AMX_LINES, (k + at) / KL_AMX_DEPTH), KL_AMX_DEPTH,
                    p->parts * KL_AMX_TILE, tiles * p->parts * KL_AMX_TILE};
                left.at += (p->parts - 1) * KL_AMX_TILE; /* the smallest part first */
                for (int i = 0; i < p->parts; i++, left.at -= KL_AMX_TILE)
                    kl_amx_square(few, 1, g / KL_AMX_DEPTH, &left,
                                  right + at / KL_AMX_DEPTH * AMX_STEP, i > 0 ? &to : NULL, &to);
                add_group(kl_min64(KL_AMX_ROWS, rows - row), part, scales, biases,
                          p->of + line * q->groups + group, q->groups, sums + row * KL_AMX_ROWS);
            }
        }
    }
}

static void amx_task(void *arg, int64_t task) {
    const struct amx_product *p = arg;
    struct kl_qmm *q = p->q;
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

/* The product of one batch. Returns false, and writes nothing, where vectors compute it. */
static bool many_rows_amx(struct kl_qmm *q, int64_t batch, const struct kl_launch *alone) {
    if (!kl_cpu_uses_amx() || !q->transpose || !kl_quant_has_biases(q->f.mode) ||
        (q->f.bits != 4 && q->f.bits != 8))
        return false;
    struct amx_product p = {.q = q, .a = kl_qmm_matrices_of(q, batch)};
    p.parts = q->x->dtype == KL_BF16 ? 1 : q->x->dtype == KL_F16 ? 2 : 3;
    const int64_t panels = kl_round_up(q->m, KL_AMX_ROWS) / KL_AMX_LINES;
    const size_t left_bytes = (size_t)(panels * KL_AMX_LINES * q->k * p.parts) * sizeof *p.left;
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
    const bool taken = !atomic_load(&p.refused);
    q->cols = kl_round_up(kl_ceil_div(q->n, AMX_TASKS), KL_AMX_ROWS);
    if (taken) kl_run_tasks(alone, kl_ceil_div(q->n, q->cols), amx_task, &p);
    kl_scratch_give(&room);
    return taken;
}
