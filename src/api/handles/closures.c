/* closures.c - mlx/c/closure.h: making closures and calling them.
 *
 * A call passes the caller's input handles on, gives the function empty result handles, and takes
 * their contents. The library holds nothing else during the call, so a handler that longjmps out of
 * the function leaks at most the results that it had already stored. */
#include "api/handles/closure.h"

#include "base/alloc.h"
#include "transforms/transforms.h"

typedef void
/* the type in which functions of the user are stored; each is cast back before it is called */
any_fn(void);

/* ---- what all kinds share; a handle is passed as its ctx ---- */
struct kl_closure *kl_in_closure(struct kl_call *c, void *ctx, const char *what) {
    const struct kl_closure_box *box = ctx;
    if (box) return box->closure;
    kl_fail(&c->err, KL_EARG, "%s is an empty closure handle", what);
    return NULL;
}

static void *new_closure(const char *func, enum kl_closure_form form, any_fn *fun, void *payload,
                         void (*dtor)(void *)) {
    struct kl_call c = {.func = func};
    if (!fun) kl_fail(&c.err, KL_EARG, "fun is NULL");
    struct kl_closure_box *box = c.err ? NULL : kl_malloc(sizeof *box);
    struct kl_closure *f = box ? kl_malloc(sizeof *f) : NULL;
    if (f) {
        atomic_init(&f->refs, 1);
        f->form = form;
        f->fun = fun;
        f->payload = payload;
        f->dtor = dtor;
        box->closure = f;
        return box;
    }
    kl_free(box);
    if (!c.err) kl_fail_nomem(&c.err);
    kl_api_raise(c.func, c.err);
    return NULL;
}

static int free_closure(struct kl_closure_box *box) {
    if (box) kl_closure_release(box->closure);
    kl_free(box);
    return 0;
}

static int set(const char *func, void **ctx, void *src) {
    struct kl_call c = kl_call_begin(func, ctx);
    struct kl_closure *f = kl_in_closure(&c, src, "src");
    struct kl_closure_box *box = c.err ? NULL : *ctx;
    if (box) {
        struct kl_closure *old = box->closure;
        box->closure = kl_closure_retain(f);
        kl_closure_release(old);
    } else if (!c.err) {
        box = *ctx = kl_malloc(sizeof *box);
        if (box)
            box->closure = kl_closure_retain(f);
        else
            kl_fail_nomem(&c.err);
    }
    return kl_call_end_plain(&c);
}

/* Notes what is wrong after a call of the user's function: its code, or a result that is still
 * empty. */
static void check_outcome(struct kl_call *c, int rc, const void *made_ctx) {
    if (c->err) return;
    if (rc)
        kl_fail(&c->err, KL_ECALLBACK, "closure returned a non-zero value (%d)", rc);
    else if (!made_ctx)
        kl_fail(&c->err, KL_ECALLBACK, "closure returned 0 and left a result empty");
}

/* Assigns the list that a function made. `made` and its contents are taken. */
static void assign(const struct kl_vec_kind *kind, void **ctx, struct kl_vec *made) {
    if (*ctx) {
        kl_vec_move(kind, *ctx, made);
        kl_vec_free(kind, made);
    } else {
        *ctx = made;
    }
}

static int end_apply(struct kl_call *c, int rc, mlx_vector_array *res, mlx_vector_array made) {
    check_outcome(c, rc, made.ctx);
    if (c->err)
        kl_vec_free(&kl_vec_of_arrays, made.ctx);
    else
        assign(&kl_vec_of_arrays, &res->ctx, made.ctx);
    return kl_call_end_plain(c);
}

static void need_numbers(struct kl_call *c, const int *numbers, size_t n, const char *what) {
    if (n && !numbers) kl_fail(&c->err, KL_EARG, "%s is NULL and its count is %zu", what, n);
}

/* ---- arrays to arrays ---- */
typedef int list_fn(mlx_vector_array *, const mlx_vector_array);
typedef int list_payload_fn(mlx_vector_array *, const mlx_vector_array, void *);

mlx_closure mlx_closure_new(void) {
    return (mlx_closure){NULL};
}

int mlx_closure_free(mlx_closure cls) {
    return free_closure(cls.ctx);
}

