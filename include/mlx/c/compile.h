/* compile.h - functions that are traced once for each kind of arguments and replayed afterwards.
 * Compiled or not, a function computes the same bits; a replay saves the building, and does equal
 * operations once. No compiler is started: fusion happens when operations run. */
#ifndef MLX_COMPILE_H
#define MLX_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/closure.h"

#ifdef __cplusplus
extern "C" {
#endif

/* DISABLED: compiled closures call their function each time. NO_SIMPLIFY: equal operations are done
 * as often as they are written. NO_FUSE: the same as ENABLED, since fusion does not depend on
 * compilation and changes no bit. */
typedef enum mlx_compile_mode_ {
    MLX_COMPILE_MODE_DISABLED,
    MLX_COMPILE_MODE_NO_SIMPLIFY,
    MLX_COMPILE_MODE_NO_FUSE,
    MLX_COMPILE_MODE_ENABLED
} mlx_compile_mode;

/* A closure that does what fun does. Its first call with arguments of new dtypes and shapes (with
 * shapeless: of new dtypes and numbers of axes) traces fun with placeholders, which have no values:
 * evaluating what depends on them is KEEL_ETRACE. Later calls replay what was traced, on the
 * streams that it names; fun is not called. Arrays that fun finds elsewhere are constants of the
 * trace, and random draws without a key repeat. Each operation of a replay is lazy and has its own
 * outcome, as in plain code; indices are checked against the arguments of that replay. With
 * shapeless, shapes follow from the arguments of each call; an extent that fun reads
 * (mlx_array_dim, mlx_array_shape) is compared, and with another fun is traced anew. The closure
 * keeps fun alive and has a cache of its own; a trace that fails leaves nothing in it. Compiled
 * closures can be transformed, nested, and called by several threads at once. */
KEEL_API int mlx_compile(mlx_closure *res, const mlx_closure fun, bool shapeless);
/* The same with the cache of the number fun_id, which all functions of that number share, so they
 * must do the same for equal constants. fun_id 0: as mlx_compile. constants: numbers that stand for
 * everything, apart from the arguments, on which the function depends; NULL, 0 for nothing. */
KEEL_API int mlx_detail_compile(mlx_closure *res, const mlx_closure fun, uintptr_t fun_id,
                                bool shapeless, const uint64_t *constants, size_t constants_num);
/* Forgets everything that was traced. */
KEEL_API int mlx_detail_compile_clear_cache(void);
/* Forgets what was traced for functions of that number. */
KEEL_API int mlx_detail_compile_erase(uintptr_t fun_id);
/* MLX_COMPILE_MODE_DISABLED and MLX_COMPILE_MODE_ENABLED, for the whole process. */
KEEL_API int mlx_disable_compile(void);
KEEL_API int mlx_enable_compile(void);
/* KEEL_EARG: no such mode. */
KEEL_API int mlx_set_compile_mode(mlx_compile_mode mode);

#ifdef __cplusplus
}
#endif
#endif
