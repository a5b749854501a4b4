/* bench_launch.c - what it costs to launch a small kernel: with CUDA's driver alone, with a CUDA
 * graph, and with Keel, whose operations here cannot become one kernel. The three run in turn in
 * one process. Printed are medians, in microseconds for each kernel of a chain in which every
 * kernel waits for the one before. The time of Keel includes encoding, checks of indices (gather)
 * and settling. At last a compiled function of SHORT kernels, beside a graph of as many that was
 * launched before; both until the device has nothing to do. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mlx/c/mlx.h"

enum { CHAIN = 2000, SHORT = 200, ROUNDS = 21, N = 8 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int smaller(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static void check(int rc, const char *what) {
    if (!rc) return;
    fprintf(stderr, "%s failed with %d\n", what, rc);
    exit(1);
}

/* ---- CUDA alone ---- */

static char tiny[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry tiny(.param .u64 a, .param .u64 b, .param .u64 c) {\n"
    ".reg .b64 %rd<4>; .reg .f32 %f<2>; .reg .b32 %r<2>;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, "
    "4;\n"
    "add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;\n"
    "ld.global.f32 %f1, [%rd1]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd2], %f1; ret; }\n";

static void *cuda, *stream, *kernel;
static unsigned long long memory;

static int call(const char *name, void *a, void *b, void *c, void *d) {
    int (*f)(void *, void *, void *, void *) = NULL;
    void *p = dlsym(cuda, name);
    if (!p) return -1;
    *(void **)&f = p;
    return f(a, b, c, d);
}
#define CUDA(name, ...) check(call(name, __VA_ARGS__), name)
#define NUMBER(x) ((void *)(size_t)(x))

static int cuda_open(void) {
    void *context, *module;
    if (!(cuda = dlopen("libcuda.so.1", RTLD_NOW)) || call("cuInit", 0, 0, 0, 0)) return 0;
    CUDA("cuDevicePrimaryCtxRetain", &context, NUMBER(0), 0, 0);
    CUDA("cuCtxSetCurrent", context, 0, 0, 0);
    CUDA("cuStreamCreate", &stream, NUMBER(1), 0, 0);
    CUDA("cuModuleLoadData", &module, tiny, 0, 0);
    CUDA("cuModuleGetFunction", &kernel, module, (void *)"tiny", 0);
    CUDA("cuMemAlloc_v2", &memory, NUMBER(4096), 0, 0);
    return 1;
}

static void launch_all(int chain) {
    static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
    if (!launch) *(void **)&launch = dlsym(cuda, "cuLaunchKernel");
    for (int i = 0; i < chain; i++) {
        unsigned long long b = memory + 1024, c = 0;
        void *args[] = {&memory, &b, &c};
        check(launch(kernel, 1, 1, 1, N, 1, 1, 0, stream, args, NULL), "cuLaunchKernel");
    }
}

static void until_done(void) {
    CUDA("cuStreamSynchronize", stream, 0, 0, 0);
}

static double raw_us(void) {
    double t = now_us();
    launch_all(CHAIN);
    until_done();
    return (now_us() - t) / CHAIN;
}

/* A graph that is captured, made and launched once, as a framework must do for a command buffer
 * that it sees once. *again: the time of a second launch. */
static double graph_us(int chain, double *again) {
    void *graph, *made;
    double t = now_us();
    CUDA("cuStreamBeginCapture_v2", stream, NUMBER(1), 0, 0);
    launch_all(chain);
    CUDA("cuStreamEndCapture", stream, &graph, 0, 0);
    CUDA("cuGraphInstantiateWithFlags", &made, graph, 0, 0);
    CUDA("cuGraphLaunch", made, stream, 0, 0);
    until_done();
    t = (now_us() - t) / chain;
    *again = now_us();
    CUDA("cuGraphLaunch", made, stream, 0, 0);
    until_done();
    *again = (now_us() - *again) / chain;
    CUDA("cuGraphExecDestroy", made, 0, 0, 0);
    CUDA("cuGraphDestroy", graph, 0, 0, 0);
    return t;
}

/* ---- Keel ---- */

static mlx_stream gpu;

static mlx_array floats(void) {
    float v[N] = {0.5F, 1, 0.25F, 2, 0.125F, 3, 0.5F, 0.75F};
    int n = N;
    mlx_array host = mlx_array_new_data(v, &n, 1, MLX_FLOAT32), x = mlx_array_new();
    check(mlx_copy(&x, host, gpu) || mlx_array_eval(x), "mlx_copy");
    mlx_array_free(host);
    return x;
}

static mlx_array places(void) {
    int v[N] = {1, 2, 3, 4, 5, 6, 7, 0}, n = N;
    mlx_array host = mlx_array_new_data(v, &n, 1, MLX_INT32), x = mlx_array_new();
    check(mlx_copy(&x, host, gpu) || mlx_array_eval(x), "mlx_copy");
    mlx_array_free(host);
    return x;
}

/* *host: the time until mlx_async_eval returns. The caller encodes the work and hands it over
 * itself, since the device is idle. */
static double keel_us(int gathers, double *host) {
    mlx_array x = floats(), at = places();
    for (int i = 0; i < CHAIN; i++)
        check(gathers ? mlx_take(&x, x, at, gpu) : mlx_softmax_axis(&x, x, 0, false, gpu), "Keel");
    mlx_vector_array all = mlx_vector_array_new_value(x);
    double t = now_us();
    check(mlx_async_eval(all), "mlx_async_eval");
    *host = (now_us() - t) / CHAIN;
    check(mlx_synchronize(gpu), "mlx_synchronize");
    t = (now_us() - t) / CHAIN;
    mlx_vector_array_free(all);
    mlx_array_free(at);
    mlx_array_free(x);
    return t;
}

static int softmaxes(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new();
    int rc = mlx_vector_array_get(&x, in, 0);
    for (int i = 0; i < SHORT; i++) rc = rc || mlx_softmax_axis(&x, x, 0, false, gpu);
    if (!rc) *res = mlx_vector_array_new_value(x);
    mlx_array_free(x);
    return rc;
}

/* One call of a compiled function of SHORT softmaxes, evaluated. */
static double compiled_us(mlx_closure f, mlx_vector_array in) {
    mlx_vector_array out = mlx_vector_array_new();
    double t = now_us();
    check(mlx_closure_apply(&out, f, in) || mlx_eval(out), "the compiled function");
    t = (now_us() - t) / SHORT;
    mlx_vector_array_free(out);
    return t;
}

static double median(double *v) {
    qsort(v, ROUNDS, sizeof *v, smaller);
    return v[ROUNDS / 2];
}

int main(void) {
    double raw[ROUNDS], once[ROUNDS], again[ROUNDS], softmax[ROUNDS], gather[ROUNDS],
        host[2][ROUNDS], compiled[ROUNDS], short_graph[ROUNDS];
    gpu = mlx_default_gpu_stream_new();
    if (!gpu.ctx) return 0; /* there is no GPU */
    int with_cuda = cuda_open();
    keel_us(0, host[0]);
    keel_us(1, host[1]);
    mlx_closure plain = mlx_closure_new_func(softmaxes), f = mlx_closure_new();
    mlx_array x = floats();
    mlx_vector_array in = mlx_vector_array_new_value(x);
    check(mlx_compile(&f, plain, false), "mlx_compile");
    for (int i = 0; i < 3; i++) compiled_us(f, in);
    for (int i = 0; i < ROUNDS; i++) {
        if (with_cuda) raw[i] = raw_us();
        if (with_cuda) graph_us(SHORT, &short_graph[i]);
        compiled[i] = compiled_us(f, in);
        if (with_cuda) once[i] = graph_us(CHAIN, &again[i]);
        softmax[i] = keel_us(0, &host[0][i]);
        gather[i] = keel_us(1, &host[1][i]);
    }
    double s = median(softmax), g = median(gather);
    printf("microseconds per kernel of a chain of %d\n", CHAIN);
    printf("Keel, softmax of %d: %.2f, of the caller %.2f\n", N, s, median(host[0]));
    printf("Keel, checked gather of %d: %.2f, of the caller %.2f\n", N, g, median(host[1]));
    printf("Keel, a compiled function of %d softmaxes: %.2f\n", SHORT, median(compiled));
    mlx_vector_array_free(in);
    mlx_array_free(x);
    mlx_closure_free(f);
    mlx_closure_free(plain);
    if (!with_cuda) return 0;
    double r = median(raw);
    printf("cuLaunchKernel: %.2f\ngraph, made and launched once: %.2f; launched again: %.2f\n"
           "Keel over cuLaunchKernel: %.2f and %.2f\n"
           "a graph of %d, launched again: %.2f; Keel, compiled, over it: %.2f\n",
           r, median(once), median(again), s / r, g / r, SHORT, median(short_graph),
           median(compiled) / median(short_graph));
    mlx_stream_free(gpu);
    return 0;
}
