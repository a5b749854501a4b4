/* api_error.h - the one place where failures become public: the thread's last error and the user's
 * handler. Every function of src/api/ that fails ends with kl_api_raise. */
#pragma once
#include "base/error.h"

/* Delivers e (taken; never NULL) for the API function `func`: the error counts as seen, becomes the
 * calling thread's last one, and is given to the handler, which is called last, with no lock and no
 * memory held: it may longjmp. An error that names no operation is named after func. While a
 * callback of a reader is being captured (base/capture.h) it goes there, not to the handler.
 * Returns 1, what a failing function returns. */
int kl_api_raise(const char *func, struct kl_error *e);

/* Drops the calling thread's last error; for tests that count live memory. */
void kl_api_forget_error(void);
