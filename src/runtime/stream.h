/* stream.h - ordered queues of work, and who executes them.
 *
 * A stream is a small struct: a timeline, a queue, and an executor role that one thread at a time
 * holds. It has no thread. Streams with work are items of the pool (CPU, device encoding) or of the
 * reader threads (file loading). Streams are never freed: one without handles is handed out again,
 * and its timeline goes on, so that a ticket stays meaningful and nobody needs a reference to ask
 * whether it is done. Any thread may call. */
#pragma once
#include "backend/backend.h"
#include "base/op/task.h"

struct kl_stream;

enum kl_device_type { KL_CPU = 0, KL_GPU = 1 };

/* A retained handle on a stream of a device; the stream is new, or an idle one is reused.
 * KL_EDEVICE when there is no such device. */
int kl_stream_new(struct kl_stream **out, enum kl_device_type type, int device_index,
                  struct kl_error **err);
/* A stream whose tasks run on the reader threads, one at a time. A blocked reader then delays only
 * its own stream. */
int kl_stream_new_reader(struct kl_stream **out, struct kl_error **err);
/* A stream for what groups of processes do: of a device that is a GPU (on_device), or of a backend
 * that is no device. */
int kl_stream_new_of(struct kl_stream **out, struct kl_backend *b, bool on_device,
                     struct kl_error **err);
/* A ticket of a stream that runs no tasks, which the caller publishes himself. */
uint64_t kl_stream_promise(struct kl_stream *s);
/* Hands over what the backend holds back for the stream (backend.h), when no other thread runs
 * it. */
void kl_executor_hand_over(struct kl_stream *s);
struct kl_stream *kl_stream_retain(struct kl_stream *s);
void kl_stream_release(struct kl_stream *s); /* NULL is fine */

int kl_stream_index(const struct kl_stream *s); /* 0, 1, 2, ... in order of creation */
enum kl_device_type kl_stream_device_type(const struct kl_stream *s);
int kl_stream_device_index(const struct kl_stream *s);
struct kl_backend *kl_stream_backend(const struct kl_stream *s);
struct kl_timeline *kl_stream_timeline(struct kl_stream *s);

/* The calling thread's default stream of a device, retained. It is made on first use, and any
 * thread may use it. */
int kl_stream_default(struct kl_stream **out, enum kl_device_type type, int device_index,
                      struct kl_error **err);
int kl_stream_set_default(struct kl_stream *s, struct kl_error **err);

/* Waits until everything submitted to s so far is settled. Then delivers the oldest failure on s
 * that this thread, or a thread that has ended, submitted and has not seen: returns its code and
 * sets *err. KL_EDEADLOCK in a callback that s waits for; KL_EINTERRUPTED when the hook of the
 * calling thread ends the wait. */
int kl_stream_synchronize(struct kl_stream *s, struct kl_error **err);

/* The limits of a kernel of several element-wise operations of s; all 0 where every operation is
 * run by itself at present. Any thread may call. */
struct kl_fusion_limits kl_stream_fusion_limits(const struct kl_stream *s);

/* ---- for graph/: all under the commit lock ---- */
void kl_commit_lock(void);
void kl_commit_unlock(void);
bool kl_commit_lock_held(void); /* for assertions */
/* Takes the next ticket of s. */
uint64_t kl_stream_take_ticket(struct kl_stream *s);
/* A task was committed for s that another stream runs, because other processes take part. Waiting
 * for s waits for it too. */
void kl_stream_shares(struct kl_stream *s);
void kl_stream_shared_settled(struct kl_stream *s); /* any thread, no lock needed */
/* Appends t to the tasks that this commit has staged on s. kl_streams_append hands all of them over
 * at once. */
void kl_stream_stage(struct kl_stream *s, struct kl_task *t);
/* Appends the staged tasks to all their streams. When the stream `keep` (may be NULL) is idle, the
 * caller gets its role, and the result is true: the caller must then call kl_stream_run_kept after
 * the unlock. Other idle streams start when the commit lock is unlocked. */
bool kl_streams_append(struct kl_stream *keep);
/* The caller got the role of s from kl_streams_append. Runs the tasks of s up to `ticket`, and
 * leaves the others to the pool; to_cut: as for kl_executor_run. The caller holds no lock. */
void kl_stream_run_kept(struct kl_stream *s, uint64_t ticket, bool to_cut);

/* ---- waiting ---- */
/* Blocks until f is settled. Where it may, it runs the streams that f waits for on this thread. 0,
 * or KL_EDEADLOCK, KL_EFORK or KL_EINTERRUPTED with *err. */
int kl_wait_fate(struct kl_fate *f, struct kl_error **err);
/* Makes sure that the threads and lists exist which a commit needs at a point where it can no
 * longer fail. Called before the commit lock is taken. */
int kl_runtime_ready(struct kl_error **err);
/* Slows the caller down while too much work is in flight. The caller holds no lock. s is the stream
 * that will get the work; it may be NULL. 0, or KL_EINTERRUPTED with *err. */
int kl_runtime_back_pressure(struct kl_stream *s, struct kl_error **err);

#ifdef KL_TEST_HOOKS
/* Waits until all committed work is done and every thread has released what it held for that work.
 * (A value is settled earlier, and may be read and dropped then.) Nothing may be committed
 * meanwhile, and nothing may be held back for ever by a gate or a held device. */
void kl_until_quiet(void);
#endif
