/* index_scatter.c - scatter with its five ways to combine values, and the same along one axis. As
 * in index_gather.c the shapes are checked here, and the indices when the operation runs. */
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

static int check_updates(const struct kl_array *a, const struct kl_array *updates,
                         const struct kl_shape *shape, struct kl_error **err) {
    int lead = shape->ndim;
    if (updates->t.ndim != lead + a->t.ndim)
        return kl_fail(
            err, KL_ESHAPE,
            "the updates have %d axes; indices of shape %s and an array of shape %s need %d",
            updates->t.ndim, KL_SHAPE_TEXT(lead, shape->dims), KL_SHAPE_TEXT_OF(a),
            lead + a->t.ndim);
    for (int i = 0; i < lead; i++)
        if (updates->t.dims[i] != shape->dims[i])
            return kl_fail(err, KL_ESHAPE,
                           "updates of shape %s do not begin with the indices' shape %s",
                           KL_SHAPE_TEXT_OF(updates), KL_SHAPE_TEXT(lead, shape->dims));
    for (int i = 0; i < a->t.ndim; i++)
        if (updates->t.dims[lead + i] > a->t.dims[i])
            return kl_fail(err, KL_ESHAPE,
                           "updates of shape %s are larger than axis %d of an array of shape %s",
                           KL_SHAPE_TEXT_OF(updates), i, KL_SHAPE_TEXT_OF(a));
    return KL_OK;
}

/* Whether elements are joined in float32 and rounded once: where more than one update of 16 bits
 * may meet an element, each of many roundings would lose what is small compared with the sum. */
static bool joins_wide(enum kl_scatter_mode mode, const struct kl_array *a, int64_t updates) {
    return (kl_scatter_adds(mode) || mode == KL_SCATTER_PROD) && updates > 1 &&
           kl_dtype_is_float((enum kl_dtype)a->t.dtype) && kl_dtype_size(a->t.dtype) == 2;
}

/* How float32 values that stand for the array's are joined: the denormals of bfloat16 are those of
 * float32, which a device may flush where it adds to memory; those of float16 are no denormals. */
static enum kl_scatter_mode wide_mode(enum kl_scatter_mode mode, const struct kl_array *a) {
    return mode == KL_SCATTER_ADD && a->t.dtype == KL_BF16 ? KL_SCATTER_ADD_DENORMAL : mode;
}

static int scatter(struct kl_array **out, enum kl_scatter_mode mode, struct kl_array *a,
                   struct kl_array *const *indices, size_t n_indices, struct kl_array *updates,
                   const int *axes, size_t axes_num, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SCATTER, (int)mode, a, indices, n_indices, updates, axes, axes_num);
    struct kl_array *in[2 + KL_MAX_NDIM] = {a};
    struct kl_scatter_buf p = {.mode = mode, .n_axes = (int)n_indices};
    struct kl_shape shape;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(updates, "updates", err));
    KL_TRY(kl_check_arrays(indices, n_indices, "the indices", err));
    KL_TRY(kl_check_index_axes(axes, axes_num, n_indices, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    for (size_t i = 0; i < n_indices; i++) p.axes[i] = axes[i];
    KL_TRY(kl_meet_indices(in + 2, &shape, indices, n_indices, err));
    struct kl_terms t = kl_terms_begin(s, err);
    t.rc = check_updates(a, updates, &shape, err);
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++) n *= shape.dims[i];
    in[1] = kl_term_cast(&t, updates, dtype);
    if (joins_wide(mode, a, n)) {
        p.mode = wide_mode(mode, a);
        in[0] = kl_term_cast(&t, a, KL_F32);
        in[1] = kl_term_cast(&t, in[1], KL_F32);
    }
    in[0] = KL_TERM(&t, kl_in_rows(&t.made, in[0], KL_ROWS_MOVED, s, err));
    struct kl_array *made =
        KL_TERM(&t, kl_array_op1(&t.made,
                                 &(struct kl_operation){.op = KL_OP_SCATTER,
                                                        .stream = s,
                                                        .params = &p,
                                                        .params_bytes = kl_scatter_params_bytes(&p),
                                                        .in = in,
                                                        .n_in = 2 + (int)n_indices},
                                 (enum kl_dtype)in[0]->t.dtype, a->t.ndim, a->t.dims, err));
    kl_release_all(in + 2, n_indices);
    return kl_terms_end(&t, kl_term_cast(&t, made, dtype), out);
}

static int scatter_one(struct kl_array **out, enum kl_scatter_mode mode, struct kl_array *a,
                       struct kl_array *indices, struct kl_array *updates, int axis,
                       struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(indices, "indices", err));
    return scatter(out, mode, a, &indices, 1, updates, &axis, 1, s, err);
}

