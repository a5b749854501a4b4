/* products.h - the inner loops of products, float32 and float64: static functions of whoever includes this (products by blocks and with few rows, attention): see gemm.inc. */
#pragma once
#include <string.h>

#include "backend/cpu/operand/tile.h"
#include "base/half.h"

#define PLAIN_MADD(a, b, c) ((c) + (a) * (b))
#ifdef __FMA__ /* one rounding */
#include <immintrin.h>
#define MADD_F32 __builtin_fmaf
#define MADD_F64 __builtin_fma
#else /* two: without the instruction a fused one would be a call of the C library */
#define MADD_F32 PLAIN_MADD
#define MADD_F64 PLAIN_MADD
#endif
/* The same of vectors. By name: gcc puts a loop over lanes together again in small functions only. */
#if defined(__AVX512F__)
#define MADD_VEC_F32(a, b, c) (vec_f32) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define MADD_VEC_F64(a, b, c) (vec_f64) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined(__FMA__) && defined(__AVX2__)
#define MADD_VEC_F32(a, b, c) (vec_f32) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define MADD_VEC_F64(a, b, c) (vec_f64) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#else
#define MADD_VEC_F32 PLAIN_MADD
#define MADD_VEC_F64 PLAIN_MADD
#endif

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

#define T float
#define LANES (VECTOR / 4)
#define NAME f32
#define MADD_VEC MADD_VEC_F32
#define ZIP_LOW ZIP_WORDS(LOW)
#define ZIP_HIGH ZIP_WORDS(HIGH)
#include "backend/cpu/matmul/gemm.inc"
#define T double
#define LANES (VECTOR / 8)
#define NAME f64
#define MADD_VEC MADD_VEC_F64
#define ZIP_LOW ZIP_DOUBLES(LOW)
#define ZIP_HIGH ZIP_DOUBLES(HIGH)
#include "backend/cpu/matmul/gemm.inc"
