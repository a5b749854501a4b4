/* tiles_amx.h - the tile registers of x86-64 (AMX). They compute products of bfloat16 at 16 times
 * the rate of vectors of float32, and products of float32 and float16, whose elements are sums of
 * three and two bfloat16 parts. Compiled once, apart from the variants. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    KL_AMX_ROWS = 32,  /* rows of a tile of the result, which has as many columns */
    KL_AMX_DEPTH = 32, /* elements along k of an operand's tile */
};

/* Whether this CPU has tile registers and the system lets the process use them (asked at the first
 * call). */
bool kl_amx_there(void);
/* kl_amx_begin and kl_amx_end enclose the use of the others, in each thread. The end restores the
 * thread's configuration of tiles: other libraries, oneDNN for one, configure them once and rely on
 * it from then on. */
struct kl_amx_config {
    uint8_t bytes[64];
};
bool kl_amx_begin(struct kl_amx_config *before); /* returns the argument `few` for kl_amx_square */
void kl_amx_end(const struct kl_amx_config *before);
/* A tile of the result: 32 x 32 float32. */
struct kl_amx_place {
    float *at;
    int64_t pitch; /* elements from one row to the next */
};
/* A left operand: two panels of 16 rows, in tiles of 32 elements along k. It is packed or, with one
 * bfloat16 part, read in place. */
struct kl_amx_left {
    const uint16_t *at;
    /* Elements from one row of a tile to the next: KL_AMX_DEPTH where it is packed. */
    int64_t row;
    int64_t step;  /* elements from one tile to the next along k */
    int64_t panel; /* elements from the upper panel to the lower one */
};
/* to = from + a b, over n tiles along k; from may be `to`, or NULL for zeros. For each step along
 * k, a has bf16_parts tiles of 16 rows by 32, and b has bf16_parts times two tiles of 32 by 16,
 * with two rows of b interleaved; see pack_amx.h. An operand is the sum of its parts, the largest
 * first. Of three parts (float32) the products of the second with the third and of the third with
 * itself are left out: 2^-24 of the whole product at most. With `few` tile registers b is read
 * twice, so n should be so small that b stays in L1; the bits are the same. */
void kl_amx_square(bool few, int bf16_parts, int64_t n, const struct kl_amx_left *a,
                   const uint16_t *b, const struct kl_amx_place *from,
                   const struct kl_amx_place *to);

#ifdef KL_TEST_HOOKS
void kl_test_amx_few(int few); /* replaces the result of kl_amx_begin; -1: it is measured */
#endif
