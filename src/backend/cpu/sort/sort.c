/* sort.c - SORT and ARGSORT along one axis: ascending, stable, NaN last; by keys (keys.h). SORT
 * sorts the keys alone and makes values from them. Zeros and NaN, of which different ones have the
 * same key, are then stored in the order of the input. ARGSORT, and SORT of complex numbers, sort
 * keys together with their places. Threads share rows; a few long rows are cut into runs. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/math/order.h"
#include "backend/cpu/sort/keys.h"
#include "backend/cpu/operand/scratch.h"
#include "base/number/half.h"
#include "base/op/op_params.h"

struct job {
    const struct kl_launch *l;
    int axis;
    enum kl_dtype type;
    int64_t length, rows, group;
    enum kl_sort_kind kind;
    bool alone;                /* keys are sorted without their places */
    bool dense;                /* and rows are contiguous and short, so that no cursor is needed */
    size_t bytes;              /* the size of an element that is sorted */
    int dims[KL_LONG_AXES], n; /* the axes other than the sorted one */
    int64_t in_strides[KL_LONG_AXES], out_strides[KL_LONG_AXES];
    struct kl_launch within; /* the launch for the work inside one row; it is parallel, or not */
    atomic_bool no_memory;
};

/* One row: where it begins, and its keys before and after sorting. */
struct row {
    const struct job *j;
    char *in, *out;
    char *keys;
    const void *sorted;
    atomic_bool special; /* the row has a -0.0 or a NaN */
};

/* Cursors are large, so to fill and to copy them takes as long as to sort some elements. */
static void read_row(const struct row *r, struct kl_cursor *c) {
    const struct kl_arg *in = r->j->l->in;
    kl_cursor_init(c, r->in, (int)kl_dtype_size(in->dtype), 1, &in->dims[r->j->axis],
                   &in->strides[r->j->axis]);
}
static void write_row(const struct row *r, struct kl_cursor *c) {
    const struct kl_arg *out = r->j->l->out;
    kl_cursor_init(c, r->out, (int)kl_dtype_size(out->dtype), 1, &out->dims[r->j->axis],
                   &out->strides[r->j->axis]);
}

/* Whether a -0.0 or a NaN is among n elements. */
static bool has_special(enum kl_dtype type, const void *x, int64_t n) {
    int special = 0;
    if (type == KL_F32) {
        const float *v = x;
        KL_EACH(k, n) special |= (v[k] != v[k]) | (kl_f32_bits(v[k]) == UINT32_C(1) << 31);
    } else if (type == KL_F64) {
        const double *v = x;
        KL_EACH(k, n) special |= (v[k] != v[k]) | (kl_f64_bits(v[k]) == UINT64_C(1) << 63);
    } else if (kl_compute_dtype(type) != type) {
        const uint16_t *v = x, nan = (uint16_t)kl_infinity(type);
        KL_EACH(k, n) special |= ((v[k] & 0x7fff) > nan) | (v[k] == 0x8000);
    }
    return special;
}

/* Makes the keys of elements [i * KL_CHUNK, (i + 1) * KL_CHUNK) of a row. */
static void get_keys(void *arg, int64_t i) {
    struct row *r = arg;
    const struct job *j = r->j;
    int64_t end = kl_min64((i + 1) * KL_CHUNK, j->length);
    struct kl_cursor c;
    uint64_t key[KL_TILE];
    union kl_tile raw;
    int special = 0;
    read_row(r, &c);
    kl_cursor_seek(&c, i * KL_CHUNK);
    for (int64_t at = i * KL_CHUNK; at < end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - at);
        const void *x = kl_cursor_next(&c, n, &raw);
        if (!j->alone) kl_sort_keys(j->type, x, n, key);
        if (j->alone) {
            kl_sort_keys_narrow(j->type, x, n, r->keys + at * (int64_t)j->bytes);
        } else if (j->kind == KL_SORT_PLACED) {
            uint64_t *to = (uint64_t *)r->keys + at;
            KL_EACH(k, n) to[k] = key[k] << 32 | (uint64_t)(at + k);
        } else {
            struct kl_long_key *to = (struct kl_long_key *)r->keys + at;
            for (int64_t k = 0; k < n; k++)
                to[k] = (struct kl_long_key){key[k], (uint64_t)(at + k)};
        }
        special |= has_special(j->type, x, n);
    }
    if (special) atomic_store_explicit(&r->special, true, memory_order_relaxed);
}

