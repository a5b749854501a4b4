/* test_functions.c - float32 functions against float64 functions, in units in the last place of the
 * result. By default a sample of all bit patterns and every special value, in every variant. With
 * KEEL_TEST_FULL=1, or with the name of a function, all 2^32 arguments in the widest variant, on
 * one thread per processor, which takes a minute or two per function. The program prints the
 * largest error of each function. */
#include "backend/cpu/kernel_support.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "backend/cpu/math/erfinv.h"
#include "backend/cpu/math/power.h"
#include "backend/cpu/elementwise/map.h"
#include "base/thread.h"
#include "ulp.h"

struct function {
    const char *name;
    enum kl_op_id op;
    double most; /* the largest error allowed, in ulp */
};
/* The functions whose results are rounded, from the rows of base/op/op_list.def. */
static const struct function functions[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, function, takes, computes, gives, ulp, ...) \
    {#name, KL_OP_##ID, ulp},
#include "base/op/op_list.def"
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* The range of each function. Rounding error must not carry a result out of this range. */
static const struct ends {
    enum kl_op_id op;
    float lo, hi;
} ends[] = {
    {KL_OP_EXP, 0, INFINITY},
    {KL_OP_EXPM1, -1, INFINITY},
    {KL_OP_SIGMOID, 0, 1},
    {KL_OP_TANH, -1, 1},
    {KL_OP_COSH, 1, INFINITY},
    {KL_OP_ARCCOSH, 0, INFINITY},
    {KL_OP_SIN, -1, 1},
    {KL_OP_COS, -1, 1},
    {KL_OP_ARCSIN, -1.5707964F, 1.5707964F},
    {KL_OP_ARCCOS, 0, 3.1415928F},
    {KL_OP_ARCTAN, -1.5707964F, 1.5707964F},
    {KL_OP_ERF, -1, 1},
    {KL_OP_SINC, -0.2172337F, 1},
    {KL_OP_SQRT, -0.0F, INFINITY},
};
static struct ends ends_of(enum kl_op_id op) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].op == op) return ends[i];
    return (struct ends){op, -INFINITY, INFINITY};
}

/* Improves the float64 kernel's result by a step of Newton's method. Close to 1 the step uses erfc,
 * so that no digits cancel. */
static double erfinv_of(double y, double z) {
    if (!(fabs(y) < 1) || y == 0) return z;
    for (int i = 0; i < 2; i++) {
        double over = fabs(y) < 0.5 ? erf(fabs(z)) - fabs(y) : (1 - fabs(y)) - erfc(fabs(z));
        z -= copysign(over * 0.88622692545275801365 * exp(z * z), y);
    }
    return z;
}

/* The error of `got`, in units. It is infinite where `got` has the wrong infinity, the wrong sign
 * of a zero, or is a NaN without reason. */
static double error_of(float got, double want) {
    float rounded = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    /* The largest finite number and infinity count as neighbours. */
    if (isinf(rounded) || isinf(got))
        return got == rounded || nextafterf(got, rounded) == rounded ? 0 : INFINITY;
    if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : INFINITY;
    return fabs((double)got - want) / kl_test_ulp_f32(want);
}

enum { BLOCK = 4096, MAX_THREADS = 64 };

/* The arguments from, from + step, ... and the results of their check. */
struct range {
    const struct function *f;
    uint64_t from, to, step;
    double worst;
    float at, got;
    bool outside; /* whether a result lies outside of lo .. hi */
};

static int run(enum kl_op_id op, enum kl_dtype dtype, void *x, void *y, int n) {
    struct operand a, b;
    struct kl_error *err = NULL;
    dense(&a, x, dtype, 1, &n);
    dense(&b, y, dtype, 1, &n);
    struct kl_launch l = {
        .op = op, .n_in = 1, .in = &a.arg, .n_out = 1, .out = &b.arg, .err = &err};
    return kl_cpu_kernel(op)(&l);
}

