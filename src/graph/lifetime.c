/* lifetime.c - frees arrays and nodes, without recursion; and the questions that a task asks of the
 * arrays that it reads and writes. */
#include <stdatomic.h>

#include "backend/collective/group.h"
#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/refs.h"
#include "graph/node.h"
#include "graph/tracing.h"

static struct kl_array *drop_onto(struct kl_array *a, struct kl_array *dead);

/* ---- work that nobody can read ----
 *
 * A task is abandoned when nobody owns its output but the task itself; abandoned tasks release
 * their inputs, so that this goes backwards. References are only made from references: once the
 * task is known to have one (kl_array.task is set after it was made) and the caller the only other
 * one, no third can come. So the number is read after that pointer, and the owners of fate and
 * buffer, which views are, after the number. The caller's reference keeps the memory of the task
 * alive, while the caller and the executor decide (kl_task.state) who has the inputs. Two threads
 * that drop views of one array at the same moment may both leave the task to run. */

/* The task that will make a; NULL: none that could be abandoned. */
static struct kl_node *pending_task(struct kl_array *a) {
    struct kl_node *n = atomic_load_explicit(&a->task, memory_order_acquire);
    return n && !kl_fate_settled(a->t.fate) ? n : NULL;
}

/* Whether n owners have references to a, and nobody has one to its fate or buffer but a and `views`
 * views of it. */
static bool is_owned_by(struct kl_array *a, uint32_t n, uint32_t views) {
    return atomic_load_explicit(&a->refs, memory_order_acquire) == n &&
           atomic_load_explicit(&a->parts->fate.refs, memory_order_acquire) == 1 + views &&
           atomic_load_explicit(&a->parts->buffer.owners, memory_order_acquire) == 1 + views;
}

static struct kl_array *release_inputs_onto(struct kl_node *n, struct kl_array *dead) {
    for (int i = 0; i < n->task.n_in; i++) dead = drop_onto(n->in[i], dead);
    return dead;
}

/* The view v is about to be freed. If nobody but its task owns what it is a view of, that task is
 * abandoned, and its inputs are put in front of `dead`. */
static struct kl_array *abandon_base(struct kl_array *v, struct kl_array *dead) {
    struct kl_parts *p = v->t.fate->parts;
    if (!p || kl_fate_settled(v->t.fate)) return dead;
    struct kl_array *base = p->memory; /* it, or at least its memory, lives as long as the fate */
    struct kl_node *n = pending_task(base);
    if (!n || !is_owned_by(base, 1, 1) || !kl_task_abandon(&n->task)) return dead;
    return release_inputs_onto(n, dead);
}

/* ---- the last reference ---- */

/* Frees everything of n but its outputs. Inputs whose last reference this was are put in front of
 * `dead`. */
static struct kl_array *node_free(struct kl_node *n, struct kl_array *dead);

/* Array a has lost its last reference: frees its parts. Arrays that lose their last reference by
 * this are put in front of `dead`. */
static struct kl_array *array_free(struct kl_array *a, struct kl_array *dead) {
    struct kl_node *n;
    if (!a->trace || kl_trace_over(a->trace)) {
        n = a->node; /* no other thread can reach a */
        kl_trace_release(a->trace);
    } else {
        kl_commit_lock(); /* the end of the trace can */
        n = a->node;
        if (n) n->out[a->out_index] = NULL;
        kl_commit_unlock();
        kl_trace_release(a->trace);
    }
    if (n && kl_refs_drop(&n->refs)) dead = node_free(n, dead);
    struct kl_parts *parts = a->parts;
    if (parts && a->t.fate == &parts->fate && a->t.buffer == &parts->buffer &&
        kl_parts_sole_owner(parts)) {
        /* The common case: no view shares the parts and no work uses them. This saves six atomic
         * operations. */
        kl_parts_free(parts);
        return dead;
    }
    if (!parts) dead = abandon_base(a, dead);
    kl_fate_release(a->t.fate);
    kl_buffer_release(a->t.buffer);
    if (parts)
        kl_parts_drop(parts);
    else
        kl_free(a);
    return dead;
}

/* For one output of several. The node owns a reference to each of its outputs as long as it lives,
 * so the question is whether anybody else owns one. It is decided under the commit lock, because a
 * commit may claim the node through another output at this moment. */
static struct kl_array *drop_multi(struct kl_array *a, struct kl_array *dead) {
    kl_commit_lock();
    bool last = kl_refs_drop(&a->refs);
    struct kl_node *n = a->node;
    bool unreachable = n != NULL && !last;
    for (int i = 0; unreachable && i < n->n_out; i++)
        unreachable = atomic_load(&n->out[i]->refs) == 1;
    if (n && unreachable) {
        for (int i = 0; i < n->n_out; i++) {
            n->out[i]->node = NULL;
            atomic_store(&n->out[i]->refs, 0);
        }
    }
    kl_commit_unlock();
    if (last) return array_free(a, dead);
    if (!unreachable) return dead;
    for (int i = 0; i < n->n_out; i++) dead = array_free(n->out[i], dead);
    if (kl_refs_drop(&n->refs)) dead = node_free(n, dead);
    return dead;
}

