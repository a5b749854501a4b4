/* sort_by_key.c - sorting by unsigned keys, stably. See keys.h. Many elements are first split into
 * buckets of about equal size that fit the caches, by the highest bits in which keys differ;
 * threads count and move parts of them. Then one thread sorts each bucket, digit by digit from the
 * lowest. Fewer elements are sorted by digits directly, very few by merging. With AVX-512,
 * keys are sorted by a quicksort in vectors (sort_quick_avx512.h), those of 64 bits where they
 * differ in many; and up to PIVOTED of 32 bits alone are split by its pivots, in less than half the
 * time that moving them one by one takes. A
 * bucket with a large part of all elements, which one outlying key can cause, is split again. */
#include "backend/cpu/sort/keys.h"
#include "backend/cpu/operand/nontemporal.h"
#include "backend/cpu/operand/scratch.h"
#ifdef __AVX512F__
#include "backend/cpu/sort/sort_quick_avx512.h"
#endif

enum {
    PREFIXES = 1 << 12, /* the most prefixes of keys that are distinguished */
    ENOUGH = 256,       /* a bucket is full with n / ENOUGH elements */
    MAX_BUCKETS = 2 * ENOUGH + 1,
    MAX_PARTS = 16,
    HELD = 128,   /* bytes of a bucket that are buffered, to be written as whole cache lines */
    MERGED = 128, /* elements; fewer are sorted by merging */
    /* With AVX-512: up to QUICK elements are sorted in vectors. A bucket of 32 bits then has about
     * QUICK_BUCKET elements, if that makes QUICK_ENOUGH buckets or more. */
    QUICK = 1 << 18,
    PLACED_FROM = 4, /* elements; fewer keys of 32 bits with places are merged */
    LONG_FROM = 12,  /* the same for keys of 64 bits */
    QUICK_BUCKET = 1 << 14,
    QUICK_ENOUGH = 64,
    SPLIT = 1 << 15,           /* elements; fewer are not split into buckets */
    PIVOTED = 1 << 22,         /* the most elements of 32 bits that are split in vectors */
    NONTEMPORAL_FROM = 1 << 24 /* bytes; larger results are written with non-temporal stores */
};

/* The smallest and the largest of some keys, and the bits in which they differ. */
struct range {
    uint64_t low, high, differ;
};
#define NO_KEYS ((struct range){.low = UINT64_MAX})

#define T uint16_t
#define NAME u16
#define KEY(a) (a)
/* defines range_u16, count_u16, move_u16, spread_u16, spread_nontemporal_u16,
 * merge_u16 */
#include "backend/cpu/sort/sort_radix.inc"
#define T uint32_t
#define NAME u32
#define KEY(a) (a)
/* defines range_u32, count_u32, move_u32, spread_u32, spread_nontemporal_u32,
 * merge_u32 */
#include "backend/cpu/sort/sort_radix.inc"
#define T uint64_t
#define NAME u64
#define KEY(a) (a)
/* defines range_u64, count_u64, move_u64, spread_u64, spread_nontemporal_u64,
 * merge_u64 */
#include "backend/cpu/sort/sort_radix.inc"
#define T struct kl_long_key
#define NAME long
#define KEY(a) ((a).key)
/* defines range_long, count_long, move_long, spread_long, spread_nontemporal_long,
 * merge_long */
#include "backend/cpu/sort/sort_radix.inc"

typedef void spread_fn(const void *x, int64_t n, uint64_t base, int shift, uint32_t mask,
                       const uint16_t *bucket, uint32_t *places, void *to);
static const struct {
    void *(*merge)(void *x, void *room, int64_t n);
    void (*range)(const void *x, int64_t n, struct range *r);
    void (*count)(const void *x, int64_t n, uint64_t base, int shift, uint32_t mask,
                  uint32_t *counts);
    void (*move)(const void *x, int64_t n, uint64_t base, int shift, uint32_t mask,
                 uint32_t *places, void *to);
    spread_fn *spread, *spread_nontemporal;
    int64_t bytes;
    /* The bits of an element to sort by. In KL_SORT_PLACED the positions ascend already, so
     * comparing whole elements gives the same order. */
    uint64_t by;
} sorts[] = {
#define SORT(name, size, bits)                                                \
    {                                                                         \
        merge_##name, range_##name, count_##name, move_##name, spread_##name, \
            spread_nontemporal_##name, size, bits                             \
    }
    [KL_SORT_U16] = SORT(u16, 2, UINT16_MAX),
    [KL_SORT_U32] = SORT(u32, 4, UINT32_MAX),
    [KL_SORT_U64] = SORT(u64, 8, UINT64_MAX),
    [KL_SORT_PLACED] = SORT(u64, 8, (uint64_t)UINT32_MAX << 32),
    [KL_SORT_LONG] = SORT(long, sizeof(struct kl_long_key), UINT64_MAX),
};

