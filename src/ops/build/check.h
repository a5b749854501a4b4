/* check.h - checks of arguments that builders and transforms share.
 *
 * Every check returns 0, or a negative code with *err set; the message says what was given and what
 * is taken. */
#pragma once
#include "graph/array.h"

/* Builders take and make arrays of at most this many axes, so that shapes fit on the stack. */
enum { KL_MAX_NDIM = 64 };

/* The shape of an array that a builder makes. */
struct kl_shape {
    int ndim;
    int dims[KL_MAX_NDIM];
};

/* Checks a required array. `what` names the parameter in messages. */
int kl_check_array(const struct kl_array *a, const char *what, struct kl_error **err);
int kl_check_arrays(struct kl_array *const *arrays, size_t n, const char *what,
                    struct kl_error **err);
int kl_check_stream(const struct kl_stream *s, struct kl_error **err);
int kl_check_dtype(int dtype, struct kl_error **err);
/* Checks a list of n ints: it is not NULL unless n is 0, and n <= KL_MAX_NDIM. */
int kl_check_list(const int *list, size_t n, const char *what, struct kl_error **err);
/* Puts the given axis into *axis, as a non-negative number. */
int kl_check_axis(int *axis, int ndim, struct kl_error **err);
/* Puts the given axes of an array of ndim axes into out: non-negative, distinct, in the order
 * given. */
int kl_check_axes(int out[KL_MAX_NDIM], const int *axes, size_t n, int ndim, struct kl_error **err);
/* Checks a shape given by the caller: no size is negative, and the bytes of its elements of dtype
 * fit. Puts the number of elements into *size, which may be NULL. */
int kl_check_shape(struct kl_shape *out, const int *shape, size_t n, enum kl_dtype dtype,
                   int64_t *size, struct kl_error **err);
/* Checks that the indices have an integer dtype. */
int kl_check_index_dtype(const struct kl_array *indices, struct kl_error **err);

struct kl_shape kl_shape_of(const struct kl_array *a);
bool kl_shape_is(const struct kl_array *a, int ndim, const int *dims);

/* A shape as text for messages, such as "(2,3)"; a long shape ends in "...". */
struct kl_shape_text {
    char s[120];
};
struct kl_shape_text kl_shape_text(int ndim, const int *dims);
#define KL_SHAPE_TEXT(ndim, dims) kl_shape_text(ndim, dims).s
#define KL_SHAPE_TEXT_OF(a) kl_shape_text((a)->t.ndim, (a)->t.dims).s
