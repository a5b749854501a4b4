/* failures.h - which settled failures somebody still has to be told of.
 *
 * Errors travel with values; this is only the memory behind mlx_synchronize ("the oldest failure that this thread
 * submitted on that stream and has not seen") and behind the report at exit. Per stream a bounded list, then a count. */
#pragma once
#include "base/error.h"
#include "base/thread.h"

/* Notes that work which thread `submitter` committed on a stream settled as failed with e. Cancelled work is not noted. */
void kl_failures_note(int64_t stream_index, struct kl_error *e, uint64_t submitter);
/* e was delivered to the calling thread: marks it seen and forgets what this thread was owed about it. */
void kl_failures_delivered(struct kl_error *e);
/* The oldest failure on the stream owed to this thread, or to a thread that has ended; NULL when there is none. Retained; the caller
 * delivers it. */
struct kl_error *kl_failures_oldest(int64_t stream_index);
/* The stream is handed to a new owner, who is owed nothing of its past; the report at exit still is. */
void kl_failures_orphan(int64_t stream_index);
/* Prints the failures that nobody saw, at most 10 and a count, to stderr. Registered to run at exit by the first failure. */
void kl_failures_report(void);
/* How many failures were noted and seen by nobody so far. */
uint64_t kl_failures_n_unseen(void);

void kl_failures_fork_prepare(void);
void kl_failures_fork_parent(void);
void kl_failures_fork_child(void); /* the parent's failures are the parent's to report */