#define SCATTER(name, single, mode)                                                              \
    int name(struct kl_array **out, struct kl_array *a, struct kl_array *const *indices,         \
             size_t n_indices, struct kl_array *updates, const int *axes, size_t axes_num,       \
             struct kl_stream *s, struct kl_error **err) {                                       \
        return scatter(out, mode, a, indices, n_indices, updates, axes, axes_num, s, err);       \
    }                                                                                            \
    int single(struct kl_array **out, struct kl_array *a, struct kl_array *indices,              \
               struct kl_array *updates, int axis, struct kl_stream *s, struct kl_error **err) { \
        return scatter_one(out, mode, a, indices, updates, axis, s, err);                        \
    }
SCATTER(kl_scatter, kl_scatter_single, KL_SCATTER_ASSIGN)
SCATTER(kl_scatter_add, kl_scatter_add_single, KL_SCATTER_ADD)
SCATTER(kl_scatter_prod, kl_scatter_prod_single, KL_SCATTER_PROD)
SCATTER(kl_scatter_max, kl_scatter_max_single, KL_SCATTER_MAX)
SCATTER(kl_scatter_min, kl_scatter_min_single, KL_SCATTER_MIN)

/* ---- along one axis ---- */
/* values as the array's dtype, in the shape of the indices. Additional leading axes of size 1 are
 * dropped. */
static int meet_values(struct kl_array **out, struct kl_array *values,
                       const struct kl_array *indices, enum kl_dtype dtype, struct kl_stream *s,
                       struct kl_error **err) {
    struct kl_array *typed, *cut;
    int extra = values->t.ndim - indices->t.ndim;
    KL_TRY(kl_cast_to(&typed, values, dtype, s, err));
    for (int i = 0; i < extra; i++)
        if (values->t.dims[i] != 1) extra = 0; /* the shapes are rejected below */
    int rc = kl_reshape_to(&cut, typed, values->t.ndim - (extra > 0 ? extra : 0),
                           values->t.dims + (extra > 0 ? extra : 0), s, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_broadcast_view(out, cut, indices->t.ndim, indices->t.dims, err);
    kl_array_release(cut);
    return rc;
}

static int scatter_along(struct kl_array **out, enum kl_scatter_mode mode, struct kl_array *a,
                         struct kl_array *indices, struct kl_array *values, int axis,
                         struct kl_stream *s, struct kl_error **err) {
    struct kl_array *in[3];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(indices, "indices", err));
    KL_TRY(kl_check_array(values, "values", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_meet_along(&in[0], &in[2], a, indices, &axis, s, err));
    struct kl_scatter_axis_params p = {mode, axis};
    struct kl_terms t = kl_terms_begin(s, err);
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    struct kl_array *const met[] = {in[0], in[2]};
    in[1] = KL_TERM(&t, meet_values(&t.made, values, in[2], dtype, s, err));
    if (joins_wide(mode, a, in[2]->t.dims[axis])) {
        p.mode = wide_mode(mode, a);
        in[0] = kl_term_cast(&t, in[0], KL_F32);
        in[1] = kl_term_cast(&t, in[1], KL_F32);
    }
    struct kl_array *made = KL_TERM(
        &t, kl_array_op1(&t.made,
                         &(struct kl_operation){.op = KL_OP_SCATTER_AXIS,
                                                .stream = s,
                                                .params = &p,
                                                .params_bytes = sizeof p,
                                                .in = in,
                                                .n_in = 3},
                         (enum kl_dtype)in[0]->t.dtype, met[0]->t.ndim, met[0]->t.dims, err));
    kl_release_all(met, 2);
    return kl_terms_end(&t, kl_term_cast(&t, made, dtype), out);
}

int kl_put_along_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                      struct kl_array *values, int axis, struct kl_stream *s,
                      struct kl_error **err) {
    KL_DEFER(PUT_ALONG_AXIS, a, indices, values, axis);
    return scatter_along(out, KL_SCATTER_ASSIGN, a, indices, values, axis, s, err);
}

int kl_scatter_add_axis(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                        struct kl_array *values, int axis, struct kl_stream *s,
                        struct kl_error **err) {
    KL_DEFER(SCATTER_ADD_AXIS, a, indices, values, axis);
    return scatter_along(out, KL_SCATTER_ADD, a, indices, values, axis, s, err);
}

