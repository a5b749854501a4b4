/* ranks.h - what the ranks of a test of several processes share; launcher.h starts them. */
#pragma once
#include "launcher.h"
#include "ops/support/helpers.h"

#include "backend/collective/group.h"
#include "ops/distributed.h"

static struct kl_group *world; /* of all ranks */
static int rank, n_ranks;

/* Joins the others, and expects as many as were started. */
static inline int join_ranks(void **state) {
    struct kl_error *err = NULL;
    if (kl_distributed_init(&world, false, NULL, &err)) {
        print_error("init: %s\n", err->message);
        return 1;
    }
    rank = kl_group_rank(world);
    n_ranks = kl_group_size(world);
    return n_ranks != atoi(getenv("KEEL_TEST_RANKS"));
}
