/* data_parallel.c - trains a network on handwritten digits in several processes, each of which has
 * its part of the data; gradients are averaged over all of them in each step.
 *
 *     mpirun -n 4 data_parallel [STEPS [gpu]]
 *
 * gpu: each has a GPU. Without a launcher it is one process with all of the data, and does the
 * same. The exit status is 0 when the loss has fallen and all processes have the same weights. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keel/error.h>
#include <mlx/c/mlx.h>

#ifndef KEEL_EXAMPLES_DATA
#define KEEL_EXAMPLES_DATA "examples/data"
#endif

enum { PIXELS = 64, HIDDEN = 32, CLASSES = 10, N_WEIGHTS = 4, N_ARGS = N_WEIGHTS + 2 };

/* Around a call that must not fail. An error on one process ends all of them: the others get it
 * too, with the rank where it arose. */
#define OK(call)                  \
    do {                          \
        if (call) give_up(#call); \
    } while (0)

static mlx_stream s;

static void give_up(const char *call) {
    keel_error_info e = {.size = sizeof e};
    keel_last_error(&e);
    fprintf(stderr, "data_parallel: %s\n        in %s\n", e.message, call);
    exit(1);
}

/* The rows of a tensor of the file that belong to this process. */
static mlx_array part_of(mlx_map_string_to_array file, const char *name, int rank, int size) {
    mlx_array a = mlx_array_new();
    OK(mlx_map_string_to_array_get(&a, file, name));
    const int n = mlx_array_dim(a, 0) / size, columns = mlx_array_ndim(a) > 1 ? PIXELS : 0;
    const size_t axes = columns ? 2 : 1;
    OK(mlx_slice(&a, a, (int[]){rank * n, 0}, axes, (int[]){(rank + 1) * n, columns}, axes,
                 (int[]){1, 1}, axes, s));
    return a;
}

/* The mean of -log(probability of the right digit) over this process's digits. */
static int loss(mlx_vector_array *res, const mlx_vector_array in) {
    mlx_array a[N_ARGS], x = mlx_array_new(), right = mlx_array_new(), sum = mlx_array_new();
    for (int i = 0; i < N_ARGS; i++) {
        a[i] = mlx_array_new();
        OK(mlx_vector_array_get(&a[i], in, (size_t)i));
    }
    OK(mlx_addmm(&x, a[1], a[N_WEIGHTS], a[0], 1, 1, s));
    OK(mlx_tanh(&x, x, s));
    OK(mlx_addmm(&x, a[3], x, a[2], 1, 1, s));
    OK(mlx_logsumexp_axis(&sum, x, 1, false, s));
    OK(mlx_expand_dims(&right, a[N_WEIGHTS + 1], 1, s));
    OK(mlx_take_along_axis(&right, x, right, 1, s));
    OK(mlx_squeeze_axis(&right, right, 1, s));
    OK(mlx_subtract(&sum, sum, right, s));
    OK(mlx_mean(&sum, sum, false, s));
    int rc = mlx_vector_array_set_value(res, sum);
    for (int i = 0; i < N_ARGS; i++) mlx_array_free(a[i]);
    mlx_array_free(x);
    mlx_array_free(right);
    mlx_array_free(sum);
    return rc;
}

/* The same key gives the same weights in every process. */
static void make_weights(mlx_array *w) {
    static const int shapes[N_WEIGHTS][2] = {
        {PIXELS, HIDDEN}, {HIDDEN, 0}, {HIDDEN, CLASSES}, {CLASSES, 0}};
    mlx_array key = mlx_array_new(), next = mlx_array_new();
    OK(mlx_random_key(&key, 7));
    for (int i = 0; i < N_WEIGHTS; i++) {
        w[i] = mlx_array_new();
        OK(mlx_random_split(&key, &next, key, s));
        OK(mlx_random_normal(&w[i], shapes[i], shapes[i][1] ? 2 : 1, MLX_FLOAT32, 0, 0.1f, next,
                             s));
    }
    mlx_array_free(key);
    mlx_array_free(next);
}

/* w -= rate * (the mean of all processes' gradients); returns the mean of their losses. */
static float step(mlx_closure_value_and_grad grad, mlx_array *w, const mlx_array *data,
                  mlx_distributed_group group) {
    mlx_array args[N_ARGS], g = mlx_array_new(), mean = mlx_array_new();
    mlx_array share = mlx_array_new_float32(1.0f / (float)mlx_distributed_group_size(group)),
              rate = mlx_array_new_float32(0.5f);
    for (int i = 0; i < N_ARGS; i++) args[i] = i < N_WEIGHTS ? w[i] : data[i - N_WEIGHTS];
    mlx_vector_array in = mlx_vector_array_new_data(args, N_ARGS), values = mlx_vector_array_new(),
                     grads = mlx_vector_array_new(), all = mlx_vector_array_new();
    OK(mlx_closure_value_and_grad_apply(&values, &grads, grad, in));
    for (int i = 0; i < N_WEIGHTS; i++) {
        OK(mlx_vector_array_get(&g, grads, (size_t)i));
        OK(mlx_distributed_all_sum(&g, g, group, s));
        OK(mlx_multiply(&g, g, share, s));
        OK(mlx_multiply(&g, g, rate, s));
        OK(mlx_subtract(&w[i], w[i], g, s));
        OK(mlx_vector_array_append_value(all, w[i]));
    }
    OK(mlx_vector_array_get(&mean, values, 0));
    OK(mlx_distributed_all_sum(&mean, mean, group, s));
    OK(mlx_multiply(&mean, mean, share, s));
    OK(mlx_vector_array_append_value(all, mean));
    OK(mlx_eval(all));
    float loss_now;
    OK(mlx_array_item_float32(&loss_now, mean));
    mlx_vector_array_free(in);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    mlx_vector_array_free(all);
    mlx_array_free(g);
    mlx_array_free(mean);
    mlx_array_free(share);
    mlx_array_free(rate);
    return loss_now;
}

/* Whether all processes have these weights, bit by bit. */
static bool same_everywhere(const mlx_array *w, mlx_distributed_group group) {
    bool same = true;
    for (int i = 0; i < N_WEIGHTS; i++) {
        mlx_array low = mlx_array_new(), high = mlx_array_new();
        bool equal;
        OK(mlx_distributed_all_min(&low, w[i], group, s));
        OK(mlx_distributed_all_max(&high, w[i], group, s));
        OK(mlx_array_equal(&low, low, high, false, s));
        OK(mlx_array_item_bool(&equal, low));
        same = same && equal;
        mlx_array_free(low);
        mlx_array_free(high);
    }
    return same;
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 30;
    mlx_distributed_group group = mlx_distributed_group_new();
    keel_errors_return();
    const bool on_gpu = argc > 2 && strcmp(argv[2], "gpu") == 0;
    OK(mlx_distributed_init(&group, false, NULL));
    /* After init, which gives each process of a machine a GPU of its own. */
    s = on_gpu ? mlx_default_gpu_stream_new() : mlx_default_cpu_stream_new();
    const int rank = mlx_distributed_group_rank(group), size = mlx_distributed_group_size(group);

    mlx_map_string_to_array file = mlx_map_string_to_array_new();
    mlx_map_string_to_string about = mlx_map_string_to_string_new();
    OK(mlx_load_safetensors(&file, &about, KEEL_EXAMPLES_DATA "/digits.safetensors", s));
    mlx_array data[2] = {part_of(file, "train.images", rank, size),
                         part_of(file, "train.labels", rank, size)};
    mlx_array sixteenth = mlx_array_new_float32(1 / 16.0f), w[N_WEIGHTS];
    OK(mlx_multiply(&data[0], data[0], sixteenth, s));
    make_weights(w);

    mlx_closure f = mlx_closure_new_func(loss);
    mlx_closure_value_and_grad grad = mlx_closure_value_and_grad_new();
    OK(mlx_value_and_grad(&grad, f, (int[]){0, 1, 2, 3}, N_WEIGHTS));
    float first = 0, last = 0;
    for (int i = 0; i < steps; i++) {
        last = step(grad, w, data, group);
        if (i == 0) first = last;
        if (rank == 0 && (i % 10 == 0 || i == steps - 1))
            printf("step %3d, %d processes: loss %.4f\n", i, size, (double)last);
    }
    const bool good = same_everywhere(w, group) && (steps < 2 || last < first);
    if (rank == 0) printf("%s\n", good ? "The same weights everywhere." : "NOT as it must be.");

    for (int i = 0; i < N_WEIGHTS; i++) mlx_array_free(w[i]);
    for (int i = 0; i < 2; i++) mlx_array_free(data[i]);
    mlx_array_free(sixteenth);
    mlx_closure_value_and_grad_free(grad);
    mlx_closure_free(f);
    mlx_map_string_to_array_free(file);
    mlx_map_string_to_string_free(about);
    mlx_distributed_group_free(group);
    mlx_stream_free(s);
    return good ? 0 : 1;
}
