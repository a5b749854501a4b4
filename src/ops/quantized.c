/* quantized.c - quantize, dequantize, quantized_matmul, gather_qmm and qqmm. The quantized numbers
 * of a row are packed into words of 32 bits; op_params.h says what the operations take. Indices of
 * gather_qmm are checked by a gather of their own, so that its kernel gets none that is out of
 * range. */
#include "ops/quantized.h"

#include <string.h>

#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/index.h"

/* ---- formats ---- */

static const struct mode {
    const char *name;
    int group_size, bits; /* the defaults; all but affine take nothing else */
} modes[] = {
    [KL_QUANT_AFFINE] = {"affine", 64, 4},
    [KL_QUANT_MXFP4] = {"mxfp4", 32, 4},
    [KL_QUANT_MXFP8] = {"mxfp8", 32, 8},
    [KL_QUANT_NVFP4] = {"nvfp4", 16, 4},
};
enum { N_MODES = sizeof modes / sizeof *modes };

static int check_format(const struct kl_quant_format *f, struct kl_error **err) {
    const int g = f->group_size, bits = f->bits;
    if ((unsigned)f->mode >= N_MODES)
        return kl_fail(err, KL_EARG, "%d is no quantization mode", (int)f->mode);
    const struct mode *m = &modes[f->mode];
    if (f->mode != KL_QUANT_AFFINE) {
        if (g != m->group_size)
            return kl_fail(err, KL_EARG, "the group size is %d; mode %s takes %d", g, m->name,
                           m->group_size);
        if (bits != m->bits)
            return kl_fail(err, KL_EARG, "the number of bits is %d; mode %s takes %d", bits,
                           m->name, m->bits);
        return KL_OK;
    }
    if (g != 32 && g != 64 && g != 128)
        return kl_fail(err, KL_EARG, "the group size is %d; mode affine takes 32, 64 and 128", g);
    if (bits < 2 || bits > 8 || bits == 7)
        return kl_fail(err, KL_EARG,
                       "the number of bits is %d; mode affine takes 2, 3, 4, 5, 6 and 8", bits);
    return KL_OK;
}

int kl_quant_format_of(struct kl_quant_format *out, const char *mode, const int *group_size,
                       const int *bits, struct kl_error **err) {
    int k = 0;
    while (mode && k < N_MODES && strcmp(mode, modes[k].name) != 0) k++;
    if (!mode || k == N_MODES)
        return kl_fail(err, KL_EARG,
                       "mode '%.40s' is no quantization mode; affine, mxfp4, mxfp8 and nvfp4 are",
                       mode ? mode : "(NULL)");
    struct kl_quant_format f = {(enum kl_quant_mode)k,
                                group_size ? *group_size : modes[k].group_size,
                                bits ? *bits : modes[k].bits};
    KL_TRY(check_format(&f, err));
    *out = f;
    return KL_OK;
}

static bool is_affine(const struct kl_quant_format *f) {
    return f->mode == KL_QUANT_AFFINE;
}

/* ---- checks ---- */

/* float16, bfloat16 and float32 are the floats that kernels take. */
static bool is_taken(enum kl_dtype dtype) {
    return dtype == KL_F16 || dtype == KL_BF16 || dtype == KL_F32;
}

static int check_float(const char *what, enum kl_dtype dtype, struct kl_error **err) {
    if (is_taken(dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "%s is %s; float16, bfloat16 and float32 are taken", what,
                   kl_dtype_name(dtype));
}

static int check_global_scale(const struct kl_quant_format *f, const struct kl_array *scale,
                              const char *what, struct kl_error **err) {
    if (!scale) return KL_OK;
    if (f->mode != KL_QUANT_NVFP4)
        return kl_fail(err, KL_EARG, "%s is given; mode %s has none, only nvfp4 has", what,
                       modes[f->mode].name);
    if (scale->t.dtype != KL_F32)
        return kl_fail(err, KL_EDTYPE, "%s is %s; it is float32", what,
                       kl_dtype_name(scale->t.dtype));
    if (scale->t.size != 1)
        return kl_fail(err, KL_ESHAPE, "%s has shape %s; it is a single number", what,
                       KL_SHAPE_TEXT_OF(scale));
    return KL_OK;
}

/* Quantized numbers with their scales and, if affine, biases: dtypes and shapes. *cols is the
 * number of elements that a row stands for. `least` is the fewest axes. */
static int check_quantized(const struct kl_quant_format *f, const struct kl_array *w,
                           const struct kl_array *scales, const struct kl_array *biases, int least,
                           int *cols, struct kl_error **err) {
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_array(scales, "scales", err));
    if (is_affine(f) && !biases)
        return kl_fail(err, KL_EARG, "no biases are given; mode affine needs them");
    if (!is_affine(f) && biases)
        return kl_fail(err, KL_EARG, "biases are given; mode %s has none", modes[f->mode].name);
    if (w->t.dtype != KL_U32)
        return kl_fail(err, KL_EDTYPE, "w is %s; quantized numbers are packed into uint32",
                       kl_dtype_name(w->t.dtype));
    if (!is_affine(f) && scales->t.dtype != KL_U8)
        return kl_fail(err, KL_EDTYPE, "the scales are %s; those of mode %s are uint8",
                       kl_dtype_name(scales->t.dtype), modes[f->mode].name);
    const struct kl_array *both[2] = {scales, biases};
    for (int i = 0; i < 2 && is_affine(f); i++)
        if (both[i]->t.dtype == KL_C64 || both[i]->t.dtype == KL_F64)
            return kl_fail(
                err, KL_EDTYPE,
                "the %s are %s; float16, bfloat16, float32 and what converts to them are "
                "taken",
                i ? "biases" : "scales", kl_dtype_name(both[i]->t.dtype));
    if (w->t.ndim < least)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it needs at least %d axes",
                       KL_SHAPE_TEXT_OF(w), least);
    const int last = w->t.ndim - 1;
    bool fits = scales->t.ndim == w->t.ndim;
    for (int i = 0; fits && i < last; i++) fits = scales->t.dims[i] == w->t.dims[i];
    const int64_t n = fits ? (int64_t)scales->t.dims[last] * f->group_size : 0;
    if (!fits || (int64_t)w->t.dims[last] * 32 != n * f->bits || n > INT32_MAX)
        return kl_fail(err, KL_ESHAPE,
                       "w of shape %s and scales of shape %s do not belong together with groups of "
                       "%d elements of %d bits",
                       KL_SHAPE_TEXT_OF(w), KL_SHAPE_TEXT_OF(scales), f->group_size, f->bits);
    if (biases && !kl_shape_is(biases, scales->t.ndim, scales->t.dims))
        return kl_fail(err, KL_ESHAPE, "the biases have shape %s, the scales %s; they have one",
                       KL_SHAPE_TEXT_OF(biases), KL_SHAPE_TEXT_OF(scales));
    *cols = (int)n;
    return KL_OK;
}

