/* bench_devices.c - operations of models on the CPU and on the GPU device; where there is no GPU,
 * that is PoCL, the processor again. Prints a row of a table for each case: the median
 * times of interleaved rounds, and how many times as long the device takes. `bench_devices text`
 * runs only cases with that text in their names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mlx/c/mlx.h"

enum { ROUNDS = 9, ROWS = 2048, LONG = 1 << 20, HEADS = 8, WIDTH = 64, KEYS = 1024 };

static mlx_stream stream;
static mlx_array x, row, flat, heads, query, key, value, none;

static void check(int rc) {
    if (rc) exit(1);
}

static mlx_array normal(int n, const int *shape) {
    mlx_array a = mlx_array_new();
    check(mlx_random_normal(&a, shape, (size_t)n, MLX_FLOAT32, 0, 1, none, stream));
    check(mlx_array_eval(a));
    return a;
}

#define CASE(name, call)            \
    static int name(mlx_array *r) { \
        return call;                \
    }
CASE(rms_norm, mlx_fast_rms_norm(r, x, row, 1e-5F, stream))
CASE(layer_norm, mlx_fast_layer_norm(r, x, row, row, 1e-5F, stream))
CASE(softmax, mlx_softmax_axis(r, x, 1, false, stream))
CASE(rope,
     mlx_fast_rope(r, heads, WIDTH, false, (mlx_optional_float){10000, true}, 1, 0, none, stream))
CASE(cumsum, mlx_cumsum(r, flat, 0, false, true, stream))
CASE(cumsum_rows, mlx_cumsum(r, x, 1, false, true, stream))
CASE(cumsum_columns, mlx_cumsum(r, x, 0, false, true, stream))
CASE(sum_rows, mlx_sum_axis(r, x, 1, false, stream))
CASE(sum_columns, mlx_sum_axis(r, x, 0, false, stream))
CASE(all_rows, mlx_all_axis(r, x, 1, false, stream))
CASE(prod_columns, mlx_prod_axis(r, x, 0, false, stream))
CASE(var_rows, mlx_var_axis(r, x, 1, false, 0, stream))
CASE(var_columns, mlx_var_axis(r, x, 0, false, 0, stream))
CASE(logsumexp_rows, mlx_logsumexp_axis(r, x, 1, false, stream))
CASE(sort, mlx_sort_axis(r, flat, 0, stream))
CASE(argsort, mlx_argsort_axis(r, flat, 0, stream))
CASE(sort_rows, mlx_sort_axis(r, x, 1, stream))
CASE(top_64, mlx_topk_axis(r, x, 64, 1, stream))
CASE(decode,
     mlx_fast_scaled_dot_product_attention(r, query, key, value, 0.125F, "", none, none, stream))
CASE(prefill,
     mlx_fast_scaled_dot_product_attention(r, key, key, value, 0.125F, "", none, none, stream))
CASE(prefill_causal, mlx_fast_scaled_dot_product_attention(r, key, key, value, 0.125F, "causal",
                                                           none, none, stream))

static const struct {
    const char *name;
    int (*start)(mlx_array *r);
} cases[] = {{"rms_norm of 2048 x 2048", rms_norm},
             {"layer_norm of 2048 x 2048", layer_norm},
             {"softmax of 2048 x 2048", softmax},
             {"rope, 8 heads of 1024 x 64", rope},
             {"cumsum of 1 M", cumsum},
             {"cumsum of rows of 2048 x 2048", cumsum_rows},
             {"cumsum of columns", cumsum_columns},
             {"sum of rows", sum_rows},
             {"sum of columns", sum_columns},
             {"all of rows", all_rows},
             {"prod of columns", prod_columns},
             {"var of rows", var_rows},
             {"var of columns", var_columns},
             {"logsumexp of rows", logsumexp_rows},
             {"sort of 1 M", sort},
             {"argsort of 1 M", argsort},
             {"sort of 2048 rows of 2048", sort_rows},
             {"top 64 of 2048 rows of 2048", top_64},
             {"attention, 1 query, 8 heads, 1024 keys", decode},
             {"attention, 1024 queries, 8 heads, 1024 keys", prefill},
             {"the same, causal", prefill_causal}};
enum { N_CASES = sizeof cases / sizeof *cases };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int smaller(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static double once(int (*start)(mlx_array *r)) {
    mlx_array r = mlx_array_new();
    double t = now_ms();
    check(start(&r));
    check(mlx_array_eval(r));
    check(mlx_synchronize(stream));
    t = now_ms() - t;
    mlx_array_free(r);
    return t;
}

int main(int argc, char **argv) {
    mlx_stream on[] = {mlx_default_cpu_stream_new(), mlx_default_gpu_stream_new()};
    mlx_array in[2][7];
    if (!on[1].ctx) return 0; /* there is no device */
    for (int d = 0; d < 2; d++) {
        stream = on[d];
        in[d][0] = normal(2, (int[]){ROWS, ROWS});
        in[d][1] = normal(1, (int[]){ROWS});
        in[d][2] = normal(1, (int[]){LONG});
        in[d][3] = normal(4, (int[]){1, HEADS, KEYS, WIDTH});
        in[d][4] = normal(4, (int[]){1, HEADS, 1, WIDTH});
        in[d][5] = normal(4, (int[]){1, HEADS, KEYS, WIDTH});
        in[d][6] = normal(4, (int[]){1, HEADS, KEYS, WIDTH});
    }
    printf("| case, float32 | CPU, ms | device, ms | device / CPU |\n|---|---|---|---|\n");
    for (int c = 0; c < N_CASES; c++) {
        double t[2][ROUNDS];
        if (argc > 1 && !strstr(cases[c].name, argv[1])) continue;
        for (int i = -1; i < ROUNDS; i++) /* the first round compiles */
            for (int d = 0; d < 2; d++) {
                const mlx_array *a = in[d];
                stream = on[d];
                x = a[0], row = a[1], flat = a[2], heads = a[3], query = a[4];
                key = a[5], value = a[6];
                double ms = once(cases[c].start);
                if (i >= 0) t[d][i] = ms;
            }
        for (int d = 0; d < 2; d++) qsort(t[d], ROUNDS, sizeof *t[d], smaller);
        printf("| %s | %.2f | %.2f | %.2f |\n", cases[c].name, t[0][ROUNDS / 2], t[1][ROUNDS / 2],
               t[1][ROUNDS / 2] / t[0][ROUNDS / 2]);
        fflush(stdout);
    }
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < 7; i++) mlx_array_free(in[d][i]);
        mlx_stream_free(on[d]);
    }
    return 0;
}
