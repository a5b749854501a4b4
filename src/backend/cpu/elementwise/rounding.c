/* rounding.c - maps of rounding and of parts of numbers: ceil, trunc, round, sign, the parts of
 * complex numbers; see map.h. */
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
KL_MAP_1(trunc_f32, float, float, truncf)
KL_MAP_1(trunc_f64, double, double, trunc)
KL_MAP_1(round_f32, float, float, rintf)
KL_MAP_1(round_f64, double, double, rint)
KL_MAP_1(round_c64, struct kl_c64, struct kl_c64, round_parts)
KL_MAP_1(sign_f32, float, float, sign_of_f32)
KL_MAP_1(sign_f64, double, double, sign_of_f64)
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

#define REALS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64
#define INTS(f)                                                                   \
    [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64, \
    [KL_I8] = f##_i8, [KL_I16] = f##_i16, [KL_I32] = f##_i32, [KL_I64] = f##_i64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_CEIL] = {REALS(ceil)},
    [KL_OP_TRUNC] = {REALS(trunc)},
    [KL_OP_ROUND] = {REALS(round), [KL_C64] = round_c64},
    [KL_OP_SIGN] = {INTS(sign), REALS(sign)},
    [KL_OP_CONJUGATE] = {[KL_C64] = conjugate_c64},
    [KL_OP_REAL] = {[KL_C64] = real_c64},
    [KL_OP_IMAG] = {[KL_C64] = imag_c64},
};

kl_map_fn *kl_cpu_rounding_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
