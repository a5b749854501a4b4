/* trace.h - the call of a user's function whose operations a transform wants to see.
 *
 * While a trace lives, an operation that depends on its arguments keeps its inputs, also after it
 * was evaluated, so that the transform can walk back. When the trace ends, its operations let go of
 * their inputs as after any evaluation; those that an enclosing trace needs go on keeping them.
 * Traces nest in a thread. An array belongs to the innermost trace of its operation's inputs. */
#pragma once
#include "graph/array.h"

struct kl_trace;

/* Begins a trace in the calling thread, inside the one that is innermost there. */
int kl_trace_begin(struct kl_trace **out, struct kl_error **err);
/* The extents of the arguments of t are those of one call among many: what follows from them must
 * be found again from the arguments of a replay. Called before the arguments are made. An array
 * that follows from such an argument has the flag `shapeless`; builders and transforms record calls
 * on it (ops/build/deferred.h) instead of the numbers that they find. */
void kl_trace_set_shapeless(struct kl_trace *t);
/* Whether there may be such arrays at all: the question costs one load. */
extern _Atomic(int) kl_n_shapeless_traces;
static inline bool kl_shapeless_traces(void) {
    return __builtin_expect(atomic_load_explicit(&kl_n_shapeless_traces, memory_order_relaxed) > 0,
                            false);
}
/* Between these two the calling thread builds with the extents that arrays have now: a builder runs
 * itself to learn the shape of its result, which nobody keeps. They nest. */
void kl_extents_known_begin(void);
void kl_extents_known_end(void);
/* Whether a builder must not use the extents of a as numbers. a may be NULL. */
bool kl_is_shapeless(const struct kl_array *a);
bool kl_any_shapeless(struct kl_array *const *in, int n);
/* Notes that the caller of the library has seen the extent of an axis (KL_ALL_AXES: of all): the
 * trace holds only for arguments that give the same number. Nothing is noted of other arrays. */
enum { KL_ALL_AXES = -1 };
void kl_trace_note_read(struct kl_array *a, int axis);
/* Notes that an operation on a was built with numbers of this call's extents: the trace holds for
 * arguments of exactly these shapes. The first operation is remembered. */
void kl_trace_note_fixed(struct kl_array *a, enum kl_op_id op);
/* Ends t, which is the innermost trace of the calling thread, and drops the caller's reference. */
void kl_trace_end(struct kl_trace *t);
void kl_trace_release(struct kl_trace *t); /* NULL is fine */
/* Whether a may depend on an argument of t. */
bool kl_trace_holds(const struct kl_trace *t, const struct kl_array *a);
/* Whether a belongs to a trace that has not ended. */
bool kl_array_is_tracer(const struct kl_array *a);
/* Whether the innermost trace that a belonged to has ended. */
bool kl_array_outlived_trace(const struct kl_array *a);

/* An argument of t with the value of x: a view of x, through which enclosing traces can see. */
int kl_trace_argument(struct kl_array **out, struct kl_trace *t, struct kl_array *x,
                      struct kl_error **err);
/* An argument of t of which only shape and dtype are known. To evaluate what depends on it is
 * KL_ETRACE. */
int kl_trace_placeholder(struct kl_array **out, struct kl_trace *t, enum kl_dtype dtype, int ndim,
                         const int *dims, struct kl_error **err);
