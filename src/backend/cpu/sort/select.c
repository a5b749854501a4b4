/* select.c - see select.h. The kth key is found digit by digit, from the highest in which keys
 * differ, counted from the smallest key; with AVX-512 keys are split by pivots in vectors; of 16
 * bits, bit by bit, by counting. Elements are moved without branches, since nothing foretells their
 * keys. */
#include "backend/cpu/sort/select.h"

#include <string.h>

#ifdef __AVX512F__
#include "backend/cpu/sort/select_avx512.h"
#endif

enum { DIGIT = 8 };

#define K uint16_t
#define NAME u16
#define ENTRY uint64_t
#define ENTRY_OF(key, place) ((uint64_t)(key) << 32 | (uint64_t)(place))
/* defines count_u16, move_u16, above_u16, keys_u16 */
#include "backend/cpu/sort/select.inc"
#define K uint32_t
#define NAME u32
#define DIGITS 1
#define ENTRY uint64_t
#define ENTRY_OF(key, place) ((uint64_t)(key) << 32 | (uint64_t)(place))
/* defines select_u32, count_u32, move_u32, above_u32, keys_u32 */
#include "backend/cpu/sort/select.inc"
#define K uint64_t
#define NAME u64
#define DIGITS 1
#define ENTRY struct kl_long_key
#define ENTRY_OF(key, place) ((struct kl_long_key){(key), (uint64_t)(place)})
/* defines select_u64, count_u64, move_u64, above_u64, keys_u64 */
#include "backend/cpu/sort/select.inc"

/* The largest key that has at most kth keys below it, from the highest bit on. Counting keys takes
 * a fraction of a cycle for each. */
static uint16_t select_u16(const uint16_t *key, int64_t n, int64_t kth) {
    enum { COUNTED = 1 << 14 }; /* keys whose number fits 16 bits */
    uint32_t found = 0;
    for (uint32_t bit = 1 << 15; bit; bit >>= 1) {
        const uint16_t middle = (uint16_t)(found | bit);
        int64_t below = 0;
        for (int64_t at = 0; at < n; at += COUNTED) {
            const int64_t some = kl_min64(COUNTED, n - at);
            uint16_t less = 0;
            KL_EACH(i, some) less = (uint16_t)(less + (key[at + i] < middle));
            below += less;
        }
        if (below <= kth) found = middle;
    }
    return (uint16_t)found;
}

uint64_t kl_select(int bytes, const void *keys, void *room, int64_t n, int64_t kth) {
    if (bytes == 2) return select_u16(keys, n, kth);
#ifdef __AVX512F__
    uint32_t narrow;
    uint64_t found;
    if (bytes == 4 && kl_quick_select_32(&narrow, keys, room, n, kth)) return narrow;
    if (bytes == 8 && kl_quick_select_64(&found, keys, room, n, kth)) return found;
#endif
    return (bytes == 8 ? select_u64 : select_u32)(keys, room, n, kth);
}

#define BY_SIZE(name) (bytes == 8 ? name##64 : bytes == 4 ? name##32 : name##16)

void kl_select_count(int bytes, const void *keys, int64_t n, uint64_t middle, int64_t *below,
                     int64_t *like) {
    BY_SIZE(count_u)(keys, n, middle, below, like);
}

void kl_select_move(struct kl_select_split *s, const void *keys, int64_t n, const void *src,
                    int64_t first) {
    const int bytes = s->bytes;
#ifdef __AVX512F__
    const uint32_t place = (uint32_t)first;
    if (s->item == s->step && bytes == 8) {
        move_vectors_64(s->item, s->dst, s->to, keys, n, s->middle, src, place);
        return;
    }
    if (s->item == s->step) {
        if (bytes == 4)
            move_vectors_32(s->item, s->dst, s->to, keys, n, (uint32_t)s->middle, src, place);
        else if (s->item == 2 && kl_quick_has_16())
            move_vectors_packed(2, s->dst, s->to, keys, n, (uint16_t)s->middle, src, place);
        else
            move_vectors_16(s->item, s->dst, s->to, keys, n, (uint16_t)s->middle, src, place);
        return;
    }
#endif
    BY_SIZE(move_u)(s, keys, n, src, first);
}

void kl_select_above(int bytes, const void *keys, int64_t n, uint64_t middle, int64_t skip,
                     void *found) {
    BY_SIZE(above_u)(keys, n, middle, skip, found);
}

void kl_select_keys(int bytes, const void *keys, int64_t n, uint64_t middle, void *found) {
#ifdef __AVX512F__
    if (bytes == 8)
        keys_above_64(keys, n, middle, found);
    else if (bytes == 4)
        keys_above_32(keys, n, (uint32_t)middle, found);
    else if (kl_quick_has_16())
        keys_above_packed(keys, n, (uint16_t)middle, found);
    else
        keys_above_16(keys, n, (uint16_t)middle, found);
#else
    BY_SIZE(keys_u)(keys, n, middle, found);
#endif
}
