/* convolution_backward.c - the gradient of the weight of a convolution: the operation
 * CONVOLUTION_BACKWARD. It is linear in the input and in the cotangent, so its own gradients and
 * tangents are convolutions and itself. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"
#include "ops/convolution_parts.h"

typedef struct kl_convolution_backward_params params;

/* ---- the operation ---- */

static int check_axis(const struct kl_array *x, const struct kl_array *g, const params *p, int i,
                      struct kl_error **err) {
    const struct kl_convolution_params *of = &p->of;
    const int64_t in = x->t.dims[1 + i], reach = ((int64_t)p->k[i] - 1) * of->dilation[i] + 1,
                  there =
                      (in ? (in - 1) * of->input_dilation[i] + 1 : 0) + of->low[i] + of->high[i];
    if (p->k[i] < 1)
        return kl_fail(err, KL_ESHAPE,
                       "a weight of %d elements along spatial axis %d; it has 1 or "
                       "more",
                       p->k[i], i);
    if (there > INT32_MAX || reach > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "axis %d has %lld elements with its padding, the kernel reaches over %lld; "
                       "at most %d are possible",
                       1 + i, (long long)there, (long long)reach, INT32_MAX);
    const int64_t positions = there < reach ? 0 : (there - reach) / of->stride[i] + 1;
    if (positions && g->t.dims[1 + i] == positions) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "a cotangent of shape %s for an input of shape %s; the convolution has %lld "
                   "positions along axis %d",
                   KL_SHAPE_TEXT_OF(g), KL_SHAPE_TEXT_OF(x), (long long)positions, 1 + i);
}

static int check_operands(const struct kl_array *x, const struct kl_array *g, const params *p,
                          struct kl_error **err) {
    const int n = p->of.ndim, groups = p->of.groups;
    if (!kl_dtype_is_float(x->t.dtype) || !kl_dtype_is_float(g->t.dtype))
        return kl_fail(err, KL_EDTYPE,
                       "an input of %s and a cotangent of %s; both must be floating",
                       kl_dtype_name(x->t.dtype), kl_dtype_name(g->t.dtype));
    if (x->t.ndim != n + 2 || g->t.ndim != n + 2 || x->t.dims[0] != g->t.dims[0])
        return kl_fail(err, KL_ESHAPE,
                       "shapes %s and %s; the input and the cotangent of a convolution over %d "
                       "axes have %d axes and the same batch",
                       KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(g), n, n + 2);
    for (int i = 0; i < n; i++) KL_TRY(check_axis(x, g, p, i, err));
    if (x->t.dims[n + 1] % groups == 0 && g->t.dims[n + 1] % groups == 0) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "%d input channels and %d output channels, from shapes %s and %s, in %d groups; "
                   "multiples of the number of groups are taken",
                   x->t.dims[n + 1], g->t.dims[n + 1], KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(g),
                   groups);
}

int kl_convolution_backward(struct kl_array **out, struct kl_array *x, struct kl_array *cotangent,
                            const struct kl_convolution_params *of, const int *k,
                            struct kl_stream *s, struct kl_error **err) {
    struct kl_array *in[2];
    params p = {.of = *of};
    KL_TRY(kl_check_array(x, "input", err));
    KL_TRY(kl_check_array(cotangent, "the cotangent", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_convolution_check(of, err));
    const int n = of->ndim;
    for (int i = 0; i < n; i++) p.k[i] = k[i];
    KL_TRY(check_operands(x, cotangent, &p, err));
    int dims[KL_MAX_SPATIAL + 2] = {cotangent->t.dims[n + 1]};
    for (int i = 0; i < n; i++) dims[1 + i] = k[i];
    dims[n + 1] = x->t.dims[n + 1] / of->groups;
    const enum kl_dtype dtype = kl_dtype_promote(x->t.dtype, cotangent->t.dtype);
    KL_TRY(kl_cast_to(&in[0], x, dtype, s, err));
    int rc = kl_cast_to(&in[1], cotangent, dtype, s, err);
    if (!rc) {
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_CONVOLUTION_BACKWARD,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = sizeof p,
                                                 .in = in,
                                                 .n_in = 2},
                          dtype, n + 2, dims, err);
        kl_array_release(in[1]);
    }
    kl_array_release(in[0]);
    return rc;
}

/* ---- gradients ---- */

/* The result is the array a of the shape of the weight with <convolution(x, a), cotangent> = <a,
 * result>: so the cotangent of the result takes the place of the weight in both gradients. */
