/* test_half.c - kernels that compute 16-bit floats directly must give the bits of the float32
 * result, rounded once. Tested are every argument of the unary kernels, and every length near a
 * whole number of vectors, in every variant. */
#include "backend/cpu/kernel_support.h"

#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/number/half.h"

static double sigmoid(double x) {
    return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double square(double x) {
    return x * x;
}
static double rsqrt(double x) { /* rounded after each step, as the float32 kernel does */
    return (double)(1.0f / sqrtf((float)x));
}
static double negative(double x) {
    return -x;
}

static const struct {
    const char *name;
    enum kl_op_id op;
    double (*right)(double);
} functions[] = {
    {"exp", KL_OP_EXP, exp},
    {"log", KL_OP_LOG, log},
    {"log2", KL_OP_LOG2, log2},
    {"log10", KL_OP_LOG10, log10},
    {"sin", KL_OP_SIN, sin},
    {"cos", KL_OP_COS, cos},
    {"tanh", KL_OP_TANH, tanh},
    {"erf", KL_OP_ERF, erf},
    {"square", KL_OP_SQUARE, square},
    {"sigmoid", KL_OP_SIGMOID, sigmoid},
    {"sqrt", KL_OP_SQRT, sqrt},
    {"rsqrt", KL_OP_RSQRT, rsqrt},
    {"negative", KL_OP_NEGATIVE, negative},
    {"abs", KL_OP_ABS, fabs},
};
static const struct {
    const char *name;
    enum kl_op_id op;
} joins[] = {{"add", KL_OP_ADD},       {"subtract", KL_OP_SUBTRACT}, {"multiply", KL_OP_MULTIPLY},
             {"divide", KL_OP_DIVIDE}, {"maximum", KL_OP_MAXIMUM},   {"minimum", KL_OP_MINIMUM}};
enum {
    ALL = 1 << 16,
    N_FUNCTIONS = sizeof functions / sizeof *functions,
    N_JOINS = sizeof joins / sizeof *joins
};

static float load(enum kl_dtype dtype, uint16_t u) {
    return dtype == KL_F16 ? kl_f16_load(u) : kl_bf16_load(u);
}
static uint16_t store(enum kl_dtype dtype, float x) {
    return dtype == KL_F16 ? kl_f16_store(x) : kl_bf16_store(x);
}

/* Runs the operation on n elements of this dtype. */
static void run(enum kl_op_id op, enum kl_dtype dtype, int n, uint16_t *out, uint16_t *a,
                uint16_t *b) {
    struct kl_error *err = NULL;
    struct operand x, y, to;
    dense(&x, a, dtype, 1, &n);
    dense(&y, b ? b : a, dtype, 1, &n);
    dense(&to, out, dtype, 1, &n);
    const struct kl_arg in[2] = {x.arg, y.arg};
    struct kl_launch l = {
        .op = op, .n_in = b ? 2 : 1, .in = in, .n_out = 1, .out = &to.arg, .err = &err};
    assert_int_equal(kl_cpu_kernel(op)(&l), KL_OK);
}

/* The expected value is the exact float32 result, rounded to 16 bits. */
static void every_argument(void **state) {
    static uint16_t x[ALL], y[ALL];
    for (int i = 0; i < ALL; i++) x[i] = (uint16_t)i;
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int k = 0; k < N_FUNCTIONS; k++)
            for (int half = 0; half < 2; half++) {
                enum kl_dtype dtype = half ? KL_F16 : KL_BF16;
                memset(y, 0xee, sizeof y);
                run(functions[k].op, dtype, ALL, y, x, NULL);
                for (int i = 0; i < ALL; i++) {
                    float given = load(dtype, x[i]);
                    uint16_t want = store(dtype, (float)functions[k].right((double)given));
                    if (isnan(load(dtype, want)) ? !isnan(load(dtype, y[i])) : y[i] != want)
                        fail_msg("%s, %s of %s: %a gives %04x, not %04x",
                                 kl_cpu_variant_name(variant), functions[k].name,
                                 kl_dtype_name(dtype), (double)given, y[i], want);
                }
            }
    }
}

/* Every length up to a few vectors, with a separate output and in place. Nothing is written beyond
 * the end. */
static void lengths(void **state) {
    enum { MOST = 131, GUARD = 8 };
    uint16_t a[MOST], b[MOST], want[MOST], got[MOST + GUARD], same[MOST + GUARD];
    uint64_t random = 1;
    for (int i = 0; i < MOST; i++) {
        kl_test_random(&random);
        a[i] = (uint16_t)(random >> 40);
        b[i] = i % 5 ? (uint16_t)(random >> 24) : a[i] ^ (i % 2 ? 0x8000 : 0);
    }
    a[3] = b[4] = 0, a[7] = b[8] = 0x8000, a[3 + 8] = 0x8000, b[3 + 8] = 0;
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int k = 0; k < N_JOINS + N_FUNCTIONS; k++)
            for (int half = 0; half < 2; half++) {
                enum kl_dtype dtype = half ? KL_F16 : KL_BF16;
                enum kl_op_id op = k < N_JOINS ? joins[k].op : functions[k - N_JOINS].op;
                for (int i = 0; i < MOST; i++) {
                    float x = load(dtype, a[i]), y = load(dtype, b[i]);
                    float r = op == KL_OP_ADD        ? x + y
                              : op == KL_OP_SUBTRACT ? x - y
                              : op == KL_OP_MULTIPLY ? x * y
                              : op == KL_OP_DIVIDE   ? x / y
                              : isnan(x) || isnan(y) ? NAN
                              : op == KL_OP_MAXIMUM  ? (x > y || (x == y && !signbit(x)) ? x : y)
                                                     : (x < y || (x == y && signbit(x)) ? x : y);
                    if (k >= N_JOINS) r = (float)functions[k - N_JOINS].right((double)x);
                    want[i] = store(dtype, r);
                }
                for (int n = 1; n <= MOST; n++) {
                    memset(got, 0xee, sizeof got);
                    memset(same, 0xee, sizeof same);
                    memcpy(same, a, (size_t)n * sizeof *a);
                    run(op, dtype, n, got, a, k < N_JOINS ? b : NULL);
                    run(op, dtype, n, same, same, k < N_JOINS ? b : NULL);
                    for (int i = 0; i < n; i++)
                        if (isnan(load(dtype, want[i])) ? !isnan(load(dtype, got[i]))
                                                        : got[i] != want[i])
                            fail_msg("%s, operation %d of %s: element %d of %d is %04x, not %04x",
                                     kl_cpu_variant_name(variant), op, kl_dtype_name(dtype), i, n,
                                     got[i], want[i]);
                    assert_memory_equal(same, got, (size_t)n * sizeof *got);
                    for (int i = n; i < n + GUARD; i++) assert_int_equal(got[i], 0xeeee);
                }
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_argument), cmocka_unit_test(lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
