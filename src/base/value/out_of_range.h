/* out_of_range.h - the environment variable KEEL_OUT_OF_RANGE: what becomes of an operation that
 * meets an index out of range in an array of indices.
 *
 * error, or unset: its value fails. zero: its value is what the kernel wrote (launch.h), which
 * is 0 for such a read and nothing for such a write; the operation is counted, and the exit of the
 * process prints the number and the first message. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

bool kl_out_of_range_zero(void); /* read once from KEEL_OUT_OF_RANGE */
/* The value of KEEL_OUT_OF_RANGE, or its first 32 characters, when it has no meaning, which is
 * taken for error; else NULL. */
const char *kl_out_of_range_unknown(void);

/* Counts an operation that met an index out of range. True for the first one, whose error the
 * caller then gives to kl_out_of_range_first. */
bool kl_out_of_range_count(void);
/* Keeps e (taken) for the report, which it registers to run at exit. */
void kl_out_of_range_first(struct kl_error *e);
/* The number of operations counted so far. */
uint64_t kl_out_of_range_n(void);
/* Forgets all, in the child of a fork: the parent process reports them. */
void kl_out_of_range_fork_child(void);
