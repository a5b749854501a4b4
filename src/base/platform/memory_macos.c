/* memory_macos.c - see memory.h. Pages have 16 KB on Apple's processors, and the system alone
 * decides where it takes larger ones. */
#include "base/platform/memory.h"

#include <malloc/malloc.h>
#include <stdint.h>
#include <sys/sysctl.h>

size_t kl_memory_installed(void) {
    uint64_t bytes = 0;
    size_t n = sizeof bytes;
    return sysctlbyname("hw.memsize", &bytes, &n, NULL, 0) == 0 ? (size_t)bytes : 0;
}

void kl_memory_prefer_large_pages(void *p, size_t n) {
    (void)p;
}

size_t kl_heap_block_bytes(void *p) {
    return p ? malloc_size(p) : 0;
}

void kl_heap_give_back(void) {
    malloc_zone_pressure_relief(NULL, 0);
}
