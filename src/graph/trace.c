/* trace.c - see trace.h. A trace lists the nodes that kept their inputs when they were committed.
 * The list owns none of them: a node that is freed takes itself out. All lists are guarded by the
 * commit lock. */
#include "graph/trace.h"

#include "base/alloc.h"
#include "base/refs.h"
#include "graph/node.h"
#include "graph/tracing.h"

static _Atomic(uint64_t) last_number;
static __thread struct kl_trace *innermost; /* of this thread; not owned */

int kl_trace_begin(struct kl_trace **out, struct kl_error **err) {
    struct kl_trace *t = kl_malloc(sizeof *t);
    if (!t) return kl_fail_nomem(err);
    atomic_init(&t->refs, 1);
    atomic_init(&t->ended, false);
    atomic_init(&t->let_go, false);
    t->number = atomic_fetch_add(&last_number, 1) + 1;
    t->parent = kl_trace_retain(innermost);
    kl_list_init(&t->kept);
    t->shapeless = t->fixed = false;
    t->fixed_by = (enum kl_op_id)0;
    t->reads = NULL;
    t->n_reads = t->reads_room = 0;
    *out = innermost = t;
    return KL_OK;
}

struct kl_trace *kl_trace_retain(struct kl_trace *t) {
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void kl_trace_release(struct kl_trace *t) {
    while (t && kl_refs_drop(&t->refs)) {
        struct kl_trace *parent = t->parent;
        kl_free(t);
        t = parent;
    }
}

struct kl_trace *kl_trace_live(struct kl_trace *t) {
    while (t && atomic_load_explicit(&t->ended, memory_order_acquire)) t = t->parent;
    return t;
}

bool kl_trace_over(const struct kl_trace *t) {
    while (t && atomic_load_explicit(&t->let_go, memory_order_acquire)) t = t->parent;
    return !t;
}

bool kl_trace_holds(const struct kl_trace *t, const struct kl_array *a) {
    return a->trace && a->trace->number >= t->number;
}

bool kl_array_is_tracer(const struct kl_array *a) {
    return a->trace && kl_trace_live(a->trace);
}

bool kl_array_outlived_trace(const struct kl_array *a) {
    return a->trace && kl_trace_live(a->trace) != a->trace;
}

/* Whether `outer` is t or a trace around it. */
static bool encloses(const struct kl_trace *outer, const struct kl_trace *t) {
    while (t && t->number > outer->number) t = t->parent;
    return t == outer;
}

int kl_trace_of_inputs(struct kl_trace **out, struct kl_array *const *in, int n_in,
                       struct kl_error **err) {
    struct kl_trace *inner = NULL;
    for (int i = 0; i < n_in; i++) {
        struct kl_trace *t = in[i]->trace ? kl_trace_live(in[i]->trace) : NULL;
        if (!t || t == inner) continue;
        struct kl_trace *outer = inner;
        if (!inner || t->number > inner->number) {
            inner = t;
        } else {
            outer = t;
        }
        if (outer && !encloses(outer, inner))
            return kl_fail(err, KL_ETRACE,
                           "arrays of two functions that are transformed at the same time, on "
                           "different threads, cannot be used together");
    }
    *out = inner;
    return KL_OK;
}

void kl_trace_keep(struct kl_node *n) {
    kl_assert(kl_commit_lock_held());
    if (kl_list_linked(&n->kept)) return;
    for (int i = 0; i < n->n_out; i++) {
        struct kl_trace *t = n->out[i] ? kl_trace_live(n->out[i]->trace) : NULL;
        if (!t) continue;
        kl_list_push(&t->kept, &n->kept);
        n->was_kept = true;
        return;
    }
}

void kl_trace_forget(struct kl_node *n) {
    kl_commit_lock();
    if (kl_list_linked(&n->kept)) kl_list_remove(&n->kept);
    kl_commit_unlock();
}

/* ---- traces for any shapes ---- */

static __thread int extents_known; /* how many calls of kl_extents_known_begin are open */

void kl_extents_known_begin(void) {
    extents_known++;
}

void kl_extents_known_end(void) {
    kl_assert(extents_known > 0);
    extents_known--;
}

_Atomic(int) kl_n_shapeless_traces;

void kl_trace_set_shapeless(struct kl_trace *t) {
    t->shapeless = true;
    atomic_fetch_add(&kl_n_shapeless_traces, 1);
}

bool kl_is_shapeless(const struct kl_array *a) {
    return a && a->shapeless && !extents_known;
}

bool kl_any_shapeless(struct kl_array *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (kl_is_shapeless(in[i])) return true;
    return false;
}

/* The trace on whose extents a depends; NULL: it is over. */
static struct kl_trace *shapeless_trace(const struct kl_array *a) {
    struct kl_trace *t = kl_is_shapeless(a) && a->trace ? kl_trace_live(a->trace) : NULL;
    while (t && !t->shapeless) t = kl_trace_live(t->parent);
    return t;
}

/* Room for one more read; without memory the trace holds for these shapes only, which is always
 * right. */
static struct kl_read *new_read(struct kl_trace *t, struct kl_array *a) {
    if (t->n_reads == t->reads_room) {
        int more = t->reads_room ? 2 * t->reads_room : 8;
        struct kl_read *v = kl_realloc(t->reads, (size_t)more * sizeof *v);
        if (!v) {
            t->fixed = true;
            t->fixed_by = KL_OP_PLACEHOLDER;
            return NULL;
        }
        t->reads = v;
        t->reads_room = more;
    }
    struct kl_read *r = &t->reads[t->n_reads++];
    *r = (struct kl_read){kl_array_retain(a), 0};
    return r;
}

void kl_trace_note_read(struct kl_array *a, int axis) {
    struct kl_trace *t = shapeless_trace(a);
    if (!t || a->t.ndim == 0) return;
    kl_commit_lock();
    struct kl_read *r = NULL;
    for (int i = 0; i < t->n_reads && !r; i++)
        if (t->reads[i].a == a) r = &t->reads[i];
    if (!r) r = new_read(t, a);
    for (int i = 0; r && i < a->t.ndim && i < 64; i++)
        if (axis == KL_ALL_AXES || axis == i) r->axes |= UINT64_C(1) << i;
    kl_commit_unlock();
}

void kl_trace_note_fixed(struct kl_array *a, enum kl_op_id op) {
    struct kl_trace *t = shapeless_trace(a);
    if (!t) return;
    kl_commit_lock();
    if (!t->fixed) t->fixed_by = op;
    t->fixed = true;
    kl_commit_unlock();
}

/* The arrays are released when the trace lets go of them, with no lock held. */
static void reads_free(struct kl_trace *t) {
    for (int i = 0; i < t->n_reads; i++) kl_array_release(t->reads[i].a);
    kl_free(t->reads);
    t->reads = NULL;
    t->n_reads = t->reads_room = 0;
}

void kl_trace_end(struct kl_trace *t) {
    kl_assert(innermost == t);
    reads_free(t);
    if (t->shapeless) atomic_fetch_sub(&kl_n_shapeless_traces, 1);
    struct kl_list gone;
    kl_list_init(&gone);
    kl_commit_lock();
    atomic_store_explicit(&t->ended, true, memory_order_release);
    innermost = t->parent;
    struct kl_trace *around = kl_trace_live(t->parent);
    if (around) {
        kl_list_splice(&around->kept, &t->kept);
    } else {
        for (struct kl_link *k; (k = kl_list_pop(&t->kept));) {
            struct kl_node *n = kl_container(k, struct kl_node, kept);
            /* This thread now owns the reference to the node that the outputs owned together. */
            bool reachable = false;
            for (int i = 0; i < n->n_out; i++) {
                if (!n->out[i]) continue;
                reachable = true;
                __atomic_store_n(&n->out[i]->node, NULL, __ATOMIC_RELEASE); /* owns_input reads */
            }
            if (reachable) kl_list_push(&gone, &n->kept);
        }
    }
    kl_commit_unlock();
    atomic_store_explicit(&t->let_go, true, memory_order_release);
    for (struct kl_link *k; (k = kl_list_pop(&gone));)
        kl_node_let_go(kl_container(k, struct kl_node, kept));
    kl_trace_release(t);
}

int kl_trace_argument(struct kl_array **out, struct kl_trace *t, struct kl_array *x,
                      struct kl_error **err) {
    return kl_array_traced_view(out, x, t, err);
}

int kl_trace_placeholder(struct kl_array **out, struct kl_trace *t, enum kl_dtype dtype, int ndim,
                         const int *dims, struct kl_error **err) {
    struct kl_operation o = {.op = KL_OP_PLACEHOLDER};
    struct kl_array *a;
    KL_TRY(kl_array_op1(&a, &o, dtype, ndim, dims, err));
    a->trace = kl_trace_retain(t);
    a->shapeless = t->shapeless;
    *out = a;
    return KL_OK;
}
