/* capture.h - errors that a callback raises, caught by whoever called the callback.
 *
 * While a capture is active on a thread, an error that the API would give to the user's handler
 * (base/ knows neither) is stored in the capture instead; the first one stays. Captures nest like
 * the calls they surround: begin and end in pairs, on one thread. Used around every callback of a
 * custom reader or writer, whose callbacks have no return code. */
#pragma once
#include "base/error.h"

struct kl_capture {
    struct kl_capture *outer; /* what was active before */
    struct kl_error *err;     /* the first error caught, owned; NULL while there is none */
};

void kl_capture_begin(struct kl_capture *c); /* c is on the caller's stack */
/* Takes c off again. The error caught, owned by the caller, or NULL. */
struct kl_error *kl_capture_end(struct kl_capture *c);
bool kl_capture_active(void);
/* Gives e (taken) to the innermost capture of this thread; only while one is active. */
void kl_capture_store(struct kl_error *e);
