/* proof.c - see proof.h. */
#include "graph/proof.h"

#include "base/index.h"

static bool fits(const struct kl_array *indices, int64_t size, int64_t extent) {
    if (indices->t.size == 0) return true;
    if (!indices->has_range) return false;
    /* A negative index counts from the end; where more than one element is taken it may not be near
     * it. */
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
