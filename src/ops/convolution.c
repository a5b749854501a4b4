/* convolution.c - convolutions, channels last: one operation for one to three spatial axes with
 * strides, padding, dilation of kernel and input, groups and flipped kernels. Its gradients are
 * operations of the same kind, and so are transposed convolutions. */
#include <string.h>

#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"
#include "ops/convolution_parts.h"

typedef struct kl_convolution_params params;

enum {
    MOST_IN_GROUP = 8, /* input channels of a group for which the CPU has a direct gradient */
    MOST_FEW = 4,      /* the same on devices where there is one group */
    LEAST_OUT = 8,     /* output channels of one group for which the CPU has one */
};

/* The extent of the input with zeros between its elements. */
static int64_t dilated(int64_t extent, int64_t dilation) {
    return extent ? (extent - 1) * dilation + 1 : 0;
}

static int check_sizes(const int *sizes, int n, const char *what, struct kl_error **err) {
    for (int i = 0; i < n; i++)
        if (sizes[i] < 1)
            return kl_fail(err, KL_EARG, "%s %s; sizes of 1 or more are taken", what,
                           KL_SHAPE_TEXT(n, sizes));
    return KL_OK;
}

static int check_axes(const struct kl_array *x, const struct kl_array *w, int ndim,
                      struct kl_error **err) {
    if (x->t.ndim == ndim + 2 && w->t.ndim == ndim + 2) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "shapes %s and %s; a convolution over %d axes takes an input (batch, spatial "
                   "axes, channels) and a weight (output channels, spatial axes, channels) of %d "
                   "axes",
                   KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(w), ndim, ndim + 2);
}

int kl_convolution_check(const params *p, struct kl_error **err) {
    if (p->ndim < 1 || p->ndim > KL_MAX_SPATIAL)
        return kl_fail(err, KL_ESHAPE, "a convolution over %d spatial axes; 1 to %d are possible",
                       p->ndim, KL_MAX_SPATIAL);
    KL_TRY(check_sizes(p->stride, p->ndim, "strides", err));
    KL_TRY(check_sizes(p->dilation, p->ndim, "kernel dilation", err));
    KL_TRY(check_sizes(p->input_dilation, p->ndim, "input dilation", err));
    if (p->groups < 1) return kl_fail(err, KL_EARG, "%d groups; 1 or more are taken", p->groups);
    return KL_OK;
}

static int check_channels(const struct kl_array *x, const struct kl_array *w, int groups,
                          struct kl_error **err) {
    const int c = x->t.dims[x->t.ndim - 1], o = w->t.dims[0], each = w->t.dims[w->t.ndim - 1];
    if (c % groups || o % groups)
        return kl_fail(err, KL_ESHAPE,
                       "%d input channels and %d output channels, from shapes %s and %s, in %d "
                       "groups; multiples of the number of groups are taken",
                       c, o, KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(w), groups);
    if ((int64_t)each * groups == c) return KL_OK;
    return kl_fail(
        err, KL_ESHAPE,
        "an input of shape %s has %d channels; a weight of shape %s with %d groups takes "
        "%lld",
        KL_SHAPE_TEXT_OF(x), c, KL_SHAPE_TEXT_OF(w), groups, (long long)each * groups);
}

/* The extent of the result along spatial axis i. */
static int extent_of(int *to, const struct kl_array *x, const struct kl_array *w, const params *p,
                     int i, struct kl_error **err) {
    const int64_t k = w->t.dims[1 + i], reach = (k - 1) * p->dilation[i] + 1,
                  there = dilated(x->t.dims[1 + i], p->input_dilation[i]) + p->low[i] + p->high[i];
    if (k == 0)
        return kl_fail(err, KL_ESHAPE,
                       "a weight of shape %s; its spatial axes have 1 element or more",
                       KL_SHAPE_TEXT_OF(w));
    if (there > INT32_MAX || reach > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "axis %d has %lld elements with its padding, the kernel reaches over %lld; "
                       "at most %d are possible",
                       1 + i, (long long)there, (long long)reach, INT32_MAX);
    if (there < reach)
        return kl_fail(err, KL_ESHAPE,
                       "axis %d of an input of shape %s has %lld elements with dilation and "
                       "padding (%d, %d); the kernel of a weight of shape %s reaches over %lld",
                       1 + i, KL_SHAPE_TEXT_OF(x), (long long)there, p->low[i], p->high[i],
                       KL_SHAPE_TEXT_OF(w), (long long)reach);
    *to = (int)((there - reach) / p->stride[i]) + 1;
    return KL_OK;
}