/* ---- gradients ---- */
/* The elements of x at the places to which the operation writes. */
static int read_back(struct kl_array **out, const struct kl_vjp *v, struct kl_array *x,
                     struct kl_error **err) {
    const struct kl_scatter_params *p = v->params;
    const struct kl_tensor *updates = &v->in[1]->t;
    size_t n = (size_t)p->n_axes, ndim = (size_t)x->t.ndim;
    return kl_gather(out, x, v->in + 2, n, p->axes, n, updates->dims + updates->ndim - ndim, ndim,
                     v->s, err);
}

/* The cotangent where x equals the result of the operation, and 0 elsewhere. */
static struct kl_array *where_chosen(struct kl_terms *t, struct kl_array *x,
                                     struct kl_array *result, struct kl_array *cotangent,
                                     struct kl_stream *s, struct kl_error **err) {
    struct kl_array *zero =
        KL_TERM(t, kl_array_new_scalar(&t->made, 0, (enum kl_dtype)cotangent->t.dtype, err));
    struct kl_array *chosen = KL_TERM(t, kl_equal(&t->made, x, result, s, err));
    return KL_TERM(t, kl_where(&t->made, chosen, cotangent, zero, s, err));
}

/* Elements first to first + n - 1 of a row. */
static int part(struct kl_array **out, struct kl_array *row, int first, int n,
                struct kl_error **err) {
    const int step = 1;
    return kl_slice_to(out, row, &first, &step, &n, err);
}

/* For each element of x the one that lies d before it (or after it), where both have the same
 * place, and 1 elsewhere. The places are sorted. */
static int neighbours(struct kl_array **out, struct kl_array *places, struct kl_array *x, int d,
                      bool after, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    const int n = x->t.dims[0];
    struct kl_array *lower = KL_TERM(&t, part(&t.made, places, 0, n - d, err));
    struct kl_array *upper = KL_TERM(&t, part(&t.made, places, d, n - d, err));
    struct kl_array *same = kl_term2(&t, kl_equal, lower, upper);
    struct kl_array *moved = KL_TERM(&t, part(&t.made, x, after ? d : 0, n - d, err));
    struct kl_array *one = kl_term_number(&t, 1, (enum kl_dtype)x->t.dtype);
    struct kl_array *in = kl_term_where(&t, same, moved, one);
    struct kl_array *rest = KL_TERM(&t, kl_broadcast_view(&t.made, one, 1, &d, err));
    struct kl_array *both[2] = {after ? in : rest, after ? rest : in};
    struct kl_array *joined = KL_TERM(&t, kl_concatenate_axis(&t.made, both, 2, 0, s, err));
    return kl_terms_end(&t, joined, out);
}

/* For each element of x the product of all before it (or after it) with the same place. The
 * products grow from 1 element to 2, 4, 8, ..., so long runs take few steps. */
static int other_products(struct kl_array **out, struct kl_array *places, struct kl_array *x,
                          bool after, struct kl_stream *s, struct kl_error **err) {
    const int n = x->t.dims[0];
    struct kl_array *product = kl_array_retain(x);
    int rc = KL_OK;
    for (int64_t d = 1; d < n && !rc; d *= 2) {
        struct kl_array *other, *longer = NULL;
        if ((rc = neighbours(&other, places, product, (int)d, after, s, err))) break;
        rc = kl_multiply(&longer, product, other, s, err);
        kl_array_release(other);
        if (rc) break;
        kl_array_release(product);
        product = longer;
    }
    if (!rc) rc = neighbours(out, places, product, 1, after, s, err);
    kl_array_release(product);
    return rc;
}

/* For each update the product of the other updates of the same place: no quotient of the product of
 * all, which a zero would spoil. */
static int other_updates(struct kl_array **out, const struct kl_vjp *v, struct kl_error **err) {
    struct kl_array *base = v->in[0], *updates = v->in[1];
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *row = KL_TERM(&t, kl_flatten_all(&t.made, updates, v->s, err));
    const enum kl_dtype number = base->t.size > INT32_MAX ? KL_I64 : KL_I32;
    struct kl_array *place =
        KL_TERM(&t, kl_arange(&t.made, 0, (double)base->t.size, 1, number, v->s, err));
    place = KL_TERM(&t, kl_reshape_to(&t.made, place, base->t.ndim, base->t.dims, v->s, err));
    place = KL_TERM(&t, read_back(&t.made, v, place, err));
    place = KL_TERM(&t, kl_flatten_all(&t.made, place, v->s, err));
    struct kl_array *order = KL_TERM(&t, kl_argsort_axis(&t.made, place, 0, v->s, err));
    place = KL_TERM(&t, kl_take_axis(&t.made, place, order, 0, v->s, err));
    row = KL_TERM(&t, kl_take_axis(&t.made, row, order, 0, v->s, err));
    struct kl_array *before = KL_TERM(&t, other_products(&t.made, place, row, false, v->s, err));
    struct kl_array *after = KL_TERM(&t, other_products(&t.made, place, row, true, v->s, err));
    struct kl_array *others = kl_term2(&t, kl_multiply, before, after);
    struct kl_array *back = KL_TERM(&t, kl_argsort_axis(&t.made, order, 0, v->s, err));
    others = KL_TERM(&t, kl_take_axis(&t.made, others, back, 0, v->s, err));
    others =
        KL_TERM(&t, kl_reshape_to(&t.made, others, updates->t.ndim, updates->t.dims, v->s, err));
    return kl_terms_end(&t, others, out);
}

