/* test_kernel.c - custom kernels in the common dialect, through the public API, on a real
 * device (KEEL_TEST_GPU: opencl unless set; cuda). */
#include <keel/kernel.h>
#include <limits.h>
#include <math.h>

#include "api/api_support.h"
#include "backend/gpu/driver.h"
#include "backend/opencl/opencl.h"

static mlx_stream gpu, other;
static mlx_vector_array outs; /* the error of the last call */

static int set_up(void **state) {
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

static int tear_down(void **state) {
    mlx_vector_array_free(outs);
    mlx_stream_free(gpu);
    mlx_stream_free(other);
    return api_teardown(state);
}

static bool on_opencl(void) {
    return !getenv("KEEL_TEST_GPU") || strcmp(getenv("KEEL_TEST_GPU"), "opencl") == 0;
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

static mlx_vector_array list_of(const mlx_array *arrays, size_t n) {
    mlx_vector_array v = mlx_vector_array_new_data(arrays, n);
    assert_non_null(v.ctx);
    return v;
}
#define ARRAYS(...)                           \
    list_of((const mlx_array[]){__VA_ARGS__}, \
            sizeof((const mlx_array[]){__VA_ARGS__}) / sizeof(mlx_array))

/* Applies the kernel and stores the outputs in `outs`; releases the list of inputs and the
 * kernel. */
static void apply_on(mlx_stream s, keel_kernel k, mlx_vector_array in,
                     const keel_kernel_config *c) {
    assert_non_null(k.ctx);
    OK(keel_kernel_apply(&outs, k, in, c, s));
    mlx_vector_array_free(in);
    keel_kernel_free(k);
}
static void apply(keel_kernel k, mlx_vector_array in, const keel_kernel_config *c) {
    apply_on(gpu, k, in, c);
}

static mlx_array out_at(size_t i) {
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, outs, i));
    return a;
}

/* Compares the values of a with the expected ones; takes a. */
static void assert_ints(mlx_array a, const int *values, int n) {
    assert_int_equal(mlx_array_size(a), n);
    OK(mlx_array_eval(a));
    const int *got = mlx_array_data_int32(a);
    assert_non_null(got);
    for (int i = 0; i < n; i++)
        if (got[i] != values[i]) fail_msg("element %d is %d, not %d", i, got[i], values[i]);
    mlx_array_free(a);
}
static void assert_floats(mlx_array a, const float *values, int n) {
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

static mlx_array iota(int n) {
    mlx_array a = mlx_array_new();
    OK(mlx_arange(&a, 0, n, 1, MLX_INT32, cpu));
    OK(mlx_array_eval(a));
    return a;
}

/* ---- what kernels can do ---- */

/* The kernel of examples/kernel.c, which docs/kernels.md shows. */
static void test_example(void **state) {
    const char *source = "i64 i = gid();\n"
                         "if (i >= y_size) return;\n"
                         "COMPUTE(T) v = LOAD(T, x, i);\n"
                         "if (v < 0) RAISE(NEGATIVE, i);\n"
                         "STORE(T, y, i, fn_sqrt(v) * SCALE);\n";
    keel_kernel k = keel_kernel_new("scaled_sqrt", NAMES("x"), NAMES("y"), source, NULL, 0);
    mlx_array x = FLOATS(0, 1, 4, 9, 16);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    keel_kernel_output y = {(int[]){5}, 1, MLX_FLOAT32};
    keel_kernel_template arguments[] = {keel_kernel_dtype("T", MLX_FLOAT32),
                                        keel_kernel_int("SCALE", 2),
                                        keel_kernel_int("NEGATIVE", 7)};
    keel_kernel_config c = {.outputs = &y,
                            .n_outputs = 1,
                            .templates = arguments,
                            .n_templates = 3,
                            .grid = {5, 1, 1},
                            .group = {64, 1, 1}};
    OK(keel_kernel_apply(&outs, k, in, &c, gpu));
    ARE_FLOATS(out_at(0), 0, 2, 4, 6, 8);
    mlx_vector_array_free(in);
    mlx_array_free(x);
    keel_kernel_free(k);
}

/* OpenCL's own functions: one that the prelude declares, of another type than the dialect's, and
 * two that only the compiler declares. */
static void test_functions_of_opencl(void **state) {
    if (!on_opencl()) return;
    mlx_array x = iota(4);
    keel_kernel k = keel_kernel_new("of_opencl", NAMES("x"), NAMES("y"),
                                    "int v = LOAD(i32, x, gid());\n"
                                    "int w = (int)popcount((uint)v) + max(v, 2);\n"
                                    "STORE(i32, y, gid(), w + (int)mul_hi((long)v << 62, 8L));\n",
                                    NULL, 0);
    apply(
        k, ARRAYS(x),
        &(keel_kernel_config){OUTPUTS(FLAT(4, MLX_INT32)), .grid = {4, 1, 1}, .group = {4, 1, 1}});
    /* mul_hi of long: (v << 62) as a signed number, times 8, divided by 2^64: 0, 2, -4, -2 */
    ARE_INTS(out_at(0), 0 + 2 + 0, 1 + 2 + 2, 1 + 2 - 4, 2 + 3 - 2);
    mlx_array_free(x);
    k = keel_kernel_new("declared", NULL, 0, NAMES("y"),
                        "STORE(i32, y, gid(), (int)mul_hi((long)(gid() + 1) << 60, 64L));\n", NULL,
                        0);
    apply(
        k, mlx_vector_array_new(),
        &(keel_kernel_config){OUTPUTS(FLAT(2, MLX_INT32)), .grid = {2, 1, 1}, .group = {2, 1, 1}});
    ARE_INTS(out_at(0), 4, 8);
}

static void test_several_outputs(void **state) {
    mlx_array x = INTS(3, 1, 2), y = INTS(10, 20, 30);
    keel_kernel k = keel_kernel_new("both", NAMES("x", "y"), NAMES("sum", "product"),
                                    "i64 i = gid();\n"
                                    "if (i >= x_size) return;\n"
                                    "sum[i] = x[i] + y[i];\n"
                                    "product[i] = (f32)(x[i] * y[i]);\n",
                                    NULL, 0);
    apply(k, ARRAYS(x, y),
          &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32), FLAT(3, MLX_FLOAT32)),
                                .grid = {3, 1, 1}, .group = {2, 1, 1}});
    ARE_INTS(out_at(0), 13, 21, 32);
    ARE_FLOATS(out_at(1), 30, 20, 60);
    mlx_array_free(x);
    mlx_array_free(y);
}

