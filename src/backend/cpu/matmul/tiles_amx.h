/* tiles_amx.h - the tile registers of x86-64 (AMX), for products of bfloat16: 16 times as many a cycle as in vectors of float32; and for those of float32 and float16, whose elements are sums of three and two bfloat16. Compiled once, beside the variants. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
    KL_AMX_ROWS = 32,  /* of a block of the result, and its columns */
    KL_AMX_DEPTH = 32, /* of a tile: elements along k */
};

/* Whether this CPU has it and the system lets the process use it (asked for at the first call). */
bool kl_amx_there(void);
/* Around the use of the others, in each thread. What the thread's tiles were configured for comes back at the end: oneDNN, for one, configures them once and relies on it from then on. */
struct kl_amx_config {
    uint8_t bytes[64];
};
bool kl_amx_begin(struct kl_amx_config *before); /* `few` for kl_amx_square */
void kl_amx_end(const struct kl_amx_config *before);
/* A block of a result, 32 x 32 float32. */
struct kl_amx_place {
    float *at;
    int64_t pitch; /* elements from row to row */
};
/* A left operand: two panels of 16 rows, in tiles of 32 along k. Packed, or, of one piece, where it lies. */
struct kl_amx_left {
    const uint16_t *at;
    int64_t row;   /* elements from row to row of a tile: KL_AMX_DEPTH where it is packed */
    int64_t step;  /* to the next 32 along k */
    int64_t panel; /* from the upper panel to the lower one */
};
/* to = from + a b, where from may be to, or NULL for zeros, over n steps of 32 along k. a: per step `pieces` tiles of 16 rows by 32; b: per step `pieces` times two tiles of
 * 32 by 16, two rows of it interleaved; see pack_amx.h. With few tiles in use b is read twice, and n should be so small that it stays in L1; the bits are the same. Operands are the sums of their pieces, the largest first. Of three pieces (float32) the products of the second with the third and of the third with itself are left out: 2^-24 of
 * the whole product at most. */
void kl_amx_square(bool few, int bf16_parts, int64_t n, const struct kl_amx_left *a,
                   const uint16_t *b, const struct kl_amx_place *from,
                   const struct kl_amx_place *to);

#ifdef KL_TEST_HOOKS
void kl_test_amx_few(int few); /* what kl_amx_begin is to return; -1: what it finds */
#endif
