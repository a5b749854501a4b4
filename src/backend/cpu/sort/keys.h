/* keys.h - unsigned keys in whose order values are sorted, and sorting by them. For the kernels of this folder only.
 *
 * -0.0 and +0.0 have one key, so have all NaN, which come last. Keys of types under 64 bits fit 32. Complex: by real part, then imaginary part; those with a NaN come last: a
 * NaN imaginary part by real part, then a NaN real part by imaginary part, then both. */
#pragma once
#include "backend/cpu/operand/tile.h"
#include "base/half.h"

/* A float's key. */
static inline uint32_t kl_key_f32(float x) {
    uint32_t u = kl_f32_bits(x), top = UINT32_C(1) << 31;
    u = u == top ? 0 : u;
    u = u >> 31 ? ~u : u | top;
    return x != x ? UINT32_MAX : u;
}

/* Of n values of a compute type. */
void kl_sort_keys(enum kl_dtype type, const void *x, int64_t n, uint64_t *key);
/* Which of n <= KL_TILE values come behind *least, or are like it; a NaN and what is compared with one may be among them wrongly. Returns how many. */
int64_t kl_sort_reaching(enum kl_dtype type, const void *x, int64_t n, const void *least,
                         uint16_t *which);
/* The values of keys (uint32_t for types under 64 bits); not for complex64. Of -0.0 it is +0.0, of NaN one of them. */
void kl_sort_values(enum kl_dtype type, const void *keys, int64_t n, void *out);

struct kl_long_key {
    uint64_t key, place;
};
enum kl_sort_kind {
    KL_SORT_U32,    /* uint32_t keys */
    KL_SORT_U64,    /* uint64_t keys */
    KL_SORT_PLACED, /* uint64_t: a key of 32 bits in front of a place */
    KL_SORT_LONG    /* struct kl_long_key */
};
/* Bytes of the tables by which n elements are split. */
size_t kl_sort_tables(int64_t n);
/* Sorts x[0 .. n-1] by key, stably; room is for n more, tables for as many bytes as kl_sort_tables says, aligned for uint32_t. The result is where it says: x or room. share->parallel may be NULL. */
void *kl_sort_by_key(enum kl_sort_kind kind, void *x, void *room, void *tables, int64_t n,
                     const struct kl_launch *launch);