static void test_no_inputs_and_three_dimensions(void **state) {
    keel_kernel k = keel_kernel_new(
        "places", NULL, 0, NAMES("y"),
        "if (!in_grid()) return;\n"
        "y[gid()] = (i32)(thread_id(0) + 10 * thread_id(1) + 100 * thread_id(2) +\n"
        "                 1000 * (grid_size(0) == 3 && local_size(1) == GROUP_Y &&\n"
        "                         group_id(0) * 2 + local_id(0) == thread_id(0) && n_groups(0) == "
        "2 &&\n"
        "                         lid() == (local_id(2) * GROUP_Y + local_id(1)) * GROUP_X + "
        "local_id(0)));\n",
        NULL, 0);
    const int shape[] = {2, 2, 3};
    apply(k, no_vector,
          &(keel_kernel_config){OUTPUTS({shape, 3, MLX_INT32}), .grid = {3, 2, 2},
                                .group = {2, 2, 1}});
    ARE_INTS(out_at(0), 1000, 1001, 1002, 1010, 1011, 1012, 1100, 1101, 1102, 1110, 1111, 1112);
}

/* A kernel for each dtype, with LOAD and STORE; its header has a function of the user. */
static void test_templates(void **state) {
    static const mlx_dtype dtypes[] = {MLX_UINT8,   MLX_UINT16,  MLX_UINT32,  MLX_UINT64,
                                       MLX_INT8,    MLX_INT16,   MLX_INT32,   MLX_INT64,
                                       MLX_FLOAT16, MLX_FLOAT32, MLX_FLOAT64, MLX_BFLOAT16};
    keel_kernel k =
        keel_kernel_new("doubled", NAMES("x"), NAMES("y"),
                        "i64 i = gid();\n"
                        "if (i < y_size) STORE(T, y, i, plus(LOAD(x_type, x, i), TWICE));\n",
                        "FN COMPUTE(T) plus(COMPUTE(T) v, int twice) {\n"
                        "    return twice ? v + v : v + STEP;\n"
                        "}\n",
                        0);
    mlx_array i = INTS(0, 1, 2, 60), x = mlx_array_new(), y = mlx_array_new();
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int twice = 0; twice < 2; twice++) {
            OK(mlx_astype(&x, i, dtypes[d], cpu));
            mlx_vector_array in = ARRAYS(x);
            keel_kernel_config c = {OUTPUTS(FLAT(4, dtypes[d])),
                                    TEMPLATES(keel_kernel_dtype("T", dtypes[d]),
                                              keel_kernel_int("STEP", 3),
                                              keel_kernel_bool("TWICE", twice)),
                                    .grid = {4, 1, 1}, .group = {4, 1, 1}};
            OK(keel_kernel_apply(&outs, k, in, &c, gpu));
            mlx_vector_array_free(in);
            mlx_array out = out_at(0);
            OK(mlx_astype(&y, out, MLX_INT32, cpu));
            mlx_array_free(out);
            OK(mlx_array_eval(y));
            const int *v = mlx_array_data_int32(y);
            for (int n = 0; n < 4; n++) {
                int was = n == 3 ? 60 : n;
                assert_int_equal(v[n], twice ? 2 * was : was + 3);
            }
        }
    mlx_array_free(i);
    mlx_array_free(x);
    mlx_array_free(y);
    keel_kernel_free(k);
}

