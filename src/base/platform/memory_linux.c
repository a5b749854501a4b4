/* memory_linux.c - see memory.h. glibc tells of its blocks; other C libraries do not. */
#include "base/platform/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

size_t kl_memory_installed(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
}

void kl_memory_prefer_large_pages(void *p, size_t n) {
    madvise(p, n, MADV_HUGEPAGE);
}

size_t kl_heap_block_bytes(void *p) {
#ifdef __GLIBC__
    return p ? malloc_usable_size(p) : 0;
#else
    return 0;
#endif
}

void kl_heap_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
