/* sort_quick_avx512.h - a quicksort of unsigned keys in vectors, and selection by it, as static
 * functions of each file that includes it. A partition writes elements below the pivot over what it
 * has read, and the others to `room`; it packs the lanes of a comparison (as Bramas 2017, "A novel
 * hybrid quicksort algorithm vectorized using AVX-512", but not in place). Few elements are sorted
 * in registers by Batcher's bitonic network. More keys of 16 bits need kl_quick_has_16. */
#pragma once
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/operand/tile.h"

enum {
    KL_QUICK_VECTORS = 16, /* elements that fit this many vectors are sorted in registers */
    /* more elements than fit this many vectors, and at most twice as many as are sorted in
     * registers, are sorted as two sequences */
    KL_QUICK_MERGED = 24,
    /* with more elements than this the pivot is the median of nine elements, else of three */
    KL_QUICK_MEDIANS = 256,
    /* The most nested partitions; beyond it kl_quick_sort fails and the caller sorts in another
     * way. */
    KL_QUICK_DEPTH = 40
};

#define KL_QUICK_JOIN2(a, b) a##b
#define KL_QUICK_JOIN(a, b) KL_QUICK_JOIN2(a, b)
#define KL_QUICK_KEY_16 uint16_t
#define KL_QUICK_KEY_32 uint32_t
#define KL_QUICK_KEY_64 uint64_t
#define KL_QUICK_SIGNED_16 short
#define KL_QUICK_SIGNED_32 int
#define KL_QUICK_SIGNED_64 long long
#define KL_QUICK_CMP(order) \
    KL_QUICK_JOIN(KL_QUICK_JOIN(KL_QUICK_JOIN(_mm512_cmp, order), KL_QUICK_JOIN(_epu, BITS)), _mask)
/* The numbers of lanes i ^ c, and which lanes i are higher than those. */
#define KL_QUICK_LANES_4(i, c) (i) ^ (c), ((i) + 1) ^ (c), ((i) + 2) ^ (c), ((i) + 3) ^ (c)
#define KL_QUICK_LANES_8(i, c) KL_QUICK_LANES_4(i, c), KL_QUICK_LANES_4((i) + 4, c)
#define KL_QUICK_LANES_16(i, c) KL_QUICK_LANES_8(i, c), KL_QUICK_LANES_8((i) + 8, c)
#define KL_QUICK_LANES_32(i, c) KL_QUICK_LANES_16(i, c), KL_QUICK_LANES_16((i) + 16, c)
/* Of two vectors, the lanes without bit c of the first one, and in the place of the others those of
 * the second one that have no bit c; and the reverse. */
#define KL_QUICK_UP(i, c, n) ((i) & (c) ? (n) + (i) - (c) : (i))
#define KL_QUICK_LOW(i, c, n) ((i) & (c) ? (n) + (i) : (i) + (c))
#define KL_QUICK_FOUR(f, i, c, n) f(i, c, n), f((i) + 1, c, n), f((i) + 2, c, n), f((i) + 3, c, n)
#define KL_QUICK_EIGHT(f, i, c, n) KL_QUICK_FOUR(f, i, c, n), KL_QUICK_FOUR(f, (i) + 4, c, n)
#define KL_QUICK_UPPER_8(i, c) KL_QUICK_EIGHT(KL_QUICK_UP, i, c, 8)
#define KL_QUICK_LOWER_8(i, c) KL_QUICK_EIGHT(KL_QUICK_LOW, i, c, 8)
#define KL_QUICK_UPPER_16(i, c) \
    KL_QUICK_EIGHT(KL_QUICK_UP, i, c, 16), KL_QUICK_EIGHT(KL_QUICK_UP, (i) + 8, c, 16)
#define KL_QUICK_LOWER_16(i, c) \
    KL_QUICK_EIGHT(KL_QUICK_LOW, i, c, 16), KL_QUICK_EIGHT(KL_QUICK_LOW, (i) + 8, c, 16)
#define KL_QUICK_HIGH(c)        \
    ((c)&16  ? UINT32_MAX << 16 \
     : (c)&8 ? 0xff00ff00u      \
     : (c)&4 ? 0xf0f0f0f0u      \
     : (c)&2 ? 0xccccccccu      \
             : 0xaaaaaaaau)

/* The ternary logic of x ^ y ^ z: of two numbers the one that is not the smaller. One of the ports
 * of a processor takes minima and maxima, and another one this. */
#define KL_QUICK_OTHER 0x96

#define BITS 16
#define LANES 32
#define KL_QUICK_TARGET __attribute__((target("avx512vbmi2")))
/* defines kl_quick_step_16, kl_quick_order_16, kl_quick_merge_16, kl_quick_sort_lanes_16,
 * kl_quick_join_16, kl_quick_lanes_16, kl_quick_in_vectors_16, kl_quick_few_16, kl_quick_middle_16,
 * kl_quick_pivot_16, kl_quick_part_16, kl_quick_sort_16, kl_quick_select_16 */
#include "backend/cpu/sort/sort_quick_avx512.inc"
#define BITS 32
#define LANES 16
#define KL_QUICK_TARGET
/* defines kl_quick_step_32, kl_quick_order_32, kl_quick_merge_32, kl_quick_sort_lanes_32,
 * kl_quick_join_32, kl_quick_lanes_32, kl_quick_in_vectors_32, kl_quick_columns_32,
 * kl_quick_rows_32, kl_quick_block_32, kl_quick_bitonic_32, kl_quick_two_32, kl_quick_few_32,
 * kl_quick_middle_32, kl_quick_pivot_32, kl_quick_part_32, kl_quick_sort_32, kl_quick_select_32 */
#include "backend/cpu/sort/sort_quick_avx512.inc"
#define BITS 64
#define LANES 8
#define KL_QUICK_TARGET
/* defines kl_quick_step_64, kl_quick_order_64, kl_quick_merge_64, kl_quick_sort_lanes_64,
 * kl_quick_join_64, kl_quick_lanes_64, kl_quick_in_vectors_64, kl_quick_columns_64,
 * kl_quick_rows_64, kl_quick_block_64, kl_quick_bitonic_64, kl_quick_two_64, kl_quick_few_64,
 * kl_quick_middle_64, kl_quick_pivot_64, kl_quick_part_64, kl_quick_sort_64, kl_quick_select_64 */
#include "backend/cpu/sort/sort_quick_avx512.inc"

/* Whether the processor packs lanes of 16 bits. */
static inline bool kl_quick_has_16(void) {
    return __builtin_cpu_supports("avx512vbmi2");
}
