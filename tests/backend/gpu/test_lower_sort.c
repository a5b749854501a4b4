/* test_lower_sort.c - SORT and ARGSORT on a device against the CPU's: the same bits, the same
 * positions. */
#include "lower_support.h"

static void check(enum kl_op_id op, enum kl_dtype dtype, int ndim, const int *dims, int axis,
                  enum layout layout, enum values v) {
    struct kl_axis_params p = {axis};
    struct operand in, out;
    char what[200];
    int len = snprintf(what, sizeof what, "%s of %s, layout %d, axis %d of", kl_op_name(op),
                       kl_dtype_name(dtype), layout, axis);
    for (int i = 0; i < ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
    ls_make(&in, dtype, ndim, dims, layout, v);
    ls_make_out(&out, op == KL_OP_SORT ? dtype : KL_U32, ndim, dims);
    void *got = ls_run(op, &p, 1, &in, &out);
    ls_same(&out, got, what);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void both(enum kl_dtype dtype, int ndim, const int *dims, int axis, enum layout layout,
                 enum values v) {
    check(KL_OP_SORT, dtype, ndim, dims, axis, layout, v);
    check(KL_OP_ARGSORT, dtype, ndim, dims, axis, layout, v);
}

static void every_dtype(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int v = PLAIN; v <= FEW; v++) {
            both((enum kl_dtype)d, 1, (int[]){1000}, 0, DENSE, (enum values)v);
            both((enum kl_dtype)d, 2, (int[]){5, 40}, 1, (enum layout)(d % N_LAYOUTS),
                 (enum values)v);
            both((enum kl_dtype)d, 3, (int[]){4, 33, 6}, 1, (enum layout)((d + 3) % N_LAYOUTS),
                 (enum values)v);
            both((enum kl_dtype)d, 1, (int[]){5000}, 0, DENSE, (enum values)v);
        }
}

static void layouts(void **state) {
    for (int layout = DENSE; layout < N_LAYOUTS; layout++)
        for (int v = PLAIN; v <= FEW; v++) {
            enum layout l = (enum layout)layout;
            both(KL_F32, 2, (int[]){70, 9}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){70, 9}, 0, l, (enum values)v);
            both(KL_F32, 3, (int[]){3, 4, 5}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){3, 2500}, 1, l, (enum values)v);
            both(KL_F32, 2, (int[]){2500, 3}, 0, l, (enum values)v);
        }
}

static void lengths(void **state) {
    static const int n[] = {1, 2, 3, 127, 128, 129, 2047, 2048, 2049, 4096, 4097, 10000};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        both(KL_I32, 2, (int[]){3, n[i]}, 1, DENSE, FEW);
    both(KL_F32, 1, (int[]){100001}, 0, DENSE, SPECIAL);
    both(KL_F16, 1, (int[]){100001}, 0, REVERSED, SPECIAL);
    both(KL_I64, 1, (int[]){50001}, 0, DENSE, FEW);
}

static void unusual_shapes(void **state) {
    static const int dims[] = {2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2};
    both(KL_F32, 2, (int[]){0, 5}, 1, DENSE, PLAIN);
    both(KL_F32, 2, (int[]){5, 0}, 1, DENSE, PLAIN);
    both(KL_F32, 3, (int[]){1, 1, 1}, 1, DENSE, PLAIN);
    for (int axis = 0; axis < 11; axis += 3) {
        both(KL_F32, 11, dims, axis, TRANSPOSED, FEW);
        both(KL_F32, 11, dims, axis, REVERSED, SPECIAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(layouts),
        cmocka_unit_test(lengths),
        cmocka_unit_test(unusual_shapes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
