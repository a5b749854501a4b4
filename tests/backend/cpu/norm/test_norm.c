/* test_norm.c - norms of short rows, many of which are computed at a time, have the bits of rows
 * that are computed one by one, and nothing outside of the result is written. */
#include "backend/cpu/kernel_support.h"

#include "base/number/half.h"
#include "base/op/op_params.h"

enum { MOST_ROWS = 83, MOST_LENGTH = 65, EDGE = 256 };

static void put(enum kl_dtype dtype, void *data, int64_t i, float x) {
    if (dtype == KL_F32) ((float *)data)[i] = x;
    if (dtype == KL_F64) ((double *)data)[i] = (double)x;
    if (dtype == KL_F16) ((uint16_t *)data)[i] = kl_f32_to_f16(x);
    if (dtype == KL_BF16) ((uint16_t *)data)[i] = kl_f32_to_bf16(x);
}

/* Rows with a gap are copied and computed one by one. In place: the result is the operand. */
static void compare(enum kl_op_id op, enum kl_dtype dtype, int rows, int length, bool factors) {
    static char x[MOST_ROWS * MOST_LENGTH * 8], gaps[MOST_ROWS * (MOST_LENGTH + 1) * 8],
        want[MOST_ROWS * MOST_LENGTH * 8], got[MOST_ROWS * MOST_LENGTH * 8 + EDGE],
        weight[MOST_LENGTH * 8], bias[MOST_LENGTH * 8];
    const size_t item = kl_dtype_size(dtype), bytes = (size_t)(rows * length) * item;
    const bool biased = factors && op == KL_OP_LAYER_NORM;
    struct kl_norm_params p = {.eps = 1e-5f, .has_weight = factors, .has_bias = biased};
    struct operand a, w, b, z;
    for (int i = 0; i < rows * length; i++)
        put(dtype, x, i, i % 41 == 3 ? -0.0f : (float)(i * 37 % 101 - 40) / 13);
    if (rows > 20 && length > 2) put(dtype, x, 20 * length + 1, INFINITY);
    for (int i = 0; i < length; i++) {
        put(dtype, weight, i, (float)(i % 7 + 1) / 3);
        put(dtype, bias, i, (float)(i % 5 - 2) / 7);
    }
    for (int r = 0; r < rows; r++)
        memcpy(gaps + (size_t)(r * (length + 1)) * item, x + (size_t)(r * length) * item,
               (size_t)length * item);
    dense(&w, weight, dtype, DIMS(length));
    dense(&b, bias, dtype, DIMS(length));
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int way = 0; way < 3; way++) { /* with a gap, contiguous, in place */
            void *to = way ? got : want;
            memset(got, 0x5a, sizeof got);
            if (way == 0)
                strided_operand(&a, gaps, dtype, DIMS(rows, length), STRIDES(length + 1, 1));
            else
                dense(&a, way == 1 ? x : memcpy(got, x, bytes), dtype, DIMS(rows, length));
            dense(&z, to, dtype, DIMS(rows, length));
            if (biased)
                RUN(op, &p, &z, IN(&a, &w, &b), true);
            else if (factors)
                RUN(op, &p, &z, IN(&a, &w), true);
            else
                RUN(op, &p, &z, IN(&a), true);
            for (size_t i = 0; way && i < bytes; i++)
                if (got[i] != want[i])
                    fail_msg("%s, %d rows of %d, way %d: other bits at byte %zu",
                             kl_dtype_name(dtype), rows, length, way, i);
            for (size_t i = bytes; way && i < bytes + EDGE; i++) assert_int_equal(got[i], 0x5a);
        }
    }
    kl_cpu_use_variant(-1);
}

static void short_rows(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    static const int lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, MOST_LENGTH},
                     rows[] = {1, 2, 15, 16, 17, 33, MOST_ROWS};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                for (int factors = 0; factors < 2; factors++) {
                    compare(KL_OP_LAYER_NORM, dtypes[d], rows[r], lengths[l], factors);
                    compare(KL_OP_RMS_NORM, dtypes[d], rows[r], lengths[l], factors);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
