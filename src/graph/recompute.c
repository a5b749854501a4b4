/* recompute.c - see recompute.h.
 *
 * Element-wise nodes that follow each other in a commit, with one shape and on one stream, are a
 * *run*: the backend computes them in one kernel. A value that its own run and one later run read
 * would be stored by the one kernel and loaded by the other. Instead the later run gets
 * nodes of its own that compute it again, from the operands (*leaves*) of its first run. */
#include "graph/recompute.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/tracing.h"

enum {
    NONE = 0,    /* no run */
    STORED = -1, /* as fact.reader: the value is stored in any case */
    MOST_STEPS = 32,
    MOST_LEAVES = 32
};

/* The facts about the node at one place of the order. */
struct fact {
    int32_t run;
    int32_t reader;         /* the other run that reads the value; or NONE, or STORED */
    uint32_t readers;       /* inputs of the commit that are the value */
    bool read_within;       /* by its own run */
    bool needed;            /* to be computed again for the run that is looked at */
    struct kl_array *again; /* then: the value that is computed again */
};

struct run {
    int32_t begin, end; /* places of its nodes; nodes of views may lie between */
    struct kl_fusion_limits limits;
    int n;      /* nodes */
    bool loads; /* it reads a value that is perhaps computed again */
};

/* Memory that all calls reuse; guarded by the commit lock, but for the last two. */
static struct {
    struct fact *fact;
    struct run *run; /* number 0 is no run */
    struct kl_node **order;
    size_t fact_room, run_room, order_room;
    int32_t n_runs;
    _Atomic(bool) off;
    _Atomic(uint64_t) count;
} plan;

void kl_recompute_allow(bool on) {
    atomic_store(&plan.off, !on);
}

uint64_t kl_recompute_count(void) {
    return atomic_load(&plan.count);
}

/* The list v with room for `needs` items; NULL, and v stays as it is: there is no memory. */
static void *room(void *v, size_t *has, size_t needs, size_t item) {
    if (needs <= *has) return v;
    void *p = kl_realloc(v, 2 * needs * item);
    if (p) *has = 2 * needs;
    return p;
}

static bool room_in_order(size_t needs) {
    void *p = room(plan.order, &plan.order_room, needs, sizeof *plan.order);
    if (p) plan.order = p;
    return p != NULL;
}

/* ---- runs ---- */

/* Whether a rule of a transform may still look at the inputs of n. */
static bool is_traced(const struct kl_node *n) {
    return n->may_be_kept && kl_trace_live(n->out[0]->trace) != NULL;
}

static bool is_pure(const struct kl_node *n) {
    const unsigned flags = kl_op_flags(n->task.op);
    return (flags & KL_OPF_ELEMENTWISE) && !(flags & KL_OPF_CHECKED) && n->n_out == 1 &&
           n->n_in <= KL_FUSION_OPERANDS && n->out[0] &&
           n->out[0]->t.size >= KL_RECOMPUTE_MIN_SIZE && !is_traced(n);
}

static bool same_shape(const struct kl_node *a, const struct kl_node *b) {
    const struct kl_tensor *x = &a->out[0]->t, *y = &b->out[0]->t;
    return x->ndim == y->ndim &&
           (x->ndim == 0 || memcmp(x->dims, y->dims, (size_t)x->ndim * sizeof *x->dims) == 0);
}

/* The place of the node of this commit that makes a; -1: none does. */
static int32_t maker_of(const struct kl_array *a, uint64_t mark) {
    const struct kl_node *n = a->node;
    return n && !n->claimed && n->mark == mark ? n->index : -1;
}

/* Node `at` goes to the run of the node before it, or begins one. */
static void join(struct kl_node *const *order, int32_t at, int32_t *run) {
    const struct kl_node *n = order[at];
    struct run *r = &plan.run[*run];
    if (*run == NONE || r->n >= r->limits.steps || n->stream != order[r->begin]->stream ||
        !same_shape(n, order[r->begin])) {
        *run = plan.n_runs++;
        r = &plan.run[*run];
        *r = (struct run){.begin = at, .limits = kl_stream_fusion_limits(n->stream)};
    }
    r->end = at + 1;
    r->n++;
    plan.fact[at].run = *run;
}

