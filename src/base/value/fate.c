/* fate.c - see fate.h. */
#include "base/value/fate.h"

#include "base/refs.h"

enum { PENDING = 0, READY = 1 };

static struct kl_fate always_ready = {.refs = 1, .state = READY};

struct kl_fate *kl_fate_ready(void) {
    return &always_ready;
}

struct kl_fate *kl_fate_retain(struct kl_fate *f) {
    if (f != &always_ready) atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void kl_fate_release(struct kl_fate *f) {
    if (!f || f == &always_ready) return;
    /* The thread that frees must see the state that the producer wrote; kl_refs_drop orders
     * that. */
    if (!kl_refs_drop(&f->refs)) return;
    kl_error_release(kl_fate_error(f));
    kl_parts_drop(f->parts);
}

void kl_fate_set_ready(struct kl_fate *f) {
    kl_assert(!kl_fate_settled(f));
    atomic_store_explicit(&f->state, READY, memory_order_release);
}

void kl_fate_set_failed(struct kl_fate *f, struct kl_error *e) {
    kl_assert(!kl_fate_settled(f));
    kl_error_retain(e);
    atomic_store_explicit(&f->state, (uintptr_t)e, memory_order_release);
}
