/* fft.h - builders of Fourier transforms; the rules of ops.h hold. */
#pragma once
#include "base/op/op_params.h"
#include "graph/array.h"

/* By what a transform and its inverse are divided: the inverse by the number of elements, both by
 * its root, the transform by the number of elements. The values of mlx_fft_norm. */
enum kl_fft_norm { KL_FFT_BACKWARD, KL_FFT_ORTHO, KL_FFT_ONLY_FORWARD };

/* The transform of a along the axes, which are distinct; n[k] is the extent on the real side along
 * axes[k]: a is cut, or has zeros put after it; n_num 0: nothing is cut or added, and for TO_REAL
 * the last n is even. Without axes a itself. Integers, bool and 16-bit
 * floats are converted to float32, and complex numbers to their real parts for FROM_REAL. KL_EARG:
 * n below 1, lists of two lengths. */
int kl_fftn(struct kl_array **out, struct kl_array *a, enum kl_fft_kind kind, const int *n,
            size_t n_num, const int *axes, size_t axes_num, enum kl_fft_norm norm,
            struct kl_stream *s, struct kl_error **err);
/* Element 0 of each of the axes moves to the middle, or, back, from the middle to 0. */
int kl_fftshift(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool back, struct kl_stream *s, struct kl_error **err);
/* The frequencies of the n results, or of the n / 2 + 1 of FROM_REAL, in cycles per unit of d, the
 * distance of samples; float32. KL_EARG: n below 1; d is 0 or not finite. */
int kl_fftfreq(struct kl_array **out, int n, double d, struct kl_stream *s, struct kl_error **err);
int kl_rfftfreq(struct kl_array **out, int n, double d, struct kl_stream *s, struct kl_error **err);
