/* bench_pingpong.c - what it costs when a value goes between CPU and GPU. Each hop negates the
 * array on the other side. It prints the median time of a hop over the rounds. With
 * KEEL_ZERO_COPY=0 it shows what copies cost on a device that shares memory with the host; with
 * KEEL_ZERO_COPY=map, what mapping costs there. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mlx/c/mlx.h"

enum { ROUNDS = 15, HOPS = 20 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void check(int rc) {
    if (rc) exit(1);
}

static int smaller(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static double hops(int n, mlx_stream even, mlx_stream odd) {
    mlx_array x = mlx_array_new(), y = mlx_array_new();
    check(mlx_zeros(&x, &n, 1, MLX_FLOAT32, even));
    check(mlx_array_eval(x));
    double t0 = now_us();
    for (int i = 0; i < HOPS; i++) {
        check(mlx_negative(&y, x, i % 2 ? odd : even));
        check(mlx_array_eval(y));
        check(mlx_array_set(&x, y));
    }
    if (mlx_array_data_float32(x)[n - 1] != 0) exit(1);
    double t = (now_us() - t0) / HOPS;
    mlx_array_free(x);
    mlx_array_free(y);
    return t;
}

static double median(int n, mlx_stream even, mlx_stream odd) {
    double t[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) t[i] = hops(n, even, odd);
    qsort(t, ROUNDS, sizeof *t, smaller);
    return t[ROUNDS / 2];
}

int main(void) {
    mlx_stream gpu = mlx_default_gpu_stream_new(), cpu = mlx_default_cpu_stream_new();
    const char *mode = getenv("KEEL_ZERO_COPY");
    if (!gpu.ctx) return 0; /* there is no GPU */
    printf("KEEL_ZERO_COPY=%s; microseconds per hop\n%12s %10s %10s %10s\n",
           mode ? mode : "(not set)", "bytes", "gpu-cpu", "gpu only", "cpu only");
    for (int n = 1 << 8; n <= 1 << 24; n <<= 4) {
        double across = median(n, gpu, cpu), device = median(n, gpu, gpu),
               host = median(n, cpu, cpu);
        printf("%12zu %10.1f %10.1f %10.1f\n", (size_t)n * sizeof(float), across, device, host);
    }
    mlx_stream_free(gpu);
    mlx_stream_free(cpu);
    return 0;
}
