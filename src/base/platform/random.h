/* random.h - random bytes of the system. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Fills n <= 256 bytes. Right after its start a machine may have none: then the call waits, or is
 * false where `waits` is false. It is false with errno where the system refuses. */
bool kl_random_bytes(void *to, size_t n, bool waits);
