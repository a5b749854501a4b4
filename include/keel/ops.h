/* ops.h - operations that mlx/c/ops.h has not. They are lazy arrays like the others, run on every
 * device, take part in fusion, and have gradients.
 *
 * What holds for each: *res is a new array, or one whose handle is overwritten; a is borrowed; s is
 * the stream on which it runs. The functions return 0, or 1 with an error raised (keel/error.h):
 * KEEL_EARG for an empty handle, KEEL_EDTYPE for a dtype that is not taken, KEEL_ENOMEM. The shape
 * is that of a; floats keep their dtype, integers and bool give float32. Any thread may call. */
#ifndef KEEL_OPS_H
#define KEEL_OPS_H

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The real cube root, also of negative numbers; not for complex64. At most 1 ulp off in float32 on
 * the CPU. The gradient is 1 / (3 cbrt(a)^2), infinite at 0. */
KEEL_API int keel_cbrt(mlx_array *res, const mlx_array a, const mlx_stream s);
/* sin(pi a) / (pi a), and 1 at 0 (as numpy.sinc); 0 at infinity. Exactly 0 at other whole numbers.
 * Not for complex64. At most 1 ulp off in float32 on the CPU. */
KEEL_API int keel_sinc(mlx_array *res, const mlx_array a, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
