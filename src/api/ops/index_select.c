/* index_select.c - keel/select.h: which elements are true, reading by a mask, take with modes. */
#include <keel/select.h>

#include "api/ops/api_ops.h"
#include "ops/ops.h"

/* The size that is given, or the number of true elements, and on a CPU their places too. */
static int size_of(struct kl_call *c, int size, struct kl_array *mask, struct kl_stream *s,
                   struct kl_array **places) {
    int n = 0, rc;
    *places = NULL;
    if (c->err) return 0;
    if (size != -1) {
        if (size < 0) kl_fail(&c->err, KL_EARG, "size %d; 0 or more, or -1, are taken", size);
        return size;
    }
    if (kl_stream_device_type(s) == KL_CPU && mask->t.size <= INT32_MAX) {
        rc = kl_true_places(places, mask, s, &c->err);
        if (!rc) n = (int)(*places)->t.size;
    } else {
        rc = kl_count_true(&n, mask, s, &c->err);
    }
    if (rc != KL_ETRACE) return n;
    kl_error_release(c->err);
    c->err = NULL;
    kl_fail(
        &c->err, KL_ETRACE,
        "the number of true elements depends on values, which an argument of a function that is "
        "being compiled, vectorised or exported does not have; give a size (in Python: "
        "nonzero(mask, size=...), and take for a[mask])");
    return 0;
}

int keel_flatnonzero(mlx_array *res, const mlx_array a, int size, int fill_value,
                     const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    size = size_of(&c, size, in, on, &out);
    if (!c.err && !out) kl_flatnonzero(&out, in, size, fill_value, on, &c.err);
    return kl_call_end(&c, res, out);
}

int keel_nonzero(mlx_vector_array *res, const mlx_array a, int size, const int *fill_values,
                 size_t fill_values_num, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), **outs = NULL, *places;
    struct kl_stream *on = kl_in_stream(&c, s);
    size_t n = 0;
    size = size_of(&c, size, in, on, &places);
    if (!c.err) kl_nonzero(&outs, &n, in, size, places, fill_values, fill_values_num, on, &c.err);
    kl_array_release(places);
    return kl_call_end_list(&c, res, outs, n);
}

int keel_argwhere(mlx_array *res, const mlx_array a, int size, int fill_value, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL, *places;
    struct kl_stream *on = kl_in_stream(&c, s);
    size = size_of(&c, size, in, on, &places);
    if (!c.err) kl_argwhere(&out, in, size, places, fill_value, on, &c.err);
    kl_array_release(places);
    return kl_call_end(&c, res, out);
}

int keel_count_nonzero(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                       bool keepdims, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_count_nonzero(&out, in, axes, axes_num, keepdims, on, &c.err);
    return kl_call_end(&c, res, out);
}

int keel_masked_select(mlx_array *res, const mlx_array a, const mlx_array mask, int size,
                       const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *where = kl_in(&c, mask, "mask"), *out = NULL, *places;
    struct kl_stream *on = kl_in_stream(&c, s);
    size = size_of(&c, size, where, on, &places);
    if (!c.err) kl_masked_select(&out, in, where, size, places, on, &c.err);
    kl_array_release(places);
    return kl_call_end(&c, res, out);
}

int keel_take(mlx_array *res, const mlx_array a, const mlx_array indices, const int *axis,
              keel_take_mode mode, const mlx_array fill_value, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, indices, "indices"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_take_mode(&out, in, at, axis, (enum kl_take_mode)mode, kl_in_optional(fill_value), on,
                     &c.err);
    return kl_call_end(&c, res, out);
}

int keel_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis,
                         keel_take_mode mode, const mlx_array fill_value, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, a, "a"), *at = kl_in(&c, indices, "indices"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_take_along_axis_mode(&out, in, at, axis, (enum kl_take_mode)mode,
                                kl_in_optional(fill_value), on, &c.err);
    return kl_call_end(&c, res, out);
}