/* The float64 kernel gives the expected result. For most functions it calls the C library. */
static void look(struct range *r, int n, float *x) {
    float y[BLOCK];
    double wide[BLOCK], right[BLOCK];
    const struct function *f = r->f;
    const struct ends end = ends_of(f->op);
    for (int i = 0; i < n; i++) wide[i] = (double)x[i];
    if (run(f->op, KL_F32, x, y, n) || run(f->op, KL_F64, wide, right, n)) r->worst = INFINITY;
    for (int i = 0; i < n && f->op == KL_OP_ERFINV; i++) right[i] = erfinv_of(wide[i], right[i]);
    for (int i = 0; i < n; i++) {
        double e = error_of(y[i], right[i]);
        bool outside = !isnan(y[i]) && !(y[i] >= end.lo && y[i] <= end.hi);
        if (r->outside || (!outside && e <= r->worst)) continue;
        r->outside = outside;
        r->worst = e;
        r->at = x[i];
        r->got = y[i];
    }
}

static void *look_at_all(void *arg) {
    struct range *r = arg;
    float x[BLOCK];
    int n = 0;
    for (uint64_t b = r->from; b < r->to; b += r->step) {
        x[n] = kl_bits_f32((uint32_t)b);
        if (++n < BLOCK) continue;
        look(r, n, x);
        n = 0;
    }
    if (n) look(r, n, x);
    return NULL;
}

static void report(const struct range *r) {
    const struct function *f = r->f;
    if (r->outside)
        fail_msg("%s, %s(%.9g) is %.9g, outside %.9g .. %.9g",
                 kl_cpu_variant_name(kl_cpu_variant()), f->name, r->at, r->got, ends_of(f->op).lo,
                 ends_of(f->op).hi);
    if (!(r->worst <= f->most))
        fail_msg("%s, %s(%.9g) is %.9g: off by %.3g units", kl_cpu_variant_name(kl_cpu_variant()),
                 f->name, r->at, r->got, r->worst);
}

/* Checks all arguments, shared among threads. */
static void all(struct range *r) {
    long n = kl_n_processors();
    if (n > MAX_THREADS) n = MAX_THREADS;
    struct range parts[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    for (long i = 0; i < n; i++) {
        parts[i] = *r;
        /* Thread i takes every n-th argument, since some ranges take longer than others. */
        parts[i].from = (uint64_t)i;
        parts[i].step = (uint64_t)n;
        assert_int_equal(pthread_create(&threads[i], NULL, look_at_all, &parts[i]), 0);
    }
    for (long i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        if (parts[i].outside || (!r->outside && parts[i].worst > r->worst)) *r = parts[i];
    }
}

static void accurate(void **state) {
    const char *full = getenv("KEEL_TEST_FULL");
    static const uint32_t special[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x3f7fffff,
                                       0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000, 0x7fc00000,
                                       0x3f000000, 0x3effffff, 0x3f3504f3, 0x3f3504f4, 0x42b17217,
                                       0x42b17218, 0x42cff1b4, 0x42cff1b5, 0x3fc90fdb, 0x40490fdb};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    int widest = kl_cpu_n_variants() - 1;
    for (int k = 0; k < N_FUNCTIONS; k++) {
        const struct function *f = &functions[k];
        if (f->most == 0) continue; /* such functions are exact, and tests/ops tests them */
        const bool whole = full && (strcmp(full, "1") == 0 || strcmp(full, f->name) == 0);
        struct range r;
        for (int variant = 0; variant <= widest; variant++) {
            kl_cpu_use_variant(variant);
            float x[2 * N_SPECIAL];
            int n = 0;
            r = (struct range){.f = f,
                               .to = (uint64_t)UINT32_MAX + 1,
                               .step = kl_test_samples("cpu") ? 99991 : 9973};
            for (int i = 0; i < N_SPECIAL; i++)
                for (uint32_t sign = 0; sign <= 1; sign++) {
                    x[n] = kl_bits_f32(special[i] | sign << 31);
                    n++;
                }
            look(&r, n, x);
            look_at_all(&r);
            report(&r);
        }
        if (whole) all(&r);
        report(&r);
        printf("%-8s largest error %.3f ulp, at %.9g%s\n", f->name, r.worst, r.at,
               whole ? ", of all arguments" : "");
        fflush(stdout);
    }
}

static void apply(enum kl_op_id op, const float *x, float *y, int n) {
    assert_int_equal(run(op, KL_F32, (void *)(uintptr_t)x, y, n), 0);
}

/* The n roots must have the bits of the C library's, which are correctly rounded. */
static void assert_roots(const float *x, int n) {
    float y[BLOCK];
    apply(KL_OP_SQRT, x, y, n);
    for (int i = 0; i < n; i++) {
        float want = sqrtf(x[i]);
        if (isnan(want) ? !isnan(y[i]) : kl_f32_bits(y[i]) != kl_f32_bits(want))
            fail_msg("%s, the root of %a, element %d of %d, is %a and not %a",
                     kl_cpu_variant_name(kl_cpu_variant()), x[i], i, n, y[i], want);
    }
}

/* Every significand with an even and an odd exponent, in the middle of the range and at both ends
 * of the range in which the last step's remainder is exact. Numbers outside of that range stand
 * among others, at every place of a vector. */
static void roots_are_rounded_correctly(void **state) {
    static const int exponents[] = {127, 128, 127 - 96, 127 - 95, 253, 254};
    static const uint32_t beyond[] = {0x00000000, 0x80000000, 0x00000001, 0x007fffff, 0x00800000,
                                      0x0f7fffff, 0x0f800000, 0x7f7fffff, 0x7f800000, 0xff800000,
                                      0x7fc00000, 0xbf800000, 0x80000001};
    enum { N_BEYOND = sizeof beyond / sizeof *beyond, VECTOR = 16 };
    float x[BLOCK];
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++)
            for (uint32_t from = 0; from < 1u << 23; from += BLOCK) {
                if (!kl_test_takes("cpu", 32)) continue;
                for (uint32_t i = 0; i < BLOCK; i++)
                    x[i] = kl_bits_f32((uint32_t)exponents[e] << 23 | (from + i));
                assert_roots(x, BLOCK);
            }
        for (int k = 0; k < N_BEYOND; k++)
            for (int at = 0; at < 2 * VECTOR; at++)
                for (int n = at + 1; n <= 3 * VECTOR; n += 5) {
                    for (int i = 0; i < n; i++) x[i] = (float)(i + 2);
                    x[at] = kl_bits_f32(beyond[k]);
                    assert_roots(x, n);
                }
    }
}