int kl_convolution(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                   const struct kl_convolution_params *p, struct kl_stream *s,
                   struct kl_error **err) {
    int dims[KL_MAX_SPATIAL + 2];
    struct kl_array *in[2];
    KL_TRY(kl_check_array(x, "input", err));
    KL_TRY(kl_check_array(w, "weight", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_convolution_check(p, err));
    const enum kl_dtype dtype = kl_dtype_promote(x->t.dtype, w->t.dtype);
    if (!kl_dtype_is_float(x->t.dtype) || !kl_dtype_is_float(w->t.dtype))
        return kl_fail(err, KL_EDTYPE, "an input of %s and a weight of %s; both must be floating",
                       kl_dtype_name(x->t.dtype), kl_dtype_name(w->t.dtype));
    KL_TRY(check_axes(x, w, p->ndim, err));
    KL_TRY(check_channels(x, w, p->groups, err));
    dims[0] = x->t.dims[0];
    for (int i = 0; i < p->ndim; i++) KL_TRY(extent_of(&dims[1 + i], x, w, p, i, err));
    dims[1 + p->ndim] = w->t.dims[0];
    struct kl_array *typed;
    KL_TRY(kl_cast_to(&typed, x, dtype, s, err));
    int rc = kl_in_rows(&in[0], typed, KL_ROWS_READ, s, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_cast_to(&in[1], w, dtype, s, err);
    if (!rc) {
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_CONVOLUTION,
                                                 .stream = s,
                                                 .params = p,
                                                 .params_bytes = sizeof *p,
                                                 .in = in,
                                                 .n_in = 2},
                          dtype, p->ndim + 2, dims, err);
        kl_array_release(in[1]);
    }
    kl_array_release(in[0]);
    return rc;
}

/* ---- the functions of the API ---- */

/* Fills the entries of all axes from a list of one for each, of one for all, or of none. */
static int take_list(int *to, struct kl_conv_list list, int ndim, int otherwise, const char *what,
                     struct kl_error **err) {
    KL_TRY(kl_check_list(list.v, list.n, what, err));
    if (list.n > 1 && list.n != (size_t)ndim)
        return kl_fail(err, KL_EARG,
                       "%s of %zu entries for a convolution over %d axes; one for each, one for "
                       "all, or none are taken",
                       what, list.n, ndim);
    for (int i = 0; i < ndim; i++) to[i] = list.n == 0 ? otherwise : list.v[list.n == 1 ? 0 : i];
    return KL_OK;
}

/* Removes from x the elements that negative padding names, and sets that padding to 0. */
static int crop(struct kl_array **out, struct kl_array *x, params *p, struct kl_error **err) {
    int start[KL_MAX_SPATIAL + 2] = {0}, step[KL_MAX_SPATIAL + 2];
    struct kl_shape to = kl_shape_of(x);
    for (int i = 0; i < to.ndim; i++) step[i] = 1;
    for (int i = 0; i < p->ndim; i++) {
        const int64_t low = p->low[i] < 0 ? -(int64_t)p->low[i] : 0,
                      high = p->high[i] < 0 ? -(int64_t)p->high[i] : 0;
        if (low + high > to.dims[1 + i])
            return kl_fail(err, KL_ESHAPE,
                           "padding (%d, %d) removes more elements than axis %d of an input of "
                           "shape %s has",
                           p->low[i], p->high[i], 1 + i, KL_SHAPE_TEXT_OF(x));
        start[1 + i] = (int)low;
        to.dims[1 + i] -= (int)(low + high);
        if (low) p->low[i] = 0;
        if (high) p->high[i] = 0;
    }
    return kl_slice_to(out, x, start, step, to.dims, err);
}

