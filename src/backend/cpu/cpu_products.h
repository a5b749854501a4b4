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
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 14 };
#elif defined(__AVX2__)
enum { VECTOR = 32, TILE_ROWS = 6 };
#else
enum { VECTOR = 16, TILE_ROWS = 6 };
#endif
enum { PHASES = 16 };

#define T float
#define LANES (VECTOR / 4)
#define NAME f32
#define MADD MADD_F32
#include "backend/cpu/cpu_gemm.inc"
#define T double
#define LANES (VECTOR / 8)
#define NAME f64
#define MADD MADD_F64
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
