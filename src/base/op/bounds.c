/* bounds.c - see bounds.h. */
#include "base/op/bounds.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(int) checked = -1; /* -1: not asked yet */

bool kl_bounds_checked(void) {
    int v = atomic_load_explicit(&checked, memory_order_relaxed);
    if (v < 0) {
        const char *e = getenv("KEEL_BOUNDS");
        v = !(e && strcmp(e, "off") == 0);
        atomic_store(&checked, v);
    }
    return v;
}

void kl_bounds_measure(bool on) {
    atomic_store(&checked, on);
}
