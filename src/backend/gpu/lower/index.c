/* index.c - see index.h: the sources, operands and launches of gathers and scatters.
 *
 * The sources begin with a few lines generated here, which depend on the number and dtypes of the
 * index arrays. */
#include "backend/gpu/lower/index.h"

#include <stdio.h>
#include <string.h>

#include "backend/gpu/lower/kernels.h"
#include "base/alloc.h"
#include "base/op/index.h"
#include "base/op/op_params.h"

enum {
    LOCAL = 256,
    MAX_ITEM_PROCESSOR = 64,
    /* Items from which there are enough groups even with several items per work-item. */
    LARGE = LOCAL * 4096,
    /* work-items per core of a processor: enough that no core waits long for the last one */
    PER_UNIT = 8,
    LEAST_BYTES = 1 << 16, /* bytes moved by one of these work-items, at least */
    MAX_INNER = 4          /* items per position up to which loops are compiled for that number */
};

/* ---- the source ---- */

static char *source(void *ctx) {
    const struct kl_indexed_variant *v = ctx;
    char head[2048];
    size_t n = 0, room = sizeof head;
    const char *first = kl_dialect_type(v->n_index ? v->index_dtype[0] : KL_I32);
    n += (size_t)snprintf(
        head + n, room - n,
        "#define CHECKED %d\n#define SMALL %d\n#define NARROW %d\n"
        "#define FLAT_SLICE %d\n#define INNER %d\n#define N_INDEX %d\n#define INDEX_TYPE %s\n"
        "#define INDEX_VALUE(v) CAT(index_value_, INDEX_TYPE)(v)\n",
        v->checked, v->small, v->narrow, v->flat_slice, v->inner, v->n_index, first);
    if (v->scatter && v->mode == KL_SCATTER_ASSIGN && !v->ordered)
        n += (size_t)snprintf(
            head + n, room - n,
            "#define T_ID -1\n#define MODE 0\n#define SERIAL 0\n#define ORDERED 0\n"
            "#define EXCHANGE %d\n",
            v->exchange);
    else if (v->scatter)
        n += (size_t)snprintf(head + n, room - n,
                              "#define T %s\n#define T_ID %d\n#define C %s\n#define T_BYTES %d\n"
                              "#define MODE %d\n#define SERIAL %d\n#define ORDERED %d\n"
                              "#define DENORMALS %d\n",
                              kl_dialect_type(v->dtype), v->dtype,
                              kl_dialect_compute_type(v->dtype), (int)kl_dtype_size(v->dtype),
                              v->mode, v->serial, v->ordered, v->denormals);
    if (v->ordered)
        n += (size_t)snprintf(head + n, room - n, "#define KEY %s\n#define LAST_KEY %s\n",
                              kl_dialect_type(v->key),
                              v->key == KL_I32 ? "0x7fffffff" : "(i64)0x7fffffffffffffff");
    if (v->last)
        n += (size_t)snprintf(head + n, room - n, "#define LAST %d\n#define TABLE %d\n", v->last,
                              KL_LAST_TABLE);
    if (v->item) n += (size_t)snprintf(head + n, room - n, "#define BYTES %d\n", v->item);
    if (v->each) n += (size_t)snprintf(head + n, room - n, "#define EACH %d\n", v->each);
    static const char *const begin[] = {"\n#define INDEX_PARAMS ", "\n#define INDEX_NAMES ",
                                        "\n#define EACH_INDEX(f) "};
    for (int what = 0; what < 3; what++) {
        n += (size_t)snprintf(head + n, room - n, "%s", begin[what]);
        /* Without index arrays the kernel still has one index parameter, which it does not read. */
        for (int k = 0; k < (v->n_index || what == 2 ? v->n_index : 1); k++) {
            const char *comma = k ? ", " : "";
            if (what == 0) n += (size_t)snprintf(head + n, room - n, "%sPTR(index_%d)", comma, k);
            if (what == 1) n += (size_t)snprintf(head + n, room - n, "%sPASS(index_%d)", comma, k);
            if (what == 2)
                n += (size_t)snprintf(head + n, room - n, " f(%d, %s, index_%d)", k,
                                      kl_dialect_type(v->index_dtype[k]), k);
        }
    }
    const char *library = v->scatter && v->mode != KL_SCATTER_ASSIGN ? kl_source_elementwise : "";
    const char *body = v->last      ? kl_source_index_scatter_last
                       : v->scatter ? kl_source_index_scatter
                                    : kl_source_index_gather;
    size_t bytes = n + strlen(library) + strlen(kl_source_index) + strlen(body) + 8;
    char *s = kl_malloc(bytes);
    if (s) snprintf(s, bytes, "%s\n%s%s%s", head, library, kl_source_index, body);
    return s;
}

