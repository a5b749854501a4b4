/* closure.h - functions of the caller as values, which the transforms take and return.
 *
 * The duties of a function: its inputs are borrowed and valid during the call. Each result handle
 * is empty at the start, and the function fills it (mlx_vector_array_set_data,
 * mlx_vector_array_set_value); the library then owns it. The function returns 0, or any other
 * number to fail; a result that is left empty is a failure too. It may call the API. It may be
 * called on any thread and more than once, but never during an evaluation. An error inside the
 * function reaches the handler at once; when the function then returns a non-zero number, a second
 * error (KEEL_ECALLBACK) says so.
 *
 * *_new_func_payload: fun gets payload as its last argument. dtor(payload) is called once, when the
 * last closure that shares the payload is freed; dtor may be NULL. When the call fails, the caller
 * still owns payload. A closure must not be freed while it runs. *_new returns an empty handle, and
 * so do the other functions that make a closure when fun is NULL (KEEL_EARG). *_set makes *cls a
 * handle on the closure of src. *_free accepts an empty handle and returns 0. */
#ifndef MLX_CLOSURE_H
#define MLX_CLOSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/map.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays to arrays ---- */
typedef struct mlx_closure_ {
    void *ctx;
} mlx_closure;

KEEL_API mlx_closure mlx_closure_new(void);
KEEL_API int mlx_closure_free(mlx_closure cls);
KEEL_API mlx_closure mlx_closure_new_func(int (*fun)(mlx_vector_array *, const mlx_vector_array));
KEEL_API mlx_closure mlx_closure_new_func_payload(int (*fun)(mlx_vector_array *,
                                                             const mlx_vector_array, void *),
                                                  void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_set(mlx_closure *cls, const mlx_closure src);
/* Calls the function now, on this thread, and puts its results into *res. KEEL_ECALLBACK: the
 * function fails or leaves a result empty. KEEL_EARG: an empty handle. */
KEEL_API int mlx_closure_apply(mlx_vector_array *res, mlx_closure cls,
                               const mlx_vector_array input);
/* Makes a closure of a function that takes one array and has one result. The closure takes and
 * returns lists of length 1 (another length of the input is KEEL_EARG). */
KEEL_API mlx_closure mlx_closure_new_unary(int (*fun)(mlx_array *, const mlx_array));

/* ---- arrays and named arrays to arrays ---- */
typedef struct mlx_closure_kwargs_ {
    void *ctx;
} mlx_closure_kwargs;

KEEL_API mlx_closure_kwargs mlx_closure_kwargs_new(void);
KEEL_API int mlx_closure_kwargs_free(mlx_closure_kwargs cls);
KEEL_API mlx_closure_kwargs mlx_closure_kwargs_new_func(int (*fun)(mlx_vector_array *,
                                                                   const mlx_vector_array,
                                                                   const mlx_map_string_to_array));
KEEL_API mlx_closure_kwargs mlx_closure_kwargs_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_map_string_to_array, void *),
    void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_kwargs_set(mlx_closure_kwargs *cls, const mlx_closure_kwargs src);
KEEL_API int mlx_closure_kwargs_apply(mlx_vector_array *res, mlx_closure_kwargs cls,
                                      const mlx_vector_array input_0,
                                      const mlx_map_string_to_array input_1);

/* ---- arrays to values and gradients ---- */
typedef struct mlx_closure_value_and_grad_ {
    void *ctx;
} mlx_closure_value_and_grad;

KEEL_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new(void);
KEEL_API int mlx_closure_value_and_grad_free(mlx_closure_value_and_grad cls);
KEEL_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func(
    int (*fun)(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array));
KEEL_API mlx_closure_value_and_grad mlx_closure_value_and_grad_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_array *, const mlx_vector_array, void *),
    void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_value_and_grad_set(mlx_closure_value_and_grad *cls,
                                            const mlx_closure_value_and_grad src);
/* Puts the values into *res_0 and the gradients into *res_1. */
KEEL_API int mlx_closure_value_and_grad_apply(mlx_vector_array *res_0, mlx_vector_array *res_1,
                                              mlx_closure_value_and_grad cls,
                                              const mlx_vector_array input);

/* ---- a custom vjp: from primals, cotangents and outputs to gradients ---- */
typedef struct mlx_closure_custom_ {
    void *ctx;
} mlx_closure_custom;

KEEL_API mlx_closure_custom mlx_closure_custom_new(void);
KEEL_API int mlx_closure_custom_free(mlx_closure_custom cls);
KEEL_API mlx_closure_custom mlx_closure_custom_new_func(int (*fun)(
    mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const mlx_vector_array));
KEEL_API mlx_closure_custom mlx_closure_custom_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array,
               const mlx_vector_array, void *),
    void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_custom_set(mlx_closure_custom *cls, const mlx_closure_custom src);
KEEL_API int mlx_closure_custom_apply(mlx_vector_array *res, mlx_closure_custom cls,
                                      const mlx_vector_array input_0,
                                      const mlx_vector_array input_1,
                                      const mlx_vector_array input_2);

/* ---- a custom jvp ----
 * The inputs are the primals, the tangents, and the numbers of the arguments to which the tangents
 * belong. The results are the tangents of the outputs. */
typedef struct mlx_closure_custom_jvp_ {
    void *ctx;
} mlx_closure_custom_jvp;

KEEL_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new(void);
KEEL_API int mlx_closure_custom_jvp_free(mlx_closure_custom_jvp cls);
KEEL_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new_func(int (*fun)(
    mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *, size_t _num));
KEEL_API mlx_closure_custom_jvp mlx_closure_custom_jvp_new_func_payload(
    int (*fun)(mlx_vector_array *, const mlx_vector_array, const mlx_vector_array, const int *,
               size_t _num, void *),
    void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_custom_jvp_set(mlx_closure_custom_jvp *cls,
                                        const mlx_closure_custom_jvp src);
/* input_2 may be NULL when input_2_num is 0. */
KEEL_API int mlx_closure_custom_jvp_apply(mlx_vector_array *res, mlx_closure_custom_jvp cls,
                                          const mlx_vector_array input_0,
                                          const mlx_vector_array input_1, const int *input_2,
                                          size_t input_2_num);

/* ---- a custom vmap: from inputs and their mapped axes to outputs and their mapped axes ---- */
typedef struct mlx_closure_custom_vmap_ {
    void *ctx;
} mlx_closure_custom_vmap;

KEEL_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new(void);
KEEL_API int mlx_closure_custom_vmap_free(mlx_closure_custom_vmap cls);
KEEL_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func(int (*fun)(
    mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *, size_t _num));
KEEL_API mlx_closure_custom_vmap mlx_closure_custom_vmap_new_func_payload(
    int (*fun)(mlx_vector_array *, mlx_vector_int *, const mlx_vector_array, const int *,
               size_t _num, void *),
    void *payload, void (*dtor)(void *));
KEEL_API int mlx_closure_custom_vmap_set(mlx_closure_custom_vmap *cls,
                                         const mlx_closure_custom_vmap src);
/* Puts the outputs into *res_0 and the mapped axis of each output into *res_1. input_1 may be NULL
 * when input_1_num is 0. */
KEEL_API int mlx_closure_custom_vmap_apply(mlx_vector_array *res_0, mlx_vector_int *res_1,
                                           mlx_closure_custom_vmap cls,
                                           const mlx_vector_array input_0, const int *input_1,
                                           size_t input_1_num);

#ifdef __cplusplus
}
#endif
#endif
