/* partition.c - PARTITION and ARGPARTITION: the kth element in order at its place, smaller ones
 * before it, larger ones after it. TOPK: the k largest, ascending. Along one axis, by the keys of
 * sorting, so NaN are the largest. A partition finds the kth key (select.h); then elements below,
 * equal to and above it go to their three places, in the order of the input. TOPK of many elements
 * of short rows sorts those from the smallest of them on, which it finds in the same way. Else it
 * keeps a list of up to 2 k candidates and sorts it when it is full; tiles whose elements are
 * all below the kth largest so far are passed over. Of equal elements the last ones count, as at
 * the end of a sorted row. Threads share rows; a few long rows are cut into segments. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/sort/select.h"
#include "backend/cpu/math/order.h"
#include "base/alloc.h"
#include "base/number/half.h"
#include "base/op/op_params.h"

enum {
    SEGMENT = 1 << 16,
    INSERTED = 64,
#ifdef __AVX2__
    LOOKS_THROUGH = 1,
#else /* with narrow vectors, finding a bound takes as much time as it saves */
    LOOKS_THROUGH = 0,
#endif
    /* The number of tiles whose largest elements are found before the elements are read again: half
     * a megabyte of float32. */
    TILES = 256,
    /* Bytes of prefetching, one page: without it, the top 40 of rows of 128 K take half as long
     * again. */
    AHEAD = 4096
};

struct job {
    const struct kl_launch *l;
    int axis;
    enum kl_dtype type;
    int64_t kth, length, rows, group;
    int64_t segments;          /* of each row; for TOPK only */
    int dims[KL_LONG_AXES], n; /* the axes other than the sorted one */
    int64_t in_strides[KL_LONG_AXES], out_strides[KL_LONG_AXES];
    struct kl_long_key *best; /* [rows][segments][kth], when segments > 1 */
    int64_t *n_best;          /* [rows][segments] */
    atomic_bool no_memory;
};

/* Where a row is in memory. */
struct row {
    const char *src;
    char *dst;
    int64_t in_step, out_step; /* strides of the axis, in bytes */
    struct kl_cursor in;
};

static struct row row_of(const struct job *j, int64_t i) {
    const struct kl_arg *in = j->l->in, *out = j->l->out;
    int item = (int)kl_dtype_size(in->dtype), out_item = (int)kl_dtype_size(out->dtype);
    int64_t in_offset, out_offset;
    struct row r;
    kl_offsets(j->n, j->dims, j->in_strides, i, 1, &in_offset);
    kl_offsets(j->n, j->dims, j->out_strides, i, 1, &out_offset);
    r.src = (const char *)in->data + in_offset * item;
    r.dst = (char *)out->data + out_offset * out_item;
    r.in_step = in->strides[j->axis] * item;
    r.out_step = out->strides[j->axis] * out_item;
    kl_cursor_init(&r.in, (void *)r.src, item, 1, &in->dims[j->axis], &in->strides[j->axis]);
    return r;
}

/* Copies element `from` of the input, or its position (ARGPARTITION), to element `to` of the
 * output. */
static void put(const struct job *j, const struct row *r, int64_t to, int64_t from) {
    uint32_t place = (uint32_t)from;
    if (j->l->op == KL_OP_ARGPARTITION)
        memcpy(r->dst + to * r->out_step, &place, sizeof place);
    else
        memcpy(r->dst + to * r->out_step, r->src + from * r->in_step,
               kl_dtype_size(j->l->in->dtype));
}

/* ---- by selection ---- */
/* The keys of a row, and room for two more times as many; then what is found. */
struct keyed_row {
    struct row r;
    int key_bytes;
    char *keys, *room;
};

static char *keys_new(struct job *j, struct keyed_row *row, int64_t found_bytes) {
    row->key_bytes = kl_sort_key_bytes(j->type);
    const int64_t bytes = kl_round_up(j->length * row->key_bytes, 64);
    row->keys = kl_malloc((size_t)(3 * bytes + found_bytes));
    if (!row->keys) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return NULL;
    }
    row->room = row->keys + bytes;
    return row->keys + 3 * bytes;
}

