/* half.h - names for 16-bit floats: float16_t and bfloat16_t.
 *
 * Where the compiler has the types in this language, the names are the compiler's types, and
 * HAS_FLOAT16 or HAS_BFLOAT16 is defined: the values can be converted and computed with. Elsewhere
 * in C the names are uint16_t and hold the bits. In C++ without the types the names are not
 * defined, because C++ programs often have classes of these names. The functions that take 16-bit
 * floats (mlx_array_item_float16 and its like) exist in all cases and move two bytes; their types
 * are keel_float16_t and keel_bfloat16_t. */
#ifndef MLX_HALF_H
#define MLX_HALF_H

#include <stdint.h>

#if defined(__ARM_NEON) && defined(__has_include)
#if __has_include(<arm_neon.h>)
#include <arm_neon.h> /* this header defines both names itself */
#define HAS_FLOAT16 1
#define HAS_BFLOAT16 1
#endif
#endif

#ifndef HAS_FLOAT16
/* A compiler defines this macro where it has the type in C. In C++, g++ has the type from version
 * 12 on for x86, and from version 13 on for all machines. */
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
