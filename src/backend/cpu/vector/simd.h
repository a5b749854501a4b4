/* simd.h - float32 in one vector register of the variant, and runs of 32 16-bit floats. This is the
 * only vocabulary of vectors: the file of an instruction set below defines it, and nothing here
 * knows an intrinsic. KL_HAS_SIMD is 0 where there is no such file; kernels then use plain loops of
 * the same reduction tree. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/vector/lanes.h"
#include "base/number/half.h"

enum { KL_HALVES = 32 }; /* elements of a run */

/* The functions that the file of an instruction set defines.
 *
 * One vector, kl_simd, of KL_SIMD float32 lanes in the order of memory:
 * kl_simd_set(x): every lane is x.
 * kl_simd_load_{f32,f16,bf16}(x): KL_SIMD elements, widened. A bfloat16 NaN keeps its bits; the
 *     first operation on it makes it quiet.
 * kl_simd_store_{f32,f16}(y, v): KL_SIMD elements, rounded to nearest.
 * kl_simd_store_bf16(y, a, b): the elements of a, then those of b. A NaN must come from arithmetic
 *     (see kl_store_bf16).
 * kl_simd_{add,sub,mul}(a, b), kl_simd_fma(a, b, c): a b + c with one rounding.
 * kl_simd_max(a, b): a > b ? a : b; so b where either is NaN.
 * kl_simd_clear(v, bits): v without these bits of each lane.
 * kl_simd_power(v): the power of two whose biased exponent the low bits of v hold.
 * kl_simd_fraction(u): u less the whole number below.
 * kl_simd_scale(y, u): y 2^n, n being the whole number below u.
 * kl_simd_zip_{low,high}[_2](a, b): lanes (pairs of lanes) of a and b in turn, in each 128 bits.
 * kl_simd_transpose(t): transposes a square of KL_SIMD vectors.
 * KL_WIDE_PARTS: the vectors of 16 elements.
 *
 * Runs of KL_HALVES 16-bit floats, as float32 in memory that the compiler keeps in registers. The
 * order of what is loaded is the variant's own (float16: that of memory). It is the same for every
 * load, and every store undoes it, which saves the instructions that restore the order;
 * element-wise functions do not depend on it.
 * kl_load_{f16,bf16}(y, x), kl_store_{f16,bf16}(y, x): a bfloat16 NaN is stored correctly only if
 *     arithmetic on loaded values made it: it is quiet then, and has no bits that rounding would
 *     carry into the sign. So a store does not look for NaN.
 * kl_ordinary_bf16(x): whether all elements are positive, normal and finite.
 * kl_clamp_halves(x, lo, hi): to at least lo and at most hi; NaN stays NaN. By intrinsics, because
 *     gcc makes five instructions of it where two are enough. */

/* t[0 .. 3]: element k of each group of four lanes goes to v##k; four groups of four. */
#define KL_SIMD_FOUR(v, t)                                                                   \
    kl_simd v##p = kl_simd_zip_low((t)[0], (t)[1]), v##q = kl_simd_zip_high((t)[0], (t)[1]), \
            v##r = kl_simd_zip_low((t)[2], (t)[3]), v##s = kl_simd_zip_high((t)[2], (t)[3]); \
    kl_simd v##0 = kl_simd_zip_low_2(v##p, v##r), v##1 = kl_simd_zip_high_2(v##p, v##r),     \
            v##2 = kl_simd_zip_low_2(v##q, v##s), v##3 = kl_simd_zip_high_2(v##q, v##s)

#define KL_HAS_SIMD 1
#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__
#include "backend/cpu/vector/simd_avx512.h"
#elif defined __AVX2__ && defined __F16C__ && defined __FMA__
#include "backend/cpu/vector/simd_avx2.h"
#elif defined __aarch64__ && defined __ARM_NEON
#include "backend/cpu/vector/simd_neon.h"
#else
#undef KL_HAS_SIMD
#define KL_HAS_SIMD 0
#endif
#ifndef KL_HAS_NARROW_BF16
#define KL_HAS_NARROW_BF16 0
#endif

#if KL_HAS_SIMD
KL_INLINE kl_simd kl_simd_squared(kl_simd v) {
    return v * v;
}
#endif