static void test_initial_values(void **state) {
    static const struct {
        mlx_dtype dtype;
        float v;
    } cases[] = {{MLX_BOOL, 2},         {MLX_UINT8, 200},  {MLX_INT16, -300}, {MLX_UINT64, 1e6f},
                 {MLX_INT64, -5},       {MLX_FLOAT16, -2}, {MLX_BFLOAT16, 8}, {MLX_FLOAT64, 0.5f},
                 {MLX_FLOAT32, -0.25f}, {MLX_COMPLEX64, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mlx_array want = mlx_array_new_float(cases[i].v), got = mlx_array_new(),
                  v = mlx_array_new();
        keel_kernel k = keel_kernel_new("nothing", NULL, 0, NAMES("y"), "", "", 0);
        apply(k, no_vector,
              &(keel_kernel_config){OUTPUTS(FLAT(300, cases[i].dtype)), .grid = {1, 1, 1},
                                    .group = {1, 1, 1}, .has_init_value = true,
                                    .init_value = cases[i].v});
        got = out_at(0);
        OK(mlx_astype(&v, want, cases[i].dtype, cpu));
        OK(mlx_not_equal(&v, v, got, cpu));
        OK(mlx_sum(&v, v, false, cpu));
        int32_t n_other;
        OK(mlx_array_item_int32(&n_other, v));
        if (n_other) fail_msg("initial value %g: %s", cases[i].v, text_of(got));
        mlx_array_free(want);
        mlx_array_free(got);
        mlx_array_free(v);
    }
}

static void test_atomic_histogram(void **state) {
    enum { N = 10000, BINS = 7 };
    int want[BINS] = {0}, values[N];
    for (int i = 0; i < N; i++) want[values[i] = i * i % 97 % BINS]++;
    mlx_array x = of_ints(values, LIST(N), 1);
    keel_kernel k = keel_kernel_new("histogram", NAMES("x"),
                                    NAMES("count", "total", "most", "least", "extremes"),
                                    "i64 i = gid();\n"
                                    "if (i >= x_size) return;\n"
                                    "atomic_add_i32(count + x[i], 1);\n"
                                    "atomic_add_f32(total, (f32)x[i]);\n"
                                    "atomic_max_i32(most, x[i]);\n"
                                    "atomic_min_i32(least, x[i] - 3);\n"
                                    "atomic_max_f32(extremes, (f32)x[i] * 0.5f);\n"
                                    "atomic_min_f32(extremes + 1, (f32)x[i] - 9.0f);\n",
                                    NULL, 0);
    apply(
        k, ARRAYS(x),
        &(keel_kernel_config){OUTPUTS(FLAT(BINS, MLX_INT32), FLAT(1, MLX_FLOAT32),
                                      FLAT(1, MLX_INT32), FLAT(1, MLX_INT32), FLAT(2, MLX_FLOAT32)),
                              .grid = {N, 1, 1}, .group = {128, 1, 1}, .has_init_value = true});
    float total = 0;
    for (int b = 0; b < BINS; b++) total += (float)(b * want[b]);
    assert_ints(out_at(0), want, BINS);
    ARE_FLOATS(out_at(1), total);
    ARE_INTS(out_at(2), BINS - 1);
    ARE_INTS(out_at(3), -3);
    ARE_FLOATS(out_at(4), 3, -9);
    mlx_array_free(x);
}

/* Sums per work-group, in shared memory whose size is in the source, or in the config. */
static void test_shared_memory(void **state) {
    mlx_array x = iota(1000);
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        keel_kernel k = keel_kernel_new("sums", NAMES("x"), NAMES("y"),
                                        "#if DYNAMIC\n"
                                        "SHARED_PTR i32 *part = SHARED_AT(i32, 16);\n"
                                        "#else\n"
                                        "SHARED(i32, part, LOCAL);\n"
                                        "#endif\n"
                                        "i64 i = gid();\n"
                                        "part[lid()] = i < x_size ? x[i] : 0;\n"
                                        "BARRIER();\n"
                                        "for (u32 d = LOCAL / 2; d > 0; d /= 2) {\n"
                                        "    if (lid() < d) part[lid()] += part[lid() + d];\n"
                                        "    BARRIER();\n"
                                        "}\n"
                                        "if (lid() == 0) y[group_id(0)] = part[0];\n",
                                        NULL, 0);
        apply(k, ARRAYS(x),
              &(keel_kernel_config){OUTPUTS(FLAT(4, MLX_INT32)),
                                    TEMPLATES(keel_kernel_bool("DYNAMIC", dynamic)),
                                    .grid = {1000, 1, 1}, .group = {256, 1, 1},
                                    .shared_bytes = dynamic ? 16 + 256 * 4 : 0});
        ARE_INTS(out_at(0), 32640, 98176, 163712, 204972);
    }
    mlx_array_free(x);
}

static void test_strides(void **state) {
    mlx_array x = grid(2, 3), t = mlx_array_new(), s = mlx_array_new_int(5);
    OK(mlx_transpose(&t, x, cpu));
    for (unsigned flags = 0; flags < 2; flags++) {
        keel_kernel k = keel_kernel_new(
            "layout", NAMES("x", "s"), NAMES("y", "z"),
            "i64 i = gid();\n"
            "if (i >= y_size) return;\n"
            "y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)] + s[0] - s_ndim - (i32)s_size;\n"
            "if (i == 0) {\n"
            "    z[0] = x_ndim; z[1] = (i32)x_strides[0]; z[2] = (i32)x_strides[1];\n"
            "    z[3] = x_shape[0]; z[4] = x_shape[1]; z[5] = (i32)x_size; z[6] = "
            "(i32)y_strides[0];\n"
            "}\n",
            NULL, flags);
        const int shape[] = {3, 2};
        apply(k, ARRAYS(t, s),
              &(keel_kernel_config){OUTPUTS({shape, 2, MLX_INT32}, FLAT(7, MLX_INT32)),
                                    .grid = {6, 1, 1}, .group = {4, 1, 1}});
        ARE_INTS(out_at(0), 4, 7, 5, 8, 6, 9);
        if (flags & KEEL_KERNEL_STRIDED)
            ARE_INTS(out_at(1), 2, 1, 3, 3, 2, 6, 2);
        else
            ARE_INTS(out_at(1), 2, 2, 1, 3, 2, 6, 2);
    }
    mlx_array_free(x);
    mlx_array_free(t);
    mlx_array_free(s);
}

static void test_empty_arrays(void **state) {
    mlx_array x = mlx_array_new();
    OK(mlx_zeros(&x, LIST(0, 4), 2, MLX_FLOAT32, cpu));
    keel_kernel k = keel_kernel_new("none", NAMES("x"), NAMES("y"),
                                    "if (gid() < y_size) y[gid()] = x[gid()];", NULL, 0);
    apply(k, ARRAYS(x),
          &(keel_kernel_config){OUTPUTS(FLAT(0, MLX_FLOAT32)), .grid = {8, 1, 1},
                                .group = {8, 1, 1}, .has_init_value = true});
    mlx_array y = out_at(0);
    OK(mlx_array_eval(y));
    mlx_array_free(x);
    mlx_array_free(y);
}

/* ---- errors of the kernel ---- */

static const char *const raising = "i64 i = gid();\n"
                                   "if (i >= x_size) return;\n"
                                   "y[i] = x[i] + 1;\n"
                                   "if (x[i] > LIMIT) RAISE(CODE + (i & 1), i);\n";

static void raise_on(mlx_stream s, mlx_array x, int n, int limit, int code) {
    apply_on(s, keel_kernel_new("picky", NAMES("x"), NAMES("y"), raising, NULL, 0), ARRAYS(x),
             &(keel_kernel_config){
                 OUTPUTS(FLAT(n, MLX_INT32)),
                 TEMPLATES(keel_kernel_int("LIMIT", limit), keel_kernel_int("CODE", code)),
                 .grid = {n, 1, 1}, .group = {64, 1, 1}});
}

