/* test_copy.c - copies of operands in any layout: reversed and repeated axes, short rows, axes of
 * any order, and complex numbers at multiples of four bytes. */
#include "backend/cpu/kernel_support.h"

enum { ROOM = 1 << 20 };

/* Copies the elements that offset, dims and strides describe, and compares them one by one. */
static void copy(enum kl_dtype dtype, int shift, int64_t offset, int ndim, const int *dims,
                 const int64_t *strides) {
    static unsigned char memory[ROOM * 8 + 8], made[ROOM * 8];
    const size_t item = kl_dtype_size(dtype);
    unsigned char *a = memory + shift, *first = a + offset * (int64_t)item;
    struct operand x, y;
    strided_operand(&x, first, dtype, ndim, dims, strides);
    dense(&y, made, dtype, ndim, dims);
    assert_true(y.arg.size <= ROOM);
    memset(made, 0, (size_t)y.arg.size * item);
    launch(KL_OP_COPY, NULL, &y, IN(&x), false, 0, y.arg.size, true);
    for (int64_t i = 0; i < y.arg.size; i++) {
        int64_t at = 0, rest = i;
        for (int k = ndim - 1; k >= 0; k--) {
            at += rest % dims[k] * strides[k];
            rest /= dims[k];
        }
        assert_memory_equal(made + (size_t)i * item, first + at * (int64_t)item, item);
    }
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (unsigned char)(i * 31 + i / 256 * 7);
}

static void layouts(enum kl_dtype dtype, int shift) {
    static const int widths[] = {1, 2, 3, 4, 7, 16, 17, 40};
    for (int w = 0; w < 8; w++) {
        const int n = widths[w];
        if (!kl_test_takes("cpu", 1)) continue;
        /* reversed rows, reversed columns, and both */
        copy(dtype, shift, n - 1, 2, (int[]){90, n}, (int64_t[]){n, -1});
        copy(dtype, shift, 89 * n, 2, (int[]){90, n}, (int64_t[]){-n, 1});
        copy(dtype, shift, 90 * n - 1, 2, (int[]){90, n}, (int64_t[]){-n, -1});
        /* each element n times; each row n times; rows of one element */
        copy(dtype, shift, 0, 3, (int[]){7, 75, n}, (int64_t[]){80, 1, 0});
        copy(dtype, shift, 79, 3, (int[]){7, 75, n}, (int64_t[]){80, -1, 0});
        copy(dtype, shift, 0, 3, (int[]){7, n, 75}, (int64_t[]){75, 0, 1});
        copy(dtype, shift, 3, 3, (int[]){5, 31, n}, (int64_t[]){1, 0, 0});
        /* short rows apart, every other element, and axes in another order */
        copy(dtype, shift, 0, 3, (int[]){6, 23, n}, (int64_t[]){23 * 60, 60, 1});
        copy(dtype, shift, 0, 3, (int[]){6, 23, n}, (int64_t[]){23 * 99, 99, 2});
        copy(dtype, shift, 0, 3, (int[]){6, 23, n}, (int64_t[]){n, 6 * n, 1});
    }
    copy(dtype, shift, 0, 3, (int[]){50, 1000, 2},
         (int64_t[]){1000, 1, 0}); /* for several threads */
    copy(dtype, shift, 99999, 2, (int[]){100, 1000}, (int64_t[]){-1000, -1});
}

static void any_layout(void **state) {
    const enum kl_dtype dtypes[] = {KL_U8, KL_BF16, KL_F32, KL_C64, KL_I64};
    for (int d = 0; d < 5; d++)
        for (int shift = 0; shift < 8; shift += dtypes[d] == KL_C64 ? 4 : 8)
            layouts(dtypes[d], shift);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_layout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
