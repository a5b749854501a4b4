/* attention_amx.h - attention of many queries in tile registers: how operands are packed, and
 * weights in bfloat16. Weights are rounded to bfloat16 before they are summed and for the second
 * product. Operands of float32 are split into bfloat16 parts (pack_amx.h), and so are their
 * weights. For attention_many.c, which includes it where the CPU may have tile registers. */
#include <immintrin.h>

/* Packs a tile of an operand, or its bfloat16 parts. */
static void pack_tile(int bf16_parts, const char *from, int64_t line, int64_t step, int64_t lines,
                      int64_t depth, bool pairs, uint16_t *to) {
    if (lines < 0) lines = 0;
    if (bf16_parts == 1)
        kl_amx_pack((const uint16_t *)from, line, step, lines, depth, pairs, to);
    else
        (void)kl_amx_split(from, false, line, step, lines, depth, pairs, to, KL_AMX_TILE << pairs);
}

/* The next functions pack n rows from `first` on. Keys are packed as rows of a left operand, and so
 * are columns of values. Both are padded with zeros to r->d and r->e elements, and to whole tiles
 * of keys. */
static void pack_keys(const struct kl_arg *a, const struct room *r, const char *first, int64_t n,
                      int64_t width) {
    int64_t line = a->strides[2], step = a->strides[3], item = (int64_t)kl_dtype_size(a->dtype);
    for (int64_t i = 0; i < kl_round_up(n, KL_AMX_ROWS); i += 16)
        for (int64_t t = 0; t < r->d; t += 32)
            pack_tile(r->bf16_parts, first + (i * line + t * step) * item, line, step,
                      kl_min64(16, n - i), kl_min64(32, width - t), false,
                      (uint16_t *)r->k + (i * r->d + t * 16) * r->bf16_parts);
}
static void pack_values(const struct kl_arg *a, const struct room *r, const char *first, int64_t n,
                        int64_t width) {
    int64_t line = a->strides[3], step = a->strides[2], item = (int64_t)kl_dtype_size(a->dtype);
    for (int64_t e = 0; e < r->e; e += 16)
        for (int64_t k = 0; k < n; k += 32)
            pack_tile(r->bf16_parts, first + (k * step + e * line) * item, line, step,
                      kl_min64(16, width - e), kl_min64(32, n - k), false,
                      (uint16_t *)r->v + (e * r->run + k * 16) * r->bf16_parts);
}

/* The left operand that lies packed at `at`, with rows of `pitch` elements, from row `row` on. */
static struct kl_amx_left packed_left(const struct room *r, const float *at, int64_t row,
                                      int64_t pitch) {
    return (struct kl_amx_left){(const uint16_t *)at + row * pitch * r->bf16_parts, KL_AMX_DEPTH,
                                r->bf16_parts * KL_AMX_TILE, KL_AMX_LINES * pitch * r->bf16_parts};
}

/* Packs the queries of a panel, WIDTH rows, as the columns of a right operand. */
static void pack_queries(const struct room *r, uint16_t *to) {
    int64_t item = r->bf16_parts == 1 ? 2 : 4;
    for (int64_t c = 0; c < WIDTH; c += 16)
        for (int64_t t = 0; t < r->d; t += 32)
            pack_tile(r->bf16_parts, (const char *)r->raw + (c * r->d + t) * item, r->d, 1, 16, 32,
                      true, to + (t * r->bf16_parts + c) * 32);
}

/* Packs the weights of n keys as a right operand. */
static void pack_weights(const struct room *r, int64_t n) {
    for (int64_t c = 0; c < WIDTH; c += 16)
        for (int64_t k = 0; k < n; k += 32)
            pack_tile(r->bf16_parts, (const char *)(r->scores + k * WIDTH + c), 1, WIDTH, 16,
                      kl_min64(32, n - k), true, (uint16_t *)r->raw + (k * r->bf16_parts + c) * 32);
}

