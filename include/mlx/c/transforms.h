/* transforms.h - the evaluation of whole graphs of arrays, and functions made from functions:
 * gradients, derivatives, custom rules, checkpoints.
 *
 * A function is called with tracers, which behave as arrays and have the values of the arguments;
 * mlx_eval works on them, mlx_async_eval does not (KEEL_ETRACE). Arrays that the function finds
 * elsewhere are constants. Rules build lazy arrays, on the stream of the operation that they are
 * for; nothing is evaluated unless the function does so. An operation without a rule fails the call
 * with KEEL_EUNSUPPORTED and is named; docs/coverage.md lists these. Results can be transformed
 * again. All these functions may be called by any thread, and so may the closures they make. */
#ifndef MLX_TRANSFORMS_H
#define MLX_TRANSFORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/closure.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Submits everything that the outputs need to the streams, and returns; nothing runs on the calling
 * thread. Fails only when the handle of the vector is empty or nothing could be submitted; then no
 * array has changed. A failure of an operation is reported by the arrays that depend on it, when
 * these are read. */
KEEL_API int mlx_async_eval(const mlx_vector_array outputs);
/* Evaluates the outputs and waits for them. When several outputs fail, the error is that of the
 * first one in the vector, and it is reported after all outputs have settled; the other outputs can
 * be read. A vector without elements is allowed. */
KEEL_API int mlx_eval(const mlx_vector_array outputs);

/* *res_0: fun(primals). *res_1: the vector-Jacobian products, one for each primal, of its shape
 * and dtype: the sum over the outputs of cotangent times Jacobian, and zeros where no output
 * depends on the primal. cotangents has one array for each output, of its shape and dtype; those
 * for outputs that mlx_stop_gradient made may be left out, all of them, and are not looked at. For
 * a complex z the product is d/d re + i d/d im, as in MLX. KEEL_EDTYPE: a primal is neither a
 * float nor complex64, or a cotangent has another dtype than its output. KEEL_ESHAPE: another
 * shape. KEEL_EARG: another number of cotangents. KEEL_ECALLBACK: fun failed. Reverse mode:
 * Griewank and Walther, "Evaluating Derivatives", 2nd edition, chapter 3. */
KEEL_API int mlx_vjp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                     const mlx_vector_array primals, const mlx_vector_array cotangents);
/* *res_0: fun(primals). *res_1: the Jacobian-vector products, one for each output, of its shape and
 * dtype. tangents has one array for each primal, of its shape and dtype (KEEL_ESHAPE, KEEL_EDTYPE;
 * another number: KEEL_EARG). */
KEEL_API int mlx_jvp(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                     const mlx_vector_array primals, const mlx_vector_array tangents);
/* A closure that gives the results of fun, and the gradients of the first one, which must have
 * no axes (KEEL_ESHAPE), with respect to the arguments argnums[0], argnums[1], ...: each of the
 * shape and dtype of its argument, in the order of argnums. Further results are passed on.
 * KEEL_EARG: no number, a negative one; when it is applied, one that fun has no argument for or
 * that is given twice. KEEL_EDTYPE when it is applied: the argument or the result is no float or
 * complex array. */
KEEL_API int mlx_value_and_grad(mlx_closure_value_and_grad *res, const mlx_closure fun,
                                const int *argnums, size_t argnums_num);
/* A closure that computes what fun does, and forgets the values inside fun: the gradient computes
 * them again, from the operations that were recorded when fun was called (fun is not called again),
 * when the backward pass has come to it. It saves memory and costs about one more forward pass.
 * Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016. The gradient goes to the
 * arguments of the closure, not to arrays that fun finds elsewhere. */
KEEL_API int mlx_checkpoint(mlx_closure *res, const mlx_closure fun);
/* A closure that computes what fun does and has rules of its own. fun_vjp(primals, cotangents,
 * outputs) gives one gradient for each primal; fun_jvp(primals, tangents, argnums) gets the
 * tangents of the arguments argnums and gives one tangent for each output; fun_vmap(inputs, axes)
 * gets inputs with their lane axis (-1: none) and gives the outputs and their axes. An empty
 * handle leaves that rule out: the operations inside fun are used. KEEL_ECALLBACK, when the rule
 * is used: it gives another number of arrays, or another shape or dtype. */
KEEL_API int mlx_custom_function(mlx_closure *res, const mlx_closure fun,
                                 const mlx_closure_custom fun_vjp /* may be null */,
                                 const mlx_closure_custom_jvp fun_jvp /* may be null */,
                                 const mlx_closure_custom_vmap fun_vmap /* may be null */);
/* mlx_custom_function with fun_vjp alone, which must not be empty. */
KEEL_API int mlx_custom_vjp(mlx_closure *res, const mlx_closure fun,
                            const mlx_closure_custom fun_vjp);

#ifdef __cplusplus
}
#endif
#endif
