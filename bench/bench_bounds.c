/* bench_bounds.c - what bounds checks cost: gathers and scatters with and without checks, in turn,
 * in one process and on the same memory.
 *
 * bench_bounds [cpu|gpu [gather|scatter|scatter_add]]: on a GPU unless "cpu" is given; all three
 * operations unless one is given. KEEL_BENCH_ROUNDS: 16. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/op/bounds.h"
#include "mlx/c/mlx.h"

/* Each round times every case in three modes, in changing order: with checks, without, and without
 * once more. The medians over the rounds are printed: of the ratio of the first mode to the second,
 * which is the cost of the checks, and of the ratio of the third to the second, which is the noise
 * of the machine. Two processes, or two copies of the library, would not do: the addresses of the
 * blocks alone make a difference of 15 % on a CPU. */
enum { MAX_ROUNDS = 100, N_MODES = 3, WITH = 0, WITHOUT = 1, AGAIN = 2 };
enum kind { GATHER, SCATTER, SCATTER_ADD };
static const double least_us = 1e4; /* shortest time of one measurement */

static const struct bench_case {
    enum kind kind;
    int rows, width, n; /* an array of (rows, width), n indices; width 0: of (rows) */
} cases[] = {
    {GATHER, 100, 64, 1000000},           {GATHER, 100, 1024, 100000},
    {GATHER, 1000000, 128, 1000000},      {GATHER, 1000000, 0, 20000000},
    {SCATTER, 10, 64, 1000000},           {SCATTER, 100000, 64, 1000000},
    {SCATTER, 1000000, 64, 100000},       {SCATTER, 100000, 0, 1000000},
    {SCATTER, 200000, 0, 20000000},       {SCATTER, 20000000, 0, 20000000},
    {SCATTER, 10000, 64, 1000000},        {SCATTER_ADD, 10, 64, 1000000},
    {SCATTER_ADD, 100000, 64, 1000000},   {SCATTER_ADD, 1000000, 64, 100000},
    {SCATTER_ADD, 100000, 0, 1000000},    {SCATTER_ADD, 200000, 0, 20000000},
    {SCATTER_ADD, 20000000, 0, 20000000}, {SCATTER_ADD, 10000, 64, 1000000},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static mlx_stream stream;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int smaller(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static double median(const double *v, int n) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, smaller);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void check(int rc, const char *what) {
    if (!rc) return;
    fprintf(stderr, "bench_bounds: %s failed\n", what);
    exit(1);
}

static uint32_t draw(void) {
    static uint64_t state = 1;
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(z >> 32);
}

/* An array on the device: floats between 0 and 1 or, if below > 0, integers from 0 to below - 1. */
static mlx_array random_array(int ndim, const int *shape, int below) {
    size_t n = 1;
    for (int d = 0; d < ndim; d++) n *= (size_t)shape[d];
    uint32_t *v = malloc(n * sizeof *v);
    check(!v, "malloc");
    for (size_t i = 0; i < n; i++) {
        float f = (float)draw() / 0x1p32F;
        if (below)
            v[i] = (uint32_t)((uint64_t)draw() * (uint64_t)below >> 32);
        else
            memcpy(&v[i], &f, sizeof f);
    }
    mlx_array host = mlx_array_new_data(v, shape, ndim, below ? MLX_INT32 : MLX_FLOAT32),
              x = mlx_array_new();
    free(v);
    check(mlx_copy(&x, host, stream) || mlx_array_eval(x), "mlx_copy");
    mlx_array_free(host);
    return x;
}

struct operands {
    mlx_array a, index, updates;
};

static double run(const struct bench_case *c, const struct operands *o, int mode, int repeat) {
    kl_bounds_measure(mode == WITH);
    check(mlx_synchronize(stream), "mlx_synchronize");
    double t = now_us();
    for (int i = 0; i < repeat; i++) {
        mlx_array out = mlx_array_new();
        check(c->kind == GATHER ? mlx_take_axis(&out, o->a, o->index, 0, stream)
              : c->kind == SCATTER
                  ? mlx_scatter_single(&out, o->a, o->index, o->updates, 0, stream)
                  : mlx_scatter_add_single(&out, o->a, o->index, o->updates, 0, stream),
              "the operation");
        mlx_vector_array all = mlx_vector_array_new_value(out);
        mlx_array_free(out);
        check(mlx_async_eval(all), "mlx_async_eval");
        mlx_vector_array_free(all);
    }
    check(mlx_synchronize(stream), "mlx_synchronize");
    return (now_us() - t) / repeat;
}

/* By how many percent the first mode takes longer than the second. */
static double more(double t[][MAX_ROUNDS], int first, int second, int rounds) {
    double ratio[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratio[r] = t[first][r] / t[second][r];
    return 100 * (median(ratio, rounds) - 1);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"gather", "scatter", "scatter_add"};
    const char *given = getenv("KEEL_BENCH_ROUNDS");
    int rounds = given ? atoi(given) : 16, n = 0;
    double cost[N_CASES], noise[N_CASES], t[N_MODES][MAX_ROUNDS];
    if (rounds < 1 || rounds > MAX_ROUNDS) rounds = 16;
    stream = argc > 1 && strcmp(argv[1], "cpu") == 0 ? mlx_default_cpu_stream_new()
                                                     : mlx_default_gpu_stream_new();
    if (!stream.ctx) return 0; /* there is no such device */
    for (int k = 0; k < N_CASES; k++) {
        const struct bench_case *c = &cases[k];
        if (argc > 2 && strcmp(argv[2], names[c->kind]) != 0) continue;
        int ndim = c->width ? 2 : 1, shape[] = {c->rows, c->width};
        int update[] = {c->n, 1, c->width};
        struct operands o = {random_array(ndim, shape, 0), random_array(1, &c->n, c->rows),
                             c->kind == GATHER ? mlx_array_new()
                                               : random_array(ndim + 1, update, 0)};
        for (int mode = 0; mode < 2; mode++) run(c, &o, mode, 2);
        double once = run(c, &o, WITH, 2);
        int repeat = once > least_us ? 1 : (int)(least_us / once) + 1;
        for (int r = 0; r < rounds; r++)
            for (int m = 0; m < N_MODES; m++) {
                int mode = r % 2 ? N_MODES - 1 - (m + r) % N_MODES : (m + r) % N_MODES;
                t[mode][r] = run(c, &o, mode, repeat);
            }
        cost[n] = more(t, WITH, WITHOUT, rounds);
        noise[n] = more(t, AGAIN, WITHOUT, rounds);
        printf("%-12s (%d, %d) by %-9d %10.4f ms checked %+6.2f %%, nothing %+6.2f %%\n",
               names[c->kind], c->rows, c->width, c->n, median(t[WITH], rounds) * 1e-3, cost[n],
               noise[n]);
        n++;
        fflush(stdout);
        mlx_array_free(o.a);
        mlx_array_free(o.index);
        mlx_array_free(o.updates);
    }
    if (n == 0) return 1;
    double middle = median(cost, n);
    qsort(cost, (size_t)n, sizeof *cost, smaller);
    qsort(noise, (size_t)n, sizeof *noise, smaller);
    printf("checks: median %+.2f %%, most %+.2f %%; nothing: from %+.2f to %+.2f %%\n", middle,
           cost[n - 1], noise[0], noise[n - 1]);
    mlx_stream_free(stream);
    return 0;
}
