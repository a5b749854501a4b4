/* instructions_plain.c - the cases of instructions.h in plain C. It is compiled twice, with WAY
 * being scalar and vector, which the names of the functions begin with. */
#include <math.h>

#include "instructions.h"

#define JOINED(way, id) way##_##id
#define NAMED(way, id) JOINED(way, id)
#define PLAIN(id) NAMED(WAY, id)

static float bf16(uint16_t bits) {
    union {
        uint32_t bits;
        float value;
    } u = {.bits = (uint32_t)bits << 16};
    return u.value;
}
static uint16_t to_bf16(float x) {
    union {
        float value;
        uint32_t bits;
    } u = {.value = x};
    if (x != x) return 0x7fc0;
    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

#define LOOP(id, T, value)                            \
    void PLAIN(id)(void) {                            \
        T *y = (T *)(void *)out;                      \
        for (int64_t i = 0; i < N; i++) y[i] = value; \
    }
LOOP(add, float, x_f32[i] + y_f32[i])
LOOP(exp, float, expf(x_f32[i]))
LOOP(log, float, logf(above[i]))
LOOP(sin, float, sinf(x_f32[i]))
LOOP(tanh, float, tanhf(x_f32[i]))
LOOP(erf, float, erff(x_f32[i]))
LOOP(sqrt, float, sqrtf(above[i]))
LOOP(five, float, (x_f32[i] * y_f32[i] + x_f32[i]) * y_f32[i] - x_f32[i] * x_f32[i])
LOOP(add_bf16, uint16_t, to_bf16(bf16(x_bf16[i]) + bf16(y_bf16[i])))
LOOP(exp_bf16, uint16_t, to_bf16(expf(bf16(x_bf16[i]))))
LOOP(tanh_bf16, uint16_t, to_bf16(tanhf(bf16(x_bf16[i]))))
LOOP(to_bf16, uint16_t, to_bf16(x_f32[i]))
#ifdef __FLT16_MANT_DIG__
LOOP(from_f16, float, (float)((const _Float16 *)x_f16)[i])
#else
LOOP(from_f16, float, bf16(x_f16[i]))
#endif
LOOP(add_i8, int8_t, (int8_t)(x_i8[i] + y_i8[i]))
static int32_t floor_quotient(int32_t a, int32_t b) {
    const int32_t q = a / b;
    return q - (q * b != a && (a < 0) != (b < 0));
}
LOOP(divide_i32, int32_t, floor_quotient(x_i32[i], y_i32[i]))
LOOP(add_f64, double, x_f64[i] + y_f64[i])
LOOP(exp_f64, double, exp(x_f64[i]))

#define BY_ROWS(id, S, x, T, first, step)          \
    void PLAIN(id)(void) {                         \
        for (int r = 0; r < ROWS; r++) {           \
            const S *row = x + r * LENGTH;         \
            T value = first;                       \
            for (int i = 0; i < LENGTH; i++) step; \
            ((T *)(void *)out)[r] = value;         \
        }                                          \
    }
BY_ROWS(sum_rows, float, x_f32, float, 0, value += row[i])
BY_ROWS(max_rows, float, x_f32, float, row[0], value = row[i] > value ? row[i] : value)
BY_ROWS(sum_bf16, uint16_t, x_bf16, float, 0, value += bf16(row[i]))
BY_ROWS(sum_f64, double, x_f64, double, 0, value += row[i])
BY_ROWS(argmax_rows, float, x_f32, int, 0, value = row[i] > row[value] ? i : value)

void PLAIN(sum_columns)(void) {
    float *y = (float *)(void *)out;
    for (int i = 0; i < LENGTH; i++) y[i] = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < LENGTH; i++) y[i] += x_f32[r * LENGTH + i];
}

static float largest(const float *row) {
    float top = row[0];
    for (int i = 1; i < LENGTH; i++) top = row[i] > top ? row[i] : top;
    return top;
}
void PLAIN(logsumexp_rows)(void) {
    for (int r = 0; r < ROWS; r++) {
        const float *row = x_f32 + r * LENGTH, top = largest(row);
        float sum = 0;
        for (int i = 0; i < LENGTH; i++) sum += expf(row[i] - top);
        ((float *)(void *)out)[r] = top + logf(sum);
    }
}
void PLAIN(cumsum)(void) {
    for (int r = 0; r < ROWS; r++) {
        float sum = 0, *y = (float *)(void *)out + r * LENGTH;
        for (int i = 0; i < LENGTH; i++) y[i] = sum += x_f32[r * LENGTH + i];
    }
}
static void softmax_of(float *y, const float *row) {
    const float top = largest(row);
    float sum = 0;
    for (int i = 0; i < LENGTH; i++) sum += y[i] = expf(row[i] - top);
    const float factor = 1 / sum;
    for (int i = 0; i < LENGTH; i++) y[i] *= factor;
}
void PLAIN(softmax)(void) {
    for (int r = 0; r < ROWS; r++)
        softmax_of((float *)(void *)out + r * LENGTH, x_f32 + r * LENGTH);
}
void PLAIN(softmax_bf16)(void) {
    float row[LENGTH], y[LENGTH];
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < LENGTH; i++) row[i] = bf16(x_bf16[r * LENGTH + i]);
        softmax_of(y, row);
        for (int i = 0; i < LENGTH; i++) ((uint16_t *)(void *)out)[r * LENGTH + i] = to_bf16(y[i]);
    }
}
void PLAIN(rms_norm)(void) {
    for (int r = 0; r < ROWS; r++) {
        const float *row = x_f32 + r * LENGTH;
        float sum = 0, *y = (float *)(void *)out + r * LENGTH;
        for (int i = 0; i < LENGTH; i++) sum += row[i] * row[i];
        const float factor = 1 / sqrtf(sum / LENGTH + 1e-5f);
        for (int i = 0; i < LENGTH; i++) y[i] = row[i] * factor * weight[i];
    }
}
void PLAIN(layer_norm)(void) {
    for (int r = 0; r < ROWS; r++) {
        const float *row = x_f32 + r * LENGTH;
        float sum = 0, squares = 0, *y = (float *)(void *)out + r * LENGTH;
        for (int i = 0; i < LENGTH; i++) sum += row[i];
        const float mean = sum / LENGTH;
        for (int i = 0; i < LENGTH; i++) squares += (row[i] - mean) * (row[i] - mean);
        const float factor = 1 / sqrtf(squares / LENGTH + 1e-5f);
        for (int i = 0; i < LENGTH; i++) y[i] = (row[i] - mean) * factor * weight[i] + weight[i];
    }
}

