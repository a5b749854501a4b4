/* index.c - see index.h. */
#include "base/op/index.h"

#include <string.h>

#include "base/op/op_params.h"

bool kl_index_dtype(enum kl_dtype dtype) {
    return kl_dtype_is_int(dtype);
}

/* Reads a run of indices of one type. It uses memcpy, because in a view of user memory a step need
 * not be a multiple of the type's alignment. */
#define READ_RUN(T)                                    \
    do {                                               \
        T x;                                           \
        for (int64_t i = 0; i < n; i++) {              \
            memcpy(&x, at + i * step_bytes, sizeof x); \
            v[i] = (int64_t)x;                         \
        }                                              \
    } while (0)

void kl_index_read_run(const void *p, enum kl_dtype dtype, int64_t step_bytes, int64_t n,
                       int64_t *v) {
    const char *at = p;
    switch (dtype) {
    case KL_U8: READ_RUN(uint8_t); break;
    case KL_U16: READ_RUN(uint16_t); break;
    case KL_U32: READ_RUN(uint32_t); break;
    case KL_U64:
        READ_RUN(uint64_t);
        for (int64_t i = 0; i < n; i++)
            if (v[i] < 0) v[i] = INT64_MAX;
        break;
    case KL_I8: READ_RUN(int8_t); break;
    case KL_I16: READ_RUN(int16_t); break;
    case KL_I32: READ_RUN(int32_t); break;
    default: READ_RUN(int64_t); break;
    }
}

bool kl_index_read(const void *p, enum kl_dtype dtype, int64_t *v) {
    if (!kl_index_dtype(dtype)) return false;
    if (dtype == KL_U64)
        memcpy(v, p, sizeof *v);
    else
        kl_index_read_run(p, dtype, 0, 1, v);
    return true;
}

static int64_t element_offset(const struct kl_tensor *t, int64_t position) {
    int64_t offset = t->offset;
    for (int i = t->ndim - 1; i >= 0; i--) {
        offset += position % t->dims[i] * t->strides[i];
        position /= t->dims[i];
    }
    return offset;
}

bool kl_index_use_of(enum kl_op_id op, const void *params, const struct kl_tensor *in_1,
                     int source_ndim, struct kl_index_use *u) {
    const struct kl_gather_params *g = params;
    const struct kl_scatter_params *s = params;
    u->extents = NULL;
    u->first = kl_op_first_index(op);
    switch (op) {
    case KL_OP_GATHER:
        u->n = g->n_axes;
        u->axes = g->v;
        u->extents = g->v + g->n_axes;
        return true;
    case KL_OP_SCATTER:
        u->n = s->n_axes;
        u->axes = s->axes;
        u->extents = in_1->dims + (in_1->ndim - source_ndim);
        return true;
    case KL_OP_GATHER_AXIS:
        u->n = 1;
        u->axes = &((const struct kl_axis_params *)params)->axis;
        return true;
    case KL_OP_SCATTER_AXIS:
        u->n = 1;
        u->axes = &((const struct kl_scatter_axis_params *)params)->axis;
        return true;
    default: return false;
    }
}

bool kl_fault_locate(enum kl_op_id op, const void *params, int n_in, struct kl_tensor *const *in,
                     int64_t position,
                     bool (*read)(void *ctx, int input, int64_t element_offset, int64_t *value),
                     void *ctx, struct kl_fault_site *site) {
    struct kl_index_use u;
    bool found = false;
    if (n_in < 2 || !kl_index_use_of(op, params, in[1], in[0]->ndim, &u)) return false;
    for (int k = 0; k < u.n; k++) {
        int axis = u.axes[k];
        const struct kl_tensor *indices = in[u.first + k];
        int64_t size = in[0]->dims[axis], extent = u.extents ? u.extents[axis] : 1, v;
        if (found && axis > site->axis) continue;
        if (position >= indices->size ||
            !read(ctx, u.first + k, element_offset(indices, position), &v))
            return false;
        const uint64_t above = indices->dtype == KL_U64 && v < 0 ? (uint64_t)v : 0;
        if (above) v = INT64_MAX;
        if (kl_index_wrap(v, size, extent) >= 0) continue;
        *site = (struct kl_fault_site){u.first + k, v, above, axis, size, extent};
        found = true;
    }
    return found;
}
