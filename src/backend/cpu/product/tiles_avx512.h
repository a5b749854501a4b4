/* tiles_avx512.h - products of bfloat16 by the instruction vdpbf16ps (AVX-512 BF16), which adds two
 * products to each of 16 sums. Operands are packed as for tile registers (tiles_amx.h). Compiled
 * once, apart from the variants. */
#pragma once
#include "backend/cpu/product/tiles_amx.h"

/* Whether this CPU has the instruction. */
bool kl_bf16_there(void);
/* Whether it is expected to multiply faster than float32 is multiplied: on AMD's processors. On
 * Intel's with tile registers it runs at a quarter of the rate of a multiply-add of float32, which
 * does half as much. */
bool kl_bf16_is_fast(void);
/* kl_amx_square for one bfloat16 part. b should stay in L1, so n should be small. */
void kl_bf16_square(int64_t n, const struct kl_amx_left *a, const uint16_t *b,
                    const struct kl_amx_place *from, const struct kl_amx_place *to);
