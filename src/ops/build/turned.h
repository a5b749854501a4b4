/* turned.h - element-wise results of arrays whose last axis lies apart in memory, as that of a
 * transpose does. */
#pragma once
#include "graph/array.h"

/* Builds the element-wise operation o, on a CPU, where its operands are turned, all in the same
 * way: the result lies in memory as they do, as in MLX and NumPy, and is a view. A copy, and a
 * result of operands that are not all turned in the same way, is in rows; operands of it that are
 * such views and still to be computed are then computed in rows, too. *done: whether it was built;
 * where it was not o is to be built as it is. */
int kl_map_turned(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype,
                  bool *done, struct kl_error **err);
