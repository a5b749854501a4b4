/* float32 functions against the C library's float64 ones, in units in the last place of the result: a sample of all bit patterns and every special one, or (KEEL_TEST_FULL=1) all 2^32, which takes
 * a minute or two per function. Prints the largest error of each. */
#include "support.h"

#include <math.h>

#include "backend/cpu/cpu_erfinv.h"

struct function {
    const char *name;
    float (*ours)(float);
    double (*right)(double);
    double most;          /* ulp */
    float lo, hi, within; /* of the result; arguments up to `within` */
};
static double sigmoid(double x) {
    return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

#define F(name, right, most, lo, hi, within) \
    { #name, kl_##name##_f32, right, most, lo, hi, within }
static const struct function functions[] = {
    F(exp, exp, 1, 0, INFINITY, INFINITY),
    F(expm1, expm1, 1, -1, INFINITY, INFINITY),
    F(sigmoid, sigmoid, 1, 0, 1, INFINITY),
    F(tanh, tanh, 1, -1, 1, INFINITY),
    F(sinh, sinh, 1, -INFINITY, INFINITY, INFINITY),
    F(cosh, cosh, 1, 1, INFINITY, INFINITY),
    F(log, log, 1, -INFINITY, INFINITY, INFINITY),
    F(log2, log2, 1, -INFINITY, INFINITY, INFINITY),
    F(log10, log10, 1, -INFINITY, INFINITY, INFINITY),
    F(log1p, log1p, 1, -INFINITY, INFINITY, INFINITY),
    F(asinh, asinh, 1, -INFINITY, INFINITY, INFINITY),
    F(acosh, acosh, 1, 0, INFINITY, INFINITY),
    F(atanh, atanh, 1, -INFINITY, INFINITY, INFINITY),
    F(sin, sin, 1, -1, 1, KL_CIRCLE_MAX),
    F(cos, cos, 1, -1, 1, KL_CIRCLE_MAX),
    F(tan, tan, 1, -INFINITY, INFINITY, KL_CIRCLE_MAX),
    F(asin, asin, 1, -1.5707964F, 1.5707964F, INFINITY),
    F(acos, acos, 1, 0, 3.1415928F, INFINITY),
    F(atan, atan, 1, -1.5707964F, 1.5707964F, INFINITY),
    F(erf, erf, 1, -1, 1, INFINITY),
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* The distance of floats around x. */
static double unit(double x) {
    int e;
    if (fabs(x) < 0x1p-126) return 0x1p-149;
    frexp(x, &e);
    return ldexp(1, e - 24);
}

/* The error of `got`, in units; infinite where it is another infinity, sign of zero or NaN. */
static double error_of(float got, double want) {
    float rounded = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(got)) /* the largest number and infinity are neighbours */
        return got == rounded || nextafterf(got, rounded) == rounded ? 0 : INFINITY;
    if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
    return fabs((double)got - want) / unit(want);
}

static void check(const struct function *f, uint32_t bits, double *worst, float *at) {
    float x = kl_bits_f32(bits);
    if (fabsf(x) > f->within) return;
    float got = f->ours(x);
    double e = error_of(got, f->right((double)x));
    if (!isnan(got) && !(got >= f->lo && got <= f->hi))
        fail_msg("%s(%.9g) is %.9g, outside %.9g .. %.9g", f->name, x, got, f->lo, f->hi);
    if (e > f->most) fail_msg("%s(%.9g) is %.9g: off by %.3g units", f->name, x, got, e);
    if (e > *worst) {
        *worst = e;
        *at = x;
    }
}

static void accurate(void **state) {
    bool full = getenv("KEEL_TEST_FULL") != NULL;
    static const uint32_t special[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f7fffff,
                                       0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000,
                                       0x3f000000, 0x3effffff, 0x3f3504f3, 0x3f3504f4, 0x42b17217,
                                       0x42b17218, 0x42cff1b4, 0x42cff1b5, 0x3fc90fdb, 0x40490fdb};
    for (int k = 0; k < N_FUNCTIONS; k++) {
        double worst = 0;
        float at = 0;
        for (size_t i = 0; i < sizeof special / sizeof *special; i++)
            for (uint32_t sign = 0; sign <= 1; sign++)
                check(&functions[k], special[i] | sign << 31, &worst, &at);
        for (uint64_t b = 0; b <= UINT32_MAX; b += full ? 1 : 9973)
            check(&functions[k], (uint32_t)b, &worst, &at);
        printf("%-8s largest error %.3f ulp, at %.9g\n", functions[k].name, worst, at);
    }
}

/* Of two arguments: pairs of special values, and random ones. */
static void pairs(void **state) {
    static const float special[] = {0.0f,   1.0f,    0.5f,           2.0f,  3.0f,  0.7f,
                                    1e-40f, 1e38f,   1e-3f,          17.0f, 1e9f,  INFINITY,
                                    NAN,    0x1p24f, 0x1.000002p23f, 2.5f,  100.0f};
    enum { N = sizeof special / sizeof *special, RANDOM = 1000000 };
    uint64_t state64 = 1;
    double worst[2] = {0, 0};
    for (int i = 0; i < 4 * N * N + RANDOM; i++) {
        float x, y;
        if (i < 4 * N * N) {
            x = special[i / 4 % N] * (i & 1 ? -1.0f : 1.0f);
            y = special[i / 4 / N] * (i & 2 ? -1.0f : 1.0f);
        } else {
            state64 = state64 * 6364136223846793005u + 1442695040888963407u;
            x = kl_bits_f32((uint32_t)(state64 >> 32));
            state64 = state64 * 6364136223846793005u + 1442695040888963407u;
            y = kl_bits_f32((uint32_t)(state64 >> 32));
            if (i % 2)
                x = 1 + (x - floorf(x)) * 100, y = (float)(int)(state64 >> 40 & 255) / 8 - 16;
        }
        double e[2] = {error_of(kl_atan2_f32(y, x), atan2((double)y, (double)x)),
                       error_of(kl_pow_f32(x, y), pow((double)x, (double)y))};
        for (int k = 0; k < 2; k++) {
            if (e[k] > 1)
                fail_msg("%s of %.9g, %.9g: %.9g, not %.9g", k ? "pow" : "atan2 (y behind)", x, y,
                         k ? kl_pow_f32(x, y) : kl_atan2_f32(y, x), k ? powf(x, y) : atan2f(y, x));
            if (e[k] > worst[k]) worst[k] = e[k];
        }
    }
    printf("atan2    largest error %.3f ulp\npow      largest error %.3f ulp\n", worst[0],
           worst[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accurate), cmocka_unit_test(pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
