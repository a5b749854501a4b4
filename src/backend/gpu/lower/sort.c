/* sort.c - SORT, ARGSORT, PARTITION, ARGPARTITION and TOPK along one axis: chooses between
 * blocks that are sorted in shared memory and merged through scratch memory (sort.kl), a sort by
 * digits (lower/sort_radix.c), and a search for the kth largest key (lower/sort_topk.c). */
#include "backend/gpu/lower/kernels.h"
#include "backend/gpu/lower/sorts.h"
#include "base/number/dtype.h"
#include "base/op/op_params.h"

enum {
    WANT_LOCAL = 256,
    /* Items of a tile (BLOCK in sort.kl) per work-item; the same number is in sort.kl. */
    PER_ITEM = 8,
    MERGED = 16, /* the same number is in sort.kl */
    /* Passes of a sort by digits that take as long as a merge. Such a pass is three launches whose
     * work-items wait for memory two or three times; a merge is one in which a work-item follows
     * some thirty loads one after the other. Both move about as many bytes. */
    MERGE_COST = 2,
};

const struct kl_family kl_family_sort = {
    .name = "sort", .source = kl_source_sort, .defines = {"T:IN"}, .library = kl_source_sort_keys};

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static bool describe(struct kl_sort_layout *l, const struct kl_command *c,
                     const int64_t *in_strides, const int64_t *out_strides) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    /* The parameters of all these operations begin with the axis. */
    int axis = ((const struct kl_axis_params *)c->params)->axis;
    struct kl_axes rows = KL_NO_AXES;
    for (int i = 0; i < in->ndim; i++)
        if (i != axis) kl_axes_add(&rows, in->dims[i], in_strides[i], out_strides[i]);
    l->n_rows = rows.n;
    l->n = in->dims[axis];
    l->in_step = in_strides[axis];
    l->out_step = out_strides[axis];
    l->skip = l->n - out->dims[axis];
    l->arg = c->op == KL_OP_ARGSORT || c->op == KL_OP_ARGPARTITION;
    l->rows_first = rows.ndim && magnitude(kl_axes_step(&rows)) < magnitude(l->in_step);
    return kl_axes_space(&rows, &l->rows);
}

/* The size of a key with its place, the struct item of sort.kl. */
size_t kl_sort_item_bytes(enum kl_dtype dtype) {
    return kl_dtype_size(dtype) == 8 ? 16 : 8;
}

/* Merges the sorted tiles in runs[0] to runs of twice the length, again and again; the last run is
 * the output. */
static int merge(struct kl_emit *e, int dtype, const struct kl_sort_layout *l, const void *in,
                 void *out, int64_t run, uint32_t local, void *const *runs) {
    int values[] = {dtype};
    size_t item = kl_dtype_size((enum kl_dtype)dtype),
           item_bytes = kl_sort_item_bytes((enum kl_dtype)dtype);
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
    while (local > 1 && (size_t)local * PER_ITEM * item_bytes > e->driver->local_bytes) local /= 2;
    return local;
}

/* two: two buffers, each for the items of all rows; NULL when one tile holds a row. */
static int sort(struct kl_emit *e, int dtype, const struct kl_sort_layout *l, const void *in,
                void *out, uint32_t local, void *const *two) {
    int values[] = {dtype};
    size_t item = kl_dtype_size((enum kl_dtype)dtype);
    int64_t block = (int64_t)local * PER_ITEM, n_blocks = kl_groups_for(l->n, block);
    int32_t width = (int32_t)kl_pow2_for(l->n, block);
    struct kl_karg args[] = {KL_KARG_PTR(in, item),
                             KL_KARG_PTR(out, l->arg ? 4 : item),
                             KL_KARG_PTR(two[0], kl_sort_item_bytes((enum kl_dtype)dtype)),
                             KL_KARG(n_blocks),
                             KL_KARG(width),
                             KL_KARG(*l)};
    KL_TRY(kl_emit(e, &kl_family_sort, values, "sort_blocks",
                   kl_groups_for(l->n_rows * n_blocks, block / width), local, args, 6));
    return merge(e, dtype, l, in, out, block, local, two);
}

int64_t kl_sort_block(const struct kl_emit *e, enum kl_dtype dtype) {
    return (int64_t)local_for(e, kl_sort_item_bytes(dtype)) * PER_ITEM;
}

/* Whether rows of n elements are sorted by digits rather than merged. */
static bool by_digits(const struct kl_emit *e, enum kl_dtype dtype, int64_t n) {
    int64_t run = kl_sort_block(e, dtype), merges = 0, passes = (int64_t)kl_dtype_size(dtype);
    for (; run < n; run *= 2) merges++;
    return kl_radix_runs(e) && merges * MERGE_COST > passes;
}