/* The inner loop runs along rows of b and of the result, which a compiler can put into vectors. */
#define PRODUCT(id, T, a, b)                                                             \
    void PLAIN(id)(void) {                                                               \
        T *c = (T *)(void *)out;                                                         \
        for (int i = 0; i < SIDE * SIDE; i++) c[i] = 0;                                  \
        for (int i = 0; i < SIDE; i++)                                                   \
            for (int k = 0; k < SIDE; k++)                                               \
                for (int j = 0; j < SIDE; j++) c[i * SIDE + j] += a[i * SIDE + k] * (b); \
    }
PRODUCT(matmul, float, x_f32, y_f32[k * SIDE + j])
PRODUCT(matmul_f64, double, x_f64, y_f64[k * SIDE + j])
void PLAIN(matmul_bf16)(void) {
    for (int i = 0; i < SIDE; i++) {
        float c[SIDE] = {0};
        for (int k = 0; k < SIDE; k++)
            for (int j = 0; j < SIDE; j++)
                c[j] += bf16(x_bf16[i * SIDE + k]) * bf16(y_bf16[k * SIDE + j]);
        for (int j = 0; j < SIDE; j++) ((uint16_t *)(void *)out)[i * SIDE + j] = to_bf16(c[j]);
    }
}
void PLAIN(vector)(void) {
    for (int j = 0; j < OUTPUTS; j++) {
        float sum = 0;
        for (int k = 0; k < DEPTH; k++) sum += x_f32[k] * matrix[j * DEPTH + k];
        ((float *)(void *)out)[j] = sum;
    }
}
void PLAIN(vector_bf16)(void) {
    for (int j = 0; j < OUTPUTS; j++) {
        float sum = 0;
        for (int k = 0; k < DEPTH; k++) sum += bf16(x_bf16[k]) * bf16(matrix_bf16[j * DEPTH + k]);
        ((uint16_t *)(void *)out)[j] = to_bf16(sum);
    }
}
void PLAIN(vector_rows_bf16)(void) {
    float sum[OUTPUTS] = {0};
    for (int k = 0; k < DEPTH; k++)
        for (int j = 0; j < OUTPUTS; j++)
            sum[j] += bf16(x_bf16[k]) * bf16(matrix_bf16[k * OUTPUTS + j]);
    for (int j = 0; j < OUTPUTS; j++) ((uint16_t *)(void *)out)[j] = to_bf16(sum[j]);
}

/* A number is scale * code + bias; codes lie in words from the low bits on. */
#define PACKED(name, bits, value, scale, bias)                                          \
    static float name(int j, int64_t from) {                                            \
        enum { EACH = 32 / bits };                                                      \
        float sum = 0;                                                                  \
        for (int g = 0; g < DEPTH / GROUP; g++) {                                       \
            float codes = 0, alone = 0;                                                 \
            for (int k = g * GROUP; k < (g + 1) * GROUP; k++) {                         \
                const uint32_t word = packed[(j * DEPTH + k) / EACH];                   \
                codes += value * (float)(word >> k % EACH * bits & ((1u << bits) - 1)); \
                alone += value;                                                         \
            }                                                                           \
            sum += scale * codes + bias * alone;                                        \
        }                                                                               \
        return sum;                                                                     \
    }
#define AT j *DEPTH / GROUP + g
PACKED(by4, 4, x_f32[from + k], scales[AT], biases[AT])
PACKED(by4_bf16, 4, bf16(x_bf16[from + k]), bf16(scales_bf16[AT]), bf16(biases_bf16[AT]))
PACKED(by8, 8, x_f32[from + k], scales[AT], biases[AT])
void PLAIN(packed4)(void) {
    for (int j = 0; j < OUTPUTS; j++) ((float *)(void *)out)[j] = by4(j, 0);
}
void PLAIN(packed4_bf16)(void) {
    for (int j = 0; j < OUTPUTS; j++) ((uint16_t *)(void *)out)[j] = to_bf16(by4_bf16(j, 0));
}
void PLAIN(packed8)(void) {
    for (int j = 0; j < OUTPUTS; j++) ((float *)(void *)out)[j] = by8(j, 0);
}
static void rows_by4(int rows) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < OUTPUTS; j++)
            ((float *)(void *)out)[i * OUTPUTS + j] = by4(j, i * (int64_t)DEPTH);
}
void PLAIN(packed4_few)(void) {
    rows_by4(4);
}
void PLAIN(packed4_many)(void) {
    rows_by4(32);
}
