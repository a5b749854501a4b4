/* fast.h - attention, norms and rotary position embedding in one pass each, and kernels that the
 * caller writes.
 *
 * A kernel is the body of a function in CUDA C++ (mlx_fast_cuda_kernel_*) or Metal
 * (mlx_fast_metal_kernel_*). Keel writes the signature around it from the names, the inputs and a
 * config. Where there is no Metal device its configs work, and its kernels fail with
 * KEEL_EUNSUPPORTED. keel/kernel.h has kernels that run on every GPU.
 *
 * In the body, each input `x` is `const T *x` of its dtype, with x_shape[i], x_strides[i] (in
 * elements), x_ndim and x_size. Each output `y` is `T *y`, row-major, with the same four names.
 * Template arguments are types and constants under their names. The types of elements are bool,
 * uint8_t ... int64_t, __half, float, double, __nv_bfloat16, and float2 (complex64, also named
 * complex64_t). elem_to_loc(i, x_shape.data(), x_strides.data(), x_ndim) is the offset of the i-th
 * element. Headers of the toolkit may be included when its include folder is found (KEEL_CUDA_PATH
 * names the toolkit). float16 and bfloat16 need these headers; so does cooperative_groups (also
 * cg), which is included when the source uses the name. The compiler does not contract products and
 * sums; call fmaf for that.
 *
 * The grid is given in work-items, not in groups. Only whole groups are launched: when the grid is
 * not a multiple of the group, work-items outside of the grid run too, and the kernel must return
 * early for them. Every output without an initial value must be written completely. The kernel does
 * not run when one of its inputs has failed; its outputs then fail with the error of the input. */
#ifndef MLX_FAST_H
#define MLX_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attention ---- */
/* softmax(scale q k' + mask) v, accumulated in float32. On the CPU the scores are never all in
 * memory at once. Shapes: queries (b, heads, n, d), keys (b, kv heads, m, d), values (b, kv heads,
 * m, e). heads is a multiple of kv heads, and each group of heads shares keys and values. The
 * result is (b, heads, n, e), in the common floating-point type of the three.
 * mask_mode: "" (or NULL) for no mask, unless mask_arr is given; "causal": query i sees keys up to
 * i + m - n; "array": mask_arr, which broadcasts to (b, heads, n, m). A bool mask is true where a
 * key is seen; a mask of a type that promotes to the operands' type is added to the scores. A query
 * that sees no key by a bool or causal mask gives all keys the same weight. sinks (may be empty)
 * has one score per head of the queries (heads); each is the score of one more key whose value is
 * 0.
 * Errors: KEEL_ESHAPE for shapes that do not fit, KEEL_EDTYPE for types that are not floating
 * point, KEEL_EARG for another mode or for a mask together with "causal".
 * Source: Vaswani et al., "Attention Is All You Need"; Milakov and Gimelshein, "Online normalizer
 * calculation for softmax". */
KEEL_API int mlx_fast_scaled_dot_product_attention(mlx_array *res, const mlx_array queries,
                                                   const mlx_array keys, const mlx_array values,
                                                   float scale, const char *mask_mode,
                                                   const mlx_array mask_arr /* may be null */,
                                                   const mlx_array sinks /* may be null */,
                                                   const mlx_stream s);
/* ---- norms over the last axis of x ----
 * x has at least one axis. weight and bias have one axis of the size of the last axis of x; each
 * may be left out (an empty handle). The result has the shape of x and the dtype in which all
 * operands meet, which must be a float. Sums of 16-bit floats are made in float32, and the result
 * is rounded once. Errors: other shapes (KEEL_ESHAPE); a common dtype that is an integer type or
 * complex64 (KEEL_EDTYPE). */
/* x / sqrt(mean(x^2) + eps) * weight: Zhang and Sennrich, Root Mean Square Layer Normalization,
 * 2019. */
KEEL_API int mlx_fast_rms_norm(mlx_array *res, const mlx_array x, const mlx_array weight, float eps,
                               const mlx_stream s);
