/* bench_transforms.c - what transforms cost: a training step of a small and of a larger perceptron,
 * the replay of a compiled function per operation beside plain code, and tracing, differentiating
 * and compiling 1,000 operations. Each figure is the median of interleaved rounds. Long chains are
 * in bench_chains.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mlx/c/mlx.h"

enum { ROUNDS = 15 };

static mlx_stream s;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void check(int rc) {
    if (rc) exit(1);
}

/* ---- perceptrons ---- */

struct net {
    int layers, batch, width[8];
    mlx_vector_array all; /* weights, biases, then x and the labels */
    mlx_closure loss;
    mlx_closure_value_and_grad grad;
};

static mlx_array normal(const int *shape, size_t n, float scale) {
    mlx_array a = mlx_array_new(), no = mlx_array_new();
    check(mlx_random_normal(&a, shape, n, MLX_FLOAT32, 0, scale, no, s));
    check(mlx_array_eval(a));
    return a;
}

/* The mean of (logsumexp(scores) - score of the label). */
static int loss_of(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    const struct net *net = payload;
    mlx_array x = mlx_array_new(), w = mlx_array_new(), b = mlx_array_new(), y = mlx_array_new();
    mlx_array zero = mlx_array_new_float(0);
    const size_t n = (size_t)net->layers;
    check(mlx_vector_array_get(&x, in, 2 * n));
    check(mlx_vector_array_get(&y, in, 2 * n + 1));
    for (size_t i = 0; i < n; i++) {
        check(mlx_vector_array_get(&w, in, i));
        check(mlx_vector_array_get(&b, in, n + i));
        check(mlx_addmm(&x, b, x, w, 1, 1, s));
        if (i + 1 < n) check(mlx_maximum(&x, x, zero, s));
    }
    check(mlx_logsumexp_axis(&w, x, -1, true, s));
    check(mlx_take_along_axis(&b, x, y, -1, s));
    check(mlx_subtract(&x, w, b, s));
    check(mlx_mean(&x, x, false, s));
    check(mlx_vector_array_set_value(res, x));
    mlx_array_free(zero);
    mlx_array_free(x);
    mlx_array_free(w);
    mlx_array_free(b);
    return mlx_array_free(y);
}

static void net_make(struct net *net, int layers, int batch, const int *width) {
    int numbers[16];
    net->layers = layers;
    net->batch = batch;
    memcpy(net->width, width, (size_t)(layers + 1) * sizeof *width);
    net->all = mlx_vector_array_new();
    for (int i = 0; i < layers; i++) {
        mlx_array w = normal((int[]){width[i], width[i + 1]}, 2, 0.1f);
        check(mlx_vector_array_append_value(net->all, w));
        mlx_array_free(w);
    }
    for (int i = 0; i < layers; i++) {
        mlx_array b = normal((int[]){width[i + 1]}, 1, 0.1f);
        check(mlx_vector_array_append_value(net->all, b));
        mlx_array_free(b);
    }
    mlx_array x = normal((int[]){batch, width[0]}, 2, 1), y = mlx_array_new();
    check(mlx_vector_array_append_value(net->all, x));
    check(mlx_zeros(&y, (int[]){batch, 1}, 2, MLX_INT32, s));
    check(mlx_array_eval(y));
    check(mlx_vector_array_append_value(net->all, y));
    mlx_array_free(x);
    mlx_array_free(y);
    for (int i = 0; i < 2 * layers; i++) numbers[i] = i;
    net->loss = mlx_closure_new_func_payload(loss_of, net, NULL);
    net->grad = (mlx_closure_value_and_grad){NULL};
    check(mlx_value_and_grad(&net->grad, net->loss, numbers, (size_t)(2 * layers)));
}

static void net_free(struct net *net) {
    mlx_closure_value_and_grad_free(net->grad);
    mlx_closure_free(net->loss);
    mlx_vector_array_free(net->all);
}

