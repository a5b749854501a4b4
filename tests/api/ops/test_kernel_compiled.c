/* test_kernel_compiled.c - kernels of programs that are compiled already: on the fake driver of
 * tests/backend/cuda, which knows these kernels by name, and with KEEL_TEST_GPU=cuda on a real
 * device, for which NVRTC compiles them. */
#include <keel/kernel.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include "api/handles/handles.h"
#include "api/api_support.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/gpu/gpu_internal.h"
#include "base/alloc.h"
#include "platform/self.h"

static const char source[] =
    "extern \"C\" __global__ void affine(const int *x, int *y, int n, float scale, bool negate) {\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = (int)(x[i] * scale) * (negate ? -1 : 1);\n"
    "}\n"
    "extern \"C\" __global__ void pick(const int *x, int *y) { y[0] = x[x[0]]; }\n"
    "extern \"C\" __global__ void first(int *y) { y[0] = 5; }\n"
    "extern \"C\" __global__ void places(int *y) {\n"
    "    extern __shared__ int part[];\n"
    "    int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
    "    part[i] = 1000 * blockIdx.z + 100 * blockIdx.y + 10 * blockIdx.x;\n"
    "    __syncthreads();\n"
    "    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
    "    int n = blockDim.x * blockDim.y * blockDim.z;\n"
    "    y[block * n + i] = part[n - 1 - i] + i;\n"
    "}\n";

static mlx_stream gpu;
static mlx_vector_array outs; /* the arrays of the last call */
static mlx_vector_array none; /* a list of no arrays */
static bool real;

/* PTX, and on a real device a CUBIN too; without a device a text that passes for PTX. */
enum { MAX_PROGRAMS = 2 };
static struct {
    char *bytes;
    size_t n;
} programs[MAX_PROGRAMS];
static int n_programs;

static void compile_programs(void) {
    const struct kl_nvrtc_api *api = kl_nvrtc_api(NULL);
    const struct kl_cuda *d = kl_cuda_of(
        kl_gpu_device_of(kl_stream_backend(((struct kl_stream_box *)gpu.ctx)->stream))->driver);
    char arch[48];
    for (int i = 0; i < MAX_PROGRAMS; i++, n_programs++) {
        void *p = NULL;
        snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d", i ? "sm" : "compute",
                 kl_nvrtc_arch(d->cc));
        assert_int_equal(api->CreateProgram(&p, source, "test", 0, NULL, NULL), 0);
        assert_int_equal(api->CompileProgram(p, 1, (const char *[]){arch}), 0);
        assert_int_equal(
            i ? api->GetCUBINSize(p, &programs[i].n) : api->GetPTXSize(p, &programs[i].n), 0);
        programs[i].bytes = malloc(programs[i].n);
        assert_int_equal(
            i ? api->GetCUBIN(p, programs[i].bytes) : api->GetPTX(p, programs[i].bytes), 0);
        assert_int_equal(api->DestroyProgram(&p), 0);
    }
}

static int set_up(void **state) {
    static char self[4096], path[4200];
    const char *want = getenv("KEEL_TEST_GPU");
    real = want && strcmp(want, "cuda") == 0;
    setenv("KEEL_GPU", "cuda", 1);
    setenv("KEEL_CACHE_DIR", "", 1);
    if (!real) {
        (void)t_self(self, sizeof self);
        const char *dir = dirname(self);
        snprintf(path, sizeof path, "%s/fake/lib64/libcuda.so", dir);
        setenv("KEEL_CUDA_DRIVER", path, 1);
        snprintf(path, sizeof path, "%s/fake", dir);
        setenv("KEEL_CUDA_PATH", path, 1);
    }
    if (api_setup(state)) return -1;
    gpu = mlx_default_gpu_stream_new();
    if (!gpu.ctx) {
        print_error("no device: %s\n", seen.text);
        return -1;
    }
    outs = mlx_vector_array_new();
    none = mlx_vector_array_new();
    if (real) {
        compile_programs();
    } else {
        programs[0].bytes = strdup(".version 8.0\n.target sm_90\n");
        programs[0].n = strlen(programs[0].bytes);
        n_programs = 1;
        printf(
            "NOT TESTED: programs of CUDA itself; the device is tests/backend/cuda/fake_cuda.c\n");
    }
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < n_programs; i++) free(programs[i].bytes);
    mlx_vector_array_free(outs);
    mlx_vector_array_free(none);
    mlx_stream_free(gpu);
    return api_teardown(state);
}

