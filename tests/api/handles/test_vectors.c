/* test_vectors.c - vectors of arrays, of vectors, of ints, of strings. */
#include "api/api_support.h"

static void test_arrays(void **state) {
    mlx_array a = mlx_array_new_int(1), b = mlx_array_new_int(2), r = mlx_array_new();
    mlx_vector_array v = mlx_vector_array_new(), w;
    assert_non_null(v.ctx); /* this handle is live and has no elements */
    assert_int_equal(mlx_vector_array_size(v), 0);
    OK(mlx_vector_array_append_value(v, a));
    OK(mlx_vector_array_append_data(v, (mlx_array[]){b, a}, 2));
    OK(mlx_vector_array_append_data(v, NULL, 0));
    assert_int_equal(mlx_vector_array_size(v), 3);
    OK(mlx_vector_array_get(&r, v, 1));
    assert_text(r, "array(2, dtype=int32)");
    void *ctx = r.ctx;
    OK(mlx_vector_array_get(&r, v, 2)); /* the live handle is overwritten */
    assert_ptr_equal(r.ctx, ctx);
    assert_text(r, "array(1, dtype=int32)");
    FAILS(mlx_vector_array_get(&r, v, 3), KEEL_EARG,
          "index 3 is out of range for a vector of size 3");
    assert_text(r, "array(1, dtype=int32)");

    w = mlx_vector_array_new_data((mlx_array[]){a, b}, 2);
    OK(mlx_vector_array_set(&w, v));
    assert_int_equal(mlx_vector_array_size(w), 3);
    OK(mlx_vector_array_set(&w, w));
    assert_int_equal(mlx_vector_array_size(w), 3);
    OK(mlx_vector_array_set_value(&w, b));
    assert_int_equal(mlx_vector_array_size(w), 1);
    OK(mlx_vector_array_set_data(&w, (mlx_array[]){a, b}, 2));
    assert_int_equal(mlx_vector_array_size(w), 2);
    mlx_vector_array_free(w);
    w = no_vector; /* the result goes to an empty handle */
    OK(mlx_vector_array_set_data(&w, NULL, 0));
    assert_int_equal(mlx_vector_array_size(w), 0);
    mlx_vector_array_free(w);
    w = mlx_vector_array_new_data(NULL, 0);
    assert_non_null(w.ctx);
    mlx_vector_array_free(w);
    w = mlx_vector_array_new_value(b);
    mlx_array_free(b); /* the vector holds a reference of its own */
    OK(mlx_vector_array_get(&r, w, 0));
    assert_text(r, "array(2, dtype=int32)");
    OK(mlx_vector_array_free(w));
    OK(mlx_vector_array_free(v));
    OK(mlx_vector_array_free(no_vector));
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_bad_arrays(void **state) {
    mlx_array a = mlx_array_new_int(1), r = mlx_array_new();
    mlx_vector_array v = mlx_vector_array_new_value(a);
    mlx_array bad[] = {a, no_array};
    FAILS(mlx_vector_array_append_data(v, bad, 2), KEEL_EARG, "an element is an empty array");
    assert_int_equal(mlx_vector_array_size(v), 1); /* either all elements are added, or none */
    FAILS(mlx_vector_array_append_value(v, no_array), KEEL_EARG, "an element is an empty array");
    FAILS(mlx_vector_array_append_data(v, NULL, 2), KEEL_EARG, "data is NULL and the size is 2");
    FAILS(mlx_vector_array_append_value(no_vector, a), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_array_append_data(no_vector, &a, 1), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_array_set_data(&v, bad, 2), KEEL_EARG, "an element is an empty array");
    FAILS(mlx_vector_array_set_value(&v, no_array), KEEL_EARG, "an element is an empty array");
    FAILS(mlx_vector_array_set(&v, no_vector), KEEL_EARG, "src is an empty vector");
    FAILS(mlx_vector_array_set(NULL, v), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_array_set_data(NULL, &a, 1), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_array_set_value(NULL, a), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_array_get(&r, no_vector, 0), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_array_get(NULL, v, 0), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_vector_array_size(no_vector), KEEL_EARG, "vec is an empty vector");
    FAILS_ZERO(mlx_vector_array_new_data(bad, 2).ctx, KEEL_EARG, "an element is an empty array");
    FAILS_ZERO(mlx_vector_array_new_value(no_array).ctx, KEEL_EARG, "an element is an empty array");
    FAILS_ZERO(mlx_vector_array_new_data(&a, SIZE_MAX / 8).ctx, KEEL_ENOMEM, "out of memory");
    assert_int_equal(mlx_vector_array_size(v), 1);
    mlx_vector_array_free(v);
    mlx_array_free(a);
}

static void test_vectors(void **state) {
    mlx_array a = mlx_array_new_int(1);
    mlx_vector_array inner = mlx_vector_array_new_value(a), got = mlx_vector_array_new();
    mlx_vector_vector_array v = mlx_vector_vector_array_new(), w, none = {NULL};
    OK(mlx_vector_vector_array_append_value(v, inner));
    OK(mlx_vector_vector_array_append_data(v, (mlx_vector_array[]){inner, got}, 2));
    OK(mlx_vector_array_append_value(inner, a)); /* v holds copies */
    assert_int_equal(mlx_vector_vector_array_size(v), 3);
    OK(mlx_vector_vector_array_get(&got, v, 0));
    assert_int_equal(mlx_vector_array_size(got), 1);
    OK(mlx_vector_vector_array_get(&got, v, 2));
    assert_int_equal(mlx_vector_array_size(got), 0);
    FAILS(mlx_vector_vector_array_get(&got, v, 3), KEEL_EARG, "index 3");
    w = mlx_vector_vector_array_new_value(inner);
    OK(mlx_vector_vector_array_set(&w, v));
    assert_int_equal(mlx_vector_vector_array_size(w), 3);
    OK(mlx_vector_vector_array_set_value(&w, inner));
    OK(mlx_vector_vector_array_get(&got, w, 0));
    assert_int_equal(mlx_vector_array_size(got), 2);
    OK(mlx_vector_vector_array_set_data(&w, &inner, 1));
    assert_int_equal(mlx_vector_vector_array_size(w), 1);
    mlx_vector_vector_array_free(w);
    w = mlx_vector_vector_array_new_data((mlx_vector_array[]){inner, inner}, 2);
    assert_int_equal(mlx_vector_vector_array_size(w), 2);
    OK(mlx_vector_vector_array_free(w));
    FAILS(mlx_vector_vector_array_append_value(v, no_vector), KEEL_EARG, "empty vector");
    FAILS(mlx_vector_vector_array_append_data(v, NULL, 1), KEEL_EARG, "data is NULL");
    FAILS(mlx_vector_vector_array_append_value(none, inner), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_vector_array_set(&w, none), KEEL_EARG, "src is an empty vector");
    FAILS(mlx_vector_vector_array_set_data(NULL, &inner, 1), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_vector_array_set_value(NULL, inner), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_vector_array_get(&got, none, 0), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_vector_array_get(NULL, v, 0), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_vector_vector_array_size(none), KEEL_EARG, "vec is an empty vector");
    FAILS_ZERO(mlx_vector_vector_array_new_value(no_vector).ctx, KEEL_EARG, "empty vector");
    FAILS_ZERO(mlx_vector_vector_array_new_data(NULL, 1).ctx, KEEL_EARG, "data is NULL");
    OK(mlx_vector_vector_array_free(none));
    mlx_vector_vector_array_free(v);
    mlx_vector_array_free(inner);
    mlx_vector_array_free(got);
    mlx_array_free(a);
}

static void test_ints(void **state) {
    int x[] = {5, 6, 7}, got = 0;
    mlx_vector_int v = mlx_vector_int_new(), w = mlx_vector_int_new_data(x, 3), none = {NULL};
    OK(mlx_vector_int_append_value(v, 4));
    OK(mlx_vector_int_append_data(v, x, 3));
    assert_int_equal(mlx_vector_int_size(v), 4);
    OK(mlx_vector_int_get(&got, v, 3));
    assert_int_equal(got, 7);
    OK(mlx_vector_int_set(&w, v));
    assert_int_equal(mlx_vector_int_size(w), 4);
    OK(mlx_vector_int_set_value(&w, 9));
    OK(mlx_vector_int_get(&got, w, 0));
    assert_int_equal(got, 9);
    OK(mlx_vector_int_set_data(&w, x, 2));
    assert_int_equal(mlx_vector_int_size(w), 2);
    OK(mlx_vector_int_free(w));
    w = mlx_vector_int_new_value(8);
    OK(mlx_vector_int_get(&got, w, 0));
    assert_int_equal(got, 8);
    for (int i = 0; i < 10000; i++) OK(mlx_vector_int_append_value(w, i)); /* the vector grows */
    OK(mlx_vector_int_get(&got, w, 10000));
    assert_int_equal(got, 9999);
    FAILS(mlx_vector_int_get(&got, v, 4), KEEL_EARG, "index 4");
    FAILS(mlx_vector_int_get(NULL, v, 0), KEEL_EARG, "the result is NULL");
    FAILS(mlx_vector_int_append_data(v, NULL, 1), KEEL_EARG, "data is NULL");
    FAILS(mlx_vector_int_append_value(none, 1), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_int_set(&v, none), KEEL_EARG, "src is an empty vector");
    FAILS(mlx_vector_int_set_data(&v, NULL, 1), KEEL_EARG, "data is NULL");
    FAILS(mlx_vector_int_set_value(NULL, 1), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_vector_int_size(none), KEEL_EARG, "vec is an empty vector");
    FAILS_ZERO(mlx_vector_int_new_data(NULL, 1).ctx, KEEL_EARG, "data is NULL");
    OK(mlx_vector_int_free(none));
    mlx_vector_int_free(v);
    mlx_vector_int_free(w);
}

static void test_strings(void **state) {
    char buffer[] = "one";
    const char *x[] = {buffer, "two"}, *bad[] = {"three", NULL};
    char *got = NULL;
    mlx_vector_string v = mlx_vector_string_new_data(x, 2), w = mlx_vector_string_new();
    mlx_vector_string none = {NULL};
    buffer[0] = 'X'; /* the text is copied */
    OK(mlx_vector_string_get(&got, v, 0));
    assert_string_equal(got, "one");
    OK(mlx_vector_string_append_value(v, "four"));
    OK(mlx_vector_string_append_data(v, x, 2));
    assert_int_equal(mlx_vector_string_size(v), 5);
    OK(mlx_vector_string_get(&got, v, 4));
    assert_string_equal(got, "two");
    OK(mlx_vector_string_set(&w, v));
    assert_int_equal(mlx_vector_string_size(w), 5);
    OK(mlx_vector_string_set_value(&w, ""));
    OK(mlx_vector_string_get(&got, w, 0));
    assert_string_equal(got, "");
    OK(mlx_vector_string_set_data(&w, x, 2));
    assert_int_equal(mlx_vector_string_size(w), 2);
    OK(mlx_vector_string_free(w));
    w = mlx_vector_string_new_value("five");
    OK(mlx_vector_string_get(&got, w, 0));
    assert_string_equal(got, "five");
    FAILS(mlx_vector_string_append_data(v, bad, 2), KEEL_EARG, "a string is NULL");
    assert_int_equal(mlx_vector_string_size(v), 5);
    FAILS(mlx_vector_string_append_value(v, NULL), KEEL_EARG, "a string is NULL");
    FAILS(mlx_vector_string_append_value(none, "x"), KEEL_EARG, "vec is an empty vector");
    FAILS(mlx_vector_string_set(&v, none), KEEL_EARG, "src is an empty vector");
    FAILS(mlx_vector_string_set_data(&v, bad, 2), KEEL_EARG, "a string is NULL");
    FAILS(mlx_vector_string_set_value(&v, NULL), KEEL_EARG, "a string is NULL");
    FAILS(mlx_vector_string_get(&got, v, 5), KEEL_EARG, "index 5");
    FAILS(mlx_vector_string_get(NULL, v, 0), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_vector_string_size(none), KEEL_EARG, "vec is an empty vector");
    FAILS_ZERO(mlx_vector_string_new_data(bad, 2).ctx, KEEL_EARG, "a string is NULL");
    FAILS_ZERO(mlx_vector_string_new_value(NULL).ctx, KEEL_EARG, "a string is NULL");
    OK(mlx_vector_string_free(none));
    mlx_vector_string_free(v);
    mlx_vector_string_free(w);
}

static void leak_body(void) {
    test_arrays(NULL);
    test_bad_arrays(NULL);
    test_vectors(NULL);
    test_strings(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),  cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_ints),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
