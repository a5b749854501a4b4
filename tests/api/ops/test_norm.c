/* test_norm.c - norms and rotary position embedding through the C API. */
#include <pthread.h>

#include "api/api_support.h"
#include "api/handles/handles.h"
#include "graph/array.h"
#include "graph/node.h"

static void test_norms(void **state) {
    mlx_array x = of_floats((float[]){1, 1, -1, -1, 3, 3, 3, 3}, LIST(2, 4), 2),
              r = mlx_array_new();
    mlx_array w = of_floats((float[]){1, 2, 3, 4}, LIST(4), 1),
              three = of_floats((float[]){1, 2, 3}, LIST(3), 1);
    OK(mlx_fast_rms_norm(&r, x, no_array, 0, cpu));
    assert_text(r, "array([[1, 1, -1, -1],\n       [1, 1, 1, 1]], dtype=float32)");
    OK(mlx_fast_rms_norm(&r, x, w, 0, cpu));
    assert_text(r, "array([[1, 2, -3, -4],\n       [1, 2, 3, 4]], dtype=float32)");
    OK(mlx_fast_layer_norm(&r, x, w, w, 1e-12f, cpu));
    assert_text(r, "array([[2, 4, 0, 0],\n       [1, 2, 3, 4]], dtype=float32)");
    OK(mlx_fast_layer_norm(&r, x, no_array, no_array, 3, cpu));
    assert_text(r, "array([[0.5, 0.5, -0.5, -0.5],\n       [0, 0, 0, 0]], dtype=float32)");
    FAILS(mlx_fast_rms_norm(&r, x, three, 0, cpu), KEEL_ESHAPE,
          "mlx_fast_rms_norm: weight has shape (3)");
    FAILS(mlx_fast_layer_norm(&r, x, w, three, 0, cpu), KEEL_ESHAPE, "mlx_fast_layer_norm: bias");
    FAILS(mlx_fast_rms_norm(&r, no_array, w, 0, cpu), KEEL_EARG, "x is an empty array handle");
    FAILS(mlx_fast_layer_norm(&r, x, w, w, 0, no_stream), KEEL_EARG,
          "the stream is an empty handle");
    FAILS(mlx_fast_rms_norm(NULL, x, w, 0, cpu), KEEL_EARG, "the result is NULL");
    mlx_array_free(x);
    mlx_array_free(w);
    mlx_array_free(three);
    mlx_array_free(r);
}

static void test_rope(void **state) {
    mlx_array x = of_floats((float[]){1, 0, 0, 1}, LIST(1, 2, 2), 3), r = mlx_array_new();
    mlx_array freqs = of_floats((float[]){0.5f}, LIST(1), 1), at = mlx_array_new_int(1);
    mlx_optional_float base = {10000, true}, none = {0, false};
    OK(mlx_fast_rope(&r, x, 2, true, base, 1, 0, no_array, cpu));
    assert_text(r, "array([[[1, 0],\n        [-0.841471, 0.540302]]], dtype=float32)");
    OK(mlx_fast_rope(&r, x, 2, false, none, 1, 0, freqs, cpu));
    assert_text(r, "array([[[1, 0],\n        [-0.909297, -0.416147]]], dtype=float32)");
    OK(mlx_fast_rope_dynamic(&r, x, 2, false, base, 2, at, no_array, cpu));
    assert_text(r,
                "array([[[-0.416147, 0.909297],\n        [0.756802, -0.653644]]], dtype=float32)");
    FAILS(mlx_fast_rope(&r, x, 3, true, base, 1, 0, no_array, cpu), KEEL_EARG,
          "mlx_fast_rope: dims is 3");
    FAILS(mlx_fast_rope(&r, x, 2, true, none, 1, 0, no_array, cpu), KEEL_EARG, "mlx_fast_rope: ");
    FAILS(mlx_fast_rope(&r, no_array, 2, true, base, 1, 0, no_array, cpu), KEEL_EARG,
          "x is an empty");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, true, base, 1, no_array, no_array, cpu), KEEL_EARG,
          "offset is an empty array handle");
    FAILS(mlx_fast_rope_dynamic(&r, x, 2, true, base, 1, x, no_array, cpu), KEEL_EDTYPE,
          "mlx_fast_rope_dynamic: offset is float32");
    FAILS(mlx_fast_rope(&r, x, 2, true, base, 1, 0, no_array, no_stream), KEEL_EARG, "the stream");
    mlx_array_free(x);
    mlx_array_free(freqs);
    mlx_array_free(at);
    mlx_array_free(r);
}

