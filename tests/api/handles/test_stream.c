/* test_stream.c - streams: handles, defaults, waiting. */
#include "api/api_support.h"

#include <pthread.h>

static void test_handles(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0), d = mlx_device_new();
    mlx_stream s = mlx_stream_new_device(c), t = mlx_stream_new();
    assert_non_null(s.ctx);
    assert_null(t.ctx);
    assert_false(mlx_stream_equal(s, t));
    assert_false(mlx_stream_equal(s, cpu));
    OK(mlx_stream_set(&t, s));
    assert_true(mlx_stream_equal(s, t));
    void *ctx = t.ctx;
    OK(mlx_stream_set(&t, cpu));
    assert_ptr_equal(t.ctx, ctx);
    assert_true(mlx_stream_equal(t, cpu));
    OK(mlx_stream_get_device(&d, s));
    assert_true(mlx_device_equal(c, d));
    int index = -1;
    OK(mlx_stream_get_index(&index, s));
    assert_true(index >= 0);
    mlx_string text = mlx_string_new();
    char expected[64];
    snprintf(expected, sizeof expected, "Stream(Device(cpu, 0), %d)", index);
    OK(mlx_stream_tostring(&text, s));
    assert_string_equal(mlx_string_data(text), expected);
    mlx_string_free(text);
    OK(mlx_stream_free(s));
    OK(mlx_stream_free(t));
    mlx_device_free(c);
    mlx_device_free(d);
}

static void test_defaults(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0);
    mlx_stream s = mlx_stream_new(), mine = mlx_stream_new_device(c);
    OK(mlx_get_default_stream(&s, c));
    assert_true(mlx_stream_equal(s, cpu)); /* each thread has one of its own */
    OK(mlx_set_default_stream(mine));
    OK(mlx_get_default_stream(&s, c));
    assert_true(mlx_stream_equal(s, mine));
    OK(mlx_set_default_stream(cpu));
    mlx_stream_free(s);
    mlx_stream_free(mine);
    mlx_device_free(c);
}

static void *other_default(void *arg) {
    mlx_stream s = mlx_default_cpu_stream_new();
    *(bool *)arg = s.ctx && !mlx_stream_equal(s, cpu);
    /* A stream of another thread can be used. */
    mlx_array a = mlx_array_new_int(1), r = mlx_array_new();
    *(bool *)arg = *(bool *)arg && mlx_add(&r, a, a, cpu) == 0 && mlx_array_eval(r) == 0;
    mlx_array_free(a);
    mlx_array_free(r);
    mlx_stream_free(s);
    return NULL;
}

static void test_default_is_per_thread(void **state) {
    bool good = false;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, other_default, &good), 0);
    pthread_join(t, NULL);
    assert_true(good);
}

static void test_no_gpu(void **state) {
    int n = 0;
    OK(mlx_device_count(&n, MLX_GPU));
    if (n > 0) {
        mlx_stream s = mlx_default_gpu_stream_new();
        assert_non_null(s.ctx);
        mlx_stream_free(s);
    } else {
        FAILS_ZERO(mlx_default_gpu_stream_new().ctx, KEEL_EDEVICE, "mlx_default_gpu_stream_new: ");
    }
}

static void test_synchronize(void **state) {
    mlx_device c = mlx_device_new_type(MLX_CPU, 0);
    mlx_stream s = mlx_stream_new_device(c);
    mlx_array a = INTS(1, 2, 3), at = INTS(7), bad = mlx_array_new(), good = mlx_array_new();
    OK(mlx_synchronize(s));
    OK(mlx_take_axis(&bad, a, at, 0, s));
    OK(mlx_add(&good, a, a, s));
    mlx_vector_array both = mlx_vector_array_new_data((mlx_array[]){bad, good}, 2);
    OK(mlx_async_eval(both));
    FAILS(mlx_synchronize(s), KEEL_EINDEX, "7");
    OK(mlx_synchronize(s)); /* reported once; the array reports it each time */
    FAILS(mlx_array_eval(bad), KEEL_EINDEX, "7");
    OK(mlx_array_eval(good));
    mlx_vector_array_free(both);
    mlx_array_free(a);
    mlx_array_free(at);
    mlx_array_free(bad);
    mlx_array_free(good);
    mlx_stream_free(s);
    mlx_device_free(c);
}

static void test_bad_handles(void **state) {
    mlx_stream s = mlx_stream_new();
    mlx_device none = {NULL}, d = mlx_device_new();
    mlx_string text = mlx_string_new();
    int index;
    OK(mlx_stream_free(s));
    FAILS_ZERO(mlx_stream_new_device(none).ctx, KEEL_EARG, "dev is an empty device handle");
    FAILS(mlx_stream_set(&s, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(mlx_stream_set(NULL, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_stream_tostring(&text, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(mlx_stream_get_device(&d, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(mlx_stream_get_index(&index, no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(mlx_stream_get_index(NULL, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_synchronize(no_stream), KEEL_EARG, "the stream is an empty handle");
    FAILS(mlx_get_default_stream(&s, none), KEEL_EARG, "dev is an empty device handle");
    FAILS(mlx_set_default_stream(no_stream), KEEL_EARG, "the stream is an empty handle");
    int before = seen.n;
    assert_false(mlx_stream_equal(no_stream, no_stream));
    assert_int_equal(seen.n, before);
    mlx_array a = mlx_array_new_int(1), r = mlx_array_new();
    FAILS(mlx_add(&r, a, a, no_stream), KEEL_EARG, "mlx_add: the stream is an empty handle");
    mlx_array_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_default_is_per_thread),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_synchronize),
        cmocka_unit_test(test_bad_handles),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
