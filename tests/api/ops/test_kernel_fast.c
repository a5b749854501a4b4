/* test_kernel_fast.c - mlx/c/fast.h: configs; calls that are rejected without CUDA (on the
 * simulated device, or on the one that KEEL_TEST_GPU names); and with KEEL_TEST_GPU=cuda kernels
 * in CUDA C++ on that device. */
#include <keel/kernel.h>
#include <math.h>
#include <unistd.h>

#include "api/api_support.h"

static mlx_stream gpu;
static bool on_cuda, on_sim;
static mlx_vector_string x_name, y_name;
static mlx_vector_array outs;

static int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", want ? want : "sim", 1);
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    on_cuda = want && strcmp(want, "cuda") == 0;
    on_sim = !want;
    if (api_setup(state)) return -1;
    gpu = mlx_default_gpu_stream_new();
    x_name = mlx_vector_string_new_value("x");
    y_name = mlx_vector_string_new_value("y");
    outs = mlx_vector_array_new();
    if (!gpu.ctx) print_error("no device: %s\n", seen.text);
    return gpu.ctx && x_name.ctx && y_name.ctx && outs.ctx ? 0 : -1;
}

static int tear_down(void **state) {
    mlx_vector_string_free(x_name);
    mlx_vector_string_free(y_name);
    mlx_vector_array_free(outs);
    mlx_stream_free(gpu);
    return api_teardown(state);
}

static const mlx_fast_cuda_kernel_config no_config = {NULL};
static const mlx_fast_cuda_kernel no_kernel = {NULL};

/* ---- operations ---- */

/* Two keys have the same score, so the result is the mean of their values. */
static void attention(void **state) {
    float q[] = {1, 0}, k[] = {3, 1, 3, 2}, v[] = {10, 20};
    const int dq[] = {1, 1, 1, 2}, dk[] = {1, 1, 2, 2}, dv[] = {1, 1, 2, 1};
    mlx_array aq = mlx_array_new_data(q, dq, 4, MLX_FLOAT32),
              ak = mlx_array_new_data(k, dk, 4, MLX_FLOAT32),
              av = mlx_array_new_data(v, dv, 4, MLX_FLOAT32), none = {NULL}, out = mlx_array_new();
    float x = 0;
    OK(mlx_fast_scaled_dot_product_attention(&out, aq, ak, av, 1, "", none, none, cpu));
    OK(mlx_array_item_float32(&x, out));
    assert_true(x == 15);
    FAILS(mlx_fast_scaled_dot_product_attention(&out, aq, ak, av, 1, "diagonal", none, none, cpu),
          KEEL_EARG, "mask mode");
    mlx_array all[] = {aq, ak, av, out};
    for (int i = 0; i < 4; i++) mlx_array_free(all[i]);
}

/* ---- configs ---- */

static void test_cuda_config(void **state) {
    mlx_fast_cuda_kernel_config c = mlx_fast_cuda_kernel_config_new();
    assert_non_null(c.ctx);
    OK(mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(2, 3), 2, MLX_FLOAT32));
    OK(mlx_fast_cuda_kernel_config_add_output_arg(c, NULL, 0, MLX_INT8));
    OK(mlx_fast_cuda_kernel_config_set_grid(c, 6, 1, 1));
    OK(mlx_fast_cuda_kernel_config_set_thread_group(c, 2, 1, 1));
    OK(mlx_fast_cuda_kernel_config_set_init_value(c, 1.5f));
    OK(mlx_fast_cuda_kernel_config_set_verbose(c, false));
    OK(mlx_fast_cuda_kernel_config_add_template_arg_dtype(c, "T", MLX_FLOAT16));
    OK(mlx_fast_cuda_kernel_config_add_template_arg_int(c, "N", 3));
    OK(mlx_fast_cuda_kernel_config_add_template_arg_bool(c, "B", true));

    FAILS(mlx_fast_cuda_kernel_config_add_output_arg(c, NULL, 2, MLX_INT8), KEEL_EARG,
          "shape is NULL");
    FAILS(mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(1, -1), 2, MLX_INT8), KEEL_ESHAPE,
          "-1");
    FAILS(mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(1), 1, (mlx_dtype)50), KEEL_EDTYPE,
          "50");
    FAILS(mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(1), 1000, MLX_INT8), KEEL_ESHAPE,
          "1000");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_dtype(c, "T", (mlx_dtype)-1), KEEL_EDTYPE,
          "-1");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_int(c, NULL, 1), KEEL_EARG, "name");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_bool(c, NULL, true), KEEL_EARG, "name");
    mlx_fast_cuda_kernel_config_free(c);
    mlx_fast_cuda_kernel_config_free(no_config);

    FAILS(mlx_fast_cuda_kernel_config_add_output_arg(no_config, LIST(1), 1, MLX_INT8), KEEL_EARG,
          "empty");
    FAILS(mlx_fast_cuda_kernel_config_set_grid(no_config, 1, 1, 1), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_config_set_thread_group(no_config, 1, 1, 1), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_config_set_init_value(no_config, 1), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_config_set_verbose(no_config, true), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_dtype(no_config, "T", MLX_INT8), KEEL_EARG,
          "empty");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_int(no_config, "N", 1), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_config_add_template_arg_bool(no_config, "B", 1), KEEL_EARG, "empty");
}

