/* fft.c - mlx/c/fft.h. */
#include "api/ops/api_ops.h"

#include <mlx/c/fft.h>

#include "ops/fft.h"

_Static_assert((int)MLX_FFT_NORM_BACKWARD == KL_FFT_BACKWARD &&
                   (int)MLX_FFT_NORM_ORTHO == KL_FFT_ORTHO &&
                   (int)MLX_FFT_NORM_FORWARD == KL_FFT_ONLY_FORWARD,
               "one numbering");

static int fftn(const char *func, enum kl_fft_kind kind, mlx_array *res, mlx_array a, const int *n,
                size_t n_num, const int *axes, size_t axes_num, mlx_fft_norm norm, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err)
        kl_fftn(&out, in, kind, n, n_num, axes, axes_num, (enum kl_fft_norm)norm, on, &c.err);
    return kl_call_end(&c, res, out);
}

#define FFT(FUNC, KIND)                                                             \
    int FUNC(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, \
             const mlx_stream s) {                                                  \
        return fftn(__func__, KIND, res, a, &n, 1, &axis, 1, norm, s);              \
    }
#define FFTN(FUNC, KIND)                                                                     \
    int FUNC(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes, \
             size_t axes_num, mlx_fft_norm norm, const mlx_stream s) {                       \
        return fftn(__func__, KIND, res, a, n, n_num, axes, axes_num, norm, s);              \
    }
FFT(mlx_fft_fft, KL_FFT_FORWARD)
FFT(mlx_fft_ifft, KL_FFT_INVERSE)
FFT(mlx_fft_rfft, KL_FFT_FROM_REAL)
FFT(mlx_fft_irfft, KL_FFT_TO_REAL)
FFTN(mlx_fft_fft2, KL_FFT_FORWARD)
FFTN(mlx_fft_ifft2, KL_FFT_INVERSE)
FFTN(mlx_fft_rfft2, KL_FFT_FROM_REAL)
FFTN(mlx_fft_irfft2, KL_FFT_TO_REAL)
FFTN(mlx_fft_fftn, KL_FFT_FORWARD)
FFTN(mlx_fft_ifftn, KL_FFT_INVERSE)
FFTN(mlx_fft_rfftn, KL_FFT_FROM_REAL)
FFTN(mlx_fft_irfftn, KL_FFT_TO_REAL)

static int shift(const char *func, bool back, mlx_array *res, mlx_array a, const int *axes,
                 size_t axes_num, mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *in = kl_in(&c, a, "a"), *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) kl_fftshift(&out, in, axes, axes_num, back, on, &c.err);
    return kl_call_end(&c, res, out);
}
int mlx_fft_fftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                     const mlx_stream s) {
    return shift(__func__, false, res, a, axes, axes_num, s);
}
int mlx_fft_ifftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                      const mlx_stream s) {
    return shift(__func__, true, res, a, axes, axes_num, s);
}

typedef int frequencies_fn(struct kl_array **out, int n, double d, struct kl_stream *s,
                           struct kl_error **err);
static int frequencies(const char *func, frequencies_fn *build, mlx_array *res, int n, double d,
                       mlx_stream s) {
    struct kl_call c = kl_call_begin(func, res);
    struct kl_array *out = NULL;
    struct kl_stream *on = kl_in_stream(&c, s);
    if (!c.err) build(&out, n, d, on, &c.err);
    return kl_call_end(&c, res, out);
}
int mlx_fft_fftfreq(mlx_array *res, int n, double d, const mlx_stream s) {
    return frequencies(__func__, kl_fftfreq, res, n, d, s);
}
int mlx_fft_rfftfreq(mlx_array *res, int n, double d, const mlx_stream s) {
    return frequencies(__func__, kl_rfftfreq, res, n, d, s);
}