static uint64_t key_at(const struct job *j, const void *sorted, int64_t i) {
    return j->bytes == 2   ? ((const uint16_t *)sorted)[i]
           : j->bytes == 4 ? ((const uint32_t *)sorted)[i]
                           : ((const uint64_t *)sorted)[i];
}

static int64_t first_of(const struct job *j, const void *sorted, uint64_t key) {
    int64_t low = 0, high = j->length;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (key_at(j, sorted, mid) < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Stores zeros and NaN with the bits, and in the order, of the input. */
static void put_special(const struct job *j, struct row *r, const void *sorted) {
    const struct kl_arg *in = j->l->in;
    int item = (int)kl_dtype_size(in->dtype);
    uint64_t key[KL_TILE], zero, nan;
    double zeros = 0;
    union kl_tile raw;
    struct kl_cursor from, to;
    read_row(r, &from);
    write_row(r, &to);
    kl_sort_keys(j->type, &zeros, 1, &zero);
    nan = UINT64_MAX >> (64 - 8 * j->bytes);
    int64_t at_zero = first_of(j, sorted, zero), at_nan = first_of(j, sorted, nan);
    kl_cursor_seek(&from, 0);
    for (int64_t at = 0; at < j->length; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, j->length - at);
        const char *x = kl_cursor_next(&from, n, &raw);
        kl_sort_keys(j->type, x, n, key);
        for (int64_t i = 0; i < n; i++) {
            if (key[i] != zero && key[i] != nan) continue;
            kl_cursor_seek(&to, key[i] == zero ? at_zero++ : at_nan++);
            kl_cursor_write(&to, 1, x + i * item);
        }
    }
}

/* Stores the values of the sorted keys in elements [i * KL_CHUNK, (i + 1) * KL_CHUNK) of the
 * output. */
static void put_values(void *arg, int64_t i) {
    struct row *r = arg;
    const struct job *j = r->j;
    int64_t end = kl_min64((i + 1) * KL_CHUNK, j->length);
    struct kl_cursor c;
    union kl_tile values;
    write_row(r, &c);
    kl_cursor_seek(&c, i * KL_CHUNK);
    for (int64_t at = i * KL_CHUNK; at < end; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, end - at);
        void *to = kl_cursor_claim(&c, n);
        kl_sort_values(j->type, (const char *)r->sorted + at * (int64_t)j->bytes, n,
                       to ? to : values.bytes);
        if (!to) kl_cursor_write(&c, n, values.bytes);
    }
}

static void put_places(void *arg, int64_t i) {
    struct row *r = arg;
    const struct job *j = r->j;
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int64_t end = kl_min64((i + 1) * KL_CHUNK, j->length);
    size_t item = kl_dtype_size(in->dtype);
    int64_t in_step = in->strides[j->axis] * (int64_t)item,
            out_step = out->strides[j->axis] * (int64_t)kl_dtype_size(out->dtype);
    const uint64_t *placed = r->sorted;
    const struct kl_long_key *longs = r->sorted;
    for (int64_t k = i * KL_CHUNK; k < end; k++) {
        uint32_t place = (uint32_t)(j->kind == KL_SORT_LONG ? longs[k].place : placed[k]);
        if (j->l->op == KL_OP_ARGSORT)
            memcpy(r->out + k * out_step, &place, sizeof place);
        else
            memcpy(r->out + k * out_step, r->in + place * in_step, item);
    }
}

/* Fetches the row after this one, and the lines of this row's results, while keys are sorted: the
 * processor begins a row too late by itself. */
