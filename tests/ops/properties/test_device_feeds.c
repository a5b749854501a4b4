/* test_device_feeds.c - element-wise operations that a device computes in the kernels of the
 * reduction or softmax that reads their result (on_device.h chooses the device): the same bits as
 * when the result is stored first, and the cases in which it must be stored. Random bits that are
 * made in the kernel that uses them: the numbers of the CPU. */
#include "ops/support/on_device.h"

#include "backend/gpu/lower/lower.h"
#include "graph/array.h"

enum { MOST_DIMS = 3 };

struct shape {
    int ndim, dims[MOST_DIMS];
};

/* ---- what is computed first ---- */

struct operands {
    struct kl_array *x, *y, *turned, *row, *column, *one; /* turned: stored by columns */
};
typedef int group_fn(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                     struct kl_error **err);

/* out = second(first(a, b), c) */
static int two(struct kl_array **out, kl_binary_fn *first, struct kl_array *a, struct kl_array *b,
               kl_binary_fn *second, struct kl_array *c, struct kl_stream *s,
               struct kl_error **err) {
    struct kl_array *t;
    KL_TRY(first(&t, a, b, s, err));
    const int rc = second(out, t, c, s, err);
    kl_array_release(t);
    return rc;
}
static int masked(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                  struct kl_error **err) {
    return kl_add(out, o->x, o->row, s, err);
}
static int squared_difference(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                              struct kl_error **err) {
    struct kl_array *t;
    KL_TRY(kl_subtract(&t, o->x, o->y, s, err));
    const int rc = kl_square(out, t, s, err);
    kl_array_release(t);
    return rc;
}
static int turned_and_scaled(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                             struct kl_error **err) {
    return two(out, kl_multiply, o->turned, o->one, kl_subtract, o->column, s, err);
}
static int half_width(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_array *t;
    KL_TRY(kl_add(&t, o->x, o->column, s, err));
    const int rc = kl_astype(out, t, KL_BF16, s, err);
    kl_array_release(t);
    return rc;
}
static int comparison(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                      struct kl_error **err) {
    return kl_greater(out, o->x, o->turned, s, err);
}
static int integers(struct kl_array **out, const struct operands *o, struct kl_stream *s,
                    struct kl_error **err) {
    struct kl_array *t;
    KL_TRY(two(&t, kl_multiply, o->x, o->y, kl_add, o->row, s, err));
    const int rc = kl_astype(out, t, KL_I32, s, err);
    kl_array_release(t);
    return rc;
}

/* ---- what reads it ---- */

typedef int reader_fn(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err);
#define READER(name, call)                                                          \
    static int name(struct kl_array **out, struct kl_array *a, struct kl_stream *s, \
                    struct kl_error **err) {                                        \
        return call;                                                                \
    }
READER(softmax_rows, kl_softmax_axis(out, a, -1, false, s, err))
READER(softmax_all, kl_softmax(out, a, false, s, err))
READER(sum_rows, kl_sum_axis(out, a, -1, false, s, err))
READER(sum_columns, kl_sum_axis(out, a, 0, false, s, err))
READER(sum_all, kl_sum(out, a, false, s, err))
READER(prod_rows, kl_prod_axis(out, a, -1, false, s, err))
READER(max_rows, kl_max_axis(out, a, -1, false, s, err))
READER(min_columns, kl_min_axis(out, a, 0, false, s, err))
READER(all_rows, kl_all_axis(out, a, -1, false, s, err))
READER(any_columns, kl_any_axis(out, a, 0, false, s, err))
READER(logsumexp_rows, kl_logsumexp_axis(out, a, -1, false, s, err))
READER(logsumexp_columns, kl_logsumexp_axis(out, a, 0, false, s, err))
READER(var_rows, kl_var_axis(out, a, -1, false, 1, s, err))
READER(var_all, kl_var(out, a, false, 0, s, err))

/* ---- the comparison ---- */

