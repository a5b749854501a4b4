/* fft.h - discrete Fourier transforms.
 *
 * The transform of n numbers x is y[k] = sum over j of x[j] exp(-2 pi i j k / n); the inverse has
 * exp(2 pi i j k / n). The norm says which sums are divided: BACKWARD the inverse by n, ORTHO both
 * by sqrt(n), FORWARD the transform by n; n is the product of all lengths where there are several
 * axes.
 *
 * Lengths are any numbers from 1 on. Functions with one axis take its length n; those with several
 * take one n for each of the axes, in their order; axes are distinct and may be negative. Along
 * each axis a is first cut to its length, or zeros are put after it. n_num 0 takes all elements
 * of each axis (irfft: 2 (m - 1) numbers from m elements). Without axes the result is a
 * itself. Functions that end in 2 or n are the same: they take any number of axes.
 *
 * Results are complex64, of irfft float32. float64 is computed in double and rounded once; other
 * real numbers are converted to float32. Transforms run on a stream of the CPU. Errors: KEEL_EARG
 * for a length below 1, for lists of different lengths and an unknown norm, KEEL_EAXIS for an axis
 * that a does not have or that is given twice, KEEL_EUNSUPPORTED for a stream of another device,
 * KEEL_ENOMEM. */
#ifndef MLX_FFT_H
#define MLX_FFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "keel/export.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mlx_fft_norm_ {
    MLX_FFT_NORM_BACKWARD,
    MLX_FFT_NORM_ORTHO,
    MLX_FFT_NORM_FORWARD
} mlx_fft_norm;

/* ---- complex numbers ---- */
KEEL_API int mlx_fft_fft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm,
                         const mlx_stream s);
KEEL_API int mlx_fft_fft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                          const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);
KEEL_API int mlx_fft_fftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                          const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);
/* The inverse. */
KEEL_API int mlx_fft_ifft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm,
                          const mlx_stream s);
KEEL_API int mlx_fft_ifft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                           const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);
KEEL_API int mlx_fft_ifftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                           const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* ---- real numbers ---- */
/* Results 0 to n / 2 along the last of the axes. The others follow from them: result n - k is the
 * conjugate of result k. Of complex a the real parts are taken. */
KEEL_API int mlx_fft_rfft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm,
                          const mlx_stream s);
KEEL_API int mlx_fft_rfft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                           const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);
KEEL_API int mlx_fft_rfftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                           const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);
/* The inverse, float32: n counts the real numbers, so along the last of the axes elements 0 to
 * n / 2 of a are taken. The imaginary parts of element 0 and, if n is even, of element n / 2 count
 * as 0. */
KEEL_API int mlx_fft_irfft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm,
                           const mlx_stream s);
KEEL_API int mlx_fft_irfft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                            const int *axes, size_t axes_num, mlx_fft_norm norm,
                            const mlx_stream s);
KEEL_API int mlx_fft_irfftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                            const int *axes, size_t axes_num, mlx_fft_norm norm,
                            const mlx_stream s);

/* ---- order and frequencies ---- */
/* a with element 0 of each of the axes moved to place n / 2, n being its size; ifftshift moves it
 * back. Any dtype, on any device; an axis that is given twice is moved twice. */
KEEL_API int mlx_fft_fftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                              const mlx_stream s);
KEEL_API int mlx_fft_ifftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                               const mlx_stream s);
/* The n frequencies of the results of fft, in float32: 0, 1, ..., then -n / 2 (rounded towards 0),
 * ..., -1, each divided by n d. d is the distance between samples. KEEL_EARG: n is below 1; d is 0
 * or not finite. */
KEEL_API int mlx_fft_fftfreq(mlx_array *res, int n, double d, const mlx_stream s);
/* The same of the results of rfft: 0, 1, ..., n / 2, each divided by n d. */
KEEL_API int mlx_fft_rfftfreq(mlx_array *res, int n, double d, const mlx_stream s);

#ifdef __cplusplus
}
#endif
#endif