static void check_raised(mlx_array a, int code, int position) {
    keel_error_info e = {.size = sizeof e};
    char text[64];
    snprintf(text, sizeof text, "kernel 'picky' raised %d at position %d", code, position);
    FAILS(mlx_array_eval(a), KEEL_EKERNEL, text);
    assert_int_equal(keel_array_error(&e, a), 0);
    assert_int_equal(e.has & (KEEL_HAS_POSITION | KEEL_HAS_INDEX),
                     KEEL_HAS_POSITION | KEEL_HAS_INDEX);
    assert_int_equal(e.position, position);
    assert_int_equal(e.index, code);
    assert_string_equal(e.operation, "picky");
}

static void test_raise(void **state) {
    mlx_array x = iota(5000), good = mlx_array_new(), twice = mlx_array_new();
    for (int round = 0; round < 10; round++) {
        raise_on(gpu, x, 5000, 123 + round, 1000 * (round + 1));
        mlx_array bad = out_at(0);
        OK(mlx_add(&twice, bad, bad, gpu));
        raise_on(gpu, x, 5000, 9999, 1);
        OK(mlx_vector_array_get(&good, outs, 0));
        /* Is in the same command buffer, and does not depend on the failed one. */
        OK(mlx_array_eval(good));
        check_raised(bad, 1000 * (round + 1) + (124 + round) % 2, 124 + round);
        check_raised(twice, 1000 * (round + 1) + (124 + round) % 2, 124 + round);
        assert_int_equal(mlx_array_data_int32(good)[4999], 5000);
        mlx_array_free(bad);
    }
    /* A dependent on another stream. It is a kernel that itself raises another error. */
    raise_on(gpu, x, 5000, 77, 5);
    mlx_array first = out_at(0);
    raise_on(other, first, 5000, 0, 900);
    mlx_array second = out_at(0);
    check_raised(second, 5, 78);
    check_raised(first, 5, 78);
    mlx_array_free(first);
    mlx_array_free(second);
    mlx_array_free(x);
    mlx_array_free(good);
    mlx_array_free(twice);
}

/* More kernels than a chunk of fault words has room for. */
static void test_many_raises(void **state) {
    enum { N = 150 };
    mlx_array x = iota(32);
    mlx_array made[N];
    for (int i = 0; i < N; i++) {
        raise_on(gpu, x, 32, i % 3 ? 99 : 20, 6);
        made[i] = out_at(0);
    }
    mlx_vector_array all = mlx_vector_array_new_data(made, N);
    OK(mlx_async_eval(all));
    for (int i = 0; i < N; i++) {
        if (i % 3)
            OK(mlx_array_eval(made[i]));
        else
            check_raised(made[i], 7, 21);
        mlx_array_free(made[i]);
    }
    mlx_vector_array_free(all);
    mlx_array_free(x);
}

/* ---- kernels never run on what has failed ---- */

/* The kernel leaves a trace in an input, where no kernel should write. The trace shows whether the
 * kernel has run. */
static void run_behind(int n_gathers, bool fails, mlx_stream s, mlx_array table) {
    mlx_array good_index = INTS(1, 2, 3), bad_index = INTS(1, 99, 3);
    mlx_array in[12], sum = mlx_array_new(), trace = mlx_array_new();
    OK(mlx_zeros(&sum, LIST(3), 1, MLX_INT32, gpu));
    OK(mlx_zeros(&trace, LIST(3), 1, MLX_INT32, gpu));
    for (int i = 0; i < n_gathers; i++) {
        in[i] = mlx_array_new();
        OK(mlx_take(&in[i], table, fails && i == n_gathers / 2 ? bad_index : good_index, gpu));
        OK(mlx_add(&sum, sum, in[i], gpu));
    }
    keel_kernel k = keel_kernel_new("tracer", NAMES("x", "trace"), NAMES("y"),
                                    "i64 i = gid();\n"
                                    "((GLOBAL i32 *)trace)[i] = 5;\n"
                                    "y[i] = x[i];\n"
                                    "if (RAISES) RAISE(3, 0);\n",
                                    NULL, 0);
    apply_on(s, k, ARRAYS(sum, trace),
             &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32)),
                                   TEMPLATES(keel_kernel_bool("RAISES", fails)), .grid = {3, 1, 1},
                                   .group = {3, 1, 1}});
    mlx_array y = out_at(0);
    if (fails) {
        keel_error_info e = {.size = sizeof e};
        FAILS(mlx_array_eval(y), KEEL_EINDEX, "99");
        assert_int_equal(keel_array_error(&e, y), 0);
        assert_int_equal(e.position, 1);
        ARE_INTS(trace, 0, 0, 0);
        mlx_array_free(y);
    } else {
        ARE_INTS(y, n_gathers, 2 * n_gathers, 3 * n_gathers);
        ARE_INTS(trace, 5, 5, 5);
    }
    for (int i = 0; i < n_gathers; i++) mlx_array_free(in[i]);
    mlx_array_free(sum);
    mlx_array_free(good_index);
    mlx_array_free(bad_index);
}

/* Inputs that depend on one gather, on several, and on so many that their fault words were merged
 * before the kernel; on the stream of the gathers and on another stream. */
static void test_guards(void **state) {
    mlx_array table = iota(16);
    for (int n = 1; n <= 12; n++)
        for (int way = 0; way < 4; way++) run_behind(n, way & 1, way & 2 ? other : gpu, table);
    mlx_array_free(table);
}

/* A kernel that depends on a kernel that has raised an error does not run. */
static void test_guard_of_raise(void **state) {
    mlx_array x = iota(8), trace = mlx_array_new();
    OK(mlx_zeros(&trace, LIST(8), 1, MLX_INT32, gpu));
    raise_on(gpu, x, 8, 4, 20);
    mlx_array bad = out_at(0);
    keel_kernel k = keel_kernel_new("tracer", NAMES("x", "trace"), NAMES("y"),
                                    "((GLOBAL i32 *)trace)[gid()] = 5;\n"
                                    "y[gid()] = x[gid()];\n",
                                    NULL, 0);
    apply(
        k, ARRAYS(bad, trace),
        &(keel_kernel_config){OUTPUTS(FLAT(8, MLX_INT32)), .grid = {8, 1, 1}, .group = {8, 1, 1}});
    mlx_array y = out_at(0);
    check_raised(y, 21, 5);
    ARE_INTS(trace, 0, 0, 0, 0, 0, 0, 0, 0);
    mlx_array_free(bad);
    mlx_array_free(y);
    mlx_array_free(x);
}

