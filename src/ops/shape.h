/* shape.h - builders of arrays of another shape; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- shape.c: views, and copies where no view can do it ---- */
/* One extent may be -1; it follows from the number of elements. */
int kl_reshape(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
               struct kl_stream *s, struct kl_error **err);
/* Merges the axes start_axis .. end_axis; a 0-d array becomes (1,). */
int kl_flatten(struct kl_array **out, struct kl_array *a, int start_axis, int end_axis,
               struct kl_stream *s, struct kl_error **err);
int kl_transpose(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                 struct kl_error **err);
int kl_transpose_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                      struct kl_stream *s, struct kl_error **err);
int kl_swapaxes(struct kl_array **out, struct kl_array *a, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err);
int kl_moveaxis(struct kl_array **out, struct kl_array *a, int source, int destination,
                struct kl_stream *s, struct kl_error **err);
int kl_broadcast_to(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                    struct kl_stream *s, struct kl_error **err);
/* *outs: n_arrays arrays of one shape. The caller releases each array and frees the list with
 * kl_free. */
int kl_broadcast_arrays(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                        size_t n_arrays, struct kl_stream *s, struct kl_error **err);
int kl_expand_dims(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                   struct kl_error **err);
/* axes are those of the result, and distinct. */
int kl_expand_dims_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                        struct kl_stream *s, struct kl_error **err);
int kl_squeeze(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
               struct kl_error **err);
int kl_squeeze_axis(struct kl_array **out, struct kl_array *a, int axis, struct kl_stream *s,
                    struct kl_error **err);
int kl_squeeze_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    struct kl_stream *s, struct kl_error **err);

/* Adds axes of size 1 in front; for 3-d, (n) becomes (1,n,1) and (n,m) becomes (n,m,1). */
kl_unary_fn kl_atleast_1d, kl_atleast_2d, kl_atleast_3d;
/* Splits the axis into several, the product of whose sizes is its size; one extent may be -1. */
int kl_unflatten(struct kl_array **out, struct kl_array *a, int axis, const int *shape,
                 size_t shape_num, struct kl_stream *s, struct kl_error **err);
/* The product of the extents of the axes, or one divided by it; 0-d, and known when it is built.
 * One divided by 0 is the largest number of an integer dtype. */
int kl_number_of_elements(struct kl_array **out, struct kl_array *a, const int *axes,
                          size_t axes_num, bool inverted, int dtype, struct kl_stream *s,
                          struct kl_error **err);

/* ---- shape_strided.c: views of memory ---- */
/* Element (i, j, ...) is the flat row-major element offset + i * strides[0] + j * strides[1] + ...
 * of a, which is copied when it is not row-contiguous. KL_ESHAPE when an element is outside of
 * a. */
int kl_as_strided(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                  const int64_t *strides, size_t strides_num, size_t offset, struct kl_stream *s,
                  struct kl_error **err);
/* The elements (i, i + offset) of two axes, as the last axis of a view. */
int kl_diagonal(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err);
/* The bits as another dtype. When its size differs, the last axis grows or shrinks, and must fit
 * (KL_ESHAPE). An element viewed as bool is true when its byte is not 0. */
int kl_view(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
            struct kl_error **err);

/* ---- shape_rearrange.c ---- */
/* low[k] elements before and high[k] after axis axes[k]. mode "constant" fills with pad_value (one
 * element, converted), "edge" with the outermost element; "reflect" and "symmetric" continue
 * backwards and forwards, without and with the outermost element. pad_value may be NULL except for
 * "constant". */
int kl_pad(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
           const int *low, size_t low_num, const int *high, size_t high_num,
           struct kl_array *pad_value, const char *mode, struct kl_stream *s,
           struct kl_error **err);
/* pad_width elements on both sides of every axis. */
int kl_pad_symmetric(struct kl_array **out, struct kl_array *a, int pad_width,
                     struct kl_array *pad_value, const char *mode, struct kl_stream *s,
                     struct kl_error **err);
/* The whole array repeated reps[i] times along each axis; the shorter of shape and reps gets ones
 * in front. */
int kl_tile(struct kl_array **out, struct kl_array *a, const int *reps, size_t reps_num,
            struct kl_stream *s, struct kl_error **err);
/* Each element `repeats` times in a row; without an axis a is flattened first. */
int kl_repeat(struct kl_array **out, struct kl_array *a, int repeats, struct kl_stream *s,
              struct kl_error **err);
int kl_repeat_axis(struct kl_array **out, struct kl_array *a, int repeats, int axis,
                   struct kl_stream *s, struct kl_error **err);
/* Element i moves to i + shift, and continues at the other end. Without an axis a is taken flat.
 * Several shifts without an axis, or for one axis, are added. Shifts beyond the number of axes are
 * not used. */
int kl_roll(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
            struct kl_stream *s, struct kl_error **err);
int kl_roll_axis(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 int axis, struct kl_stream *s, struct kl_error **err);
int kl_roll_axes(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 const int *axes, size_t axes_num, struct kl_stream *s, struct kl_error **err);
/* Result i holds array i, flattened, along axis i, and repeats it along the other axes ("ij"; "xy"
 * swaps the first two axes). With sparse the other axes have size 1. */
int kl_meshgrid(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                size_t n_arrays, bool sparse, const char *indexing, struct kl_stream *s,
                struct kl_error **err);
