/* convolution_backward.h - what the two ways to the gradient of a convolution's weight share: sums
 * for each input channel of a group (convolution_backward.c), and tiles of a product of all
 * channels (weight_tiles.c). */
#pragma once
#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"
#include "base/op/phases.h"

/* One spatial axis: z, y or x. */
struct kl_backward_axis {
    int64_t in, out, k, stride, dilation, low, input_dilation, x_step, g_step;
    bool flip;
};

/* x (n, spatial, c) and the cotangent g (n, spatial, o) give (o, k, c / groups). Strides are in
 * elements. */
struct kl_backward {
    struct kl_launch *l;
    const struct kl_arg *x, *g;
    struct kl_backward_axis axis[KL_MAX_SPATIAL];
    int64_t batch, groups, o, each_in, each_out, x_channel, g_channel, taps;
};

/* Which element of x position `i` of an axis sees through element `tap`: -1: padding, -2: a zero
 * between elements. */
static inline int64_t kl_backward_seen(const struct kl_backward_axis *a, int64_t i, int64_t tap) {
    const int64_t at = i * a->stride + tap * a->dilation - a->low;
    if (at % a->input_dilation) return -2;
    return at < 0 || at / a->input_dilation >= a->in ? -1 : at / a->input_dilation;
}

/* Where element `tap` of the kernel stands in the weight, which may be flipped. */
static inline int64_t kl_backward_place(const struct kl_backward *b, int64_t tap) {
    int64_t to = 0, left = tap, each = 1;
    for (int i = KL_MAX_SPATIAL - 1; i >= 0; i--) {
        const struct kl_backward_axis *a = &b->axis[i];
        to += each * (a->flip ? a->k - 1 - left % a->k : left % a->k);
        left /= a->k;
        each *= a->k;
    }
    return to;
}

/* ---- weight_tiles.c ---- */
/* Whether kl_weight_tiles takes it: one group, float32 or narrower, no zeros between elements. */
bool kl_weight_by_tiles(const struct kl_backward *b);
int kl_weight_tiles(const struct kl_backward *b);
