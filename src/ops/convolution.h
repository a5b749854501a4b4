/* convolution.h - builders of convolutions and their gradients; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

struct kl_convolution_params;
/* The operation as op_params.h describes it, with operands of any dtypes whose common dtype is
 * a float. KL_EARG: a stride, a dilation or the number of groups is below 1. KL_ESHAPE: the axes or
 * channels do not fit, the kernel has an extent of 0, or it is larger than the padded input. */
int kl_convolution(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                   const struct kl_convolution_params *p, struct kl_stream *s,
                   struct kl_error **err);
/* The gradient of the weight of kl_convolution: the operation CONVOLUTION_BACKWARD on the input and
 * the cotangent of the result, of any dtypes whose common dtype is a float. k: the extents of the
 * weight, p->ndim of them. KL_EARG as above, KL_ESHAPE also: the cotangent does not have the shape
 * of a result. */
int kl_convolution_backward(struct kl_array **out, struct kl_array *x, struct kl_array *cotangent,
                            const struct kl_convolution_params *p, const int *k,
                            struct kl_stream *s, struct kl_error **err);
/* A list of one value for each spatial axis, one value for all, or none: the default. */
struct kl_conv_list {
    const int *v;
    size_t n;
};
/* Negative padding removes elements of x before zeros are put between them, as in MLX. */
int kl_conv_general(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                    struct kl_conv_list stride, struct kl_conv_list low, struct kl_conv_list high,
                    struct kl_conv_list dilation, struct kl_conv_list input_dilation, int groups,
                    bool flip, struct kl_stream *s, struct kl_error **err);
/* For x of ndim spatial axes; the lists have ndim entries. */
int kl_conv(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
            const int *stride, const int *padding, const int *dilation, int groups,
            struct kl_stream *s, struct kl_error **err);
/* The gradient of kl_conv with respect to its input, but with w as (o, spatial axes, c / groups)
 * for x of c channels. output_padding: the number of rows added after the end of the result. */
int kl_conv_transpose(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                      const int *stride, const int *padding, const int *dilation,
                      const int *output_padding, int groups, struct kl_stream *s,
                      struct kl_error **err);
