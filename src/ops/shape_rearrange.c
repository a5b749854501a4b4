/* shape_rearrange.c - pad, tile, repeat, roll and meshgrid, which repeat or move elements or
 * surround them with others. Made of views, joins and gathers. */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/ops.h"

static int check_extent(int64_t n, struct kl_error **err) {
    if (n <= INT32_MAX) return KL_OK;
    return kl_fail(err, KL_ELIMIT,
                   "%lld elements are too many for one axis; at most %d are possible", (long long)n,
                   INT32_MAX);
}

/* ---- pad ---- */
enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };

struct padding {
    int low[KL_MAX_NDIM], high[KL_MAX_NDIM];
    struct kl_shape to;
    bool none;
};

static int pad_mode(enum pad_mode *out, const char *mode, struct kl_error **err) {
    static const char *const names[] = {"constant", "edge", "reflect", "symmetric"};
    if (!mode) return kl_fail(err, KL_EARG, "the mode is NULL; \"constant\" is the usual one");
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, names[i]) == 0) {
            *out = (enum pad_mode)i;
            return KL_OK;
        }
    return kl_fail(
        err, KL_EARG,
        "mode \"%.40s\"; \"constant\", \"edge\", \"reflect\" and \"symmetric\" are taken", mode);
}

static int resolve_padding(struct padding *p, const struct kl_array *a, const int *axes,
                           size_t axes_num, const int *low, size_t low_num, const int *high,
                           size_t high_num, struct kl_error **err) {
    int at[KL_MAX_NDIM];
    KL_TRY(kl_check_axes(at, axes, axes_num, a->t.ndim, err));
    if (low_num != axes_num || high_num != axes_num)
        return kl_fail(err, KL_EARG,
                       "%zu low and %zu high sizes are given for %zu axes; one of each per axis is "
                       "needed",
                       low_num, high_num, axes_num);
    KL_TRY(kl_check_list(low, low_num, "the list of low sizes", err));
    KL_TRY(kl_check_list(high, high_num, "the list of high sizes", err));
    p->to = kl_shape_of(a);
    p->none = true;
    for (int i = 0; i < a->t.ndim; i++) p->low[i] = p->high[i] = 0;
    for (size_t k = 0; k < axes_num; k++) {
        if (low[k] < 0 || high[k] < 0)
            return kl_fail(err, KL_EARG, "sizes %d and %d for axis %d; they are 0 or more", low[k],
                           high[k], axes[k]);
        p->low[at[k]] = low[k];
        p->high[at[k]] = high[k];
        int64_t n = (int64_t)p->to.dims[at[k]] + low[k] + high[k];
        KL_TRY(check_extent(n, err));
        p->to.dims[at[k]] = (int)n;
        p->none = p->none && low[k] == 0 && high[k] == 0;
    }
    return KL_OK;
}

static int pad_constant(struct kl_array **out, struct kl_array *a, const struct padding *p,
                        struct kl_array *value, struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    struct kl_shape checked;
    int stop[KL_MAX_NDIM], step[KL_MAX_NDIM];
    size_t n = (size_t)a->t.ndim;
    for (size_t i = 0; i < n; i++) {
        stop[i] = p->low[i] + a->t.dims[i];
        step[i] = 1;
    }
    if (value->t.size != 1)
        return kl_fail(err, KL_ESHAPE, "the value has shape %s; one element is taken",
                       KL_SHAPE_TEXT_OF(value));
    KL_TRY(kl_check_shape(&checked, p->to.dims, n, dtype, NULL, err));
    struct kl_array *one = KL_TERM(&t, kl_reshape_to(&t.made, value, 0, NULL, s, err));
    if (a->t.size == 0) {
        one = KL_TERM(&t, kl_full(&t.made, p->to.dims, n, one, dtype, s, err));
        return kl_terms_end(&t, one, out);
    }
    one = KL_TERM(&t, kl_cast_to(&t.made, one, dtype, s, err));
    /* A view: the update writes the value only to the places around a. */
    struct kl_array *full =
        KL_TERM(&t, kl_broadcast_view(&t.made, one, p->to.ndim, p->to.dims, err));
    struct kl_array *done =
        KL_TERM(&t, kl_slice_update(&t.made, full, a, p->low, n, stop, n, step, n, s, err));
    return kl_terms_end(&t, done, out);
}

