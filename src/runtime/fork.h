/* fork.h - what fork leaves behind. The parent goes on as if nothing had happened. In the child settled arrays can be read, pending ones fail with
 * KL_EFORK, CPU streams work again on use, and a GPU that was used before gives a clear error. */
#pragma once
#include "base/error.h"

/* Registers the handlers, once. */
int kl_fork_watch(struct kl_error **err);