/* ---- what compilers and devices refuse ---- */

static void test_compile_error(void **state) {
    static const char *const source = "i64 i = gid();\n"
                                      "\n"
                                      "y[i] = no_such_name;\n";
    for (int in_header = 0; in_header < 2; in_header++) {
        keel_kernel k =
            keel_kernel_new("broken", NULL, 0, NAMES("y"), in_header ? "" : source,
                            in_header ? "\nFN int f(void) { return nothing_here; }" : NULL, 0);
        apply(k, no_vector,
              &(keel_kernel_config){OUTPUTS(FLAT(1, MLX_INT32)), .grid = {1, 1, 1},
                                    .group = {1, 1, 1}});
        mlx_array y = out_at(0), z = mlx_array_new();
        OK(mlx_add(&z, y, y, gpu));
        FAILS(mlx_array_eval(y), KEEL_ECOMPILE, in_header ? "nothing_here" : "no_such_name");
        const char *at = strstr(seen.text, in_header ? "broken (header)" : "broken:3");
        if (!in_header && !at) at = strstr(seen.text, "broken(3)");
        /* NVIDIA's OpenCL does not report the names of files. It quotes the line itself. */
        if (!at && strstr(seen.text, "<kernel>:"))
            at = strstr(seen.text, in_header ? "return nothing_here;" : "y[i] = no_such_name;");
        if (!at) fail_msg("no line of the source: %s", seen.text);
        FAILS(mlx_array_eval(z), KEEL_ECOMPILE, "broken"); /* the dependent has the same error */
        mlx_array_free(y);
        mlx_array_free(z);
    }
}

static keel_kernel simple(void) {
    keel_kernel k = keel_kernel_new("simple", NAMES("x"), NAMES("y"),
                                    "if (gid() < y_size) y[gid()] = x[gid()];", NULL, 0);
    assert_non_null(k.ctx);
    return k;
}

static void test_device_limits(void **state) {
    mlx_array x = INTS(1, 2, 3);
    static const struct {
        int group[3];
        size_t shared;
        const char *says;
    } cases[] = {{{1 << 14, 1, 1}, 0, "this device takes"},
                 {{256, 256, 1}, 0, "this device takes"},
                 {{1, 1, 1 << 15}, 0, "this device takes"},
                 {{1, 1, 1}, 1 << 30, "shared memory"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        apply(simple(), ARRAYS(x),
              &(keel_kernel_config){
                  OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1},
                  .group = {cases[i].group[0], cases[i].group[1], cases[i].group[2]},
                  .shared_bytes = cases[i].shared});
        mlx_array y = out_at(0);
        FAILS(mlx_array_eval(y), KEEL_EARG, cases[i].says);
        mlx_array_free(y);
    }
    mlx_array_free(x);
}

/* The limit of shared memory per group, as the device reports it when a kernel asks for too
 * much. */
static size_t most_shared(mlx_array x) {
    apply(simple(), ARRAYS(x),
          &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1}, .group = {3, 1, 1},
                                .shared_bytes = 1 << 30});
    mlx_array y = out_at(0);
    FAILS(mlx_array_eval(y), KEEL_EARG, "this device has ");
    mlx_array_free(y);
    return strtoul(strstr(seen.text, "this device has ") + strlen("this device has "), NULL, 10);
}

/* A limit that only the compiled kernel shows: the shared memory that its source declares, alone or
 * with the memory that the call asks for. The operation fails alone, and its message has both
 * numbers. The others in the command buffer run. */
static void test_limits_of_kernels(void **state) {
    mlx_array x = INTS(1, 2, 3), before = mlx_array_new(), after = mlx_array_new();
    size_t has = most_shared(x);
    /* CUDA's compiler refuses this source itself. */
    for (int more = !on_opencl(); more < 2; more++) {
        size_t in_source = more ? 20 << 10 : has + 4096, in_call = more ? has - (10 << 10) : 0;
        OK(mlx_add(&before, x, x, gpu));
        keel_kernel k = keel_kernel_new("hungry", NAMES("x"), NAMES("y"),
                                        "SHARED(i32, part, N);\n"
                                        "part[x[0]] = part[x[1]] = x[0];\n"
                                        "BARRIER();\n"
                                        "y[gid()] = part[x[gid()]];\n",
                                        NULL, 0);
        apply(k, ARRAYS(before),
              &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32)),
                                    TEMPLATES(keel_kernel_int("N", (int)(in_source / 4))),
                                    .grid = {3, 1, 1}, .group = {3, 1, 1},
                                    .shared_bytes = in_call});
        mlx_array y = out_at(0), z = mlx_array_new();
        OK(mlx_add(&z, y, before, gpu));
        OK(mlx_multiply(&after, before, x, gpu));
        mlx_vector_array all = ARRAYS(before, z, after);
        OK(mlx_async_eval(all));
        mlx_vector_array_free(all);
        char says[64];
        snprintf(says, sizeof says, "this device has %zu", has);
        FAILS(mlx_array_eval(y), KEEL_EARG, says);
        FAILS(mlx_array_eval(z), KEEL_EARG, " bytes of shared memory in its source");
        const char *number = strstr(seen.text, "kernel 'hungry': ");
        size_t said = number ? strtoul(number + strlen("kernel 'hungry': "), NULL, 10) : 0;
        /* NVIDIA's OpenCL adds some bytes of its own. */
        assert_in_range(said, in_source, in_source + 64);
        mlx_array_free(y);
        mlx_array_free(z);
        ARE_INTS(before, 2, 4, 6);
        ARE_INTS(after, 2, 8, 18);
        before = mlx_array_new();
        after = mlx_array_new();
    }
    mlx_array_free(before);
    mlx_array_free(after);
    mlx_array_free(x);
}