static void get_keys(const struct job *j, struct keyed_row *row) {
    union kl_tile raw;
    kl_cursor_seek(&row->r.in, 0);
    for (int64_t at = 0; at < j->length; at += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, j->length - at);
        kl_sort_keys_narrow(j->type, kl_cursor_next(&row->r.in, n, &raw), n,
                            row->keys + at * row->key_bytes);
    }
}

/* ---- partition ---- */
static void partition_row(const struct job *j, int64_t i, struct keyed_row *row) {
    const bool places = j->l->op == KL_OP_ARGPARTITION;
    const int item = (int)kl_dtype_size(j->l->in->dtype);
    union kl_tile raw;
    row->r = row_of(j, i);
    get_keys(j, row);
    struct kl_select_split s = {.bytes = row->key_bytes,
                                .item = places ? 4 : item,
                                .dst = row->r.dst,
                                .step = row->r.out_step};
    s.middle = kl_select(row->key_bytes, row->keys, row->room, j->length, j->kth);
    int64_t below = 0, like = 0;
    kl_select_count(row->key_bytes, row->keys, j->length, s.middle, &below, &like);
    s.to[1] = below;
    s.to[2] = below + like;
    kl_cursor_seek(&row->r.in, 0);
    for (int64_t at = 0; at < j->length; at += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, j->length - at);
        const void *x = places ? NULL : kl_cursor_next(&row->r.in, n, &raw);
        kl_select_move(&s, row->keys + at * row->key_bytes, n, x, at);
    }
}

static void partition_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    struct keyed_row row;
    if (!keys_new(j, &row, 0)) return;
    for (int64_t k = i * j->group; k < end; k++) partition_row(j, k, &row);
    kl_free(row.keys);
}

/* ---- the k largest of short rows: by the smallest of them ---- */
/* Whether one of n keys, found in a row of floats, is that of zeros or NaN. */
static bool has_special(const struct job *j, int64_t n, const void *found) {
    const uint16_t *f16 = found;
    const uint32_t *f32 = found;
    const uint64_t *f64 = found;
    const double zeros = 0;
    uint64_t zero;
    int special = 0;
    kl_sort_keys(j->type, &zeros, 1, &zero);
    switch (j->type) {
    case KL_F16:
    case KL_BF16: KL_EACH(m, n) special |= (f16[m] == zero) | (f16[m] == UINT16_MAX); break;
    case KL_F32: KL_EACH(m, n) special |= (f32[m] == zero) | (f32[m] == UINT32_MAX); break;
    case KL_F64: KL_EACH(m, n) special |= (f64[m] == zero) | (f64[m] == UINT64_MAX); break;
    default: break;
    }
    return special;
}

/* Sorts the keys alone and makes values from them. Returns false where that would change zeros or
 * NaN, of which different ones have the same key, and for complex numbers. */
static bool top_by_keys(const struct job *j, struct keyed_row *row, uint64_t least, int64_t above,
                        char *found) {
    static const struct kl_launch alone;
    const int64_t k = j->kth, item = (int64_t)kl_dtype_size(j->type), bytes = row->key_bytes;
    const enum kl_sort_kind kind = bytes == 8   ? KL_SORT_U64
                                   : bytes == 4 ? KL_SORT_U32
                                                : KL_SORT_U16;
    if (j->type == KL_C64) return false;
    kl_select_keys(row->key_bytes, row->keys, j->length, least, found);
    for (int64_t m = above; m < k; m++)
        if (bytes == 8)
            ((uint64_t *)(void *)found)[m] = least;
        else if (bytes == 4)
            ((uint32_t *)(void *)found)[m] = (uint32_t)least;
        else
            ((uint16_t *)(void *)found)[m] = (uint16_t)least;
    if (has_special(j, k, found)) return false;
    char *room = found + kl_round_up((k + 1) * bytes, 8);
    const char *sorted =
        kl_sort_by_key(kind, found, room, room + kl_round_up(k * bytes, 8), k, &alone);
    union kl_tile values;
    for (int64_t at = 0; at < k; at += KL_TILE) {
        const int64_t n = kl_min64(KL_TILE, k - at);
        kl_sort_values(j->type, sorted + at * bytes, n, values.bytes);
        kl_copy_run((int)item, n, row->r.dst + at * row->r.out_step, row->r.out_step, values.bytes,
                    item);
    }
    return true;
}

