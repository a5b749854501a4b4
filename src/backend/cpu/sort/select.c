/* select.c - see select.h. The kth key is found digit by digit, from the highest in which keys
 * differ, counted from the smallest key; with AVX-512 keys are split by pivots in vectors. Elements
 * are moved without branches, since nothing foretells their keys. */
#include "backend/cpu/sort/select.h"

#include <string.h>

#ifdef __AVX512F__
#include "backend/cpu/sort/select_avx512.h"
#endif

enum { DIGIT = 8 };

#define K uint32_t
#define NAME u32
#define ENTRY uint64_t
#define ENTRY_OF(key, place) ((uint64_t)(key) << 32 | (uint64_t)(place))
/* defines select_u32, count_u32, move_u32, above_u32 */
#include "backend/cpu/sort/select.inc"
#define K uint64_t
#define NAME u64
#define ENTRY struct kl_long_key
#define ENTRY_OF(key, place) ((struct kl_long_key){(key), (uint64_t)(place)})
/* defines select_u64, count_u64, move_u64, above_u64 */
#include "backend/cpu/sort/select.inc"

uint64_t kl_select(bool wide, const void *keys, void *room, int64_t n, int64_t kth) {
#ifdef __AVX512F__
    uint32_t narrow;
    uint64_t found;
    if (!wide && kl_quick_select_32(&narrow, keys, room, n, kth)) return narrow;
    if (wide && kl_quick_select_64(&found, keys, room, n, kth)) return found;
#endif
    return (wide ? select_u64 : select_u32)(keys, room, n, kth);
}

void kl_select_count(bool wide, const void *keys, int64_t n, uint64_t middle, int64_t *below,
                     int64_t *like) {
    (wide ? count_u64 : count_u32)(keys, n, middle, below, like);
}

void kl_select_move(struct kl_select_split *s, const void *keys, int64_t n, const void *src,
                    int64_t first) {
#ifdef __AVX512F__
    if (!s->wide && s->item <= 4 && s->step == s->item) {
        move_vectors(s->item, s->dst, s->to, keys, n, (uint32_t)s->middle, src, (uint32_t)first);
        return;
    }
#endif
    (s->wide ? move_u64 : move_u32)(s, keys, n, src, first);
}

void kl_select_above(bool wide, const void *keys, int64_t n, uint64_t middle, int64_t skip,
                     void *found) {
    (wide ? above_u64 : above_u32)(keys, n, middle, skip, found);
}

void kl_select_keys(const uint32_t *keys, int64_t n, uint32_t middle, uint32_t *found) {
#ifdef __AVX512F__
    keys_above(keys, n, middle, found);
#else
    for (int64_t i = 0; i < n; i++) {
        *found = keys[i];
        found += keys[i] > middle;
    }
#endif
}
