/* fork_locks.h - leaf locks of upper layers that a fork must not catch in the middle. */
#pragma once
#include "base/thread.h"

/* Has mu taken around every later fork, after all other locks. At most 96 (three for each GPU); mu lives for ever. */
void kl_fork_lock_add(struct kl_mutex *mu);
void kl_fork_locks(bool lock);
