/* tape.h - the operations between the arguments and the results of a traced function, in the order
 * in which they can be made. Every transform records one and goes through it, forwards or
 * backwards. */
#pragma once
#include "graph/node.h"
#include "graph/trace.h"

struct kl_tape_step {
    struct kl_node *node; /* borrowed: the results of the function, or the trace, keep it */
    int32_t edge;         /* edges[edge + k]: the slot of input k; -1: it depends on no argument */
    int32_t slot;         /* the slot of output 0; the other outputs follow */
    struct kl_stream *s;  /* the stream of the operation, or of what a view is made from; or NULL */
};

/* Every value that depends on an argument has a slot; argument i has slot i. */
struct kl_tape {
    struct kl_tape_step *steps;
    int32_t *edges;
    int32_t n_steps, n_edges, n_slots, steps_room, edges_room;
};

/* Records how the outs follow from the arguments of the trace. The arguments were made by
 * kl_trace_argument or kl_trace_placeholder, or are views of arrays of any trace or none
 * (custom.c). out_slots: n_outs entries, -1 where a result
 * depends on no argument. through_stops: stop_gradient is an operation like others; otherwise
 * its result depends on no argument. On failure *t is empty. */
int kl_tape_record(struct kl_tape *t, const struct kl_trace *trace, struct kl_array *const *args,
                   size_t n_args, struct kl_array *const *outs, size_t n_outs, int32_t *out_slots,
                   bool through_stops, struct kl_error **err);
void kl_tape_free(struct kl_tape *t);
/* The step that makes a slot; NULL: no step does. */
const struct kl_tape_step *kl_tape_maker(const struct kl_tape *t, int32_t slot);

/* Sets the origin of what is built next to the operation of the node; gives the one before. */
struct kl_origin kl_origin_of(enum kl_origin_kind kind, const struct kl_node *n);
/* Puts the name of the user's operation before the message of *err, unless it names one already. */
void kl_origin_name_error(struct kl_origin o, struct kl_error **err);
