/* tape.c - see tape.h. The walk is iterative, because a graph may be a million operations deep, and
 * holds the commit lock, because evaluation on another thread may drop nodes. */
#include "transforms/tape.h"

#include <string.h>

#include "base/alloc.h"

enum { INACTIVE = -1 };

struct visit {
    struct kl_node *node;
    int next;
    bool active; /* an input seen so far depends on an argument */
};

struct stack {
    struct visit *v;
    size_t n, room;
};

static int grow(void *list, int32_t need, int32_t *room, size_t item, struct kl_error **err) {
    if (need <= *room) return KL_OK;
    if (need > INT32_MAX / 2)
        return kl_fail(err, KL_ELIMIT, "the function has too many operations");
    int32_t more = need < 32 ? 64 : 2 * need;
    void *p, *old;
    memcpy(&old, list, sizeof old);
    p = kl_realloc(old, (size_t)more * item);
    if (!p) return kl_fail_nomem(err);
    memcpy(list, &p, sizeof p);
    *room = more;
    return KL_OK;
}

static int push(struct stack *s, struct kl_node *n, uint64_t mark, struct kl_error **err) {
    n->mark = mark;
    n->index = INACTIVE;
    if (s->n == s->room) {
        size_t more = s->room ? 2 * s->room : 64;
        struct visit *v = kl_realloc(s->v, more * sizeof *v);
        if (!v) return kl_fail_nomem(err);
        s->v = v;
        s->room = more;
    }
    s->v[s->n++] = (struct visit){n, 0, false};
    return KL_OK;
}

/* The slot of a, whose node has been visited by the walk `mark`. */
static int32_t slot_of(const struct kl_array *a, uint64_t mark) {
    const struct kl_node *n = a->node;
    if (!n || n->mark != mark || n->index == INACTIVE) return INACTIVE;
    return n->index + (int32_t)a->out_index;
}

const struct kl_tape_step *kl_tape_maker(const struct kl_tape *t, int32_t slot) {
    int32_t from = 0, to = t->n_steps; /* the last step whose first slot is not above `slot` */
    if (to == 0 || slot < t->steps[0].slot) return NULL;
    while (to - from > 1) {
        int32_t middle = from + (to - from) / 2;
        if (t->steps[middle].slot <= slot)
            from = middle;
        else
            to = middle;
    }
    return &t->steps[from];
}

/* The stream of n or, for a view, of the array that it is made from. Chains of views may be long,
 * but nodes on the tape have found their stream already. */
static struct kl_stream *stream_of(const struct kl_tape *t, const struct kl_node *n,
                                   uint64_t mark) {
    while (n && !n->stream && n->n_in > 0) {
        const struct kl_tape_step *step = kl_tape_maker(t, slot_of(n->in[0], mark));
        if (step) return step->s;
        n = n->in[0]->node;
    }
    return n ? n->stream : NULL;
}

/* All inputs of n are visited, and one of them depends on an argument: n becomes the next step. */
static int append(struct kl_tape *t, struct kl_node *n, uint64_t mark, struct kl_error **err) {
    KL_TRY(grow(&t->steps, t->n_steps + 1, &t->steps_room, sizeof *t->steps, err));
    KL_TRY(grow(&t->edges, t->n_edges + n->n_in, &t->edges_room, sizeof *t->edges, err));
    const struct kl_tape_step step = {n, t->n_edges, t->n_slots, stream_of(t, n, mark)};
    t->steps[t->n_steps++] = step;
    for (int i = 0; i < n->n_in; i++) t->edges[t->n_edges++] = slot_of(n->in[i], mark);
    n->index = t->n_slots;
    t->n_slots += n->n_out;
    return KL_OK;
}

static int walk(struct kl_tape *t, struct stack *s, const struct kl_trace *trace,
                struct kl_array *from, uint64_t mark, bool through_stops, struct kl_error **err) {
    if (!from->node || !kl_trace_holds(trace, from) || from->node->mark == mark) return KL_OK;
    KL_TRY(push(s, from->node, mark, err));
    while (s->n) {
        struct visit *v = &s->v[s->n - 1];
        struct kl_node *n = v->node;
        bool stops = !through_stops && n->task.op == KL_OP_STOP_GRADIENT;
        if (v->next < n->n_in && !stops) {
            struct kl_array *in = n->in[v->next];
            struct kl_node *maker = kl_trace_holds(trace, in) ? in->node : NULL;
            if (maker && maker->mark != mark) {
                KL_TRY(push(s, maker, mark, err)); /* may move the memory of v */
                continue;
            }
            v->active |= maker && maker->index != INACTIVE;
            v->next++;
            continue;
        }
        if (v->active) KL_TRY(append(t, n, mark, err));
        s->n--;
    }
    return KL_OK;
}

int kl_tape_record(struct kl_tape *t, const struct kl_trace *trace, struct kl_array *const *args,
                   size_t n_args, struct kl_array *const *outs, size_t n_outs, int32_t *out_slots,
                   bool through_stops, struct kl_error **err) {
    struct stack s = {0};
    *t = (struct kl_tape){0};
    kl_commit_lock();
    const uint64_t mark = kl_walk_number();
    for (size_t i = 0; i < n_args; i++) {
        if (!args[i]->node) continue; /* a constant among the arguments, and evaluated */
        args[i]->node->mark = mark;
        args[i]->node->index = (int32_t)i;
    }
    t->n_slots = (int32_t)n_args;
    int rc = KL_OK;
    for (size_t i = 0; i < n_outs && !rc; i++) {
        rc = walk(t, &s, trace, outs[i], mark, through_stops, err);
        if (!rc) out_slots[i] = slot_of(outs[i], mark);
    }
    kl_commit_unlock();
    kl_free(s.v);
    if (rc) kl_tape_free(t);
    return rc;
}

void kl_tape_free(struct kl_tape *t) {
    kl_free(t->steps);
    kl_free(t->edges);
    *t = (struct kl_tape){0};
}

struct kl_origin kl_origin_of(enum kl_origin_kind kind, const struct kl_node *n) {
    struct kl_origin was = n->task.origin;
    if (!was.kind) was.op = (uint16_t)n->task.op;
    if (!was.kind || kind != KL_ORIGIN_BATCH) was.kind = kind;
    return was;
}

void kl_origin_name_error(struct kl_origin o, struct kl_error **err) {
    if (err && *err) *err = kl_error_named(*err, kl_origin_name(o));
}
