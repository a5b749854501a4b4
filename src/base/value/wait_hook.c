/* wait_hook.c - see wait_hook.h. */
#include "base/value/wait_hook.h"

#include "base/platform/clock.h"

static __thread struct kl_wait_hook own;
static __thread int64_t next; /* when the hook is asked, on the coarse clock */

struct kl_wait_hook kl_wait_hook_set(struct kl_wait_hook hook) {
    struct kl_wait_hook before = own;
    own = hook;
    return before;
}

void kl_wait_begin(void) {
    if (own.fn) next = kl_clock_coarse_ms() + KL_WAIT_HOOK_MS;
}

bool kl_wait_hook_due(const struct kl_wait_hook *hook) {
    return hook->fn && kl_clock_coarse_ms() >= next;
}

static bool ask(void) {
    bool ends = own.fn(own.ctx) != 0;
    kl_wait_begin(); /* also after a wait inside the hook */
    return ends;
}

int kl_wait_ask(struct kl_error **err) {
    return kl_wait_hook_due(&own) && ask() ? kl_wait_fail(err) : KL_OK;
}

bool kl_wait_parked(struct kl_parker *p) {
    if (!own.fn) {
        kl_parker_wait(p);
        return true;
    }
    while (!kl_parker_wait_ms(p, KL_WAIT_HOOK_MS))
        if (ask()) return false;
    return true;
}

int kl_wait_fail(struct kl_error **err) {
    return kl_fail(err, KL_EINTERRUPTED,
                   "the wait was ended by the hook of the thread that waits; the work goes on, and "
                   "its values can be read later");
}
