/* test_maps.c - tables and their iterators. */
#include "api/api_support.h"

static const mlx_map_string_to_array no_arrays = {NULL};
static const mlx_map_string_to_string no_strings = {NULL};

static void test_arrays(void **state) {
    mlx_map_string_to_array m = mlx_map_string_to_array_new();
    mlx_array a = mlx_array_new_int(1), b = mlx_array_new_int(2), r = mlx_array_new();
    char key[] = "weight";
    OK(mlx_map_string_to_array_insert(m, key, a));
    key[0] = 'W'; /* the key is copied */
    OK(mlx_map_string_to_array_insert(m, "", b));
    OK(mlx_map_string_to_array_get(&r, m, "weight"));
    assert_text(r, "array(1, dtype=int32)");
    void *ctx = r.ctx;
    OK(mlx_map_string_to_array_get(&r, m, ""));
    assert_ptr_equal(r.ctx, ctx);
    assert_text(r, "array(2, dtype=int32)");
    NOT_FOUND(mlx_map_string_to_array_get(&r, m, "Weight"));
    assert_text(r, "array(2, dtype=int32)");
    OK(mlx_map_string_to_array_insert(m, "weight", b)); /* replaces the value */
    OK(mlx_map_string_to_array_get(&r, m, "weight"));
    assert_text(r, "array(2, dtype=int32)");

    mlx_map_string_to_array copy = mlx_map_string_to_array_new();
    OK(mlx_map_string_to_array_insert(copy, "old", a));
    OK(mlx_map_string_to_array_set(&copy, m));
    NOT_FOUND(mlx_map_string_to_array_get(&r, copy, "old"));
    OK(mlx_map_string_to_array_get(&r, copy, "weight"));
    OK(mlx_map_string_to_array_set(&copy, copy));
    OK(mlx_map_string_to_array_get(&r, copy, "weight"));
    OK(mlx_map_string_to_array_free(copy));
    copy = no_arrays;
    OK(mlx_map_string_to_array_set(&copy, m));
    OK(mlx_map_string_to_array_free(copy));
    OK(mlx_map_string_to_array_free(m));
    OK(mlx_map_string_to_array_free(no_arrays));
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
}

static void test_iteration(void **state) {
    enum { N = 1000 };
    mlx_map_string_to_array m = mlx_map_string_to_array_new();
    mlx_array r = mlx_array_new();
    char name[32];
    for (int i = 0; i < N; i++) {
        mlx_array a = mlx_array_new_int(i);
        snprintf(name, sizeof name, "tensor.%d", (i * 7919) % N);
        OK(mlx_map_string_to_array_insert(m, name, a));
        mlx_array_free(a);
    }
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(m);
    assert_non_null(it.ctx);
    const char *key = NULL;
    for (int i = 0; i < N; i++) { /* in the order of insertion */
        OK(mlx_map_string_to_array_iterator_next(&key, &r, it));
        snprintf(name, sizeof name, "tensor.%d", (i * 7919) % N);
        assert_string_equal(key, name);
        int32_t v = -1;
        OK(mlx_array_item_int32(&v, r));
        assert_int_equal(v, i);
    }
    NOT_FOUND(mlx_map_string_to_array_iterator_next(&key, &r, it));
    NOT_FOUND(mlx_map_string_to_array_iterator_next(&key, &r, it));
    OK(mlx_map_string_to_array_insert(m, "late", r));
    OK(mlx_map_string_to_array_iterator_next(&key, &r, it));
    assert_string_equal(key, "late");
    mlx_map_string_to_array_iterator again = mlx_map_string_to_array_iterator_new(m);
    mlx_map_string_to_array_free(m); /* the iterators keep the table alive */
    OK(mlx_map_string_to_array_iterator_next(&key, &r, again));
    assert_string_equal(key, "tensor.0");
    OK(mlx_map_string_to_array_iterator_free(it));
    OK(mlx_map_string_to_array_iterator_free(again));
    mlx_array_free(r);
}

