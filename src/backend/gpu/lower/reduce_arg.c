/* reduce_arg.c - ARGMAX and ARGMIN along one axis. The result depends on values alone, so the
 * way an axis is cut into segments may depend on anything. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 256,
    ENOUGH_GROUPS = 2048,
    OUTPUTS_WIDTH = 64, /* neighbouring outputs of one group */
    IN_FLIGHT = 8,      /* the number of loads that a work-item has in flight */
    LEAST_DEPTH = 32,   /* elements per work-item below which an axis is not cut */
};

const struct kl_family kl_family_arg_reduce = {
    .name = "arg_reduce", .source = kl_source_reduce_arg, .defines = {"T:IN", "OP"}};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static void split_axes(struct kl_axes *kept, const struct kl_arg *in, int axis,
                       const int64_t *strides) {
    *kept = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++)
        if (i != axis) kl_axes_add(kept, in->dims[i], strides[i], 0);
}

int kl_lower_arg_reduce(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    int axis = ((const struct kl_axis_params *)c->params)->axis;
    int values[] = {in->dtype, c->op == KL_OP_ARGMAX ? 1 : 2};
    uint32_t local = kl_local_size(e, WANT_LOCAL);
    size_t item = kl_dtype_size(in->dtype), copied = 0;
    const void *data = in->data;
    void *scratch = NULL;
    struct kl_axes kept;
    struct kl_space space;
    int64_t dense[KL_AXES_MAX], n = in->dims[axis], step = in->strides[axis];
    if (out->size == 0) return KL_OK;
    split_axes(&kept, in, axis, in->strides);
    /* Too many axes for a kernel: a row-major copy has fewer, since its axes merge. */
    if (!kl_axes_space(&kept, &space)) {
        kl_strides_row_major(in->ndim, in->dims, dense);
        copied = kl_scratch_bytes((size_t)in->size * item);
        split_axes(&kept, in, axis, dense);
        kl_axes_space(&kept, &space);
        step = dense[axis];
    }
    int32_t by_outputs = kept.ndim && magnitude(kl_axes_step(&kept)) < magnitude(step);
    int64_t most = kl_pow2_for(kl_groups_for(n, IN_FLIGHT), local);
    int64_t side = by_outputs ? kl_pow2_for(kept.n, OUTPUTS_WIDTH) : most;
    if (side > local) side = local;
    if (by_outputs && local / side > most) side = local / most;
    int32_t width = (int32_t)side;
    int64_t others = local / width, share = by_outputs ? others : width;
    int64_t blocks = kl_groups_for(kept.n, by_outputs ? width : others);
    int64_t pieces = kl_groups_for(n, share * LEAST_DEPTH);
    int64_t n_segs = kl_groups_for(ENOUGH_GROUPS, blocks);
    if (n_segs > pieces) n_segs = pieces;
    int64_t seg = kl_groups_for(n, n_segs);
    n_segs = kl_groups_for(n, seg);
    size_t parts = n_segs > 1 ? (size_t)(n_segs * kept.n) * 4 : 0;
    KL_TRY(kl_emit_workspace(e, copied + parts, &scratch));
    if (copied) {
        data = scratch;
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, dense, in->data, in->strides));
    }
    void *part = parts ? kl_scratch_at(scratch, copied) : NULL;
    struct kl_karg scan[] = {KL_KARG_PTR(data, item),
                             KL_KARG_PTR(out->data, 4),
                             KL_KARG_PTR(part, 4),
                             KL_KARG(kept.n),
                             KL_KARG(n),
                             KL_KARG(seg),
                             KL_KARG(n_segs),
                             KL_KARG(width),
                             KL_KARG(by_outputs),
                             KL_KARG(step),
                             KL_KARG(space)};
    KL_TRY(kl_emit(e, &kl_family_arg_reduce, values, "scan", blocks * n_segs, local, scan, 11));
    if (n_segs == 1) return KL_OK;
    int32_t across = (int32_t)(local / kl_pow2_for(n_segs, local));
    struct kl_karg join[] = {
        KL_KARG_PTR(data, item), KL_KARG_PTR(part, 4), KL_KARG_PTR(out->data, 4),
        KL_KARG(kept.n),         KL_KARG(n_segs),      KL_KARG(across),
        KL_KARG(step),           KL_KARG(space)};
    return kl_emit(e, &kl_family_arg_reduce, values, "join_places", kl_groups_for(kept.n, across),
                   local, join, 8);
}