/* Extends *range by the elements of one row, times `factor`. */
static void join_range(const struct kl_arg *a, const char *row, int64_t width, float factor,
                       struct kl_amx_range *range) {
    float x[KL_TILE];
    for (int64_t i = 0; i < width; i += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, width - i);
        uint32_t most = 0, least = UINT32_MAX;
        kl_copy_run(4, n, x, 4, row + i * a->strides[3] * 4, a->strides[3] * 4);
        KL_EACH(k, n) {
            uint32_t size = kl_f32_bits(x[k] * factor) & 0x7fffffffu;
            most = size > most ? size : most;
            least = size - 1 < least ? size - 1 : least;
        }
        kl_amx_range_join(range, (struct kl_amx_range){most, least});
    }
}

/* Whether queries [first, first + n), and all keys and values that they see, can be split into
 * bfloat16 parts. Weights are between 0 and 1: the error of the smallest weights is negligible
 * relative to the largest one, unless values differ by as much. */
static bool can_be_cut(const struct kl_attention_job *j, int64_t batch, int64_t kv_head,
                       int64_t first, int64_t n) {
    struct kl_amx_range q = KL_AMX_NO_RANGE, k = KL_AMX_NO_RANGE, v = KL_AMX_NO_RANGE;
    int64_t last = 0;
    for (int64_t i = first; i < first + n; i++) {
        struct kl_attention_query at = kl_attention_query_of(j, kv_head, i);
        int64_t seen = kl_attention_last_seen(j, at.row);
        if (seen < 0) seen = j->m - 1;
        if (seen > last) last = seen;
        join_range(j->q, kl_attention_row(j->q, batch, at.head, at.row), j->d, j->scale, &q);
    }
    for (int64_t i = 0; i <= last; i++) {
        join_range(j->k, kl_attention_row(j->k, batch, kv_head, i), j->d, 1, &k);
        join_range(j->v, kl_attention_row(j->v, batch, kv_head, i), j->e, 1, &v);
    }
    bool zeros = v.least == UINT32_MAX;
    return kl_amx_takes(q, k, j->d) && kl_bits_f32(v.most) < 0x1p100f &&
           (zeros || kl_bits_f32(v.least + 1) > 0x1p-60f);
}

/* CPUs with tile registers have these instructions too. */
#define WITH_BF16 __attribute__((target("avx512bf16")))

/* exp(x) = 2^n 2^f, n being the whole number below x / ln 2: 2^f is a polynomial with a relative
 * error of 2^-18.3; rounding to bfloat16 loses 2^-9. */
static inline __m512 weight_of(__m512 x) {
    enum { DOWN = 1 }; /* the rounding mode, towards -infinity */
    static const float c[] = {1, 0.693044841f, 0.241280213f, 0.0522424728f, 0.0134266866f};
    __m512 u = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), f = _mm512_reduce_ps(u, DOWN);
    __m512 y = _mm512_set1_ps(c[4]);
#pragma GCC unroll 8
    for (int i = 3; i >= 0; i--) y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(c[i]));
    return _mm512_scalef_ps(y, u);
}

/* As `weigh`, for scores that are not yet multiplied by `scale`, which is positive. Packs the
 * weights as a right operand. The largest score is replaced only by one that is larger by LEEWAY,
 * so sums are seldom scaled down. Weights are at most exp(LEEWAY); bfloat16 has the same relative
 * precision at every size. */