/* ---- helpers ---- */

#define OUTPUT(dtype, ...)                                                                    \
    .outputs = &(const keel_kernel_output){LIST(__VA_ARGS__), (int)N_OF(__VA_ARGS__), dtype}, \
    .n_outputs = 1

static keel_kernel_scalar number(int i) {
    return (keel_kernel_scalar){KEEL_SCALAR_INT, {.i = i}};
}
static keel_kernel_scalar real_number(float f) {
    return (keel_kernel_scalar){KEEL_SCALAR_FLOAT, {.f = f}};
}
static keel_kernel_scalar truth(bool b) {
    return (keel_kernel_scalar){KEEL_SCALAR_BOOL, {.b = b}};
}

/* y = (int)(x * scale), negated or not, by program `which`; puts the list into *made. */
static int affine_of(mlx_vector_array *made, int which, mlx_vector_array in, int n, float scale,
                     bool negate, unsigned flags) {
    const keel_kernel_scalar scalars[] = {number(n), real_number(scale), truth(negate)};
    const keel_kernel_config c = {OUTPUT(MLX_INT32, n), .grid = {n, 1, 1}, .group = {4, 1, 1}};
    return keel_kernel_apply_compiled(made, "affine", programs[which].bytes, programs[which].n, in,
                                      scalars, 3, &c, flags, gpu);
}
static void affine(int which, mlx_array x, int n, float scale, bool negate, unsigned flags) {
    mlx_vector_array in = mlx_vector_array_new_value(x);
    OK(affine_of(&outs, which, in, n, scale, negate, flags));
    mlx_vector_array_free(in);
}

static mlx_array out_at(size_t i) {
    mlx_array a = mlx_array_new();
    OK(mlx_vector_array_get(&a, outs, i));
    return a;
}

/* Compares the values of output 0. */
static void assert_ints(const int *values, size_t n) {
    mlx_array a = out_at(0);
    OK(mlx_array_eval(a));
    assert_int_equal(mlx_array_size(a), n);
    const int *got = mlx_array_data_int32(a);
    for (size_t i = 0; i < n; i++)
        if (got[i] != values[i]) fail_msg("element %zu is %d, not %d", i, got[i], values[i]);
    mlx_array_free(a);
}
#define ARE_INTS(...) assert_ints(LIST(__VA_ARGS__), N_OF(__VA_ARGS__))

/* ---- what they can do ---- */

static void test_scalars(void **state) {
    mlx_array x = INTS(1, -2, 3, 4, 5);
    for (int i = 0; i < n_programs; i++)
        for (unsigned flags = 0; flags < 2; flags++) {
            affine(i, x, 5, 2.5f, false, flags);
            ARE_INTS(2, -5, 7, 10, 12);
            affine(i, x, 3, 3, true, flags);
            ARE_INTS(-3, 6, -9);
        }
    mlx_array_free(x);
}

/* Without KEEL_KERNEL_STRIDED the elements are in row order, with it as they lie in memory. */
static void test_strides(void **state) {
    mlx_array x = grid(2, 3), t = mlx_array_new();
    OK(mlx_transpose(&t, x, gpu));
    affine(0, t, 6, 1, false, 0);
    ARE_INTS(0, 3, 1, 4, 2, 5);
    affine(0, t, 6, 1, false, KEEL_KERNEL_STRIDED);
    ARE_INTS(0, 1, 2, 3, 4, 5);
    mlx_array_free(x);
    mlx_array_free(t);
}

/* No inputs, and an output that is filled before the kernel writes a part of it. */
static void test_initial_value(void **state) {
    const keel_kernel_config c = {OUTPUT(MLX_INT32, 2, 2), .grid = {1, 1, 1}, .group = {1, 1, 1},
                                  .has_init_value = true, .init_value = -3};
    for (int i = 0; i < n_programs; i++) {
        OK(keel_kernel_apply_compiled(&outs, "first", programs[i].bytes, programs[i].n, none, NULL,
                                      0, &c, 0, gpu));
        ARE_INTS(5, -3, -3, -3);
    }
}

