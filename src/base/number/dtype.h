/* dtype.h - the element types (dtype.def), with the numbers that the MLX C API gives them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kl_dtype {
#define KL_DTYPE(ID, ...) KL_##ID,
#include "base/number/dtype.def"
    KL_N_DTYPES
};

static inline bool kl_dtype_valid(int dtype) {
    return dtype >= 0 && dtype < KL_N_DTYPES;
}
size_t kl_dtype_size(enum kl_dtype dtype);      /* bytes of an element */
const char *kl_dtype_name(enum kl_dtype dtype); /* "float32"; "unknown" outside the list */
bool kl_dtype_is_float(enum kl_dtype dtype);    /* 16, 32, 64 bits; not complex */
bool kl_dtype_is_int(enum kl_dtype dtype);      /* signed or unsigned; not bool */
bool kl_dtype_is_signed(enum kl_dtype dtype);   /* signed integers only */
bool kl_dtype_is_inexact(enum kl_dtype dtype);  /* floats and complex64: these have gradients */
/* The dtype itself for floats and complex64, float32 for integers and bool. */
enum kl_dtype kl_dtype_inexact(enum kl_dtype dtype);
/* The smallest and the largest integer that dtype holds; false for other types. For uint64 the
 * largest is given as INT64_MAX, because ranges of values are kept as int64. */
bool kl_int_limits(enum kl_dtype dtype, int64_t *lo, int64_t *hi);

/* The type in which two operands meet, as MLX promotes. bool < integers < floats < complex64. A
 * signed with an unsigned integer gives a signed type wide enough for both; uint64 with a signed
 * integer gives float32. float16 with bfloat16 gives float32. An integer with a float gives the
 * float. */
enum kl_dtype kl_dtype_promote(enum kl_dtype a, enum kl_dtype b);

/* Conversions of 16-bit floats, given as bits. They round to nearest even. A NaN stays a NaN and
 * becomes quiet. */
float kl_f16_to_f32(uint16_t bits);
uint16_t kl_f32_to_f16(float x);
float kl_bf16_to_f32(uint16_t bits);
uint16_t kl_f32_to_bf16(float x);
