/* slice.h - builders of slices, updates of slices, joins and splits; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- slice.c: slices, joins and splits ---- */
/* One start, stop and stride per axis. A negative bound counts from the end; bounds are then
 * clamped. Strides are not 0. */
int kl_slice(struct kl_array **out, struct kl_array *a, const int *start, size_t start_num,
             const int *stop, size_t stop_num, const int *strides, size_t strides_num,
             struct kl_stream *s, struct kl_error **err);
/* src with the slice replaced by update, which is broadcast to the slice and cast to src's
 * dtype. */
int kl_slice_update(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                    const int *start, size_t start_num, const int *stop, size_t stop_num,
                    const int *strides, size_t strides_num, struct kl_stream *s,
                    struct kl_error **err);
/* In slice_join.c: src with the slice combined with update, which is converted and broadcast as
 * above. */
typedef int kl_slice_join_fn(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                             const int *start, size_t start_num, const int *stop, size_t stop_num,
                             const int *strides, size_t strides_num, struct kl_stream *s,
                             struct kl_error **err);
kl_slice_join_fn kl_slice_update_add, kl_slice_update_prod, kl_slice_update_max,
    kl_slice_update_min;
/* Joins along an axis; without one each array is flattened first. The dtype is the common dtype of
 * all. */
int kl_concatenate(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                   struct kl_stream *s, struct kl_error **err);
int kl_concatenate_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
                        int axis, struct kl_stream *s, struct kl_error **err);
int kl_split(struct kl_array ***outs, size_t *n_outs, struct kl_array *a, int num_splits, int axis,
             struct kl_stream *s, struct kl_error **err);
/* Cuts before each of the indices. */
int kl_split_sections(struct kl_array ***outs, size_t *n_outs, struct kl_array *a,
                      const int *indices, size_t indices_num, int axis, struct kl_stream *s,
                      struct kl_error **err);
int kl_stack(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays,
             struct kl_stream *s, struct kl_error **err);
int kl_stack_axis(struct kl_array **out, struct kl_array *const *arrays, size_t n_arrays, int axis,
                  struct kl_stream *s, struct kl_error **err);

/* ---- slice_dynamic.c ---- */
/* slice_size has one entry per axis of a. start: integers, 0-d or 1-d, one per named axis. A
 * negative start counts from the end, once; starts are checked when the operation runs. Axes that
 * are not named begin at 0. */
int kl_slice_dynamic(struct kl_array **out, struct kl_array *a, struct kl_array *start,
                     const int *axes, size_t axes_num, const int *slice_size, size_t slice_size_num,
                     struct kl_stream *s, struct kl_error **err);
/* src with update written from start on. update has at most as many axes as src; axes of size 1 are
 * put in front. */
int kl_slice_update_dynamic(struct kl_array **out, struct kl_array *src, struct kl_array *update,
                            struct kl_array *start, const int *axes, size_t axes_num,
                            struct kl_stream *s, struct kl_error **err);
