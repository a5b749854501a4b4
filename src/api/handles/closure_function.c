/* closure_function.c - closures of the API as the functions that transforms take, and back. */
#include "api/handles/closure.h"
#include "base/alloc.h"

/* ---- closures as functions ---- */

/* A vector handle over new references to n arrays. */
static int vector_of(mlx_vector_array *out, struct kl_array *const *a, size_t n,
                     struct kl_error **err) {
    struct kl_vec *v = kl_vec_new(err);
    struct kl_vec given = {.items = (void *)a, .n = n, .cap = n};
    if (!v) return KL_ENOMEM;
    int rc = kl_vec_dup(&kl_vec_of_arrays, v, &given, err);
    if (rc) {
        kl_vec_free(&kl_vec_of_arrays, v);
        return rc;
    }
    out->ctx = v;
    return KL_OK;
}

static void vector_free(mlx_vector_array v) {
    kl_vec_free(&kl_vec_of_arrays, v.ctx);
}

int kl_vector_contents(struct kl_arrays *outs, mlx_vector_array made, int rc,
                       struct kl_error **err) {
    struct kl_vec *v = made.ctx;
    if (rc || !v) {
        vector_free(made);
        if (rc) return kl_fail(err, KL_ECALLBACK, "closure returned a non-zero value (%d)", rc);
        return kl_fail(err, KL_ECALLBACK, "closure returned 0 and left a result empty");
    }
    rc = kl_arrays_new(outs, v->n, err);
    for (size_t i = 0; i < v->n && !rc; i++) outs->v[i] = kl_array_retain(kl_vec_array_items(v)[i]);
    vector_free(made);
    return rc;
}

static int call_list(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                     struct kl_error **err) {
    typedef int list_fn(mlx_vector_array *, const mlx_vector_array);
    typedef int payload_fn(mlx_vector_array *, const mlx_vector_array, void *);
    typedef int unary_fn(mlx_array *, const mlx_array);
    const struct kl_closure *f = ctx;
    mlx_vector_array input = {NULL}, made = {NULL};
    int rc = 0;
    if (f->form == KL_CLOSURE_LIBRARY) return kl_function_call(f->payload, in, n_in, outs, err);
    if (f->form == KL_CLOSURE_UNARY) {
        if (n_in != 1) return kl_fail(err, KL_EARG, "a unary closure takes 1 array, not %zu", n_in);
        struct kl_array_box box = {in[0]};
        mlx_array out = {NULL};
        rc = ((unary_fn *)f->fun)(&out, (mlx_array){&box});
        struct kl_array_box *result = out.ctx;
        int made_rc = KL_OK;
        if (!rc && result) made_rc = vector_of(&made, &result->array, 1, err);
        kl_array_box_free(result);
        if (made_rc) return made_rc;
        return kl_vector_contents(outs, made, rc, err);
    }
    KL_TRY(vector_of(&input, in, n_in, err));
    if (f->form == KL_CLOSURE_PAYLOAD)
        rc = ((payload_fn *)f->fun)(&made, input, f->payload);
    else
        rc = ((list_fn *)f->fun)(&made, input);
    vector_free(input);
    return kl_vector_contents(outs, made, rc, err);
}

static void retain(void *f) {
    kl_closure_retain(f);
}

static void release(void *f) {
    kl_closure_release(f);
}

struct kl_function kl_closure_as_function(struct kl_closure *f) {
    return (struct kl_function){call_list, kl_closure_retain(f), retain, release};
}

/* ---- closures as rules ---- */

static int vectors_of(mlx_vector_array *v, int n, const struct kl_custom_call *c,
                      struct kl_error **err) {
    int rc = KL_OK, made = 0;
    for (; made < n && !rc; made++) rc = vector_of(&v[made], c->list[made], c->n[made], err);
    if (rc)
        for (int i = 0; i < n; i++) vector_free(v[i]);
    return rc;
}

static int call_vjp(void *ctx, struct kl_custom_call *c, struct kl_arrays *outs,
                    struct kl_error **err) {
    typedef int custom_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                          const mlx_vector_array);
    typedef int payload_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                           const mlx_vector_array, void *);
    const struct kl_closure *f = ctx;
    mlx_vector_array v[3] = {{NULL}}, made = {NULL};
    KL_TRY(vectors_of(v, 3, c, err));
    int rc = f->form == KL_CLOSURE_PAYLOAD
                 ? ((payload_fn *)f->fun)(&made, v[0], v[1], v[2], f->payload)
                 : ((custom_fn *)f->fun)(&made, v[0], v[1], v[2]);
    for (int i = 0; i < 3; i++) vector_free(v[i]);
    return kl_vector_contents(outs, made, rc, err);
}

static int call_jvp(void *ctx, struct kl_custom_call *c, struct kl_arrays *outs,
                    struct kl_error **err) {
    typedef int custom_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                          const int *, size_t);
    typedef int payload_fn(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
                           const int *, size_t, void *);
    const struct kl_closure *f = ctx;
    mlx_vector_array v[2] = {{NULL}}, made = {NULL};
    KL_TRY(vectors_of(v, 2, c, err));
    int rc = f->form == KL_CLOSURE_PAYLOAD
                 ? ((payload_fn *)f->fun)(&made, v[0], v[1], c->numbers, c->n_numbers, f->payload)
                 : ((custom_fn *)f->fun)(&made, v[0], v[1], c->numbers, c->n_numbers);
    for (int i = 0; i < 2; i++) vector_free(v[i]);
    return kl_vector_contents(outs, made, rc, err);
}