static void test_metal(void **state) {
    const mlx_fast_metal_kernel_config none = {NULL};
    mlx_fast_metal_kernel_config c = mlx_fast_metal_kernel_config_new();
    assert_non_null(c.ctx);
    OK(mlx_fast_metal_kernel_config_add_output_arg(c, LIST(2, 3), 2, MLX_FLOAT32));
    OK(mlx_fast_metal_kernel_config_set_grid(c, 6, 1, 1));
    OK(mlx_fast_metal_kernel_config_set_thread_group(c, 2, 1, 1));
    OK(mlx_fast_metal_kernel_config_set_init_value(c, 0));
    OK(mlx_fast_metal_kernel_config_set_verbose(c, true));
    OK(mlx_fast_metal_kernel_config_add_template_arg_dtype(c, "T", MLX_FLOAT16));
    OK(mlx_fast_metal_kernel_config_add_template_arg_int(c, "N", 3));
    OK(mlx_fast_metal_kernel_config_add_template_arg_bool(c, "B", true));
    FAILS(mlx_fast_metal_kernel_config_set_grid(none, 6, 1, 1), KEEL_EARG, "empty");
    FAILS_ZERO(mlx_fast_metal_kernel_new("k", x_name, y_name, "", "", true, false).ctx,
               KEEL_EUNSUPPORTED, "no Metal device");
    mlx_array x = INTS(1);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    FAILS(mlx_fast_metal_kernel_apply(&outs, (mlx_fast_metal_kernel){NULL}, in, c, gpu),
          KEEL_EUNSUPPORTED, "no Metal device");
    mlx_fast_metal_kernel_free((mlx_fast_metal_kernel){NULL});
    mlx_fast_metal_kernel_config_free(c);
    mlx_fast_metal_kernel_config_free(none);
    mlx_vector_array_free(in);
    mlx_array_free(x);
}

/* ---- definitions that are rejected ---- */

static void test_bad_kernels(void **state) {
    const mlx_vector_string none = {NULL};
    mlx_vector_string empty = mlx_vector_string_new(), space = mlx_vector_string_new_value("a b");
    FAILS_ZERO(mlx_fast_cuda_kernel_new(NULL, x_name, y_name, "", "", true, 0).ctx, KEEL_EARG,
               "name");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, y_name, NULL, "", true, 0).ctx, KEEL_EARG,
               "source");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", none, y_name, "", "", true, 0).ctx, KEEL_EARG,
               "input_names");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, none, "", "", true, 0).ctx, KEEL_EARG,
               "output_names");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, empty, "", "", true, 0).ctx, KEEL_EARG,
               "no outputs");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, space, "", "", true, 0).ctx, KEEL_EARG,
               "'a b'");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, x_name, "", "", true, 0).ctx, KEEL_EARG,
               "two arrays");
    FAILS_ZERO(mlx_fast_cuda_kernel_new("k", x_name, y_name, "", "", true, -1).ctx, KEEL_EARG,
               "-1");
    mlx_vector_string_free(empty);
    mlx_vector_string_free(space);
    mlx_fast_cuda_kernel_free(no_kernel);
}

static mlx_fast_cuda_kernel_config config_of(int n, mlx_dtype dtype, int group) {
    mlx_fast_cuda_kernel_config c = mlx_fast_cuda_kernel_config_new();
    OK(mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(n), 1, dtype));
    OK(mlx_fast_cuda_kernel_config_set_grid(c, n, 1, 1));
    OK(mlx_fast_cuda_kernel_config_set_thread_group(c, group, 1, 1));
    return c;
}