int kl_conv_general(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                    struct kl_conv_list stride, struct kl_conv_list low, struct kl_conv_list high,
                    struct kl_conv_list dilation, struct kl_conv_list input_dilation, int groups,
                    bool flip, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(CONV_GENERAL, x, w, stride.v, stride.n, low.v, low.n, high.v, high.n, dilation.v,
             dilation.n, input_dilation.v, input_dilation.n, groups, flip);
    KL_TRY(kl_check_array(x, "input", err));
    const int ndim = x->t.ndim - 2;
    params p;
    memset(&p, 0, sizeof p);
    p.ndim = ndim;
    p.groups = groups;
    p.flip = flip;
    if (ndim < 1 || ndim > KL_MAX_SPATIAL)
        return kl_fail(
            err, KL_ESHAPE,
            "an input of shape %s; it has the axes batch, 1 to %d spatial axes, channels",
            KL_SHAPE_TEXT_OF(x), KL_MAX_SPATIAL);
    KL_TRY(take_list(p.stride, stride, ndim, 1, "strides", err));
    KL_TRY(take_list(p.low, low, ndim, 0, "low padding", err));
    KL_TRY(take_list(p.high, high, ndim, 0, "high padding", err));
    KL_TRY(take_list(p.dilation, dilation, ndim, 1, "kernel dilation", err));
    KL_TRY(take_list(p.input_dilation, input_dilation, ndim, 1, "input dilation", err));
    bool crops = false;
    for (int i = 0; i < ndim; i++) crops = crops || p.low[i] < 0 || p.high[i] < 0;
    if (!crops) return kl_convolution(out, x, w, &p, s, err);
    struct kl_array *part;
    KL_TRY(crop(&part, x, &p, err));
    int rc = kl_convolution(out, part, w, &p, s, err);
    kl_array_release(part);
    return rc;
}

int kl_conv(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
            const int *stride, const int *padding, const int *dilation, int groups,
            struct kl_stream *s, struct kl_error **err) {
    const size_t n = (size_t)ndim;
    KL_TRY(kl_check_array(x, "input", err));
    KL_TRY(kl_check_array(w, "weight", err));
    KL_TRY(check_axes(x, w, ndim, err));
    return kl_conv_general(out, x, w, (struct kl_conv_list){stride, n},
                           (struct kl_conv_list){padding, n}, (struct kl_conv_list){padding, n},
                           (struct kl_conv_list){dilation, n}, (struct kl_conv_list){NULL, 0},
                           groups, false, s, err);
}

int kl_conv_transpose(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                      const int *stride, const int *padding, const int *dilation,
                      const int *output_padding, int groups, struct kl_stream *s,
                      struct kl_error **err) {
    if (ndim > 0 && ndim <= KL_MAX_SPATIAL) {
        const size_t n = (size_t)ndim;
        KL_DEFER(CONV_TRANSPOSE, x, w, ndim, stride, n, padding, n, dilation, n, output_padding, n,
                 groups);
    }
    params p;
    memset(&p, 0, sizeof p);
    p.ndim = ndim;
    p.groups = groups;
    p.flip = true;
    KL_TRY(kl_check_array(x, "input", err));
    KL_TRY(kl_check_array(w, "weight", err));
    KL_TRY(check_axes(x, w, ndim, err));
    KL_TRY(check_sizes(stride, ndim, "strides", err));
    for (int i = 0; i < ndim; i++) {
        const int64_t low = ((int64_t)w->t.dims[1 + i] - 1) * dilation[i] - padding[i],
                      high = low + output_padding[i];
        if (low < -INT32_MAX || low > INT32_MAX || high < -INT32_MAX || high > INT32_MAX)
            return kl_fail(err, KL_ELIMIT,
                           "padding of %lld and %lld elements follows for axis %d; at most %d are "
                           "possible",
                           (long long)low, (long long)high, 1 + i, INT32_MAX);
        p.stride[i] = 1;
        p.low[i] = (int)low;
        p.high[i] = (int)high;
        p.dilation[i] = dilation[i];
        p.input_dilation[i] = stride[i];
    }
    return kl_convolution(out, x, w, &p, s, err);
}

/* ---- gradients ---- */

int kl_as_padding(int *to, int64_t n, struct kl_error **err) {
    if (n < -INT32_MAX || n > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "the gradient needs padding of %lld elements", (long long)n);
    *to = (int)n;
    return KL_OK;
}