/* The bits [low, high) in which keys differ once `base` is subtracted. */
struct digits {
    uint64_t base;
    int low, high;
};
static struct digits digits_of(enum kl_sort_kind kind, struct range r) {
    const uint64_t by = sorts[kind].by, differ = r.differ & by;
    if (!differ) return (struct digits){0};
    return (struct digits){.base = r.low & by,
                           .low = __builtin_ctzll(differ),
                           .high = 64 - __builtin_clzll((r.high & by) - (r.low & by))};
}

#ifdef __AVX512F__
/* Returns false where the processor cannot, or too many partitions were uneven. */
static bool quick_16(uint16_t *x, uint16_t *room, int64_t n) {
    if (kl_quick_has_16()) return kl_quick_sort_16(x, room, n, KL_QUICK_DEPTH);
    if (n > KL_QUICK_VECTORS * 32) return false;
    kl_quick_few_16(x, n);
    return true;
}
#endif

#ifdef __AVX512F__
/* Sorts keys of 64 bits with places, in vectors of numbers whose high bits are those of a key and
 * whose low bits say where it is; the few that those bits do not tell apart are moved afterwards.
 * Returns false where they are too many, or partitions were uneven; x stays as it is. The result
 * is in room. */
static bool quick_long(const struct kl_long_key *x, struct kl_long_key *room, int64_t n,
                       struct digits d) {
    const int width = 64 - __builtin_clzll((uint64_t)n), up = 64 - d.high;
    const uint64_t places = (UINT64_C(1) << width) - 1;
    uint64_t *v = (uint64_t *)(void *)room;
    int64_t moves = 0;
    for (int64_t i = 0; i < n; i++)
        v[i] = ((d.high ? x[i].key - d.base : 0) << (up & 63) & ~places) | (uint64_t)i;
    if (!kl_quick_sort_64(v, v + n, n, KL_QUICK_DEPTH)) return false;
    for (int64_t i = n - 1; i >= 0; i--) room[i] = x[v[i] & places]; /* over v, from its end */
    for (int64_t i = 1; i < n; i++) {
        const struct kl_long_key one = room[i];
        int64_t to = i;
        for (; to > 0 && room[to - 1].key > one.key; to--) room[to] = room[to - 1];
        room[to] = one;
        moves += i - to;
        if (moves > 4 * n) return false;
    }
    return true;
}
#endif

