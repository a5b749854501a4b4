/* lower_indexed.c - GATHER, GATHER_AXIS, SCATTER, SCATTER_AXIS: operations that index by data.
 * Every index is checked.
 *
 * The sources begin with a few lines generated here, which depend on the number and dtypes of the
 * index arrays. Index arrays, and the updates of a scatter, are first copied when they are not
 * row-major. */
#include <stdio.h>
#include <string.h>

#include "backend/gpu/kernels.h"
#include "backend/gpu/lower.h"
#include "base/alloc.h"
#include "base/deterministic.h"
#include "base/index.h"
#include "base/op_params.h"

enum { FIND_LAST = 1, FIND_LAST_IN_GROUPS = 2, MOVE_LAST = 3 };
enum {
    LOCAL = 256,
    MAX_INDEX = 8,
    MAX_ITEM = 16,
    MAX_ITEM_PROCESSOR = 64,
    MANY_PLACES = 1 << 16,
    TABLE = 1024, /* places for which a group finds the last slices in shared memory */
    /* Bytes of updates; with fewer, two more launches take longer than what is saved. */
    MANY_BYTES = 1 << 20,
    /* Places per slice up to which one word per place takes no more memory than a sort of the
     * slices. */
    PER_SLICE = 6,
    /* Items from which there are enough groups even with several items per work-item. */
    LARGE = LOCAL * 4096,
    /* work-items per core of a processor: so many that no core waits long for the last one */
    PER_UNIT = 8,
    LEAST_BYTES = 1 << 16, /* bytes moved by one of these work-items, at least */
    MAX_INNER = 4          /* items per position up to which loops are compiled for that number */
};

struct axis {
    int64_t size, places, stride;
};
/* The contents of struct indexed of kernels/indexed.kl. */
struct indexed {
    int64_t n, inner;
    struct axis axis[MAX_INDEX];
    struct kl_space slice;
};

/* Everything that a source depends on. Its bytes are the key, so it has no padding. */
struct variant {
    uint8_t scatter, n_index, index_dtype[MAX_INDEX], checked, small, narrow, flat_slice;
    uint8_t inner; /* on a processor, items per position when that is at most MAX_INNER; else 0 */
    uint8_t item;  /* bytes moved or added in one access; 0: one element */
    uint8_t each;  /* items per work-item; 0: SERIAL or ORDERED */
    uint8_t dtype, mode, serial, ordered, exchange; /* for scatters */
    uint8_t key;                                    /* for ORDERED: the dtype of the keys */
    uint8_t last;                                   /* the kernel of scatter_last.kl; 0: none */
};

/* ---- the source ---- */

static const char *compute_of(int dtype) {
    return dtype == KL_F16 || dtype == KL_BF16 ? "f32" : kl_dialect_type((enum kl_dtype)dtype);
}

static char *source(void *ctx) {
    const struct variant *v = ctx;
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
                              "#define MODE %d\n#define SERIAL %d\n#define ORDERED %d\n",
                              kl_dialect_type(v->dtype), v->dtype, compute_of(v->dtype),
                              (int)kl_dtype_size(v->dtype), v->mode, v->serial, v->ordered);
    if (v->ordered)
        n += (size_t)snprintf(head + n, room - n, "#define KEY %s\n#define LAST_KEY %s\n",
                              kl_dialect_type(v->key),
                              v->key == KL_I32 ? "0x7fffffff" : "(i64)0x7fffffffffffffff");
    if (v->last)
        n += (size_t)snprintf(head + n, room - n, "#define LAST %d\n#define TABLE %d\n", v->last,
                              TABLE);
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
            if (what == 1)
                n += (size_t)snprintf(head + n, room - n, "%sindex_%d_base, index_%d_at", comma, k,
                                      k);
            if (what == 2)
                n += (size_t)snprintf(head + n, room - n, " f(%d, %s, index_%d)", k,
                                      kl_dialect_type(v->index_dtype[k]), k);
        }
    }
    const char *library = v->scatter && v->mode != KL_SCATTER_ASSIGN ? kl_source_elementwise : "";
    const char *body = v->last      ? kl_source_scatter_last
                       : v->scatter ? kl_source_scatter
                                    : kl_source_gather;
    size_t bytes = n + strlen(library) + strlen(kl_source_indexed) + strlen(body) + 8;
    char *s = kl_malloc(bytes);
    if (s) snprintf(s, bytes, "%s\n%s%s%s", head, library, kl_source_indexed, body);
    return s;
}

