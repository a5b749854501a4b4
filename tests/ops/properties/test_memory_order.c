/* test_memory_order.c - element-wise results of turned operands lie in memory as these do, and have
 * the values that row-major operands give; chains of them are one kernel; operands in no single
 * order of all axes give rows. */
#include "ops/support/helpers.h"

#include "base/alloc.h"
#include "graph/fusion_support.h"
#include "ops/build/views.h"

enum { LARGE = 3, SMALL = 2 };
static const int dims[LARGE] = {6, 15, 9}; /* 810 elements */
static const int orders[][LARGE] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
enum { N_ORDERS = sizeof orders / sizeof *orders };

/* Random numbers in that order of axes, and the same ones as rows. */
struct two {
    struct kl_array *turned, *rows;
};
static uint32_t seed = 3;
static struct two two_of(enum kl_dtype dtype, const int *order) {
    struct two t;
    struct kl_array *x = random_of(dtype, LARGE, dims, &seed);
    EXPECT_OK(kl_permute(&t.turned, x, order, &err));
    EXPECT_OK(kl_copy(&t.rows, t.turned, cpu(), &err));
    kl_array_release(x);
    assert_false(t.turned->t.layout & KL_ROW_CONTIGUOUS);
    return t;
}
/* In which order a result is expected: NULL where the last axis has stayed the last one. */
static const struct kl_array *order_of(const struct two *t, const int *order) {
    return order[LARGE - 1] == LARGE - 1 ? NULL : t->turned;
}
static void drop(struct two *t) {
    kl_array_release(t->turned);
    kl_array_release(t->rows);
}

static bool same_order(const struct kl_array *a, const struct kl_array *b) {
    for (int i = 0; i < a->t.ndim; i++)
        if (a->t.dims[i] > 1 && a->t.strides[i] != b->t.strides[i]) return false;
    return a->t.ndim == b->t.ndim;
}

/* `got` has the order of `like`, or that of rows, and the values of `want`; both are taken. */
static void expect(struct kl_array *got, struct kl_array *want, const struct kl_array *like) {
    EXPECT_OK(kl_eval(&got, 1, &err));
    if (!(like ? same_order(got, like) : (got->t.layout & KL_ROW_CONTIGUOUS) != 0))
        fail_msg("%s: the strides are %d %d %d", kl_dtype_name((enum kl_dtype)got->t.dtype),
                 (int)got->t.strides[0], (int)got->t.strides[1], (int)got->t.strides[2]);
    assert_true(same_values(got, want));
    kl_array_release(got);
    kl_array_release(want);
}

/* ---- results in the order of their operands ---- */

static void one_operand(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F64, KL_I32, KL_I8, KL_C64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int k = 0; k < N_ORDERS; k++) {
            struct two t = two_of(dtypes[d], orders[k]);
            struct kl_array *got, *want;
            EXPECT_OK(kl_square(&got, t.turned, cpu(), &err));
            EXPECT_OK(kl_square(&want, t.rows, cpu(), &err));
            expect(got, want, order_of(&t, orders[k]));
            EXPECT_OK(kl_astype(&got, t.turned, KL_C64, cpu(), &err));
            EXPECT_OK(kl_astype(&want, t.rows, KL_C64, cpu(), &err));
            /* an array that has the dtype is the result itself */
            expect(got, want, dtypes[d] == KL_C64 ? t.turned : order_of(&t, orders[k]));
            drop(&t);
        }
}

/* Both in one order; with a number; with a row, a column and an axis that are broadcast; an operand
 * of another dtype. */
static void two_operands(void **state) {
    for (int k = 0; k < N_ORDERS; k++) {
        struct two t = two_of(KL_F32, orders[k]), u = two_of(KL_F32, orders[k]);
        struct two i = two_of(KL_I32, orders[k]);
        struct kl_array *got, *want, *half = scalar_of(KL_F32, 0.5);
        EXPECT_OK(kl_subtract(&got, t.turned, u.turned, cpu(), &err));
        EXPECT_OK(kl_subtract(&want, t.rows, u.rows, cpu(), &err));
        expect(got, want, order_of(&t, orders[k]));
        EXPECT_OK(kl_subtract(&got, half, u.turned, cpu(), &err));
        EXPECT_OK(kl_subtract(&want, half, u.rows, cpu(), &err));
        expect(got, want, order_of(&t, orders[k]));
        EXPECT_OK(kl_add(&got, i.turned, u.turned, cpu(), &err));
        EXPECT_OK(kl_add(&want, i.rows, u.rows, cpu(), &err));
        expect(got, want, order_of(&t, orders[k]));
        for (int axes = 1; axes < 7; axes++) { /* a set */
            int few[LARGE];
            for (int a = 0; a < LARGE; a++) few[a] = axes >> a & 1 ? t.rows->t.dims[a] : 1;
            struct kl_array *part = random_of(KL_F32, LARGE, few, &seed);
            EXPECT_OK(kl_multiply(&got, t.turned, part, cpu(), &err));
            EXPECT_OK(kl_multiply(&want, t.rows, part, cpu(), &err));
            expect(got, want, order_of(&t, orders[k]));
            kl_array_release(part);
        }
        kl_array_release(half);
        drop(&t);
        drop(&u);
        drop(&i);
    }
}

