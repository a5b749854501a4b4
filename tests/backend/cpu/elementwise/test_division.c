/* test_division.c - quotients rounded down and remainders, in every variant: of integers against
 * the processor's division, all pairs of 8 bits and random ones of more, by an array and by one
 * number; of floats against fmod, whose quotients have up to 2000 bits. */
#include "backend/cpu/kernel_support.h"

#include <math.h>

#include "base/number/dtype.h"

enum { MOST = 1 << 16 };
static uint64_t memory[4][MOST + 1];

/* Runs the operation on n elements, of which b may be one that is repeated. */
static void run(enum kl_op_id op, enum kl_dtype dtype, int n, void *out, void *a, void *b,
                bool one) {
    struct operand x, y, to;
    dense(&x, a, dtype, 1, &n);
    strided_operand(&y, b, dtype, 1, &n, &(int64_t){!one});
    dense(&to, out, dtype, 1, &n);
    launch(op, NULL, &to, 2, (struct operand *const[]){&x, &y}, false, 0, 0, false);
}

/* ---- integers ---- */
static const enum kl_dtype integers[] = {KL_U8, KL_U16, KL_U32, KL_U64,
                                         KL_I8, KL_I16, KL_I32, KL_I64};
static bool is_signed(enum kl_dtype dtype) {
    return dtype == KL_I8 || dtype == KL_I16 || dtype == KL_I32 || dtype == KL_I64;
}
/* Element i, extended to 64 bits as its type says. */
static uint64_t element(enum kl_dtype dtype, const void *data, int i) {
    const size_t bytes = kl_dtype_size(dtype);
    const int unused = 64 - 8 * (int)bytes;
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + (size_t)i * bytes, bytes);
    bits <<= unused;
    return is_signed(dtype) ? (uint64_t)((int64_t)bits >> unused) : bits >> unused;
}
static uint64_t quotient(enum kl_dtype dtype, uint64_t a, uint64_t b, uint64_t *rest) {
    *rest = 0;
    if (b == 0) return 0;
    if (!is_signed(dtype)) {
        *rest = a % b;
        return a / b;
    }
    if ((int64_t)b == -1) return 0 - a; /* the lowest number is itself, as after wrapping */
    int64_t q = (int64_t)a / (int64_t)b, r = (int64_t)a % (int64_t)b;
    const bool down = r != 0 && (r < 0) != ((int64_t)b < 0);
    *rest = (uint64_t)(down ? r + (int64_t)b : r);
    return (uint64_t)(down ? q - 1 : q);
}
static void compare_integers(enum kl_dtype dtype, int n, void *a, void *b, bool one) {
    void *q = memory[2], *r = memory[3];
    run(KL_OP_FLOOR_DIVIDE, dtype, n, q, a, b, one);
    run(KL_OP_REMAINDER, dtype, n, r, a, b, one);
    const uint64_t mask = UINT64_MAX >> (64 - 8 * kl_dtype_size(dtype));
    for (int i = 0; i < n; i++) {
        uint64_t x = element(dtype, a, i), y = element(dtype, b, one ? 0 : i), rest;
        uint64_t want = quotient(dtype, x, y, &rest), got_q = element(dtype, q, i),
                 got_r = element(dtype, r, i);
        if (((want ^ got_q) | (rest ^ got_r)) & mask)
            fail_msg("%s of %s: %lld and %lld give %lld, rest %lld, not %lld, rest %lld",
                     one ? "by one number" : "by an array", kl_dtype_name(dtype), (long long)x,
                     (long long)y, (long long)got_q, (long long)got_r, (long long)want,
                     (long long)rest);
    }
}
static void pairs_of_8_bits(void **state) {
    uint8_t *a = (uint8_t *)memory[0], *b = (uint8_t *)memory[1];
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (int k = 0; k < 2; k++) {
            const enum kl_dtype dtype = k ? KL_I8 : KL_U8;
            for (int i = 0; i < MOST; i++) a[i] = (uint8_t)i, b[i] = (uint8_t)(i >> 8);
            compare_integers(dtype, MOST, a, b, false);
            for (int y = 0; y < 256; y++) {
                b[0] = (uint8_t)y;
                compare_integers(dtype, 256, a, b, true);
            }
        }
    }
}
/* Numbers of every length, their neighbours, and the ends of the range. */
static uint64_t some_number(uint64_t *random) {
    kl_test_random(random);
    const uint64_t bits = *random * UINT64_C(0x9e3779b97f4a7c15), length = bits >> 58;
    const uint64_t power = UINT64_C(1) << length;
    switch (bits >> 8 & 7) {
    case 0: return power;
    case 1: return power - 1;
    case 2: return 0 - power;
    case 3: return power + 1;
    default: return (bits >> 1) >> (63 - length);
    }
}
static void random_integers(void **state) {
    enum { N = 20000, DIVISORS = 150, FEW = 200 };
    uint64_t random = 7;
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (size_t k = 0; k < sizeof integers / sizeof *integers; k++) {
            const size_t bytes = kl_dtype_size(integers[k]);
            for (int i = 0; i < N; i++)
                for (int operand = 0; operand < 2; operand++) {
                    uint64_t x = some_number(&random);
                    memcpy((char *)memory[operand] + (size_t)i * bytes, &x, bytes);
                }
            compare_integers(integers[k], N, memory[0], memory[1], false);
            for (int i = 0; i < DIVISORS; i++)
                compare_integers(integers[k], FEW, memory[0], (char *)memory[1] + (size_t)i * bytes,
                                 true);
        }
    }
}