/* The program need not outlive the call, nor the outputs of the call the list. */
static void test_copies(void **state) {
    mlx_array x = INTS(1, 2, 3);
    char *bytes = programs[0].bytes;
    programs[0].bytes = malloc(programs[0].n);
    memcpy(programs[0].bytes, bytes, programs[0].n);
    affine(0, x, 3, 2, false, 0);
    memset(programs[0].bytes, 0, programs[0].n);
    free(programs[0].bytes);
    programs[0].bytes = bytes;
    mlx_array_free(x);
    ARE_INTS(2, 4, 6);
}

/* ---- on a real device only ---- */

static bool only_real(const char *what) {
    if (!real) printf("NOT TESTED: %s\n", what);
    return real;
}

/* All dimensions, and dynamic shared memory of more bytes than every kernel may have. */
static void test_geometry(void **state) {
    if (!only_real("the geometry of a launch")) return;
    const keel_kernel_config c = {OUTPUT(MLX_INT32, 64), .grid = {3, 4, 4}, .group = {2, 2, 1},
                                  .shared_bytes = 64 << 10};
    OK(keel_kernel_apply_compiled(&outs, "places", programs[1].bytes, programs[1].n, none, NULL, 0,
                                  &c, 0, gpu));
    int want[64];
    for (int i = 0; i < 64; i++) {
        int block = i / 4;
        want[i] = 1000 * (block / 4) + 100 * (block / 2 % 2) + 10 * (block % 2) + i % 4;
    }
    assert_ints(want, 64);
}

/* Kernels of the library before and behind, of which each may start before the one before it is
 * complete. The kernel between them does not know that. */
static void test_order(void **state) {
    enum { N = 1 << 22, ROUNDS = 40 };
    if (!only_real("the order of kernels")) return;
    mlx_array x = mlx_array_new(), one = mlx_array_new_int(1), all = mlx_array_new();
    OK(mlx_zeros(&x, LIST(N), 1, MLX_INT32, gpu));
    const keel_kernel_config c = {OUTPUT(MLX_INT32, N), .grid = {N, 1, 1}, .group = {256, 1, 1}};
    for (int i = 0; i < ROUNDS; i++) {
        /* Several kernels that do not fuse, so that they are launched as a chain. */
        for (int k = 0; k < 4; k++) {
            OK(mlx_add(&x, x, one, gpu));
            OK(mlx_cummax(&x, x, 0, false, true, gpu));
        }
        mlx_vector_array in = mlx_vector_array_new_value(x);
        const keel_kernel_scalar scalars[] = {number(N), real_number(1), truth(true)};
        OK(keel_kernel_apply_compiled(&outs, "affine", programs[i % 2].bytes, programs[i % 2].n, in,
                                      scalars, 3, &c, 0, gpu));
        mlx_vector_array_free(in);
        OK(mlx_vector_array_get(&x, outs, 0));
        OK(mlx_negative(&x, x, gpu));
    }
    OK(mlx_array_eval(x));
    const int *v = mlx_array_data_int32(x);
    for (int i = 0; i < N; i++)
        if (v[i] != 4 * ROUNDS) fail_msg("element %d is %d, not %d", i, v[i], 4 * ROUNDS);
    mlx_array_free(x);
    mlx_array_free(one);
    mlx_array_free(all);
}

/* ---- failures ---- */

/* What failed on the device leaves 1 << 30, which would be the index of a wild read. The kernel
 * behind it reads zeros instead. */
static void test_guards(void **state) {
    mlx_vector_array raised = mlx_vector_array_new();
    keel_kernel k = keel_kernel_new("raising", NULL, 0, (const char *[]){"y"}, 1,
                                    "y[gid()] = 1 << 30;\nRAISE(7, 3);\n", NULL, 0);
    assert_non_null(k.ctx);
    const keel_kernel_config c = {OUTPUT(MLX_INT32, 1), .grid = {1, 1, 1}, .group = {1, 1, 1}};
    for (int several = 0; several < 2; several++) {
        mlx_array in[2] = {{NULL}, {NULL}};
        for (int i = 0; i <= several; i++) {
            OK(keel_kernel_apply(&raised, k, none, &c, gpu));
            OK(mlx_vector_array_get(&in[i], raised, 0));
        }
        mlx_vector_array list = mlx_vector_array_new_data(in, 1);
        OK(keel_kernel_apply_compiled(&outs, "pick", programs[0].bytes, programs[0].n, list, NULL,
                                      0, &c, 0, gpu));
        mlx_array y = out_at(0);
        FAILS(mlx_array_eval(y), KEEL_EKERNEL, "raised 7 at position 3");
        mlx_array_free(y);
        mlx_vector_array_free(list);
        for (int i = 0; i <= several; i++) mlx_array_free(in[i]);
    }
    keel_kernel_free(k);
    mlx_vector_array_free(raised);
    /* The device is still there. */
    mlx_array x = INTS(0);
    affine(0, x, 1, 1, false, 0);
    ARE_INTS(0);
    mlx_array_free(x);
}

