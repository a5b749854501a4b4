/* softmax.c - softmax over a set of axes, and log_softmax over one. The kernels of softmax take the
 * axes as one. For the kernels of devices they must be the last axes, for those of the CPU
 * contiguous with each other; other axes are moved to the end. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/jvp.h"
#include "ops/build/terms.h"
#include "ops/build/meet.h"
#include "ops/ops.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

/* perm: the other axes, then those in `axes`, both in order. back: the inverse of perm. Returns the
 * number of the other axes. */
static int axes_last(const int *axes, size_t n, int ndim, int *perm, int *back) {
    uint64_t chosen = 0;
    int at = 0;
    for (size_t i = 0; i < n; i++) chosen |= UINT64_C(1) << axes[i];
    for (int i = 0; i < ndim; i++)
        if (!(chosen >> i & 1)) perm[at++] = i;
    for (int i = 0, k = at; i < ndim; i++)
        if (chosen >> i & 1) perm[k++] = i;
    for (int i = 0; i < ndim; i++) back[perm[i]] = i;
    return at;
}

int kl_softmax_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                    bool precise, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SOFTMAX, a, axes, axes_num, precise);
    int at[KL_MAX_NDIM], perm[KL_MAX_NDIM], back[KL_MAX_NDIM];
    struct kl_array *typed, *moved, *permuted, *soft;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_axes(at, axes, axes_num, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype =
        kl_dtype_is_float(a->t.dtype) || a->t.dtype == KL_C64 ? a->t.dtype : KL_F32;
    struct kl_softmax_params p = {axes_last(at, axes_num, a->t.ndim, perm, back), (int)axes_num};
    int first = axes_num ? perm[p.axis] : p.axis;
    if (kl_stream_device_type(s) == KL_CPU && dtype != KL_C64 && axes_num &&
        perm[a->t.ndim - 1] - first == p.n_axes - 1) {
        p.axis = first;
        for (int i = 0; i < a->t.ndim; i++) perm[i] = back[i] = i;
    }
    KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    int rc = kl_permute(&moved, typed, perm, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_in_rows(&permuted, moved, KL_ROWS_READ, s, err);
    kl_array_release(moved);
    if (rc) return rc;
    rc = kl_array_op1(&soft,
                      &(struct kl_operation){.op = KL_OP_SOFTMAX,
                                             .stream = s,
                                             .params = &p,
                                             .params_bytes = sizeof p,
                                             .in = &permuted,
                                             .n_in = 1},
                      dtype, permuted->t.ndim, permuted->t.dims, err);
    kl_array_release(permuted);
    if (rc) return rc;
    rc = kl_permute(out, soft, back, err);
    kl_array_release(soft);
    return rc;
}

int kl_softmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool precise,
                    struct kl_stream *s, struct kl_error **err) {
    return kl_softmax_axes(out, a, &axis, 1, precise, s, err);
}

int kl_softmax(struct kl_array **out, struct kl_array *a, bool precise, struct kl_stream *s,
               struct kl_error **err) {
    int axes[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++) axes[i] = i;
    return kl_softmax_axes(out, a, axes, (size_t)a->t.ndim, precise, s, err);
}

/* y * (g - sum(g * y)), with the conjugate of a complex y */
int kl_vjp_softmax(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_softmax_params *p = v->params;
    struct kl_array *y = v->out[0], *g = v->cotangent[0];
    struct kl_terms t = kl_terms_begin(v->s, err);
    int axes[KL_MAX_NDIM], n = 0;
    if (!v->wanted[0]) return KL_OK;
    y = kl_term_conjugate(&t, y);
    for (; n < p->n_axes; n++) axes[n] = p->axis + n;
    struct kl_array *along =
        kl_term_reduce(&t, kl_sum_axes, kl_term2(&t, kl_multiply, y, g), axes, n);
    return kl_terms_end(&t, kl_term2(&t, kl_multiply, y, kl_term2(&t, kl_subtract, g, along)),
                        grad);
}

