/* scratch.h - large scratch memory of a kernel, and writing past the caches. For the kernels of this folder only.
 *
 * It comes from the pool of the tensors' memory, which keeps it for the next kernel and counts it: fresh memory costs a page fault per 4 KB, or 7 ms for 64 MB in huge pages, more than what most kernels do in
 * it. Small pieces come from the heap. */
#pragma once
#include <string.h>

#include "base/alloc.h"
#include "base/launch.h"
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Bytes: taken from the pool from here on; written past the caches; of a cache line. */
enum { KL_SCRATCH_POOLED = 1 << 18, KL_STREAM_FROM = 1 << 24, KL_LINE = 64 };

struct kl_scratch {
    char *ptr; /* aligned to a cache line */
    void *heap;
    struct kl_block *block;
};

/* false: there is no memory. */
static inline bool kl_scratch_take(struct kl_scratch *s, const struct kl_launch *l, size_t bytes) {
    s->heap = NULL;
    s->block = NULL;
    if (l->scratch && bytes >= KL_SCRATCH_POOLED) {
        if (l->scratch->take(l->scratch, bytes, &s->block, NULL)) return false;
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

/* Copies a cache line, both ends aligned, to memory that is not read soon: without reading the old one first, and without the caches. What other threads shall see
 * is followed by kl_stream_end. */
static inline void kl_stream_line(void *dst, const void *src) {
#if defined __AVX512F__
    _mm512_stream_si512(dst, _mm512_load_si512(src));
#elif defined __AVX__
    for (int i = 0; i < 2; i++)
        _mm256_stream_si256((__m256i *)dst + i, _mm256_load_si256((const __m256i *)src + i));
#elif defined __SSE2__
    for (int i = 0; i < 4; i++)
        _mm_stream_si128((__m128i *)dst + i, _mm_load_si128((const __m128i *)src + i));
#else
    memcpy(dst, src, KL_LINE);
#endif
}
/* Whether a result, written in pieces of so many bytes each, goes past the caches: where it is larger than what they would keep of it, each line would be read before it is written, a third of what a copy moves. */
static inline bool kl_streams(const struct kl_arg *out, int64_t piece) {
    return out->size * (int64_t)kl_dtype_size(out->dtype) >= KL_STREAM_FROM &&
           piece % KL_LINE == 0 && (uintptr_t)out->data % KL_LINE == 0;
}
/* Bytes from one line to another, both aligned to lines, and as many. */
static inline void kl_stream(void *dst, const void *src, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += KL_LINE)
        kl_stream_line((char *)dst + at, (const char *)src + at);
}
static inline void kl_stream_end(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}
