/* half.h - names for 16-bit floats: float16_t and bfloat16_t.
 *
 * Where the compiler has the types in this language they are its own, and HAS_FLOAT16 or
 * HAS_BFLOAT16 is defined: values convert and compute. Elsewhere they are uint16_t and hold the
 * bits; but in C++ the names are then left to the program, which often has classes of that name.
 * The functions that take them (mlx_array_item_float16 and its like) are there in all cases and
 * move the same two bytes: keel_float16_t and keel_bfloat16_t are what they take. */
#ifndef MLX_HALF_H
#define MLX_HALF_H

#include <stdint.h>

#if defined(__ARM_NEON) && defined(__has_include)
#if __has_include(<arm_neon.h>)
#include <arm_neon.h> /* defines both names itself */
#define HAS_FLOAT16 1
#define HAS_BFLOAT16 1
#endif
#endif

#ifndef HAS_FLOAT16
/* Each compiler defines the macro where it has the type in C; g++ had it in C++ first on x86
 * (12), then all over (13). */
#if defined(__FLT16_MANT_DIG__) && \
    (!defined(__cplusplus) || defined(__clang__) || __GNUC__ >= 13 || defined(__SSE2__))
#define HAS_FLOAT16 1
__extension__ typedef _Float16 float16_t;
#elif !defined(__cplusplus)
typedef uint16_t float16_t;
#endif
#endif

#ifndef HAS_BFLOAT16
#if defined(__BFLT16_MANT_DIG__) && defined(__SSE2__)
#define HAS_BFLOAT16 1
__extension__ typedef __bf16 bfloat16_t;
#elif !defined(__cplusplus)
typedef uint16_t bfloat16_t;
#endif
#endif

#if defined(HAS_FLOAT16)
typedef float16_t keel_float16_t;
#else
typedef uint16_t keel_float16_t;
#endif
#if defined(HAS_BFLOAT16)
typedef bfloat16_t keel_bfloat16_t;
#else
typedef uint16_t keel_bfloat16_t;
#endif

#endif
