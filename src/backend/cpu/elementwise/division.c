/* division.c - maps of the quotient rounded down, its remainder, and powers of integers; see map.h.
 * x86 does not divide integers in vectors: quotients of 8 and 16 bits are computed in float32,
 * those of 32 bits in float64, and an integer by which a whole run is divided becomes a multiplier
 * (division.inc). Remainders of floats are steps of a division of float64, which is exact as long
 * as quotients are below 2^53 (remainder_step). */
#include <math.h>
#include <string.h>

#include "backend/cpu/elementwise/map.h"

/* Floats go through blocks: what is rare is looked for in a whole block. */
enum { BLOCK = 128 };

/* ---- quotients of floats ---- */

/* The floor of the exact quotient, rounded once. The rounded quotient q can lie at or above a whole
 * number that the exact one lies below: then a - floor(q) b, which an fma gives with its sign, has
 * not the sign of b. From WHOLE on every q is whole, and the exact quotient is q + (a - q b) / b,
 * whose second part is rounded down alike; from FAR on it is below half of the last place. */
#define DEFINE_QUOTIENT(NAME, T, FLOOR, FMA, FABS, WHOLE, FAR)                          \
    static inline T lowered_##NAME(T n, T rest, T b) {                                  \
        return n - (T)((rest != 0) & ((rest < 0) != (b < 0)));                          \
    }                                                                                   \
    static inline T near_##NAME(T a, T b) {                                             \
        const T q = a / b, n = FLOOR(q);                                                \
        const T y = lowered_##NAME(n, n == 0 ? a : FMA(-n, b, a), b);                   \
        return FABS(a) == (T)INFINITY ? (T)NAN : y;                                     \
    }                                                                                   \
    static inline T far_##NAME(T a, T b) {                                              \
        const T q = a / b, rest = FMA(-q, b, a), m = FLOOR(rest / b);                   \
        const T y = FABS(q) < FAR ? q + lowered_##NAME(m, FMA(-m, b, rest), b) : q;     \
        return FABS(q) < WHOLE ? near_##NAME(a, b) : FABS(a) == (T)INFINITY ? NAN : y;  \
    }                                                                                   \
    static void floor_divide_##NAME(int64_t n, void *out, const void *a, const void *b, \
                                    const void *c) {                                    \
        const T *x = a, *y = b;                                                         \
        T *z = out;                                                                     \
        for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK, z += BLOCK) { \
            const int64_t m = kl_min64(n - at, BLOCK);                                  \
            int far = 0;                                                                \
            KL_EACH(i, m) far |= FABS(x[i]) >= WHOLE * FABS(y[i]);                      \
            if (far)                                                                    \
                KL_EACH(i, m) z[i] = far_##NAME(x[i], y[i]);                            \
            else                                                                        \
                KL_EACH(i, m) z[i] = near_##NAME(x[i], y[i]);                           \
        }                                                                               \
    }
/* defines lowered_f32, near_f32, far_f32, floor_divide_f32 */
DEFINE_QUOTIENT(f32, float, floorf, fmaf, fabsf, 0x1p24f, 0x1p50f)
/* defines lowered_f64, near_f64, far_f64, floor_divide_f64 */
DEFINE_QUOTIENT(f64, double, floor, fma, fabs, 0x1p53, 0x1p108)

/* ---- remainders of floats: exact, then the divisor is added once where the signs differ; a zero
 * has the sign of a ---- */
enum { AGAIN = 1, BEYOND = 2 };

/* Takes a multiple of d[i] from r[i]: a whole number near the quotient, at most 1 above it in
 * magnitude, so that what is left is below d[i] in magnitude, or of the other sign and at most
 * d[i]. It is exact, as a multiple of the last places of both which fits into 53 bits. Returns
 * AGAIN where a quotient has more than 53 bits: then what is left is smaller by 2^52 or more at
 * each step; and BEYOND where a quotient is beyond the range of float64. */
