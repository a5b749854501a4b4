/* functions_f64.h - functions of float64, inline and without branches, so that loops over them
 * vectorise; sums are carried with their rounding errors where those would show. Errors are in
 * docs/numerics.md, measured by tests/backend/cpu/math/test_functions_f64.c. */
#pragma once
#include "backend/cpu/math/extremes.h"
#include "backend/cpu/math/functions.h"

/* Calls `runs` for all n elements, a partial last run in copies, as kl_map_runs does. */
typedef void kl_math_runs_f64(int64_t n, double *z, const double *x, const double *y);
static __attribute__((noinline, unused)) void
kl_map_runs_f64(kl_math_runs_f64 *runs, int64_t n, double *z, const double *x, const double *y) {
    const int64_t whole = n / KL_MATH_RUN * KL_MATH_RUN;
    const size_t rest = (size_t)(n - whole) * sizeof *z;
    double room[3][KL_MATH_RUN] = {{0}};
    runs(n / KL_MATH_RUN, z, x, y);
    if (!rest) return;
    memcpy(room[0], x + whole, rest);
    if (y) memcpy(room[1], y + whole, rest);
    runs(1, room[2], room[0], room[1]);
    memcpy(z + whole, room[2], rest);
}

/* The Taylor series themselves, cut off below 2^-56 of the results: in r, (exp(r) - 1 - r) / r^2 on
 * [-ln 2 / 2, ln 2 / 2]; in r^2, (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 on
 * [-pi / 4, pi / 4]; in t^2, (atan(t) / t - 1) / t^2 on [-1/4, 1/4]; in s^2,
 * (log((1 + s) / (1 - s)) / s - 2) / s^2 on [-0.1716, 0.1716]. */