/* a (..., in order `from`) with its first and last axis split into groups, the axes put into the
 * order `perm`, and joined again. An axis of `n` elements is split into groups x n / groups. */
static struct kl_array *regroup(struct kl_terms *t, struct kl_array *a, int groups, int split,
                                const int *perm, int join) {
    struct kl_shape apart = {.ndim = a->t.ndim + 1}, to = {.ndim = a->t.ndim};
    for (int i = 0; i < apart.ndim; i++)
        apart.dims[i] = i < split        ? a->t.dims[i]
                        : i == split     ? groups
                        : i == split + 1 ? a->t.dims[split] / groups
                                         : a->t.dims[i - 1];
    struct kl_array *x =
        KL_TERM(t, kl_reshape_to(&t->made, a, apart.ndim, apart.dims, t->s, t->err));
    x = KL_TERM(t, kl_permute(&t->made, x, perm, t->err));
    if (t->rc) return NULL;
    for (int i = 0; i < to.ndim; i++)
        to.dims[i] = i < join    ? x->t.dims[i]
                     : i == join ? x->t.dims[i] * x->t.dims[i + 1]
                                 : x->t.dims[i + 1];
    return KL_TERM(t, kl_reshape_to(&t->made, x, to.ndim, to.dims, t->s, t->err));
}

/* The gradient of the input is a convolution of the cotangent, dilated by the stride, with the
 * kernel read the other way and its channels exchanged: (o, k, c / g) as (c, k, o / g). */
struct kl_array *kl_convolution_input_gradient(struct kl_terms *t, const struct kl_array *x,
                                               struct kl_array *w, struct kl_array *g,
                                               const params *p) {
    const int n = p->ndim;
    params q = *p;
    q.flip = !p->flip;
    for (int i = 0; i < n && !t->rc; i++) {
        const int64_t reach = ((int64_t)w->t.dims[1 + i] - 1) * p->dilation[i] + 1,
                      there = dilated(x->t.dims[1 + i], p->input_dilation[i]),
                      given = dilated(g->t.dims[1 + i], p->stride[i]);
        q.stride[i] = p->input_dilation[i];
        q.input_dilation[i] = p->stride[i];
        t->rc = kl_as_padding(&q.low[i], reach - 1 - p->low[i], t->err);
        if (!t->rc) t->rc = kl_as_padding(&q.high[i], there - given + p->low[i], t->err);
    }
    int perm[KL_MAX_SPATIAL + 3] = {0, n + 2}; /* (g, o / g, k, c / g) to (g, c / g, k, o / g) */
    for (int i = 0; i < n; i++) perm[2 + i] = 2 + i;
    perm[n + 2] = 1;
    struct kl_array *turned = t->rc ? NULL : regroup(t, w, p->groups, 0, perm, 0);
    return KL_TERM(t, kl_convolution(&t->made, g, turned, &q, t->s, t->err));
}

static bool is_cpu(const struct kl_vjp *v) {
    return strcmp(kl_stream_backend(v->s)->name, "cpu") == 0;
}

static bool in_tiles(const struct kl_vjp *v, const params *p) {
    for (int i = 0; i < p->ndim; i++)
        if (p->input_dilation[i] != 1) return false;
    return v->in[1]->t.dims[0] >= LEAST_OUT && v->in[0]->t.dtype != KL_F64;
}

/* Whether the gradient of the weight is best computed by the operation of its own: in groups, which
 * would make copies of the operands with the batch next to the channels; on devices also of few
 * input channels, of which tiles of a product would be mostly empty, but not of 16-bit floats, for
 * which libraries have matrix units. The CPU's kernel takes one input channel of each group at a
 * time, and one group in tiles of a product, which few output channels would leave mostly empty. */
static bool by_operation(const struct kl_vjp *v, const params *p) {
    const int each = v->in[1]->t.dims[p->ndim + 1];
    const bool narrow = kl_dtype_size(v->in[0]->t.dtype) < 4;
    if (is_cpu(v) && p->groups > 1) return each <= MOST_IN_GROUP;
    if (is_cpu(v)) return in_tiles(v, p);
    return p->groups > 1 || (each <= MOST_FEW && !narrow);
}

