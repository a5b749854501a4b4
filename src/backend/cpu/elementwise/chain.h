/* chain.h - operations of float32 one after the other on a tile, with the values between them in
 * registers. For fusion.c. */
#pragma once
#include <stdint.h>

/* Operations on a value, which is the left operand, but for SUBTRACT_FROM and DIVIDE_INTO. */
enum kl_chain_op {
    KL_CHAIN_NONE,
    KL_CHAIN_ADD,
    KL_CHAIN_SUBTRACT,
    KL_CHAIN_SUBTRACT_FROM,
    KL_CHAIN_MULTIPLY,
    KL_CHAIN_DIVIDE,
    KL_CHAIN_DIVIDE_INTO,
    KL_CHAIN_ADD_SQUARE, /* of the other operand */
    KL_CHAIN_SUBTRACT_SQUARE,
    KL_CHAIN_SUBTRACT_FROM_SQUARE,
    KL_CHAIN_SQUARE,
    KL_CHAIN_NEGATIVE
};
struct kl_chain_link {
    enum kl_chain_op op;
    const float *x; /* the other operand; not read by operations of one */
};

/* out = first, changed by each link, for n elements. out may be exactly one of the operands. */
void kl_cpu_chain_f32(int64_t n, float *out, const float *first, const struct kl_chain_link *links,
                      int n_links);