static void top_row(const struct job *j, int64_t i, struct keyed_row *row, char *found) {
    static const struct kl_launch alone;
    const bool wide = row->key_bytes == 8;
    const int64_t k = j->kth, bytes = wide ? (int64_t)sizeof(struct kl_long_key) : 8;
    char *room = found + (k + 1) * bytes;
    row->r = row_of(j, i);
    get_keys(j, row);
    const uint64_t least =
        kl_select(row->key_bytes, row->keys, row->room, j->length, j->length - k);
    int64_t below = 0, like = 0;
    kl_select_count(row->key_bytes, row->keys, j->length, least, &below, &like);
    if (top_by_keys(j, row, least, j->length - below - like, found)) return;
    kl_select_above(row->key_bytes, row->keys, j->length, least, j->length - k - below, found);
    const void *sorted = kl_sort_by_key(wide ? KL_SORT_LONG : KL_SORT_PLACED, found, room,
                                        room + k * bytes, k, &alone);
    const struct kl_long_key *longs = sorted;
    const uint64_t *placed = sorted;
    for (int64_t m = 0; m < k; m++)
        put(j, &row->r, m, (int64_t)(wide ? longs[m].place : (uint32_t)placed[m]));
}

static void top_selected(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    struct keyed_row row;
    char *found = keys_new(j, &row,
                           (2 * j->kth + 1) * (int64_t)sizeof(struct kl_long_key) +
                               (int64_t)kl_sort_tables(j->kth));
    if (!found) return;
    for (int64_t k = i * j->group; k < end; k++) top_row(j, k, &row, found);
    kl_free(row.keys);
}

/* ---- the k largest ---- */
/* The largest elements so far, and other candidates. Once the list has been full, list[0 .. k-1]
 * are the k largest of all elements before. A list of at most INSERTED elements is always sorted
 * and has no other candidates, so that its smallest element is as large as possible. */
struct list {
    struct kl_long_key *items, *room; /* room for `most` elements */
    void *tables;                     /* memory for sorting the items */
    int64_t n, k, most;
    bool full;
    uint64_t least; /* once the list has been full: the key of the smallest of the k largest */
};

static void prune(struct list *list) {
    static const struct kl_launch alone;
    struct kl_long_key *sorted =
        kl_sort_by_key(KL_SORT_LONG, list->items, list->room, list->tables, list->n, &alone);
    if (sorted == list->room) {
        list->room = list->items;
        list->items = sorted;
    }
    if (list->n <= list->k) return;
    memmove(list->items, sorted + list->n - list->k, (size_t)list->k * sizeof *sorted);
    list->n = list->k;
}

static void add(struct list *list, struct kl_long_key item) {
    if (list->full && list->k <= INSERTED) { /* the new element replaces the smallest */
        int64_t to = 0;
        for (; to + 1 < list->k && list->items[to + 1].key <= item.key; to++)
            list->items[to] = list->items[to + 1];
        list->items[to] = item;
        list->least = list->items[0].key;
        return;
    }
    list->items[list->n++] = item;
    if (list->n < list->most) return;
    prune(list);
    list->full = list->n == list->k;
    list->least = list->items[0].key;
}

/* The key of the largest element of a tile of float32. As integers, the bits of positive numbers
 * are ordered and are above those of all negative ones. */
static uint32_t top_of(const float *x) {
    int32_t top = INT32_MIN, magnitude = 0;
    KL_EACH(i, KL_TILE) {
        int32_t bits = (int32_t)kl_f32_bits(x[i]), m = bits & INT32_MAX;
        top = bits > top ? bits : top;
        magnitude = m > magnitude ? m : magnitude;
    }
    if (magnitude > (int32_t)kl_infinity(KL_F32)) return UINT32_MAX;
    if (top >= 0) return kl_key_f32(kl_bits_f32((uint32_t)top));
    KL_EACH(i, KL_TILE) {
        int32_t m = (int32_t)(kl_f32_bits(x[i]) & INT32_MAX);
        magnitude = m < magnitude ? m : magnitude;
    }
    return kl_key_f32(-kl_bits_f32((uint32_t)magnitude));
}

/* A lower bound for the k largest of n contiguous float32: finds the key of the largest element of
 * each whole tile, and returns the kth largest of these keys, or 0 where there are fewer than k
 * tiles. At least k elements reach the bound, and not many more. So other elements need not be
 * examined again, and nearly all elements that enter the list stay there. The tiles with such
 * elements are read again from the L2 cache. */
