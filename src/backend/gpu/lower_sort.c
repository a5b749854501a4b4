/* lower_sort.c - SORT and ARGSORT along one axis: tiles are sorted in shared memory, then merged
 * through scratch memory. */
#include "backend/gpu/axes.h"
#include "backend/gpu/kernels.h"
#include "base/dtype.h"
#include "base/op_params.h"

enum {
    WANT_LOCAL = 256,
    /* Items of a tile (BLOCK in sort.kl) per work-item; the same number is in sort.kl. */
    PER_ITEM = 8,
    MERGED = 16, /* the same number is in sort.kl */
};

const struct kl_family kl_family_sort = {
    .name = "sort", .source = kl_source_sort, .defines = {"T:IN"}};

/* The same struct is in sort.kl. */
struct layout {
    int64_t n_rows, n, in_step, out_step;
    int32_t arg, rows_first;
    struct kl_space rows;
};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static bool describe(struct layout *l, const struct kl_command *c, const int64_t *in_strides) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    int axis = ((const struct kl_axis_params *)c->params)->axis;
    struct kl_axes rows = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++)
        if (i != axis) kl_axes_add(&rows, in->dims[i], in_strides[i], out->strides[i]);
    l->n_rows = rows.n;
    l->n = in->dims[axis];
    l->in_step = in_strides[axis];
    l->out_step = out->strides[axis];
    l->arg = c->op == KL_OP_ARGSORT;
    l->rows_first = rows.ndim && magnitude(kl_axes_step(&rows)) < magnitude(l->in_step);
    return kl_axes_space(&rows, &l->rows);
}

/* The size of a key with its place, the struct item of sort.kl. */
static size_t item_bytes_of(enum kl_dtype dtype) {
    return kl_dtype_size(dtype) == 8 ? 16 : 8;
}

/* Merges the sorted tiles in runs[0] to runs of twice the length, again and again; the last run is
 * the output. */
static int merge(struct kl_emit *e, int dtype, const struct layout *l, const void *in, void *out,
                 int64_t run, uint32_t local, void *const *runs) {
    int values[] = {dtype};
    size_t item = kl_dtype_size((enum kl_dtype)dtype),
           item_bytes = item_bytes_of((enum kl_dtype)dtype);
    int64_t groups = kl_groups_for(l->n_rows * kl_groups_for(l->n, MERGED), local);
    for (int from = 0; run < l->n; run *= 2, from = !from) {
        int32_t last = run * 2 >= l->n;
        struct kl_karg args[] = {KL_KARG_PTR(runs[from], item_bytes),
                                 KL_KARG_PTR(runs[!from], item_bytes),
                                 KL_KARG_PTR(in, item),
                                 KL_KARG_PTR(out, l->arg ? 4 : item),
                                 KL_KARG(run),
                                 KL_KARG(last),
                                 KL_KARG(*l)};
        KL_TRY(kl_emit(e, &kl_family_sort, values, "merge_runs", groups, local, args, 7));
    }
    return KL_OK;
}

static uint32_t local_for(const struct kl_emit *e, size_t item_bytes) {
    uint32_t local = kl_local_size(e, WANT_LOCAL);
    while (local > 1 && (size_t)local * PER_ITEM * item_bytes > e->port->local_bytes) local /= 2;
    return local;
}

/* two: two buffers, each for the items of all rows; NULL when one tile holds a row. */
static int sort(struct kl_emit *e, int dtype, const struct layout *l, const void *in, void *out,
                uint32_t local, void *const *two) {
    int values[] = {dtype};
    size_t item = kl_dtype_size((enum kl_dtype)dtype);
    int64_t block = (int64_t)local * PER_ITEM, n_blocks = kl_groups_for(l->n, block);
    int32_t width = (int32_t)kl_pow2_for(l->n, block);
    struct kl_karg args[] = {KL_KARG_PTR(in, item),
                             KL_KARG_PTR(out, l->arg ? 4 : item),
                             KL_KARG_PTR(two[0], item_bytes_of((enum kl_dtype)dtype)),
                             KL_KARG(n_blocks),
                             KL_KARG(width),
                             KL_KARG(*l)};
    KL_TRY(kl_emit(e, &kl_family_sort, values, "sort_blocks",
                   kl_groups_for(l->n_rows * n_blocks, block / width), local, args, 6));
    return merge(e, dtype, l, in, out, block, local, two);
}

int kl_lower_sort(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    size_t item = kl_dtype_size(in->dtype), item_bytes = item_bytes_of(in->dtype), copied = 0,
           runs = 0;
    uint32_t local = local_for(e, item_bytes);
    int64_t dense[KL_AXES_MAX];
    const void *data = in->data;
    void *scratch = NULL;
    struct layout l;
    if (out->size == 0) return KL_OK;
    /* Too many axes for a kernel: a row-major copy has fewer, since its axes merge. */
    if (!describe(&l, c, in->strides)) {
        kl_strides_row_major(in->ndim, in->dims, dense);
        describe(&l, c, dense);
        copied = kl_scratch_bytes((size_t)in->size * item);
    }
    if (l.n > (int64_t)local * PER_ITEM) runs = kl_scratch_bytes((size_t)in->size * item_bytes);
    if (!e->dry && copied + runs > 0)
        KL_TRY(e->port->ops->scratch(e->port, e->queue, copied + 2 * runs, &scratch, e->err));
    if (copied) {
        data = scratch;
        KL_TRY(kl_emit_copy(e, item, in->ndim, in->dims, scratch, dense, in->data, in->strides));
    }
    void *two[] = {runs ? kl_scratch_at(scratch, copied) : NULL,
                   runs ? kl_scratch_at(scratch, copied + runs) : NULL};
    return sort(e, in->dtype, &l, data, out->data, local, two);
}

size_t kl_argsort_scratch(const struct kl_emit *e, enum kl_dtype dtype, int64_t n) {
    size_t item_bytes = item_bytes_of(dtype);
    bool one_block = n <= (int64_t)local_for(e, item_bytes) * PER_ITEM;
    return one_block ? 0 : 2 * (size_t)n * item_bytes;
}

int kl_emit_argsort(struct kl_emit *e, enum kl_dtype dtype, int64_t n, const void *keys,
                    void *order, void *scratch) {
    struct layout l = {
        .n_rows = 1, .n = n, .in_step = 1, .out_step = 1, .arg = 1, .rows = {.n = 1}};
    size_t item_bytes = item_bytes_of(dtype);
    void *two[] = {scratch, kl_scratch_at(scratch, (size_t)n * item_bytes)};
    if (kl_argsort_scratch(e, dtype, n) == 0) two[1] = NULL;
    return n ? sort(e, dtype, &l, keys, order, local_for(e, item_bytes), two) : KL_OK;
}