static void test_bad_calls(void **state) {
    mlx_fast_cuda_kernel k = mlx_fast_cuda_kernel_new("k", x_name, y_name, "", NULL, true, 0);
    mlx_fast_cuda_kernel_config c = config_of(3, MLX_INT32, 1);
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    FAILS(mlx_fast_cuda_kernel_apply(NULL, k, in, c, gpu), KEEL_EARG, "result");
    FAILS(mlx_fast_cuda_kernel_apply(&outs, no_kernel, in, c, gpu), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_apply(&outs, k, no_vector, c, gpu), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, no_config, gpu), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, c, no_stream), KEEL_EARG, "empty");
    FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, c, cpu), KEEL_EUNSUPPORTED,
          "needs a GPU with CUDA");
    if (!on_cuda) {
        FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, c, gpu), KEEL_EUNSUPPORTED,
              "is CUDA source");
        assert_int_equal(mlx_vector_array_size(outs), 0);
    } else {
        mlx_fast_cuda_kernel_config bad = config_of(3, MLX_INT32, 0);
        FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, bad, gpu), KEEL_EARG, "thread group");
        mlx_fast_cuda_kernel_config_free(bad);
        bad = config_of(0, MLX_INT32, 1);
        FAILS(mlx_fast_cuda_kernel_apply(&outs, k, in, bad, gpu), KEEL_EARG, "grid");
        mlx_fast_cuda_kernel_config_free(bad);
    }
    mlx_fast_cuda_kernel_free(k);
    mlx_fast_cuda_kernel_config_free(c);
    mlx_vector_array_free(in);
    mlx_array_free(x);
}

/* With `verbose` the source is printed on stdout, even when the device then refuses the kernel. */
static void test_verbose(void **state) {
    mlx_fast_cuda_kernel k = mlx_fast_cuda_kernel_new(
        "shown", x_name, y_name, "y[0] = x_shape[0] + N; // here", NULL, true, 8);
    mlx_fast_cuda_kernel_config c = config_of(1, MLX_BFLOAT16, 1);
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    OK(mlx_fast_cuda_kernel_config_set_verbose(c, true));
    OK(mlx_fast_cuda_kernel_config_add_template_arg_int(c, "N", 12));
    const char *path = kl_test_path("stdout");
    fflush(stdout);
    int saved = dup(1);
    assert_non_null(freopen(path, "w", stdout));
    int rc = mlx_fast_cuda_kernel_apply(&outs, k, in, c, cpu);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    assert_int_equal(rc, 1); /* this is a stream of the CPU */
    char text[8192] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_true(n > 0);
    const char *const parts[] = {"#include <cuda_bf16.h>", "const int32_t *x", "__nv_bfloat16 *y",
                                 "constexpr int N = 12;",
                                 "#line 1 \"shown\"\ny[0] = x_shape[0] + N; // here"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("no '%s' in: %s", parts[i], text);
    mlx_fast_cuda_kernel_free(k);
    mlx_fast_cuda_kernel_config_free(c);
    mlx_vector_array_free(in);
    mlx_array_free(x);
}

/* The simulated device has no compiler, so the kernel is refused. */
static void test_simulated(void **state) {
    if (!on_sim) return;
    const char *names[] = {"y"};
    keel_kernel k = keel_kernel_new("common", NULL, 0, names, 1, "y[0] = 1;", NULL, 0);
    keel_kernel_output y = {NULL, 0, MLX_INT32};
    keel_kernel_config c = {.outputs = &y, .n_outputs = 1, .grid = {1, 1, 1}, .group = {1, 1, 1}};
    OK(keel_kernel_apply(&outs, k, no_vector, &c, gpu));
    mlx_array a = mlx_array_new(), b = mlx_array_new();
    OK(mlx_vector_array_get(&a, outs, 0));
    OK(mlx_add(&b, a, a, gpu));
    FAILS(mlx_array_eval(b), KEEL_EUNSUPPORTED, "simulated");
    FAILS(mlx_array_eval(a), KEEL_EUNSUPPORTED, "simulated");
    mlx_array_free(a);
    mlx_array_free(b);
    keel_kernel_free(k);
}

/* ---- memory ---- */

static void test_allocations(void **state) {
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    mlx_array_size(no_array); /* the first run makes what exists once per thread */
    kl_until_quiet();
    for (int64_t n = 0; n < 300; n++) {
        kl_api_forget_error();
        int before = seen.n;
        int64_t live = kl_test_n_live();
        kl_test_fail_alloc_at(n);
        mlx_fast_cuda_kernel_config c = mlx_fast_cuda_kernel_config_new();
        bool failed = !c.ctx ||
                      mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(3), 1, MLX_INT32) ||
                      mlx_fast_cuda_kernel_config_add_output_arg(c, LIST(2, 2), 2, MLX_INT32) ||
                      mlx_fast_cuda_kernel_config_add_template_arg_int(c, "N", 2) ||
                      mlx_fast_cuda_kernel_config_add_template_arg_bool(c, "B", false);
        mlx_fast_cuda_kernel k = {NULL};
        if (!failed) {
            k = mlx_fast_cuda_kernel_new("k", x_name, y_name, "y[0] = 1;", "int a;", true, 0);
            failed = !k.ctx;
        }
        bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_int_equal(failed, fired);
        assert_int_equal(seen.n, before + fired);
        mlx_fast_cuda_kernel_config_free(c);
        mlx_fast_cuda_kernel_free(k);
        kl_api_forget_error();
        assert_int_equal(kl_test_n_live(), live);
        if (!fired) {
            mlx_vector_array_free(in);
            mlx_array_free(x);
            return;
        }
    }
    fail_msg("no end of allocations");
}

