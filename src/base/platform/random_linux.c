/* random_linux.c - see random.h. */
#include "base/platform/random.h"

#include <sys/random.h>

bool kl_random_bytes(void *to, size_t n, bool waits) {
    return getrandom(to, n, waits ? 0 : GRND_NONBLOCK) == (ssize_t)n;
}
