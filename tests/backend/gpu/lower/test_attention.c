/* test_attention.c - ATTENTION on a device against the CPU's: float32 within 2^-17 of the
 * largest value, bfloat16 within 2^-7, float16 within 2^-9 (the roundings of weights and results to
 * 16 bits), and what the roundings of scores add. */
#include "lower_support.h"

enum masking { NO_MASK, CAUSAL, BOOLEAN, ADDED };

struct problem {
    enum kl_dtype dtype;
    int b, heads, key_heads, n, m, d, e;
    enum masking masking;
    bool has_sinks;
    enum layout layout, mask_layout;
    float scale;
};

static void check(const struct problem *p) {
    struct kl_attention_params params = {p->scale, p->masking == CAUSAL, p->masking >= BOOLEAN,
                                         p->has_sinks};
    struct operand in[5], out;
    int n_in = 3;
    char what[200];
    snprintf(what, sizeof what, "b %d heads %d/%d n %d m %d d %d e %d masking %d%s layouts %d %d",
             p->b, p->heads, p->key_heads, p->n, p->m, p->d, p->e, p->masking,
             p->has_sinks ? " sinks" : "", p->layout, p->mask_layout);
    ls_make(&in[0], p->dtype, 4, (int[]){p->b, p->heads, p->n, p->d}, p->layout, PLAIN);
    ls_make(&in[1], p->dtype, 4, (int[]){p->b, p->key_heads, p->m, p->d}, p->layout, PLAIN);
    ls_make(&in[2], p->dtype, 4, (int[]){p->b, p->key_heads, p->m, p->e}, p->layout, PLAIN);
    if (p->masking >= BOOLEAN)
        ls_make(&in[n_in++], p->masking == BOOLEAN ? KL_BOOL : p->dtype, 4,
                (int[]){p->b, p->heads, p->n, p->m}, p->mask_layout, PLAIN);
    if (p->has_sinks) ls_make(&in[n_in++], p->dtype, 1, &p->heads, DENSE, PLAIN);
    ls_make_out(&out, p->dtype, 4, (int[]){p->b, p->heads, p->n, p->e});
    void *got = ls_run(KL_OP_ATTENTION, &params, n_in, in, &out);
    /* A score is a sum of d products, whose rounding errors the exponential passes on. */
    const double of_scores = p->d * fabs(p->scale) * 0x1p-22,
                 of_weights = p->dtype == KL_F32   ? 0x1p-17
                              : p->dtype == KL_F16 ? 0x1p-9
                                                   : 0x1p-7;
    ls_near(&out, got, NULL, 4 * (of_scores + of_weights), what);
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
enum { N_TYPES = sizeof dtypes / sizeof *dtypes };

/* Every masking and layout, for shapes that go to every kernel. */
static void maskings(void **state) {
    static const struct problem shapes[] = {
        {.b = 2, .heads = 4, .key_heads = 2, .n = 1, .m = 70, .d = 64, .e = 64},
        {.b = 1, .heads = 2, .key_heads = 2, .n = 5, .m = 33, .d = 16, .e = 16},
        {.b = 1, .heads = 2, .key_heads = 1, .n = 40, .m = 150, .d = 128, .e = 128},
        {.b = 2, .heads = 2, .key_heads = 1, .n = 150, .m = 130, .d = 64, .e = 64},
        {.b = 1, .heads = 3, .key_heads = 1, .n = 7, .m = 20, .d = 10, .e = 19},
    };
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int masking = NO_MASK; masking <= ADDED; masking++)
                for (int k = 0; k < 4; k++) {
                    /* The longest are fewer: PoCL runs kernels without optimisation. */
                    if (!kl_test_takes("kernels", shapes[i].n > 30 ? 3 : 1)) continue;
                    static const enum layout layouts[] = {DENSE, GAPPED, TRANSPOSED, REVERSED},
                                             masks[] = {DENSE, BROADCAST, SHIFTED, TRANSPOSED};
                    struct problem p = shapes[i];
                    p.dtype = dtypes[t];
                    p.masking = (enum masking)masking;
                    p.has_sinks = k % 2;
                    p.layout = layouts[k];
                    p.mask_layout = masks[k];
                    p.scale = 0.2f;
                    check(&p);
                }
}

/* Lengths around the sizes of tiles and segments. */
static void lengths(void **state) {
    static const int n[] = {1, 2, 15, 16, 17, 64, 65, 127, 129},
                     m[] = {1, 31, 32, 33, 128, 129, 257};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (size_t k = 0; k < sizeof m / sizeof *m; k++) {
            struct problem p = {.dtype = dtypes[(i + k) % N_TYPES],
                                .b = 1,
                                .heads = 2,
                                .key_heads = 1 + (int)k % 2,
                                .n = n[i],
                                .m = m[k],
                                .d = 64,
                                .e = 64,
                                .masking = k % 3 ? CAUSAL : NO_MASK,
                                .has_sinks = i % 2,
                                .scale = 0.125f};
            check(&p);
        }
}

