/* rope.c - rotary position embedding of the last axis. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"

static int check_rope(const struct kl_array *x, int dims, struct kl_rope_base base,
                      const struct kl_array *offset, const struct kl_array *freqs,
                      struct kl_error **err) {
    if (!kl_dtype_is_float(x->t.dtype))
        return kl_fail(err, KL_EDTYPE, "x is %s; floats are taken", kl_dtype_name(x->t.dtype));
    if (x->t.ndim < 3)
        return kl_fail(err, KL_ESHAPE, "x has shape %s; it has at least 3 axes",
                       KL_SHAPE_TEXT_OF(x));
    int width = x->t.dims[x->t.ndim - 1];
    if (dims <= 0 || dims % 2 || dims > width)
        return kl_fail(err, KL_EARG,
                       "dims is %d; it is even, above 0, and at most the size of the last axis, %d",
                       dims, width);
    if (base.given == (freqs != NULL))
        return kl_fail(err, KL_EARG, "exactly one of base and freqs is given; here it is %s",
                       freqs ? "both" : "none");
    if (freqs && (freqs->t.ndim != 1 || freqs->t.dims[0] != dims / 2))
        return kl_fail(err, KL_ESHAPE, "freqs has shape %s; it has one axis of dims / 2 = %d",
                       KL_SHAPE_TEXT_OF(freqs), dims / 2);
    if (freqs && freqs->t.dtype == KL_C64)
        return kl_fail(err, KL_EDTYPE, "freqs is complex64; real numbers are taken");
    if (!kl_dtype_is_int(offset->t.dtype))
        return kl_fail(err, KL_EDTYPE, "offset is %s; integers are taken",
                       kl_dtype_name(offset->t.dtype));
    if (offset->t.ndim > 1 ||
        (offset->t.ndim == 1 && offset->t.dims[0] != 1 && offset->t.dims[0] != x->t.dims[0]))
        return kl_fail(
            err, KL_ESHAPE,
            "offset has shape %s; it is 0-d, or has one axis of the size of x's first, %d",
            KL_SHAPE_TEXT_OF(offset), x->t.dims[0]);
    return KL_OK;
}

static int rope(struct kl_array **out, struct kl_array *x, const struct kl_rope_params *p,
                struct kl_array *offset, struct kl_array *freqs, struct kl_stream *s,
                struct kl_error **err) {
    struct kl_array *in[3] = {NULL, NULL, NULL};
    int rc = kl_in_rows(&in[0], x, KL_ROWS_READ, s, err);
    if (rc == KL_OK) rc = kl_cast_to(&in[1], offset, KL_I32, s, err);
    if (rc == KL_OK && freqs) rc = kl_cast_to(&in[2], freqs, KL_F32, s, err);
    if (rc == KL_OK)
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_ROPE,
                                                 .stream = s,
                                                 .params = p,
                                                 .params_bytes = sizeof *p,
                                                 .in = in,
                                                 .n_in = freqs ? 3 : 2},
                          x->t.dtype, x->t.ndim, x->t.dims, err);
    kl_release_all(in, 3);
    return rc;
}

int kl_rope(struct kl_array **out, struct kl_array *x, int dims, bool traditional,
            struct kl_rope_base base, float scale, struct kl_array *offset, struct kl_array *freqs,
            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ROPE, x, dims, traditional, base.given, (double)base.value, (double)scale, offset,
             freqs);
    struct kl_rope_params p = {dims, traditional, false, base.value, scale};
    KL_TRY(kl_check_array(x, "x", err));
    KL_TRY(kl_check_array(offset, "offset", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(check_rope(x, dims, base, offset, freqs, err));
    return rope(out, x, &p, offset, freqs, s, err);
}

/* The gradient of x is the cotangent rotated back. Offsets and frequencies get no gradient. */
int kl_vjp_rope(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_rope_params p = *(const struct kl_rope_params *)v->params;
    struct kl_array *in[3] = {v->cotangent[0], v->in[1], v->n_in > 2 ? v->in[2] : NULL};
    if (!v->wanted[0]) return KL_OK;
    p.inverse = !p.inverse;
    return kl_array_op1(grad,
                        &(struct kl_operation){.op = KL_OP_ROPE,
                                               .stream = v->s,
                                               .params = &p,
                                               .params_bytes = sizeof p,
                                               .in = in,
                                               .n_in = v->n_in},
                        v->in[0]->t.dtype, v->in[0]->t.ndim, v->in[0]->t.dims, err);
}

