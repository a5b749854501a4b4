/* check.h - argument checks that builders share. For src/ops only.
 *
 * Every check returns 0 or a negative code with *err set; messages say what was given and what is
 * taken. */
#pragma once
#include "graph/array.h"

/* Builders take and make no more axes than this, so that shapes fit on the stack. */
enum { KL_MAX_NDIM = 64 };

/* A shape as builders make it. */
struct kl_shape {
    int ndim;
    int dims[KL_MAX_NDIM];
};

/* A required array that can be worked on. `what` names the parameter. */
int kl_check_array(const struct kl_array *a, const char *what, struct kl_error **err);
int kl_check_arrays(struct kl_array *const *arrays, size_t n, const char *what,
                    struct kl_error **err);
int kl_check_stream(const struct kl_stream *s, struct kl_error **err);
int kl_check_dtype(int dtype, struct kl_error **err);
/* A list of n ints: not NULL unless n is 0, and n <= KL_MAX_NDIM. */
int kl_check_list(const int *list, size_t n, const char *what, struct kl_error **err);
/* *axis: a given axis, made non-negative. */
int kl_check_axis(int *axis, int ndim, struct kl_error **err);
/* Axes of an array of ndim axes: non-negative, in the order given, distinct. */
int kl_check_axes(int out[KL_MAX_NDIM], const int *axes, size_t n, int ndim, struct kl_error **err);
/* A shape given by the caller: no negative size, not too large for elements of dtype. *size may be
 * NULL. */
int kl_check_shape(struct kl_shape *out, const int *shape, size_t n, enum kl_dtype dtype,
                   int64_t *size, struct kl_error **err);
/* Integer indices. */
int kl_check_index_dtype(const struct kl_array *indices, struct kl_error **err);

struct kl_shape kl_shape_of(const struct kl_array *a);
bool kl_shape_is(const struct kl_array *a, int ndim, const int *dims);

/* A shape as text, "(2,3)"; long ones end in "...". For messages. */
struct kl_shape_text {
    char s[120];
};
struct kl_shape_text kl_shape_text(int ndim, const int *dims);
#define KL_SHAPE_TEXT(ndim, dims) kl_shape_text(ndim, dims).s
#define KL_SHAPE_TEXT_OF(a) kl_shape_text((a)->t.ndim, (a)->t.dims).s
