/* distributed_group.h - groups of processes that work together.
 *
 * The processes are started by a launcher of MPI (mpirun, mpiexec), and docs/distributed.md says
 * how. A rank is the number of a process in its group. Values move through a library that is loaded
 * when it is needed; the only one so far is MPI, as "mpi": Open MPI, or one with MPICH's binary
 * interface. "nccl", "ring" and "jaccl" are names of backends too, and are not available. */
#ifndef MLX_DISTRIBUTED_GROUP_H
#define MLX_DISTRIBUTED_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mlx_distributed_group_ {
    void *ctx;
} mlx_distributed_group;

/* An empty handle. */
KEEL_API mlx_distributed_group mlx_distributed_group_new(void);
/* Operations that were built with the group go on. */
KEEL_API int mlx_distributed_group_free(mlx_distributed_group group);
/* Puts the group of all processes into *res. It is made by the first call, at which all processes
 * wait for each other. bk names a backend; NULL or "any": one that works. Where nothing says that
 * several processes were started, it is a group of one, and with `strict` an error unless the
 * backend could be used. KEEL_EGROUP: no backend can join the processes that were started; this is
 * an error with and without strict. KEEL_EARG: no such name, or a variable of the environment makes
 * no sense. */
KEEL_API int mlx_distributed_init(mlx_distributed_group *res, bool strict,
                                  const char *bk /* may be null */);
/* The number of this process in the group. An empty handle reports an error and gives 0. */
KEEL_API int mlx_distributed_group_rank(mlx_distributed_group group);
/* The number of processes in the group. An empty handle reports an error and gives 0. */
KEEL_API int mlx_distributed_group_size(mlx_distributed_group group);
/* Puts a group into *res of the processes that give the same color, in the order of their keys,
 * then of their ranks; a negative key stands for the rank. All processes of the group call it, and
 * wait for each other. KEEL_EARG: color is negative; KEEL_EGROUP: a process did not call it within
 * KEEL_DIST_TIMEOUT seconds, or is lost. */
KEEL_API int mlx_distributed_group_split(mlx_distributed_group *res, mlx_distributed_group group,
                                         int color, int key);
/* Whether a backend can be used; NULL or "any": whether one of them can. */
KEEL_API bool mlx_distributed_is_available(const char *bk /* may be null */);

#ifdef __cplusplus
}
#endif

#endif
