/* test_metal_matrices.c - which products the kernels multiply by matrices of SIMD groups: the
 * simulated Metal counts those, and there are at least as many as the products have blocks of 8 by
 * 8 by 8. Values are compared with the CPU's. */
#include <dlfcn.h>

#include "backend/gpu/lower/lower_support.h"

static long (*multiplied)(void);

static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(gathers),
                                       cmocka_unit_test(segments)};
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
