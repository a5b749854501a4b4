/* binary.c - arithmetic and logical maps of two operands, and WHERE; see map.h. Comparisons
 * and extremes are in compare.c. */
#include <math.h>
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/elementwise/map.h"

#define U uint8_t
#define W uint32_t
#define NAME u8
/* defines add_u8, subtract_u8, multiply_u8, where_u8 */
#include "backend/cpu/elementwise/binary_int.inc"
#define U uint16_t
#define W uint32_t
#define NAME u16
/* defines add_u16, subtract_u16, multiply_u16, where_u16 */
#include "backend/cpu/elementwise/binary_int.inc"
#define U uint32_t
#define W uint32_t
#define NAME u32
/* defines add_u32, subtract_u32, multiply_u32, where_u32 */
#include "backend/cpu/elementwise/binary_int.inc"
#define U uint64_t
#define W uint64_t
#define NAME u64
/* defines add_u64, subtract_u64, multiply_u64, where_u64 */
#include "backend/cpu/elementwise/binary_int.inc"

#define T float
#define LEAST 0x1p-126f
#define NAME f32
/* defines add_f32, subtract_f32, multiply_f32, divide_f32 */
#include "backend/cpu/elementwise/binary_float.inc"
#define T double
#define LEAST 0x1p-1022
#define NAME f64
/* defines add_f64, subtract_f64, multiply_f64, divide_f64 */
#include "backend/cpu/elementwise/binary_float.inc"

/* ---- bool: a sum saturates, so that true + true is true; a difference is true where operands
 * differ ---- */
static void or_b8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint8_t *x = a, *y = b;
    uint8_t *z = out;
    KL_EACH(i, n) z[i] = (x[i] | y[i]) != 0;
}
static void and_b8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint8_t *x = a, *y = b;
    uint8_t *z = out;
    KL_EACH(i, n) z[i] = (x[i] != 0) & (y[i] != 0);
}
static void differ_b8(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const uint8_t *x = a, *y = b;
    uint8_t *z = out;
    KL_EACH(i, n) z[i] = (x[i] != 0) != (y[i] != 0);
}

/* ---- complex64 ---- */
static void add_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    add_f32(2 * n, out, a, b, c);
}
static void subtract_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    subtract_f32(2 * n, out, a, b, c);
}
static void multiply_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const struct kl_c64 *x = a, *y = b;
    struct kl_c64 *z = out;
    for (int64_t i = 0; i < n; i++) z[i] = kl_c64_mul(x[i], y[i]);
}
static void divide_c64(int64_t n, void *out, const void *a, const void *b, const void *c) {
    const struct kl_c64 *x = a, *y = b;
    struct kl_c64 *z = out;
    for (int64_t i = 0; i < n; i++) z[i] = kl_c64_div(x[i], y[i]);
}

#define FLOATS(f) [KL_F32] = f##_f32, [KL_F64] = f##_f64, [KL_C64] = f##_c64
#define INTS(f)                                                                   \
    [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32, [KL_U64] = f##_u64, \
    [KL_I8] = f##_u8, [KL_I16] = f##_u16, [KL_I32] = f##_u32, [KL_I64] = f##_u64

static kl_map_fn *const maps[][KL_N_DTYPES] = {
    [KL_OP_ADD] = {[KL_BOOL] = or_b8, INTS(add), FLOATS(add)},
    [KL_OP_SUBTRACT] = {[KL_BOOL] = differ_b8, INTS(subtract), FLOATS(subtract)},
    [KL_OP_MULTIPLY] = {[KL_BOOL] = and_b8, INTS(multiply), FLOATS(multiply)},
    [KL_OP_DIVIDE] = {FLOATS(divide)},
    [KL_OP_LOGICAL_AND] = {[KL_BOOL] = and_b8},
    [KL_OP_LOGICAL_OR] = {[KL_BOOL] = or_b8},
    [KL_OP_WHERE] = {[KL_BOOL] = where_u8,
                     INTS(where),
                     [KL_F16] = where_u16,
                     [KL_BF16] = where_u16,
                     [KL_F32] = where_u32,
                     [KL_F64] = where_u64,
                     [KL_C64] = where_u64},
};

kl_map_fn *kl_cpu_binary_map(enum kl_op_id op, enum kl_dtype dtype) {
    return (size_t)op < sizeof maps / sizeof *maps ? maps[op][dtype] : NULL;
}
