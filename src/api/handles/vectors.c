/* vectors.c - mlx/c/vector.h: one set of functions for four kinds of list. vec.c defines the
 * lists and how their items are copied; the functions here check handles and assign results. */
#include "api/handles/handles.h"

#include "base/alloc.h"

/* ---- what all kinds share; a handle is passed as its ctx ---- */
/* A new list of n elements in the caller's form. On failure it is NULL, and the error is raised. */
static void *new_of(const char *func, const struct kl_vec_kind *kind, const void *given, size_t n) {
    struct kl_call c = {.func = func};
    struct kl_vec *v = kl_vec_new(&c.err);
    if (v && kl_vec_take(kind, v, given, n, &c.err)) {
        kl_vec_free(kind, v);
        v = NULL;
    }
    kl_call_end_plain(&c);
    return v;
}

/* Gives the list of the handle *ctx the items of `made` (taken), or raises the error that is noted
 * in c. */
static int end_with(struct kl_call *c, const struct kl_vec_kind *kind, void **ctx,
                    struct kl_vec *made) {
    if (!c->err && !*ctx) *ctx = kl_vec_new(&c->err);
    if (c->err)
        kl_vec_clear(kind, made);
    else
        kl_vec_move(kind, *ctx, made);
    return kl_call_end_plain(c);
}

/* ctx is where the result handle stores its pointer; NULL when the result parameter is NULL. */
static int set(const char *func, const struct kl_vec_kind *kind, void **ctx, void *src) {
    struct kl_call c = kl_call_begin(func, ctx);
    const struct kl_vec *from = kl_in_vec(&c, src, "src");
    struct kl_vec made = {0};
    if (!c.err) kl_vec_dup(kind, &made, from, &c.err);
    return end_with(&c, kind, ctx, &made);
}

static int set_to(const char *func, const struct kl_vec_kind *kind, void **ctx, const void *given,
                  size_t n) {
    struct kl_call c = kl_call_begin(func, ctx);
    struct kl_vec made = {0};
    if (!c.err) kl_vec_take(kind, &made, given, n, &c.err);
    return end_with(&c, kind, ctx, &made);
}

static int append(const char *func, const struct kl_vec_kind *kind, void *ctx, const void *given,
                  size_t n) {
    struct kl_call c = {.func = func};
    struct kl_vec *v = kl_in_vec(&c, ctx, "vec");
    if (!c.err) kl_vec_take(kind, v, given, n, &c.err);
    return kl_call_end_plain(&c);
}

static size_t size(const char *func, void *ctx) {
    struct kl_call c = {.func = func};
    const struct kl_vec *v = kl_in_vec(&c, ctx, "vec");
    kl_call_end_plain(&c);
    return v ? v->n : 0;
}

/* The address of item idx; NULL, with the error noted, when there is no such item. */
static const void *item(struct kl_call *c, const struct kl_vec_kind *kind, void *ctx, size_t idx) {
    const struct kl_vec *v = kl_in_vec(c, ctx, "vec");
    if (c->err) return NULL;
    if (idx < v->n) return (const char *)v->items + idx * kind->item_bytes;
    kl_fail(&c->err, KL_EARG, "index %zu is out of range for a vector of size %zu", idx, v->n);
    return NULL;
}

/* ---- lists of arrays ---- */
mlx_vector_array mlx_vector_array_new(void) {
    return (mlx_vector_array){new_of(__func__, &kl_vec_of_arrays, NULL, 0)};
}

mlx_vector_array mlx_vector_array_new_data(const mlx_array *data, size_t n) {
    return (mlx_vector_array){new_of(__func__, &kl_vec_of_arrays, data, n)};
}

mlx_vector_array mlx_vector_array_new_value(const mlx_array val) {
    return (mlx_vector_array){new_of(__func__, &kl_vec_of_arrays, &val, 1)};
}

int mlx_vector_array_set(mlx_vector_array *vec, const mlx_vector_array src) {
    return set(__func__, &kl_vec_of_arrays, vec ? &vec->ctx : NULL, src.ctx);
}

