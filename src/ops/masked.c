/* masked.c - writing where a mask says. */
#include "ops/meet.h"
#include "ops/ops.h"
#include "ops/terms.h"
#include "ops/views.h"

/* How many places of the mask are set before each one that is set; anything elsewhere. A stable sort brings the set ones to the front, in order: what
 * stands at place j then is the place of rank j. */
static int ranks(struct kl_array **out, struct kl_array *mask, struct kl_stream *s,
                 struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    int n = mask->t.dims[0];
    struct kl_array *unset = KL_TERM(&t, kl_logical_not(&t.made, mask, s, err));
    struct kl_array *places = KL_TERM(&t, kl_argsort_axis(&t.made, unset, 0, s, err));
    struct kl_array *count = KL_TERM(&t, kl_arange(&t.made, 0, n, 1, KL_U32, s, err));
    struct kl_array *zeros = KL_TERM(&t, kl_zeros(&t.made, &n, 1, KL_U32, s, err));
    struct kl_array *rank =
        KL_TERM(&t, kl_put_along_axis(&t.made, zeros, places, count, 0, s, err));
    struct kl_array *zero = KL_TERM(&t, kl_array_new_scalar(&t.made, 0, KL_U32, err));
    rank = KL_TERM(&t, kl_where(&t.made, mask, rank, zero, s, err));
    return kl_terms_end(&t, rank, out);
}

int kl_masked_scatter(struct kl_array **out, struct kl_array *a, struct kl_array *mask,
                      struct kl_array *src, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape lead;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(mask, "mask", err));
    KL_TRY(kl_check_array(src, "src", err));
    KL_TRY(kl_check_stream(s, err));
    if (mask->t.dtype != KL_BOOL)
        return kl_fail(err, KL_EDTYPE, "the mask is %s; bool is taken",
                       kl_dtype_name(mask->t.dtype));
    bool fits = mask->t.ndim <= a->t.ndim;
    for (int i = 0; i < mask->t.ndim && fits; i++) fits = mask->t.dims[i] == a->t.dims[i];
    if (!fits)
        return kl_fail(err, KL_ESHAPE, "a mask of shape %s is not how shape %s begins",
                       KL_SHAPE_TEXT_OF(mask), KL_SHAPE_TEXT_OF(a));
    if (a->t.size == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    lead = kl_shape_of(mask);
    while (lead.ndim < a->t.ndim) lead.dims[lead.ndim++] = 1;
    struct kl_array *which =
        KL_TERM(&t, kl_reshape_to(&t.made, mask, lead.ndim, lead.dims, s, err));
    which = KL_TERM(&t, kl_broadcast_view(&t.made, which, a->t.ndim, a->t.dims, err));
    struct kl_array *values =
        KL_TERM(&t, kl_cast_to(&t.made, src, (enum kl_dtype)a->t.dtype, s, err));
    if (src->t.ndim > 0) {
        struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, which, s, err));
        struct kl_array *rank = KL_TERM(&t, ranks(&t.made, flat, s, err));
        values = KL_TERM(&t, kl_take(&t.made, values, rank, s, err));
        values = KL_TERM(&t, kl_reshape_to(&t.made, values, a->t.ndim, a->t.dims, s, err));
    }
    struct kl_array *done = KL_TERM(&t, kl_where(&t.made, which, values, a, s, err));
    return kl_terms_end(&t, done, out);
}
