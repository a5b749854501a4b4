/* index_gather.c - gather, take, take_along_axis. The builders check what the shapes tell; whether
 * an index is in range is found out when the operation runs. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/index_parts.h"
#include "ops/ops.h"

int kl_gather(struct kl_array **out, struct kl_array *a, struct kl_array *const *indices,
              size_t n_indices, const int *axes, size_t axes_num, const int *slice_sizes,
              size_t slice_sizes_num, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(GATHER, a, indices, n_indices, axes, axes_num, slice_sizes, slice_sizes_num);
    struct kl_array *in[1 + KL_MAX_NDIM] = {a};
    struct kl_gather_buf p;
    struct kl_shape shape;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_arrays(indices, n_indices, "the indices", err));
    KL_TRY(kl_check_index_axes(axes, axes_num, n_indices, a->t.ndim, err));
    KL_TRY(kl_check_list(slice_sizes, slice_sizes_num, "the list of slice sizes", err));
    KL_TRY(kl_check_stream(s, err));
    if (slice_sizes_num != (size_t)a->t.ndim)
        return kl_fail(err, KL_ESHAPE,
                       "%zu slice sizes are given for %d axes; one per axis is needed",
                       slice_sizes_num, a->t.ndim);
    for (int i = 0; i < a->t.ndim; i++)
        if (slice_sizes[i] < 0 || slice_sizes[i] > a->t.dims[i])
            return kl_fail(err, KL_ESHAPE,
                           "slice size %d of axis %d is not in 0 to %d; the array has shape %s",
                           slice_sizes[i], i, a->t.dims[i], KL_SHAPE_TEXT_OF(a));
    KL_TRY(kl_meet_indices(in + 1, &shape, indices, n_indices, err));
    int rc = KL_OK;
    p.n_axes = (int)n_indices;
    p.ndim = a->t.ndim;
    for (size_t i = 0; i < n_indices; i++) p.v[i] = axes[i];
    if (shape.ndim + a->t.ndim > KL_MAX_NDIM)
        rc = kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                     shape.ndim + a->t.ndim, KL_MAX_NDIM);
    for (int i = 0; !rc && i < a->t.ndim; i++)
        p.v[p.n_axes + i] = shape.dims[shape.ndim++] = slice_sizes[i];
    if (!rc)
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_GATHER,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = kl_gather_params_bytes(&p),
                                                 .in = in,
                                                 .n_in = 1 + (int)n_indices},
                          a->t.dtype, shape.ndim, shape.dims, err);
    kl_release_all(in + 1, n_indices);
    return rc;
}

int kl_gather_single(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                     const int *slice_sizes, size_t slice_sizes_num, struct kl_stream *s,
                     struct kl_error **err) {
    KL_TRY(kl_check_array(indices, "indices", err));
    return kl_gather(out, a, &indices, 1, &axis, 1, slice_sizes, slice_sizes_num, s, err);
}

/* Gather puts the axes of the indices first, so they are moved to the place of the axis. */
static int take_one(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                    struct kl_stream *s, struct kl_error **err) {
    int sizes[KL_MAX_NDIM], perm[KL_MAX_NDIM], n = indices->t.ndim, at = 0;
    struct kl_array *gathered, *squeezed;
    if (a->t.dims[axis] == 0 && indices->t.size > 0)
        return kl_fail(err, KL_ESHAPE, "axis %d of shape %s is empty: no index fits", axis,
                       KL_SHAPE_TEXT_OF(a));
    for (int i = 0; i < a->t.ndim; i++) sizes[i] = i == axis && a->t.dims[i] > 0 ? 1 : a->t.dims[i];
    /* there are no indices either, so the result is an empty array: a view of an empty one */
    if (a->t.dims[axis] == 0) {
        struct kl_shape to = {.ndim = 0};
        if (n + a->t.ndim - 1 > KL_MAX_NDIM)
            return kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                           n + a->t.ndim - 1, KL_MAX_NDIM);
        KL_TRY(kl_check_index_dtype(indices, err));
        for (int i = 0; i < axis; i++) to.dims[to.ndim++] = a->t.dims[i];
        for (int i = 0; i < n; i++) to.dims[to.ndim++] = indices->t.dims[i];
        for (int i = axis + 1; i < a->t.ndim; i++) to.dims[to.ndim++] = a->t.dims[i];
        return kl_reshape_to(out, a, to.ndim, to.dims, s, err);
    }
    struct kl_origin before = kl_alias_set(KL_ALIAS_TAKE);
    int rc = kl_gather_single(&gathered, a, indices, axis, sizes, (size_t)a->t.ndim, s, err);
    kl_origin_set(before);
    if (rc) return rc;
    rc = kl_squeeze_axis(&squeezed, gathered, n + axis, s, err);
    kl_array_release(gathered);
    if (rc) return rc;
    for (int i = 0; i < axis; i++) perm[at++] = n + i;
    for (int i = 0; i < n; i++) perm[at++] = i;
    for (int i = axis; i < a->t.ndim - 1; i++) perm[at++] = n + i;
    rc = kl_permute(out, squeezed, perm, err);
    kl_array_release(squeezed);
    return rc;
}

int kl_take_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices, int axis,
                 struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TAKE_AXIS, a, indices, axis);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(indices, "indices", err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    return take_one(out, a, indices, axis, s, err);
}

int kl_take(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TAKE, a, indices);
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(indices, "indices", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = take_one(out, flat, indices, 0, s, err);
    kl_array_release(flat);
    return rc;
}

int kl_take_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                       int axis, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TAKE_ALONG_AXIS, a, indices, axis);
    struct kl_array *in[2];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(indices, "indices", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_meet_along(&in[0], &in[1], a, indices, &axis, s, err));
    struct kl_axis_params p = {axis};
    int rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_GATHER_AXIS,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = sizeof p,
                                                 .in = in,
                                                 .n_in = 2},
                          a->t.dtype, in[1]->t.ndim, in[1]->t.dims, err);
    kl_release_all(in, 2);
    return rc;
}