/* Loss, gradients, p - 0.01 g for every parameter, and evaluation of all. Microseconds. */
static double step(struct net *net) {
    mlx_vector_array values = mlx_vector_array_new(), grads = mlx_vector_array_new(),
                     next = mlx_vector_array_new();
    mlx_array p = mlx_array_new(), g = mlx_array_new(), rate = mlx_array_new_float(0.01f);
    double t0 = now_us();
    check(mlx_closure_value_and_grad_apply(&values, &grads, net->grad, net->all));
    const size_t n = 2 * (size_t)net->layers;
    for (size_t i = 0; i < n + 2; i++) {
        check(mlx_vector_array_get(&p, net->all, i));
        if (i < n) {
            check(mlx_vector_array_get(&g, grads, i));
            check(mlx_multiply(&g, g, rate, s));
            check(mlx_subtract(&p, p, g, s));
        }
        check(mlx_vector_array_append_value(next, p));
    }
    mlx_array_free(p);
    mlx_array_free(g);
    check(mlx_eval(next));
    double t = now_us() - t0;
    mlx_array_free(rate);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    mlx_vector_array_free(net->all);
    net->all = next;
    return t;
}

/* The matrix products of one step, one after another. Microseconds. */
static double products(const struct net *net) {
    mlx_array x, w, r = mlx_array_new();
    double t = 0;
    for (int i = 0; i < net->layers; i++) {
        int in = net->width[i], out = net->width[i + 1];
        const int shapes[3][3] = {
            {net->batch, in, out}, {in, net->batch, out}, {net->batch, out, in}};
        for (int k = 0; k < (i ? 3 : 2); k++) { /* the input of the net needs no gradient */
            x = normal((int[]){shapes[k][0], shapes[k][1]}, 2, 1);
            w = normal((int[]){shapes[k][1], shapes[k][2]}, 2, 1);
            double best = 1e9;
            for (int j = 0; j < 7; j++) {
                double t0 = now_us();
                check(mlx_matmul(&r, x, w, s));
                check(mlx_array_eval(r));
                double one = now_us() - t0;
                if (one < best) best = one;
            }
            t += best;
            mlx_array_free(x);
            mlx_array_free(w);
        }
    }
    mlx_array_free(r);
    return t;
}

/* ---- many operations ---- */

static int n_operations;

/* x * c + c * x ... : n_operations small operations that depend on each other. */
static int many(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new(), c = mlx_array_new();
    check(mlx_vector_array_get(&x, in, 0));
    check(mlx_vector_array_get(&c, in, 1));
    for (int i = 0; i < n_operations; i++)
        check(i % 2 ? mlx_multiply(&x, x, c, s) : mlx_add(&x, x, c, s));
    check(mlx_vector_array_set_value(res, x));
    mlx_array_free(c);
    return mlx_array_free(x);
}

static int sum_of_many(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_vector_array made = {NULL};
    mlx_array x = mlx_array_new();
    check(many(&made, in));
    check(mlx_vector_array_get(&x, made, 0));
    check(mlx_sum(&x, x, false, s));
    check(mlx_vector_array_set_value(res, x));
    mlx_vector_array_free(made);
    return mlx_array_free(x);
}

static mlx_vector_array two_arrays(void) {
    float one[4] = {1, 1, 1, 1};
    mlx_vector_array v = mlx_vector_array_new();
    for (int i = 0; i < 2; i++) {
        mlx_array a = mlx_array_new_data(one, (int[]){4}, 1, MLX_FLOAT32);
        check(mlx_vector_array_append_value(v, a));
        mlx_array_free(a);
    }
    return v;
}

/* Building without evaluation. */
static double building(mlx_closure f, mlx_vector_array in) {
    mlx_vector_array out = mlx_vector_array_new();
    double t0 = now_us();
    check(mlx_closure_apply(&out, f, in));
    double t = now_us() - t0;
    mlx_vector_array_free(out);
    return t;
}