/* ---- quantize ---- */

static int quantize_part(struct kl_array **out, struct kl_array *w, struct kl_array *global_scale,
                         const struct kl_quantize_params *given, struct kl_stream *s,
                         struct kl_error **err) {
    struct kl_quantize_params p = *given;
    const struct kl_quant_format *f = &p.format;
    struct kl_shape shape = kl_shape_of(w);
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(check_float("w", w->t.dtype, err));
    KL_TRY(check_global_scale(f, global_scale, "the global scale", err));
    if (w->t.ndim < 1 || w->t.dims[w->t.ndim - 1] % f->group_size)
        return kl_fail(err, KL_ESHAPE,
                       "w has shape %s; its last axis is a multiple of the group size, %d",
                       KL_SHAPE_TEXT_OF(w), f->group_size);
    int *last = &shape.dims[shape.ndim - 1];
    if (p.part == KL_QUANTIZE_CODES) {
        *last = (int)((int64_t)*last * f->bits / 32);
        p.dtype = KL_U32;
    } else if (p.part == KL_QUANTIZE_SCALES) {
        *last /= f->group_size;
        p.dtype = is_affine(f) ? (enum kl_dtype)w->t.dtype : KL_U8;
        if (is_affine(f)) {
            if (shape.ndim >= KL_MAX_NDIM)
                return kl_fail(err, KL_ESHAPE, "w has %d axes; at most %d are possible", w->t.ndim,
                               KL_MAX_NDIM - 1);
            memmove(shape.dims + 1, shape.dims, (size_t)shape.ndim++ * sizeof *shape.dims);
            shape.dims[0] = 2;
        }
    }
    struct kl_array *in[2] = {w, global_scale}, *y;
    if (global_scale) in[1] = KL_TERM(&t, kl_reshape_to(&t.made, global_scale, 0, NULL, s, err));
    y = KL_TERM(&t, kl_array_op1(&t.made,
                                 &(struct kl_operation){.op = KL_OP_QUANTIZE,
                                                        .stream = s,
                                                        .params = &p,
                                                        .params_bytes = sizeof p,
                                                        .in = in,
                                                        .n_in = global_scale ? 2 : 1},
                                 p.dtype, shape.ndim, shape.dims, err));
    return kl_terms_end(&t, y, out);
}

/* Row `which` of the first axis of a. */
static int row_of(struct kl_array **out, struct kl_array *a, int which, struct kl_stream *s,
                  struct kl_error **err) {
    int start[KL_MAX_NDIM] = {which}, step[KL_MAX_NDIM];
    struct kl_shape part = kl_shape_of(a);
    struct kl_array *row;
    for (int i = 0; i < a->t.ndim; i++) step[i] = 1;
    part.dims[0] = 1;
    KL_TRY(kl_slice_to(&row, a, start, step, part.dims, err));
    int rc = kl_squeeze_axis(out, row, 0, s, err);
    kl_array_release(row);
    return rc;
}

/* Each part of what quantize gives is a call of its own. */
static int defer_parts(struct kl_array **outs, int *n_out, struct kl_array *w,
                       const struct kl_quant_format *f, struct kl_array *global_scale,
                       struct kl_stream *s, struct kl_error **err) {
    const int n = f->mode == KL_QUANT_AFFINE ? 3 : 2;
    struct kl_array *made[3];
    for (int i = 0; i < n; i++) {
        int rc;
        if (!kl_defer(&rc, &made[i], KL_DEFERRED_QUANTIZE, s, err, w, (int)f->mode, f->group_size,
                      f->bits, global_scale, i))
            rc = kl_fail(err, KL_EARG, "w is NULL");
        if (!rc) continue;
        kl_release_all(made, (size_t)i);
        return rc;
    }
    for (int i = 0; i < n; i++) outs[i] = made[i];
    *n_out = n;
    return KL_OK;
}