/* The gradient of the weight is a convolution in which the batch is the axis of channels, and the
 * input channels are the batch: of the input as (c / g, spatial, g n) with the cotangent as (o,
 * spatial, n); the result is (c / g, k, o). */
static struct kl_array *channels_as_batch_gradient(struct kl_terms *t, const struct kl_vjp *v,
                                                   const params *q) {
    const int n = q->ndim;
    /* (n, spatial, g, c / g) to (c / g, spatial, g, n). The CPU's kernels read along channels and
     * get copies; devices copy where they have to. */
    int perm[KL_MAX_SPATIAL + 3] = {n + 2};
    for (int i = 0; i < n; i++) perm[1 + i] = 1 + i;
    perm[n + 1] = n + 1;
    perm[n + 2] = 0;
    struct kl_array *left = regroup(t, v->in[0], q->groups, n + 1, perm, n + 1);
    struct kl_array *right =
        KL_TERM(t, kl_swapaxes(&t->made, v->cotangent[0], 0, -1, t->s, t->err));
    if (is_cpu(v)) {
        left = KL_TERM(t, kl_contiguous(&t->made, left, false, t->s, t->err));
        right = KL_TERM(t, kl_contiguous(&t->made, right, false, t->s, t->err));
    }
    return KL_TERM(t, kl_convolution(&t->made, left, right, q, t->s, t->err));
}

static struct kl_array *weight_gradient(struct kl_terms *t, const struct kl_vjp *v,
                                        const params *p) {
    const struct kl_array *x = v->in[0], *w = v->in[1], *g = v->cotangent[0];
    const int n = p->ndim;
    params q = *p;
    if (by_operation(v, p))
        return KL_TERM(t, kl_convolution_backward(&t->made, v->in[0], v->cotangent[0], p,
                                                  w->t.dims + 1, t->s, t->err));
    if (is_cpu(v) && kl_by_products(v, p)) return kl_weight_gradient_by_products(t, v, p);
    q.flip = false;
    for (int i = 0; i < n && !t->rc; i++) {
        const int64_t reach = ((int64_t)w->t.dims[1 + i] - 1) * p->dilation[i],
                      there = dilated(x->t.dims[1 + i], p->input_dilation[i]),
                      given = dilated(g->t.dims[1 + i], p->stride[i]);
        q.stride[i] = p->dilation[i];
        q.dilation[i] = p->stride[i];
        t->rc = kl_as_padding(&q.high[i], reach + given - there - p->low[i], t->err);
    }
    if (t->rc) return NULL;
    struct kl_array *grad = channels_as_batch_gradient(t, v, &q);
    if (t->rc) return NULL;
    int back[KL_MAX_SPATIAL + 2];
    if (p->flip) {
        int start[KL_MAX_SPATIAL + 2] = {0}, step[KL_MAX_SPATIAL + 2];
        for (int i = 0; i < n + 2; i++) {
            const bool spatial = i > 0 && i <= n;
            start[i] = spatial ? grad->t.dims[i] - 1 : 0;
            step[i] = spatial ? -1 : 1;
        }
        grad = KL_TERM(t, kl_slice_to(&t->made, grad, start, step, grad->t.dims, t->err));
    }
    for (int i = 0; i < n + 2; i++) back[i] = i == 0 ? n + 1 : i == n + 1 ? 0 : i;
    return KL_TERM(t, kl_permute(&t->made, grad, back, t->err));
}

int kl_vjp_convolution(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    for (int k = 0; k < 2; k++) {
        if (!v->wanted[k]) continue;
        const struct kl_tensor *to = &v->in[k]->t;
        struct kl_array *made;
        if (v->in[0]->t.size == 0 || v->in[1]->t.size == 0)
            made = KL_TERM(&t, kl_zeros(&t.made, to->dims, (size_t)to->ndim, to->dtype, v->s, err));
        else
            made = k ? weight_gradient(&t, v, v->params)
                     : kl_convolution_input_gradient(&t, v->in[0], v->in[1], v->cotangent[0],
                                                     v->params);
        grad[k] = kl_terms_keep(&t, made);
    }
    return kl_terms_end(&t, NULL, NULL);
}

