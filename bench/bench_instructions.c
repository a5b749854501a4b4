/* bench_instructions.c - runs a case of instructions.h some times: bench_instructions WHO CASE
 * TIMES, where WHO is keel, scalar or vector; without arguments it prints a line for each case: id,
 * bits, elements, name. bench/instructions.py counts what is executed. */
#include "instructions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx/c/mlx.h"

float x_f32[N], y_f32[N], above[N], weight[N];
double x_f64[N], y_f64[N], out[N];
uint16_t x_bf16[N], y_bf16[N], x_f16[N];
int8_t x_i8[N], y_i8[N];
int32_t x_i32[N], y_i32[N];
float matrix[OUTPUTS * DEPTH], scales[OUTPUTS * DEPTH / GROUP], biases[OUTPUTS * DEPTH / GROUP];
uint16_t matrix_bf16[OUTPUTS * DEPTH];
uint16_t scales_bf16[OUTPUTS * DEPTH / GROUP], biases_bf16[OUTPUTS * DEPTH / GROUP];
uint32_t packed[OUTPUTS * DEPTH / 4];

static mlx_stream cpu;
static int times;

static uint16_t upper_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void fill(void) {
    uint32_t state = 1;
    for (int i = 0; i < N; i++) {
        state = state * 1664525 + 1013904223;
        x_f32[i] = (float)(int32_t)state * 0x1p-29f; /* from -4 to 4 */
        y_f32[i] = (float)(int32_t)(state * 69069 + 1) * 0x1p-29f;
        above[i] = fabsf(x_f32[i]) + 0.1f;
        weight[i] = 1 + (float)(i % 7) / 8;
        x_f64[i] = x_f32[i], y_f64[i] = y_f32[i];
        x_bf16[i] = upper_half(x_f32[i]), y_bf16[i] = upper_half(y_f32[i]);
        x_f16[i] = (uint16_t)(state >> 18);
        x_i8[i] = (int8_t)(state >> 24), y_i8[i] = (int8_t)(state >> 16);
        x_i32[i] = (int32_t)state, y_i32[i] = (int32_t)(state >> 20) + 1;
    }
    for (int i = 0; i < OUTPUTS * DEPTH; i++) {
        matrix[i] = x_f32[i * 7 % N];
        matrix_bf16[i] = upper_half(matrix[i]);
    }
    for (int i = 0; i < OUTPUTS * DEPTH / GROUP; i++) {
        scales[i] = above[i] / 8, biases[i] = -above[i];
        scales_bf16[i] = upper_half(scales[i]), biases_bf16[i] = upper_half(biases[i]);
    }
    for (int i = 0; i < OUTPUTS * DEPTH / 4; i++) packed[i] = (uint32_t)x_i32[i % N] * 2654435761u;
}

static mlx_array array(const void *data, int rows, int columns, mlx_dtype dtype) {
    const int shape[2] = {rows, columns};
    return rows ? mlx_array_new_data(data, shape, 2, dtype)
                : mlx_array_new_data(data, shape + 1, 1, dtype);
}
static void need(int rc) {
    if (rc) exit(1);
}

/* Makes two operands, and evaluates `call` as often as was asked for. */
#define KEEL(id, a, b, call)                         \
    void keel_##id(void) {                           \
        mlx_array x = a, y = b, r = mlx_array_new(); \
        for (int i = 0; i < times; i++) {            \
            need(call);                              \
            need(mlx_array_eval(r));                 \
        }                                            \
        mlx_array_free(x);                           \
        mlx_array_free(y);                           \
        mlx_array_free(r);                           \
    }
