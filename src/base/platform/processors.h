/* processors.h - what the system says of processors and threads. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* The number of processors on which the calling thread may run. At least 1. */
int kl_processors_allowed(void);
/* The bytes of a first-level cache for data. 0: the system does not tell. */
int64_t kl_processors_l1_bytes(void);
/* Asks the system for the state of x86's tile registers, without which a thread must not use them.
 * To be called only where the processor has them. */
bool kl_processors_allow_tiles(void);

/* Names the calling thread for debuggers. Of the name, 15 characters are kept. */
void kl_thread_name_self(const char *name);
