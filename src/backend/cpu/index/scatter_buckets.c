/* scatter_buckets.c - a scatter of many positions: they are partitioned by where they are written.
 * The output is cut into buckets that fit the L2 cache. Parts of the positions are moved to their
 * buckets, in which they keep their order, so the result is that of one position after another,
 * whatever the number of threads. Then each bucket is written by one thread. Slices that may
 * overlap (longer than 1 along an indexed axis) cannot be done so, because their order matters
 * beyond one place. docs/notes/cpu-kernels.md has the method and its cost. */
#include <string.h>

#include "backend/cpu/index/scatter.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"

enum {
    MAX_BUCKETS = 512,      /* with this number, the buffered entries of all buckets take 64 KB */
    MIN_BUCKETS = 192,      /* this number makes enough parts for the threads */
    BUCKET_BYTES = 1 << 18, /* bytes of the output in one bucket */
    MAX_PARTS = 64,
    PART = 1 << 15,         /* the fewest positions of a part */
    FEWEST = 1 << 15,       /* with fewer positions buckets save little */
    FEWEST_BYTES = 1 << 17, /* the fewest bytes that positions write */
    /* Bytes of the output from which on buckets are faster even on one thread. */
    ALONE = 1 << 22,
    BATCH = (1 << 28) - 1, /* the most bytes of entries in memory at a time */
    /* Bytes of each bucket that are buffered, to be written as whole cache lines. */
    HELD = 128,
    MARKS = 1 << 16, /* slices of a bucket for which there is a mark */
    CHUNK = 1024,    /* bytes of the entries in a chunk; a multiple of HELD */
    FETCHED = 4096,  /* bytes of updates that are prefetched */
    AHEAD = 8,       /* slices that are prefetched */
};

/* An entry has the place in its upper half. The lower half has the update, when elements have less
 * than 8 bytes, or for slices the position within the batch. */
typedef uint64_t entry;
/* Entries for elements of 8 bytes. */
struct wide_entry {
    uint64_t place, update;
};
#define PLACE(e) ((int64_t)((e) >> 32))

struct buckets {
    struct kl_launch *l;
    const struct kl_scatter_job *j;
    int64_t unit; /* all places are multiples of this number */
    bool whole;   /* a position writes `unit` contiguous elements */
    /* buckets start with the values of the base, which is laid out like the output */
    bool from_base;
    /* The bucket of a place is place >> shift; n is the number of buckets. One more bucket takes
     * the positions whose index is out of range. */
    int shift, n;
    int64_t begin, end, part; /* positions of the batch; positions of each part */
    int n_parts, entry_bytes;
    uint32_t in_chunk;        /* number of entries in a chunk */
    uint32_t part_chunks;     /* chunks of each part; the first n + 1 of them begin its buckets */
    uint32_t *ends;           /* [n_parts][n + 1]: where the next entry of a bucket goes */
    uint32_t *after, *before; /* the next and the previous chunk of the same bucket */
    int64_t *faults;          /* [n_parts]: the first position with a wrong index */
    char *entries;
};

/* Finds the places of the next n positions, and their buckets. */
static __attribute__((noinline)) void places_of(const struct buckets *b, struct kl_scatter_walk *w,
                                                int64_t n, uint32_t *places, uint32_t *of) {
    uint32_t none = (uint32_t)b->n, nowhere = UINT32_MAX;
    int shift = b->shift;
    kl_scatter_near_places(w, n, places);
    KL_EACH(i, n) of[i] = places[i] == nowhere ? none : places[i] >> shift;
}

/* Finds the second part of the entries of n positions from `at` on, which follows the place: their
 * updates, or their positions within the batch. */
static const uint32_t *update_bits(const struct buckets *b, struct kl_cursor *updates, int64_t at,
                                   int64_t n, union kl_tile *raw, uint32_t *values) {
    if (b->j->n) {
        uint32_t first = (uint32_t)(at - b->begin);
        KL_EACH(i, n) values[i] = first + (uint32_t)i;
        return values;
    }
    const void *x = kl_cursor_next(updates, n, raw);
    kl_prefetch((const char *)x + FETCHED, n * b->j->item);
    if (b->j->item == 4) return x;
    kl_convert(KL_U32, values, b->j->item == 2 ? KL_U16 : KL_U8, x, n);
    return values;
}
static const uint64_t *wide_whats(const struct buckets *b, struct kl_cursor *updates, int64_t at,
                                  int64_t n, union kl_tile *raw, uint64_t *values) {
    return kl_cursor_next(updates, n, raw);
}