#define LONG(data, dtype) array(data, 0, N, MLX_##dtype)
#define TALL(data, dtype) array(data, ROWS, LENGTH, MLX_##dtype)
#define SQUARE(data, dtype) array(data, SIDE, SIDE, MLX_##dtype)
#define ONE mlx_array_new_float(0)
KEEL(add, LONG(x_f32, FLOAT32), LONG(y_f32, FLOAT32), mlx_add(&r, x, y, cpu))
KEEL(exp, LONG(x_f32, FLOAT32), ONE, mlx_exp(&r, x, cpu))
KEEL(log, LONG(above, FLOAT32), ONE, mlx_log(&r, x, cpu))
KEEL(sin, LONG(x_f32, FLOAT32), ONE, mlx_sin(&r, x, cpu))
KEEL(tanh, LONG(x_f32, FLOAT32), ONE, mlx_tanh(&r, x, cpu))
KEEL(erf, LONG(x_f32, FLOAT32), ONE, mlx_erf(&r, x, cpu))
KEEL(sqrt, LONG(above, FLOAT32), ONE, mlx_sqrt(&r, x, cpu))
KEEL(add_bf16, LONG(x_bf16, BFLOAT16), LONG(y_bf16, BFLOAT16), mlx_add(&r, x, y, cpu))
KEEL(exp_bf16, LONG(x_bf16, BFLOAT16), ONE, mlx_exp(&r, x, cpu))
KEEL(tanh_bf16, LONG(x_bf16, BFLOAT16), ONE, mlx_tanh(&r, x, cpu))
KEEL(to_bf16, LONG(x_f32, FLOAT32), ONE, mlx_astype(&r, x, MLX_BFLOAT16, cpu))
KEEL(from_f16, LONG(x_f16, FLOAT16), ONE, mlx_astype(&r, x, MLX_FLOAT32, cpu))
KEEL(add_i8, LONG(x_i8, INT8), LONG(y_i8, INT8), mlx_add(&r, x, y, cpu))
KEEL(divide_i32, LONG(x_i32, INT32), LONG(y_i32, INT32), mlx_floor_divide(&r, x, y, cpu))
KEEL(add_f64, LONG(x_f64, FLOAT64), LONG(y_f64, FLOAT64), mlx_add(&r, x, y, cpu))
KEEL(exp_f64, LONG(x_f64, FLOAT64), ONE, mlx_exp(&r, x, cpu))
KEEL(sum_rows, TALL(x_f32, FLOAT32), ONE, mlx_sum_axis(&r, x, 1, false, cpu))
KEEL(sum_columns, TALL(x_f32, FLOAT32), ONE, mlx_sum_axis(&r, x, 0, false, cpu))
KEEL(max_rows, TALL(x_f32, FLOAT32), ONE, mlx_max_axis(&r, x, 1, false, cpu))
KEEL(argmax_rows, TALL(x_f32, FLOAT32), ONE, mlx_argmax_axis(&r, x, 1, false, cpu))
KEEL(logsumexp_rows, TALL(x_f32, FLOAT32), ONE, mlx_logsumexp_axis(&r, x, 1, false, cpu))
KEEL(sum_bf16, TALL(x_bf16, BFLOAT16), ONE, mlx_sum_axis(&r, x, 1, false, cpu))
KEEL(sum_f64, TALL(x_f64, FLOAT64), ONE, mlx_sum_axis(&r, x, 1, false, cpu))
KEEL(cumsum, TALL(x_f32, FLOAT32), ONE, mlx_cumsum(&r, x, 1, false, true, cpu))
KEEL(softmax, TALL(x_f32, FLOAT32), ONE, mlx_softmax_axis(&r, x, 1, false, cpu))
KEEL(softmax_bf16, TALL(x_bf16, BFLOAT16), ONE, mlx_softmax_axis(&r, x, 1, true, cpu))
KEEL(rms_norm, TALL(x_f32, FLOAT32), array(weight, 0, LENGTH, MLX_FLOAT32),
     mlx_fast_rms_norm(&r, x, y, 1e-5f, cpu))
KEEL(layer_norm, TALL(x_f32, FLOAT32), array(weight, 0, LENGTH, MLX_FLOAT32),
     mlx_fast_layer_norm(&r, x, y, y, 1e-5f, cpu))
KEEL(matmul, SQUARE(x_f32, FLOAT32), SQUARE(y_f32, FLOAT32), mlx_matmul(&r, x, y, cpu))
KEEL(matmul_bf16, SQUARE(x_bf16, BFLOAT16), SQUARE(y_bf16, BFLOAT16), mlx_matmul(&r, x, y, cpu))
KEEL(matmul_f64, SQUARE(x_f64, FLOAT64), SQUARE(y_f64, FLOAT64), mlx_matmul(&r, x, y, cpu))

