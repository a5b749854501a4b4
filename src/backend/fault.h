/* fault.h - makes the error of a checked operation from the position that its kernel recorded. */
#pragma once
#include "base/op/task.h"

/* Sets *err to KL_EINDEX with index, axis, axis size, position and stream, and returns the code.
 * Axis and position are those of the operation that the user wrote, in the lane that the message
 * gives. With KEEL_OUT_OF_RANGE=zero (out_of_range.h) it counts the operation instead, leaves
 * *err alone and returns KL_OK. Operations on matrices (KL_OPF_OF_MATRICES) fail always, with
 * KL_EMATRIX; index is that of the matrix in the batch.
 * `read` reads the index values (see base/op/index.h); without them the error has only the
 * position. */
int kl_fault_fail(struct kl_error **err, enum kl_op_id op, const char *name,
                  struct kl_origin origin, const void *params, int n_in,
                  struct kl_tensor *const *in, int64_t position, int64_t stream,
                  bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                  void *ctx);

/* The number of positions of a checked operation: the size of the common shape of its index arrays
 * (1 when there are none), or KL_MATRIX_POSITIONS for each matrix of the batch. */
int64_t kl_fault_positions(enum kl_op_id op, int n_in, struct kl_tensor *const *in);
