/* fault.h - the error of a checked operation, from the position that its kernel left behind. */
#pragma once
#include "base/task.h"

/* Sets *err (KL_EINDEX with index, axis, axis size, position, stream): reads the index values through `read` (see base/index.h). */
int kl_fault_fail(struct kl_error **err, enum kl_op_id op, const char *name, const void *params,
                  int n_in, struct kl_tensor *const *in, int64_t position, int64_t stream,
                  bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                  void *ctx);

/* How many positions a checked operation has: the size of the common shape of its index arrays (1 without any). */
int64_t kl_fault_positions(enum kl_op_id op, int n_in, struct kl_tensor *const *in);