int kl_quantize(struct kl_array **outs, int *n_out, struct kl_array *w,
                const struct kl_quant_format *f, struct kl_array *global_scale, struct kl_stream *s,
                struct kl_error **err) {
    if (kl_is_shapeless(w) || kl_is_shapeless(global_scale))
        return defer_parts(outs, n_out, w, f, global_scale, s, err);
    struct kl_quantize_params p = {.format = *f};
    struct kl_array *made[3] = {NULL};
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_format(f, err));
    KL_TRY(check_float("w", w->t.dtype, err));
    if (w->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it needs at least 2 axes",
                       KL_SHAPE_TEXT_OF(w));
    p.part = KL_QUANTIZE_CODES;
    made[0] = KL_TERM(&t, quantize_part(&t.made, w, global_scale, &p, s, err));
    p.part = KL_QUANTIZE_SCALES;
    made[1] = KL_TERM(&t, quantize_part(&t.made, w, global_scale, &p, s, err));
    if (is_affine(f)) {
        struct kl_array *both = made[1];
        made[1] = KL_TERM(&t, row_of(&t.made, both, 0, s, err));
        made[2] = KL_TERM(&t, row_of(&t.made, both, 1, s, err));
    }
    if (t.rc == KL_OK) {
        *n_out = is_affine(f) ? 3 : 2;
        for (int i = 0; i < *n_out; i++) outs[i] = kl_array_retain(made[i]);
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- dequantize ---- */

static int dequantize(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                      struct kl_array *biases, struct kl_array *global_scale,
                      const struct kl_dequantize_params *p, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_array *in[3] = {w, scales};
    struct kl_terms t = kl_terms_begin(s, err);
    int n = 2, cols;
    KL_TRY(check_quantized(&p->format, w, scales, biases, 1, &cols, err));
    KL_TRY(check_global_scale(&p->format, global_scale, "the global scale", err));
    KL_TRY(check_float("the result", p->dtype, err));
    if (biases) {
        enum kl_dtype common = kl_dtype_inexact(kl_dtype_promote(scales->t.dtype, biases->t.dtype));
        in[1] = kl_term_cast(&t, scales, common);
        in[n++] = kl_term_cast(&t, biases, common);
    }
    if (global_scale) in[n++] = KL_TERM(&t, kl_reshape_to(&t.made, global_scale, 0, NULL, s, err));
    struct kl_shape shape = kl_shape_of(w);
    shape.dims[shape.ndim - 1] = cols;
    struct kl_array *y = KL_TERM(&t, kl_array_op1(&t.made,
                                                  &(struct kl_operation){.op = KL_OP_DEQUANTIZE,
                                                                         .stream = s,
                                                                         .params = p,
                                                                         .params_bytes = sizeof *p,
                                                                         .in = in,
                                                                         .n_in = n},
                                                  p->dtype, shape.ndim, shape.dims, err));
    return kl_terms_end(&t, y, out);
}

int kl_dequantize(struct kl_array **out, struct kl_array *w, struct kl_array *scales,
                  struct kl_array *biases, const struct kl_quant_format *f,
                  struct kl_array *global_scale, const int *dtype, struct kl_stream *s,
                  struct kl_error **err) {
    KL_DEFER(DEQUANTIZE, w, scales, biases, f->mode, f->group_size, f->bits, global_scale,
             dtype != NULL, dtype ? *dtype : 0);
    int cols;
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_format(f, err));
    KL_TRY(check_quantized(f, w, scales, biases, 2, &cols, err));
    struct kl_dequantize_params p = {*f, global_scale ? KL_F32 : KL_BF16};
    if (is_affine(f))
        p.dtype = kl_dtype_inexact(kl_dtype_promote(scales->t.dtype, biases->t.dtype));
    if (dtype) {
        KL_TRY(kl_check_dtype(*dtype, err));
        p.dtype = (enum kl_dtype) * dtype;
    }
    return dequantize(out, w, scales, biases, global_scale, &p, s, err);
}

/* ---- quantized_matmul ---- */

/* The sizes of one product. */
struct product {
    int m, n, k;
};

/* Checks x and the quantized matrix, and finds the dtype in which they meet. */
static int meet_quantized(struct product *sizes, enum kl_dtype *dtype, struct kl_array *x,
                          struct kl_array *w, struct kl_array *scales, struct kl_array *biases,
                          const struct kl_qmm_params *p, struct kl_error **err) {
    int cols;
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(check_format(&p->format, err));
    KL_TRY(check_quantized(&p->format, w, scales, biases, 2, &cols, err));
    *dtype = x->t.dtype;
    if (biases)
        *dtype = kl_dtype_promote(kl_dtype_promote(*dtype, scales->t.dtype), biases->t.dtype);
    if (!is_taken(*dtype))
        return kl_fail(
            err, KL_EDTYPE,
            "x is %s and meets the scales in %s; float16, bfloat16 and float32 are taken",
            kl_dtype_name(x->t.dtype), kl_dtype_name(*dtype));
    if (x->t.ndim == 0) return kl_fail(err, KL_ESHAPE, "x is 0-d; it needs at least one axis");
    const int rows = w->t.dims[w->t.ndim - 2];
    sizes->m = x->t.ndim > 1 ? x->t.dims[x->t.ndim - 2] : 1;
    sizes->n = p->transpose ? rows : cols;
    sizes->k = p->transpose ? cols : rows;
    if (x->t.dims[x->t.ndim - 1] != sizes->k)
        return kl_fail(err, KL_ESHAPE,
                       "the last axis of x, of shape %s, has size %d; w of shape %s stands for %d "
                       "by %d elements, %s",
                       KL_SHAPE_TEXT_OF(x), x->t.dims[x->t.ndim - 1], KL_SHAPE_TEXT_OF(w), rows,
                       cols, p->transpose ? "transposed" : "not transposed");
    return KL_OK;
}

/* x, scales and biases as dtype, the terms of t. */
static void as_dtype(struct kl_terms *t, struct kl_array **in, int n, enum kl_dtype dtype) {
    for (int i = 0; i < n; i++)
        if (i != 1 && (i == 0 || n == 4)) in[i] = kl_term_cast(t, in[i], dtype);
}

/* The operation, for operands with the same leading axes. */
static struct kl_array *multiply(struct kl_terms *t, struct kl_array *const *in, int n_in,
                                 const struct kl_qmm_params *p, int n, enum kl_dtype dtype) {
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(in[0]);
    struct kl_qmm_params q;
    memset(&q, 0, sizeof q); /* parameters are compared as bytes */
    q.format = p->format;
    q.transpose = p->transpose;
    shape.dims[shape.ndim - 1] = n;
    return KL_TERM(t, kl_array_op1(&t->made,
                                   &(struct kl_operation){.op = KL_OP_QUANTIZED_MATMUL,
                                                          .stream = t->s,
                                                          .params = &q,
                                                          .params_bytes = sizeof q,
                                                          .in = in,
                                                          .n_in = n_in},
                                   dtype, shape.ndim, shape.dims, t->err));
}

