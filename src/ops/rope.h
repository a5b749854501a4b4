/* rope.h - the builder of rotary positions; the rules of ops.h hold. */
#pragma once
#include "ops/build/builder.h"

/* x: floats, (batch, ..., positions, features). The first dims features are rotated in pairs, of
 * neighbours if traditional, otherwise dims / 2 apart. The angle of pair k at position t is (t +
 * offset) * scale * base^(-2k / dims), or divided by freqs[k] (1-d, dims / 2). Exactly one of base
 * and freqs is given. offset: integers, 0-d or one per element of the batch. */
struct kl_rope_base {
    bool given;
    float value;
};
int kl_rope(struct kl_array **out, struct kl_array *x, int dims, bool traditional,
            struct kl_rope_base base, float scale, struct kl_array *offset,
            struct kl_array *freqs /* may be NULL */, struct kl_stream *s, struct kl_error **err);