/* Sorts digit by digit on one thread, or in vectors. The result is in x or room. */
static char *by_digits(enum kl_sort_kind kind, char *x, char *room, int64_t n) {
    enum { WIDE = 11, NARROW = 8, FEW_BITS = 24 };
    struct range range = NO_KEYS;
    bool in_vectors = false;
/* Equal keys cannot be told apart, so an unstable sort will do. Digits are faster for keys of 64
 * bits that differ in few of them. */
#ifdef __AVX512F__
    if (kind == KL_SORT_U16 && n <= QUICK &&
        quick_16((uint16_t *)(void *)x, (uint16_t *)(void *)room, n))
        return x;
    if (kind == KL_SORT_U32 && n <= QUICK &&
        kl_quick_sort_32((uint32_t *)(void *)x, (uint32_t *)(void *)room, n, KL_QUICK_DEPTH))
        return x;
    /* Elements with a place are all different. */
    in_vectors =
        n <= QUICK && (kind == KL_SORT_U64 || (kind == KL_SORT_PLACED && n >= PLACED_FROM) ||
                       (kind == KL_SORT_LONG && n >= LONG_FROM));
    if (in_vectors && n < MERGED && kind != KL_SORT_LONG &&
        kl_quick_sort_64((uint64_t *)(void *)x, (uint64_t *)(void *)room, n, KL_QUICK_DEPTH))
        return x;
#endif
    if (n < MERGED && !in_vectors) return sorts[kind].merge(x, room, n);
    sorts[kind].range(x, n, &range);
    const struct digits d = digits_of(kind, range);
    in_vectors = in_vectors && (n < MERGED || d.high - d.low > FEW_BITS);
#ifdef __AVX512F__
    if (in_vectors && kind == KL_SORT_LONG &&
        quick_long((const struct kl_long_key *)(void *)x, (struct kl_long_key *)(void *)room, n, d))
        return room;
    if (in_vectors && kind != KL_SORT_LONG &&
        kl_quick_sort_64((uint64_t *)(void *)x, (uint64_t *)(void *)room, n, KL_QUICK_DEPTH))
        return x;
#endif
    const uint64_t base = d.base;
    if (n < MERGED) return sorts[kind].merge(x, room, n);
    int bits = d.high, low = d.low;
    int most = n < 1 << WIDE ? NARROW : WIDE, digits = (bits - low + most - 1) / most;
    for (int left = digits; left > 0; left--) {
        uint32_t counts[1 << WIDE], next = 0;
        int width = (bits - low + left - 1) / left;
        uint32_t mask = (1u << width) - 1;
        sorts[kind].count(x, n, base, low, mask, counts);
        for (uint32_t k = 0; k <= mask; k++) {
            uint32_t count = counts[k];
            counts[k] = next;
            next += count;
        }
        sorts[kind].move(x, n, base, low, mask, counts, room);
        char *was = x;
        x = room;
        room = was;
        low += width;
    }
    return x;
}

/* ---- splitting ---- */
struct split {
    enum kl_sort_kind kind;
    char *from, *to;
    int64_t n, part;
    int n_parts, n_buckets, shift;
    uint32_t mask;
    /* a bucket of at least this many elements is sorted after the others, by all threads */
    int64_t heavy;
    uint64_t base;
    struct range ranges[MAX_PARTS];
    uint32_t starts[MAX_BUCKETS + 1];
    void *tables; /* memory of the next three arrays; the sort of a heavy bucket uses it again */
    uint32_t (*counts)[PREFIXES];    /* for each part: the number of elements with each prefix */
    uint32_t (*places)[MAX_BUCKETS]; /* for each part: where its elements of each bucket go */
    uint16_t *bucket;                /* the bucket of each prefix */
};

static char *part_of(const struct split *s, int64_t part, int64_t *n) {
    int64_t from = part * s->part;
    *n = kl_min64(s->part, s->n - from);
    return s->from + from * sorts[s->kind].bytes;
}
static void range_part(void *arg, int64_t part) {
    struct split *s = arg;
    int64_t n;
    const char *x = part_of(s, part, &n);
    s->ranges[part] = NO_KEYS;
    sorts[s->kind].range(x, n, &s->ranges[part]);
}
static void count_part(void *arg, int64_t part) {
    struct split *s = arg;
    int64_t n;
    const char *x = part_of(s, part, &n);
    sorts[s->kind].count(x, n, s->base, s->shift, s->mask, s->counts[part]);
}
static void spread_part(void *arg, int64_t part) {
    struct split *s = arg;
    int64_t n;
    const char *x = part_of(s, part, &n);
    /* A bucket that is split again need not begin where a cache line does. */
    bool large = s->n * sorts[s->kind].bytes >= NONTEMPORAL_FROM && (uintptr_t)s->to % KL_LINE == 0;
    spread_fn *spread = large ? sorts[s->kind].spread_nontemporal : sorts[s->kind].spread;
    spread(x, n, s->base, s->shift, s->mask, s->bucket, s->places[part], s->to);
}

/* Sorts bucket k of `to` into its place in `from`. */
static void sort_bucket(struct split *s, int64_t k, const struct kl_launch *launch) {
    int64_t bytes = sorts[s->kind].bytes, begin = s->starts[k], n = s->starts[k + 1] - begin;
    char *x = s->to + begin * bytes, *room = s->from + begin * bytes;
    if (n == 0) return;
    char *sorted = launch ? kl_sort_by_key(s->kind, x, room, s->tables, n, launch)
                          : by_digits(s->kind, x, room, n);
    if (sorted != room) memcpy(room, sorted, (size_t)(n * bytes));
}
static void light_bucket(void *arg, int64_t k) {
    struct split *s = arg;
    if (s->starts[k + 1] - s->starts[k] < s->heavy) sort_bucket(s, k, NULL);
}

