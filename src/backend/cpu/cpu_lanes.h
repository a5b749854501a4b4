/* cpu_lanes.h - loops over lanes: partial results side by side, of which there is a fixed number. For the kernels of this folder only. */
#pragma once

/* gcc would unroll such a loop before it looks for vectors, and then find none in what has selects. */
#ifdef __clang__
#define KL_LANES(k, n) for (int k = 0; k < (n); k++)
#else
#define KL_LANES(k, n) _Pragma("GCC unroll 1") for (int k = 0; k < (n); k++)
#endif

/* The same where each lane reads its place before it writes it, so that operands may be the result. */
#ifdef __clang__
#define KL_EACH_LANE(k, n) _Pragma("clang loop vectorize(assume_safety)") KL_LANES(k, n)
#else
#define KL_EACH_LANE(k, n) _Pragma("GCC ivdep") KL_LANES(k, n)
#endif

/* What 16 lanes give, in lane 0: they are joined by halving. */
#define KL_HALVE_16(JOIN, lane)                              \
    do {                                                     \
        KL_LANES(k, 8) lane[k] = JOIN(lane[k], lane[k + 8]); \
        KL_LANES(k, 4) lane[k] = JOIN(lane[k], lane[k + 4]); \
        KL_LANES(k, 2) lane[k] = JOIN(lane[k], lane[k + 2]); \
        lane[0] = JOIN(lane[0], lane[1]);                    \
    } while (0)
#define KL_LANE_SUM(a, b) ((a) + (b))
