/* norm.c - rms_norm and layer_norm, over the last axis. Their gradients are in norm_backward.c. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"

static int check_row(const struct kl_array *a, const char *what, int length,
                     struct kl_error **err) {
    if (a->t.ndim != 1 || a->t.dims[0] != length)
        return kl_fail(err, KL_ESHAPE,
                       "%s has shape %s; it has one axis of the size of x's last one, %d", what,
                       KL_SHAPE_TEXT_OF(a), length);
    return KL_OK;
}

static int norm(struct kl_array **out, enum kl_op_id op, struct kl_array *x,
                struct kl_array *weight, struct kl_array *bias, float eps, struct kl_stream *s,
                struct kl_error **err) {
    struct kl_array *in[3] = {x}, *typed[3] = {NULL};
    struct kl_norm_params p = {eps, weight != NULL, bias != NULL};
    int n = 1, rc = KL_OK;
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_stream(s, err));
    if (x->t.ndim == 0) return kl_fail(err, KL_ESHAPE, "x is 0-d; it has at least one axis");
    enum kl_dtype dtype = x->t.dtype;
    if (weight) in[n++] = weight;
    if (bias) in[n++] = bias;
    for (int i = 1; i < n; i++) {
        KL_TRY(check_row(in[i], in[i] == bias ? "bias" : "weight", x->t.dims[x->t.ndim - 1], err));
        dtype = kl_dtype_promote(dtype, in[i]->t.dtype);
    }
    if (!kl_dtype_is_float(dtype))
        return kl_fail(err, KL_EDTYPE, "the operands meet in %s; a norm takes floats",
                       kl_dtype_name(dtype));
    for (int i = 0; i < n && rc == KL_OK; i++) rc = kl_cast_to(&typed[i], in[i], dtype, s, err);
    struct kl_array *any = typed[0];
    if (rc == KL_OK) {
        rc = kl_in_rows(&typed[0], any, KL_ROWS_READ, s, err);
        if (rc) typed[0] = NULL;
        kl_array_release(any);
    }
    if (rc == KL_OK)
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = op,
                                                 .stream = s,
                                                 .params = &p,
                                                 .params_bytes = sizeof p,
                                                 .in = typed,
                                                 .n_in = n},
                          dtype, x->t.ndim, x->t.dims, err);
    for (int i = 0; i < n; i++) kl_array_release(typed[i]);
    return rc;
}

int kl_rms_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight, float eps,
                struct kl_stream *s, struct kl_error **err) {
    return norm(out, KL_OP_RMS_NORM, x, weight, NULL, eps, s, err);
}

int kl_layer_norm(struct kl_array **out, struct kl_array *x, struct kl_array *weight,
                  struct kl_array *bias, float eps, struct kl_stream *s, struct kl_error **err) {
    return norm(out, KL_OP_LAYER_NORM, x, weight, bias, eps, s, err);
}

int kl_rebuild_norm(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_norm_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.has_weight, err));
    KL_TRY(kl_build_flag(&p.has_bias, err));
    if (p.has_bias && b->op == KL_OP_RMS_NORM)
        return kl_fail(err, KL_EARG, "rms_norm with a bias; it has none");
    KL_TRY(kl_build_count(1 + p.has_weight + p.has_bias, b->n_in, "inputs", err));
    struct kl_array *weight = p.has_weight ? b->in[1] : NULL,
                    *bias = p.has_bias ? b->in[1 + p.has_weight] : NULL;
    return norm(out, b->op, b->in[0], weight, bias, p.eps, b->s, err);
}

/* ---- batches ---- */

/* A weight or bias of each lane, (lanes, n), as dtype and with axes of size 1 in between, so that
 * it has ndim axes. */
static struct kl_array *of_lanes(struct kl_terms *t, struct kl_array *a, int ndim,
                                 enum kl_dtype dtype) {
    int dims[KL_MAX_NDIM];
    if (t->rc) return NULL;
    for (int i = 0; i < ndim; i++) dims[i] = 1;
    dims[0] = a->t.dims[0];
    dims[ndim - 1] = a->t.dims[1];
    return kl_term_cast(t, KL_TERM(t, kl_reshape_to(&t->made, a, ndim, dims, t->s, t->err)), dtype);
}

/* One weight and one bias serve all rows of a norm. Where lanes have their own, the norm is made
 * without them, then it is multiplied and added to; 16-bit floats in float32, so that they are
 * rounded once, as the kernel does. */
int kl_vmap_norm(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_norm_params *p = v->params;
    struct kl_array *x = v->in[0], *weight = p->has_weight ? v->in[1] : NULL,
                    *bias = p->has_bias ? v->in[1 + p->has_weight] : NULL;
    const bool own_weight = weight && v->mapped[1], own_bias = bias && v->mapped[1 + p->has_weight];
    const enum kl_dtype dtype = (enum kl_dtype)x->t.dtype;
    *axis = 0;
    if (!own_weight && !own_bias) return norm(out, v->op, x, weight, bias, p->eps, v->s, err);
    if (v->ndim >= KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE,
                       "%d axes and that of the lanes are too many; %d are possible", v->ndim,
                       KL_MAX_NDIM);
    struct kl_terms t = kl_terms_begin(v->s, err);
    const enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    struct kl_array *y = kl_term_cast(&t, x, wide);
    y = KL_TERM(&t, norm(&t.made, v->op, y, own_weight ? NULL : weight, NULL, p->eps, v->s, err));
    if (own_weight) y = kl_term2(&t, kl_multiply, y, of_lanes(&t, weight, v->ndim + 1, wide));
    if (own_bias)
        y = kl_term2(&t, kl_add, y, of_lanes(&t, bias, v->ndim + 1, wide));
    else if (bias)
        y = kl_term2(&t, kl_add, y, kl_term_cast(&t, bias, wide));
    return kl_terms_end(&t, kl_term_cast(&t, y, dtype), out);
}
