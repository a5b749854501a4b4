/* closure.h - functions of the user as shared objects, to which the closure handles of the C API
 * point. There is one struct for all kinds; the type of the handle says which type `fun` has. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "api/handles.h"

enum kl_closure_form { KL_CLOSURE_PLAIN, KL_CLOSURE_PAYLOAD, KL_CLOSURE_UNARY };

struct kl_closure {
    _Atomic(uint32_t) refs;
    enum kl_closure_form form;
    void (*fun)(void);    /* cast back to its own type before it is called */
    void *payload;        /* with KL_CLOSURE_PAYLOAD: the last argument of fun */
    void (*dtor)(void *); /* called with payload at the last release; may be NULL */
};

struct kl_closure *kl_closure_retain(struct kl_closure *f);
void kl_closure_release(struct kl_closure *f); /* NULL is fine */

struct kl_closure_box {
    struct kl_closure *closure; /* owned, never NULL */
};
/* The closure behind a handle (its ctx), borrowed. NULL, with the error noted, when the handle is
 * empty. */
struct kl_closure *kl_in_closure(struct kl_call *c, void *ctx, const char *what);
