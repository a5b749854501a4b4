/* fast.h - attention, norms and rotary position embedding in one pass each, and kernels of your own, as source.
 *
 * A kernel is the body of a function in CUDA C++ (mlx_fast_cuda_kernel_*) or Metal
 * (mlx_fast_metal_kernel_*); the signature is written around it from names, inputs and a config.
 * There is no Metal device here: Metal's configs work, and its kernels say so. keel/kernel.h has
 * kernels that run on every GPU.
 *
 * In the body, for each input `x`: `const T *x` of its dtype; x_shape[i], x_strides[i] (in
 * elements), x_ndim, x_size. For each output `y`: `T *y`, row-major, and the same four. Template
 * arguments are types and constants of their names. dtypes are bool, uint8_t ... int64_t, __half,
 * float, double, __nv_bfloat16, float2 (complex64, also complex64_t). elem_to_loc(i, x_shape.data(),
 * x_strides.data(), x_ndim) is the place of the i-th element. Headers of the toolkit may be
 * included when its include folder is found (KEEL_CUDA_PATH names the toolkit); float16 and
 * bfloat16 need theirs, and so does cooperative_groups (also cg), which is included when the source
 * speaks of it. Products and sums are not contracted by the compiler; fmaf does that.
 *
 * The grid is given in threads, not groups. Groups are launched whole: when the grid is not a
 * multiple of the group, threads beyond it run too, and the kernel must leave them idle. Every
 * output without an initial value must be written completely. The kernel does not run when one of
 * its inputs has failed; its outputs then fail with that error. */
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
/* Attention: softmax(scale q k' + mask) v, with float32 accumulation; the scores are never held all at once on the CPU. queries (b, heads, n, d), keys (b, kv heads, m, d), values (b, kv heads, m, e); heads is a multiple of kv heads,
 * and each group of heads shares keys and values. The result is (b, heads, n, e), in the floating-point type in which the three meet. mask_mode: "" (or NULL) for none, unless mask_arr is
 * given; "causal": query i sees keys up to i + m - n; "array": mask_arr, which broadcasts to (b, heads, n, m): bool, true where a key is seen, or a type that promotes to the operands', added to
 * the scores. A query that sees no key by a bool or causal mask weighs all alike. sinks: one score per head of the queries (heads), of a key whose value is 0; may be empty. Errors: shapes that do not fit, types
 * that are not floating point, another mode, a mask and "causal" together. Source: Vaswani et al., "Attention Is All You Need"; Milakov and Gimelshein, "Online normalizer
 * calculation for softmax". */
KEEL_API int mlx_fast_scaled_dot_product_attention(mlx_array *res, const mlx_array queries,
                                                   const mlx_array keys, const mlx_array values,
                                                   float scale, const char *mask_mode,
                                                   const mlx_array mask_arr /* may be null */,
                                                   const mlx_array sinks /* may be null */,
                                                   const mlx_stream s);
/* ---- norms, over the last axis of x, which has at least one ----
 * weight and bias may be left out (an empty handle); they have one axis of that size. The result has x's shape and the
 * dtype in which all operands meet, a float. Sums of 16-bit floats are made in float32 and the result is
 * rounded once. Errors: other shapes; operands that meet in an integer type, or complex64. */
/* x / sqrt(mean(x^2) + eps) * weight: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019. */
KEEL_API int mlx_fast_rms_norm(mlx_array *res, const mlx_array x, const mlx_array weight, float eps,
                               const mlx_stream s);
/* (x - mean) / sqrt(var + eps) * weight + bias: Ba, Kiros and Hinton, Layer Normalization, 2016. */
KEEL_API int mlx_fast_layer_norm(mlx_array *res, const mlx_array x, const mlx_array weight,
                                 const mlx_array bias, float eps, const mlx_stream s);

/* ---- rotary position embedding: Su and others, RoFormer, 2021 ----
 * x has at least 3 axes: a batch, any others, positions, features. The first dims features (even, at most all) are taken
 * in pairs, (2k, 2k + 1) if traditional, else (k, k + dims / 2), and each pair is turned by
 * (t + offset) * scale * base^(-2k / dims) at position t; or with freqs, of shape (dims / 2), divided by freqs[k] instead of
 * the power. Exactly one of base and freqs is given. x is a float and keeps its dtype; angles are
 * computed in float64. */
KEEL_API int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional,
                           mlx_optional_float base, float scale, int offset, const mlx_array freqs,
                           const mlx_stream s);
/* offset: integers, 0-d, of shape (1), or one for each element of the batch. */
KEEL_API int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional,
                                   mlx_optional_float base, float scale, const mlx_array offset,
                                   const mlx_array freqs, const mlx_stream s);

