/* test_random.c - random numbers through the C API: keys, shapes, ranges, bad arguments. */
#include "api/api_support.h"

static void test_keys(void **state) {
    mlx_array k = mlx_array_new(), a = mlx_array_new(), b = mlx_array_new(), r = mlx_array_new();
    OK(mlx_random_key(&k, 0x100000002u));
    assert_text(k, "array([1, 2], dtype=uint32)");
    OK(mlx_random_key(&k, 0));
    OK(mlx_random_split(&a, &b, k, cpu));
    assert_shape(a, AXES(2));
    assert_string_not_equal(text_of(a), text_of(b));
    OK(mlx_random_split_num(&r, k, 5, cpu));
    assert_shape(r, AXES(5, 2));
    void *ctx = a.ctx;
    OK(mlx_random_split(&a, &b, a, cpu)); /* the result overwrites the key's handle */
    assert_ptr_equal(a.ctx, ctx);
    mlx_array wrong = INTS(1, 2, 3);
    FAILS(mlx_random_split(&a, &b, wrong, cpu), KEEL_EDTYPE, "mlx_random_split: ");
    FAILS(mlx_random_split(&a, NULL, k, cpu), KEEL_EARG, "the second result is NULL");
    FAILS(mlx_random_split(NULL, &b, k, cpu), KEEL_EARG, "the result is NULL");
    FAILS(mlx_random_split(&a, &b, no_array, cpu), KEEL_EARG, "key is an empty array");
    FAILS(mlx_random_split_num(&r, k, -1, cpu), KEEL_EARG, "mlx_random_split_num: ");
    FAILS(mlx_random_split_num(&r, no_array, 2, cpu), KEEL_EARG, "empty array");
    FAILS(mlx_random_key(NULL, 1), KEEL_EARG, "the result is NULL");
    mlx_array all[] = {k, a, b, r, wrong};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
}

/* The numbers that MLX 0.32 gave for the same key. */
static void test_same_as_mlx(void **state) {
    mlx_array k = mlx_array_new(), a = mlx_array_new(), b = mlx_array_new(), r = mlx_array_new();
    mlx_array low = mlx_array_new_float(0), high = mlx_array_new_float(1);
    OK(mlx_random_key(&k, 0));
    OK(mlx_random_uniform(&r, low, high, AXES(5), MLX_FLOAT32, k, cpu));
    assert_text(r, "array([0.574501, 0.0996861, 0.39316, 0.894178, 0.596567], dtype=float32)");
    OK(mlx_random_normal(&r, AXES(4), MLX_FLOAT32, 0, 1, k, cpu));
    assert_text(r, "array([1.81609, -0.754885, 0.339889, -0.534835], dtype=float32)");
    OK(mlx_random_split(&a, &b, k, cpu));
    assert_text(a, "array([4146024105, 967050713], dtype=uint32)");
    mlx_array all[] = {k, a, b, r, low, high};
    for (int i = 0; i < 6; i++) mlx_array_free(all[i]);
}

