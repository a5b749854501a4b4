/* test_power.c - powers of floats against pow of long double, in every variant with the same bits
 * in all: random operands, all pairs of special values, and the exponents that have formulas of
 * their own, which give an element the same bits alone, among others and as the exponent of all. */
#include "backend/cpu/kernel_support.h"

#include <math.h>

#include "base/number/half.h"
#include "ulp.h"

static const double special[] = {0,        -0.0,      1,   -1, 0.5, -0.5, 2,        3,    -2,
                                 INFINITY, -INFINITY, NAN, 5,  2.5, -3,   0x1p-149, 3e38, -3e38};
enum { N = 30011, N_SPECIAL = sizeof special / sizeof *special };
static float x32[N], y32[N], z32[N], first[N];
static double x64[N], y64[N], z64[N], first64[N];

static void fill(void) {
    uint64_t random = 9;
    for (int i = 0; i < N; i++) {
        double v[2];
        for (int k = 0; k < 2; k++) {
            kl_test_random(&random);
            v[k] = (double)(random * UINT64_C(0x9e3779b97f4a7c15) >> 11) * 0x1p-53;
        }
        double x = ldexp(v[0] + 0.5, (int)(v[1] * 1e6) % 20 - 10), y = (v[1] - 0.5) * 20;
        if (i % 4 == 0) y = (const double[]){-1, 0.5, 2, 3}[i / 4 % 4];
        if (i % 7 == 0) x = -x, y = i % 2 ? floor(y) : y;
        if (i < N_SPECIAL * N_SPECIAL) x = special[i % N_SPECIAL], y = special[i / N_SPECIAL];
        x32[i] = (float)(x64[i] = x);
        y32[i] = (float)(y64[i] = y);
    }
}
static void run(enum kl_dtype dtype, int n, void *out, void *a, void *b, bool one) {
    struct operand x, y, z;
    dense(&x, a, dtype, 1, &n);
    strided_operand(&y, b, dtype, 1, &n, &(int64_t){!one});
    dense(&z, out, dtype, 1, &n);
    launch(KL_OP_POWER, NULL, &z, 2, (struct operand *const[]){&x, &y}, false, 0, 0, false);
}
/* Checks powers of float32 in every variant. Prints the largest error. */
static void check_float32(double most) {
    double worst = 0;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        run(KL_F32, N, z32, x32, y32, false);
        for (int i = 0; i < N; i++) {
            const double want = (double)powl((long double)x32[i], (long double)y32[i]);
            const float near = (float)want;
            const double off = fabs((double)z32[i] - want) / kl_test_ulp_f32((double)near);
            if (isnan(near)            ? !isnan(z32[i])
                : isinf(near) || !near ? z32[i] != near || !signbit(near) != !signbit(z32[i])
                                       : !(off <= most))
                fail_msg("%s: %a to %a is %a, not %a", kl_cpu_variant_name(v), (double)x32[i],
                         (double)y32[i], (double)z32[i], want);
            if (v && !isnan(near) && kl_f32_bits(z32[i]) != kl_f32_bits(first[i]))
                fail_msg("%s: %a to %a differs from the first variant", kl_cpu_variant_name(v),
                         (double)x32[i], (double)y32[i]);
            if (isfinite(near) && near != 0 && off > worst) worst = off;
        }
        memcpy(first, z32, sizeof first);
    }
    print_message("%.4f ulp\n", worst);
}
static void float32(void **state) {
    fill();
    check_float32(0.5005);
}
/* All magnitudes of base and result: bases close to 1, denormal bases and results, and exponents so
 * large that nothing is left of their product with a logarithm when it is split. */
