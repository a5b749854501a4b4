/* test_norm.c - RMS_NORM and LAYER_NORM on a device against the CPU's: within log2(n) + 16
 * roundings of the largest element of a row, times its factor; NaN and infinities as on the CPU. */
#include "lower_support.h"

static void check(enum kl_op_id op, enum kl_dtype dtype, int ndim, const int *dims,
                  enum layout layout, enum values v, bool has_weight, bool has_bias,
                  enum layout side_layout) {
    struct kl_norm_params p = {1e-5f, has_weight, has_bias};
    struct operand in[3], out;
    const int n = dims[ndim - 1], sides = has_weight + has_bias;
    char what[200];
    int len = snprintf(what, sizeof what, "%s, layout %d%s%s of", kl_op_name(op), layout,
                       has_weight ? ", weight" : "", has_bias ? ", bias" : "");
    for (int i = 0; i < ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
    ls_make(&in[0], dtype, ndim, dims, layout, v);
    for (int i = 0; i < sides; i++) ls_make(&in[1 + i], dtype, 1, &n, side_layout, PLAIN);
    ls_make_out(&out, dtype, ndim, dims);
    void *got = ls_run(op, &p, 1 + sides, in, &out);
    double *scale = calloc((size_t)out.arg.size + 1, sizeof *scale);
    for (int64_t i = 0; i < out.arg.size; i += n) {
        /* Where all elements are equal, the rounding of the mean is divided by sqrt(eps). */
        double top = layout == BROADCAST && op == KL_OP_LAYER_NORM ? 4 / sqrt(p.eps) : 1;
        for (int64_t k = i; k < i + n; k++) {
            double x = fabs(ls_get(out.block, dtype, k));
            if (isfinite(x)) top = fmax(top, x);
        }
        for (int64_t k = i; k < i + n; k++) scale[k] = top + 16;
    }
    ls_near(&out, got, scale, (dtype == KL_F64 ? 0x1p-53 : 0x1p-24) * (log2((double)n) + 16), what);
    free(scale);
    free(got);
    for (int i = 0; i <= sides; i++) ls_drop(&in[i]);
    ls_drop(&out);
}

static void both(enum kl_dtype dtype, int ndim, const int *dims, enum layout layout, enum values v,
                 bool has_weight, bool has_bias, enum layout side_layout) {
    check(KL_OP_LAYER_NORM, dtype, ndim, dims, layout, v, has_weight, has_bias, side_layout);
    check(KL_OP_RMS_NORM, dtype, ndim, dims, layout, v, has_weight, false, side_layout);
}

static void every_dtype(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int sides = 0; sides < 4; sides++) {
            /* In any sample: all of float32, and one of each other dtype. */
            if (d && sides != (int)d && !kl_test_takes("kernels", 1)) continue;
            for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
                bool weight = sides & 1, bias = sides & 2;
                both(dtypes[d], 2, (int[]){5, 64}, (enum layout)layout, PLAIN, weight, bias, DENSE);
                both(dtypes[d], 3, (int[]){3, 5, 7}, (enum layout)layout, PLAIN, weight, bias,
                     REVERSED);
                both(dtypes[d], 2, (int[]){9, 33}, (enum layout)layout, SPECIAL, weight, bias,
                     GAPPED);
            }
        }
}

static void lengths(void **state) {
    static const int n[] = {1, 2, 15, 16, 17, 1000, 1024, 4095, 4096, 8192, 8200};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        both(KL_F32, 2, (int[]){3, n[i]}, DENSE, PLAIN, true, true, DENSE);
        both(KL_BF16, 2, (int[]){3, n[i]}, SHIFTED, PLAIN, true, false, SHIFTED);
    }
}

static void long_rows(void **state) {
    both(KL_F32, 2, (int[]){2, 16384}, DENSE, PLAIN, true, true, DENSE);
    both(KL_F32, 2, (int[]){2, 16388}, DENSE, PLAIN, true, true, DENSE);
    both(KL_F16, 2, (int[]){2, 40001}, TRANSPOSED, PLAIN, true, true, GAPPED);
    both(KL_F64, 2, (int[]){2, 20000}, REVERSED, PLAIN, false, false, DENSE);
}

static void unusual_shapes(void **state) {
    static const int many[] = {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 2};
    both(KL_F32, 1, (int[]){40}, DENSE, PLAIN, true, true, BROADCAST);
    both(KL_F32, 2, (int[]){0, 4}, DENSE, PLAIN, true, true, DENSE);
    for (int layout = DENSE; layout < N_LAYOUTS; layout++)
        both(KL_F32, 11, many, (enum layout)layout, PLAIN, true, true, DENSE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),
        cmocka_unit_test(lengths),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(unusual_shapes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
