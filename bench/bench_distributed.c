/* bench_distributed.c - all_sum next to MPI's own blocking sum on plain memory, in one run, by
 * turns: the median of the ratios. Started by a launcher:
 *
 *     mpirun -n 2 build/release/bench/bench_distributed [PAIRS]
 *
 * For small sums the bound is MPI's sum and one of 8 bytes, since each carries its status. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <keel/error.h>
#include <mlx/c/mlx.h>

/* MPI's sum of float32 under either binary interface. */
static void *library;
static bool is_open;

static void find_library(void) {
    static const char *const names[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
    for (int i = 0; i < 3 && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    is_open = library && dlsym(library, "ompi_mpi_comm_world");
}

static void mpi_sum(const void *from, void *to, int n) {
    void *f = dlsym(library, "MPI_Allreduce");
    if (is_open) {
        int (*call)(const void *, void *, int, void *, void *, void *);
        memcpy(&call, &f, sizeof call);
        (void)call(from, to, n, dlsym(library, "ompi_mpi_float"), dlsym(library, "ompi_mpi_op_sum"),
                   dlsym(library, "ompi_mpi_comm_world"));
    } else {
        int (*call)(const void *, void *, int, int, int, int);
        memcpy(&call, &f, sizeof call);
        (void)call(from, to, n, 0x4c00040a, 0x58000003, 0x44000000);
    }
}

static void give_up(const char *call) {
    keel_error_info e = {.size = sizeof e};
    keel_last_error(&e);
    fprintf(stderr, "bench_distributed: %s in %s\n", e.message, call);
    exit(1);
}
#define OK(call)                  \
    do {                          \
        if (call) give_up(#call); \
    } while (0)

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* Microseconds of one of `repeats` sums through Keel; x stays, as a gradient does. */
static double keel_time(mlx_array x, int repeats, mlx_stream s) {
    const mlx_distributed_group world = {NULL};
    const double start = now_us();
    for (int i = 0; i < repeats; i++) {
        mlx_array y = mlx_array_new();
        OK(mlx_distributed_all_sum(&y, x, world, s));
        OK(mlx_array_eval(y));
        mlx_array_free(y);
    }
    return (now_us() - start) / repeats;
}

static double mpi_time(const float *x, float *y, int n, int repeats) {
    const double start = now_us();
    for (int i = 0; i < repeats; i++) mpi_sum(x, y, n);
    return (now_us() - start) / repeats;
}

enum { MOST_PAIRS = 200 };

static void compare(int n, int pairs, int rank, mlx_stream s) {
    static double keel[MOST_PAIRS], mpi[MOST_PAIRS], ratio[MOST_PAIRS], over[MOST_PAIRS];
    const int repeats = n <= 4096 ? 200 : n <= 1 << 20 ? 20 : 1;
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y), one[2] = {1};
    if (!x || !y) exit(1);
    for (int i = 0; i < n; i++) x[i] = (float)(i % 100);
    mlx_array a = mlx_array_new_data(x, &n, 1, MLX_FLOAT32);
    (void)keel_time(a, repeats, s);
    (void)mpi_time(x, y, n, repeats);
    for (int i = 0; i < pairs; i++) {
        keel[i] = keel_time(a, repeats, s);
        mpi[i] = mpi_time(x, y, n, repeats);
        ratio[i] = keel[i] / mpi[i];
        over[i] = keel[i] - mpi[i] - mpi_time(one, one + 1, 1, repeats);
    }
    if (rank == 0)
        printf("%9d bytes: Keel %9.1f us, MPI %9.1f us, ratio %.3f; over MPI and a small sum: "
               "%.1f us\n",
               4 * n, median(keel, pairs), median(mpi, pairs), median(ratio, pairs),
               median(over, pairs));
    mlx_array_free(a);
    free(x);
    free(y);
}

int main(int argc, char **argv) {
    int pairs = argc > 1 ? atoi(argv[1]) : 15;
    if (pairs < 1 || pairs > MOST_PAIRS) pairs = 15;
    keel_errors_return();
    mlx_distributed_group world = mlx_distributed_group_new();
    mlx_stream s = mlx_default_cpu_stream_new();
    OK(mlx_distributed_init(&world, true, "mpi"));
    find_library();
    const int rank = mlx_distributed_group_rank(world);
    if (mlx_distributed_group_size(world) < 2 || !library) {
        fprintf(stderr, "bench_distributed: start it with a launcher, as several ranks\n");
        return 1;
    }
    for (int n = 1; n <= 16 << 20; n *= 16) compare(n, pairs, rank, s);
    mlx_distributed_group_free(world);
    mlx_stream_free(s);
    return 0;
}
