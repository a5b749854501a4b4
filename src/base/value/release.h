/* release.h - a separate thread that runs destructors of the user, while other threads go on.
 *
 * A destructor may wait for anything. A thread that settles device work or publishes a ticket must
 * not run one, because the destructor could wait for that thread. Such releases are given to the
 * release thread. Any thread may call these functions. */
#pragma once
#include "base/thread.h"

struct kl_release {
    struct kl_release *next;
    void (*run)(struct kl_release *self); /* once, on the release thread; self may be freed */
};

int kl_release_start(void); /* 0, or KL_ENOMEM */
/* Runs r on the release thread. Runs it at once on this thread when the release thread does not
 * exist and cannot be started. */
void kl_release_later(struct kl_release *r /* taken */);
/* Waits until everything given before the call has run. Must not be called on the release
 * thread. */
void kl_release_drain(void);
void kl_release_forked(void); /* called in a forked child, which has no release thread */
