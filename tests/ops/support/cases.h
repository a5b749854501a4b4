/* cases.h - every operation that can be made again from its parameters, as calls of its builder on
 * inputs that a table describes; and the operation that such a call has recorded. For tests that
 * apply one check to all operations with parameters. */
#pragma once
#include "ops/support/helpers.h"

#include "base/op/op_params.h"
#include "graph/node.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/build/vjp.h"
#include "ops/fft.h"
#include "ops/linalg.h"
#include "ops/quantized.h"
#include "ops/support/rows.h"

enum {
    SAMPLED = -1, /* the dtype that the test tries */
    MOST_INPUTS = 7,
};
/* Which values an input has. */
enum values {
    MIXED,   /* numbers of both signs, with fractions where the dtype has them */
    WHOLE,   /* whole numbers, so that sums of floats are exact in any order */
    INDICES, /* -below <= x < below, or 0 <= x for unsigned dtypes */
    SQUARES, /* symmetric positive definite matrices */
};
struct op_input {
    int dtype, ndim, dims[5];
    enum values values;
    int below;
};
#define D(...)                                                    \
    SAMPLED, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), { \
        __VA_ARGS__                                               \
    }
#define OF(dtype, ...)                                          \
    dtype, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), { \
        __VA_ARGS__                                             \
    }
#define INDEX(limit, ...) \
    { OF(KL_I32, __VA_ARGS__), INDICES, limit }

struct op_case {
    enum kl_op_id op;
    const char *name;
    int (*build)(struct kl_array **out, struct kl_array *const *in, struct kl_error **err);
    unsigned dtypes; /* a bit for each dtype that the test may sample */
    int n_in;
    struct op_input in[MOST_INPUTS];
};
#define BIT(dtype) (1u << (dtype))
enum {
    FLOATS = BIT(KL_F16) | BIT(KL_BF16) | BIT(KL_F32) | BIT(KL_F64),
    KERNEL_FLOATS = BIT(KL_F16) | BIT(KL_BF16) | BIT(KL_F32),
    EVERY = BIT(KL_N_DTYPES) - 1,
    NO_COMPLEX = EVERY & ~BIT(KL_C64),
    NUMBERS = EVERY & ~BIT(KL_BOOL),
    ONLY_F32 = BIT(KL_F32),
    WIDE = BIT(KL_F32) | BIT(KL_F64), /* what matrices are factored in */
};

/* ---- the calls ---- */
/* The stream of the calls, the CPU's unless a test sets it. */
static struct kl_stream *calls_on;
static inline struct kl_stream *case_stream(void) {
    return calls_on ? calls_on : cpu();
}
#define CASE(name, call)                                                                        \
    static int name(struct kl_array **out, struct kl_array *const *in, struct kl_error **err) { \
        struct kl_stream *s = case_stream();                                                    \
        return call;                                                                            \
    }
#define ROPE_BASE(x)        \
    (struct kl_rope_base) { \
        true, x             \
    }
CASE(do_copy, kl_copy(out, in[0], s, err))
CASE(do_cast_i16, kl_astype(out, in[0], KL_I16, s, err))
CASE(do_cast_f16, kl_astype(out, in[0], KL_F16, s, err))
CASE(do_cast_bool, kl_astype(out, in[0], KL_BOOL, s, err))
CASE(do_round, kl_round(out, in[0], 0, s, err))
CASE(do_from_fp8, kl_from_fp8(out, in[0], KL_F32, s, err))
CASE(do_silu_mul, kl_silu_mul(out, in[0], in[1], s, err))
CASE(do_where, kl_where(out, in[0], in[1], in[2], s, err))
CASE(do_reshape, kl_reshape(out, in[0], LIST(4, 6), s, err))
CASE(do_reshape_scalar, kl_reshape(out, in[0], NULL, 0, s, err))
CASE(do_reshape_more, kl_reshape(out, in[0], LIST(1, 2, 3, 2, 2), s, err))
CASE(do_transpose, kl_transpose_axes(out, in[0], LIST(1, 2, 0), s, err))
CASE(do_broadcast, kl_broadcast_to(out, in[0], LIST(2, 3, 4), s, err))
CASE(do_broadcast_none, kl_broadcast_to(out, in[0], LIST(2, 0), s, err))
CASE(do_expand_dims, kl_expand_dims_axes(out, in[0], LIST(2, 0), s, err))
CASE(do_squeeze, kl_squeeze_axes(out, in[0], LIST(3, 1), s, err))
CASE(do_slice, kl_slice(out, in[0], LIST(0, 6, 1), LIST(2, 0, 4), LIST(1, -2, 2), s, err))
CASE(do_slice_none, kl_slice(out, in[0], LIST(1, 0), LIST(1, 2), LIST(1, 1), s, err))
CASE(do_strided, kl_as_strided(out, in[0], LIST(5, 3), (int64_t[]){2, 1}, 2, 1, s, err))
CASE(do_strided_back, kl_as_strided(out, in[0], LIST(2, 4), (int64_t[]){0, -3}, 2, 11, s, err))
CASE(do_strided_none, kl_as_strided(out, in[0], LIST(0, 4), (int64_t[]){7, 99}, 2, 0, s, err))
CASE(do_diagonal, kl_diagonal(out, in[0], 1, 0, 2, s, err))
CASE(do_diagonal_low, kl_diagonal(out, in[0], -1, 2, 1, s, err))
CASE(do_view_u8, kl_view(out, in[0], KL_U8, s, err))
CASE(do_view_u32, kl_view(out, in[0], KL_U32, s, err))
CASE(do_view_f32, kl_view(out, in[0], KL_F32, s, err))
CASE(do_stop_gradient, kl_stop_gradient(out, in[0], s, err))
CASE(do_arange_i32, kl_arange(out, 5, -9, -3, KL_I32, s, err))
CASE(do_arange_u8, kl_arange(out, 250, 300, 1, KL_U8, s, err))
CASE(do_arange_f16, kl_arange(out, 0.25, 4, 0.5, KL_F16, s, err))
CASE(do_arange_none, kl_arange(out, 0, 0, 1, KL_I64, s, err))
CASE(do_bits_1, kl_random_bits(out, LIST(3, 5), 1, in[0], s, err))
CASE(do_bits_2, kl_random_bits(out, LIST(7), 2, in[0], s, err))
CASE(do_bits_4, kl_random_bits(out, NULL, 0, 4, in[0], s, err))
CASE(do_slice_update,
     kl_slice_update(out, in[0], in[1], LIST(0, 4), LIST(3, 0), LIST(2, -2), s, err))
