/* elementwise.h - builders of element-wise operations; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* Functions of one and of two numbers. base/op/op_list.def lists them with their dtype rules;
 * mlx/c/ops.h and keel/ops.h say what they compute. */
#define KL_OP(...)
#define KL_UNARY(ID, name, builder, ...) kl_unary_fn builder;
#define KL_BINARY(ID, name, builder, ...) kl_binary_fn builder;
#include "base/op/op_list.def"
kl_unary_fn kl_reciprocal, kl_degrees, kl_radians; /* integers and bools give float32 */

/* Rounds to the nearest number, halves to even, with the given decimals (tens, hundreds, ... when
 * negative); both parts of complex64. Integers do not change for decimals >= 0. */
int kl_round(struct kl_array **out, struct kl_array *a, int decimals, struct kl_stream *s,
             struct kl_error **err);
int kl_divmod(struct kl_array **out_0, struct kl_array **out_1, struct kl_array *a,
              struct kl_array *b, struct kl_stream *s, struct kl_error **err);
/* 8-bit floats (e4m3: no infinities, 448 at most, NaN is 0x7f), stored as uint8, converted to the
 * float type dtype. */
int kl_from_fp8(struct kl_array **out, struct kl_array *x, int dtype, struct kl_stream *s,
                struct kl_error **err);

/* ---- elementwise_classify.c ---- */
kl_unary_fn kl_isnan, kl_isinf; /* bool; true for complex64 when either part is */
kl_unary_fn kl_isfinite;        /* bool; true for complex64 when both parts are */
kl_unary_fn kl_isposinf, kl_isneginf;
/* Infinities become the largest finite numbers unless values are given. Integers and bools do not
 * change. complex64 is taken part by part when both values are given; KL_EDTYPE otherwise. */
int kl_nan_to_num(struct kl_array **out, struct kl_array *a, double nan,
                  const double *posinf /* may be NULL */, const double *neginf /* may be NULL */,
                  struct kl_stream *s, struct kl_error **err);
/* |a - b| <= atol + rtol |b|, or a equals b. Computed in float32 or a wider type. */
int kl_isclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
               double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err);
int kl_allclose(struct kl_array **out, struct kl_array *a, struct kl_array *b, double rtol,
                double atol, bool equal_nan, struct kl_stream *s, struct kl_error **err); /* 0-d */
/* 0-d; false where the shapes differ. */
int kl_array_equal(struct kl_array **out, struct kl_array *a, struct kl_array *b, bool equal_nan,
                   struct kl_stream *s, struct kl_error **err);
/* minimum(maximum(a, a_min), a_max); one of the bounds may be NULL. */
int kl_clip(struct kl_array **out, struct kl_array *a, struct kl_array *a_min,
            struct kl_array *a_max, struct kl_stream *s, struct kl_error **err);

/* a * sigmoid(a) * b. complex64 is not taken. KL_EDTYPE, KL_ESHAPE. */
kl_binary_fn kl_silu_mul;

/* condition != 0 ? x : y. x and y are converted to a common dtype; all three broadcast to one
 * shape. */
int kl_where(struct kl_array **out, struct kl_array *condition, struct kl_array *x,
             struct kl_array *y, struct kl_stream *s, struct kl_error **err);