/* (x - mean) / sqrt(var + eps) * weight + bias: Ba, Kiros and Hinton, Layer Normalization, 2016. */
KEEL_API int mlx_fast_layer_norm(mlx_array *res, const mlx_array x, const mlx_array weight,
                                 const mlx_array bias, float eps, const mlx_stream s);

/* ---- rotary position embedding: Su and others, RoFormer, 2021 ----
 * x has at least 3 axes: a batch, any others, positions, features. The first dims features (an even
 * number, at most all) are taken in pairs, (2k, 2k + 1) if traditional, else (k, k + dims / 2). At
 * position t each pair is rotated by the angle (t + offset) * scale * base^(-2k / dims). With
 * freqs, of shape (dims / 2), the angle is divided by freqs[k] instead of multiplied by the power
 * of base. Exactly one of base and freqs is given. x is a float and keeps its dtype; angles are
 * computed in float64. */
KEEL_API int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional,
                           mlx_optional_float base, float scale, int offset, const mlx_array freqs,
                           const mlx_stream s);
/* offset: integers, 0-d, of shape (1), or one for each element of the batch. */
KEEL_API int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional,
                                   mlx_optional_float base, float scale, const mlx_array offset,
                                   const mlx_array freqs, const mlx_stream s);

/* ---- CUDA: the configuration of one call ---- */
typedef struct mlx_fast_cuda_kernel_config_ {
    void *ctx;
} mlx_fast_cuda_kernel_config;
typedef struct mlx_fast_cuda_kernel_ {
    void *ctx;
} mlx_fast_cuda_kernel;

/* Makes a config without outputs and without a grid. ctx is NULL, and KEEL_ENOMEM raised, when out
 * of memory. */
KEEL_API mlx_fast_cuda_kernel_config mlx_fast_cuda_kernel_config_new(void);
KEEL_API void mlx_fast_cuda_kernel_config_free(mlx_fast_cuda_kernel_config cls);
/* Adds the next output, in the order of the kernel's output names: its shape (size axes; shape may
 * be NULL when size is 0) and dtype. Errors: negative extents, a value that is not a dtype. */
KEEL_API int mlx_fast_cuda_kernel_config_add_output_arg(mlx_fast_cuda_kernel_config cls,
                                                        const int *shape, size_t size,
                                                        mlx_dtype dtype);
/* The work-items of the whole launch along each axis, 1 or more (checked by apply). */
KEEL_API int mlx_fast_cuda_kernel_config_set_grid(mlx_fast_cuda_kernel_config cls, int grid1,
                                                  int grid2, int grid3);
/* The work-items of a group (a block of CUDA) along each axis, 1 or more (checked by apply). */
KEEL_API int mlx_fast_cuda_kernel_config_set_thread_group(mlx_fast_cuda_kernel_config cls,
                                                          int thread1, int thread2, int thread3);
/* Outputs are filled with this value, converted to their dtypes, before the kernel runs. */
KEEL_API int mlx_fast_cuda_kernel_config_set_init_value(mlx_fast_cuda_kernel_config cls,
                                                        float value);
/* Makes apply print the generated source to stdout. */
KEEL_API int mlx_fast_cuda_kernel_config_set_verbose(mlx_fast_cuda_kernel_config cls, bool verbose);
/* Adds a template argument. Its name is an identifier; each name is given once. */
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_dtype(mlx_fast_cuda_kernel_config cls,
                                                                const char *name, mlx_dtype dtype);
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_int(mlx_fast_cuda_kernel_config cls,
                                                              const char *name, int value);
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_bool(mlx_fast_cuda_kernel_config cls,
                                                               const char *name, bool value);

/* ---- CUDA: kernels ---- */
/* Makes a kernel. The texts are copied. name and the names of arrays are identifiers. header (may
 * be NULL) is put before the function. With ensure_row_contiguous, inputs that are not row-major
 * are copied first. shared_memory is the number of bytes of dynamic shared memory. Nothing is
 * compiled yet. On failure ctx is NULL, and an error is raised. */
KEEL_API mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new(
    const char *name, const mlx_vector_string input_names, const mlx_vector_string output_names,
    const char *source, const char *header, bool ensure_row_contiguous, int shared_memory);
