/* test_string.c - strings and the version. */
#include "api/api_support.h"

static void test_strings(void **state) {
    char text[] = "hello";
    mlx_string s = mlx_string_new_data(text), t = mlx_string_new();
    text[0] = 'j'; /* the text is copied */
    assert_string_equal(mlx_string_data(s), "hello");
    OK(mlx_string_set(&t, s));
    void *ctx = t.ctx;
    OK(mlx_string_set(&t, t));
    assert_string_equal(mlx_string_data(t), "hello");
    mlx_string other = mlx_string_new_data("");
    OK(mlx_string_set(&t, other));
    assert_ptr_equal(t.ctx, ctx);
    assert_string_equal(mlx_string_data(t), "");
    OK(mlx_string_free(s));
    OK(mlx_string_free(t));
    OK(mlx_string_free(other));
}

static void test_bad_strings(void **state) {
    mlx_string s = mlx_string_new(), t = mlx_string_new();
    assert_null(s.ctx);
    OK(mlx_string_free(s));
    FAILS_ZERO(mlx_string_data(s), KEEL_EARG, "empty string handle");
    FAILS(mlx_string_set(&t, s), KEEL_EARG, "src is an empty string handle");
    FAILS(mlx_string_set(NULL, s), KEEL_EARG, "the result is NULL");
    FAILS_ZERO(mlx_string_new_data(NULL).ctx, KEEL_EARG, "str is NULL");
}

static void test_version(void **state) {
    mlx_string s = mlx_string_new();
    OK(mlx_version(&s));
    assert_string_equal(mlx_string_data(s), "0.32.0+keel.0.1.0");
    mlx_string_free(s);
    FAILS(mlx_version(NULL), KEEL_EARG, "the result is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
