/* operations.h - every element-wise builder and every builder along an axis, by name, for tests
 * that apply one check to all of them (variants, threads, fusion); operands with special values;
 * and which results count as equal. */
#pragma once
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/support/helpers.h"

static inline int round_to_tens(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                                struct kl_error **err) {
    return kl_round(out, a, -1, s, err);
}
static inline int round_to_units(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                                 struct kl_error **err) {
    return kl_round(out, a, 0, s, err);
}
static inline int half_from_fp8(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                                struct kl_error **err) {
    return kl_from_fp8(out, a, KL_F16, s, err);
}
static inline int zero_for_nan(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                               struct kl_error **err) {
    return kl_nan_to_num(out, a, 0, NULL, NULL, s, err);
}
static inline int close_to(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                           struct kl_stream *s, struct kl_error **err) {
    return kl_isclose(out, a, b, 0.5, 1, true, s, err);
}
static inline int at_least(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                           struct kl_stream *s, struct kl_error **err) {
    return kl_clip(out, a, b, NULL, s, err);
}
/* The value of a where a is not 0, else that of b. */
static inline int where_not_zero(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                                 struct kl_stream *s, struct kl_error **err) {
    return kl_where(out, a, a, b, s, err);
}

#define NAMED(f) \
    { #f, f }
static const struct {
    const char *name;
    kl_unary_fn *build;
} unaries[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, ...) NAMED(builder),
#include "base/op/op_list.def"
    NAMED(kl_copy),        NAMED(kl_reciprocal), NAMED(kl_degrees),    NAMED(kl_radians),
    NAMED(round_to_units), NAMED(round_to_tens), NAMED(half_from_fp8), NAMED(kl_isnan),
    NAMED(kl_isinf),       NAMED(kl_isfinite),   NAMED(kl_isposinf),   NAMED(kl_isneginf),
    NAMED(zero_for_nan),
};
static const struct {
    const char *name;
    kl_binary_fn *build;
} binaries[] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, ...) NAMED(builder),
#include "base/op/op_list.def"
    NAMED(kl_silu_mul),
    NAMED(close_to),
    NAMED(at_least),
    NAMED(where_not_zero),
};
enum {
    N_UNARY = sizeof unaries / sizeof *unaries,
    N_BINARY = sizeof binaries / sizeof *binaries,
    /* the unary and the binary operations, and the casts */
    N_OPERATIONS = N_UNARY + N_BINARY + KL_N_DTYPES
};

static inline const char *operation_name(int which) {
    return which < N_UNARY ? unaries[which].name
           : which < N_UNARY + N_BINARY
               ? binaries[which - N_UNARY].name
               : kl_dtype_name((enum kl_dtype)(which - N_UNARY - N_BINARY));
}
static inline int operation_build(int which, struct kl_array **out, struct kl_array *a,
                                  struct kl_array *b, struct kl_error **err) {
    if (which < N_UNARY) return unaries[which].build(out, a, cpu(), err);
    if (which < N_UNARY + N_BINARY) return binaries[which - N_UNARY].build(out, a, b, cpu(), err);
    return kl_astype(out, a, which - N_UNARY - N_BINARY, cpu(), err);
}

/* Other operations along an axis, with the signature of reductions. Scans take keepdims as
 * `reverse`. */
#define ALONG(name, call)                                                               \
    static int name(struct kl_array **out, struct kl_array *a, int axis, bool keepdims, \
                    struct kl_stream *s, struct kl_error **err) {                       \
        return call;                                                                    \
    }
