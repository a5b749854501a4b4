/* quantized.c - mlx/c/ops.h: quantized matrices. */
#include <string.h>

#include "api/ops/api_ops.h"
#include "base/alloc.h"
#include "ops/quantized.h"

/* The format that a call names; an error is noted. */
static struct kl_quant_format format_of(struct kl_call *c, const char *mode,
                                        mlx_optional_int group_size, mlx_optional_int bits) {
    struct kl_quant_format f = {0};
    if (!c->err)
        kl_quant_format_of(&f, mode, group_size.has_value ? &group_size.value : NULL,
                           bits.has_value ? &bits.value : NULL, &c->err);
    return f;
}

int mlx_quantize(mlx_vector_array *res, const mlx_array w, mlx_optional_int group_size,
                 mlx_optional_int bits, const char *mode, const mlx_array global_scale,
                 const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, w, "w"), *made[3] = {NULL}, **outs = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_quant_format f = format_of(&c, mode, group_size, bits);
    int n = 0;
    if (!c.err) kl_quantize(made, &n, in, &f, kl_in_optional(global_scale), on, &c.err);
    if (!c.err && !(outs = kl_malloc(sizeof made))) {
        kl_fail_nomem(&c.err);
        for (int i = 0; i < n; i++) kl_array_release(made[i]);
    }
    if (outs) memcpy(outs, made, sizeof made);
    return kl_call_end_list(&c, res, outs, outs ? (size_t)n : 0);
}

int mlx_dequantize(mlx_array *res, const mlx_array w, const mlx_array scales,
                   const mlx_array biases, mlx_optional_int group_size, mlx_optional_int bits,
                   const char *mode, const mlx_array global_scale, mlx_optional_dtype dtype,
                   const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *in = kl_in(&c, w, "w"), *by = kl_in(&c, scales, "scales"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_quant_format f = format_of(&c, mode, group_size, bits);
    const int wanted = (int)dtype.value;
    if (!c.err)
        kl_dequantize(&out, in, by, kl_in_optional(biases), &f, kl_in_optional(global_scale),
                      dtype.has_value ? &wanted : NULL, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_quantized_matmul(mlx_array *res, const mlx_array x, const mlx_array w,
                         const mlx_array scales, const mlx_array biases, bool transpose,
                         mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                         const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *left = kl_in(&c, x, "x"), *in = kl_in(&c, w, "w");
    struct kl_array *by = kl_in(&c, scales, "scales"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_quant_format f = format_of(&c, mode, group_size, bits);
    if (!c.err)
        kl_quantized_matmul(&out, left, in, by, kl_in_optional(biases), transpose, &f, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_gather_qmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                   const mlx_array biases, const mlx_array lhs_indices, const mlx_array rhs_indices,
                   bool transpose, mlx_optional_int group_size, mlx_optional_int bits,
                   const char *mode, bool sorted_indices, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *left = kl_in(&c, x, "x"), *in = kl_in(&c, w, "w");
    struct kl_array *by = kl_in(&c, scales, "scales"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_quant_format f = format_of(&c, mode, group_size, bits);
    (void)sorted_indices; /* a hint, which is not needed */
    if (!c.err)
        kl_gather_qmm(&out, left, in, by, kl_in_optional(biases), kl_in_optional(lhs_indices),
                      kl_in_optional(rhs_indices), transpose, &f, on, &c.err);
    return kl_call_end(&c, res, out);
}

int mlx_qqmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array w_scales,
             mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
             const mlx_array global_scale_x, const mlx_array global_scale_w, const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *left = kl_in(&c, x, "x"), *in = kl_in(&c, w, "w"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    struct kl_quant_format f = format_of(&c, mode, group_size, bits);
    if (!c.err)
        kl_qqmm(&out, left, in, kl_in_optional(w_scales), &f, kl_in_optional(global_scale_x),
                kl_in_optional(global_scale_w), on, &c.err);
    return kl_call_end(&c, res, out);
}
