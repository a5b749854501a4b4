/* error.h - the one place where failures become public: the thread's last error and the user's
 * handler. Every function of src/api/ that fails ends with kl_api_raise. */
#pragma once
#include "base/error.h"

/* Delivers e, which is taken and never NULL, for the API function `func`. The error counts as
 * reported, becomes the calling thread's last error, and is given to the handler. The handler is
 * called last, with no lock and no memory held, so it may longjmp. An error that names no operation
 * gets the name func. While a callback of a reader is captured (capture.h) the error goes
 * there instead of to the handler. Returns 1, the return value of a failing function. */
int kl_api_raise(const char *func, struct kl_error *e);

/* Drops the calling thread's last error; for tests that count live memory. */
void kl_api_forget_error(void);
