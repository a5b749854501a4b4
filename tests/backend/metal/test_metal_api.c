/* test_metal_api.c - what the public functions do where there is Metal: on the simulated one,
 * kernels in Metal's language with the names of MLX, recordings, the facts of the device. */
#include <unistd.h>

#include "api/api_support.h"

static mlx_stream gpu;

static int set_up(void **state) {
    setenv("KEEL_GPU", "metal", 1);
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (api_setup(state)) return -1;
    gpu = mlx_default_gpu_stream_new();
    return gpu.ctx ? 0 : -1;
}
static int tear_down(void **state) {
    mlx_stream_free(gpu);
    return api_teardown(state);
}

static void available(void **state) {
    bool yes = false;
    OK(mlx_metal_is_available(&yes));
    assert_true(yes);
    OK(mlx_cuda_is_available(&yes));
    assert_false(yes);
}

static void recordings(void **state) {
    const char *path = kl_test_path("a.gputrace");
    if (!getenv("KEEL_METAL_LIBRARY")) skip(); /* the words are those of the simulation */
    unsetenv("METAL_CAPTURE_ENABLED");
    FAILS(mlx_metal_start_capture(path), KEEL_EUNSUPPORTED, "Capturing is not supported");
    FAILS(mlx_metal_stop_capture(), KEEL_EUNSUPPORTED, "no recording was started");
    setenv("METAL_CAPTURE_ENABLED", "1", 1);
    FAILS(mlx_metal_start_capture("/dev/null"), KEEL_EUNSUPPORTED, "already exists");
    OK(mlx_metal_start_capture(path));
    FAILS(mlx_metal_start_capture(path), KEEL_EUNSUPPORTED, "already in progress");
    OK(mlx_metal_stop_capture());
    FAILS(mlx_metal_stop_capture(), KEEL_EUNSUPPORTED, "no recording was started");
    FAILS(mlx_metal_start_capture(NULL), KEEL_EARG, "path");
}

/* A kernel of two inputs, the second one without axes. */
static mlx_fast_metal_kernel kernel_of(const char *source, const char *header, bool atomic) {
    const char *in[] = {"x", "by"};
    mlx_vector_string names = mlx_vector_string_new_data(in, 2),
                      out = mlx_vector_string_new_value("y");
    mlx_fast_metal_kernel k =
        mlx_fast_metal_kernel_new("scaled", names, out, source, header, true, atomic);
    mlx_vector_string_free(names);
    mlx_vector_string_free(out);
    assert_non_null(k.ctx);
    return k;
}

static mlx_fast_metal_kernel_config config_of(int n, int group, mlx_dtype t) {
    mlx_fast_metal_kernel_config c = mlx_fast_metal_kernel_config_new();
    OK(mlx_fast_metal_kernel_config_add_output_arg(c, LIST(n), 1, t));
    OK(mlx_fast_metal_kernel_config_set_grid(c, n, 1, 1));
    OK(mlx_fast_metal_kernel_config_set_thread_group(c, group, 1, 1));
    OK(mlx_fast_metal_kernel_config_set_init_value(c, 0));
    OK(mlx_fast_metal_kernel_config_add_template_arg_dtype(c, "T", t));
    OK(mlx_fast_metal_kernel_config_add_template_arg_int(c, "N", 3));
    OK(mlx_fast_metal_kernel_config_add_template_arg_bool(c, "B", true));
    return c;
}

/* Element i of the result of a kernel, whose inputs are 0, 1, ... and 5, as float32. */
static void expect(const char *source, const char *header, bool atomic, mlx_dtype t,
                   float (*want)(int i)) {
    enum { M = 100 };
    float v[M], five = 5;
    for (int i = 0; i < M; i++) v[i] = (float)i;
    mlx_array x = mlx_array_new_data(v, LIST(M), 1, MLX_FLOAT32), xt = mlx_array_new(),
              by = mlx_array_new_data(&five, NULL, 0, MLX_FLOAT32), y = mlx_array_new(),
              wide = mlx_array_new();
    OK(mlx_astype(&xt, x, t, gpu));
    mlx_fast_metal_kernel k = kernel_of(source, header, atomic);
    mlx_fast_metal_kernel_config c = config_of(M, 64, t);
    mlx_vector_array in = mlx_vector_array_new_data((mlx_array[]){xt, by}, 2),
                     outs = mlx_vector_array_new();
    OK(mlx_fast_metal_kernel_apply(&outs, k, in, c, gpu));
    OK(mlx_vector_array_get(&y, outs, 0));
    OK(mlx_astype(&wide, y, MLX_FLOAT32, gpu));
    OK(mlx_array_eval(wide));
    const float *got = mlx_array_data_float32(wide);
    assert_non_null(got);
    for (int i = 0; i < M; i++)
        if (got[i] != want(i)) fail_msg("element %d is %g, not %g", i, got[i], want(i));
    mlx_array all[] = {x, xt, by, y, wide};
    for (int i = 0; i < 5; i++) mlx_array_free(all[i]);
    mlx_vector_array_free(in);
    mlx_vector_array_free(outs);
    mlx_fast_metal_kernel_config_free(c);
    mlx_fast_metal_kernel_free(k);
}