mlx_closure mlx_closure_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array)) {
    return (mlx_closure){new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure mlx_closure_new_func_payload(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                                    void *),
                                         void *payload, void (*dtor)(void *)) {
    return (mlx_closure){new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_set(mlx_closure *cls, const mlx_closure src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

typedef int unary_fn(mlx_array *, const mlx_array);

mlx_closure mlx_closure_new_unary(int (*fun)(mlx_array *, const mlx_array)) {
    return (mlx_closure){new_closure(__func__, KL_CLOSURE_UNARY, (any_fn *)fun, NULL, NULL)};
}

/* Calls a function of one array. Its input is a borrowed handle, whose box may be on the stack. */
static int call_unary(struct kl_call *c, const struct kl_closure *f, mlx_vector_array *made,
                      mlx_vector_array input) {
    const struct kl_vec *in = input.ctx;
    if (in->n != 1) {
        kl_fail(&c->err, KL_EARG, "a unary closure takes 1 array, not %zu", in->n);
        return 0;
    }
    struct kl_array_box box = {kl_vec_array_items(in)[0]};
    mlx_array out = {NULL};
    int rc = ((unary_fn *)f->fun)(&out, (mlx_array){&box});
    if (rc == 0 && out.ctx) {
        made->ctx = kl_vec_new(&c->err);
        if (made->ctx) kl_vec_take(&kl_vec_of_arrays, made->ctx, &out, 1, &c->err);
    }
    kl_array_box_free(out.ctx);
    return rc;
}

/* A function that a transform made: it knows its errors itself. */
static int apply_function(struct kl_call *c, const struct kl_function *f, mlx_vector_array *res,
                          const struct kl_vec *input) {
    struct kl_arrays outs = {0};
    kl_function_call(f, kl_vec_array_items(input), input->n, &outs, &c->err);
    return kl_call_end_arrays(c, res, &outs);
}

int mlx_closure_apply(mlx_vector_array *res, mlx_closure cls, const mlx_vector_array input) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input.ctx, "input");
    mlx_vector_array made = {NULL};
    int rc = 0, level;
    if (c.err) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_LIBRARY) {
        kl_closure_retain(f); /* the function that it calls may free the handle */
        rc = apply_function(&c, f->payload, res, input.ctx);
        kl_closure_release(f);
        return rc;
    }
    if (kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_PAYLOAD)
        rc = ((list_payload_fn *)f->fun)(&made, input, f->payload);
    else if (f->form == KL_CLOSURE_UNARY)
        rc = call_unary(&c, f, &made, input);
    else
        rc = ((list_fn *)f->fun)(&made, input);
    kl_level_leave(level);
    return end_apply(&c, rc, res, made);
}

/* ---- arrays and named arrays to arrays ---- */
typedef int kwargs_fn(mlx_vector_array *, const mlx_vector_array, const mlx_map_string_to_array);
typedef int kwargs_payload_fn(mlx_vector_array *, const mlx_vector_array,
                              const mlx_map_string_to_array, void *);

mlx_closure_kwargs mlx_closure_kwargs_new(void) {
    return (mlx_closure_kwargs){NULL};
}

int mlx_closure_kwargs_free(mlx_closure_kwargs cls) {
    return free_closure(cls.ctx);
}

mlx_closure_kwargs mlx_closure_kwargs_new_func(int (*fun)(mlx_vector_array *,
                                                          const mlx_vector_array,
                                                          const mlx_map_string_to_array)) {
    return (mlx_closure_kwargs){new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure_kwargs mlx_closure_kwargs_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_map_string_to_array, void *),
    void *payload, void (*dtor)(void *)) {
    return (mlx_closure_kwargs){
        new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_kwargs_set(mlx_closure_kwargs *cls, const mlx_closure_kwargs src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

int mlx_closure_kwargs_apply(mlx_vector_array *res, mlx_closure_kwargs cls,
                             const mlx_vector_array input_0,
                             const mlx_map_string_to_array input_1) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input_0.ctx, "input_0");
    kl_in_map(&c, input_1.ctx, "input_1");
    mlx_vector_array made = {NULL};
    int rc = 0, level;
    if (c.err || kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_PAYLOAD)
        rc = ((kwargs_payload_fn *)f->fun)(&made, input_0, input_1, f->payload);
    else
        rc = ((kwargs_fn *)f->fun)(&made, input_0, input_1);
    kl_level_leave(level);
    return end_apply(&c, rc, res, made);
}

/* ---- arrays to values and gradients ---- */
typedef int value_and_grad_fn(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array);
typedef int value_and_grad_payload_fn(mlx_vector_array *, mlx_vector_array *,
                                      const mlx_vector_array, void *);

mlx_closure_value_and_grad mlx_closure_value_and_grad_new(void) {
    return (mlx_closure_value_and_grad){NULL};
}

int mlx_closure_value_and_grad_free(mlx_closure_value_and_grad cls) {
    return free_closure(cls.ctx);
}

mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func(int (*fun)(mlx_vector_array *,
                                                                          mlx_vector_array *,
                                                                          const mlx_vector_array)) {
    return (mlx_closure_value_and_grad){
        new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array, void *),
    void *payload, void (*dtor)(void *)) {
    return (mlx_closure_value_and_grad){
        new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_value_and_grad_set(mlx_closure_value_and_grad *cls,
                                   const mlx_closure_value_and_grad src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

static int apply_gradient(struct kl_call *c, const struct kl_gradient_function *g,
                          mlx_vector_array *res_0, mlx_vector_array *res_1,
                          const struct kl_vec *input) {
    struct kl_arrays values = {0}, grads = {0};
    kl_value_and_grad(&g->f, g->argnums, g->n_argnums, kl_vec_array_items(input), input->n, &values,
                      &grads, &c->err);
    return kl_call_end_arrays_pair(c, res_0, res_1, &values, &grads);
}

int mlx_closure_value_and_grad_apply(mlx_vector_array *res_0, mlx_vector_array *res_1,
                                     mlx_closure_value_and_grad cls, const mlx_vector_array input) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    kl_need(&c, res_1, "the second result");
    const struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input.ctx, "input");
    mlx_vector_array made_0 = {NULL};
    mlx_vector_array made_1 = {NULL};
    if (c.err) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_LIBRARY)
        return apply_gradient(&c, f->payload, res_0, res_1, input.ctx);
    int level;
    if (kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    int rc = f->form == KL_CLOSURE_PAYLOAD
                 ? ((value_and_grad_payload_fn *)f->fun)(&made_0, &made_1, input, f->payload)
                 : ((value_and_grad_fn *)f->fun)(&made_0, &made_1, input);
    kl_level_leave(level);
    check_outcome(&c, rc, made_0.ctx);
    check_outcome(&c, rc, made_1.ctx);
    if (c.err) {
        kl_vec_free(&kl_vec_of_arrays, made_0.ctx);
        kl_vec_free(&kl_vec_of_arrays, made_1.ctx);
    } else {
        assign(&kl_vec_of_arrays, &res_0->ctx, made_0.ctx);
        assign(&kl_vec_of_arrays, &res_1->ctx, made_1.ctx);
    }
    return kl_call_end_plain(&c);
}

/* ---- a custom vjp ---- */
typedef int custom_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                      const mlx_vector_array);
typedef int custom_payload_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                              const mlx_vector_array, void *);

mlx_closure_custom mlx_closure_custom_new(void) {
    return (mlx_closure_custom){NULL};
}

int mlx_closure_custom_free(mlx_closure_custom cls) {
    return free_closure(cls.ctx);
}

mlx_closure_custom
mlx_closure_custom_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                       const mlx_vector_array, const mlx_vector_array)) {
    return (mlx_closure_custom){new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure_custom mlx_closure_custom_new_func_payload(int (*fun)(mlx_vector_array *,
                                                                  const mlx_vector_array,
                                                                  const mlx_vector_array,
                                                                  const mlx_vector_array, void *),
                                                       void *payload, void (*dtor)(void *)) {
    return (mlx_closure_custom){
        new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_custom_set(mlx_closure_custom *cls, const mlx_closure_custom src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

int mlx_closure_custom_apply(mlx_vector_array *res, mlx_closure_custom cls,
                             const mlx_vector_array input_0, const mlx_vector_array input_1,
                             const mlx_vector_array input_2) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input_0.ctx, "input_0");
    kl_in_vec(&c, input_1.ctx, "input_1");
    kl_in_vec(&c, input_2.ctx, "input_2");
    mlx_vector_array made = {NULL};
    int rc = 0, level;
    if (c.err || kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_PAYLOAD)
        rc = ((custom_payload_fn *)f->fun)(&made, input_0, input_1, input_2, f->payload);
    else
        rc = ((custom_fn *)f->fun)(&made, input_0, input_1, input_2);
    kl_level_leave(level);
    return end_apply(&c, rc, res, made);
}

/* ---- a custom jvp ---- */
typedef int custom_jvp_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                          const int *, size_t);
typedef int custom_jvp_payload_fn(mlx_vector_array *, const mlx_vector_array,
                                  const mlx_vector_array, const int *, size_t, void *);

mlx_closure_custom_jvp mlx_closure_custom_jvp_new(void) {
    return (mlx_closure_custom_jvp){NULL};
}

int mlx_closure_custom_jvp_free(mlx_closure_custom_jvp cls) {
    return free_closure(cls.ctx);
}

mlx_closure_custom_jvp
mlx_closure_custom_jvp_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array,
                                           const mlx_vector_array, const int *, size_t)) {
    return (mlx_closure_custom_jvp){
        new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure_custom_jvp mlx_closure_custom_jvp_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *,
               size_t, void *),
    void *payload, void (*dtor)(void *)) {
    return (mlx_closure_custom_jvp){
        new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_custom_jvp_set(mlx_closure_custom_jvp *cls, const mlx_closure_custom_jvp src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

int mlx_closure_custom_jvp_apply(mlx_vector_array *res, mlx_closure_custom_jvp cls,
                                 const mlx_vector_array input_0, const mlx_vector_array input_1,
                                 const int *input_2, size_t input_2_num) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input_0.ctx, "input_0");
    kl_in_vec(&c, input_1.ctx, "input_1");
    need_numbers(&c, input_2, input_2_num, "input_2");
    mlx_vector_array made = {NULL};
    int rc = 0, level;
    if (c.err || kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    if (f->form == KL_CLOSURE_PAYLOAD)
        rc = ((custom_jvp_payload_fn *)f->fun)(&made, input_0, input_1, input_2, input_2_num,
                                               f->payload);
    else
        rc = ((custom_jvp_fn *)f->fun)(&made, input_0, input_1, input_2, input_2_num);
    kl_level_leave(level);
    return end_apply(&c, rc, res, made);
}

/* ---- a custom vmap ---- */
typedef int custom_vmap_fn(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array,
                           const int *, size_t);
typedef int custom_vmap_payload_fn(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array,
                                   const int *, size_t, void *);

mlx_closure_custom_vmap mlx_closure_custom_vmap_new(void) {
    return (mlx_closure_custom_vmap){NULL};
}

int mlx_closure_custom_vmap_free(mlx_closure_custom_vmap cls) {
    return free_closure(cls.ctx);
}

mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func(
    int (*fun)(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t)) {
    return (mlx_closure_custom_vmap){
        new_closure(__func__, KL_CLOSURE_PLAIN, (any_fn *)fun, NULL, NULL)};
}

mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t,
               void *),
    void *payload, void (*dtor)(void *)) {
    return (mlx_closure_custom_vmap){
        new_closure(__func__, KL_CLOSURE_PAYLOAD, (any_fn *)fun, payload, dtor)};
}

