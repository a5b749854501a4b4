/* vec.c - see vec.h. */
#include "api/handles/vec.h"

#include <string.h>

#include "api/handles/handles.h"
#include "base/alloc.h"

/* ---- the kinds ---- */
static int array_take(void *item, const void *given, struct kl_error **err) {
    const struct kl_array_box *box = ((const mlx_array *)given)->ctx;
    if (!box) return kl_fail(err, KL_EARG, "an element is an empty array handle");
    *(struct kl_array **)item = kl_array_retain(box->array);
    return 0;
}

static int array_dup(void *item, const void *other, struct kl_error **err) {
    *(struct kl_array **)item = kl_array_retain(*(struct kl_array *const *)other);
    return 0;
}

static void array_drop(void *item) {
    kl_array_release(*(struct kl_array **)item);
}

static int vector_dup(void *item, const void *other, struct kl_error **err) {
    struct kl_vec *v = item;
    *v = (struct kl_vec){0};
    return kl_vec_dup(&kl_vec_of_arrays, v, other, err);
}

static int vector_take(void *item, const void *given, struct kl_error **err) {
    const struct kl_vec *v = ((const mlx_vector_array *)given)->ctx;
    if (!v) return kl_fail(err, KL_EARG, "an element is an empty vector handle");
    return vector_dup(item, v, err);
}

static void vector_drop(void *item) {
    kl_vec_clear(&kl_vec_of_arrays, item);
}

static int int_dup(void *item, const void *other, struct kl_error **err) {
    memcpy(item, other, sizeof(int));
    return 0;
}

static int string_dup(void *item, const void *other, struct kl_error **err) {
    const char *s = *(char *const *)other;
    if (!s) return kl_fail(err, KL_EARG, "a string is NULL");
    char *copy = kl_strdup(s);
    if (!copy) return kl_fail_nomem(err);
    *(char **)item = copy;
    return 0;
}

static void string_drop(void *item) {
    kl_free(*(char **)item);
}

const struct kl_vec_kind kl_vec_of_arrays = {
    .item_bytes = sizeof(struct kl_array *),
    .given_bytes = sizeof(mlx_array),
    .take = array_take,
    .dup = array_dup,
    .drop = array_drop,
};
const struct kl_vec_kind kl_vec_of_vectors = {
    .item_bytes = sizeof(struct kl_vec),
    .given_bytes = sizeof(mlx_vector_array),
    .take = vector_take,
    .dup = vector_dup,
    .drop = vector_drop,
};
const struct kl_vec_kind kl_vec_of_ints = {
    .item_bytes = sizeof(int),
    .given_bytes = sizeof(int),
    .take = int_dup,
    .dup = int_dup,
};
const struct kl_vec_kind kl_vec_of_strings = {
    .item_bytes = sizeof(char *),
    .given_bytes = sizeof(char *),
    .take = string_dup,
    .dup = string_dup,
    .drop = string_drop,
};

/* ---- lists ---- */
struct kl_vec *kl_vec_new(struct kl_error **err) {
    struct kl_vec *v = kl_calloc(1, sizeof *v);
    if (!v) kl_fail_nomem(err);
    return v;
}

static void drop_from(const struct kl_vec_kind *kind, struct kl_vec *v, size_t first) {
    for (size_t i = first; kind->drop && i < v->n; i++)
        kind->drop((char *)v->items + i * kind->item_bytes);
    v->n = first;
}

void kl_vec_clear(const struct kl_vec_kind *kind, struct kl_vec *v) {
    drop_from(kind, v, 0);
    kl_free(v->items);
    *v = (struct kl_vec){0};
}

void kl_vec_free(const struct kl_vec_kind *kind, struct kl_vec *v) {
    if (!v) return;
    kl_vec_clear(kind, v);
    kl_free(v);
}

static int reserve(const struct kl_vec_kind *kind, struct kl_vec *v, size_t more,
                   struct kl_error **err) {
    if (more <= v->cap - v->n) return 0;
    if (more > SIZE_MAX / 4 / kind->item_bytes - v->n) return kl_fail_nomem(err);
    size_t cap = v->n + more > 2 * v->cap ? v->n + more : 2 * v->cap;
    void *items = kl_realloc(v->items, cap * kind->item_bytes);
    if (!items) return kl_fail_nomem(err);
    v->items = items;
    v->cap = cap;
    return 0;
}

static int append(const struct kl_vec_kind *kind, struct kl_vec *v, const void *from,
                  size_t from_bytes, size_t n,
                  int (*make)(void *item, const void *from, struct kl_error **err),
                  struct kl_error **err) {
    size_t old = v->n;
    if (n && !from) return kl_fail(err, KL_EARG, "data is NULL and the size is %zu", n);
    KL_TRY(reserve(kind, v, n, err));
    for (size_t i = 0; i < n; i++) {
        void *item = (char *)v->items + v->n * kind->item_bytes;
        int rc = make(item, (const char *)from + i * from_bytes, err);
        if (rc) {
            drop_from(kind, v, old);
            return rc;
        }
        v->n++;
    }
    return 0;
}

int kl_vec_take(const struct kl_vec_kind *kind, struct kl_vec *v, const void *given, size_t n,
                struct kl_error **err) {
    return append(kind, v, given, kind->given_bytes, n, kind->take, err);
}

int kl_vec_dup(const struct kl_vec_kind *kind, struct kl_vec *v, const struct kl_vec *other,
               struct kl_error **err) {
    return append(kind, v, other->items, kind->item_bytes, other->n, kind->dup, err);
}

void kl_vec_move(const struct kl_vec_kind *kind, struct kl_vec *v, struct kl_vec *from) {
    struct kl_vec old = *v;
    *v = *from;
    *from = (struct kl_vec){0};
    kl_vec_clear(kind, &old);
}
