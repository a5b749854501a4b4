/* handles.h - what the handles of the C API point to, and the frame of an API call.
 *
 * A live handle is overwritten in place and keeps its pointer (a binding may have copied the
 * handle), so ctx does not point to the shared object but to a small box that owns a reference to
 * it. Boxes belong to one handle and are not locked; what they refer to is shared and is.
 *
 * An API function reads its arguments with kl_in_*, builds its result while no error is noted, and
 * ends with one of kl_call_end_*, which assigns or raises:
 *
 *     struct kl_call c = kl_call_begin(__func__, res);
 *     struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
 *     struct kl_stream *on = kl_in_stream(&c, s);
 *     if (!c.err) kl_abs(&out, in, on, &c.err);
 *     return kl_call_end(&c, res, out);
 *
 * Only api/ includes this. */
#pragma once
#include <mlx/c/mlx.h>

#include "api/api_error.h"
#include "api/map.h"
#include "api/vec.h"
#include "graph/array.h"

/* ---- boxes; string, vector and map handles point to the struct of that name ---- */
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
struct kl_string_box {
    char *text; /* owned, never NULL */
};

/* ---- a call ---- */
struct kl_call {
    const char *func;     /* the API function, for messages */
    struct kl_error *err; /* the first thing that went wrong; owned */
};

/* res: the result parameter, checked for NULL. Functions with several check the others with
 * kl_need. */
struct kl_call kl_call_begin(const char *func, const void *res);
/* Notes KL_EARG when a pointer that must be there is NULL. */
void kl_need(struct kl_call *c, const void *p, const char *what);

/* Arguments. NULL, with the error noted, when the handle is empty; borrowed otherwise. */
struct kl_array *kl_in(struct kl_call *c, mlx_array a, const char *what);
struct kl_stream *kl_in_stream(struct kl_call *c, mlx_stream s);
struct kl_vec *kl_in_vec(struct kl_call *c, void *ctx, const char *what);
struct kl_map *kl_in_map(struct kl_call *c, void *ctx, const char *what);
/* NULL for an empty handle: the argument was left out. */
struct kl_array *kl_in_optional(mlx_array a);
/* The arrays of a vector of arrays. */
static inline struct kl_array *const *kl_vec_array_items(const struct kl_vec *v) {
    return (struct kl_array *const *)v->items;
}

/* Ends of calls: the function's return value. With an error noted, what was built is released and
 * the error raised; results are assigned only when nothing can fail any more. */
int kl_call_end_plain(struct kl_call *c); /* nothing to assign */
int kl_call_end(struct kl_call *c, mlx_array *res, struct kl_array *out /* taken */);
int kl_call_end_pair(struct kl_call *c, mlx_array *res_0, mlx_array *res_1,
                     struct kl_array *out_0 /* taken */, struct kl_array *out_1 /* taken */);
/* The list (of kl_malloc) and its arrays are taken. */
int kl_call_end_list(struct kl_call *c, mlx_vector_array *res, struct kl_array **outs, size_t n);
int kl_call_end_text(struct kl_call *c, mlx_string *res, char *text /* taken, of kl_malloc */);
/* For constructors: a handle's ctx, NULL when the call failed. */
void *kl_call_end_new_array(struct kl_call *c, struct kl_array *out /* taken */);
void *kl_call_end_new_stream(struct kl_call *c, struct kl_stream *out /* taken */);

/* ---- boxes alone; NULL, with the error noted in *err, when out of memory ---- */
struct kl_array_box *kl_array_box_new(struct kl_array *a /* taken, also on failure */,
                                      struct kl_error **err);
void kl_array_box_free(struct kl_array_box *b); /* NULL is fine */
/* Puts `a` (taken) into the box; drops what it held. */
void kl_array_box_put(struct kl_array_box *b, struct kl_array *a);
