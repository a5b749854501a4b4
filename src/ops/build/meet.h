/* meet.h - bringing operands together: conversion, broadcasting, small constants.
 *
 * Results are new references. Where a step changes nothing, the result is the array itself,
 * retained. */
#pragma once
#include "ops/build/check.h"

/* The largest number of operands that kl_meet takes. The caller releases its results with
 * kl_release_all. */
enum { KL_MAX_OPERANDS = KL_MAP_INPUTS };

/* The shape to which n arrays broadcast, by NumPy's rule. KL_ESHAPE. */
int kl_broadcast_shape(struct kl_shape *out, struct kl_array *const *arrays, size_t n,
                       struct kl_error **err);
/* A view of a with that shape. KL_ESHAPE when a does not broadcast to it. */
int kl_broadcast_view(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
                      struct kl_error **err);
/* The reverse of a broadcast, for gradients: a summed to the given shape over the axes along which
 * that shape was broadcast to a's. Keeps a's dtype. */
int kl_sum_to(struct kl_array **out, struct kl_array *a, int ndim, const int *dims,
              struct kl_stream *s, struct kl_error **err);
/* a converted to dtype by CAST; a itself when it has this dtype. */
int kl_cast_to(struct kl_array **out, struct kl_array *a, enum kl_dtype dtype, struct kl_stream *s,
               struct kl_error **err);
/* out[i] is in[i] converted to dtype[i] and broadcast to the common shape of all, which is put into
 * *shape. If one is shapeless (graph/trace.h) none is broadcast. On failure no reference is
 * held. */
int kl_meet(struct kl_array **out, struct kl_array *const *in, const enum kl_dtype *dtypes, int n,
            struct kl_shape *shape, struct kl_stream *s, struct kl_error **err);
void kl_release_all(struct kl_array *const *arrays, size_t n);
/* For operations on a CPU: a, or, where a is large (KL_ROWS_FROM elements) and those of its last
 * axis lie apart in memory, a copy in the order of rows, because a kernel that gathers them one by
 * one takes up to ten times as long. */
enum { KL_ROWS_FROM = 1 << 14 };
enum kl_rows_use {
    KL_ROWS_READ,  /* each row is read several times */
    KL_ROWS_MOVED, /* each element is read once, so rows of a few elements are left as they are */
    KL_ROWS_ALL,   /* the kernel wants all of a in that order: also where only the rows lie apart */
};
int kl_in_rows(struct kl_array **out, struct kl_array *a, enum kl_rows_use use, struct kl_stream *s,
               struct kl_error **err);
/* Builds an element-wise operation without parameters. shape: that of the result; NULL: that of the
 * first input. On a CPU, where operands are turned, their last axis lying apart in memory, and all
 * in the same way, the result lies as they do and is a view. That of COPY never does. */
int kl_map_op(struct kl_array **out, enum kl_op_id op, struct kl_array *const *in, int n_in,
              const struct kl_shape *shape, enum kl_dtype dtype, struct kl_stream *s,
              struct kl_error **err);
/* Builds an operation on a (already checked) converted to dtype, whose result has the dtype
 * `result`. */
int kl_map_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, enum kl_dtype dtype,
                 enum kl_dtype result, struct kl_stream *s, struct kl_error **err);
/* The same with two operands, which are broadcast to one shape. */
int kl_map_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                  enum kl_dtype dtype, enum kl_dtype result, struct kl_stream *s,
                  struct kl_error **err);
/* ---- builders for the KL_UNARY and KL_BINARY rows of base/op/op_list.def ----
 * Operands are checked and converted, and the result has the dtype that the row says. Some rows
 * name dtypes that the kernel never gets (KL_COMPUTES_WHOLE, _COMPLEX, _NO_BOOL). For a unary
 * operation an operand of such a dtype is itself the result; for a binary operation the caller
 * handles it before. KL_EDTYPE, KL_ESHAPE. */
int kl_build_unary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err);
int kl_build_binary(struct kl_array **out, enum kl_op_id op, struct kl_array *a, struct kl_array *b,
                    struct kl_stream *s, struct kl_error **err);
/* Only the checks: both arrays have dtypes that the row takes. *dtype is their common dtype. */
int kl_check_binary(enum kl_op_id op, struct kl_array *a, struct kl_array *b, enum kl_dtype *dtype,
                    struct kl_error **err);

/* Whether a is a single integer given by the host; *x is its value. Builders prove ranges with it.
 * a may be NULL. */
bool kl_host_integer(struct kl_array *a, int64_t *x);
