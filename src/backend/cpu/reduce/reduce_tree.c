/* reduce_tree.c - what all ways through memory do with finished leaves and with means. */
#include <string.h>

#include "backend/cpu/math/complex.h"
#include "backend/cpu/reduce/reduce.h"
#include "backend/cpu/vector/lanes.h"

static char *level_at(const struct kl_reduce_job *j, const struct kl_reduce_counter *c, int k) {
    return c->level + k * c->width * j->bytes;
}

void kl_reduce_push(const struct kl_reduce_job *j, struct kl_reduce_counter *c, char *value) {
    int k = 0;
    for (; c->leaves >> k & 1; k++) {
        j->join.fold(level_at(j, c, k), value, c->width);
        memcpy(value, level_at(j, c, k), (size_t)(c->width * j->bytes));
    }
    memcpy(level_at(j, c, k), value, (size_t)(c->width * j->bytes));
    c->leaves++;
}

void kl_reduce_finish(const struct kl_reduce_job *j, struct kl_reduce_counter *c, char *out) {
    bool any = false;
    for (int k = 0; c->leaves >> k; k++) {
        if (!(c->leaves >> k & 1)) continue;
        char *here = level_at(j, c, k);
        if (any) j->join.fold(here, out, c->width);
        memcpy(out, here, (size_t)(c->width * j->bytes));
        any = true;
    }
}

void kl_reduce_distances(const struct kl_reduce_job *j, void *out, const void *in, const void *mean,
                         int64_t step, int64_t n) {
    if (j->read == KL_F32) {
        float *y = out;
        const float *x = in, *m = mean;
        if (step)
            KL_EACH(i, n) y[i] = (x[i] - m[i]) * (x[i] - m[i]);
        else
            KL_EACH(i, n) y[i] = (x[i] - *m) * (x[i] - *m);
    } else if (j->read == KL_F64) {
        double *y = out;
        const double *x = in, *m = mean;
        if (step)
            KL_EACH(i, n) y[i] = (x[i] - m[i]) * (x[i] - m[i]);
        else
            KL_EACH(i, n) y[i] = (x[i] - *m) * (x[i] - *m);
    } else {
        float *y = out;
        const struct kl_c64 *x = in, *m = mean;
        for (int64_t i = 0; i < n; i++) {
            struct kl_c64 d = kl_c64_sub(x[i], m[i * step]);
            y[i] = d.re * d.re + d.im * d.im;
        }
    }
}
