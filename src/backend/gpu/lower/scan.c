/* scan.c - CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOGCUMSUMEXP along one axis: chooses the kernel
 * of scan.kl, and how long rows are cut so that a few of them use the whole device. A reversed scan
 * begins at the last element and goes backwards. */
#include "backend/gpu/lower/axes.h"
#include "backend/gpu/lower/kernels.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 256,
    COLUMNS_LOCAL = 512, /* columns are few, so that their groups are large */
    ENOUGH_GROUPS = 2048,
    VEC_BYTES = 16,
    ROW_BYTES = 128,   /* neighbouring rows of one group, in bytes of a cache line */
    ROW_TILE = 4,      /* vectors of one work-item; scan.kl has the same number and the next two */
    COLUMN_DEPTH = 16, /* scan.kl has the same number */
    SEGMENT_TILES = 8, /* rounds of a group below which a row is not cut */
    PART_BYTES = 16,   /* at least the size of what scan.kl accumulates */
};
enum { WHOLE, TOTALS, WRITE }; /* scan.kl: modes of scan_columns */

const struct kl_family kl_family_scan = {
    .name = "scan", .source = kl_source_scan, .defines = {"T:IN", "T:OUT", "OP"}};
_Static_assert(KL_OP_CUMPROD == KL_OP_CUMSUM + 1 && KL_OP_CUMMAX == KL_OP_CUMSUM + 2 &&
                   KL_OP_CUMMIN == KL_OP_CUMSUM + 3 && KL_OP_LOGCUMSUMEXP == KL_OP_CUMSUM + 4,
               "the numbers that scan.kl gives to operations");

/* The parts of the launches. */
struct plan {
    struct kl_axes rows; /* the axes that are not scanned, of the input and of the output */
    struct kl_space space;
    const char *in; /* the first element in the direction of the scan */
    char *out;
    int64_t n, in_step, out_step, seg, n_segs, groups, tile;
    int32_t width, vector;
    bool columns;
};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static void split_axes(struct plan *p, const struct kl_command *c, const int64_t *in_strides) {
    const int axis = ((const struct kl_scan_params *)c->params)->axis;
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    p->rows = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++)
        if (i != axis) kl_axes_add(&p->rows, in->dims[i], in_strides[i], out->strides[i]);
    p->in_step = in_strides[axis];
    p->out_step = out->strides[axis];
}

/* Whether every row, and every VEC neighbours of it, begin at an address aligned to 16 bytes. */
static bool vectors(const struct plan *p, size_t in_item, size_t out_item) {
    const int64_t vec = VEC_BYTES / (int64_t)in_item;
    if (p->in_step != 1 || p->out_step != 1 || in_item != out_item ||
        (uintptr_t)p->in % VEC_BYTES || (uintptr_t)p->out % VEC_BYTES)
        return false;
    for (int i = 0; i < p->rows.ndim; i++)
        if (p->rows.strides[0][i] % vec || p->rows.strides[1][i] % vec) return false;
    return true;
}

/* Cuts rows into segments, so that `blocks` times their number is enough work for the device. */
static void cut(struct plan *p, int64_t blocks) {
    int64_t most = kl_groups_for(p->n, p->tile * SEGMENT_TILES),
            want = kl_groups_for(ENOUGH_GROUPS, blocks);
    p->n_segs = most < want ? most : want;
    if (blocks * 2 > ENOUGH_GROUPS || p->n_segs < 1) p->n_segs = 1;
    p->seg = kl_groups_for(kl_groups_for(p->n, p->n_segs), p->tile) * p->tile;
    p->n_segs = kl_groups_for(p->n, p->seg);
}

static void choose(struct plan *p, size_t in_item, size_t out_item, uint32_t local) {
    if (p->columns) {
        int64_t high = kl_pow2_for(kl_groups_for(p->n, COLUMN_DEPTH), local);
        int64_t width = kl_pow2_for(p->rows.n, kl_pow2_for(ROW_BYTES / (int64_t)in_item, local));
        if (width < local / high) width = local / high;
        p->width = (int32_t)width;
        p->tile = local / width * COLUMN_DEPTH;
        int64_t blocks = kl_groups_for(p->rows.n, width);
        cut(p, blocks);
        p->groups = blocks * p->n_segs;
    } else {
        const int64_t vec = VEC_BYTES / (int64_t)in_item, units = vec >= 16 ? 1 : vec == 8 ? 2 : 4;
        p->vector = vectors(p, in_item, out_item);
        p->width = (int32_t)kl_pow2_for(kl_groups_for(p->n, vec * units), local);
        p->tile = p->width * vec * units;
        cut(p, kl_groups_for(p->rows.n, local / p->width));
        p->groups = kl_groups_for(p->rows.n * p->n_segs, local / p->width);
    }
}