WITH_BF16 static void weigh_pairs(struct panel *p, const float *scores, int64_t n, float scale,
                                  uint32_t *to) {
    enum { LEEWAY = 4 };
    /* The permutation that makes pairs of two vectors of bfloat16. */
    _Alignas(64) uint16_t order[32];
    for (int i = 0; i < 32; i++) order[i] = (uint16_t)(i / 2 + i % 2 * 16);
    __m512i pairs = _mm512_load_si512(order), upper = _mm512_set1_epi32((int)0xffff0000);
    __m512 factor = _mm512_set1_ps(scale);
    for (int half = 0; half < WIDTH; half += 16) {
        const float *s = scores + half;
        /* Four maxima are found side by side, since each step waits for the step before. A maximum
         * ignores NaN, but the sum of weights becomes NaN. */
        __m512 tops[4], largest = _mm512_loadu_ps(p->largest + half);
        for (int k = 0; k < 4; k++) tops[k] = _mm512_loadu_ps(s);
        for (int64_t i = 0; i < n; i += 4)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                tops[k] =
                    _mm512_max_ps(tops[k], _mm512_loadu_ps(s + kl_min64(i + k, n - 1) * WIDTH));
        __m512 top =
            _mm512_max_ps(_mm512_max_ps(tops[0], tops[1]), _mm512_max_ps(tops[2], tops[3]));
        top = _mm512_mul_ps(top, factor);
        __mmask16 more =
            _mm512_cmp_ps_mask(_mm512_sub_ps(top, largest), _mm512_set1_ps(LEEWAY), _CMP_GT_OQ);
        top = _mm512_mask_mov_ps(largest, more, top);
        /* A fused multiply-subtract does not round x * factor, as top was rounded. The difference
         * is as large as one rounding of top, which matters only where top is far from 0. */
        const bool far =
            _mm512_cmp_ps_mask(_mm512_abs_ps(top), _mm512_set1_ps(32768), _CMP_GT_OQ) != 0;
        float *down = p->scale + half;
        _mm512_storeu_ps(down, _mm512_sub_ps(largest, top));
        _mm512_storeu_ps(p->largest + half, top);
        KL_EACH(c, 16) down[c] = kl_exp_f32(down[c]);
        __m512 first = _mm512_mul_ps(_mm512_loadu_ps(p->total + half), _mm512_loadu_ps(down)),
               second = _mm512_setzero_ps();
        for (int64_t i = 0; i < kl_round_up(n, KL_AMX_DEPTH); i += 2) {
            __m512 w[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 2
            for (int key = 0; key < 2; key++)
                if (i + key < n) {
                    const __m512 x = _mm512_loadu_ps(s + (i + key) * WIDTH);
                    w[key] = weight_of(far ? _mm512_sub_ps(_mm512_mul_ps(x, factor), top)
                                           : _mm512_fmsub_ps(x, factor, top));
                }
            __m512i both =
                _mm512_permutexvar_epi16(pairs, (__m512i)_mm512_cvtne2ps_pbh(w[1], w[0]));
            first = _mm512_add_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)));
            second = _mm512_add_ps(second, _mm512_castsi512_ps(_mm512_and_si512(both, upper)));
            _mm512_storeu_si512(to + i / 32 * 512 + half * 16 + i % 32 * 8, both);
        }
        _mm512_storeu_ps(p->total + half, _mm512_add_ps(first, second));
    }
}

/* Stores the results of a panel's queries: the rows of `sums`, WIDTH elements each, divided by the
 * sums of weights. */
WITH_BF16 static void store_panel(const struct kl_attention_job *j, const struct panel *p,
                                  int64_t batch, int64_t kv_head, int64_t first,
                                  const float *sums) {
    uint16_t *out[WIDTH];
    for (int64_t c = 0; c < p->n; c++) {
        struct kl_attention_query q = kl_attention_query_of(j, kv_head, first + c);
        out[c] = (uint16_t *)j->l->out->data + ((batch * j->heads + q.head) * j->n + q.row) * j->e;
    }
    for (int half = 0; half < WIDTH && half < p->n; half += 16) {
        __m512 part = _mm512_div_ps(_mm512_set1_ps(1), _mm512_loadu_ps(p->total + half));
        for (int64_t e = 0; e < j->e; e += 16) {
            kl_vec_f32 r[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++)
                r[i] =
                    (kl_vec_f32)_mm512_mul_ps(part, _mm512_loadu_ps(sums + (e + i) * WIDTH + half));
            kl_vec_transpose_f32(r);
            const __mmask16 there = (__mmask16)((1 << kl_min64(16, j->e - e)) - 1);
            for (int64_t c = 0; c < kl_min64(16, p->n - half); c++)
                _mm256_mask_storeu_epi16(out[half + c] + e, there,
                                         (__m256i)_mm512_cvtneps_pbh((__m512)r[c]));
        }
    }
}
