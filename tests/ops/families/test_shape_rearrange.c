/* test_shape_rearrange.c - pad, tile, repeat, roll, meshgrid, and the golden rows of all
 * operations that move elements. */
#include <limits.h>

#include "ops/golden/golden_make.h"

#include "ops/golden/golden_rearrange.inc"

static void golden(void **state) {
    GOLDEN_MAKE_RUN_ALL(rearrange_cases);
}

static int pad1(struct kl_array **out, struct kl_array *a, int axis, int low, int high,
                const char *mode, struct kl_error **err) {
    struct kl_array *v = scalar_of(KL_F32, 7.9);
    int rc = kl_pad(out, a, &axis, 1, &low, 1, &high, 1, v, mode, cpu(), err);
    kl_array_release(v);
    return rc;
}

static void pad(void **state) {
    struct kl_array *a = count_up(SHAPE(3)), *m = count_up(SHAPE(2, 2)), *e = count_up(SHAPE(0)),
                    *s = scalar_of(KL_I32, 3), *v = scalar_of(KL_I32, 9), *out;
    /* The value is converted to the array's dtype. */
    EXPECT_OK(pad1(&out, a, 0, 1, 2, "constant", &err));
    EXPECT_I32(out, SHAPE(6), 7, 0, 1, 2, 7, 7);
    EXPECT_OK(pad1(&out, a, -1, 5, 5, "reflect", &err)); /* the padding is longer than the array */
    EXPECT_I32(out, SHAPE(13), 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1);
    EXPECT_OK(pad1(&out, a, 0, 4, 4, "symmetric", &err));
    EXPECT_I32(out, SHAPE(11), 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0);
    EXPECT_OK(pad1(&out, a, 0, 0, 0, "edge", &err)); /* no padding: the result is a itself */
    assert_ptr_equal(out, a);
    kl_array_release(out);
    EXPECT_OK(pad1(&out, e, 0, 1, 1, "constant", &err));
    EXPECT_I32(out, SHAPE(2), 7, 7);
    EXPECT_OK(kl_pad_symmetric(&out, m, 1, v, "constant", cpu(), &err));
    EXPECT_I32(out, SHAPE(4, 4), 9, 9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9, 9, 9, 9);
    EXPECT_OK(kl_pad_symmetric(&out, m, 1, NULL, "edge", cpu(), &err));
    EXPECT_I32(out, SHAPE(4, 4), 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3);
    EXPECT_OK(kl_pad_symmetric(&out, s, 2, v, "constant", cpu(), &err));
    EXPECT_I32(out, SCALAR, 3);
    EXPECT_FAIL(KL_ESHAPE, pad1(&out, e, 0, 1, 0, "edge", &err));
    EXPECT_FAIL(KL_ESHAPE, pad1(&out, e, 0, 1, 0, "reflect", &err));
    EXPECT_FAIL(KL_EARG, pad1(&out, a, 0, -1, 0, "constant", &err));
    EXPECT_FAIL(KL_EARG, pad1(&out, a, 0, 1, 0, "wrong", &err));
    EXPECT_FAIL(KL_EARG, pad1(&out, a, 0, 1, 0, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, pad1(&out, a, 1, 1, 0, "constant", &err));
    EXPECT_FAIL(KL_ELIMIT, pad1(&out, a, 0, INT_MAX, 0, "constant", &err));
    EXPECT_FAIL(KL_EARG, pad1(&out, NULL, 0, 1, 0, "constant", &err));
    EXPECT_FAIL(KL_EAXIS,
                kl_pad(&out, m, LIST(0, -2), LIST(1, 1), LIST(1, 1), v, "constant", cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_pad(&out, m, LIST(0), LIST(1, 1), LIST(1), v, "constant", cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_pad(&out, m, LIST(0), NULL, 1, LIST(1), v, "constant", cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_pad(&out, m, LIST(0), LIST(1), LIST(1), NULL, "constant", cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_pad(&out, m, LIST(0), LIST(1), LIST(1), a, "constant", cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_pad(&out, m, LIST(0), LIST(1), LIST(1), v, "constant", NULL, &err));
    struct kl_array *all[] = {a, m, e, s, v};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}

static void tile_and_repeat(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 1)), *s = scalar_of(KL_I32, 5), *big, *out;
    EXPECT_OK(kl_tile(&out, a, LIST(2, 3), cpu(), &err));
    EXPECT_I32(out, SHAPE(4, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    EXPECT_OK(kl_tile(&out, a, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 1), 0, 1);
    EXPECT_OK(kl_tile(&out, s, LIST(1, 2), cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 5, 5);
    EXPECT_OK(kl_tile(&out, a, LIST(0, 2), cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 2), 0);
    EXPECT_FAIL(KL_EARG, kl_tile(&out, a, LIST(-1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_tile(&out, a, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_tile(&out, NULL, LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_tile(&out, a, LIST(1), NULL, &err));
    EXPECT_FAIL(KL_ELIMIT, kl_tile(&out, a, LIST(INT_MAX, 1), cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_tile(&out, s, LIST(INT_MAX, INT_MAX, INT_MAX), cpu(), &err));
    EXPECT_OK(kl_repeat(&out, s, 3, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 5, 5, 5);
    EXPECT_OK(kl_repeat(&out, a, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_repeat_axis(&out, a, 0, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 0), 0);
    EXPECT_OK(kl_repeat_axis(&out, a, 2, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 0, 1, 1);
    EXPECT_FAIL(KL_EARG, kl_repeat_axis(&out, a, -1, 0, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_repeat_axis(&out, s, 2, 0, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_repeat(&out, a, INT_MAX, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_repeat(&out, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_repeat(&out, a, 1, NULL, &err));
    kl_array_release(a);
    /* Large enough for several threads. */
    EXPECT_OK(kl_arange(&big, 0, 1000, 1, KL_I32, cpu(), &err));
    EXPECT_OK(kl_repeat(&out, big, 1000, cpu(), &err));
    int32_t *v = values_of(out);
    for (int i = 0; i < 1000000; i++) assert_int_equal(v[i], i / 1000);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_tile(&out, big, LIST(1000), cpu(), &err));
    v = values_of(out);
    for (int i = 0; i < 1000000; i++) assert_int_equal(v[i], i % 1000);
    free(v);
    kl_array_release(out);
    kl_array_release(big);
    kl_array_release(s);
}

static void roll(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *e = count_up(SHAPE(0)), *s = scalar_of(KL_I32, 3),
                    *out;
    EXPECT_OK(kl_roll(&out, a, LIST(-8), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 2, 3, 4, 5, 0, 1);
    /* Shifts by 2^32 - 2, which is 2 modulo 6. */
    EXPECT_OK(kl_roll(&out, a, LIST(INT_MAX, INT_MAX), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 4, 5, 0, 1, 2, 3);
    EXPECT_OK(kl_roll(&out, a, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_roll_axis(&out, a, LIST(1, 1), -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 1, 2, 0, 4, 5, 3);
    EXPECT_OK(kl_roll_axes(&out, a, LIST(1, 1, 5), LIST(0, 0), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_roll(&out, e, LIST(1), cpu(), &err));
    EXPECT_I32(out, SHAPE(0), 0);
    EXPECT_OK(kl_roll(&out, s, LIST(1), cpu(), &err));
    EXPECT_I32(out, SCALAR, 3);
    EXPECT_FAIL(KL_EARG, kl_roll_axes(&out, a, LIST(1), LIST(0, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_roll_axes(&out, a, NULL, 2, LIST(0, 1), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_roll_axes(&out, a, LIST(1), LIST(2), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_roll_axis(&out, a, LIST(1), 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_roll_axis(&out, s, LIST(1), 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_roll(&out, a, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_roll(&out, NULL, LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_roll(&out, a, LIST(1), NULL, &err));
    kl_array_release(a);
    kl_array_release(e);
    kl_array_release(s);
}

static void meshgrid(void **state) {
    struct kl_array *a = I32(SHAPE(2), 1, 2), *b = I32(SHAPE(3), 3, 4, 5),
                    *s = scalar_of(KL_I32, 6), *in[] = {a, b, s}, *null[] = {a, NULL},
                    **outs = NULL;
    size_t n = 9;
    EXPECT_OK(kl_meshgrid(&outs, &n, in, 2, false, "xy", cpu(), &err));
    assert_int_equal(n, 2);
    EXPECT_I32(outs[0], SHAPE(3, 2), 1, 2, 1, 2, 1, 2);
    EXPECT_I32(outs[1], SHAPE(3, 2), 3, 3, 4, 4, 5, 5);
    kl_free(outs);
    EXPECT_OK(kl_meshgrid(&outs, &n, in, 3, false, "ij", cpu(), &err));
    EXPECT_I32(outs[0], SHAPE(2, 3, 1), 1, 1, 1, 2, 2, 2);
    EXPECT_I32(outs[1], SHAPE(2, 3, 1), 3, 4, 5, 3, 4, 5);
    EXPECT_I32(outs[2], SHAPE(2, 3, 1), 6, 6, 6, 6, 6, 6);
    kl_free(outs);
    EXPECT_OK(kl_meshgrid(&outs, &n, in, 3, true, "xy", cpu(), &err));
    EXPECT_I32(outs[0], SHAPE(1, 2, 1), 1, 2);
    EXPECT_I32(outs[1], SHAPE(3, 1, 1), 3, 4, 5);
    EXPECT_I32(outs[2], SHAPE(1, 1, 1), 6);
    kl_free(outs);
    EXPECT_OK(kl_meshgrid(&outs, &n, in, 1, false, "xy", cpu(), &err));
    EXPECT_I32(outs[0], SHAPE(2), 1, 2);
    kl_free(outs);
    EXPECT_OK(kl_meshgrid(&outs, &n, NULL, 0, false, "xy", cpu(), &err));
    assert_int_equal(n, 0);
    kl_free(outs);
    outs = NULL;
    assert_int_equal(kl_meshgrid(&outs, &n, in, 2, false, "yx", cpu(), NULL), KL_EARG);
    assert_int_equal(kl_meshgrid(&outs, &n, in, 2, false, NULL, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_meshgrid(&outs, &n, null, 2, false, "xy", cpu(), NULL), KL_EARG);
    assert_int_equal(kl_meshgrid(&outs, &n, NULL, 2, false, "xy", cpu(), NULL), KL_EARG);
    assert_null(outs);
    for (int i = 0; i < 3; i++) kl_array_release(in[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(pad),
                                       cmocka_unit_test(tile_and_repeat), cmocka_unit_test(roll),
                                       cmocka_unit_test(meshgrid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