/* ---- operands ---- */

struct operands {
    const void *index[MAX_INDEX]; /* row-major */
    const void *updates;
};

static bool flat(const struct kl_arg *a) {
    return (a->layout & KL_ROW_CONTIGUOUS) != 0;
}

static size_t bytes_of(const struct kl_arg *a) {
    return kl_scratch_bytes((size_t)a->size * kl_dtype_size(a->dtype));
}

/* Copies to scratch memory each of the n arrays that is not row-major. *more: a further
 * `more_bytes` of scratch memory for the caller. */
static int in_row_order(struct kl_emit *e, const struct kl_arg *const *args, int n,
                        const void **out, size_t more_bytes, char **more) {
    size_t total = more_bytes = kl_scratch_bytes(more_bytes);
    char *scratch = NULL;
    for (int k = 0; k < n; k++) total += flat(args[k]) ? 0 : bytes_of(args[k]);
    if (total && !e->dry)
        KL_TRY(e->port->ops->scratch(e->port, e->queue, total, (void **)&scratch, e->err));
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

static int one_space(struct kl_emit *e, int ndim, const int *dims, int n_operands,
                     const int64_t *const *strides, struct kl_space *out) {
    struct keep k = {out, 0};
    *out = (struct kl_space){.n = 0};
    if (kl_space_each(ndim, dims, n_operands, strides, keep_space, &k))
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "an indexed array whose slices have over %d separate axes", KL_SPACE_DIMS);
    return KL_OK;
}

/* The index positions of one launch. */
struct range {
    int64_t begin, end;
};

/* Fills in the fields that concern the indices. `array` is the indexed array, with the strides of
 * the memory that is used. */