int mlx_closure_custom_vmap_set(mlx_closure_custom_vmap *cls, const mlx_closure_custom_vmap src) {
    return set(__func__, cls ? &cls->ctx : NULL, src.ctx);
}

int mlx_closure_custom_vmap_apply(mlx_vector_array *res_0, mlx_vector_int *res_1,
                                  mlx_closure_custom_vmap cls, const mlx_vector_array input_0,
                                  const int *input_1, size_t input_1_num) {
    struct kl_call c = kl_call_begin(__func__, res_0);
    kl_need(&c, res_1, "the second result");
    const struct kl_closure *f = kl_in_closure(&c, cls.ctx, "cls");
    kl_in_vec(&c, input_0.ctx, "input_0");
    need_numbers(&c, input_1, input_1_num, "input_1");
    mlx_vector_array made_0 = {NULL};
    mlx_vector_int made_1 = {NULL};
    int level;
    if (c.err || kl_level_enter(&level, &c.err)) return kl_call_end_plain(&c);
    int rc = f->form == KL_CLOSURE_PAYLOAD
                 ? ((custom_vmap_payload_fn *)f->fun)(&made_0, &made_1, input_0, input_1,
                                                      input_1_num, f->payload)
                 : ((custom_vmap_fn *)f->fun)(&made_0, &made_1, input_0, input_1, input_1_num);
    kl_level_leave(level);
    check_outcome(&c, rc, made_0.ctx);
    check_outcome(&c, rc, made_1.ctx);
    if (c.err) {
        kl_vec_free(&kl_vec_of_arrays, made_0.ctx);
        kl_vec_free(&kl_vec_of_ints, made_1.ctx);
    } else {
        assign(&kl_vec_of_arrays, &res_0->ctx, made_0.ctx);
        assign(&kl_vec_of_ints, &res_1->ctx, made_1.ctx);
    }
    return kl_call_end_plain(&c);
}
