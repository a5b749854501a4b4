/* test_kernel_errors.c - custom kernels that compilers or devices (KEEL_TEST_GPU: opencl unless
 * set; cuda) refuse, and calls that are refused. */
#include <limits.h>
#include <math.h>

#include "backend/gpu/driver.h"
#include "backend/opencl/opencl.h"
#include "kernel_support.h"

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
    bool f64 = driver->has_f64;
    driver->has_f64 = false;
    keel_kernel k = keel_kernel_new("wide", NULL, 0, NAMES("y"), "y[0] = 1;", NULL, 0);
    apply(k, no_vector,
          &(keel_kernel_config){OUTPUTS(FLAT(1, MLX_FLOAT64)), .grid = {1, 1, 1},
                                .group = {1, 1, 1}});
    mlx_array y = out_at(0);
    FAILS(mlx_array_eval(y), KEEL_EUNSUPPORTED, "no float64");
    mlx_array_free(y);
    driver->has_f64 = f64;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile_error),     cmocka_unit_test(test_device_limits),
        cmocka_unit_test(test_limits_of_kernels), cmocka_unit_test(test_limits_of_groups),
        cmocka_unit_test(test_lacking_devices),   cmocka_unit_test(test_too_many_axes),
        cmocka_unit_test(test_bad_definitions),   cmocka_unit_test(test_bad_calls),
    };
    if (getenv("KEEL_TEST_ONLY")) cmocka_set_test_filter(getenv("KEEL_TEST_ONLY"));
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