/* The number of the element, of n, that is shown at place i, which may be outside of [0, n). */
static int64_t source_of(enum pad_mode mode, int64_t i, int64_t n) {
    if (mode == PAD_EDGE) return i < 0 ? 0 : i < n ? i : n - 1;
    /* The axis is read forwards and backwards by turns: the ends appear once (reflect) or twice
     * (symmetric). */
    int64_t period = mode == PAD_REFLECT ? 2 * (n - 1) : 2 * n;
    if (period == 0) return 0;
    int64_t at = i % period;
    if (at < 0) at += period;
    return at < n ? at : mode == PAD_REFLECT ? period - at : period - 1 - at;
}

static int pad_axis(struct kl_array **out, struct kl_array *a, int axis, int low, int high,
                    enum pad_mode mode, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *indices;
    int n = a->t.dims[axis], to = low + n + high;
    if (n == 0)
        return kl_fail(err, KL_ESHAPE, "axis %d of shape %s is empty: it has no edge to repeat",
                       axis, KL_SHAPE_TEXT_OF(a));
    int32_t *at = kl_malloc((size_t)to * sizeof *at);
    if (!at) return kl_fail_nomem(err);
    for (int i = 0; i < to; i++) at[i] = (int32_t)source_of(mode, (int64_t)i - low, n);
    int rc = kl_array_new_data(&indices, at, KL_I32, 1, &to, err);
    kl_free(at);
    if (rc) return rc;
    kl_array_set_range(indices, 0, n - 1);
    rc = kl_take_axis(out, a, indices, axis, s, err);
    kl_array_release(indices);
    return rc;
}

int kl_pad(struct kl_array **out, struct kl_array *a, const int *axes, size_t axes_num,
           const int *low, size_t low_num, const int *high, size_t high_num,
           struct kl_array *pad_value, const char *mode, struct kl_stream *s,
           struct kl_error **err) {
    KL_DEFER(PAD, a, axes, axes_num, low, low_num, high, high_num, pad_value, mode);
    struct padding p;
    enum pad_mode how = PAD_CONSTANT;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(pad_mode(&how, mode, err));
    KL_TRY(resolve_padding(&p, a, axes, axes_num, low, low_num, high, high_num, err));
    if (how == PAD_CONSTANT) KL_TRY(kl_check_array(pad_value, "pad_value", err));
    if (p.none) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    if (how == PAD_CONSTANT) return pad_constant(out, a, &p, pad_value, s, err);
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *padded = a;
    for (int i = 0; i < a->t.ndim; i++)
        if (p.low[i] || p.high[i])
            padded = KL_TERM(&t, pad_axis(&t.made, padded, i, p.low[i], p.high[i], how, s, err));
    return kl_terms_end(&t, padded, out);
}

