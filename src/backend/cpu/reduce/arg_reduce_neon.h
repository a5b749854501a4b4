/* arg_reduce_neon.h - scan_rank32 of arg_reduce.inc, for arg_reduce.c, which includes it: first the
 * best value, compared as floats, then its first place, if it is better than what came before. */
#include "backend/cpu/math/extremes_neon.h"

static void scan_rank32(struct kl_ranking rank, const void *in, int64_t n, int64_t first,
                        struct best *best) {
    const float *x = in;
    int32_t was, top = kl_rank32(rank, kl_f32_bits(x[0]));
    int64_t i = 0;
    float value = x[0];
    if (n >= 4) {
        value = rank.sign ? kl_smallest_at(x, n) : kl_largest_at(x, n);
        top = kl_rank32(rank, kl_f32_bits(value));
    }
    for (int64_t k = 1; n < 4 && k < n; k++) {
        const int32_t next = kl_rank32(rank, kl_f32_bits(x[k]));
        if (next > top) i = k, top = next;
    }
    memcpy(&was, best->value, sizeof was);
    if (best->at >= 0 && top <= was) return;
    if (n >= 4) i = kl_place_of(x, n, value);
    *best = (struct best){.at = first + i};
    memcpy(best->value, &top, sizeof top);
}