/* Widths that have a kernel of their own, and others; more rows for a key head than one group has;
 * long rows of keys, which are cut. */
static void widths(void **state) {
    static const int widths[] = {8, 32, 64, 80, 96, 128, 256};
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            if (!kl_test_takes("kernels", widths[i] == 256 ? 3 : 1)) continue;
            struct problem p = {.dtype = dtypes[t],
                                .b = 1,
                                .heads = 12,
                                .key_heads = 1,
                                .n = 1,
                                .m = 1000,
                                .d = widths[i],
                                .e = widths[i],
                                .has_sinks = true,
                                .scale = 0.1f};
            check(&p);
            p.n = 3;
            p.masking = CAUSAL;
            check(&p);
        }
}

/* Enough sequences that no keys are cut, and lengths around whole rounds: the keys of a round are
 * loaded before those of the round before are taken. */
static void rounds(void **state) {
    static const int more[] = {0, 1, 15, 16, 17, 48, 49, 63};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (!kl_test_takes("kernels", 1)) continue;
        struct problem p = {.dtype = i % 2 ? KL_F16 : KL_BF16,
                            .b = 34,
                            .heads = 32,
                            .key_heads = 8,
                            .n = i % 4 == 3 ? 2 : 1,
                            .m = (i < 4 ? 128 : 192) + more[i],
                            .d = i % 3 ? 64 : 128,
                            .e = i % 3 ? 64 : 128,
                            .masking = i % 4 ? BOOLEAN : NO_MASK,
                            .mask_layout = BROADCAST,
                            .scale = 0.1f};
        check(&p);
    }
}

static void unusual(void **state) {
    struct problem p = {.dtype = KL_F32,
                        .b = 1,
                        .heads = 2,
                        .key_heads = 2,
                        .n = 3,
                        .m = 0,
                        .d = 8,
                        .e = 8,
                        .has_sinks = true,
                        .scale = 1};
    check(&p); /* no keys */
    p.m = 5, p.d = 0;
    check(&p); /* all scores are 0 */
    p.d = 8, p.n = 0;
    check(&p);
    p.n = 3, p.e = 0;
    check(&p);
    for (int t = 0; t < N_TYPES; t++) {
        /* More queries than keys: the first ones see no key, and weigh all of them alike. */
        struct problem q = {dtypes[t], 1, 2, 1, 200, 90, 64, 64, CAUSAL, false, DENSE, DENSE, 0.1f};
        check(&q);
        q.masking = NO_MASK, q.scale = -0.3f;
        check(&q);
        q.scale = 0;
        check(&q);
    }
}

/* Scores of infinity, and of -infinity alone, as a mask of -infinity makes them. */
static void infinities(void **state) {
    for (int t = 0; t < N_TYPES; t++)
        for (int n = 2; n <= 40; n += 38) {
            const enum kl_dtype dtype = dtypes[t];
            struct kl_attention_params params = {0.1f, false, true, false};
            struct operand in[4], out;
            const int dims[] = {1, 2, n, 64}, keys[] = {1, 2, 150, 64}, mask[] = {1, 2, n, 150};
            ls_make(&in[0], dtype, 4, dims, DENSE, PLAIN);
            ls_make(&in[1], dtype, 4, keys, DENSE, PLAIN);
            ls_make(&in[2], dtype, 4, keys, DENSE, PLAIN);
            ls_make(&in[3], dtype, 4, mask, DENSE, PLAIN);
            for (int64_t i = 0; i < in[3].arg.size; i++) {
                const int row = (int)(i / 150 % n), key = (int)(i % 150);
                /* Row 0 sees nothing, the others none of their first keys. */
                const float x = row == 0 || key < 130 ? -INFINITY : 0;
                char *to = in[3].block + (size_t)i * kl_dtype_size(dtype);
                if (dtype == KL_F32)
                    memcpy(to, &x, sizeof x);
                else
                    *(uint16_t *)(void *)to =
                        dtype == KL_F16 ? kl_f32_to_f16(x) : kl_f32_to_bf16(x);
            }
            kh_write(in[3].device, in[3].block, in[3].bytes);
            ls_make_out(&out, dtype, 4, dims);
            void *got = ls_run(KL_OP_ATTENTION, &params, 4, in, &out);
            ls_near(&out, got, NULL, 4 * (dtype == KL_F32 ? 0x1p-17 : 0x1p-7), "infinities");
            free(got);
            for (int i = 0; i < 4; i++) ls_drop(&in[i]);
            ls_drop(&out);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maskings), cmocka_unit_test(lengths), cmocka_unit_test(widths),
        cmocka_unit_test(rounds),   cmocka_unit_test(unusual), cmocka_unit_test(infinities),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
