/* index_gather.c - GATHER and GATHER_AXIS: the choice of access width and kernel; see index.h. */
#include "backend/gpu/lower/index.h"
#include "base/op/op_params.h"

static int gather(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_gather_params *p = c->params;
    const struct kl_arg *source_arg = &c->args[0], *out = &c->args[c->n_in],
                        *index[KL_INDEX_ARRAYS];
    struct kl_indexed_variant v = {0};
    struct kl_indexed x = {0};
    const void *rows[KL_INDEX_ARRAYS];
    if (out->size == 0) return kl_indexed_check(e, c, source_arg);
    KL_TRY(kl_indexed_describe(e, c, source_arg, &v, &x, index));
    struct kl_index_range r = kl_index_positions(c, index[0], v.n_index);
    KL_TRY(kl_indexed_slice_space(e, p->ndim, p->v + p->n_axes, 1, &source_arg->strides, &x.slice));
    x.n = r.end - r.begin;
    x.inner = x.slice.n;
    KL_TRY(kl_indexed_row_major(e, index, v.n_index, rows, 0, NULL));
    v.item = (uint8_t)kl_indexed_widen(&x, v.n_index, kl_dtype_size(out->dtype),
                                       kl_indexed_widest(e->driver), source_arg->data, out->data);
    v.flat_slice = kl_indexed_flat_slice(&x.slice);
    int64_t items = x.n * x.inner;
    v.small = items <= INT32_MAX;
    v.each = kl_indexed_each(items, v.item);
    struct kl_fault_args f = kl_fault_args(c);
    struct kl_karg args[KL_MAX_KARGS];
    struct kl_indexed_bytes packed;
    int n = 0;
    args[n++] = kl_indexed_pack(&v, &x, &packed);
    /* Nothing is taken from an empty array, but the kernel reads an element before it knows that
     * the index is wrong. */
    args[n++] = KL_KARG_PTR(source_arg->size ? source_arg->data : out->data, v.item);
    for (int k = 0; k < v.n_index || k == 0; k++)
        args[n++] = v.n_index ? kl_index_item_ptr(rows[k], r.begin, kl_dtype_size(index[k]->dtype))
                              : KL_KARG_PTR(NULL, 1);
    args[n++] = kl_index_item_ptr(out->data, r.begin * x.inner, v.item);
    args[n++] = f.ptr;
    args[n++] = KL_KARG(c->word.index);
    return kl_indexed_emit_slices(e, &v, "gather", &x, v.item, args, n);
}

static int gather_axis(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_axis_params *p = c->params;
    struct kl_axis_job j = {.e = e,
                            .c = c,
                            .array = &c->args[0],
                            .index = &c->args[1],
                            .out = c->args[2].data,
                            .v = {.item = (uint8_t)kl_dtype_size(c->args[0].dtype), .each = 1}};
    KL_TRY(kl_indexed_describe(e, c, j.array, &j.v, &j.x, &j.index));
    return kl_indexed_along_axis(&j, p->axis);
}

int kl_lower_gather(struct kl_emit *e, const struct kl_command *c) {
    return c->op == KL_OP_GATHER ? gather(e, c) : gather_axis(e, c);
}
