/* convolution.c - mlx/c/ops.h: convolutions. */
#include "api/ops/api_ops.h"

typedef int conv_fn(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                    const int *lists[4], int groups, struct kl_stream *s, struct kl_error **err);

static int conv(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                const int *lists[4], int groups, struct kl_stream *s, struct kl_error **err) {
    return kl_conv(out, x, w, ndim, lists[0], lists[1], lists[2], groups, s, err);
}

static int transpose(struct kl_array **out, struct kl_array *x, struct kl_array *w, int ndim,
                     const int *lists[4], int groups, struct kl_stream *s, struct kl_error **err) {
    return kl_conv_transpose(out, x, w, ndim, lists[0], lists[1], lists[2], lists[3], groups, s,
                             err);
}

/* The lists are stride, padding, dilation and, for a transposed convolution, output padding. */
static int call(const char *func, conv_fn *build, mlx_array *res, mlx_array input, mlx_array weight,
                int ndim, const int *lists[4], int groups, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *x = kl_in(&c, input, "input"), *w = kl_in(&c, weight, "weight"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, x, w, ndim, lists, groups, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define LISTS(...)     \
    (const int *[4]) { \
        __VA_ARGS__    \
    }
#define ONE(x)      \
    (const int[]) { \
        x           \
    }
#define EACH2(x)     \
    (const int[]) {  \
        x##_0, x##_1 \
    }
#define EACH3(x)            \
    (const int[]) {         \
        x##_0, x##_1, x##_2 \
    }

int mlx_conv1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride,
               int padding, int dilation, int groups, const mlx_stream s) {
    return call(__func__, conv, res, input, weight, 1,
                LISTS(ONE(stride), ONE(padding), ONE(dilation)), groups, s);
}

int mlx_conv2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
               int stride_1, int padding_0, int padding_1, int dilation_0, int dilation_1,
               int groups, const mlx_stream s) {
    return call(__func__, conv, res, input, weight, 2,
                LISTS(EACH2(stride), EACH2(padding), EACH2(dilation)), groups, s);
}

int mlx_conv3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0,
               int stride_1, int stride_2, int padding_0, int padding_1, int padding_2,
               int dilation_0, int dilation_1, int dilation_2, int groups, const mlx_stream s) {
    return call(__func__, conv, res, input, weight, 3,
                LISTS(EACH3(stride), EACH3(padding), EACH3(dilation)), groups, s);
}

int mlx_conv_transpose1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride,
                         int padding, int dilation, int output_padding, int groups,
                         const mlx_stream s) {
    return call(__func__, transpose, res, input, weight, 1,
                LISTS(ONE(stride), ONE(padding), ONE(dilation), ONE(output_padding)), groups, s);
}

int mlx_conv_transpose2d(mlx_array *res, const mlx_array input, const mlx_array weight,
                         int stride_0, int stride_1, int padding_0, int padding_1, int dilation_0,
                         int dilation_1, int output_padding_0, int output_padding_1, int groups,
                         const mlx_stream s) {
    return call(__func__, transpose, res, input, weight, 2,
                LISTS(EACH2(stride), EACH2(padding), EACH2(dilation), EACH2(output_padding)),
                groups, s);
}

int mlx_conv_transpose3d(mlx_array *res, const mlx_array input, const mlx_array weight,
                         int stride_0, int stride_1, int stride_2, int padding_0, int padding_1,
                         int padding_2, int dilation_0, int dilation_1, int dilation_2,
                         int output_padding_0, int output_padding_1, int output_padding_2,
                         int groups, const mlx_stream s) {
    return call(__func__, transpose, res, input, weight, 3,
                LISTS(EACH3(stride), EACH3(padding), EACH3(dilation), EACH3(output_padding)),
                groups, s);
}

int mlx_conv_general(mlx_array *res, const mlx_array input, const mlx_array weight,
                     const int *stride, size_t stride_num, const int *padding_lo,
                     size_t padding_lo_num, const int *padding_hi, size_t padding_hi_num,
                     const int *kernel_dilation, size_t kernel_dilation_num,
                     const int *input_dilation, size_t input_dilation_num, int groups, bool flip,
                     const mlx_stream s) {
    struct kl_call c = kl_call_begin(__func__, res);
    struct kl_array *x = kl_in(&c, input, "input"), *w = kl_in(&c, weight, "weight"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_conv_general(&out, x, w, (struct kl_conv_list){stride, stride_num},
                        (struct kl_conv_list){padding_lo, padding_lo_num},
                        (struct kl_conv_list){padding_hi, padding_hi_num},
                        (struct kl_conv_list){kernel_dilation, kernel_dilation_num},
                        (struct kl_conv_list){input_dilation, input_dilation_num}, groups, flip, on,
                        &c.err);
    return kl_call_end(&c, res, out);
}
