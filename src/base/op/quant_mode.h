/* quant_mode.h - the modes of quantization (quant_mode.def) and the facts of their rows. The
 * functions are inline because kernels ask for each group: for a mode and a kind that is a constant
 * they are one comparison. */
#pragma once
#include <stdbool.h>

enum kl_quant_mode {
#define KL_QUANT_MODE(ID, ...) KL_QUANT_##ID,
#include "base/op/quant_mode.def"
    KL_N_QUANT_MODES
};
enum kl_quant_scales { KL_SCALES_FLOAT, KL_SCALES_E8M0, KL_SCALES_E4M3 };
enum kl_quant_numbers { KL_NUMBERS_INTEGER, KL_NUMBERS_E2M1, KL_NUMBERS_E4M3 };

static inline bool kl_quant_scales_are(enum kl_quant_mode mode, enum kl_quant_scales scales) {
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, scales_, numbers_) \
    if (mode == KL_QUANT_##ID && scales == KL_SCALES_##scales_) return true;
#include "base/op/quant_mode.def"
    return false;
}
static inline bool kl_quant_numbers_are(enum kl_quant_mode mode, enum kl_quant_numbers numbers) {
#define KL_QUANT_MODE(ID, name, group_sizes, bits, group_size, n_bits, scales_, numbers_) \
    if (mode == KL_QUANT_##ID && numbers == KL_NUMBERS_##numbers_) return true;
#include "base/op/quant_mode.def"
    return false;
}
/* A number is scale * code + bias. */
static inline bool kl_quant_has_biases(enum kl_quant_mode mode) {
    return kl_quant_scales_are(mode, KL_SCALES_FLOAT);
}
static inline bool kl_quant_takes_global_scale(enum kl_quant_mode mode) {
    return kl_quant_scales_are(mode, KL_SCALES_E4M3);
}
