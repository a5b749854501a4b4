/* train_binding.c - Keel's part of train_peers.py, which builds this file as a library and calls it
 * through ctypes: a training step of a perceptron, a gelu and a copy, and a step of AdamW. One call
 * does a number of repetitions and times them here, so that no figure contains Python. Each
 * function returns seconds for one repetition, or a negative number after an error. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "keel/train.h"
#include "mlx/c/mlx.h"

enum { MOST_LAYERS = 8 };

static mlx_stream s;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every function of the library returns 0 unless it failed, so results are added up. */
static mlx_array array_of(const void *data, const int *shape, int ndim, mlx_dtype dtype) {
    if (!s.ctx) s = mlx_default_cpu_stream_new();
    return mlx_array_new_data(data, shape, ndim, dtype);
}

static void leave_out(void *data) {
    (void)data;
}

/* ---- a perceptron with relu, and its cross-entropy ---- */

struct net {
    int layers;
    float rate;
    mlx_vector_array all; /* weights, biases, the samples and their labels */
    mlx_closure step, compiled;
    mlx_closure_value_and_grad grad;
};

/* The mean of (logsumexp(scores) - score of the label). */
static int loss_of(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    const struct net *net = payload;
    const size_t n = (size_t)net->layers;
    mlx_array x = mlx_array_new(), w = mlx_array_new(), b = mlx_array_new(), y = mlx_array_new();
    mlx_array zero = mlx_array_new_float(0);
    int rc = mlx_vector_array_get(&x, in, 2 * n) || mlx_vector_array_get(&y, in, 2 * n + 1);
    for (size_t i = 0; i < n; i++) {
        rc = rc || mlx_vector_array_get(&w, in, i) || mlx_vector_array_get(&b, in, n + i) ||
             mlx_addmm(&x, b, x, w, 1, 1, s);
        if (i + 1 < n) rc = rc || mlx_maximum(&x, x, zero, s);
    }
    rc = rc || mlx_logsumexp_axis(&w, x, -1, true, s) || mlx_take_along_axis(&b, x, y, -1, s) ||
         mlx_subtract(&x, w, b, s) || mlx_mean(&x, x, false, s) ||
         mlx_vector_array_set_value(res, x);
    mlx_array_free(zero);
    mlx_array_free(x);
    mlx_array_free(w);
    mlx_array_free(b);
    mlx_array_free(y);
    return rc;
}

/* The parameters after a step of stochastic gradient descent, then the samples and labels again,
 * then the loss. */
static int step(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct net *net = payload;
    const size_t n = 2 * (size_t)net->layers;
    mlx_vector_array values = mlx_vector_array_new(), grads = mlx_vector_array_new();
    mlx_array p = mlx_array_new(), g = mlx_array_new(), rate = mlx_array_new_float(net->rate);
    *res = mlx_vector_array_new();
    int rc = mlx_closure_value_and_grad_apply(&values, &grads, net->grad, in);
    for (size_t i = 0; i < n + 2 && !rc; i++) {
        rc = mlx_vector_array_get(&p, in, i);
        if (i < n)
            rc = rc || mlx_vector_array_get(&g, grads, i) || mlx_multiply(&g, g, rate, s) ||
                 mlx_subtract(&p, p, g, s);
        rc = rc || mlx_vector_array_append_value(*res, p);
    }
    rc = rc || mlx_vector_array_get(&p, values, 0) || mlx_vector_array_append_value(*res, p);
    mlx_array_free(p);
    mlx_array_free(g);
    mlx_array_free(rate);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    return rc;
}

/* widths: layers + 1 of them. parameters: the weights (in, out), then the biases, row-major. NULL
 * on failure. */
