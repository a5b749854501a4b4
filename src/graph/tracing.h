/* tracing.h - traces as those who build, evaluate and transform arrays see them. */
#pragma once
#include "base/list.h"
#include "graph/trace.h"

struct kl_trace {
    _Atomic(uint32_t) refs; /* of the thread that runs it, of arrays, and of traces inside */
    _Atomic(bool) ended;
    _Atomic(bool) let_go;    /* it has ended and touches no array any more */
    uint64_t number;         /* never used again */
    struct kl_trace *parent; /* the trace around it, owned; NULL: none */
    struct kl_list kept;     /* nodes by their link `kept`; commit lock */
    bool shapeless;          /* fixed before it has arguments */
    bool fixed;              /* see kl_trace_note_fixed; commit lock, like the fields below */
    enum kl_op_id fixed_by;
    struct kl_read *reads;
    int n_reads, reads_room;
};

/* The axes of an array whose extents the user's function has seen. */
struct kl_read {
    struct kl_array *a; /* owned */
    uint64_t axes;      /* a bit for each axis */
};

struct kl_trace *kl_trace_retain(struct kl_trace *t); /* NULL is fine */
/* t, or the innermost trace around it that has not ended; NULL: none. Borrowed from t. */
struct kl_trace *kl_trace_live(struct kl_trace *t);
/* Whether t and all traces around it have let go of their arrays. */
bool kl_trace_over(const struct kl_trace *t);
/* *out: the innermost live trace of the inputs, borrowed from them; NULL: none. KL_ETRACE: inputs
 * belong to traces of which neither is inside the other. */
int kl_trace_of_inputs(struct kl_trace **out, struct kl_array *const *in, int n_in,
                       struct kl_error **err);
/* Notes that n, which is committed, keeps its inputs for the trace of its outputs. The caller holds
 * the commit lock. */
void kl_trace_keep(struct kl_node *n);
/* n is being freed. The caller does not hold the commit lock. */
void kl_trace_forget(struct kl_node *n);
/* Drops the reference that the outputs of n owned together, and those of n to its outputs when it
 * has several. The caller has taken n from its outputs, and holds no lock. */
void kl_node_let_go(struct kl_node *n);
/* A view of x in the layout of x, of the operation ARGUMENT, that belongs to t. */
int kl_array_traced_view(struct kl_array **out, struct kl_array *x, struct kl_trace *t,
                         struct kl_error **err);
