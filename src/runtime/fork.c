/* fork.c - see fork.h. All locks are taken before the fork, in lock order, so that the child finds
 * all data consistent. */
#include "runtime/fork.h"

#include <pthread.h>

#include "backend/collective/group.h"
#include "base/fork_locks.h"
#include "base/value/failures.h"
#include "base/value/out_of_range.h"
#include "base/value/release.h"
#include "runtime/block_pool.h"
#include "runtime/callback_waits.h"
#include "runtime/device.h"
#include "runtime/executor.h"
#include "runtime/readers.h"

static void prepare(void) {
    kl_callback_waits_fork_prepare();
    kl_streams_fork_prepare();
    kl_pool_fork_prepare();
    kl_readers_fork_prepare();
    kl_timelines_fork_lock(true);
    kl_pools_fork_prepare();
    kl_failures_fork_prepare();
    kl_fork_locks(true);
}

static void parent(void) {
    kl_fork_locks(false);
    kl_failures_fork_parent();
    kl_pools_fork_parent();
    kl_timelines_fork_lock(false);
    kl_readers_fork_parent();
    kl_pool_fork_parent();
    kl_streams_fork_parent();
    kl_callback_waits_fork_parent();
}

static void child(void) {
    kl_fork_locks(false);
    kl_failures_fork_child();
    kl_out_of_range_fork_child();
    kl_pools_fork_child();
    kl_timelines_fork_lock(false);
    kl_readers_fork_child();
    kl_pool_fork_child();
    kl_release_forked();
    kl_devices_fork_child();
    kl_collective_forked();
    kl_streams_fork_child();
    kl_callback_waits_fork_child();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_rc;

static void watch(void) {
    watch_rc = pthread_atfork(prepare, parent, child);
}

int kl_fork_watch(struct kl_error **err) {
    pthread_once(&once, watch);
    return watch_rc ? kl_fail(err, KL_ENOMEM, "the fork handlers could not be registered") : KL_OK;
}
