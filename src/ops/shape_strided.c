/* shape_strided.c - views with strides that the caller gives: as_strided, diagonal, and view,
 * which reads the bits of one dtype as another. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

/* ---- as_strided ---- */
/* The flat positions [*lo, *hi] that a view reads, relative to its element 0. Returns false when
 * they do not fit in 64 bits. */
static bool reach(const struct kl_shape *to, const int64_t *strides, int64_t *lo, int64_t *hi) {
    *lo = *hi = 0;
    for (int i = 0; i < to->ndim; i++) {
        int64_t last, *end = strides[i] < 0 ? lo : hi;
        if (to->dims[i] > 1 && (__builtin_mul_overflow(strides[i], to->dims[i] - 1, &last) ||
                                __builtin_add_overflow(*end, last, end)))
            return false;
    }
    return true;
}

/* Whether every element of the view is an element of a. */
static int check_reach(const struct kl_array *a, const struct kl_shape *to, const int64_t *strides,
                       size_t offset, struct kl_error **err) {
    int64_t lo, hi;
    if (!reach(to, strides, &lo, &hi) || offset > INT64_MAX)
        return kl_fail(err, KL_ESHAPE, "shape %s with these strides reaches beyond 64 bits",
                       KL_SHAPE_TEXT(to->ndim, to->dims));
    int64_t at = (int64_t)offset, n = a->t.size;
    if (at < n && lo >= -at && hi < n - at) return KL_OK;
    bool below = at < n && lo < -at;
    return kl_fail(err, KL_ESHAPE,
                   "shape %s with these strides from element %zu reaches %s the %lld elements of "
                   "shape %s",
                   KL_SHAPE_TEXT(to->ndim, to->dims), offset, below ? "before" : "beyond",
                   (long long)n, KL_SHAPE_TEXT_OF(a));
}

int kl_as_strided(struct kl_array **out, struct kl_array *a, const int *shape, size_t shape_num,
                  const int64_t *strides, size_t strides_num, size_t offset, struct kl_stream *s,
                  struct kl_error **err) {
    KL_DEFER(AS_STRIDED, a, shape, shape_num, strides, strides_num, (double)offset);
    struct kl_strided_buf p;
    struct kl_shape to;
    struct kl_array *dense;
    int64_t own[KL_MAX_NDIM], size;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_shape(&to, shape, shape_num, a->t.dtype, &size, err));
    if (strides_num != shape_num)
        return kl_fail(err, KL_ESHAPE, "%zu strides are given for %zu axes; one per axis is needed",
                       strides_num, shape_num);
    if (strides_num && !strides)
        return kl_fail(err, KL_EARG, "the strides are NULL with a count of %zu", strides_num);
    if (size > 0) KL_TRY(check_reach(a, &to, strides, offset, err));
    /* An axis of at most one element gets the stride of a contiguous array: the given stride has no
     * effect and may be too large to calculate with. */
    kl_strides_row_major(to.ndim, to.dims, own);
    for (int i = 0; i < to.ndim && size > 0; i++)
        if (to.dims[i] > 1) own[i] = strides[i];
    p.ndim = to.ndim;
    p.v[0] = size > 0 ? (int64_t)offset : 0;
    for (int i = 0; i < to.ndim; i++) p.v[1 + i] = own[i];
    KL_TRY(kl_row_contiguous(&dense, a, s, err));
    int rc = kl_array_view(out, KL_OP_AS_STRIDED, &p, kl_strided_params_bytes(&p), dense, to.ndim,
                           to.dims, own, p.v[0], err);
    kl_array_release(dense);
    return rc;
}

/* ---- diagonal ---- */
int kl_diagonal(struct kl_array **out, struct kl_array *a, int offset, int axis1, int axis2,
                struct kl_stream *s, struct kl_error **err) {
    int dims[KL_MAX_NDIM], n = 0;
    int64_t strides[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE, "an array of %d axes has no diagonal; it needs two",
                       a->t.ndim);
    KL_TRY(kl_check_axis(&axis1, a->t.ndim, err));
    KL_TRY(kl_check_axis(&axis2, a->t.ndim, err));
    if (axis1 == axis2)
        return kl_fail_axis(err, axis1, "axis1 and axis2 are both %d; a diagonal is of two axes",
                            axis1);
    struct kl_diagonal_params p = {offset, axis1, axis2};
    for (int i = 0; i < a->t.ndim; i++) {
        if (i == axis1 || i == axis2) continue;
        dims[n] = a->t.dims[i];
        strides[n++] = a->t.strides[i];
    }
    int64_t down = offset < 0 ? -(int64_t)offset : 0, right = offset > 0 ? offset : 0;
    int64_t rows = a->t.dims[axis1] - down, cols = a->t.dims[axis2] - right;
    int64_t length = rows < cols ? rows : cols, start = 0;
    dims[n] = length > 0 ? (int)length : 0;
    strides[n++] = a->t.strides[axis1] + a->t.strides[axis2];
    if (length > 0 && a->t.size > 0)
        start = down * a->t.strides[axis1] + right * a->t.strides[axis2];
    return kl_array_view(out, KL_OP_DIAGONAL, &p, sizeof p, a, n, dims, strides, start, err);
}