/* Drops a reference to a. Puts a in front of `dead` when it was the last one, or when only the
 * abandoned task of a has another; in this case the reference is dropped when a is taken out. */
static struct kl_array *drop_onto(struct kl_array *a, struct kl_array *dead) {
    if (a->multi) return drop_multi(a, dead);
    uint32_t refs = atomic_load_explicit(&a->refs, memory_order_acquire);
    while (refs != 1) {
        struct kl_node *n = refs == 2 ? pending_task(a) : NULL;
        if (n && is_owned_by(a, 2, 0) && kl_task_abandon(&n->task)) {
            a->is_let_go = true;
            break;
        }
        /* Not a subtraction: the thread that leaves one reference must have seen two. */
        if (atomic_compare_exchange_weak_explicit(&a->refs, &refs, refs - 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return dead;
    }
    a->next_dead = dead;
    return a;
}

static struct kl_array *node_free(struct kl_node *n, struct kl_array *dead) {
    for (int i = 0; i < n->n_in; i++) dead = drop_onto(n->in[i], dead);
    if (n->task.op == KL_OP_CALL) {
        const struct kl_call_params *call = n->task.params;
        if (call->release) call->release(call->ctx);
    }
    if (kl_op_is_collective(n->task.op)) kl_collective_drop(&n->task);
    if (n->task.op == KL_OP_KERNEL)
        kl_kernel_desc_release(((const struct kl_kernel_params *)n->task.params)->desc);
    if (n->task.op == KL_OP_CUSTOM) {
        const struct kl_custom_params *custom = n->task.params;
        if (custom->release) custom->release(custom->custom);
    }
    kl_buffer_release(n->task.workspace);
    if (n->was_kept) kl_trace_forget(n);
    if (n->parts)
        kl_parts_drop(n->parts);
    else
        kl_free(n);
    return dead;
}

static void free_all(struct kl_array *dead) {
    while (dead) {
        struct kl_array *a = dead;
        dead = a->next_dead;
        if (a->is_let_go) {
            a->is_let_go = false;
            dead = release_inputs_onto(a->task, dead);
            if (!kl_refs_drop(&a->refs)) continue;
        }
        dead = array_free(a, dead);
    }
}

void kl_array_release(struct kl_array *a) {
    if (a) free_all(drop_onto(a, NULL));
}

void kl_node_release(struct kl_node *n) {
    if (kl_refs_drop(&n->refs)) free_all(node_free(n, NULL));
}

/* ---- what a task asks and drops ---- */

/* Whether a can still be walked back from. The end of a trace may clear the field meanwhile. */
static bool has_node(struct kl_array *a) {
    return __atomic_load_n(&a->node, __ATOMIC_ACQUIRE) != NULL;
}

bool kl_node_owns_input(struct kl_task *t, int i) {
    struct kl_node *n = kl_container(t, struct kl_node, task);
    struct kl_array *a = n->in[i];
    /* The only reference to the array is the task's, so no other thread can take one. The same
     * holds for the buffer. */
    return atomic_load_explicit(&a->refs, memory_order_acquire) == 1 && !has_node(a) &&
           kl_buffer_sole_owner(a->t.buffer);
}

bool kl_node_read_only_by(struct kl_task *t, int readers) {
    struct kl_node *n = kl_container(t, struct kl_node, task);
    struct kl_array *a = n->out[0];
    /* The task has a reference, and so has each input that is this array. No other thread can take
     * a reference from these. */
    return n->n_out == 1 && !a->multi &&
           atomic_load_explicit(&a->refs, memory_order_acquire) == 1 + (uint32_t)readers &&
           !has_node(a) && kl_buffer_sole_owner(a->t.buffer);
}

void kl_node_release_inputs(struct kl_task *t) {
    struct kl_node *n = kl_container(t, struct kl_node, task);
    int n_in = t->n_in;
    t->n_in = 0;
    struct kl_array *dead = NULL;
    for (int i = 0; i < n_in; i++) dead = drop_onto(n->in[i], dead);
    free_all(dead);
}

/* Drops the references of a task of n: to the outputs, then to n itself. */
static void let_go(struct kl_node *n) {
    struct kl_array *dead = NULL;
    /* The node is released first: it is a part of the allocation of the output, which is then freed
     * at once. */
    if (n->n_out == 1) {
        struct kl_array *a = n->out[0];
        kl_node_release(n);
        kl_array_release(a);
        return;
    }
    for (int i = 0; i < n->n_out; i++) dead = drop_onto(n->out[i], dead);
    free_all(dead);
    kl_node_release(n);
}

void kl_node_finish(struct kl_task *t) {
    let_go(kl_container(t, struct kl_node, task));
}

void kl_node_let_go(struct kl_node *n) {
    if (n->n_out > 1)
        let_go(n);
    else
        kl_node_release(n);
}

void kl_node_abandon(struct kl_node *n) {
    n->task.op = KL_OP_COPY;
    struct kl_array *dead = NULL;
    for (int i = 0; i < n->n_out; i++) {
        n->out[i]->multi = false;
        atomic_store(&n->out[i]->refs, 1);
        dead = drop_onto(n->out[i], dead);
    }
    free_all(dead);
    kl_node_release(n);
}
