/* function_support.h - what the tests of transforms share: short calls whose results a pool frees,
 * functions of arrays as closures, and closures made from closures. */
#pragma once
#include "api/api_support.h"

/* ---- arrays that the test does not free one by one ---- */
enum { POOL = 4096 };
static __thread mlx_array pool[POOL];
static __thread int n_pooled;

static inline mlx_array keep(mlx_array a) {
    assert_in_range(n_pooled, 0, POOL - 1);
    return pool[n_pooled++] = a;
}
/* Frees what was kept since n_pooled was `from`. */
static inline void drop_to(int from) {
    while (n_pooled > from) mlx_array_free(pool[--n_pooled]);
}

/* Operations whose result is in the pool; an empty array when the call fails. */
#define ONE(name)                               \
    static inline mlx_array name(mlx_array a) { \
        mlx_array r = mlx_array_new();          \
        mlx_##name(&r, a, cpu);                 \
        return keep(r);                         \
    }
#define TWO(name)                                            \
    static inline mlx_array name(mlx_array a, mlx_array b) { \
        mlx_array r = mlx_array_new();                       \
        mlx_##name(&r, a, b, cpu);                           \
        return keep(r);                                      \
    }
ONE(square)
ONE(negative)
ONE(stop_gradient)
TWO(add)
TWO(multiply)
TWO(matmul)
#undef ONE
#undef TWO
static inline mlx_array sum(mlx_array a) {
    mlx_array r = mlx_array_new();
    mlx_sum(&r, a, false, cpu);
    return keep(r);
}
static inline mlx_array sine(mlx_array a) {
    mlx_array r = mlx_array_new();
    mlx_sin(&r, a, cpu);
    return keep(r);
}
static inline mlx_array take0(mlx_array a, mlx_array index) {
    mlx_array r = mlx_array_new();
    mlx_take_axis(&r, a, index, 0, cpu);
    return keep(r);
}
static inline mlx_array number(float x) {
    return keep(mlx_array_new_float(x));
}
#define VECTOR(...) keep(FLOATS(__VA_ARGS__))

/* ---- lists ---- */
#define LIST_OF(...)                                            \
    mlx_vector_array_new_data((const mlx_array[]){__VA_ARGS__}, \
                              sizeof((const mlx_array[]){__VA_ARGS__}) / sizeof(mlx_array))
/* Element i of a list, in the pool. */
static inline mlx_array at(mlx_vector_array v, size_t i) {
    mlx_array a = mlx_array_new();
    mlx_vector_array_get(&a, v, i);
    return keep(a);
}
/* The results of a function of the test, which fails when one is empty. */
static inline int give(mlx_vector_array *res, const mlx_array *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!a[i].ctx) return 1;
    return mlx_vector_array_set_data(res, a, n);
}
#define GIVE(res, ...)                            \
    give((res), (const mlx_array[]){__VA_ARGS__}, \
         sizeof((const mlx_array[]){__VA_ARGS__}) / sizeof(mlx_array))

typedef int list_fn(mlx_vector_array *, const mlx_vector_array);

/* ---- closures made from closures, as bindings make them ---- */
struct made_from {
    mlx_closure f;
    mlx_closure_value_and_grad gradient;
    int in_axes[4], out_axes[4];
};
static inline void free_made(void *payload) {
    struct made_from *m = payload;
    mlx_closure_free(m->f);
    mlx_closure_value_and_grad_free(m->gradient);
    free(m);
}
static inline int call_gradient(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct made_from *m = payload;
    mlx_vector_array values = mlx_vector_array_new();
    int rc = mlx_closure_value_and_grad_apply(&values, res, m->gradient, in);
    mlx_vector_array_free(values);
    return rc;
}
/* A closure that gives the gradients of f, which is taken, with respect to argnums. */
static inline mlx_closure gradient_of(mlx_closure f, const int *argnums, size_t n) {
    struct made_from *m = calloc(1, sizeof *m);
    assert_int_equal(mlx_value_and_grad(&m->gradient, f, argnums, n), 0);
    m->f = f;
    return mlx_closure_new_func_payload(call_gradient, m, free_made);
}
static inline int call_lanes(mlx_vector_array *res, const mlx_vector_array in, void *payload) {
    struct made_from *m = payload;
    mlx_vector_array lane_in = mlx_vector_array_new(), lane_out = mlx_vector_array_new();
    size_t n = mlx_vector_array_size(in);
    int rc = mlx_detail_vmap_trace(&lane_in, &lane_out, m->f, in, m->in_axes, n);
    if (!rc)
        rc = mlx_detail_vmap_replace(res, in, lane_in, lane_out, m->in_axes, n, m->out_axes,
                                     mlx_vector_array_size(lane_out));
    mlx_vector_array_free(lane_in);
    mlx_vector_array_free(lane_out);
    return rc;
}
/* vmap of f, which is taken; four axes each, of which as many are used as there are arrays. */
static inline mlx_closure lanes_of(mlx_closure f, const int *in_axes, const int *out_axes) {
    struct made_from *m = calloc(1, sizeof *m);
    m->f = f;
    memcpy(m->in_axes, in_axes, sizeof m->in_axes);
    memcpy(m->out_axes, out_axes, sizeof m->out_axes);
    return mlx_closure_new_func_payload(call_lanes, m, free_made);
}
#define ZEROS4 LIST(0, 0, 0, 0)

/* f(args), which must succeed; result i is in the pool. f is freed, args too. */
static inline mlx_array result_of(mlx_closure f, mlx_vector_array args, size_t i) {
    mlx_vector_array res = mlx_vector_array_new();
    OK(mlx_closure_apply(&res, f, args));
    mlx_array a = at(res, i);
    mlx_vector_array_free(res);
    mlx_vector_array_free(args);
    mlx_closure_free(f);
    return a;
}