static int describe(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array,
                    struct variant *v, struct indexed *x, const struct kl_arg **index) {
    struct kl_index_use u;
    struct kl_tensor in_1 = {.ndim = c->args[1].ndim, .dims = c->args[1].dims};
    if (!kl_index_use_of(c->op, c->params, &in_1, array->ndim, &u))
        return kl_fail(e->err, KL_EINTERNAL, "no indices");
    if (u.n > MAX_INDEX)
        return kl_fail(e->err, KL_EUNSUPPORTED, "%s: %d index arrays; a device takes %d",
                       kl_op_name(c->op), u.n, MAX_INDEX);
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

/* The bytes of struct indexed as the kernel has it. It is as short as possible, because the cost of
 * a launch grows with the bytes of its arguments. */
struct packed {
    size_t bytes;
    char v[sizeof(struct indexed)];
};
static struct kl_karg pack(const struct variant *v, const struct indexed *x, struct packed *p) {
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

static struct range positions(const struct kl_command *c, const struct kl_arg *index, int n_index) {
    int64_t n = n_index ? index->size : 1;
    return (struct range){c->pos_begin, c->pos_end < n ? c->pos_end : n};
}

/* The address `items` items of `item` bytes behind p. */
static struct kl_karg item_ptr(const void *p, int64_t items, size_t item) {
    return KL_KARG_PTR(p ? (const char *)p + items * (int64_t)item : NULL, item);
}

static int emit(struct kl_emit *e, struct variant *v, const char *entry, int64_t items,
                const struct kl_karg *args, int n_args) {
    int64_t per_group = (int64_t)LOCAL * (v->each ? v->each : 1);
    int64_t groups = v->serial ? items > 0 : (items + per_group - 1) / per_group;
    return kl_emit_made(e, v, sizeof *v, source, v, entry, groups, v->serial ? 1 : LOCAL, args,
                        n_args);
}

/* How the work-items of a processor share the work; see kernels/indexed.kl. */
struct shares {
    int64_t span, piece; /* positions of one work-item, and items of each of these positions */
    int64_t groups;
};

static int64_t ratio_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static struct shares shares(const struct kl_port *port, const struct indexed *x, int64_t item) {
    int64_t most = (int64_t)port->n_units * PER_UNIT;
    int64_t n = ratio_up(x->n * x->inner * item, LEAST_BYTES);
    if (n == 0) return (struct shares){1, 1, 0};
    if (n > most) n = most;
    struct shares s = {ratio_up(x->n, n), x->inner, 0};
    if (x->n < n) s.piece = ratio_up(x->inner, n / x->n);
    s.groups = ratio_up(x->n, s.span) * ratio_up(x->inner, s.piece);
    return s;
}

/* Launches a gather or scatter of slices; args has room for two more arguments. */
static int emit_slices(struct kl_emit *e, struct variant *v, const char *entry,
                       const struct indexed *x, int64_t item, struct kl_karg *args, int n_args) {
    if (!e->port->on_processor) return emit(e, v, entry, x->n * x->inner, args, n_args);
    struct shares s = shares(e->port, x, item);
    if (v->serial && s.groups) s = (struct shares){x->n, x->inner, 1};
    v->inner = x->inner <= MAX_INNER ? (uint8_t)x->inner : 0;
    v->small = v->each = 0;
    args[n_args++] = KL_KARG(s.span);
    args[n_args++] = KL_KARG(s.piece);
    return kl_emit_made(e, v, sizeof *v, source, v, entry, s.groups, 1, args, n_args);
}

/* ---- gathers ---- */

static size_t widest(const struct kl_port *port) {
    return port->on_processor ? MAX_ITEM_PROCESSOR : MAX_ITEM;
}

/* Doubles the bytes that are moved in one access, up to `most`, while strides, sizes and alignment
 * allow it. One of `from` and `to` is the indexed array, the other is row-major. */
static size_t widen(struct indexed *x, int n_index, size_t item, size_t most, const void *from,
                    const void *to) {
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

/* Items per work-item: on an H200 two items of 16 bytes are best, and four smaller ones. */
static uint8_t each(int64_t items, int item) {
    return items < LARGE ? 1 : item == MAX_ITEM ? 2 : 4;
}

static bool flat_slice(const struct kl_space *s) {
    return s->ndim == 0 || (s->ndim == 1 && s->strides[0][0] == 1);
}

/* Slices without elements: nothing is moved, but the indices are checked. */
static int check(struct kl_emit *e, const struct kl_command *c, const struct kl_arg *array) {
    struct variant v = {.item = 1, .each = 1, .flat_slice = 1};
    struct indexed x = {.inner = 1};
    const struct kl_arg *index[MAX_INDEX];
    const void *rows[MAX_INDEX];
    struct packed packed;
    struct kl_karg args[KL_MAX_KARGS];
    int n = 0;
    KL_TRY(describe(e, c, array, &v, &x, index));
    if (!v.checked || v.n_index == 0) return KL_OK;
    struct range r = positions(c, index[0], v.n_index);
    KL_TRY(in_row_order(e, index, v.n_index, rows, 0, NULL));
    x.n = r.end - r.begin;
    v.small = x.n <= INT32_MAX;
    args[n++] = pack(&v, &x, &packed);
    for (int k = 0; k < v.n_index; k++)
        args[n++] = item_ptr(rows[k], r.begin, kl_dtype_size(index[k]->dtype));
    args[n++] = kl_fault_args(c).ptr;
    args[n++] = KL_KARG(c->word.index);
    return emit(e, &v, "check_indices", x.n, args, n);
}

static int gather(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_gather_params *p = c->params;
    const struct kl_arg *source_arg = &c->args[0], *out = &c->args[c->n_in], *index[MAX_INDEX];
    struct variant v = {0};
    struct indexed x = {0};
    const void *rows[MAX_INDEX];
    if (out->size == 0) return check(e, c, source_arg);
    KL_TRY(describe(e, c, source_arg, &v, &x, index));
    struct range r = positions(c, index[0], v.n_index);
    KL_TRY(one_space(e, p->ndim, p->v + p->n_axes, 1, &source_arg->strides, &x.slice));
    x.n = r.end - r.begin;
    x.inner = x.slice.n;
    KL_TRY(in_row_order(e, index, v.n_index, rows, 0, NULL));
    v.item = (uint8_t)widen(&x, v.n_index, kl_dtype_size(out->dtype), widest(e->port),
                            source_arg->data, out->data);
    v.flat_slice = flat_slice(&x.slice);
    int64_t items = x.n * x.inner;
    v.small = items <= INT32_MAX;
    v.each = each(items, v.item);
    struct kl_fault_args f = kl_fault_args(c);
    struct kl_karg args[KL_MAX_KARGS];
    struct packed packed;
    int n = 0;
    args[n++] = pack(&v, &x, &packed);
    /* Nothing is taken from an empty array, but the kernel reads an element before it knows that
     * the index is wrong. */
    args[n++] = KL_KARG_PTR(source_arg->size ? source_arg->data : out->data, v.item);
    for (int k = 0; k < v.n_index || k == 0; k++)
        args[n++] = v.n_index ? item_ptr(rows[k], r.begin, kl_dtype_size(index[k]->dtype))
                              : KL_KARG_PTR(NULL, 1);
    args[n++] = item_ptr(out->data, r.begin * x.inner, v.item);
    args[n++] = f.ptr;
    args[n++] = KL_KARG(c->word.index);
    return emit_slices(e, &v, "gather", &x, v.item, args, n);
}

struct axis_job {
    struct kl_emit *e;
    const struct kl_command *c;
    struct variant v;
    struct indexed x;
    struct range r;
    const struct kl_arg *array, *index, *values; /* values: the updates of a scatter */
    void *out;
    int64_t first;
    char *keys; /* for ORDERED */
};

static int axis_space(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    struct axis_job *j = ctx;
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
    j->first += s.n;
    if (j->first <= j->r.begin || first >= j->r.end) return KL_OK;
    return emit(j->e, &j->v, j->v.scatter ? "scatter_axis" : "gather_axis", s.n, args, n);
}

static int along_axis(struct axis_job *j, int axis) {
    int64_t strides[64];
    const int64_t *rows[3] = {strides, j->index->strides, j->values ? j->values->strides : NULL};
    if (j->array->ndim > 64) return kl_fail(j->e->err, KL_EUNSUPPORTED, "over 64 axes");
    memcpy(strides, j->array->strides, (size_t)j->array->ndim * sizeof *strides);
    strides[axis] = 0; /* the index gives the place along this axis */
    j->r = positions(j->c, j->index, 1);
    j->v.small = j->v.flat_slice = 1;
    return kl_space_each(j->index->ndim, j->index->dims, j->values ? 3 : 2, rows, axis_space, j);
}

static int gather_axis(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_axis_params *p = c->params;
    struct axis_job j = {.e = e,
                         .c = c,
                         .array = &c->args[0],
                         .index = &c->args[1],
                         .out = c->args[2].data,
                         .v = {.item = (uint8_t)kl_dtype_size(c->args[0].dtype), .each = 1}};
    KL_TRY(describe(e, c, j.array, &j.v, &j.x, &j.index));
    return along_axis(&j, p->axis);
}

int kl_lower_gather(struct kl_emit *e, const struct kl_command *c) {
    return c->op == KL_OP_GATHER ? gather(e, c) : gather_axis(e, c);
}

/* ---- scatters ---- */

/* Copies the base to out, unless both are the same memory; only the first launch of the operation
 * does so. */
static int copy_base(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_arg *base = &c->args[0], *out = &c->args[c->n_in];
    if (out->data == base->data || c->pos_begin > 0) return KL_OK;
    return kl_emit_copy(e, kl_dtype_size(out->dtype), out->ndim, out->dims, out->data, out->strides,
                        base->data, base->strides);
}

/* Whether one work-item must do all joins one after another: joins of 64 bits on a device without
 * 64-bit atomics. */
static bool must_be_serial(const struct kl_port *port, enum kl_dtype dtype, int mode) {
    return !port->has_atomic64 && kl_dtype_size(dtype) == 8 && mode != KL_SCATTER_ASSIGN &&
           !(dtype == KL_C64 && mode == KL_SCATTER_ADD);
}

/* ---- the deterministic mode: sorted updates ----
 *
 * A kernel first writes the place of each slice (or of each element, when slices may overlap): the
 * keys. A stable sort orders the slices by key. Then one work-item per element of the result joins
 * everything that goes to that element, in order. */

enum { PLACE_BYTES = 4 };
/* n slices of `inner` elements are sorted. The other fields are offsets in scratch memory, and its
 * size. */
struct ordered {
    int64_t n, inner;
    size_t order, runs, bytes;
};

/* Whether slices at different places never overlap. Slices at one place are the same elements. */
static bool slices_are_apart(const struct indexed *x, int n_index) {
    for (int k = 0; k < n_index; k++)
        if (x->axis[k].places != x->axis[k].size) return false;
    return true;
}

/* The dtype of the keys. Its largest value is LAST_KEY, which no place may equal. */
static enum kl_dtype key_for(const struct kl_arg *out) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < out->ndim; d++) {
        int64_t far = (out->dims[d] - 1) * out->strides[d];
        if (far < 0)
            low += far;
        else
            high += far;
    }
    return low >= INT32_MIN && high < INT32_MAX ? KL_I32 : KL_I64;
}

static int ordered_layout(struct kl_emit *e, const struct variant *v, int64_t n, int64_t inner,
                          struct ordered *o) {
    if (n > INT32_MAX)
        return kl_fail(e->err, KL_EUNSUPPORTED,
                       "KEEL_DETERMINISTIC: a scatter of %lld %s; at most 2147483647", (long long)n,
                       inner > 1 ? "slices" : "elements");
    o->n = n;
    o->inner = inner;
    o->order = kl_scratch_bytes((size_t)n * kl_dtype_size(v->key));
    o->runs = kl_scratch_bytes(o->order + (size_t)n * PLACE_BYTES);
    o->bytes = kl_scratch_bytes(o->runs + kl_argsort_scratch(e, v->key, n));
    return KL_OK;
}

/* Sorts the slices by their keys, which the kernel has written, and joins them in that order.
 * updates: row-major, at the first update of this launch. */
static int join_in_order(struct kl_emit *e, struct variant *v, struct indexed *x,
                         const struct ordered *o, char *keys, void *out, const void *updates) {
    void *order = keys ? keys + o->order : NULL, *runs = keys ? keys + o->runs : NULL;
    struct packed packed;
    if (o->runs == o->bytes) runs = NULL; /* a sort of one tile needs no scratch memory */
    KL_TRY(kl_emit_argsort(e, v->key, o->n, keys, order, runs));
    x->n = o->n;
    x->inner = o->inner;
    size_t item = kl_dtype_size(v->dtype);
    struct kl_karg args[] = {pack(v, x, &packed), KL_KARG_PTR(keys, kl_dtype_size(v->key)),
                             KL_KARG_PTR(order, PLACE_BYTES), KL_KARG_PTR(out, item),
                             KL_KARG_PTR(updates, item)};
    return emit(e, v, "join_in_order", o->n * o->inner, args, 5);
}

static int check_f64(struct kl_emit *e, enum kl_dtype dtype) {
    if (dtype != KL_F64 || e->port->has_f64) return KL_OK;
    return kl_fail(e->err, KL_EUNSUPPORTED, "scatter: this device has no float64");
}

/* ---- assignment of many slices to few places ---- */

/* The number of places at which slices can begin; 0: none, or more than INT32_MAX. */
static int64_t places_of(const struct indexed *x, int n_index) {
    int64_t n = n_index > 0;
    for (int k = 0; k < n_index; k++) {
        n *= x->axis[k].places;
        if (n > INT32_MAX) return 0;
    }
    return n;
}

/* Whether only the last slice of each place should be moved. That slice is the result that the
 * deterministic mode requires, where slices of different places do not overlap. */
static bool only_last(const struct kl_emit *e, const struct variant *v, const struct indexed *x,
                      int mode, int64_t slice_bytes) {
    int64_t places = places_of(x, v->n_index);
    if (mode != KL_SCATTER_ASSIGN || places == 0 || x->n > INT32_MAX) return false;
    if (kl_deterministic()) return slices_are_apart(x, v->n_index) && places <= PER_SLICE * x->n;
    /* Storing a word costs as little as finding out whether it is the last. */
    int64_t often = slice_bytes < MAX_ITEM ? 32 : 2;
    return !e->port->on_processor && x->n >= often * places && x->n * slice_bytes >= MANY_BYTES;
}

static int assign_last(struct kl_emit *e, const struct kl_command *c, const struct variant *of,
                       const struct indexed *slices, const struct kl_karg *indices, void *table,
                       const struct kl_karg updates) {
    const struct kl_arg *out = &c->args[c->n_in];
    struct variant find = *of, move = *of;
    struct indexed x = *slices, to = *slices;
    struct packed packed;
    struct kl_karg args[KL_MAX_KARGS];
    int64_t places = 1;
    int n = 0;
    for (int k = of->n_index - 1; k >= 0; k--) {
        x.axis[k].stride = places;
        places *= x.axis[k].places;
    }
    KL_TRY(kl_emit_fill(e, table, sizeof(uint32_t), places, 0));
    find.last = places <= TABLE ? FIND_LAST_IN_GROUPS : FIND_LAST;
    find.each = x.n < MANY_PLACES ? 1 : 8;
    find.small = find.flat_slice = 1;
    find.item = find.exchange = 0;
    x.inner = 1;
    args[n++] = pack(&find, &x, &packed);
    args[n++] = KL_KARG(places);
    args[n++] = KL_KARG_PTR(table, sizeof(uint32_t));
    for (int k = 0; k < of->n_index; k++) args[n++] = indices[k];
    args[n++] = kl_fault_args(c).ptr;
    args[n++] = KL_KARG(c->word.index);
    KL_TRY(emit(e, &find, "find_last", x.n, args, n));
    to.n = places;
    move.last = MOVE_LAST;
    move.small = places * to.inner <= INT32_MAX;
    move.each = each(places * to.inner, move.item);
    move.checked = move.narrow = move.exchange = 0;
    /* The kernel does not read indices. */
    memset(move.index_dtype, KL_I32, sizeof move.index_dtype);
    struct kl_karg rest[] = {pack(&move, &to, &packed), KL_KARG_PTR(table, sizeof(uint32_t)),
                             KL_KARG_PTR(out->data, of->item), updates};
    return emit(e, &move, "move_last", places * to.inner, rest, 4);
}

static int scatter(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_scatter_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in], *updates = &c->args[1], *flats[MAX_INDEX + 1];
    struct variant v = {.scatter = 1, .dtype = out->dtype, .mode = (uint8_t)p->mode};
    struct indexed x = {0};
    const void *rows[MAX_INDEX + 1];
    KL_TRY(check_f64(e, out->dtype));
    KL_TRY(copy_base(e, c));
    if (out->size == 0 || updates->size == 0) return check(e, c, out);
    KL_TRY(describe(e, c, out, &v, &x, flats));
    struct range r = positions(c, flats[0], v.n_index);
    int lead = updates->ndim - out->ndim;
    KL_TRY(one_space(e, out->ndim, updates->dims + lead, 1, &out->strides, &x.slice));
    x.n = r.end - r.begin;
    x.inner = x.slice.n;
    flats[v.n_index] = updates;
    int64_t items = x.n * x.inner;
    struct ordered o = {0};
    char *keys = NULL; /* or the table of assign_last */
    bool last = only_last(e, &v, &x, p->mode, x.inner * (int64_t)kl_dtype_size(out->dtype));
    v.ordered = kl_deterministic() && !last;
    if (last) o.bytes = (size_t)places_of(&x, v.n_index) * sizeof(uint32_t);
    if (v.ordered) {
        bool whole = slices_are_apart(&x, v.n_index);
        v.key = key_for(out);
        KL_TRY(ordered_layout(e, &v, whole ? x.n : items, whole ? x.inner : 1, &o));
    }
    KL_TRY(in_row_order(e, flats, v.n_index + 1, rows, o.bytes, &keys));
    /* The bits of the values are moved, whatever the dtype. */
    if (p->mode == KL_SCATTER_ASSIGN && !v.ordered) {
        v.item = (uint8_t)widen(&x, v.n_index, kl_dtype_size(out->dtype), widest(e->port),
                                rows[v.n_index], out->data);
        v.dtype = 0;
        v.exchange = e->port->is_cuda && v.item == 4 && x.inner == 1 && out->size >= MANY_PLACES;
        items = x.n * x.inner;
    } else if (p->mode == KL_SCATTER_ADD && out->dtype == KL_F32 && !v.ordered &&
               e->port->has_wide_sums) {
        struct indexed wide = x;
        if (widen(&wide, v.n_index, sizeof(float), MAX_ITEM, rows[v.n_index], out->data) ==
            MAX_ITEM) {
            v.item = MAX_ITEM;
            x = wide;
            items = x.n * x.inner;
        }
    }
    v.flat_slice = flat_slice(&x.slice);
    v.serial = !v.ordered && must_be_serial(e->port, out->dtype, p->mode);
    v.small = items <= INT32_MAX;
    if (!v.ordered && !v.serial) v.each = each(items, v.item);
    struct kl_karg args[KL_MAX_KARGS];
    struct packed packed;
    int n = 0;
    int64_t item = v.item ? v.item : (int64_t)kl_dtype_size(out->dtype);
    struct kl_karg of_these = item_ptr(rows[v.n_index], r.begin * x.inner, (size_t)item);
    if (v.ordered) { /* the key of a slice is the key of its first element */
        x.inner /= o.inner;
        items = o.n;
    }
    args[n++] = pack(&v, &x, &packed);
    args[n++] = KL_KARG_PTR(out->data, item);
    for (int k = 0; k < v.n_index || k == 0; k++)
        args[n++] = v.n_index ? item_ptr(rows[k], r.begin, kl_dtype_size(flats[k]->dtype))
                              : KL_KARG_PTR(NULL, 1);
    if (last) return assign_last(e, c, &v, &x, args + 2, keys, of_these);
    args[n++] = of_these;
    args[n++] = kl_fault_args(c).ptr;
    args[n++] = KL_KARG(c->word.index);
    int64_t shift = 0;
    if (v.ordered) {
        args[n++] = KL_KARG_PTR(keys, kl_dtype_size(v.key));
        args[n++] = KL_KARG(shift);
    }
    if (!v.ordered) return emit_slices(e, &v, "scatter", &x, item, args, n);
    KL_TRY(emit(e, &v, "scatter", items, args, n));
    return join_in_order(e, &v, &x, &o, keys, out->data, of_these.value);
}

