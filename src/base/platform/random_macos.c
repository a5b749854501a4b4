/* random_macos.c - see random.h. The system has random bytes before it starts a process. */
#include "base/platform/random.h"

#include <sys/random.h>

bool kl_random_bytes(void *to, size_t n, bool waits) {
    return getentropy(to, n) == 0;
}