void *net_new(int layers, int batch, const int *widths, const float *const *parameters,
              const float *samples, const int32_t *labels, float rate) {
    struct net *net = calloc(1, sizeof *net);
    int numbers[2 * MOST_LAYERS], rc = 0;
    if (!net || layers > MOST_LAYERS) return NULL;
    net->layers = layers;
    net->rate = rate;
    net->all = mlx_vector_array_new();
    for (int i = 0; i < 2 * layers + 2; i++) {
        int shape[2] = {batch, widths[0]};
        if (i < layers) {
            shape[0] = widths[i];
            shape[1] = widths[i + 1];
        } else if (i < 2 * layers) {
            shape[0] = widths[i - layers + 1];
        } else if (i == 2 * layers + 1) {
            shape[1] = 1;
        }
        const void *data = i < 2 * layers    ? (const void *)parameters[i]
                           : i == 2 * layers ? (const void *)samples
                                             : (const void *)labels;
        mlx_array a = array_of(data, shape, i >= layers && i < 2 * layers ? 1 : 2,
                               i == 2 * layers + 1 ? MLX_INT32 : MLX_FLOAT32);
        rc = rc || mlx_vector_array_append_value(net->all, a);
        mlx_array_free(a);
        if (i < 2 * layers) numbers[i] = i;
    }
    mlx_closure loss = mlx_closure_new_func_payload(loss_of, net, NULL);
    net->step = mlx_closure_new_func_payload(step, net, NULL);
    rc = rc || mlx_value_and_grad(&net->grad, loss, numbers, (size_t)(2 * layers)) ||
         mlx_compile(&net->compiled, net->step, false);
    mlx_closure_free(loss);
    return rc ? NULL : net;
}

void net_free(void *handle) {
    struct net *net = handle;
    mlx_closure_value_and_grad_free(net->grad);
    mlx_closure_free(net->step);
    mlx_closure_free(net->compiled);
    mlx_vector_array_free(net->all);
    free(net);
}

/* n steps, each evaluated before the next begins; *loss is that of the last. */
double net_steps(void *handle, int compiled, int n, float *loss) {
    struct net *net = handle;
    const size_t kept = 2 * (size_t)net->layers + 2;
    int rc = 0;
    double begin = now();
    for (int i = 0; i < n && !rc; i++) {
        mlx_vector_array next = {NULL};
        if (compiled) {
            rc = mlx_closure_apply(&next, net->compiled, net->all);
        } else {
            rc = step(&next, net->all, net);
        }
        rc = rc || mlx_eval(next);
        mlx_vector_array_free(net->all);
        net->all = next;
        mlx_array last = mlx_array_new();
        if (i == n - 1)
            rc =
                rc || mlx_vector_array_get(&last, next, kept) || mlx_array_item_float32(loss, last);
        mlx_array_free(last);
    }
    return rc ? -1 : (now() - begin) / n;
}

/* The matrix products of one step alone: the sum of the medians of their times. */
double net_products(int layers, int batch, const int *widths, int n) {
    double sum = 0, times[64];
    if (n > 64) n = 64;
    for (int i = 0; i < layers; i++) {
        const int in = widths[i], out = widths[i + 1];
        const int sizes[3][3] = {{batch, in, out}, {in, batch, out}, {batch, out, in}};
        for (int k = 0; k < (i ? 3 : 2); k++) { /* the samples need no gradient */
            mlx_array a = mlx_array_new(), b = mlx_array_new(), no = {NULL}, c = mlx_array_new();
            if (!s.ctx) s = mlx_default_cpu_stream_new();
            int rc = mlx_random_normal(&a, sizes[k], 2, MLX_FLOAT32, 0, 1, no, s) ||
                     mlx_random_normal(&b, sizes[k] + 1, 2, MLX_FLOAT32, 0, 1, no, s) ||
                     mlx_array_eval(a) || mlx_array_eval(b);
            for (int r = 0; r < n && !rc; r++) {
                double begin = now();
                rc = mlx_matmul(&c, a, b, s) || mlx_array_eval(c);
                times[r] = now() - begin;
                for (int j = r; j > 0 && times[j] < times[j - 1]; j--) {
                    double t = times[j];
                    times[j] = times[j - 1];
                    times[j - 1] = t;
                }
            }
            mlx_array_free(a);
            mlx_array_free(b);
            mlx_array_free(c);
            if (rc) return -1;
            sum += times[n / 2];
        }
    }
    return sum;
}

