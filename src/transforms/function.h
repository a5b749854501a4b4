/* function.h - functions of arrays as transforms see them: C functions of the library or
 * closures of the API. A function may be called several times, on any thread, with no lock held. */
#pragma once
#include <stddef.h>

#include "graph/array.h"

/* A list of arrays that owns its memory and one reference to each. */
struct kl_arrays {
    struct kl_array **v;
    size_t n;
};
/* n entries, all NULL. */
int kl_arrays_new(struct kl_arrays *a, size_t n, struct kl_error **err);
void kl_arrays_free(struct kl_arrays *a); /* entries may be NULL; a is empty afterwards */

struct kl_function {
    /* Sets *outs, which is empty before, to the results. On failure it stays empty. */
    int (*call)(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                struct kl_error **err);
    void *ctx; /* one reference, if there are retain and release; else borrowed */
    void (*retain)(void *ctx);
    void (*release)(void *ctx);
};
struct kl_function kl_function_retain(const struct kl_function *f);
void kl_function_release(struct kl_function *f);
/* Calls f and checks that no result is missing. */
int kl_function_call(const struct kl_function *f, struct kl_array *const *in, size_t n_in,
                     struct kl_arrays *outs, struct kl_error **err);

/* Functions may call functions that call functions: each call of one that may nest stands between
 * enter and leave, so that a tower of them ends with KL_ELIMIT and not where the stack ends.
 * *before is for leave. A call that ends with longjmp needs no leave. */
enum { KL_MOST_LEVELS = 1000 };
int kl_level_enter(int *before, struct kl_error **err);
void kl_level_leave(int before);

/* The stream on which a transform builds where no operation of the user names one: the calling
 * thread's default stream of the default device. Borrowed: streams are never freed. */
int kl_transform_stream(struct kl_stream **out, struct kl_error **err);