CASE(do_slice_update_scalar, kl_slice_update(out, in[0], in[1], NULL, 0, NULL, 0, NULL, 0, s, err))
CASE(do_concatenate, kl_concatenate_axis(out, in, 3, 1, s, err))
CASE(do_concatenate_first, kl_concatenate_axis(out, in, 2, 0, s, err))
CASE(do_sum, kl_sum_axes(out, in[0], LIST(1, 0), true, s, err))
CASE(do_sum_last, kl_sum_axes(out, in[0], LIST(2), false, s, err))
CASE(do_mean, kl_mean_axes(out, in[0], LIST(2), true, s, err))
CASE(do_prod, kl_prod_axes(out, in[0], LIST(0, 2), true, s, err))
CASE(do_max, kl_max_axes(out, in[0], LIST(1), true, s, err))
CASE(do_min, kl_min_axes(out, in[0], LIST(0, 1, 2), true, s, err))
CASE(do_all, kl_all_axes(out, in[0], LIST(2), true, s, err))
CASE(do_any, kl_any_axes(out, in[0], LIST(1, 2), true, s, err))
CASE(do_logsumexp, kl_logsumexp_axes(out, in[0], LIST(1), true, s, err))
CASE(do_var, kl_var_axes(out, in[0], LIST(0, 2), true, 1, s, err))
CASE(do_var_of_none, kl_var_axes(out, in[0], NULL, 0, true, 0, s, err))
CASE(do_argmax, kl_argmax_axis(out, in[0], 1, true, s, err))
CASE(do_argmin, kl_argmin_axis(out, in[0], 2, true, s, err))
CASE(do_softmax_last, kl_softmax_axis(out, in[0], 2, true, s, err))
CASE(do_softmax_first, kl_softmax_axis(out, in[0], 0, true, s, err))
CASE(do_softmax_two, kl_softmax_axes(out, in[0], LIST(0, 1), true, s, err))
CASE(do_softmax_none, kl_softmax_axes(out, in[0], NULL, 0, true, s, err))
CASE(do_log_softmax, kl_op_make(out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, -1), in, 1, s, err))
CASE(do_log_softmax_first, kl_op_make(out, KL_OP_LOG_SOFTMAX, KL_PARAMS_OF(axis, 0), in, 1, s, err))
CASE(do_cumsum, kl_cumsum(out, in[0], 1, false, true, s, err))
CASE(do_cumprod, kl_cumprod(out, in[0], 0, true, true, s, err))
CASE(do_cummax, kl_cummax(out, in[0], 2, false, false, s, err))
CASE(do_cummin, kl_cummin(out, in[0], 1, true, false, s, err))
CASE(do_logcumsumexp, kl_logcumsumexp(out, in[0], 2, true, true, s, err))
CASE(do_rms_norm, kl_rms_norm(out, in[0], NULL, 1e-5f, s, err))
CASE(do_rms_norm_weight, kl_rms_norm(out, in[0], in[1], 1e-5f, s, err))
CASE(do_layer_norm, kl_layer_norm(out, in[0], NULL, NULL, 1e-5f, s, err))
CASE(do_layer_norm_weight, kl_layer_norm(out, in[0], in[1], NULL, 1e-5f, s, err))
CASE(do_layer_norm_bias, kl_layer_norm(out, in[0], NULL, in[1], 1e-5f, s, err))
CASE(do_layer_norm_both, kl_layer_norm(out, in[0], in[1], in[2], 1e-5f, s, err))
#define BACK_PARAMS(...) (&(struct kl_norm_backward_params){1e-3f, __VA_ARGS__})
CASE(do_rms_back,
     kl_norm_backward(out, in[0], NULL, in[1], BACK_PARAMS(false, false, false, false), s, err))
CASE(do_rms_back_weight,
     kl_norm_backward(out, in[0], in[1], in[2], BACK_PARAMS(false, true, true, false), s, err))
CASE(do_layer_back,
     kl_norm_backward(out, in[0], NULL, in[1], BACK_PARAMS(true, false, false, true), s, err))
CASE(do_layer_back_x,
     kl_norm_backward(out, in[0], in[1], in[2], BACK_PARAMS(true, true, false, false), s, err))
CASE(do_layer_back_both,
     kl_norm_backward(out, in[0], in[1], in[2], BACK_PARAMS(true, true, true, true), s, err))
CASE(do_rope, kl_rope(out, in[0], 4, true, ROPE_BASE(100), 0.5f, in[1], NULL, s, err))
CASE(do_rope_halves, kl_rope(out, in[0], 6, false, ROPE_BASE(100), 1, in[1], NULL, s, err))
CASE(do_rope_freqs,
     kl_rope(out, in[0], 4, false, (struct kl_rope_base){0}, 1, in[1], in[2], s, err))
CASE(do_sort, kl_sort_axis(out, in[0], 1, s, err))
CASE(do_argsort, kl_argsort_axis(out, in[0], 2, s, err))
CASE(do_partition, kl_partition_axis(out, in[0], 2, 2, s, err))
CASE(do_argpartition, kl_argpartition_axis(out, in[0], -2, 1, s, err))
CASE(do_topk, kl_topk_axis(out, in[0], 2, 1, s, err))
CASE(do_topk_none, kl_topk_axis(out, in[0], 0, 0, s, err))
CASE(do_matmul, kl_matmul(out, in[0], in[1], s, err))
CASE(do_attention, kl_attention(out, in[0], in[1], in[2], 0.5f, "", NULL, NULL, s, err))
CASE(do_attention_causal,
     kl_attention(out, in[0], in[1], in[2], 0.5f, "causal", NULL, NULL, s, err))
CASE(do_attention_mask, kl_attention(out, in[0], in[1], in[2], 0.5f, "array", in[3], NULL, s, err))
CASE(do_attention_sinks, kl_attention(out, in[0], in[1], in[2], 0.5f, "", NULL, in[3], s, err))
CASE(do_attention_causal_sinks,
     kl_attention(out, in[0], in[1], in[2], 0.5f, "causal", NULL, in[3], s, err))
CASE(do_backward, kl_attention_backward(out, in, 0.5f, false, NULL, NULL, in[3], in[4], s, err))
CASE(do_backward_causal,
     kl_attention_backward(out, in, 0.5f, true, NULL, NULL, in[3], in[4], s, err))
CASE(do_backward_mask,
     kl_attention_backward(out, in, 0.5f, false, in[3], NULL, in[4], in[5], s, err))
CASE(do_backward_sinks,
     kl_attention_backward(out, in, 0.5f, true, NULL, in[3], in[4], in[5], s, err))
CASE(do_backward_both,
     kl_attention_backward(out, in, 0.5f, false, in[3], in[4], in[5], in[6], s, err))
