/* processors_linux.c - see processors.h. */
#include "base/platform/processors.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int kl_processors_allowed(void) {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 0)
        return CPU_COUNT(&mine);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

int64_t kl_processors_l1_bytes(void) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
    const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    return bytes > 0 ? bytes : 0;
#else
    return 0;
#endif
}

bool kl_processors_allow_tiles(void) {
#ifdef SYS_arch_prctl
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 }; /* the request code of arch_prctl */
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}

void kl_thread_name_self(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(pthread_self(), kept);
}
