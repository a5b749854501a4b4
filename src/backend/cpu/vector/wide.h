/* wide.h - sixteen float32 in the widest registers (kl_wide: one AVX-512 vector, two of AVX2, four
 * of NEON), and runs of 32 elements (kl_pair). Every function gives the same bits in every variant.
 * The structures are passed to functions that are always inlined: gcc keeps arrays of 16, and
 * vectors wider than the registers, in memory. A pair loaded from bfloat16 has the order of
 * kl_load_bf16 (simd.h), which sums and stores take into account. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/vector/simd.h"

enum { KL_WIDE_LANES = 16, KL_PAIR_LANES = 32 };

/* A loop over n elements with room for whole vectors: a third of the code of a loop over any n. */
#define KL_EACH_WIDE(k, n)                                       \
    for (int64_t k##_0 = 0; k##_0 < (n); k##_0 += KL_WIDE_LANES) \
    KL_WIDE_LOOP for (int64_t k = k##_0; k < k##_0 + KL_WIDE_LANES; k++)
#ifdef __clang__
#define KL_WIDE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define KL_WIDE_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

#if KL_HAS_SIMD
#if KL_WIDE_PARTS == 1
typedef struct {
    kl_simd v;
} kl_wide;
#define KL_WIDE_OF(v) ((kl_wide){v})
#define KL_WIDE_1(f, a) ((kl_wide){f((a).v)})
#define KL_WIDE_2(f, a, b) ((kl_wide){f((a).v, (b).v)})
#define KL_WIDE_3(f, a, b, c) ((kl_wide){f((a).v, (b).v, (c).v)})
#define KL_WIDE_LOAD(f, x) ((kl_wide){f(x)})
#elif KL_WIDE_PARTS == 2
typedef struct {
    kl_simd v, w;
} kl_wide;
#define KL_WIDE_OF(v) ((kl_wide){v, v})
#define KL_WIDE_1(f, a) ((kl_wide){f((a).v), f((a).w)})
#define KL_WIDE_2(f, a, b) ((kl_wide){f((a).v, (b).v), f((a).w, (b).w)})
#define KL_WIDE_3(f, a, b, c) ((kl_wide){f((a).v, (b).v, (c).v), f((a).w, (b).w, (c).w)})
#define KL_WIDE_LOAD(f, x) ((kl_wide){f(x), f((x) + KL_SIMD)})
#else
typedef struct {
    kl_simd v, w, x, y;
} kl_wide;
#define KL_WIDE_OF(v) ((kl_wide){v, v, v, v})
#define KL_WIDE_1(f, a) ((kl_wide){f((a).v), f((a).w), f((a).x), f((a).y)})
#define KL_WIDE_2(f, a, b) \
    ((kl_wide){f((a).v, (b).v), f((a).w, (b).w), f((a).x, (b).x), f((a).y, (b).y)})
#define KL_WIDE_3(f, a, b, c)                                                          \
    ((kl_wide){f((a).v, (b).v, (c).v), f((a).w, (b).w, (c).w), f((a).x, (b).x, (c).x), \
               f((a).y, (b).y, (c).y)})
#define KL_WIDE_LOAD(f, x) \
    ((kl_wide){f(x), f((x) + KL_SIMD), f((x) + 2 * KL_SIMD), f((x) + 3 * KL_SIMD)})
#endif
KL_INLINE kl_wide kl_wide_set(float x) {
    const kl_simd v = kl_simd_set(x);
    return KL_WIDE_OF(v);
}
KL_INLINE kl_wide kl_wide_load(const float *x) {
    return KL_WIDE_LOAD(kl_simd_load_f32, x);
}
KL_INLINE kl_wide kl_wide_load_bf16(const uint16_t *x) {
    return KL_WIDE_LOAD(kl_simd_load_bf16, x);
}
KL_INLINE kl_wide kl_wide_load_f16(const uint16_t *x) {
    return KL_WIDE_LOAD(kl_simd_load_f16, x);
}
KL_INLINE void kl_wide_store(float *y, kl_wide x) {
    kl_simd_store_f32(y, x.v);
#if KL_WIDE_PARTS > 1
    kl_simd_store_f32(y + KL_SIMD, x.w);
#endif
#if KL_WIDE_PARTS == 4
    kl_simd_store_f32(y + 2 * KL_SIMD, x.x);
    kl_simd_store_f32(y + 3 * KL_SIMD, x.y);
#endif
}
KL_INLINE kl_wide kl_wide_add(kl_wide x, kl_wide y) {
    return KL_WIDE_2(kl_simd_add, x, y);
}
KL_INLINE kl_wide kl_wide_sub(kl_wide x, kl_wide y) {
    return KL_WIDE_2(kl_simd_sub, x, y);
}
KL_INLINE kl_wide kl_wide_mul(kl_wide x, kl_wide y) {
    return KL_WIDE_2(kl_simd_mul, x, y);
}
/* x > y ? x : y; so the second one where either is NaN. */
KL_INLINE kl_wide kl_wide_max(kl_wide x, kl_wide y) {
    return KL_WIDE_2(kl_simd_max, x, y);
}
KL_INLINE kl_wide kl_wide_fma(kl_wide a, kl_wide b, kl_wide c) {
    return KL_WIDE_3(kl_simd_fma, a, b, c);
}
KL_INLINE kl_wide kl_wide_clear(kl_wide x, int bits) {
#define KL_CLEAR(v) kl_simd_clear(v, bits)
    return KL_WIDE_1(KL_CLEAR, x);
#undef KL_CLEAR
}
KL_INLINE kl_wide kl_wide_power(kl_wide x) {
    return KL_WIDE_1(kl_simd_power, x);
}
KL_INLINE kl_wide kl_wide_fraction(kl_wide u) {
    return KL_WIDE_1(kl_simd_fraction, u);
}
KL_INLINE kl_wide kl_wide_scale(kl_wide y, kl_wide u) {
    return KL_WIDE_2(kl_simd_scale, y, u);
}

/* ---- pairs ---- */
typedef struct {
    kl_wide a, b;
} kl_pair;
KL_INLINE kl_pair kl_pair_load(const float *x) {
    return (kl_pair){kl_wide_load(x), kl_wide_load(x + KL_WIDE_LANES)};
}
KL_INLINE void kl_pair_store(float *y, kl_pair x) {
    kl_wide_store(y, x.a);
    kl_wide_store(y + KL_WIDE_LANES, x.b);
}
KL_INLINE kl_pair kl_pair_set(float x) {
    return (kl_pair){kl_wide_set(x), kl_wide_set(x)};
}
/* float32 and float16 keep the order of memory; bfloat16 has the order of kl_load_bf16. */
KL_INLINE kl_pair kl_pair_load_f32(const float *x) {
    return kl_pair_load(x);
}
KL_INLINE void kl_pair_store_f32(float *y, kl_pair x) {
    kl_pair_store(y, x);
}
#define KL_PAIR_LOAD(name, load)                \
    KL_INLINE kl_pair name(const uint16_t *x) { \
        _Alignas(64) float room[KL_HALVES];     \
        load(room, x);                          \
        return kl_pair_load(room);              \
    }
#define KL_PAIR_STORE(name, store)                \
    KL_INLINE void name(uint16_t *y, kl_pair x) { \
        _Alignas(64) float room[KL_HALVES];       \
        kl_pair_store(room, x);                   \
        store(y, room);                           \
    }
KL_PAIR_LOAD(kl_pair_load_bf16, kl_load_bf16)
KL_PAIR_LOAD(kl_pair_load_f16, kl_load_f16)
KL_PAIR_STORE(kl_pair_store_bf16, kl_store_bf16)
KL_PAIR_STORE(kl_pair_store_f16, kl_store_f16)

/* The lane of a pair in which element k of a run of bfloat16 is after a load. */
KL_INLINE int kl_place_bf16(int k) {
#if KL_WIDE_PARTS == 1
    return k % 2 * 16 + k / 2;
#elif KL_WIDE_PARTS == 2
    return k / 16 * 16 + k % 2 * 8 + k % 16 / 2;
#else
    return k;
#endif
}

#if KL_WIDE_PARTS == 4
#include "backend/cpu/vector/wide_neon.h"
#else
#include "backend/cpu/vector/wide_x86.h"
#endif
#endif