int kl_pad_symmetric(struct kl_array **out, struct kl_array *a, int pad_width,
                     struct kl_array *pad_value, const char *mode, struct kl_stream *s,
                     struct kl_error **err) {
    int axes[KL_MAX_NDIM], width[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    size_t n = (size_t)a->t.ndim;
    for (size_t i = 0; i < n; i++) {
        axes[i] = (int)i;
        width[i] = pad_width;
    }
    return kl_pad(out, a, axes, n, width, n, width, n, pad_value, mode, s, err);
}

/* ---- tile, repeat ---- */
/* Puts a new axis of `before` copies before each of a's axes and a new axis of `after` copies
 * after it; the three then become one axis. The lists have a->t.ndim entries. */
static int multiply_axes(struct kl_array **out, struct kl_array *a, const int *before,
                         const int *after, struct kl_stream *s, struct kl_error **err) {
    struct kl_shape apart = {0}, wide = {0}, to = {.ndim = a->t.ndim}, checked;
    struct kl_terms t = kl_terms_begin(s, err);
    for (int i = 0; i < a->t.ndim; i++) {
        int n = a->t.dims[i];
        int64_t size = n; /* one of the two counts is 1 */
        size *= before[i];
        size *= after[i];
        KL_TRY(check_extent(size, err));
        to.dims[i] = (int)size;
        const int copies[3] = {before[i], 1, after[i]}, own[3] = {1, n, 1};
        for (int k = 0; k < 3; k++) {
            if (k != 1 && copies[k] == 1) continue;
            if (wide.ndim == KL_MAX_NDIM)
                return kl_fail(err, KL_ESHAPE, "shape %s has too many axes for this",
                               KL_SHAPE_TEXT_OF(a));
            apart.dims[apart.ndim++] = own[k];
            wide.dims[wide.ndim++] = own[k] == 1 && k != 1 ? copies[k] : own[k];
        }
    }
    KL_TRY(kl_check_shape(&checked, to.dims, (size_t)to.ndim, a->t.dtype, NULL, err));
    struct kl_array *x = KL_TERM(&t, kl_in_rows(&t.made, a, KL_ROWS_MOVED, s, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, apart.ndim, apart.dims, s, err));
    x = KL_TERM(&t, kl_broadcast_view(&t.made, x, wide.ndim, wide.dims, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, to.ndim, to.dims, s, err));
    return kl_terms_end(&t, x, out);
}

int kl_tile(struct kl_array **out, struct kl_array *a, const int *reps, size_t reps_num,
            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(TILE, a, reps, reps_num);
    struct kl_terms t = kl_terms_begin(s, err);
    int before[KL_MAX_NDIM], after[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_list(reps, reps_num, "the list of repetitions", err));
    int own = a->t.ndim, n = (int)reps_num > own ? (int)reps_num : own;
    for (int i = 0; i < n; i++) { /* both lists are aligned at the last axis */
        int r = i - (n - (int)reps_num), d = i - (n - own);
        before[i] = r < 0 ? 1 : reps[r];
        after[i] = 1;
        dims[i] = d < 0 ? 1 : a->t.dims[d];
        if (before[i] < 0)
            return kl_fail(err, KL_EARG, "%d repetitions; 0 or more are possible", before[i]);
    }
    struct kl_array *shaped = KL_TERM(&t, kl_reshape_to(&t.made, a, n, dims, s, err));
    struct kl_array *tiled = KL_TERM(&t, multiply_axes(&t.made, shaped, before, after, s, err));
    return kl_terms_end(&t, tiled, out);
}

int kl_repeat_axis(struct kl_array **out, struct kl_array *a, int repeats, int axis,
                   struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(REPEAT_AXIS, a, repeats, axis);
    int before[KL_MAX_NDIM], after[KL_MAX_NDIM];
    KL_TRY(kl_check_array(a, "arr", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    if (repeats < 0)
        return kl_fail(err, KL_EARG, "%d repetitions; 0 or more are possible", repeats);
    for (int i = 0; i < a->t.ndim; i++) before[i] = after[i] = 1;
    after[axis] = repeats;
    return multiply_axes(out, a, before, after, s, err);
}

int kl_repeat(struct kl_array **out, struct kl_array *a, int repeats, struct kl_stream *s,
              struct kl_error **err) {
    struct kl_array *flat;
    KL_TRY(kl_check_array(a, "arr", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_flatten_all(&flat, a, s, err));
    int rc = kl_repeat_axis(out, flat, repeats, 0, s, err);
    kl_array_release(flat);
    return rc;
}

/* ---- roll ---- */
static int roll_one(struct kl_array **out, struct kl_array *a, int64_t shift, int axis,
                    struct kl_stream *s, struct kl_error **err) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM], dims[KL_MAX_NDIM];
    struct kl_terms t = kl_terms_begin(s, err);
    int64_t n = a->t.dims[axis], by = n ? shift % n : 0;
    if (by < 0) by += n;
    if (by == 0) {
        *out = kl_array_retain(a);
        return KL_OK;
    }
    for (int i = 0; i < a->t.ndim; i++) {
        step[i] = 1;
        dims[i] = a->t.dims[i];
    }
    start[axis] = (int)(n - by);
    dims[axis] = (int)by;
    struct kl_array *tail = KL_TERM(&t, kl_slice_to(&t.made, a, start, step, dims, err));
    start[axis] = 0;
    dims[axis] = (int)(n - by);
    struct kl_array *head = KL_TERM(&t, kl_slice_to(&t.made, a, start, step, dims, err));
    struct kl_array *parts[2] = {tail, head};
    struct kl_array *rolled = KL_TERM(&t, kl_concatenate_axis(&t.made, parts, 2, axis, s, err));
    return kl_terms_end(&t, rolled, out);
}

static int sum_of(int64_t *sum, const int *shift, size_t n, struct kl_error **err) {
    *sum = 0;
    if (n && !shift) return kl_fail(err, KL_EARG, "the shifts are NULL with a count of %zu", n);
    for (size_t i = 0; i < n; i++) *sum += shift[i];
    return KL_OK;
}

int kl_roll_axis(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 int axis, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ROLL_AXIS, a, shift, shift_num, axis);
    int64_t total;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
    KL_TRY(sum_of(&total, shift, shift_num, err));
    return roll_one(out, a, total, axis, s, err);
}

int kl_roll_axes(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
                 const int *axes, size_t axes_num, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ROLL_AXES, a, shift, shift_num, axes, axes_num);
    struct kl_terms t = kl_terms_begin(s, err);
    int64_t by[KL_MAX_NDIM] = {0};
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(kl_check_list(axes, axes_num, "the list of axes", err));
    if (shift_num < axes_num)
        return kl_fail(err, KL_EARG, "%zu shifts are given for %zu axes; one per axis is needed",
                       shift_num, axes_num);
    if (axes_num && !shift)
        return kl_fail(err, KL_EARG, "the shifts are NULL with a count of %zu", shift_num);
    for (size_t i = 0; i < axes_num; i++) { /* an axis may be named again: its shifts are added */
        int axis = axes[i];
        KL_TRY(kl_check_axis(&axis, a->t.ndim, err));
        by[axis] += shift[i];
    }
    struct kl_array *rolled = a;
    for (int i = 0; i < a->t.ndim; i++)
        if (by[i]) rolled = KL_TERM(&t, roll_one(&t.made, rolled, by[i], i, s, err));
    return kl_terms_end(&t, rolled, out);
}