static int remainder_step(int64_t m, double *r, const double *d) {
    int64_t again = 0, beyond = 0;
    KL_EACH(i, m) {
        const double q = r[i] / d[i], n = trunc(q), size = fabs(q);
        again |= (size >= 0x1p53) & (size < (double)INFINITY);
        beyond |= (size == (double)INFINITY) & (d[i] != 0) & (fabs(r[i]) < (double)INFINITY);
        r[i] = n == 0 ? r[i] : fma(-n, d[i], r[i]);
    }
    return (again ? AGAIN : 0) | (beyond ? BEYOND : 0);
}
/* r after the last step, with the sign of a. */
static inline double remainder_signed(double r, double d, double a) {
    double y = (r < 0) != (a < 0) && r != 0 ? r + copysign(d, a) : r;
    return y == 0 ? copysign(y, a) : y;
}
static void remainder_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const float *x = a, *y = b;
    float *z = out;
    double r[BLOCK], d[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK, z += BLOCK) {
        const int64_t m = kl_min64(n - at, BLOCK);
        KL_EACH(i, m) r[i] = (double)x[i];
        KL_EACH(i, m) d[i] = (double)y[i];
        while (remainder_step(m, r, d)) {
        }
        KL_EACH(i, m) {
            const float e = (float)remainder_signed(r[i], d[i], (double)x[i]);
            z[i] = e != 0 && (e < 0) != (y[i] < 0) ? e + y[i] : e;
        }
    }
}
static inline double remainder_added(double r, double b) {
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static void remainder_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const double *x = a, *y = b;
    double *z = out, r[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK, x += BLOCK, y += BLOCK, z += BLOCK) {
        const int64_t m = kl_min64(n - at, BLOCK);
        int left = AGAIN;
        memcpy(r, x, (size_t)m * sizeof *r);
        while (left == AGAIN) left = remainder_step(m, r, y);
        if (left)
            for (int64_t i = 0; i < m; i++) z[i] = remainder_added(fmod(x[i], y[i]), y[i]);
        else
            KL_EACH(i, m) z[i] = remainder_added(remainder_signed(r[i], y[i], x[i]), y[i]);
    }
}

/* ---- integers ---- */
__extension__ typedef unsigned __int128 u128;
#define NO_SIGN(x) false
#define BELOW_0(x) ((x) < 0)

/* The quotient of magnitudes, a / b rounded down, b not 0. A rounded quotient is never a whole
 * number that the exact one lies below: the exact one is at least 1 / b below any, which is more
 * than the rounding error. */
static inline uint32_t quotient_of_16_bits(uint32_t a, uint32_t b) {
    return (uint32_t)(int32_t)((float)(int32_t)a / (float)(int32_t)b);
}
#ifdef __aarch64__
static inline uint32_t quotient_of_32_bits(uint32_t a, uint32_t b) {
    return (uint32_t)((double)a / (double)b);
}
#else
/* Numbers are moved by 2^31, because only signed ones are converted by one instruction of AVX2. */
static inline double wide_of_u32(uint32_t a) {
    return (double)(int32_t)(a ^ UINT32_C(1) << 31) + 0x1p31;
}
static inline uint32_t quotient_of_32_bits(uint32_t a, uint32_t b) {
    const double q = wide_of_u32(a) / wide_of_u32(b);
    /* Rounded down before it is moved: a conversion rounds negative numbers up. */
    return (uint32_t)(int32_t)(floor(q) - 0x1p31) ^ UINT32_C(1) << 31;
}
#endif
#ifdef __AVX512DQ__
#define IS_SCALAR_64 false
/* The first quotient is too small by at most 2^-49 of itself, so what it leaves is at most 2^15
 * times b; the second is too small by at most 1. */
static inline uint64_t quotient_of_64_bits(uint64_t a, uint64_t b) {
    const double per = (1 - 0x1p-50) / (double)b;
    uint64_t q = (uint64_t)((double)a * per), rest = a - q * b, more;
    more = (uint64_t)((double)rest * per);
    rest -= more * b;
    return q + more + (rest >= b);
}
#else
#define IS_SCALAR_64 true
static inline uint64_t quotient_of_64_bits(uint64_t a, uint64_t b) {
    return a / b;
}
#endif

#define NO_VECTORS(n, z, x, y, rest) 0
#ifdef __aarch64__
#include "backend/cpu/elementwise/division_neon.h"
#define I32_BY_VECTORS quotients_i32
#else
#define I32_BY_VECTORS NO_VECTORS
#endif

