/* release.h - a thread of its own for releases that run the user's code while others must go on.
 *
 * A destructor may wait for anything. Whoever settles device work, or publishes a ticket, must not
 * run it: it could wait for that very thread. Such releases are left here. Any thread may call. */
#pragma once
#include "base/thread.h"

struct kl_release {
    struct kl_release *next;
    void (*run)(struct kl_release *self); /* once, on the release thread; self may be freed */
};

int kl_release_start(void); /* 0, or KL_ENOMEM */
/* Runs it there; here and now when there is no such thread and none can be had. */
void kl_release_later(struct kl_release *r /* taken */);
void kl_release_drain(
    void); /* until all that was left before the call has run; not on that thread */
void kl_release_forked(void); /* in the child: the thread is gone */
