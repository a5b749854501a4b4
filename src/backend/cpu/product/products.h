/* products.h - the inner loops of products of float32 and float64 (gemm.inc), as static functions
 * of each file that includes this: attention.c, convolution.c, gemm.c, matmul.c, matvec.c and
 * pack_amx.h. */
#pragma once
#include <string.h>

#include "backend/cpu/operand/tile.h"
#include "base/number/half.h"

#define KL_PLAIN_MADD(a, b, c) ((c) + (a) * (b))
#if defined __FMA__ || defined __aarch64__ /* c + a b, rounded once */
#define KL_MADD_F32 __builtin_fmaf
#define KL_MADD_F64 __builtin_fma
#else /* c + a b, rounded twice: without the instruction, fma() would call the C library */
#define KL_MADD_F32 KL_PLAIN_MADD
#define KL_MADD_F64 KL_PLAIN_MADD
#endif
/* The same multiply-add for vectors. */
#if defined __FMA__ && defined __AVX2__
#include "backend/cpu/product/madd_x86.h"
#elif defined __aarch64__
#include "backend/cpu/product/madd_neon.h"
#else
#define KL_MADD_VEC_F32 KL_PLAIN_MADD
#define KL_MADD_VEC_F64 KL_PLAIN_MADD
#endif

enum { KL_TURN = 16 }; /* see kl_tile_at in gemm.inc */
#define KL_ZIP2_LOW 0, 2
#define KL_ZIP2_HIGH 1, 3
#define KL_ZIP4_LOW 0, 4, 1, 5
#define KL_ZIP4_HIGH 2, 6, 3, 7
#define KL_ZIP8_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define KL_ZIP8_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define KL_ZIP16_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define KL_ZIP16_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
/* KL_REGISTERS: of vectors. */
#if defined(__AVX512F__)
enum { KL_VECTOR = 64, KL_REGISTERS = 32, KL_TILE_ROWS = 14, KL_TILE_FEW = 8 };
#define KL_ZIP_WORDS(half) KL_ZIP16_##half
#define KL_ZIP_DOUBLES(half) KL_ZIP8_##half
#elif defined(__AVX2__)
enum { KL_VECTOR = 32, KL_REGISTERS = 16, KL_TILE_ROWS = 6, KL_TILE_FEW = 4 };
#define KL_ZIP_WORDS(half) KL_ZIP8_##half
#define KL_ZIP_DOUBLES(half) KL_ZIP4_##half
#else
#ifdef __aarch64__
enum { KL_VECTOR = 16, KL_REGISTERS = 32, KL_TILE_ROWS = 12, KL_TILE_FEW = 8 };
#else
enum { KL_VECTOR = 16, KL_REGISTERS = 16, KL_TILE_ROWS = 6, KL_TILE_FEW = 4 };
#endif
#define KL_ZIP_WORDS(half) KL_ZIP4_##half
#define KL_ZIP_DOUBLES(half) KL_ZIP2_##half
#endif

#define T float
#define LANES (KL_VECTOR / 4)
#define NAME f32
#define MADD_VEC KL_MADD_VEC_F32
#define ZIP_LOW KL_ZIP_WORDS(LOW)
#define ZIP_HIGH KL_ZIP_WORDS(HIGH)
/* defines kl_madd_f32, kl_tile_rows_f32, kl_tile_at_f32, kl_tile_f32, kl_small_rows_f32,
 * kl_small_f32, kl_spread_f32, kl_vec_transpose_f32, kl_panel_f32 */
#include "backend/cpu/product/gemm.inc"
#define T double
#define LANES (KL_VECTOR / 8)
#define NAME f64
#define MADD_VEC KL_MADD_VEC_F64
#define ZIP_LOW KL_ZIP_DOUBLES(LOW)
#define ZIP_HIGH KL_ZIP_DOUBLES(HIGH)
/* defines kl_madd_f64, kl_tile_rows_f64, kl_tile_at_f64, kl_tile_f64, kl_small_rows_f64,
 * kl_small_f64, kl_spread_f64, kl_vec_transpose_f64, kl_panel_f64 */
#include "backend/cpu/product/gemm.inc"
