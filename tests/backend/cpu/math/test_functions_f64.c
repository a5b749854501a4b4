/* test_functions_f64.c - functions of float64 against those of long double, in units in the last
 * place of the result, in every variant, with the same bits in all: random bit patterns, numbers
 * near 0 and near 1, and special values. The program prints the largest error of each function. */
#include "backend/cpu/kernel_support.h"

#include <math.h>

#include "base/number/half.h"
#include "ulp.h"

static long double log2_of(long double x) {
    return log2l(x);
}
static long double sinc_of(long double x) {
    const long double d = fabsl(x), whole = rintl(d), pi = 3.14159265358979323846264338327950288L;
    if (isinf(x)) return 0;
    if (x == 0) return 1;
    return (fmodl(whole, 2) != 0 ? -1 : 1) * sinl(pi * (d - whole)) / (pi * d) + 0.0L;
}
static long double sigmoid_of(long double x) {
    return 1 / (1 + expl(-x));
}
/* Steps of Halley's method; close to 1 with erfc, so that no digits cancel. */
static long double erfinv_of(long double x) {
    const long double mag = fabsl(x), w = -logl((1 - mag) * (1 + mag));
    long double y = 0.89L * mag + (w > 1 ? sqrtl(w) * 0.95L - 0.89L * mag : 0);
    if (!(mag < 1)) return mag == 1 ? copysignl(INFINITY, x) : NAN;
    for (int i = 0; i < 5; i++) {
        const long double over = mag < 0.5L ? erfl(y) - mag : (1 - mag) - erfcl(y);
        const long double step = over * 0.886226925452758013649L * expl(y * y);
        y -= step / (1 + y * step);
    }
    return copysignl(y, x);
}
static const struct {
    const char *name;
    enum kl_op_id op;
    long double (*right)(long double x);
    double most; /* ulp */
} functions[] = {
    {"exp", KL_OP_EXP, expl, 1},
    {"expm1", KL_OP_EXPM1, expm1l, 2.5},
    {"sinh", KL_OP_SINH, sinhl, 2.5},
    {"cosh", KL_OP_COSH, coshl, 2},
    {"tanh", KL_OP_TANH, tanhl, 2.5},
    {"sigmoid", KL_OP_SIGMOID, sigmoid_of, 2},
    {"log", KL_OP_LOG, logl, 1},
    {"log2", KL_OP_LOG2, log2_of, 1},
    {"log10", KL_OP_LOG10, log10l, 1},
    {"log1p", KL_OP_LOG1P, log1pl, 1},
    {"asinh", KL_OP_ARCSINH, asinhl, 3},
    {"acosh", KL_OP_ARCCOSH, acoshl, 3},
    {"atanh", KL_OP_ARCTANH, atanhl, 3},
    {"asin", KL_OP_ARCSIN, asinl, 2.5},
    {"acos", KL_OP_ARCCOS, acosl, 2.5},
    {"atan", KL_OP_ARCTAN, atanl, 1.5},
    {"cbrt", KL_OP_CBRT, cbrtl, 1},
    {"sinc", KL_OP_SINC, sinc_of, 2.5},
    {"sin", KL_OP_SIN, sinl, 1},
    {"cos", KL_OP_COS, cosl, 1},
    {"tan", KL_OP_TAN, tanl, 2},
    {"erf", KL_OP_ERF, erfl, 1.25},
    {"erfinv", KL_OP_ERFINV, erfinv_of, 2.5},
};
enum { N = 60007, N_FUNCTIONS = sizeof functions / sizeof *functions };
static double given[N], other[N], made[N], first[N_FUNCTIONS + 1][N];