CASE(do_attention_both, kl_attention(out, in[0], in[1], in[2], 0.5f, "", in[3], in[4], s, err))
CASE(do_gather_one, kl_gather(out, in[0], in + 1, 1, LIST(1), LIST(2, 1, 4), s, err))
CASE(do_gather_two, kl_gather(out, in[0], in + 1, 2, LIST(2, 0), LIST(1, 2, 3), s, err))
CASE(do_gather_all, kl_gather(out, in[0], in + 1, 1, LIST(0), LIST(1), s, err))
CASE(do_gather_none, kl_gather(out, in[0], NULL, 0, NULL, 0, LIST(2, 1), s, err))
CASE(do_gather_axis, kl_take_along_axis(out, in[0], in[1], 1, s, err))
CASE(do_scatter, kl_scatter(out, in[0], in + 2, 1, in[1], LIST(1), s, err))
CASE(do_scatter_two, kl_scatter(out, in[0], in + 2, 2, in[1], LIST(2, 0), s, err))
CASE(do_scatter_none, kl_scatter(out, in[0], NULL, 0, in[1], NULL, 0, s, err))
CASE(do_scatter_add, kl_scatter_add(out, in[0], in + 2, 1, in[1], LIST(0), s, err))
CASE(do_scatter_prod, kl_scatter_prod(out, in[0], in + 2, 1, in[1], LIST(0), s, err))
CASE(do_scatter_max, kl_scatter_max(out, in[0], in + 2, 1, in[1], LIST(0), s, err))
CASE(do_scatter_min, kl_scatter_min(out, in[0], in + 2, 1, in[1], LIST(0), s, err))
CASE(do_put_along_axis, kl_put_along_axis(out, in[0], in[2], in[1], 1, s, err))
CASE(do_add_along_axis, kl_scatter_add_axis(out, in[0], in[2], in[1], 0, s, err))

static int convolved(struct kl_array **out, struct kl_array *const *in, int ndim, int groups,
                     bool flip, struct kl_stream *s, struct kl_error **err) {
    const struct kl_convolution_params p = {.ndim = ndim,
                                            .groups = groups,
                                            .flip = flip,
                                            .stride = {1, 2, 1},
                                            .low = {1, -1, 0},
                                            .high = {0, 2, 1},
                                            .dilation = {2, 1, 1},
                                            .input_dilation = {1, 2, 3}};
    struct kl_convolution_params used = p;
    for (int i = ndim; i < 3; i++)
        used.stride[i] = used.low[i] = used.high[i] = used.dilation[i] = used.input_dilation[i] = 0;
    return kl_convolution(out, in[0], in[1], &used, s, err);
}
CASE(do_conv_1, convolved(out, in, 1, 1, true, s, err))
CASE(do_conv_2, convolved(out, in, 2, 2, false, s, err))
CASE(do_conv_3, convolved(out, in, 3, 1, true, s, err))
CASE(do_conv_depthwise, convolved(out, in, 1, 3, false, s, err))
static int convolved_back(struct kl_array **out, struct kl_array *const *in, int ndim, int groups,
                          bool flip, const int *k, struct kl_stream *s, struct kl_error **err) {
    struct kl_convolution_params p = {.ndim = ndim, .groups = groups, .flip = flip};
    for (int i = 0; i < ndim; i++) {
        p.stride[i] = 1 + i % 2;
        p.low[i] = i == 1 ? -1 : 1;
        p.high[i] = i;
        p.dilation[i] = i == 0 ? 2 : 1;
        p.input_dilation[i] = 1 + i;
    }
    return kl_convolution_backward(out, in[0], in[1], &p, k, s, err);
}
CASE(do_conv_back_1, convolved_back(out, in, 1, 1, true, (int[]){3}, s, err))
CASE(do_conv_back_2, convolved_back(out, in, 2, 2, false, (int[]){2, 3}, s, err))
CASE(do_conv_back_3, convolved_back(out, in, 3, 1, true, (int[]){2, 2, 2}, s, err))
CASE(do_conv_back_depthwise, convolved_back(out, in, 1, 3, false, (int[]){3}, s, err))
#define AFFINE                  \
    &(struct kl_quant_format) { \
        KL_QUANT_AFFINE, 32, 4  \
    }
#define AFFINE_3                \
    &(struct kl_quant_format) { \
        KL_QUANT_AFFINE, 64, 3  \
    }
#define MXFP4                   \
    &(struct kl_quant_format) { \
        KL_QUANT_MXFP4, 32, 4   \
    }
#define MXFP8                   \
    &(struct kl_quant_format) { \
        KL_QUANT_MXFP8, 32, 8   \
    }
#define NVFP4                   \
    &(struct kl_quant_format) { \
        KL_QUANT_NVFP4, 16, 4   \
    }
/* Part `which` of what quantize gives. */
static int quantized_part(struct kl_array **out, struct kl_array *const *in, int n_in, int which,
                          const struct kl_quant_format *f, struct kl_stream *s,
                          struct kl_error **err) {
    struct kl_array *made[3];
    int n;
    KL_TRY(kl_quantize(made, &n, in[0], f, n_in > 1 ? in[1] : NULL, s, err));
    *out = made[which];
    for (int i = 0; i < n; i++)
        if (i != which) kl_array_release(made[i]);
    return KL_OK;
}
CASE(do_quantize, quantized_part(out, in, 1, 0, AFFINE_3, s, err))
CASE(do_quantize_scales, quantized_part(out, in, 1, 1, AFFINE, s, err))
CASE(do_quantize_mx, quantized_part(out, in, 1, 0, MXFP8, s, err))
CASE(do_quantize_nv, quantized_part(out, in, 2, 1, NVFP4, s, err))
/* What x quantized stands for: the left operand of qqmm. */
static int do_qqmm(struct kl_array **out, struct kl_array *const *in, struct kl_error **err) {
    struct kl_array *w;
    KL_TRY(kl_zeros(&w, LIST(3, 32), in[0]->t.dtype, case_stream(), err));
    int rc = kl_qqmm(out, in[0], w, NULL, NVFP4, NULL, NULL, case_stream(), err);
    kl_array_release(w);
    return rc;
}
CASE(do_dequantize, kl_dequantize(out, in[0], in[1], in[2], AFFINE, NULL, NULL, s, err))
CASE(do_dequantize_3, kl_dequantize(out, in[0], in[1], in[2], AFFINE_3, NULL, NULL, s, err))
CASE(do_dequantize_mx, kl_dequantize(out, in[0], in[1], NULL, MXFP4, NULL, NULL, s, err))
CASE(do_dequantize_nv, kl_dequantize(out, in[0], in[1], NULL, NVFP4, in[2], NULL, s, err))
CASE(do_quantized_matmul,
     kl_quantized_matmul(out, in[0], in[1], in[2], in[3], true, AFFINE, s, err))
CASE(do_quantized_matmul_rows,
     kl_quantized_matmul(out, in[0], in[1], in[2], in[3], false, AFFINE_3, s, err))
CASE(do_quantized_matmul_mx,
     kl_quantized_matmul(out, in[0], in[1], in[2], NULL, true, MXFP8, s, err))
CASE(do_gather_qmm,
     kl_gather_qmm(out, in[0], in[1], in[2], in[3], in[4], in[5], true, AFFINE, s, err))
CASE(do_gather_qmm_rows,
     kl_gather_qmm(out, in[0], in[1], in[2], in[3], in[4], in[5], false, AFFINE, s, err))

