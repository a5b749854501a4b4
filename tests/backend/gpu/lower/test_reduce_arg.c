/* test_reduce_arg.c - ARGMAX and ARGMIN on a device against the CPU's: the same positions. */
#include "lower_support.h"

static void check(enum kl_op_id op, enum kl_dtype dtype, int ndim, const int *dims, int axis,
                  enum layout layout, enum values v) {
    struct kl_axis_params p = {axis};
    struct operand in, out;
    int out_dims[LS_DIMS];
    char what[200];
    int len = snprintf(what, sizeof what, "%s of %s, layout %d, axis %d of", kl_op_name(op),
                       kl_dtype_name(dtype), layout, axis);
    for (int i = 0; i < ndim; i++) {
        out_dims[i] = i == axis ? 1 : dims[i];
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
    }
    ls_make(&in, dtype, ndim, dims, layout, v);
    ls_make_out(&out, KL_U32, ndim, out_dims);
    void *got = ls_run(op, &p, 1, &in, &out);
    ls_same(&out, got, what);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void shapes(enum kl_op_id op, enum kl_dtype dtype, enum values v) {
    for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
        enum layout l = (enum layout)layout;
        check(op, dtype, 1, (int[]){1000}, 0, l, v);
        check(op, dtype, 2, (int[]){37, 50}, 1, l, v);
        check(op, dtype, 2, (int[]){50, 37}, 0, l, v);
        check(op, dtype, 3, (int[]){5, 9, 7}, 1, l, v);
        check(op, dtype, 2, (int[]){300, 3}, 1, l, v);
        check(op, dtype, 3, (int[]){1, 1, 1}, 1, l, v);
    }
    check(op, dtype, 1, (int[]){70001}, 0, DENSE, v);
    check(op, dtype, 2, (int[]){20001, 3}, 0, DENSE, v);
    check(op, dtype, 2, (int[]){3, 20001}, 1, DENSE, v);
}

/* Each dtype runs with one of the two operations, since compiling takes most of the time. With
 * KEEL_TEST_FULL each runs with both. */
static void every_dtype(void **state) {
    bool full = getenv("KEEL_TEST_FULL") != NULL;
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int k = full ? 0 : d % 2; k < (full ? 2 : d % 2 + 1); k++)
            for (int v = PLAIN; v <= FEW; v++)
                shapes(k ? KL_OP_ARGMIN : KL_OP_ARGMAX, (enum kl_dtype)d, (enum values)v);
    shapes(KL_OP_ARGMIN, KL_F32, SPECIAL);
}

static void many_axes(void **state) {
    static const int dims[] = {2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2};
    for (int axis = 0; axis < 11; axis += 3) {
        check(KL_OP_ARGMAX, KL_F32, 11, dims, axis, TRANSPOSED, FEW);
        check(KL_OP_ARGMIN, KL_I16, 11, dims, axis, REVERSED, FEW);
    }
}

static void nothing(void **state) {
    check(KL_OP_ARGMAX, KL_F32, 2, (int[]){0, 5}, 1, DENSE, PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(many_axes),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
