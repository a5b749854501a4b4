/* golden_make.h - tables of golden_ops.py whose rows are calls of their own. Each row runs
 * once with contiguous operands, once with operands whose elements have another order in memory,
 * and once on the simulated device; all must give the same bits. */
#pragma once
#include "ops/golden/golden.h"

#define GOLDEN_CALL                                                                     \
    struct kl_array **out, struct kl_array *const *in, struct kl_stream *s, struct kl_error **err
struct golden_make {
    const char *name;
    int (*call)(GOLDEN_CALL);
    int n_in;
    struct golden_array in[3], out;
    double rtol; /* 0: the bits must be equal, except for the bits of a NaN */
};

static inline void golden_make_run(const struct golden_make *g) {
    static const char *const ways[] = {"", ", strided", ", simulated device"};
    const struct golden as = {.name = g->name, .out = g->out, .rtol = g->rtol};
    void *first = NULL;
    for (int way = 0; way < 3; way++) {
        struct kl_array *in[3], *out;
        struct kl_error *err = NULL;
        for (int k = 0; k < g->n_in; k++) {
            const struct golden_array *a = &g->in[k];
            in[k] = array_of((enum kl_dtype)a->dtype, a->ndim, a->dims, a->data);
            if (way == 1) in[k] = strided(in[k]);
        }
        if (g->call(&out, in, way == 2 ? sim() : cpu(), &err))
            fail_msg("%s%s: %s", g->name, ways[way], err->message);
        first = golden_check(&as, out, first, ways[way]);
        kl_array_release(out);
        for (int k = 0; k < g->n_in; k++) kl_array_release(in[k]);
    }
    free(first);
}

#define GOLDEN_MAKE_RUN_ALL(cases) \
    for (size_t i_ = 0; i_ < sizeof(cases) / sizeof *(cases); i_++) golden_make_run(&(cases)[i_])
