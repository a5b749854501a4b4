/* test_attention_backward.c - ATTENTION_BACKWARD on a device against the CPU's. Of the
 * largest value of its gradient, and of 1 if that is more, float32 is within 2^-15, bfloat16 within
 * 2^-6, float16 within 2^-8: the roundings of results, and what cancels in the gradients of
 * scores. */
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
    /* The longest are fewer: PoCL runs kernels without optimisation. */
    if (!kl_test_takes("kernels", p->n * p->m > 10000 ? 18 : 6)) return;
    struct kl_attention_params params = {p->scale, p->masking == CAUSAL, p->masking >= BOOLEAN,
                                         p->has_sinks};
    struct operand in[7], out;
    int n_in = 3;
    char what[200];
    snprintf(what, sizeof what, "b %d heads %d/%d n %d m %d d %d e %d masking %d%s layouts %d %d",
             p->b, p->heads, p->key_heads, p->n, p->m, p->d, p->e, p->masking,
             p->has_sinks ? " sinks" : "", p->layout, p->mask_layout);
    const int like[] = {p->b, p->heads, p->n, p->e};
    ls_make(&in[0], p->dtype, 4, (int[]){p->b, p->heads, p->n, p->d}, p->layout, PLAIN);
    ls_make(&in[1], p->dtype, 4, (int[]){p->b, p->key_heads, p->m, p->d}, p->layout, PLAIN);
    ls_make(&in[2], p->dtype, 4, (int[]){p->b, p->key_heads, p->m, p->e}, p->layout, PLAIN);
    if (p->masking >= BOOLEAN)
        ls_make(&in[n_in++], p->masking == BOOLEAN ? KL_BOOL : p->dtype, 4,
                (int[]){p->b, p->heads, p->n, p->m}, p->mask_layout, PLAIN);
    if (p->has_sinks) ls_make(&in[n_in++], p->dtype, 1, &p->heads, DENSE, PLAIN);
    ls_make(&in[n_in++], p->dtype, 4, like, p->layout, PLAIN);
    ls_make(&in[n_in++], p->dtype, 4, like, p->layout, PLAIN);
    const int size =
        (int)(in[0].arg.size + in[1].arg.size + in[2].arg.size) + (p->has_sinks ? p->heads : 0);
    ls_make_out(&out, p->dtype, 1, &size);
    void *got = ls_run(KL_OP_ATTENTION_BACKWARD, &params, n_in, in, &out);
    const double of_scores = p->d * fabs(p->scale) * 0x1p-22,
                 of_weights = p->dtype == KL_F32   ? 0x1p-17
                              : p->dtype == KL_F16 ? 0x1p-10
                                                   : 0x1p-8;
    const int64_t ends[] = {in[0].arg.size, in[0].arg.size + in[1].arg.size,
                            size - (p->has_sinks ? p->heads : 0), size};
    double *most = malloc(((size_t)size + 1) * sizeof *most);
    for (int64_t part = 0, i = 0; part < 4; part++) {
        double largest = 1;
        for (int64_t k = i; k < ends[part]; k++)
            largest = fmax(largest, fabs(ls_get(out.block, p->dtype, k)));
        for (; i < ends[part]; i++) most[i] = largest;
    }
    ls_near(&out, got, most, 4 * (of_scores + of_weights), what);
    free(most);
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
enum { N_TYPES = sizeof dtypes / sizeof *dtypes };

/* Every masking and layout. */
static void maskings(void **state) {
    static const struct problem shapes[] = {
        {.b = 2, .heads = 4, .key_heads = 2, .n = 1, .m = 70, .d = 64, .e = 64},
        {.b = 1, .heads = 2, .key_heads = 1, .n = 40, .m = 150, .d = 80, .e = 128},
        {.b = 2, .heads = 2, .key_heads = 1, .n = 150, .m = 130, .d = 64, .e = 64},
        {.b = 1, .heads = 2, .key_heads = 1, .n = 70, .m = 100, .d = 128, .e = 128},
        {.b = 1, .heads = 3, .key_heads = 1, .n = 7, .m = 20, .d = 10, .e = 19},
    };
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int masking = NO_MASK; masking <= ADDED; masking++)
                for (int k = 0; k < 4; k++) {
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

/* Lengths around the sizes of tiles. */
static void lengths(void **state) {
    static const int n[] = {1, 15, 16, 17, 63, 64, 65, 129}, m[] = {1, 63, 64, 65, 128, 200};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (size_t k = 0; k < sizeof m / sizeof *m; k++) {
            struct problem p = {.dtype = dtypes[(i + k) % N_TYPES],
                                .b = 1,
                                .heads = 2,
                                .key_heads = 1 + (int)k % 2,
                                .n = n[i],
                                .m = m[k],
                                .d = i % 2 ? 33 : 64,
                                .e = 64,
                                .masking = k % 3 ? CAUSAL : NO_MASK,
                                .has_sinks = i % 2,
                                .scale = 0.125f};
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maskings), cmocka_unit_test(lengths),
                                       cmocka_unit_test(unusual)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
