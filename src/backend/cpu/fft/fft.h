/* fft.h - what the files of the Fourier transforms share.
 *
 * A tile holds the rows of LANES transforms that are computed side by side: row j is the numbers j
 * of all lanes, their real parts and then their imaginary parts. LANES is one vector, of float or
 * of double. No result depends on the lane or on the number of lanes. */
#pragma once
#include "backend/cpu/operand/scratch.h"
#include "backend/cpu/operand/tile.h"
#include "base/number/fft_plan.h"
#include "base/op/op_params.h"

/* The bytes of a vector, and the numbers in it. */
#if defined __AVX512F__
#define KL_FFT_VECTOR 64
#define KL_FFT_LANES_F32 16
#define KL_FFT_LANES_F64 8
#elif defined __AVX2__
#define KL_FFT_VECTOR 32
#define KL_FFT_LANES_F32 8
#define KL_FFT_LANES_F64 4
#else
#define KL_FFT_VECTOR 16
#define KL_FFT_LANES_F32 4
#define KL_FFT_LANES_F64 2
#endif

enum { KL_FFT_PARALLEL_FROM = 1 << 14 }; /* numbers; less work is not given to several threads */

/* The elements in memory: real or complex numbers, of float or of double. */
enum kl_fft_store { KL_FFT_R32, KL_FFT_R64, KL_FFT_C32, KL_FFT_C64 };

static inline int kl_fft_item(enum kl_fft_store s) {
    return s == KL_FFT_R32 ? 4 : s == KL_FFT_C64 ? 16 : 8;
}

/* One operand of transforms along an axis; strides in elements of the store. */
struct kl_fft_side {
    char *data;
    enum kl_fft_store store;
    int64_t step; /* along the axis */
    int64_t strides[KL_LONG_AXES];
};

/* Transforms along one axis. */
struct kl_fft_job {
    const struct kl_launch *l;
    const struct kl_fft_plan *plan;
    enum kl_fft_kind kind;
    int64_t n;    /* of the longer side: the length of the transform */
    bool halved;  /* of even n numbers that are real on one side, as n / 2 complex ones */
    double scale; /* of the results */
    struct kl_fft_side in, out;
    int n_axes; /* of the lines; axes that are contiguous on both sides are one */
    int dims[KL_LONG_AXES];
    int64_t lines;
    int64_t run, groups; /* lines that are tiled together; tiles in them */
    int64_t tiles, per_task;
    atomic_bool no_memory;
};

/* Computes all lines: side by side, or one after the other. 0 or KL_ENOMEM. */
typedef int kl_fft_run_fn(struct kl_fft_job *j);
kl_fft_run_fn kl_fft_run_f32, kl_fft_run_f64;
