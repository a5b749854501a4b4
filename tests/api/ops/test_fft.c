/* test_fft.c - mlx/c/fft.h: each function, and all of them inside compiled, exported, batched and
 * differentiated functions. */
#include "api/function_support.h"

typedef int one_fn(mlx_array *, const mlx_array, int, int, mlx_fft_norm, const mlx_stream);
typedef int many_fn(mlx_array *, const mlx_array, const int *, size_t, const int *, size_t,
                    mlx_fft_norm, const mlx_stream);

/* The result of [1, 2, 3, 4] by a function of one axis and by those of several. */
static void kind(one_fn *one, many_fn *const many[2], int n, mlx_fft_norm norm, const char *text,
                 const char *name) {
    mlx_array a = FLOATS(1, 2, 3, 4), r = mlx_array_new();
    char prefix[64];
    snprintf(prefix, sizeof prefix, "mlx_fft_%s", name);
    OK(one(&r, a, n, -1, norm, cpu));
    assert_text(r, text);
    FAILS(one(&r, a, 0, 0, norm, cpu), KEEL_EARG, prefix);
    FAILS(one(&r, a, 4, 1, norm, cpu), KEEL_EAXIS, prefix);
    FAILS(one(&r, no_array, 4, 0, norm, cpu), KEEL_EARG, "a is an empty array handle");
    FAILS(one(&r, a, 4, 0, norm, no_stream), KEEL_EARG, prefix);
    FAILS(one(NULL, a, 4, 0, norm, cpu), KEEL_EARG, "the result is NULL");
    assert_text(r, text);
    for (int i = 0; i < 2; i++) {
        OK(many[i](&r, a, LIST(n), 1, AXES(0), norm, cpu));
        assert_text(r, text);
        FAILS(many[i](&r, a, AXES(4, 4), AXES(0), norm, cpu), KEEL_EARG, prefix);
        FAILS(many[i](&r, a, AXES(4, 4), AXES(0, -1), norm, cpu), KEEL_EAXIS, prefix);
        FAILS(many[i](&r, a, NULL, 1, AXES(0), norm, cpu), KEEL_EARG, prefix);
        FAILS(many[i](&r, no_array, NULL, 0, NULL, 0, norm, cpu), KEEL_EARG, prefix);
        OK(many[i](&r, a, NULL, 0, NULL, 0, norm, cpu));
        assert_text(r, "array([1, 2, 3, 4], dtype=float32)");
    }
    mlx_array_free(a);
    mlx_array_free(r);
}

static void test_kinds(void **state) {
    kind(mlx_fft_fft, (many_fn *const[]){mlx_fft_fft2, mlx_fft_fftn}, 4, MLX_FFT_NORM_BACKWARD,
         "array([10+0j, -2+2j, -2+0j, -2-2j], dtype=complex64)", "fft");
    kind(mlx_fft_ifft, (many_fn *const[]){mlx_fft_ifft2, mlx_fft_ifftn}, 4, MLX_FFT_NORM_ORTHO,
         "array([5+0j, -1-1j, -1+0j, -1+1j], dtype=complex64)", "ifft");
    kind(mlx_fft_rfft, (many_fn *const[]){mlx_fft_rfft2, mlx_fft_rfftn}, 2, MLX_FFT_NORM_FORWARD,
         "array([1.5+0j, -0.5+0j], dtype=complex64)", "rfft");
    kind(mlx_fft_irfft, (many_fn *const[]){mlx_fft_irfft2, mlx_fft_irfftn}, 4,
         MLX_FFT_NORM_BACKWARD, "array([2, -0.5, 0, -0.5], dtype=float32)", "irfft");
}

static void test_order(void **state) {
    mlx_array a = grid(2, 3), r = mlx_array_new();
    OK(mlx_fft_fftshift(&r, a, AXES(1), cpu));
    assert_text(r, "array([[2, 0, 1],\n       [5, 3, 4]], dtype=int32)");
    OK(mlx_fft_ifftshift(&r, a, AXES(0, -1), cpu));
    assert_text(r, "array([[4, 5, 3],\n       [1, 2, 0]], dtype=int32)");
    OK(mlx_fft_fftshift(&r, a, NULL, 0, cpu));
    assert_text(r, "array([[0, 1, 2],\n       [3, 4, 5]], dtype=int32)");
    FAILS(mlx_fft_fftshift(&r, a, AXES(2), cpu), KEEL_EAXIS, "mlx_fft_fftshift: ");
    FAILS(mlx_fft_ifftshift(&r, no_array, AXES(0), cpu), KEEL_EARG, "mlx_fft_ifftshift: ");
    OK(mlx_fft_fftfreq(&r, 4, 0.5, cpu));
    assert_text(r, "array([0, 0.5, -1, -0.5], dtype=float32)");
    OK(mlx_fft_rfftfreq(&r, 4, 0.5, cpu));
    assert_text(r, "array([0, 0.5, 1], dtype=float32)");
    FAILS(mlx_fft_fftfreq(&r, 0, 1, cpu), KEEL_EARG, "mlx_fft_fftfreq: n is 0");
    FAILS(mlx_fft_rfftfreq(&r, 4, 0, cpu), KEEL_EARG, "mlx_fft_rfftfreq: d is 0");
    mlx_array_free(a);
    mlx_array_free(r);
}

