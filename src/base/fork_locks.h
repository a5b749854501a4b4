/* fork_locks.h - leaf locks of upper layers that must be held during a fork, so that the child
 * finds the data that they guard whole. */
#pragma once
#include "base/thread.h"

/* Has mu locked around every later fork, after all other locks. At most 96 mutexes (three for each
 * GPU); mu must never be destroyed. */
void kl_fork_lock_add(struct kl_mutex *mu);
void kl_fork_locks(bool lock);
