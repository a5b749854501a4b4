/* test_shape.c - reshape, transpose, broadcast, expand_dims, squeeze: shapes, values, which results
 * are views, bad arguments. */
#include <limits.h>

#include "ops/support/helpers.h"

/* Whether out is a view of a's memory. */
static bool shares(const struct kl_array *out, const struct kl_array *a) {
    return out->t.buffer == a->t.buffer;
}

static void reshape(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 6)), *t, *out, *again, *empty = count_up(SHAPE(0)),
                    *one = scalar_of(KL_I32, 7);
    EXPECT_OK(kl_reshape(&out, a, LIST(3, -1, 2), cpu(), &err));
    assert_true(shares(out, a));
    EXPECT_I32(out, SHAPE(3, 2, 2), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    EXPECT_OK(kl_reshape(&out, a, LIST(2, 6), cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err)); /* shape (6, 2) */
    EXPECT_OK(kl_reshape(&out, t, LIST(2, 3, 1, 2), cpu(), &err));
    assert_true(shares(out, a)); /* strides can describe this shape */
    EXPECT_I32(out, SHAPE(2, 3, 1, 2), 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11);
    EXPECT_OK(kl_reshape(&out, t, LIST(3, 4), cpu(), &err));
    assert_false(shares(out, a)); /* no strides describe this shape, so it is a copy */
    EXPECT_OK(kl_reshape(&again, out, LIST(-1), cpu(), &err));
    assert_true(shares(again, out));
    EXPECT_I32(again, SHAPE(12), 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11);
    kl_array_release(out);
    EXPECT_OK(kl_reshape(&out, empty, LIST(3, -1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 0), 0);
    EXPECT_OK(kl_reshape(&out, one, LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 1), 7);
    EXPECT_OK(kl_reshape(&out, one, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SCALAR, 7);
    kl_array_release(a);
    kl_array_release(t);
    kl_array_release(empty);
    kl_array_release(one);
}

/* Every reshape of every transposed and sliced array has the elements of the reshaped copy. */
static void reshape_of_views(void **state) {
    static const int targets[][4] = {{24, 1, 1, 1}, {2, 12, 1, 1}, {4, 6, 1, 1}, {6, 4, 1, 1},
                                     {3, 2, 2, 2},  {1, 2, 3, 4},  {12, 1, 2, 1}};
    static const int perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct kl_array *big = count_up(SHAPE(4, 3, 9)), *part;
    /* Shape (2, 3, 4). */
    EXPECT_OK(kl_slice(&part, big, LIST(3, 0, 1), LIST(-5, 3, 9), LIST(-2, 1, 2), cpu(), &err));
    for (size_t p = 0; p < 6; p++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            struct kl_array *transposed, *dense, *a, *b;
            EXPECT_OK(kl_transpose_axes(&transposed, part, perms[p], 3, cpu(), &err));
            EXPECT_OK(kl_copy(&dense, transposed, cpu(), &err));
            EXPECT_OK(kl_reshape(&a, transposed, targets[t], 4, cpu(), &err));
            EXPECT_OK(kl_reshape(&b, dense, targets[t], 4, cpu(), &err));
            void *x = values_of(a), *y = values_of(b);
            assert_memory_equal(x, y, 24 * sizeof(int32_t));
            free(x);
            free(y);
            kl_array_release(a);
            kl_array_release(b);
            kl_array_release(dense);
            kl_array_release(transposed);
        }
    kl_array_release(part);
    kl_array_release(big);
}

static void flatten(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 1, 3)), *s = scalar_of(KL_I32, 4),
                    *e = count_up(SHAPE(2, 0, 3)), *out;
    EXPECT_OK(kl_flatten(&out, a, 0, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(6), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_flatten(&out, a, 1, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    /* Axes beyond the ends are clamped, as in MLX. */
    EXPECT_OK(kl_flatten(&out, a, -7, 9, cpu(), &err));
    EXPECT_I32(out, SHAPE(6), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_flatten(&out, s, 5, -5, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 4);
    EXPECT_OK(kl_flatten(&out, e, 1, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 0), 0);
    EXPECT_FAIL(KL_EAXIS, kl_flatten(&out, a, 2, 1, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_flatten(&out, a, 3, 9, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_flatten(&out, a, 0, -4, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_flatten(&out, NULL, 0, -1, cpu(), &err));
    kl_array_release(a);
    kl_array_release(s);
    kl_array_release(e);
}

static void transpose(void **state) {
    struct kl_array *a = count_up(SHAPE(1, 2, 3)), *out;
    EXPECT_OK(kl_transpose(&out, a, cpu(), &err));
    assert_true(shares(out, a));
    EXPECT_I32(out, SHAPE(3, 2, 1), 0, 3, 1, 4, 2, 5);
    EXPECT_OK(kl_transpose_axes(&out, a, LIST(-1, 0, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 1, 2), 0, 3, 1, 4, 2, 5);
    EXPECT_OK(kl_swapaxes(&out, a, 1, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 3, 2), 0, 3, 1, 4, 2, 5);
    EXPECT_OK(kl_moveaxis(&out, a, 2, 0, cpu(), &err));
    expect_shape(out, SHAPE(3, 1, 2));
    kl_array_release(out);
    EXPECT_OK(kl_moveaxis(&out, a, 0, -1, cpu(), &err));
    expect_shape(out, SHAPE(2, 3, 1));
    kl_array_release(out);
    EXPECT_FAIL(KL_EAXIS, kl_transpose_axes(&out, a, LIST(0, 1), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_transpose_axes(&out, a, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_transpose_axes(&out, a, LIST(0, 1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_transpose_axes(&out, a, LIST(0, 1, -2), cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_transpose_axes(&out, a, LIST(0, 1, 3), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_transpose_axes(&out, a, NULL, 3, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_transpose(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_swapaxes(&out, a, 0, 3, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_swapaxes(&out, a, INT_MIN, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_swapaxes(&out, NULL, 0, 0, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_moveaxis(&out, a, 3, 0, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_moveaxis(&out, a, 0, -4, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_moveaxis(&out, NULL, 0, 0, cpu(), &err));
    kl_array_release(a);
}

static void broadcast(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 1)), *b = count_up(SHAPE(3)), *out, **outs = NULL;
    size_t n = 7;
    EXPECT_OK(kl_broadcast_to(&out, a, LIST(2, 2, 3), cpu(), &err));
    assert_true(shares(out, a));
    EXPECT_I32(out, SHAPE(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    EXPECT_OK(kl_broadcast_to(&out, a, LIST(2, 0), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 0), 0);
    struct kl_array *both[] = {a, b};
    EXPECT_OK(kl_broadcast_arrays(&outs, &n, both, 2, cpu(), &err));
    assert_int_equal(n, 2);
    EXPECT_I32(outs[0], SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
    EXPECT_I32(outs[1], SHAPE(2, 3), 0, 1, 2, 0, 1, 2);
    kl_free(outs);
    EXPECT_OK(kl_broadcast_arrays(&outs, &n, NULL, 0, cpu(), &err));
    assert_int_equal(n, 0);
    kl_free(outs);
    EXPECT_FAIL(KL_ESHAPE, kl_broadcast_to(&out, a, LIST(3, 1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_broadcast_to(&out, a, LIST(2), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_broadcast_to(&out, a, LIST(2, -1), cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_broadcast_to(&out, a, LIST(INT_MAX, INT_MAX, 2, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_broadcast_to(&out, a, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_broadcast_to(&out, NULL, LIST(2, 1), cpu(), &err));
    struct kl_array *c = count_up(SHAPE(4)), *wrong[] = {b, c}, *null[] = {b, NULL};
    struct kl_error *err = NULL;
    outs = NULL;
    assert_int_equal(kl_broadcast_arrays(&outs, &n, wrong, 2, cpu(), &err), KL_ESHAPE);
    assert_int_equal(kl_broadcast_arrays(&outs, &n, null, 2, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_broadcast_arrays(&outs, &n, NULL, 2, cpu(), NULL), KL_EARG);
    assert_null(outs);
    kl_error_release(err);
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(c);
}

static void expand_and_squeeze(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *b = count_up(SHAPE(1, 2, 1)), *out;
    EXPECT_OK(kl_expand_dims(&out, a, -1, cpu(), &err));
    assert_true(out->t.layout & KL_ROW_CONTIGUOUS);
    EXPECT_I32(out, SHAPE(2, 3, 1), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_expand_dims_axes(&out, a, LIST(0, -1, 2), cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2, 1, 3, 1), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_expand_dims_axes(&out, a, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_squeeze(&out, b, cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 0, 1);
    EXPECT_OK(kl_squeeze_axis(&out, b, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 0, 1);
    EXPECT_OK(kl_squeeze_axes(&out, b, LIST(2, 0), cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 0, 1);
    EXPECT_OK(kl_squeeze_axes(&out, b, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2, 1), 0, 1);
    EXPECT_FAIL(KL_EAXIS, kl_expand_dims(&out, a, 3, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_expand_dims(&out, a, -4, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_expand_dims_axes(&out, a, LIST(0, -4), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_expand_dims_axes(&out, a, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_expand_dims(&out, NULL, 0, cpu(), &err));
    int many[63] = {0};
    EXPECT_FAIL(KL_ESHAPE, kl_expand_dims_axes(&out, a, many, 63, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_expand_dims_axes(&out, a, many, 100, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_squeeze_axis(&out, b, 1, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_squeeze_axis(&out, b, 3, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_squeeze_axes(&out, b, LIST(0, -3), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_squeeze_axes(&out, b, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_squeeze(&out, NULL, cpu(), &err));
    kl_array_release(a);
    kl_array_release(b);
}

static void bad_reshape(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 6)), *out;
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, LIST(5, 2), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, LIST(-1, -1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, LIST(-1, 5), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, LIST(0, -1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, LIST(-2, 6), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_reshape(&out, a, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_reshape(&out, a, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_reshape(&out, NULL, LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_reshape(&out, a, LIST(INT_MAX, INT_MAX, INT_MAX), cpu(), &err));
    struct kl_array *t;
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    /* This reshape copies, so it needs a stream. */
    EXPECT_FAIL(KL_EARG, kl_reshape(&out, t, LIST(12), NULL, &err));
    kl_array_release(t);
    kl_array_release(a);
}

static void atleast(void **state) {
    struct kl_array *s = scalar_of(KL_I32, 5), *v = count_up(SHAPE(2)), *m = count_up(SHAPE(2, 3)),
                    *c = count_up(SHAPE(1, 2, 1, 3)), *out;
    EXPECT_OK(kl_atleast_1d(&out, s, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 5);
    EXPECT_OK(kl_atleast_2d(&out, s, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 1), 5);
    EXPECT_OK(kl_atleast_3d(&out, s, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 1, 1), 5);
    EXPECT_OK(kl_atleast_1d(&out, v, cpu(), &err));
    assert_ptr_equal(out, v);
    kl_array_release(out);
    EXPECT_OK(kl_atleast_2d(&out, v, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 0, 1);
    EXPECT_OK(kl_atleast_3d(&out, v, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2, 1), 0, 1);
    EXPECT_OK(kl_atleast_2d(&out, m, cpu(), &err));
    assert_ptr_equal(out, m);
    kl_array_release(out);
    EXPECT_OK(kl_atleast_3d(&out, m, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3, 1), 0, 1, 2, 3, 4, 5);
    EXPECT_OK(kl_atleast_3d(&out, c, cpu(), &err));
    assert_ptr_equal(out, c);
    kl_array_release(out);
    EXPECT_FAIL(KL_EARG, kl_atleast_1d(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_atleast_2d(&out, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_atleast_3d(&out, NULL, cpu(), &err));
    struct kl_array *all[] = {s, v, m, c};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

static void unflatten(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 6)), *e = count_up(SHAPE(0, 2)),
                    *s = scalar_of(KL_I32, 5), *out;
    EXPECT_OK(kl_unflatten(&out, a, -1, LIST(2, -1), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2, 3), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    EXPECT_OK(kl_unflatten(&out, a, 0, LIST(2), cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    EXPECT_OK(kl_unflatten(&out, e, 0, LIST(-1, 2), cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 2, 2), 0);
    EXPECT_OK(kl_unflatten(&out, e, 0, LIST(0, 7), cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 7, 2), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(2, 2), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(-1, 4), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(-1, -1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(-2, -3), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(0, -1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, e, 0, LIST(0, -1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, LIST(INT_MAX, INT_MAX, INT_MAX), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_unflatten(&out, a, 1, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_unflatten(&out, a, 1, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_unflatten(&out, s, 0, LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_unflatten(&out, NULL, 0, LIST(1), cpu(), &err));
    kl_array_release(a);
    kl_array_release(e);
    kl_array_release(s);
}

static void number_of_elements(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 4, 5)), *e = count_up(SHAPE(0, 3)),
                    *s = scalar_of(KL_I32, 5), *out;
    EXPECT_OK(kl_number_of_elements(&out, a, LIST(-1, 0), false, KL_I32, cpu(), &err));
    EXPECT_I32(out, SCALAR, 10);
    EXPECT_OK(kl_number_of_elements(&out, a, LIST(1), true, KL_F32, cpu(), &err));
    EXPECT_F32(out, SCALAR, 0.25f);
    EXPECT_OK(kl_number_of_elements(&out, a, LIST(1), true, KL_I32, cpu(), &err));
    EXPECT_I32(out, SCALAR, 0);
    EXPECT_OK(kl_number_of_elements(&out, s, NULL, 0, true, KL_I32, cpu(), &err));
    EXPECT_I32(out, SCALAR, 1);
    EXPECT_OK(kl_number_of_elements(&out, e, LIST(0, 1), false, KL_I32, cpu(), &err));
    EXPECT_I32(out, SCALAR, 0);
    EXPECT_OK(kl_number_of_elements(&out, e, LIST(0), true, KL_F32, cpu(), &err));
    EXPECT_F32(out, SCALAR, INFINITY);
    for (int d = 0; d < KL_N_DTYPES; d++) {
        EXPECT_OK(kl_number_of_elements(&out, e, LIST(0), true, d, cpu(), &err));
        assert_int_equal(out->t.dtype, d);
        /* The fill value is 1 / 0, cast to this type: its largest value. */
        if (kl_dtype_is_int((enum kl_dtype)d)) {
            struct kl_array *infinite = scalar_of(KL_F64, (double)INFINITY), *cast;
            EXPECT_OK(kl_astype(&cast, infinite, d, cpu(), &err));
            void *got = values_of(out), *want = values_of(cast);
            assert_memory_equal(got, want, kl_dtype_size((enum kl_dtype)d));
            free(got);
            free(want);
            kl_array_release(infinite);
            kl_array_release(cast);
        }
        kl_array_release(out);
    }
    EXPECT_FAIL(KL_EAXIS, kl_number_of_elements(&out, a, LIST(3), false, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_number_of_elements(&out, a, LIST(0, 0), false, KL_I32, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_number_of_elements(&out, a, LIST(0), false, -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_number_of_elements(&out, NULL, LIST(0), false, KL_I32, cpu(), &err));
    kl_array_release(a);
    kl_array_release(e);
    kl_array_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape),     cmocka_unit_test(reshape_of_views),
        cmocka_unit_test(flatten),     cmocka_unit_test(transpose),
        cmocka_unit_test(broadcast),   cmocka_unit_test(expand_and_squeeze),
        cmocka_unit_test(bad_reshape), cmocka_unit_test(atleast),
        cmocka_unit_test(unflatten),   cmocka_unit_test(number_of_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
