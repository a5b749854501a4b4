/* cpu_complex.c - see cpu_complex.h. Infinities and signed zeros as in C11, annex G. */
#include "backend/cpu/cpu_complex.h"

struct kl_c64 kl_c64_exp(struct kl_c64 a) {
    double r = exp(a.re);
    if (a.im == 0) return (struct kl_c64){(float)r, a.im};
    if (!isfinite(a.im)) {
        if (isinf(a.re)) return a.re < 0 ? (struct kl_c64){0, 0} : (struct kl_c64){a.re, NAN};
        return (struct kl_c64){NAN, NAN};
    }
    return (struct kl_c64){(float)(r * cos(a.im)), (float)(r * sin(a.im))};
}

struct kl_c64 kl_c64_log(struct kl_c64 a) {
    double x = fabs(a.re), y = fabs(a.im);
    double big = x > y ? x : y, small = x > y ? y : x;
    /* Around |a| = 1 the logarithm is small: what is left of 1 must not be rounded first. */
    double r = big > 0.5 && big < 2 ? 0.5 * log1p((big - 1) * (big + 1) + small * small)
                                    : log(hypot(x, y));
    return (struct kl_c64){(float)r, (float)atan2(a.im, a.re)};
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
