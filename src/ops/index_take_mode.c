/* index_take_mode.c - take and take_along_axis with a meaning for indices that are out of range:
 * these become indices that are in range before anything is read. */
#include <math.h>

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

/* Indices of an axis of n elements as they are meant, int32. *valid, for mode FILL: which of them
 * are in range; the others are 0. */
static struct kl_array *meant(struct kl_terms *t, struct kl_array *indices, int n,
                              enum kl_take_mode mode, struct kl_array **valid) {
    if (t->rc) return NULL;
    const bool is_u64 = indices->t.dtype == KL_U64;
    const enum kl_dtype wide = is_u64 ? KL_U64 : KL_I64;
    struct kl_array *x = kl_term_cast(t, indices, wide), *zero = kl_term_number(t, 0, wide);
    if (mode == KL_TAKE_CLIP) {
        x = kl_term2(t, kl_maximum, kl_term_by(t, kl_minimum, x, n - 1), zero);
    } else if (mode == KL_TAKE_WRAP) {
        x = kl_term_by(t, kl_remainder, x, n);
    } else {
        struct kl_array *end = kl_term_number(t, n, wide);
        if (!is_u64)
            x = kl_term_where(t, kl_term2(t, kl_less, x, zero), kl_term2(t, kl_add, x, end), x);
        *valid = kl_term2(t, kl_logical_and, kl_term2(t, kl_greater_equal, x, zero),
                          kl_term2(t, kl_less, x, end));
        x = kl_term_where(t, *valid, x, zero);
    }
    x = kl_term_cast(t, x, KL_I32);
    if (x && n > 0) kl_array_set_range(x, 0, n - 1);
    return x;
}

static int check(struct kl_array *a, struct kl_array *indices, enum kl_take_mode mode,
                 struct kl_array *fill, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(indices, "indices", err));
    KL_TRY(kl_check_stream(s, err));
    if (mode < KL_TAKE_ERROR || mode > KL_TAKE_FILL)
        return kl_fail(err, KL_EARG, "mode %d; error, clip, wrap and fill, 0 to 3, are taken",
                       (int)mode);
    if (!kl_dtype_is_int((enum kl_dtype)indices->t.dtype))
        return kl_fail(err, KL_EDTYPE, "indices of %s; integers are taken",
                       kl_dtype_name((enum kl_dtype)indices->t.dtype));
    if (fill && fill->t.ndim > 0)
        return kl_fail(err, KL_ESHAPE, "a fill value of shape %s; an array without axes is taken",
                       KL_SHAPE_TEXT_OF(fill));
    return KL_OK;
}

/* An axis without elements has an index for nothing but mode FILL. */
static int check_extent(int n, const struct kl_array *indices, enum kl_take_mode mode,
                        struct kl_error **err) {
    if (n > 0 || indices->t.size == 0 || mode == KL_TAKE_FILL) return KL_OK;
    return kl_fail(err, KL_EINDEX, "indices of shape %s for an axis without elements",
                   KL_SHAPE_TEXT_OF(indices));
}

/* x where valid, which broadcasts, else the fill value. */
static struct kl_array *filled(struct kl_terms *t, struct kl_array *x, struct kl_array *valid,
                               struct kl_array *fill) {
    if (t->rc) return NULL;
    const enum kl_dtype dtype = (enum kl_dtype)x->t.dtype;
    const bool has_nan = kl_dtype_is_float(dtype) || dtype == KL_C64;
    struct kl_array *value =
        fill ? kl_term_cast(t, fill, dtype) : kl_term_number(t, has_nan ? (double)NAN : 0, dtype);
    return kl_term_where(t, valid, x, value);
}

int kl_take_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                 const int *given, enum kl_take_mode mode, struct kl_array *fill,
                 struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TAKE_MODE, a, indices, given != NULL, given ? *given : 0, (int)mode, fill);
    KL_TRY(check(a, indices, mode, fill, s, err));
    if (mode == KL_TAKE_ERROR)
        return given ? kl_take_axis(out, a, indices, *given, s, err)
                     : kl_take(out, a, indices, s, err);
    int axis = given ? *given : 0;
    struct kl_array *valid = NULL;
    struct kl_terms t = kl_terms_begin(s, err);
    if (!given) a = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    if (!t.rc) t.rc = kl_check_axis(&axis, a->t.ndim, err);
    if (!t.rc) t.rc = check_extent(a->t.dims[axis], indices, mode, err);
    if (t.rc) return kl_terms_end(&t, NULL, NULL);
    const int n = a->t.dims[axis];
    if (n == 0 && mode == KL_TAKE_FILL) /* one element, which is never read, has an index */
        a = KL_TERM(&t,
                    kl_pad(&t.made, a, &axis, 1, (const int[]){0}, 1, (const int[]){1}, 1,
                           kl_term_number(&t, 0, (enum kl_dtype)a->t.dtype), "constant", s, err));
    struct kl_array *at = meant(&t, indices, n, mode, &valid);
    struct kl_array *x = KL_TERM(&t, kl_take_axis(&t.made, a, at, axis, s, err));
    if (mode == KL_TAKE_FILL && !t.rc) {
        struct kl_shape wide = kl_shape_of(valid);
        for (int i = axis + 1; i < a->t.ndim; i++) wide.dims[wide.ndim++] = 1;
        valid = KL_TERM(&t, kl_reshape_to(&t.made, valid, wide.ndim, wide.dims, s, err));
        x = filled(&t, x, valid, fill);
    }
    return kl_terms_end(&t, x, out);
}

int kl_take_along_axis_mode(struct kl_array **out, struct kl_array *a, struct kl_array *indices,
                            int axis, enum kl_take_mode mode, struct kl_array *fill,
                            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TAKE_ALONG_AXIS_MODE, a, indices, axis, (int)mode, fill);
    KL_TRY(check(a, indices, mode, fill, s, err));
    if (mode == KL_TAKE_ERROR) return kl_take_along_axis(out, a, indices, axis, s, err);
    struct kl_array *valid = NULL;
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(check_extent(a->t.dims[axis], indices, mode, err));
    const int n = a->t.dims[axis];
    if (n == 0 && mode == KL_TAKE_FILL)
        a = KL_TERM(&t,
                    kl_pad(&t.made, a, &axis, 1, (const int[]){0}, 1, (const int[]){1}, 1,
                           kl_term_number(&t, 0, (enum kl_dtype)a->t.dtype), "constant", s, err));
    struct kl_array *at = meant(&t, indices, n, mode, &valid);
    struct kl_array *x = KL_TERM(&t, kl_take_along_axis(&t.made, a, at, axis, s, err));
    if (mode == KL_TAKE_FILL) x = filled(&t, x, valid, fill);
    return kl_terms_end(&t, x, out);
}
