/* convert.c - conversion between any two dtypes; see kl_convert in tile.h. The loops between
 * compute types come from convert_from.inc. 16-bit floats go through float32. Where two roundings
 * could give a wrong result, the first one rounds to odd. */
#include <string.h>

#include "backend/cpu/vector/simd.h"
#include "backend/cpu/operand/tile.h"
#include "base/number/half.h"

#define SRC b8
#define S uint8_t
#define S_IS_FLOAT 0
#define REAL(x) ((x) != 0)
#define NONZERO(x) ((x) != 0)
/* defines convert_b8_b8, convert_b8_u8, convert_b8_u16, convert_b8_u32, convert_b8_u64,
 * convert_b8_i8, convert_b8_i16, convert_b8_i32, convert_b8_i64, convert_b8_f32, convert_b8_f64,
 * convert_b8_c64 */
#include "backend/cpu/operand/convert_from.inc"

#define SRC u8
#define S uint8_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_u8_b8, convert_u8_u8, convert_u8_u16, convert_u8_u32, convert_u8_u64,
 * convert_u8_i8, convert_u8_i16, convert_u8_i32, convert_u8_i64, convert_u8_f32, convert_u8_f64,
 * convert_u8_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC u16
#define S uint16_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_u16_b8, convert_u16_u8, convert_u16_u16, convert_u16_u32, convert_u16_u64,
 * convert_u16_i8, convert_u16_i16, convert_u16_i32, convert_u16_i64, convert_u16_f32,
 * convert_u16_f64, convert_u16_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC u32
#define S uint32_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_u32_b8, convert_u32_u8, convert_u32_u16, convert_u32_u32, convert_u32_u64,
 * convert_u32_i8, convert_u32_i16, convert_u32_i32, convert_u32_i64, convert_u32_f32,
 * convert_u32_f64, convert_u32_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC u64
#define S uint64_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_u64_b8, convert_u64_u8, convert_u64_u16, convert_u64_u32, convert_u64_u64,
 * convert_u64_i8, convert_u64_i16, convert_u64_i32, convert_u64_i64, convert_u64_f32,
 * convert_u64_f64, convert_u64_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC i8
#define S int8_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_i8_b8, convert_i8_u8, convert_i8_u16, convert_i8_u32, convert_i8_u64,
 * convert_i8_i8, convert_i8_i16, convert_i8_i32, convert_i8_i64, convert_i8_f32, convert_i8_f64,
 * convert_i8_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC i16
#define S int16_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_i16_b8, convert_i16_u8, convert_i16_u16, convert_i16_u32, convert_i16_u64,
 * convert_i16_i8, convert_i16_i16, convert_i16_i32, convert_i16_i64, convert_i16_f32,
 * convert_i16_f64, convert_i16_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC i32
#define S int32_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_i32_b8, convert_i32_u8, convert_i32_u16, convert_i32_u32, convert_i32_u64,
 * convert_i32_i8, convert_i32_i16, convert_i32_i32, convert_i32_i64, convert_i32_f32,
 * convert_i32_f64, convert_i32_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC i64
#define S int64_t
#define S_IS_FLOAT 0
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_i64_b8, convert_i64_u8, convert_i64_u16, convert_i64_u32, convert_i64_u64,
 * convert_i64_i8, convert_i64_i16, convert_i64_i32, convert_i64_i64, convert_i64_f32,
 * convert_i64_f64, convert_i64_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC f32
#define S float
#define S_IS_FLOAT 1
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_f32_b8, convert_f32_u8, convert_f32_u16, convert_f32_u32, convert_f32_u64,
 * convert_f32_i8, convert_f32_i16, convert_f32_i32, convert_f32_i64, convert_f32_f32,
 * convert_f32_f64, convert_f32_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC f64
#define S double
#define S_IS_FLOAT 1
#define REAL(x) (x)
#define NONZERO(x) ((x) != 0)
/* defines convert_f64_b8, convert_f64_u8, convert_f64_u16, convert_f64_u32, convert_f64_u64,
 * convert_f64_i8, convert_f64_i16, convert_f64_i32, convert_f64_i64, convert_f64_f32,
 * convert_f64_f64, convert_f64_c64 */
#include "backend/cpu/operand/convert_from.inc"
#define SRC c64
#define S struct kl_c64
#define S_IS_FLOAT 1
#define S_IS_COMPLEX 1
#define REAL(x) ((x).re)
#define NONZERO(x) ((x).re != 0 || (x).im != 0)
/* defines convert_c64_b8, convert_c64_u8, convert_c64_u16, convert_c64_u32, convert_c64_u64,
 * convert_c64_i8, convert_c64_i16, convert_c64_i32, convert_c64_i64, convert_c64_f32,
 * convert_c64_f64 */
#include "backend/cpu/operand/convert_from.inc"

static void convert_c64_c64(void *dst, const void *src, int64_t n) {
    memmove(dst, src, (size_t)n * sizeof(struct kl_c64));
}

typedef void convert_fn(void *dst, const void *src, int64_t n);

#define ROW(s)                                                                                    \
    {                                                                                             \
        [KL_BOOL] = convert_##s##_b8, [KL_U8] = convert_##s##_u8, [KL_U16] = convert_##s##_u16,   \
        [KL_U32] = convert_##s##_u32, [KL_U64] = convert_##s##_u64, [KL_I8] = convert_##s##_i8,   \
        [KL_I16] = convert_##s##_i16, [KL_I32] = convert_##s##_i32, [KL_I64] = convert_##s##_i64, \
        [KL_F32] = convert_##s##_f32, [KL_F64] = convert_##s##_f64, [KL_C64] = convert_##s##_c64, \
    }
