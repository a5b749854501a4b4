/* rope.h - the angles of ROPE, for its two files. Only they include it, and a test. */
#pragma once
#include "backend/gpu/lower/lower.h"
#include "base/op/op_params.h"

enum {
    KL_ROPE_TURNS = 64, /* of one launch; rope.kl has the same number, and the next one */
    KL_ROPE_PARTS = 4,  /* of one launch of rope_few */
    /* Elements of a part of rope_few: work-items of a sub-group read turns at different places of
     * an argument, by turns. A processor, whose loops over vectors take several pairs at once, has
     * fewer. */
    KL_ROPE_FEW = 1 << 17,
    KL_ROPE_FEW_ON_PROCESSOR = 1 << 14,
};

/* The turns at position 1 of as many pairs, counted from one of them. */
struct kl_rope_turns {
    uint64_t of[KL_ROPE_TURNS];
};
struct kl_rope_turns kl_rope_turns_from(const struct kl_rope_params *p, int64_t first);
