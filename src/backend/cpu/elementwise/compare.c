/* compare.c - the maps that compare: to bool, and to the larger or smaller operand; see
 * map.h. */
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/elementwise/map.h"

#define PLAIN_LESS(a, b) ((a) < (b))
#define PLAIN_LESS_EQUAL(a, b) ((a) <= (b))

#define T uint8_t
#define NAME u8
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_u8, less_equal_u8, maximum_u8, minimum_u8 */
#include "backend/cpu/elementwise/compare.inc"
#define T uint16_t
#define NAME u16
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_u16, less_equal_u16, maximum_u16, minimum_u16 */
#include "backend/cpu/elementwise/compare.inc"
#define T uint32_t
#define NAME u32
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_u32, less_equal_u32, maximum_u32, minimum_u32 */
#include "backend/cpu/elementwise/compare.inc"
#define T uint64_t
#define NAME u64
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_u64, less_equal_u64, maximum_u64, minimum_u64 */
#include "backend/cpu/elementwise/compare.inc"
#define T int8_t
#define NAME i8
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_i8, less_equal_i8, maximum_i8, minimum_i8 */
#include "backend/cpu/elementwise/compare.inc"
#define T int16_t
#define NAME i16
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_i16, less_equal_i16, maximum_i16, minimum_i16 */
#include "backend/cpu/elementwise/compare.inc"
#define T int32_t
#define NAME i32
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_i32, less_equal_i32, maximum_i32, minimum_i32 */
#include "backend/cpu/elementwise/compare.inc"
#define T int64_t
#define NAME i64
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX KL_PLAIN_MAX
#define MIN KL_PLAIN_MIN
/* defines less_i64, less_equal_i64, maximum_i64, minimum_i64 */
#include "backend/cpu/elementwise/compare.inc"
#define T float
#define NAME f32
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX kl_max_f32
#define MIN kl_min_f32
/* defines less_f32, less_equal_f32, maximum_f32, minimum_f32 */
#include "backend/cpu/elementwise/compare.inc"
#define T double
#define NAME f64
#define LESS PLAIN_LESS
#define LESS_EQUAL PLAIN_LESS_EQUAL
#define MAX kl_max_f64
#define MIN kl_min_f64
/* defines less_f64, less_equal_f64, maximum_f64, minimum_f64 */
#include "backend/cpu/elementwise/compare.inc"
#define T struct kl_c64
#define NAME c64
#define LESS kl_c64_less
#define LESS_EQUAL kl_c64_less_equal
#define MAX kl_max_c64
#define MIN kl_min_c64
/* defines less_c64, less_equal_c64, maximum_c64, minimum_c64 */
#include "backend/cpu/elementwise/compare.inc"

/* ---- equality: integers by width ---- */
#define T uint8_t
#define NAME u8
#define EQUAL(a, b) ((a) == (b))
/* defines equal_u8, not_equal_u8 */
#include "backend/cpu/elementwise/equal.inc"
#define T uint16_t
#define NAME u16
#define EQUAL(a, b) ((a) == (b))
/* defines equal_u16, not_equal_u16 */
#include "backend/cpu/elementwise/equal.inc"
#define T uint32_t
#define NAME u32
#define EQUAL(a, b) ((a) == (b))
/* defines equal_u32, not_equal_u32 */
#include "backend/cpu/elementwise/equal.inc"
#define T uint64_t
#define NAME u64
#define EQUAL(a, b) ((a) == (b))
/* defines equal_u64, not_equal_u64 */
#include "backend/cpu/elementwise/equal.inc"
#define T float
#define NAME f32
#define EQUAL(a, b) ((a) == (b))
/* defines equal_f32, not_equal_f32 */
#include "backend/cpu/elementwise/equal.inc"
#define T double
#define NAME f64
#define EQUAL(a, b) ((a) == (b))
/* defines equal_f64, not_equal_f64 */
#include "backend/cpu/elementwise/equal.inc"
#define T struct kl_c64
#define NAME c64
#define EQUAL kl_c64_equal
/* defines equal_c64, not_equal_c64 */
#include "backend/cpu/elementwise/equal.inc"

#define ORDERED(f)                                                                     \
    {                                                                                  \
        [KL_BOOL] = f##_u8, [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32,  \
        [KL_U64] = f##_u64, [KL_I8] = f##_i8, [KL_I16] = f##_i16, [KL_I32] = f##_i32,  \
        [KL_I64] = f##_i64, [KL_F32] = f##_f32, [KL_F64] = f##_f64, [KL_C64] = f##_c64 \
    }
#define BY_WIDTH(f)                                                                    \
    {                                                                                  \
        [KL_BOOL] = f##_u8, [KL_U8] = f##_u8, [KL_U16] = f##_u16, [KL_U32] = f##_u32,  \
        [KL_U64] = f##_u64, [KL_I8] = f##_u8, [KL_I16] = f##_u16, [KL_I32] = f##_u32,  \
        [KL_I64] = f##_u64, [KL_F32] = f##_f32, [KL_F64] = f##_f64, [KL_C64] = f##_c64 \
    }
static kl_map_fn *const less[KL_N_DTYPES] = ORDERED(less);
static kl_map_fn *const less_equal[KL_N_DTYPES] = ORDERED(less_equal);
static kl_map_fn *const maximum[KL_N_DTYPES] = ORDERED(maximum);
static kl_map_fn *const minimum[KL_N_DTYPES] = ORDERED(minimum);
static kl_map_fn *const equal[KL_N_DTYPES] = BY_WIDTH(equal);
static kl_map_fn *const not_equal[KL_N_DTYPES] = BY_WIDTH(not_equal);

kl_map_fn *kl_cpu_compare_map(enum kl_op_id op, enum kl_dtype dtype, bool *swap) {
    *swap = op == KL_OP_GREATER || op == KL_OP_GREATER_EQUAL;
    switch (op) {
    case KL_OP_LESS:
    case KL_OP_GREATER: return less[dtype];
    case KL_OP_LESS_EQUAL:
    case KL_OP_GREATER_EQUAL: return less_equal[dtype];
    case KL_OP_MAXIMUM: return maximum[dtype];
    case KL_OP_MINIMUM: return minimum[dtype];
    case KL_OP_EQUAL: return equal[dtype];
    case KL_OP_NOT_EQUAL: return not_equal[dtype];
    default: return NULL;
    }
}
