/* validate.h - KEEL_VALIDATE=1: checks that no buffer is handed on while a kernel uses it.
 *
 * Each block has a guard of 64 bytes on both sides that repeats its tenant number. At a
 * hand-over the new tenant writes the guards, in stream order. After every kernel its stream
 * compares the guards of every operand with the tenant that was bound. The guards of another
 * tenant mean that the block was handed on too early; anything else means a write outside the
 * block. Freed host blocks are filled with a pattern. A finding fails the operation with
 * KL_EVALIDATE and is printed. */
#pragma once
#include "base/op/task.h"

enum { KL_GUARD_BYTES = 64 };
enum kl_guard_finding { KL_GUARD_INTACT, KL_GUARD_OTHER_TENANT, KL_GUARD_BEFORE, KL_GUARD_AFTER };

bool kl_validating(void); /* read once from KEEL_VALIDATE */
#ifdef KL_TEST_HOOKS
void kl_test_set_validating(bool on); /* before any block exists */
#endif

/* The 64-bit word that the guards of this tenant repeat. */
uint64_t kl_guard_word(uint64_t tenant);
/* Writes the guards of `tenant` around `body`. The caller must be allowed to write this memory. */
void kl_guard_write(void *body, size_t bytes, uint64_t tenant);
enum kl_guard_finding kl_guard_check(const void *body, size_t bytes, uint64_t tenant);
/* For host blocks: kl_guard_fill writes the guards of the block's tenant; kl_guard_poison fills a
 * freed block with the pattern. */
void kl_guard_fill(struct kl_block *b);
void kl_guard_poison(struct kl_block *b);
/* Sets *err and prints a message, for a finding in operand number `operand` of `op` (inputs first,
 * then outputs, then the workspace). */
void kl_guard_report(struct kl_error **err, const char *op, int operand, int n_in, int n_out,
                     size_t bytes, enum kl_guard_finding finding, int64_t stream);