/* A view of a whose leading axes, those before the last two, are those of `lead`. */
static struct kl_array *with_lead(struct kl_terms *t, struct kl_array *a,
                                  const struct kl_shape *lead) {
    if (t->rc) return NULL;
    struct kl_shape to = *lead;
    to.dims[to.ndim++] = a->t.dims[a->t.ndim - 2];
    to.dims[to.ndim++] = a->t.dims[a->t.ndim - 1];
    return KL_TERM(t, kl_broadcast_view(&t->made, a, to.ndim, to.dims, t->err));
}

/* The leading axes of x, which may be a single row, and of w, broadcast. */
static int leading_axes(struct kl_shape *lead, const struct kl_array *x, const struct kl_array *w,
                        struct kl_error **err) {
    const int nx = x->t.ndim > 2 ? x->t.ndim - 2 : 0, nw = w->t.ndim - 2;
    lead->ndim = nx > nw ? nx : nw;
    for (int i = 0; i < lead->ndim; i++) {
        const int ix = i - (lead->ndim - nx), iw = i - (lead->ndim - nw);
        const int dx = ix >= 0 ? x->t.dims[ix] : 1, dw = iw >= 0 ? w->t.dims[iw] : 1;
        if (dx != dw && dx != 1 && dw != 1)
            return kl_fail(err, KL_ESHAPE, "the leading axes of shapes %s and %s do not broadcast",
                           KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(w));
        lead->dims[i] = dx == 1 ? dw : dx;
    }
    return KL_OK;
}

/* All rows of x times one matrix. */
static int times_one(struct kl_array **out, struct kl_array *const *given, int n_in,
                     const struct kl_qmm_params *p, const struct product *sizes,
                     enum kl_dtype dtype, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *in[4], *x = given[0];
    struct kl_shape shape = kl_shape_of(x);
    int64_t rows = 1;
    for (int i = 0; i < x->t.ndim - 1; i++) rows *= x->t.dims[i];
    if (rows > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "x of shape %s has %lld rows; at most %d are possible",
                       KL_SHAPE_TEXT_OF(x), (long long)rows, INT32_MAX);
    const int flat[2] = {(int)rows, sizes->k};
    for (int i = 0; i < n_in; i++) in[i] = given[i];
    as_dtype(&t, in, n_in, dtype);
    in[0] = KL_TERM(&t, kl_reshape_to(&t.made, in[0], 2, flat, s, err));
    struct kl_array *y = multiply(&t, in, n_in, p, sizes->n, dtype);
    shape.dims[shape.ndim - 1] = sizes->n;
    y = KL_TERM(&t, kl_reshape_to(&t.made, y, shape.ndim, shape.dims, s, err));
    return kl_terms_end(&t, y, out);
}

static int quantized_matmul(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                            struct kl_array *scales, struct kl_array *biases,
                            const struct kl_qmm_params *p, struct kl_stream *s,
                            struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct product sizes;
    struct kl_shape shape;
    enum kl_dtype dtype;
    KL_TRY(meet_quantized(&sizes, &dtype, x, w, scales, biases, p, err));
    struct kl_array *in[4] = {x, w, scales, biases};
    const int n_in = biases ? 4 : 3, row[2] = {1, sizes.k};
    if (w->t.ndim == 2) return times_one(out, in, n_in, p, &sizes, dtype, s, err);
    KL_TRY(leading_axes(&shape, x, w, err));
    as_dtype(&t, in, n_in, dtype);
    if (x->t.ndim == 1) in[0] = KL_TERM(&t, kl_reshape_to(&t.made, in[0], 2, row, s, err));
    for (int i = 0; i < n_in; i++) in[i] = with_lead(&t, in[i], &shape);
    struct kl_array *y = multiply(&t, in, n_in, p, sizes.n, dtype);
    if (x->t.ndim > 1) shape.dims[shape.ndim++] = sizes.m;
    shape.dims[shape.ndim++] = sizes.n;
    y = KL_TERM(&t, kl_reshape_to(&t.made, y, shape.ndim, shape.dims, s, err));
    return kl_terms_end(&t, y, out);
}

int kl_quantized_matmul(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                        struct kl_array *scales, struct kl_array *biases, bool transpose,
                        const struct kl_quant_format *f, struct kl_stream *s,
                        struct kl_error **err) {
    KL_DEFER(QUANTIZED_MATMUL, x, w, scales, biases, transpose, f->mode, f->group_size, f->bits);
    const struct kl_qmm_params p = {*f, transpose};
    KL_TRY(kl_check_stream(s, err));
    return quantized_matmul(out, x, w, scales, biases, &p, s, err);
}

/* ---- gather_qmm ---- */

/* a with its leading axes as one. */
static struct kl_array *flat_lead(struct kl_terms *t, struct kl_array *a) {
    int64_t n = 1;
    if (t->rc) return NULL;
    for (int i = 0; i < a->t.ndim - 2; i++) n *= a->t.dims[i];
    if (n > INT32_MAX) {
        t->rc = kl_fail(t->err, KL_ELIMIT, "shape %s has more than %d matrices",
                        KL_SHAPE_TEXT_OF(a), INT32_MAX);
        return NULL;
    }
    const int dims[3] = {(int)n, a->t.dims[a->t.ndim - 2], a->t.dims[a->t.ndim - 1]};
    return KL_TERM(t, kl_reshape_to(&t->made, a, 3, dims, t->s, t->err));
}

/* The indices as int32 in [0, n), checked when they are evaluated (kl_term_checked, which sets
 * *valid). Without indices: the numbers up to n in the shape of the leading axes of `of`. */
static struct kl_array *checked_indices(struct kl_terms *t, struct kl_array *given,
                                        const struct kl_array *of, int n, struct kl_array **valid) {
    *valid = NULL;
    if (t->rc) return NULL;
    if (given && given->t.dtype == KL_I32 && given->has_range && given->lo >= 0 && given->hi < n)
        return given;
    if (given) return kl_term_checked(t, given, n, KL_I32, KL_ALIAS_GATHER_QMM, valid);
    struct kl_array *numbers = KL_TERM(t, kl_arange(&t->made, 0, n, 1, KL_I32, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, numbers, of->t.ndim - 2, of->t.dims, t->s, t->err));
}

