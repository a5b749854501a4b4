/* bench_core.c - what the core costs: one tiny operation, many that cannot be fused, a wait between
 * streams, threads on two processors, the bookkeeping of buffers, the size of the library, and
 * loading it. Each figure is the median of rounds that are interleaved over all cases, with its
 * interquartile range; a target is printed beside it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/value/buffer.h"
#include "graph/array.h"
#include "mlx/c/mlx.h"
#include "platform/system.h"

enum { ROUNDS = 21 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static mlx_stream s0, s1;

static void check(int rc) {
    if (rc) exit(1);
}

static double tiny(void) {
    enum { N = 20000 };
    mlx_array a = mlx_array_new_float(1), b = mlx_array_new_float(2), r = mlx_array_new();
    float v, sum = 0;
    double t0 = now_ns();
    for (int i = 0; i < N; i++) {
        check(mlx_add(&r, a, b, s0));
        check(mlx_array_item_float32(&v, r));
        sum += v;
    }
    double t = (now_ns() - t0) / N;
    check(sum != 3.0f * N);
    mlx_array_free(a);
    mlx_array_free(b);
    mlx_array_free(r);
    return t;
}

/* A chain that alternates between two streams, or stays on one. It consists of reductions of one
 * element, which cannot be fused. */
static double chain(int n, mlx_stream even, mlx_stream odd, bool with_build) {
    float x[1] = {1};
    int shape[1] = {1};
    mlx_array a = mlx_array_new_data(x, shape, 1, MLX_FLOAT32);
    double t0 = now_ns();
    for (int i = 0; i < n; i++) check(mlx_sum_axis(&a, a, 0, true, i % 2 ? odd : even));
    double t1 = now_ns();
    check(mlx_array_eval(a));
    double t2 = now_ns();
    mlx_array_free(a);
    return (t2 - (with_build ? t0 : t1)) / n;
}

static double unfusable(void) {
    return chain(2000, s0, s0, true);
}

static double hop(void) {
    return chain(2000, s0, s1, false);
}

/* The alternating chain, handed over by mlx_async_eval and run by the threads of the pool alone. */
static double hop_async(void) {
    float x[1] = {1};
    int shape[1] = {1};
    mlx_array a = mlx_array_new_data(x, shape, 1, MLX_FLOAT32);
    for (int i = 0; i < 2000; i++) check(mlx_sum_axis(&a, a, 0, true, i % 2 ? s1 : s0));
    mlx_vector_array v = mlx_vector_array_new_value(a);
    double t0 = now_ns();
    check(mlx_async_eval(v));
    check(mlx_synchronize(s0));
    check(mlx_synchronize(s1));
    double t = (now_ns() - t0) / 2000;
    mlx_vector_array_free(v);
    mlx_array_free(a);
    return t;
}

/* Independent small graphs: 20 operations on 64 elements each. */
enum { GRAPHS = 25600 };

static void *graphs(void *arg) {
    int n = (int)(intptr_t)arg, shape[1] = {64};
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = (float)i;
    mlx_stream s = mlx_default_cpu_stream_new();
    for (int g = 0; g < n; g++) {
        mlx_array a = mlx_array_new_data(x, shape, 1, MLX_FLOAT32), r = mlx_array_new();
        check(mlx_exp(&r, a, s));
        for (int i = 0; i < 19; i++) check(i % 2 ? mlx_add(&r, r, a, s) : mlx_sqrt(&r, r, s));
        check(mlx_array_eval(r));
        mlx_array_free(a);
        mlx_array_free(r);
    }
    mlx_stream_free(s);
    return NULL;
}

static double scale(void) {
    pthread_t t[32];
    double t0 = now_ns();
    graphs((void *)(intptr_t)GRAPHS);
    double one = now_ns() - t0;
    t0 = now_ns();
    for (int i = 0; i < 32; i++)
        pthread_create(&t[i], NULL, graphs, (void *)(intptr_t)(GRAPHS / 32));
    for (int i = 0; i < 32; i++) pthread_join(t[i], NULL);
    return one / (now_ns() - t0);
}

