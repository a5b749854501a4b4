/* convert.c - the same values, typed or laid out another way. */
#include "ops/meet.h"
#include "ops/ops.h"

int kl_copy(struct kl_array **out, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_map_op(out, KL_OP_COPY, &a, 1, a->t.dtype, s, err));
    if (a->has_range) kl_array_set_range(*out, a->lo, a->hi);
    return KL_OK;
}

int kl_contiguous(struct kl_array **out, struct kl_array *a, bool allow_col_major,
                  struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    unsigned good = KL_ROW_CONTIGUOUS | (allow_col_major ? KL_COL_CONTIGUOUS : 0u);
    if (!(a->t.layout & good)) return kl_copy(out, a, s, err);
    *out = kl_array_retain(a);
    return KL_OK;
}

int kl_astype(struct kl_array **out, struct kl_array *a, int dtype, struct kl_stream *s,
              struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_dtype(dtype, err));
    return kl_cast_to(out, a, (enum kl_dtype)dtype, s, err);
}
