/* processors.h - what the system says of processors and threads. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of processors on which the calling thread may run. At least 1. */
int kl_processors_allowed(void);
/* The number of the processor on which the calling thread runs at this moment. -1: the system does
 * not tell. */
int kl_processor_here(void);
/* Lets the calling thread go on on another processor than that one, where it may and where the
 * system does not decide alone. */
void kl_processor_leave(int processor);
/* The bytes of a first-level cache for data. 0: the system does not tell. */
int64_t kl_processors_l1_bytes(void);
/* Asks the system for the state of x86's tile registers, without which a thread must not use them.
 * To be called only where the processor has them. */
bool kl_processors_allow_tiles(void);

/* Whether a processor of ARM has this, by what the system says; no other processor has it. */
enum kl_arm_feature { KL_ARM_DOTPROD, KL_ARM_I8MM, KL_ARM_BF16 };
bool kl_processors_have(enum kl_arm_feature feature);

/* The bytes of stack to ask for when a thread is started. 0: what the system gives is enough. */
size_t kl_thread_stack_bytes(void);
/* Names the calling thread for debuggers. Of the name, 15 characters are kept. */
void kl_thread_name_self(const char *name);
