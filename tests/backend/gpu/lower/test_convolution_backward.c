/* test_convolution_backward.c - CONVOLUTION_BACKWARD on a device against the CPU's: random
 * shapes of one to three axes, groups of all sizes, strides, dilations, flipped kernels; layouts;
 * many positions; infinities; the same bits on every run. */
#include "lower_support.h"

#include "base/op/op_params.h"

struct call {
    struct kl_convolution_backward_params p;
    int x[5], o; /* the shape of x, and the output channels */
};

static void check(enum kl_dtype dtype, const struct call *k, enum layout x_layout,
                  enum layout g_layout, enum values v) {
    struct operand in[2], out;
    const struct kl_convolution_params *of = &k->p.of;
    const int n = of->ndim;
    int g[5] = {k->x[0]}, w[5] = {k->o};
    char what[200];
    int64_t terms = k->x[0];
    int len = snprintf(what, sizeof what, "layouts %d %d, groups %d, %d channels:", x_layout,
                       g_layout, of->groups, k->o);
    for (int i = 0; i < n; i++) {
        const int there = (k->x[1 + i] ? (k->x[1 + i] - 1) * of->input_dilation[i] + 1 : 0) +
                          of->low[i] + of->high[i];
        g[1 + i] = (there - (k->p.k[i] - 1) * of->dilation[i] - 1) / of->stride[i] + 1;
        w[1 + i] = k->p.k[i];
        terms *= g[1 + i];
    }
    g[n + 1] = k->o;
    w[n + 1] = k->x[n + 1] / of->groups;
    for (int i = 0; i < n + 2; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d/%d", k->x[i], w[i]);
    ls_make(&in[0], dtype, n + 2, k->x, x_layout, v);
    ls_make(&in[1], dtype, n + 2, g, g_layout, v);
    ls_make_out(&out, dtype, n + 2, w);
    void *got = ls_run(KL_OP_CONVOLUTION_BACKWARD, &k->p, 2, in, &out);
    double eps = dtype == KL_F64 ? 0x1p-53 : 0x1p-24;
    ls_near(&out, got, NULL, eps * (double)(terms + 2) * 16 * 16, what);
    void *again = ls_run(KL_OP_CONVOLUTION_BACKWARD, &k->p, 2, in, &out);
    if (memcmp(got, again, (size_t)out.arg.size * kl_dtype_size(dtype)))
        fail_msg("%s: other bits in another run", what);
    free(got);
    free(again);
    ls_drop(&in[0]);
    ls_drop(&in[1]);
    ls_drop(&out);
}

static uint32_t seed = 5;
static int one_of(int n, const int *values) {
    seed = seed * 1664525u + 1013904223u;
    return values[(seed >> 8) % (uint32_t)n];
}
#define ONE_OF(...) one_of((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})

static void random_shapes(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (int done = 0; done < 64;) {
        struct call k = {.p = {.of = {.ndim = ONE_OF(1, 2, 3), .groups = ONE_OF(1, 2, 4, 8, 16)}}};
        struct kl_convolution_params *of = &k.p.of;
        const int n = of->ndim, plain = ONE_OF(0, 1);
        bool fits = true;
        of->flip = ONE_OF(0, 1);
        k.x[0] = ONE_OF(1, 2, 3);
        for (int a = 0; a < n; a++) {
            k.x[1 + a] = ONE_OF(1, 3, 6, 9, 14);
            k.p.k[a] = ONE_OF(1, 2, 3, 3, 5);
            of->stride[a] = ONE_OF(1, 1, 2, 3);
            of->low[a] = ONE_OF(0, 1, 2, -1);
            of->high[a] = ONE_OF(0, 1, 2, -1);
            of->dilation[a] = plain ? 1 : ONE_OF(1, 1, 2);
            of->input_dilation[a] = plain ? 1 : ONE_OF(1, 1, 2, 3);
            fits = fits && (k.x[1 + a] - 1) * of->input_dilation[a] + of->low[a] + of->high[a] >=
                               (k.p.k[a] - 1) * of->dilation[a];
        }
        k.x[n + 1] = of->groups * ONE_OF(1, 1, 1, 2, 3, 4, 5, 8, 12);
        k.o = of->groups * ONE_OF(1, 1, 1, 2, 3, 4, 8);
        if (!fits) continue;
        const int number = done++;
        if (!kl_test_takes("kernels", 4)) continue;
        check(dtypes[number % 4], &k,
              (enum layout)ONE_OF(DENSE, DENSE, DENSE, TRANSPOSED, REVERSED, SHIFTED),
              (enum layout)ONE_OF(DENSE, DENSE, DENSE, TRANSPOSED, BROADCAST, SHIFTED), PLAIN);
    }
}

#define PLAINLY(n, groups)                                          \
    {                                                               \
        n, groups, 0, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, { \
            1, 1, 1                                                 \
        }                                                           \
    }
static void large(void **state) {
    static const struct call calls[] = {
        /* several segments of positions; parts of the channels; several rows of the kernel */
        {{PLAINLY(2, 160), {3, 3}}, {3, 40, 39, 160}, 160},
        {{PLAINLY(2, 64), {5, 5}}, {2, 30, 31, 64}, 128},
        {{{2, 8, 1, {2, 2}, {3, 3}, {3, 2}, {1, 1}, {1, 1}}, {7, 7}}, {1, 40, 37, 8}, 8},
        {{PLAINLY(2, 8), {3, 3}}, {2, 20, 21, 32}, 32}, /* groups of 4 */
        {{PLAINLY(2, 2), {3, 3}}, {2, 20, 21, 32}, 48}, /* of 16 and 24 */
        {{{2, 1, 0, {2, 2}, {3, 3}, {3, 3}, {1, 1}, {1, 1}}, {7, 7}}, {2, 40, 41, 3}, 64},
        {{PLAINLY(1, 24), {4}}, {3, 700, 24}, 24},
        {{PLAINLY(3, 16), {3, 3, 3}}, {1, 6, 7, 9, 16}, 16},
        /* nothing to add */
        {{PLAINLY(1, 4), {3}}, {0, 9, 4}, 4},
        {{PLAINLY(1, 4), {2}}, {2, 0, 4}, 4},
        {{PLAINLY(1, 4), {3}}, {2, 9, 0}, 8},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int d = 0; d < 2; d++)
            if (kl_test_takes("kernels", 2))
                check(d ? KL_BF16 : KL_F32, &calls[i], DENSE, DENSE, PLAIN);
    const struct call special[] = {
        {{PLAINLY(2, 8), {3, 3}}, {1, 5, 6, 8}, 8},
        {{{2, 8, 1, {2, 2}, {1, 0}, {1, 2}, {2, 2}, {2, 3}}, {2, 3}}, {1, 3, 3, 8}, 8},
        {{PLAINLY(1, 2), {3}}, {1, 9, 8}, 8},
    };
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 2; d++) check(d ? KL_F16 : KL_F32, &special[i], DENSE, DENSE, SPECIAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_shapes), cmocka_unit_test(large)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
