/* instructions.h - the cases of bench_instructions.c and their operands. CASE(id, name, bits of an
 * element, elements of one run): keel_id runs it in Keel, scalar_id and vector_id are the same
 * plain C (instructions_plain.c), compiled without vectors of the compiler's and with -O3. Elements
 * of products are multiply-adds. */
#pragma once
#include <stdint.h>

enum { N = 1 << 18, ROWS = 256, LENGTH = 1024, SIDE = 96, DEPTH = 2048, OUTPUTS = 64, GROUP = 64 };

#define CASES(CASE)                                                                \
    CASE(add, "add, float32", 32, N)                                               \
    CASE(exp, "exp, float32", 32, N)                                               \
    CASE(log, "log, float32", 32, N)                                               \
    CASE(sin, "sin, float32", 32, N)                                               \
    CASE(tanh, "tanh, float32", 32, N)                                             \
    CASE(erf, "erf, float32", 32, N)                                               \
    CASE(sqrt, "sqrt, float32", 32, N)                                             \
    CASE(five, "five operations in one pass, float32", 32, N)                      \
    CASE(add_bf16, "add, bfloat16", 16, N)                                         \
    CASE(exp_bf16, "exp, bfloat16", 16, N)                                         \
    CASE(tanh_bf16, "tanh, bfloat16", 16, N)                                       \
    CASE(to_bf16, "float32 to bfloat16", 32, N)                                    \
    CASE(from_f16, "float16 to float32", 16, N)                                    \
    CASE(add_i8, "add, int8", 8, N)                                                \
    CASE(divide_i32, "floor_divide, int32", 32, N)                                 \
    CASE(add_f64, "add, float64", 64, N)                                           \
    CASE(exp_f64, "exp, float64", 64, N)                                           \
    CASE(sum_rows, "sum of rows, float32", 32, N)                                  \
    CASE(sum_columns, "sum of columns, float32", 32, N)                            \
    CASE(max_rows, "max of rows, float32", 32, N)                                  \
    CASE(argmax_rows, "argmax of rows, float32", 32, N)                            \
    CASE(logsumexp_rows, "logsumexp of rows, float32", 32, N)                      \
    CASE(sum_bf16, "sum of rows, bfloat16", 16, N)                                 \
    CASE(sum_f64, "sum of rows, float64", 64, N)                                   \
    CASE(cumsum, "cumsum of rows, float32", 32, N)                                 \
    CASE(softmax, "softmax of rows, float32", 32, N)                               \
    CASE(softmax_bf16, "softmax of rows, bfloat16", 16, N)                         \
    CASE(rms_norm, "rms_norm, float32", 32, N)                                     \
    CASE(layer_norm, "layer_norm, float32", 32, N)                                 \
    CASE(matmul, "product 96^3, float32", 32, SIDE *SIDE *SIDE)                    \
    CASE(matmul_bf16, "product 96^3, bfloat16", 16, SIDE *SIDE *SIDE)              \
    CASE(matmul_f64, "product 96^3, float64", 64, SIDE *SIDE *SIDE)                \
    CASE(vector, "a vector by a transposed matrix, float32", 32, OUTPUTS *DEPTH)   \
    CASE(vector_bf16, "the same of bfloat16", 16, OUTPUTS *DEPTH)                  \
    CASE(vector_rows_bf16, "a vector by a matrix, bfloat16", 16, OUTPUTS *DEPTH)   \
    CASE(packed4, "a row by packed numbers, 4 bits", 32, OUTPUTS *DEPTH)           \
    CASE(packed4_bf16, "the same of bfloat16", 16, OUTPUTS *DEPTH)                 \
    CASE(packed8, "a row by packed numbers, 8 bits", 32, OUTPUTS *DEPTH)           \
    CASE(packed4_few, "4 rows by packed numbers, 4 bits", 32, 4 * OUTPUTS * DEPTH) \
    CASE(packed4_many, "32 rows by packed numbers, 4 bits", 32, 32 * OUTPUTS * DEPTH)

#define DECLARE(id, ...) void keel_##id(void), scalar_##id(void), vector_##id(void);
CASES(DECLARE)

/* Operands; `above` is positive. `out` is what plain C writes. */
extern float x_f32[N], y_f32[N], above[N], weight[N];
extern double x_f64[N], y_f64[N];
extern uint16_t x_bf16[N], y_bf16[N], x_f16[N];
extern int8_t x_i8[N], y_i8[N];
extern int32_t x_i32[N], y_i32[N];
/* OUTPUTS rows of DEPTH numbers, and their scales and biases by groups. */
extern float matrix[OUTPUTS * DEPTH], scales[OUTPUTS * DEPTH / GROUP],
    biases[OUTPUTS * DEPTH / GROUP];
extern uint16_t matrix_bf16[OUTPUTS * DEPTH];
extern uint16_t scales_bf16[OUTPUTS * DEPTH / GROUP], biases_bf16[OUTPUTS * DEPTH / GROUP];
extern uint32_t packed[OUTPUTS * DEPTH / 4];
extern double out[N];