static int gather_qmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                      struct kl_array *scales, struct kl_array *biases, struct kl_array *lhs,
                      struct kl_array *rhs, const struct kl_qmm_params *p, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct product sizes;
    struct kl_shape shape;
    struct kl_qmm_params q;
    enum kl_dtype dtype;
    KL_TRY(meet_quantized(&sizes, &dtype, x, w, scales, biases, p, err));
    if (x->t.ndim < 2)
        return kl_fail(err, KL_ESHAPE, "x has shape %s; it needs at least 2 axes",
                       KL_SHAPE_TEXT_OF(x));
    if (lhs) KL_TRY(kl_check_index_dtype(lhs, err));
    if (rhs) KL_TRY(kl_check_index_dtype(rhs, err));
    struct kl_array *in[6] = {x, w, scales, biases ? biases : scales}, *y;
    as_dtype(&t, in, biases ? 4 : 3, dtype);
    for (int i = 0; i < 4; i++) in[i] = flat_lead(&t, in[i]);
    struct kl_array *valid[2];
    in[4] = checked_indices(&t, lhs, x, t.rc ? 0 : in[0]->t.dims[0], &valid[0]);
    in[5] = checked_indices(&t, rhs, w, t.rc ? 0 : in[1]->t.dims[0], &valid[1]);
    if (!t.rc) t.rc = kl_broadcast_shape(&shape, in + 4, 2, err);
    if (!t.rc && shape.ndim + 2 > KL_MAX_NDIM)
        t.rc = kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                       shape.ndim + 2, KL_MAX_NDIM);
    if (t.rc) return kl_terms_end(&t, NULL, NULL);
    for (int i = 4; i < 6; i++)
        in[i] = KL_TERM(&t, kl_broadcast_view(&t.made, in[i], shape.ndim, shape.dims, err));
    shape.dims[shape.ndim++] = sizes.m;
    shape.dims[shape.ndim++] = sizes.n;
    memset(&q, 0, sizeof q);
    q.format = p->format;
    q.transpose = p->transpose;
    y = KL_TERM(&t, kl_array_op1(&t.made,
                                 &(struct kl_operation){.op = KL_OP_GATHER_QMM,
                                                        .stream = s,
                                                        .params = &q,
                                                        .params_bytes = sizeof q,
                                                        .in = in,
                                                        .n_in = 6},
                                 dtype, shape.ndim, shape.dims, err));
    for (int i = 0; i < 2; i++) y = kl_term_if_valid(&t, y, valid[i], 2);
    return kl_terms_end(&t, y, out);
}

int kl_gather_qmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
                  struct kl_array *scales, struct kl_array *biases, struct kl_array *lhs_indices,
                  struct kl_array *rhs_indices, bool transpose, const struct kl_quant_format *f,
                  struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(GATHER_QMM, x, w, scales, biases, lhs_indices, rhs_indices, transpose, f->mode,
             f->group_size, f->bits);
    const struct kl_qmm_params p = {*f, transpose};
    KL_TRY(kl_check_stream(s, err));
    return gather_qmm(out, x, w, scales, biases, lhs_indices, rhs_indices, &p, s, err);
}

/* ---- qqmm ---- */

enum { NV_RANGE = 448 * 6 }; /* the largest number of nvfp4: by it a global scale is divided */

/* What x quantized stands for, in dtype. */
static struct kl_array *rounded(struct kl_terms *t, struct kl_array *x, struct kl_array *scale,
                                const struct kl_quant_format *f, enum kl_dtype dtype) {
    const struct kl_quantize_params p = {*f, KL_QUANTIZE_VALUES, dtype};
    return KL_TERM(t, quantize_part(&t->made, x, scale, &p, t->s, t->err));
}

int kl_qqmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
            struct kl_array *w_scales, const struct kl_quant_format *f,
            struct kl_array *global_scale_x, struct kl_array *global_scale_w, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(QQMM, x, w, w_scales, f->mode, f->group_size, f->bits, global_scale_x, global_scale_w);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *y;
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_format(f, err));
    if (is_affine(f))
        return kl_fail(err, KL_EARG, "mode affine; qqmm takes mxfp4, mxfp8 and nvfp4");
    KL_TRY(check_float("x", x->t.dtype, err));
    KL_TRY(check_global_scale(f, global_scale_x, "the global scale of x", err));
    KL_TRY(check_global_scale(f, global_scale_w, "the global scale of w", err));
    if (!global_scale_x != !global_scale_w)
        return kl_fail(err, KL_EARG, "only one global scale is given; both or none are taken");
    if (x->t.ndim == 0) return kl_fail(err, KL_ESHAPE, "x is 0-d; it needs at least one axis");
    if (w->t.ndim != 2)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it is a matrix", KL_SHAPE_TEXT_OF(w));
    const bool packed = w->t.dtype == KL_U32;
    if (packed && !w_scales)
        return kl_fail(err, KL_EARG, "w is quantized; its scales are needed and not given");
    if (!packed) KL_TRY(check_float("w", w->t.dtype, err));
    if (!packed && w->t.dims[1] != x->t.dims[x->t.ndim - 1])
        return kl_fail(
            err, KL_ESHAPE,
            "the last axis of x, of shape %s, and that of w, of shape %s, have different "
            "sizes",
            KL_SHAPE_TEXT_OF(x), KL_SHAPE_TEXT_OF(w));
    /* Quantized numbers are exact in bfloat16, and in float16 if no scale can leave its range.
     * With global scales they are not. */
    const enum kl_dtype dtype = x->t.dtype;
    const bool narrow =
        !global_scale_x && (dtype == KL_BF16 || (dtype == KL_F16 && f->mode == KL_QUANT_NVFP4));
    const enum kl_dtype wide = narrow ? dtype : KL_F32;
    struct kl_array *left = rounded(&t, x, global_scale_x, f, wide);
    if (packed) {
        const struct kl_qmm_params p = {*f, true};
        y = KL_TERM(&t, quantized_matmul(&t.made, left, w, w_scales, NULL, &p, s, err));
        if (global_scale_w) {
            struct kl_array *one =
                KL_TERM(&t, kl_reshape_to(&t.made, global_scale_w, 0, NULL, s, err));
            one = kl_term2(&t, kl_divide, one, kl_term_number(&t, NV_RANGE, KL_F32));
            y = kl_term2(&t, kl_multiply, y, one);
        }
    } else {
        struct kl_array *right = rounded(&t, w, global_scale_w, f, wide);
        right = KL_TERM(&t, kl_swapaxes(&t.made, right, 0, 1, s, err));
        y = kl_term2(&t, kl_matmul, left, right);
    }
    return kl_terms_end(&t, kl_term_cast(&t, y, dtype), out);
}

