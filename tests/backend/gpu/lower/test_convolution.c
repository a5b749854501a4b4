/* test_convolution.c - CONVOLUTION on a device against the CPU's: random shapes of one to
 * three axes, groups, dilations and flipped kernels; channels of their own; long sums. */
#include "lower_support.h"

#include "base/op/op_params.h"

struct call {
    struct kl_convolution_params p;
    int x[5], w[5];
};

static void check(enum kl_dtype dtype, const struct call *k, enum layout x_layout,
                  enum layout w_layout, enum values v) {
    struct operand in[2], out;
    const int n = k->p.ndim;
    int dims[5] = {k->x[0]}, terms = k->w[n + 1];
    char what[200];
    int len = snprintf(what, sizeof what, "convolution, layouts %d %d, groups %d:", x_layout,
                       w_layout, k->p.groups);
    for (int i = 1; i <= n; i++) {
        const int there = (k->x[i] ? (k->x[i] - 1) * k->p.input_dilation[i - 1] + 1 : 0) +
                          k->p.low[i - 1] + k->p.high[i - 1],
                  reach = (k->w[i] - 1) * k->p.dilation[i - 1] + 1;
        assert_true(there >= reach);
        dims[i] = (there - reach) / k->p.stride[i - 1] + 1;
        terms *= k->w[i];
    }
    for (int i = 0; i < n + 2; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d/%d", k->x[i], k->w[i]);
    dims[n + 1] = k->w[0];
    ls_make(&in[0], dtype, n + 2, k->x, x_layout, v);
    ls_make(&in[1], dtype, n + 2, k->w, w_layout, v);
    ls_make_out(&out, dtype, n + 2, dims);
    void *got = ls_run(KL_OP_CONVOLUTION, &k->p, 2, in, &out);
    double eps = dtype == KL_F64 ? 0x1p-53 : 0x1p-24;
    ls_near(&out, got, NULL, eps * (terms + 2) * terms * 16, what);
    free(got);
    ls_drop(&in[0]);
    ls_drop(&in[1]);
    ls_drop(&out);
}

static uint32_t seed = 3;
static int one_of(int n, const int *values) {
    seed = seed * 1664525u + 1013904223u;
    return values[(seed >> 8) % (uint32_t)n];
}
#define ONE_OF(...) one_of((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})

static void random_shapes(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (int done = 0; done < 60;) {
        struct call k = {.p = {.ndim = ONE_OF(1, 2, 3), .groups = ONE_OF(1, 1, 2, 3)}};
        const int n = k.p.ndim, own = ONE_OF(0, 0, 0, 1); /* channels of their own */
        bool fits = true;
        if (own) k.p.groups = ONE_OF(3, 8, 16);
        k.p.flip = ONE_OF(0, 1);
        k.x[0] = ONE_OF(1, 2, 3);
        for (int a = 0; a < n; a++) {
            k.x[1 + a] = ONE_OF(1, 3, 6, 9);
            k.w[1 + a] = ONE_OF(1, 2, 3);
            k.p.stride[a] = ONE_OF(1, 1, 2, 3);
            k.p.low[a] = ONE_OF(0, 1, 2, -1);
            k.p.high[a] = ONE_OF(0, 1, 2, -1);
            k.p.dilation[a] = ONE_OF(1, 1, 2);
            k.p.input_dilation[a] = ONE_OF(1, 1, 2, 3);
            fits = fits && (k.x[1 + a] - 1) * k.p.input_dilation[a] + k.p.low[a] + k.p.high[a] >=
                               (k.w[1 + a] - 1) * k.p.dilation[a];
        }
        const int each = own ? 1 : ONE_OF(1, 2, 5, 17);
        k.x[n + 1] = each * k.p.groups;
        k.w[n + 1] = each;
        k.w[0] = (own ? 1 : ONE_OF(1, 4, 19)) * k.p.groups;
        if (!fits) continue;
        const int number = done++;
        if (!kl_test_takes("kernels", 3)) continue;
        check(dtypes[number % 4], &k, (enum layout)ONE_OF(DENSE, DENSE, TRANSPOSED, REVERSED),
              (enum layout)ONE_OF(DENSE, DENSE, TRANSPOSED, REVERSED), PLAIN);
    }
}

/* Enough tiles for each size of tile, or positions for a product of matrices; long sums. */
static void large(void **state) {
    static const struct call calls[] = {
        {{2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {2, 60, 60, 3}, {140, 3, 3, 3}},
        {{2, 1, 0, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {3, 60, 60, 9}, {64, 3, 3, 9}},
        {{2, 1, 1, {1, 2}, {1, -1}, {2, 1}, {2, 1}, {1, 1}}, {4, 60, 60, 16}, {24, 3, 3, 16}},
        {{1, 1, 0, {1}, {0}, {0}, {1}, {1}}, {12, 700, 8}, {30, 690, 8}},
        {{2, 20, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {2, 20, 20, 20}, {20, 3, 3, 1}},
        {{2, 1, 0, {1, 1}, {2, 2}, {2, 2}, {1, 1}, {1, 1}}, {1, 3, 0, 4}, {5, 3, 3, 4}},
        {{2, 1, 1, {1, 1}, {1, 1}, {2, 2}, {1, 1}, {2, 2}}, {2, 20, 20, 9}, {64, 3, 3, 9}},
        {{1, 8, 0, {1}, {1}, {1}, {1}, {4}}, {2, 20, 8}, {8, 3, 1}},
        /* channels of their own: parts of the channels, many weights, one more than fit */
        {{2, 160, 1, {2, 2}, {2, 3}, {2, 2}, {1, 1}, {1, 1}}, {2, 13, 19, 160}, {160, 5, 7, 1}},
        {{2, 104, 0, {1, 1}, {3, 3}, {3, 3}, {2, 1}, {1, 1}}, {1, 30, 9, 104}, {104, 7, 6, 1}},
        {{2, 8, 0, {1, 1}, {0, 2}, {0, 2}, {1, 1}, {1, 1}}, {1, 160, 9, 8}, {8, 150, 7, 1}},
        {{2, 8, 0, {1, 1}, {0, 2}, {0, 2}, {1, 1}, {1, 1}}, {1, 80, 9, 8}, {8, 73, 7, 1}},
        {{3, 24, 1, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
         {2, 5, 9, 10, 24},
         {24, 3, 3, 3, 1}},
        {{1, 256, 0, {1}, {3}, {0}, {1}, {1}}, {4, 50, 256}, {256, 4, 1}},
        /* gradients of images: several parts, elements of the kernel that meet zeros only */
        {{2, 1, 1, {1, 1}, {3, 3}, {4, 4}, {1, 1}, {2, 2}}, {5, 9, 8, 24}, {3, 7, 7, 24}},
        {{3, 1, 0, {1, 2, 1}, {1, -1, 2}, {1, 2, 0}, {2, 1, 2}, {2, 3, 1}},
         {2, 4, 5, 6, 8},
         {2, 2, 3, 2, 8}},
        {{1, 1, 1, {4}, {1}, {0}, {2}, {4}}, {3, 40, 16}, {15, 3, 16}},
        {{1, 1, 0, {1}, {0}, {0}, {1}, {1}}, {2, 5, 0}, {3, 2, 0}},
        {{1, 1, 0, {1}, {0}, {0}, {1}, {1}}, {0, 5, 4}, {3, 2, 4}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int d = 0; d < 2; d++) /* those after the first, to the fourth, take long on PoCL */
            if (i == 0 || i >= 4 || kl_test_takes("kernels", 1))
                check(d ? KL_BF16 : KL_F32, &calls[i], DENSE, DENSE, PLAIN);
    check(KL_F32,
          &(struct call){
              {2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {1, 6, 6, 4}, {5, 3, 3, 4}},
          DENSE, DENSE, SPECIAL);
    check(KL_F16,
          &(struct call){
              {2, 8, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, {1, 6, 6, 8}, {8, 3, 3, 1}},
          DENSE, DENSE, SPECIAL);
    check(KL_F32,
          &(struct call){
              {2, 8, 0, {1, 2}, {1, 2}, {1, 2}, {1, 1}, {1, 1}}, {2, 6, 11, 8}, {8, 3, 3, 1}},
          DENSE, DENSE, SPECIAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_shapes), cmocka_unit_test(large)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