static int emit(struct kl_emit *e, const struct kl_command *c, struct plan *p, void *part,
                int32_t mode, uint32_t local) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    const struct kl_scan_params *params = c->params;
    const int values[] = {in->dtype, out->dtype, c->op - KL_OP_CUMSUM};
    const size_t in_item = p->vector ? VEC_BYTES : kl_dtype_size(in->dtype),
                 out_item = p->vector ? VEC_BYTES : kl_dtype_size(out->dtype);
    const bool totals = mode == TOTALS && !p->columns;
    int32_t inclusive = params->inclusive;
    struct kl_karg args[16];
    int n = 0;
    args[n++] = KL_KARG_PTR(p->in, in_item);
    if (!totals) args[n++] = KL_KARG_PTR(p->out, out_item);
    args[n++] = KL_KARG_PTR(part, PART_BYTES);
    args[n++] = KL_KARG(p->rows.n);
    args[n++] = KL_KARG(p->n);
    args[n++] = KL_KARG(p->seg);
    args[n++] = KL_KARG(p->n_segs);
    args[n++] = KL_KARG(p->width);
    args[n++] = p->columns ? KL_KARG(mode) : KL_KARG(p->vector);
    if (!totals) args[n++] = KL_KARG(inclusive);
    args[n++] = KL_KARG(p->in_step);
    if (!totals) args[n++] = KL_KARG(p->out_step);
    args[n++] = KL_KARG(p->space);
    const char *name = p->columns ? "scan_columns" : totals ? "row_totals" : "scan_rows";
    return kl_emit(e, &kl_family_scan, values, name, p->groups, local, args, n);
}

int kl_lower_scan(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    const struct kl_scan_params *params = c->params;
    const int values[] = {in->dtype, out->dtype, c->op - KL_OP_CUMSUM};
    const size_t item = kl_dtype_size(in->dtype), out_item = kl_dtype_size(out->dtype);
    struct plan p = {.in = in->data, .out = out->data, .n = in->dims[params->axis]};
    int64_t dense[KL_AXES_MAX];
    size_t copied = 0, parts;
    void *scratch = NULL, *copy = NULL;
    if (out->size == 0) return KL_OK;
    split_axes(&p, c, in->strides);
    if (!kl_axes_space(&p.rows, &p.space)) { /* too many axes: those of a row-major copy merge */
        kl_strides_row_major(in->ndim, in->dims, dense);
        copied = kl_scratch_bytes((size_t)in->size * item);
        split_axes(&p, c, dense);
        kl_axes_space(&p.rows, &p.space);
        p.in = NULL; /* scratch memory, which is aligned */
    }
    const int64_t last = params->reverse ? p.n - 1 : 0, in_first = last * p.in_step,
                  out_first = last * p.out_step;
    if (params->reverse) p.in_step = -p.in_step, p.out_step = -p.out_step;
    p.columns = p.rows.ndim && magnitude(kl_axes_step(&p.rows)) < magnitude(p.in_step);
    const uint32_t local = kl_local_size(e, p.columns ? COLUMNS_LOCAL : WANT_LOCAL);
    choose(&p, item, out_item, local);
    parts = p.n_segs > 1 ? (size_t)(p.rows.n * p.n_segs) * PART_BYTES : 0;
    KL_TRY(kl_emit_workspace(e, copied + parts, &scratch));
    if (copied) {
        copy = scratch;
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, copy, dense, in->data, in->strides));
        p.in = copy;
    }
    if (p.in) p.in += in_first * (int64_t)item;
    p.out += out_first * (int64_t)out_item;
    void *part = parts ? kl_scratch_at(scratch, copied) : NULL;
    if (p.n_segs == 1) return emit(e, c, &p, part, WHOLE, local);
    KL_TRY(emit(e, c, &p, part, TOTALS, local));
    struct kl_karg prefix[] = {KL_KARG_PTR(part, PART_BYTES), KL_KARG(p.n_segs)};
    KL_TRY(kl_emit(e, &kl_family_scan, values, "prefix_parts", p.rows.n, local, prefix, 2));
    return emit(e, c, &p, part, WRITE, local);
}
