/* meet.c - see meet.h. */
#include "ops/build/meet.h"

#include <string.h>

#include "base/op/op_params.h"
#include "graph/trace.h"
#include "ops/build/params.h"
#include "ops/build/terms.h"
#include "ops/build/turned.h"
#include "ops/build/views.h"
#include "ops/ops.h"

int kl_broadcast_shape(struct kl_shape *out, struct kl_array *const *arrays, size_t n,
                       struct kl_error **err) {
    out->ndim = 0;
    for (size_t k = 0; k < n; k++)
        if (arrays[k]->t.ndim > out->ndim) out->ndim = arrays[k]->t.ndim;
    for (int i = 0; i < out->ndim; i++) out->dims[i] = 1;
    for (size_t k = 0; k < n; k++) {
        const struct kl_tensor *t = &arrays[k]->t;
        for (int i = 0; i < t->ndim; i++) {
            int *have = &out->dims[out->ndim - t->ndim + i], want = t->dims[i];
            if (*have == 1)
                *have = want;
            else if (want != 1 && want != *have)
                return kl_fail(err, KL_ESHAPE, "shapes %s and %s do not broadcast",
                               KL_SHAPE_TEXT(out->ndim, out->dims),
                               KL_SHAPE_TEXT(t->ndim, t->dims));
        }
    }
    return KL_OK;
}

int kl_broadcast_view(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                      struct kl_error **err) {
    struct kl_dims_buf p;
    int64_t strides[KL_MAX_NDIM];
    int lead = ndim - a->t.ndim;
    if (a->shapeless) kl_trace_note_fixed(a, KL_OP_BROADCAST);
    if (kl_shape_is(a, ndim, dims)) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    bool fits = lead >= 0;
    for (int i = 0; i < ndim && fits; i++) {
        int own = i < lead ? 1 : a->t.dims[i - lead];
        fits = own == dims[i] || own == 1;
        strides[i] = i < lead || own != dims[i] ? 0 : a->t.strides[i - lead];
    }
    if (!fits)
        return kl_fail(err, KL_ESHAPE, "shape %s does not broadcast to %s", KL_SHAPE_TEXT_OF(a),
                       KL_SHAPE_TEXT(ndim, dims));
    size_t bytes = kl_dims_params(&p, ndim, dims);
    return kl_array_view(out, KL_OP_BROADCAST, &p, bytes, a, ndim, dims, strides, 0, err);
}

int kl_sum_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
              struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int axes[KL_MAX_NDIM], lead = a->t.ndim - ndim;
    size_t n = 0;
    for (int i = 0; i < a->t.ndim; i++)
        if (i < lead || dims[i - lead] != a->t.dims[i]) axes[n++] = i;
    struct kl_array *sum = KL_TERM(&t, kl_sum_axes(&t.made, a, axes, n, true, s, err));
    sum = KL_TERM(&t, kl_reshape_to(&t.made, sum, ndim, dims, s, err));
    return kl_terms_end(&t, sum, out);
}

