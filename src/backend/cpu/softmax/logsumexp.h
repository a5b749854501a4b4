/* logsumexp.h - what the parts of LOGSUMEXP share: the terms of its sums. logsumexp.c cuts long
 * outputs into leaves, logsumexp_few.c computes short ones, and logsumexp_complex.c complex64.
 * LOG_SOFTMAX takes their results. */
#pragma once
#include "backend/cpu/math/exp_wide.h"
#include "backend/cpu/operand/axes.h"
#include "base/op/launch.h"

/* Elements that are smaller than the centre by more than this add nothing to the sum. */
enum { KL_LOGSUMEXP_SPREAD = 86 };

static inline float kl_logsumexp_least(float centre) {
    return centre * KL_LN2_F32 - KL_LOGSUMEXP_SPREAD;
}
/* The term of a float32, or (down) of a 16-bit float. */
KL_INLINE float kl_logsumexp_term(bool down, float x, float base, float *power) {
    return down ? kl_term_down(x, base, power) : kl_term(kl_term_f32, KL_TERMS_F32, x, base, power);
}
/* The term of the largest element. The sum is divided by it, so that the result of a single element
 * is this element. */
static inline float kl_logsumexp_at_top(float top, bool down) {
    float power, x = fabsf(top) < KL_FAR ? top : 0;
    float y = kl_logsumexp_term(down, x, KL_EXP_BASE - kl_centre_of(x), &power) * power;
    return fabsf(top) < KL_FAR ? y : 1;
}

enum { KL_LOGSUMEXP_WIDTH = 1024 /* the most columns that are computed side by side */ };

/* Takes the results of outputs [begin, begin + n), at most KL_LOGSUMEXP_WIDTH, in the place of
 * memory: the largest elements and the logarithms of the sums of exponentials of distances from
 * them (0 of an infinite largest element), as double for float64, else as float. parallel: as in
 * kl_launch; NULL in a task. */
struct kl_logsumexp_taker {
    void (*take)(const struct kl_logsumexp_taker *t, int64_t begin, int64_t n, const void *top,
                 const void *rest, kl_parallel_for *parallel);
};
/* LOGSUMEXP along an axis of l->in, not of complex64, for a taker, which reads the elements again.
 * Tasks have no more rows than stay in the L2 cache, where possible. l->out is not used. */
int kl_logsumexp_for(struct kl_launch *l, int axis, const struct kl_logsumexp_taker *taker);

/* LOGSUMEXP of float32 or 16-bit floats with at most KL_LOGSUMEXP_FEW elements for each output.
 * rows: the reduced elements of each output are contiguous. taker: NULL, or takes the results. */
enum { KL_LOGSUMEXP_FEW = 48 };
void kl_logsumexp_few(const struct kl_launch *l, const struct kl_split *s, bool rows,
                      const struct kl_logsumexp_taker *taker);

void kl_logsumexp_complex(const struct kl_launch *l, const struct kl_split *s);
