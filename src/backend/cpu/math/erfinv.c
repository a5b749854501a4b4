/* erfinv.c - the inverse error function, from which normal random numbers are made: erfinv(x) = x *
 * P(w), w = -log(1 - x*x). The polynomials (erfinv.h) have errors of about 1e-9; float64 takes one
 * step of Halley's method more, which cubes the error. */
#include "backend/cpu/math/erfinv.h"

double kl_cpu_erfinv(double x) {
    if (!(x > -1 && x < 1))
        return x == 1 ? (double)INFINITY : x == -1 ? -(double)INFINITY : (double)NAN;
    double mag = fabs(x), y = kl_erfinv_from(mag, -log((1 - mag) * (1 + mag)));
    /* Near 1 the complement 1 - mag has the digits; it is exact from mag = 0.5 on. */
    double miss = mag < 0.5 ? erf(y) - mag : (1 - mag) - erfc(y);
    double newton = miss / (2 / 1.7724538509055160273 * exp(-y * y));
    return copysign(y - newton / (1 + y * newton), x);
}
