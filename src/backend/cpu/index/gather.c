/* gather.c - GATHER and GATHER_AXIS. Positions are processed in tiles: indices are read and brought
 * into range, then elements are copied. A position whose index is out of range gives zeros and is
 * reported as base/op/launch.h says. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/patch.h"
#include "base/op/index.h"
#include "base/op/op_params.h"

enum { COLUMN_PART = 64 }; /* elements of a column in one task; whole cache lines */

struct job {
    const struct kl_launch *l;
    int64_t chunk; /* positions in one task; 1 where a slice is cut into parts */
    _Atomic(int64_t) fault;
    /* GATHER: the number of elements of a slice, and the strides of its elements in the source and
     * in the output. */
    int64_t slice, slice_strides[KL_LONG_AXES], row_strides[KL_LONG_AXES];
    int dims[KL_LONG_AXES], n_dims; /* axes longer than 1 */
    bool dense;                     /* the slice is contiguous in the source */
    /* The lines of a slice, along its first axis, or its elements where it is dense. A large slice
     * is copied by several tasks, each of which copies `part` lines of it. */
    int64_t lines, part, parts;
    /* Bytes of an element of a column: of slices that have their elements, or short runs of them,
     * far apart. 0 for other slices. */
    int64_t wide;
    /* GATHER_AXIS: the strides of the source, with 0 for the indexed axis. */
    int n_pos_dims, pos_dims[KL_LONG_AXES];
    int64_t pos_strides[KL_LONG_AXES];
};