/* ---- operands ---- */

static bool flat(const struct kl_arg *a) {
    return (a->layout & KL_ROW_CONTIGUOUS) != 0;
}

static size_t bytes_of(const struct kl_arg *a) {
    return kl_scratch_bytes((size_t)a->size * kl_dtype_size(a->dtype));
}

int kl_indexed_row_major(struct kl_emit *e, const struct kl_arg *const *args, int n,
                         const void **out, size_t more_bytes, char **more) {
    size_t total = more_bytes = kl_scratch_bytes(more_bytes);
    char *scratch = NULL;
    for (int k = 0; k < n; k++) total += flat(args[k]) ? 0 : bytes_of(args[k]);
    KL_TRY(kl_emit_workspace(e, total, (void **)&scratch));
    if (more) *more = scratch;
    if (scratch) scratch += more_bytes;
    for (int k = 0; k < n; k++) {
        out[k] = args[k]->data;
        if (flat(args[k])) continue;
        int64_t strides[64];
        if (args[k]->ndim > 64) return kl_fail(e->err, KL_EUNSUPPORTED, "over 64 axes");
        kl_strides_row_major(args[k]->ndim, args[k]->dims, strides);
        KL_TRY(kl_emit_copy(e, kl_dtype_size(args[k]->dtype), args[k]->ndim, args[k]->dims, scratch,
                            strides, args[k]->data, args[k]->strides));
        out[k] = scratch;
        scratch = scratch ? scratch + bytes_of(args[k]) : NULL;
    }
    return KL_OK;
}

struct keep {
    struct kl_space *space;
    int n;
};

static int keep_space(void *ctx, const struct kl_space *s, const int64_t *offsets) {
    struct keep *k = ctx;
    if (k->n++) return KL_EUNSUPPORTED;
    *k->space = *s;
    return KL_OK;
}

int kl_indexed_slice_space(struct kl_emit *e, int ndim, const int *dims, int n_operands,
                           const int64_t *const *strides, struct kl_space *out) {
    struct keep k = {out, 0};
    *out = (struct kl_space){.n = 0};
    if (kl_space_each(ndim, dims, n_operands, strides, keep_space, &k))
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "an indexed array whose slices have over %d separate axes", KL_SPACE_DIMS);
    return KL_OK;
}

int kl_indexed_describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array,
                        struct kl_indexed_variant *v, struct kl_indexed *x,
                        const struct kl_arg **index) {
    struct kl_index_use u;
    struct kl_tensor in_1 = {.ndim = c->args[1].ndim, .dims = c->args[1].dims};
    if (!kl_index_use_of(c->op, c->params, &in_1, array->ndim, &u))
        return kl_fail(e->err, KL_EINTERNAL, "no indices");
    if (u.n > KL_INDEX_ARRAYS)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %d index arrays; a device takes %d",
                       kl_op_name(c->op), u.n, KL_INDEX_ARRAYS);
    v->n_index = (uint8_t)u.n;
    v->checked = c->checked && c->word.words;
    v->narrow = 1;
    for (int k = 0; k < u.n; k++) {
        index[k] = &c->args[u.first + k];
        v->index_dtype[k] = index[k]->dtype;
        x->axis[k].size = array->dims[u.axes[k]];
        x->axis[k].places = x->axis[k].size - (u.extents ? u.extents[u.axes[k]] : 1) + 1;
        if (x->axis[k].places < 0) x->axis[k].places = 0;
        x->axis[k].stride = array->strides[u.axes[k]];
        if (kl_dtype_size(index[k]->dtype) > 4 || x->axis[k].stride > INT32_MAX ||
            x->axis[k].stride < -INT32_MAX)
            v->narrow = 0;
    }
    return KL_OK;
}

