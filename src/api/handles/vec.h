/* vec.h - growable lists of one kind of item. The vector handles of the C API point to them. */
#pragma once
#include <stddef.h>

#include "base/error.h"

struct kl_vec {
    void *items; /* n of cap items of item_bytes each; owned */
    size_t n, cap;
};

struct kl_vec_kind {
    size_t item_bytes;
    /* bytes of an element in the caller's form: a handle, an int, or a char pointer */
    size_t given_bytes;
    /* Makes an owned item from an element of the caller, or from another item. 0, KL_EARG,
     * KL_ENOMEM. */
    int (*take)(void *item, const void *given, struct kl_error **err);
    int (*dup)(void *item, const void *other, struct kl_error **err);
    void (*drop)(void *item); /* NULL: an item needs no release */
};
extern const struct kl_vec_kind kl_vec_of_arrays;  /* items: struct kl_array *; given: mlx_array */
extern const struct kl_vec_kind kl_vec_of_vectors; /* items: struct kl_vec of arrays */
extern const struct kl_vec_kind kl_vec_of_ints;
extern const struct kl_vec_kind kl_vec_of_strings; /* items: char * */

/* An empty list; NULL when out of memory. */
struct kl_vec *kl_vec_new(struct kl_error **err);
void kl_vec_free(const struct kl_vec_kind *kind, struct kl_vec *v); /* NULL is fine */
/* Drops the items and their memory; v is an empty list afterwards. */
void kl_vec_clear(const struct kl_vec_kind *kind, struct kl_vec *v);
/* Appends n elements in the caller's form: all of them, or none on failure. */
int kl_vec_take(const struct kl_vec_kind *kind, struct kl_vec *v, const void *given, size_t n,
                struct kl_error **err);
/* Appends copies of the items of another list: all of them, or none on failure. */
int kl_vec_dup(const struct kl_vec_kind *kind, struct kl_vec *v, const struct kl_vec *other,
               struct kl_error **err);
/* *v drops its items and gets the items of *from, which is empty afterwards. */
void kl_vec_move(const struct kl_vec_kind *kind, struct kl_vec *v, struct kl_vec *from);