/* ---- in functions ---- */
/* Along the first axis: cut to four elements or padded with zeros, transformed, shifted and back,
 * and transformed back. */
static int there_and_back(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array z = mlx_array_new(), r = mlx_array_new();
    int rc = mlx_fft_rfft(&z, at(in, 0), 4, 0, MLX_FFT_NORM_BACKWARD, cpu) ||
             mlx_fft_fftshift(&z, z, AXES(0), cpu) || mlx_fft_ifftshift(&z, z, AXES(0), cpu) ||
             mlx_fft_irfftn(&r, z, AXES(4), AXES(0), MLX_FFT_NORM_BACKWARD, cpu);
    mlx_array_free(z);
    keep(r);
    return rc ? rc : GIVE(res, r);
}
static int sum_there(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array back = mlx_vector_array_new();
    int rc = there_and_back(&back, in);
    if (!rc) rc = GIVE(res, sum(square(at(back, 0))));
    mlx_vector_array_free(back);
    return rc;
}

static mlx_vector_array rows_of(int rows, int columns) {
    float v[64];
    for (int i = 0; i < rows * columns; i++) v[i] = (float)i;
    return mlx_vector_array_new_value(keep(of_floats(v, LIST(rows, columns), 2)));
}

#define FOUR_TEXT "array([[0, 1],\n       [2, 3],\n       [4, 5],\n       [6, 7]], dtype=float32)"
#define PADDED_TEXT "array([[0, 1],\n       [2, 3],\n       [0, 0],\n       [0, 0]], dtype=float32)"

static mlx_closure plain(list_fn *f) {
    return mlx_closure_new_func(f);
}
static mlx_closure compiled(list_fn *f, bool shapeless) {
    mlx_closure p = plain(f), c = mlx_closure_new();
    OK(mlx_compile(&c, p, shapeless));
    OK(mlx_closure_free(p));
    return c;
}

static void test_functions(void **state) {
    assert_text(result_of(plain(there_and_back), rows_of(5, 2), 0), FOUR_TEXT);
    assert_text(result_of(compiled(there_and_back, false), rows_of(5, 2), 0), FOUR_TEXT);
    /* the extents decide whether the input is cut or has zeros put after it */
    mlx_closure c = compiled(there_and_back, true);
    for (int rows = 2; rows <= 6; rows += 2) {
        mlx_vector_array in = rows_of(rows, 2), res = mlx_vector_array_new();
        OK(mlx_closure_apply(&res, c, in));
        assert_text(at(res, 0), rows == 2 ? PADDED_TEXT : FOUR_TEXT);
        mlx_vector_array_free(res);
        mlx_vector_array_free(in);
    }
    mlx_closure_free(c);
    /* lanes along the second axis */
    assert_text(result_of(lanes_of(plain(there_and_back), LIST(1, 0, 0, 0), LIST(1, 0, 0, 0)),
                          rows_of(2, 2), 0),
                PADDED_TEXT);
    /* the gradient of the sum of squares is twice the elements that were not cut */
    assert_text(result_of(gradient_of(plain(sum_there), LIST(0), 1), rows_of(5, 1), 0),
                "array([[0],\n       [2],\n       [4],\n       [6],\n       [0]], dtype=float32)");
    assert_text(result_of(gradient_of(compiled(sum_there, true), LIST(0), 1), rows_of(2, 1), 0),
                "array([[0],\n       [2]], dtype=float32)");
    drop_to(0);
}

static void test_exported(void **state) {
    for (int shapeless = 0; shapeless < 2; shapeless++) {
        const char *file = kl_test_path(shapeless ? "shapeless.mlxfn" : "fft.mlxfn");
        mlx_closure f = plain(there_and_back);
        mlx_vector_array in = rows_of(6, 2), short_in = rows_of(2, 2);
        OK(mlx_export_function(file, f, in, shapeless));
        mlx_imported_function g = mlx_imported_function_new(file);
        mlx_vector_array res = mlx_vector_array_new();
        OK(mlx_imported_function_apply(&res, g, in));
        assert_text(at(res, 0), FOUR_TEXT);
        if (shapeless) {
            OK(mlx_imported_function_apply(&res, g, short_in));
            assert_text(at(res, 0), PADDED_TEXT);
        }
        mlx_vector_array_free(res);
        mlx_vector_array_free(in);
        mlx_vector_array_free(short_in);
        OK(mlx_imported_function_free(g));
        mlx_closure_free(f);
    }
    drop_to(0);
}

static void once(void) {
    mlx_array a = FLOATS(1, 2, 3), r = mlx_array_new();
    OK(mlx_fft_fft(&r, a, 5, 0, MLX_FFT_NORM_ORTHO, cpu));
    OK(mlx_array_eval(r));
    OK(mlx_fft_irfft(&r, r, 7, 0, MLX_FFT_NORM_ORTHO, cpu));
    OK(mlx_array_eval(r));
    mlx_array_free(a);
    mlx_array_free(r);
}
static void test_no_leak(void **state) {
    assert_no_leak(once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),     cmocka_unit_test(test_order),
        cmocka_unit_test(test_functions), cmocka_unit_test(test_exported),
        cmocka_unit_test(test_no_leak),
    };
    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
