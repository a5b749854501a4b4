/* processors_linux.c - see processors.h. */
#include "base/platform/processors.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

int kl_processors_allowed(void) {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 0)
        return CPU_COUNT(&mine);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

int kl_processor_here(void) {
    return sched_getcpu();
}

void kl_processor_leave(int processor) {
    cpu_set_t mine, others;
    if (processor < 0 || sched_getaffinity(0, sizeof mine, &mine)) return;
    others = mine;
    CPU_CLR((size_t)processor, &others);
    /* The second call takes the limit away again; the thread stays where it is. */
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        (void)sched_setaffinity(0, sizeof mine, &mine);
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

bool kl_processors_have(enum kl_arm_feature feature) {
#ifdef __aarch64__
    switch (feature) {
    case KL_ARM_DOTPROD: return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    case KL_ARM_I8MM: return getauxval(AT_HWCAP2) & HWCAP2_I8MM;
    case KL_ARM_BF16: return getauxval(AT_HWCAP2) & HWCAP2_BF16;
    }
#endif
    return false;
}

/* It is the limit of the process, 8 MB unless told. */
size_t kl_thread_stack_bytes(void) {
    return 0;
}

void kl_thread_name_self(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(pthread_self(), kept);
}