int kl_cast_to(struct kl_array **out, struct kl_array *a, enum kl_dtype dtype, struct kl_stream *s,
               struct kl_error **err) {
    if (a->t.dtype != dtype) return kl_map_op(out, KL_OP_CAST, &a, 1, NULL, dtype, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

int kl_in_rows(struct kl_array **out, struct kl_array *a, enum kl_rows_use use, struct kl_stream *s,
               struct kl_error **err) {
    enum { FEW = 8 };
    const struct kl_tensor *t = &a->t;
    bool copies = t->size >= KL_ROWS_FROM && !(t->layout & KL_ROW_CONTIGUOUS) &&
                  kl_fills_memory(t) && kl_stream_device_type(s) == KL_CPU;
    if (copies && use != KL_ROWS_ALL) {
        int last = t->ndim - 1;
        while (last > 0 && t->dims[last] == 1) last--;
        copies = t->strides[last] > 1 && (use == KL_ROWS_READ || t->dims[last] > FEW);
    }
    if (copies) return kl_copy(out, a, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

int kl_meet(struct kl_array **out, struct kl_array *const *in, const enum kl_dtype *dtypes, int n,
            struct kl_shape *shape, struct kl_stream *s, struct kl_error **err) {
    int rc = kl_broadcast_shape(shape, in, (size_t)n, err), done = 0;
    if (rc) return rc;
    const bool open = kl_any_shapeless(in, n);
    for (; done < n; done++) {
        struct kl_array *typed; /* converted before it is broadcast, when it has fewer elements */
        if ((rc = kl_cast_to(&typed, in[done], dtypes[done], s, err))) goto fail;
        if (open) { /* each replay broadcasts to the shape that it finds */
            out[done] = typed;
            continue;
        }
        rc = kl_broadcast_view(&out[done], typed, shape->ndim, shape->dims, err);
        if (!rc && out[done] != typed) out[done]->implicit = true;
        kl_array_release(typed);
        if (rc) goto fail;
    }
    return KL_OK;
fail:
    kl_release_all(out, (size_t)done);
    return rc;
}

void kl_release_all(struct kl_array *const *arrays, size_t n) {
    for (size_t i = 0; i < n; i++) kl_array_release(arrays[i]);
}

int kl_map_op(struct kl_array **out, enum kl_op_id op, struct kl_array *const *in, int n_in,
              const struct kl_shape *shape, enum kl_dtype dtype, struct kl_stream *s,
              struct kl_error **err) {
    const struct kl_operation o = {.op = op, .stream = s, .in = in, .n_in = n_in};
    bool done;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_map_turned(out, &o, dtype, &done, err));
    if (done) return KL_OK;
    return kl_array_op1(out, &o, dtype, shape ? shape->ndim : in[0]->t.ndim,
                        shape ? shape->dims : in[0]->t.dims, err);
}

int kl_map_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                 enum kl_dtype result, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *typed;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    int rc = kl_map_op(out, op, &typed, 1, NULL, result, s, err);
    kl_array_release(typed);
    return rc;
}

/* dtypes: those to which a and b are converted. */
static int map_two(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                   const enum kl_dtype *dtypes, enum kl_dtype result, struct kl_stream *s,
                   struct kl_error **err) {
    struct kl_array *const given[2] = {a, b};
    struct kl_array *in[2];
    struct kl_shape shape;
    KL_TRY(kl_check_stream(s, err));
    /* The common case: dtypes and shapes are equal already. */
    if (a->t.dtype == dtypes[0] && b->t.dtype == dtypes[1] && kl_shape_is(a, b->t.ndim, b->t.dims))
        return kl_map_op(out, op, given, 2, NULL, result, s, err);
    KL_TRY(kl_meet(in, given, dtypes, 2, &shape, s, err));
    int rc = kl_map_op(out, op, in, 2, &shape, result, s, err);
    kl_release_all(in, 2);
    return rc;
}

int kl_map_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                  enum kl_dtype dtype, enum kl_dtype result, struct kl_stream *s,
                  struct kl_error **err) {
    const enum kl_dtype dtypes[2] = {dtype, dtype};
    return map_two(out, op, a, b, dtypes, result, s, err);
}

static int check_taken(enum kl_op_id op, const struct kl_array *a, struct kl_error **err) {
    enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    if (kl_op_takes(op, dtype)) return KL_OK;
    static const char *const taken[] = {
        [KL_TAKES_REAL] = "real numbers are",
        [KL_TAKES_NUMBER] = "numbers are",
        [KL_TAKES_INTEGER] = "integers and bool are",
        [KL_TAKES_FLOAT] = "floats are",
    };
    return kl_fail(err, KL_EDTYPE, "%s is not taken; %s", kl_dtype_name(dtype),
                   taken[kl_op_map(op).takes]);
}

/* Whether op takes its operands as they are, and asks itself which elements are true: an array of
 * bools would be one more pass, and one more operation to build. Kernels of devices take bools. */
static bool takes_as_is(enum kl_op_id op, struct kl_stream *s) {
    return kl_op_map(op).computes == KL_COMPUTES_BOOLEAN && kl_stream_device_type(s) == KL_CPU;
}

int kl_build_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(check_taken(op, a, err));
    KL_TRY(kl_check_stream(s, err));
    if (takes_as_is(op, s)) return kl_map_op(out, op, &a, 1, NULL, KL_BOOL, s, err);
    enum kl_dtype dtype = kl_op_compute_dtype(op, (enum kl_dtype)a->t.dtype);
    if (dtype == (enum kl_dtype)a->t.dtype && !kl_op_has_kernel_for(op, dtype)) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    return kl_map_unary(out, op, a, dtype, kl_op_result_dtype(op, dtype), s, err);
}

int kl_check_binary(enum kl_op_id op, struct kl_array *a, struct kl_array *b, enum kl_dtype *dtype,
                    struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(check_taken(op, a, err));
    KL_TRY(check_taken(op, b, err));
    *dtype = kl_dtype_promote((enum kl_dtype)a->t.dtype, (enum kl_dtype)b->t.dtype);
    if (kl_op_takes(op, *dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "%s and %s have no integer type in common",
                   kl_dtype_name((enum kl_dtype)a->t.dtype),
                   kl_dtype_name((enum kl_dtype)b->t.dtype));
}

int kl_build_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err) {
    enum kl_dtype dtype;
    KL_TRY(kl_check_binary(op, a, b, &dtype, err));
    KL_TRY(kl_check_stream(s, err));
    if (takes_as_is(op, s)) {
        const enum kl_dtype own[2] = {(enum kl_dtype)a->t.dtype, (enum kl_dtype)b->t.dtype};
        return map_two(out, op, a, b, own, KL_BOOL, s, err);
    }
    dtype = kl_op_compute_dtype(op, dtype);
    return kl_map_binary(out, op, a, b, dtype, kl_op_result_dtype(op, dtype), s, err);
}

bool kl_host_integer(struct kl_array *a, int64_t *x) {
    int64_t lo, hi;
    if (!a || a->t.size != 1 || !kl_int_limits((enum kl_dtype)a->t.dtype, &lo, &hi)) return false;
    /* An array that was data from the start has this fate and keeps its block, so reading it needs
     * no wait. */
    if (a->trace || a->t.fate != kl_fate_ready() || !a->t.buffer->block) return false;
    const void *p = (const char *)a->t.buffer->block->ptr +
                    a->t.offset * (int64_t)kl_dtype_size((enum kl_dtype)a->t.dtype);
    switch (a->t.dtype) {
    case KL_U8: *x = *(const uint8_t *)p; break;
    case KL_U16: *x = *(const uint16_t *)p; break;
    case KL_U32: *x = *(const uint32_t *)p; break;
    case KL_I8: *x = *(const int8_t *)p; break;
    case KL_I16: *x = *(const int16_t *)p; break;
    case KL_I32: *x = *(const int32_t *)p; break;
    case KL_I64: *x = *(const int64_t *)p; break;
    default:
        if (*(const uint64_t *)p > INT64_MAX) return false;
        *x = (int64_t) * (const uint64_t *)p;
    }
    return true;
}
