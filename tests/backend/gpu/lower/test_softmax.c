/* test_softmax.c - SOFTMAX on a device against the CPU's: each value within (log2(n) + 16)
 * roundings of it and of the largest of its row; NaN where the CPU has NaN. */
#include "lower_support.h"

static void check(enum kl_dtype dtype, int ndim, const int *dims, int axis, enum layout layout,
                  enum values v) {
    struct kl_softmax_params p = {axis, ndim - axis};
    struct operand in, out;
    int64_t n = 1;
    char what[200];
    int len = snprintf(what, sizeof what, "softmax, layout %d, axis %d of", layout, axis);
    for (int i = 0; i < ndim; i++)
        len += snprintf(what + len, sizeof what - (size_t)len, " %d", dims[i]);
    ls_make(&in, dtype, ndim, dims, layout, v);
    ls_make_out(&out, dtype, ndim, dims);
    void *got = ls_run(KL_OP_SOFTMAX, &p, 1, &in, &out);
    for (int i = axis; i < ndim; i++) n *= dims[i];
    double *scale = calloc((size_t)out.arg.size + 1, sizeof *scale);
    int parts = ls_parts(dtype);
    for (int64_t i = 0; i < out.arg.size; i += n) {
        double top = 0;
        for (int64_t k = i * parts; k < (i + n) * parts; k++)
            top = fmax(top, fabs(ls_get(out.block, dtype, k)));
        for (int64_t k = i; k < i + n; k++)
            scale[k] = dtype == KL_C64 ? top * 8 : fabs(ls_get(out.block, dtype, k)) + 1e-37;
    }
    ls_near(&out, got, scale, (dtype == KL_F64 ? 0x1p-53 : 0x1p-24) * (log2((double)n) + 16), what);
    free(scale);
    free(got);
    ls_drop(&in);
    ls_drop(&out);
}

static void every_dtype(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64, KL_C64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int layout = DENSE; layout < N_LAYOUTS; layout++) {
            check(dtypes[d], 2, (int[]){5, 64}, 1, (enum layout)layout, PLAIN);
            check(dtypes[d], 2, (int[]){300, 7}, 1, (enum layout)layout, PLAIN);
            check(dtypes[d], 3, (int[]){3, 5, 8}, 1, (enum layout)layout, PLAIN);
            check(dtypes[d], 2, (int[]){9, 33}, 1, (enum layout)layout, SPECIAL);
        }
}

static void lengths(void **state) {
    static const int n[] = {1, 2, 15, 16, 17, 1000, 1024, 4095, 4096};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        check(KL_F32, 2, (int[]){3, n[i]}, 1, DENSE, PLAIN);
        check(KL_BF16, 2, (int[]){3, n[i]}, 1, SHIFTED, PLAIN);
    }
    check(KL_F32, 1, (int[]){5000}, 0, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){2, 16384}, 1, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){2, 9999}, 1, TRANSPOSED, PLAIN);
}

static void long_rows(void **state) {
    check(KL_F32, 2, (int[]){2, 16385}, 1, DENSE, PLAIN);
    check(KL_F32, 1, (int[]){200000}, 0, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){2, 40000}, 1, TRANSPOSED, PLAIN);
    check(KL_F32, 2, (int[]){2, 20000}, 1, DENSE, SPECIAL);
    check(KL_F16, 2, (int[]){3, 20000}, 1, DENSE, PLAIN);
    check(KL_C64, 1, (int[]){20001}, 0, DENSE, PLAIN);
}

/* Rows that have a NaN, or only infinities, in both forms of the kernel. */
static void rows_that_are_nan(void **state) {
    static const float rows[][2] = {
        {-INFINITY, -INFINITY}, {INFINITY, 1}, {NAN, 1}, {-INFINITY, 1}, {3e38f, -3e38f}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int n = 100; n <= 17000; n += 16900) {
            struct kl_softmax_params p = {0, 1};
            struct operand in, out;
            ls_make(&in, KL_F32, 1, &n, DENSE, PLAIN);
            for (int k = 0; k < n; k++) ((float *)in.block)[k] = rows[i][k % 64 == 50 ? 1 : 0];
            kh_write(in.device, in.block, in.bytes);
            ls_make_out(&out, KL_F32, 1, &n);
            void *got = ls_run(KL_OP_SOFTMAX, &p, 1, &in, &out);
            ls_near(&out, got, NULL, 1e-6, "a row of one kind");
            free(got);
            ls_drop(&in);
            ls_drop(&out);
        }
}

static void unusual_shapes(void **state) {
    static const int many[] = {2, 1, 3, 2, 2, 3, 2, 2, 3, 2, 2};
    check(KL_F32, 0, many, 0, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){0, 4}, 1, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){4, 0}, 1, DENSE, PLAIN);
    check(KL_F32, 2, (int[]){4, 3}, 2, TRANSPOSED, PLAIN); /* a softmax over no axes */
    check(KL_F32, 11, many, 10, REVERSED, PLAIN);
    check(KL_F32, 11, many, 3, TRANSPOSED, PLAIN);
    check(KL_F32, 11, many, 0, GAPPED, PLAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype),    cmocka_unit_test(lengths),
        cmocka_unit_test(long_rows),      cmocka_unit_test(rows_that_are_nan),
        cmocka_unit_test(unusual_shapes),
    };
    return cmocka_run_group_tests(tests, kh_setup, NULL);
}