static int two_at_most(struct kl_driver *p, void *kernel, struct kl_kernel_limits *limits,
                       struct kl_error **err) {
    *limits = (struct kl_kernel_limits){.max_local = 2};
    return KL_OK;
}

/* A kernel that needs so many registers that a group of the device's largest size does not fit. */
static void test_limits_of_groups(void **state) {
    struct kl_driver *driver = on_opencl() ? kl_opencl_driver(0) : NULL;
    mlx_array x = INTS(1, 2, 3);
    if (driver) {
        const struct kl_driver_ops *ops = driver->ops;
        struct kl_driver_ops mean = *ops;
        mean.limits = two_at_most;
        for (int n = 3; n > 1; n--) {
            keel_kernel k = keel_kernel_new("crowded", NAMES("x"), NAMES("y"),
                                            "if (gid() < 3) y[gid()] = x[gid()] + 1;", NULL, 0);
            driver->ops = &mean;
            apply(k, ARRAYS(x),
                  &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1},
                                        .group = {1, n, 1}});
            mlx_array y = out_at(0);
            if (n == 3)
                FAILS(mlx_array_eval(y), KEEL_EARG,
                      "group (1, 3, 1) is 3 threads; this device takes 2 of this kernel");
            else
                OK(mlx_array_eval(y));
            mlx_array_free(y);
            driver->ops = ops;
        }
    } else {
        /* The kernel has 240 values that are live until its end, in 1024 threads; 65536 registers
         * are not enough. CUDA's compiler knows the size of the group (__launch_bounds__) and
         * spills values, so every kernel of the dialect fits. */
        static char source[40000];
        size_t n = 0, room = sizeof source;
        for (int i = 0; i < 240; i++)
            n += (size_t)snprintf(
                source + n, room - n,
                "volatile GLOBAL i32 *p%d = (volatile GLOBAL i32 *)x + %d; i32 v%d = *p%d;\n", i,
                i % 3, i, i);
        n += (size_t)snprintf(source + n, room - n,
                              "i32 sum = 0;\nfor (int k = 0; k < x[0]; k++) {\n");
        for (int i = 0; i < 240; i++)
            n += (size_t)snprintf(source + n, room - n, "v%d = v%d * v%d + k;\n", i, i,
                                  (i + 1) % 240);
        n += (size_t)snprintf(source + n, room - n, "}\n");
        for (int i = 0; i < 240; i++)
            n += (size_t)snprintf(source + n, room - n, "sum += v%d;\n", i);
        snprintf(source + n, room - n, "y[gid() %% 3] = sum;\n");
        keel_kernel k = keel_kernel_new("crowded", NAMES("x"), NAMES("y"), source, NULL, 0);
        apply(k, ARRAYS(x),
              &(keel_kernel_config){OUTPUTS(FLAT(3, MLX_INT32)), .grid = {1024, 1, 1},
                                    .group = {1024, 1, 1}});
        mlx_array y = out_at(0);
        OK(mlx_array_eval(y));
        mlx_array_free(y);
    }
    mlx_array_free(x);
}

/* The requirements that a device does not meet are reported before the kernel runs. */
static void test_lacking_devices(void **state) {
    struct kl_driver *driver = getenv("KEEL_TEST_GPU") ? NULL : kl_opencl_driver(0);
    if (!driver) return;
    bool f64 = driver->has_f64, atomic64 = driver->has_atomic64;
    driver->has_f64 = driver->has_atomic64 = false;
    keel_kernel k = keel_kernel_new("wide", NULL, 0, NAMES("y"), "y[0] = 1;", NULL, 0);
    apply(k, no_vector,
          &(keel_kernel_config){OUTPUTS(FLAT(1, MLX_FLOAT64)), .grid = {1, 1, 1},
                                .group = {1, 1, 1}});
    mlx_array y = out_at(0);
    FAILS(mlx_array_eval(y), KEEL_EUNSUPPORTED, "no float64");
    mlx_array_free(y);
    mlx_array x = INTS(1, 2);
    raise_on(gpu, x, 2, 100, 1);
    y = out_at(0);
    FAILS(mlx_array_eval(y), KEEL_EUNSUPPORTED, "RAISE: that needs 64-bit atomics");
    mlx_array_free(y);
    mlx_array_free(x);
    driver->has_f64 = f64;
    driver->has_atomic64 = atomic64;
}

/* Shapes and strides are arguments, whose total size is limited. */
static void test_too_many_axes(void **state) {
    const int ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const char *names[20];
    char name[20][8];
    mlx_array x = mlx_array_new();
    mlx_vector_array in = mlx_vector_array_new();
    OK(mlx_zeros(&x, ones, 16, MLX_INT32, cpu));
    char source[1024] = "y[0] = 0;\n";
    for (int i = 0; i < 20; i++) {
        snprintf(name[i], sizeof name[i], "x%c", 'a' + i);
        names[i] = name[i];
        snprintf(source + strlen(source), 40, "y[0] += (i32)x%c_size;\n", 'a' + i);
        OK(mlx_vector_array_append_value(in, x));
    }
    keel_kernel k = keel_kernel_new("wide", names, 20, NAMES("y"), source, NULL, 0);
    apply(
        k, in,
        &(keel_kernel_config){OUTPUTS(FLAT(1, MLX_INT32)), .grid = {1, 1, 1}, .group = {1, 1, 1}});
    mlx_array y = out_at(0);
    if (getenv("KEEL_TEST_GPU") == NULL)
        FAILS(mlx_array_eval(y), KEEL_EUNSUPPORTED, "arguments take");
    mlx_array_free(y);
    mlx_array_free(x);
}

/* ---- bad calls ---- */