/* Rotations with the same offset, one after the other, read the same array. */
static struct kl_array *offset_of(mlx_array *r, mlx_array x, int offset) {
    OK(mlx_fast_rope(r, x, 2, true, (mlx_optional_float){10000, true}, 1, offset, no_array, cpu));
    return kl_in_optional(*r)->node->in[1];
}

static mlx_array pairs; /* of the threads */
static void *rotate_often(void *arg) {
    const int first = *(const int *)arg;
    mlx_array r = mlx_array_new(), same = mlx_array_new();
    for (int i = 0; i < 300; i++) {
        bool equal = false;
        const int offset = (first + i) % 5;
        mlx_array at = mlx_array_new_int(offset), close = mlx_array_new();
        mlx_optional_float base = {10000, true};
        OK(mlx_fast_rope(&r, pairs, 2, true, base, 1, offset, no_array, cpu));
        OK(mlx_fast_rope_dynamic(&same, pairs, 2, true, base, 1, at, no_array, cpu));
        OK(mlx_array_equal(&close, r, same, false, cpu));
        OK(mlx_array_item_bool(&equal, close));
        if (!equal) fail_msg("offset %d", offset);
        mlx_array_free(at);
        mlx_array_free(close);
    }
    mlx_array_free(r);
    mlx_array_free(same);
    return NULL;
}

static void test_rope_offsets(void **state) {
    mlx_array r[4];
    struct kl_array *at[4];
    static const int offsets[] = {7, 7, 8, 7};
    pairs = of_floats((float[]){1, 0, 0, 1}, LIST(1, 2, 2), 3);
    for (int i = 0; i < 4; i++) {
        r[i] = mlx_array_new();
        at[i] = offset_of(&r[i], pairs, offsets[i]);
    }
    assert_ptr_equal(at[0], at[1]);
    assert_ptr_not_equal(at[0], at[2]);
    assert_ptr_not_equal(at[2], at[3]);
    assert_text(r[0],
                "array([[[0.753902, 0.656987],\n        [-0.989358, -0.1455]]], dtype=float32)");
    assert_text(r[2],
                "array([[[-0.1455, 0.989358],\n        [-0.412118, -0.91113]]], dtype=float32)");
    for (int i = 0; i < 4; i++) mlx_array_free(r[i]);
    pthread_t t[4];
    static int first[4] = {0, 0, 1, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, rotate_often, &first[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    mlx_array_free(pairs);
}

/* Where there is no memory for an offset the call fails, and the next one has the offset that it
 * asked for. */
static void test_rope_without_memory(void **state) {
    mlx_array x = of_floats((float[]){1, 0}, LIST(1, 1, 2), 3), r = mlx_array_new();
    bool more = true;
    int n_failed = 0;
    for (int n = 0; more; n++) {
        kl_test_fail_alloc_at(n);
        const int rc = mlx_fast_rope(&r, x, 2, true, (mlx_optional_float){10000, true}, 1, 100 + n,
                                     no_array, cpu);
        more = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        n_failed += rc != 0;
        assert_true(rc == 0 || more);
        OK(mlx_fast_rope(&r, x, 2, true, (mlx_optional_float){10000, true}, 1, 0, no_array, cpu));
        assert_text(r, "array([[[1, 0]]], dtype=float32)");
        assert_true(n < 100);
    }
    assert_true(n_failed > 0);
    mlx_array_free(x);
    mlx_array_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_rope),
                                       cmocka_unit_test(test_rope_offsets),
                                       cmocka_unit_test(test_rope_without_memory)};
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
