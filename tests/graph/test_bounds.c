/* test_bounds.c - bounds.h: with KEEL_BOUNDS=off good indices give the same results, and a wrong
 * index is used without a report. The wrong indices here are out of range on their axis but stay
 * inside of the block, so no other memory is touched. KEEL_TEST_GPU names a real device (sim unless
 * set). */
#include "graph/graph_support.h"

#include "base/op/bounds.h"
#include "ops/ops.h"

enum { ROWS = 4, COLS = 8 };

static struct kl_array *ints(int ndim, const int *dims, const int *v) {
    struct kl_array *a;
    assert_int_equal(kl_array_new_data(&a, v, KL_I32, ndim, dims, NULL), 0);
    return a;
}
#define INTS(n0, n1, ...) ints(2, (int[]){n0, n1}, (int[]){__VA_ARGS__})

static struct kl_array *count_up(void) {
    int v[ROWS * COLS], dims[2] = {ROWS, COLS};
    for (int i = 0; i < ROWS * COLS; i++) v[i] = i;
    return ints(2, dims, v);
}

/* Evaluates x and compares its elements; takes x. */
static void expect(struct kl_array *x, struct kl_stream *s, int n, const int *want) {
    struct kl_array *flat;
    struct kl_error *e = NULL;
    void *data;
    assert_int_equal(kl_contiguous(&flat, x, false, s, NULL), 0);
    if (kl_array_host(flat, &data, &e)) fail_msg("%s", e->message);
    assert_int_equal(flat->t.size, n);
    for (int i = 0; i < n; i++) assert_int_equal(((const int *)data)[i], want[i]);
    kl_array_release(flat);
    kl_array_release(x);
}
#define EXPECT(x, s, ...) \
    expect(x, s, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static void on(const char *kind) {
    struct kl_stream *s;
    t_streams(kind, &s);
    /* An index beyond the end of the row is used without a report. */
    struct kl_array *a = count_up(), *y, *part, *good = INTS(ROWS, 1, 0, -1, 3, -8),
                    *wrong = INTS(ROWS, 1, 9, -1, 3, 0), *value = INTS(1, 1, 100);
    assert_int_equal(kl_take_along_axis(&y, a, good, 1, s, NULL), 0);
    EXPECT(y, s, 0, 15, 19, 24);
    assert_int_equal(kl_take_along_axis(&y, a, wrong, 1, s, NULL), 0);
    EXPECT(y, s, 9, 15, 19, 24); /* a checked kernel reports KL_EINDEX and reads nothing */

    int from[2] = {0, 0}, to[2] = {ROWS, 4}, step[2] = {1, 1}, one = 1;
    assert_int_equal(kl_slice(&part, a, from, 2, to, 2, step, 2, s, NULL), 0);
    struct kl_array *column = ints(1, &one, (int[]){5});
    assert_int_equal(kl_take_axis(&y, part, column, 1, s, NULL), 0);
    EXPECT(y, s, 5, 13, 21, 29);

    struct kl_array *put;
    assert_int_equal(kl_put_along_axis(&put, a, wrong, value, 1, s, NULL), 0);
    int all[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) all[i] = i;
    all[9] = all[15] = all[19] = all[24] = 100;
    expect(put, s, ROWS * COLS, all);

    struct kl_array *row = ints(1, &one, (int[]){0}), *col = ints(1, &one, (int[]){9}),
                    *at[2] = {row, col}, *update = ints(3, (int[]){1, 1, 1}, (int[]){1000});
    assert_int_equal(kl_scatter_add(&y, a, at, 2, update, (int[]){0, 1}, 2, s, NULL), 0);
    for (int i = 0; i < ROWS * COLS; i++) all[i] = i + (i == 9 ? 1000 : 0);
    expect(y, s, ROWS * COLS, all);

    struct kl_array *release[] = {a, part, good, wrong, value, column, row, col, update};
    for (size_t i = 0; i < sizeof release / sizeof *release; i++) kl_array_release(release[i]);
    kl_stream_release(s);
}

static void on_the_cpu(void **state) {
    on("c");
}

static void on_a_device(void **state) {
    on("g");
}

static int set_up(void **state) {
    const char *device = getenv("KEEL_TEST_GPU");
    setenv("KEEL_BOUNDS", "off", 1);
    setenv("KEEL_GPU", device ? device : "sim", 1);
    return kl_bounds_checked() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_cpu), cmocka_unit_test(on_a_device)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
