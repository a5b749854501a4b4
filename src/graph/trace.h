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
