/* capture.c - see capture.h. Each thread has a stack of captures, linked through the frames of the
 * callers. */
#include "base/value/capture.h"

#include <stddef.h>

#include "base/thread.h"

static _Thread_local struct kl_capture *innermost;

void kl_capture_begin(struct kl_capture *c) {
    c->outer = innermost;
    c->err = NULL;
    innermost = c;
}

struct kl_error *kl_capture_end(struct kl_capture *c) {
    kl_assert(innermost == c);
    innermost = c->outer;
    return c->err;
}

bool kl_capture_active(void) {
    return innermost != NULL;
}

void kl_capture_store(struct kl_error *e) {
    kl_assert(innermost);
    kl_fail_with(&innermost->err, e);
}