static int base_gradient(struct kl_array **out, const struct kl_vjp *v, enum kl_scatter_mode mode,
                         struct kl_error **err) {
    const struct kl_scatter_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0];
    if (mode == KL_SCATTER_ASSIGN) {
        struct kl_array *zeros = KL_TERM(&t, kl_zeros_like(&t.made, v->in[1], v->s, err));
        g = KL_TERM(&t, kl_scatter(&t.made, g, v->in + 2, (size_t)p->n_axes, zeros, p->axes,
                                   (size_t)p->n_axes, v->s, err));
    } else if (mode == KL_SCATTER_PROD) {
        struct kl_array *factor = KL_TERM(&t, kl_ones_like(&t.made, v->in[0], v->s, err));
        factor = KL_TERM(&t, kl_scatter_prod(&t.made, factor, v->in + 2, (size_t)p->n_axes,
                                             v->in[1], p->axes, (size_t)p->n_axes, v->s, err));
        g = kl_term2(&t, kl_multiply, g, kl_term_conjugate(&t, factor));
    } else if (!kl_scatter_adds(mode)) {
        g = where_chosen(&t, v->in[0], v->out[0], g, v->s, err);
    }
    return kl_terms_end(&t, g, out);
}

static int update_gradient(struct kl_array **out, const struct kl_vjp *v, enum kl_scatter_mode mode,
                           struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = KL_TERM(&t, read_back(&t.made, v, v->cotangent[0], err));
    if (mode == KL_SCATTER_MAX || mode == KL_SCATTER_MIN) {
        struct kl_array *result = KL_TERM(&t, read_back(&t.made, v, v->out[0], err));
        if (!t.rc) g = where_chosen(&t, v->in[1], result, g, v->s, err);
    } else if (mode == KL_SCATTER_PROD) {
        struct kl_array *factor = KL_TERM(&t, read_back(&t.made, v, v->in[0], err));
        if (v->in[1]->t.size > 1) {
            struct kl_array *others = KL_TERM(&t, other_updates(&t.made, v, err));
            factor = kl_term2(&t, kl_multiply, factor, others);
        }
        g = kl_term2(&t, kl_multiply, g, kl_term_conjugate(&t, factor));
    }
    return kl_terms_end(&t, g, out);
}

/* When several updates are assigned to one place, each gets the gradient of the place. So do all
 * updates that equal a maximum or minimum. */
int kl_vjp_scatter(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    enum kl_scatter_mode mode = ((const struct kl_scatter_params *)v->params)->mode;
    if (v->wanted[0]) KL_TRY(base_gradient(&grad[0], v, mode, err));
    return v->wanted[1] ? update_gradient(&grad[1], v, mode, err) : KL_OK;
}

int kl_vjp_scatter_axis(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_scatter_axis_params *p = v->params;
    struct kl_array *g = v->cotangent[0], *zero;
    if (v->wanted[0] && kl_scatter_adds(p->mode)) grad[0] = kl_array_retain(g);
    if (v->wanted[0] && p->mode == KL_SCATTER_ASSIGN) {
        KL_TRY(kl_array_new_scalar(&zero, 0, (enum kl_dtype)g->t.dtype, err));
        int rc = kl_put_along_axis(&grad[0], g, v->in[2], zero, p->axis, v->s, err);
        kl_array_release(zero);
        if (rc) return rc;
    }
    return v->wanted[1] ? kl_take_along_axis(&grad[1], g, v->in[2], p->axis, v->s, err) : KL_OK;
}

/* ---- made again ---- */
/* A mode that came from outside is one of the modes. */
static int check_mode(const enum kl_scatter_mode *mode, int last, struct kl_error **err) {
    int number;
    memcpy(&number, mode, sizeof number);
    if (number >= 0 && number <= last) return KL_OK;
    return kl_fail(err, KL_EARG, "%d is no way to combine values; they are 0 to %d", number, last);
}
_Static_assert(sizeof(enum kl_scatter_mode) == sizeof(int), "read as an int");