static void test_bad_definitions(void **state) {
    const char *const x[] = {"x"}, *const y[] = {"y"}, *const bad[] = {"1y"},
                      *const null[] = {NULL};
    const char *many[30];
    char names[30][16];
    for (int i = 0; i < 30; i++) {
        snprintf(names[i], sizeof names[i], "a%d", i);
        many[i] = names[i];
    }
    FAILS_ZERO(keel_kernel_new(NULL, x, 1, y, 1, "", NULL, 0).ctx, KEEL_EARG, "name");
    FAILS_ZERO(keel_kernel_new("a b", x, 1, y, 1, "", NULL, 0).ctx, KEEL_EARG, "identifier");
    FAILS_ZERO(keel_kernel_new("k", x, 1, y, 1, NULL, NULL, 0).ctx, KEEL_EARG, "source");
    FAILS_ZERO(keel_kernel_new("k", x, 1, y, 0, "", NULL, 0).ctx, KEEL_EARG, "no outputs");
    FAILS_ZERO(keel_kernel_new("k", NULL, 1, y, 1, "", NULL, 0).ctx, KEEL_EARG, "names is NULL");
    FAILS_ZERO(keel_kernel_new("k", x, 1, NULL, 1, "", NULL, 0).ctx, KEEL_EARG, "names is NULL");
    FAILS_ZERO(keel_kernel_new("k", x, 1, bad, 1, "", NULL, 0).ctx, KEEL_EARG, "'1y'");
    FAILS_ZERO(keel_kernel_new("k", null, 1, y, 1, "", NULL, 0).ctx, KEEL_EARG, "NULL");
    FAILS_ZERO(keel_kernel_new("k", y, 1, y, 1, "", NULL, 0).ctx, KEEL_EARG, "two arrays");
    FAILS_ZERO(keel_kernel_new("k", (const char *[]){"keel_x"}, 1, y, 1, "", NULL, 0).ctx,
               KEEL_EARG, "taken");
    FAILS_ZERO(keel_kernel_new("k", many, 30, y, 1, "", NULL, 0).ctx, KEEL_ELIMIT, "at most");
    FAILS_ZERO(keel_kernel_new("k", x, 1, y, 1, "", NULL, 8).ctx, KEEL_EARG, "flags");
    assert_int_equal(keel_kernel_free((keel_kernel){NULL}), 0);
}

static void test_bad_calls(void **state) {
    keel_kernel k = simple();
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = ARRAYS(x), two = ARRAYS(x, x);
    const keel_kernel_config ok = {OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1},
                                   .group = {1, 1, 1}};
    keel_kernel_config c = ok;
    const keel_kernel none = {NULL};
    FAILS(keel_kernel_apply(NULL, k, in, &c, gpu), KEEL_EARG, "result");
    FAILS(keel_kernel_apply(&outs, none, in, &c, gpu), KEEL_EARG, "empty handle");
    FAILS(keel_kernel_apply(&outs, k, no_vector, &c, gpu), KEEL_EARG, "inputs");
    FAILS(keel_kernel_apply(&outs, k, in, NULL, gpu), KEEL_EARG, "config");
    FAILS(keel_kernel_apply(&outs, k, in, &c, no_stream), KEEL_EARG, "stream");
    FAILS(keel_kernel_apply(&outs, k, two, &c, gpu), KEEL_EARG, "takes 1 inputs, not 2");
    FAILS(keel_kernel_apply(&outs, k, in, &c, cpu), KEEL_EUNSUPPORTED, "needs a GPU");
#define BAD(change, code, text)                                      \
    do {                                                             \
        c = ok;                                                      \
        change;                                                      \
        FAILS(keel_kernel_apply(&outs, k, in, &c, gpu), code, text); \
    } while (0)
    BAD(c.n_outputs = 0, KEEL_EARG, "1 outputs, and 0");
    BAD(c.outputs = NULL, KEEL_EARG, "list of outputs is NULL");
    BAD(c.n_outputs = 99, KEEL_ELIMIT, "too many");
    BAD(c.n_templates = 1, KEEL_EARG, "list of template arguments is NULL");
    for (int i = 0; i < 3; i++) {
        BAD(c.grid[i] = 0, KEEL_EARG, "grid (");
        BAD(c.grid[i] = -4, KEEL_EARG, "grid (");
        BAD(c.group[i] = 0, KEEL_EARG, "thread group (");
        BAD(c.group[i] = -1, KEEL_EARG, "thread group (");
    }
    BAD((c.group[0] = c.group[1] = 1 << 20), KEEL_EARG, "thread group (");
    BAD((c.grid[0] = c.grid[1] = c.grid[2] = INT_MAX), KEEL_ELIMIT, "over 2^63 - 1 threads");
    BAD((c.grid[0] = c.grid[1] = 1 << 30, c.grid[2] = 8), KEEL_ELIMIT,
        "(1073741824, 1073741824, 8)");
    /* The grid itself would fit. Rounded up to whole groups it does not. */
    BAD((c.grid[1] = c.grid[2] = INT_MAX, c.grid[0] = 2, c.group[0] = 4), KEEL_ELIMIT,
        "groups of (4, 1, 1)");
    BAD(c.shared_bytes = SIZE_MAX, KEEL_EARG, "shared memory");
    const keel_kernel_output negative = FLAT(-1, MLX_INT32), no_dtype = FLAT(3, (mlx_dtype)77),
                             no_shape = {NULL, 2, MLX_INT32}, bytes = FLAT(3, MLX_UINT8);
    BAD(c.outputs = &negative, KEEL_ESHAPE, "-1");
    BAD(c.outputs = &no_dtype, KEEL_EDTYPE, "77");
    BAD(c.outputs = &no_shape, KEEL_ESHAPE, "without dims");
    BAD((c.outputs = &bytes, c.has_init_value = true, c.init_value = -1), KEEL_EARG,
        "initial value");
    BAD((c.outputs = &bytes, c.has_init_value = true, c.init_value = NAN), KEEL_EARG,
        "initial value");
    keel_kernel_template t[2] = {keel_kernel_int("N", 1), keel_kernel_int("N", 2)};
    BAD((c.templates = t, c.n_templates = 2), KEEL_EARG, "twice");
    t[1].name = "x";
    BAD((c.templates = t, c.n_templates = 2), KEEL_EARG, "as an array");
    t[1].name = NULL;
    BAD((c.templates = t, c.n_templates = 2), KEEL_EARG, "template argument");
    t[1] = (keel_kernel_template){"T", KEEL_TEMPLATE_DTYPE, -3};
    BAD((c.templates = t, c.n_templates = 2), KEEL_EDTYPE, "-3");
    t[1] = (keel_kernel_template){"T", (enum keel_kernel_template_kind)9, 0};
    BAD((c.templates = t, c.n_templates = 2), KEEL_EARG, "kind");
    mlx_string text = mlx_string_new();
    FAILS(keel_kernel_source(NULL, k, in, &ok), KEEL_EARG, "result");
    FAILS(keel_kernel_source(&text, k, two, &ok), KEEL_EARG, "takes 1 inputs");
    OK(keel_kernel_source(&text, k, in, &ok));
    assert_non_null(strstr(mlx_string_data(text), "#line 1 \"simple\"\nif (gid() < y_size)"));
    mlx_string_free(text);
    OK(keel_kernel_apply(&outs, k, in, &ok, gpu));
    ARE_INTS(out_at(0), 1, 2, 3);
    keel_kernel_free(k);
    mlx_vector_array_free(in);
    mlx_vector_array_free(two);
    mlx_array_free(x);
}

