/* SCATTER and SCATTER_AXIS: parts of the positions, in place, faults write nothing. */
#include "kernel_support.h"

static struct {
    enum kl_scatter_mode mode;
    int n_axes, axes[1];
} add = {KL_SCATTER_ADD, 1, {0}}, assign = {KL_SCATTER_ASSIGN, 1, {0}};

static void parts(void **state) {
    int32_t base[] = {10, 20, 30}, up[] = {1, 2, 3, 4}, i[] = {0, 3, -1, -5}, out[3];
    struct operand x, u, y, z;
    dense(&x, base, KL_I32, DIMS(3));
    dense(&u, up, KL_I32, DIMS(4, 1));
    dense(&y, i, KL_I32, DIMS(4));
    dense(&z, out, KL_I32, DIMS(3));
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 0, 2, false), 1);
    assert_memory_equal(out, ((int32_t[]){11, 20, 30}), sizeof out);
    assert_int_equal(launch(KL_OP_SCATTER, &add, &z, IN(&x, &u, &y), true, 2, 4, false),
                     3); /* the first part stays */
    assert_memory_equal(out, ((int32_t[]){11, 20, 33}), sizeof out);
    assert_int_equal(launch(KL_OP_SCATTER, &add, &x, IN(&x, &u, &y), true, 0, 4, false),
                     1); /* in place */
    assert_memory_equal(base, ((int32_t[]){11, 20, 33}), sizeof base);
    struct kl_scatter_axis_params axis = {KL_SCATTER_MAX, 0};
    dense(&u, up, KL_I32, DIMS(4));
    up[0] = 50;
    assert_int_equal(launch(KL_OP_SCATTER_AXIS, &axis, &z, IN(&x, &u, &y), true, 0, 1, false),
                     KL_NO_FAULT);
    assert_memory_equal(out, ((int32_t[]){50, 20, 33}), sizeof out);
    assert_int_equal(launch(KL_OP_SCATTER_AXIS, &axis, &z, IN(&x, &u, &y), true, 1, 4, false), 1);
    assert_memory_equal(out, ((int32_t[]){50, 20, 33}), sizeof out);
}

/* More positions than a tile: the highest of equal indices is assigned last; unchecked indices
 * still wrap. */
static void duplicates(void **state) {
    enum { N = 2000 };
    int32_t base[2] = {0, 0}, up[N], out[2];
    int8_t i[N];
    struct operand x, u, y, z;
    for (int k = 0; k < N; k++) {
        up[k] = k;
        i[k] = (int8_t)(k % 2 ? -1 : 0);
    }
    dense(&x, base, KL_I32, DIMS(2));
    dense(&u, up, KL_I32, DIMS(N, 1));
    dense(&y, i, KL_I8, DIMS(N));
    dense(&z, out, KL_I32, DIMS(2));
    for (int checked = 0; checked < 2; checked++) {
        assert_int_equal(launch(KL_OP_SCATTER, &assign, &z, IN(&x, &u, &y), checked, 0, N, true),
                         KL_NO_FAULT);
        assert_memory_equal(out, ((int32_t[]){N - 2, N - 1}), sizeof out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(duplicates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