static int scatter_axis(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_scatter_axis_params *p = c->params;
    struct axis_job j = {.e = e,
                         .c = c,
                         .array = &c->args[3],
                         .values = &c->args[1],
                         .index = &c->args[2],
                         .out = c->args[3].data,
                         .v = {.scatter = 1, .dtype = c->args[3].dtype, .mode = (uint8_t)p->mode}};
    if (p->mode == KL_SCATTER_ASSIGN && !kl_deterministic()) {
        j.v.item = (uint8_t)kl_dtype_size(j.array->dtype);
        j.v.dtype = 0;
    }
    KL_TRY(check_f64(e, j.array->dtype));
    KL_TRY(copy_base(e, c));
    KL_TRY(describe(e, c, j.array, &j.v, &j.x, &j.index));
    j.v.ordered = kl_deterministic();
    j.v.serial = !j.v.ordered && must_be_serial(e->port, j.array->dtype, p->mode);
    if (!j.v.ordered && !j.v.serial) j.v.each = 1;
    if (!j.v.ordered) return along_axis(&j, p->axis);
    const void *values;
    struct ordered o = {0};
    j.r = positions(c, j.index, 1);
    int64_t n = j.r.end - j.r.begin;
    j.v.key = key_for(j.array);
    KL_TRY(ordered_layout(e, &j.v, n, 1, &o));
    KL_TRY(in_row_order(e, &j.values, 1, &values, o.bytes, &j.keys));
    KL_TRY(along_axis(&j, p->axis));
    size_t done = (size_t)j.r.begin * kl_dtype_size(j.array->dtype);
    return join_in_order(e, &j.v, &j.x, &o, j.keys, j.out, (const char *)values + done);
}

int kl_lower_scatter(struct kl_emit *e, const struct kl_command *c) {
    return c->op == KL_OP_SCATTER ? scatter(e, c) : scatter_axis(e, c);
}
