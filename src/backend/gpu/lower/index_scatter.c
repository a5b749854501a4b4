/* index_scatter.c - SCATTER and SCATTER_AXIS. See index.h.
 *
 * There are three ways: direct scatters; the deterministic mode, which sorts the updates; and
 * assignments of which only the last slice of each place is moved. */
#include <string.h>

#include "backend/gpu/lower/index.h"
#include "backend/gpu/lower/kernels.h"
#include "base/op/deterministic.h"
#include "base/op/op_params.h"

enum { FIND_LAST = 1, FIND_LAST_IN_GROUPS = 2, MOVE_LAST = 3 };
enum {
    MANY_PLACES = 1 << 16,
    /* Bytes of updates; with fewer, two more launches take longer than what is saved. */
    MANY_BYTES = 1 << 20,
    /* Places per slice up to which one word per place takes no more memory than a sort of the
     * slices. */
    PER_SLICE = 6,
};

/* ---- sums that keep denormal numbers, on a device whose sums flush them ----
 *
 * Few updates are joined by compare-and-swap. Where there are many, work-items would wait for each
 * other too long. A first kernel finds whether there are numbers so small that a sum may be
 * denormal; if so the array is multiplied by 2^24 before the device adds multiples by 2^24, and
 * divided after: that is exact. Only where other numbers are too large for it compare-and-swap
 * remains. */
enum { NO_MATTER, BY_FLAGS, BY_SWAP };
enum { SUMS_LOCAL = 256, SUMS_EACH = 8, SUMS_GROUPS = 16, MANY_SUMS = 1 << 16 };
const struct kl_family kl_family_scatter_sums = {.name = "scatter_sums",
                                                 .source = kl_source_index_scatter_sums};

/* Sets what the kernel does with an element. */
static void set_mode(const struct kl_emit *e, struct kl_indexed_variant *v,
                     enum kl_scatter_mode mode, int64_t updates) {
    v->mode = kl_scatter_adds(mode) ? KL_SCATTER_ADD : (uint8_t)mode;
    if (mode == KL_SCATTER_ADD_DENORMAL && e->driver->flushes_sums && !kl_deterministic())
        v->denormals = updates < MANY_SUMS ? BY_SWAP : BY_FLAGS;
}

/* A kernel over the elements of an array; factor 0: find_extremes. */
struct sums {
    struct kl_emit *e;
    const struct kl_arg *array;
    void *flags;
    float factor;
};

static int sums_of_space(void *ctx, const struct kl_space *space, const int64_t *offsets) {
    const struct sums *x = ctx;
    struct kl_space s = *space;
    const float *data = x->array->data;
    struct kl_karg args[] = {KL_KARG(s), KL_KARG_PTR(data ? data + offsets[0] : NULL, sizeof *data),
                             KL_KARG_PTR(x->flags, sizeof(uint32_t)), KL_KARG(x->factor)};
    int64_t each = SUMS_LOCAL * SUMS_EACH, groups = (s.n + each - 1) / each;
    int64_t most = (int64_t)x->e->driver->n_units * SUMS_GROUPS;
    return kl_emit(x->e, &kl_family_scatter_sums, NULL,
                   x->factor != 0 ? "scale_sums" : "find_extremes", groups < most ? groups : most,
                   SUMS_LOCAL, args, x->factor != 0 ? 4 : 3);
}

static int each_sum(struct kl_emit *e, const struct kl_arg *array, void *flags, float factor) {
    struct sums x = {e, array, flags, factor};
    const int64_t *strides = array->strides;
    return kl_space_each(array->ndim, array->dims, 1, &strides, sums_of_space, &x);
}

static int begin_sums(struct kl_emit *e, const struct kl_arg *out, const struct kl_arg *updates,
                      void *flags) {
    KL_TRY(kl_emit_fill(e, flags, sizeof(uint32_t), 2, 0));
    KL_TRY(each_sum(e, out, flags, 0));
    KL_TRY(each_sum(e, updates, flags, 0));
    return each_sum(e, out, flags, 0x1p24f);
}