/* ---- gradients ---- */

/* The gradient of what quantized numbers stand for is that of the numbers: rounding is taken for
 * the identity. Codes are integers; scales have no rule. */
int kl_vjp_quantize(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_quantize_params *p = v->params;
    bool any = false;
    for (int i = 0; i < v->n_in; i++) any = any || v->wanted[i];
    if (!any || p->part == KL_QUANTIZE_CODES || !kl_has_gradient(v->out[0])) return KL_OK;
    if (p->part == KL_QUANTIZE_SCALES)
        return kl_fail(err, KL_EUNSUPPORTED, "the scales of quantize have no gradient");
    if (!v->wanted[0]) return KL_OK;
    return kl_cast_to(&grad[0], v->cotangent[0], (enum kl_dtype)v->in[0]->t.dtype, v->s, err);
}

/* `each`, in float32, summed over the groups of its last axis, as dtype. */
static struct kl_array *by_groups(struct kl_terms *t, struct kl_array *each,
                                  const struct kl_quant_format *f, const struct kl_array *like) {
    if (t->rc) return NULL;
    const int last = each->t.ndim - 1;
    const int split[2] = {each->t.dims[last] / f->group_size, f->group_size};
    if (last + 2 > KL_MAX_NDIM) {
        t->rc = kl_fail(t->err, KL_ESHAPE, "%d axes; at most %d are possible", last + 1,
                        KL_MAX_NDIM - 1);
        return NULL;
    }
    struct kl_array *x = KL_TERM(t, kl_unflatten(&t->made, each, last, split, 2, t->s, t->err));
    x = KL_TERM(t, kl_sum_axis(&t->made, x, last + 1, false, t->s, t->err));
    return kl_term_cast(t, x, (enum kl_dtype)like->t.dtype);
}

/* The codes of w as float32: dequantized with the scale 1 and the bias 0. */
static struct kl_array *codes_of(struct kl_terms *t, struct kl_array *w,
                                 const struct kl_quant_format *f, const struct kl_array *scales) {
    if (t->rc) return NULL;
    const struct kl_dequantize_params p = {*f, KL_F32};
    struct kl_array *one = kl_term_number(t, 1, KL_F32), *none = kl_term_number(t, 0, KL_F32);
    one = kl_term_broadcast(t, one, scales);
    none = kl_term_broadcast(t, none, scales);
    return KL_TERM(t, dequantize(&t->made, w, one, none, NULL, &p, t->s, t->err));
}

/* The gradients of scales and biases from that of the matrix, in float32. `grad` and `wanted`
 * begin with the scales. */
static void keep_group_gradients(struct kl_terms *t, struct kl_array **grad, const bool *wanted,
                                 struct kl_array *each, struct kl_array *const *in,
                                 const struct kl_quant_format *f) {
    struct kl_array *s = NULL, *b = NULL;
    if (wanted[0])
        s = by_groups(t, kl_term2(t, kl_multiply, each, codes_of(t, in[1], f, in[2])), f, in[2]);
    if (wanted[1]) b = by_groups(t, each, f, in[3]);
    if (t->rc) return;
    if (s) grad[0] = kl_terms_keep(t, s);
    if (b) grad[1] = kl_terms_keep(t, b);
}