/* The value at place `made` is input of the node at place `at`. */
static void note_reader(struct kl_node *const *order, int32_t made, int32_t at) {
    struct fact *f = &plan.fact[made];
    const int32_t run = plan.fact[at].run;
    f->readers++;
    if (f->run == NONE) return;
    if (run == f->run)
        f->read_within = true;
    else if (run != NONE && (f->reader == NONE || f->reader == run) &&
             order[made]->stream == order[at]->stream && same_shape(order[made], order[at]))
        f->reader = run;
    else
        f->reader = STORED;
}

/* Whether nobody but the nodes of this commit has the value at place `at`. */
static bool is_inner(struct kl_node *const *order, int32_t at) {
    return atomic_load_explicit(&order[at]->out[0]->refs, memory_order_acquire) ==
           plan.fact[at].readers;
}

/* Whether the value at place `at` is stored only for the sake of run `reader`. */
static bool is_candidate(struct kl_node *const *order, int32_t at, int32_t reader) {
    const struct fact *f = &plan.fact[at];
    return f->run != NONE && f->reader == reader && f->read_within && is_inner(order, at);
}

/* Finds the runs, and who reads what. false: nothing can be computed again. */
static bool find_runs(struct kl_node *const *order, int32_t n, uint64_t mark) {
    void *facts = room(plan.fact, &plan.fact_room, (size_t)n, sizeof *plan.fact);
    if (facts) plan.fact = facts;
    void *runs = room(plan.run, &plan.run_room, (size_t)n + 1, sizeof *plan.run);
    if (runs) plan.run = runs;
    if (!facts || !runs) return false;
    plan.n_runs = 1;
    int32_t run = NONE;
    for (int32_t at = 0; at < n; at++) {
        struct kl_node *v = order[at];
        v->index = at;
        plan.fact[at] = (struct fact){0};
        if (is_pure(v))
            join(order, at, &run);
        else if (!(kl_op_flags(v->task.op) & KL_OPF_VIEW))
            run = NONE;
        for (int i = 0; i < v->n_in; i++) {
            int32_t made = maker_of(v->in[i], mark);
            if (made >= 0) note_reader(order, made, at);
        }
    }
    bool found = false;
    for (int32_t at = 0; at < n; at++) {
        const int32_t reader = plan.fact[at].reader;
        if (reader <= NONE || !is_candidate(order, at, reader)) continue;
        plan.run[reader].loads = found = true;
    }
    return found;
}

/* ---- computing again ---- */

/* A run with what it computes again, and what the kernel of both reads. */
struct kernel {
    struct kl_node *const *order; /* of the commit */
    uint64_t mark;
    int32_t run;
    struct kl_array *unused; /* nodes that turned out not to be needed; linked by next_dead */
    int n, n_reads, n_leaves, n_again; /* n_reads: operands in memory; n_leaves: different ones */
    struct kl_node *node[MOST_STEPS];
    const struct kl_array *leaf[MOST_LEAVES];
    size_t saved, more; /* bytes that are no longer stored; bytes that are read in addition */
};

/* Adds an operand in memory. false: there are too many. */
static bool add_leaf(struct kernel *k, const struct kl_array *a, bool is_new) {
    k->n_reads++;
    bool known = false;
    for (int i = 0; i < k->n_leaves; i++) {
        if (k->leaf[i]->t.buffer != a->t.buffer) continue;
        known = true;
        if (k->leaf[i]->t.offset == a->t.offset && k->leaf[i]->t.layout == a->t.layout) return true;
    }
    if (k->n_leaves == MOST_LEAVES) return false;
    k->leaf[k->n_leaves++] = a;
    if (is_new && !known) k->more += a->t.buffer->bytes;
    return true;
}

/* Whether the kernel computes a. */
static bool makes(const struct kernel *k, const struct kl_array *a) {
    for (int j = 0; j < k->n; j++)
        if (k->node[j] == a->node) return true;
    return false;
}

