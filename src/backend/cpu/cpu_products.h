/* cpu_products.h - the inner loops of products, for every type: static functions of whoever includes this (matrix products, attention).
 *
 * tile_f32, panel_f32, small_f32 and those of f64: cpu_gemm.inc. dots_f32 and sums_f32, and those of f16, bf16 (computed in float32) and f64: cpu_matvec.inc. */
#pragma once
#include <string.h>

#include "backend/cpu/cpu_tile.h"
#include "base/half.h"

#define PLAIN_MADD(a, b, c) ((c) + (a) * (b))
#ifdef __FMA__ /* one rounding */
#define MADD_F32 __builtin_fmaf
#define MADD_F64 __builtin_fma
#else /* two: without the instruction a fused one would be a call of the C library */
#define MADD_F32 PLAIN_MADD
#define MADD_F64 PLAIN_MADD
#endif

/* Vectors as wide as they come, and as many rows of two as leave three registers. */
#define ZIP2_LOW 0, 2
#define ZIP2_HIGH 1, 3
#define ZIP4_LOW 0, 4, 1, 5
#define ZIP4_HIGH 2, 6, 3, 7
#define ZIP8_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define ZIP8_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define ZIP16_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define ZIP16_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 14, TILE_FEW = 8 };
#define ZIP_WORDS(half) ZIP16_##half
#define ZIP_DOUBLES(half) ZIP8_##half
#elif defined(__AVX2__)
enum { VECTOR = 32, TILE_ROWS = 6, TILE_FEW = 4 };
#define ZIP_WORDS(half) ZIP8_##half
#define ZIP_DOUBLES(half) ZIP4_##half
#else
enum { VECTOR = 16, TILE_ROWS = 6, TILE_FEW = 4 };
#define ZIP_WORDS(half) ZIP4_##half
#define ZIP_DOUBLES(half) ZIP2_##half
#endif
enum { PHASES = 16 };

#define T float
#define LANES (VECTOR / 4)
#define NAME f32
#define MADD MADD_F32
#define ZIP_LOW ZIP_WORDS(LOW)
#define ZIP_HIGH ZIP_WORDS(HIGH)
#include "backend/cpu/cpu_gemm.inc"
#define T double
#define LANES (VECTOR / 8)
#define NAME f64
#define MADD MADD_F64
#define ZIP_LOW ZIP_DOUBLES(LOW)
#define ZIP_HIGH ZIP_DOUBLES(HIGH)
#include "backend/cpu/cpu_gemm.inc"

#define T float
#define S float
#define LOAD(x) (x)
#define MADD MADD_F32
#define NAME f32
#define COMPUTE f32
#define CONVERTS 0
#include "backend/cpu/cpu_matvec.inc"
#define T float
#define S uint16_t
#define LOAD(x) kl_f16_load(x)
#define MADD MADD_F32
#define NAME f16
#define COMPUTE f32
#define CONVERTS 1
#include "backend/cpu/cpu_matvec.inc"
#define T float
#define S uint16_t
#define LOAD(x) kl_bits_f32((uint32_t)(x) << 16) /* a NaN becomes quiet in the first product */
#define MADD MADD_F32
#define NAME bf16
#define COMPUTE f32
#define CONVERTS 1
#include "backend/cpu/cpu_matvec.inc"
#define T double
#define S double
#define LOAD(x) (x)
#define MADD MADD_F64
#define NAME f64
#define COMPUTE f64
#define CONVERTS 0
#include "backend/cpu/cpu_matvec.inc"