static void test_strings(void **state) {
    mlx_map_string_to_string m = mlx_map_string_to_string_new(), copy = no_strings;
    const char *value = NULL, *key = NULL;
    OK(mlx_map_string_to_string_insert(m, "format", "pt"));
    OK(mlx_map_string_to_string_insert(m, "author", "nobody"));
    OK(mlx_map_string_to_string_insert(m, "format", "mlx"));
    OK(mlx_map_string_to_string_get(&value, m, "format"));
    assert_string_equal(value, "mlx");
    OK(mlx_map_string_to_string_insert(m, "format", value)); /* the caller owns the text */
    OK(mlx_map_string_to_string_get(&value, m, "format"));
    assert_string_equal(value, "mlx");
    value = "untouched";
    NOT_FOUND(mlx_map_string_to_string_get(&value, m, "title"));
    assert_string_equal(value, "untouched");
    OK(mlx_map_string_to_string_set(&copy, m));
    mlx_map_string_to_string_iterator it = mlx_map_string_to_string_iterator_new(copy);
    OK(mlx_map_string_to_string_iterator_next(&key, &value, it));
    assert_string_equal(key, "format"); /* the entry has kept its place */
    assert_string_equal(value, "mlx");
    OK(mlx_map_string_to_string_iterator_next(&key, &value, it));
    assert_string_equal(key, "author");
    NOT_FOUND(mlx_map_string_to_string_iterator_next(&key, &value, it));
    OK(mlx_map_string_to_string_iterator_free(it));
    OK(mlx_map_string_to_string_free(m));
    OK(mlx_map_string_to_string_free(copy));
    OK(mlx_map_string_to_string_free(no_strings));
}

static void test_bad_arguments(void **state) {
    mlx_map_string_to_array a = mlx_map_string_to_array_new();
    mlx_map_string_to_string s = mlx_map_string_to_string_new();
    mlx_map_string_to_array_iterator no_it = {NULL, NULL};
    mlx_map_string_to_string_iterator no_its = {NULL, NULL};
    mlx_array r = mlx_array_new(), one = mlx_array_new_int(1);
    const char *text, *key;
    FAILS(mlx_map_string_to_array_insert(a, NULL, one), KEEL_EARG, "key is NULL");
    FAILS(mlx_map_string_to_array_insert(a, "k", no_array), KEEL_EARG, "value is an empty array");
    FAILS(mlx_map_string_to_array_insert(no_arrays, "k", one), KEEL_EARG, "map is an empty map");
    FAILS(mlx_map_string_to_array_get(&r, no_arrays, "k"), KEEL_EARG, "map is an empty map");
    FAILS(mlx_map_string_to_array_get(&r, a, NULL), KEEL_EARG, "key is NULL");
    FAILS(mlx_map_string_to_array_get(NULL, a, "k"), KEEL_EARG, "the result is NULL");
    FAILS(mlx_map_string_to_array_set(&a, no_arrays), KEEL_EARG, "src is an empty map");
    FAILS(mlx_map_string_to_array_set(NULL, a), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_map_string_to_array_iterator_new(no_arrays).ctx, KEEL_EARG, "empty map");
    FAILS(mlx_map_string_to_array_iterator_next(&key, &r, no_it), KEEL_EARG,
          "iterator is an empty");
    OK(mlx_map_string_to_array_iterator_free(no_it));
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(a);
    FAILS(mlx_map_string_to_array_iterator_next(NULL, &r, it), KEEL_EARG, "key is NULL");
    FAILS(mlx_map_string_to_array_iterator_next(&key, NULL, it), KEEL_EARG, "the result is NULL");
    mlx_map_string_to_array_iterator_free(it);

    FAILS(mlx_map_string_to_string_insert(s, NULL, "v"), KEEL_EARG, "key is NULL");
    FAILS(mlx_map_string_to_string_insert(s, "k", NULL), KEEL_EARG, "value is NULL");
    FAILS(mlx_map_string_to_string_insert(no_strings, "k", "v"), KEEL_EARG, "map is an empty map");
    FAILS(mlx_map_string_to_string_get(&text, no_strings, "k"), KEEL_EARG, "map is an empty map");
    FAILS(mlx_map_string_to_string_get(NULL, s, "k"), KEEL_EARG, "the result is NULL");
    FAILS(mlx_map_string_to_string_set(&s, no_strings), KEEL_EARG, "src is an empty map");
    FAILS_ZERO(mlx_map_string_to_string_iterator_new(no_strings).ctx, KEEL_EARG, "empty map");
    FAILS(mlx_map_string_to_string_iterator_next(&key, &text, no_its), KEEL_EARG, "empty handle");
    OK(mlx_map_string_to_string_iterator_free(no_its));
    mlx_map_string_to_array_free(a);
    mlx_map_string_to_string_free(s);
    mlx_array_free(one);
}

static void leak_body(void) {
    test_arrays(NULL);
    test_iteration(NULL);
    test_strings(NULL);
    test_bad_arguments(NULL);
}

static void test_no_leak(void **state) {
    assert_no_leak(leak_body);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),  cmocka_unit_test(test_iteration),
        cmocka_unit_test(test_strings), cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
