/* quantized.h - operations on quantized matrices. For src/ops and src/api. A format is a mode with
 * a group size and a number of bits; see base/op/quant_mode.def. */
#pragma once
#include "base/op/op_params.h"
#include "ops/ops.h"

/* The format of a mode by name; group_size and bits may be NULL, for the defaults of the mode.
 * KL_EARG: an unknown mode, or a size or number of bits that the mode does not take. */
int kl_quant_format_of(struct kl_quant_format *out, const char *mode, const int *group_size,
                       const int *bits, struct kl_error **err);

/* Quantizes w, of at least two axes, by groups of its last axis. outs: packed numbers, scales and,
 * if affine, biases: *n_out new references. global_scale may be NULL. KL_EARG, KL_EDTYPE,
 * KL_ESHAPE. */
int kl_quantize(struct kl_array **outs, int *n_out, struct kl_array *w,
                const struct kl_quant_format *f, struct kl_array *global_scale, struct kl_stream *s,
                struct kl_error **err);
/* The numbers that the codes of w stand for. biases and global_scale may be NULL, dtype too. */
int kl_dequantize(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                  struct kl_array *biases, const struct kl_quant_format *f,
                  struct kl_array *global_scale, const int *dtype, struct kl_stream *s,
                  struct kl_error **err);
/* x times the quantized matrix, or its transpose. */
int kl_quantized_matmul(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                        struct kl_array *scales, struct kl_array *biases, bool transpose,
                        const struct kl_quant_format *f, struct kl_stream *s,
                        struct kl_error **err);
/* The same for pairs of matrices: lhs_indices says which of x, rhs_indices which of w; both count
 * all matrices of the leading axes. Either may be NULL: all in order. */
int kl_gather_qmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                  struct kl_array *scales, struct kl_array *biases, struct kl_array *lhs_indices,
                  struct kl_array *rhs_indices, bool transpose, const struct kl_quant_format *f,
                  struct kl_stream *s, struct kl_error **err);
/* x quantized, times the transpose of w, which is quantized (with w_scales) or is quantized here.
 * */
int kl_qqmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
            struct kl_array *w_scales, const struct kl_quant_format *f,
            struct kl_array *global_scale_x, struct kl_array *global_scale_w, struct kl_stream *s,
            struct kl_error **err);