static int end_sums(struct kl_emit *e, const struct kl_arg *out, void *flags) {
    return each_sum(e, out, flags, 0x1p-24f);
}

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
static bool must_be_serial(const struct kl_driver *d, enum kl_dtype dtype,
                           enum kl_scatter_mode mode) {
    return !d->has_atomic64 && kl_dtype_size(dtype) == 8 && mode != KL_SCATTER_ASSIGN &&
           !(dtype == KL_C64 && kl_scatter_adds(mode));
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
static bool slices_are_apart(const struct kl_indexed *x, int n_index) {
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

static int ordered_layout(struct kl_emit *e, const struct kl_indexed_variant *v, int64_t n,
                          int64_t inner, struct ordered *o) {
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
static int join_in_order(struct kl_emit *e, struct kl_indexed_variant *v, struct kl_indexed *x,
                         const struct ordered *o, char *keys, void *out, const void *updates) {
    void *order = keys ? keys + o->order : NULL, *runs = keys ? keys + o->runs : NULL;
    struct kl_indexed_bytes packed;
    if (o->runs == o->bytes) runs = NULL; /* a sort of one tile needs no scratch memory */
    KL_TRY(kl_emit_argsort(e, v->key, o->n, keys, order, runs));
    x->n = o->n;
    x->inner = o->inner;
    size_t item = kl_dtype_size(v->dtype);
    struct kl_karg args[] = {
        kl_indexed_pack(v, x, &packed), KL_KARG_PTR(keys, kl_dtype_size(v->key)),
        KL_KARG_PTR(order, PLACE_BYTES), KL_KARG_PTR(out, item), KL_KARG_PTR(updates, item)};
    return kl_indexed_emit(e, v, "join_in_order", o->n * o->inner, args, 5);
}

static int check_f64(struct kl_emit *e, enum kl_dtype dtype) {
    if (dtype != KL_F64 || e->driver->has_f64) return KL_OK;
    return kl_fail(e->err, KL_EUNSUPPORTED, "scatter: this device has no float64");
}

/* ---- assignment of many slices to few places ---- */

/* The number of places at which slices can begin; 0: none, or more than INT32_MAX. */
static int64_t places_of(const struct kl_indexed *x, int n_index) {
    int64_t n = n_index > 0;
    for (int k = 0; k < n_index; k++) {
        n *= x->axis[k].places;
        if (n > INT32_MAX) return 0;
    }
    return n;
}

/* Whether only the last slice of each place should be moved. That slice is the result that the
 * deterministic mode requires, where slices of different places do not overlap. */
static bool only_last(const struct kl_emit *e, const struct kl_indexed_variant *v,
                      const struct kl_indexed *x, int mode, int64_t slice_bytes) {
    int64_t places = places_of(x, v->n_index);
    if (mode != KL_SCATTER_ASSIGN || places == 0 || x->n > INT32_MAX) return false;
    if (kl_deterministic()) return slices_are_apart(x, v->n_index) && places <= PER_SLICE * x->n;
    /* Storing a word costs as little as finding out whether it is the last. */
    int64_t often = slice_bytes < KL_MAX_ITEM ? 32 : 2;
    return !e->driver->on_processor && x->n >= often * places && x->n * slice_bytes >= MANY_BYTES;
}

static int assign_last(struct kl_emit *e, const struct kl_command *c,
                       const struct kl_indexed_variant *of, const struct kl_indexed *slices,
                       const struct kl_karg *indices, void *table, const struct kl_karg updates) {
    const struct kl_arg *out = &c->args[c->n_in];
    struct kl_indexed_variant find = *of, move = *of;
    struct kl_indexed x = *slices, to = *slices;
    struct kl_indexed_bytes packed;
    struct kl_karg args[KL_MAX_KARGS];
    int64_t places = 1;
    int n = 0;
    for (int k = of->n_index - 1; k >= 0; k--) {
        x.axis[k].stride = places;
        places *= x.axis[k].places;
    }
    KL_TRY(kl_emit_fill(e, table, sizeof(uint32_t), places, 0));
    find.last = places <= KL_LAST_TABLE ? FIND_LAST_IN_GROUPS : FIND_LAST;
    find.each = x.n < MANY_PLACES ? 1 : 8;
    find.small = find.flat_slice = 1;
    find.item = find.exchange = 0;
    x.inner = 1;
    args[n++] = kl_indexed_pack(&find, &x, &packed);
    args[n++] = KL_KARG(places);
    args[n++] = KL_KARG_PTR(table, sizeof(uint32_t));
    for (int k = 0; k < of->n_index; k++) args[n++] = indices[k];
    args[n++] = kl_fault_args(c).ptr;
    args[n++] = KL_KARG(c->word.index);
    KL_TRY(kl_indexed_emit(e, &find, "find_last", x.n, args, n));
    to.n = places;
    move.last = MOVE_LAST;
    move.small = places * to.inner <= INT32_MAX;
    move.each = kl_indexed_each(places * to.inner, move.item);
    move.checked = move.narrow = move.exchange = 0;
    /* The kernel does not read indices. */
    memset(move.index_dtype, KL_I32, sizeof move.index_dtype);
    struct kl_karg rest[] = {kl_indexed_pack(&move, &to, &packed),
                             KL_KARG_PTR(table, sizeof(uint32_t)), KL_KARG_PTR(out->data, of->item),
                             updates};
    return kl_indexed_emit(e, &move, "move_last", places * to.inner, rest, 4);
}

static int scatter(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_scatter_params *p = c->params;
    const struct kl_arg *out = &c->args[c->n_in], *updates = &c->args[1],
                        *flats[KL_INDEX_ARRAYS + 1];
    struct kl_indexed_variant v = {.scatter = 1, .dtype = out->dtype};
    struct kl_indexed x = {0};
    const void *rows[KL_INDEX_ARRAYS + 1];
    set_mode(e, &v, p->mode, updates->size);
    KL_TRY(check_f64(e, out->dtype));
    KL_TRY(copy_base(e, c));
    if (out->size == 0 || updates->size == 0) return kl_indexed_check(e, c, out);
    KL_TRY(kl_indexed_describe(e, c, out, &v, &x, flats));
    struct kl_index_range r = kl_index_positions(c, flats[0], v.n_index);
    int lead = updates->ndim - out->ndim;
    KL_TRY(kl_indexed_slice_space(e, out->ndim, updates->dims + lead, 1, &out->strides, &x.slice));
    x.n = r.end - r.begin;
    x.inner = x.slice.n;
    flats[v.n_index] = updates;
    int64_t items = x.n * x.inner;
    struct ordered o = {0};
    char *keys = NULL; /* or the table of assign_last, or the flags of sums */
    bool last = only_last(e, &v, &x, p->mode, x.inner * (int64_t)kl_dtype_size(out->dtype));
    v.ordered = kl_deterministic() && !last;
    if (v.denormals == BY_FLAGS) o.bytes = 2 * sizeof(uint32_t);
    if (last) o.bytes = (size_t)places_of(&x, v.n_index) * sizeof(uint32_t);
    if (v.ordered) {
        bool whole = slices_are_apart(&x, v.n_index);
        v.key = key_for(out);
        KL_TRY(ordered_layout(e, &v, whole ? x.n : items, whole ? x.inner : 1, &o));
    }
    KL_TRY(kl_indexed_row_major(e, flats, v.n_index + 1, rows, o.bytes, &keys));
    /* The bits of the values are moved, whatever the dtype. */
    if (p->mode == KL_SCATTER_ASSIGN && !v.ordered) {
        v.item =
            (uint8_t)kl_indexed_widen(&x, v.n_index, kl_dtype_size(out->dtype),
                                      kl_indexed_widest(e->driver), rows[v.n_index], out->data);
        v.dtype = 0;
        v.exchange =
            e->driver->fast_exchange && v.item == 4 && x.inner == 1 && out->size >= MANY_PLACES;
        items = x.n * x.inner;
    } else if (v.mode == KL_SCATTER_ADD && out->dtype == KL_F32 && !v.ordered &&
               v.denormals != BY_SWAP && e->driver->has_wide_sums) {
        struct kl_indexed wide = x;
        if (kl_indexed_widen(&wide, v.n_index, sizeof(float), KL_MAX_ITEM, rows[v.n_index],
                             out->data) == KL_MAX_ITEM) {
            v.item = KL_MAX_ITEM;
            x = wide;
            items = x.n * x.inner;
        }
    }
    v.flat_slice = kl_indexed_flat_slice(&x.slice);
    v.serial = !v.ordered && must_be_serial(e->driver, out->dtype, p->mode);
    v.small = items <= INT32_MAX;
    if (!v.ordered && !v.serial) v.each = kl_indexed_each(items, v.item);
    struct kl_karg args[KL_MAX_KARGS];
    struct kl_indexed_bytes packed;
    int n = 0;
    int64_t item = v.item ? v.item : (int64_t)kl_dtype_size(out->dtype);
    struct kl_karg of_these = kl_index_item_ptr(rows[v.n_index], r.begin * x.inner, (size_t)item);
    if (v.ordered) { /* the key of a slice is the key of its first element */
        x.inner /= o.inner;
        items = o.n;
    }
    args[n++] = kl_indexed_pack(&v, &x, &packed);
    args[n++] = KL_KARG_PTR(out->data, item);
    for (int k = 0; k < v.n_index || k == 0; k++)
        args[n++] = v.n_index ? kl_index_item_ptr(rows[k], r.begin, kl_dtype_size(flats[k]->dtype))
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
    if (v.denormals == BY_FLAGS) {
        args[n++] = KL_KARG_PTR(keys, sizeof(uint32_t));
        KL_TRY(begin_sums(e, out, updates, keys));
        KL_TRY(kl_indexed_emit_slices(e, &v, "scatter", &x, item, args, n));
        return end_sums(e, out, keys);
    }
    if (!v.ordered) return kl_indexed_emit_slices(e, &v, "scatter", &x, item, args, n);
    KL_TRY(kl_indexed_emit(e, &v, "scatter", items, args, n));
    return join_in_order(e, &v, &x, &o, keys, out->data, of_these.value);
}

static int scatter_axis(struct kl_emit *e, const struct kl_command *c) {
    const struct kl_scatter_axis_params *p = c->params;
    struct kl_axis_job j = {.e = e,
                            .c = c,
                            .array = &c->args[3],
                            .values = &c->args[1],
                            .index = &c->args[2],
                            .out = c->args[3].data,
                            .v = {.scatter = 1, .dtype = c->args[3].dtype}};
    set_mode(e, &j.v, p->mode, j.values->size);
    if (p->mode == KL_SCATTER_ASSIGN && !kl_deterministic()) {
        j.v.item = (uint8_t)kl_dtype_size(j.array->dtype);
        j.v.dtype = 0;
    }
    KL_TRY(check_f64(e, j.array->dtype));
    KL_TRY(copy_base(e, c));
    KL_TRY(kl_indexed_describe(e, c, j.array, &j.v, &j.x, &j.index));
    j.v.ordered = kl_deterministic();
    j.v.serial = !j.v.ordered && must_be_serial(e->driver, j.array->dtype, p->mode);
    if (!j.v.ordered && !j.v.serial) j.v.each = 1;
    if (j.v.denormals == BY_FLAGS) {
        KL_TRY(kl_emit_workspace(e, 2 * sizeof(uint32_t), &j.flags));
        KL_TRY(begin_sums(e, j.array, j.values, j.flags));
        KL_TRY(kl_indexed_along_axis(&j, p->axis));
        return end_sums(e, j.array, j.flags);
    }
    if (!j.v.ordered) return kl_indexed_along_axis(&j, p->axis);
    const void *values;
    struct ordered o = {0};
    j.r = kl_index_positions(c, j.index, 1);
    int64_t n = j.r.end - j.r.begin;
    j.v.key = key_for(j.array);
    KL_TRY(ordered_layout(e, &j.v, n, 1, &o));
    KL_TRY(kl_indexed_row_major(e, &j.values, 1, &values, o.bytes, &j.keys));
    KL_TRY(kl_indexed_along_axis(&j, p->axis));
    size_t done = (size_t)j.r.begin * kl_dtype_size(j.array->dtype);
    return join_in_order(e, &j.v, &j.x, &o, j.keys, j.out, (const char *)values + done);
}

int kl_lower_scatter(struct kl_emit *e, const struct kl_command *c) {
    return c->op == KL_OP_SCATTER ? scatter(e, c) : scatter_axis(e, c);
}
