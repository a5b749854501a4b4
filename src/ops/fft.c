/* fft.c - discrete Fourier transforms, with their rules, and what goes with them. */
#include "ops/fft.h"

#include <math.h>

#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/params.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

/* ---- the operation ---- */
static bool is_real_kind(enum kl_fft_kind kind) {
    return kind == KL_FFT_FROM_REAL || kind == KL_FFT_TO_REAL;
}

/* a has the extents and a dtype that the operation takes; the axes are checked. */
static int transform(struct kl_array **out, struct kl_array *a, struct kl_fft_buf *p,
                     struct kl_stream *s, struct kl_error **err) {
    struct kl_shape shape = kl_shape_of(a);
    const int last = p->axes[p->n_axes - 1];
    if (p->kind == KL_FFT_FROM_REAL) shape.dims[last] = shape.dims[last] / 2 + 1;
    if (p->kind == KL_FFT_TO_REAL) shape.dims[last] = p->n;
    return kl_array_op1(out,
                        &(struct kl_operation){.op = KL_OP_FFT,
                                               .stream = s,
                                               .params = p,
                                               .params_bytes = kl_fft_params_bytes(p),
                                               .in = &a,
                                               .n_in = 1},
                        p->kind == KL_FFT_TO_REAL ? KL_F32 : KL_C64, shape.ndim, shape.dims, err);
}

/* The dtype in which a is given to the operation. */
static enum kl_dtype taken_as(const struct kl_array *a, enum kl_fft_kind kind) {
    if (a->t.dtype == KL_F64) return KL_F64;
    return a->t.dtype == KL_C64 && kind != KL_FFT_FROM_REAL ? KL_C64 : KL_F32;
}

/* a cut, or with zeros after it, to the given extents along the axes. */
static struct kl_array *fitted(struct kl_terms *t, struct kl_array *a, const int *extent,
                               const int *axes, int n) {
    struct kl_shape cut = kl_shape_of(a);
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM], low[KL_MAX_NDIM] = {0}, high[KL_MAX_NDIM];
    bool cuts = false, pads = false;
    for (int i = 0; i < cut.ndim; i++) step[i] = 1;
    for (int k = 0; k < n; k++) {
        int *dim = &cut.dims[axes[k]];
        high[k] = extent[k] > *dim ? extent[k] - *dim : 0;
        pads |= high[k] > 0;
        cuts |= extent[k] < *dim;
        if (extent[k] < *dim) *dim = extent[k];
    }
    if (cuts) a = KL_TERM(t, kl_slice_to(&t->made, a, start, step, cut.dims, t->err));
    if (!pads || t->rc) return a;
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)a->t.dtype);
    return KL_TERM(t, kl_pad(&t->made, a, axes, (size_t)n, low, (size_t)n, high, (size_t)n, zero,
                             "constant", t->s, t->err));
}

int kl_fftn(struct kl_array **out, struct kl_array *a, enum kl_fft_kind kind, const int *n,
            size_t n_num, const int *axes, size_t axes_num, enum kl_fft_norm norm,
            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FFTN, a, n, n_num, axes, axes_num, (int)kind, (int)norm);
    struct kl_fft_buf p = {.kind = kind, .scale = 1};
    struct kl_array *made;
    int extent[KL_MAX_NDIM];
    double elements = 1;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_list(n, n_num, "n", err));
    if (n_num == 0) n = NULL; /* a list of a deferred call is never NULL */
    if (n && n_num != axes_num)
        return kl_fail(err, KL_EARG, "n has %zu entries and axes has %zu; each axis has its n",
                       n_num, axes_num);
    KL_TRY(kl_check_axes(p.axes, axes, axes_num, a->t.ndim, err));
    KL_TRY(kl_check_stream(s, err));
    if ((unsigned)kind > KL_FFT_TO_REAL || (unsigned)norm > KL_FFT_ONLY_FORWARD)
        return kl_fail(err, KL_EARG, "%d is no norm of a transform", (int)norm);
    p.n_axes = (int)axes_num;
    for (int k = 0; k < p.n_axes; k++) {
        extent[k] = n ? n[k] : a->t.dims[p.axes[k]];
        if (!n && kind == KL_FFT_TO_REAL && k == p.n_axes - 1) extent[k] = 2 * (extent[k] - 1);
        if (extent[k] < 1)
            return kl_fail(err, KL_EARG, "n of axis %d is %d; it is at least 1", p.axes[k],
                           extent[k]);
        elements *= extent[k];
    }
    if (p.n_axes == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    const bool inverse = kind == KL_FFT_INVERSE || kind == KL_FFT_TO_REAL;
    if (norm == KL_FFT_ORTHO) p.scale = 1 / sqrt(elements);
    if (norm == (inverse ? KL_FFT_BACKWARD : KL_FFT_ONLY_FORWARD)) p.scale = 1 / elements;
    if (is_real_kind(kind)) p.n = extent[p.n_axes - 1];
    if (kind == KL_FFT_TO_REAL) extent[p.n_axes - 1] = p.n / 2 + 1;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = kl_term_cast(&t, a, taken_as(a, kind));
    if (!t.rc) x = fitted(&t, x, extent, p.axes, p.n_axes);
    x = KL_TERM(&t, transform(&t.made, x, &p, s, err));
    const int rc = kl_terms_end(&t, x, &made);
    if (!rc) *out = made;
    return rc;
}