static void note_fault(struct job *j, int64_t position) {
    int64_t seen = atomic_load_explicit(&j->fault, memory_order_relaxed);
    while (position < seen &&
           !atomic_compare_exchange_weak_explicit(&j->fault, &seen, position, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

/* Adds to offsets[i] what index i contributes; where that index is out of range, ok[i] becomes
 * false. `all` says that no index was out of range so far; then ok has no values yet. Returns
 * whether there is still none. A whole run is tested at once: a test for each element takes a fifth
 * of the time of a gather of single elements. */
static bool add_index(const struct job *j, int operand, int axis, int64_t extent, int64_t position,
                      int64_t n, int64_t *offsets, bool *ok, bool all) {
    const struct kl_arg *indices = &j->l->in[operand], *source = &j->l->in[0];
    int64_t size = source->dims[axis], stride = source->strides[axis], v[KL_TILE];
    int64_t last = size - extent, sign = 0; /* negative where an index is out of range */
    struct kl_cursor c;
    union kl_tile raw;
    kl_cursor_init_arg(&c, indices);
    kl_cursor_seek(&c, position);
    kl_index_read_run(kl_cursor_next(&c, n, &raw), indices->dtype,
                      (int64_t)kl_dtype_size(indices->dtype), n, v);
    KL_EACH(i, n) {
        v[i] += v[i] < 0 ? size : 0;
        sign |= v[i] | (last - (v[i] & INT64_MAX));
    }
    if (sign >= 0 || !j->l->checked) {
        KL_EACH(i, n) offsets[i] += v[i] * stride;
        return all;
    }
    if (all) memset(ok, true, (size_t)n * sizeof *ok);
    for (int64_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] > last)
            ok[i] = false;
        else
            offsets[i] += v[i] * stride;
    }
    return false;
}

/* ---- GATHER ---- */
/* Copies part `part` of the slices. ok is NULL where all indices are in range. */
static void copy_slices(const struct job *j, int64_t position, int64_t n, int64_t part,
                        const int64_t *offsets, const bool *ok) {
    const struct kl_arg *source = &j->l->in[0];
    const int item = (int)kl_dtype_size(source->dtype);
    const int64_t first = part * j->part, lines = kl_min64(j->part, j->lines - first);
    const int64_t line = j->slice / j->lines, slice_bytes = j->slice * item;
    const int64_t source_line = j->dense ? 1 : j->slice_strides[0], bytes = lines * line * item;
    char *dst = (char *)j->l->out->data + position * slice_bytes + first * line * item;
    int dims[KL_LONG_AXES];
    memcpy(dims, j->dims, sizeof dims);
    if (!j->dense) dims[0] = (int)lines;
    for (int64_t i = 0; i < n; i++, dst += slice_bytes) {
        const char *src = (const char *)source->data + (offsets[i] + first * source_line) * item;
        if (ok && !ok[i])
            memset(dst, 0, (size_t)bytes);
        else if (j->dense)
            memcpy(dst, src, (size_t)bytes);
        else
            kl_copy_strided(item, j->n_dims, dims, dst, j->row_strides, src, j->slice_strides);
    }
}

/* One row of the source: the elements of m columns, of `wide` bytes each. */
static void gather_row(int wide, char *to, const char *row, const int64_t *offsets, int64_t item,
                       int64_t m) {
    switch (wide) {
    case 1:
        for (int64_t i = 0; i < m; i++) to[i] = row[offsets[i]];
        break;
    case 2:
        for (int64_t i = 0; i < m; i++) memcpy(to + 2 * i, row + item * offsets[i], 2);
        break;
    case 4:
        for (int64_t i = 0; i < m; i++) memcpy(to + 4 * i, row + item * offsets[i], 4);
        break;
    default:
        for (int64_t i = 0; i < m; i++) memcpy(to + 8 * i, row + item * offsets[i], 8);
        break;
    }
}

/* Copies part `part` of columns. The source is read by rows, in which the columns are close
 * together, into a patch that is then transposed. A patch has a cache line of each column, and so
 * many columns that most of a row is read at once. */
static void copy_columns(const struct job *j, int64_t position, int64_t n, int64_t part,
                         const int64_t *offsets, const bool *ok) {
    const struct kl_arg *source = &j->l->in[0];
    const int64_t item = (int64_t)kl_dtype_size(source->dtype), wide = j->wide;
    const int64_t first = part * j->part, last = kl_min64(first + j->part, j->lines);
    const int64_t high = KL_LINE / wide, step = j->slice_strides[0] * item,
                  column = j->lines * wide;
    char *out = (char *)j->l->out->data + position * column;
    _Alignas(KL_LINE) char patch[KL_LINE * KL_TILE], turned[KL_LINE * KL_TILE];
    /* Large results: a line that is written far from the one before would be read before. */
    const bool lines = kl_nontemporal(j->l->out, KL_LINE) && column % KL_LINE == 0;
    for (int64_t row = first; row < last; row += high) {
        const int64_t rows = kl_min64(high, last - row);
        for (int64_t r = 0; r < rows; r++)
            gather_row((int)wide, patch + r * n * wide,
                       (const char *)source->data + (row + r) * step, offsets, item, n);
        char *to = out + row * wide;
        if (!lines || rows < high) {
            kl_cpu_transpose((int)wide, to, column, patch, n * wide, rows, n);
            continue;
        }
        kl_cpu_transpose((int)wide, turned, KL_LINE, patch, n * wide, rows, n);
        for (int64_t i = 0; i < n; i++) kl_nontemporal_line(to + i * column, turned + i * KL_LINE);
    }
    if (lines) kl_nontemporal_end();
    for (int64_t i = 0; ok && i < n; i++)
        if (!ok[i]) memset(out + i * column + first * wide, 0, (size_t)((last - first) * wide));
}

/* Copies single elements, the usual case, without a function call for each element. */
static void copy_elements(const struct job *j, int64_t position, int64_t n, const int64_t *offsets,
                          const bool *ok) {
    const struct kl_arg *source = &j->l->in[0];
    int item = (int)kl_dtype_size(source->dtype);
    const char *src = source->data;
    char *dst = (char *)j->l->out->data + position * item;
    static const char zeros[8];
#define COPY(BYTES)                                                                       \
    do {                                                                                  \
        if (ok)                                                                           \
            for (int64_t i = 0; i < n; i++)                                               \
                memcpy(dst + i * BYTES, ok[i] ? src + offsets[i] * BYTES : zeros, BYTES); \
        else                                                                              \
            for (int64_t i = 0; i < n; i++)                                               \
                memcpy(dst + i * BYTES, src + offsets[i] * BYTES, BYTES);                 \
    } while (0)
    switch (item) {
    case 1: COPY(1); break;
    case 2: COPY(2); break;
    case 4: COPY(4); break;
    default: COPY(8); break;
    }
#undef COPY
}

static void report(struct job *j, int64_t position, int64_t n, const bool *ok) {
    if (!j->l->checked) return;
    for (int64_t i = 0; i < n; i++)
        if (!ok[i]) {
            note_fault(j, position + i);
            return;
        }
}

static void gather_chunk(void *arg, int64_t task) {
    struct job *j = arg;
    const struct kl_gather_params *p = j->l->params;
    int64_t begin = j->l->pos_begin + task / j->parts * j->chunk,
            end = kl_min64(begin + j->chunk, j->l->pos_end);
    int64_t offsets[KL_TILE];
    bool ok[KL_TILE];
    for (int64_t at = begin; at < end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - at);
        memset(offsets, 0, (size_t)n * sizeof *offsets);
        bool all = true;
        for (int k = 0; k < p->n_axes; k++)
            all = add_index(j, 1 + k, p->v[k], p->v[p->n_axes + p->v[k]], at, n, offsets, ok, all);
        if (j->slice == 1)
            copy_elements(j, at, n, offsets, all ? NULL : ok);
        else if (j->wide)
            copy_columns(j, at, n, task % j->parts, offsets, all ? NULL : ok);
        else if (j->slice > 1) /* otherwise indices are checked, but no element is copied */
            copy_slices(j, at, n, task % j->parts, offsets, all ? NULL : ok);
        if (!all) report(j, at, n, ok);
    }
}

