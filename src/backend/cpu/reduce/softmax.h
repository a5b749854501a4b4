/* softmax.h - what the ways of SOFTMAX have in common: softmax.c, which chooses one and has those
 * of float64 and complex64, softmax_rows.c and softmax_columns.c. For these only. */
#pragma once
#include <stdatomic.h>

#include "backend/cpu/math/exp_wide.h"
#include "base/launch.h"

/* The factor of results: 1 / total as a float, and its rounding error (kl_softmax_lack); NaN where
 * no result is a number. The total has a rounding error of its own: without it equal elements would
 * show it. */
static inline float kl_softmax_inverse(float total, float top) {
    const float x = 1 / total;
    return top == -INFINITY || !(total < INFINITY) ? NAN : x;
}
static inline float kl_softmax_lack(float factor, float total, float lack) {
    return factor * __builtin_fmaf(-lack, factor, __builtin_fmaf(-total, factor, 1));
}
/* y / total, as the division would give it except for rare last bits, in a tenth of the time. */
static inline float kl_softmax_quotient(float y, float factor, float lack) {
    return __builtin_fmaf(y, factor, y * lack);
}

struct kl_softmax_job {
    const struct kl_launch *l;
    void (*row)(const struct kl_softmax_job *j, int64_t row);
    int64_t length, rows, group; /* of a row; of all rows; rows or columns of one task */
    bool nontemporal;            /* rows are written with non-temporal stores */
    atomic_bool no_memory;
    int64_t inner, strips; /* columns side by side; the tasks that they make */
};

#define KL_SOFTMAX_CENTRE \
    (KL_EXP_BASE + 64) /* exponentials are scaled by 2^32 to 2^96, so none is denormal */
enum {
    KL_SOFTMAX_SPREAD = 130, /* elements smaller than a centre less this give 0 */
    /* Elements of a strip whose exponentials stay in the L2 cache; those of longer strips are
     * computed twice. */
    KL_SOFTMAX_PANEL = 1 << 18,
    KL_SOFTMAX_NARROW = 32, /* columns of a strip, at least: one cache line, or two */
};

/* Task i of rows of float32 or 16-bit floats; arg: the job. */
void kl_softmax_rows(void *arg, int64_t i);
/* Columns [from, from + n) of outer index `outer`, of float32 or 16-bit floats. */
void kl_softmax_columns(const struct kl_softmax_job *j, int64_t outer, int64_t from, int64_t n);
