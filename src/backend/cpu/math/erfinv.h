/* erfinv.h - the inverse error function of float32, inline and without branches, from which normal
 * random numbers are made. That of float64 is in functions_f64.h. */
#pragma once
#include "backend/cpu/math/functions.h"

/* Printed by tools/make/fit_erfinv.py. */
static const double kl_erfinv_middle[] = {
    /* in w, around 3.125 */
    1.6536545626831027,     0.2401581821686819,      -0.006033670850181326,  -0.0007407015497447691,
    0.00018673412611860382, -1.388361820983906e-05,  -1.365376722468033e-06, 4.2401790512813e-07,
    -2.911712774344524e-08, -4.2497396403148554e-09, 1.0636392929991294e-09, -3.529120729824495e-11,
    -1.482017069411088e-11, 1.2852365559896099e-12,  7.131108784879838e-14};
static const double kl_erfinv_ends[] = {
    /* in sqrt(w), around 4.35 */
    4.193227791584443,     1.0101034207642532,     0.0005425050299153175,  -0.0005292013763804082,
    0.0001828814289075811, -5.259807922264497e-05, 1.641060850732287e-05,  -7.308686390501442e-06,
    3.285643295312959e-06, -1.338691855132937e-06, 1.1078182138878996e-06, -6.993595976811385e-07,
    8.687629578658252e-08, 7.513043826558515e-08,  -2.092396692496294e-08};

/* erfinv(x) = x * P(w), w = -log(1 - x*x), |x| < 1; to about 1e-9. */
static inline double kl_erfinv_near(double x, double w) { /* w < 6.25 */
    return x * KL_POLYNOMIAL(kl_erfinv_middle, w - 3.125);
}
static inline double kl_erfinv_from(double x, double w) {
    double ends = KL_POLYNOMIAL(kl_erfinv_ends, sqrt(w) - 4.35);
    return w < 6.25 ? kl_erfinv_near(x, w) : x * ends;
}
static inline float kl_erfinv_f32(float x) {
    double d = (double)x, y = kl_erfinv_from(d, -kl_log_wide((1 - d) * (1 + d)));
    float end = x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
    return x > -1 && x < 1 ? (float)y : end;
}
/* The same for |x| of at most KL_ERFINV_MIDDLE, where w is below 5.6. */
#define KL_ERFINV_MIDDLE 0.998f
static inline float kl_erfinv_middle_f32(float x) {
    double d = (double)x;
    return (float)kl_erfinv_near(d, -kl_log_wide((1 - d) * (1 + d)));
}
