/* convert.c - operations that keep the values and change the dtype or the layout. */
#include "ops/build/build.h"
#include "ops/build/meet.h"
#include "ops/build/vjp.h"
#include "ops/ops.h"

int kl_copy(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    return kl_map_op(out, KL_OP_COPY, &a, 1, NULL, a->t.dtype, s, err);
}

int kl_contiguous(struct kl_array **out, struct kl_array *a, bool allow_col_major,
                  struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    unsigned good = KL_ROW_CONTIGUOUS | (allow_col_major ? KL_COL_CONTIGUOUS : 0u);
    if (!(a->t.layout & good) || kl_array_of_placeholder(a)) return kl_copy(out, a, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

int kl_row_contiguous(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                      struct kl_error **err) {
    if (!(a->t.layout & KL_ROW_CONTIGUOUS)) return kl_copy(out, a, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

int kl_astype(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_dtype(dtype, err));
    return kl_cast_to(out, a, (enum kl_dtype)dtype, s, err);
}

int kl_stop_gradient(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                     struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_array_view(out, KL_OP_STOP_GRADIENT, NULL, 0, a, a->t.ndim, a->t.dims, a->t.strides,
                         0, err));
    (*out)->stopped = true; /* the view of a settled array has no node that would say so */
    return KL_OK;
}

/* ---- vjp rules ---- */

int kl_vjp_copy(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    if (v->wanted[0]) grad[0] = kl_array_retain(v->cotangent[0]);
    return KL_OK;
}

/* A conversion from or to integers is constant almost everywhere. A conversion to a real type drops
 * the imaginary part; the conversion of the cotangent back does so too. */
int kl_vjp_cast(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    if (!v->wanted[0] || !kl_has_gradient(v->in[0]) || !kl_has_gradient(v->cotangent[0]))
        return KL_OK;
    return kl_cast_to(&grad[0], v->cotangent[0], (enum kl_dtype)v->in[0]->t.dtype, v->s, err);
}

/* ---- made again ---- */

int kl_rebuild_copy(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_copy(out, b->in[0], b->s, err);
}

int kl_rebuild_cast(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_astype(out, b->in[0], (int)b->dtype, b->s, err);
}

int kl_rebuild_stop_gradient(const struct kl_build *b, struct kl_array **out,
                             struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_stop_gradient(out, b->in[0], b->s, err);
}
