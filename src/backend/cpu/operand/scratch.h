/* scratch.h - scratch memory of a kernel. Large memory comes from the pool of the tensors' memory,
 * which counts it and keeps it for the next kernel: fresh memory costs a page fault per 4 KB, or 7
 * ms for 64 MB in huge pages, which is more than most kernels need for their work on it. Small
 * memory comes from the heap. */
#pragma once
#include "backend/cpu/operand/line.h"
#include "base/alloc.h"
#include "base/op/launch.h"

enum { KL_SCRATCH_POOLED = 1 << 18 }; /* bytes from which memory comes from the pool */

struct kl_scratch {
    char *ptr; /* aligned to a cache line */
    void *heap;
    struct kl_block *block;
};

/* Returns false where there is no memory. The caller gives it back with kl_scratch_give. */
static inline bool kl_scratch_take(struct kl_scratch *s, const struct kl_launch *l, size_t bytes) {
    s->heap = NULL;
    s->block = NULL;
    if (l->scratch && bytes >= KL_SCRATCH_POOLED) {
        if (l->scratch->take(l->scratch, bytes, NULL, &s->block, NULL)) return false;
        s->ptr = s->block->ptr;
        return true;
    }
    if (!(s->heap = kl_malloc(bytes + KL_LINE))) return false;
    s->ptr = (char *)(((uintptr_t)s->heap + KL_LINE - 1) / KL_LINE * KL_LINE);
    return true;
}

static inline void kl_scratch_give(struct kl_scratch *s) {
    if (s->block) s->block->memory->give_back(s->block->memory, s->block);
    kl_free(s->heap);
}
