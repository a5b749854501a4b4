/* closure.c - see closure.h. */
#include "api/handles/closure.h"

#include "base/alloc.h"
#include "base/refs.h"

struct kl_closure *kl_closure_retain(struct kl_closure *f) {
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

static __thread struct kl_closure *dead; /* to be freed by this thread */
static __thread uintptr_t freeing;       /* the frame of the call that does it; 0: none */

static void free_closure(struct kl_closure *f) {
    void *payload = f->payload;
    void (*dtor)(void *) = f->dtor;
    kl_free(f);
    if (dtor) dtor(payload);
}

void kl_closure_release(struct kl_closure *f) {
    if (!f || !kl_refs_drop(&f->refs)) return;
    f->next_dead = dead;
    dead = f;
    /* Stacks grow downwards: below its frame we are within that call. A frame that is not below
     * belongs to a call that a destructor of the user left by longjmp. */
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here < freeing) return;
    freeing = here;
    while (dead) {
        struct kl_closure *next = dead;
        dead = next->next_dead;
        free_closure(next);
    }
    freeing = 0;
}
