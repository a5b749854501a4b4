/* capture.h - errors that a callback raises, caught by the caller of the callback.
 *
 * While a capture is active on a thread, an error that the API would give to the user's handler is
 * stored in the capture instead; only the first error is kept. Captures nest like the calls around
 * which they are put: begin and end come in pairs, on one thread. One surrounds every callback of a
 * custom reader or writer, because these callbacks have no return code. */
#pragma once
#include "base/error.h"

struct kl_capture {
    struct kl_capture *outer; /* the capture that was active before, or NULL */
    struct kl_error *err;     /* the first error caught, owned; NULL while there is none */
};

void kl_capture_begin(struct kl_capture *c); /* c is on the caller's stack */
/* Ends the capture c. Returns the error caught, which the caller owns, or NULL. */
struct kl_error *kl_capture_end(struct kl_capture *c);
bool kl_capture_active(void);
/* Gives e (taken) to the innermost capture of this thread. A capture must be active. */
void kl_capture_store(struct kl_error *e);
