/* keys.c - unsigned keys in whose order values are sorted. See keys.h. */
#include "backend/cpu/sort/keys.h"

#include <string.h>

#include "backend/cpu/math/complex.h"

static inline uint64_t key_f64(double x) {
    uint64_t u = kl_f64_bits(x), top = UINT64_C(1) << 63;
    u = u == top ? 0 : u;
    u = u >> 63 ? ~u : u | top;
    return x != x ? UINT64_MAX : u;
}
/* The key of a float of 16 bits, by the bits of an infinity. */
static inline uint16_t key_of_half(uint16_t x, uint16_t infinity) {
    const uint16_t u = x == 0x8000 ? 0 : x;
    const uint16_t key = u >> 15 ? (uint16_t)~u : (uint16_t)(u | 0x8000);
    return (x & 0x7fff) > infinity ? UINT16_MAX : key;
}
/* No float has the key UINT32_MAX - 1: that of infinity is far below. */
static uint64_t key_c64(struct kl_c64 x) {
    uint64_t re = kl_key_f32(x.re), im = kl_key_f32(x.im);
    if (x.im != x.im && x.re == x.re) return (uint64_t)(UINT32_MAX - 1) << 32 | re;
    return re << 32 | im;
}

enum { RUN = 64 };
#ifdef __AVX512F__
#include "backend/cpu/sort/keys_avx512.h"
#endif
#define PLAIN_BELOW(a, b) ((a) < (b))
#define FLIP(x, type) ((x) ^ (type)((type)1 << (sizeof(type) * 8 - 1)))
#define T uint8_t
#define K uint16_t
#define NAME u8
#define KEY(x) (x)
#define BELOW PLAIN_BELOW
/* defines keys_u8, narrow_u8, mask_u8, reaching_u8 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint16_t
#define K uint16_t
#define NAME u16
#define KEY(x) (x)
#define BELOW PLAIN_BELOW
/* defines keys_u16, narrow_u16, mask_u16, reaching_u16 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint32_t
#define K uint32_t
#define NAME u32
#define KEY(x) (x)
#define BELOW PLAIN_BELOW
/* defines keys_u32, narrow_u32, mask_u32, reaching_u32 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint64_t
#define K uint64_t
#define NAME u64
#define KEY(x) (x)
#define BELOW PLAIN_BELOW
/* defines keys_u64, narrow_u64, mask_u64, reaching_u64 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint8_t
#define K uint16_t
#define NAME i8
#define KEY(x) FLIP(x, uint8_t)
#define BELOW(a, b) (FLIP(a, uint8_t) < FLIP(b, uint8_t))
/* defines keys_i8, narrow_i8, mask_i8, reaching_i8 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint16_t
#define K uint16_t
#define NAME i16
#define KEY(x) FLIP(x, uint16_t)
#define BELOW(a, b) (FLIP(a, uint16_t) < FLIP(b, uint16_t))
/* defines keys_i16, narrow_i16, mask_i16, reaching_i16 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint32_t
#define K uint32_t
#define NAME i32
#define KEY(x) FLIP(x, uint32_t)
#define BELOW(a, b) (FLIP(a, uint32_t) < FLIP(b, uint32_t))
/* defines keys_i32, narrow_i32, mask_i32, reaching_i32 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint64_t
#define K uint64_t
#define NAME i64
#define KEY(x) FLIP(x, uint64_t)
#define BELOW(a, b) (FLIP(a, uint64_t) < FLIP(b, uint64_t))
/* defines keys_i64, narrow_i64, mask_i64, reaching_i64 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint16_t
#define K uint16_t
#define NAME f16
#define KEY(x) key_of_half(x, 0x7c00)
#define BELOW(a, b) (KEY(a) < KEY(b))
/* defines keys_f16, narrow_f16, mask_f16, reaching_f16 */
#include "backend/cpu/sort/sort_keys.inc"
#define T uint16_t
#define K uint16_t
#define NAME bf16
#define KEY(x) key_of_half(x, 0x7f80)
#define BELOW(a, b) (KEY(a) < KEY(b))
/* defines keys_bf16, narrow_bf16, mask_bf16, reaching_bf16 */
#include "backend/cpu/sort/sort_keys.inc"
#define T float
#define K uint32_t
#define NAME f32
#ifdef __AVX512F__
#define REACHING reaching_64
#endif
#define KEY(x) kl_key_f32(x)
#define BELOW PLAIN_BELOW
/* defines keys_f32, narrow_f32, mask_f32, reaching_f32 */
#include "backend/cpu/sort/sort_keys.inc"
#define T double
#define K uint64_t
#define NAME f64
#define KEY(x) key_f64(x)
#define BELOW PLAIN_BELOW
/* defines keys_f64, narrow_f64, mask_f64, reaching_f64 */
#include "backend/cpu/sort/sort_keys.inc"
#define T struct kl_c64
#define K uint64_t
#define NAME c64
#define KEY(x) key_c64(x)
#define BELOW(a, b) (key_c64(a) < key_c64(b))
/* defines keys_c64, narrow_c64, mask_c64, reaching_c64 */
#include "backend/cpu/sort/sort_keys.inc"

