/* version.h - the version of the library. */
#ifndef MLX_VERSION_H
#define MLX_VERSION_H

#include "keel/export.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Puts "0.32.0+keel.0.1.0" into *str_: the version of MLX whose API this is, a plus sign, "keel."
 * and the version of Keel. */
KEEL_API int mlx_version(mlx_string *str_);

#ifdef __cplusplus
}
#endif
#endif
