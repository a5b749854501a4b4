/* processors_macos.c - see processors.h. A thread cannot be bound to processors. */
#include "base/platform/processors.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/sysctl.h>
#include <unistd.h>

static int64_t asked(const char *name) {
    int64_t value = 0; /* the system writes four bytes of it, or all eight: it is little-endian */
    size_t n = sizeof value;
    return sysctlbyname(name, &value, &n, NULL, 0) == 0 ? value : 0;
}

int kl_processors_allowed(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

int kl_processor_here(void) {
    return -1;
}

void kl_processor_leave(int processor) {
}

/* Where processors differ, the first kind is the fastest. */
int64_t kl_processors_l1_bytes(void) {
    const int64_t bytes = asked("hw.perflevel0.l1dcachesize");
    return bytes > 0 ? bytes : asked("hw.l1dcachesize");
}

/* No Mac has a processor with them. */
bool kl_processors_allow_tiles(void) {
    return false;
}

bool kl_processors_have(enum kl_arm_feature feature) {
    static const char *const names[] = {[KL_ARM_DOTPROD] = "hw.optional.arm.FEAT_DotProd",
                                        [KL_ARM_I8MM] = "hw.optional.arm.FEAT_I8MM",
                                        [KL_ARM_BF16] = "hw.optional.arm.FEAT_BF16"};
    return asked(names[feature]) == 1;
}

/* A thread gets 512 KB, and the first thread of a process 8 MB: kernels, and callbacks of users
 * that run on our threads, may need as much as there. */
size_t kl_thread_stack_bytes(void) {
    return (size_t)8 << 20;
}

void kl_thread_name_self(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(kept);
}
