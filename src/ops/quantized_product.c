/* quantized_product.c - quantized_matmul, gather_qmm and qqmm. Indices of gather_qmm are checked by
 * a gather of their own, so that its kernel gets none that is out of range. */
#include <string.h>

#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/index_parts.h"
#include "ops/quantized_parts.h"

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
    KL_TRY(kl_quant_check_format(&p->format, err));
    KL_TRY(kl_quant_check_operands(&p->format, w, scales, biases, 2, &cols, err));
    *dtype = x->t.dtype;
    if (biases)
        *dtype = kl_dtype_promote(kl_dtype_promote(*dtype, scales->t.dtype), biases->t.dtype);
    if (!kl_quant_takes_float(*dtype))
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
    if (!t->rc) in[0] = KL_TERM(t, kl_in_rows(&t->made, in[0], KL_ROWS_READ, t->s, t->err));
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

int kl_quantized_product(struct kl_array **out, struct kl_array *x, struct kl_array *w,
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
    return kl_quantized_product(out, x, w, scales, biases, &p, s, err);
}

/* ---- gather_qmm ---- */

struct kl_array *kl_quant_flat_lead(struct kl_terms *t, struct kl_array *a) {
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

struct kl_array *kl_quant_checked_indices(struct kl_terms *t, struct kl_array *given,
                                          const struct kl_array *of, int n,
                                          struct kl_array **valid) {
    *valid = NULL;
    if (t->rc) return NULL;
    if (given && given->t.dtype == KL_I32 && given->has_range && given->lo >= 0 && given->hi < n)
        return given;
    if (given) return kl_term_checked(t, given, n, KL_I32, KL_ALIAS_GATHER_QMM, valid);
    struct kl_array *numbers = KL_TERM(t, kl_arange(&t->made, 0, n, 1, KL_I32, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, numbers, of->t.ndim - 2, of->t.dims, t->s, t->err));
}

int kl_gathered_product(struct kl_array **out, struct kl_array *x, struct kl_array *w,
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
    for (int i = 0; i < 4; i++) in[i] = kl_quant_flat_lead(&t, in[i]);
    struct kl_array *valid[2];
    in[4] = kl_quant_checked_indices(&t, lhs, x, t.rc ? 0 : in[0]->t.dims[0], &valid[0]);
    in[5] = kl_quant_checked_indices(&t, rhs, w, t.rc ? 0 : in[1]->t.dims[0], &valid[1]);
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
    return kl_gathered_product(out, x, w, scales, biases, lhs_indices, rhs_indices, &p, s, err);
}

/* ---- qqmm ---- */

/* The numbers that the quantized form of x stands for, in dtype. */
static struct kl_array *rounded(struct kl_terms *t, struct kl_array *x, struct kl_array *scale,
                                const struct kl_quant_format *f, enum kl_dtype dtype) {
    const struct kl_quantize_params p = {*f, KL_QUANTIZE_VALUES, dtype};
    return KL_TERM(t, kl_quantize_part(&t->made, x, scale, &p, t->s, t->err));
}

int kl_qqmm(struct kl_array **out, struct kl_array *x, struct kl_array *w,
            struct kl_array *w_scales, const struct kl_quant_format *f,
            struct kl_array *global_scale_x, struct kl_array *global_scale_w, struct kl_stream *s,
            struct kl_error **err) {
    KL_DEFER(QQMM, x, w, w_scales, f->mode, f->group_size, f->bits, global_scale_x, global_scale_w);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *y;
    char list[KL_QUANT_LIST_BYTES];
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(w, "w", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_quant_check_format(f, err));
    if (kl_quant_has_biases(f->mode))
        return kl_fail(err, KL_EARG, "mode %s; qqmm takes %s", kl_quant_mode_name(f->mode),
                       kl_quant_modes_without_biases(list));
    KL_TRY(kl_quant_check_float("x", x->t.dtype, err));
    KL_TRY(kl_quant_check_global_scale(f, global_scale_x, "the global scale of x", err));
    KL_TRY(kl_quant_check_global_scale(f, global_scale_w, "the global scale of w", err));
    if (!global_scale_x != !global_scale_w)
        return kl_fail(err, KL_EARG, "only one global scale is given; both or none are taken");
    if (x->t.ndim == 0) return kl_fail(err, KL_ESHAPE, "x is 0-d; it needs at least one axis");
    if (w->t.ndim != 2)
        return kl_fail(err, KL_ESHAPE, "w has shape %s; it is a matrix", KL_SHAPE_TEXT_OF(w));
    const bool packed = w->t.dtype == KL_U32;
    if (packed && !w_scales)
        return kl_fail(err, KL_EARG, "w is quantized; its scales are needed and not given");
    if (!packed) KL_TRY(kl_quant_check_float("w", w->t.dtype, err));
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
        !global_scale_x &&
        (dtype == KL_BF16 || (dtype == KL_F16 && kl_quant_scales_are(f->mode, KL_SCALES_E4M3)));
    const enum kl_dtype wide = narrow ? dtype : KL_F32;
    struct kl_array *left = rounded(&t, x, global_scale_x, f, wide);
    if (packed) {
        const struct kl_qmm_params p = {*f, true};
        y = KL_TERM(&t, kl_quantized_product(&t.made, left, w, w_scales, NULL, &p, s, err));
        if (global_scale_w) {
            struct kl_array *one =
                KL_TERM(&t, kl_reshape_to(&t.made, global_scale_w, 0, NULL, s, err));
            one = kl_term2(&t, kl_divide, one, kl_term_number(&t, KL_NV_RANGE, KL_F32));
            y = kl_term2(&t, kl_multiply, y, one);
        }
    } else {
        struct kl_array *right = rounded(&t, w, global_scale_w, f, wide);
        right = KL_TERM(&t, kl_swapaxes(&t.made, right, 0, 1, s, err));
        y = kl_term2(&t, kl_matmul, left, right);
    }
    return kl_terms_end(&t, kl_term_cast(&t, y, dtype), out);
}
