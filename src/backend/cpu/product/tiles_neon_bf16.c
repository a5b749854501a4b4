/* tiles_neon_bf16.c - see tiles_neon_bf16.h. */
#include "backend/cpu/product/tiles_neon_bf16.h"

#if defined __aarch64__ && defined __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
#include <arm_neon.h>

#include "base/platform/processors.h"

enum { PAIRS = KL_BFMMLA_LINES / 2 };

bool kl_bfmmla_there(void) {
    return kl_processors_have(KL_ARM_BF16);
}

static inline bfloat16x8_t pair_at(const uint16_t *from) {
    return vreinterpretq_bf16_u16(vld1q_u16(from));
}

/* A sum has two neighbours of one row, then those below. */
void kl_bfmmla_tile(int64_t n, const uint16_t *a, const uint16_t *b, float *c, int64_t pitch,
                    bool add) {
    float32x4_t sum[PAIRS][PAIRS];
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++) {
            const float *at = c + 2 * i * pitch + 2 * j;
            sum[i][j] = add ? vcombine_f32(vld1_f32(at), vld1_f32(at + pitch)) : vdupq_n_f32(0);
        }
    for (; n > 0; n--, a += 8 * PAIRS, b += 8 * PAIRS) {
        bfloat16x8_t left[PAIRS], right[PAIRS];
#pragma GCC unroll 4
        for (int i = 0; i < PAIRS; i++) left[i] = pair_at(a + 8 * i), right[i] = pair_at(b + 8 * i);
#pragma GCC unroll 4
        for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
            for (int j = 0; j < PAIRS; j++) sum[i][j] = vbfmmlaq_f32(sum[i][j], left[i], right[j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < PAIRS; j++) {
            float *at = c + 2 * i * pitch + 2 * j;
            vst1_f32(at, vget_low_f32(sum[i][j]));
            vst1_f32(at + pitch, vget_high_f32(sum[i][j]));
        }
}
#else
bool kl_bfmmla_there(void) {
    return false;
}
void kl_bfmmla_tile(int64_t n, const uint16_t *a, const uint16_t *b, float *c, int64_t pitch,
                    bool add) {
}
#endif