/* Programs that the device does not take: their arrays fail, and nothing else. */
static void test_bad_programs(void **state) {
    static const char elf[64] = "\177ELF\2\1\1";
    static const char fatbin[24] = "\x50\xED\x55\xBA\1\0\x10\0\xff\xff\0\0";
    static const struct {
        const char *bytes;
        size_t n;
        const char *name, *says;
    } rows[] = {{"x", 1, "first", "no PTX, CUBIN or fatbin"},
                {source, sizeof source, "first", "no PTX, CUBIN or fatbin"},
                {elf, sizeof elf, "first", "only a part"},
                {elf, 5, "first", "only a part"},
                {fatbin, sizeof fatbin, "first", "only a part"},
                {".version 9.9\n.target sm_999\n", 28, "first", "does not take"},
                {NULL, 0, "missing", "no kernel 'missing'"}};
    const keel_kernel_config c = {OUTPUT(MLX_INT32, 1), .grid = {1, 1, 1}, .group = {1, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const void *bytes = rows[i].bytes ? rows[i].bytes : programs[0].bytes;
        OK(keel_kernel_apply_compiled(&outs, rows[i].name, bytes,
                                      rows[i].bytes ? rows[i].n : programs[0].n, none, NULL, 0, &c,
                                      0, gpu));
        mlx_array y = out_at(0);
        FAILS(mlx_array_eval(y), KEEL_ECOMPILE, rows[i].says);
        mlx_array_free(y);
    }
    /* Each part of a CUBIN is refused. */
    for (size_t n = 0; n_programs > 1 && n < programs[1].n; n += programs[1].n / 50) {
        OK(keel_kernel_apply_compiled(&outs, "first", programs[1].bytes, n ? n : 1, none, NULL, 0,
                                      &c, 0, gpu));
        mlx_array y = out_at(0);
        FAILS(mlx_array_eval(y), KEEL_ECOMPILE, "first");
        mlx_array_free(y);
    }
    test_initial_value(state);
}

static void test_limits_of_the_device(void **state) {
    const keel_kernel_config rows[] = {
        {OUTPUT(MLX_INT32, 1), .grid = {4096, 1, 1}, .group = {4096, 1, 1}},
        {OUTPUT(MLX_INT32, 1), .grid = {1, 1, 1}, .group = {1, 1, 1}, .shared_bytes = 1 << 30}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(keel_kernel_apply_compiled(&outs, "first", programs[0].bytes, programs[0].n, none, NULL,
                                      0, &rows[i], 0, gpu));
        mlx_array y = out_at(0);
        FAILS(mlx_array_eval(y), KEEL_EARG, "this device");
        mlx_array_free(y);
    }
}

static void test_bad_calls(void **state) {
    const char *p = programs[0].bytes;
    const size_t n = programs[0].n;
    const keel_kernel_scalar strange = {(enum keel_kernel_scalar_kind)9, {.i = 0}}, one = number(1);
    const keel_kernel_scalar many[40] = {{KEEL_SCALAR_INT, {.i = 0}}};
    const keel_kernel_template t = keel_kernel_int("T", 1);
    const keel_kernel_output outputs[25] = {{NULL, 0, MLX_INT32}};
    keel_kernel_config c = {OUTPUT(MLX_INT32, 1), .grid = {1, 1, 1}, .group = {1, 1, 1}}, bad = c;
#define CALL(name, program, bytes, scalars, n_scalars, config, flags, stream)                 \
    keel_kernel_apply_compiled(&outs, name, program, bytes, none, scalars, n_scalars, config, \
                               flags, stream)
    FAILS(keel_kernel_apply_compiled(NULL, "first", p, n, none, NULL, 0, &c, 0, gpu), KEEL_EARG,
          "result");
    FAILS(keel_kernel_apply_compiled(&outs, "first", p, n, no_vector, NULL, 0, &c, 0, gpu),
          KEEL_EARG, "empty");
    FAILS(CALL(NULL, p, n, NULL, 0, &c, 0, gpu), KEEL_EARG, "name is NULL");
    FAILS(CALL("", p, n, NULL, 0, &c, 0, gpu), KEEL_EARG, "no name");
    FAILS(CALL("first", NULL, n, NULL, 0, &c, 0, gpu), KEEL_EARG, "program is NULL");
    FAILS(CALL("first", p, 0, NULL, 0, &c, 0, gpu), KEEL_EARG, "no bytes");
    FAILS(CALL("first", p, n, NULL, 1, &c, 0, gpu), KEEL_EARG, "scalars is NULL");
    FAILS(CALL("first", p, n, &strange, 1, &c, 0, gpu), KEEL_EARG, "kind 9");
    FAILS(CALL("first", p, n, many, 40, &c, 0, gpu), KEEL_ELIMIT, "40 scalars");
    FAILS(CALL("first", p, n, many, 32, &c, 0, gpu), KEEL_ELIMIT, "1 arrays and 32 scalars");
    FAILS(CALL("first", p, n, &one, 1, NULL, 0, gpu), KEEL_EARG, "config is NULL");
    FAILS(CALL("first", p, n, NULL, 0, &c, 8, gpu), KEEL_EARG, "flags");
    FAILS(CALL("first", p, n, NULL, 0, &c, 0, no_stream), KEEL_EARG, "empty");
    FAILS(CALL("first", p, n, NULL, 0, &c, 0, cpu), KEEL_EUNSUPPORTED,
          "compiled program (PTX, CUBIN or fatbin), and needs a GPU with CUDA");
    bad.n_outputs = 0;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EARG, "no outputs");
    bad = c;
    bad.outputs = outputs;
    bad.n_outputs = 25;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_ELIMIT, "25 outputs");
    bad = c;
    bad.templates = &t;
    bad.n_templates = 1;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EARG, "no template arguments");
    bad = c;
    bad.outputs = &(keel_kernel_output){LIST(1), 1, (mlx_dtype)99};
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EDTYPE, "99 is no dtype");
    bad.outputs = &(keel_kernel_output){LIST(-1), 1, MLX_INT32};
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_ESHAPE, "-1");
    bad = c;
    bad.group[1] = 0;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EARG, "thread group");
    bad = c;
    bad.grid[2] = 0;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EARG, "grid");
    bad = c;
    bad.has_init_value = true;
    bad.init_value = 1e20f;
    FAILS(CALL("first", p, n, NULL, 0, &bad, 0, gpu), KEEL_EARG, "initial value");