static void fetch_ahead(const struct row *r) {
    const int64_t bytes = r->j->length * (int64_t)kl_dtype_size(r->j->type);
    for (int64_t at = 0; at < bytes; at += KL_LINE) {
        /* As integers: the next row may lie beyond the array. */
        __builtin_prefetch((const void *)((uintptr_t)r->in + (size_t)(bytes + at)), 0, 2);
        __builtin_prefetch(r->out + at, 1);
    }
}

/* Sorts row `row`. keys and room are memory for its keys, tables the memory for sorting them. */
static void sort_row(struct job *j, int64_t row, char *keys, char *room, char *tables) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int item = (int)kl_dtype_size(in->dtype), out_item = (int)kl_dtype_size(out->dtype);
    int64_t in_offset, out_offset, chunks = kl_ceil_div(j->length, KL_CHUNK);
    struct row r = {.j = j, .keys = keys};
    kl_offsets(j->n, j->dims, j->in_strides, row, 1, &in_offset);
    kl_offsets(j->n, j->dims, j->out_strides, row, 1, &out_offset);
    r.in = (char *)in->data + in_offset * item;
    r.out = (char *)out->data + out_offset * out_item;
    if (j->dense) {
        kl_sort_keys_narrow(j->type, r.in, j->length, keys);
        atomic_init(&r.special, has_special(j->type, r.in, j->length));
        fetch_ahead(&r);
    } else {
        kl_run_tasks(&j->within, chunks, get_keys, &r);
    }
    r.sorted = kl_sort_by_key(j->kind, keys, room, tables, j->length, &j->within);
    if (j->alone) {
        if (j->dense)
            kl_sort_values(j->type, r.sorted, j->length, r.out);
        else
            kl_run_tasks(&j->within, chunks, put_values, &r);
        if (atomic_load(&r.special)) put_special(j, &r, r.sorted);
    } else {
        kl_run_tasks(&j->within, chunks, put_places, &r);
    }
}

static void sort_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    size_t keys = (size_t)kl_ceil_div(j->length * (int64_t)j->bytes, KL_LINE) * KL_LINE;
    struct kl_scratch room;
    if (!kl_scratch_take(&room, j->l, 2 * keys + kl_sort_tables(j->length))) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return;
    }
    for (int64_t row = i * j->group; row < end; row++)
        sort_row(j, row, room.ptr, room.ptr + keys, room.ptr + 2 * keys);
    kl_scratch_give(&room);
}

int kl_cpu_sort(struct kl_launch *l) {
    enum { FEW = 8, LONG = 1 << 16, DENSE = 1 << 14 /* bytes; more would not stay in a cache */ };
    struct job j = {.l = l, .axis = ((const struct kl_axis_params *)l->params)->axis};
    const struct kl_arg *in = l->in;
    if (in->size == 0) return KL_OK;
    j.type = in->dtype;
    j.length = in->dims[j.axis];
    j.rows = in->size / j.length;
    bool wide = kl_dtype_size(in->dtype) == 8;
    const int bytes = kl_sort_key_bytes(j.type);
    j.alone = l->op == KL_OP_SORT && in->dtype != KL_C64;
    if (j.alone)
        j.kind = wide ? KL_SORT_U64 : bytes == 4 ? KL_SORT_U32 : KL_SORT_U16;
    else
        j.kind = wide ? KL_SORT_LONG : KL_SORT_PLACED;
    j.dense = j.alone && in->strides[j.axis] == 1 && l->out->strides[j.axis] == 1 &&
              j.length * (int64_t)kl_dtype_size(j.type) <= DENSE;
    j.bytes = j.alone ? (size_t)bytes : wide ? sizeof(struct kl_long_key) : 8;
    for (int i = 0; i < in->ndim; i++) {
        if (i == j.axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.in_strides[j.n] = in->strides[i];
        j.out_strides[j.n++] = l->out->strides[i];
    }
    j.group = kl_ceil_div(KL_CHUNK / 8, j.length);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (j.rows < FEW && j.length >= LONG) {
        j.within.parallel = alone.parallel;
        alone.parallel = NULL;
    }
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group), sort_chunk, &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
