/* softmax.h - what the parts of SOFTMAX share: softmax.c, which chooses the method and computes
 * float64 and complex64, softmax_rows.c and softmax_columns.c. */
#pragma once
#include <stdatomic.h>

#include "backend/cpu/math/exp_wide.h"
#include "base/op/launch.h"

/* The factor of results: the reciprocal of the total as a float, and its rounding error
 * (kl_softmax_lack); NaN where no result is a number. Without the total's own rounding error, equal
 * elements would not give exact results. */
static inline float kl_softmax_inverse(float total, float top) {
    const float x = 1 / total;
    return top == -INFINITY || !(total < INFINITY) ? NAN : x;
}
static inline float kl_softmax_lack(float factor, float total, float lack) {
    return factor * __builtin_fmaf(-lack, factor, __builtin_fmaf(-total, factor, 1));
}
/* The quotient y / total. It differs from the division in rare last bits, and takes a tenth of the
 * time. */
static inline float kl_softmax_quotient(float y, float factor, float lack) {
    return __builtin_fmaf(y, factor, y * lack);
}

struct kl_softmax_job {
    const struct kl_launch *l;
    void (*row)(const struct kl_softmax_job *j, int64_t row);
    /* Elements of a row; number of rows; rows or columns of one task. */
    int64_t length, rows, group;
    bool nontemporal; /* rows are written with non-temporal stores */
    atomic_bool no_memory;
    int64_t inner, strips; /* number of neighbouring columns; number of their strips, each a task */
};

#define KL_SOFTMAX_CENTRE \
    (KL_EXP_BASE + 64) /* exponentials are scaled by 2^32 to 2^96, so none is denormal */
enum {
    KL_SOFTMAX_SPREAD = 130, /* elements that are further below the centre give 0 */
    /* Elements of a strip whose exponentials stay in the L2 cache; those of longer strips are
     * computed twice. */
    KL_SOFTMAX_PANEL = 1 << 18,
    KL_SOFTMAX_NARROW = 32, /* the fewest columns of a strip: one cache line, or two */
};

/* Task i of rows of float32 or 16-bit floats; arg: the job. */
void kl_softmax_rows(void *arg, int64_t i);
/* Columns [from, from + n) of outer index `outer`, of float32 or 16-bit floats. */
void kl_softmax_columns(const struct kl_softmax_job *j, int64_t outer, int64_t from, int64_t n);
