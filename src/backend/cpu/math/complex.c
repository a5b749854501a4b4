/* complex.c - see complex.h. Infinities and signed zeros as in C11, annex G. */
#include "backend/cpu/math/complex.h"

#include <complex.h>

struct kl_c64 kl_c64_exp(struct kl_c64 a) {
    double r = exp(a.re);
    if (a.im == 0) return (struct kl_c64){(float)r, a.im};
    if (!isfinite(a.im)) {
        if (isinf(a.re)) return a.re < 0 ? (struct kl_c64){0, 0} : (struct kl_c64){a.re, NAN};
        return (struct kl_c64){NAN, NAN};
    }
    return (struct kl_c64){(float)(r * cos(a.im)), (float)(r * sin(a.im))};
}

/* The logarithm of the magnitude. */
static double log_abs(struct kl_c64 a) {
    double x = fabs(a.re), y = fabs(a.im);
    double big = x > y ? x : y, small = x > y ? y : x;
    /* Near |a| = 1 the logarithm is small, so |a|^2 - 1 is computed without rounding |a|^2
     * first. */
    return big > 0.5 && big < 2 ? 0.5 * log1p((big - 1) * (big + 1) + small * small)
                                : log(hypot(x, y));
}

struct kl_c64 kl_c64_log(struct kl_c64 a) {
    return (struct kl_c64){(float)log_abs(a), (float)atan2(a.im, a.re)};
}

/* The logarithm divided by the logarithm of the base. */
struct kl_c64 kl_c64_log2(struct kl_c64 a) {
    const double per = 1.4426950408889634074;
    return (struct kl_c64){(float)(log_abs(a) * per), (float)(atan2(a.im, a.re) * per)};
}
struct kl_c64 kl_c64_log10(struct kl_c64 a) {
    const double per = 0.43429448190325182765;
    return (struct kl_c64){(float)(log_abs(a) * per), (float)(atan2(a.im, a.re) * per)};
}

struct kl_c64 kl_c64_sqrt(struct kl_c64 a) {
    double x = a.re, y = a.im;
    if (isinf(a.im)) return (struct kl_c64){INFINITY, a.im};
    if (isinf(a.re)) {
        float other = a.im != a.im ? NAN : 0;
        if (a.re > 0) return (struct kl_c64){a.re, copysignf(other, a.im)};
        return (struct kl_c64){other, copysignf(INFINITY, a.im)};
    }
    if (x == 0 && y == 0) return (struct kl_c64){0, a.im};
    double t = sqrt((fabs(x) + hypot(x, y)) / 2);
    if (x >= 0) return (struct kl_c64){(float)t, (float)(y / (2 * t))};
    return (struct kl_c64){(float)(fabs(y) / (2 * t)), (float)copysign(t, y)};
}

struct kl_c64 kl_c64_sign(struct kl_c64 a) {
    double r = hypot(a.re, a.im);
    return r == 0 ? a : (struct kl_c64){(float)(a.re / r), (float)(a.im / r)};
}

/* ---- by the functions of <complex.h>, in double ---- */

union pair {
    double part[2];
    double complex z;
};

static double complex widen(struct kl_c64 a) {
    return (union pair){.part = {a.re, a.im}}.z;
}
static double complex complex_of(double re, double im) {
    return (union pair){.part = {re, im}}.z;
}
static struct kl_c64 narrow(double complex z) {
    return (struct kl_c64){(float)creal(z), (float)cimag(z)};
}

#define BY_DOUBLE(name, function)          \
    struct kl_c64 name(struct kl_c64 a) {  \
        return narrow(function(widen(a))); \
    }
BY_DOUBLE(kl_c64_sin, csin)
BY_DOUBLE(kl_c64_cos, ccos)
BY_DOUBLE(kl_c64_tan, ctan)
BY_DOUBLE(kl_c64_arcsin, casin)
BY_DOUBLE(kl_c64_arccos, cacos)
BY_DOUBLE(kl_c64_arctan, catan)
BY_DOUBLE(kl_c64_sinh, csinh)
BY_DOUBLE(kl_c64_cosh, ccosh)
BY_DOUBLE(kl_c64_tanh, ctanh)
BY_DOUBLE(kl_c64_arcsinh, casinh)
BY_DOUBLE(kl_c64_arccosh, cacosh)
BY_DOUBLE(kl_c64_arctanh, catanh)

struct kl_c64 kl_c64_rsqrt(struct kl_c64 a) {
    double complex root = csqrt(widen(a));
    double re = creal(root), im = cimag(root), d = re * re + im * im;
    if (im == 0) return (struct kl_c64){(float)(1 / re), (float)(-im / re)};
    if (isinf(re) || isinf(im)) return (struct kl_c64){0, copysignf(0, (float)-im)};
    return (struct kl_c64){(float)(re / d), (float)(-im / d)};
}

/* Near z = 0 the logarithm of 1 + z is about z, so the sum is not rounded first. */
static double complex log1p_of(double complex z) {
    double x = creal(z), y = cimag(z);
    double far = fabs(x) > 0.5 || fabs(y) > 0.5;
    double re = far ? log(hypot(1 + x, y)) : 0.5 * log1p(x * (2 + x) + y * y);
    return complex_of(re, atan2(y, 1 + x));
}

struct kl_c64 kl_c64_log1p(struct kl_c64 a) {
    double x = a.re, y = a.im, near = x * (2 + x) + y * y; /* |1 + a|^2 - 1 */
    if (fabs(near) < 0.5)
        return (struct kl_c64){(float)(0.5 * log1p(near)), (float)atan2(y, 1 + x)};
    return narrow(log1p_of(widen(a)));
}

/* The square, or the cube, of a finite number, in double. */
static struct kl_c64 small_power(struct kl_c64 a, bool cube) {
    double x = a.re, y = a.im, re = (x - y) * (x + y), im = 2 * x * y;
    if (!cube) return (struct kl_c64){(float)re, (float)im};
    return (struct kl_c64){(float)(re * x - im * y), (float)(re * y + im * x)};
}

struct kl_c64 kl_c64_power(struct kl_c64 a, struct kl_c64 b) {
    const bool small = b.im == 0 && (b.re == 2 || b.re == 3);
    if (small && isfinite(a.re) && isfinite(a.im)) return small_power(a, b.re == 3);
    if (b.re == 0 && b.im == 0) return (struct kl_c64){1, 0};
    if (a.re == 0 && a.im == 0) return b.re > 0 ? (struct kl_c64){0, 0} : (struct kl_c64){NAN, NAN};
    double r = log_abs(a), t = atan2(a.im, a.re), x = b.re, y = b.im;
    double size = exp(x * r - y * t), angle = x * t + y * r;
    /* A real base that is not negative has a real power, if the exponent is real. */
    if (angle == 0) return (struct kl_c64){(float)size, (float)angle};
    if (size == 0) return (struct kl_c64){0, 0};
    return (struct kl_c64){(float)(size * cos(angle)), (float)(size * sin(angle))};
}

struct kl_c64 kl_c64_logaddexp(struct kl_c64 a, struct kl_c64 b) {
    struct kl_c64 most = a.re < b.re ? b : a, least = a.re < b.re ? a : b;
    if (kl_c64_is_nan(a) || kl_c64_is_nan(b)) return (struct kl_c64){NAN, NAN};
    /* the smaller term is 0, whatever its angle */
    if (isinf(most.re) || isinf(least.re)) return most;
    double complex rest =
        log1p_of(cexp(complex_of((double)least.re - most.re, (double)least.im - most.im)));
    return (struct kl_c64){(float)(most.re + creal(rest)), (float)(most.im + cimag(rest))};
}
