/* closure.c - see closure.h. */
#include "api/closure.h"

#include "base/alloc.h"
#include "base/refs.h"

struct kl_closure *kl_closure_retain(struct kl_closure *f) {
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void kl_closure_release(struct kl_closure *f) {
    if (!f || !kl_refs_drop(&f->refs)) return;
    void *payload = f->payload;
    void (*dtor)(void *) = f->dtor;
    kl_free(f);
    if (dtor) dtor(payload);
}
