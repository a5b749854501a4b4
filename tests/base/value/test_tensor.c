/* test_tensor.c - tensor.h: strides, layout flags, sizes at the limits. */
#include "support.h"

#include <limits.h>

#include "base/value/tensor.h"

enum { R = KL_ROW_CONTIGUOUS, C = KL_COL_CONTIGUOUS, D = KL_DENSE };

static void row_major(void **state) {
    int64_t s[4];
    kl_strides_row_major(3, (int[]){2, 3, 4}, s);
    assert_int_equal(s[0], 12);
    assert_int_equal(s[1], 4);
    assert_int_equal(s[2], 1);
    kl_strides_row_major(0, NULL, s);
    int big[] = {INT_MAX, INT_MAX, 0};
    kl_strides_row_major(3, big, s);
    assert_int_equal(s[1], 0);
}

static void layouts(void **state) {
    static const struct {
        int ndim, dims[4];
        int64_t strides[4];
        int want;
    } rows[] = {
        {0, {0}, {0}, R | C | D},
        {1, {5}, {1}, R | C | D},
        {1, {5}, {2}, 0},
        {1, {5}, {-1}, 0},
        {1, {5}, {0}, 0},
        {1, {1}, {77}, R | C | D},
        {2, {2, 3}, {3, 1}, R | D},
        {2, {2, 3}, {1, 2}, C | D},
        {2, {2, 3}, {4, 1}, 0},
        {2, {2, 3}, {0, 1}, 0},
        {3, {2, 3, 4}, {4, 8, 1}, D},
        {3, {2, 3, 4}, {1, 8, 2}, D},
        {3, {2, 1, 4}, {4, 99, 1}, R | D},
        {3, {2, 1, 4}, {1, -5, 2}, C | D},
        {3, {2, 3, 4}, {-12, 4, 1}, 0},
        {2, {0, 3}, {7, 7}, R | C | D},
        {2, {3, 3}, {1, 1}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(kl_layout_of(rows[i].ndim, rows[i].dims, rows[i].strides), rows[i].want);
}

static void sizes(void **state) {
    int64_t n;
    assert_true(kl_shape_size(0, NULL, 8, &n) && n == 1);
    assert_true(kl_shape_size(2, (int[]){3, 4}, 4, &n) && n == 12);
    assert_true(kl_shape_size(2, (int[]){3, 0}, 4, &n) && n == 0);
    assert_false(kl_shape_size(1, (int[]){-1}, 1, &n));
    assert_true(kl_shape_size(2, (int[]){1 << 30, 1 << 30}, 4, &n) && n == INT64_C(1) << 60);
    assert_false(kl_shape_size(2, (int[]){1 << 30, 1 << 30}, 8, &n));
    assert_false(kl_shape_size(3, (int[]){1 << 30, 1 << 30, 8}, 1, &n));
    assert_false(kl_shape_size(3, (int[]){INT_MAX, INT_MAX, INT_MAX}, 1, &n));
    /* An array without elements, whose strides would overflow. */
    assert_false(kl_shape_size(4, (int[]){0, INT_MAX, INT_MAX, INT_MAX}, 1, &n));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(row_major), cmocka_unit_test(layouts),
                                       cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
