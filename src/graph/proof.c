/* proof.c - see proof.h. */
#include "graph/proof.h"

#include "base/op/index.h"

static bool fits(const struct kl_array *indices, int64_t size, int64_t extent) {
    if (indices->t.size == 0) return true;
    if (!indices->has_range) return false;
    /* A negative index counts from the end. Where more than one element is taken, it could be too
     * near the end, so no negative index is accepted then. */
    int64_t lowest = extent <= 1 ? -size : 0;
    return indices->lo >= lowest && indices->hi <= size - (extent < 1 ? 1 : extent);
}

bool kl_op_indices_proved(enum kl_op_id op, const void *params, struct kl_array *const *in,
                          int n_in) {
    struct kl_index_use u;
    if (n_in < 2 || !kl_index_use_of(op, params, &in[1]->t, in[0]->t.ndim, &u)) return false;
    for (int k = 0; k < u.n; k++) {
        int64_t size = in[0]->t.dims[u.axes[k]], extent = u.extents ? u.extents[u.axes[k]] : 1;
        if (u.first + k >= n_in || !fits(in[u.first + k], size, extent)) return false;
    }
    return true;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The range that holds the inputs from .. to - 1. Inputs without elements are left out. */
static void range_of_all(struct kl_array *out, struct kl_array *const *in, int from, int to) {
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int k = from; k < to; k++) {
        if (in[k]->t.size == 0) continue;
        if (!in[k]->has_range) return;
        lo = smaller(lo, in[k]->lo);
        hi = larger(hi, in[k]->hi);
    }
    if (lo <= hi) kl_array_set_range(out, lo, hi);
}

void kl_op_prove_range(struct kl_array *out, enum kl_op_id op, struct kl_array *const *in,
                       int n_in) {
    const enum kl_range_rule rule = kl_op_range_rule(op);
    int64_t lo, hi;
    if (rule == KL_RANGE_NONE || rule == KL_RANGE_BUILDER) return;
    if (!kl_int_limits((enum kl_dtype)out->t.dtype, &lo, &hi)) return;
    const struct kl_array *a = in[0], *b = n_in > 1 ? in[1] : a;
    const bool both = a->has_range && b->has_range;
    switch (rule) {
    case KL_RANGE_FIRST:
        if (a->has_range && a->t.dtype == out->t.dtype) kl_array_set_range(out, a->lo, a->hi);
        break;
    case KL_RANGE_VALUES: range_of_all(out, in, 1, 3); break;
    case KL_RANGE_ALL: range_of_all(out, in, 0, n_in); break;
    case KL_RANGE_LARGER:
        if (both) kl_array_set_range(out, larger(a->lo, b->lo), larger(a->hi, b->hi));
        break;
    case KL_RANGE_SMALLER:
        if (both) kl_array_set_range(out, smaller(a->lo, b->lo), smaller(a->hi, b->hi));
        break;
    case KL_RANGE_CONVERTED:
        if (a->t.dtype == KL_BOOL)
            kl_array_set_range(out, 0, 1);
        else if (a->has_range && a->lo >= lo && a->hi <= hi)
            kl_array_set_range(out, a->lo, a->hi);
        break;
    default: break;
    }
}
