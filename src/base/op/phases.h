/* phases.h - a convolution whose input has zeros between its elements, as several without them.
 * Along each axis, positions of the output at equal distances (a phase) see the same elements of
 * the kernel; the other elements of the kernel meet zeros. For the kernels of CONVOLUTION. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* One axis. Fields without a comment are as in struct kl_convolution_params. */
struct kl_conv_axis {
    int64_t out, k; /* positions of the output, elements of the kernel */
    int64_t stride, dilation, low, input_dilation;
    int64_t out_first, out_step; /* position i is position out_first + i * out_step of the output */
    int64_t k_first, k_step;     /* the same for elements of the kernel */
};

static inline int64_t kl_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The number of phases that have positions. */
static inline int64_t kl_conv_phases(const struct kl_conv_axis *a) {
    const int64_t n = a->input_dilation / kl_common_divisor(a->stride, a->input_dilation);
    return n < a->out ? n : a->out;
}

/* Makes the axis that of one phase, with an input_dilation of 1. False: its positions see zeros
 * only. */
static inline bool kl_conv_phase(struct kl_conv_axis *a, int64_t phase) {
    const int64_t d = a->input_dilation, n = d / kl_common_divisor(a->stride, d);
    const int64_t every = d / kl_common_divisor(a->dilation, d);
    int64_t k = 0;
    if (d == 1) return true;
    while (k < a->k && k < every && (phase * a->stride + k * a->dilation - a->low) % d) k++;
    if (k == a->k || k == every) return false;
    a->low = -((phase * a->stride + k * a->dilation - a->low) / d);
    a->k_first = k;
    a->k_step = every;
    a->k = (a->k - k + every - 1) / every;
    a->out_first = phase;
    a->out_step = n;
    a->out = (a->out - phase + n - 1) / n;
    a->stride = n * a->stride / d;
    a->dilation = every * a->dilation / d;
    a->input_dilation = 1;
    return true;
}