/* The operands that the run itself reads, but for those that run `from` makes for it alone, which
 * are to be computed again. */
static bool add_run(struct kernel *k, int32_t from) {
    for (int j = 0; j < k->n; j++)
        for (int i = 0; i < k->node[j]->n_in; i++) {
            const struct kl_array *a = k->node[j]->in[i];
            if (makes(k, a)) continue;
            int32_t made = maker_of(a, k->mark);
            if (made >= 0 && plan.fact[made].run == from && is_candidate(k->order, made, k->run)) {
                if (!plan.fact[made].needed) k->saved += a->t.buffer->bytes, k->n_again++;
                plan.fact[made].needed = true;
            } else if (!add_leaf(k, a, false)) {
                return false;
            }
        }
    return true;
}

/* Whether op is a function such as exp, which takes many instructions. */
static bool is_function(enum kl_op_id op) {
    const struct kl_op_map m = kl_op_map(op);
    return (m.n_in > 0 && m.computes == KL_COMPUTES_INEXACT) || op == KL_OP_POWER ||
           op == KL_OP_REMAINDER || op == KL_OP_FLOOR_DIVIDE || op == KL_OP_SILU_MUL;
}

/* Adds the other nodes of run `from` that must be computed again, and the leaves of all of them.
 * false: they are too many. */
static bool add_needed(struct kernel *k, int32_t from) {
    const int n_saved = k->n_again;
    int n_functions = 0;
    for (int32_t at = plan.run[from].end; at-- > plan.run[from].begin;) {
        const struct kl_node *n = k->order[at];
        n_functions += plan.fact[at].needed && is_function(n->task.op);
        for (int i = 0; plan.fact[at].needed && i < n->n_in; i++) {
            int32_t made = maker_of(n->in[i], k->mark);
            struct fact *f = made >= 0 ? &plan.fact[made] : NULL;
            if (f && f->run == from &&
                (f->needed || (f->reader == NONE && is_inner(k->order, made)))) {
                k->n_again += !f->needed;
                f->needed = true;
            } else if (!add_leaf(k, n->in[i], true)) {
                return false;
            }
        }
    }
    return k->n_again <= 2 * n_saved && n_functions * plan.run[k->run].limits.function <= n_saved;
}

/* The node at place `at` once more. */
static bool build_again(struct kernel *k, int32_t at) {
    const struct kl_node *n = k->order[at];
    const struct kl_tensor *t = &n->out[0]->t;
    struct kl_array *in[KL_FUSION_OPERANDS];
    for (int i = 0; i < n->n_in; i++) {
        int32_t made = maker_of(n->in[i], k->mark);
        bool again = made >= 0 && plan.fact[made].again;
        in[i] = again ? plan.fact[made].again : n->in[i];
    }
    struct kl_operation o = {.op = n->task.op,
                             .stream = n->stream,
                             .params = n->task.params,
                             .params_bytes = n->task.params_bytes,
                             .in = in,
                             .n_in = n->n_in};
    struct kl_error *err = NULL;
    struct kl_origin before = kl_origin_set(n->task.origin);
    int rc =
        kl_array_op1(&plan.fact[at].again, &o, (enum kl_dtype)t->dtype, t->ndim, t->dims, &err);
    kl_origin_set(before);
    kl_error_release(err);
    return rc == KL_OK;
}

/* Puts the node of `again` in front of the first node that reads it. */
static void insert(struct kernel *k, const struct kl_array *again) {
    int first = 0;
    for (bool reads = false; !reads; first += !reads) {
        const struct kl_node *n = k->node[first];
        for (int i = 0; i < n->n_in; i++) reads = reads || n->in[i] == again;
    }
    memmove(&k->node[first + 1], &k->node[first], (size_t)(k->n - first) * sizeof *k->node);
    k->node[first] = again->node;
    k->n++;
}

