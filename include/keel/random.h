/* random.h - the random state of the calling thread as an array, so that a compiled function can
 * take it as an argument and give it back as a result: draws without a key then differ from call to
 * call.
 *
 *     int f(mlx_vector_array *res, const mlx_vector_array in) {    compiled; in: {state, x}
 *         keel_random_set_state(in[0]);                            until the trace ends
 *         ... draws without a key ...
 *         keel_random_get_state(&state);                           the last result
 *     }
 *
 * MLX's samplers do this by mx.compile(inputs=mx.random.state, outputs=mx.random.state). */
#ifndef KEEL_RANDOM_H
#define KEEL_RANDOM_H

#include "keel/export.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *res: the state, a uint32 array of shape (2,): the key from which the next draw without a key
 * splits its own. Inside a function that is traced, and that has set the state to what depends on
 * its arguments, it depends on them too. */
KEEL_API int keel_random_get_state(mlx_array *res);
/* The state of the calling thread from now on; other threads keep theirs. A state that is not
 * evaluated yet stays lazy: draws split it on the stream they run on, and fail with its error if it
 * has one. A state that depends on the arguments of a function that is traced lasts until the trace
 * ends; then the thread has its state from before. mlx_random_seed replaces any state. KEEL_EARG:
 * an empty handle; KEEL_EDTYPE, KEEL_ESHAPE: not uint32, or not of shape (2,). The state is then as
 * it was. */
KEEL_API int keel_random_set_state(const mlx_array state);

#ifdef __cplusplus
}
#endif
#endif
