/* ok.h - for tests that call the library's own functions. */
#pragma once
#include "support.h"

/* The call, which may name `err`, must succeed; a failure prints its message. */
#define OK(call)                                                                       \
    do {                                                                               \
        struct kl_error *err = NULL;                                                   \
        int rc_ = (call);                                                              \
        if (rc_) fail_msg("%s: %d %s", #call, rc_, err ? err->message : "no message"); \
    } while (0)
