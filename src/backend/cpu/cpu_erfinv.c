/* cpu_erfinv.c - the inverse error function, of which normal random numbers are made.
 *
 * erfinv(x) = x * P(w), w = -log(1 - x*x); the polynomials are printed by tools/fit_erfinv.py. They
 * are good to about 1e-9; float64 takes one step of Halley's method more, which cubes the error. */
#include <math.h>

#include "backend/cpu/cpu_map.h"

static const double near_one_half[] = {
    /* in w, around 3.125 */
    1.6536545626831027,     0.2401581821686819,      -0.006033670850181326,  -0.0007407015497447691,
    0.00018673412611860382, -1.388361820983906e-05,  -1.365376722468033e-06, 4.2401790512813e-07,
    -2.911712774344524e-08, -4.2497396403148554e-09, 1.0636392929991294e-09, -3.529120729824495e-11,
    -1.482017069411088e-11, 1.2852365559896099e-12,  7.131108784879838e-14};
static const double near_one[] = {
    /* in sqrt(w), around 4.35 */
    4.193227791584443,     1.0101034207642532,     0.0005425050299153175,  -0.0005292013763804082,
    0.0001828814289075811, -5.259807922264497e-05, 1.641060850732287e-05,  -7.308686390501442e-06,
    3.285643295312959e-06, -1.338691855132937e-06, 1.1078182138878996e-06, -6.993595976811385e-07,
    8.687629578658252e-08, 7.513043826558515e-08,  -2.092396692496294e-08};
enum { DEGREE = 14 };

static double polynomial(const double *c, double x) {
    double y = c[DEGREE];
    for (int i = DEGREE - 1; i >= 0; i--) y = y * x + c[i];
    return y;
}

static double estimate(double x) {
    double w = -log((1 - x) * (1 + x));
    return x *
           (w < 6.25 ? polynomial(near_one_half, w - 3.125) : polynomial(near_one, sqrt(w) - 4.35));
}

/* What the functions are where they are not computed: the ends, and outside. */
static double outside(double x) {
    return x == 1 ? (double)INFINITY : x == -1 ? -(double)INFINITY : (double)NAN;
}

float kl_cpu_erfinv_f32(float x) {
    return x > -1 && x < 1 ? (float)estimate(x) : (float)outside(x);
}

double kl_cpu_erfinv(double x) {
    if (!(x > -1 && x < 1)) return outside(x);
    double mag = fabs(x), y = estimate(mag);
    /* Near 1 the complement has the digits: 1 - mag is exact from 0.5 on. */
    double miss = mag < 0.5 ? erf(y) - mag : (1 - mag) - erfc(y);
    double newton = miss / (2 / 1.7724538509055160273 * exp(-y * y));
    return copysign(y - newton / (1 + y * newton), x);
}
