/* product.h - builders of products of matrices; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* ---- product.c ---- */
/* The batched product, as in NumPy; KL_EDTYPE when the common dtype is an integer type or bool. */
kl_binary_fn kl_matmul;

/* ---- product_gather.c ---- */
/* a[left[i]] b[right[i]] for each i, where a and b are batches of matrices, counted over all their
 * leading axes, and the indices broadcast; NULL: all matrices, in order. A vector counts as a
 * matrix of one row or column. KL_EDTYPE: the common dtype is no float. */
int kl_gather_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                 struct kl_array *left /* may be NULL */, struct kl_array *right /* may be NULL */,
                 struct kl_stream *s, struct kl_error **err);
/* The product over the indices from segments[..., 0] on, before segments[..., 1], for each. */
int kl_segmented_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_array *segments, struct kl_stream *s, struct kl_error **err);
/* The product of a and b with square blocks of `block` elements multiplied by the elements of
 * masks, which may be NULL; bools keep a block or set it to 0. */
int kl_block_masked_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b, int block,
                       struct kl_array *mask_out, struct kl_array *mask_left,
                       struct kl_array *mask_right, struct kl_stream *s, struct kl_error **err);

/* ---- product_einsum.c ---- */
/* The sum of products that the subscripts name, as in NumPy, with 1 to 64 operands. KL_EARG:
 * subscripts that cannot be read, or do not fit the number of operands. KL_ESHAPE: they do not fit
 * the shapes. KL_EDTYPE: a sum over an axis that two operands share, where both are integers. */
int kl_einsum(struct kl_array **out, const char *subscripts, struct kl_array *const *operands,
              size_t n, struct kl_stream *s, struct kl_error **err);

/* ---- product_composed.c ---- */
/* Element (i, j) is a[i] * b[j]; both operands are flattened. */
kl_binary_fn kl_outer;
/* The sum of products over the last axis of both, whose extents are equal; with a 0-d operand it is
 * the product. Dtypes as for matmul. */
kl_binary_fn kl_inner;
/* The Kronecker product: each element of a times all of b; missing leading axes count as 1. */
kl_binary_fn kl_kron;
/* The sum of products over pairs of axes. The other axes of a, then those of b, remain. Dtypes as
 * for matmul. KL_ESHAPE: the axes of a pair have different sizes. */
int kl_tensordot(struct kl_array **out, struct kl_array *a, struct kl_array *b, const int *axes_a,
                 size_t axes_a_num, const int *axes_b, size_t axes_b_num, struct kl_stream *s,
                 struct kl_error **err);
/* The sum of products over the last `axis` axes of a and the first `axis` axes of b. */
int kl_tensordot_axis(struct kl_array **out, struct kl_array *a, struct kl_array *b, int axis,
                      struct kl_stream *s, struct kl_error **err);
/* alpha * (a @ b) + beta * c, with c broadcast to the product, in the common dtype of all three,
 * which is a float or complex. When beta is 0, c is not read. */
int kl_addmm(struct kl_array **out, struct kl_array *c, struct kl_array *a, struct kl_array *b,
             float alpha, float beta, struct kl_stream *s, struct kl_error **err);

/* ---- product_hadamard.c ---- */
/* The last axis, of m * 2^k elements with m one of 1, 12, 20, 28, multiplied by the Hadamard matrix
 * of that size and by *scale (NULL: 1 / sqrt(size)). Integers and bools give float32, except for
 * size 1 and the factor 1, which change nothing. KL_EDTYPE: complex64; KL_ESHAPE: no elements. */
int kl_hadamard_transform(struct kl_array **out, struct kl_array *a, const float *scale,
                          struct kl_stream *s, struct kl_error **err);
