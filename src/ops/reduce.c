/* reduce.c - sum, mean, max, min over axes; argmax and argmin. The kernels keep reduced axes with
 * size 1; without keepdims they are dropped by a view. */
#include <limits.h>

#include "base/op_params.h"
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/params.h"
#include "ops/views.h"

/* ---- over sets of axes ---- */
/* The sorted axes, and the shape with those at size 1. */
struct axes {
    int n, at[KL_MAX_NDIM];
    struct kl_shape kept;
};

static int resolve_axes(struct axes *x, const struct kl_array *a, const int *axes, size_t axes_num,
                        struct kl_error **err) {
    int given[KL_MAX_NDIM];
    uint64_t chosen = 0;
    KL_TRY(kl_check_axes(given, axes, axes_num, a->t.ndim, err));
    for (size_t i = 0; i < axes_num; i++) chosen |= UINT64_C(1) << given[i];
    x->n = 0;
    x->kept = kl_shape_of(a);
    for (int i = 0; i < a->t.ndim; i++)
        if (chosen >> i & 1) {
            x->at[x->n++] = i;
            x->kept.dims[i] = 1;
        }
    return KL_OK;
}

static int drop_axes(struct kl_array **out, struct kl_array *kept /* taken */, const struct axes *x,
                     bool keepdims, struct kl_stream *s, struct kl_error **err) {
    if (keepdims) {
        *out = kept;
        return KL_OK;
    }
    int rc = kl_squeeze_axes(out, kept, x->at, (size_t)x->n, s, err);
    kl_array_release(kept);
    return rc;
}

static int reduce(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                  const struct axes *x, struct kl_stream *s, struct kl_error **err) {
    struct kl_dims_buf p;
    size_t bytes = kl_dims_params(&p, x->n, x->at);
    KL_TRY(kl_check_stream(s, err));
    return kl_array_op1(out, op, s, &p, bytes, &a, 1, dtype, x->kept.ndim, x->kept.dims, err);
}

static enum kl_dtype sum_dtype(enum kl_dtype dtype) {
    if (dtype == KL_BOOL || (kl_dtype_is_signed(dtype) && kl_dtype_size(dtype) < 4)) return KL_I32;
    return kl_dtype_is_int(dtype) && kl_dtype_size(dtype) < 4 ? KL_U32 : dtype;
}

int kl_sum_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct axes x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(resolve_axes(&x, a, axes, axes_num, err));
    if (x.n == 0) { /* nothing is reduced, and the dtype stays, as in MLX */
        *out = kl_array_retain(a);
        return KL_OK;
    }
    KL_TRY(reduce(&kept, KL_OP_SUM, a, sum_dtype(a->t.dtype), &x, s, err));
    return drop_axes(out, kept, &x, keepdims, s, err);
}

/* total / count, in total's type, then as dtype. */
static int divide_by(struct kl_array **out, struct kl_array *total, double count,
                     enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *n, *quotient;
    KL_TRY(kl_array_new_scalar(&n, count, total->t.dtype, err));
    int rc = kl_divide(&quotient, total, n, s, err);
    kl_array_release(n);
    if (rc) return rc;
    rc = kl_cast_to(out, quotient, dtype, s, err);
    kl_array_release(quotient);
    return rc;
}

int kl_mean_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                 bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct axes x;
    struct kl_array *total, *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(resolve_axes(&x, a, axes, axes_num, err));
    bool is_inexact = kl_dtype_is_float(a->t.dtype) || a->t.dtype == KL_C64;
    enum kl_dtype dtype = is_inexact ? a->t.dtype : KL_F32;
    if (x.n == 0) return kl_cast_to(out, a, dtype, s, err);
    /* The sum of 16-bit floats stays in float32: it may be too large for them although the mean is
     * not. */
    enum kl_dtype wide = kl_dtype_size(dtype) == 2 ? KL_F32 : dtype;
    double count = 1;
    for (int i = 0; i < x.n; i++) count *= a->t.dims[x.at[i]];
    KL_TRY(reduce(&total, KL_OP_SUM, a, wide, &x, s, err));
    int rc = divide_by(&kept, total, count, dtype, s, err);
    kl_array_release(total);
    return rc ? rc : drop_axes(out, kept, &x, keepdims, s, err);
}

