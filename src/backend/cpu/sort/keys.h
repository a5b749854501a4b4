/* keys.h - unsigned keys in whose order values are sorted, and sorting by them. Keys have as many
 * bits as values, but at least 16. -0.0 and +0.0 have the same key, and so have all NaN, which come
 * last. Complex numbers are ordered by real part, then imaginary part. Numbers with a NaN come
 * last, in three groups: with a NaN in the imaginary part only, by real part; with a NaN in the
 * real part only, by imaginary part; with a NaN in both. */
#pragma once
#include "backend/cpu/operand/tile.h"
#include "base/number/half.h"

/* The key of a float32. */
static inline uint32_t kl_key_f32(float x) {
    uint32_t u = kl_f32_bits(x), top = UINT32_C(1) << 31;
    u = u == top ? 0 : u;
    u = u >> 31 ? ~u : u | top;
    return x != x ? UINT32_MAX : u;
}

/* The keys of n values. */
void kl_sort_keys(enum kl_dtype type, const void *x, int64_t n, uint64_t *key);
/* The same in keys of 2, 4 or 8 bytes: as many as kl_sort_key_bytes says. */
void kl_sort_keys_narrow(enum kl_dtype type, const void *x, int64_t n, void *key);
static inline int kl_sort_key_bytes(enum kl_dtype type) {
    const int item = (int)kl_dtype_size(type);
    return item < 2 ? 2 : item;
}
/* Finds which of n <= KL_TILE values do not come before *least. A NaN may be found although it
 * comes before; so may any value when *least is a NaN. Returns the number of values found. */
int64_t kl_sort_reaching(enum kl_dtype type, const void *x, int64_t n, const void *least,
                         uint16_t *which);
/* The values of n keys of kl_sort_key_bytes; not for complex64. Both zeros have one key, which
 * gives +0.0. All NaN have one key, which gives one NaN. */
void kl_sort_values(enum kl_dtype type, const void *keys, int64_t n, void *out);

struct kl_long_key {
    uint64_t key, place;
};
enum kl_sort_kind {
    KL_SORT_U16, /* uint16_t keys */
    KL_SORT_U32, /* uint32_t keys */
    KL_SORT_U64, /* uint64_t keys */
    /* uint64_t: a key of 32 bits in the upper half, the element's position in the lower one. */
    KL_SORT_PLACED,
    KL_SORT_LONG /* struct kl_long_key */
};
/* Bytes of the tables that sorting n elements needs. */
size_t kl_sort_tables(int64_t n);
/* Sorts x[0 .. n-1] by key, stably. room is memory for n more elements; tables has the bytes of
 * kl_sort_tables, aligned for uint32_t. Returns where the result is: x or room. launch->parallel
 * may be NULL. */
void *kl_sort_by_key(enum kl_sort_kind kind, void *x, void *room, void *tables, int64_t n,
                     const struct kl_launch *launch);