struct kl_karg kl_indexed_pack(const struct kl_indexed_variant *v, const struct kl_indexed *x,
                               struct kl_indexed_bytes *p) {
    size_t axes = (v->n_index ? v->n_index : 1) * sizeof *x->axis;
    p->bytes = 2 * sizeof(int64_t);
    memcpy(p->v, x, p->bytes);
    memcpy(p->v + p->bytes, x->axis, axes);
    p->bytes += axes;
    if (!v->flat_slice) {
        memcpy(p->v + p->bytes, &x->slice, sizeof x->slice);
        p->bytes += sizeof x->slice;
    }
    return (struct kl_karg){p->v, p->bytes, 0};
}

int kl_indexed_emit(struct kl_emit *e, struct kl_indexed_variant *v, const char *entry,
                    int64_t items, const struct kl_karg *args, int n_args) {
    int64_t per_group = (int64_t)LOCAL * (v->each ? v->each : 1);
    int64_t groups = v->serial ? items > 0 : (items + per_group - 1) / per_group;
    return kl_emit_made(e, v, sizeof *v, source, v, entry, groups, v->serial ? 1 : LOCAL, args,
                        n_args);
}

/* How the work-items of a processor share the work; see kernels/index.kl. */
struct shares {
    int64_t span, piece; /* positions of one work-item, and items of each of these positions */
    int64_t groups;
};

static int64_t ratio_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static struct shares shares(const struct kl_driver *d, const struct kl_indexed *x, int64_t item) {
    int64_t most = (int64_t)d->n_units * PER_UNIT;
    int64_t n = ratio_up(x->n * x->inner * item, LEAST_BYTES);
    if (n == 0) return (struct shares){1, 1, 0};
    if (n > most) n = most;
    struct shares s = {ratio_up(x->n, n), x->inner, 0};
    if (x->n < n) s.piece = ratio_up(x->inner, n / x->n);
    s.groups = ratio_up(x->n, s.span) * ratio_up(x->inner, s.piece);
    return s;
}

int kl_indexed_emit_slices(struct kl_emit *e, struct kl_indexed_variant *v, const char *entry,
                           const struct kl_indexed *x, int64_t item, struct kl_karg *args,
                           int n_args) {
    if (!e->driver->on_processor)
        return kl_indexed_emit(e, v, entry, x->n * x->inner, args, n_args);
    struct shares s = shares(e->driver, x, item);
    if (v->serial && s.groups) s = (struct shares){x->n, x->inner, 1};
    v->inner = x->inner <= MAX_INNER ? (uint8_t)x->inner : 0;
    v->small = v->each = 0;
    args[n_args++] = KL_KARG(s.span);
    args[n_args++] = KL_KARG(s.piece);
    return kl_emit_made(e, v, sizeof *v, source, v, entry, s.groups, 1, args, n_args);
}

/* ---- the width of accesses ---- */

size_t kl_indexed_widest(const struct kl_driver *d) {
    return d->on_processor ? MAX_ITEM_PROCESSOR : KL_MAX_ITEM;
}

size_t kl_indexed_widen(struct kl_indexed *x, int n_index, size_t item, size_t most,
                        const void *from, const void *to) {
    for (; item < most; item *= 2) {
        int last = x->slice.ndim - 1;
        bool fits = last >= 0 && x->slice.strides[0][last] == 1 && x->slice.dims[last] % 2 == 0 &&
                    (((uintptr_t)from | (uintptr_t)to) & (2 * item - 1)) == 0;
        for (int d = 0; d < last && fits; d++) fits = x->slice.strides[0][d] % 2 == 0;
        for (int k = 0; k < n_index && fits; k++) fits = x->axis[k].stride % 2 == 0;
        if (!fits) break;
        x->slice.dims[last] /= 2;
        x->slice.n /= 2;
        x->inner /= 2;
        for (int d = 0; d < last; d++) x->slice.strides[0][d] /= 2;
        for (int k = 0; k < n_index; k++) x->axis[k].stride /= 2;
    }
    return item;
}