#define T uint8_t
#define U uint8_t
#define W uint16_t
#define NEGATIVE NO_SIGN
#define QUOTIENT quotient_of_16_bits
#define BY_MULTIPLIER true
#define BY_VECTORS NO_VECTORS
#define NAME u8
/* defines divisor_of_u8, times_u8, sign_u8, below_u8, divided_u8, floor_divide_u8,
 * remainder_u8, power_u8 */
#include "backend/cpu/elementwise/division.inc"
#define T uint16_t
#define U uint16_t
#define W uint32_t
#define NEGATIVE NO_SIGN
#define QUOTIENT quotient_of_16_bits
#define BY_MULTIPLIER true
#define BY_VECTORS NO_VECTORS
#define NAME u16
/* defines divisor_of_u16, times_u16, sign_u16, below_u16, divided_u16, floor_divide_u16,
 * remainder_u16, power_u16 */
#include "backend/cpu/elementwise/division.inc"
#define T uint32_t
#define U uint32_t
#define W uint64_t
#define NEGATIVE NO_SIGN
#define QUOTIENT quotient_of_32_bits
#define BY_MULTIPLIER true
#define BY_VECTORS NO_VECTORS
#define NAME u32
/* defines divisor_of_u32, times_u32, sign_u32, below_u32, divided_u32, floor_divide_u32,
 * remainder_u32, power_u32 */
#include "backend/cpu/elementwise/division.inc"
#define T uint64_t
#define U uint64_t
#define W u128
#define NEGATIVE NO_SIGN
#define QUOTIENT quotient_of_64_bits
#define BY_MULTIPLIER IS_SCALAR_64
#define BY_VECTORS NO_VECTORS
#define NAME u64
/* defines divisor_of_u64, times_u64, sign_u64, below_u64, divided_u64, floor_divide_u64,
 * remainder_u64, power_u64 */
#include "backend/cpu/elementwise/division.inc"
#define T int8_t
#define U uint8_t
#define W uint16_t
#define NEGATIVE BELOW_0
#define QUOTIENT quotient_of_16_bits
#define BY_MULTIPLIER true
#define BY_VECTORS NO_VECTORS
#define NAME i8
/* defines divisor_of_i8, times_i8, sign_i8, below_i8, divided_i8, floor_divide_i8,
 * remainder_i8, power_i8 */
#include "backend/cpu/elementwise/division.inc"
#define T int16_t
#define U uint16_t
#define W uint32_t
#define NEGATIVE BELOW_0
#define QUOTIENT quotient_of_16_bits
#define BY_MULTIPLIER true
#define BY_VECTORS NO_VECTORS
#define NAME i16
/* defines divisor_of_i16, times_i16, sign_i16, below_i16, divided_i16, floor_divide_i16,
 * remainder_i16, power_i16 */
#include "backend/cpu/elementwise/division.inc"
#define T int32_t
#define U uint32_t
#define W uint64_t
#define NEGATIVE BELOW_0
#define QUOTIENT quotient_of_32_bits
#define BY_MULTIPLIER true
#define BY_VECTORS I32_BY_VECTORS
#define NAME i32
/* defines divisor_of_i32, times_i32, sign_i32, below_i32, divided_i32, floor_divide_i32,
 * remainder_i32, power_i32 */
#include "backend/cpu/elementwise/division.inc"
#define T int64_t
#define U uint64_t
#define W u128
#define NEGATIVE BELOW_0
#define QUOTIENT quotient_of_64_bits
#define BY_MULTIPLIER IS_SCALAR_64
#define BY_VECTORS NO_VECTORS
#define NAME i64
/* defines divisor_of_i64, times_i64, sign_i64, below_i64, divided_i64, floor_divide_i64,
 * remainder_i64, power_i64 */
#include "backend/cpu/elementwise/division.inc"

#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64
#define INTS(f)                                                                   \
    [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64, \
    [KL_I8] = f##_i8, [KL_I16] = f##_i16, [KL_I32] = f##_i32, [KL_I64] = f##_i64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_FLOOR_DIVIDE] = {INTS(floor_divide), REALS(floor_divide)},
    [KL_OP_REMAINDER] = {INTS(remainder), REALS(remainder)},
    [KL_OP_POWER] = {INTS(power)},
};

kl_map_fn *kl_cpu_division_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