static mlx_array transposed(mlx_array a) {
    mlx_array r = mlx_array_new();
    need(mlx_transpose(&r, a, cpu));
    mlx_array_free(a);
    return r;
}
KEEL(vector, array(x_f32, 1, DEPTH, MLX_FLOAT32),
     transposed(array(matrix, OUTPUTS, DEPTH, MLX_FLOAT32)), mlx_matmul(&r, x, y, cpu))

KEEL(vector_bf16, array(x_bf16, 1, DEPTH, MLX_BFLOAT16),
     transposed(array(matrix_bf16, OUTPUTS, DEPTH, MLX_BFLOAT16)), mlx_matmul(&r, x, y, cpu))
KEEL(vector_rows_bf16, array(x_bf16, 1, DEPTH, MLX_BFLOAT16),
     array(matrix_bf16, DEPTH, OUTPUTS, MLX_BFLOAT16), mlx_matmul(&r, x, y, cpu))

void keel_five(void) {
    mlx_array x = LONG(x_f32, FLOAT32), y = LONG(y_f32, FLOAT32), r = mlx_array_new(),
              z = mlx_array_new();
    for (int i = 0; i < times; i++) {
        need(mlx_multiply(&r, x, y, cpu));
        need(mlx_add(&r, r, x, cpu));
        need(mlx_multiply(&r, r, y, cpu));
        need(mlx_square(&z, x, cpu));
        need(mlx_subtract(&r, r, z, cpu));
        need(mlx_array_free(z));
        z = mlx_array_new();
        need(mlx_array_eval(r));
    }
    mlx_array_free(x), mlx_array_free(y), mlx_array_free(z), mlx_array_free(r);
}

static void by_packed(int rows, const void *x_data, mlx_dtype dtype, int bits, const void *scale,
                      const void *bias) {
    const mlx_optional_int group = {GROUP, true}, width = {bits, true};
    mlx_array x = array(x_data, rows, DEPTH, dtype), r = mlx_array_new(),
              w = array(packed, OUTPUTS, DEPTH * bits / 32, MLX_UINT32),
              s = array(scale, OUTPUTS, DEPTH / GROUP, dtype),
              b = array(bias, OUTPUTS, DEPTH / GROUP, dtype);
    for (int i = 0; i < times; i++) {
        need(mlx_quantized_matmul(&r, x, w, s, b, true, group, width, "affine", cpu));
        need(mlx_array_eval(r));
    }
    mlx_array_free(x), mlx_array_free(w), mlx_array_free(s), mlx_array_free(b), mlx_array_free(r);
}
void keel_packed4(void) {
    by_packed(1, x_f32, MLX_FLOAT32, 4, scales, biases);
}
void keel_packed4_bf16(void) {
    by_packed(1, x_bf16, MLX_BFLOAT16, 4, scales_bf16, biases_bf16);
}
void keel_packed8(void) {
    by_packed(1, x_f32, MLX_FLOAT32, 8, scales, biases);
}
void keel_packed4_few(void) {
    by_packed(4, x_f32, MLX_FLOAT32, 4, scales, biases);
}
void keel_packed4_many(void) {
    by_packed(32, x_f32, MLX_FLOAT32, 4, scales, biases);
}

static const struct {
    const char *id, *name;
    int bits, elements;
    void (*keel)(void), (*scalar)(void), (*vector)(void);
} cases[] = {
#define ENTRY(id, name, bits, elements) \
    {#id, name, bits, elements, keel_##id, scalar_##id, vector_##id},
    CASES(ENTRY)};

int main(int argc, char **argv) {
    const int n = (int)(sizeof cases / sizeof *cases);
    for (int i = 0; argc < 4 && i < n; i++)
        printf("%s %d %d %s\n", cases[i].id, cases[i].bits, cases[i].elements, cases[i].name);
    if (argc < 4) return 0;
    fill();
    cpu = mlx_default_cpu_stream_new();
    times = atoi(argv[3]);
    for (int i = 0; i < n; i++) {
        if (strcmp(cases[i].id, argv[2]) != 0) continue;
        if (strcmp(argv[1], "keel") == 0) return cases[i].keel(), 0;
        for (int k = 0; k < times; k++) (argv[1][0] == 's' ? cases[i].scalar : cases[i].vector)();
        return 0;
    }
    fprintf(stderr, "%s: no case is named so\n", argv[2]);
    return 2;
}