static float scaled(int i) {
    return (float)(5 * i + 3);
}
static float total(int i) {
    return i == 0 ? 4950 : 0;
}
static float places(int i) {
    return (float)(i + 100 * (i / 64) + i % 64 % 32 + 1);
}

static void kernels(void **state) {
    /* Arrays, an input without axes, templates, shapes, the header. */
    const char *const source = "uint i = thread_position_in_grid.x;\n"
                               "size_t at = elem_to_loc(i, x_shape, x_strides, x_ndim);\n"
                               "if (B && i < x_size) y[i] = T(times(float(x[at]), by) + N);\n";
    const char *const header = "inline float times(float a, float b) {\n    return a * b;\n}\n";
    const mlx_dtype types[] = {MLX_FLOAT32, MLX_FLOAT16, MLX_BFLOAT16, MLX_INT32};
    expect(source, header, false, types[0], scaled);
    expect(source, header, false, types[1], scaled);
    expect(source, header, false, types[3], scaled);
    /* Outputs that are atomics. */
    expect("atomic_fetch_add_explicit(&y[0], x[thread_position_in_grid.x], "
           "memory_order_relaxed);\n",
           "", true, MLX_INT32, total);
    /* Attributes of the grid and of SIMD groups. */
    expect("uint i = thread_position_in_grid.x;\n"
           "y[i] = T(thread_position_in_threadgroup.x + threads_per_threadgroup.x *\n"
           "    threadgroup_position_in_grid.x + threads_per_grid.x * (i / 64) +\n"
           "    thread_index_in_simdgroup + (threads_per_simdgroup == 32));\n",
           "", false, MLX_FLOAT32, places);
}

static void refusals(void **state) {
    mlx_fast_metal_kernel k = kernel_of("y[0] = no_such_name;\n", "", false);
    mlx_fast_metal_kernel_config c = config_of(4, 4, MLX_FLOAT32), none = {NULL};
    float v[] = {1, 2, 3, 4};
    mlx_array x = mlx_array_new_data(v, LIST(4), 1, MLX_FLOAT32), y = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_data((mlx_array[]){x, x}, 2),
                     one = mlx_vector_array_new_value(x), outs = mlx_vector_array_new();
    OK(mlx_fast_metal_kernel_apply(&outs, k, in, c, gpu));
    OK(mlx_vector_array_get(&y, outs, 0));
    FAILS(mlx_array_eval(y), KEEL_ECOMPILE, "scaled:1:");
    FAILS(mlx_fast_metal_kernel_apply(&outs, k, in, c, cpu), KEEL_EUNSUPPORTED,
          "needs a GPU with Metal; the stream is the CPU's");
    FAILS(mlx_fast_metal_kernel_apply(&outs, k, in, none, gpu), KEEL_EARG, "empty");
    FAILS(mlx_fast_metal_kernel_apply(&outs, k, one, c, gpu), KEEL_EARG, "takes 2 inputs");
    FAILS(mlx_fast_metal_kernel_apply(&outs, (mlx_fast_metal_kernel){NULL}, in, c, gpu), KEEL_EARG,
          "the kernel is an empty handle");
    mlx_vector_string names = mlx_vector_string_new_value("x");
    FAILS_ZERO(mlx_fast_metal_kernel_new(NULL, names, names, "", "", true, false).ctx, KEEL_EARG,
               "name");
    FAILS_ZERO(mlx_fast_metal_kernel_new("k", names, names, NULL, "", true, false).ctx, KEEL_EARG,
               "source");

    mlx_vector_string_free(names);
    mlx_fast_metal_kernel_free(k);
    mlx_fast_metal_kernel_config_free(c);
    mlx_vector_array_free(in);
    mlx_vector_array_free(one);
    mlx_vector_array_free(outs);
    mlx_array_free(x);
    mlx_array_free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(available), cmocka_unit_test(recordings),
                                       cmocka_unit_test(kernels), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