#undef CALL
}

/* Each allocation of the call fails in turn, and then each of a run. */
static void test_allocations(void **state) {
    mlx_array x = INTS(1, 2, 3);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    affine(0, x, 3, 2, false, 0);
    ARE_INTS(2, 4, 6);
    kl_until_quiet();
    int64_t n = 0;
    for (bool fired = true; fired; n++) {
        kl_api_forget_error();
        const int before = seen.n;
        const int64_t live = kl_test_n_live();
        mlx_vector_array made = {NULL};
        kl_test_fail_alloc_at(n);
        const int rc = affine_of(&made, 0, in, 3, 2, false, 0);
        fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_int_equal(seen.n, before + (rc != 0));
        if (rc) assert_non_null(strstr(seen.text, "out of memory"));
        mlx_vector_array_free(made);
        kl_api_forget_error();
        assert_int_equal(kl_test_n_live(), live);
    }
    assert_true(n > 3);
    for (int64_t k = 0, quiet = 0; k < 2000 && quiet < 3; k++) {
        kl_api_forget_error();
        affine(0, x, 3, 2, false, 0);
        mlx_array y = out_at(0);
        kl_test_fail_alloc_at(k);
        const int rc = mlx_array_eval(y);
        quiet = kl_test_alloc_failed() ? 0 : quiet + 1;
        kl_test_fail_alloc_at(-1);
        if (!rc) assert_int_equal(mlx_array_data_int32(y)[2], 6);
        mlx_array_free(y);
    }
    mlx_vector_array_free(in);
    mlx_array_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scalars),
                                       cmocka_unit_test(test_strides),
                                       cmocka_unit_test(test_initial_value),
                                       cmocka_unit_test(test_copies),
                                       cmocka_unit_test(test_geometry),
                                       cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_guards),
                                       cmocka_unit_test(test_bad_programs),
                                       cmocka_unit_test(test_limits_of_the_device),
                                       cmocka_unit_test(test_bad_calls),
                                       cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
