/* distributed.h - what the processes of a group do together.
 *
 * An empty group handle stands for the group that mlx_distributed_init gives. The operations are
 * lazy. All processes of the group evaluate the same operations of all ranks in the same order;
 * within one evaluation that is the order in which they were built. Sends and receipts between two
 * processes count for themselves. x has the same shape and dtype in all processes. In a group of
 * one the result of the operations of all ranks is x. The stream is that of what is computed for
 * them; they themselves are done in the group's own order.
 *
 * Where the input of a process fails, it takes part all the same, and the result fails in all
 * processes, with the error of the lowest rank that failed and its number. KEEL_EGROUP, of a value:
 * a process was lost, did not take part within KEEL_DIST_TIMEOUT seconds (600 unless the
 * environment says otherwise), or does something else; the group cannot be used any more, and all
 * its pending and later values fail. */
#ifndef MLX_DISTRIBUTED_H
#define MLX_DISTRIBUTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The arrays x of all processes, joined along the first axis; numbers are joined to an axis. */
KEEL_API int mlx_distributed_all_gather(mlx_array *res, const mlx_array x,
                                        const mlx_distributed_group group /* may be null */,
                                        const mlx_stream S);
/* The largest elements: NaN wins, -0.0 is below +0.0, complex numbers count by real part, then by
 * imaginary part. */
KEEL_API int mlx_distributed_all_max(mlx_array *res, const mlx_array x,
                                     const mlx_distributed_group group /* may be null */,
                                     const mlx_stream s);
/* The smallest elements, in the same way; NaN wins. */
KEEL_API int mlx_distributed_all_min(mlx_array *res, const mlx_array x,
                                     const mlx_distributed_group group /* may be null */,
                                     const mlx_stream s);
/* The sums. Integers wrap; the sum of bools is true where one is; 16-bit floats are summed in
 * float32 and rounded once. All processes get the same bits. */
KEEL_API int mlx_distributed_all_sum(mlx_array *res, const mlx_array x,
                                     const mlx_distributed_group group /* may be null */,
                                     const mlx_stream s);
/* An array of this shape and dtype from the process src. KEEL_EARG: there is no such rank, or the
 * group has one process. */
KEEL_API int mlx_distributed_recv(mlx_array *res, const int *shape, size_t shape_num,
                                  mlx_dtype dtype, int src,
                                  const mlx_distributed_group group /* may be null */,
                                  const mlx_stream s);
/* An array of the shape and dtype of x from the process src. */
KEEL_API int mlx_distributed_recv_like(mlx_array *res, const mlx_array x, int src,
                                       const mlx_distributed_group group /* may be null */,
                                       const mlx_stream s);
/* x, which is sent to the process dst when the result is evaluated. KEEL_EARG: there is no such
 * rank, or the group has one process. */
KEEL_API int mlx_distributed_send(mlx_array *res, const mlx_array x, int dst,
                                  const mlx_distributed_group group /* may be null */,
                                  const mlx_stream s);
/* Part `rank` of the sums, cut along the first axis. KEEL_ESHAPE: its extent is no multiple of the
 * number of processes. */
KEEL_API int mlx_distributed_sum_scatter(mlx_array *res, const mlx_array x,
                                         const mlx_distributed_group group /* may be null */,
                                         const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
