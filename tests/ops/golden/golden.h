/* golden.h - runs the tables that golden_ops.py writes. Each row runs once with contiguous
 * operands and once with operands whose elements have another order in memory; both must give the
 * same bits. */
#pragma once
#include "ops/support/helpers.h"

struct golden_array {
    int dtype, ndim, dims[5];
    const void *data;
};
typedef int golden_along_fn(struct kl_array **out, struct kl_array *a, int axis,
                            struct kl_stream *s, struct kl_error **err);
typedef int golden_softmax_fn(struct kl_array **out, struct kl_array *a, const int *axes,
                              size_t axes_num, bool precise, struct kl_stream *s,
                              struct kl_error **err);
struct golden {
    const char *name;
    /* exactly one of these builders is set, or `to` is a dtype */
    kl_unary_fn *unary;
    kl_binary_fn *binary;
    kl_reduce_axes_fn *reduce;
    kl_reduce_axis_fn *arg;
    golden_along_fn *along;
    golden_softmax_fn *softmax;
    kl_variance_axes_fn *variance;
    kl_scan_fn *scan;
    int to;
    int ddof;
    bool reverse, exclusive; /* these two are arguments of a scan */
    int axes[4], n_axes;
    bool keepdims;
    int n_in;
    struct golden_array in[2], out;
    double rtol; /* 0: the bits must be equal, except for the bits of a NaN */
};

static inline int golden_call(const struct golden *g, struct kl_array *const *in,
                              struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    if (g->unary) return g->unary(out, in[0], s, err);
    if (g->binary) return g->binary(out, in[0], in[1], s, err);
    if (g->reduce) return g->reduce(out, in[0], g->axes, (size_t)g->n_axes, g->keepdims, s, err);
    if (g->arg) return g->arg(out, in[0], g->axes[0], g->keepdims, s, err);
    if (g->along) return g->along(out, in[0], g->axes[0], s, err);
    if (g->softmax) return g->softmax(out, in[0], g->axes, (size_t)g->n_axes, true, s, err);
    if (g->variance)
        return g->variance(out, in[0], g->axes, (size_t)g->n_axes, g->keepdims, g->ddof, s, err);
    if (g->scan) return g->scan(out, in[0], g->axes[0], g->reverse, !g->exclusive, s, err);
    return kl_astype(out, in[0], g->to, s, err);
}

/* Part `part` (0, or 1 for the imaginary one) of element i. */
static inline double golden_real(int dtype, const void *data, int64_t i, int part) {
    switch (dtype) {
    case KL_F16: return kl_f16_to_f32(((const uint16_t *)data)[i]);
    case KL_BF16: return kl_bf16_to_f32(((const uint16_t *)data)[i]);
    case KL_F32: return kl_bits_f32(((const uint32_t *)data)[i]);
    case KL_F64: return kl_bits_f64(((const uint64_t *)data)[i]);
    default: return kl_bits_f32((uint32_t)(((const uint64_t *)data)[i] >> 32 * part));
    }
}

static inline bool golden_same(const struct golden *g, const void *got, int64_t i) {
    int dtype = g->out.dtype;
    size_t bytes = kl_dtype_size((enum kl_dtype)dtype);
    if (!memcmp((const char *)got + (size_t)i * bytes,
                (const char *)g->out.data + (size_t)i * bytes, bytes))
        return true;
    if (!kl_dtype_is_float((enum kl_dtype)dtype) && dtype != KL_C64) return false;
    /* the magnitude of a complex number, to which the errors of both parts are relative */
    double size = 0;
    for (int part = 0; part <= (dtype == KL_C64); part++)
        size = hypot(size, golden_real(dtype, g->out.data, i, part));
    for (int part = 0; part <= (dtype == KL_C64); part++) {
        double x = golden_real(dtype, got, i, part), y = golden_real(dtype, g->out.data, i, part);
        if (isnan(x) && isnan(y)) continue;
        if (x == y && (g->rtol > 0 || signbit(x) == signbit(y))) continue;
        double scale = isfinite(size) ? size : fabs(y);
        if (!(fabs(x - y) <=
              g->rtol * (scale > 1e-2 || g->unary ? scale : 1e-2) + (g->rtol > 0 ? 1e-44 : 0)))
            return false;
    }
    return true;
}

/* Checks shape, dtype and values of out, and that its bits equal `first`, the result of the first
 * run, or NULL. Returns the bits of this run. */
static inline void *golden_check(const struct golden *g, struct kl_array *out, void *first,
                                 const char *way) {
    if (out->t.dtype != g->out.dtype)
        fail_msg("%s: dtype is %s, not %s", g->name, kl_dtype_name(out->t.dtype),
                 kl_dtype_name((enum kl_dtype)g->out.dtype));
    expect_shape(out, g->out.ndim, g->out.dims);
    void *got = values_of(out);
    size_t bytes = (size_t)out->t.size * kl_dtype_size(out->t.dtype);
    for (int64_t i = 0; i < out->t.size; i++)
        if (!golden_same(g, got, i))
            fail_msg("%s: element %lld is wrong%s", g->name, (long long)i, way);
    if (!first) return got;
    if (memcmp(first, got, bytes)) fail_msg("%s: other bits%s", g->name, way);
    free(got);
    return first;
}

static inline void golden_run(const struct golden *g) {
    static const char *const ways[] = {"", ", strided", ", simulated device"};
    void *first = NULL;
    for (int way = 0; way < 3; way++) {
        struct kl_array *in[2], *out;
        struct kl_error *err = NULL;
        for (int k = 0; k < g->n_in; k++) {
            const struct golden_array *a = &g->in[k];
            in[k] = array_of((enum kl_dtype)a->dtype, a->ndim, a->dims, a->data);
            if (way == 1) in[k] = strided(in[k]);
        }
        if (golden_call(g, in, way == 2 ? sim() : cpu(), &out, &err))
            fail_msg("%s%s: %s", g->name, ways[way], err->message);
        first = golden_check(g, out, first, ways[way]);
        kl_array_release(out);
        for (int k = 0; k < g->n_in; k++) kl_array_release(in[k]);
    }
    free(first);
}

#define GOLDEN_RUN_ALL(cases) \
    for (size_t i_ = 0; i_ < sizeof(cases) / sizeof *(cases); i_++) golden_run(&(cases)[i_])