/* The work for each bound buffer: note the use, compare at the hand-over, begin a new tenancy. */
static double bookkeeping(void) {
    enum { N = 200000 };
    struct kl_array *a = NULL;
    int shape[1] = {64};
    check(kl_array_new_data(&a, NULL, KL_F32, 1, shape, NULL));
    struct kl_stream *s = NULL;
    check(kl_stream_default(&s, KL_CPU, 0, NULL));
    struct kl_timeline *t = kl_stream_timeline(s);
    struct kl_block *b = a->t.buffer->block;
    int ok = 0;
    double t0 = now_ns();
    for (int i = 0; i < N; i++) {
        ok += kl_block_note_use(b, t, kl_timeline_done(t));
        ok += !kl_block_free_for(b, NULL);
        kl_block_begin(b, t);
    }
    double ns = (now_ns() - t0) / N;
    check(ok);
    kl_array_release(a);
    kl_stream_release(s);
    return ns;
}

/* The time to load the library in a fresh process, where no part of it is mapped yet;
 * milliseconds. */
static double loading(void) {
    int fd[2];
    double ms = -1;
    check(pipe(fd));
    /* A fork would make every page of this process copy-on-write, which would slow the next case
     * down. */
    char path[4096], number[16], load[] = "--load";
    check(b_self(path, sizeof path) == 0);
    snprintf(number, sizeof number, "%d", fd[1]);
    char *args[] = {path, load, number, NULL};
    const pid_t pid = b_spawn(path, args);
    check(pid < 0);
    close(fd[1]);
    if (read(fd[0], &ms, sizeof ms) != (ssize_t)sizeof ms) ms = -1;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return ms;
}

static const char *library_path(const char *self) {
    static char path[4200];
    snprintf(path, sizeof path, "%s", self);
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = 0;
    }
    strcat(strcat(path, "/"), b_library);
    return path;
}

static int child_load(const char *self, int fd) {
    double t0 = now_ns();
    void *lib = dlopen(library_path(self), RTLD_NOW | RTLD_LOCAL);
    double ms = (now_ns() - t0) / 1e6;
    if (!lib) fprintf(stderr, "%s\n", dlerror());
    return lib && write(fd, &ms, sizeof ms) == (ssize_t)sizeof ms ? 0 : 1;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--load")) return child_load(argv[0], atoi(argv[2]));
    s0 = mlx_default_cpu_stream_new();
    mlx_device cpu = mlx_device_new_type(MLX_CPU, 0);
    s1 = mlx_stream_new_device(cpu);
    static const struct {
        const char *what, *unit;
        double (*run)(void);
        double target;
        bool more_is_better;
    } cases[] = {
        {"one tiny operation built, evaluated, read", "ns", tiny, 1000, false},
        {"2,000 that cannot fuse, built and evaluated", "ns each", unfusable, 500, false},
        {"hop between two CPU streams", "ns", hop, 5000, false},
        {"the same on the pool alone", "ns", hop_async, 5000, false},
        {"32 threads over one, small graphs", "times", scale, 1.6, true},
        {"bookkeeping per bound buffer", "ns", bookkeeping, 5, false},
        {"loading libkeel.so", "ms", loading, 5, false},
    };
    enum { N = sizeof cases / sizeof *cases };
    static double v[N][ROUNDS];
    for (int c = 0; c < N; c++) cases[c].run(); /* warm-up */
    for (int r = 0; r < ROUNDS; r++)
        for (int c = 0; c < N; c++) v[c][r] = cases[c].run();
    for (int c = 0; c < N; c++) {
        qsort(v[c], ROUNDS, sizeof(double), by_value);
        double median = v[c][ROUNDS / 2];
        bool met = cases[c].more_is_better ? median >= cases[c].target : median < cases[c].target;
        printf("%-46s %9.2f %-8s (%.2f to %.2f; wanted %s %g) %s\n", cases[c].what, median,
               cases[c].unit, v[c][ROUNDS / 4], v[c][ROUNDS - 1 - ROUNDS / 4],
               cases[c].more_is_better ? "at least" : "under", cases[c].target,
               met ? "" : "MISSED");
    }
    struct stat st;
    if (stat(library_path(argv[0]), &st) == 0)
        printf("%-46s %9.2f %-8s (wanted under 3) %s\n", "libkeel.so", (double)st.st_size / 1e6,
               "MB", st.st_size < 3000000 ? "" : "MISSED");
    mlx_device_free(cpu);
    mlx_stream_free(s0);
    mlx_stream_free(s1);
    return 0;
}
