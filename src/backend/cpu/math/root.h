/* root.h - square roots of 16 floats side by side. */
#pragma once
#include <math.h>

#include "backend/cpu/vector/lanes.h"

enum { KL_ROOTS = 16 };

#ifdef __AVX512F__
#include "backend/cpu/math/root_avx512.h"
#else
static inline void kl_roots(float *y, const float *x) {
    KL_EACH_LANE(k, KL_ROOTS) y[k] = sqrtf(x[k]);
}
#endif
