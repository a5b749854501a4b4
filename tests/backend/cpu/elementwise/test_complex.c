/* test_complex.c - functions of complex64 against those of <complex.h> in double, each part within
 * an ulp, in every variant, with the same bits in all; numbers of any magnitude, real ones, and
 * those that only the functions of single numbers compute, side by side. */
#include "backend/cpu/kernel_support.h"

#include <complex.h>
#include <math.h>

#include "base/number/half.h"
#include "ulp.h"

typedef double complex (*function)(double complex z);
static double complex log2_of(double complex z) {
    return clog(z) * 1.4426950408889634074;
}
static double complex log10_of(double complex z) {
    return clog(z) * 0.43429448190325182765;
}
static double complex rsqrt_of(double complex z) {
    return 1 / csqrt(z);
}
static double complex sign_of(double complex z) {
    return cimag(z) == 0 ? creal(z) / fabs(creal(z)) + I * cimag(z) : z / cabs(z);
}
static const struct {
    const char *name;
    enum kl_op_id op;
    function right;
} functions[] = {
    {"exp", KL_OP_EXP, cexp},         {"log", KL_OP_LOG, clog},    {"log2", KL_OP_LOG2, log2_of},
    {"log10", KL_OP_LOG10, log10_of}, {"sqrt", KL_OP_SQRT, csqrt}, {"rsqrt", KL_OP_RSQRT, rsqrt_of},
    {"sign", KL_OP_SIGN, sign_of},    {"sin", KL_OP_SIN, csin},    {"cos", KL_OP_COS, ccos},
    {"tan", KL_OP_TAN, ctan},         {"sinh", KL_OP_SINH, csinh}, {"cosh", KL_OP_COSH, ccosh},
    {"tanh", KL_OP_TANH, ctanh},
};
enum { N = 20011, N_FUNCTIONS = sizeof functions / sizeof *functions };
static float given[N][2], made[N][2], first[N_FUNCTIONS][N][2];

/* Parts within 4 of 0; of any magnitude up to 2^20; one of them 0; a few far out or not finite. */
static void fill(void) {
    static const float ends[] = {INFINITY, -INFINITY, NAN, 3e38f, 1e-42f, 0, -0.0f, 400};
    uint64_t random = 3;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 2; k++) {
            kl_test_random(&random);
            const uint64_t bits = random * UINT64_C(0x9e3779b97f4a7c15);
            const double near = ((double)(bits >> 11) * 0x1p-53 - 0.5) * 8;
            given[i][k] = (float)(i % 3 ? near : ldexp(near, (int)(bits & 31) - 12));
            if (i % 97 == 0) given[i][k] = ends[bits & 7];
        }
        if (i % 5 == 0) given[i][i / 5 % 2] = i % 2 ? 0.0f : -0.0f;
    }
}
static void run(enum kl_op_id op, float (*to)[2], float (*from)[2], int n) {
    struct operand x, y;
    dense(&x, from, KL_C64, 1, &n);
    dense(&y, to, KL_C64, 1, &n);
    launch(op, NULL, &y, 1, (struct operand *const[]){&x}, false, 0, 0, false);
}
/* Within an ulp of the double. Near 1 logarithms lose the digits of a float64. */
static bool is_near(float got, double want) {
    if (isnan(want)) return isnan(got);
    if (isinf((float)want)) return got == (float)want;
    return fabs((double)got - want) <= kl_test_ulp_f32(want) + 0x1p-48;
}
static bool is_ordinary(const float *z) {
    return fabsf(z[0]) < 80 && fabsf(z[1]) < 80 && (z[0] != 0 || z[1] != 0);
}
static void values(void **state) {
    fill();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int f = 0; f < N_FUNCTIONS; f++) {
            run(functions[f].op, made, given, N);
            for (int i = 0; i < N; i++) {
                const double complex right =
                    functions[f].right((double)given[i][0] + I * (double)given[i][1]);
                if (is_ordinary(given[i]) &&
                    (!is_near(made[i][0], creal(right)) || !is_near(made[i][1], cimag(right))))
                    fail_msg("%s, %s of (%a, %a): (%a, %a), not (%a, %a)", kl_cpu_variant_name(v),
                             functions[f].name, (double)given[i][0], (double)given[i][1],
                             (double)made[i][0], (double)made[i][1], creal(right), cimag(right));
                for (int k = 0; k < 2; k++)
                    if (v && !isnan(made[i][k]) &&
                        kl_f32_bits(made[i][k]) != kl_f32_bits(first[f][i][k]))
                        fail_msg("%s, %s of (%a, %a) differs from the first variant",
                                 kl_cpu_variant_name(v), functions[f].name, (double)given[i][0],
                                 (double)given[i][1]);
            }
            if (v == 0) memcpy(first[f], made, sizeof made);
        }
    }
}
/* A number's result does not depend on its neighbours, nor on whether it is computed in place. */
static void alone(void **state) {
    fill();
    for (int f = 0; f < N_FUNCTIONS; f++) {
        run(functions[f].op, made, given, N);
        for (int i = 0; i < N; i += 131) {
            float one[1][2] = {{given[i][0], given[i][1]}};
            run(functions[f].op, one, one, 1);
            for (int k = 0; k < 2; k++)
                assert_true(isnan(one[0][k]) ? isnan(made[i][k])
                                             : kl_f32_bits(one[0][k]) == kl_f32_bits(made[i][k]));
        }
    }
}
static void magnitudes(void **state) {
    static float sizes[N];
    fill();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        struct operand x, y;
        dense(&x, given, KL_C64, 1, (const int[]){N});
        dense(&y, sizes, KL_F32, 1, (const int[]){N});
        launch(KL_OP_ABS, NULL, &y, 1, (struct operand *const[]){&x}, false, 0, 0, false);
        for (int i = 0; i < N; i++) {
            const float want = (float)hypot((double)given[i][0], (double)given[i][1]);
            assert_true(isnan(want) ? isnan(sizes[i]) : is_near(sizes[i], (double)want));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(alone),
                                       cmocka_unit_test(magnitudes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
