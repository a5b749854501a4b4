/* test_slice.c - slice, slice_update, concatenate, stack, split. */
#include <limits.h>

#include "ops/support/helpers.h"

static void slice(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *out, *b;
    EXPECT_OK(kl_slice(&out, a, LIST(0, 1), LIST(3, 4), LIST(2, 2), cpu(), &err));
    assert_ptr_equal(out->t.buffer, a->t.buffer);
    EXPECT_I32(out, SHAPE(2, 2), 1, 3, 9, 11);
    EXPECT_OK(kl_slice(&out, a, LIST(-1, 3), LIST(-4, -5), LIST(-2, -3), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 11, 8, 3, 0);
    EXPECT_OK(kl_slice(&out, a, LIST(-100, 1), LIST(100, -1), LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2), 1, 2, 5, 6, 9, 10);
    EXPECT_OK(kl_slice(&out, a, LIST(2, 0), LIST(0, 4), LIST(1, INT_MAX), cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 1), 0);
    EXPECT_OK(kl_slice(&out, a, LIST(2, 3), LIST(-100, 2), LIST(INT_MIN, -1), cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 1), 11);
    EXPECT_OK(kl_slice(&out, a, LIST(0, 0), LIST(3, 4), LIST(1, 1), cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    /* A view of a view. */
    /* Rows 8 10, 4 6 and 0 2. */
    EXPECT_OK(kl_slice(&b, a, LIST(2, 0), LIST(-4, 4), LIST(-1, 2), cpu(), &err));
    EXPECT_OK(kl_slice(&out, b, LIST(2, 1), LIST(0, -3), LIST(-1, -1), cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 2, 0, 6, 4);
    kl_array_release(b);
    struct kl_array *s = scalar_of(KL_I32, 3);
    EXPECT_OK(kl_slice(&out, s, NULL, 0, NULL, 0, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SCALAR, 3);
    kl_array_release(s);
    EXPECT_FAIL(KL_EARG, kl_slice(&out, a, LIST(0, 0), LIST(3, 4), LIST(1, 0), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_slice(&out, a, LIST(0), LIST(3), LIST(1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_slice(&out, a, LIST(0, 0), LIST(3), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_slice(&out, a, NULL, 2, LIST(3, 4), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_slice(&out, a, LIST(0, 0), NULL, 2, LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_slice(&out, a, LIST(0, 0), LIST(3, 4), NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_slice(&out, NULL, NULL, 0, NULL, 0, NULL, 0, cpu(), &err));
    kl_array_release(a);
}

static void slice_update(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *u = F32(SHAPE(2, 1), -1.7f, -2.2f), *out, *t;
    EXPECT_OK(kl_slice_update(&out, a, u, LIST(2, 0), LIST(-4, 4), LIST(-2, 3), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), -2, 1, 2, -2, 4, 5, 6, 7, -1, 9, 10, -1);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_slice_update(&out, t, u, LIST(0, 0), LIST(2, 1), LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(4, 3), -1, 4, 8, -2, 5, 9, 2, 6, 10, 3, 7, 11);
    struct kl_array *none = count_up(SHAPE(0, 4)), *one = scalar_of(KL_I32, 5);
    EXPECT_OK(kl_slice_update(&out, a, none, LIST(1, 0), LIST(1, 4), LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    EXPECT_OK(kl_slice_update(&out, a, one, LIST(0, 1), LIST(3, 2), LIST(1, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), 0, 5, 2, 3, 4, 5, 6, 7, 8, 5, 10, 11);
    /* The base may be written in place when it has no other owner. A chain of updates shows whether
     * the other elements stay unchanged. */
    struct kl_array *x, *y;
    EXPECT_OK(kl_copy(&x, a, cpu(), &err));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(kl_slice_update(&y, x, one, (int[]){i, i}, 2, (int[]){i + 1, i + 1}, 2,
                                  LIST(1, 1), cpu(), &err));
        kl_array_release(x);
        x = y;
    }
    EXPECT_I32(x, SHAPE(3, 4), 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 11);
    EXPECT_FAIL(KL_ESHAPE,
                kl_slice_update(&out, a, u, LIST(0, 0), LIST(3, 4), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_slice_update(&out, NULL, u, LIST(0, 0), LIST(3, 4), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_slice_update(&out, a, NULL, LIST(0, 0), LIST(3, 4), LIST(1, 1), cpu(), &err));
    EXPECT_FAIL(KL_EARG,
                kl_slice_update(&out, a, one, LIST(0, 0), LIST(3, 4), LIST(1, 1), NULL, &err));
    EXPECT_FAIL(KL_EARG,
                kl_slice_update(&out, a, one, LIST(0, 0), LIST(3, 4), LIST(0, 1), cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_slice_update(&out, a, one, LIST(0), LIST(3), LIST(1), cpu(), &err));
    kl_array_release(a);
    kl_array_release(u);
    kl_array_release(t);
    kl_array_release(none);
    kl_array_release(one);
}

static void concatenate(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 2)), *b, *c = count_up(SHAPE(2, 0)),
                    *f = F32(SHAPE(2, 1), 0.5f, 1.5f), *out;
    EXPECT_OK(kl_transpose(&b, a, cpu(), &err));
    struct kl_array *list[] = {a, c, b, f}, *two[] = {a, b};
    EXPECT_OK(kl_concatenate(&out, two, 2, cpu(), &err));
    /* Each input is flattened in row-major order. */
    EXPECT_I32(out, SHAPE(8), 0, 1, 2, 3, 0, 2, 1, 3);
    EXPECT_OK(kl_concatenate_axis(&out, list, 4, -1, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 5), 0, 1, 0, 2, 0.5f, 2, 3, 1, 3, 1.5f);
    EXPECT_OK(kl_concatenate(&out, list, 4, cpu(), &err));
    EXPECT_F32(out, SHAPE(10), 0, 1, 2, 3, 0, 2, 1, 3, 0.5f, 1.5f);
    EXPECT_OK(kl_concatenate(&out, &a, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), 0, 1, 2, 3);
    EXPECT_OK(kl_concatenate_axis(&out, &a, 1, 0, cpu(), &err));
    assert_ptr_equal(out, a);
    kl_array_release(out);
    EXPECT_FAIL(KL_EAXIS, kl_concatenate_axis(&out, &a, 1, 2, cpu(), &err));
    /* The range of the result covers the ranges of both inputs. */
    struct kl_array *p, *q;
    EXPECT_OK(kl_arange(&p, 3, 6, 1, KL_I32, cpu(), &err));
    EXPECT_OK(kl_arange(&q, -2, 1, 1, KL_I32, cpu(), &err));
    struct kl_array *pq[] = {p, q}, *pa[] = {p, q, a};
    EXPECT_OK(kl_concatenate(&out, pq, 2, cpu(), &err));
    assert_true(out->has_range && out->lo == -2 && out->hi == 5);
    kl_array_release(out);
    EXPECT_FAIL(KL_ESHAPE, kl_concatenate_axis(&out, pa, 3, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_concatenate(&out, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_concatenate(&out, NULL, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_concatenate(&out, two, 2, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_concatenate_axis(&out, two, 2, 2, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_concatenate_axis(&out, list, 4, 0, cpu(), &err));
    struct kl_array *null[] = {a, NULL}, *one = scalar_of(KL_I32, 1), *long_view,
                    *scalars[] = {one, one};
    EXPECT_FAIL(KL_EARG, kl_concatenate(&out, null, 2, cpu(), &err));
    EXPECT_OK(kl_concatenate(&out, scalars, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 1, 1);
    EXPECT_OK(kl_concatenate(&out, scalars, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 1);
    EXPECT_FAIL(KL_EAXIS, kl_concatenate_axis(&out, scalars, 2, 0, cpu(), &err));
    EXPECT_OK(kl_broadcast_to(&long_view, one, LIST(INT_MAX), cpu(), &err));
    struct kl_array *too_long[] = {long_view, long_view};
    EXPECT_FAIL(KL_ELIMIT, kl_concatenate(&out, too_long, 2, cpu(), &err));
    kl_array_release(long_view);
    kl_array_release(one);
    kl_array_release(p);
    kl_array_release(q);
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(c);
    kl_array_release(f);
}

static void stack(void **state) {
    struct kl_array *a = count_up(SHAPE(2)), *f = F32(SHAPE(2), 0.5f, 1.5f), *out, *list[] = {a, f},
                    *same[] = {a, a};
    EXPECT_OK(kl_stack(&out, list, 2, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 2), 0, 1, 0.5f, 1.5f);
    EXPECT_OK(kl_stack_axis(&out, same, 2, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 0, 0, 1, 1);
    struct kl_array *b = count_up(SHAPE(3)), *wrong[] = {a, b};
    EXPECT_FAIL(KL_ESHAPE, kl_stack(&out, wrong, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_stack_axis(&out, same, 2, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_stack_axis(&out, same, 2, -3, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_stack(&out, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_stack(&out, NULL, 3, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_stack(&out, same, 2, NULL, &err));
    kl_array_release(a);
    kl_array_release(b);
    kl_array_release(f);
}

static void split(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 4)), **outs = NULL;
    size_t n = 0;
    EXPECT_OK(kl_split(&outs, &n, a, 2, 1, cpu(), &err));
    assert_int_equal(n, 2);
    EXPECT_I32(outs[0], SHAPE(2, 2), 0, 1, 4, 5);
    EXPECT_I32(outs[1], SHAPE(2, 2), 2, 3, 6, 7);
    kl_free(outs);
    EXPECT_OK(kl_split_sections(&outs, &n, a, LIST(3, 1, -1, 9), -1, cpu(), &err));
    assert_int_equal(n, 5);
    EXPECT_I32(outs[0], SHAPE(2, 3), 0, 1, 2, 4, 5, 6);
    EXPECT_I32(outs[1], SHAPE(2, 0), 0);
    EXPECT_I32(outs[2], SHAPE(2, 2), 1, 2, 5, 6);
    EXPECT_I32(outs[3], SHAPE(2, 1), 3, 7);
    EXPECT_I32(outs[4], SHAPE(2, 0), 0);
    kl_free(outs);
    EXPECT_OK(kl_split_sections(&outs, &n, a, NULL, 0, 0, cpu(), &err));
    assert_int_equal(n, 1);
    expect_shape(outs[0], SHAPE(2, 4));
    kl_array_release(outs[0]);
    kl_free(outs);
    struct kl_array ***keep = &outs;
    outs = NULL;
    struct kl_error *err = NULL;
    assert_int_equal(kl_split(keep, &n, a, 3, 1, cpu(), &err), KL_ESHAPE);
    assert_int_equal(kl_split(keep, &n, a, 0, 1, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_split(keep, &n, a, -2, 1, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_split(keep, &n, a, 2, 2, cpu(), NULL), KL_EAXIS);
    assert_int_equal(kl_split(keep, &n, NULL, 2, 0, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_split_sections(keep, &n, a, NULL, 2, 0, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_split_sections(keep, &n, a, LIST(1), -3, cpu(), NULL), KL_EAXIS);
    assert_int_equal(kl_split_sections(keep, &n, NULL, LIST(1), 0, cpu(), NULL), KL_EARG);
    assert_null(outs);
    kl_error_release(err);
    kl_array_release(a);
}

static void slice_dynamic(void **state) {
    for (int gpu = 0; gpu < 2; gpu++) {
        struct kl_stream *s = gpu ? sim() : cpu();
        struct kl_array *a = count_up(SHAPE(3, 4)), *out, *at = I32(SHAPE(2), 1, -3),
                        *one = scalar_of(KL_U8, 2), *none = I32(SHAPE(0));
        EXPECT_OK(kl_slice_dynamic(&out, a, at, LIST(0, 1), LIST(2, 3), s, &err));
        EXPECT_I32(out, SHAPE(2, 3), 5, 6, 7, 9, 10, 11);
        EXPECT_OK(kl_slice_dynamic(&out, a, at, LIST(-1, 0), LIST(1, 2), s, &err));
        EXPECT_I32(out, SHAPE(1, 2), 1, 2);
        EXPECT_OK(kl_slice_dynamic(&out, a, one, LIST(1), LIST(3, 2), s, &err));
        EXPECT_I32(out, SHAPE(3, 2), 2, 3, 6, 7, 10, 11);
        EXPECT_OK(kl_slice_dynamic(&out, a, none, NULL, 0, LIST(2, 2), s, &err));
        EXPECT_I32(out, SHAPE(2, 2), 0, 1, 4, 5);
        EXPECT_OK(kl_slice_dynamic(&out, a, at, LIST(0, 1), LIST(0, 3), s, &err));
        EXPECT_I32(out, SHAPE(0, 3), 0);
        /* The slice ends beyond the array from this start: the result fails, and the message names
         * the start. */
        EXPECT_OK(kl_slice_dynamic(&out, a, one, LIST(0), LIST(2, 4), s, &err));
        struct kl_error *e = NULL;
        assert_int_equal(kl_eval(&out, 1, &e), KL_EINDEX);
        assert_int_equal(e->index, 2);
        assert_int_equal(e->axis, 0);
        assert_int_equal(e->axis_size, 3);
        kl_error_release(e);
        kl_array_release(out);
        struct kl_array *far = scalar_of(KL_I32, -4);
        EXPECT_OK(kl_slice_dynamic(&out, a, far, LIST(0), LIST(1, 4), s, &err));
        assert_int_equal(kl_eval(&out, 1, NULL), KL_EINDEX);
        kl_array_release(out);
        kl_array_release(far);
        struct kl_array *real = scalar_of(KL_F32, 1), *deep = I32(SHAPE(1, 1), 0);
        EXPECT_FAIL(KL_EDTYPE, kl_slice_dynamic(&out, a, real, LIST(0), LIST(1, 4), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_dynamic(&out, a, deep, LIST(0), LIST(1, 4), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_dynamic(&out, a, at, LIST(0), LIST(1, 4), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_dynamic(&out, a, one, LIST(0), LIST(4, 4), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_dynamic(&out, a, one, LIST(0), LIST(4), s, &err));
        EXPECT_FAIL(KL_EAXIS, kl_slice_dynamic(&out, a, one, LIST(2), LIST(1, 4), s, &err));
        EXPECT_FAIL(KL_EARG, kl_slice_dynamic(&out, a, at, LIST(0, -2), LIST(1, 1), s, &err));
        EXPECT_FAIL(KL_EARG, kl_slice_dynamic(&out, a, NULL, LIST(0), LIST(1, 4), s, &err));
        kl_array_release(real);
        kl_array_release(deep);
        kl_array_release(a);
        kl_array_release(at);
        kl_array_release(one);
        kl_array_release(none);
    }
}

static void slice_update_dynamic(void **state) {
    for (int gpu = 0; gpu < 2; gpu++) {
        struct kl_stream *s = gpu ? sim() : cpu();
        struct kl_array *a = count_up(SHAPE(3, 4)), *out, *at = I32(SHAPE(2), 1, -2),
                        *u = F32(SHAPE(2), 50.9f, 60), *one = scalar_of(KL_I32, 2),
                        *five = scalar_of(KL_I32, 5), *none = I32(SHAPE(0));
        EXPECT_OK(kl_slice_update_dynamic(&out, a, u, at, LIST(0, 1), s, &err));
        EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 50, 60, 8, 9, 10, 11);
        EXPECT_OK(kl_slice_update_dynamic(&out, a, five, one, LIST(0), s, &err));
        EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10, 11);
        EXPECT_OK(kl_slice_update_dynamic(&out, a, u, none, NULL, 0, s, &err));
        EXPECT_I32(out, SHAPE(3, 4), 50, 60, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        /* With a wrong start the base is not changed, not even by later operations. */
        struct kl_array *bad = scalar_of(KL_I32, 3);
        EXPECT_OK(kl_slice_update_dynamic(&out, a, u, bad, LIST(1), s, &err));
        assert_int_equal(kl_eval(&out, 1, NULL), KL_EINDEX);
        kl_array_release(out);
        EXPECT_OK(kl_copy(&out, a, s, &err));
        EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        struct kl_array *wide = count_up(SHAPE(1, 5)), *deep = count_up(SHAPE(1, 1, 1));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_update_dynamic(&out, a, wide, one, LIST(0), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_update_dynamic(&out, a, deep, one, LIST(0), s, &err));
        EXPECT_FAIL(KL_ESHAPE, kl_slice_update_dynamic(&out, a, u, at, LIST(0), s, &err));
        EXPECT_FAIL(KL_EARG, kl_slice_update_dynamic(&out, a, NULL, one, LIST(0), s, &err));
        struct kl_array *all[] = {a, at, u, one, five, none, bad, wide, deep};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice),         cmocka_unit_test(slice_update),
        cmocka_unit_test(slice_dynamic), cmocka_unit_test(slice_update_dynamic),
        cmocka_unit_test(concatenate),   cmocka_unit_test(stack),
        cmocka_unit_test(split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
