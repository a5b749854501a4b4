/* ranks.h - what the ranks of a test of several processes share; launcher.h starts them.
 *
 * KEEL_TEST_RANKS_ON names a driver (sim, cuda): then operations of groups are done by the devices
 * of the ranks, one each. Else they are done on the host. */
#pragma once
#include "launcher.h"
#include "ops/support/helpers.h"

#include "backend/collective/group.h"
#include "ops/distributed.h"
#include "runtime/device.h"

static struct kl_group *world; /* of all ranks */
static int rank, n_ranks;

static inline const char *ranks_on(void) {
    const char *name = getenv("KEEL_TEST_RANKS_ON");
    return name && *name ? name : NULL;
}

/* The stream of operations of groups. */
static inline struct kl_stream *there(void) {
    static struct kl_stream *s;
    enum kl_device_type type = KL_CPU;
    int index = 0;
    if (ranks_on()) kl_device_default(&type, &index);
    if (!s) assert_int_equal(kl_stream_default(&s, type, index, NULL), KL_OK);
    return s;
}

/* Joins the others, and expects as many as were started. */
static inline int join_ranks(void **state) {
    struct kl_error *err = NULL;
    bool gpu = true;
    if (ranks_on()) {
        setenv("KEEL_GPU", ranks_on(), 1);
        setenv("KEEL_SIM_DEVICES", "2", 1);
        if (kl_device_choose(&gpu, &err) || !gpu) {
            print_error("%s: %s\n", ranks_on(), err ? err->message : "no device");
            return 1;
        }
    }
    if (kl_distributed_init(&world, false, NULL, &err)) {
        print_error("init: %s\n", err->message);
        return 1;
    }
    rank = kl_group_rank(world);
    n_ranks = kl_group_size(world);
    if (ranks_on() && !kl_group_device(world)) {
        print_error("the group has no devices\n");
        return 1;
    }
    return n_ranks != atoi(getenv("KEEL_TEST_RANKS"));
}

/* How many ranks a test starts that works with any number. */
static inline int ranks_wanted(int otherwise) {
    const char *n = getenv("KEEL_TEST_N_RANKS");
    return n && *n ? atoi(n) : otherwise;
}