int kl_rebuild_scatter(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_scatter_buf p;
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_scatter_buf, axes), sizeof *p.axes,
                                KL_MAX_NDIM, &n, err));
    KL_TRY(check_mode(&p.mode, KL_SCATTER_ADD_DENORMAL, err));
    if (b->n_in < 2)
        return kl_fail(err, KL_EARG, "%d inputs are given; scatter takes 2 or more", b->n_in);
    KL_TRY(kl_build_count(p.n_axes, b->n_in - 2, "index arrays", err));
    KL_TRY(kl_build_count(n, b->n_in - 2, "axes", err));
    return scatter(out, p.mode, b->in[0], b->in + 2, (size_t)n, b->in[1], p.axes, (size_t)n, b->s,
                   err);
}

int kl_rebuild_scatter_axis(const struct kl_build *b, struct kl_array **out,
                            struct kl_error **err) {
    struct kl_scatter_axis_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    if (p.mode != KL_SCATTER_ADD_DENORMAL) /* the builders make this one and two more */
        KL_TRY(check_mode(&p.mode, KL_SCATTER_ADD, err));
    KL_TRY(kl_build_axis(p.axis, b->in[0]->t.ndim, err));
    return scatter_along(out, p.mode, b->in[0], b->in[2], b->in[1], p.axis, b->s, err);
}

/* ---- batches ---- */

/* The updates (index axes, slice) of every lane, with an axis at `at` for the axis of lanes of the
 * base: all lanes, when the indices have none, else one element. */
static int updates_of_lanes(struct kl_array **out, const struct kl_vmap *v, int at, bool all,
                            struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    int dims[KL_MAX_NDIM];
    struct kl_array *x;
    if (!all) {
        x = KL_TERM(&t, kl_vmap_input(v, &t.made, 1, err));
        x = KL_TERM(&t, kl_expand_dims(&t.made, x, at, v->s, err));
    } else if (v->mapped[1]) {
        x = KL_TERM(&t, kl_moveaxis(&t.made, v->in[1], 0, at, v->s, err));
    } else {
        KL_TRY(kl_vmap_dims(dims, v->in[1], at, v->lanes, err));
        x = KL_TERM(&t, kl_expand_dims(&t.made, v->in[1], at, v->s, err));
        x = KL_TERM(&t, kl_broadcast_view(&t.made, x, x->t.ndim, dims, err));
    }
    return kl_terms_end(&t, x, out);
}

/* Where indices have lanes, the number of the lane is one more index. Where they have none, every
 * update is a slice through all lanes. */
int kl_vmap_scatter(const struct kl_vmap *v, struct kl_array **out, int *axis,
                    struct kl_error **err) {
    const struct kl_scatter_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *index[1 + KL_MAX_NDIM];
    int axes[1 + KL_MAX_NDIM] = {0}, n = 0;
    bool any = false;
    for (int i = 2; i < v->n_in; i++) any = any || v->mapped[i];
    const int index_ndim = v->in[1]->t.ndim - v->mapped[1] - v->ndim;
    struct kl_array *base = KL_TERM(&t, kl_vmap_input(v, &t.made, 0, err));
    *axis = 0;
    if (v->lanes == 0) return kl_terms_end(&t, base, out);
    struct kl_array *updates =
        KL_TERM(&t, updates_of_lanes(&t.made, v, any ? 1 + index_ndim : index_ndim, !any, err));
    if (any) index[n++] = KL_TERM(&t, kl_vmap_lane_index(v, &t.made, index_ndim, err));
    for (int i = 0; i < p->n_axes; i++) {
        index[n] = v->in[2 + i];
        axes[n++] = p->axes[i] + 1;
    }
    struct kl_array *y = KL_TERM(
        &t, scatter(&t.made, p->mode, base, index, (size_t)n, updates, axes, (size_t)n, v->s, err));
    if (y) kl_array_note_lanes(y, any ? v->lanes : 0, true);
    return kl_terms_end(&t, y, out);
}

int kl_vmap_scatter_axis(const struct kl_vmap *v, struct kl_array **out, int *axis,
                         struct kl_error **err) {
    struct kl_scatter_axis_params p = *(const struct kl_scatter_axis_params *)v->params;
    struct kl_array *in[3];
    p.axis++;
    KL_TRY(kl_vmap_inputs(v, in, err));
    int rc = kl_vmap_build(v, out, &p, sizeof p, in, err);
    kl_release_all(in, 3);
    if (!rc) kl_array_note_lanes(*out, v->lanes, true);
    *axis = 0;
    return rc;
}