/* Records the first of n positions from `at` on whose index is out of range. */
static void find_fault(struct buckets *b, int64_t part, int64_t at, int64_t n,
                       const uint32_t *places) {
    int bad = 0;
    KL_EACH(i, n) bad |= places[i] == UINT32_MAX;
    if (!bad || b->faults[part] != KL_NO_FAULT) return;
    int64_t i = 0;
    while (places[i] != UINT32_MAX) i++;
    b->faults[part] = at + i;
}

#define T entry
#define NAME entry
#define WHAT uint32_t
#define WHAT_OF update_bits
#define ENTRY(place, what) ((uint64_t)(place) << 32 | (what))
/* defines move_entry */
#include "backend/cpu/index/scatter_move.inc"
#define T struct wide_entry
#define NAME wide
#define WHAT uint64_t
#define WHAT_OF wide_whats
#define ENTRY(place, what) ((struct wide_entry){(place), (what)})
/* defines move_wide */
#include "backend/cpu/index/scatter_move.inc"

static void move_part(void *arg, int64_t part) {
    struct buckets *b = arg;
    if (b->entry_bytes == sizeof(entry))
        move_entry(b, part);
    else
        move_wide(b, part);
}

/* ---- writing buckets ---- */
static void put_elements(const struct buckets *b, const char *entries, int64_t n) {
    const struct kl_scatter_job *j = b->j;
    const entry *e = (const entry *)(const void *)entries;
    const struct wide_entry *wide = (const struct wide_entry *)(const void *)entries;
    char *out = b->l->out->data;
    void *typed = out;
    if (j->assigns && j->item == 1)
        for (int64_t i = 0; i < n; i++) ((uint8_t *)typed)[PLACE(e[i])] = (uint8_t)e[i];
    else if (j->assigns && j->item == 2)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)typed)[PLACE(e[i])] = (uint16_t)e[i];
    else if (j->assigns && j->item == 4)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)typed)[PLACE(e[i])] = (uint32_t)e[i];
    else if (j->assigns)
        for (int64_t i = 0; i < n; i++) ((uint64_t *)typed)[wide[i].place] = wide[i].update;
    else if (j->item == 1)
        for (int64_t i = 0; i < n; i++) {
            uint8_t v = (uint8_t)e[i];
            j->join(out + PLACE(e[i]), 0, (const char *)&v, 0, 1);
        }
    else if (j->item == 2)
        for (int64_t i = 0; i < n; i++) {
            uint16_t v = (uint16_t)e[i];
            j->join(out + PLACE(e[i]) * 2, 0, (const char *)&v, 0, 1);
        }
    else if (j->item == 4)
        for (int64_t i = 0; i < n; i++) {
            uint32_t v = (uint32_t)e[i];
            j->join(out + PLACE(e[i]) * 4, 0, (const char *)&v, 0, 1);
        }
    else
        for (int64_t i = 0; i < n; i++)
            j->join(out + (int64_t)wide[i].place * 8, 0, (const char *)&wide[i].update, 0, 1);
}

static const char *source_of(const struct buckets *b, entry e) {
    const struct kl_scatter_job *j = b->j;
    int64_t at = b->begin + (uint32_t)e, offset = 0;
    if (j->n_pos == 1)
        offset = at * j->src_strides[0];
    else
        kl_offsets(j->n_pos, j->pos_dims, j->src_strides, at, 1, &offset);
    return (const char *)b->l->in[1].data + offset * j->item;
}

static void fetch(const char *slice, int64_t bytes) {
    for (int64_t k = 0; k < bytes && k < 8 * KL_LINE; k += KL_LINE) __builtin_prefetch(slice + k);
}