/* Assigns prefixes to buckets: neighbours share one until it has enough elements. Finds where the
 * parts of each bucket begin. A prefix with enough elements has a bucket of its own, so that the
 * keys of a heavy bucket differ in fewer bits. */
static void make_buckets(struct split *s) {
    int64_t enough = kl_ceil_div(s->n, ENOUGH), in_bucket = 0;
/* a bucket that is sorted in vectors may be larger, and splitting into few buckets is faster */
#ifdef __AVX512F__
    int64_t quick = kl_min64(kl_ceil_div(s->n, QUICK_ENOUGH), QUICK_BUCKET);
    if (s->kind == KL_SORT_U32 && enough < quick) enough = quick;
#endif
    uint32_t next = 0;
    int k = 0;
    memset(s->places, 0, (size_t)s->n_parts * sizeof *s->places);
    for (uint32_t d = 0; d <= s->mask; d++) {
        int64_t more = 0;
        for (int part = 0; part < s->n_parts; part++) more += s->counts[part][d];
        if (in_bucket >= enough || (in_bucket > 0 && more >= enough)) {
            k++;
            in_bucket = 0;
        }
        in_bucket += more;
        s->bucket[d] = (uint16_t)k;
        for (int part = 0; part < s->n_parts; part++) s->places[part][k] += s->counts[part][d];
    }
    s->n_buckets = k + 1;
    for (k = 0; k < MAX_BUCKETS; k++) {
        s->starts[k] = next;
        for (int part = 0; part < s->n_parts; part++) {
            uint32_t count = s->places[part][k];
            s->places[part][k] = next;
            next += count;
        }
    }
    s->starts[MAX_BUCKETS] = next;
}

static int64_t part_length(int64_t n);

#ifdef __AVX512F__
/* ---- keys of 32 bits alone, in vectors ---- */
/* Each part is split into BETWEEN buckets by the same pivots, on one thread, as the first steps of
 * a quicksort would. Then the parts of each bucket are copied together, and one thread sorts each
 * bucket. */
enum { BETWEEN = 16, SAMPLE = 256 };
struct pivoted {
    uint32_t *from, *to;
    int64_t n, part;
    int n_parts;
    uint32_t pivot[BETWEEN];
    int64_t counts[MAX_PARTS][BETWEEN], starts[MAX_PARTS][BETWEEN];
};

/* Splits x into `buckets` buckets, a power of two, by pivot[0 .. buckets-2]. */
static void part_between(uint32_t *x, uint32_t *room, int64_t n, const uint32_t *pivot, int buckets,
                         int64_t *counts) {
    *counts = n;
    if (buckets == 1) return;
    int half = buckets / 2;
    int64_t front = kl_quick_part_32(false, x, room, n, pivot[half - 1]);
    part_between(x, room, front, pivot, half, counts);
    part_between(x + front, room, n - front, pivot + half, half, counts + half);
}
static void pivot_part(void *arg, int64_t part) {
    struct pivoted *p = arg;
    int64_t from = part * p->part;
    part_between(p->from + from, p->to + from, kl_min64(p->part, p->n - from), p->pivot, BETWEEN,
                 p->counts[part]);
}
static void gather_part(void *arg, int64_t part) {
    struct pivoted *p = arg;
    const uint32_t *x = p->from + part * p->part;
    for (int k = 0; k < BETWEEN; k++) {
        memcpy(p->to + p->starts[part][k], x, (size_t)p->counts[part][k] * sizeof *x);
        x += p->counts[part][k];
    }
}
static void pivot_bucket(void *arg, int64_t k) {
    struct pivoted *p = arg;
    int64_t start = p->starts[0][k], end = k + 1 < BETWEEN ? p->starts[0][k + 1] : p->n;
    uint32_t *x = p->to + start, *room = p->from + start;
    if (kl_quick_sort_32(x, room, end - start, KL_QUICK_DEPTH)) return;
    char *sorted = by_digits(KL_SORT_U32, (char *)x, (char *)room, end - start);
    if (sorted != (char *)x) memcpy(x, sorted, (size_t)(end - start) * sizeof *x);
}
/* Sorts x[0 .. n-1] by pivots; the result is in room. */
static void by_pivots(uint32_t *x, uint32_t *room, int64_t n, const struct kl_launch *launch) {
    struct pivoted p = {.from = x, .to = room, .n = n, .part = part_length(n)};
    uint32_t sample[SAMPLE], space[SAMPLE];
    int64_t next = 0;
    p.n_parts = (int)kl_ceil_div(n, p.part);
    for (int i = 0; i < SAMPLE; i++) sample[i] = x[n / SAMPLE * i];
    const uint32_t *sorted = merge_u32(sample, space, SAMPLE);
    for (int k = 0; k + 1 < BETWEEN; k++) p.pivot[k] = sorted[(k + 1) * SAMPLE / BETWEEN];
    kl_run_tasks(launch, p.n_parts, pivot_part, &p);
    for (int k = 0; k < BETWEEN; k++)
        for (int part = 0; part < p.n_parts; part++) {
            p.starts[part][k] = next;
            next += p.counts[part][k];
        }
    kl_run_tasks(launch, p.n_parts, gather_part, &p);
    kl_run_tasks(launch, BETWEEN, pivot_bucket, &p);
}
#endif

