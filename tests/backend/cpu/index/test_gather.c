/* test_gather.c - GATHER and GATHER_AXIS: launches over a part of the positions, unchecked indices,
 * and several wrong indices in several chunks. */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(smallest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