int kl_roll(struct kl_array **out, struct kl_array *a, const int *shift, size_t shift_num,
            struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(ROLL, a, shift, shift_num);
    struct kl_terms t = kl_terms_begin(s, err);
    int64_t total;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(sum_of(&total, shift, shift_num, err));
    struct kl_array *flat = KL_TERM(&t, kl_flatten_all(&t.made, a, s, err));
    struct kl_array *rolled = KL_TERM(&t, roll_one(&t.made, flat, total, 0, s, err));
    struct kl_array *shaped =
        KL_TERM(&t, kl_reshape_to(&t.made, rolled, a->t.ndim, a->t.dims, s, err));
    return kl_terms_end(&t, shaped, out);
}

/* ---- meshgrid ---- */
int kl_meshgrid(struct kl_array ***outs, size_t *n_outs, struct kl_array *const *arrays,
                size_t n_arrays, bool sparse, const char *indexing, struct kl_stream *s,
                struct kl_error **err) {
    int deferred;
    if (kl_shapeless_traces() &&
        kl_defer_many(&deferred, outs, n_outs, n_arrays, KL_DEFERRED_MESHGRID, s, err, arrays,
                      n_arrays, sparse, indexing, 0))
        return deferred;
    struct kl_shape to = {.ndim = (int)n_arrays}, one;
    KL_TRY(kl_check_arrays(arrays, n_arrays, "the arrays", err));
    if (!indexing || (strcmp(indexing, "xy") != 0 && strcmp(indexing, "ij") != 0))
        return kl_fail(err, KL_EARG, "indexing \"%.40s\"; \"xy\" and \"ij\" are taken",
                       indexing ? indexing : "NULL");
    if (n_arrays > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE,
                       "%zu arrays would make as many axes; at most %d are possible", n_arrays,
                       KL_MAX_NDIM);
    bool swap = indexing[0] == 'x' && n_arrays > 1; /* "xy" swaps the first two axes */
    for (int i = 0; i < to.ndim; i++) {
        KL_TRY(check_extent(arrays[i]->t.size, err));
        to.dims[swap && i < 2 ? 1 - i : i] = (int)arrays[i]->t.size;
    }
    struct kl_array **grids = kl_malloc((n_arrays + 1) * sizeof *grids);
    if (!grids) return kl_fail_nomem(err);
    int rc = sparse ? KL_OK : kl_check_shape(&one, to.dims, n_arrays, KL_C64, NULL, err);
    size_t made = 0;
    for (; !rc && made < n_arrays; made++) {
        int at = swap && made < 2 ? 1 - (int)made : (int)made;
        struct kl_terms t = kl_terms_begin(s, err);
        one.ndim = to.ndim;
        for (int i = 0; i < to.ndim; i++) one.dims[i] = i == at ? to.dims[i] : 1;
        struct kl_array *x =
            KL_TERM(&t, kl_reshape_to(&t.made, arrays[made], to.ndim, one.dims, s, err));
        if (!sparse) x = KL_TERM(&t, kl_broadcast_view(&t.made, x, to.ndim, to.dims, err));
        if ((rc = kl_terms_end(&t, x, &grids[made]))) break;
    }
    if (rc) {
        kl_release_all(grids, made);
        kl_free(grids);
        return rc;
    }
    *outs = grids;
    *n_outs = n_arrays;
    return KL_OK;
}
