/* ops.h - operations that mlx/c/ops.h does not have. Their results are lazy arrays, run on every
 * device, take part in fusion, and have gradients.
 *
 * For each of them: *res is an empty handle, or a live one, which is overwritten; the caller frees
 * it. Operands are borrowed. s is the stream on which the operation runs. The result has the shape
 * of `a`. A float dtype is kept; integers and bool give float32. The functions return 0, or 1 with
 * an error raised (keel/error.h): KEEL_EARG for an empty handle, KEEL_EDTYPE for a dtype that is
 * not taken, KEEL_ENOMEM. Any thread may call them. */
#ifndef KEEL_OPS_H
#define KEEL_OPS_H

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The real cube root, also of negative numbers. Does not take complex64. The error is at most 1 ulp
 * in float32 on the CPU. The gradient is 1 / (3 cbrt(a)^2), which is infinite at 0. */
KEEL_API int keel_cbrt(mlx_array *res, const mlx_array a, const mlx_stream s);
/* sin(pi a) / (pi a), as numpy.sinc: 1 at 0, 0 at infinity, and exactly 0 at the other whole
 * numbers. Does not take complex64. The error is at most 1 ulp in float32 on the CPU. */
KEEL_API int keel_sinc(mlx_array *res, const mlx_array a, const mlx_stream s);
/* Each element without its fraction, rounded towards 0, as numpy.trunc; -0.5 gives -0. Integers and
 * bool are the result themselves. Does not take complex64. The gradient is 0. */
KEEL_API int keel_trunc(mlx_array *res, const mlx_array a, const mlx_stream s);
/* sqrt(a^2 + b^2), as numpy.hypot: no square overflows or underflows on the way, and with an
 * infinite operand the result is infinity, also next to NaN. a and b broadcast to one shape, which
 * the result has, and are promoted to a common dtype; integers and bool are computed in float32.
 * Does not take complex64 (KEEL_EDTYPE); KEEL_ESHAPE: the shapes do not broadcast. The error is at
 * most 1 ulp in float32 on the CPU. The gradient is a / r for a and b / r for b, where r is the
 * result, and 0 where r is 0. */
KEEL_API int keel_hypot(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* a * sigmoid(a) * b in one pass, the gate of SwiGLU layers (Shazeer, "GLU Variants Improve
 * Transformer", 2020). a and b broadcast to one shape, which the result has, and are promoted to a
 * common dtype; integers and bool are computed in float32. 16-bit floats are computed in float32
 * and rounded once. Does not take complex64 (KEEL_EDTYPE); KEEL_ESHAPE: the shapes do not
 * broadcast. a * sigmoid(a) is -0 at -infinity, its limit, and is rounded before b multiplies it:
 * the error is at most 1.5 ulp in float32 on the CPU where both are normal numbers. The gradient,
 * with s = sigmoid(a), is b s (1 + a (1 - s)) for a, whose limits it has at infinities, and a s
 * for b. */
KEEL_API int keel_silu_mul(mlx_array *res, const mlx_array a, const mlx_array b,
                           const mlx_stream s);
/* The logarithm of softmax along an axis, a - logsumexp(a), in one pass: (a - m) - log(sum of
 * exp(a - m)), where m is the largest element along the axis (of complex64 the largest real part).
 * 16-bit floats are computed in float32 and rounded once. axis may be negative; KEEL_EAXIS: `a` has
 * no such axis. An element far below the others keeps its distance, where the logarithm of softmax
 * is -infinity. Where m is infinite the result is a - m: NaN for the elements that equal m,
 * -infinity for the others; NaN makes all elements along the axis NaN. The gradient is
 * g - exp(r) sum(g), where r is the result. */
KEEL_API int keel_log_softmax(mlx_array *res, const mlx_array a, int axis, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