/* ---- on CUDA ---- */

/* Applies kernel k to x with config c, releases k and c, and returns the only output. */
static mlx_array run(mlx_fast_cuda_kernel k, mlx_array x, mlx_fast_cuda_kernel_config c) {
    mlx_array y = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new_value(x);
    assert_non_null(k.ctx);
    OK(mlx_fast_cuda_kernel_apply(&outs, k, in, c, gpu));
    OK(mlx_vector_array_get(&y, outs, 0));
    mlx_vector_array_free(in);
    mlx_fast_cuda_kernel_free(k);
    mlx_fast_cuda_kernel_config_free(c);
    return y;
}

static void test_cuda_values(void **state) {
    if (!on_cuda) return;
    mlx_array x = mlx_array_new(), t = mlx_array_new();
    OK(mlx_arange(&x, 0, 6, 1, MLX_FLOAT32, cpu));
    OK(mlx_reshape(&x, x, LIST(2, 3), 2, cpu));
    OK(mlx_transpose(&t, x, cpu));
    for (int contiguous = 0; contiguous < 2; contiguous++) {
        mlx_fast_cuda_kernel_config c = config_of(6, MLX_FLOAT32, 4);
        OK(mlx_fast_cuda_kernel_config_add_template_arg_dtype(c, "T", MLX_FLOAT32));
        OK(mlx_fast_cuda_kernel_config_add_template_arg_int(c, "N", 10));
        mlx_array y = run(mlx_fast_cuda_kernel_new(
                              "strided", x_name, y_name,
                              "int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                              "if (i >= y_size) return;\n"
                              "T v = x[elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim)];\n"
                              "y[i] = times(v) + N * (x_strides[0] == 2);\n",
                              "__device__ float times(float v) { return 2 * v; }\n", contiguous, 0),
                          t, c);
        assert_text(y, contiguous ? "array([10, 16, 12, 18, 14, 20], dtype=float32)"
                                  : "array([0, 6, 2, 8, 4, 10], dtype=float32)");
        mlx_array_free(y);
    }
    mlx_array_free(x);
    mlx_array_free(t);
}

/* 16-bit types, cooperative groups (which need the toolkit's headers), an initial value, and more
 * shared memory than every kernel may use. */
