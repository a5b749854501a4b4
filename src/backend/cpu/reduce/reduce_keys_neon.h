/* reduce_keys_neon.h - run_keys32 of reduce.inc, for reduce_joins.c, which includes it: floats are
 * compared as they are, and the best becomes a key. */
#include "backend/cpu/math/extremes_neon.h"

static void run_keys32(struct kl_order order, void *levels, int64_t *leaves, const void *in,
                       int64_t n) {
    const float *x = in;
    int32_t *level = levels, key;
    if (n >= 4) {
        const float best = order.flip ? kl_smallest_at(x, n) : kl_largest_at(x, n);
        key = kl_key32(order, kl_f32_bits(best));
    } else {
        key = kl_key32(order, kl_f32_bits(x[0]));
        for (int64_t i = 1; i < n; i++) key = KL_PLAIN_MAX(key, kl_key32(order, kl_f32_bits(x[i])));
    }
    level[0] = *leaves ? KL_PLAIN_MAX(level[0], key) : key;
    *leaves = 1;
}