/* ---- gradients ---- */
/* Each place gets the sum of the cotangents of all elements that were read from it. */
int kl_vjp_gather(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_gather_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    size_t n = (size_t)p->n_axes;
    if (!v->wanted[0]) return KL_OK;
    struct kl_array *zeros = KL_TERM(&t, kl_zeros_like(&t.made, v->in[0], v->s, err));
    struct kl_array *sum = KL_TERM(
        &t, kl_scatter_add(&t.made, zeros, v->in + 1, n, v->cotangent[0], p->v, n, v->s, err));
    return kl_terms_end(&t, sum, &grad[0]);
}

int kl_vjp_gather_axis(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    int axis = ((const struct kl_axis_params *)v->params)->axis;
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    struct kl_array *zeros = KL_TERM(&t, kl_zeros_like(&t.made, v->in[0], v->s, err));
    struct kl_array *sum = KL_TERM(
        &t, kl_scatter_add_axis(&t.made, zeros, v->in[1], v->cotangent[0], axis, v->s, err));
    return kl_terms_end(&t, sum, &grad[0]);
}

/* ---- made again ---- */
int kl_rebuild_gather(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_gather_buf p;
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_gather_buf, v), sizeof *p.v,
                                2 * KL_MAX_NDIM, &n, err));
    if (b->n_in < 1)
        return kl_fail(err, KL_EARG, "%d inputs are given; gather takes 1 or more", b->n_in);
    KL_TRY(kl_build_count(p.n_axes, b->n_in - 1, "index arrays", err));
    KL_TRY(kl_build_count(p.ndim, b->in[0]->t.ndim, "axes", err));
    KL_TRY(kl_build_count(n, b->n_in - 1 + p.ndim, "axes and slice sizes", err));
    return kl_gather(out, b->in[0], b->in + 1, (size_t)p.n_axes, p.v, (size_t)p.n_axes,
                     p.v + p.n_axes, (size_t)p.ndim, b->s, err);
}

int kl_rebuild_gather_axis(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_axis_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return kl_take_along_axis(out, b->in[0], b->in[1], p.axis, b->s, err);
}

/* ---- batches ---- */

/* Indices and source have lanes: the number of the lane is one more index, on the axis of lanes. */
static int gather_in_lanes(const struct kl_vmap *v, struct kl_array **out, int index_ndim,
                           struct kl_error **err) {
    const struct kl_gather_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *in[1 + KL_MAX_NDIM];
    int axes[1 + KL_MAX_NDIM] = {0}, sizes[1 + KL_MAX_NDIM] = {1};
    const size_t n = (size_t)p->n_axes;
    for (size_t i = 0; i < n; i++) {
        in[1 + i] = v->in[1 + i];
        axes[1 + i] = p->v[i] + 1;
    }
    for (int i = 0; i < p->ndim; i++) sizes[1 + i] = p->v[p->n_axes + i];
    in[0] = KL_TERM(&t, kl_vmap_lane_index(v, &t.made, index_ndim, err));
    struct kl_array *y = KL_TERM(&t, kl_gather(&t.made, v->in[0], in, n + 1, axes, n + 1, sizes,
                                               (size_t)p->ndim + 1, v->s, err));
    if (y) kl_array_note_lanes(y, v->lanes, true);
    y = KL_TERM(&t, kl_squeeze_axis(&t.made, y, 1 + index_ndim, v->s, err));
    return kl_terms_end(&t, y, out);
}

int kl_vmap_gather(const struct kl_vmap *v, struct kl_array **out, int *axis,
                   struct kl_error **err) {
    const struct kl_gather_params *p = v->params;
    const int index_ndim = v->ndim - p->ndim;
    const size_t n = (size_t)p->n_axes;
    bool any = false;
    for (int i = 1; i < v->n_in; i++) any = any || v->mapped[i];
    *axis = 0;
    if (!v->mapped[0]) { /* indices without lanes broadcast to those that have them */
        KL_TRY(
            kl_gather(out, v->in[0], v->in + 1, n, p->v, n, p->v + n, (size_t)p->ndim, v->s, err));
        kl_array_note_lanes(*out, v->lanes, false);
        return KL_OK;
    }
    if (any && v->lanes == 0) return kl_vmap_each(v, out, err); /* there is no lane to index */
    if (any) return gather_in_lanes(v, out, index_ndim, err);
    /* every element is a slice through all lanes */
    int axes[KL_MAX_NDIM], sizes[1 + KL_MAX_NDIM] = {v->lanes};
    for (size_t i = 0; i < n; i++) axes[i] = p->v[i] + 1;
    for (int i = 0; i < p->ndim; i++) sizes[1 + i] = p->v[p->n_axes + i];
    *axis = index_ndim;
    KL_TRY(kl_gather(out, v->in[0], v->in + 1, n, axes, n, sizes, (size_t)p->ndim + 1, v->s, err));
    kl_array_note_lanes(*out, 0, true);
    return KL_OK;
}

int kl_vmap_gather_axis(const struct kl_vmap *v, struct kl_array **out, int *axis,
                        struct kl_error **err) {
    const struct kl_axis_params p = {((const struct kl_axis_params *)v->params)->axis + 1};
    struct kl_array *in[2];
    KL_TRY(kl_vmap_inputs(v, in, err));
    int rc = kl_vmap_build(v, out, &p, sizeof p, in, err);
    kl_release_all(in, 2);
    if (!rc) kl_array_note_lanes(*out, v->lanes, true);
    *axis = 0;
    return rc;
}
