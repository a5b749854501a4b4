/* bench_load.c - loads a warm safetensors file of 256 MB into usable arrays, and compares that with
 * the same number of threads that only pread the same ranges into fresh memory. Prints the median
 * of the ratios of throughput (ours / pread) with its 95 % interval, over interleaved pairs in one
 * process whose order alternates. pread fills fresh memory on huge pages, which Keel uses too and
 * is the harder comparison, and then memory from malloc. Counted for Keel: opening, header, arrays
 * and evaluation. Freeing memory is counted for neither; Keel's cache of blocks is emptied before
 * each round, so that its memory is as fresh as the other. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <keel/load.h>
#include <mlx/c/mlx.h>

#include "platform/system.h"

enum { N_TENSORS = 64, TENSOR = 4 << 20, HUGE = 2 << 20, N_THREADS = 4, N_PAIRS = 25 };

static const char *path = "/tmp/keel-bench-load.safetensors";
static size_t data_begin;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int failed, const char *what) {
    if (!failed) return;
    fprintf(stderr, "bench_load: %s failed\n", what);
    exit(1);
}

static void make_file(void) {
    mlx_map_string_to_array tensors = mlx_map_string_to_array_new();
    mlx_map_string_to_string metadata = mlx_map_string_to_string_new();
    float *data = malloc(TENSOR);
    check(!data, "malloc");
    for (int i = 0; i < N_TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d.weight", i);
        for (int k = 0; k < TENSOR / 4; k++) data[k] = (float)(i + k);
        mlx_array a = mlx_array_new_data(data, (int[]){1024, TENSOR / 4096}, 2, MLX_FLOAT32);
        check(mlx_map_string_to_array_insert(tensors, name, a), "insert");
        mlx_array_free(a);
    }
    check(mlx_save_safetensors(path, tensors, metadata), "save");
    mlx_map_string_to_array_free(tensors);
    mlx_map_string_to_string_free(metadata);
    free(data);
    keel_file f = keel_file_open(path, KEEL_FORMAT_SAFETENSORS);
    keel_tensor t;
    check(keel_file_tensor(&t, f, 0), "list");
    data_begin = (size_t)t.byte_begin;
    keel_file_free(f);
}

/* ---- Keel ---- */
static double ours(mlx_stream cpu) {
    mlx_clear_cache();
    mlx_map_string_to_array tensors = mlx_map_string_to_array_new();
    mlx_map_string_to_string metadata = mlx_map_string_to_string_new();
    double begin = now();
    check(mlx_load_safetensors(&tensors, &metadata, path, cpu), "load");
    mlx_vector_array all = mlx_vector_array_new();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(tensors);
    const char *key;
    mlx_array a = mlx_array_new();
    while (mlx_map_string_to_array_iterator_next(&key, &a, it) == 0)
        mlx_vector_array_append_value(all, a);
    check(mlx_eval(all), "eval");
    double seconds = now() - begin;
    const float *p = mlx_array_data_float32(a);
    check(!p || p[1] - p[0] != 1.0f, "value");
    mlx_array_free(a);
    mlx_map_string_to_array_iterator_free(it);
    mlx_vector_array_free(all);
    mlx_map_string_to_array_free(tensors);
    mlx_map_string_to_string_free(metadata);
    return seconds;
}

/* ---- pread alone ---- */
struct worker {
    pthread_t thread;
    int fd, first;
    bool huge;
    char *raw[N_TENSORS / N_THREADS];
};

static void *work(void *arg) {
    struct worker *w = arg;
    for (int i = 0; i < N_TENSORS / N_THREADS; i++) {
        char *to;
        if (w->huge) { /* aligned here, because mmap only promises the alignment of a small page */
            w->raw[i] = mmap(NULL, TENSOR + HUGE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            to = (char *)(((uintptr_t)w->raw[i] + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
            b_prefer_large_pages(to, TENSOR);
        } else {
            to = w->raw[i] = malloc(TENSOR);
        }
        off_t at = (off_t)data_begin + (off_t)(w->first + i * N_THREADS) * TENSOR;
        for (size_t got = 0; got < TENSOR;) {
            ssize_t n = pread(w->fd, to + got, TENSOR - got, at + (off_t)got);
            check(n <= 0, "pread");
            got += (size_t)n;
        }
    }
    return NULL;
}

static double pread_alone(bool huge) {
    struct worker workers[N_THREADS];
    double begin = now();
    int fd = open(path, O_RDONLY);
    check(fd < 0, "open");
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.fd = fd, .first = i, .huge = huge};
        check(pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(workers[i].thread, NULL);
    double seconds = now() - begin;
    close(fd);
    for (int i = 0; i < N_THREADS; i++)
        for (int k = 0; k < N_TENSORS / N_THREADS; k++) {
            if (huge)
                munmap(workers[i].raw[k], TENSOR + HUGE);
            else
                free(workers[i].raw[k]);
        }
    return seconds;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    mlx_stream cpu = mlx_default_cpu_stream_new();
    make_file();
    ours(cpu);
    for (int huge = 1; huge >= 0; huge--) {
        double ratio[N_PAIRS], best_ours = 1e9, best_pread = 1e9;
        pread_alone(huge);
        for (int i = 0; i < N_PAIRS; i++) {
            double base = i % 2 ? pread_alone(huge) : 0;
            double mine = ours(cpu);
            if (!(i % 2)) base = pread_alone(huge);
            ratio[i] = base / mine;
            if (mine < best_ours) best_ours = mine;
            if (base < best_pread) best_pread = base;
        }
        qsort(ratio, N_PAIRS, sizeof *ratio, compare);
        /* The interval from the 8th to the 18th of 25 sorted values holds the median with 95.7
         * %. */
        printf("load: safetensors 256 MB warm, %d threads: %.0f %% of pread into fresh %s memory "
               "[%.0f, %.0f], best %.1f ms "
               "against %.1f ms\n",
               N_THREADS, 100 * ratio[N_PAIRS / 2], huge ? "huge-page" : "malloc", 100 * ratio[7],
               100 * ratio[17], 1e3 * best_ours, 1e3 * best_pread);
    }
    mlx_stream_free(cpu);
    unlink(path);
    return 0;
}
