/* failures.h - remembers settled failures until the thread that submitted the work has seen them.
 *
 * Errors travel with values. This record serves only mlx_synchronize, which delivers the oldest
 * failure that this thread submitted on that stream and has not seen, and the report at exit. Each
 * stream has a bounded list of failures, and a count of those that did not fit. */
#pragma once
#include "base/error.h"
#include "base/thread.h"

/* Notes that work which thread `submitter` committed on a stream has failed with e. Cancelled work
 * is not noted. */
void kl_failures_note(int64_t stream_index, struct kl_error *e, uint64_t submitter);
/* Notes that e was delivered to the calling thread: marks e as seen, and removes the records of e
 * for this thread and for threads that have ended. */
void kl_failures_delivered(struct kl_error *e);
/* The oldest failure on the stream that this thread, or a thread that has ended, submitted and has
 * not seen; NULL when there is none. Retained; the caller delivers it. */
struct kl_error *kl_failures_oldest(int64_t stream_index);
/* The stream gets a new owner. mlx_synchronize will not report earlier failures to the new owner;
 * the report at exit still names them. */
void kl_failures_orphan(int64_t stream_index);
/* Prints the failures that nobody saw to stderr: at most 10, and their number. The first failure
 * registers it to run at exit. */
void kl_failures_report(void);
/* The number of failures that nobody has seen so far. */
uint64_t kl_failures_n_unseen(void);

void kl_failures_fork_prepare(void);
void kl_failures_fork_parent(void);
void kl_failures_fork_child(void); /* drops all records: the parent process reports them */