static int call_vmap(void *ctx, struct kl_custom_call *c, struct kl_arrays *outs,
                     struct kl_error **err) {
    typedef int custom_fn(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *,
                          size_t);
    typedef int payload_fn(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array,
                           const int *, size_t, void *);
    const struct kl_closure *f = ctx;
    mlx_vector_array v = {NULL}, made = {NULL};
    mlx_vector_int axes = {NULL};
    KL_TRY(vectors_of(&v, 1, c, err));
    int rc = f->form == KL_CLOSURE_PAYLOAD
                 ? ((payload_fn *)f->fun)(&made, &axes, v, c->numbers, c->n_numbers, f->payload)
                 : ((custom_fn *)f->fun)(&made, &axes, v, c->numbers, c->n_numbers);
    vector_free(v);
    rc = kl_vector_contents(outs, made, rc, err);
    const struct kl_vec *given = axes.ctx;
    if (!rc && (!given || given->n != c->n_out_axes)) {
        rc = kl_fail(err, KL_ECALLBACK, "the custom vmap rule gave %zu axes for %zu outputs",
                     given ? given->n : 0, c->n_out_axes);
        kl_arrays_free(outs);
    }
    for (size_t i = 0; i < c->n_out_axes && !rc; i++)
        c->out_axes[i] = ((const int *)given->items)[i];
    kl_vec_free(&kl_vec_of_ints, axes.ctx);
    return rc;
}

struct kl_custom_rule kl_closure_as_vjp(struct kl_closure *f) {
    return (struct kl_custom_rule){call_vjp, kl_closure_retain(f), retain, release};
}

struct kl_custom_rule kl_closure_as_jvp(struct kl_closure *f) {
    return (struct kl_custom_rule){call_jvp, kl_closure_retain(f), retain, release};
}

struct kl_custom_rule kl_closure_as_vmap(struct kl_closure *f) {
    return (struct kl_custom_rule){call_vmap, kl_closure_retain(f), retain, release};
}

/* ---- functions as closures ---- */

static void free_function(void *payload) {
    struct kl_function *f = payload;
    kl_function_release(f);
    kl_free(f);
}

static void free_gradient(void *payload) {
    struct kl_gradient_function *g = payload;
    kl_function_release(&g->f);
    kl_free(g);
}

/* Assigns a closure of the library with this payload to a handle's ctx; the payload is taken. */
static int end_library(struct kl_call *c, void **ctx, void *payload, void (*dtor)(void *)) {
    struct kl_closure *made = NULL;
    struct kl_closure_box *box = *ctx;
    if (!c->err && payload) {
        made = kl_malloc(sizeof *made);
        if (!box) box = kl_malloc(sizeof *box);
        if (!made || !box) kl_fail_nomem(&c->err);
    }
    if (c->err || !payload) {
        kl_free(made);
        if (!*ctx) kl_free(box);
        if (payload) dtor(payload);
        return kl_call_end_plain(c);
    }
    *made = (struct kl_closure){.form = KL_CLOSURE_LIBRARY, .payload = payload, .dtor = dtor};
    atomic_init(&made->refs, 1);
    struct kl_closure *old = *ctx ? box->closure : NULL;
    box->closure = made;
    *ctx = box;
    kl_closure_release(old);
    return kl_call_end_plain(c);
}

int kl_call_end_closure(struct kl_call *c, mlx_closure *res, struct kl_function f) {
    struct kl_function *own = c->err ? NULL : kl_malloc(sizeof *own);
    if (!own) {
        if (!c->err) kl_fail_nomem(&c->err);
        kl_function_release(&f);
        return kl_call_end_plain(c);
    }
    *own = f;
    return end_library(c, &res->ctx, own, free_function);
}

int kl_call_end_gradient(struct kl_call *c, mlx_closure_value_and_grad *res,
                         struct kl_gradient_function *g) {
    if (!g) return kl_call_end_plain(c);
    return end_library(c, &res->ctx, g, free_gradient);
}

/* ---- lists as vectors ---- */

int kl_call_end_arrays(struct kl_call *c, mlx_vector_array *res, struct kl_arrays *list) {
    struct kl_array **v = list->v;
    size_t n = list->n;
    *list = (struct kl_arrays){NULL, 0};
    return kl_call_end_list(c, res, v, n);
}

int kl_call_end_arrays_pair(struct kl_call *c, mlx_vector_array *res_0, mlx_vector_array *res_1,
                            struct kl_arrays *list_0, struct kl_arrays *list_1) {
    struct kl_vec made[2] = {{0}, {0}}, *at[2] = {res_0->ctx, res_1->ctx};
    struct kl_arrays *list[2] = {list_0, list_1};
    for (int i = 0; i < 2 && !c->err; i++)
        if (!at[i]) at[i] = kl_vec_new(&c->err);
    for (int i = 0; i < 2; i++) {
        if (c->err) {
            kl_arrays_free(list[i]);
            if (at[i] && at[i] != (i ? res_1->ctx : res_0->ctx))
                kl_vec_free(&kl_vec_of_arrays, at[i]);
            continue;
        }
        made[i] = (struct kl_vec){list[i]->v, list[i]->n, list[i]->n};
        *list[i] = (struct kl_arrays){NULL, 0};
    }
    for (int i = 0; i < 2 && !c->err; i++) {
        kl_vec_move(&kl_vec_of_arrays, at[i], &made[i]);
        if (i)
            res_1->ctx = at[i];
        else
            res_0->ctx = at[i];
    }
    return kl_call_end_plain(c);
}
