/* load.c - one load: its progress, and whether it was cancelled. It holds only counters, which any
 * thread may read at any time. */
#include "base/alloc.h"
#include "io/file.h"

struct kl_load {
    _Atomic(uint32_t) refs;
    _Atomic(bool) cancelled;
    _Atomic(uint64_t) bytes_total, bytes_done;
    _Atomic(uint64_t) n_tensors, n_ended[3]; /* by enum kl_load_end */
};

struct kl_load *kl_load_new(void) {
    struct kl_load *l = kl_calloc(1, sizeof *l);
    if (l) atomic_init(&l->refs, 1);
    return l;
}

struct kl_load *kl_load_retain(struct kl_load *l) {
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void kl_load_release(struct kl_load *l) {
    if (l && atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) kl_free(l);
}

void kl_load_cancel(struct kl_load *l) {
    atomic_store(&l->cancelled, true);
}

bool kl_load_cancelled(struct kl_load *l) {
    return l && atomic_load(&l->cancelled);
}

void kl_load_expect(struct kl_load *l, uint64_t bytes) {
    if (!l) return;
    atomic_fetch_add(&l->bytes_total, bytes);
    atomic_fetch_add(&l->n_tensors, 1);
}

void kl_load_count_bytes(struct kl_load *l, uint64_t bytes) {
    if (l) atomic_fetch_add(&l->bytes_done, bytes);
}

void kl_load_count(struct kl_load *l, enum kl_load_end how) {
    if (l) atomic_fetch_add(&l->n_ended[how], 1);
}

void kl_load_get(struct kl_load *l, struct kl_load_progress *p) {
    /* The done counter is read before the total, so that a caller may see too few done, but never
     * more done than the total. */
    p->n_done = atomic_load(&l->n_ended[KL_LOAD_DONE]);
    p->n_failed = atomic_load(&l->n_ended[KL_LOAD_FAILED]);
    p->n_skipped = atomic_load(&l->n_ended[KL_LOAD_SKIPPED]);
    p->bytes_done = atomic_load(&l->bytes_done);
    p->n_tensors = atomic_load(&l->n_tensors);
    p->bytes_total = atomic_load(&l->bytes_total);
}
