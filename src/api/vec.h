/* vec.h - growable lists of one kind of item: what the vector handles of the C API point to. */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct kl_vec {
    void *items; /* n of cap, item_bytes each; owned */
    size_t n, cap;
};

struct kl_vec_kind {
    size_t item_bytes;
    size_t given_bytes; /* of an element as the API gives it: a handle, an int, a char pointer */
    /* Makes an owned item of what the caller gave, or of another item. 0, KL_EARG, KL_ENOMEM. */
    int (*take)(void *item, const void *given, struct kl_error **err);
    int (*dup)(void *item, const void *other, struct kl_error **err);
    void (*drop)(void *item); /* NULL: nothing to do */
};
extern const struct kl_vec_kind kl_vec_of_arrays;  /* items: struct kl_array *; given: mlx_array */
extern const struct kl_vec_kind kl_vec_of_vectors; /* items: struct kl_vec of arrays */
extern const struct kl_vec_kind kl_vec_of_ints;
extern const struct kl_vec_kind kl_vec_of_strings; /* items: char * */

/* An empty list; NULL when out of memory. */
struct kl_vec *kl_vec_new(struct kl_error **err);
void kl_vec_free(const struct kl_vec_kind *kind, struct kl_vec *v); /* NULL is fine */
/* Drops the items and their memory; v is an empty list then. */
void kl_vec_clear(const struct kl_vec_kind *kind, struct kl_vec *v);
/* Appends n elements as the caller gave them; all or none. */
int kl_vec_take(const struct kl_vec_kind *kind, struct kl_vec *v, const void *given, size_t n,
                struct kl_error **err);
/* Appends copies of the items of another list; all or none. */
int kl_vec_dup(const struct kl_vec_kind *kind, struct kl_vec *v, const struct kl_vec *other,
               struct kl_error **err);
/* *v drops its items and gets those of *from, which is empty then. */
void kl_vec_move(const struct kl_vec_kind *kind, struct kl_vec *v, struct kl_vec *from);
