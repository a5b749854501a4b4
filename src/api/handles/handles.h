/* handles.h - what the handles of the C API point to, and the frame of an API call. Only api/
 * includes it.
 * A live handle is overwritten in place and keeps its pointer, because a binding may have copied
 * the handle. So ctx points to a small box that owns a reference to the shared object. A box
 * belongs to one handle and has no lock. An API function reads its arguments with kl_in_*, builds
 * its result while no error is noted, and ends with a kl_call_end_*, which assigns or raises
 * (example: kl_call_begin). */
#pragma once
#include <mlx/c/mlx.h>

#include "api/handles/error.h"
#include "api/handles/map.h"
#include "api/handles/vec.h"
#include "graph/array.h"

/* ---- boxes; the handles of strings, vectors and maps point to the struct of that name ---- */
struct kl_array_box {
    struct kl_array *array; /* owned, never NULL */
};
struct kl_stream_box {
    struct kl_stream *stream; /* owned, never NULL */
};
struct kl_device_box {
    enum kl_device_type type;
    int index;
};
struct kl_group_box {
    struct kl_group *group; /* owned, never NULL */
};
struct kl_string_box {
    char *text; /* owned, never NULL */
};

/* ---- a call ---- */
struct kl_call {
    const char *func;     /* name of the API function, for messages */
    struct kl_error *err; /* the first error of the call, or NULL; owned */
};

/* Begins a call. res is the result parameter, which must not be NULL; a function with several
 * results checks the others with kl_need.
 *
 *     struct kl_call c = kl_call_begin(__func__, res);
 *     struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
 *     struct kl_stream *on = kl_in_stream(&c, s);
 *     if (!c.err) kl_abs(&out, in, on, &c.err);
 *     return kl_call_end(&c, res, out); */
struct kl_call kl_call_begin(const char *func, const void *res);
/* Notes KL_EARG when a required pointer is NULL. */
void kl_need(struct kl_call *c, const void *p, const char *what);

/* Structs that the library fills in the caller's memory begin with `size_t size`, which the caller
 * sets to the sizeof of the struct that it was compiled with. An older program's struct is shorter
 * and gets the fields that fit; fields of a newer one that this library does not know are left
 * alone. */
/* Notes KL_EARG when size is less than `least`, where the fields end that every caller has. */
void kl_need_size(struct kl_call *c, size_t size, size_t least, const char *type);
/* Copies all but the size from `from`, a struct of n bytes, to the caller's struct. */
void kl_fill(void *to, const void *from, size_t n);

/* Arguments. Each is borrowed; it is NULL, with the error noted, when the handle is empty. */
struct kl_array *kl_in(struct kl_call *c, mlx_array a, const char *what);
struct kl_stream *kl_in_stream(struct kl_call *c, mlx_stream s);
/* The group, or NULL for an empty handle: that of all processes. */
struct kl_group *kl_in_optional_group(mlx_distributed_group group);
struct kl_vec *kl_in_vec(struct kl_call *c, void *ctx, const char *what);
struct kl_map *kl_in_map(struct kl_call *c, void *ctx, const char *what);
/* The array, or NULL for an empty handle, which means that the argument was left out. */
struct kl_array *kl_in_optional(mlx_array a);
/* The arrays of a vector of arrays. */
static inline struct kl_array *const *kl_vec_array_items(const struct kl_vec *v) {
    return (struct kl_array *const *)v->items;
}

/* Ends of calls; each gives the return value of the API function. With an error noted, the result
 * is released and the error is raised. Results are assigned only when nothing can fail any more. */
int kl_call_end_plain(struct kl_call *c); /* nothing to assign */
int kl_call_end(struct kl_call *c, mlx_array *res, struct kl_array *out /* taken */);
int kl_call_end_pair(struct kl_call *c, mlx_array *res_0, mlx_array *res_1,
                     struct kl_array *out_0 /* taken */, struct kl_array *out_1 /* taken */);
/* Takes the list, which is memory of kl_malloc, and its arrays. */
int kl_call_end_list(struct kl_call *c, mlx_vector_array *res, struct kl_array **outs, size_t n);
int kl_call_end_text(struct kl_call *c, mlx_string *res, char *text /* taken, of kl_malloc */);
/* For constructors: the ctx of the new handle, NULL when the call failed. */
void *kl_call_end_new_array(struct kl_call *c, struct kl_array *out /* taken */);
void *kl_call_end_new_stream(struct kl_call *c, struct kl_stream *out /* taken */);

/* ---- boxes alone ----
 * The functions return NULL, with the error in *err, when out of memory. */
struct kl_array_box *kl_array_box_new(struct kl_array *a /* taken, also on failure */,
                                      struct kl_error **err);
void kl_array_box_free(struct kl_array_box *b); /* NULL is fine */
/* Puts `a`, which is taken, into the box, and releases the earlier content. */
void kl_array_box_put(struct kl_array_box *b, struct kl_array *a);