typedef void keys_fn(const void *x, int64_t n, uint64_t *key);
static keys_fn *const keys_of[KL_N_DTYPES] = {
    [KL_BOOL] = keys_u8, [KL_U8] = keys_u8,     [KL_U16] = keys_u16, [KL_U32] = keys_u32,
    [KL_U64] = keys_u64, [KL_I8] = keys_i8,     [KL_I16] = keys_i16, [KL_I32] = keys_i32,
    [KL_I64] = keys_i64, [KL_F32] = keys_f32,   [KL_F64] = keys_f64, [KL_C64] = keys_c64,
    [KL_F16] = keys_f16, [KL_BF16] = keys_bf16,
};
typedef void narrow_fn(const void *x, int64_t n, void *key);
static narrow_fn *const narrow_of[KL_N_DTYPES] = {
    [KL_BOOL] = narrow_u8, [KL_U8] = narrow_u8,     [KL_U16] = narrow_u16, [KL_U32] = narrow_u32,
    [KL_U64] = narrow_u64, [KL_I8] = narrow_i8,     [KL_I16] = narrow_i16, [KL_I32] = narrow_i32,
    [KL_I64] = narrow_i64, [KL_F32] = narrow_f32,   [KL_F64] = narrow_f64, [KL_C64] = narrow_c64,
    [KL_F16] = narrow_f16, [KL_BF16] = narrow_bf16,
};
typedef int64_t reaching_fn(const void *x, int64_t n, const void *least, uint16_t *which);
static reaching_fn *const reaching_of[KL_N_DTYPES] = {
    [KL_BOOL] = reaching_u8, [KL_U8] = reaching_u8,     [KL_U16] = reaching_u16,
    [KL_U32] = reaching_u32, [KL_U64] = reaching_u64,   [KL_I8] = reaching_i8,
    [KL_I16] = reaching_i16, [KL_I32] = reaching_i32,   [KL_I64] = reaching_i64,
    [KL_F32] = reaching_f32, [KL_F64] = reaching_f64,   [KL_C64] = reaching_c64,
    [KL_F16] = reaching_f16, [KL_BF16] = reaching_bf16,
};

void kl_sort_keys(enum kl_dtype type, const void *x, int64_t n, uint64_t *key) {
    keys_of[type](x, n, key);
}

void kl_sort_keys_narrow(enum kl_dtype type, const void *x, int64_t n, void *key) {
    narrow_of[type](x, n, key);
}

int64_t kl_sort_reaching(enum kl_dtype type, const void *x, int64_t n, const void *least,
                         uint16_t *which) {
    return reaching_of[type](x, n, least, which);
}

static float value_f32(uint32_t key) {
    return kl_bits_f32(key >> 31 ? key ^ UINT32_C(1) << 31 : ~key);
}
static double value_f64(uint64_t key) {
    return kl_bits_f64(key >> 63 ? key ^ UINT64_C(1) << 63 : ~key);
}

static uint16_t value_16(uint16_t key) {
    return key >> 15 ? key ^ 0x8000 : (uint16_t)~key;
}

void kl_sort_values(enum kl_dtype type, const void *keys, int64_t n, void *out) {
    const uint16_t *k16 = keys;
    const uint32_t *k32 = keys;
    const uint64_t *k64 = keys;
    switch (type) {
    case KL_BOOL:
    case KL_U8:
    case KL_I8:
        KL_EACH(i, n)((uint8_t *)out)[i] = (uint8_t)(k16[i] ^ (type == KL_I8 ? 0x80u : 0));
        break;
    case KL_U16:
    case KL_I16:
        KL_EACH(i, n)((uint16_t *)out)[i] = (uint16_t)(k16[i] ^ (type == KL_I16 ? 0x8000u : 0));
        break;
    case KL_F16:
    case KL_BF16: KL_EACH(i, n)((uint16_t *)out)[i] = value_16(k16[i]); break;
    case KL_U32:
    case KL_I32:
        KL_EACH(i, n)
        ((uint32_t *)out)[i] = k32[i] ^ (type == KL_I32 ? UINT32_C(1) << 31 : 0);
        break;
    case KL_F32: KL_EACH(i, n)((float *)out)[i] = value_f32(k32[i]); break;
    case KL_F64: KL_EACH(i, n)((double *)out)[i] = value_f64(k64[i]); break;
    default:
        KL_EACH(i, n)
        ((uint64_t *)out)[i] = k64[i] ^ (type == KL_I64 ? UINT64_C(1) << 63 : 0);
        break;
    }
}
