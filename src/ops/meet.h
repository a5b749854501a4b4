/* meet.h - how operands come together: conversion, broadcasting, small constants. For src/ops only.
 *
 * Results are new references; a step that changes nothing gives the array itself, retained. */
#pragma once
#include "ops/check.h"

/* Binary operations work on operands brought to one dtype and one shape. Release with
 * kl_release_all. */
enum { KL_MAX_OPERANDS = 3 };

/* The shape in which n arrays meet, by NumPy's rule. KL_ESHAPE. */
int kl_broadcast_shape(struct kl_shape *out, struct kl_array *const *arrays, size_t n,
                       struct kl_error **err);
/* A view of a with that shape. KL_ESHAPE when it does not broadcast. */
int kl_broadcast_view(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                      struct kl_error **err);
/* The reverse, for gradients: a summed over the axes along which the shape was broadcast to its own, in a's dtype. */
int kl_sum_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
              struct kl_stream *s, struct kl_error **err);
/* a as dtype; CAST when it is another. */
int kl_cast_to(struct kl_array **out, struct kl_array *a, enum kl_dtype dtype, struct kl_stream *s,
               struct kl_error **err);
/* out[i] = in[i] as dtype[i], broadcast to the shape of all, which *shape tells. On failure nothing
 * is held. */
int kl_meet(struct kl_array **out, struct kl_array *const *in, const enum kl_dtype *dtypes, int n,
            struct kl_shape *shape, struct kl_stream *s, struct kl_error **err);
void kl_release_all(struct kl_array *const *arrays, size_t n);
/* An operation without parameters, with the shape of its first input. */
int kl_map_op(struct kl_array **out, enum kl_op_id op, struct kl_array *const *in, int n_in,
              enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err);
/* An operation on a (checked already) as dtype, with a result of `result`. */
int kl_map_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                 enum kl_dtype result, struct kl_stream *s, struct kl_error **err);
/* The same on a and b, broadcast to one shape. */
int kl_map_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                  enum kl_dtype dtype, enum kl_dtype result, struct kl_stream *s,
                  struct kl_error **err);
/* ---- what the KL_UNARY and KL_BINARY rows of base/op_list.def say, done ----
 * Operands are checked and converted, the result has the dtype that the row says. An operand of a
 * dtype that never comes to the kernel (KL_COMPUTES_WHOLE, _COMPLEX, _NO_BOOL) is the result itself
 * of a unary operation; of a binary one the caller has dealt with it. KL_EDTYPE, KL_ESHAPE. */
int kl_build_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
int kl_build_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err);
/* The checks alone: two arrays of dtypes that the row takes; *dtype is that in which they meet. */
int kl_check_binary(enum kl_op_id op, struct kl_array *a, struct kl_array *b, enum kl_dtype *dtype,
                    struct kl_error **err);

/* Whether a is one integer that the host gave, and which: what can be proved with when an operation is built. a may be NULL. */
bool kl_host_integer(struct kl_array *a, int64_t *x);