static uint64_t bound_of(const float *x, int64_t n, int64_t k, uint32_t keys[TILES]) {
    uint32_t bound = 0;
    memset(keys, 0, TILES * sizeof *keys);
    for (int64_t t = 0; t < n / KL_TILE; t++) {
        kl_prefetch((const char *)(x + t * KL_TILE) + AHEAD, KL_TILE * (int64_t)sizeof *x);
        keys[t] = top_of(x + t * KL_TILE);
    }
    for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
        int32_t reach = 0;
        KL_EACH(t, TILES) reach += keys[t] >= (bound | bit);
        if (reach >= k) bound |= bit;
    }
    /* The last tile is partial, so its largest element is not known. */
    if (n % KL_TILE) keys[n / KL_TILE] = UINT32_MAX;
    return bound;
}

/* Adds elements [from, from + count) of a row to the list. Then the list has their k largest
 * elements, or all where there are fewer, sorted. */
static void largest_of(const struct job *j, struct row *r, int64_t from, int64_t count,
                       struct list *list) {
    const struct kl_arg *in = j->l->in;
    int64_t bytes = (int64_t)kl_dtype_size(j->type);
    uint64_t keys[KL_TILE], of_value = 0;
    _Alignas(8) char value[8] = {0};
    int64_t item = (int64_t)kl_dtype_size(in->dtype);
    bool contiguous = r->in_step == item;
    /* For contiguous float32 a bound is found first, if there are enough tiles. */
    bool bounded =
        LOOKS_THROUGH && contiguous && in->dtype == KL_F32 && 4 * list->k <= 3 * count / KL_TILE;
    uint16_t which[KL_TILE];
    uint32_t tops[TILES];
    uint64_t bound = 0;
    union kl_tile raw;
    list->n = 0;
    list->full = false;
    kl_cursor_seek(&r->in, from);
    for (int64_t at = 0; at < count; at += KL_TILE) {
        int64_t n = kl_min64(KL_TILE, count - at), in_part = at / KL_TILE % TILES;
        const char *src = r->src + (from + at) * item;
        if (bounded && in_part == 0)
            bound = bound_of((const float *)(const void *)src,
                             kl_min64(TILES * KL_TILE, count - at), list->k, tops);
        uint64_t limit = list->full && list->least > bound ? list->least : bound;
        if (bounded && tops[in_part] < limit) continue;
        if (contiguous && !bounded) kl_prefetch(src + AHEAD, n * item);
        const char *x = bounded ? src : kl_cursor_next(&r->in, n, &raw);
        if (limit == 0) {
            kl_sort_keys(j->type, x, n, keys);
            for (int64_t i = 0; i < n; i++)
                if (!list->full || keys[i] >= list->least)
                    add(list, (struct kl_long_key){keys[i], (uint64_t)(from + at + i)});
            continue;
        }
        if (limit != of_value) { /* any value whose key this is */
            uint32_t key = (uint32_t)limit;
            of_value = limit;
            if (limit == bound)
                kl_sort_values(KL_F32, &key, 1, value);
            else
                memcpy(value, r->src + (int64_t)list->items[0].place * r->in_step, (size_t)item);
        }
        int64_t found = kl_sort_reaching(j->type, x, n, value, which);
        for (int64_t f = 0; f < found; f++) {
            uint64_t key;
            kl_sort_keys(j->type, x + which[f] * bytes, 1, &key);
            if (key >= limit && (!list->full || key >= list->least))
                add(list, (struct kl_long_key){key, (uint64_t)(from + at + which[f])});
        }
    }
    if (!list->full || list->k > INSERTED) prune(list);
}

static struct list list_new(struct job *j, int64_t count) {
    enum { MORE = 128 };
    struct list list = {.k = j->kth};
    list.most = list.k <= INSERTED ? kl_min64(list.k, count) : kl_min64(2 * list.k, count) + MORE;
    list.items = kl_malloc(2 * (size_t)list.most * sizeof *list.items + kl_sort_tables(list.most));
    if (!list.items) {
        atomic_store_explicit(&j->no_memory, true, memory_order_relaxed);
        return list;
    }
    list.room = list.items + list.most;
    list.tables = list.room + list.most;
    return list;
}

