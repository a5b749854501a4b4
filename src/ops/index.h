/* index.h - builders that read and write elements by index; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- index_gather.c ---- */
/* indices: integers, which broadcast to one shape. The result has that shape, then slice_sizes (one
 * per axis of a). */
int kl_gather(struct kl_array **out, struct kl_array *a, struct kl_array *const *indices,
              size_t n_indices, const int *axes, size_t axes_num, const int *slice_sizes,
              size_t slice_sizes_num, struct kl_stream *s, struct kl_error **err);
int kl_gather_single(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                     const int *slice_sizes, size_t slice_sizes_num, struct kl_stream *s,
                     struct kl_error **err);
int kl_take(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
            struct kl_stream *s, struct kl_error **err); /* takes from a, flattened */
int kl_take_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                 struct kl_stream *s, struct kl_error **err);
int kl_take_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                       int axis, struct kl_stream *s, struct kl_error **err);

/* ---- index_take_mode.c ---- */
/* The meaning of an index outside of an axis of n elements: an error when the operation runs; the
 * nearest index from 0 to n - 1; the index modulo n; `fill`, where -n to -1 count from the end. */
enum kl_take_mode { KL_TAKE_ERROR, KL_TAKE_CLIP, KL_TAKE_WRAP, KL_TAKE_FILL };
/* axis NULL: of a, flattened. fill: 0-d; NULL: NaN, or 0 in dtypes that have none. */
int kl_take_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                 const int *axis, enum kl_take_mode mode, struct kl_array *fill,
                 struct kl_stream *s, struct kl_error **err);
int kl_take_along_axis_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                            int axis, enum kl_take_mode mode, struct kl_array *fill,
                            struct kl_stream *s, struct kl_error **err);

/* ---- index_nonzero.c ---- */
/* The number of elements of a that are not 0: evaluates a. KL_ETRACE: a has no value. */
int kl_count_true(int *n, struct kl_array *a, struct kl_stream *s, struct kl_error **err);
/* The same along axes, int32, lazily. */
int kl_count_nonzero(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                     bool keepdims, struct kl_stream *s, struct kl_error **err);
/* The positions of the first `size` true elements of a, flattened, then fill_value: int32. */
int kl_flatnonzero(struct kl_array **out, struct kl_array *a, int size, int fill_value,
                   struct kl_stream *s, struct kl_error **err);
/* The positions of all true elements of a, of at most INT32_MAX, flattened: evaluates a, and finds
 * them on the host. KL_ETRACE: a has no value. */
int kl_true_places(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
/* The same as indices, an array for each axis; fill_values: one for each, or NULL for 0. places:
 * from kl_true_places, or NULL: the first `size` true elements are looked for. */
int kl_nonzero(struct kl_array ***outs, size_t *n, struct kl_array *a, int size,
               struct kl_array *places, const int *fill_values, size_t fill_values_num,
               struct kl_stream *s, struct kl_error **err);
int kl_argwhere(struct kl_array **out, struct kl_array *a, int size, struct kl_array *places,
                int fill_value, struct kl_stream *s, struct kl_error **err);
/* The elements of a, whose first axes mask has, at the first `size` true elements of mask. */
int kl_masked_select(struct kl_array **out, struct kl_array *a, struct kl_array *mask, int size,
                     struct kl_array *places, struct kl_stream *s, struct kl_error **err);

/* ---- index_scatter.c ---- */
int kl_put_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                      struct kl_array *values, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_scatter_add_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                        struct kl_array *values, int axis, struct kl_stream *s,
                        struct kl_error **err);
/* updates: the common shape of the indices, then one extent per axis of a; cast to a's dtype. When
 * duplicate indices are assigned, the value of the highest position is kept. */
typedef int kl_scatter_fn(struct kl_array **out, struct kl_array *a,
                          struct kl_array *const *indices, size_t n_indices,
                          struct kl_array *updates, const int *axes, size_t axes_num,
                          struct kl_stream *s, struct kl_error **err);
typedef int kl_scatter_single_fn(struct kl_array **out, struct kl_array *a,
                                 struct kl_array *indices, struct kl_array *updates, int axis,
                                 struct kl_stream *s, struct kl_error **err);
kl_scatter_fn kl_scatter, kl_scatter_add, kl_scatter_prod, kl_scatter_max, kl_scatter_min;
kl_scatter_single_fn kl_scatter_single, kl_scatter_add_single, kl_scatter_prod_single,
    kl_scatter_max_single, kl_scatter_min_single;

/* ---- index_masked.c ---- */
/* a with elements of src, cast to a's dtype, where mask is true. mask is bool; its shape is the
 * first extents of a's shape. A src with at most as many axes as the mask leaves of a broadcasts to
 * these axes, for every true place. A src with one axis more has one part along it for each true
 * place in row-major order, and each part broadcasts to these axes: too few parts are an index
 * error, further parts are not used. KL_ESHAPE: other shapes. */
int kl_masked_scatter(struct kl_array **out, struct kl_array *a, struct kl_array *mask,
                      struct kl_array *src, struct kl_stream *s, struct kl_error **err);