int kl_jvp_convolution(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *part[2] = {NULL};
    for (int k = 0; k < 2; k++)
        if (j->tangent[k])
            part[k] =
                KL_TERM(&t, kl_convolution(&t.made, k ? j->in[0] : j->tangent[0],
                                           k ? j->tangent[1] : j->in[1], j->params, j->s, err));
    struct kl_array *sum = part[0] && part[1] ? kl_term2(&t, kl_add, part[0], part[1])
                           : part[0]          ? part[0]
                                              : part[1];
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */

int kl_rebuild_convolution(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.flip, err));
    return kl_convolution(out, b->in[0], b->in[1], &p, b->s, err);
}

/* ---- batches ----
 * Lanes of the input alone are more elements of the batch, lanes of the weight alone more output
 * channels; lanes of both are more groups. */

struct kl_array *kl_join_axes(struct kl_terms *t, struct kl_array *a, int from, int to) {
    struct kl_array *x = KL_TERM(t, kl_moveaxis(&t->made, a, from, to, t->s, t->err));
    struct kl_shape dims;
    if (t->rc) return NULL;
    if ((int64_t)x->t.dims[to] * x->t.dims[to + 1] > INT32_MAX) {
        t->rc =
            kl_fail(t->err, KL_ELIMIT, "the lanes of an array of shape %s make an axis too long",
                    KL_SHAPE_TEXT_OF(a));
        return NULL;
    }
    dims.ndim = x->t.ndim - 1;
    for (int i = 0; i < dims.ndim; i++) dims.dims[i] = x->t.dims[i + (i > to)];
    dims.dims[to] = x->t.dims[to] * x->t.dims[to + 1];
    return KL_TERM(t, kl_reshape_to(&t->made, x, dims.ndim, dims.dims, t->s, t->err));
}

struct kl_array *kl_split_axis(struct kl_terms *t, struct kl_array *a, int axis, const int *parts,
                               int n) {
    struct kl_shape to = {.ndim = 0};
    if (t->rc) return NULL;
    for (int i = 0; i < a->t.ndim; i++)
        for (int k = 0; k < (i == axis ? n : 1); k++)
            to.dims[to.ndim++] = i == axis ? parts[k] : a->t.dims[i];
    return KL_TERM(t, kl_reshape_to(&t->made, a, to.ndim, to.dims, t->s, t->err));
}

int kl_vmap_convolution(const struct kl_vmap *v, struct kl_array **out, int *axis,
                        struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    params p = *(const params *)v->params;
    const int n = p.ndim, lanes = v->lanes, groups = p.groups, o = v->dims[n + 1];
    struct kl_array *x = v->in[0], *w = v->in[1], *y;
    if (lanes == 0) {
        *axis = 0;
        return kl_vmap_each(v, out, err);
    }
    if (!v->mapped[1]) {
        x = kl_join_axes(&t, x, 0, 0);
        y = KL_TERM(&t, kl_convolution(&t.made, x, w, &p, v->s, err));
        y = kl_split_axis(&t, y, 0, (int[]){lanes, v->dims[0]}, 2);
        *axis = 0;
    } else if (v->mapped[0]) {
        if ((int64_t)groups * lanes > INT32_MAX) return kl_vmap_each(v, out, err);
        p.groups = groups * lanes;
        x = kl_join_axes(&t, x, 0, n + 1);
        w = kl_join_axes(&t, w, 0, 0);
        y = KL_TERM(&t, kl_convolution(&t.made, x, w, &p, v->s, err));
        y = kl_split_axis(&t, y, n + 1, (int[]){lanes, o}, 2);
        *axis = n + 1;
    } else { /* output channels in the order (groups, lanes, channels of a group) */
        w = kl_split_axis(&t, w, 1, (int[]){groups, o / groups}, 2);
        w = kl_join_axes(&t, w, 0, 1);
        w = kl_join_axes(&t, w, 0, 0);
        y = KL_TERM(&t, kl_convolution(&t.made, x, w, &p, v->s, err));
        y = kl_split_axis(&t, y, n + 1, (int[]){groups, lanes, o / groups}, 3);
        y = KL_TERM(&t, kl_moveaxis(&t.made, y, n + 2, 0, v->s, err));
        y = t.rc ? NULL : kl_join_axes(&t, y, n + 2, n + 2);
        *axis = 0;
    }
    return kl_terms_end(&t, y, out);
}
