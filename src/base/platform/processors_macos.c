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

/* Where processors differ, the first kind is the fastest. */
int64_t kl_processors_l1_bytes(void) {
    const int64_t bytes = asked("hw.perflevel0.l1dcachesize");
    return bytes > 0 ? bytes : asked("hw.l1dcachesize");
}

/* No Mac has a processor with them. */
bool kl_processors_allow_tiles(void) {
    return false;
}

void kl_thread_name_self(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(kept);
}