static void test_cuda_facilities(void **state) {
    if (!on_cuda) return;
    mlx_array x = mlx_array_new();
    OK(mlx_arange(&x, 0, 5, 1, MLX_FLOAT16, cpu));
    mlx_fast_cuda_kernel_config c = config_of(5, MLX_FLOAT16, 5);
    OK(mlx_fast_cuda_kernel_config_add_template_arg_dtype(c, "T", MLX_FLOAT16));
    mlx_array y =
        run(mlx_fast_cuda_kernel_new("halves", x_name, y_name,
                                     "auto e = cooperative_groups::this_grid().thread_rank();\n"
                                     "T v = x[e];\n"
                                     "y[e] = __float2half(float(v) + 0.5f);\n",
                                     "", true, 0),
            x, c);
    assert_text(y, "array([0.5, 1.5, 2.5, 3.5, 4.5], dtype=float16)");
    mlx_array_free(y);
    mlx_array_free(x);

    x = INTS(3);
    c = config_of(4, MLX_INT32, 1);
    OK(mlx_fast_cuda_kernel_config_set_init_value(c, 7));
    y = run(mlx_fast_cuda_kernel_new("big", x_name, y_name,
                                     "extern __shared__ int room[];\n"
                                     "room[20000] = x[0];\n"
                                     "if (blockIdx.x == 2) y[2] = room[20000];\n",
                                     "", true, 20001 * 4),
            x, c);
    assert_text(y, "array([7, 7, 3, 7], dtype=int32)");
    mlx_array_free(y);
    c = config_of(4, MLX_INT32, 1);
    y = run(mlx_fast_cuda_kernel_new("too_big", x_name, y_name, "y[0] = 1;", "", true, 1 << 28), x,
            c);
    FAILS(mlx_array_eval(y), KEEL_EARG, "shared memory");
    mlx_array_free(y);
    c = config_of(1 << 20, MLX_INT32, 1);
    OK(mlx_fast_cuda_kernel_config_set_grid(c, 1, 1 << 20, 1));
    y = run(mlx_fast_cuda_kernel_new("too_wide", x_name, y_name, "y[0] = 1;", "", true, 0), x, c);
    FAILS(mlx_array_eval(y), KEEL_EARG, "groups along axis 1");
    mlx_array_free(y);
    mlx_array_free(x);
}

static void test_cuda_mistakes(void **state) {
    if (!on_cuda) return;
    mlx_array x = INTS(3);
    mlx_array y = run(
        mlx_fast_cuda_kernel_new("broken", x_name, y_name, "\n\ny[0] = no_such_name;", "", true, 0),
        x, config_of(1, MLX_INT32, 1));
    FAILS(mlx_array_eval(y), KEEL_ECOMPILE, "broken(3)");
    mlx_array_free(y);
    mlx_array_free(x);
}

/* A kernel does not run on an input that has failed. */
static void test_cuda_guards(void **state) {
    if (!on_cuda) return;
    mlx_array table = INTS(1, 2, 3), at = INTS(0, 77), taken = mlx_array_new(),
              trace = mlx_array_new();
    OK(mlx_take(&taken, table, at, gpu));
    OK(mlx_zeros(&trace, LIST(2), 1, MLX_INT32, gpu));
    mlx_vector_string names = mlx_vector_string_new();
    OK(mlx_vector_string_append_value(names, "x"));
    OK(mlx_vector_string_append_value(names, "trace"));
    mlx_fast_cuda_kernel k = mlx_fast_cuda_kernel_new(
        "tracer", names, y_name,
        "((int *)trace)[threadIdx.x] = 5;\ny[threadIdx.x] = x[threadIdx.x];", "", true, 0);
    mlx_fast_cuda_kernel_config c = config_of(2, MLX_INT32, 2);
    mlx_vector_array in = mlx_vector_array_new_data((const mlx_array[]){taken, trace}, 2);
    OK(mlx_fast_cuda_kernel_apply(&outs, k, in, c, gpu));
    mlx_array y = mlx_array_new();
    OK(mlx_vector_array_get(&y, outs, 0));
    FAILS(mlx_array_eval(y), KEEL_EINDEX, "77");
    assert_text(trace, "array([0, 0], dtype=int32)");
    mlx_vector_array_free(in);
    mlx_vector_string_free(names);
    mlx_fast_cuda_kernel_free(k);
    mlx_fast_cuda_kernel_config_free(c);
    mlx_array_free(table);
    mlx_array_free(at);
    mlx_array_free(taken);
    mlx_array_free(trace);
    mlx_array_free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),          cmocka_unit_test(test_cuda_config),
        cmocka_unit_test(test_metal),         cmocka_unit_test(test_bad_kernels),
        cmocka_unit_test(test_bad_calls),     cmocka_unit_test(test_verbose),
        cmocka_unit_test(test_simulated),     cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_cuda_values),   cmocka_unit_test(test_cuda_facilities),
        cmocka_unit_test(test_cuda_mistakes), cmocka_unit_test(test_cuda_guards),
    };
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
