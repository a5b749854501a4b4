/* deterministic.c - see deterministic.h. */
#include "base/op/deterministic.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(int) deterministic = -1; /* -1: not asked yet */

bool kl_deterministic(void) {
    int v = atomic_load_explicit(&deterministic, memory_order_relaxed);
    if (v < 0) {
        const char *e = getenv("KEEL_DETERMINISTIC");
        v = e && *e && strcmp(e, "0") != 0;
        atomic_store(&deterministic, v);
    }
    return v;
}
