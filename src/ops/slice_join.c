/* slice_join.c - slice_update_add and the like, which combine a slice with an update. No two
 * elements of a slice have the same place, so the slice is read, combined and written back. */
#include "graph/trace.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/ops.h"

static int join(struct kl_array **out, kl_binary_fn *fn, struct kl_array *src,
                struct kl_array *update, const int *start, size_t start_num, const int *stop,
                size_t stop_num, const int *strides, size_t strides_num, struct kl_stream *s,
                struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    KL_TRY(kl_check_array(src, "src", err));
    KL_TRY(kl_check_array(update, "update", err));
    KL_TRY(kl_check_stream(s, err));
    struct kl_array *part = KL_TERM(
        &t, kl_slice(&t.made, src, start, start_num, stop, stop_num, strides, strides_num, s, err));
    struct kl_array *with =
        KL_TERM(&t, kl_cast_to(&t.made, update, (enum kl_dtype)src->t.dtype, s, err));
    /* An update that is larger than the slice is no update. Without a shape that is known, the
     * write below finds that out. */
    if (!kl_is_shapeless(part) && !kl_is_shapeless(with))
        with = KL_TERM(&t, kl_broadcast_view(&t.made, with, part->t.ndim, part->t.dims, err));
    struct kl_array *joined = KL_TERM(&t, fn(&t.made, part, with, s, err));
    struct kl_array *done =
        KL_TERM(&t, kl_slice_update(&t.made, src, joined, start, start_num, stop, stop_num, strides,
                                    strides_num, s, err));
    return kl_terms_end(&t, done, out);
}

#define SLICE_JOIN(name, fn)                                                                       \
    int name(struct kl_array **out, struct kl_array *src, struct kl_array *update,                 \
             const int *start, size_t start_num, const int *stop, size_t stop_num,                 \
             const int *strides, size_t strides_num, struct kl_stream *s, struct kl_error **err) { \
        return join(out, fn, src, update, start, start_num, stop, stop_num, strides, strides_num,  \
                    s, err);                                                                       \
    }
SLICE_JOIN(kl_slice_update_add, kl_add)
SLICE_JOIN(kl_slice_update_prod, kl_multiply)
SLICE_JOIN(kl_slice_update_max, kl_maximum)
SLICE_JOIN(kl_slice_update_min, kl_minimum)
