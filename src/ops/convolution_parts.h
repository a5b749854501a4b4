/* convolution_parts.h - what the rules of CONVOLUTION and CONVOLUTION_BACKWARD share. For src/ops
 * only. */
#pragma once
#include "base/op/op_params.h"
#include "ops/build/terms.h"

/* Checks what no operand decides: the number of spatial axes, strides, dilations, groups. KL_EARG,
 * KL_ESHAPE. */
int kl_convolution_check(const struct kl_convolution_params *p, struct kl_error **err);
/* The gradient of x, of which the shape alone matters, in the convolution of x with w, for the
 * cotangent g of its result. */
struct kl_array *kl_convolution_input_gradient(struct kl_terms *t, const struct kl_array *x,
                                               struct kl_array *w, struct kl_array *g,
                                               const struct kl_convolution_params *p);
/* Puts a 64-bit number of elements into *to; KL_ELIMIT. */
int kl_as_padding(int *to, int64_t n, struct kl_error **err);
/* ---- convolution_products.c ---- */
/* Whether the CPU computes the gradient of the weight by products: kl_matmul keeps the digits of a
 * long sum over all positions and packs its operands, as a convolution with the cotangent as kernel
 * does not. */
bool kl_by_products(const struct kl_vjp *v, const struct kl_convolution_params *p);
struct kl_array *kl_weight_gradient_by_products(struct kl_terms *t, const struct kl_vjp *v,
                                                const struct kl_convolution_params *p);
/* ---- convolution.c ---- */
/* a with its axis `from` put in front of axis `to`, and joined with it; KL_ELIMIT when that makes
 * an axis too long. */
struct kl_array *kl_join_axes(struct kl_terms *t, struct kl_array *a, int from, int to);
/* a with axis `axis` split into n parts, the outermost first. */
struct kl_array *kl_split_axis(struct kl_terms *t, struct kl_array *a, int axis, const int *parts,
                               int n);