/* The bytes of an element where slices are copied as columns, else 0. */
static int64_t column_element(const struct job *j) {
    const int64_t item = (int64_t)kl_dtype_size(j->l->in[0].dtype);
    if (j->slice == 0 || j->dense) return 0;
    if (j->n_dims == 1) return item;
    const int64_t run = j->dims[1] * item;
    bool near = j->n_dims == 2 && j->slice_strides[1] == 1;
    return near && (run == 2 || run == 4 || run == 8) ? run : 0;
}

int kl_cpu_gather(struct kl_launch *l) {
    const struct kl_gather_params *p = l->params;
    struct job j = {.l = l, .slice = 1, .dense = true};
    atomic_init(&j.fault, KL_NO_FAULT);
    l->fault = KL_NO_FAULT;
    if (l->out->size == 0 && !l->checked) return KL_OK;
    int64_t step = 1;
    for (int i = p->ndim - 1; i >= 0; i--) {
        int extent = p->v[p->n_axes + i];
        j.slice *= extent;
        if (extent > 1 && l->in[0].strides[i] != step) j.dense = false;
        step *= extent;
    }
    for (int i = 0; i < p->ndim; i++) {
        int extent = p->v[p->n_axes + i];
        if (extent == 1 || j.n_dims == KL_LONG_AXES) continue;
        j.dims[j.n_dims] = extent;
        j.slice_strides[j.n_dims++] = l->in[0].strides[i];
    }
    kl_strides_row_major(j.n_dims, j.dims, j.row_strides);
    const int64_t cost = j.slice ? j.slice : 1, n = l->pos_end - l->pos_begin;
    j.chunk = kl_ceil_div(KL_CHUNK, cost);
    j.lines = j.dense || !j.slice ? cost : j.dims[0];
    j.part = kl_ceil_div(KL_CHUNK, cost / j.lines);
    j.wide = column_element(&j);
    if (j.wide) { /* a task has a few rows of the source, and of these all that it can */
        j.part = kl_min64(COLUMN_PART, cost);
        j.chunk = kl_ceil_div(KL_CHUNK, j.part);
    }
    j.parts = kl_ceil_div(j.lines, j.part);
    struct kl_launch alone = {.parallel = n * cost >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_run_tasks(&alone, kl_ceil_div(n, j.chunk) * j.parts, gather_chunk, &j);
    l->fault = atomic_load(&j.fault);
    return KL_OK;
}

/* ---- GATHER_AXIS ---- */
static void gather_axis_chunk(void *arg, int64_t task) {
    struct job *j = arg;
    int axis = ((const struct kl_axis_params *)j->l->params)->axis;
    int64_t begin = j->l->pos_begin + task * j->chunk,
            end = kl_min64(begin + j->chunk, j->l->pos_end);
    int64_t offsets[KL_TILE];
    bool ok[KL_TILE];
    for (int64_t at = begin; at < end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - at);
        kl_offsets(j->n_pos_dims, j->pos_dims, j->pos_strides, at, n, offsets);
        bool all = add_index(j, 1, axis, 1, at, n, offsets, ok, true);
        copy_elements(j, at, n, offsets, all ? NULL : ok);
        if (!all) report(j, at, n, ok);
    }
}

int kl_cpu_gather_axis(struct kl_launch *l) {
    int axis = ((const struct kl_axis_params *)l->params)->axis;
    struct job j = {.l = l, .chunk = KL_CHUNK};
    atomic_init(&j.fault, KL_NO_FAULT);
    l->fault = KL_NO_FAULT;
    if (l->out->size == 0) return KL_OK;
    for (int i = 0; i < l->out->ndim; i++) {
        if (l->out->dims[i] == 1 || j.n_pos_dims == KL_LONG_AXES) continue;
        j.pos_dims[j.n_pos_dims] = l->out->dims[i];
        j.pos_strides[j.n_pos_dims++] = i == axis ? 0 : l->in[0].strides[i];
    }
    struct kl_launch alone = {
        .parallel = l->pos_end - l->pos_begin >= KL_PARALLEL_FROM ? l->parallel : NULL};
    kl_run_tasks(&alone, kl_ceil_div(l->pos_end - l->pos_begin, KL_CHUNK), gather_axis_chunk, &j);
    l->fault = atomic_load(&j.fault);
    return KL_OK;
}