static double some_number(uint64_t *random, int i) {
    static const double special[] = {0,
                                     -0.0,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     1,
                                     -1,
                                     0.5,
                                     8,
                                     1000,
                                     0x1p-1074,
                                     -0x1p-1074,
                                     0x1p-1022,
                                     0x1.fffffffffffffp1023,
                                     709.7,
                                     710.4,
                                     -745.1,
                                     -708.5,
                                     0.75,
                                     0.25,
                                     1.5707963267948966,
                                     3.141592653589793,
                                     0x1p28,
                                     0x1p20,
                                     1e300,
                                     2};
    kl_test_random(random);
    const uint64_t bits = *random * UINT64_C(0x9e3779b97f4a7c15);
    const double unit = (double)(bits >> 11) * 0x1p-53;
    if (i < (int)(sizeof special / sizeof *special)) return special[i];
    switch (i % 6) {
    case 0: return kl_bits_f64(bits);
    case 1: return (unit - 0.5) * 2;
    case 2: return (unit - 0.5) * 20;
    case 3: return 1 + (unit - 0.5) * ldexp(1, -(int)(bits & 31));
    case 4: return (unit - 0.5) * ldexp(1, -(int)(bits & 63));
    default: return (unit - 0.5) * 1500;
    }
}
static double error_in_ulp(double got, long double want) {
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (isinf((double)want)) return got == (double)want ? 0 : INFINITY;
    if (isinf(got)) return INFINITY;
    return (double)(fabsl((long double)got - want) / kl_test_ulp_f64(want));
}
static void check(const char *name, int f, int v, double most, long double (*right)(int i)) {
    double worst = 0;
    for (int i = 0; i < N; i++) {
        const long double want = right(i);
        const double off = error_in_ulp(made[i], want);
        if (!(off <= most) || (want == 0 && !signbit(want) != !signbit(made[i])))
            fail_msg("%s, %s of %a (%a): %a, not %La (%g ulp)", kl_cpu_variant_name(v), name,
                     given[i], other[i], made[i], want, off);
        if (v && !isnan(made[i]) && kl_f64_bits(made[i]) != kl_f64_bits(first[f][i]))
            fail_msg("%s, %s of %a differs from the first variant", kl_cpu_variant_name(v), name,
                     given[i]);
        worst = off > worst ? off : worst;
    }
    if (v == 0) memcpy(first[f], made, sizeof made);
    if (v == 0) print_message("%s: %.3f ulp\n", name, worst);
}
static int current;
static long double right_of_one(int i) {
    return functions[current].right((long double)given[i]);
}
static long double right_angle(int i) {
    return atan2l((long double)given[i], (long double)other[i]);
}
static void fill(void) {
    uint64_t random = 5;
    for (int i = 0; i < N; i++) given[i] = some_number(&random, i);
    for (int i = 0; i < N; i++) other[i] = some_number(&random, (i * 7 + i / 26) % N);
}
static void of_one(void **state) {
    fill();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (current = 0; current < N_FUNCTIONS; current++) {
            struct operand x, y;
            dense(&x, given, KL_F64, 1, (const int[]){N});
            dense(&y, made, KL_F64, 1, (const int[]){N});
            launch(functions[current].op, NULL, &y, 1, (struct operand *const[]){&x}, false, 0, 0,
                   false);
            check(functions[current].name, current, v, functions[current].most, right_of_one);
        }
    }
}
static void angles(void **state) {
    fill();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        struct operand x, y, z;
        dense(&x, given, KL_F64, 1, (const int[]){N});
        dense(&y, other, KL_F64, 1, (const int[]){N});
        dense(&z, made, KL_F64, 1, (const int[]){N});
        launch(KL_OP_ARCTAN2, NULL, &z, 2, (struct operand *const[]){&x, &y}, false, 0, 0, false);
        check("atan2", N_FUNCTIONS, v, 1.5, right_angle);
    }
}
/* A partial run, in place, has the bits of the whole. */
static void lengths(void **state) {
    fill();
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int n = 1; n < 40; n += 6) {
            struct operand x, y;
            double some[40];
            dense(&x, given + 26, KL_F64, 1, (const int[]){40});
            dense(&y, made, KL_F64, 1, (const int[]){40});
            launch(functions[f].op, NULL, &y, 1, (struct operand *const[]){&x}, false, 0, 0, false);
            memcpy(some, given + 26, sizeof some);
            dense(&x, some, KL_F64, 1, &n);
            launch(functions[f].op, NULL, &x, 1, (struct operand *const[]){&x}, false, 0, 0, false);
            for (int i = 0; i < 40; i++) {
                const double want = i < n ? made[i] : given[26 + i];
                assert_true(isnan(want) ? isnan(some[i]) : some[i] == want);
            }
        }
}

/* Logarithms of runs of ordinary numbers take another way than of runs with others: one such number
 * at each place changes no other result, and has its own. */
static void logarithms_of_others(void **state) {
    enum { N_RUN = 40 };
    static const enum kl_op_id ops[] = {KL_OP_LOG, KL_OP_LOG2, KL_OP_LOG10};
    static const double others[] = {
        0, -0.0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY, 0x1p-1074, 0x1p-1023};
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int f = 0; f < 3; f++)
            for (size_t k = 0; k < sizeof others / sizeof *others; k++)
                for (int at = 0; at < N_RUN; at++) {
                    double x[N_RUN], plain[N_RUN], y[N_RUN];
                    struct operand from, to;
                    for (int i = 0; i < N_RUN; i++)
                        x[i] = i ? 0x1p-1022 * pow(1.9, i * 27) : 0x1.fffffffffffffp1023;
                    RUN(ops[f], NULL, dense(&to, plain, KL_F64, DIMS(N_RUN)),
                        IN(dense(&from, x, KL_F64, DIMS(N_RUN))), false);
                    x[at] = others[k];
                    RUN(ops[f], NULL, dense(&to, y, KL_F64, DIMS(N_RUN)),
                        IN(dense(&from, x, KL_F64, DIMS(N_RUN))), false);
                    const double right = f == 0   ? log(others[k])
                                         : f == 1 ? log2(others[k])
                                                  : log10(others[k]);
                    for (int i = 0; i < N_RUN; i++) {
                        const double want = i == at ? right : plain[i];
                        const bool same = isnan(want)   ? isnan(y[i]) != 0
                                          : isinf(want) ? y[i] == want
                                                        : fabs(y[i] - want) <= (i == at) * 1e-13;
                        if (!same)
                            fail_msg("operation %d, %a at %d: %a at %d, not %a", f, others[k], at,
                                     y[i], i, want);
                    }
                }
    }
    kl_cpu_use_variant(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_one), cmocka_unit_test(angles),
                                       cmocka_unit_test(lengths),
                                       cmocka_unit_test(logarithms_of_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
