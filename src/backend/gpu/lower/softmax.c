/* softmax.c - SOFTMAX over the last axes, LOG_SOFTMAX over the last one: short rows, which a group
 * can keep in registers, or segments of longer rows. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    LOCAL_SHORT = 256,
    /* Bytes of computed values that a work-item keeps in registers; the same number is in
     * softmax.kl. */
    KEPT_BYTES = 128,
    LONGEST_KEPT = 16384,
    VEC_BYTES = 16,
    ENOUGH_GROUPS = 2048,
};

const struct kl_family kl_family_softmax = {
    .name = "softmax", .source = kl_source_softmax, .defines = {"T:IN", "LOGARITHM"}};

struct plan {
    struct kl_axes lead, row;
    struct kl_space space; /* the space of `lead` */
    const void *in;
    int32_t vector;
    int64_t step;
};

static void split_axes(struct plan *p, const struct kl_command *c, const int64_t *strides) {
    const struct kl_arg *in = &c->args[0];
    int first = c->op == KL_OP_LOG_SOFTMAX ? in->ndim - 1
                                           : ((const struct kl_softmax_params *)c->params)->axis;
    p->lead = p->row = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++)
        kl_axes_add(i < first ? &p->lead : &p->row, in->dims[i], strides[i], 0);
}

static bool vectors(const struct plan *p, const void *out, size_t item) {
    int64_t vec = VEC_BYTES / (int64_t)item;
    if (p->step != 1 || p->row.n % vec || (uintptr_t)p->in % VEC_BYTES ||
        (uintptr_t)out % VEC_BYTES)
        return false;
    for (int i = 0; i < p->lead.ndim; i++)
        if (p->lead.strides[0][i] % vec) return false;
    return true;
}

static uint32_t n_kept(size_t item) {
    return KEPT_BYTES / (item < 4 ? 4 : (uint32_t)item);
}

static int short_rows(struct kl_emit *e, const struct kl_command *c, struct plan *p,
                      uint32_t local) {
    const struct kl_arg *out = &c->args[1];
    int values[] = {out->dtype, c->op == KL_OP_LOG_SOFTMAX};
    size_t access = p->vector ? VEC_BYTES : kl_dtype_size(out->dtype);
    int32_t width =
        (int32_t)kl_pow2_for(kl_groups_for(p->row.n, n_kept(kl_dtype_size(out->dtype))), local);
    struct kl_karg args[] = {KL_KARG_PTR(p->in, access),
                             KL_KARG_PTR(out->data, access),
                             KL_KARG(p->lead.n),
                             KL_KARG(p->row.n),
                             KL_KARG(width),
                             KL_KARG(p->vector),
                             KL_KARG(p->step),
                             KL_KARG(p->space)};
    return kl_emit(e, &kl_family_softmax, values, "softmax_rows",
                   kl_groups_for(p->lead.n, local / (uint32_t)width), local, args, 8);
}

/* part: memory for the segments; NULL in a dry run. */
static int long_rows(struct kl_emit *e, const struct kl_command *c, struct plan *p, uint32_t local,
                     int64_t seg, int64_t n_segs, void *part) {
    const struct kl_arg *out = &c->args[1];
    int values[] = {out->dtype, c->op == KL_OP_LOG_SOFTMAX};
    size_t item = kl_dtype_size(out->dtype), access = p->vector ? VEC_BYTES : item;
    size_t acc_bytes = item < 4 ? 4 : item;
    struct kl_karg parts[] = {KL_KARG_PTR(p->in, access),
                              KL_KARG_PTR(part, acc_bytes),
                              KL_KARG(p->row.n),
                              KL_KARG(seg),
                              KL_KARG(n_segs),
                              KL_KARG(p->vector),
                              KL_KARG(p->step),
                              KL_KARG(p->space)};
    struct kl_karg write[] = {KL_KARG_PTR(p->in, access),
                              KL_KARG_PTR(part, acc_bytes),
                              KL_KARG_PTR(out->data, access),
                              KL_KARG(p->row.n),
                              KL_KARG(seg),
                              KL_KARG(n_segs),
                              KL_KARG(p->vector),
                              KL_KARG(p->step),
                              KL_KARG(p->space)};
    int64_t groups = p->lead.n * n_segs;
    KL_TRY(kl_emit(e, &kl_family_softmax, values, "softmax_parts", groups, local, parts, 8));
    return kl_emit(e, &kl_family_softmax, values, "softmax_write", groups, local, write, 9);
}

int kl_lower_softmax(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    size_t item = kl_dtype_size(in->dtype), copied = 0, parts = 0;
    int64_t dense[KL_AXES_MAX], seg = 0, n_segs = 1;
    struct plan p = {.in = in->data};
    void *scratch = NULL;
    if (out->size == 0) return KL_OK;
    split_axes(&p, c, in->strides);
    if (!kl_axes_linear(&p.row) || !kl_axes_space(&p.lead, &p.space)) {
        kl_strides_row_major(in->ndim, in->dims, dense);
        split_axes(&p, c, dense);
        kl_axes_space(&p.lead, &p.space);
        copied = kl_scratch_bytes((size_t)in->size * item);
    }
    int64_t n = p.row.n, kept = n_kept(item);
    uint32_t local = kl_local_size(e, n <= LOCAL_SHORT * kept || n > LONGEST_KEPT
                                          ? LOCAL_SHORT
                                          : LONGEST_KEPT / (uint32_t)kept);
    bool is_long = n > (int64_t)local * kept;
    if (is_long) {
        local = kl_local_size(e, LOCAL_SHORT);
        int64_t unit = local * kept, want = kl_groups_for(ENOUGH_GROUPS, p.lead.n);
        seg = kl_groups_for(kl_groups_for(n, want), unit) * unit;
        n_segs = kl_groups_for(n, seg);
        parts = (size_t)(p.lead.n * n_segs) * 2 * (item < 4 ? 4 : item);
    }
    KL_TRY(kl_emit_workspace(e, copied + parts, &scratch));
    if (copied) {
        p.in = scratch;
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, dense, in->data, in->strides));
    }
    /* With one element per row the step does not matter. */
    p.step = n == 1 ? 1 : kl_axes_step(&p.row);
    p.vector = vectors(&p, out->data, item);
    return is_long ? long_rows(e, c, &p, local, seg, n_segs, kl_scratch_at(scratch, copied))
                   : short_rows(e, c, &p, local);
}