/* The run reads the new values instead of those of run `from`. */
static void replace(struct kernel *k, const struct run *from) {
    for (int j = 0; j < k->n; j++) {
        struct kl_node *n = k->node[j];
        for (int i = 0; i < n->n_in; i++) {
            int32_t made = maker_of(n->in[i], k->mark);
            struct fact *f = made >= 0 ? &plan.fact[made] : NULL;
            if (!f || !f->again || f->reader != k->run) continue;
            struct kl_array *old = n->in[i];
            n->in[i] = kl_array_retain(f->again);
            n->task.in[i] = &f->again->t;
            f->readers--;
            kl_array_release(old); /* its own run reads it as well */
        }
    }
    for (int32_t at = from->end; at-- > from->begin;) {
        struct fact *f = &plan.fact[at];
        if (!f->again) continue;
        insert(k, f->again);
        if (f->reader == k->run) f->reader = NONE;
        /* The inputs of the new nodes have one more reader. */
        for (int i = 0; i < k->order[at]->n_in; i++) {
            int32_t made = maker_of(k->order[at]->in[i], k->mark);
            if (made >= 0 && !plan.fact[made].again) plan.fact[made].reader = STORED;
        }
    }
    atomic_fetch_add_explicit(&plan.count, (uint64_t)k->n_again, memory_order_relaxed);
}

/* Computes again for run k->run what run `from` would store for it, if that is worth it. */
static void compute_again(struct kernel *k, int32_t from) {
    const struct run *r = &plan.run[k->run], *f = &plan.run[from];
    k->n_reads = k->n_leaves = k->n_again = 0;
    k->saved = k->more = 0;
    bool ok = add_run(k, from) && add_needed(k, from) && k->more < k->saved &&
              k->n + k->n_again <= r->limits.steps && k->n_reads <= r->limits.reads &&
              k->n_leaves <= r->limits.leaves;
    for (int32_t at = f->begin; ok && at < f->end; at++)
        if (plan.fact[at].needed) ok = build_again(k, at);
    if (ok) replace(k, f);
    for (int32_t at = f->begin; at < f->end; at++) {
        struct kl_array *a = plan.fact[at].again;
        plan.fact[at].again = NULL;
        plan.fact[at].needed = false;
        if (ok) { /* now its readers own it */
            kl_array_release(a);
        } else if (a) { /* to release its inputs may take the commit lock */
            a->next_dead = k->unused;
            k->unused = a;
        }
    }
}

/* The first run after run `after` of which the kernel reads values that can be computed again;
 * NONE: there is none. */
static int32_t next_source(const struct kernel *k, int32_t after) {
    int32_t found = NONE;
    for (int j = 0; j < k->n; j++)
        for (int i = 0; i < k->node[j]->n_in; i++) {
            int32_t made = maker_of(k->node[j]->in[i], k->mark);
            if (made < 0 || !is_candidate(k->order, made, k->run)) continue;
            const int32_t run = plan.fact[made].run;
            if (run > after && (found == NONE || run < found)) found = run;
        }
    return found;
}

struct kl_array *kl_recompute(struct kl_node ***order, size_t *n, uint64_t mark) {
    kl_assert(kl_commit_lock_held());
    struct kernel k = {.order = *order, .mark = mark};
    if (atomic_load_explicit(&plan.off, memory_order_relaxed) || *n > INT32_MAX / 2 ||
        !find_runs(*order, (int32_t)*n, mark) || !room_in_order(*n))
        return NULL;
    size_t n_order = 0;
    for (int32_t at = 0; at < (int32_t)*n;) {
        k.run = plan.fact[at].run;
        struct run *r = &plan.run[k.run];
        if (k.run == NONE || !r->loads || !room_in_order(n_order + *n - (size_t)at + MOST_STEPS)) {
            plan.order[n_order++] = k.order[at++];
            continue;
        }
        k.n = 0;
        for (; at < r->end; at++) {
            if (plan.fact[at].run == k.run)
                k.node[k.n++] = k.order[at];
            else
                plan.order[n_order++] = k.order[at]; /* a view */
        }
        for (int32_t from = NONE; (from = next_source(&k, from)) != NONE;) compute_again(&k, from);
        for (int j = 0; j < k.n; j++) plan.order[n_order++] = k.node[j];
    }
    *order = plan.order;
    *n = n_order;
    return k.unused;
}
