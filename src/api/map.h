/* map.h - tables from strings to arrays or strings, in insertion order: what the map handles of the
 * C API point to.
 *
 * Entries lie in an array in the order of first insertion; an open-addressed index of entry numbers
 * finds them. Keys come from files and may be hostile, so the hash is keyed with random bits.
 * Reference-counted: iterators keep their table. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum kl_map_kind { KL_MAP_ARRAYS, KL_MAP_STRINGS };

struct kl_map_entry {
    char *key;   /* owned */
    void *value; /* struct kl_array * or char *, owned */
};

struct kl_map {
    _Atomic(uint32_t) refs;
    enum kl_map_kind kind;
    struct kl_map_entry *entries; /* n of cap */
    size_t n, cap;
    uint32_t *slots; /* entry number + 1, 0: free; n_slots is a power of 2 and > 4/3 n, or 0 */
    size_t n_slots;
};

struct kl_map *kl_map_new(enum kl_map_kind kind, struct kl_error **err); /* NULL: out of memory */
struct kl_map *kl_map_retain(struct kl_map *m);
void kl_map_release(struct kl_map *m); /* NULL is fine */
/* Copies key, copies or retains value; replaces the value of a key that is there. */
int kl_map_insert(struct kl_map *m, const char *key, const void *value, struct kl_error **err);
struct kl_map_entry *kl_map_find(const struct kl_map *m, const char *key); /* NULL: not there */
/* Replaces the content by a copy of src's; nothing changes on failure. */
int kl_map_copy(struct kl_map *m, const struct kl_map *src, struct kl_error **err);
/* m drops its entries and gets those of from (of the same kind), which is empty then. */
void kl_map_move(struct kl_map *m, struct kl_map *from);
