/* MATMUL: any order of tasks and any layout gives the same bits, whichever way the shape takes, and they are near the exact product. */
#include "kernel_support.h"

#include "backend/cpu/cpu_tile.h"
#include "base/half.h"

/* Values between -2 and 2 of which each type holds every one: sixteenths. */
static void fill(void *to, enum kl_dtype dtype, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)((int)(seed >> 26) - 32) / 16;
        uint16_t half = dtype == KL_F16 ? kl_f32_to_f16(x) : kl_f32_to_bf16(x);
        if (dtype == KL_F32) memcpy((float *)to + i, &x, 4);
        if (dtype == KL_F64) memcpy((double *)to + i, &(double){x}, 8);
        if (dtype == KL_F16 || dtype == KL_BF16) memcpy((uint16_t *)to + i, &half, 2);
        if (dtype == KL_C64) memcpy((float *)to + 2 * i, (float[]){x, -x / 2}, 8);
    }
}

static double real_at(const void *v, enum kl_dtype dtype, int64_t i) {
    switch (dtype) {
    case KL_F32: return ((const float *)v)[i];
    case KL_F64: return ((const double *)v)[i];
    case KL_F16: return kl_f16_to_f32(((const uint16_t *)v)[i]);
    case KL_BF16: return kl_bf16_to_f32(((const uint16_t *)v)[i]);
    default: return ((const float *)v)[2 * i];
    }
}

/* m x k by k x n, each operand in every layout: by rows, by columns, and with gaps. */
static void product(enum kl_dtype dtype, int m, int k, int n, bool want_shared) {
    int item = (int)kl_dtype_size(dtype);
    char *a = malloc((size_t)m * k * item), *b = malloc((size_t)k * n * item);
    char *first = malloc((size_t)m * n * item), *c = malloc((size_t)m * n * item);
    char *a_lies[3], *b_lies[3];
    int64_t a_strides[3][2] = {{k, 1}, {1, m}, {2 * k, 2}};
    int64_t b_strides[3][2] = {{n, 1}, {1, k}, {2 * n, 2}};
    fill(a, dtype, (int64_t)m * k, 1);
    fill(b, dtype, (int64_t)k * n, 2);
    for (int w = 0; w < 3; w++) {
        a_lies[w] = calloc((size_t)m * k * 4, (size_t)item);
        b_lies[w] = calloc((size_t)k * n * 4, (size_t)item);
        for (int64_t i = 0; i < m; i++)
            for (int64_t e = 0; e < k; e++)
                memcpy(a_lies[w] + (i * a_strides[w][0] + e * a_strides[w][1]) * item,
                       a + (i * k + e) * item, (size_t)item);
        for (int64_t e = 0; e < k; e++)
            for (int64_t j = 0; j < n; j++)
                memcpy(b_lies[w] + (e * b_strides[w][0] + j * b_strides[w][1]) * item,
                       b + (e * n + j) * item, (size_t)item);
    }
    n_shared = 0;
    for (int way = 0; way < 9; way++) {
        struct operand x, y, z;
        strided_operand(&x, a_lies[way % 3], dtype, DIMS(m, k), a_strides[way % 3]);
        strided_operand(&y, b_lies[way / 3], dtype, DIMS(k, n), b_strides[way / 3]);
        memset(way ? c : first, 0xAB, (size_t)m * n * item);
        dense(&z, way ? c : first, dtype, DIMS(m, n));
        RUN(KL_OP_MATMUL, NULL, &z, IN(&x, &y), way > 0);
        if (way && memcmp(first, c, (size_t)m * n * item) != 0)
            fail_msg("%s, %d x %d x %d: other bits in layout %d", kl_dtype_name(dtype), m, k, n,
                     way);
    }
    if (want_shared) assert_true(n_shared > 8);
    double unit = dtype == KL_F64 ? 1e-15 : dtype == KL_BF16 ? 4e-3 : dtype == KL_F16 ? 5e-4 : 1e-6;
    for (int64_t i = 0; i < m; i += 1 + m / 9)
        for (int64_t j = 0; j < n; j += 1 + n / 9) {
            double want = 0;
            for (int64_t e = 0; e < k; e++)
                want += real_at(a, dtype, i * k + e) * real_at(b, dtype, e * n + j) *
                        (dtype == KL_C64 ? 0.75 : 1); /* (x - ix/2)(y - iy/2) */
            double got = real_at(first, dtype, i * n + j);
            if (!(fabs(got - want) <= unit * (fabs(want) + 2 * k)))
                fail_msg("%s, %d x %d x %d: %g at %d, %d, not %g", kl_dtype_name(dtype), m, k, n,
                         got, (int)i, (int)j, want);
        }
    for (int w = 0; w < 3; w++) {
        free(a_lies[w]);
        free(b_lies[w]);
    }
    free(a);
    free(b);
    free(c);
    free(first);
}

static const enum kl_dtype types[] = {KL_F32, KL_F64, KL_F16, KL_BF16, KL_C64};
#define EACH_TYPE(t) \
    for (const enum kl_dtype *t = types; t < types + sizeof types / sizeof *types; t++)

static void blocks(void **state) {
    EACH_TYPE(t) {
        product(*t, 9, 3, 33, false);
        product(*t, 28, 64, 64, false);
        product(*t, 16, 16, 16, false);
        product(*t, 64, 5, 63, false);
        product(*t, 65, 64, 64, false);
        product(*t, 71, 300, 45, false);
        product(*t, 300, 520, 600, true);
    }
}

static void few_rows(void **state) {
    EACH_TYPE(t) {
        product(*t, 1, 1, 1, false);
        product(*t, 1, 300, 2600, *t != KL_C64);
        product(*t, 2600, 300, 1, *t != KL_C64);
        product(*t, 5, 37, 66, false);
        product(*t, 40, 19, 7, false);
        product(*t, 3, 16, 16, false);
    }
}

/* k of 0: zeros. */
static void nothing_to_add(void **state) {
    float c[12 * 9];
    struct operand x, y, z;
    memset(c, 0xAB, sizeof c);
    dense(&x, c, KL_F32, DIMS(12, 0));
    dense(&y, c, KL_F32, DIMS(0, 9));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_F32, DIMS(12, 9)), IN(&x, &y), false);
    for (int i = 0; i < 12 * 9; i++) assert_true(c[i] == 0);
    memset(c, 0xAB, sizeof c);
    dense(&x, c, KL_F32, DIMS(1, 0));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_F32, DIMS(1, 9)), IN(&x, &y), false);
    for (int i = 0; i < 9; i++) assert_true(c[i] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks), cmocka_unit_test(few_rows),
                                       cmocka_unit_test(nothing_to_add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
