/* cpu_amx.h - the tile registers of x86-64 (AMX), for products of bfloat16: 16 times as many a cycle as in vectors of float32. Compiled once, beside the variants. */
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
void kl_amx_begin(struct kl_amx_config *before);
void kl_amx_end(const struct kl_amx_config *before);
/* c = a b, or c += a b (add), 32 x 32 float32 with rows `pitch` apart. a: 2 x n tiles of 16 rows by 32, of two panels a_tiles tiles apart; b: n x 2 of 32 by 16, two rows of it interleaved; see
 * cpu_matmul.c. */
void kl_amx_block(int64_t n, const uint16_t *a, int64_t a_tiles, const uint16_t *b, float *c,
                  int64_t pitch, bool add);