static convert_fn *const table[KL_N_DTYPES][KL_N_DTYPES] = {
    [KL_BOOL] = ROW(b8), [KL_U8] = ROW(u8),   [KL_U16] = ROW(u16), [KL_U32] = ROW(u32),
    [KL_U64] = ROW(u64), [KL_I8] = ROW(i8),   [KL_I16] = ROW(i16), [KL_I32] = ROW(i32),
    [KL_I64] = ROW(i64), [KL_F32] = ROW(f32), [KL_F64] = ROW(f64), [KL_C64] = ROW(c64),
};

/* ---- 16-bit floats ---- */
static void widen(enum kl_dtype from, float *dst, const uint16_t *src, int64_t n) {
    if (from == KL_BF16) {
        KL_EACH(i, n) dst[i] = kl_bf16_load(src[i]);
        return;
    }
    int64_t done = 0;
#if KL_HAS_SIMD
    for (; done + KL_HALVES <= n; done += KL_HALVES) kl_load_f16(dst + done, src + done);
#endif
    for (int64_t i = done; i < n; i++) dst[i] = kl_f16_load(src[i]);
}

static void narrow_bf16(uint16_t *dst, const float *src, int64_t n) {
    KL_EACH(i, n) dst[i] = kl_bf16_store(src[i]);
}

static void narrow(enum kl_dtype to, uint16_t *dst, const float *src, int64_t n) {
    int64_t done = 0;
    if (to == KL_BF16) {
#if KL_HAS_NARROW_BF16
        for (; done + KL_HALVES <= n; done += KL_HALVES)
            if (!kl_narrow_bf16(dst + done, src + done))
                narrow_bf16(dst + done, src + done, KL_HALVES);
#endif
        narrow_bf16(dst + done, src + done, n - done);
        return;
    }
#if KL_HAS_SIMD
    for (; done + KL_HALVES <= n; done += KL_HALVES) kl_store_f16(dst + done, src + done);
#endif
    for (int64_t i = done; i < n; i++) dst[i] = kl_f16_store(src[i]);
}

/* Rounds to odd: the eleven low bits of a large magnitude are replaced by one bit that says whether
 * any was set. The result is exact in a double and rounds to a 16-bit float as x does. */
static double u64_to_f64_sticky(uint64_t x) {
    if (x >> 53) x = (x & ~UINT64_C(0x7ff)) | (x & 0x7ff ? 0x800 : 0);
    return (double)x;
}

/* float32 values that round to any 16-bit float as src does. */
static void convert_to_f32_odd(float *dst, enum kl_dtype from, const void *src, int64_t n) {
    switch (from) {
    case KL_U32:
        for (int64_t i = 0; i < n; i++) dst[i] = kl_f64_to_f32_odd(((const uint32_t *)src)[i]);
        break;
    case KL_I32:
        for (int64_t i = 0; i < n; i++) dst[i] = kl_f64_to_f32_odd(((const int32_t *)src)[i]);
        break;
    case KL_U64:
        for (int64_t i = 0; i < n; i++)
            dst[i] = kl_f64_to_f32_odd(u64_to_f64_sticky(((const uint64_t *)src)[i]));
        break;
    case KL_I64:
        for (int64_t i = 0; i < n; i++) {
            int64_t x = ((const int64_t *)src)[i];
            double mag = u64_to_f64_sticky(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
            dst[i] = kl_f64_to_f32_odd(x < 0 ? -mag : mag);
        }
        break;
    case KL_F64:
        for (int64_t i = 0; i < n; i++) dst[i] = kl_f64_to_f32_odd(((const double *)src)[i]);
        break;
    default: table[from][KL_F32](dst, src, n); break;
    }
}

void kl_convert(enum kl_dtype to, void *dst, enum kl_dtype from, const void *src, int64_t n) {
    if (to == from) {
        if (dst != src) memcpy(dst, src, (size_t)n * kl_dtype_size(to));
        return;
    }
    bool from16 = kl_compute_dtype(from) != from, to16 = kl_compute_dtype(to) != to;
    if (!from16 && !to16) {
        table[from][to](dst, src, n);
        return;
    }
    if (from16 && to == KL_F32) {
        widen(from, dst, src, n);
        return;
    }
    if (from == KL_F32) {
        narrow(to, dst, src, n);
        return;
    }
    float tile[KL_TILE];
    for (int64_t at = 0; at < n; at += KL_TILE) {
        int64_t m = kl_min64(KL_TILE, n - at);
        const char *s = (const char *)src + at * (int64_t)kl_dtype_size(from);
        char *d = (char *)dst + at * (int64_t)kl_dtype_size(to);
        if (from16)
            widen(from, tile, (const uint16_t *)s, m);
        else
            convert_to_f32_odd(tile, from, s, m);
        if (to16)
            narrow(to, (uint16_t *)d, tile, m);
        else
            table[KL_F32][to](d, tile, m);
    }
}

const void *kl_cursor_next_as(struct kl_cursor *c, int64_t n, enum kl_dtype from, enum kl_dtype to,
                              union kl_tile *raw, union kl_tile *tile) {
    const void *p = kl_cursor_next(c, n, raw);
    if (from == to) return p;
    kl_convert(to, tile->bytes, from, p, n);
    return tile->bytes;
}