/* A call with the evaluation of its result. */
static double calling(mlx_closure f, mlx_vector_array in) {
    mlx_vector_array out = mlx_vector_array_new();
    double t0 = now_us();
    check(mlx_closure_apply(&out, f, in));
    check(mlx_eval(out));
    double t = now_us() - t0;
    mlx_vector_array_free(out);
    return t;
}

static int gradient_of_many(mlx_vector_array *res, const mlx_vector_array in, void *g) {
    mlx_vector_array v = mlx_vector_array_new();
    int rc = mlx_closure_value_and_grad_apply(&v, res, *(mlx_closure_value_and_grad *)g, in);
    mlx_vector_array_free(v);
    return rc;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

int main(void) {
    double t[8][ROUNDS];
    struct net tiny, large;
    s = mlx_default_cpu_stream_new();
    net_make(&tiny, 2, 4, (int[]){8, 16, 4});
    net_make(&large, 2, 256, (int[]){784, 512, 10});
    for (int i = 0; i < 300; i++) step(&tiny);
    for (int i = 0; i < 5; i++) step(&large);
    for (int r = 0; r < ROUNDS; r++) {
        double one[200];
        for (int i = 0; i < 200; i++) one[i] = step(&tiny);
        t[0][r] = median(one, 200);
        for (int i = 0; i < 9; i++) one[i] = step(&large);
        t[1][r] = median(one, 9);
        t[2][r] = products(&large);
    }
    printf("training step 4x8x16x4: %.1f us (wanted: under 20)\n", median(t[0], ROUNDS));
    double step_us = median(t[1], ROUNDS), products_us = median(t[2], ROUNDS);
    printf("training step 256x784x512x10: %.0f us, %.2f times its products (wanted: 1.2)\n",
           step_us, step_us / products_us);
    net_free(&tiny);
    net_free(&large);

    mlx_vector_array in = two_arrays();
    mlx_closure f = mlx_closure_new_func(many), compiled = {NULL};
    check(mlx_compile(&compiled, f, false));
    static const int sizes[] = {20, 200, 1000};
    for (int k = 0; k < 3; k++) {
        n_operations = sizes[k];
        check(mlx_detail_compile_clear_cache());
        calling(compiled, in);
        for (int r = 0; r < ROUNDS; r++) {
            double one[4][51];
            for (int i = 0; i < 51; i++) {
                one[0][i] = building(f, in);
                one[1][i] = building(compiled, in);
                one[2][i] = calling(f, in);
                one[3][i] = calling(compiled, in);
            }
            for (int c = 0; c < 4; c++) t[c][r] = median(one[c], 51);
        }
        printf(
            "%d operations: built in %.3f us each, replayed in %.3f (wanted: 0.04); evaluated too "
            "%.1f us, compiled %.1f\n",
            sizes[k], median(t[0], ROUNDS) / sizes[k], median(t[1], ROUNDS) / sizes[k],
            median(t[2], ROUNDS), median(t[3], ROUNDS));
    }

    n_operations = 1000;
    mlx_closure sum = mlx_closure_new_func(sum_of_many), of_gradient, both = {NULL};
    mlx_closure_value_and_grad g = {NULL};
    check(mlx_value_and_grad(&g, sum, (int[]){0}, 1));
    of_gradient = mlx_closure_new_func_payload(gradient_of_many, &g, NULL);
    check(mlx_compile(&both, of_gradient, false));
    for (int r = 0; r < ROUNDS; r++) {
        check(mlx_detail_compile_clear_cache());
        t[0][r] = building(both, in);
    }
    printf("1,000 operations traced, differentiated, compiled and replayed: %.2f ms (wanted: 3)\n",
           median(t[0], ROUNDS) / 1000);
    mlx_closure_free(both);
    mlx_closure_free(of_gradient);
    mlx_closure_value_and_grad_free(g);
    mlx_closure_free(sum);
    mlx_closure_free(compiled);
    mlx_closure_free(f);
    mlx_vector_array_free(in);
    return mlx_stream_free(s);
}