/* ---- rules ---- */
/* The weights of bins 0 to n / 2 along the last axis of p: `edge` for bin 0 and, of even n, bin n /
 * 2, which stand for one of the n bins; `inner` for the others, which stand for two. */
static struct kl_array *weighted(struct kl_terms *t, struct kl_array *a,
                                 const struct kl_fft_params *p, double edge, double inner) {
    int dims[KL_MAX_NDIM];
    if (t->rc) return NULL;
    const int axis = p->axes[p->n_axes - 1], bins = p->n / 2 + 1;
    for (int i = 0; i < a->t.ndim; i++) dims[i] = i == axis ? bins : 1;
    struct kl_array *bin = KL_TERM(t, kl_arange(&t->made, 0, bins, 1, KL_I32, t->s, t->err));
    struct kl_array *is_edge = kl_term2(t, kl_equal, bin, kl_term_number(t, 0, KL_I32));
    if (p->n % 2 == 0)
        is_edge = kl_term2(t, kl_logical_or, is_edge,
                           kl_term2(t, kl_equal, bin, kl_term_number(t, p->n / 2, KL_I32)));
    struct kl_array *weight = kl_term_where(t, is_edge, kl_term_number(t, edge, KL_F32),
                                            kl_term_number(t, inner, KL_F32));
    weight = KL_TERM(t, kl_reshape_to(&t->made, weight, t->rc ? 0 : a->t.ndim, dims, t->s, t->err));
    return kl_term2(t, kl_multiply, a, weight);
}

/* The adjoint: the conjugate transposed matrix, with the same scale. Of a transform from real
 * numbers it is one to real numbers in which each bin counts once, and the other way round; where
 * the operand is real, the gradient is the real part. */
int kl_vjp_fft(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    static const enum kl_fft_kind adjoint[] = {[KL_FFT_FORWARD] = KL_FFT_INVERSE,
                                               [KL_FFT_INVERSE] = KL_FFT_FORWARD,
                                               [KL_FFT_FROM_REAL] = KL_FFT_TO_REAL,
                                               [KL_FFT_TO_REAL] = KL_FFT_FROM_REAL};
    const struct kl_fft_params *p = v->params;
    struct kl_fft_buf q = {.scale = p->scale, .kind = adjoint[p->kind], .n = p->n};
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0];
    if (!v->wanted[0]) return KL_OK;
    q.n_axes = p->n_axes;
    for (int k = 0; k < p->n_axes; k++) q.axes[k] = p->axes[k];
    if (p->kind == KL_FFT_FROM_REAL) g = weighted(&t, g, p, 1, 0.5);
    g = KL_TERM(&t, transform(&t.made, g, &q, v->s, err));
    if (p->kind == KL_FFT_TO_REAL) g = weighted(&t, g, p, 1, 2);
    if (v->in[0]->t.dtype != KL_C64 && p->kind != KL_FFT_FROM_REAL) g = kl_term(&t, kl_real, g);
    return kl_terms_end(&t, kl_term_cast(&t, g, (enum kl_dtype)v->in[0]->t.dtype), grad);
}

