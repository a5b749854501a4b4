/* test_device.c - devices and the facts about them. */
#include "api/api_support.h"

static const mlx_device no_device = {NULL};

static const char *device_text(mlx_device d) {
    static char text[64];
    mlx_string s = mlx_string_new();
    OK(mlx_device_tostring(&s, d));
    snprintf(text, sizeof text, "%s", mlx_string_data(s));
    mlx_string_free(s);
    return text;
}

static void test_names(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0), g = mlx_device_new_type(MLX_GPU, 3);
    mlx_device d = mlx_device_new();
    assert_null(d.ctx);
    assert_string_equal(device_text(c), "Device(cpu, 0)");
    assert_string_equal(device_text(g), "Device(gpu, 3)");
    int index = -1;
    mlx_device_type type = MLX_CPU;
    OK(mlx_device_get_index(&index, g));
    assert_int_equal(index, 3);
    OK(mlx_device_get_type(&type, g));
    assert_int_equal(type, MLX_GPU);
    assert_false(mlx_device_equal(c, g));
    OK(mlx_device_set(&d, c));
    void *ctx = d.ctx;
    assert_true(mlx_device_equal(c, d));
    OK(mlx_device_set(&d, g));
    assert_ptr_equal(d.ctx, ctx);
    assert_true(mlx_device_equal(d, g));
    OK(mlx_device_free(c));
    OK(mlx_device_free(g));
    OK(mlx_device_free(d));
    OK(mlx_device_free(no_device));
}

static void test_availability(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0), far = mlx_device_new_type(MLX_GPU, 99);
    bool yes = false;
    OK(mlx_device_is_available(&yes, c));
    assert_true(yes);
    OK(mlx_device_is_available(&yes, far)); /* an unknown name is no error */
    assert_false(yes);
    int n = -1;
    OK(mlx_device_count(&n, MLX_CPU));
    assert_int_equal(n, 1);
    OK(mlx_device_count(&n, MLX_GPU));
    assert_true(n >= 0);
    FAILS(mlx_set_default_device(far), KEEL_EDEVICE, "mlx_set_default_device: ");
    FAILS_ZERO(mlx_stream_new_device(far).ctx, KEEL_EDEVICE, "mlx_stream_new_device: ");
    mlx_stream s = mlx_stream_new();
    FAILS(mlx_get_default_stream(&s, far), KEEL_EDEVICE, "mlx_get_default_stream: ");
    mlx_device_info info = mlx_device_info_new();
    FAILS(mlx_device_info_get(&info, far), KEEL_EDEVICE, "mlx_device_info_get: ");
    mlx_device_free(c);
    mlx_device_free(far);
}

static void test_default(void **state) {
    mlx_device d = mlx_device_new(), c = mlx_device_new_type(MLX_CPU, 0), now = mlx_device_new();
    OK(mlx_get_default_device(&d));
    OK(mlx_set_default_device(c));
    OK(mlx_get_default_device(&now));
    assert_true(mlx_device_equal(now, c));
    OK(mlx_set_default_device(d));
    mlx_device_free(c);
    mlx_device_free(d);
    mlx_device_free(now);
}

static void test_info(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0);
    mlx_device_info info = mlx_device_info_new();
    assert_null(info.ctx);
    OK(mlx_device_info_get(&info, c));
    OK(mlx_device_info_get(&info, c)); /* the result overwrites a live handle */
    mlx_vector_string keys = mlx_vector_string_new();
    OK(mlx_device_info_get_keys(&keys, info));
    for (size_t i = 0; i < mlx_vector_string_size(keys); i++) {
        char *key = NULL;
        bool there = false, is_string = false;
        const char *text = NULL;
        size_t size = 0;
        OK(mlx_vector_string_get(&key, keys, i));
        OK(mlx_device_info_has_key(&there, info, key));
        assert_true(there);
        OK(mlx_device_info_is_string(&is_string, info, key));
        if (is_string) {
            OK(mlx_device_info_get_string(&text, info, key));
            assert_non_null(text);
            NOT_FOUND(mlx_device_info_get_size(&size, info, key));
        } else {
            OK(mlx_device_info_get_size(&size, info, key));
            NOT_FOUND(mlx_device_info_get_string(&text, info, key));
        }
    }
    bool there = true, is_string;
    const char *text;
    size_t size;
    OK(mlx_device_info_has_key(&there, info, "no such key"));
    assert_false(there);
    NOT_FOUND(mlx_device_info_is_string(&is_string, info, "no such key"));
    NOT_FOUND(mlx_device_info_get_string(&text, info, "no such key"));
    NOT_FOUND(mlx_device_info_get_size(&size, info, "no such key"));
    FAILS(mlx_device_info_has_key(NULL, info, "k"), KEEL_EARG, "the result is NULL");
    FAILS(mlx_device_info_has_key(&there, info, NULL), KEEL_EARG, "key is NULL");
    FAILS(mlx_device_info_get_keys(NULL, info), KEEL_EARG, "the result is NULL");
    mlx_vector_string_free(keys);
    mlx_device_info_free(info);
    mlx_device_free(c);
}

static void test_bad_handles(void **state) {
    mlx_device d = mlx_device_new();
    mlx_string s = mlx_string_new();
    mlx_device_info none = {NULL};
    mlx_vector_string keys = {NULL};
    int n;
    bool yes;
    size_t size;
    const char *text;
    mlx_device_type type;
    FAILS_ZERO(mlx_device_new_type((mlx_device_type)2, 0).ctx, KEEL_EARG, "2 is no device type");
    FAILS_ZERO(mlx_device_new_type(MLX_CPU, -1).ctx, KEEL_EARG, "not -1");
    FAILS(mlx_device_count(&n, (mlx_device_type)7), KEEL_EARG, "7 is no device type");
    FAILS(mlx_device_count(NULL, MLX_CPU), KEEL_EARG, "the result is NULL");
    FAILS(mlx_device_set(&d, no_device), KEEL_EARG, "src is an empty device handle");
    FAILS(mlx_device_set(NULL, no_device), KEEL_EARG, "the result is NULL");
    FAILS(mlx_device_tostring(&s, no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_device_get_index(&n, no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_device_get_type(&type, no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_device_is_available(&yes, no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_set_default_device(no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_get_default_device(NULL), KEEL_EARG, "the result is NULL");
    FAILS(mlx_device_info_get(&none, no_device), KEEL_EARG, "empty device handle");
    FAILS(mlx_device_info_has_key(&yes, none, "k"), KEEL_EARG, "empty device_info handle");
    FAILS(mlx_device_info_is_string(&yes, none, "k"), KEEL_EARG, "empty device_info handle");
    FAILS(mlx_device_info_get_string(&text, none, "k"), KEEL_EARG, "empty device_info handle");
    FAILS(mlx_device_info_get_size(&size, none, "k"), KEEL_EARG, "empty device_info handle");
    FAILS(mlx_device_info_get_keys(&keys, none), KEEL_EARG, "empty device_info handle");
    OK(mlx_device_info_free(none));
    int before = seen.n;
    assert_false(mlx_device_equal(no_device, no_device)); /* this is no error either */
    assert_int_equal(seen.n, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),       cmocka_unit_test(test_availability),
        cmocka_unit_test(test_default),     cmocka_unit_test(test_info),
        cmocka_unit_test(test_bad_handles),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
