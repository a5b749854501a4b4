/* quantized_rules.c - gradients, forward derivatives and batches of the quantized operations, and
 * how they are made again from their parameters. */
#include <string.h>

#include "ops/build/build.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/quantized_parts.h"

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
    return KL_TERM(t, kl_dequantize_as(&t->made, w, one, none, NULL, &p, t->s, t->err));
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
    if (kl_quant_has_biases(f->mode)) {
        struct kl_array *in[4] = {NULL, v->in[0], v->in[1], v->in[2]};
        keep_group_gradients(&t, grad + 1, v->wanted + 1, each, in, f);
        return kl_terms_end(&t, NULL, NULL);
    }
    if (v->wanted[2]) { /* the result is proportional to the global scale */
        const struct kl_dequantize_params plain = {*f, KL_F32};
        struct kl_array *u = KL_TERM(
            &t, kl_dequantize_as(&t.made, v->in[0], v->in[1], NULL, NULL, &plain, v->s, err));
        u = kl_term2(&t, kl_multiply, each, u);
        u = KL_TERM(&t, kl_sum(&t.made, u, false, v->s, err));
        grad[2] =
            kl_terms_keep(&t, kl_term2(&t, kl_divide, u, kl_term_number(&t, KL_NV_RANGE, KL_F32)));
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
        grad[0] = kl_terms_keep(&t, KL_TERM(&t, kl_quantized_product(&t.made, g, in[1], in[2],
                                                                     biases, &back, v->s, err)));
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
    struct kl_array *const *in = v->in,
                           *biases = kl_quant_has_biases(p->format.mode) ? in[3] : NULL;
    struct kl_array *g = kl_quant_flat_lead(&t, v->cotangent[0]);
    struct kl_array *lhs = KL_TERM(&t, kl_flatten_all(&t.made, in[4], v->s, err));
    struct kl_array *rhs = KL_TERM(&t, kl_flatten_all(&t.made, in[5], v->s, err));
    if (v->wanted[0]) {
        struct kl_array *each = KL_TERM(
            &t, kl_gathered_product(&t.made, g, in[1], in[2], biases, NULL, rhs, &back, v->s, err));
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
    if (kl_quant_has_biases(p->format.mode)) {
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
    if (kl_quant_has_biases(p->format.mode) && group_tangents(&t, j, 2, in)) {
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
    KL_TRY(kl_quant_check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    if ((unsigned)p.part > KL_QUANTIZE_VALUES)
        return kl_fail(err, KL_EARG, "%d is no part of what quantize gives", (int)p.part);
    if (p.part == KL_QUANTIZE_VALUES) KL_TRY(kl_quant_check_float("the result", p.dtype, err));
    if (b->n_in != 1 && b->n_in != 2)
        return kl_fail(err, KL_EARG, "%d inputs are given; quantize takes 1 or 2", b->n_in);
    return kl_quantize_part(out, b->in[0], b->n_in > 1 ? b->in[1] : NULL, &p, b->s, err);
}

int kl_rebuild_dequantize(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_dequantize_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_quant_check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (b->n_in != 3 && (b->n_in != 2 || kl_quant_has_biases(p.format.mode)))
        return kl_fail(err, KL_EARG, "%d inputs are given; dequantize takes 2 or 3", b->n_in);
    struct kl_array *third = b->n_in > 2 ? b->in[2] : NULL;
    const bool affine = kl_quant_has_biases(p.format.mode);
    return kl_dequantize_as(out, b->in[0], b->in[1], affine ? third : NULL, affine ? NULL : third,
                            &p, b->s, err);
}

int kl_rebuild_quantized_matmul(const struct kl_build *b, struct kl_array **out,
                                struct kl_error **err) {
    struct kl_qmm_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.transpose, err));
    KL_TRY(kl_quant_check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    const bool affine = kl_quant_has_biases(p.format.mode);
    KL_TRY(kl_build_count(affine ? 4 : 3, b->n_in, "inputs", err));
    return kl_quantized_product(out, b->in[0], b->in[1], b->in[2], affine ? b->in[3] : NULL, &p,
                                b->s, err);
}

int kl_rebuild_gather_qmm(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_qmm_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.transpose, err));
    KL_TRY(kl_quant_check_format(&p.format, err));
    KL_TRY(kl_check_stream(b->s, err));
    KL_TRY(kl_build_count(6, b->n_in, "inputs", err));
    return kl_gathered_product(out, b->in[0], b->in[1], b->in[2],
                               kl_quant_has_biases(p.format.mode) ? b->in[3] : NULL, b->in[4],
                               b->in[5], &p, b->s, err);
}

/* ---- batches ---- */

/* The lane axis is one more leading axis; that of affine scales comes after the axis of scales
 * and biases. A global scale of each lane is taken one lane after another. */
int kl_vmap_quantize(const struct kl_vmap *v, struct kl_array **out, int *axis,
                     struct kl_error **err) {
    const struct kl_quantize_params *p = v->params;
    *axis = 0;
    if (v->n_in > 1 && v->mapped[1]) return kl_vmap_each(v, out, err);
    if (p->part == KL_QUANTIZE_SCALES && kl_quant_has_biases(p->format.mode)) *axis = 1;
    return kl_vmap_build(v, out, v->params, v->params_bytes, v->in, err);
}

int kl_vmap_dequantize(const struct kl_vmap *v, struct kl_array **out, int *axis,
                       struct kl_error **err) {
    const struct kl_dequantize_params *p = v->params;
    const int lanes = kl_quant_has_biases(p->format.mode) ? 3 : 2;
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
        struct kl_array *at = kl_quant_checked_indices(&t, in[4 + side], NULL, each, &none);
        in[4 + side] = kl_term2(&t, kl_add, at, lane);
    }
    struct kl_array *biases = kl_quant_has_biases(p->format.mode) ? in[3] : NULL;
    struct kl_array *y = KL_TERM(
        &t, kl_gathered_product(&t.made, in[0], in[1], in[2], biases, in[4], in[5], p, v->s, err));
    return kl_terms_end(&t, y, out);
}