int kl_rebuild_rope(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    struct kl_rope_params p;
    KL_TRY(kl_build_params(b, &p, sizeof p, err));
    KL_TRY(kl_build_flag(&p.traditional, err));
    KL_TRY(kl_build_flag(&p.inverse, err));
    KL_TRY(kl_check_stream(b->s, err));
    if (b->n_in != 2 && b->n_in != 3)
        return kl_fail(err, KL_EARG, "%d inputs are given; rope takes 2 or 3", b->n_in);
    struct kl_array *freqs = b->n_in == 3 ? b->in[2] : NULL;
    struct kl_rope_base base = {freqs == NULL, p.base};
    KL_TRY(check_rope(b->in[0], p.dims, base, b->in[1], freqs, err));
    return rope(out, b->in[0], &p, b->in[1], freqs, b->s, err);
}

/* ---- batches ---- */

/* The offsets of all elements of the batch of all lanes, (lanes * batch). */
static int all_offsets(struct kl_array **out, const struct kl_vmap *v, int batch,
                       struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const int each[2] = {v->lanes, batch}, flat = v->lanes * batch;
    struct kl_array *x = KL_TERM(&t, kl_vmap_input(v, &t.made, 1, err));
    x = KL_TERM(&t, kl_broadcast_view(&t.made, x, 2, each, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, 1, &flat, v->s, err));
    return kl_terms_end(&t, x, out);
}

/* The lanes are the batch when every element of a lane has the same offset. Otherwise lanes and
 * batch become one axis, for which an x without lanes would have to be copied; then, and where the
 * lanes have frequencies of their own, one lane is computed after another. */
int kl_vmap_rope(const struct kl_vmap *v, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_rope_params *p = v->params;
    struct kl_array *freqs = v->n_in > 2 ? v->in[2] : NULL, *offset = v->in[1];
    const int of_one = offset->t.ndim - v->mapped[1]; /* axes of the offset of one lane */
    const int batch = v->dims[0];
    *axis = 0;
    const bool alike = of_one == 0 || offset->t.dims[offset->t.ndim - 1] == 1;
    if ((freqs && v->mapped[2]) || (!alike && !v->mapped[0])) return kl_vmap_each(v, out, err);
    if (!alike && (int64_t)v->lanes * batch > INT32_MAX)
        return kl_fail(err, KL_ELIMIT,
                       "%d lanes of a batch of %d are more than %d, the most of one axis", v->lanes,
                       batch, INT32_MAX);
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *x = KL_TERM(&t, kl_vmap_input(v, &t.made, 0, err));
    if (alike) {
        struct kl_array *one =
            KL_TERM(&t, kl_reshape_to(&t.made, offset, v->mapped[1], &v->lanes, v->s, err));
        x = KL_TERM(&t, rope(&t.made, x, p, one, freqs, v->s, err));
        return kl_terms_end(&t, x, out);
    }
    struct kl_shape both = {.ndim = v->ndim, .dims = {v->lanes * batch}};
    for (int i = 1; i < v->ndim; i++) both.dims[i] = v->dims[i];
    struct kl_array *offsets = KL_TERM(&t, all_offsets(&t.made, v, batch, err));
    struct kl_array *y = KL_TERM(&t, kl_reshape_to(&t.made, x, both.ndim, both.dims, v->s, err));
    y = KL_TERM(&t, rope(&t.made, y, p, offsets, freqs, v->s, err));
    y = KL_TERM(&t, kl_reshape_to(&t.made, y, x->t.ndim, x->t.dims, v->s, err));
    return kl_terms_end(&t, y, out);
}
