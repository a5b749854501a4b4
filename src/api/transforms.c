/* transforms.c - mlx/c/transforms.h: evaluation of several arrays, and functions made from
 * functions. */
#include "api/handles/closure.h"
#include "base/alloc.h"
#include "transforms/transforms.h"

int mlx_async_eval(const mlx_vector_array outputs) {
    struct kl_call c = {.func = __func__};
    struct kl_vec *v = kl_in_vec(&c, outputs.ctx, "outputs");
    if (!c.err) kl_async_eval(kl_vec_array_items(v), v->n, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_eval(const mlx_vector_array outputs) {
    struct kl_call c = {.func = __func__};
    struct kl_vec *v = kl_in_vec(&c, outputs.ctx, "outputs");
    if (!c.err) kl_eval(kl_vec_array_items(v), v->n, &c.err);
    return kl_call_end_plain(&c);
}

/* vjp and jvp have the same form. */
typedef int transform_fn(const struct kl_function *f, struct kl_array *const *primals,
                         size_t n_primals, struct kl_array *const *along, size_t n_along,
                         struct kl_arrays *outs, struct kl_arrays *made, struct kl_error **err);

static int transform(const char *func, transform_fn *apply, mlx_vector_array *res_0,
                     mlx_vector_array *res_1, const mlx_closure fun, const mlx_vector_array primals,
                     const mlx_vector_array along, const char *what) {
    struct kl_call c = kl_call_begin(func, res_0);
    struct kl_arrays outs = {0}, made = {0};
    kl_need(&c, res_1, "the second result");
    struct kl_closure *f = kl_in_closure(&c, fun.ctx, "fun");
    const struct kl_vec *p = kl_in_vec(&c, primals.ctx, "primals");
    const struct kl_vec *a = kl_in_vec(&c, along.ctx, what);
    if (c.err) return kl_call_end_plain(&c);
    struct kl_function function = kl_closure_as_function(f);
    apply(&function, kl_vec_array_items(p), p->n, kl_vec_array_items(a), a->n, &outs, &made,
          &c.err);
    kl_function_release(&function);
    return kl_call_end_arrays_pair(&c, res_0, res_1, &outs, &made);
}

int mlx_vjp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
            const mlx_vector_array primals, const mlx_vector_array cotangents) {
    return transform(__func__, kl_vjp, res_0, res_1, fun, primals, cotangents, "cotangents");
}

int mlx_jvp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
            const mlx_vector_array primals, const mlx_vector_array tangents) {
    return transform(__func__, kl_jvp, res_0, res_1, fun, primals, tangents, "tangents");
}

int mlx_value_and_grad(mlx_closure_value_and_grad *res, const mlx_closure fun, const int *argnums,
                       size_t argnums_num) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_closure *f = kl_in_closure(&c, fun.ctx, "fun");
    struct kl_gradient_function *g = NULL;
    if (!c.err && argnums_num && !argnums)
        kl_fail(&c.err, KL_EARG, "argnums is NULL and its count is %zu", argnums_num);
    if (!c.err && !argnums_num) kl_fail(&c.err, KL_EARG, "no argument number is given");
    if (!c.err && argnums_num > 1000000)
        kl_fail(&c.err, KL_ELIMIT, "%zu argument numbers; at most 1000000 are taken", argnums_num);
    for (size_t i = 0; i < argnums_num && !c.err; i++)
        if (argnums[i] < 0)
            kl_fail(&c.err, KL_EARG, "argnums[%zu] is %d; argument numbers are 0 or more", i,
                    argnums[i]);
    if (!c.err) {
        g = kl_malloc(sizeof *g + argnums_num * sizeof *argnums);
        if (!g) kl_fail_nomem(&c.err);
    }
    if (g) {
        g->f = kl_closure_as_function(f);
        g->n_argnums = argnums_num;
        for (size_t i = 0; i < argnums_num; i++) g->argnums[i] = argnums[i];
    }
    return kl_call_end_gradient(&c, res, g);
}

/* ---- custom functions and checkpoints ---- */

static int call_custom(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                       struct kl_error **err) {
    return kl_custom_function_call(ctx, in, n_in, outs, err);
}

static void retain_custom(void *ctx) {
    kl_custom_function_retain(ctx);
}

static void release_custom(void *ctx) {
    kl_custom_function_release(ctx);
}

static int end_custom(struct kl_call *c, mlx_closure *res,
                      struct kl_custom_function *custom /* taken */) {
    struct kl_function f = {0};
    if (custom) f = (struct kl_function){call_custom, custom, retain_custom, release_custom};
    return kl_call_end_closure(c, res, f);
}

/* The closure of an optional handle; NULL for an empty one. */
static struct kl_closure *optional(void *ctx) {
    return ctx ? ((struct kl_closure_box *)ctx)->closure : NULL;
}

static int custom(const char *func, mlx_closure *res, void *fun, void *fun_vjp, void *fun_jvp,
                  void *fun_vmap) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_closure *f = kl_in_closure(&c, fun, "fun");
    struct kl_custom_function *made = NULL;
    if (c.err) return kl_call_end_plain(&c);
    struct kl_closure *given[3] = {optional(fun_vjp), optional(fun_jvp), optional(fun_vmap)};
    struct kl_custom_rule rule[3] = {{0}};
    if (given[0]) rule[0] = kl_closure_as_vjp(given[0]);
    if (given[1]) rule[1] = kl_closure_as_jvp(given[1]);
    if (given[2]) rule[2] = kl_closure_as_vmap(given[2]);
    struct kl_function function = kl_closure_as_function(f);
    kl_custom_function_new(&made, &function, &rule[0], &rule[1], &rule[2], &c.err);
    for (int i = 0; i < 3; i++) kl_closure_release(given[i] ? rule[i].ctx : NULL);
    kl_function_release(&function);
    return end_custom(&c, res, made);
}

int mlx_custom_function(mlx_closure *res, const mlx_closure fun,
                        const mlx_closure_custom fun_vjp /* may be null */,
                        const mlx_closure_custom_jvp fun_jvp /* may be null */,
                        const mlx_closure_custom_vmap fun_vmap /* may be null */) {
    return custom(__func__, res, fun.ctx, fun_vjp.ctx, fun_jvp.ctx, fun_vmap.ctx);
}

int mlx_custom_vjp(mlx_closure *res, const mlx_closure fun, const mlx_closure_custom fun_vjp) {
    if (!fun_vjp.ctx) {
        struct kl_call c = kl_call_begin(__func__, res);
        kl_in_closure(&c, fun_vjp.ctx, "fun_vjp");
        return kl_call_end_plain(&c);
    }
    return custom(__func__, res, fun.ctx, fun_vjp.ctx, NULL, NULL);
}

int mlx_checkpoint(mlx_closure *res, const mlx_closure fun) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_closure *f = kl_in_closure(&c, fun.ctx, "fun");
    struct kl_custom_function *made = NULL;
    if (c.err) return kl_call_end_plain(&c);
    struct kl_function function = kl_closure_as_function(f);
    kl_checkpoint_new(&made, &function, &c.err);
    kl_function_release(&function);
    return end_custom(&c, res, made);
}
