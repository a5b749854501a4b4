/* index_nonzero.c - which elements are true, and reading by a mask: a running sum numbers the true
 * elements, and each writes its position to the place of its number. */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

int kl_count_true(int *n, struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *count, *flat;
    void *data;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = kl_count_nonzero(&count, flat, (const int[]){0}, 1, false, s, err);
    kl_array_release(flat);
    if (rc) return rc;
    rc = kl_array_host(count, &data, err);
    if (!rc) *n = *(const int32_t *)data;
    kl_array_release(count);
    return rc;
}

int kl_count_nonzero(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
                     bool keepdims, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_array *is = kl_term_cast(&t, a, KL_BOOL);
    struct kl_array *sum = KL_TERM(&t, kl_sum_axes(&t.made, is, axes, axes_num, keepdims, s, err));
    return kl_terms_end(&t, kl_term_cast(&t, sum, KL_I32), out);
}

/* The places of the true elements among n: of eight bytes, one bit of each that is not 0. */
static uint64_t eight_truths(const uint8_t *x, int64_t n) {
    uint64_t w = 0;
    memcpy(&w, x, (size_t)(n < 8 ? n : 8));
    w |= w >> 4;
    w |= w >> 2;
    return (w | w >> 1) & UINT64_C(0x0101010101010101);
}

static void list_true(int32_t *to, int32_t count, const uint8_t *x, int64_t n) {
    int32_t k = 0;
    for (int64_t i = 0; k < count; i += 8) {
        uint64_t w = eight_truths(x + i, n - i);
        if (k + 8 <= count)
            for (int b = 0; b < 8; b++) { /* a place that is not true is written over */
                to[k] = (int32_t)i + b;
                k += (int32_t)(w >> 8 * b & 1);
            }
        else
            for (; w; w &= w - 1) to[k++] = (int32_t)i + __builtin_ctzll(w) / 8;
    }
}

int kl_true_places(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    void *truths, *to;
    KL_TRY(kl_check_array(a, "a", err));
    struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    flat = KL_TERM(&t, kl_contiguous(&t.made, kl_term_cast(&t, flat, KL_BOOL), false, s, err));
    struct kl_array *places = NULL;
    if (!t.rc && !(t.rc = kl_array_host(flat, &truths, err))) {
        const int64_t n = flat->t.size;
        int count = 0;
        for (int64_t i = 0; i < n; i += 8)
            count +=
                (int)(eight_truths((uint8_t *)truths + i, n - i) * UINT64_C(0x0101010101010101) >>
                      56);
        places = KL_TERM(&t, kl_array_new_data(&t.made, NULL, KL_I32, 1, &count, err));
        if (!t.rc && !(t.rc = kl_array_host(places, &to, err))) list_true(to, count, truths, n);
        if (!t.rc && n > 0) kl_array_set_range(places, 0, n - 1);
    }
    return kl_terms_end(&t, places, out);
}

int kl_flatnonzero(struct kl_array **out, struct kl_array *a, int size, int fill_value,
                   struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(FLATNONZERO, a, size, fill_value);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    if (size < 0 || size == INT32_MAX)
        return kl_fail(err, KL_EARG, "size %d; 0 to %d are taken", size, INT32_MAX - 1);
    if (a->t.size > INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "an array of %lld elements; at most %d are possible",
                       (long long)a->t.size, INT32_MAX);
    const int n = (int)a->t.size, room = size + 1, column[] = {n, 1}, start = 0, step = 1;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *fill = kl_term_number(&t, fill_value, KL_I32);
    struct kl_array *places = KL_TERM(&t, kl_full(&t.made, &room, 1, fill, KL_I32, s, err));
    struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    flat = kl_term_cast(&t, flat, KL_BOOL);
    struct kl_array *number = kl_term_cast(&t, flat, KL_I32);
    number = KL_TERM(&t, kl_cumsum(&t.made, number, 0, false, false, s, err));
    /* Elements that nobody wants write to one more place, after the others. */
    struct kl_array *spare = kl_term_number(&t, size, KL_I32);
    number = kl_term2(&t, kl_minimum, kl_term_where(&t, flat, number, spare), spare);
    if (number) kl_array_set_range(number, 0, size);
    struct kl_array *at = KL_TERM(&t, kl_arange(&t.made, 0, n, 1, KL_I32, s, err));
    at = KL_TERM(&t, kl_reshape_to(&t.made, at, 2, column, s, err));
    struct kl_array *all =
        n == 0 ? places : KL_TERM(&t, kl_scatter_single(&t.made, places, number, at, 0, s, err));
    all = KL_TERM(&t, kl_slice_to(&t.made, all, &start, &step, &size, err));
    return kl_terms_end(&t, all, out);
}

