/* fork.h - the state of the library after fork. The parent goes on as if nothing had happened. In
 * the child settled arrays can be read, pending arrays fail with KL_EFORK, CPU streams work again
 * on their next use, and a GPU that was used before gives a clear error. */
#pragma once
#include "base/error.h"

/* Registers the fork handlers, once. */
int kl_fork_watch(struct kl_error **err);