int kl_vjp_convolution_backward(const struct kl_vjp *v, struct kl_array **grad,
                                struct kl_error **err) {
    const params *p = v->params;
    struct kl_array *x = v->in[0], *g = v->in[1], *w = v->cotangent[0];
    const bool empty = x->t.size == 0 || g->t.size == 0;
    struct kl_terms t = kl_terms_begin(v->s, err);
    for (int k = 0; k < 2; k++) {
        if (!v->wanted[k]) continue;
        const struct kl_tensor *to = &v->in[k]->t;
        struct kl_array *made;
        if (empty)
            made = KL_TERM(&t, kl_zeros(&t.made, to->dims, (size_t)to->ndim, to->dtype, v->s, err));
        else if (k == 0)
            made = kl_convolution_input_gradient(&t, x, w, g, &p->of);
        else
            made = KL_TERM(&t, kl_convolution(&t.made, x, w, &p->of, v->s, err));
        grad[k] = kl_terms_keep(&t, made);
    }
    return kl_terms_end(&t, NULL, NULL);
}

int kl_jvp_convolution_backward(const struct kl_jvp *j, struct kl_array **tangent,
                                struct kl_error **err) {
    const params *p = j->params;
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *part[2] = {NULL};
    for (int k = 0; k < 2; k++)
        if (j->tangent[k])
            part[k] = KL_TERM(&t, kl_convolution_backward(&t.made, k ? j->in[0] : j->tangent[0],
                                                          k ? j->tangent[1] : j->in[1], &p->of,
                                                          p->k, j->s, err));
    struct kl_array *sum = part[0] && part[1] ? kl_term2(&t, kl_add, part[0], part[1])
                           : part[0]          ? part[0]
                                              : part[1];
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */

int kl_rebuild_convolution_backward(const struct kl_build *b, struct kl_array **out,
                                    struct kl_error **err) {
    params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.of.flip, err));
    return kl_convolution_backward(out, b->in[0], b->in[1], &p.of, p.k, b->s, err);
}

/* ---- batches ----
 * Lanes of one operand are more channels of each of its groups; lanes of both are more groups. */

/* An operand with lanes: in each group, the channels of all lanes one after the other. */
static struct kl_array *lanes_in_groups(struct kl_terms *t, struct kl_array *a, int groups) {
    const int last = a->t.ndim - 1;
    a = kl_split_axis(t, a, last, (int[]){groups, a->t.dims[last] / groups}, 2);
    a = kl_join_axes(t, a, 0, last);
    return kl_join_axes(t, a, last - 1, last - 1);
}

int kl_vmap_convolution_backward(const struct kl_vmap *v, struct kl_array **out, int *axis,
                                 struct kl_error **err) {
    const params *p = v->params;
    struct kl_convolution_params of = p->of;
    const int n = of.ndim, lanes = v->lanes, o = v->dims[0], each = v->dims[n + 1];
    struct kl_array *x = v->in[0], *g = v->in[1], *y = NULL;
    *axis = 0;
    if (lanes == 0 || (v->mapped[0] && v->mapped[1] && (int64_t)of.groups * lanes > INT32_MAX))
        return kl_vmap_each(v, out, err);
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (v->mapped[0] && v->mapped[1]) {
        of.groups *= lanes;
        x = kl_join_axes(&t, x, 0, n + 1);
        g = kl_join_axes(&t, g, 0, n + 1);
    } else if (v->mapped[0]) {
        x = lanes_in_groups(&t, x, of.groups);
        *axis = n + 1;
    } else {
        g = lanes_in_groups(&t, g, of.groups);
    }
    y = KL_TERM(&t, kl_convolution_backward(&t.made, x, g, &of, p->k, v->s, err));
    if (v->mapped[0] && v->mapped[1]) {
        y = kl_split_axis(&t, y, 0, (int[]){lanes, o}, 2);
    } else if (v->mapped[0]) {
        y = kl_split_axis(&t, y, n + 1, (int[]){lanes, each}, 2);
    } else { /* output channels in the order (groups, lanes, channels of a group) */
        y = kl_split_axis(&t, y, 0, (int[]){of.groups, lanes, o / of.groups}, 3);
        y = KL_TERM(&t, kl_moveaxis(&t.made, y, 1, 0, v->s, err));
        y = t.rc ? NULL : kl_join_axes(&t, y, 1, 1);
    }
    return kl_terms_end(&t, y, out);
}
