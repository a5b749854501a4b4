/* test_metal_matrices.c - which products the kernels multiply by matrices of SIMD groups: the
 * simulated Metal counts those, and there are at least as many as the products have blocks of 8 by
 * 8 by 8. Values are compared with the CPU's. */
#include <dlfcn.h>

#include "backend/gpu/lower/lower_support.h"

static long (*multiplied)(void);

static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};

/* Whether a case of dtype number d runs: the first one in any sample, since the simulation takes
 * long for each. */
static bool takes(int d) {
    return d == 0 || kl_test_takes("device", 1);
}

/* What the sums of `terms` products may differ by, of numbers below `top` and below 4. */
static double bound_of(int terms, double top) {
    return 4.0 * terms * top * 0x1p-23;
}

/* Runs the operation, and expects products of at least `blocks` matrices; where there are none, no
 * product of any. */
static void check(enum kl_op_id op, const void *params, int n_in, struct operand *in,
                  struct operand *out, double bound, long blocks, const char *what) {
    const long before = multiplied();
    void *got = ls_run(op, params, n_in, in, out);
    const long n = multiplied() - before;
    ls_near(out, got, NULL, bound, what);
    if (blocks ? n < blocks : n != 0)
        fail_msg("%s of %s: %ld matrices were multiplied, not %ld", what,
                 kl_dtype_name(out->arg.dtype), n, blocks);
    free(got);
    for (int i = 0; i < n_in; i++) ls_drop(&in[i]);
    ls_drop(out);
}

static void products(void **state) {
    for (int d = 0; d < 3; d++) {
        struct operand in[2], out;
        ls_make(&in[0], dtypes[d], 2, (int[]){40, 24}, DENSE, PLAIN);
        ls_make(&in[1], dtypes[d], 2, (int[]){24, 48}, TRANSPOSED, PLAIN);
        ls_make_out(&out, dtypes[d], 2, (int[]){40, 48});
        check(KL_OP_MATMUL, NULL, 2, in, &out, bound_of(24, 4), 5 * 6 * 3, "matmul");
    }
    struct operand in[2], out; /* there are no matrices of complex numbers */
    ls_make(&in[0], KL_C64, 2, (int[]){40, 24}, DENSE, PLAIN);
    ls_make(&in[1], KL_C64, 2, (int[]){24, 48}, DENSE, PLAIN);
    ls_make_out(&out, KL_C64, 2, (int[]){40, 48});
    check(KL_OP_MATMUL, NULL, 2, in, &out, bound_of(24, 4) * 4, 0, "matmul");
}

/* n indices from 0 to `most` - 1. */
static void make_indices(struct operand *o, int n, int most) {
    ls_make(o, KL_I32, 1, &n, DENSE, PLAIN);
    for (int i = 0; i < n; i++) ((int32_t *)o->block)[i] = (int32_t)(ls_draw() % (uint64_t)most);
    kh_write(o->device, o->block, o->bytes);
}

static void gathers(void **state) {
    enum { N = 5, DEPTH = 40, COLUMNS = 24, ROWS = 16, SINGLE = 48 };
    for (int d = 0; d < 3; d++)
        for (int single = 0; single < 2; single++) {
            const int n = single ? SINGLE : N, m = single ? 1 : ROWS;
            const long blocks = (single ? SINGLE / 8 : N * ROWS / 8) * (COLUMNS / 8) * (DEPTH / 8);
            struct operand in[4], out;
            ls_make(&in[0], dtypes[d], 3, (int[]){7, m, DEPTH}, DENSE, PLAIN);
            ls_make(&in[1], dtypes[d], 3, (int[]){3, DEPTH, COLUMNS}, TRANSPOSED, PLAIN);
            make_indices(&in[2], n, 7);
            make_indices(&in[3], n, 3);
            ls_make_out(&out, dtypes[d], 3, (int[]){n, m, COLUMNS});
            check(KL_OP_GATHER_MM, NULL, 4, in, &out, bound_of(DEPTH, 4), blocks,
                  single ? "gather_mm of single rows" : "gather_mm");
        }
}

static void segments(void **state) {
    static const uint32_t ends[] = {0, 13, 13, 40, 40, 40, 7, 39};
    for (int d = 0; d < 3; d++) {
        struct operand in[3], out;
        ls_make(&in[0], dtypes[d], 2, (int[]){16, 40}, DENSE, PLAIN);
        ls_make(&in[1], dtypes[d], 2, (int[]){40, 24}, DENSE, PLAIN);
        ls_make(&in[2], KL_U32, 2, (int[]){4, 2}, DENSE, PLAIN);
        memcpy(in[2].block, ends, sizeof ends);
        kh_write(in[2].device, in[2].block, in[2].bytes);
        ls_make_out(&out, dtypes[d], 3, (int[]){4, 16, 24});
        check(KL_OP_SEGMENTED_MM, NULL, 3, in, &out, bound_of(40, 4), 2 * 3 * (2 + 4 + 0 + 4),
              "segmented_mm");
    }
}

/* x, w, scales and biases of a product of m rows with `matrices` quantized matrices. */
enum { TERMS = 96, COLUMNS = 64, BITS = 4, GROUP = 32, N_FEW = 8 };
static void make_quantized(struct operand *in, enum kl_dtype dtype, int n_x, int m, int matrices,
                           bool transpose) {
    const int rows = transpose ? COLUMNS : TERMS, cols = transpose ? TERMS : COLUMNS;
    ls_make(&in[0], dtype, 3, (int[]){n_x, m, TERMS}, DENSE, PLAIN);
    ls_make(&in[1], KL_U32, 3, (int[]){matrices, rows, cols * BITS / 32}, DENSE, PLAIN);
    for (int i = 2; i < 4; i++)
        ls_make(&in[i], dtype, 3, (int[]){matrices, rows, cols / GROUP}, DENSE, PLAIN);
}