/* ---- made again ---- */
int kl_rebuild_softmax(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_softmax_params p;
    int axes[KL_MAX_NDIM], ndim = b->in[0]->t.ndim;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    if (p.axis < 0 || p.n_axes < 0 || p.axis > ndim || p.n_axes > ndim - p.axis)
        return kl_fail(err, KL_EAXIS, "%d axes from axis %d on are not among %d axes", p.n_axes,
                       p.axis, ndim);
    for (int i = 0; i < p.n_axes; i++) axes[i] = p.axis + i;
    return kl_softmax_axes(out, b->in[0], axes, (size_t)p.n_axes, true, b->s, err);
}

/* ---- batches ---- */
int kl_vmap_softmax(const struct kl_vmap *v, struct kl_array **out, int *axis,
                    struct kl_error **err) {
    struct kl_softmax_params p = *(const struct kl_softmax_params *)v->params;
    p.axis++;
    *axis = 0;
    return kl_vmap_build(v, out, &p, sizeof p, v->in, err);
}

/* ---- log_softmax ---- */
/* The axis along which the operation is built: kernels of devices, and of complex64, take the last
 * one; those of the CPU are slow where fewer columns lie side by side, or do not lie as they are
 * counted. */
static int axis_of_kernel(const struct kl_array *a, int axis, struct kl_stream *s) {
    enum { FEWEST = 16 };
    int64_t columns = 1;
    for (int i = axis + 1; i < a->t.ndim; i++) columns *= a->t.dims[i];
    bool kept = kl_stream_device_type(s) == KL_CPU && a->t.dtype != KL_C64 && columns >= FEWEST &&
                (a->t.layout & KL_ROW_CONTIGUOUS);
    return kept ? axis : a->t.ndim - 1;
}
int kl_build_log_softmax(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_axis_params p;
    struct kl_array *a = b->in[0], *typed, *moved, *made;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_check_axis(&p.axis, a->t.ndim, err));
    KL_TRY(kl_check_stream(b->s, err));
    const int axis = p.axis;
    const enum kl_dtype dtype = kl_dtype_inexact(a->t.dtype);
    KL_TRY(kl_cast_to(&typed, a, dtype, b->s, err));
    p.axis = axis_of_kernel(typed, axis, b->s);
    int rc = kl_swapaxes(&moved, typed, axis, p.axis, b->s, err);
    kl_array_release(typed);
    if (rc) return rc;
    if (kl_stream_device_type(b->s) == KL_CPU) { /* its kernels would gather */
        typed = moved;
        rc = kl_contiguous(&moved, typed, false, b->s, err);
        kl_array_release(typed);
        if (rc) return rc;
    }
    rc = kl_array_op1(&made,
                      &(struct kl_operation){.op = b->op,
                                             .stream = b->s,
                                             .params = &p,
                                             .params_bytes = sizeof p,
                                             .in = &moved,
                                             .n_in = 1},
                      dtype, moved->t.ndim, moved->t.dims, err);
    kl_array_release(moved);
    if (rc) return rc;
    rc = kl_swapaxes(out, made, axis, p.axis, b->s, err);
    kl_array_release(made);
    return rc;
}

/* g - exp(y) * sum(g), with the conjugate of a complex y */
int kl_vjp_log_softmax(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_axis_params *p = v->params;
    struct kl_array *g = v->cotangent[0];
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (!v->wanted[0]) return KL_OK;
    struct kl_array *soft = kl_term(&t, kl_exp, kl_term_conjugate(&t, v->out[0]));
    struct kl_array *along = kl_term_reduce(&t, kl_sum_axes, g, &p->axis, 1);
    return kl_terms_end(&t, kl_term2(&t, kl_subtract, g, kl_term2(&t, kl_multiply, soft, along)),
                        grad);
}

/* t - sum(exp(y) * t) */
int kl_jvp_log_softmax(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    const struct kl_axis_params *p = j->params;
    struct kl_terms t = kl_terms_begin(j->s, err);
    if (!j->tangent[0]) return KL_OK;
    struct kl_array *part = kl_term2(&t, kl_multiply, kl_term(&t, kl_exp, j->out), j->tangent[0]);
    struct kl_array *along = kl_term_reduce(&t, kl_sum_axes, part, &p->axis, 1);
    return kl_terms_end(&t, kl_term2(&t, kl_subtract, j->tangent[0], along), tangent);
}