int mlx_vector_array_set_data(mlx_vector_array *vec, const mlx_array *data, size_t n) {
    return set_to(__func__, &kl_vec_of_arrays, vec ? &vec->ctx : NULL, data, n);
}

int mlx_vector_array_set_value(mlx_vector_array *vec, const mlx_array val) {
    return set_to(__func__, &kl_vec_of_arrays, vec ? &vec->ctx : NULL, &val, 1);
}

int mlx_vector_array_append_data(mlx_vector_array vec, const mlx_array *data, size_t n) {
    return append(__func__, &kl_vec_of_arrays, vec.ctx, data, n);
}

int mlx_vector_array_append_value(mlx_vector_array vec, const mlx_array val) {
    return append(__func__, &kl_vec_of_arrays, vec.ctx, &val, 1);
}

size_t mlx_vector_array_size(mlx_vector_array vec) {
    return size(__func__, vec.ctx);
}

int mlx_vector_array_free(mlx_vector_array vec) {
    kl_vec_free(&kl_vec_of_arrays, vec.ctx);
    return 0;
}

int mlx_vector_array_get(mlx_array *res, const mlx_vector_array vec, size_t idx) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *const *at = item(&c, &kl_vec_of_arrays, vec.ctx, idx);
    return kl_call_end(&c, res, at ? kl_array_retain(*at) : NULL);
}

/* ---- lists of lists of arrays ---- */
mlx_vector_vector_array mlx_vector_vector_array_new(void) {
    return (mlx_vector_vector_array){new_of(__func__, &kl_vec_of_vectors, NULL, 0)};
}

mlx_vector_vector_array mlx_vector_vector_array_new_data(const mlx_vector_array *data, size_t n) {
    return (mlx_vector_vector_array){new_of(__func__, &kl_vec_of_vectors, data, n)};
}

mlx_vector_vector_array mlx_vector_vector_array_new_value(const mlx_vector_array val) {
    return (mlx_vector_vector_array){new_of(__func__, &kl_vec_of_vectors, &val, 1)};
}

int mlx_vector_vector_array_set(mlx_vector_vector_array *vec, const mlx_vector_vector_array src) {
    return set(__func__, &kl_vec_of_vectors, vec ? &vec->ctx : NULL, src.ctx);
}

int mlx_vector_vector_array_set_data(mlx_vector_vector_array *vec, const mlx_vector_array *data,
                                     size_t n) {
    return set_to(__func__, &kl_vec_of_vectors, vec ? &vec->ctx : NULL, data, n);
}

int mlx_vector_vector_array_set_value(mlx_vector_vector_array *vec, const mlx_vector_array val) {
    return set_to(__func__, &kl_vec_of_vectors, vec ? &vec->ctx : NULL, &val, 1);
}

int mlx_vector_vector_array_append_data(mlx_vector_vector_array vec, const mlx_vector_array *data,
                                        size_t n) {
    return append(__func__, &kl_vec_of_vectors, vec.ctx, data, n);
}

int mlx_vector_vector_array_append_value(mlx_vector_vector_array vec, const mlx_vector_array val) {
    return append(__func__, &kl_vec_of_vectors, vec.ctx, &val, 1);
}

size_t mlx_vector_vector_array_size(mlx_vector_vector_array vec) {
    return size(__func__, vec.ctx);
}

int mlx_vector_vector_array_free(mlx_vector_vector_array vec) {
    kl_vec_free(&kl_vec_of_vectors, vec.ctx);
    return 0;
}

int mlx_vector_vector_array_get(mlx_vector_array *res, const mlx_vector_vector_array vec,
                                size_t idx) {
    struct kl_call c = kl_call_begin(__func__, res);
    const struct kl_vec *inner = item(&c, &kl_vec_of_vectors, vec.ctx, idx);
    struct kl_vec made = {0};
    if (!c.err) kl_vec_dup(&kl_vec_of_arrays, &made, inner, &c.err);
    return end_with(&c, &kl_vec_of_arrays, res ? &res->ctx : NULL, &made);
}

/* ---- lists of ints ---- */
mlx_vector_int mlx_vector_int_new(void) {
    return (mlx_vector_int){new_of(__func__, &kl_vec_of_ints, NULL, 0)};
}

