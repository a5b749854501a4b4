/* test_proof.c - proof.h: which indices are known to be in range before they are read. */
#include "ops/support/helpers.h"

#include "base/op/op_params.h"
#include "graph/proof.h"

static bool along_proved(struct kl_array *a, struct kl_array *indices, int axis) {
    struct kl_axis_params p = {axis};
    struct kl_array *in[] = {a, indices};
    return kl_op_indices_proved(KL_OP_GATHER_AXIS, &p, in, 2);
}

static void ranges(void **state) {
    struct kl_array *a = count_up(SHAPE(3)), *i, *data = I32(SHAPE(1), 0),
                    *none = count_up(SHAPE(0));
    static const struct {
        int lo, hi;
        bool proved;
    } rows[] = {{0, 2, true},  {-3, 2, true},  {-4, 0, false},
                {0, 3, false}, {-1, -1, true}, {1, 1, true}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        EXPECT_OK(kl_arange(&i, rows[r].lo, rows[r].hi + 1, 1, KL_I32, cpu(), &err));
        assert_int_equal(along_proved(a, i, 0), rows[r].proved);
        kl_array_release(i);
    }
    /* The range of plain data is not known, although these indices are in range. */
    assert_false(along_proved(a, data, 0));
    assert_true(along_proved(a, none, 0));
    struct kl_array *in[] = {a, a};
    assert_false(kl_op_indices_proved(KL_OP_ADD, NULL, in, 2));
    kl_array_release(a);
    kl_array_release(data);
    kl_array_release(none);
}

static void slices(void **state) {
    struct kl_array *a = count_up(SHAPE(4)), *i;
    struct {
        int n_axes, ndim, v[2];
    } p = {1, 1, {0, 2}};
    static const struct {
        int lo, hi;
        bool proved;
    } rows[] = {{0, 2, true}, {0, 3, false}, {-4, 0, false}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        EXPECT_OK(kl_arange(&i, rows[r].lo, rows[r].hi + 1, 1, KL_I32, cpu(), &err));
        struct kl_array *in[] = {a, i};
        assert_int_equal(kl_op_indices_proved(KL_OP_GATHER, &p, in, 2), rows[r].proved);
        kl_array_release(i);
    }
    kl_array_release(a);
}

/* Through the builders: an operation whose indices are proved runs unchecked and gives the right
 * values, also for negative indices. */
static void end_to_end(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 5)), *order, *i, *out;
    EXPECT_OK(kl_argsort_axis(&order, a, 1, cpu(), &err));
    assert_true(along_proved(a, order, 1));
    EXPECT_OK(kl_take_along_axis(&out, a, order, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 5), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    EXPECT_OK(kl_arange(&i, -5, 0, 2, KL_I8, cpu(), &err));
    EXPECT_OK(kl_take_axis(&out, a, i, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 2, 4, 5, 7, 9);
    kl_array_release(order);
    kl_array_release(i);
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges), cmocka_unit_test(slices),
                                       cmocka_unit_test(end_to_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
