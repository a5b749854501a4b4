/* check.c - see check.h. */
#include "ops/build/check.h"

#include <stdio.h>
#include <string.h>

#include "base/op/index.h"

int kl_check_array(const struct kl_array *a, const char *what, struct kl_error **err) {
    if (!a) return kl_fail(err, KL_EARG, "%s is an empty array handle; an array is needed", what);
    if (a->t.ndim > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "%s has %d axes; at most %d are taken", what, a->t.ndim,
                       KL_MAX_NDIM);
    return KL_OK;
}

int kl_check_arrays(struct kl_array *const *arrays, size_t n, const char *what,
                    struct kl_error **err) {
    if (n && !arrays) return kl_fail(err, KL_EARG, "%s is NULL with a count of %zu", what, n);
    if (n > INT32_MAX) return kl_fail(err, KL_ELIMIT, "%zu %s are too many", n, what);
    for (size_t i = 0; i < n; i++) {
        if (!arrays[i])
            return kl_fail(err, KL_EARG, "number %zu of %s is empty; an array is needed", i, what);
        KL_TRY(kl_check_array(arrays[i], what, err));
    }
    return KL_OK;
}

int kl_check_stream(const struct kl_stream *s, struct kl_error **err) {
    return s ? KL_OK : kl_fail(err, KL_EARG, "the stream is empty; a stream is needed");
}

int kl_check_dtype(int dtype, struct kl_error **err) {
    return kl_dtype_valid(dtype) ? KL_OK
                                 : kl_fail(err, KL_EDTYPE, "%d is no dtype; they are 0 to %d",
                                           dtype, KL_N_DTYPES - 1);
}

int kl_check_list(const int *list, size_t n, const char *what, struct kl_error **err) {
    if (n && !list) return kl_fail(err, KL_EARG, "%s is NULL with a count of %zu", what, n);
    if (n > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE, "%s has %zu entries; at most %d are taken", what, n,
                       KL_MAX_NDIM);
    return KL_OK;
}

int kl_check_axis(int *axis, int ndim, struct kl_error **err) {
    int given = *axis;
    if (given < -ndim || given >= ndim)
        return ndim ? kl_fail_axis(err, given,
                                   "axis %d is out of range for %d axes; %d to %d are taken", given,
                                   ndim, -ndim, ndim - 1)
                    : kl_fail_axis(err, given, "axis %d is out of range: the array has no axes",
                                   given);
    *axis = given < 0 ? given + ndim : given;
    return KL_OK;
}

int kl_check_axes(int out[KL_MAX_NDIM], const int *axes, size_t n, int ndim,
                  struct kl_error **err) {
    uint64_t seen = 0;
    KL_TRY(kl_check_list(axes, n, "the list of axes", err));
    for (size_t i = 0; i < n; i++) {
        out[i] = axes[i];
        KL_TRY(kl_check_axis(&out[i], ndim, err));
        if (seen >> out[i] & 1)
            return kl_fail_axis(err, axes[i], "axis %d is given twice", axes[i]);
        seen |= UINT64_C(1) << out[i];
    }
    return KL_OK;
}

int kl_check_shape(struct kl_shape *out, const int *shape, size_t n, enum kl_dtype dtype,
                   int64_t *size, struct kl_error **err) {
    int64_t own;
    KL_TRY(kl_check_list(shape, n, "the shape", err));
    for (size_t i = 0; i < n; i++)
        if (shape[i] < 0)
            return kl_fail(err, KL_ESHAPE, "size %d of axis %zu is negative; the shape is %s",
                           shape[i], i, KL_SHAPE_TEXT((int)n, shape));
    if (!kl_shape_size((int)n, shape, kl_dtype_size(dtype), size ? size : &own))
        return kl_fail(err, KL_ELIMIT, "shape %s has more elements than can be addressed",
                       KL_SHAPE_TEXT((int)n, shape));
    out->ndim = (int)n;
    if (n) memcpy(out->dims, shape, n * sizeof *shape);
    return KL_OK;
}

int kl_check_index_dtype(const struct kl_array *indices, struct kl_error **err) {
    if (kl_index_dtype(indices->t.dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "indices are %s; integers are taken",
                   kl_dtype_name(indices->t.dtype));
}

struct kl_shape kl_shape_of(const struct kl_array *a) {
    struct kl_shape s;
    s.ndim = a->t.ndim;
    if (s.ndim) memcpy(s.dims, a->t.dims, (size_t)s.ndim * sizeof *s.dims);
    return s;
}

bool kl_shape_is(const struct kl_array *a, int ndim, const int *dims) {
    return a->t.ndim == ndim &&
           (ndim == 0 || !memcmp(a->t.dims, dims, (size_t)ndim * sizeof *dims));
}

struct kl_shape_text kl_shape_text(int ndim, const int *dims) {
    struct kl_shape_text t;
    size_t at = 0;
    t.s[at++] = '(';
    for (int i = 0; i < ndim; i++) {
        /* a number, a comma and the end of the text fit below this limit */
        if (at > sizeof t.s - 20) {
            at += (size_t)snprintf(t.s + at, sizeof t.s - at, ",...");
            break;
        }
        at += (size_t)snprintf(t.s + at, sizeof t.s - at, i ? ",%d" : "%d", dims[i]);
    }
    snprintf(t.s + at, sizeof t.s - at, ")");
    return t;
}