/* ---- floats ---- */
static double right_remainder(double a, double b, bool narrow) {
    double r = fmod(a, b);
    if (r == 0 || (r < 0) == (b < 0)) return r;
    return narrow ? (double)((float)r + (float)b) : r + b;
}
/* Bits of any float, of one near 1, and special values. */
static double some_float(uint64_t *random, bool narrow) {
    static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 3};
    kl_test_random(random);
    uint64_t bits = *random * UINT64_C(0x9e3779b97f4a7c15);
    if (bits >> 59 == 0) return special[bits & 7];
    if (bits >> 62 == 1) bits = (bits & ~(UINT64_C(0x7ff) << 52)) | (1020 + (bits & 7)) << 52;
    const uint32_t high = (uint32_t)(bits >> 16);
    double x;
    float f;
    memcpy(&x, &bits, 8);
    memcpy(&f, &high, 4);
    return narrow ? bits >> 62 == 1 ? (double)(float)x : (double)f : x;
}
static void remainders_of_floats(void **state) {
    enum { N = 40000 };
    double *x = (double *)memory[0], *y = (double *)memory[1], *z = (double *)memory[2];
    float *a = (float *)memory[0], *b = (float *)memory[1], *c = (float *)memory[2];
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        uint64_t random = 11;
        for (int narrow = 0; narrow < 2; narrow++) {
            for (int i = 0; i < N; i++) {
                double p = some_float(&random, narrow), q = some_float(&random, narrow);
                if (i % 3 == 0) q = p / 3; /* a quotient near a whole number */
                if (narrow)
                    a[i] = (float)p, b[i] = (float)q;
                else
                    x[i] = p, y[i] = q;
            }
            run(KL_OP_REMAINDER, narrow ? KL_F32 : KL_F64, N, memory[2], memory[0], memory[1],
                false);
            for (int i = 0; i < N; i++) {
                double p = narrow ? (double)a[i] : x[i], q = narrow ? (double)b[i] : y[i];
                double got = narrow ? (double)c[i] : z[i], want = right_remainder(p, q, narrow);
                if (isnan(want) ? !isnan(got) : want != got || signbit(want) != signbit(got))
                    fail_msg("%s, %s: %a and %a give %a, not %a", kl_cpu_variant_name(v),
                             narrow ? "float32" : "float64", p, q, got, want);
            }
        }
    }
}
/* A quotient beyond the range of float64, among others that are not; and in place. */
static void beyond_the_range(void **state) {
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        double a[] = {0x1.fffffffffffffp1023, -5, 0x1.8p1000, 7},
               b[] = {0x1p-1074 * 3, 3, -0x1.4p-900, 0x1p-1000 * 3}, want[4];
        for (int i = 0; i < 4; i++) want[i] = right_remainder(a[i], b[i], false);
        run(KL_OP_REMAINDER, KL_F64, 4, a, a, b, false);
        for (int i = 0; i < 4; i++) assert_true(a[i] == want[i]);
    }
}

/* Quotients by one number have the bits of the processor's division, by powers of two too, whose
 * reciprocals may be infinite, denormal or exact. */
static void by_one_float(void **state) {
    static const double divisors[] = {2,         -4,        3,         0x1p126,   0x1p127,
                                      -0x1p-126, 0x1p-127,  0x1p-128,  0x1p-149,  0x1p1022,
                                      0x1p1023,  0x1p-1022, 0x1p-1024, 0x1p-1074, 0.1,
                                      0,         INFINITY,  NAN,       1};
    enum { N = 1000 };
    float *x = (float *)memory[0], *z = (float *)memory[1];
    double *wide = (double *)memory[2], *to = (double *)memory[3];
    uint64_t random = 3;
    for (int i = 0; i < N; i++) {
        const uint64_t bits = kl_test_random(&random) * UINT64_C(0x9e3779b97f4a7c15);
        memcpy(&x[i], (const char *)&bits + 4, sizeof *x);
        memcpy(&wide[i], &bits, sizeof *wide);
        if (i % 3 == 0) x[i] = (float)(wide[i] = (double)(i - 500) / 8);
        if (i % 50 == 1) wide[i] = ldexp((double)(x[i] = ldexpf((float)i, -149)), -900);
    }
    for (size_t k = 0; k < sizeof divisors / sizeof *divisors; k++)
        for (int v = 0; v < kl_cpu_n_variants(); v++) {
            double by = divisors[k];
            float narrow = (float)by;
            kl_cpu_use_variant(v);
            run(KL_OP_DIVIDE, KL_F32, N, z, x, &narrow, true);
            run(KL_OP_DIVIDE, KL_F64, N, to, wide, &by, true);
            for (int i = 0; i < N; i++) {
                const float q = x[i] / narrow;
                const double p = wide[i] / by;
                if (isnan(q) ? !isnan(z[i]) : memcmp(&q, &z[i], sizeof q) != 0)
                    fail_msg("%s: %a / %a is %a", kl_cpu_variant_name(v), (double)x[i],
                             (double)narrow, (double)z[i]);
                if (isnan(p) ? !isnan(to[i]) : memcmp(&p, &to[i], sizeof p) != 0)
                    fail_msg("%s: %a / %a is %a", kl_cpu_variant_name(v), wide[i], by, to[i]);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_8_bits),  cmocka_unit_test(by_one_float),
        cmocka_unit_test(random_integers),  cmocka_unit_test(remainders_of_floats),
        cmocka_unit_test(beyond_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
