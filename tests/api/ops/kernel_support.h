/* kernel_support.h - for tests of custom kernels on a real device (KEEL_TEST_GPU: opencl unless
 * set; cuda, metal): streams, lists of names, outputs and arrays, and what a kernel gave. */
#pragma once
#include <keel/kernel.h>

#include "api/api_support.h"

static mlx_stream gpu, other;
static mlx_vector_array outs; /* the error of the last call */

static inline int set_up(void **state) {
    const char *want = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", want ? want : "opencl", 1);
    setenv("POCL_MEMORY_LIMIT", "1", 1);
    setenv("KEEL_CACHE_DIR", kl_test_path("cache"), 1);
    if (api_setup(state)) return -1;
    gpu = mlx_default_gpu_stream_new();
    mlx_device device = mlx_device_new_type(MLX_GPU, 0);
    other = mlx_stream_new_device(device);
    mlx_device_free(device);
    if (!gpu.ctx || !other.ctx) print_error("no device: %s\n", seen.text);
    outs = mlx_vector_array_new();
    return gpu.ctx && other.ctx ? 0 : -1;
}

static inline int tear_down(void **state) {
    mlx_vector_array_free(outs);
    mlx_stream_free(gpu);
    mlx_stream_free(other);
    return api_teardown(state);
}

static inline bool on_opencl(void) {
    return !getenv("KEEL_TEST_GPU") || strcmp(getenv("KEEL_TEST_GPU"), "opencl") == 0;
}

static inline bool on_metal(void) {
    return getenv("KEEL_TEST_GPU") && strcmp(getenv("KEEL_TEST_GPU"), "metal") == 0;
}

/* ---- helpers ---- */

#define NAMES(...)                      \
    (const char *const[]){__VA_ARGS__}, \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)
#define OUTPUTS(...)                                      \
    .outputs = (const keel_kernel_output[]){__VA_ARGS__}, \
    .n_outputs = sizeof((const keel_kernel_output[]){__VA_ARGS__}) / sizeof(keel_kernel_output)
#define TEMPLATES(...)                                        \
    .templates = (const keel_kernel_template[]){__VA_ARGS__}, \
    .n_templates =                                            \
        sizeof((const keel_kernel_template[]){__VA_ARGS__}) / sizeof(keel_kernel_template)
#define FLAT(n, dtype) \
    { LIST(n), 1, dtype }

static inline mlx_vector_array list_of(const mlx_array *arrays, size_t n) {
    mlx_vector_array v = mlx_vector_array_new_data(arrays, n);
    assert_non_null(v.ctx);
    return v;
}
#define ARRAYS(...)                           \
    list_of((const mlx_array[]){__VA_ARGS__}, \
            sizeof((const mlx_array[]){__VA_ARGS__}) / sizeof(mlx_array))

/* Applies the kernel and stores the outputs in `outs`; releases the list of inputs and the
 * kernel. */
static inline void apply_on(mlx_stream s, keel_kernel k, mlx_vector_array in,
                            const keel_kernel_config *c) {
    assert_non_null(k.ctx);
    OK(keel_kernel_apply(&outs, k, in, c, s));
    mlx_vector_array_free(in);
    keel_kernel_free(k);
}
static inline void apply(keel_kernel k, mlx_vector_array in, const keel_kernel_config *c) {
    apply_on(gpu, k, in, c);
}

static inline mlx_array out_at(size_t i) {
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, outs, i));
    return a;
}

/* Compares the values of a with the expected ones; takes a. */
static inline void assert_ints(mlx_array a, const int *values, int n) {
    assert_int_equal(mlx_array_size(a), n);
    OK(mlx_array_eval(a));
    const int *got = mlx_array_data_int32(a);
    assert_non_null(got);
    for (int i = 0; i < n; i++)
        if (got[i] != values[i]) fail_msg("element %d is %d, not %d", i, got[i], values[i]);
    mlx_array_free(a);
}
static inline void assert_floats(mlx_array a, const float *values, int n) {
    assert_int_equal(mlx_array_size(a), n);
    OK(mlx_array_eval(a));
    const float *got = mlx_array_data_float32(a);
    assert_non_null(got);
    for (int i = 0; i < n; i++)
        if (got[i] != values[i]) fail_msg("element %d is %g, not %g", i, got[i], values[i]);
    mlx_array_free(a);
}
#define ARE_INTS(a, ...) assert_ints(a, LIST(__VA_ARGS__), (int)N_OF(__VA_ARGS__))
#define ARE_FLOATS(a, ...)                         \
    assert_floats(a, (const float[]){__VA_ARGS__}, \
                  (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

static inline mlx_array iota(int n) {
    mlx_array a = mlx_array_new();
    OK(mlx_arange(&a, 0, n, 1, MLX_INT32, cpu));
    OK(mlx_array_eval(a));
    return a;
}

static const char *const raising = "i64 i = gid();\n"
                                   "if (i >= x_size) return;\n"
                                   "y[i] = x[i] + 1;\n"
                                   "if (x[i] > LIMIT) RAISE(CODE + (i & 1), i);\n";

/* With another header a kernel is compiled once more. */
static const char *header_of_raising;

static inline void raise_on(mlx_stream s, mlx_array x, int n, int limit, int code) {
    apply_on(s, keel_kernel_new("picky", NAMES("x"), NAMES("y"), raising, header_of_raising, 0),
             ARRAYS(x),
             &(keel_kernel_config){
                 OUTPUTS(FLAT(n, MLX_INT32)),
                 TEMPLATES(keel_kernel_int("LIMIT", limit), keel_kernel_int("CODE", code)),
                 .grid = {n, 1, 1}, .group = {64, 1, 1}});
}

static inline keel_kernel simple(void) {
    keel_kernel k = keel_kernel_new("simple", NAMES("x"), NAMES("y"),
                                    "if (gid() < y_size) y[gid()] = x[gid()];", NULL, 0);
    assert_non_null(k.ctx);
    return k;
}
