/* bitwise.c - the maps that work on bits: of integers, and of 8-bit floats (e4m3), which are stored
 * as integers; see map.h. */
#include <string.h>

#include "backend/cpu/elementwise/map.h"
#include "base/number/fp8.h"
#include "base/number/half.h"

#define T uint8_t
#define U uint8_t
#define W uint32_t
#define NAME u8
/* defines invert_u8, and_u8, or_u8, xor_u8, left_shift_u8, right_shift_u8 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T uint16_t
#define U uint16_t
#define W uint32_t
#define NAME u16
/* defines invert_u16, and_u16, or_u16, xor_u16, left_shift_u16, right_shift_u16 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T uint32_t
#define U uint32_t
#define W uint32_t
#define NAME u32
/* defines invert_u32, and_u32, or_u32, xor_u32, left_shift_u32, right_shift_u32 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T uint64_t
#define U uint64_t
#define W uint64_t
#define NAME u64
/* defines invert_u64, and_u64, or_u64, xor_u64, left_shift_u64, right_shift_u64 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T int8_t
#define U uint8_t
#define W uint32_t
#define NAME i8
/* defines invert_i8, and_i8, or_i8, xor_i8, left_shift_i8, right_shift_i8 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T int16_t
#define U uint16_t
#define W uint32_t
#define NAME i16
/* defines invert_i16, and_i16, or_i16, xor_i16, left_shift_i16, right_shift_i16 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T int32_t
#define U uint32_t
#define W uint32_t
#define NAME i32
/* defines invert_i32, and_i32, or_i32, xor_i32, left_shift_i32, right_shift_i32 */
#include "backend/cpu/elementwise/bitwise.inc"
#define T int64_t
#define U uint64_t
#define W uint64_t
#define NAME i64
/* defines invert_i64, and_i64, or_i64, xor_i64, left_shift_i64, right_shift_i64 */
#include "backend/cpu/elementwise/bitwise.inc"

/* ---- e4m3 ---- */
static void to_fp8_f32(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const float *x = a;
    uint8_t *y = out;
    KL_EACH(i, n) y[i] = kl_e4m3_store(x[i]);
}
static void to_fp8_f64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const double *x = a;
    uint8_t *y = out;
    KL_EACH(i, n) y[i] = kl_e4m3_store(kl_f64_to_f32_odd(x[i]));
}
static void from_fp8_u8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint8_t *x = a;
    float *y = out;
    KL_EACH(i, n) y[i] = kl_e4m3_load(x[i]);
}

#define INTS(f)                                                                   \
    [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64, \
    [KL_I8] = f##_i8, [KL_I16] = f##_i16, [KL_I32] = f##_i32, [KL_I64] = f##_i64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_BITWISE_INVERT] = {INTS(invert)},
    [KL_OP_BITWISE_AND] = {INTS(and)},
    [KL_OP_BITWISE_OR] = {INTS(or)},
    [KL_OP_BITWISE_XOR] = {INTS(xor)},
    [KL_OP_LEFT_SHIFT] = {INTS(left_shift)},
    [KL_OP_RIGHT_SHIFT] = {INTS(right_shift)},
    [KL_OP_TO_FP8] = {[KL_F32] = to_fp8_f32, [KL_F64] = to_fp8_f64},
    [KL_OP_FROM_FP8] = {[KL_U8] = from_fp8_u8},
};

kl_map_fn *kl_cpu_bitwise_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