static void put_slices(const struct buckets *b, const char *entries, int64_t n) {
    const struct kl_scatter_job *j = b->j;
    const entry *e = (const entry *)(const void *)entries;
    int64_t bytes = b->whole ? b->unit * j->item : 0;
    for (int64_t i = 0; i < n; i++) {
        if (b->whole && i + AHEAD < n) fetch(source_of(b, e[i + AHEAD]), bytes);
        kl_scatter_position(j, (char *)b->l->out->data + PLACE(e[i]) * j->item, source_of(b, e[i]));
    }
}

/* The entries of chunk c of bucket k of a part, and their number. */
static const char *chunk_of(const struct buckets *b, uint32_t c, uint32_t end, int64_t *n) {
    *n = c == end / b->in_chunk ? end % b->in_chunk : b->in_chunk;
    return b->entries + (int64_t)c * CHUNK;
}

/* Assigns slices, in a bucket of n elements that begins at place `first`. Only the last slice of
 * each place is read, and the base is read only where no slice is written. */
static void put_last(const struct buckets *b, int64_t bucket, int64_t first, int64_t n) {
    const struct kl_scatter_job *j = b->j;
    size_t bytes = (size_t)(b->unit * j->item);
    uint64_t marks[MARKS / 64];
    struct {
        char *dst;
        const char *src;
    } held[AHEAD];
    int64_t n_held = 0;
    char *out = b->l->out->data;
    const char *base = b->l->in[0].data;
    memset(marks, 0, (size_t)kl_ceil_div(n, 64) * sizeof *marks);
    for (int64_t part = b->n_parts - 1; part >= 0; part--) {
        uint32_t begin = (uint32_t)(part * b->part_chunks + bucket),
                 end = b->ends[part * (b->n + 1) + bucket];
        for (uint32_t c = end / b->in_chunk;; c = b->before[c]) {
            int64_t i;
            const entry *e = (const entry *)(const void *)chunk_of(b, c, end, &i);
            while (i-- > 0) {
                int64_t slice = (PLACE(e[i]) - first) / b->unit;
                if (marks[slice / 64] >> slice % 64 & 1) continue;
                marks[slice / 64] |= UINT64_C(1) << slice % 64;
                int64_t k = n_held++ % AHEAD;
                if (n_held > AHEAD) memcpy(held[k].dst, held[k].src, bytes);
                held[k].dst = out + PLACE(e[i]) * j->item;
                held[k].src = source_of(b, e[i]);
                fetch(held[k].src, (int64_t)bytes);
            }
            if (c == begin) break;
        }
    }
    for (int64_t k = 0; k < n_held && k < AHEAD; k++) memcpy(held[k].dst, held[k].src, bytes);
    if (!b->from_base) return;
    for (int64_t slice = 0; slice < n; slice++) {
        int64_t at = (first + slice * b->unit) * j->item;
        if (!(marks[slice / 64] >> slice % 64 & 1)) memcpy(out + at, base + at, bytes);
    }
}

static void put_bucket(void *arg, int64_t k) {
    struct buckets *b = arg;
    const struct kl_scatter_job *j = b->j;
    const struct kl_arg *out = b->l->out;
    /* The places in this bucket; all are multiples of unit. */
    int64_t first = kl_ceil_div(k << b->shift, b->unit) * b->unit;
    int64_t limit = kl_min64(kl_ceil_div((k + 1) << b->shift, b->unit) * b->unit, out->size);
    if (limit <= first) return;
    int64_t n = (limit - first) / b->unit;
    if (j->n && j->assigns && b->whole && n <= MARKS) {
        put_last(b, k, first, n);
        return;
    }
    if (b->from_base)
        memcpy((char *)out->data + first * j->item,
               (const char *)b->l->in[0].data + first * j->item,
               (size_t)((limit - first) * j->item));
    for (int64_t part = 0; part < b->n_parts; part++) {
        uint32_t begin = (uint32_t)(part * b->part_chunks + k),
                 end = b->ends[part * (b->n + 1) + k];
        for (uint32_t c = begin;; c = b->after[c]) {
            int64_t some;
            const char *entries = chunk_of(b, c, end, &some);
            bool last = c == end / b->in_chunk;
            uint32_t next = last ? begin + b->part_chunks : b->after[c];
            kl_prefetch(b->entries + (int64_t)next * CHUNK, CHUNK);
            (j->n ? put_slices : put_elements)(b, entries, some);
            if (last) break;
        }
    }
}