/* How the rows are sorted: the scratch memory that this takes, in bytes. */
struct way {
    enum { BLOCKS, DIGITS, LARGEST } by;
    size_t scratch;
};
static struct way way_for(const struct kl_emit *e, enum kl_dtype dtype,
                          const struct kl_sort_layout *l) {
    int64_t block = kl_sort_block(e, dtype), kept = l->n - l->skip;
    if (l->n <= block) return (struct way){BLOCKS, 0};
    if (l->skip > 0 && kept <= kl_largest_most(e, dtype))
        return (struct way){LARGEST, kl_largest_scratch(dtype, l, (int)kept)};
    if (by_digits(e, dtype, l->n)) return (struct way){DIGITS, kl_radix_scratch(e, dtype, l)};
    return (struct way){
        BLOCKS, 2 * kl_scratch_bytes((size_t)(l->n_rows * l->n) * kl_sort_item_bytes(dtype))};
}

static int sort_by(struct kl_emit *e, struct way way, enum kl_dtype dtype,
                   const struct kl_sort_layout *l, const void *in, void *out, void *scratch) {
    if (way.by == LARGEST) return kl_largest(e, dtype, l, (int)(l->n - l->skip), in, out, scratch);
    if (way.by == DIGITS) return kl_radix_sort(e, dtype, l, in, out, scratch);
    void *two[] = {way.scratch ? scratch : NULL,
                   way.scratch ? kl_scratch_at(scratch, way.scratch / 2) : NULL};
    return sort(e, dtype, l, in, out, local_for(e, kl_sort_item_bytes(dtype)), two);
}

/* The strides of a dense copy in which the elements of a row are neighbours. */
static void strides_with_axis_last(const struct kl_arg *a, int axis, int64_t *strides) {
    int64_t stride = a->dims[axis];
    strides[axis] = 1;
    for (int i = a->ndim - 1; i >= 0; i--)
        if (i != axis) {
            strides[i] = stride;
            stride *= a->dims[i];
        }
}

int kl_lower_sort(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *in = &c->args[0], *out = &c->args[1];
    int axis = ((const struct kl_axis_params *)c->params)->axis;
    size_t in_item = kl_dtype_size(in->dtype), out_item = kl_dtype_size(out->dtype);
    int64_t in_dense[KL_AXES_MAX], out_dense[KL_AXES_MAX];
    const void *data = in->data;
    void *scratch = NULL, *result = out->data;
    struct kl_sort_layout l;
    if (out->size == 0) return KL_OK;
    bool fits = describe(&l, c, in->strides, out->strides), copies_in = false, copies_out = false;
    struct way way = way_for(e, in->dtype, &l);
    /* Long rows whose elements lie far apart are copied: each pass would fetch a cache line per
     * element. Rows of too many axes are copied too; in the copies the axes merge. */
    if (way.by != BLOCKS) copies_in = copies_out = l.rows_first;
    if (!fits) copies_in = true;
    strides_with_axis_last(in, axis, in_dense);
    strides_with_axis_last(out, axis, out_dense);
    const int64_t *in_strides = copies_in ? in_dense : in->strides;
    if (!describe(&l, c, in_strides, copies_out ? out_dense : out->strides)) {
        copies_out = true;
        describe(&l, c, in_strides, out_dense);
    }
    size_t in_copy = copies_in ? kl_scratch_bytes((size_t)in->size * in_item) : 0,
           out_copy = copies_out ? kl_scratch_bytes((size_t)out->size * out_item) : 0,
           bytes = in_copy + out_copy + way.scratch;
    KL_TRY(kl_emit_workspace(e, bytes, &scratch));
    if (copies_out) result = kl_scratch_at(scratch, in_copy);
    if (copies_in) {
        data = scratch;
        KL_TRY(
            kl_emit_copy(e, in_item, in->ndim, in->dims, scratch, in_dense, in->data, in->strides));
    }
    KL_TRY(
        sort_by(e, way, in->dtype, &l, data, result, kl_scratch_at(scratch, in_copy + out_copy)));
    if (!copies_out) return KL_OK;
    return kl_emit_copy(e, out_item, out->ndim, out->dims, out->data, out->strides, result,
                        out_dense);
}

static struct kl_sort_layout one_row(int64_t n) {
    return (struct kl_sort_layout){
        .n_rows = 1, .n = n, .in_step = 1, .out_step = 1, .arg = 1, .rows = {.n = 1}};
}

size_t kl_argsort_scratch(const struct kl_emit *e, enum kl_dtype dtype, int64_t n) {
    struct kl_sort_layout l = one_row(n);
    return way_for(e, dtype, &l).scratch;
}

int kl_emit_argsort(struct kl_emit *e, enum kl_dtype dtype, int64_t n, const void *keys,
                    void *order, void *scratch) {
    struct kl_sort_layout l = one_row(n);
    return n ? sort_by(e, way_for(e, dtype, &l), dtype, &l, keys, order, scratch) : KL_OK;
}