mlx_vector_int mlx_vector_int_new_data(int *data, size_t n) {
    return (mlx_vector_int){new_of(__func__, &kl_vec_of_ints, data, n)};
}

mlx_vector_int mlx_vector_int_new_value(int val) {
    return (mlx_vector_int){new_of(__func__, &kl_vec_of_ints, &val, 1)};
}

int mlx_vector_int_set(mlx_vector_int *vec, const mlx_vector_int src) {
    return set(__func__, &kl_vec_of_ints, vec ? &vec->ctx : NULL, src.ctx);
}

int mlx_vector_int_set_data(mlx_vector_int *vec, int *data, size_t n) {
    return set_to(__func__, &kl_vec_of_ints, vec ? &vec->ctx : NULL, data, n);
}

int mlx_vector_int_set_value(mlx_vector_int *vec, int val) {
    return set_to(__func__, &kl_vec_of_ints, vec ? &vec->ctx : NULL, &val, 1);
}

int mlx_vector_int_append_data(mlx_vector_int vec, int *data, size_t n) {
    return append(__func__, &kl_vec_of_ints, vec.ctx, data, n);
}

int mlx_vector_int_append_value(mlx_vector_int vec, int val) {
    return append(__func__, &kl_vec_of_ints, vec.ctx, &val, 1);
}

size_t mlx_vector_int_size(mlx_vector_int vec) {
    return size(__func__, vec.ctx);
}

int mlx_vector_int_free(mlx_vector_int vec) {
    kl_vec_free(&kl_vec_of_ints, vec.ctx);
    return 0;
}

int mlx_vector_int_get(int *res, const mlx_vector_int vec, size_t idx) {
    struct kl_call c = kl_call_begin(__func__, res);
    const int *at = item(&c, &kl_vec_of_ints, vec.ctx, idx);
    if (!c.err) *res = *at;
    return kl_call_end_plain(&c);
}

/* ---- lists of strings ---- */
mlx_vector_string mlx_vector_string_new(void) {
    return (mlx_vector_string){new_of(__func__, &kl_vec_of_strings, NULL, 0)};
}

mlx_vector_string mlx_vector_string_new_data(const char **data, size_t n) {
    return (mlx_vector_string){new_of(__func__, &kl_vec_of_strings, data, n)};
}

mlx_vector_string mlx_vector_string_new_value(const char *val) {
    return (mlx_vector_string){new_of(__func__, &kl_vec_of_strings, &val, 1)};
}

int mlx_vector_string_set(mlx_vector_string *vec, const mlx_vector_string src) {
    return set(__func__, &kl_vec_of_strings, vec ? &vec->ctx : NULL, src.ctx);
}

int mlx_vector_string_set_data(mlx_vector_string *vec, const char **data, size_t n) {
    return set_to(__func__, &kl_vec_of_strings, vec ? &vec->ctx : NULL, data, n);
}

int mlx_vector_string_set_value(mlx_vector_string *vec, const char *val) {
    return set_to(__func__, &kl_vec_of_strings, vec ? &vec->ctx : NULL, &val, 1);
}

int mlx_vector_string_append_data(mlx_vector_string vec, const char **data, size_t n) {
    return append(__func__, &kl_vec_of_strings, vec.ctx, data, n);
}

int mlx_vector_string_append_value(mlx_vector_string vec, const char *val) {
    return append(__func__, &kl_vec_of_strings, vec.ctx, &val, 1);
}

size_t mlx_vector_string_size(mlx_vector_string vec) {
    return size(__func__, vec.ctx);
}

int mlx_vector_string_free(mlx_vector_string vec) {
    kl_vec_free(&kl_vec_of_strings, vec.ctx);
    return 0;
}

int mlx_vector_string_get(char **res, const mlx_vector_string vec, size_t idx) {
    struct kl_call c = kl_call_begin(__func__, res);
    char *const *at = item(&c, &kl_vec_of_strings, vec.ctx, idx);
    if (!c.err) *res = *at;
    return kl_call_end_plain(&c);
}