CASE(do_gather_mm, kl_gather_mm(out, in[0], in[1], in[2], in[3], s, err))
CASE(do_segmented_mm, kl_segmented_mm(out, in[0], in[1], in[2], s, err))
CASE(do_fft, kl_fftn(out, in[0], KL_FFT_FORWARD, LIST(6), LIST(1), KL_FFT_BACKWARD, s, err))
CASE(do_ifft_2, kl_fftn(out, in[0], KL_FFT_INVERSE, LIST(3, 5), LIST(2, 0), KL_FFT_ORTHO, s, err))
CASE(do_rfft_2, kl_fftn(out, in[0], KL_FFT_FROM_REAL, LIST(5, 6), LIST(0, 1), KL_FFT_ORTHO, s, err))
CASE(do_irfft_2,
     kl_fftn(out, in[0], KL_FFT_TO_REAL, LIST(3, 5), LIST(0, 1), KL_FFT_BACKWARD, s, err))
static int do_depends(struct kl_array **out, struct kl_array *const *in, struct kl_error **err) {
    struct kl_array **list;
    size_t n;
    KL_TRY(kl_depends(&list, &n, in, 1, in + 1, 2, case_stream(), err));
    *out = list[0];
    kl_free(list);
    return KL_OK;
}
/* Gradients of operations on symmetric matrices are symmetric, as differences are where the matrix
 * is made symmetric first. */
typedef int symmetric_fn(struct kl_array **out, struct kl_array *a, struct kl_error **err);
static int of_symmetric(struct kl_array **out, symmetric_fn *build, struct kl_array *a,
                        struct kl_error **err) {
    struct kl_array *t, *sum, *half = NULL, *two = NULL;
    KL_TRY(kl_swapaxes(&t, a, -1, -2, case_stream(), err));
    int rc = kl_add(&sum, a, t, case_stream(), err);
    kl_array_release(t);
    if (rc) return rc;
    rc = kl_array_new_scalar(&two, 2, (enum kl_dtype)a->t.dtype, err);
    if (!rc) rc = kl_divide(&half, sum, two, case_stream(), err);
    kl_array_release(sum);
    kl_array_release(two);
    if (!rc) rc = build(out, half, err);
    kl_array_release(half);
    return rc;
}
static int upper_cholesky(struct kl_array **out, struct kl_array *a, struct kl_error **err) {
    return kl_cholesky(out, a, true, case_stream(), err);
}
static int upper_values(struct kl_array **out, struct kl_array *a, struct kl_error **err) {
    return kl_eigvalsh(out, a, true, case_stream(), err);
}
CASE(do_cholesky, ((void)s, of_symmetric(out, upper_cholesky, in[0], err)))
CASE(do_solve_triangular, kl_solve_triangular(out, in[0], in[1], true, s, err))
CASE(do_solve, kl_solve(out, in[0], in[1], s, err))
CASE(do_inv, kl_inv(out, in[0], s, err))
CASE(do_det, kl_det(out, in[0], s, err))
CASE(do_pinv, kl_pinv(out, in[0], s, err))
CASE(do_singular_values, kl_singular_values(out, in[0], s, err))
CASE(do_eigvalsh, ((void)s, of_symmetric(out, upper_values, in[0], err)))
CASE(do_eigvals, kl_eigvals(out, in[0], s, err))
/* One part of a factorisation. */
static int one_factor(struct kl_array **out, enum kl_factors which, int part, struct kl_array *a,
                      struct kl_error **err) {
    struct kl_array **all;
    size_t n;
    KL_TRY(kl_matrix_parts(&all, &n, which, a, false, case_stream(), err));
    *out = kl_array_retain(all[part]);
    for (size_t i = 0; i < n; i++) kl_array_release(all[i]);
    kl_free(all);
    return KL_OK;
}
#define FACTOR_CASE(name, which, part)                                                          \
    static int name(struct kl_array **out, struct kl_array *const *in, struct kl_error **err) { \
        return one_factor(out, KL_FACTORS_##which, part, in[0], err);                           \
    }
FACTOR_CASE(do_lu, LU, 2)
FACTOR_CASE(do_qr, QR, 1)
FACTOR_CASE(do_svd, SVD, 0)
static int eigenvectors(struct kl_array **out, struct kl_array *a, struct kl_error **err) {
    return one_factor(out, KL_FACTORS_EIGH, 1, a, err);
}
CASE(do_eigh, ((void)s, of_symmetric(out, eigenvectors, in[0], err)))
FACTOR_CASE(do_eig, EIG, 1)
/* The gradient of rope rotates the other way. */
static int do_rope_inverse(struct kl_array **out, struct kl_array *const *in,
                           struct kl_error **err) {
    struct kl_array *y, *grad[2] = {NULL};
    KL_TRY(do_rope(&y, in, err));
    const bool wanted[2] = {true, false};
    const struct kl_rope_params p = {.dims = 4, .traditional = true, .base = 100, .scale = 0.5f};
    struct kl_vjp v = {.op = KL_OP_ROPE,
                       .params = &p,
                       .n_in = 2,
                       .n_out = 1,
                       .in = in,
                       .out = &y,
                       .cotangent = &y,
                       .wanted = wanted,
                       .s = case_stream()};
    int rc = kl_vjp_rule(KL_OP_ROPE)(&v, grad, err);
    kl_array_release(y);
    if (!rc) *out = grad[0];
    return rc;
}

#define X \
    { D(2, 3, 4), MIXED, 0 }
#define CUBE \
    { D(4, 3, 4), MIXED, 0 }
#define KEY \
    { OF(KL_U32, 2), MIXED, 0 }
#define Q \
    { D(2, 4, 3, 8), MIXED, 0 }
#define K \
    { D(2, 2, 5, 8), MIXED, 0 }
#define V \
    { D(2, 2, 5, 6), MIXED, 0 }
#define RESULT \
    { D(2, 4, 3, 6), MIXED, 0 }
#define ROW(OP, call, dtypes, n, ...)         \
    {                                         \
        KL_OP_##OP, #call, call, dtypes, n, { \
            __VA_ARGS__                       \
        }                                     \
    }