/* Bytes of workspace that the product with a quantized matrix asks for. */
static size_t workspace_of(const struct kl_qmm_params *p, const struct operand *in,
                           const struct operand *out) {
    struct kl_arg args[5];
    struct kl_error *err = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 5; i++) {
        args[i] = i < 4 ? in[i].arg : out->arg;
        args[i].data = i < 4 ? in[i].device : out->device;
    }
    const struct kl_command c = {.kind = KL_CMD_LAUNCH,
                                 .op = KL_OP_QUANTIZED_MATMUL,
                                 .name = kl_op_name(KL_OP_QUANTIZED_MATMUL),
                                 .params = p,
                                 .n_in = 4,
                                 .n_out = 1,
                                 .args = args};
    if (kl_lower_prepare(kh.lowering, &c, &bytes, &err)) fail_msg("%s", err->message);
    return bytes;
}

/* Up to 8 rows are multiplied as packed numbers are read, more by matrices; none is unpacked. */
static void quantized(void **state) {
    static const int rows[] = {N_FEW, N_FEW + 1, 70};
    const double top = 4.0 * (1 << BITS) + 4;
    for (int d = 0; d < 3; d++)
        for (int r = 0; r < 3; r++)
            for (int transpose = 0; transpose < 2; transpose++) {
                const struct kl_qmm_params p = {{KL_QUANT_AFFINE, GROUP, BITS}, transpose};
                const int m = rows[r], n = m < 70 ? 1 : 40;
                const double rounded = kl_test_epsilon(dtypes[d]) * 2 * top * sqrt(TERMS);
                struct operand in[4], out;
                if ((m <= N_FEW && !transpose) || !takes(d)) continue;
                make_quantized(in, dtypes[d], n, m, n, transpose);
                ls_make_out(&out, dtypes[d], 3, (int[]){n, m, COLUMNS});
                assert_int_equal(workspace_of(&p, in, &out), 0);
                check(KL_OP_QUANTIZED_MATMUL, &p, 4, in, &out, bound_of(TERMS, top) + rounded,
                      m > N_FEW ? (long)n * ((m + 7) / 8) * (COLUMNS / 8) * (TERMS / 8) : 0,
                      "quantized_matmul");
            }
}

/* The numbers of gather_qmm are not rounded. */
static void quantized_gathers(void **state) {
    enum { N = 5, MATRICES = 3 };
    static const struct {
        int n, m;
        bool tiles;
    } cases[] = {{N, N_FEW + 1, true}, {20, 40, true},  {16, 1, false},
                 {64, 1, true},        {1000, 1, true}, {N, N_FEW, false}};
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < 6; i++)
            for (int transpose = 0; transpose < 2; transpose++) {
                const struct kl_qmm_params p = {{KL_QUANT_AFFINE, GROUP, BITS}, transpose};
                const int n = cases[i].n, m = cases[i].m;
                struct operand in[6], out;
                if (!takes(d)) continue;
                make_quantized(in, dtypes[d], 7, m, MATRICES, transpose);
                make_indices(&in[4], n, 7);
                make_indices(&in[5], n, MATRICES);
                ls_make_out(&out, dtypes[d], 3, (int[]){n, m, COLUMNS});
                const long blocks = (m > 1 ? n * ((m + 7) / 8) : n / 8) * (COLUMNS / 8);
                check(KL_OP_GATHER_QMM, &p, 6, in, &out, bound_of(TERMS, 4.0 * (1 << BITS) + 4),
                      cases[i].tiles ? blocks * (TERMS / 8) : 0, "gather_qmm");
            }
}

/* Convolutions that are not written out for a product: of few positions, and of groups. */
static void convolutions(void **state) {
    static const struct kl_convolution_params p[] = {
        {2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 1, {2, 1}, {0, 2}, {1, 2}, {1, 2}, {1, 1}},
    };
    enum { WIDTH = 24, MOST_TERMS = 9 * WIDTH };
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < 2; i++) {
            const int c = WIDTH / p[i].groups;
            if (!takes(d)) continue;
            struct operand in[2], out;
            ls_make(&in[0], dtypes[d], 4, (int[]){2, 9, 10, WIDTH}, DENSE, PLAIN);
            ls_make(&in[1], dtypes[d], 4, (int[]){40, 3, 3, c}, DENSE, PLAIN);
            const int high = i ? 4 : 9, wide = 10, positions = 2 * high * wide;
            ls_make_out(&out, dtypes[d], 4, (int[]){2, high, wide, 40});
            check(KL_OP_CONVOLUTION, &p[i], 2, in, &out, bound_of(MOST_TERMS, 4),
                  positions / 8 * (40 / 8) * (9 * c / 8), i ? "groups" : "convolution");
        }
}

int main(void) {
    const char *path = getenv("KEEL_METAL_LIBRARY");
    if (!path) {
        printf("NOT RUN: this is a test of the simulated Metal\n");
        return 77;
    }
    void *library = dlopen(path, RTLD_NOW),
         *count = library ? dlsym(library, "metal_sim_multiplied") : NULL;
    if (!count) return EXIT_FAILURE;
    memcpy(&multiplied, &count, sizeof count);
    setenv("KEEL_TEST_GPU", "metal", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),          cmocka_unit_test(gathers),
        cmocka_unit_test(segments),          cmocka_unit_test(quantized),
        cmocka_unit_test(quantized_gathers), cmocka_unit_test(convolutions)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
