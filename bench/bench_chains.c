/* bench_chains.c - what transforms cost before anything is evaluated: vjp, jvp and vmap of a
 * chain of a million multiplications by a constant beside building it, and a gradient of a thousand
 * operations. Each figure is the median of rounds that are interleaved over all cases, with its
 * interquartile range; a target is printed beside it. The allocator gives nothing back to the
 * system, so that after the first round nothing pays for fresh pages: a vjp touches more than twice
 * the memory of the chain, and pages cost more than the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mlx/c/mlx.h"
#include "platform/system.h"

enum { ROUNDS = 15, LONG = 1000000, SHORT = 1000 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(int rc) {
    if (rc) exit(1);
}

static mlx_stream s;
static mlx_array constant;

static int chain(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array a = mlx_array_new();
    check(mlx_vector_array_get(&a, in, 0));
    for (int i = 0; i < LONG; i++) check(mlx_multiply(&a, a, constant, s));
    *res = mlx_vector_array_new_value(a);
    return mlx_array_free(a);
}

/* SHORT operations of several kinds, and a sum. */
static int mixture(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new(), a = mlx_array_new();
    check(mlx_vector_array_get(&x, in, 0));
    check(mlx_array_set(&a, x));
    for (int i = 0; i < SHORT / 4; i++) {
        check(mlx_multiply(&a, a, constant, s));
        check(mlx_sin(&a, a, s));
        check(mlx_add(&a, a, x, s));
        check(mlx_matmul(&a, a, x, s));
    }
    check(mlx_sum(&a, a, false, s));
    *res = mlx_vector_array_new_value(a);
    mlx_array_free(x);
    return mlx_array_free(a);
}

static mlx_vector_array argument(bool with_lanes) {
    float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int shape[2] = {2, 2};
    mlx_array a = with_lanes ? mlx_array_new_data(v, shape, 1, MLX_FLOAT32)
                             : mlx_array_new_data(v, shape, 2, MLX_FLOAT32);
    mlx_vector_array in = mlx_vector_array_new_value(a);
    mlx_array_free(a);
    return in;
}

typedef int transform_fn(mlx_vector_array *, mlx_vector_array *, const mlx_closure,
                         const mlx_vector_array, const mlx_vector_array);

static int vmap(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure f,
                const mlx_vector_array in, const mlx_vector_array unused) {
    int zero = 0;
    mlx_vector_array traced = mlx_vector_array_new();
    check(mlx_detail_vmap_trace(&traced, res_1, f, in, &zero, 1));
    check(mlx_detail_vmap_replace(res_0, in, traced, *res_1, &zero, 1, &zero, 1));
    return mlx_vector_array_free(traced);
}

/* Without the freeing. */
static double timed(transform_fn *transform, int (*f)(mlx_vector_array *, const mlx_vector_array)) {
    mlx_closure c = mlx_closure_new_func(f);
    mlx_vector_array in = argument(transform == vmap), a = mlx_vector_array_new(),
                     b = mlx_vector_array_new();
    double t0 = now_ms();
    if (transform)
        check(transform(&a, &b, c, in, in));
    else
        check(mlx_closure_apply(&a, c, in));
    double t = now_ms() - t0;
    mlx_vector_array_free(in);
    mlx_vector_array_free(a);
    mlx_vector_array_free(b);
    mlx_closure_free(c);
    return t;
}

static double gradient(void) {
    mlx_closure c = mlx_closure_new_func(mixture);
    mlx_closure_value_and_grad g = mlx_closure_value_and_grad_new();
    mlx_vector_array in = argument(false), a = mlx_vector_array_new(), b = mlx_vector_array_new();
    int zero = 0;
    check(mlx_value_and_grad(&g, c, &zero, 1));
    double t0 = now_ms();
    check(mlx_closure_value_and_grad_apply(&a, &b, g, in));
    double t = now_ms() - t0;
    mlx_vector_array_free(in);
    mlx_vector_array_free(a);
    mlx_vector_array_free(b);
    mlx_closure_value_and_grad_free(g);
    mlx_closure_free(c);
    return t;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, double *v, const char *unit, const char *target) {
    qsort(v, ROUNDS, sizeof *v, compare);
    printf("%-44s %8.2f %s [%.2f, %.2f]  %s\n", what, v[ROUNDS / 2], unit, v[ROUNDS / 4],
           v[ROUNDS - 1 - ROUNDS / 4], target);
}

int main(void) {
    static double t[6][ROUNDS], ratio[3][ROUNDS];
    b_heap_keep();
    s = mlx_default_cpu_stream_new();
    constant = mlx_array_new_float(1.5f);
    for (int i = -1; i < ROUNDS; i++) { /* the first round only warms up */
        double v[6] = {timed(NULL, chain), timed(mlx_vjp, chain), timed(mlx_jvp, chain),
                       timed(vmap, chain), timed(NULL, mixture),  gradient()};
        for (int k = 0; k < 6 && i >= 0; k++) t[k][i] = v[k];
        for (int k = 0; k < 3 && i >= 0; k++) ratio[k][i] = v[k + 1] / v[0];
    }
    report("building 1,000,000 multiplications", t[0], "ms", "");
    report("vjp of the chain, over building", ratio[0], "  ", "(target: at most 3)");
    report("jvp of the chain, over building", ratio[1], "  ", "");
    report("vmap of the chain, over building", ratio[2], "  ", "");
    report("building 1,000 operations", t[4], "ms", "");
    report("tracing and differentiating them", t[5], "ms", "(target, with compiling: under 3 ms)");
    mlx_array_free(constant);
    mlx_stream_free(s);
    return 0;
}