static const double kl_exp_tail[] = {
    1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
    1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
static const double kl_sin_tail[] = {
    -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double kl_cos_tail[] = {
    1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
    1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
static const double kl_atan_tail[] = {-1.0 / 3,  1.0 / 5,   -1.0 / 7, 1.0 / 9,   -1.0 / 11,
                                      1.0 / 13,  -1.0 / 15, 1.0 / 17, -1.0 / 19, 1.0 / 21,
                                      -1.0 / 23, 1.0 / 25,  -1.0 / 27};
/* In s^2, (log((1 + s) / (1 - s)) / s - 2 - 2/3 s^2 - 2/5 s^4) / s^6, for powers. */
static const double kl_log_tail_fine[] = {2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13, 2.0 / 15,
                                          2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23, 2.0 / 25};
/* Printed by tools/make/fit_math.py: in x^2, erf(x) / x - 1 on [0, 1]; in t = (x - 3) / (x + 3),
 * exp(x^2) erfc(x) on [1, 6]; errors 2^-55.8 and, times exp(-x^2), 2^-57.6. */
static const double kl_erf_near[] = {
    0.1283791670955126,      -0.3761263890318375,     0.11283791670954879,
    -0.026866170645076792,   0.0052239776248180145,   -0.000854832698083379,
    0.0001205533111164271,   -1.4925595266831182e-05, 1.6461000484121368e-06,
    -1.6350312701054695e-07, 1.4659775274047436e-08,  -1.1372848856791674e-09,
    5.957176147748911e-11};
static const double kl_erf_far[] = {
    0.17900115118138996,    -0.32623356004303716,  0.24560380171233195,   -0.15011593650078744,
    0.07166583719774874,    -0.024392499318273194, 0.004269136347508256,  0.0007077464443901538,
    -0.0005970623517093284, 4.525472635483354e-05, 6.406182073530546e-05, -1.284889451252353e-05,
    -8.008021319412685e-06, 2.023603179641757e-06, 1.2801900862962662e-06};
/* Printed by tools/make/fit_erfinv.py: erfinv(x) / x - 1 where w = -log(1 - x^2), in w - 3.125 on
 * [0, 6.25] and in sqrt(w) - 4.255 on [2.5, 6.01]; relative errors 2^-54.0 and 2^-53.3. */
static const double kl_erfinv_middle_fine[] = {
    0.6536545626831027,      0.2401581824255883,     -0.00603367087142785,
    -0.000740702534154477,   0.00018673420802464837, -1.3882523394405316e-05,
    -1.3654691850603575e-06, 4.234788173782339e-07,  -2.9070382262927266e-08,
    -4.11266082002324e-09,   1.0512181539804126e-09, -5.414287198084716e-11,
    -1.2976885526532075e-11, 2.6304834740560442e-12, -8.118399443074353e-14,
    -4.001237735091896e-14,  6.596407712420834e-15,  -4.0282154327661744e-17,
    -1.3016928016796445e-16, 1.557432024623325e-17,  1.150022252066253e-18,
    -3.4996044354754177e-19, -1.113483769832702e-21, 3.240704459379902e-21};
static const double kl_erfinv_ends_fine[] = {
    3.0972733327968305,      1.0099853591748178,     0.0007036633084378053,
    -0.0006036665434205662,  0.0002105744176248888,  -6.376566006068825e-05,
    2.1627242164792967e-05,  -9.96824359963958e-06,  5.6644299137473794e-06,
    -3.1373187176849642e-06, 1.4620002427401473e-06, -5.096310131468818e-07,
    9.487021637162334e-08,   2.3563170613544565e-08, -2.9122996599630437e-08,
    1.3163830319347159e-08,  -3.098503911754839e-09, -1.2804550140022958e-10,
    4.54743274071454e-10,    -1.94354491728113e-10,  3.021988229106085e-11,
    6.108109655068271e-12,   -2.817102408795282e-12, 5.760829974392093e-13,
    -5.111604049218335e-13,  1.4359251577466465e-13, 5.349146457796915e-14,
    -2.3842137219447137e-14, -8.991078619511685e-16, 8.739359826723151e-16};
static const double kl_log_tail[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                     2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};

/* A polynomial of an even number of terms as the sum of its even and its odd ones, which do not
 * wait for each other. */
KL_INLINE double kl_polynomial_halves(const double *c, int n, double x) {
    double square = x * x, even = c[n - 2], odd = c[n - 1];
#pragma GCC unroll 32
    for (int i = n - 4; i >= 0; i -= 2) {
        even = __builtin_fma(even, square, c[i]);
        odd = __builtin_fma(odd, square, c[i + 1]);
    }
    return __builtin_fma(odd, x, even);
}
#define KL_POLYNOMIAL_HALVES(c, x) kl_polynomial_halves(c, (int)(sizeof(c) / sizeof *(c)), x)

KL_INLINE double kl_clamp_f64(double x, double lo, double hi) { /* NaN stays NaN */
#ifdef __aarch64__                                              /* as kl_clamp_f32 */
    return x == x ? fmin(fmax(x, lo), hi) : x;
#else
    return x < lo ? lo : x > hi ? hi : x;
#endif
}

/* ---- exponentials ---- */
#define KL_LN2_HIGH 0x1.62e42feep-1 /* 32 bits: its products with exponents are exact */
#define KL_LN2_LOW 0x1.a39ef35793c76p-33

/* exp(x) = 2^n (1 + more). */
struct kl_exp_f64 {
    double n, more;
};
KL_INLINE struct kl_exp_f64 kl_exp_reduced(double x) {
    double n = __builtin_fma(x, KL_LOG2_E, KL_TO_INTEGER) - KL_TO_INTEGER;
    double r = __builtin_fma(n, -KL_LN2_LOW, __builtin_fma(n, -KL_LN2_HIGH, x));
    return (struct kl_exp_f64){n, __builtin_fma(r * r, KL_POLYNOMIAL(kl_exp_tail, r), r)};
}
KL_INLINE double kl_power_of_2(double n) { /* a whole number from -1022 to 1023 */
    return kl_bits_f64(kl_f64_bits(n + (KL_TO_INTEGER + 1023)) << 52);
}
/* Multiplied by 2^n in two halves, of which only the second can round. */
KL_INLINE double kl_exp_f64(double x) {
    struct kl_exp_f64 e = kl_exp_reduced(kl_clamp_f64(x, -746, 710));
    double half = (e.n * 0.5 + KL_TO_INTEGER) - KL_TO_INTEGER;
    return (1 + e.more) * kl_power_of_2(half) * kl_power_of_2(e.n - half);
}
/* (exp(x) - 1) / 2, which is in the range where exp(x) just is not. */
KL_INLINE double kl_expm1_half(double x) {
    struct kl_exp_f64 e = kl_exp_reduced(kl_clamp_f64(x, -45, 711));
    double quarter = kl_power_of_2(e.n > 1025 ? 1023 : e.n - 2);
    double y = 2 * __builtin_fma(e.more, quarter, quarter - 0.25);
    return e.n > 1025 ? (double)INFINITY : y;
}
KL_INLINE double kl_expm1_f64(double x) {
    double y = 2 * kl_expm1_half(x);
    return x == 0 ? x : y; /* keeps the sign of zero */
}
KL_INLINE double kl_sinh_f64(double x) {
    double e = kl_expm1_half(fabs(x));
    double y = e + e / (2 * e + 1);
    return copysign(e < (double)INFINITY ? y : e, x);
}
KL_INLINE double kl_cosh_f64(double x) {
    double e = kl_expm1_half(fabs(x));
    return (e + 0.5) + 0.5 / (2 * e + 1);
}
KL_INLINE double kl_tanh_f64(double x) {
    double e = kl_expm1_half(2 * kl_clamp_f64(fabs(x), 0, 22));
    return copysign(e / (e + 1), x);
}
/* Uses exp(-|x|), so that nothing overflows and small results keep their digits. */
KL_INLINE double kl_sigmoid_f64(double x) {
    double e = kl_exp_f64(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* silu(a) b. Below the bound silu(a) is -0, also at -infinity. */
KL_INLINE double kl_silu_mul_f64(double a, double b) {
    double x = a < -800 ? -800 : a;
    return x * kl_sigmoid_f64(x) * b;
}

/* ---- the error function ---- */
/* From 1 on it is 1 - exp(-x^2) q, where x^2 = z + rest, and from 6 on 1. */
KL_INLINE double kl_erf_f64(double x) {
    double a = kl_clamp_f64(fabs(x), 0, 6), z = a * a;
    double near = __builtin_fma(x, KL_POLYNOMIAL(kl_erf_near, z), x);
    double q = KL_POLYNOMIAL(kl_erf_far, (a - 3) / (a + 3));
    struct kl_exp_f64 e = kl_exp_reduced(-z);
    q *= kl_power_of_2(e.n);
    double rest = __builtin_fma(a, a, -z), far = 1 - __builtin_fma(q, e.more - rest, q);
    return a < 1 ? near : copysign(far, x);
}

/* ---- logarithms ---- */
/* log(1 + f) = high + low, f in [sqrt(1/2) - 1, sqrt(2) - 1]: with s = f / (2 + f) it is
 * log((1 + s) / (1 - s)) = f - f^2 / 2 + s (f^2 / 2 + s^2 tail). */
struct kl_log_f64 {
    double n, high, low;
};
KL_INLINE struct kl_log_f64 kl_log_near(double n, double f) {
    double s = f / (2 + f), z = s * s, half = 0.5 * f * f, high = f - half;
    double low = ((f - high) - half) + s * (half + z * KL_POLYNOMIAL(kl_log_tail, z));
    return (struct kl_log_f64){n, high, low};
}
/* x positive and finite. */
KL_INLINE struct kl_log_f64 kl_log_any(double x) {
    const bool small = x < 0x1p-1022;
    struct kl_log_parts p = kl_log_split(small ? x * 0x1p54 : x);
    return kl_log_near(small ? p.n - 54 : p.n, p.f);
}
/* x positive, normal and finite. */
KL_INLINE struct kl_log_f64 kl_log_normal(double x) {
    struct kl_log_parts p = kl_log_split(x);
    return kl_log_near(p.n, p.f);
}
/* The logarithm times `by`, where 2 has the logarithm `two`: both in two parts. */
KL_INLINE double kl_log_joined(struct kl_log_f64 p, double by, double by_low, double two,
                               double two_low) {
    double y = p.high * by, more = __builtin_fma(p.high, by, -y);
    more = __builtin_fma(p.high, by_low, __builtin_fma(p.low, by, more));
    more = __builtin_fma(p.n, two_low, more);
    double big = p.n * two, sum = big + y;
    return sum + (((big - sum) + y) + more);
}
KL_INLINE double kl_log_natural(struct kl_log_f64 p) {
    double big = p.n * KL_LN2_HIGH, sum = big + p.high;
    return sum + (((big - sum) + p.high) + __builtin_fma(p.n, KL_LN2_LOW, p.low));
}
/* Returns y, the logarithm of x, where x is positive and finite; else the logarithm's special
 * value. */
KL_INLINE double kl_log_ends_f64(double x, double y) {
    double end = x == 0 ? -(double)INFINITY : x > 0 ? (double)INFINITY : (double)NAN;
    end = x != x ? x : end;
    return x > 0 && x < (double)INFINITY ? y : end;
}
KL_INLINE double kl_log_f64(double x) {
    return kl_log_ends_f64(x, kl_log_natural(kl_log_any(x)));
}
KL_INLINE double kl_log_binary(struct kl_log_f64 p) {
    return kl_log_joined(p, KL_LOG2_E, 0x1.777d0ffda0d24p-56, 1, 0);
}
KL_INLINE double kl_log_decimal(struct kl_log_f64 p) {
    return kl_log_joined(p, KL_LOG10_E, 0x1.95355baaafad3p-57, 0x1.34413508p-2,
                         0x1.f79fef311f12bp-34);
}
KL_INLINE double kl_log2_f64(double x) {
    return kl_log_ends_f64(x, kl_log_binary(kl_log_any(x)));
}
KL_INLINE double kl_log10_f64(double x) {
    return kl_log_ends_f64(x, kl_log_decimal(kl_log_any(x)));
}
/* x > -1. Where 1 + x is rounded, what it lost is added to the logarithm. */
KL_INLINE double kl_log1p_any(double x) {
    double u = 1 + x, lost = x < 1 ? x - (u - 1) : 1 - (u - x);
    struct kl_log_parts p = kl_log_split(u);
    struct kl_log_f64 l = kl_log_near(p.n, p.n == 0 ? x : p.f);
    l.low += p.n == 0 ? 0 : lost / u;
    return kl_log_natural(l);
}
KL_INLINE double kl_log1p_f64(double x) {
    double y = kl_log1p_any(x);
    y = x > -1 && x < (double)INFINITY ? y : kl_log_ends_f64(x + 1, y);
    return x == 0 ? x : y;
}
/* log(exp(a) + exp(b)). The difference of equal operands, infinities among them, is taken as 0. */
KL_INLINE double kl_logaddexp_f64(double a, double b) {
    double d = a == b ? 0 : -fabs(a - b);
    return kl_max_f64(a, b) + kl_log1p_f64(kl_exp_f64(d));
}
/* The inverse error function from w = -log(1 - x^2), by one polynomial where w < 6.25, and by
 * another where it is more. */
KL_INLINE double kl_erfinv_w(double x) { /* |x| < 1 */
    struct kl_log_parts p = kl_log_split((1 - x) * (1 + x));
    return -kl_log_natural(kl_log_near(p.n, p.f));
}
/* |x| of at most KL_ERFINV_FAR, where w is below 5.6. */
#define KL_ERFINV_FAR 0.998
KL_INLINE double kl_erfinv_near_f64(double x) {
    double more = KL_POLYNOMIAL(kl_erfinv_middle_fine, kl_erfinv_w(x) - 3.125);
    return copysign(__builtin_fma(x, more, x), x); /* keeps the sign of zero */
}
KL_INLINE double kl_erfinv_f64(double x) {
    double a = fabs(x), w = kl_erfinv_w(a < 1 ? x : 0);
    double middle = KL_POLYNOMIAL(kl_erfinv_middle_fine, w - 3.125);
    double ends = KL_POLYNOMIAL(kl_erfinv_ends_fine, sqrt(w) - 4.255);
    double y = copysign(__builtin_fma(x, w < 6.25 ? middle : ends, x), x);
    double end = a == 1 ? copysign((double)INFINITY, x) : (double)NAN;
    return a < 1 ? y : end;
}
/* From 2^28 on, the inverse hyperbolic functions are log(2 x). */
KL_INLINE double kl_asinh_f64(double x) {
    double a = fabs(x), b = a * a;
    const bool large = a > 0x1p28;
    double y = kl_log1p_any(large ? a - 1 : a + b / (1 + sqrt(1 + b))) + (large ? KL_LN2 : 0);
    return copysign(a < (double)INFINITY ? y : a, x);
}
KL_INLINE double kl_acosh_f64(double x) {
    const bool large = x > 0x1p28;
    double d = x - 1, y = kl_log1p_any(large ? d : d + sqrt(d * (d + 2)));
    y += large ? KL_LN2 : 0;
    y = x < (double)INFINITY ? y : x;
    return x >= 1 ? y : (double)NAN;
}
KL_INLINE double kl_atanh_f64(double x) {
    double a = fabs(x), y = 0.5 * kl_log1p_any(2 * a / (1 - a));
    y = a < 1 ? y : a == 1 ? (double)INFINITY : (double)NAN;
    return copysign(a == 0 ? 0 : y, x);
}

/* ---- powers ---- */
/* log(x) = high + low to about 2^-67 of it, x positive and finite. Every step carries its rounding
 * error: s + s_low is f / (2 + f), z + z_low its square, w + w_low and c + c_low the series from
 * s^5 and from s^3 on, over these powers, and t + t_low is s^3 c. */
#define KL_FIFTHS_REST -0x1.999999999999ap-56 /* what 2/5 and 2/3 lose when they are rounded */
#define KL_THIRDS_REST 0x1.5555555555555p-55
struct kl_sum_f64 {
    double high, low;
};
KL_INLINE struct kl_sum_f64 kl_log_fine(double x) {
    const bool small = x < 0x1p-1022;
    struct kl_log_parts p = kl_log_split(small ? x * 0x1p54 : x);
    double n = small ? p.n - 54 : p.n, f = p.f;
    double d = 2 + f, d_low = f - (d - 2), inverse = 1 / d, s = f * inverse;
    double s_low = __builtin_fma(-s, d_low, __builtin_fma(-s, d, f)) * inverse;
    double z = s * s, z_low = __builtin_fma(2 * s, s_low, __builtin_fma(s, s, -z));
    double v = z * KL_POLYNOMIAL_HALVES(kl_log_tail_fine, z), w = 2.0 / 5 + v;
    double w_low = (2.0 / 5 - w) + v + KL_FIFTHS_REST;
    double zw = z * w, zw_low = __builtin_fma(z, w, -zw);
    zw_low = __builtin_fma(z, w_low, __builtin_fma(z_low, w, zw_low));
    double c = 2.0 / 3 + zw, c_low = (2.0 / 3 - c) + zw + (zw_low + KL_THIRDS_REST);
    double zc = z * c, zc_low = __builtin_fma(z, c, -zc);
    zc_low = __builtin_fma(z, c_low, __builtin_fma(z_low, c, zc_low));
    double t = s * zc, t_low = __builtin_fma(s, zc, -t);
    t_low = __builtin_fma(s, zc_low, __builtin_fma(s_low, zc, t_low));
    double y = 2 * s + t, y_low = ((2 * s - y) + t) + __builtin_fma(2, s_low, t_low);
    double big = n * KL_LN2_HIGH, sum = big + y;
    double low = ((big - sum) + y) + __builtin_fma(n, KL_LN2_LOW, y_low), high = sum + low;
    return (struct kl_sum_f64){high, (sum - high) + low};
}
/* |x|^y for x and y that are finite and x that is not 0. */
KL_INLINE double kl_pow_ordinary_f64(double x, double y) {
    struct kl_sum_f64 l = kl_log_fine(fabs(x));
    double e = y * l.high, e_low = __builtin_fma(y, l.low, __builtin_fma(y, l.high, -e));
    e_low = fabs(e) < 800 ? e_low : 0; /* beyond, the result is 0 or infinite */
    e = kl_clamp_f64(e, -800, 800);
    double n = __builtin_fma(e, KL_LOG2_E, KL_TO_INTEGER) - KL_TO_INTEGER;
    double first = __builtin_fma(n, -KL_LN2_HIGH, e); /* exact */
    double more = __builtin_fma(n, -KL_LN2_LOW, e_low), r = first + more, one = 1 + r;
    more = (first - r) + more;
    more = __builtin_fma(more, r, more) + r * r * KL_POLYNOMIAL_HALVES(kl_exp_tail, r);
    double half = (n * 0.5 + KL_TO_INTEGER) - KL_TO_INTEGER;
    return (one + (((1 - one) + r) + more)) * kl_power_of_2(half) * kl_power_of_2(n - half);
}
/* x^y, where z is |x|^y if that is not special. */
KL_INLINE double kl_pow_ends_f64(double x, double y, double z) {
    const double infinite = (double)INFINITY, ax = fabs(x), half = y * 0.5;
    const bool whole = floor(y) == y, odd = whole & (floor(half) != half);
    double grows = y > 0 ? infinite : 0, shrinks = y > 0 ? 0 : infinite;
    z = ax == 0 ? shrinks : ax == infinite ? grows : z;
    z = fabs(y) == infinite ? (ax == 1 ? 1 : (ax > 1) == (y > 0) ? infinite : 0) : z;
    z = odd ? copysign(z, x) : z;
    z = x < 0 && x > -infinite && !whole ? (double)NAN : z;
    z = x != x ? x : y != y ? y : z;
    return y == 0 || x == 1 ? 1 : z;
}

/* ---- circular functions of |x| < KL_TURNS_MAX ---- */
#define KL_TURNS_MAX 0x1p20
#define KL_QUARTER_TURN 0x1.921fb54442d18p0 /* pi / 2 in three parts */
#define KL_QUARTER_TURN_2 0x1.1a62633145c07p-54
#define KL_QUARTER_TURN_3 -0x1.f1976b7ed8fbcp-110
/* x = n pi / 2 + r + rest: n times the first part is exact, and so is x less that product. */
struct kl_angle_f64 {
    uint64_t quarters; /* the low bits of n */
    double r, rest;
};
KL_INLINE struct kl_angle_f64 kl_angle_of(double x) {
    double t = __builtin_fma(x, 2 * KL_ONE_PI, KL_TO_INTEGER), n = t - KL_TO_INTEGER;
    double first = __builtin_fma(n, -KL_QUARTER_TURN, x);
    double r = __builtin_fma(n, -KL_QUARTER_TURN_2, first);
    double rest = __builtin_fma(n, -KL_QUARTER_TURN_2, first - r);
    return (struct kl_angle_f64){kl_f64_bits(t), r, __builtin_fma(n, -KL_QUARTER_TURN_3, rest)};
}
KL_INLINE double kl_sin_angle(double r, double rest) {
    double z = r * r, more = __builtin_fma(rest, __builtin_fma(z, -0.5, 1), 0);
    double y = r + __builtin_fma(z * r, KL_POLYNOMIAL(kl_sin_tail, z), more);
    return r == 0 ? r : y; /* keeps the sign of zero */
}
KL_INLINE double kl_cos_angle(double r, double rest) {
    double z = r * r, half = 0.5 * z, near = 1 - half;
    double more = __builtin_fma(z * z, KL_POLYNOMIAL(kl_cos_tail, z), -r * rest);
    more += __builtin_fma(r * r, -0.5, half); /* 0 unless r * r was rounded otherwise */
    return near + (((1 - near) - half) + more);
}
KL_INLINE double kl_sin_turned(double x, uint64_t quarters) {
    struct kl_angle_f64 a = kl_angle_of(x);
    uint64_t q = a.quarters + quarters;
    double s = kl_sin_angle(a.r, a.rest), c = kl_cos_angle(a.r, a.rest);
    return kl_bits_f64(kl_f64_bits(q & 1 ? c : s) ^ (q & 2) << 62);
}
KL_INLINE double kl_sin_f64(double x) {
    return kl_sin_turned(x, 0);
}
KL_INLINE double kl_cos_f64(double x) {
    return kl_sin_turned(x, 1);
}
KL_INLINE double kl_tan_f64(double x) {
    struct kl_angle_f64 a = kl_angle_of(x);
    double s = kl_sin_angle(a.r, a.rest), c = kl_cos_angle(a.r, a.rest);
    return a.quarters & 1 ? -c / s : s / c;
}

/* sin(pi x) / (pi x): 1 at 0, 0 at infinity and at other whole numbers, never -0. With n the
 * integer nearest to |x|, |x| - n is exact and sin(pi |x|) = (-1)^n sin(pi (|x| - n)). */
KL_INLINE double kl_sinc_f64(double x) {
    double d = fabs(x), whole = rint(d), half = whole * 0.5, y = kl_sin_f64(KL_PI * (d - whole));
    y = (rint(half) != half ? -y : y) / (KL_PI * d) + 0.0;
    y = d < (double)INFINITY ? y : x != x ? x : 0;
    return d == 0 ? 1 : y;
}

/* ---- inverse circular functions ---- */
#define KL_ANGLE_HALF 0x1.dac670561bb4fp-2 /* atan(1/2), and the rest of it */
#define KL_ANGLE_REST 0x1.a2b7f222f65e2p-56
/* The angle of (large, small), 0 <= small <= large: that of (1, c) for the c in {0, 1/2, 1} nearest
 * to small / large, and what is left, whose tangent is at most 1/4. */
KL_INLINE double kl_angle_unit(double small, double large) {
    double down = large > 0x1p1000 ? 0.25 : 1; /* or a sum would overflow */
    double top = small < (double)INFINITY ? 0 : 1;
    double y = large < (double)INFINITY ? small * down : top;
    double x = large < (double)INFINITY ? large * down : 1;
    x = large == 0 ? 1 : x;
    double first = y > 0.25 * x ? 1 : 0, second = y > 0.75 * x ? 1 : 0;
    double c = 0.5 * (first + second);
    double t = __builtin_fma(-c, x, y) / __builtin_fma(c, y, x), z = t * t;
    /* The angles of 1/2 and of 1, the second as a difference, which is exact. */
    double high = first * KL_ANGLE_HALF + second * (KL_PI / 4 - KL_ANGLE_HALF);
    double low = first * KL_ANGLE_REST + second * (KL_PI_REST / 4 - KL_ANGLE_REST);
    return high + (__builtin_fma(t * z, KL_POLYNOMIAL(kl_atan_tail, z), low) + t);
}
KL_INLINE double kl_atan2_f64(double y, double x) {
    double ax = fabs(x), ay = fabs(y);
    double a = kl_angle_unit(ax < ay ? ax : ay, ax < ay ? ay : ax);
    a = ax < ay ? (KL_PI / 2 - a) + KL_PI_REST / 2 : a;
    a = kl_f64_bits(x) >> 63 ? (KL_PI - a) + KL_PI_REST : a;
    return x != x || y != y ? x + y : copysign(a, y);
}
KL_INLINE double kl_atan_f64(double x) {
    return kl_atan2_f64(x, 1);
}
KL_INLINE double kl_asin_f64(double x) {
    return kl_atan2_f64(x, sqrt((1 - x) * (1 + x)));
}
KL_INLINE double kl_acos_f64(double x) {
    return kl_atan2_f64(sqrt((1 - x) * (1 + x)), x);
}

/* ---- cube roots ---- */
/* The root is cut to 26 bits, so that its square is exact, and corrected by what its cube
 * leaves. */
KL_INLINE double kl_cbrt_f64(double x) {
    double size = fabs(x);
    const bool ordinary = (size != 0) & (size < (double)INFINITY);
    double scale = size < 0x1p-1022 ? 0x1p54 : 1, back = size < 0x1p-1022 ? 0x1p-18 : 1;
    scale = size > 0x1p1000 ? 0x1p-54 : scale; /* or the cube would overflow */
    back = size > 0x1p1000 ? 0x1p18 : back;
    double a = size * scale;
    a = ordinary ? a : 1; /* no denormals on the way: they are slow */
    double r = kl_inverse_cbrt(a);
    double y = kl_bits_f64(kl_f64_bits(a * r * r) & ~((UINT64_C(1) << 27) - 1));
    double more = __builtin_fma(-(y * y), y, a) * (r * r * (1.0 / 3));
    y = (y + __builtin_fma(more * more, r, more)) * back;
    return ordinary ? copysign(y, x) : x;
}