int kl_vjp_dequantize(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_dequantize_params *p = v->params;
    const struct kl_quant_format *f = &p->format;
    struct kl_terms t = kl_terms_begin(v->s, err);
    if (v->n_in < 3 || !(v->wanted[1] || v->wanted[2])) return KL_OK;
    struct kl_array *each = kl_term_cast(&t, v->cotangent[0], KL_F32);
    if (is_affine(f)) {
        struct kl_array *in[4] = {NULL, v->in[0], v->in[1], v->in[2]};
        keep_group_gradients(&t, grad + 1, v->wanted + 1, each, in, f);
        return kl_terms_end(&t, NULL, NULL);
    }
    if (v->wanted[2]) { /* the result is proportional to the global scale */
        const struct kl_dequantize_params plain = {*f, KL_F32};
        struct kl_array *u =
            KL_TERM(&t, dequantize(&t.made, v->in[0], v->in[1], NULL, NULL, &plain, v->s, err));
        u = kl_term2(&t, kl_multiply, each, u);
        u = KL_TERM(&t, kl_sum(&t.made, u, false, v->s, err));
        grad[2] =
            kl_terms_keep(&t, kl_term2(&t, kl_divide, u, kl_term_number(&t, NV_RANGE, KL_F32)));
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* The gradient of the matrix that w stands for, in float32: products of rows of x and of the
 * cotangent g. */
static struct kl_array *matrix_gradient(struct kl_terms *t, struct kl_array *x, struct kl_array *g,
                                        bool transpose) {
    x = kl_term_cast(t, x, KL_F32);
    g = kl_term_cast(t, g, KL_F32);
    struct kl_array *left = transpose ? g : x;
    left = KL_TERM(t, kl_swapaxes(&t->made, left, -1, -2, t->s, t->err));
    return kl_term2(t, kl_matmul, left, transpose ? x : g);
}

int kl_vjp_quantized_matmul(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_qmm_params *p = v->params, back = {p->format, !p->transpose};
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0], *const *in = v->in, *biases = v->n_in > 3 ? in[3] : NULL;
    if (v->wanted[0])
        grad[0] = kl_terms_keep(
            &t, KL_TERM(&t, quantized_matmul(&t.made, g, in[1], in[2], biases, &back, v->s, err)));
    if (biases && (v->wanted[2] || v->wanted[3]))
        keep_group_gradients(&t, grad + 2, v->wanted + 2,
                             matrix_gradient(&t, in[0], g, p->transpose), in, &p->format);
    return kl_terms_end(&t, NULL, NULL);
}

/* Zeros like `like`, with the rows of `values` added at the indices on the first axis. */
static struct kl_array *added_at(struct kl_terms *t, const struct kl_array *like,
                                 struct kl_array *indices, struct kl_array *values) {
    const int axis = 0;
    struct kl_shape to = kl_shape_of(like);
    if (t->rc) return NULL;
    struct kl_array *zeros = KL_TERM(
        t, kl_zeros(&t->made, to.dims, (size_t)to.ndim, (int)values->t.dtype, t->s, t->err));
    to.dims[0] = 1;
    memmove(to.dims + 1, to.dims, (size_t)to.ndim++ * sizeof *to.dims);
    to.dims[0] = indices ? indices->t.dims[0] : 0;
    values = KL_TERM(t, kl_reshape_to(&t->made, values, to.ndim, to.dims, t->s, t->err));
    return KL_TERM(t, kl_scatter_add(&t->made, zeros, &indices, 1, values, &axis, 1, t->s, t->err));
}

int kl_vjp_gather_qmm(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_qmm_params *p = v->params, back = {p->format, !p->transpose};
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *const *in = v->in, *biases = is_affine(&p->format) ? in[3] : NULL;
    struct kl_array *g = flat_lead(&t, v->cotangent[0]);
    struct kl_array *lhs = KL_TERM(&t, kl_flatten_all(&t.made, in[4], v->s, err));
    struct kl_array *rhs = KL_TERM(&t, kl_flatten_all(&t.made, in[5], v->s, err));
    if (v->wanted[0]) {
        struct kl_array *each =
            KL_TERM(&t, gather_qmm(&t.made, g, in[1], in[2], biases, NULL, rhs, &back, v->s, err));
        each = kl_term_cast(&t, each, KL_F32);
        each = added_at(&t, in[0], lhs, each);
        grad[0] = kl_terms_keep(&t, kl_term_cast(&t, each, (enum kl_dtype)in[0]->t.dtype));
    }
    if (biases && (v->wanted[2] || v->wanted[3])) {
        struct kl_array *x = KL_TERM(&t, kl_take_axis(&t.made, in[0], lhs, 0, v->s, err));
        struct kl_array *each = matrix_gradient(&t, x, g, p->transpose), *made[2] = {NULL};
        if (t.rc == KL_OK) {
            /* the sums by groups come before those by matrices: they are smaller */
            struct kl_array *part[2] = {NULL};
            struct kl_array *codes = codes_of(&t, in[1], &p->format, in[2]);
            codes = KL_TERM(&t, kl_take_axis(&t.made, codes, rhs, 0, v->s, err));
            struct kl_array wide = {.t = {.dtype = KL_F32}};
            if (v->wanted[2])
                part[0] = by_groups(&t, kl_term2(&t, kl_multiply, each, codes), &p->format, &wide);
            if (v->wanted[3]) part[1] = by_groups(&t, each, &p->format, &wide);
            for (int i = 0; i < 2; i++)
                if (v->wanted[2 + i])
                    made[i] = kl_term_cast(&t, added_at(&t, in[2 + i], rhs, part[i]),
                                           (enum kl_dtype)in[2 + i]->t.dtype);
        }
        for (int i = 0; i < 2; i++)
            if (t.rc == KL_OK && made[i]) grad[2 + i] = kl_terms_keep(&t, made[i]);
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- forward derivatives ---- */

/* The operation with other inputs. */
static struct kl_array *with_inputs(struct kl_terms *t, const struct kl_jvp *j,
                                    struct kl_array *const *in) {
    const struct kl_build b = {.op = j->op,
                               .params = j->params,
                               .params_bytes = j->params_bytes,
                               .in = in,
                               .n_in = j->n_in,
                               .s = j->s};
    return KL_TERM(t, kl_op_build(&b, &t->made, t->err));
}

/* Puts the tangents of inputs `first` and first + 1, scales and biases, into `in`, with zeros for
 * one that is missing; false when both are. */
static bool group_tangents(struct kl_terms *t, const struct kl_jvp *j, int first,
                           struct kl_array **in) {
    if (!j->tangent[first] && !j->tangent[first + 1]) return false;
    for (int i = first; i < first + 2; i++)
        in[i] = j->tangent[i] ? j->tangent[i]
                              : KL_TERM(t, kl_zeros_like(&t->made, j->in[i], j->s, t->err));
    return t->rc == KL_OK;
}

/* The result is linear in scales and biases together, and in the global scale. */
int kl_jvp_dequantize(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    const struct kl_dequantize_params *p = j->params;
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *in[3];
    for (int i = 0; i < j->n_in; i++) in[i] = j->in[i];
    bool any = false;
    if (is_affine(&p->format)) {
        any = group_tangents(&t, j, 1, in);
    } else if (j->n_in > 2 && j->tangent[2]) {
        in[2] = j->tangent[2];
        any = true;
    }
    if (any) *tangent = kl_terms_keep(&t, with_inputs(&t, j, in));
    return kl_terms_end(&t, NULL, NULL);
}

/* The product is linear in x, and in scales and biases together. */
int kl_jvp_quantized_matmul(const struct kl_jvp *j, struct kl_array **tangent,
                            struct kl_error **err) {
    const struct kl_qmm_params *p = j->params;
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *in[6], *sum = NULL;
    for (int i = 0; i < j->n_in; i++) in[i] = j->in[i];
    if (j->tangent[0]) {
        in[0] = j->tangent[0];
        sum = with_inputs(&t, j, in);
        in[0] = j->in[0];
    }
    if (is_affine(&p->format) && group_tangents(&t, j, 2, in)) {
        struct kl_array *part = with_inputs(&t, j, in);
        sum = sum ? kl_term2(&t, kl_add, sum, part) : part;
    }
    if (sum) *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */

int kl_rebuild_quantize(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_quantize_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    if ((unsigned)p.part > KL_QUANTIZE_VALUES)
        return kl_fail(err, KL_EARG, "%d is no part of what quantize gives", (int)p.part);
    if (p.part == KL_QUANTIZE_VALUES) KL_TRY(check_float("the result", p.dtype, err));
    if (b->n_in != 1 && b->n_in != 2)
        return kl_fail(err, KL_EARG, "%d inputs are given; quantize takes 1 or 2", b->n_in);
    return quantize_part(out, b->in[0], b->n_in > 1 ? b->in[1] : NULL, &p, b->s, err);
}

int kl_rebuild_dequantize(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dequantize_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (b->n_in != 3 && (b->n_in != 2 || is_affine(&p.format)))
        return kl_fail(err, KL_EARG, "%d inputs are given; dequantize takes 2 or 3", b->n_in);
    struct kl_array *third = b->n_in > 2 ? b->in[2] : NULL;
    const bool affine = is_affine(&p.format);
    return dequantize(out, b->in[0], b->in[1], affine ? third : NULL, affine ? NULL : third, &p,
                      b->s, err);
}

int kl_rebuild_quantized_matmul(const struct kl_build *b, struct kl_array **out,
                                struct kl_error **err) {
    struct kl_qmm_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.transpose, err));
    KL_TRY(check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    const bool affine = is_affine(&p.format);
    KL_TRY(kl_build_count(affine ? 4 : 3, b->n_in, "inputs", err));
    return quantized_matmul(out, b->in[0], b->in[1], b->in[2], affine ? b->in[3] : NULL, &p, b->s,
                            err);
}

int kl_rebuild_gather_qmm(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_qmm_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.transpose, err));
    KL_TRY(check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    KL_TRY(kl_build_count(6, b->n_in, "inputs", err));
    return gather_qmm(out, b->in[0], b->in[1], b->in[2], is_affine(&p.format) ? b->in[3] : NULL,
                      b->in[4], b->in[5], &p, b->s, err);
}

/* ---- batches ---- */

/* The lane axis is one more leading axis; that of affine scales comes behind the axis of scales
 * and biases. A global scale of each lane is taken one lane after another. */
int kl_vmap_quantize(const struct kl_vmap *v, struct kl_array **out, int *axis,
                     struct kl_error **err) {
    const struct kl_quantize_params *p = v->params;
    *axis = 0;
    if (v->n_in > 1 && v->mapped[1]) return kl_vmap_each(v, out, err);
    if (p->part == KL_QUANTIZE_SCALES && is_affine(&p->format)) *axis = 1;
    return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
}

int kl_vmap_dequantize(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    const struct kl_dequantize_params *p = v->params;
    const int lanes = is_affine(&p->format) ? 3 : 2;
    struct kl_array *in[3];
    int n = 0, rc = KL_OK;
    *axis = 0;
    if (v->n_in > lanes && v->mapped[2]) return kl_vmap_each(v, out, err);
    for (; n < lanes; n++)
        if ((rc = kl_vmap_input(v, &in[n], n, err))) break;
    if (!rc && v->n_in > lanes) in[2] = v->in[2];
    if (!rc) rc = kl_vmap_build(v, out, v->params, v->params_bytes, in, err);
    kl_release_all(in, (size_t)n);
    return rc;
}

/* Lanes of x alone, times one matrix, are one product with more rows. */
int kl_vmap_quantized_matmul(const struct kl_vmap *v, struct kl_array **out, int *axis,
                             struct kl_error **err) {
    struct kl_array *in[4];
    bool only_x = v->mapped[0] && v->in[1]->t.ndim == 2;
    for (int i = 1; i < v->n_in; i++) only_x = only_x && !v->mapped[i];
    *axis = 0;
    if (only_x) return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
    KL_TRY(kl_vmap_inputs(v, in, err));
    int rc = kl_vmap_build(v, out, v->params, v->params_bytes, in, err);
    kl_release_all(in, (size_t)v->n_in);
    return rc;
}

/* Where x or w have lanes, the matrices of all lanes follow each other, and the number of the lane
 * times the matrices of one is added to the indices. */
int kl_vmap_gather_qmm(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    const struct kl_qmm_params *p = v->params;
    struct kl_terms t = kl_terms_begin(v->s, err);
    bool apart[2] = {v->mapped[0], v->mapped[1] || v->mapped[2] || v->mapped[3]};
    struct kl_array *in[6];
    const bool whole = v->mapped[1] && v->mapped[2] && v->mapped[3];
    *axis = 0;
    /* there is no lane to index, or what is the same for all lanes would have to be copied */
    if (v->lanes == 0 || (apart[1] && !whole)) return kl_vmap_each(v, out, err);
    for (int i = 0; i < 6; i++) in[i] = v->in[i];
    for (int side = 0; side < 2; side++) {
        if (t.rc || !apart[side]) continue;
        const int each = in[side]->t.dims[1];
        struct kl_array *lane = KL_TERM(&t, kl_vmap_lane_index(v, &t.made, v->ndim - 2, err));
        lane = kl_term2(&t, kl_multiply, lane, kl_term_number(&t, each, KL_I32));
        struct kl_array *none; /* these indices are good: the operation's builder has seen to it */
        struct kl_array *at = checked_indices(&t, in[4 + side], NULL, each, &none);
        in[4 + side] = kl_term2(&t, kl_add, at, lane);
    }
    struct kl_array *biases = is_affine(&p->format) ? in[3] : NULL;
    struct kl_array *y =
        KL_TERM(&t, gather_qmm(&t.made, in[0], in[1], in[2], biases, in[4], in[5], p, v->s, err));
    return kl_terms_end(&t, y, out);
}