static void put_largest(const struct job *j, const struct row *r, const struct kl_long_key *items) {
    for (int64_t i = 0; i < j->kth; i++) put(j, r, i, (int64_t)items[i].place);
}

static void top_chunk(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t end = kl_min64((i + 1) * j->group, j->rows);
    struct list list = list_new(j, j->length);
    struct kl_long_key *memory = list.items;
    if (!memory) return;
    for (int64_t row = i * j->group; row < end; row++) {
        struct row r = row_of(j, row);
        largest_of(j, &r, 0, j->length, &list);
        put_largest(j, &r, list.items);
    }
    kl_free(memory);
}

static void top_segment(void *arg, int64_t i) {
    struct job *j = arg;
    int64_t from = i % j->segments * SEGMENT, count = kl_min64(SEGMENT, j->length - from);
    struct list list = list_new(j, count);
    struct kl_long_key *memory = list.items;
    if (!memory) return;
    struct row r = row_of(j, i / j->segments);
    largest_of(j, &r, from, count, &list);
    memcpy(j->best + i * j->kth, list.items, (size_t)list.n * sizeof *list.items);
    j->n_best[i] = list.n;
    kl_free(memory);
}

/* With few long rows: finds the largest elements of each segment, then the largest of those. */
static int top_long(struct job *j, const struct kl_launch *launch) {
    static const struct kl_launch alone;
    int64_t parts = j->rows * j->segments, most = j->segments * j->kth;
    j->best = kl_malloc((size_t)(parts * j->kth) * sizeof *j->best);
    j->n_best = kl_malloc((size_t)parts * sizeof *j->n_best);
    struct kl_long_key *all = kl_malloc(2 * (size_t)most * sizeof *all + kl_sort_tables(most));
    bool failed = !j->best || !j->n_best || !all;
    if (!failed) kl_run_tasks(launch, parts, top_segment, j);
    failed = failed || atomic_load(&j->no_memory);
    for (int64_t row = 0; row < j->rows && !failed; row++) {
        int64_t n = 0;
        for (int64_t s = row * j->segments; s < (row + 1) * j->segments; s++) {
            memcpy(all + n, j->best + s * j->kth, (size_t)j->n_best[s] * sizeof *all);
            n += j->n_best[s];
        }
        struct kl_long_key *sorted =
            kl_sort_by_key(KL_SORT_LONG, all, all + most, all + 2 * most, n, &alone);
        struct row r = row_of(j, row);
        put_largest(j, &r, sorted + n - j->kth);
    }
    kl_free(all);
    kl_free(j->n_best);
    kl_free(j->best);
    return failed ? kl_fail_nomem(j->l->err) : KL_OK;
}

int kl_cpu_partition(struct kl_launch *l) {
    enum { FEW = 8 };
    const struct kl_partition_params *p = l->params;
    const struct kl_arg *in = l->in;
    struct job j = {.l = l, .axis = p->axis, .kth = p->kth};
    if (l->out->size == 0) return KL_OK;
    j.type = in->dtype;
    j.length = in->dims[j.axis];
    j.rows = in->size / j.length;
    for (int i = 0; i < in->ndim; i++) {
        if (i == j.axis || in->dims[i] == 1 || j.n == KL_LONG_AXES) continue;
        j.dims[j.n] = in->dims[i];
        j.in_strides[j.n] = in->strides[i];
        j.out_strides[j.n++] = l->out->strides[i];
    }
    j.group = kl_ceil_div(KL_CHUNK / 8, j.length);
    struct kl_launch alone = {.parallel = in->size >= KL_CHUNK ? l->parallel : NULL};
    if (l->op == KL_OP_TOPK) {
        j.segments = kl_ceil_div(j.length, SEGMENT);
        bool cut = alone.parallel && j.rows < FEW && j.segments > 1 && j.kth <= SEGMENT / 16;
        if (cut) return top_long(&j, &alone);
    }
    const bool selects = j.kth > INSERTED && j.length <= SEGMENT;
    kl_run_tasks(&alone, kl_ceil_div(j.rows, j.group),
                 l->op != KL_OP_TOPK ? partition_chunk
                 : selects           ? top_selected
                                     : top_chunk,
                 &j);
    return atomic_load(&j.no_memory) ? kl_fail_nomem(l->err) : KL_OK;
}