ALONG(var_axis, kl_var_axis(out, a, axis, keepdims, 1, s, err))
ALONG(std_axis, kl_std_axis(out, a, axis, keepdims, 0, s, err))
ALONG(median_axis, kl_median_axes(out, a, &axis, 1, keepdims, s, err))
ALONG(partition_axis, kl_partition_axis(out, a, 17, axis, s, err))
ALONG(topk_axis, kl_topk_axis(out, a, 9, axis, s, err))
ALONG(cumsum_axis, kl_cumsum(out, a, axis, keepdims, true, s, err))
ALONG(cumprod_axis, kl_cumprod(out, a, axis, keepdims, true, s, err))
ALONG(cummax_axis, kl_cummax(out, a, axis, keepdims, true, s, err))
ALONG(cummin_axis, kl_cummin(out, a, axis, keepdims, true, s, err))
ALONG(logcumsumexp_axis, kl_logcumsumexp(out, a, axis, keepdims, true, s, err))
ALONG(rms_norm_axis, kl_rms_norm(out, a, NULL, 1e-5f, s, err))
ALONG(log_softmax_axis, kl_op_make(out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, axis), &a, 1, s, err))
ALONG(layer_norm_axis, kl_layer_norm(out, a, NULL, NULL, 1e-5f, s, err))
static int rope_axis(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_array *three, *offset = scalar_of(KL_I32, 5);
    int rc = kl_expand_dims(&three, a, 0, s, err);
    if (rc == KL_OK) {
        rc = kl_rope(out, three, 40, axis, (struct kl_rope_base){true, 100}, 1, offset, NULL, s,
                     err);
        kl_array_release(three);
    }
    kl_array_release(offset);
    return rc;
}
static const struct {
    const char *name;
    kl_reduce_axis_fn *build;
} reductions[] = {
    NAMED(kl_sum_axis),       NAMED(kl_mean_axis),   NAMED(kl_max_axis),       NAMED(kl_min_axis),
    NAMED(kl_argmax_axis),    NAMED(kl_argmin_axis), NAMED(kl_softmax_axis),   NAMED(kl_prod_axis),
    NAMED(kl_all_axis),       NAMED(kl_any_axis),    NAMED(kl_logsumexp_axis), NAMED(var_axis),
    NAMED(std_axis),          NAMED(median_axis),    NAMED(partition_axis),    NAMED(topk_axis),
    NAMED(cumsum_axis),       NAMED(cumprod_axis),   NAMED(cummax_axis),       NAMED(cummin_axis),
    NAMED(logcumsumexp_axis), NAMED(rms_norm_axis),  NAMED(layer_norm_axis),   NAMED(rope_axis),
    NAMED(log_softmax_axis),
};

/* Random bits and special values; half of the floats have a moderate size. */
static inline struct kl_array *special_bits(enum kl_dtype dtype, int ndim, const int *dims,
                                            uint32_t seed) {
    static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, 3.4e38f, 88.7f, -104.0f};
    int64_t n;
    assert_true(kl_shape_size(ndim, dims, kl_dtype_size(dtype), &n));
    size_t bytes = (size_t)n * kl_dtype_size(dtype);
    unsigned char *v = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = dtype == KL_BOOL ? seed >> 31 : (unsigned char)(seed >> 24);
    }
    for (int64_t i = 0; i < n && (kl_dtype_is_float(dtype) || dtype == KL_C64); i += 2) {
        float x = (float)(i - n / 2) / 64.0f;
        if (i % 16 == 0) x = special[i / 16 % (int)(sizeof special / sizeof *special)];
        if (i == 34) x = INFINITY;
        if (i == 36) x = -INFINITY;
        uint16_t half = kl_f32_to_f16(x), brain = kl_f32_to_bf16(x);
        if (dtype == KL_F16) memcpy(v + 2 * i, &half, 2);
        if (dtype == KL_BF16) memcpy(v + 2 * i, &brain, 2);
        if (dtype == KL_F32) memcpy(v + 4 * i, &x, 4);
        if (dtype == KL_F64) memcpy(v + 8 * i, &(double){x}, 8);
        if (dtype == KL_C64) memcpy(v + 8 * i, (float[]){x, x / 3}, 8);
    }
    struct kl_array *a = array_of(dtype, ndim, dims, v);
    free(v);
    return a;
}

/* Whether element i of both is equal: equal bits, or both NaN. Which NaN an operation gives depends
 * on the order of the operands in the instruction. */
static inline bool same_element(enum kl_dtype dtype, const void *x, const void *y, int64_t i) {
    size_t bytes = kl_dtype_size(dtype);
    const char *a = (const char *)x + (size_t)i * bytes, *b = (const char *)y + (size_t)i * bytes;
    if (memcmp(a, b, bytes) == 0) return true;
    float f[2];
    double d[2];
    uint16_t h[2];
    switch (dtype) {
    case KL_F16:
    case KL_BF16:
        memcpy(&h[0], a, 2), memcpy(&h[1], b, 2);
        if (dtype == KL_F16) return isnan(kl_f16_to_f32(h[0])) && isnan(kl_f16_to_f32(h[1]));
        return isnan(kl_bf16_to_f32(h[0])) && isnan(kl_bf16_to_f32(h[1]));
    case KL_F32: memcpy(&f[0], a, 4), memcpy(&f[1], b, 4); return isnan(f[0]) && isnan(f[1]);
    case KL_F64: memcpy(&d[0], a, 8), memcpy(&d[1], b, 8); return isnan(d[0]) && isnan(d[1]);
    case KL_C64:
        for (int part = 0; part < 2; part++) {
            memcpy(&f[0], a + 4 * part, 4), memcpy(&f[1], b + 4 * part, 4);
            if (memcmp(&f[0], &f[1], 4) != 0 && !(isnan(f[0]) && isnan(f[1]))) return false;
        }
        return true;
    default: return false;
    }
}
