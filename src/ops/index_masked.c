/* index_masked.c - writing elements at the places that a mask names. */
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

/* For each place of the mask that is set, the number of set places before it; any number elsewhere.
 * A stable sort brings the set places to the front, in order, so the place at position j has rank
 * j. */
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

/* The shape to which src is broadcast. It is the n_tail trailing axes of a that the mask does not
 * cover. When src has one axis more, that axis comes first, with one entry for each set place. */
static int source_shape(struct kl_shape *to, const struct kl_array *a, int n_tail,
                        const struct kl_array *src, struct kl_error **err) {
    const int *tail = a->t.dims + a->t.ndim - n_tail, more = src->t.ndim - n_tail;
    bool fits = more <= 1;
    to->ndim = 0;
    if (more == 1) to->dims[to->ndim++] = src->t.dims[0];
    for (int i = 0; i < n_tail; i++) {
        const int from = i + more;
        fits = fits && (from < 0 || src->t.dims[from] == 1 || src->t.dims[from] == tail[i]);
        to->dims[to->ndim++] = tail[i];
    }
    if (fits) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "src has shape %s; one that broadcasts to %s, the axes that the mask leaves, is "
                   "taken, and with one axis in front one for each place",
                   KL_SHAPE_TEXT_OF(src), KL_SHAPE_TEXT(n_tail, tail));
}

int kl_masked_scatter(struct kl_array **out, struct kl_array *a, struct kl_array *mask,
                      struct kl_array *src, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(MASKED_SCATTER, a, mask, src);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_shape lead, wanted;
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
    const int n_tail = a->t.ndim - mask->t.ndim;
    KL_TRY(source_shape(&wanted, a, n_tail, src, err));
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
    values = KL_TERM(&t, kl_broadcast_view(&t.made, values, wanted.ndim, wanted.dims, err));
    if (wanted.ndim > n_tail) { /* otherwise src is the same for every place, and broadcasts */
        struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, which, s, err));
        struct kl_array *rank;
        /* possibly no place is true; index 0 exists then, and every other index fails */
        if (wanted.dims[0] == 0) {
            const int one = 1;
            values = KL_TERM(&t, kl_zeros(&t.made, &one, 1, a->t.dtype, s, err));
            rank = KL_TERM(&t, kl_cast_to(&t.made, flat, KL_U32, s, err));
        } else {
            rank = KL_TERM(&t, ranks(&t.made, flat, s, err));
        }
        struct kl_origin before = kl_alias_set(KL_ALIAS_MASKED_SCATTER);
        values = KL_TERM(&t, kl_take(&t.made, values, rank, s, err));
        kl_origin_set(before);
        values = KL_TERM(&t, kl_reshape_to(&t.made, values, a->t.ndim, a->t.dims, s, err));
    }
    struct kl_array *done = KL_TERM(&t, kl_where(&t.made, which, values, a, s, err));
    return kl_terms_end(&t, done, out);
}