static void float32_far(void **state) {
    uint64_t random = 5;
    for (int i = 0; i < N; i++) {
        double v[3];
        for (int k = 0; k < 3; k++) {
            kl_test_random(&random);
            v[k] = (double)(random * UINT64_C(0x9e3779b97f4a7c15) >> 11) * 0x1p-53 - 0.5;
        }
        const double near = 1 + v[0] * ldexp(1, -(int)(i / 4 % 24));
        const float x = (float)(i % 4 == 0 ? exp2(v[0] * 298 - 1) : near);
        const double l = log2((double)x),
                     exponent = i % 4 < 3 && l != 0 ? v[1] * 300 / l : ldexp(v[1], 30 + i % 98);
        x32[i] = x, y32[i] = (float)exponent;
        if (i % 16 == 15) x32[i] = v[2] < 0 ? 0x1.fffffep-1f : 0x1.000002p0f;
    }
    check_float32(0.501);
}
/* Checks powers of float64 in every variant. Prints the largest error. */
static void check_float64(double most) {
    double worst = 0;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        run(KL_F64, N, z64, x64, y64, false);
        for (int i = 0; i < N; i++) {
            const long double want = powl((long double)x64[i], (long double)y64[i]);
            const double near = (double)want;
            const long double ulp = kl_test_ulp_f64((long double)near);
            const double off = (double)(fabsl((long double)z64[i] - want) / ulp);
            if (isnan(near)            ? !isnan(z64[i])
                : isinf(near) || !near ? z64[i] != near || !signbit(near) != !signbit(z64[i])
                                       : !(off <= most))
                fail_msg("%s: %a to %a is %a, not %La", kl_cpu_variant_name(v), x64[i], y64[i],
                         z64[i], want);
            if (v && !isnan(near) && kl_f64_bits(z64[i]) != kl_f64_bits(first64[i]))
                fail_msg("%s: %a to %a differs from the first variant", kl_cpu_variant_name(v),
                         x64[i], y64[i]);
            if (isfinite(near) && near != 0 && off > worst) worst = off;
        }
        memcpy(first64, z64, sizeof first64);
    }
    print_message("%.3f ulp\n", worst);
}
static void float64(void **state) {
    fill();
    check_float64(1);
}
/* All magnitudes of base and result, up to the smallest and the largest: where an exponent of 2^10
 * and more multiplies the error of a logarithm, and around whole exponents that are odd, or no
 * longer can be. */
static void float64_far(void **state) {
    static const double pairs[][2] = {
        {-1, 0x1p53},       {-1, 0x1p53 - 1}, {-1, 0x1p52 + 1}, {-1, 0x1p52 + 2},
        {-1, 0x1p51 + 0.5}, {-1, 1e300},      {2, -1074},       {2, -1075},
        {2, 1023},          {2, 1024},        {-2, 1025},       {-2, -1073},
        {0x1p-1074, 0.25},  {0x1p-1074, 1},   {-0x1p-1074, 5},  {1, 1e300},
        {1.5, 1e300},       {0.5, 1e300},     {-0.0, 1e300},    {INFINITY, 1e-300},
        {-INFINITY, 7},     {-INFINITY, -7},  {NAN, 0},         {3, 0x1p-1074},
        {0.1, 308},         {0x1p1023, 1e-5}, {10, 22},         {7, 13}};
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    uint64_t random = 3;
    for (int i = 0; i < N; i++) {
        kl_test_random(&random);
        const uint64_t bits = random * UINT64_C(0x9e3779b97f4a7c15);
        const double unit = (double)(bits >> 11) * 0x1p-53;
        kl_test_random(&random);
        const double t = ((double)(random * UINT64_C(0x9e3779b97f4a7c15) >> 11) * 0x1p-53 - 0.5);
        double x = i % 3 == 0   ? fabs(kl_bits_f64(bits))
                   : i % 3 == 1 ? 0.7 + unit
                                : 1 + (unit - 0.5) * ldexp(1, -(int)(bits & 31));
        double y = t * 1510 / log(x);
        if (i % 5 == 0) x = -x, y = floor(y);
        x64[i] = i < PAIRS ? pairs[i][0] : x;
        y64[i] = i < PAIRS ? pairs[i][1] : y;
    }
    check_float64(1);
}
/* In a run of one exponent, and in place, as among others. */
static void one_exponent(void **state) {
    enum { LONG = 200 };
    fill();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int k = 0; k < N_SPECIAL; k++) {
            float all[LONG + 1], mixed[LONG + 1], exponent[LONG + 1];
            double all64[LONG + 1], mixed64[LONG + 1], exponent64[LONG + 1];
            for (int i = 0; i <= LONG; i++) {
                exponent64[i] = i == LONG ? 7.5 : special[k];
                exponent[i] = (float)exponent64[i];
            }
            run(KL_F32, LONG, all, x32, exponent, true);
            memcpy(mixed, x32, sizeof mixed);
            run(KL_F32, LONG + 1, mixed, mixed, exponent, false);
            run(KL_F64, LONG, all64, x64, exponent64, true);
            memcpy(mixed64, x64, sizeof mixed64);
            run(KL_F64, LONG + 1, mixed64, mixed64, exponent64, false);
            for (int i = 0; i < LONG; i++) {
                assert_true(isnan(all[i]) ? isnan(mixed[i])
                                          : kl_f32_bits(all[i]) == kl_f32_bits(mixed[i]));
                assert_true(isnan(all64[i]) ? isnan(mixed64[i])
                                            : kl_f64_bits(all64[i]) == kl_f64_bits(mixed64[i]));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(float32), cmocka_unit_test(float32_far),
                                       cmocka_unit_test(float64), cmocka_unit_test(float64_far),
                                       cmocka_unit_test(one_exponent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