uint8_t kl_indexed_each(int64_t items, int item) {
    return items < LARGE ? 1 : item == KL_MAX_ITEM ? 2 : 4;
}

int kl_indexed_check(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array) {
    struct kl_indexed_variant v = {.item = 1, .each = 1, .flat_slice = 1};
    struct kl_indexed x = {.inner = 1};
    const struct kl_arg *index[KL_INDEX_ARRAYS];
    const void *rows[KL_INDEX_ARRAYS];
    struct kl_indexed_bytes packed;
    struct kl_karg args[KL_MAX_KARGS];
    int n = 0;
    KL_TRY(kl_indexed_describe(e, c, array, &v, &x, index));
    if (!v.checked || v.n_index == 0) return KL_OK;
    struct kl_index_range r = kl_index_positions(c, index[0], v.n_index);
    KL_TRY(kl_indexed_row_major(e, index, v.n_index, rows, 0, NULL));
    x.n = r.end - r.begin;
    v.small = x.n <= INT32_MAX;
    args[n++] = kl_indexed_pack(&v, &x, &packed);
    for (int k = 0; k < v.n_index; k++)
        args[n++] = kl_index_item_ptr(rows[k], r.begin, kl_dtype_size(index[k]->dtype));
    args[n++] = kl_fault_args(c).ptr;
    args[n++] = KL_KARG(c->word.index);
    return kl_indexed_emit(e, &v, "check_indices", x.n, args, n);
}

static int axis_space(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct kl_axis_job *j = ctx;
    struct kl_space s = *space;
    int64_t item = (int64_t)kl_dtype_size(j->array->dtype), first = j->first;
    int64_t index_item = (int64_t)kl_dtype_size(j->index->dtype);
    struct kl_karg args[KL_MAX_KARGS];
    int n = 0;
    const char *array = j->v.scatter ? j->out : j->array->data;
    args[n++] = KL_KARG(s);
    args[n++] = KL_KARG(first);
    args[n++] = KL_KARG(j->r.begin);
    args[n++] = KL_KARG(j->r.end);
    args[n++] = KL_KARG(j->x.axis[0].size);
    args[n++] = KL_KARG(j->x.axis[0].stride);
    args[n++] = KL_KARG_PTR(array + offsets[0] * item, item);
    args[n++] = KL_KARG_PTR((const char *)j->index->data + offsets[1] * index_item, index_item);
    args[n++] = KL_KARG_PTR(j->v.scatter ? (const char *)j->values->data + offsets[2] * item
                                         : (const char *)j->out,
                            item);
    args[n++] = kl_fault_args(j->c).ptr;
    args[n++] = KL_KARG(j->c->word.index);
    if (j->v.ordered) {
        args[n++] = KL_KARG_PTR(j->keys, kl_dtype_size(j->v.key));
        args[n++] = KL_KARG(offsets[0]);
    }
    if (j->flags) args[n++] = KL_KARG_PTR(j->flags, sizeof(uint32_t));
    j->first += s.n;
    if (j->first <= j->r.begin || first >= j->r.end) return KL_OK;
    return kl_indexed_emit(j->e, &j->v, j->v.scatter ? "scatter_axis" : "gather_axis", s.n, args,
                           n);
}

int kl_indexed_along_axis(struct kl_axis_job *j, int axis) {
    int64_t strides[64];
    const int64_t *rows[3] = {strides, j->index->strides, j->values ? j->values->strides : NULL};
    if (j->array->ndim > 64) return kl_fail(j->e->err, KL_EUNSUPPORTED, "over 64 axes");
    memcpy(strides, j->array->strides, (size_t)j->array->ndim * sizeof *strides);
    strides[axis] = 0; /* the index gives the place along this axis */
    j->r = kl_index_positions(j->c, j->index, 1);
    j->v.small = j->v.flat_slice = 1;
    return kl_space_each(j->index->ndim, j->index->dims, j->values ? 3 : 2, rows, axis_space, j);
}