/* The indices along axis k of positions in a, flattened; `fill` where the position is -1, if it may
 * be. */
static struct kl_array *along(struct kl_terms *t, struct kl_array *flat, const struct kl_array *a,
                              int k, bool may_be_none, int fill) {
    int64_t step = 1;
    for (int i = k + 1; i < a->t.ndim; i++) step *= a->t.dims[i];
    const int extent = a->t.dims[k] > 0 ? a->t.dims[k] : 1;
    struct kl_array *at = step > 1 ? kl_term_by(t, kl_floor_divide, flat, (double)step) : flat;
    if (k > 0 || may_be_none) at = kl_term_by(t, kl_remainder, at, extent);
    if (!may_be_none) return at;
    struct kl_array *none = kl_term_by(t, kl_less, flat, 0);
    return kl_term_where(t, none, kl_term_number(t, fill, KL_I32), at);
}

int kl_nonzero(struct kl_array ***outs, size_t *n, struct kl_array *a, int size,
               struct kl_array *places, const int *fill_values, size_t fill_values_num,
               struct kl_stream *s, struct kl_error **err) {
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    if (a->t.ndim == 0)
        return kl_fail(err, KL_ESHAPE, "an array without axes; one or more are needed");
    if (fill_values && fill_values_num != (size_t)a->t.ndim)
        return kl_fail(err, KL_EARG,
                       "%zu fill values for an array of %d axes; one for each is taken",
                       fill_values_num, a->t.ndim);
    int deferred;
    if (kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n, (size_t)a->t.ndim, KL_DEFERRED_NONZERO, s, err, a, size,
                      fill_values, fill_values ? fill_values_num : (size_t)0, 0))
        return deferred;
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array **list = kl_malloc((size_t)a->t.ndim * sizeof *list);
    if (!list) return kl_fail_nomem(err);
    struct kl_array *flat = places;
    if (!flat) flat = KL_TERM(&t, kl_flatnonzero(&t.made, a, size, -1, s, err));
    for (int k = 0; k < a->t.ndim; k++)
        list[k] =
            kl_terms_keep(&t, along(&t, flat, a, k, !places, fill_values ? fill_values[k] : 0));
    int rc = kl_terms_end(&t, NULL, NULL);
    if (rc) {
        for (int k = 0; k < a->t.ndim; k++) kl_array_release(list[k]);
        kl_free(list);
        return rc;
    }
    *outs = list;
    *n = (size_t)a->t.ndim;
    return KL_OK;
}

int kl_argwhere(struct kl_array **out, struct kl_array *a, int size, struct kl_array *places,
                int fill_value, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ARGWHERE, a, size, fill_value);
    int fill[KL_MAX_NDIM];
    struct kl_array **list;
    size_t n;
    KL_TRY(kl_check_array(a, "a", err));
    if (a->t.ndim == 0) return kl_zeros(out, (const int[]){size, 0}, 2, KL_I32, s, err);
    for (int i = 0; i < a->t.ndim; i++) fill[i] = fill_value;
    KL_TRY(kl_nonzero(&list, &n, a, size, places, fill, (size_t)a->t.ndim, s, err));
    int rc = kl_stack_axis(out, list, n, 1, s, err);
    kl_release_all(list, n);
    kl_free(list);
    return rc;
}

int kl_masked_select(struct kl_array **out, struct kl_array *a, struct kl_array *mask, int size,
                     struct kl_array *places, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(MASKED_SELECT, a, mask, size);
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(mask, "mask", err));
    bool fits = mask->t.ndim > 0 && mask->t.ndim <= a->t.ndim;
    for (int i = 0; fits && i < mask->t.ndim; i++) fits = mask->t.dims[i] == a->t.dims[i];
    if (!fits)
        return kl_fail(
            err, KL_ESHAPE,
            "a mask of shape %s for an array of shape %s; the extents of its first axes, "
            "one or more, are taken",
            KL_SHAPE_TEXT_OF(mask), KL_SHAPE_TEXT_OF(a));
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *at = places;
    if (!at) at = KL_TERM(&t, kl_flatnonzero(&t.made, mask, size, 0, s, err));
    if (at && mask->t.size > 0) kl_array_set_range(at, 0, mask->t.size - 1);
    struct kl_array *rows = KL_TERM(&t, kl_flatten(&t.made, a, 0, mask->t.ndim - 1, s, err));
    rows = KL_TERM(&t, kl_take_axis(&t.made, rows, at, 0, s, err));
    return kl_terms_end(&t, rows, out);
}