/* Frees the kernel. Arrays that it made keep what they need, also when they are not evaluated
 * yet. */
KEEL_API void mlx_fast_cuda_kernel_free(mlx_fast_cuda_kernel cls);
/* Puts one lazy array per output into *outputs. Fails at once when inputs, outputs, grid or group
 * do not fit the kernel, when the whole groups of the grid have more than 2^63 - 1 work-items
 * (KEEL_ELIMIT), or when s is not the stream of a CUDA device (KEEL_EUNSUPPORTED). If the device or
 * the compiler rejects the kernel, the arrays fail: KEEL_ECOMPILE quotes the compiler, whose line
 * numbers are those of source, in a file that has the kernel's name. */
KEEL_API int mlx_fast_cuda_kernel_apply(mlx_vector_array *outputs, mlx_fast_cuda_kernel cls,
                                        const mlx_vector_array inputs,
                                        const mlx_fast_cuda_kernel_config config,
                                        const mlx_stream stream);

/* ---- Metal: configs, as for CUDA ---- */
typedef struct mlx_fast_metal_kernel_config_ {
    void *ctx;
} mlx_fast_metal_kernel_config;
typedef struct mlx_fast_metal_kernel_ {
    void *ctx;
} mlx_fast_metal_kernel;

KEEL_API mlx_fast_metal_kernel_config mlx_fast_metal_kernel_config_new(void);
KEEL_API void mlx_fast_metal_kernel_config_free(mlx_fast_metal_kernel_config cls);
KEEL_API int mlx_fast_metal_kernel_config_add_output_arg(mlx_fast_metal_kernel_config cls,
                                                         const int *shape, size_t size,
                                                         mlx_dtype dtype);
KEEL_API int mlx_fast_metal_kernel_config_set_grid(mlx_fast_metal_kernel_config cls, int grid1,
                                                   int grid2, int grid3);
KEEL_API int mlx_fast_metal_kernel_config_set_thread_group(mlx_fast_metal_kernel_config cls,
                                                           int thread1, int thread2, int thread3);
KEEL_API int mlx_fast_metal_kernel_config_set_init_value(mlx_fast_metal_kernel_config cls,
                                                         float value);
KEEL_API int mlx_fast_metal_kernel_config_set_verbose(mlx_fast_metal_kernel_config cls,
                                                      bool verbose);
KEEL_API int mlx_fast_metal_kernel_config_add_template_arg_dtype(mlx_fast_metal_kernel_config cls,
                                                                 const char *name, mlx_dtype dtype);
KEEL_API int mlx_fast_metal_kernel_config_add_template_arg_int(mlx_fast_metal_kernel_config cls,
                                                               const char *name, int value);
KEEL_API int mlx_fast_metal_kernel_config_add_template_arg_bool(mlx_fast_metal_kernel_config cls,
                                                                const char *name, bool value);

/* As for CUDA, in language 3.1. The body knows arrays by their names (`device const T *`; an
 * input without axes is a reference), their _shape, _strides, _ndim and _size, template arguments,
 * elem_to_loc, and the attributes of Metal that it names, as thread_position_in_grid. Threads
 * outside the grid return first: where the size of groups does not divide the grid, use no
 * barrier. With atomic_outputs, outputs are `device atomic<T> *`. Fails where there is no Metal
 * (KEEL_EUNSUPPORTED): ctx is NULL. */
KEEL_API mlx_fast_metal_kernel mlx_fast_metal_kernel_new(
    const char *name, const mlx_vector_string input_names, const mlx_vector_string output_names,
    const char *source, const char *header, bool ensure_row_contiguous, bool atomic_outputs);
KEEL_API void mlx_fast_metal_kernel_free(mlx_fast_metal_kernel cls);
/* As for CUDA; fails where there is no Metal (KEEL_EUNSUPPORTED). */
KEEL_API int mlx_fast_metal_kernel_apply(mlx_vector_array *outputs, mlx_fast_metal_kernel cls,
                                         const mlx_vector_array inputs,
                                         const mlx_fast_metal_kernel_config config,
                                         const mlx_stream stream);

#ifdef __cplusplus
}
#endif
#endif
