/* rounding.c - maps of rounding and of parts of numbers: ceil, round, sign, the quotient rounded
 * down and its remainder, the parts of complex numbers; see map.h. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/elementwise/map.h"

/* A NaN is kept; a zero loses its sign. */
#define SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x) == 0 ? 0 : (x))
static inline float sign_of_f32(float x) {
    return SIGN(x);
}
static inline double sign_of_f64(double x) {
    return SIGN(x);
}
#define SIGNED_SIGN(x) (((x) > 0) - ((x) < 0))
#define UNSIGNED_SIGN(x) ((x) != 0)
/* The floor of the exact quotient, rounded once. The rounded quotient q can lie at or above a whole
 * number that the exact one lies below: then a - floor(q) b, which an fma gives with its sign, has
 * not the sign of b. From WHOLE on every q is whole, and the exact quotient is q + (a - q b) / b,
 * whose second part is rounded down alike; from FAR on it is below half of the last place. */
#define DEFINE_QUOTIENT(NAME, T, FLOOR, FMA, FABS, WHOLE, FAR)                            \
    static inline T below_##NAME(T n, T rest, T b) {                                      \
        return n - (T)((rest != 0) & ((rest < 0) != (b < 0)));                            \
    }                                                                                     \
    static inline T quotient_##NAME(T a, T b) {                                           \
        const T q = a / b, n = FLOOR(q), rest = n == 0 ? a : FMA(-n, b, a);               \
        const T m = FLOOR(rest / b);                                                      \
        const T far = q + below_##NAME(m, FMA(-m, b, rest), b);                           \
        const T y = FABS(q) < WHOLE ? below_##NAME(n, rest, b) : FABS(q) < FAR ? far : q; \
        return FABS(a) == (T)INFINITY ? (T)NAN : y;                                       \
    }
/* defines below_f32, quotient_f32 */
DEFINE_QUOTIENT(f32, float, floorf, fmaf, fabsf, 0x1p24f, 0x1p50f)
/* defines below_f64, quotient_f64 */
DEFINE_QUOTIENT(f64, double, floor, fma, fabs, 0x1p53, 0x1p108)
/* The remainder of the division that rounds down: it has the sign of b; a zero has the sign of
 * a. */
static inline float remainder_of_f32(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline double remainder_of_f64(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline struct kl_c64 round_parts(struct kl_c64 a) {
    return (struct kl_c64){rintf(a.re), rintf(a.im)};
}
static inline struct kl_c64 conjugate(struct kl_c64 a) {
    return (struct kl_c64){a.re, kl_bits_f32(kl_f32_bits(a.im) ^ UINT32_C(1) << 31)};
}
#define REAL_PART(a) ((a).re)
#define IMAGINARY_PART(a) ((a).im)

KL_MAP_1(ceil_f32, float, float, ceilf)
KL_MAP_1(ceil_f64, double, double, ceil)
KL_MAP_1(round_f32, float, float, rintf)
KL_MAP_1(round_f64, double, double, rint)
KL_MAP_1(round_c64, struct kl_c64, struct kl_c64, round_parts)
KL_MAP_1(sign_f32, float, float, sign_of_f32)
KL_MAP_1(sign_f64, double, double, sign_of_f64)
KL_MAP_1(sign_c64, struct kl_c64, struct kl_c64, kl_c64_sign)
KL_MAP_1(sign_u8, uint8_t, uint8_t, UNSIGNED_SIGN)
KL_MAP_1(sign_u16, uint16_t, uint16_t, UNSIGNED_SIGN)
KL_MAP_1(sign_u32, uint32_t, uint32_t, UNSIGNED_SIGN)
KL_MAP_1(sign_u64, uint64_t, uint64_t, UNSIGNED_SIGN)
KL_MAP_1(sign_i8, int8_t, int8_t, SIGNED_SIGN)
KL_MAP_1(sign_i16, int16_t, int16_t, SIGNED_SIGN)
KL_MAP_1(sign_i32, int32_t, int32_t, SIGNED_SIGN)
KL_MAP_1(sign_i64, int64_t, int64_t, SIGNED_SIGN)
KL_MAP_1(conjugate_c64, struct kl_c64, struct kl_c64, conjugate)
KL_MAP_1(real_c64, struct kl_c64, float, REAL_PART)
KL_MAP_1(imag_c64, struct kl_c64, float, IMAGINARY_PART)
KL_MAP_2(floor_divide_f32, float, quotient_f32)
KL_MAP_2(floor_divide_f64, double, quotient_f64)
KL_MAP_2(remainder_f32, float, remainder_of_f32)
KL_MAP_2(remainder_f64, double, remainder_of_f64)

#define T uint8_t
#define NEGATIVE(x) false
#define U uint8_t
#define NAME u8
/* defines quotient_u8, floor_divide_u8, remainder_u8, power_u8 */
#include "backend/cpu/elementwise/division.inc"
#define T uint16_t
#define NEGATIVE(x) false
#define U uint16_t
#define NAME u16
/* defines quotient_u16, floor_divide_u16, remainder_u16, power_u16 */
#include "backend/cpu/elementwise/division.inc"
#define T uint32_t
#define NEGATIVE(x) false
#define U uint32_t
#define NAME u32
/* defines quotient_u32, floor_divide_u32, remainder_u32, power_u32 */
#include "backend/cpu/elementwise/division.inc"
#define T uint64_t
#define NEGATIVE(x) false
#define U uint64_t
#define NAME u64
/* defines quotient_u64, floor_divide_u64, remainder_u64, power_u64 */
#include "backend/cpu/elementwise/division.inc"
#define T int8_t
#define NEGATIVE(x) ((x) < 0)
#define U uint8_t
#define NAME i8
/* defines quotient_i8, floor_divide_i8, remainder_i8, power_i8 */
#include "backend/cpu/elementwise/division.inc"
#define T int16_t
#define NEGATIVE(x) ((x) < 0)
#define U uint16_t
#define NAME i16
/* defines quotient_i16, floor_divide_i16, remainder_i16, power_i16 */
#include "backend/cpu/elementwise/division.inc"
#define T int32_t
#define NEGATIVE(x) ((x) < 0)
#define U uint32_t
#define NAME i32
/* defines quotient_i32, floor_divide_i32, remainder_i32, power_i32 */
#include "backend/cpu/elementwise/division.inc"
#define T int64_t
#define NEGATIVE(x) ((x) < 0)
#define U uint64_t
#define NAME i64
/* defines quotient_i64, floor_divide_i64, remainder_i64, power_i64 */
#include "backend/cpu/elementwise/division.inc"

#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64
#define INTS(f)                                                                   \
    [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64, \
    [KL_I8] = f##_i8, [KL_I16] = f##_i16, [KL_I32] = f##_i32, [KL_I64] = f##_i64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_CEIL] = {REALS(ceil)},
    [KL_OP_ROUND] = {REALS(round), [KL_C64] = round_c64},
    [KL_OP_SIGN] = {INTS(sign), REALS(sign), [KL_C64] = sign_c64},
    [KL_OP_CONJUGATE] = {[KL_C64] = conjugate_c64},
    [KL_OP_REAL] = {[KL_C64] = real_c64},
    [KL_OP_IMAG] = {[KL_C64] = imag_c64},
    [KL_OP_FLOOR_DIVIDE] = {INTS(floor_divide), REALS(floor_divide)},
    [KL_OP_REMAINDER] = {INTS(remainder), REALS(remainder)},
    [KL_OP_POWER] = {INTS(power)},
};

kl_map_fn *kl_cpu_rounding_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