static int extreme(struct kl_array **out, enum kl_op_id op, struct kl_array *a, const int *axes,
                   size_t axes_num, bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct axes x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(resolve_axes(&x, a, axes, axes_num, err));
    for (int i = 0; i < x.n; i++)
        if (a->t.dims[x.at[i]] == 0)
            return kl_fail(err, KL_EARG, "axis %d has size 0, and no elements have no %simum",
                           x.at[i], op == KL_OP_MAX ? "max" : "min");
    if (x.n == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    KL_TRY(reduce(&kept, op, a, a->t.dtype, &x, s, err));
    if (a->has_range) kl_array_set_range(kept, a->lo, a->hi);
    return drop_axes(out, kept, &x, keepdims, s, err);
}

int kl_max_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return extreme(out, KL_OP_MAX, a, axes, axes_num, keepdims, s, err);
}

int kl_min_axes(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool keepdims, struct kl_stream *s, struct kl_error **err) {
    return extreme(out, KL_OP_MIN, a, axes, axes_num, keepdims, s, err);
}

/* ---- one axis, and all ---- */
static int over_all(kl_reduce_axes_fn *fn, struct kl_array **out, struct kl_array *a, bool keepdims,
                    struct kl_stream *s, struct kl_error **err) {
    int axes[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    for (int i = 0; i < a->t.ndim; i++) axes[i] = i;
    return fn(out, a, axes, (size_t)a->t.ndim, keepdims, s, err);
}

int kl_sum(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return over_all(kl_sum_axes, out, a, keepdims, s, err);
}
int kl_mean(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
            struct kl_error **err) {
    return over_all(kl_mean_axes, out, a, keepdims, s, err);
}
int kl_max(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return over_all(kl_max_axes, out, a, keepdims, s, err);
}
int kl_min(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
           struct kl_error **err) {
    return over_all(kl_min_axes, out, a, keepdims, s, err);
}
int kl_sum_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_sum_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_mean_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                 struct kl_stream *s, struct kl_error **err) {
    return kl_mean_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_max_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_max_axes(out, a, &axis, 1, keepdims, s, err);
}
int kl_min_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                struct kl_stream *s, struct kl_error **err) {
    return kl_min_axes(out, a, &axis, 1, keepdims, s, err);
}

/* ---- argmax, argmin ---- */
static int arg_axis(struct kl_array **out, enum kl_op_id op, struct kl_array *a, int axis,
                    bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct axes x;
    struct kl_array *kept;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(resolve_axes(&x, a, &axis, 1, err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_axis_params p = {x.at[0]};
    int length = a->t.dims[p.axis];
    if (length == 0)
        return kl_fail(err, KL_EARG, "axis %d has size 0: there is no element to point to", p.axis);
    KL_TRY(kl_array_op1(&kept, op, s, &p, sizeof p, &a, 1, KL_U32, x.kept.ndim, x.kept.dims, err));
    kl_array_set_range(kept, 0, length - 1);
    return drop_axes(out, kept, &x, keepdims, s, err);
}

static int arg_all(struct kl_array **out, enum kl_op_id op, struct kl_array *a, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    struct kl_array *flat, *place;
    int ones[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = arg_axis(&place, op, flat, 0, false, s, err);
    kl_array_release(flat);
    if (rc) return rc;
    for (int i = 0; i < a->t.ndim; i++) ones[i] = 1;
    rc = kl_reshape_to(out, place, keepdims ? a->t.ndim : 0, ones, s, err);
    kl_array_release(place);
    return rc;
}

int kl_argmax(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
              struct kl_error **err) {
    return arg_all(out, KL_OP_ARGMAX, a, keepdims, s, err);
}
int kl_argmin(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
              struct kl_error **err) {
    return arg_all(out, KL_OP_ARGMIN, a, keepdims, s, err);
}
int kl_argmax_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    return arg_axis(out, KL_OP_ARGMAX, a, axis, keepdims, s, err);
}
int kl_argmin_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                   struct kl_stream *s, struct kl_error **err) {
    return arg_axis(out, KL_OP_ARGMIN, a, axis, keepdims, s, err);
}