/* ---- CUDA: what changes from call to call ---- */
typedef struct mlx_fast_cuda_kernel_config_ {
    void *ctx;
} mlx_fast_cuda_kernel_config;
typedef struct mlx_fast_cuda_kernel_ {
    void *ctx;
} mlx_fast_cuda_kernel;

/* Empty: no outputs, no grid. ctx is NULL, and an error raised, when out of memory. */
KEEL_API mlx_fast_cuda_kernel_config mlx_fast_cuda_kernel_config_new(void);
KEEL_API void mlx_fast_cuda_kernel_config_free(mlx_fast_cuda_kernel_config cls);
/* The next output, in the order of the kernel's output names: its shape (size axes; NULL when 0)
 * and dtype. Errors: negative extents, no dtype. */
KEEL_API int mlx_fast_cuda_kernel_config_add_output_arg(mlx_fast_cuda_kernel_config cls,
                                                        const int *shape, size_t size,
                                                        mlx_dtype dtype);
/* Threads of the whole launch along each axis, 1 or more (checked by apply). */
KEEL_API int mlx_fast_cuda_kernel_config_set_grid(mlx_fast_cuda_kernel_config cls, int grid1,
                                                  int grid2, int grid3);
/* Threads of a group (a block) along each axis, 1 or more (checked by apply). */
KEEL_API int mlx_fast_cuda_kernel_config_set_thread_group(mlx_fast_cuda_kernel_config cls,
                                                          int thread1, int thread2, int thread3);
/* Outputs are filled with this value, converted to their dtypes, before the kernel runs. */
KEEL_API int mlx_fast_cuda_kernel_config_set_init_value(mlx_fast_cuda_kernel_config cls,
                                                        float value);
/* apply prints the generated source to stdout. */
KEEL_API int mlx_fast_cuda_kernel_config_set_verbose(mlx_fast_cuda_kernel_config cls, bool verbose);
/* Template arguments: identifiers, each given once. */
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_dtype(mlx_fast_cuda_kernel_config cls,
                                                                const char *name, mlx_dtype dtype);
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_int(mlx_fast_cuda_kernel_config cls,
                                                              const char *name, int value);
KEEL_API int mlx_fast_cuda_kernel_config_add_template_arg_bool(mlx_fast_cuda_kernel_config cls,
                                                               const char *name, bool value);

/* ---- CUDA: kernels ---- */
/* The texts are copied. name and the names of arrays are identifiers; header (may be NULL) comes
 * before the function. ensure_row_contiguous: inputs that are not are copied first.
 * shared_memory: bytes of dynamic shared memory. Nothing is compiled yet. ctx is NULL, and an
 * error raised, on failure. */
KEEL_API mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new(
    const char *name, const mlx_vector_string input_names, const mlx_vector_string output_names,
    const char *source, const char *header, bool ensure_row_contiguous, int shared_memory);
/* Arrays that it will make keep what they need. */
KEEL_API void mlx_fast_cuda_kernel_free(mlx_fast_cuda_kernel cls);
/* outputs gets one lazy array per output. Fails at once when inputs, outputs, grid or group do not
 * fit the kernel, the grid's threads (whole groups) are over 2^63 - 1 (KEEL_ELIMIT), or s is not
 * the stream of a CUDA device (KEEL_EUNSUPPORTED). What the device or the compiler refuses fails
 * the arrays: KEEL_ECOMPILE quotes the compiler, whose line numbers are those of source, in a file
 * of the kernel's name. */
KEEL_API int mlx_fast_cuda_kernel_apply(mlx_vector_array *outputs, mlx_fast_cuda_kernel cls,
                                        const mlx_vector_array inputs,
                                        const mlx_fast_cuda_kernel_config config,
                                        const mlx_stream stream);

/* ---- Metal: configs as above ---- */
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

/* Always fails (KEEL_EUNSUPPORTED): there is no Metal device. ctx is NULL. */
KEEL_API mlx_fast_metal_kernel mlx_fast_metal_kernel_new(
    const char *name, const mlx_vector_string input_names, const mlx_vector_string output_names,
    const char *source, const char *header, bool ensure_row_contiguous, bool atomic_outputs);
KEEL_API void mlx_fast_metal_kernel_free(mlx_fast_metal_kernel cls);
/* Always fails (KEEL_EUNSUPPORTED). */
KEEL_API int mlx_fast_metal_kernel_apply(mlx_vector_array *outputs, mlx_fast_metal_kernel cls,
                                         const mlx_vector_array inputs,
                                         const mlx_fast_metal_kernel_config config,
                                         const mlx_stream stream);

#ifdef __cplusplus
}
#endif
#endif