/* ---- memory ---- */

/* Building: each allocation fails in turn. The kernels are compiled already. */
static void test_allocations(void **state) {
    mlx_array x = INTS(1, 2, 3), t = mlx_array_new();
    OK(mlx_array_eval(x));
    mlx_vector_array in = ARRAYS(x);
    keel_kernel_config c = {OUTPUTS(FLAT(3, MLX_INT32), FLAT(3, MLX_INT32)),
                            TEMPLATES(keel_kernel_int("N", 4)), .grid = {3, 1, 1},
                            .group = {3, 1, 1}, .has_init_value = true};
    mlx_array_size(no_array); /* the first run makes what exists once per thread */
    kl_until_quiet();
    for (int64_t n = -1; n < 300; n++) {
        kl_api_forget_error();
        int before = seen.n;
        int64_t live = kl_test_n_live();
        if (n >= 0) kl_test_fail_alloc_at(n);
        keel_kernel k = keel_kernel_new("alloc", NAMES("x"), NAMES("y", "z"),
                                        "i64 i = gid();\n"
                                        "if (i < x_size) y[i] = x[i] + N;\n",
                                        "#define UNUSED 1", 0);
        mlx_vector_array made = {NULL};
        mlx_string text = {NULL};
        bool failed = !k.ctx || keel_kernel_source(&text, k, in, &c) ||
                      keel_kernel_apply(&made, k, in, &c, gpu);
        bool fired = n < 0 || kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (failed) {
            assert_int_equal(seen.n, before + 1);
            assert_non_null(strstr(seen.text, "out of memory"));
        }
        keel_kernel_free(k);
        mlx_string_free(text);
        mlx_vector_array_free(made);
        kl_api_forget_error();
        assert_int_equal(kl_test_n_live(), live);
        if (!fired) {
            mlx_vector_array_free(in);
            mlx_array_free(x);
            mlx_array_free(t);
            return;
        }
    }
    fail_msg("no end of allocations");
}

/* Running: each allocation fails in turn. The array fails with "out of memory", or it has its
 * value. */
static void test_allocations_of_runs(void **state) {
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = ARRAYS(x);
    keel_kernel k = keel_kernel_new("alloc_run", NAMES("x"), NAMES("y"),
                                    "i64 i = gid();\n"
                                    "if (i < x_size) y[i] = x[i] + 4;\n"
                                    "if (x[0] < 0) RAISE(1, 1);\n",
                                    NULL, 0);
    keel_kernel_config c = {OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1}, .group = {3, 1, 1}};
    for (int64_t n = -1, quiet = 0; n < 2000 && quiet < 3; n++) {
        kl_api_forget_error();
        mlx_vector_array made = {NULL};
        mlx_array y = mlx_array_new();
        OK(keel_kernel_apply(&made, k, in, &c, gpu));
        OK(mlx_vector_array_get(&y, made, 0));
        if (n >= 0) kl_test_fail_alloc_at(n);
        int rc = mlx_array_eval(y);
        bool fired = n < 0 || kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (!rc) {
            const int *v = mlx_array_data_int32(y);
            assert_non_null(v);
            assert_int_equal(v[2], 7);
        }
        mlx_array_free(y);
        mlx_vector_array_free(made);
        quiet = fired ? 0 : quiet + 1;
    }
    keel_kernel_free(k);
    mlx_vector_array_free(in);
    mlx_array_free(x);
}

static void make_and_drop(void) {
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = ARRAYS(x), made = {NULL};
    keel_kernel k = simple();
    keel_kernel_config c = {OUTPUTS(FLAT(3, MLX_INT32)), .grid = {3, 1, 1}, .group = {1, 1, 1}};
    OK(keel_kernel_apply(&made, k, in, &c, gpu)); /* this array is never evaluated */
    keel_kernel_free(k);
    mlx_vector_array_free(in);
    mlx_vector_array_free(made);
    mlx_array_free(x);
}

static void test_no_leaks(void **state) {
    assert_no_leak(make_and_drop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_functions_of_opencl),
        cmocka_unit_test(test_several_outputs),
        cmocka_unit_test(test_no_inputs_and_three_dimensions),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_atomic_histogram),
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_empty_arrays),
        cmocka_unit_test(test_raise),
        cmocka_unit_test(test_many_raises),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_guard_of_raise),
        cmocka_unit_test(test_compile_error),
        cmocka_unit_test(test_device_limits),
        cmocka_unit_test(test_limits_of_kernels),
        cmocka_unit_test(test_limits_of_groups),
        cmocka_unit_test(test_lacking_devices),
        cmocka_unit_test(test_too_many_axes),
        cmocka_unit_test(test_bad_definitions),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_allocations_of_runs),
        cmocka_unit_test(test_no_leaks),
    };
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