static const struct op_case op_cases[] = {
    ROW(COPY, do_copy, EVERY, 1, X),
    ROW(CAST, do_cast_i16, EVERY & ~BIT(KL_I16), 1, X),
    ROW(CAST, do_cast_f16, NUMBERS & ~BIT(KL_F16), 1, X),
    ROW(CAST, do_cast_bool, NUMBERS, 1, X),
    ROW(ROUND, do_round, FLOATS | BIT(KL_C64), 1, X),
    ROW(FROM_FP8, do_from_fp8, ONLY_F32, 1, {OF(KL_U8, 3, 5), MIXED, 0}),
    ROW(SILU_MUL, do_silu_mul, FLOATS, 2, {D(2, 3), MIXED, 0}, {D(2, 3), MIXED, 0}),
    ROW(WHERE, do_where, EVERY, 3, {OF(KL_BOOL, 2, 3), MIXED, 0}, {D(2, 3), MIXED, 0},
        {D(2, 3), MIXED, 0}),
    ROW(RESHAPE, do_reshape, EVERY, 1, X),
    ROW(RESHAPE, do_reshape_scalar, EVERY, 1, {D(1, 1), MIXED, 0}),
    ROW(RESHAPE, do_reshape_more, EVERY, 1, {D(6, 4), MIXED, 0}),
    ROW(TRANSPOSE, do_transpose, EVERY, 1, X),
    ROW(BROADCAST, do_broadcast, EVERY, 1, {D(3, 1), MIXED, 0}),
    ROW(BROADCAST, do_broadcast, EVERY, 1, {SAMPLED, 0, {0}, MIXED, 0}),
    ROW(BROADCAST, do_broadcast_none, EVERY, 1, {D(2, 1), MIXED, 0}),
    ROW(EXPAND_DIMS, do_expand_dims, EVERY, 1, X),
    ROW(EXPAND_DIMS, do_expand_dims, EVERY, 1, {D(3), MIXED, 0}),
    ROW(SQUEEZE, do_squeeze, EVERY, 1, {D(2, 1, 3, 1), MIXED, 0}),
    ROW(SLICE, do_slice, EVERY, 1, {D(3, 7, 5), MIXED, 0}),
    ROW(SLICE, do_slice_none, EVERY, 1, {D(3, 2), MIXED, 0}),
    ROW(AS_STRIDED, do_strided, EVERY, 1, {D(3, 4), MIXED, 0}),
    ROW(AS_STRIDED, do_strided_back, EVERY, 1, {D(12), MIXED, 0}),
    ROW(AS_STRIDED, do_strided_none, EVERY, 1, {D(3, 4), MIXED, 0}),
    ROW(DIAGONAL, do_diagonal, EVERY, 1, CUBE),
    ROW(DIAGONAL, do_diagonal_low, EVERY, 1, CUBE),
    ROW(VIEW, do_view_u8, BIT(KL_I8) | BIT(KL_F32) | BIT(KL_C64) | BIT(KL_I64), 1, X),
    ROW(VIEW, do_view_u32, BIT(KL_I8) | BIT(KL_F16) | BIT(KL_I32) | BIT(KL_F64), 1, X),
    ROW(VIEW, do_view_f32, BIT(KL_I32), 1, {SAMPLED, 0, {0}, MIXED, 0}),
    ROW(STOP_GRADIENT, do_stop_gradient, EVERY, 1, X),
    ROW(ARANGE, do_arange_i32, ONLY_F32, 0, {0}),
    ROW(ARANGE, do_arange_u8, ONLY_F32, 0, {0}),
    ROW(ARANGE, do_arange_f16, ONLY_F32, 0, {0}),
    ROW(ARANGE, do_arange_none, ONLY_F32, 0, {0}),
    ROW(RANDOM_BITS, do_bits_1, ONLY_F32, 1, KEY),
    ROW(RANDOM_BITS, do_bits_2, ONLY_F32, 1, KEY),
    ROW(RANDOM_BITS, do_bits_4, ONLY_F32, 1, KEY),
    ROW(SLICE_UPDATE, do_slice_update, EVERY, 2, {D(3, 5), MIXED, 0}, {D(2, 2), MIXED, 0}),
    ROW(SLICE_UPDATE, do_slice_update_scalar, EVERY, 2, {SAMPLED, 0, {0}, MIXED, 0},
        {SAMPLED, 0, {0}, MIXED, 0}),
    ROW(CONCATENATE, do_concatenate, EVERY, 3, {D(2, 3), MIXED, 0}, {D(2, 1), MIXED, 0},
        {D(2, 0), MIXED, 0}),
    ROW(CONCATENATE, do_concatenate_first, EVERY, 2, {D(2, 3), MIXED, 0}, {D(1, 3), MIXED, 0}),
    ROW(DEPENDS, do_depends, EVERY, 3, X, {OF(KL_F32, 3), MIXED, 0}, {OF(KL_I32, 2, 2), MIXED, 0}),
    ROW(SUM, do_sum, EVERY, 1, X),
    ROW(SUM, do_sum_last, EVERY, 1, X),
    ROW(SUM, do_mean, EVERY, 1, X),
    ROW(PROD, do_prod, EVERY, 1, X),
    ROW(MAX, do_max, EVERY, 1, X),
    ROW(MIN, do_min, EVERY, 1, X),
    ROW(ALL, do_all, EVERY, 1, X),
    ROW(ANY, do_any, EVERY, 1, X),
    ROW(LOGSUMEXP, do_logsumexp, FLOATS | BIT(KL_C64), 1, X),
    ROW(VAR, do_var, EVERY, 1, X),
    ROW(VAR, do_var_of_none, FLOATS, 1, X),
    ROW(ARGMAX, do_argmax, EVERY, 1, X),
    ROW(ARGMIN, do_argmin, EVERY, 1, X),
    ROW(SOFTMAX, do_softmax_last, FLOATS | BIT(KL_C64), 1, X),
    ROW(SOFTMAX, do_softmax_first, FLOATS | BIT(KL_C64), 1, X),
    ROW(SOFTMAX, do_softmax_two, FLOATS | BIT(KL_C64), 1, X),
    ROW(SOFTMAX, do_softmax_none, FLOATS | BIT(KL_C64), 1, X),
    ROW(LOG_SOFTMAX, do_log_softmax, FLOATS | BIT(KL_C64), 1, X),
    ROW(LOG_SOFTMAX, do_log_softmax_first, FLOATS | BIT(KL_C64), 1, X),
    ROW(CUMSUM, do_cumsum, EVERY, 1, X),
    ROW(CUMPROD, do_cumprod, EVERY, 1, X),
    ROW(CUMMAX, do_cummax, EVERY, 1, X),
    ROW(CUMMIN, do_cummin, EVERY, 1, X),
    ROW(LOGCUMSUMEXP, do_logcumsumexp, FLOATS | BIT(KL_C64), 1, X),
    ROW(RMS_NORM, do_rms_norm, FLOATS, 1, X),
    ROW(RMS_NORM, do_rms_norm_weight, FLOATS, 2, X, {D(4), MIXED, 0}),
    ROW(LAYER_NORM, do_layer_norm, FLOATS, 1, X),
    ROW(LAYER_NORM, do_layer_norm_weight, FLOATS, 2, X, {D(4), MIXED, 0}),
    ROW(LAYER_NORM, do_layer_norm_bias, FLOATS, 2, X, {D(4), MIXED, 0}),
    ROW(LAYER_NORM, do_layer_norm_both, FLOATS, 3, X, {D(4), MIXED, 0}, {D(4), MIXED, 0}),
    ROW(NORM_BACKWARD, do_rms_back, FLOATS, 2, X, X),
    ROW(NORM_BACKWARD, do_rms_back_weight, FLOATS, 3, X, {D(4), MIXED, 0}, X),
    ROW(NORM_BACKWARD, do_layer_back, FLOATS, 2, X, X),
    ROW(NORM_BACKWARD, do_layer_back_x, FLOATS, 3, X, {D(4), MIXED, 0}, X),
    ROW(NORM_BACKWARD, do_layer_back_both, FLOATS, 3, X, {D(4), MIXED, 0}, X),
    ROW(ROPE, do_rope, FLOATS, 2, {D(2, 3, 6), MIXED, 0}, {OF(KL_I32), INDICES, 9}),
    ROW(ROPE, do_rope_inverse, FLOATS, 2, {D(2, 3, 6), MIXED, 0}, {OF(KL_I32), INDICES, 9}),
    ROW(ROPE, do_rope_halves, FLOATS, 2, {D(2, 2, 3, 6), MIXED, 0}, {OF(KL_I32, 2), INDICES, 9}),
    ROW(ROPE, do_rope_halves, FLOATS, 2, {D(2, 3, 6), MIXED, 0}, {OF(KL_I32, 1), INDICES, 9}),
    ROW(ROPE, do_rope_freqs, FLOATS, 3, {D(2, 3, 6), MIXED, 0}, {OF(KL_I32), INDICES, 9},
        {OF(KL_F32, 2), MIXED, 0}),
    ROW(SORT, do_sort, EVERY, 1, X),
    ROW(ARGSORT, do_argsort, EVERY, 1, X),
    ROW(PARTITION, do_partition, EVERY, 1, X),
    ROW(ARGPARTITION, do_argpartition, EVERY, 1, X),
    ROW(TOPK, do_topk, EVERY, 1, X),
    ROW(TOPK, do_topk_none, EVERY, 1, X),
    ROW(MATMUL, do_matmul, FLOATS | BIT(KL_C64), 2, {D(3, 5), MIXED, 0}, {D(5, 2), MIXED, 0}),
    ROW(MATMUL, do_matmul, FLOATS | BIT(KL_C64), 2, {D(2, 3, 5), MIXED, 0}, {D(2, 5, 4), MIXED, 0}),
    ROW(ATTENTION, do_attention, KERNEL_FLOATS, 3, Q, K, V),
    ROW(ATTENTION, do_attention_causal, KERNEL_FLOATS, 3, Q, K, V),
    ROW(ATTENTION, do_attention_mask, KERNEL_FLOATS, 4, Q, K, V,
        {OF(KL_BOOL, 2, 4, 3, 5), MIXED, 0}),
    ROW(ATTENTION, do_attention_mask, KERNEL_FLOATS, 4, Q, K, V, {D(2, 4, 3, 5), MIXED, 0}),
    ROW(ATTENTION, do_attention_mask, ONLY_F32, 4, {D(1, 4, 3, 8), MIXED, 0},
        {D(1, 1, 5, 8), MIXED, 0}, {D(1, 1, 5, 6), MIXED, 0}, {D(3, 5), MIXED, 0}),
    ROW(ATTENTION, do_attention_sinks, KERNEL_FLOATS, 4, Q, K, V, {D(4), MIXED, 0}),
    ROW(ATTENTION, do_attention_causal_sinks, KERNEL_FLOATS, 4, Q, K, V, {D(4), MIXED, 0}),
    ROW(ATTENTION, do_attention_both, KERNEL_FLOATS, 5, Q, K, V, {D(2, 4, 3, 5), MIXED, 0},
        {D(4), MIXED, 0}),
    ROW(ATTENTION_BACKWARD, do_backward, KERNEL_FLOATS, 5, Q, K, V, RESULT, RESULT),
    ROW(ATTENTION_BACKWARD, do_backward_causal, KERNEL_FLOATS, 5, Q, K, V, RESULT, RESULT),
    ROW(ATTENTION_BACKWARD, do_backward_mask, KERNEL_FLOATS, 6, Q, K, V,
        {OF(KL_BOOL, 2, 4, 3, 5), MIXED, 0}, RESULT, RESULT),
    ROW(ATTENTION_BACKWARD, do_backward_mask, KERNEL_FLOATS, 6, Q, K, V, {D(3, 5), MIXED, 0},
        RESULT, RESULT),
    ROW(ATTENTION_BACKWARD, do_backward_sinks, KERNEL_FLOATS, 6, Q, K, V, {D(4), MIXED, 0}, RESULT,
        RESULT),
    ROW(ATTENTION_BACKWARD, do_backward_both, KERNEL_FLOATS, 7, Q, K, V, {D(2, 4, 3, 5), MIXED, 0},
        {D(4), MIXED, 0}, RESULT, RESULT),
    ROW(CONVOLUTION, do_conv_1, FLOATS, 2, {D(2, 6, 3), MIXED, 0}, {D(4, 3, 3), MIXED, 0}),
    ROW(CONVOLUTION, do_conv_2, FLOATS, 2, {D(1, 4, 5, 4), MIXED, 0}, {D(6, 2, 3, 2), MIXED, 0}),
    ROW(CONVOLUTION, do_conv_3, FLOATS, 2, {D(1, 3, 2, 4, 2), MIXED, 0},
        {D(3, 2, 2, 2, 2), MIXED, 0}),
    ROW(CONVOLUTION, do_conv_depthwise, FLOATS, 2, {D(2, 6, 3), MIXED, 0}, {D(3, 3, 1), MIXED, 0}),
    ROW(CONVOLUTION_BACKWARD, do_conv_back_1, FLOATS, 2, {D(2, 6, 3), MIXED, 0},
        {D(2, 3, 4), MIXED, 0}),
    ROW(CONVOLUTION_BACKWARD, do_conv_back_2, FLOATS, 2, {D(1, 4, 5, 4), MIXED, 0},
        {D(1, 3, 4, 6), MIXED, 0}),
    ROW(CONVOLUTION_BACKWARD, do_conv_back_3, FLOATS, 2, {D(1, 3, 2, 3, 2), MIXED, 0},
        {D(1, 2, 1, 9, 3), MIXED, 0}),
    ROW(CONVOLUTION_BACKWARD, do_conv_back_depthwise, FLOATS, 2, {D(2, 6, 3), MIXED, 0},
        {D(2, 3, 3), MIXED, 0}),
    ROW(QUANTIZE, do_quantize, KERNEL_FLOATS, 1, {D(2, 3, 128), MIXED, 0}),
    ROW(QUANTIZE, do_quantize_scales, KERNEL_FLOATS, 1, {D(2, 3, 64), MIXED, 0}),
    ROW(QUANTIZE, do_quantize_mx, KERNEL_FLOATS, 1, {D(2, 64), MIXED, 0}),
    ROW(QUANTIZE, do_quantize_nv, KERNEL_FLOATS, 2, {D(2, 64), MIXED, 0}, {OF(KL_F32), MIXED, 0}),
    ROW(QUANTIZE, do_qqmm, KERNEL_FLOATS, 1, {D(2, 32), MIXED, 0}),
    ROW(DEQUANTIZE, do_dequantize, KERNEL_FLOATS, 3, {OF(KL_U32, 2, 3, 8), MIXED, 0},
        {D(2, 3, 2), MIXED, 0}, {D(2, 3, 2), MIXED, 0}),
    ROW(DEQUANTIZE, do_dequantize_3, KERNEL_FLOATS, 3, {OF(KL_U32, 2, 12), MIXED, 0},
        {D(2, 2), MIXED, 0}, {D(2, 2), MIXED, 0}),
    ROW(DEQUANTIZE, do_dequantize_mx, ONLY_F32, 2, {OF(KL_U32, 3, 8), MIXED, 0},
        {OF(KL_U8, 3, 2), MIXED, 0}),
    ROW(DEQUANTIZE, do_dequantize_nv, ONLY_F32, 3, {OF(KL_U32, 3, 4), MIXED, 0},
        {OF(KL_U8, 3, 2), MIXED, 0}, {OF(KL_F32), MIXED, 0}),
    ROW(QUANTIZED_MATMUL, do_quantized_matmul, KERNEL_FLOATS, 4, {D(2, 64), MIXED, 0},
        {OF(KL_U32, 5, 8), MIXED, 0}, {D(5, 2), MIXED, 0}, {D(5, 2), MIXED, 0}),
    ROW(QUANTIZED_MATMUL, do_quantized_matmul, KERNEL_FLOATS, 4, {D(2, 11, 64), MIXED, 0},
        {OF(KL_U32, 2, 5, 8), MIXED, 0}, {D(2, 5, 2), MIXED, 0}, {D(2, 5, 2), MIXED, 0}),
    ROW(QUANTIZED_MATMUL, do_quantized_matmul_rows, KERNEL_FLOATS, 4, {D(2, 5), MIXED, 0},
        {OF(KL_U32, 5, 12), MIXED, 0}, {D(5, 2), MIXED, 0}, {D(5, 2), MIXED, 0}),
    ROW(QUANTIZED_MATMUL, do_quantized_matmul_mx, KERNEL_FLOATS, 3, {D(3, 64), MIXED, 0},
        {OF(KL_U32, 5, 16), MIXED, 0}, {OF(KL_U8, 5, 2), MIXED, 0}),
    ROW(GATHER_QMM, do_gather_qmm, KERNEL_FLOATS, 6, {D(3, 2, 64), MIXED, 0},
        {OF(KL_U32, 4, 5, 8), MIXED, 0}, {D(4, 5, 2), MIXED, 0}, {D(4, 5, 2), MIXED, 0},
        INDEX(3, 2, 3), INDEX(4, 2, 3)),
    ROW(GATHER_QMM, do_gather_qmm_rows, KERNEL_FLOATS, 6, {D(3, 9, 5), MIXED, 0},
        {OF(KL_U32, 4, 5, 8), MIXED, 0}, {D(4, 5, 2), MIXED, 0}, {D(4, 5, 2), MIXED, 0},
        INDEX(3, 3), INDEX(4, 3)),
    ROW(GATHER_MM, do_gather_mm, FLOATS, 4, {D(3, 2, 5), MIXED, 0}, {D(4, 5, 3), MIXED, 0},
        INDEX(3, 6), INDEX(4, 6)),
    ROW(SEGMENTED_MM, do_segmented_mm, FLOATS, 3, {D(2, 6), MIXED, 0}, {D(6, 3), MIXED, 0},
        {OF(KL_U32, 4, 2), INDICES, 7}),
    ROW(CHOLESKY, do_cholesky, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(SOLVE_TRIANGULAR, do_solve_triangular, WIDE, 2, {D(2, 3, 3), SQUARES, 0},
        {D(2, 3, 4), MIXED, 0}),
    ROW(SOLVE, do_solve, WIDE, 2, {D(2, 3, 3), SQUARES, 0}, {D(2, 3, 4), MIXED, 0}),
    ROW(INV, do_inv, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(DET, do_det, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(PINV, do_pinv, WIDE, 1, {D(2, 3, 4), MIXED, 0}),
    ROW(LU, do_lu, WIDE, 1, {D(2, 4, 3), MIXED, 0}),
    ROW(QR, do_qr, WIDE, 1, {D(2, 4, 3), MIXED, 0}),
    ROW(SVD, do_svd, WIDE, 1, {D(2, 4, 3), MIXED, 0}),
    ROW(SVD, do_singular_values, WIDE, 1, {D(2, 4, 3), MIXED, 0}),
    ROW(EIGH, do_eigh, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(EIGH, do_eigvalsh, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(EIG, do_eig, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(EIG, do_eigvals, WIDE, 1, {D(2, 3, 3), SQUARES, 0}),
    ROW(FFT, do_fft, BIT(KL_F32) | BIT(KL_F64) | BIT(KL_C64), 1, {D(2, 6, 3), MIXED, 0}),
    ROW(FFT, do_ifft_2, BIT(KL_F32) | BIT(KL_F64) | BIT(KL_C64), 1, {D(5, 2, 3), MIXED, 0}),
    ROW(FFT, do_rfft_2, BIT(KL_F32) | BIT(KL_F64), 1, {D(5, 6, 2), MIXED, 0}),
    ROW(FFT, do_irfft_2, BIT(KL_C64), 1, {D(3, 3, 2), MIXED, 0}),
    ROW(GATHER, do_gather_one, EVERY, 2, {D(3, 5, 4), MIXED, 0}, INDEX(5, 2, 3)),
    ROW(GATHER, do_gather_two, EVERY, 3, {D(3, 2, 4), MIXED, 0}, {OF(KL_U32, 4), INDICES, 2},
        {OF(KL_U32, 4), INDICES, 3}),
    ROW(GATHER, do_gather_all, EVERY, 2, {D(7), MIXED, 0}, {OF(KL_I64), INDICES, 7}),
    ROW(GATHER, do_gather_none, EVERY, 1, {D(3, 2), MIXED, 0}),
    ROW(GATHER_AXIS, do_gather_axis, EVERY, 2, {D(2, 5, 3), MIXED, 0}, INDEX(5, 2, 4, 3)),
    ROW(SCATTER, do_scatter, EVERY, 3, {D(2, 5, 3), MIXED, 0}, {D(4, 2, 1, 2), MIXED, 0},
        INDEX(5, 4)),
    ROW(SCATTER, do_scatter_two, EVERY, 4, {D(3, 2, 4), MIXED, 0}, {D(3, 1, 2, 1), MIXED, 0},
        INDEX(4, 3), INDEX(3, 3)),
    ROW(SCATTER, do_scatter_none, EVERY, 2, {D(3, 2), MIXED, 0}, {D(2, 1), MIXED, 0}),
    ROW(SCATTER, do_scatter_add, EVERY, 3, {D(5, 2), WHOLE, 0}, {D(2, 3, 1, 2), WHOLE, 0},
        INDEX(5, 2, 3)),
    ROW(SCATTER, do_scatter_prod, EVERY, 3, {D(5, 2), WHOLE, 0}, {D(3, 1, 2), WHOLE, 0},
        INDEX(5, 3)),
    ROW(SCATTER, do_scatter_max, EVERY, 3, {D(5, 2), WHOLE, 0}, {D(3, 1, 2), WHOLE, 0},
        INDEX(5, 3)),
    ROW(SCATTER, do_scatter_min, EVERY, 3, {D(5, 2), WHOLE, 0}, {D(3, 1, 2), WHOLE, 0},
        INDEX(5, 3)),
    ROW(SCATTER_AXIS, do_put_along_axis, EVERY, 3, {D(2, 5), MIXED, 0}, {D(2, 3), MIXED, 0},
        INDEX(5, 2, 3)),
    ROW(SCATTER_AXIS, do_add_along_axis, EVERY, 3, {D(4, 2), WHOLE, 0}, {D(3, 2), WHOLE, 0},
        INDEX(4, 3, 2)),
};
#undef X
#undef CUBE
#undef KEY
#undef Q
#undef K
#undef V
enum {
    N_OP_CASES = sizeof op_cases / sizeof *op_cases,
    N_CASES = N_OP_CASES + N_ROWS_OF_ONE + N_ROWS_OF_TWO
};

/* Case `which` of all: those above, then one for each element-wise row. */
static struct op_case case_number(int which) {
    if (which < N_OP_CASES) return op_cases[which];
    which -= N_OP_CASES;
    bool two = which >= N_ROWS_OF_ONE;
    if (two) which -= N_ROWS_OF_ONE;
    struct op_case c = {.op = two ? rows_of_two[which].op : rows_of_one[which].op,
                        .name = two ? rows_of_two[which].name : rows_of_one[which].name,
                        .n_in = 1 + two};
    for (int d = 0; d < KL_N_DTYPES; d++)
        if (kl_op_has_kernel_for(c.op, (enum kl_dtype)d)) c.dtypes |= BIT(d);
    for (int i = 0; i < c.n_in; i++) c.in[i] = (struct op_input){D(2, 3), MIXED, 0};
    return c;
}

static int build_case(struct kl_array **out, const struct op_case *c, struct kl_array *const *in,
                      struct kl_error **err) {
    if (c->build) return c->build(out, in, err);
    for (int i = 0; i < N_ROWS_OF_ONE; i++)
        if (rows_of_one[i].op == c->op) return rows_of_one[i].build(out, in[0], case_stream(), err);
    for (int i = 0; i < N_ROWS_OF_TWO; i++)
        if (rows_of_two[i].op == c->op)
            return rows_of_two[i].build(out, in[0], in[1], case_stream(), err);
    return KL_EINTERNAL;
}

/* ---- inputs ---- */
static inline uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static inline struct kl_array *cast_to(struct kl_array *a /* taken */, enum kl_dtype dtype) {
    struct kl_array *out;
    EXPECT_OK(kl_astype(&out, a, dtype, cpu(), &err));
    kl_array_release(a);
    return out;
}

/* Symmetric positive definite matrices of the last two axes. */
static inline void fill_squares(double *v, int64_t size, int n, uint32_t *seed) {
    for (int64_t at = 0; at < size; at += n * n)
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) {
                double x = i == j ? n + 1 : next_random(seed) % 100 / 100.0;
                v[at + i * n + j] = v[at + j * n + i] = x;
            }
}

/* The array that `what` describes, with lanes in front unless lanes is -1. It is not evaluated, so
 * that views of it are recorded as operations. */
static inline struct kl_array *make_input(const struct op_input *what, enum kl_dtype sampled,
                                          int lanes, uint32_t *seed) {
    enum kl_dtype dtype = what->dtype == SAMPLED ? sampled : (enum kl_dtype)what->dtype;
    int dims[6], ndim = 0;
    int64_t size;
    if (lanes >= 0) dims[ndim++] = lanes;
    for (int i = 0; i < what->ndim; i++) dims[ndim++] = what->dims[i];
    assert_true(kl_shape_size(ndim, dims, 16, &size));
    double *v = malloc((size_t)(size + 1) * sizeof *v);
    bool is_unsigned = kl_dtype_is_int(dtype) && !kl_dtype_is_signed(dtype);
    for (int64_t i = 0; i < size; i++) {
        uint32_t x = next_random(seed);
        if (what->values == INDICES)
            v[i] = is_unsigned ? x % (uint32_t)what->below
                               : (double)(x % (2 * (uint32_t)what->below)) - what->below;
        else if (dtype == KL_BOOL)
            v[i] = x & 1;
        else if (what->values == WHOLE)
            v[i] = is_unsigned ? 1 + x % 4 : (double)(x % 9) - 4;
        else
            v[i] = is_unsigned ? x % 100 : ((double)(x % 4001) - 2000) / 401;
    }
    if (what->values == SQUARES) fill_squares(v, size, what->dims[what->ndim - 1], seed);
    if (dtype == KL_C64) {
        float *parts = malloc(((size_t)size + 1) * 2 * sizeof *parts);
        for (int64_t i = 0; i < size; i++) {
            parts[2 * i] = (float)v[i];
            parts[2 * i + 1] = what->values == WHOLE ? (float)(next_random(seed) % 3)
                                                     : (float)(next_random(seed) % 500) / 251;
        }
        struct kl_array *a = array_of(KL_C64, ndim, dims, parts), *lazy;
        free(parts);
        free(v);
        EXPECT_OK(kl_copy(&lazy, a, cpu(), &err));
        kl_array_release(a);
        return lazy;
    }
    struct kl_array *a = array_of(KL_F64, ndim, dims, v), *lazy;
    free(v);
    a = cast_to(a, dtype);
    if (dtype != KL_F64) return a;
    EXPECT_OK(kl_copy(&lazy, a, cpu(), &err));
    kl_array_release(a);
    return lazy;
}

/* ---- what a builder recorded ---- */
/* The node of op that made a, or one of its inputs, and so on; NULL when there is none. */
static inline struct kl_node *find_node(struct kl_array *a, enum kl_op_id op) {
    struct kl_node *n = a->node;
    if (!n || n->task.op == op) return n;
    for (int i = 0; i < n->n_in; i++) {
        struct kl_node *found = find_node(n->in[i], op);
        if (found) return found;
    }
    return NULL;
}

/* An operation, with references of its own to inputs and a copy of the parameters. */
struct recorded {
    struct kl_build b;
    struct kl_array *in[MOST_INPUTS];
    int dims[8];
    void *params;
};
static inline void record(struct recorded *r, const struct kl_node *n) {
    const struct kl_array *out = n->out[0];
    assert_in_range(n->n_in, 0, MOST_INPUTS);
    assert_in_range(out->t.ndim, 0, 8);
    r->params = malloc(n->task.params_bytes + 1);
    memcpy(r->params, n->task.params, n->task.params_bytes);
    for (int i = 0; i < n->n_in; i++) r->in[i] = kl_array_retain(n->in[i]);
    for (int i = 0; i < out->t.ndim; i++) r->dims[i] = out->t.dims[i];
    r->b = (struct kl_build){.op = n->task.op,
                             .params = r->params,
                             .params_bytes = n->task.params_bytes,
                             .in = r->in,
                             .n_in = n->n_in,
                             .s = cpu(),
                             .dtype = (enum kl_dtype)out->t.dtype,
                             .ndim = out->t.ndim,
                             .dims = r->dims};
}
static inline void forget(struct recorded *r) {
    for (int i = 0; i < r->b.n_in; i++) kl_array_release(r->in[i]);
    free(r->params);
}