static void test_bits(void **state) {
    mlx_array k = mlx_array_new(), r = mlx_array_new();
    OK(mlx_random_key(&k, 0));
    OK(mlx_random_bits(&r, AXES(3), 4, k, cpu));
    assert_shape(r, AXES(3));
    assert_int_equal(mlx_array_dtype(r), MLX_UINT32);
    OK(mlx_random_bits(&r, NULL, 0, 1, no_array, cpu));
    assert_int_equal(mlx_array_dtype(r), MLX_UINT8);
    OK(mlx_array_eval(r));
    FAILS(mlx_random_bits(&r, AXES(3), 3, k, cpu), KEEL_EARG, "mlx_random_bits: ");
    FAILS(mlx_random_bits(&r, AXES(-3), 4, k, cpu), KEEL_ESHAPE, "mlx_random_bits: ");
    FAILS(mlx_random_bits(&r, NULL, 1, 4, k, cpu), KEEL_EARG, "mlx_random_bits: ");
    FAILS(mlx_random_bits(&r, AXES(3), 4, k, no_stream), KEEL_EARG, "stream");
    FAILS(mlx_random_bits(NULL, AXES(3), 4, k, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(k);
    mlx_array_free(r);
}

static void test_seed(void **state) {
    mlx_array low = mlx_array_new_float(0), high = mlx_array_new_float(1), r = mlx_array_new();
    char first[8192];
    OK(mlx_random_seed(7));
    OK(mlx_random_uniform(&r, low, high, AXES(4), MLX_FLOAT32, no_array, cpu));
    strcpy(first, text_of(r));
    OK(mlx_random_uniform(&r, low, high, AXES(4), MLX_FLOAT32, no_array, cpu));
    assert_string_not_equal(text_of(r), first);
    OK(mlx_random_seed(7));
    OK(mlx_random_uniform(&r, low, high, AXES(4), MLX_FLOAT32, no_array, cpu));
    assert_string_equal(text_of(r), first);
    mlx_array_free(low);
    mlx_array_free(high);
    mlx_array_free(r);
}

static void test_ranges(void **state) {
    mlx_array low = mlx_array_new_int(-2), high = mlx_array_new_int(3), r = mlx_array_new();
    mlx_array k = mlx_array_new(), f = mlx_array_new_float(0.5f), odd = INTS(1, 2, 3);
    OK(mlx_random_key(&k, 1));
    OK(mlx_random_randint(&r, low, high, AXES(1000), MLX_INT32, k, cpu));
    const int32_t *v = mlx_array_data_int32(r);
    int count[5] = {0};
    for (int i = 0; i < 1000; i++) {
        assert_in_range(v[i] + 2, 0, 4);
        count[v[i] + 2]++;
    }
    for (int i = 0; i < 5; i++) assert_true(count[i] > 100);
    OK(mlx_random_uniform(&r, low, high, AXES(1000), MLX_FLOAT32, k, cpu));
    const float *u = mlx_array_data_float32(r);
    for (int i = 0; i < 1000; i++) assert_true(u[i] >= -2 && u[i] < 3);
    OK(mlx_random_normal(&r, AXES(1000), MLX_FLOAT32, 10, 2, k, cpu));
    u = mlx_array_data_float32(r);
    double sum = 0;
    for (int i = 0; i < 1000; i++) sum += (double)u[i];
    assert_true(sum > 9500 && sum < 10500);
    OK(mlx_random_normal_broadcast(&r, AXES(2, 3), MLX_FLOAT32, odd, f, k, cpu));
    assert_shape(r, AXES(2, 3));
    OK(mlx_random_normal_broadcast(&r, AXES(2, 3), MLX_FLOAT16, no_array, no_array, no_array, cpu));
    OK(mlx_array_eval(r));

    FAILS(mlx_random_uniform(&r, no_array, high, AXES(2), MLX_FLOAT32, k, cpu), KEEL_EARG,
          "low is");
    FAILS(mlx_random_uniform(&r, low, no_array, AXES(2), MLX_FLOAT32, k, cpu), KEEL_EARG,
          "high is");
    FAILS(mlx_random_uniform(&r, low, high, AXES(2), MLX_INT32, k, cpu), KEEL_EDTYPE,
          "mlx_random_uniform: ");
    FAILS(mlx_random_uniform(&r, odd, high, AXES(2), MLX_FLOAT32, k, cpu), KEEL_ESHAPE,
          "mlx_random_uniform: ");
    FAILS(mlx_random_uniform(&r, low, high, AXES(2), MLX_FLOAT32, odd, cpu), KEEL_EDTYPE,
          "mlx_random_uniform: ");
    FAILS(mlx_random_randint(&r, low, high, AXES(2), MLX_FLOAT32, k, cpu), KEEL_EDTYPE,
          "mlx_random_randint: ");
    FAILS(mlx_random_randint(&r, low, no_array, AXES(2), MLX_INT32, k, cpu), KEEL_EARG, "high is");
    FAILS(mlx_random_normal(&r, AXES(-2), MLX_FLOAT32, 0, 1, k, cpu), KEEL_ESHAPE,
          "mlx_random_normal: ");
    FAILS(mlx_random_normal(&r, AXES(2), MLX_INT32, 0, 1, k, cpu), KEEL_EDTYPE,
          "mlx_random_normal: ");
    FAILS(mlx_random_normal(&r, AXES(2), (mlx_dtype)44, 0, 1, k, cpu), KEEL_EDTYPE,
          "mlx_random_normal: ");
    FAILS(mlx_random_normal_broadcast(&r, AXES(2), MLX_FLOAT32, odd, f, k, cpu), KEEL_ESHAPE,
          "mlx_random_normal_broadcast: ");
    FAILS(mlx_random_normal_broadcast(NULL, AXES(2), MLX_FLOAT32, f, f, k, cpu), KEEL_EARG, "NULL");
    mlx_array all[] = {low, high, r, k, f, odd};
    for (int i = 0; i < 6; i++) mlx_array_free(all[i]);
}

static void test_distributions(void **state) {
    mlx_array r = mlx_array_new(), k = mlx_array_new(), p = mlx_array_new_float(1),
              one = INTS(4, 5, 6), mean = FLOATS(1, 2), lo = mlx_array_new_float(2),
              logits = FLOATS(-100, 0, -100),
              cov = of_floats((const float[]){0, 0, 0, 0}, LIST(2, 2), 2);
    OK(mlx_random_key(&k, 3));
    OK(mlx_random_bernoulli(&r, p, AXES(2), k, cpu));
    assert_text(r, "array([True, True], dtype=bool)");
    OK(mlx_random_gumbel(&r, AXES(2, 3), MLX_FLOAT16, k, cpu));
    assert_shape(r, AXES(2, 3));
    OK(mlx_random_categorical(&r, logits, -1, k, cpu));
    assert_text(r, "array(1, dtype=uint32)");
    OK(mlx_random_categorical_num_samples(&r, logits, 0, 3, k, cpu));
    assert_text(r, "array([1, 1, 1], dtype=uint32)");
    OK(mlx_random_categorical_shape(&r, logits, 0, AXES(1, 2), k, cpu));
    assert_text(r, "array([[1, 1]], dtype=uint32)");
    OK(mlx_random_laplace(&r, AXES(2), MLX_FLOAT32, 7, 0, k, cpu));
    assert_text(r, "array([7, 7], dtype=float32)");
    OK(mlx_random_truncated_normal(&r, lo, lo, AXES(2), MLX_FLOAT32, k, cpu));
    assert_text(r, "array([2, 2], dtype=float32)");
    OK(mlx_random_multivariate_normal(&r, mean, cov, AXES(1), MLX_FLOAT32, no_array, cpu));
    assert_text(r, "array([[1, 2]], dtype=float32)");
    OK(mlx_random_permutation(&r, one, 0, k, cpu));
    OK(mlx_sort(&r, r, cpu));
    assert_text(r, "array([4, 5, 6], dtype=int32)");
    /* The numbers that MLX 0.32 gave for the same key. */
    OK(mlx_random_permutation_arange(&r, 6, k, cpu));
    assert_text(r, "array([0, 1, 2, 4, 3, 5], dtype=uint32)");
    void *ctx = r.ctx;
    FAILS(mlx_random_bernoulli(&r, one, AXES(3), k, cpu), KEEL_EDTYPE,
          "mlx_random_bernoulli: p is int32");
    FAILS(mlx_random_gumbel(&r, AXES(3), MLX_INT32, k, cpu), KEEL_EDTYPE, "mlx_random_gumbel: ");
    FAILS(mlx_random_categorical(&r, no_array, -1, k, cpu), KEEL_EARG, "logits");
    FAILS(mlx_random_categorical_num_samples(&r, logits, 0, -3, k, cpu), KEEL_EARG, "-3 samples");
    FAILS(mlx_random_categorical_shape(&r, logits, 1, AXES(1), k, cpu), KEEL_EAXIS, "axis 1");
    FAILS(mlx_random_laplace(&r, AXES(2), MLX_INT32, 7, 0, k, cpu), KEEL_EDTYPE,
          "mlx_random_laplace: ");
    FAILS(mlx_random_truncated_normal(&r, no_array, lo, AXES(2), MLX_FLOAT32, k, cpu), KEEL_EARG,
          "empty");
    FAILS(mlx_random_multivariate_normal(&r, mean, mean, AXES(1), MLX_FLOAT32, k, cpu), KEEL_ESHAPE,
          "mlx_random_multivariate_normal: ");
    FAILS(mlx_random_permutation(&r, p, 0, k, cpu), KEEL_EAXIS, "mlx_random_permutation: ");
    FAILS(mlx_random_permutation_arange(&r, -1, k, cpu), KEEL_EARG,
          "mlx_random_permutation_arange: ");
    assert_ptr_equal(r.ctx, ctx);
    mlx_array all[] = {r, k, p, one, mean, lo, logits, cov};
    for (int i = 0; i < 8; i++) mlx_array_free(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),   cmocka_unit_test(test_same_as_mlx),
        cmocka_unit_test(test_bits),   cmocka_unit_test(test_seed),
        cmocka_unit_test(test_ranges), cmocka_unit_test(test_distributions),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
