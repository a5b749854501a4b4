/* functions_fft.c - discrete Fourier transforms and their frequencies; keel/core/fft.py has the
 * transforms of windows, which are made of these */
#include "keel_python.h"

#include <string.h>

enum { MOST_AXES = 64 };

/* The norm of a slot; -1 with an exception for another name. */
static int norm_of(struct kp_call *c, int slot, mlx_fft_norm *norm) {
    static const char *const names[] = {"backward", "ortho", "forward"};
    static const mlx_fft_norm norms[] = {MLX_FFT_NORM_BACKWARD, MLX_FFT_NORM_ORTHO,
                                         MLX_FFT_NORM_FORWARD};
    for (int i = 0; i < 3; i++)
        if (c->v[slot].given && !strcmp(c->v[slot].str, names[i])) {
            *norm = norms[i];
            return 0;
        }
    PyErr_Format(PyExc_ValueError,
                 "%s(): norm is '%s', but must be 'backward', 'ortho' or 'forward'", c->row->name,
                 c->v[slot].given ? c->v[slot].str : "None");
    return -1;
}

typedef int transform(mlx_array *res, const mlx_array a, const int *n, size_t n_num,
                      const int *axes, size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* (a, n, axis, norm). Without n the library takes the extent of the axis, so that a function that
 * is compiled for any shapes reads none. */
static PyObject *along_one(struct kp_call *c, transform *f) {
    mlx_fft_norm norm;
    int axis = (int)c->v[2].i, n = (int)c->v[1].i;
    if (norm_of(c, 3, &norm)) return NULL;
    mlx_array out = mlx_array_new();
    return kp_done(
        f(&out, c->v[0].array, c->v[1].given ? &n : NULL, c->v[1].given, &axis, 1, norm, c->stream),
        out);
}

/* (a, s, axes, norm). Without axes all of them. */
static PyObject *along_several(struct kp_call *c, transform *f) {
    mlx_fft_norm norm;
    mlx_array a = c->v[0].array;
    int all[MOST_AXES], ndim = (int)mlx_array_ndim(a);
    const struct kp_value *s = &c->v[1], *axes = &c->v[2];
    if (norm_of(c, 3, &norm)) return NULL;
    if (!axes->given && ndim == 0) {
        PyErr_Format(PyExc_ValueError, "%s(): a is a number, but must have an axis", c->row->name);
        return NULL;
    }
    if (s->given && !axes->given) {
        PyErr_Format(PyExc_ValueError, "%s(): s is given, so axes must be given too", c->row->name);
        return NULL;
    }
    const int *at = axes->given ? axes->ints.at : all;
    size_t n = axes->given ? axes->ints.n : (size_t)ndim;
    for (int i = 0; i < ndim && i < MOST_AXES; i++) all[i] = i;
    if (s->given && s->ints.n != n) {
        PyErr_Format(PyExc_ValueError, "%s(): s has %zu numbers, but there are %zu axes",
                     c->row->name, s->ints.n, n);
        return NULL;
    }
    mlx_array out = mlx_array_new();
    if (axes->given && n == 0) return kp_done(mlx_array_set(&out, a), out);
    return kp_done(
        f(&out, a, s->given ? s->ints.at : NULL, s->given ? n : 0, at, n, norm, c->stream), out);
}

KP_FUNCTION(fft, fft) {
    return along_one(c, mlx_fft_fftn);
}
KP_FUNCTION(fft, ifft) {
    return along_one(c, mlx_fft_ifftn);
}
KP_FUNCTION(fft, rfft) {
    return along_one(c, mlx_fft_rfftn);
}
KP_FUNCTION(fft, irfft) {
    return along_one(c, mlx_fft_irfftn);
}
KP_FUNCTION(fft, fft2) {
    return along_several(c, mlx_fft_fftn);
}
KP_FUNCTION(fft, ifft2) {
    return along_several(c, mlx_fft_ifftn);
}
KP_FUNCTION(fft, rfft2) {
    return along_several(c, mlx_fft_rfftn);
}
KP_FUNCTION(fft, irfft2) {
    return along_several(c, mlx_fft_irfftn);
}
KP_FUNCTION(fft, fftn) {
    return along_several(c, mlx_fft_fftn);
}
KP_FUNCTION(fft, ifftn) {
    return along_several(c, mlx_fft_ifftn);
}
KP_FUNCTION(fft, rfftn) {
    return along_several(c, mlx_fft_rfftn);
}
KP_FUNCTION(fft, irfftn) {
    return along_several(c, mlx_fft_irfftn);
}

typedef int shift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num,
                  const mlx_stream s);

/* (a, axes): one axis, several, or without axes all of them. */
static PyObject *shifted(struct kp_call *c, shift *f) {
    mlx_array a = c->v[0].array, out = mlx_array_new();
    const struct kp_value *axes = &c->v[1];
    int all[MOST_AXES], ndim = (int)mlx_array_ndim(a);
    for (int i = 0; i < ndim && i < MOST_AXES; i++) all[i] = i;
    return kp_done(axes->given ? f(&out, a, axes->ints.at, axes->ints.n, c->stream)
                               : f(&out, a, all, (size_t)ndim, c->stream),
                   out);
}
KP_FUNCTION(fft, fftshift) {
    return shifted(c, mlx_fft_fftshift);
}
KP_FUNCTION(fft, ifftshift) {
    return shifted(c, mlx_fft_ifftshift);
}