int kl_rebuild_fft(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_fft_buf p;
    struct kl_array *a = b->in[0];
    int n;
    KL_TRY(kl_build_params_list(b, &p, offsetof(struct kl_fft_buf, axes), sizeof *p.axes,
                                KL_MAX_NDIM, &n, err));
    KL_TRY(kl_build_count(p.n_axes, n, "axes", err));
    KL_TRY(kl_build_axes(p.axes, n, a->t.ndim, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (n == 0 || (unsigned)p.kind > KL_FFT_TO_REAL)
        return kl_fail(err, KL_EARG, "a transform of kind %d along %d axes", (int)p.kind, n);
    if (taken_as(a, p.kind) != (enum kl_dtype)a->t.dtype)
        return kl_fail(err, KL_EDTYPE, "an array of %s; floats and complex64 are transformed",
                       kl_dtype_name((enum kl_dtype)a->t.dtype));
    for (int k = 0; k < n; k++)
        if (a->t.dims[p.axes[k]] == 0)
            return kl_fail(err, KL_ESHAPE, "axis %d has size 0, which no transform has", p.axes[k]);
    const int given = a->t.dims[p.axes[n - 1]];
    if (p.kind == KL_FFT_FROM_REAL) p.n = given;
    if (p.kind == KL_FFT_TO_REAL && (p.n < 1 || p.n / 2 + 1 != given))
        return kl_fail(err, KL_ESHAPE, "%d bins cannot be those of %d real numbers", given, p.n);
    return transform(out, a, &p, b->s, err);
}

int kl_vmap_fft(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_fft_params *p = v->params;
    struct kl_fft_buf q = {.scale = p->scale, .kind = p->kind, .n = p->n, .n_axes = p->n_axes};
    for (int k = 0; k < p->n_axes; k++) q.axes[k] = p->axes[k] + 1;
    *axis = 0;
    return kl_vmap_build(v, out, &q, kl_fft_params_bytes(&q), v->in, err);
}

/* ---- shifts and frequencies ---- */
int kl_fftshift(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                bool back, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FFTSHIFT, a, axes, axes_num, back);
    int shift[KL_MAX_NDIM], at[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_list(axes, axes_num, "axes", err));
    KL_TRY(kl_check_stream(s, err));
    for (size_t k = 0; k < axes_num; k++) {
        at[k] = axes[k];
        KL_TRY(kl_check_axis(&at[k], a->t.ndim, err));
        const int n = a->t.dims[at[k]];
        shift[k] = back ? n - n / 2 : n / 2;
    }
    return kl_roll_axes(out, a, shift, axes_num, at, axes_num, s, err);
}

/* i / (n d) for i = from, ..., from + count - 1. */
static int frequencies(struct kl_array **out, int from, int count, int n, double d,
                       struct kl_stream *s, struct kl_error **err) {
    const double step = 1 / (n * d);
    return kl_linspace(out, from * step, (from + (double)count - 1) * step, count, KL_F32, s, err);
}

static int check_frequencies(int n, double d, struct kl_stream *s, struct kl_error **err) {
    if (n < 1) return kl_fail(err, KL_EARG, "n is %d; it is at least 1", n);
    if (!isfinite(d) || d == 0)
        return kl_fail(err, KL_EARG, "d is %g; it is a finite number other than 0", d);
    return kl_check_stream(s, err);
}

int kl_fftfreq(struct kl_array **out, int n, double d, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(check_frequencies(n, d, s, err));
    struct kl_terms t = kl_terms_begin(s, err);
    const int positive = n - n / 2;
    struct kl_array *parts[2];
    parts[0] = KL_TERM(&t, frequencies(&t.made, 0, positive, n, d, s, err));
    parts[1] = KL_TERM(&t, frequencies(&t.made, -(n / 2), n / 2, n, d, s, err));
    return kl_terms_end(&t, KL_TERM(&t, kl_concatenate_axis(&t.made, parts, 2, 0, s, err)), out);
}

int kl_rfftfreq(struct kl_array **out, int n, double d, struct kl_stream *s,
                struct kl_error **err) {
    KL_TRY(check_frequencies(n, d, s, err));
    return frequencies(out, 0, n / 2 + 1, n, d, s, err);
}