static struct operands draw(const struct shape *shape) {
    struct operands o;
    int other[MOST_DIMS], row[MOST_DIMS] = {1, 1, 1}, column[MOST_DIMS];
    const int n = shape->ndim;
    for (int i = 0; i < n; i++) other[i] = shape->dims[n - 1 - i];
    row[n - 1] = shape->dims[n - 1];
    memcpy(column, shape->dims, sizeof column);
    column[n - 1] = 1;
    o.x = drawn(KL_F32, n, shape->dims);
    o.y = drawn(KL_F32, n, shape->dims);
    o.row = drawn(KL_F32, n, row);
    o.column = drawn(KL_F32, n, column);
    o.one = drawn(KL_F32, 0, row);
    struct kl_array *stored = drawn(KL_F32, n, other);
    OK(kl_transpose(&o.turned, stored, gpu_stream, &err));
    OK(kl_eval(&o.turned, 1, &err));
    kl_array_release(stored);
    return o;
}
static void drop(struct operands *o) {
    struct kl_array *all[] = {o->x, o->y, o->turned, o->row, o->column, o->one};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

/* The result, and how often operations were computed where they are read. stored: the result of the
 * group is kept. */
static struct kl_array *result(group_fn *group, reader_fn *reader, const struct operands *o,
                               bool stored, int *feeds) {
    struct kl_array *t, *out;
    const int before = kl_test_feeds();
    OK(group(&t, o, gpu_stream, &err));
    OK(reader(&out, t, gpu_stream, &err));
    if (!stored) kl_array_release(t);
    OK(kl_eval(&out, 1, &err));
    struct kl_array *flat;
    read_elements(out, gpu_stream, &flat, "a result");
    if (stored) kl_array_release(t);
    kl_array_release(out);
    *feeds = kl_test_feeds() - before;
    return flat;
}

static void compare(const char *name, group_fn *group, reader_fn *reader,
                    const struct operands *o) {
    int once, never;
    struct kl_array *fed = result(group, reader, o, false, &once),
                    *stored = result(group, reader, o, true, &never);
    void *a, *b;
    OK(kl_array_host(fed, &a, &err));
    OK(kl_array_host(stored, &b, &err));
    assert_int_equal(fed->t.size, stored->t.size);
    if (memcmp(a, b, (size_t)fed->t.size * kl_dtype_size(fed->t.dtype)) != 0)
        fail_msg("%s: other bits", name);
    assert_int_equal(never, 0);
    if (once != (strcmp(device_name(), "sim") != 0)) fail_msg("%s: %d feeds", name, once);
    kl_array_release(fed);
    kl_array_release(stored);
}

#define PAIR(group, reader) \
    { #group " " #reader, group, reader }
static const struct {
    const char *name;
    group_fn *group;
    reader_fn *reader;
} pairs[] = {
    PAIR(masked, softmax_rows),
    PAIR(masked, logsumexp_rows),
    PAIR(masked, sum_columns),
    PAIR(squared_difference, sum_all),
    PAIR(squared_difference, sum_rows),
    PAIR(squared_difference, softmax_all),
    PAIR(squared_difference, var_rows),
    PAIR(turned_and_scaled, sum_rows),
    PAIR(turned_and_scaled, softmax_rows),
    PAIR(turned_and_scaled, min_columns),
    PAIR(turned_and_scaled, logsumexp_columns),
    PAIR(half_width, sum_rows),
    PAIR(half_width, softmax_rows),
    PAIR(half_width, max_rows),
    PAIR(half_width, var_all),
    PAIR(half_width, sum_columns),
    PAIR(comparison, all_rows),
    PAIR(comparison, any_columns),
    PAIR(comparison, sum_all),
    PAIR(integers, sum_rows),
    PAIR(integers, prod_rows),
    PAIR(integers, max_rows),
};

static void same_bits(void **state) {
    static const struct shape shapes[] = {
        {2, {48, 96}}, {2, {61, 71}}, {3, {3, 40, 64}}, {2, {2, 20000}}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct operands o = draw(&shapes[s]);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (takes_case(4)) compare(pairs[i].name, pairs[i].group, pairs[i].reader, &o);
        drop(&o);
    }
}

/* A small result, one that others read too, and one of another shape are stored. */
static int expect_feeds(group_fn *group, const struct operands *o, bool reshaped) {
    struct kl_array *t, *view, *out;
    const int before = kl_test_feeds();
    OK(group(&t, o, gpu_stream, &err));
    if (reshaped) {
        OK(kl_transpose(&view, t, gpu_stream, &err));
        kl_array_release(t);
        t = view;
    }
    OK(kl_sum(&out, t, false, gpu_stream, &err));
    kl_array_release(t);
    OK(kl_eval(&out, 1, &err));
    kl_array_release(out);
    return kl_test_feeds() - before;
}
static void stored(void **state) {
    struct operands small = draw(&(struct shape){2, {40, 60}}),
                    large = draw(&(struct shape){2, {70, 60}});
    assert_int_equal(expect_feeds(masked, &small, false), 0);
    assert_int_equal(expect_feeds(masked, &large, true), 0);
    struct kl_array *t, *both[2];
    const int before = kl_test_feeds();
    OK(masked(&t, &large, gpu_stream, &err));
    OK(sum_rows(&both[0], t, gpu_stream, &err));
    OK(max_rows(&both[1], t, gpu_stream, &err));
    kl_array_release(t);
    OK(kl_eval(both, 2, &err));
    assert_true(kl_test_feeds() - before <= 1); /* the last reader's input is stored already */
    for (int i = 0; i < 2; i++) kl_array_release(both[i]);
    drop(&small);
    drop(&large);
}

/* A result so large that a command buffer ends with it does not end it between the group and its
 * reader. */
static void large(void **state) {
    enum { ROWS = 1 << 13, COLUMNS = 1 << 13 };
    struct operands o = {0};
    struct kl_array *flat;
    if (strcmp(device_name(), "sim") == 0) return;
    OK(kl_ones(&o.x, (int[]){ROWS, COLUMNS}, 2, KL_F32, gpu_stream, &err));
    OK(kl_ones(&o.row, (int[]){COLUMNS}, 1, KL_F32, gpu_stream, &err));
    OK(kl_eval((struct kl_array *[]){o.x, o.row}, 2, &err));
    int feeds;
    flat = result(masked, sum_rows, &o, false, &feeds);
    void *sums;
    OK(kl_array_host(flat, &sums, &err));
    for (int i = 0; i < ROWS; i++) assert_true(((const float *)sums)[i] == 2 * COLUMNS);
    assert_int_equal(feeds, 1);
    kl_array_release(flat);
    kl_array_release(o.x);
    kl_array_release(o.row);
}

/* A row times uniform numbers plus a column, where the numbers are kept too or not. Sizes that fill
 * packs in both halves, and that do not. */
static void random_numbers(void **state) {
    static const int shapes[][2] = {{1, 8}, {3, 8}, {2, 12}, {5, 7}, {40, 25}, {64, 96}, {1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kept = 0; kept < 2; kept++) {
            struct kl_array *x[2], *flat[2], *key, *row, *column, *lo, *hi;
            const int *dims = shapes[i], along[] = {1, dims[1]}, down[] = {dims[0], 1};
            OK(kl_random_key(&key, 11 + i, &err));
            row = drawn(KL_F32, 2, along);
            column = drawn(KL_F32, 2, down);
            OK(kl_array_new_scalar(&lo, -1, KL_F32, &err));
            OK(kl_array_new_scalar(&hi, 2, KL_F32, &err));
            for (int d = 0; d < 2; d++) {
                struct kl_stream *s = d ? gpu_stream : cpu_stream;
                struct kl_array *u, *t, *all[2];
                OK(kl_random_uniform(&u, lo, hi, dims, 2, KL_F32, key, s, &err));
                OK(kl_multiply(&t, u, row, s, &err));
                OK(kl_add(&x[d], t, column, s, &err));
                kl_array_release(t);
                all[0] = x[d];
                all[1] = u;
                if (!kept) kl_array_release(u);
                OK(kl_eval(all, kept ? 2 : 1, &err));
                read_elements(x[d], s, &flat[d], "numbers");
                if (kept) { /* what is kept are the numbers of which the result was made */
                    struct kl_array *numbers;
                    const float *w = read_elements(u, s, &numbers, "numbers that are kept");
                    for (int k = 0; k < dims[0] * dims[1]; k++) {
                        assert_true(w[k] >= -1 && w[k] < 2);
                        if (k) assert_true(w[k] != w[k - 1]);
                    }
                    kl_array_release(numbers);
                    kl_array_release(u);
                }
            }
            void *a, *b;
            OK(kl_array_host(flat[0], &a, &err));
            OK(kl_array_host(flat[1], &b, &err));
            if (memcmp(a, b, (size_t)(dims[0] * dims[1]) * sizeof(float)) != 0)
                fail_msg("%d x %d, kept %d: other numbers than the CPU's", dims[0], dims[1], kept);
            struct kl_array *made[] = {x[0], x[1], flat[0], flat[1], key, row, column, lo, hi};
            for (size_t k = 0; k < sizeof made / sizeof *made; k++) kl_array_release(made[k]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(stored),
                                       cmocka_unit_test(large), cmocka_unit_test(random_numbers)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