/* ---- view ---- */
/* The strides and the start of a's elements in units of another size; false when they are not
 * multiples of that size. */
static bool rescale(const struct kl_tensor *t, size_t from, size_t to, int *dims, int64_t *strides,
                    int64_t *start) {
    int n = t->ndim;
    for (int i = 0; i < n; i++) {
        dims[i] = t->dims[i];
        strides[i] = t->strides[i];
    }
    *start = t->offset;
    if (from == to) return true;
    int last = n - 1, ratio = (int)(from > to ? from / to : to / from);
    dims[last] = from > to ? dims[last] * ratio : dims[last] / ratio;
    if (t->size == 0) {
        kl_strides_row_major(n, dims, strides);
        *start = 0;
        return true;
    }
    if (t->dims[last] > 1 && strides[last] != 1) return false;
    strides[last] = 1;
    for (int i = 0; i < last; i++) {
        if (t->dims[i] == 1) strides[i] = 0;
        if (from < to && strides[i] % ratio) return false;
        strides[i] = from > to ? strides[i] * ratio : strides[i] / ratio;
    }
    if (from < to && *start % ratio) return false;
    *start = from > to ? *start * ratio : *start / ratio;
    return true;
}

/* Whether memory that the user owns may begin at an address that is not aligned for elements of
 * this size. A pending array gets memory of Keel, which is aligned. */
static bool misaligned(const struct kl_array *a, size_t bytes) {
    if (!kl_fate_settled(a->t.fate) || !a->t.buffer->block) return false;
    return (uintptr_t)a->t.buffer->block->ptr % bytes != 0;
}

static int check_view(const struct kl_array *a, size_t from, size_t to, struct kl_error **err) {
    if (from == to) return KL_OK;
    if (a->t.ndim == 0)
        return kl_fail(err, KL_ESHAPE,
                       "a 0-d array of %zu bytes cannot be read as elements of %zu: it has no axis "
                       "that could grow or shrink",
                       from, to);
    int64_t bytes = (int64_t)a->t.dims[a->t.ndim - 1] * (int64_t)from;
    if (bytes % (int64_t)to)
        return kl_fail(err, KL_ESHAPE,
                       "the last axis of shape %s has %lld bytes, which is no multiple of %zu",
                       KL_SHAPE_TEXT_OF(a), (long long)bytes, to);
    if (bytes / (int64_t)to > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%lld elements are too many for one axis; at most %d are possible",
                       (long long)(bytes / (int64_t)to), INT32_MAX);
    return KL_OK;
}

static int read_as(struct kl_array **out, struct kl_array *a, enum kl_dtype dtype,
                   struct kl_stream *s, struct kl_error **err) {
    size_t from = kl_dtype_size(a->t.dtype), to = kl_dtype_size(dtype);
    int dims[KL_MAX_NDIM];
    int64_t strides[KL_MAX_NDIM], start;
    KL_TRY(check_view(a, from, to, err));
    if (rescale(&a->t, from, to, dims, strides, &start) && !(from < to && misaligned(a, to)))
        return kl_array_view_as(out, KL_OP_VIEW, NULL, 0, a, dtype, a->t.ndim, dims, strides, start,
                                err);
    struct kl_array *dense;
    KL_TRY(kl_copy(&dense, a, s, err));
    rescale(&dense->t, from, to, dims, strides, &start);
    int rc = kl_array_view_as(out, KL_OP_VIEW, NULL, 0, dense, dtype, a->t.ndim, dims, strides,
                              start, err);
    kl_array_release(dense);
    return rc;
}

int kl_view(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
            struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_dtype(dtype, err));
    if (dtype == a->t.dtype) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    if (dtype != KL_BOOL) return read_as(out, a, (enum kl_dtype)dtype, s, err);
    /* Every kernel expects a bool to be 0 or 1, so other bytes are converted. */
    struct kl_array *bytes = KL_TERM(&t, read_as(&t.made, a, KL_U8, s, err));
    struct kl_array *truth = KL_TERM(&t, kl_cast_to(&t.made, bytes, KL_BOOL, s, err));
    return kl_terms_end(&t, truth, out);
}

/* ---- gradients ---- */
/* The flat position of every element of the view, in the view's shape. */
static int positions(struct kl_array **out, const struct kl_shape *of,
                     const struct kl_strided_params *p, int64_t size, struct kl_stream *s,
                     struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *at = KL_TERM(&t, kl_array_new_scalar(&t.made, (double)p->v[0], KL_I64, err));
    for (int i = 0; i < of->ndim && !t.rc; i++) {
        struct kl_terms axis = kl_terms_begin(s, err);
        int n = of->dims[i], dims[KL_MAX_NDIM];
        for (int k = i; k < of->ndim; k++) dims[k - i] = k == i ? n : 1;
        struct kl_array *x = KL_TERM(&axis, kl_arange(&axis.made, 0, n, 1, KL_I64, s, err));
        struct kl_array *stride =
            KL_TERM(&axis, kl_array_new_data(&axis.made, &p->v[1 + i], KL_I64, 0, NULL, err));
        x = KL_TERM(&axis, kl_multiply(&axis.made, x, stride, s, err));
        x = KL_TERM(&axis, kl_reshape_to(&axis.made, x, of->ndim - i, dims, s, err));
        x = KL_TERM(&axis, kl_add(&axis.made, at, x, s, err));
        at = KL_TERM(&t, kl_terms_end(&axis, x, &t.made));
    }
    at = KL_TERM(&t, kl_broadcast_view(&t.made, at, of->ndim, of->dims, err));
    at = KL_TERM(&t, kl_flatten_all(&t.made, at, s, err));
    if (!t.rc) kl_array_set_range(at, 0, size - 1); /* the builder has checked this range */
    return kl_terms_end(&t, at, out);
}

