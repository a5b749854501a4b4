/* test_join_depends.c - depends: values, waiting, failing, and which results reuse memory of their
 * inputs. */
#include "ops/support/helpers.h"

/* An array that fails when evaluated: an index that is out of range. */
static struct kl_array *failing(void) {
    struct kl_array *a = count_up(SHAPE(2)), *i = I32(SHAPE(1), 5), *out;
    EXPECT_OK(kl_take(&out, a, i, cpu(), &err));
    kl_array_release(a);
    kl_array_release(i);
    return out;
}

static void values(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *t, *dep, **outs = NULL;
    size_t n = 0;
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_add(&dep, a, a, cpu(), &err));
    for (int k = 0; k < 2; k++) {
        struct kl_stream *s = k ? sim() : cpu();
        EXPECT_OK(kl_depends(&outs, &n, (struct kl_array *[]){a, t}, 2, &dep, 1, s, &err));
        assert_int_equal(n, 2);
        EXPECT_I32(outs[0], SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
        assert_true(kl_array_settled(dep)); /* the evaluation of the output evaluated it */
        EXPECT_I32(outs[1], SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
        kl_free(outs);
    }
    EXPECT_OK(kl_depends(&outs, &n, &a, 1, NULL, 0, cpu(), &err));
    assert_ptr_equal(outs[0], a);
    kl_array_release(outs[0]);
    kl_free(outs);
    EXPECT_OK(kl_depends(&outs, &n, NULL, 0, &dep, 1, cpu(), &err));
    assert_int_equal(n, 0);
    kl_free(outs);
    outs = NULL;
    assert_int_equal(kl_depends(&outs, &n, NULL, 1, &dep, 1, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_depends(&outs, &n, &a, 1, NULL, 1, cpu(), NULL), KL_EARG);
    assert_int_equal(kl_depends(&outs, &n, &a, 1, (struct kl_array *[]){NULL}, 1, cpu(), NULL),
                     KL_EARG);
    assert_int_equal(kl_depends(&outs, &n, &a, 1, &dep, 1, NULL, NULL), KL_EARG);
    assert_null(outs);
    kl_array_release(a);
    kl_array_release(t);
    kl_array_release(dep);
}

/* When a dependency fails, every output fails with its error, and no other array does. */
static void failures(void **state) {
    for (int k = 0; k < 2; k++) {
        struct kl_stream *s = k ? sim() : cpu();
        struct kl_array *a = count_up(SHAPE(2)), *b, *good, *bad = failing(), **outs;
        size_t n;
        EXPECT_OK(kl_add(&b, a, a, s, &err));
        EXPECT_OK(kl_subtract(&good, a, a, s, &err));
        EXPECT_OK(kl_depends(&outs, &n, (struct kl_array *[]){a, b}, 2,
                             (struct kl_array *[]){good, bad}, 2, s, &err));
        struct kl_error *first = NULL, *second = NULL;
        assert_int_equal(kl_eval(&outs[0], 1, &first), KL_EINDEX);
        assert_int_equal(kl_eval(&outs[1], 1, &second), KL_EINDEX);
        assert_ptr_equal(first, second); /* both have the same error object */
        kl_error_release(first);
        kl_error_release(second);
        kl_array_release(outs[0]);
        kl_array_release(outs[1]);
        kl_free(outs);
        EXPECT_I32(b, SHAPE(2), 0, 2);
        EXPECT_I32(good, SHAPE(2), 0, 0);
        kl_array_release(bad);
        kl_array_release(a);
    }
}

/* The memory of an input that has no other owner is used for the output. */
static void in_place(void **state) {
    struct kl_array *a = count_up(SHAPE(1000)), *in, *dep, **outs;
    size_t n;
    EXPECT_OK(kl_add(&dep, a, a, cpu(), &err));
    EXPECT_OK(kl_add(&in, a, a, cpu(), &err));
    EXPECT_OK(kl_eval(&in, 1, &err));
    void *was, *is;
    EXPECT_OK(kl_array_host(in, &was, &err));
    EXPECT_OK(kl_depends(&outs, &n, &in, 1, &dep, 1, cpu(), &err));
    kl_array_release(in);
    EXPECT_OK(kl_array_host(outs[0], &is, &err));
    assert_ptr_equal(was, is);
    kl_array_release(outs[0]);
    kl_free(outs);
    kl_array_release(dep);
    kl_array_release(a);
}

static void stream(void **state) {
    struct kl_array *a = count_up(SHAPE(2)), *sum, *view;
    EXPECT_OK(kl_add(&sum, a, a, sim(), &err));
    EXPECT_OK(kl_expand_dims(&view, sum, 0, cpu(), &err));
    assert_ptr_equal(kl_array_stream(sum), sim());
    assert_ptr_equal(kl_array_stream(view), sim()); /* the view stays on the stream of its base */
    assert_null(kl_array_stream(a));
    EXPECT_OK(kl_eval(&view, 1, &err));
    assert_null(kl_array_stream(view));
    kl_array_release(a);
    kl_array_release(sum);
    kl_array_release(view);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(failures),
                                       cmocka_unit_test(in_place), cmocka_unit_test(stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