/* A vector that contains a large argument is computed by a slower method. The other elements of the
 * vector must have the same bits as without the large argument. */
static void neighbours_change_no_bit(void **state) {
    static const enum kl_op_id ops[] = {KL_OP_SIN, KL_OP_COS, KL_OP_TAN};
    static const float large[] = {4096, -4096, 1e5F, 1e20F, -INFINITY, NAN};
    enum { N = 700, N_LARGE = sizeof large / sizeof *large };
    float x[N], alone[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2) * (i % 3 ? 11.7F : 1e-4F);
    x[7] = nextafterf(4096, 0);
    x[8] = -x[7];
    x[9] = -0.0F;
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int k = 0; k < 3; k++) {
            apply(ops[k], x, alone, N);
            for (int h = 0; h < N_LARGE; h++)
                for (int at = 0; at < N; at += 233) {
                    const float was = x[at];
                    x[at] = large[h];
                    apply(ops[k], x, y, N);
                    x[at] = was;
                    for (int i = 0; i < N; i++)
                        if (i != at && kl_f32_bits(y[i]) != kl_f32_bits(alone[i]))
                            fail_msg("%s, function %d of %.9g beside %.9g: %.9g, alone %.9g",
                                     kl_cpu_variant_name(variant), k, x[i], large[h], y[i],
                                     alone[i]);
                }
        }
    }
}

/* Functions of two arguments: all pairs of special values, and random pairs. */
static void pairs(void **state) {
    static const float special[] = {0.0f,   1.0f,    0.5f,           2.0f,  3.0f,  0.7f,
                                    1e-40f, 1e38f,   1e-3f,          17.0f, 1e9f,  INFINITY,
                                    NAN,    0x1p24f, 0x1.000002p23f, 2.5f,  100.0f};
    enum { N = sizeof special / sizeof *special, RANDOM = 1000000 };
    uint64_t state64 = 1;
    double worst[2] = {0, 0};
    const int random = kl_test_samples("cpu") ? RANDOM / 20 : RANDOM;
    for (int i = 0; i < 4 * N * N + random; i++) {
        float x, y;
        if (i < 4 * N * N) {
            x = special[i / 4 % N] * (i & 1 ? -1.0f : 1.0f);
            y = special[i / 4 / N] * (i & 2 ? -1.0f : 1.0f);
        } else {
            kl_test_random(&state64);
            x = kl_bits_f32((uint32_t)(state64 >> 32));
            kl_test_random(&state64);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(roots_are_rounded_correctly),
                                       cmocka_unit_test(neighbours_change_no_bit),
                                       cmocka_unit_test(accurate), cmocka_unit_test(pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
