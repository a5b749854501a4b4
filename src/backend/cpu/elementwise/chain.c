/* chain.c - see chain.h. No value is stored and loaded again between two operations, and the
 * next operation is looked for once for MANY vectors. Each operation rounds as its map does
 * (binary.c, unary.c). */
#include "backend/cpu/elementwise/chain.h"

#include <string.h>

#include "base/op/task.h"

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

FIXED void read_vectors(int n, vec *v, const float *x) {
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) v[k] = at(x + k * LANES);
}

FIXED void write_vectors(int n, float *out, const vec *v) {
#pragma GCC unroll 16
    for (int k = 0; k < n; k++) *(loose *)(out + k * LANES) = v[k];
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

/* MANY vectors at a time for as many of n elements as that gives; returns how many. Each operation
 * jumps to the next one itself, whose address was looked up before: four instructions where a
 * switch in a loop takes fourteen. */
static int64_t many_vectors(int64_t n, float *out, const float *first,
                            const struct kl_chain_link *links, int n_links) {
    static const void *const places[] = {
        [KL_CHAIN_ADD] = &&add,
        [KL_CHAIN_SUBTRACT] = &&subtract,
        [KL_CHAIN_SUBTRACT_FROM] = &&subtract_from,
        [KL_CHAIN_MULTIPLY] = &&multiply,
        [KL_CHAIN_DIVIDE] = &&divide,
        [KL_CHAIN_DIVIDE_INTO] = &&divide_into,
        [KL_CHAIN_ADD_SQUARE] = &&add_square,
        [KL_CHAIN_SUBTRACT_SQUARE] = &&subtract_square,
        [KL_CHAIN_SUBTRACT_FROM_SQUARE] = &&subtract_from_square,
        [KL_CHAIN_SQUARE] = &&square,
        [KL_CHAIN_NEGATIVE] = &&negative,
    };
    struct {
        const void *place;
        const float *x;
    } steps[KL_FUSION_STEPS + 1], *step;
    vec v[MANY];
    int64_t i = 0;
    for (int k = 0; k < n_links; k++) {
        steps[k].place = places[links[k].op];
        steps[k].x = links[k].x ? links[k].x : first; /* not read where it is NULL */
    }
    steps[n_links].place = &&end;
    steps[n_links].x = first;
#define GO_ON                                  \
    do {                                       \
        const void *const place = step->place; \
        x = step++->x + i;                     \
        goto *place;                           \
    } while (0)
#define PLACE(NAME, OP)     \
    NAME:                   \
    change(OP, MANY, v, x); \
    GO_ON
    for (; i + MANY * LANES <= n; i += MANY * LANES) {
        const float *x;
        step = steps;
        read_vectors(MANY, v, first + i);
        GO_ON;
        PLACE(add, KL_CHAIN_ADD);
        PLACE(subtract, KL_CHAIN_SUBTRACT);
        PLACE(subtract_from, KL_CHAIN_SUBTRACT_FROM);
        PLACE(multiply, KL_CHAIN_MULTIPLY);
        PLACE(divide, KL_CHAIN_DIVIDE);
        PLACE(divide_into, KL_CHAIN_DIVIDE_INTO);
        PLACE(add_square, KL_CHAIN_ADD_SQUARE);
        PLACE(subtract_square, KL_CHAIN_SUBTRACT_SQUARE);
        PLACE(subtract_from_square, KL_CHAIN_SUBTRACT_FROM_SQUARE);
        PLACE(square, KL_CHAIN_SQUARE);
        PLACE(negative, KL_CHAIN_NEGATIVE);
    end:
        write_vectors(MANY, out + i, v);
    }
    return i;
}

/* One vector from element `i` on. */
static void one_vector(int64_t i, float *out, const float *first, const struct kl_chain_link *links,
                       int n_links) {
    vec v;
    read_vectors(1, &v, first + i);
    for (const struct kl_chain_link *l = links; l < links + n_links; l++)
        change(l->op, 1, &v, l->x ? l->x + i : NULL);
    write_vectors(1, out + i, &v);
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
    int64_t i = many_vectors(n, out, first, links, n_links);
    for (; i + LANES <= n; i += LANES) one_vector(i, out, first, links, n_links);
    if (i < n) rest(n - i, i, out, first, links, n_links);
}