/* ---- the whole ---- */
/* Whether different places are different elements. */
static bool apart(const struct kl_scatter_job *j) {
    for (int k = 0; k < j->n_axes; k++)
        if (j->extents && j->extents[j->axes[k]] != 1) return false;
    return true;
}

/* How positions are cut into parts. */
static void cut(struct buckets *b, int64_t positions) {
    b->part = kl_ceil_div(positions, MAX_PARTS);
    if (b->part < PART) b->part = PART;
    b->part = kl_ceil_div(b->part, KL_TILE) * KL_TILE;
    b->n_parts = (int)kl_ceil_div(positions, b->part);
    b->part_chunks = (uint32_t)(b->part / b->in_chunk + b->n + 1);
}

static void run_batch(struct buckets *b) {
    cut(b, b->end - b->begin);
    kl_run_tasks(b->l, b->n_parts, move_part, b);
    for (int part = 0; part < b->n_parts; part++)
        if (b->l->checked && b->l->fault == KL_NO_FAULT) b->l->fault = b->faults[part];
    kl_run_tasks(b->l, b->n, put_bucket, b);
}

bool kl_scatter_by_buckets(struct kl_launch *l, const struct kl_scatter_job *j) {
    const struct kl_arg *out = l->out, *base = &l->in[0];
    struct buckets b = {.l = l, .j = j, .unit = 1};
    struct kl_scratch room;
    int64_t positions = l->pos_end - l->pos_begin, slice = 1;
    int64_t out_bytes = out->size * j->item;
    for (int i = 0; i < j->n; i++) slice *= j->len[i];
    if (out->size >= UINT32_MAX || !apart(j) || !j->n_pos) return false;
    if (positions < FEWEST / slice || positions * slice * j->item < FEWEST_BYTES) return false;
    if (!l->parallel && out_bytes < ALONE) return false;
    /* The last indexed axis says where slices begin. */
    if (j->n && j->extents) b.unit = out->strides[j->axes[j->n_axes - 1]];
    b.whole = j->n == 0 || (j->n == 1 && j->dst_steps[0] == j->item && j->src_steps[0] == j->item &&
                            j->len[0] == b.unit);
    b.from_base =
        l->pos_begin == 0 && out->data != base->data && b.whole && base->layout & KL_ROW_CONTIGUOUS;
    while (((int64_t)j->item << (b.shift + 1)) <= BUCKET_BYTES) b.shift++;
    while (b.shift && out->size >> b.shift < MIN_BUCKETS) b.shift--;
    while (out->size >> b.shift >= MAX_BUCKETS) b.shift++;
    b.n = (int)kl_ceil_div(out->size, (int64_t)1 << b.shift);
    b.entry_bytes = j->n == 0 && j->item == 8 ? sizeof(struct wide_entry) : sizeof(entry);
    b.in_chunk = (uint32_t)(CHUNK / b.entry_bytes);
    int64_t batch = kl_min64(positions, BATCH / b.entry_bytes);
    cut(&b, batch);
    size_t chunks = (size_t)b.n_parts * b.part_chunks, ends = (size_t)b.n_parts * (size_t)(b.n + 1);
    if (!kl_scratch_take(&room, l,
                         chunks * (CHUNK + 2 * sizeof *b.after) +
                             (size_t)b.n_parts * sizeof *b.faults + ends * sizeof *b.ends))
        return false;
    b.entries = room.ptr;
    b.faults = (int64_t *)(void *)(room.ptr + chunks * CHUNK);
    b.after = (uint32_t *)(void *)(b.faults + b.n_parts);
    b.before = b.after + chunks;
    b.ends = b.before + chunks;
    if (!b.from_base) kl_scatter_start(l);
    for (b.begin = l->pos_begin; b.begin < l->pos_end; b.begin = b.end) {
        b.end = kl_min64(b.begin + batch, l->pos_end);
        run_batch(&b);
        b.from_base = false;
    }
    kl_scratch_give(&room);
    return true;
}
