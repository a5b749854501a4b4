/* validate.h - KEEL_VALIDATE=1: the proof that no buffer dies in flight.
 *
 * Each block stands between two guards of 64 bytes that spell its tenant number. At a hand-over the new tenant writes the
 * guards, in stream order; after every kernel its stream checks the guards of every operand against the tenant that was
 * bound. The guards of another tenant mean that the block was handed on while the kernel could use it; anything
 * else means that something wrote outside. Freed host blocks are filled with a pattern. A finding fails the operation with
 * KL_EVALIDATE, naming kernel and buffer, and is printed to stderr. */
#pragma once
#include "base/task.h"

enum { KL_GUARD_BYTES = 64 };
enum kl_guard_finding { KL_GUARD_INTACT, KL_GUARD_OTHER_TENANT, KL_GUARD_BEFORE, KL_GUARD_BEHIND };

bool kl_validating(void); /* read once from KEEL_VALIDATE */
#ifdef KL_TEST_HOOKS
void kl_test_set_validating(bool on); /* before any block exists */
#endif

/* What a guard of this tenant repeats. */
uint64_t kl_guard_word(uint64_t tenant);
/* On memory that the caller may write: the guards around `body` spell tenant. */
void kl_guard_write(void *body, size_t bytes, uint64_t tenant);
enum kl_guard_finding kl_guard_check(const void *body, size_t bytes, uint64_t tenant);
/* Host blocks: guards for the block's tenant; the pattern for a freed body. */
void kl_guard_fill(struct kl_block *b);
void kl_guard_poison(struct kl_block *b);
/* Sets *err and prints, for a finding in operand `operand` of `op` (inputs first, outputs behind them). */
void kl_guard_report(struct kl_error **err, const char *op, int operand, int n_in, size_t bytes,
                     enum kl_guard_finding finding, int64_t stream);
