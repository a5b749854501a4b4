/* test_gather.c - GATHER and GATHER_AXIS: launches over a part of the positions, unchecked indices,
 * several wrong indices in several chunks, and slices that are columns of the source. */
#include "backend/cpu/kernel_support.h"

static void parts(void **state) {
    float a[] = {10, 11, 12}, out[6];
    int32_t i[] = {0, 5, -1, 2, -4, 1};
    struct operand x, y, z;
    struct {
        int n_axes, ndim, v[2];
    } p = {1, 1, {0, 1}};
    dense(&x, a, KL_F32, DIMS(3));
    dense(&y, i, KL_I32, DIMS(6));
    dense(&z, out, KL_F32, DIMS(6, 1));
    for (int k = 0; k < 6; k++) out[k] = -1;
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), true, 2, 4, false), KL_NO_FAULT);
    assert_memory_equal(out, ((float[]){-1, -1, 12, 12, -1, -1}), sizeof out);
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), true, 2, 6, false), 4);
    assert_memory_equal(out, ((float[]){-1, -1, 12, 12, 0, 11}), sizeof out);
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), true, 0, 6, false), 1);
    assert_memory_equal(out, ((float[]){10, 0, 12, 12, 0, 11}), sizeof out);
    int32_t good[] = {2, -3, -1, 0, 1, -2};
    dense(&y, good, KL_I32, DIMS(6));
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), false, 0, 6, false), KL_NO_FAULT);
    assert_memory_equal(out, ((float[]){12, 10, 12, 10, 11, 11}), sizeof out);
    struct kl_axis_params axis = {0};
    dense(&z, out, KL_F32, DIMS(6));
    assert_int_equal(launch(KL_OP_GATHER_AXIS, &axis, &z, IN(&x, &y), false, 0, 6, false),
                     KL_NO_FAULT);
    assert_memory_equal(out, ((float[]){12, 10, 12, 10, 11, 11}), sizeof out);
    dense(&y, i, KL_I32, DIMS(6));
    assert_int_equal(launch(KL_OP_GATHER_AXIS, &axis, &z, IN(&x, &y), true, 3, 6, false), 4);
    assert_memory_equal(out, ((float[]){12, 10, 12, 12, 0, 11}), sizeof out);
}

/* The smallest position with a wrong index is reported, in whatever order the chunks run. */
static void smallest(void **state) {
    enum { N = 1 << 19 };
    uint8_t *i = calloc(N, 1), *out = malloc(N), a[] = {7};
    struct operand x, y, z;
    struct {
        int n_axes, ndim, v[2];
    } p = {1, 1, {0, 1}};
    struct kl_axis_params axis = {0};
    i[100000] = i[99999] = i[400000] = i[N - 1] = 1;
    dense(&x, a, KL_U8, DIMS(1));
    dense(&y, i, KL_U8, DIMS(N));
    dense(&z, out, KL_U8, DIMS(N, 1));
    n_shared = 0;
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), true, 0, N, true), 99999);
    assert_true(n_shared > 1);
    for (int k = 0; k < N; k++) assert_int_equal(out[k], i[k] ? 0 : 7);
    dense(&z, out, KL_U8, DIMS(N));
    assert_int_equal(launch(KL_OP_GATHER_AXIS, &axis, &z, IN(&x, &y), true, 100001, N, true),
                     400000);
    free(i);
    free(out);
}

/* Columns of `run` elements, of which some have a wrong index; rows of the source may be reversed.
 * Position k has index 7 k modulo the number of columns. */
static void gather_columns(enum kl_dtype dtype, int rows, int cols, int run, int n, bool reversed) {
    const size_t item = kl_dtype_size(dtype);
    const int64_t size = (int64_t)rows * cols * run, made = (int64_t)rows * n * run;
    unsigned char *a = malloc((size_t)size * item),
                  *out = aligned_alloc(64, ((size_t)made * item + 63) / 64 * 64);
    int32_t *i = malloc((size_t)n * sizeof *i);
    struct operand x, y, z;
    struct {
        int n_axes, ndim, v[4];
    } p = {1, 3, {1, rows, 1, run}};
    for (int64_t k = 0; k < size * (int64_t)item; k++) a[k] = (unsigned char)(k * 37 + k / 251);
    for (int k = 0; k < n; k++) i[k] = k * 7 % cols - (k % 3 ? 0 : cols);
    if (n > 70) i[70] = cols;
    const int64_t step = (int64_t)cols * run;
    const int dims[] = {rows, cols, run};
    strided_operand(&x, a + (reversed ? (size_t)((rows - 1) * step) * item : 0), dtype, 3, dims,
                    (int64_t[]){reversed ? -step : step, run, 1});
    dense(&y, i, KL_I32, DIMS(n));
    dense(&z, out, dtype, DIMS(n, rows, 1, run));
    memset(out, 255, (size_t)made * item);
    assert_int_equal(launch(KL_OP_GATHER, &p, &z, IN(&x, &y), true, 0, n, true),
                     n > 70 ? 70 : KL_NO_FAULT);
    const size_t bytes = (size_t)run * item;
    for (int k = 0; k < n; k++)
        for (int r = 0; r < rows; r++) {
            const unsigned char zeros[32] = {0}, *got = out + (size_t)(k * rows + r) * bytes;
            int64_t row = reversed ? rows - 1 - r : r;
            const unsigned char *want = a + (size_t)(row * cols + k * 7 % cols) * bytes;
            assert_memory_equal(got, k == 70 ? zeros : want, bytes);
        }
    free(i);
    free(out);
    free(a);
}

static void columns(void **state) {
    const enum kl_dtype dtypes[] = {KL_U8, KL_I16, KL_F32, KL_C64};
    for (int d = 0; d < 4; d++)
        for (int run = 1; run <= 4; run++) {
            gather_columns(dtypes[d], 3, 5, run, 4, false);
            gather_columns(dtypes[d], 65, 31, run, 71, true);
            gather_columns(dtypes[d], 200, 600, run, 1100, false);
        }
    gather_columns(KL_F32, 2000, 300, 1, 700, false);
    gather_columns(KL_F32, 2000, 300, 1, 2100, true); /* so large that lines are written whole */
    gather_columns(KL_I16, 4128, 300, 1, 2050, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(smallest),
                                       cmocka_unit_test(columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
