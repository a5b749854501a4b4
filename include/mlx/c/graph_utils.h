/* graph_utils.h - graphs that are not evaluated yet, as text and for Graphviz. */
#ifndef MLX_GRAPH_UTILS_H
#define MLX_GRAPH_UTILS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names for arrays in pictures. A namer is not for several threads at once. */
typedef struct mlx_node_namer_ {
    void *ctx;
} mlx_node_namer;
KEEL_API mlx_node_namer mlx_node_namer_new(void); /* empty when out of memory */
KEEL_API int mlx_node_namer_free(mlx_node_namer namer);
/* Copies the name; an earlier one is replaced. The namer keeps the array alive. KEEL_EARG: an empty
 * handle, or name is NULL. */
KEEL_API int mlx_node_namer_set_name(mlx_node_namer namer, const mlx_array arr, const char *name);
/* *name: the name that was set, or the next of A, B, ..., Z, AA, ... that was not. The text belongs
 * to the namer and is valid until it is replaced or the namer is freed. */
KEEL_API int mlx_node_namer_get_name(const char **name, mlx_node_namer namer, const mlx_array arr);
/* Writes the operations from which the outputs are made, as a digraph of Graphviz: boxes are
 * operations, named as MLX names them, the others arrays. Arrays that are evaluated already are
 * inputs. namer may be empty. KEEL_EARG: os is NULL. KEEL_EFILE: os does not take it. */
KEEL_API int mlx_export_to_dot(FILE *os, const mlx_node_namer namer,
                               const mlx_vector_array outputs);
/* The same, one operation a line, as "C = add(A, B)  float32 (2,3)". */
KEEL_API int mlx_print_graph(FILE *os, const mlx_node_namer namer, const mlx_vector_array outputs);

#ifdef __cplusplus
}
#endif
#endif