static void three_operands(void **state) {
    struct two t = two_of(KL_F32, orders[4]), u = two_of(KL_F32, orders[4]);
    struct kl_array *got, *want, *turned, *rows;
    EXPECT_OK(kl_less(&turned, t.turned, u.turned, cpu(), &err));
    EXPECT_OK(kl_less(&rows, t.rows, u.rows, cpu(), &err));
    EXPECT_OK(kl_where(&got, turned, t.turned, u.turned, cpu(), &err));
    EXPECT_OK(kl_where(&want, rows, t.rows, u.rows, cpu(), &err));
    expect(got, want, t.turned);
    kl_array_release(turned);
    kl_array_release(rows);
    drop(&t);
    drop(&u);
}

/* ---- results as rows ---- */

/* Operands in two orders; one of them as rows; reversed; with gaps; few elements; a copy. */
static void other_places(void **state) {
    struct two t = two_of(KL_F32, orders[4]);
    struct kl_array *got, *want, *view, *rows, *x;
    EXPECT_OK(kl_add(&got, t.turned, t.rows, cpu(), &err));
    EXPECT_OK(kl_add(&want, t.rows, t.rows, cpu(), &err));
    expect(got, want, NULL);
    const int start[LARGE] = {8, 0, 0}, step[LARGE] = {-1, 1, 1};
    EXPECT_OK(kl_slice_to(&view, t.turned, start, step, t.turned->t.dims, &err));
    EXPECT_OK(kl_copy(&rows, view, cpu(), &err));
    EXPECT_OK(kl_square(&got, view, cpu(), &err));
    EXPECT_OK(kl_square(&want, rows, cpu(), &err));
    expect(got, want, NULL);
    kl_array_release(view);
    kl_array_release(rows);
    const int first[LARGE] = {0, 0, 0}, each[LARGE] = {1, 1, 1}, fewer[LARGE] = {9, 14, 5};
    EXPECT_OK(kl_slice_to(&view, t.turned, first, each, fewer, &err));
    EXPECT_OK(kl_copy(&rows, view, cpu(), &err));
    EXPECT_OK(kl_square(&got, view, cpu(), &err));
    EXPECT_OK(kl_square(&want, rows, cpu(), &err));
    expect(got, want, NULL);
    kl_array_release(view);
    kl_array_release(rows);
    EXPECT_OK(kl_copy(&got, t.turned, cpu(), &err));
    expect(got, kl_array_retain(t.rows), NULL);
    drop(&t);
    x = random_of(KL_F32, LARGE, (const int[]){4, 5, 6}, &seed);
    EXPECT_OK(kl_transpose(&view, x, cpu(), &err));
    EXPECT_OK(kl_copy(&rows, view, cpu(), &err));
    EXPECT_OK(kl_square(&got, view, cpu(), &err));
    EXPECT_OK(kl_square(&want, rows, cpu(), &err));
    expect(got, want, NULL);
    struct kl_array *all[] = {x, view, rows};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* ---- chains ---- */

/* Five operations on a transposed array, of which no result is kept, are one group. */
static void a_chain_is_one_kernel(void **state) {
    static const int large[] = {200, 300};
    struct kl_array *x = random_of(KL_F32, SMALL, large, &seed), *turned, *rows, *made[2];
    struct kl_array *half = scalar_of(KL_F32, 0.5);
    EXPECT_OK(kl_transpose(&turned, x, cpu(), &err));
    EXPECT_OK(kl_copy(&rows, turned, cpu(), &err));
    EXPECT_OK(kl_eval(&rows, 1, &err));
    for (int k = 0; k < 2; k++) {
        struct kl_array *a, *b, *from = k ? turned : rows;
        EXPECT_OK(kl_square(&a, from, cpu(), &err));
        EXPECT_OK(kl_multiply(&b, a, half, cpu(), &err));
        kl_array_release(a);
        EXPECT_OK(kl_add(&a, b, from, cpu(), &err));
        kl_array_release(b);
        EXPECT_OK(kl_abs(&b, a, cpu(), &err));
        kl_array_release(a);
        EXPECT_OK(kl_sqrt(&made[k], b, cpu(), &err));
        kl_array_release(b);
        const uint64_t before = kl_fusion_count();
        EXPECT_OK(kl_eval(&made[k], 1, &err));
        assert_int_equal(kl_fusion_count() - before, 1);
    }
    expect(made[1], made[0], turned);
    struct kl_array *all[] = {x, turned, rows, half};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* Where the operation on a turned array is still to be computed, one that takes rows too is in the
 * same kernel. */
static void a_chain_takes_rows(void **state) {
    static const int large[] = {200, 300};
    struct kl_array *x = random_of(KL_F32, SMALL, large, &seed), *turned, *rows, *a, *got, *want;
    EXPECT_OK(kl_transpose(&turned, x, cpu(), &err));
    EXPECT_OK(kl_copy(&rows, turned, cpu(), &err));
    EXPECT_OK(kl_eval(&rows, 1, &err));
    EXPECT_OK(kl_square(&a, rows, cpu(), &err));
    EXPECT_OK(kl_add(&want, a, rows, cpu(), &err));
    kl_array_release(a);
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        EXPECT_OK(kl_square(&a, turned, cpu(), &err));
        if (evaluated) EXPECT_OK(kl_eval(&a, 1, &err));
        EXPECT_OK(kl_add(&got, a, rows, cpu(), &err));
        kl_array_release(a);
        const uint64_t before = kl_fusion_count();
        EXPECT_OK(kl_eval(&got, 1, &err));
        assert_int_equal(kl_fusion_count() - before, !evaluated);
        expect(got, kl_array_retain(want), NULL);
    }
    struct kl_array *all[] = {x, turned, rows, want};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

/* A copy of a result that is still to be computed is that result in rows, and does not read it. */
static void a_copy_is_computed_in_rows(void **state) {
    static const int large[] = {200, 300};
    struct kl_array *x = random_of(KL_F32, SMALL, large, &seed), *turned, *rows, *a, *b, *got,
                    *want;
    struct kl_array *row = random_of(KL_F32, 1, large, &seed);
    EXPECT_OK(kl_transpose(&turned, x, cpu(), &err));
    EXPECT_OK(kl_copy(&rows, turned, cpu(), &err));
    EXPECT_OK(kl_square(&a, rows, cpu(), &err));
    EXPECT_OK(kl_multiply(&want, a, row, cpu(), &err));
    kl_array_release(a);
    for (int evaluated = 0; evaluated < 2; evaluated++) {
        EXPECT_OK(kl_square(&a, turned, cpu(), &err));
        if (evaluated) EXPECT_OK(kl_eval(&a, 1, &err));
        EXPECT_OK(kl_multiply(&b, a, row, cpu(), &err));
        EXPECT_OK(kl_copy(&got, b, cpu(), &err));
        EXPECT_OK(kl_eval(&got, 1, &err));
        assert_false(kl_array_settled(b));
        assert_true(same_order(b, turned));
        expect(got, kl_array_retain(want), NULL);
        kl_array_release(a);
        kl_array_release(b);
    }
    struct kl_array *all[] = {x, turned, rows, row, want};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}

/* Where memory for a view, or for the result, cannot be had nothing is left. */
static void no_memory(void **state) {
    struct two t = two_of(KL_F32, orders[2]);
    struct kl_array *sum;
    EXPECT_OK(kl_add(&sum, t.turned, t.turned, cpu(), &err));
    for (int copies = 0; copies < 2; copies++) {
        bool done = false;
        for (int64_t n = 0; !done; n++) {
            struct kl_array *got = NULL;
            struct kl_error *why = NULL;
            kl_test_fail_alloc_at(n);
            const int rc = copies ? kl_copy(&got, sum, cpu(), &why)
                                  : kl_add(&got, t.turned, t.turned, cpu(), &why);
            done = kl_test_n_alloc_attempts() <= n;
            kl_test_fail_alloc_at(-1);
            if (!rc != done || (rc && rc != KL_ENOMEM)) fail_msg("allocation %d: %d", (int)n, rc);
            kl_error_release(why);
            kl_array_release(got);
        }
    }
    kl_array_release(sum);
    drop(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_operand),
        cmocka_unit_test(two_operands),
        cmocka_unit_test(three_operands),
        cmocka_unit_test(other_places),
        cmocka_unit_test(a_chain_is_one_kernel),
        cmocka_unit_test(a_chain_takes_rows),
        cmocka_unit_test(a_copy_is_computed_in_rows),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
