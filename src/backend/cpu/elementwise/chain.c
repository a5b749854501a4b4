/* chain.c - see chain.h. No value is stored and loaded again between two operations, and what the
 * next operation is, is looked up once for MANY vectors. Each operation rounds as its map does
 * (binary.c, unary.c). */
#include "backend/cpu/elementwise/chain.h"

#include <string.h>

/* MANY: vectors at a time. */
#if defined __AVX512F__
enum { VECTOR = 64, MANY = 8 };
#elif defined __AVX__
enum { VECTOR = 32, MANY = 8 };
#elif defined __aarch64__
enum { VECTOR = 16, MANY = 16 };
#else
enum { VECTOR = 16, MANY = 8 };
#endif
enum { LANES = VECTOR / 4 };
typedef float vec __attribute__((vector_size(VECTOR)));
typedef float loose __attribute__((vector_size(VECTOR), aligned(4)));
typedef uint32_t bits __attribute__((vector_size(VECTOR)));

#define FIXED static inline __attribute__((always_inline))

FIXED vec at(const float *x) {
    return *(const loose *)x;
}

FIXED vec square_at(const float *x) {
    return at(x) * at(x);
}

/* v[k] = RESULT for all vectors. */
#define EACH_VECTOR(RESULT)                                                 \
    do {                                                                    \
        _Pragma("GCC unroll 16") for (int k = 0; k < n; k++) v[k] = RESULT; \
    } while (0)

FIXED void change(enum kl_chain_op op, int n, vec *v, const float *x) {
    switch (op) {
    case KL_CHAIN_ADD: EACH_VECTOR(v[k] + at(x + k * LANES)); break;
    case KL_CHAIN_SUBTRACT: EACH_VECTOR(v[k] - at(x + k * LANES)); break;
    case KL_CHAIN_SUBTRACT_FROM: EACH_VECTOR(at(x + k * LANES) - v[k]); break;
    case KL_CHAIN_MULTIPLY: EACH_VECTOR(v[k] * at(x + k * LANES)); break;
    case KL_CHAIN_DIVIDE: EACH_VECTOR(v[k] / at(x + k * LANES)); break;
    case KL_CHAIN_DIVIDE_INTO: EACH_VECTOR(at(x + k * LANES) / v[k]); break;
    case KL_CHAIN_ADD_SQUARE: EACH_VECTOR(v[k] + square_at(x + k * LANES)); break;
    case KL_CHAIN_SUBTRACT_SQUARE: EACH_VECTOR(v[k] - square_at(x + k * LANES)); break;
    case KL_CHAIN_SUBTRACT_FROM_SQUARE: EACH_VECTOR(square_at(x + k * LANES) - v[k]); break;
    case KL_CHAIN_SQUARE: EACH_VECTOR(v[k] * v[k]); break;
    case KL_CHAIN_NEGATIVE: EACH_VECTOR((vec)((bits)v[k] ^ UINT32_C(1) << 31)); break;
    case KL_CHAIN_NONE: break;
    }
}

/* `n` (a constant) vectors from element `i` on. */
FIXED void some_vectors(int n, int64_t i, float *out, const float *first,
                        const struct kl_chain_link *links, int n_links) {
    vec v[MANY];
    EACH_VECTOR(at(first + i + k * LANES));
    for (const struct kl_chain_link *l = links; l < links + n_links; l++)
        change(l->op, n, v, l->x ? l->x + i : NULL);
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) *(loose *)(out + i + k * LANES) = v[k];
}

/* The last n elements, from `i` on: fewer than a vector, with ones after them. */
static void rest(int64_t n, int64_t i, float *out, const float *first,
                 const struct kl_chain_link *links, int n_links) {
    vec v = 1 - (vec){0};
    memcpy(&v, first + i, (size_t)n * sizeof *first);
    for (const struct kl_chain_link *l = links; l < links + n_links; l++) {
        vec x = 1 - (vec){0};
        if (l->x) memcpy(&x, l->x + i, (size_t)n * sizeof *first);
        change(l->op, 1, &v, (const float *)&x);
    }
    memcpy(out + i, &v, (size_t)n * sizeof *out);
}

void kl_cpu_chain_f32(int64_t n, float *out, const float *first, const struct kl_chain_link *links,
                      int n_links) {
    int64_t i = 0;
    for (; i + MANY * LANES <= n; i += MANY * LANES)
        some_vectors(MANY, i, out, first, links, n_links);
    for (; i + LANES <= n; i += LANES) some_vectors(1, i, out, first, links, n_links);
    if (i < n) rest(n - i, i, out, first, links, n_links);
}
