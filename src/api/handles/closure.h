/* closure.h - functions of the user as shared objects, to which the closure handles of the C API
 * point. There is one struct for all kinds; the type of the handle says which type `fun` has. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "api/handles/handles.h"
#include "transforms/custom.h"
#include "transforms/function.h"

enum kl_closure_form {
    KL_CLOSURE_PLAIN,
    KL_CLOSURE_PAYLOAD,
    KL_CLOSURE_UNARY,
    /* made by a transform; payload points to a struct kl_function or, for values and gradients, to
     * a struct kl_gradient_function, and fun is NULL */
    KL_CLOSURE_LIBRARY,
};

struct kl_closure {
    _Atomic(uint32_t) refs;
    enum kl_closure_form form;
    void (*fun)(void);            /* cast back to its own type before it is called */
    void *payload;                /* with KL_CLOSURE_PAYLOAD: the last argument of fun */
    void (*dtor)(void *);         /* called with payload at the last release; may be NULL */
    struct kl_closure *next_dead; /* while it waits to be freed; see kl_closure_release */
};

struct kl_closure *kl_closure_retain(struct kl_closure *f);
/* NULL is fine. A closure that is released by the destructor of another one is freed when that
 * destructor has returned: closures within closures are freed one after the other, so that the
 * stack does not grow with their number. */
void kl_closure_release(struct kl_closure *f);

struct kl_closure_box {
    struct kl_closure *closure; /* owned, never NULL */
};
/* The function that value_and_grad makes; owned by the closure. */
struct kl_gradient_function {
    struct kl_function f;
    size_t n_argnums;
    int argnums[];
};

/* The closure as a function or rule for transforms; it has a reference to f. A closure of the user
 * that fails reports its own error at once, and then KL_ECALLBACK. */
struct kl_function kl_closure_as_function(struct kl_closure *f);
struct kl_custom_rule kl_closure_as_vjp(struct kl_closure *f);
struct kl_custom_rule kl_closure_as_jvp(struct kl_closure *f);
struct kl_custom_rule kl_closure_as_vmap(struct kl_closure *f);
/* After a call of a user's function that returned rc: the contents of the vector that it made,
 * which is taken. KL_ECALLBACK: rc is not 0, or nothing was made. */
int kl_vector_contents(struct kl_arrays *outs, mlx_vector_array made, int rc,
                       struct kl_error **err);
/* Ends a call whose result is a closure that calls f, which is taken. */
int kl_call_end_closure(struct kl_call *c, mlx_closure *res, struct kl_function f);
/* The same for a function that gives values and gradients; g is memory of kl_malloc. */
int kl_call_end_gradient(struct kl_call *c, mlx_closure_value_and_grad *res,
                         struct kl_gradient_function *g /* taken */);
/* Ends a call whose result is a list, which is taken. */
int kl_call_end_arrays(struct kl_call *c, mlx_vector_array *res, struct kl_arrays *list);
int kl_call_end_arrays_pair(struct kl_call *c, mlx_vector_array *res_0, mlx_vector_array *res_1,
                            struct kl_arrays *list_0, struct kl_arrays *list_1);

/* The closure of a handle (its ctx), borrowed. NULL, with the error noted, when the handle is
 * empty. */
struct kl_closure *kl_in_closure(struct kl_call *c, void *ctx, const char *what);
