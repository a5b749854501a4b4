/* map.h - tables from strings to values of one kind, in insertion order. The map handles of the C
 * API point to them.
 *
 * Entries are in an array in the order of first insertion; an index with open addressing holds
 * entry numbers. Keys come from files and may be chosen by an attacker, so the hash is keyed with
 * random bits. Tables are reference-counted: an iterator keeps its table. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct kl_map_kind {
    void *(*dup)(const void *value); /* a value of the table's own; NULL when out of memory */
    void (*drop)(void *value);
};
extern const struct kl_map_kind kl_map_of_arrays;  /* values: struct kl_array *, retained */
extern const struct kl_map_kind kl_map_of_strings; /* values: char *, copied */

struct kl_map_entry {
    char *key;   /* owned */
    void *value; /* owned */
};

struct kl_map {
    _Atomic(uint32_t) refs;
    const struct kl_map_kind *kind;
    struct kl_map_entry *entries; /* n entries, with room for cap of them */
    size_t n, cap;
    /* entry number + 1, or 0 for a free slot; n_slots is a power of 2 and > 4/3 n, or 0 */
    uint32_t *slots;
    size_t n_slots;
};

/* NULL when out of memory */
struct kl_map *kl_map_new(const struct kl_map_kind *kind, struct kl_error **err);
struct kl_map *kl_map_retain(struct kl_map *m);
void kl_map_release(struct kl_map *m); /* NULL is fine */
/* Copies key and value. An existing key gets the new value. */
int kl_map_insert(struct kl_map *m, const char *key, const void *value, struct kl_error **err);
/* NULL when there is no such key */
struct kl_map_entry *kl_map_find(const struct kl_map *m, const char *key);
/* Replaces the content by a copy of src's content. Nothing changes on failure. */
int kl_map_copy(struct kl_map *m, const struct kl_map *src, struct kl_error **err);
/* m drops its entries and gets the entries of `from`, a table of the same kind, which is empty
 * afterwards. */
void kl_map_move(struct kl_map *m, struct kl_map *from);
