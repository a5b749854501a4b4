/* wait.c - keel/wait.h. */
#include <keel/wait.h>

#include "base/value/wait_hook.h"

keel_wait_hook keel_set_wait_hook(keel_wait_hook hook) {
    struct kl_wait_hook before = kl_wait_hook_set((struct kl_wait_hook){hook.fn, hook.ctx});
    return (keel_wait_hook){before.fn, before.ctx};
}