static int64_t part_length(int64_t n) {
    enum { PART = 1 << 14 };
    return kl_ceil_div(n, MAX_PARTS) > PART ? kl_ceil_div(n, MAX_PARTS) : PART;
}

size_t kl_sort_tables(int64_t n) {
    const struct split *s = NULL;
    if (n < SPLIT || n > UINT32_MAX) return 0;
    return (size_t)kl_ceil_div(n, part_length(n)) * (sizeof *s->counts + sizeof *s->places) +
           PREFIXES * sizeof *s->bucket;
}

void *kl_sort_by_key(enum kl_sort_kind kind, void *x, void *room, void *tables, int64_t n,
                     const struct kl_launch *launch) {
    struct range all = NO_KEYS;
    if (n > UINT32_MAX) return sorts[kind].merge(x, room, n);
    if (n < SPLIT) return by_digits(kind, x, room, n);
#ifdef __AVX512F__
    /* Where a row has one thread, which buckets serve less well. */
    if (kind == KL_SORT_U16 && !launch->parallel && kl_quick_has_16() &&
        kl_quick_sort_16(x, room, n, KL_QUICK_DEPTH))
        return x;
    if (kind == KL_SORT_U32 && n <= PIVOTED) {
        by_pivots(x, room, n, launch);
        return room;
    }
#endif
    struct split s = {
        .kind = kind, .from = x, .to = room, .tables = tables, .n = n, .part = part_length(n)};
    s.n_parts = (int)kl_ceil_div(n, s.part);
    kl_run_tasks(launch, s.n_parts, range_part, &s);
    for (int part = 0; part < s.n_parts; part++) {
        const struct range *r = &s.ranges[part];
        all.differ |= r->differ | (part ? r->low ^ all.low : 0);
        all.low = r->low < all.low ? r->low : all.low;
        all.high = r->high > all.high ? r->high : all.high;
    }
    const struct digits d = digits_of(kind, all);
    if (!d.high) return x;
    s.counts = tables;
    s.places = (uint32_t(*)[MAX_BUCKETS])(void *)(s.counts + s.n_parts);
    s.bucket = (uint16_t *)(void *)(s.places + s.n_parts);
    s.base = d.base;
    s.shift = d.high - 12 > d.low ? d.high - 12 : d.low;
    s.mask = (1u << (d.high - s.shift)) - 1;
    kl_run_tasks(launch, s.n_parts, count_part, &s);
    make_buckets(&s);
    kl_run_tasks(launch, s.n_parts, spread_part, &s);
    s.heavy = n / 8 > SPLIT ? n / 8 : SPLIT;
    kl_run_tasks(launch, s.n_buckets, light_bucket, &s);
    for (int k = 0; k < s.n_buckets; k++)
        if (s.starts[k + 1] - s.starts[k] >= s.heavy) sort_bucket(&s, k, launch);
    return x;
}
