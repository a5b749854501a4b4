/* select.h - finding the kth of the keys of a row (keys.h) and moving elements by it. Keys have 2,
 * 4 or 8 bytes (kl_sort_key_bytes). */
#pragma once
#include "backend/cpu/sort/keys.h"

/* The kth of n keys in order. room is memory for 2 n more keys. */
uint64_t kl_select(int bytes, const void *keys, void *room, int64_t n, int64_t kth);

/* How many of n keys are below, and how many are equal to `middle`. */
void kl_select_count(int bytes, const void *keys, int64_t n, uint64_t middle, int64_t *below,
                     int64_t *like);

/* Where elements go: those below the middle, those equal to it, and those above. */
struct kl_select_split {
    int bytes; /* of a key */
    uint64_t middle;
    int item;  /* bytes of an element of 1, 2, 4 or 8 */
    char *dst; /* elements `step` bytes apart */
    int64_t step;
    int64_t to[3]; /* where the next element of each kind goes */
};
/* Moves n contiguous elements of src, which have these keys, in order. Where src is NULL, their
 * positions are stored, as uint32_t, counted from `first`. */
void kl_select_move(struct kl_select_split *s, const void *keys, int64_t n, const void *src,
                    int64_t first);

/* Stores the keys that are above the middle, and all but the first `skip` that are equal to it,
 * with their positions, in order: as KL_SORT_LONG takes them where keys have 8 bytes, else as
 * KL_SORT_PLACED does. `found` has room for one more entry. */
void kl_select_above(int bytes, const void *keys, int64_t n, uint64_t middle, int64_t skip,
                     void *found);
/* Stores the keys that are above the middle; `found` has room for one more. */
void kl_select_keys(int bytes, const void *keys, int64_t n, uint64_t middle, void *found);
