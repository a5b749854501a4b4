/* stream.h - ordered queues of work, and who executes them.
 *
 * A stream is a small struct: a timeline, a queue, and an executor role that one thread holds at a time. It has no
 * thread. Streams with work are items of the pool (CPU, device encoding) or of the reader threads (file loading).
 * Streams are never freed: one without handles is handed out again, and its timeline goes on, so a ticket on it stays
 * meaningful for ever and nobody needs a reference to ask whether it is done. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "base/task.h"

struct kl_stream;

enum kl_device_type { KL_CPU = 0, KL_GPU = 1 };

/* Retained handle on a new (or idle, reused) stream of a device. KL_EDEVICE when there is no such device. */
int kl_stream_new(struct kl_stream **out, enum kl_device_type type, int device_index,
                  struct kl_error **err);
/* A stream whose tasks run on the reader threads, one at a time, so that a blocked reader delays only itself. */
int kl_stream_new_reader(struct kl_stream **out, struct kl_error **err);
struct kl_stream *kl_stream_retain(struct kl_stream *s);
void kl_stream_release(struct kl_stream *s); /* NULL is fine */

int kl_stream_index(const struct kl_stream *s); /* per process: 0, 1, 2, ... in order of creation */
enum kl_device_type kl_stream_device_type(const struct kl_stream *s);
int kl_stream_device_index(const struct kl_stream *s);
struct kl_backend *kl_stream_backend(const struct kl_stream *s);
struct kl_timeline *kl_stream_timeline(struct kl_stream *s);

/* The calling thread's default stream of a device: made on first use, usable from any thread. Retained. */
int kl_stream_default(struct kl_stream **out, enum kl_device_type type, int device_index,
                      struct kl_error **err);
int kl_stream_set_default(struct kl_stream *s, struct kl_error **err);

/* Waits until everything submitted so far is settled, then delivers the oldest failure that this thread submitted here and
 * has not seen (or a failure of an ended thread): its code, with *err set. KL_EDEADLOCK in a callback that s waits for. */
int kl_stream_synchronize(struct kl_stream *s, struct kl_error **err);

/* ---- for graph/: all under the commit lock ---- */
void kl_commit_lock(void);
void kl_commit_unlock(void);
bool kl_commit_lock_held(void); /* for assertions */
/* The next ticket of s. */
uint64_t kl_stream_take_ticket(struct kl_stream *s);
/* Adds t behind what this commit has staged on s; kl_streams_append hands all over at once. */
void kl_stream_stage(struct kl_stream *s, struct kl_task *t);
/* Appends what was staged on every stream. When `keep` (may be NULL) is idle its role goes to the caller, who must call
 * kl_stream_run_kept after the unlock; then true. Other idle streams start when the lock is given up. */
bool kl_streams_append(struct kl_stream *keep);
/* The caller holds the role of s by kl_streams_append: runs its tasks up to `ticket`, hands the rest to the pool. No lock is held. */
void kl_stream_run_kept(struct kl_stream *s, uint64_t ticket);

/* ---- waiting ---- */
/* Blocks until f is settled; runs streams that stand in the way itself where it may. 0, or KL_EDEADLOCK / KL_EFORK with *err. */
int kl_wait_fate(struct kl_fate *f, struct kl_error **err);
/* Makes sure that what a commit needs later without failing exists: threads, lists. Call before the lock. */
int kl_runtime_ready(struct kl_error **err);
/* Slows the caller down while too much is in flight. No lock is held. */
void kl_runtime_back_pressure(struct kl_stream *s /* where the work goes; may be NULL */);

#ifdef KL_TEST_HOOKS
/* Until whatever was committed is done and every thread has let go of all that it held for it: a value is settled, and may be
 * read and dropped, before that. Nothing may be committed meanwhile, and nothing may be held back for ever (a gate, a held device). */
void kl_until_quiet(void);
#endif