/* ---- a function of one large array ---- */

/* x (1 + erf(x / sqrt 2)) / 2 */
static int gelu(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new(), y = mlx_array_new(), one = mlx_array_new_float(1);
    mlx_array half = mlx_array_new_float(0.5f), root = mlx_array_new_float((float)sqrt(0.5));
    int rc = mlx_vector_array_get(&x, in, 0) || mlx_multiply(&y, x, root, s) || mlx_erf(&y, y, s) ||
             mlx_add(&y, y, one, s) || mlx_multiply(&x, x, half, s) || mlx_multiply(&y, x, y, s) ||
             mlx_vector_array_set_value(res, y);
    mlx_array_free(x);
    mlx_array_free(y);
    mlx_array_free(one);
    mlx_array_free(half);
    mlx_array_free(root);
    return rc;
}

static int copy(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array x = mlx_array_new();
    int rc = mlx_vector_array_get(&x, in, 0) || mlx_negative(&x, x, s) ||
             mlx_vector_array_set_value(res, x);
    mlx_array_free(x);
    return rc;
}

/* what: 0 a compiled gelu, 1 the same operations lazily, 2 a sign change, which reads and writes as
 * a copy does. The memory stays the caller's. out, unless NULL, gets the last result. */
double pass_over(float *data, int size, int what, int n, float *out) {
    static mlx_closure compiled, plain, copied;
    if (!s.ctx) s = mlx_default_cpu_stream_new();
    if (!compiled.ctx) {
        plain = mlx_closure_new_func(gelu);
        copied = mlx_closure_new_func(copy);
        if (mlx_compile(&compiled, plain, false)) return -1;
    }
    mlx_array x = mlx_array_new_data_managed(data, &size, 1, MLX_FLOAT32, leave_out);
    mlx_vector_array in = mlx_vector_array_new_value(x);
    int rc = 0;
    double begin = now(), end = begin;
    for (int i = 0; i < n && !rc; i++) {
        mlx_vector_array res = {NULL};
        rc = mlx_closure_apply(&res,
                               what == 2 ? copied
                               : what    ? plain
                                         : compiled,
                               in) ||
             mlx_eval(res);
        if (i == n - 1 && !rc && out) {
            mlx_array y = mlx_array_new();
            rc = mlx_vector_array_get(&y, res, 0);
            const float *from = rc ? NULL : mlx_array_data_float32(y);
            for (int k = 0; from && k < size; k++) out[k] = from[k];
            mlx_array_free(y);
        }
        mlx_vector_array_free(res);
        end = now();
    }
    mlx_vector_array_free(in);
    mlx_array_free(x);
    return rc ? -1 : (end - begin) / n;
}

/* ---- AdamW ---- */

static keel_optimizer adamw;
static mlx_vector_array parameters, gradients;

int adamw_open(const float *p, const float *g, int size) {
    adamw = keel_optimizer_new_adamw(1e-3, NULL);
    mlx_array a = array_of(p, &size, 1, MLX_FLOAT32), b = array_of(g, &size, 1, MLX_FLOAT32);
    parameters = mlx_vector_array_new_value(a);
    gradients = mlx_vector_array_new_value(b);
    mlx_array_free(a);
    mlx_array_free(b);
    return !adamw.ctx;
}

double adamw_steps(int n) {
    int rc = 0;
    double begin = now();
    for (int i = 0; i < n && !rc; i++)
        rc = keel_optimizer_step(&parameters, adamw, parameters, gradients, s) ||
             mlx_eval(parameters);
    return rc ? -1 : (now() - begin) / n;
}
