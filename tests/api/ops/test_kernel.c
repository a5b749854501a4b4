/* test_kernel.c - custom kernels in the common dialect, through the public API, on a real
 * device (KEEL_TEST_GPU: opencl unless set; cuda, metal): results, the errors that they raise, and
 * memory. */
#include "kernel_support.h"

#include "backend/gpu/driver.h"
#include "backend/opencl/opencl_internal.h"

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
            if (on_metal() && dtypes[d] == MLX_FLOAT64) {
                FAILS(mlx_array_eval(out), KEEL_EUNSUPPORTED, "no float64");
                mlx_array_free(out);
                continue;
            }
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
        if (on_metal() && cases[i].dtype == MLX_FLOAT64) continue;
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

/* Of one position the smallest code, of one work-item the smallest position; in several groups of
 * three dimensions. */
static void test_smallest_raise(void **state) {
    static const char *const source = "i64 i = gid();\n"
                                      "y[i] = 1;\n"
                                      "RAISE(1000, 600);\n"
                                      "if (i % 7 == 3) RAISE(500 - i, 40);\n"
                                      "RAISE(1, 41 + i);\n"
                                      "if (i == 9) RAISE(2000, 40);\n";
    apply(keel_kernel_new("picky", NULL, 0, NAMES("y"), source, header_of_raising, 0), no_vector,
          &(keel_kernel_config){OUTPUTS(FLAT(16 * 6 * 4, MLX_INT32)), .grid = {16, 6, 4},
                                .group = {8, 3, 2}});
    mlx_array y = out_at(0);
    check_raised(y, 500 - 381, 40);
    mlx_array_free(y);
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

/* OpenCL's device as one whose atomics are of 32 bits. */
static void test_raise_without_64_bits(void **state) {
    struct kl_driver *driver = on_opencl() ? kl_opencl_driver(0) : NULL;
    if (!driver || !driver->has_atomic64) return;
    static const char option[] = " -DHAS_ATOMIC64";
    char *const options[] = {kl_opencl_of(driver)->options, kl_opencl_of(driver)->brief_options};
    char *at[2];
    for (int i = 0; i < 2; i++)
        if ((at[i] = strstr(options[i], option))) memset(at[i], ' ', strlen(option));
    assert_non_null(at[0]);
    driver->has_atomic64 = false;
    header_of_raising = "/* compiled without */\n";
    test_raise(state);
    test_smallest_raise(state);
    test_guard_of_raise(state);
    /* The workspace is memory that the device may not have. */
    mlx_array x = iota(8);
    apply(keel_kernel_new("picky", NAMES("x"), NAMES("y"), "if (x[0] < 0) RAISE(1, 1);", NULL, 0),
          ARRAYS(x),
          &(keel_kernel_config){OUTPUTS(FLAT(1, MLX_INT32)), .grid = {1 << 30, 1 << 10, 1},
                                .group = {64, 1, 1}});
    mlx_array y = out_at(0);
    FAILS(mlx_array_eval(y), KEEL_ENOMEM, "memory");
    mlx_array_free(y);
    mlx_array_free(x);
    for (int i = 0; i < 2; i++)
        if (at[i]) memcpy(at[i], option, strlen(option));
    driver->has_atomic64 = true;
    header_of_raising = NULL;
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
        cmocka_unit_test(test_smallest_raise),
        cmocka_unit_test(test_many_raises),
        cmocka_unit_test(test_guards),
        cmocka_unit_test(test_guard_of_raise),
        cmocka_unit_test(test_raise_without_64_bits),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_allocations_of_runs),
        cmocka_unit_test(test_no_leaks),
    };
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