/* An element that several elements of the view show gets the sum of their gradients. */
int kl_vjp_as_strided(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0], *a = v->in[0];
    struct kl_shape of = kl_shape_of(g);
    struct kl_array *zeros = KL_TERM(&t, kl_zeros_like(&t.made, a, v->s, err));
    if (g->t.size == 0) return kl_terms_end(&t, zeros, &grad[0]);
    struct kl_array *at = KL_TERM(&t, positions(&t.made, &of, v->params, a->t.size, v->s, err));
    struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, zeros, v->s, err));
    struct kl_array *updates = KL_TERM(&t, kl_flatten_all(&t.made, g, v->s, err));
    struct kl_array *sum =
        KL_TERM(&t, kl_scatter_add_axis(&t.made, flat, at, updates, 0, v->s, err));
    sum = KL_TERM(&t, kl_reshape_to(&t.made, sum, a->t.ndim, a->t.dims, v->s, err));
    return kl_terms_end(&t, sum, &grad[0]);
}

int kl_vjp_diagonal(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_diagonal_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *a = v->in[0];
    int perm[KL_MAX_NDIM], n = a->t.ndim, rows = a->t.dims[p->axis1], cols = a->t.dims[p->axis2];
    if (v->cotangent[0]->t.size == 0) return kl_zeros_like(&grad[0], a, v->s, err);
    for (int i = 0, lead = 0; i < n; i++)
        perm[i] = i == p->axis1 ? n - 2 : i == p->axis2 ? n - 1 : lead++;
    struct kl_array *g =
        KL_TERM(&t, kl_embed_diagonal(&t.made, v->cotangent[0], rows, cols, p->offset, v->s, err));
    g = KL_TERM(&t, kl_permute(&t.made, g, perm, err));
    return kl_terms_end(&t, g, &grad[0]);
}

/* ---- made again ---- */

int kl_rebuild_as_strided(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_strided_buf p;
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_strided_buf, v), sizeof *p.v,
                                1 + KL_MAX_NDIM, &n, err));
    KL_TRY(kl_build_count(p.ndim, b->ndim, "axes", err));
    if (p.ndim < 0) return kl_fail(err, KL_EARG, "%d axes in the parameters", p.ndim);
    KL_TRY(kl_build_count(n, 1 + p.ndim, "strides and the offset", err));
    if (p.v[0] < 0) return kl_fail(err, KL_EARG, "offset %lld; it is 0 or more", (long long)p.v[0]);
    return kl_as_strided(out, b->in[0], b->dims, (size_t)b->ndim, p.v + 1, (size_t)p.ndim,
                         (size_t)p.v[0], b->s, err);
}

int kl_rebuild_diagonal(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_diagonal_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_axis(p.axis1, b->in[0]->t.ndim, err));
    KL_TRY(kl_build_axis(p.axis2, b->in[0]->t.ndim, err));
    return kl_diagonal(out, b->in[0], p.offset, p.axis1, p.axis2, b->s, err);
}

int kl_rebuild_view(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_view(out, b->in[0], (int)b->dtype, b->s, err);
}

/* ---- batches ---- */

/* The strides are those of a row-contiguous lane, and so the lanes must follow each other. */
int kl_vmap_as_strided(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    const struct kl_strided_params *p = v->params;
    int dims[KL_MAX_NDIM + 1] = {v->lanes};
    int64_t strides[KL_MAX_NDIM + 1] = {1};
    struct kl_array *a = v->in[0];
    for (int i = 1; i < a->t.ndim; i++) strides[0] *= a->t.dims[i];
    for (int i = 0; i < p->ndim; i++) {
        dims[1 + i] = v->dims[i];
        strides[1 + i] = p->v[1 + i];
    }
    *axis = 0;
    return kl_as_strided(out, a, dims, 1 + (size_t)p->ndim, strides, 1 + (size_t)p->ndim,
                         (size_t)p->v[0], v->s, err);
}

int kl_vmap_diagonal(const struct kl_vmap *v, struct kl_array **out, int *axis,
                     struct kl_error **err) {
    const struct kl_diagonal_params *p = v->params;
    *axis = 0;
    return kl_diagonal(out, v->in[0], p->offset, p->axis1 + 1, p->axis2 + 1, v->s, err);
}
