/* compile.h - functions that are traced once for each kind of arguments, and replayed afterwards.
 *
 * The kinds of arguments that a function was traced for are in its cache. The key: count, dtypes
 * and shapes of the arguments (ranks only, if shapeless), the constants, the default stream of the
 * default device, and the mode. A trace that fails leaves no entry. A cache keeps at most 4096
 * plans; then the one goes that was not used for the longest time. Caches are counted; any thread
 * may use them. */
#pragma once
#include "transforms/function.h"

enum kl_compile_mode {
    KL_COMPILE_DISABLED,    /* the function itself is called each time */
    KL_COMPILE_NO_SIMPLIFY, /* equal operations are done as often as they were written */
    KL_COMPILE_NO_FUSE, /* as KL_COMPILE_ENABLED: fusion happens when tasks run, compiled or not */
    KL_COMPILE_ENABLED
};
/* Of the whole process. */
void kl_compile_set_mode(enum kl_compile_mode mode);

/* *out: a function that does what f does. id 0: it has a cache of its own, for as long as it lives;
 * otherwise the cache of that number, which lives until kl_compile_erase. The constants belong to
 * the key. */
int kl_compile(struct kl_function *out, const struct kl_function *f, uint64_t id, bool shapeless,
               const uint64_t *constants, size_t n_constants, struct kl_error **err);
void kl_compile_erase(uint64_t id);
void kl_compile_clear(void); /* all caches */
