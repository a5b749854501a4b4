/* scan.h - builders of scans; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* Element i combines the elements up to i (reverse: from i on), with element i itself if inclusive.
 * Otherwise the first (last) element is the result for no elements: 0, 1, the lowest or highest
 * value of the dtype, or -inf. Bools are summed in int32; logcumsumexp gives float32 for integers
 * and bools; otherwise the dtype is kept. 16-bit floats are rounded when stored. */
typedef int kl_scan_fn(struct kl_array **out, struct kl_array *a, int axis, bool reverse,
                       bool inclusive, struct kl_stream *s, struct kl_error **err);
kl_scan_fn kl_cumsum, kl_cumprod, kl_cummax, kl_cummin, kl_logcumsumexp;
