/* ulp.h - units in the last place, in which tests say how far a result may be from the right
 * one. */
#pragma once
#include <math.h>

#include "base/number/dtype.h"

/* The distance between neighbouring floats near x: at a power of two that of the larger ones. It is
 * the smallest float for 0, and where x is infinite or no number. */
static inline double kl_test_ulp_f32(double x) {
    return isfinite(x) && fabs(x) >= 0x1p-126 ? ldexp(1, ilogb(x) - 23) : 0x1p-149;
}
/* The same of doubles. */
static inline long double kl_test_ulp_f64(long double x) {
    return isfinite(x) && fabsl(x) >= 0x1p-1022L ? ldexpl(1, ilogbl(x) - 52) : 0x1p-1074L;
}
/* The distance from 1 to the next number of a dtype of floats; of a complex one that of its
 * parts. */
static inline double kl_test_epsilon(enum kl_dtype dtype) {
    switch (dtype) {
    case KL_F16: return 0x1p-10;
    case KL_BF16: return 0x1p-7;
    case KL_F64: return 0x1p-52;
    default: return 0x1p-23;
    }
}
