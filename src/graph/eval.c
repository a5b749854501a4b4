/* eval.c - commit, then run.
 *
 * A commit walks the graph under the commit lock, claims every node that is not claimed yet, gives
 * the tickets on all streams, and appends the tasks. Everything that can fail happens before the
 * first claim. All streams therefore see evaluations in one total order, and every wait is for an
 * earlier ticket of that order. */
#include <stdlib.h>

#include "backend/collective/group.h"
#include "base/alloc.h"
#include "base/value/failures.h"
#include "base/value/wait_hook.h"
#include "graph/arrange.h"
#include "graph/node.h"
#include "graph/recompute.h"
#include "graph/tracing.h"
#include "runtime/device.h"

struct visit {
    struct kl_node *node;
    int next; /* number of the next input to visit; an element-wise node visits them twice */
};

/* Memory that all walks reuse; guarded by the commit lock. */
static struct {
    struct visit *stack;
    struct kl_node **order;    /* producers before consumers */
    struct kl_node **arranged; /* what kl_scalars_early needs: room for order_room of both */
    int32_t *places;
    size_t n_stack, stack_room, n_order, order_room, arranged_room;
    size_t n_scalar; /* nodes in `order` that kl_scalars_early may move */
    size_t n_fused;  /* element-wise nodes in `order` that are large enough to be fused */
    size_t n_large;  /* element-wise nodes in `order` of whose size values may be computed twice */
    struct kl_node **shared; /* the nodes in `order` in which other processes take part */
    size_t n_shared, shared_room;
    bool sorted;   /* `shared` is complete, and in the order of building */
    uint64_t mark; /* number of the present walk */
} walk;

static int grow(void **v, size_t *room, size_t item, struct kl_error **err) {
    size_t more = *room ? 2 * *room : 256;
    void *p = kl_realloc(*v, more * item);
    if (!p) return kl_fail_nomem(err);
    *v = p;
    *room = more;
    return KL_OK;
}

uint64_t kl_walk_number(void) {
    kl_assert(kl_commit_lock_held());
    return ++walk.mark;
}

static int no_value(const struct kl_array *a, struct kl_error **err) {
    return kl_fail(err, KL_ETRACE,
                   kl_array_is_tracer(a)
                       ? "Attempting to eval an array during function transformations like compile "
                         "or vmap is not allowed. Not allowed inside a graph transformation: an "
                         "argument of a function that is being compiled, vectorised or exported "
                         "has no value"
                       : "an argument of a function was used after the call in which the function "
                         "was compiled, vectorised or exported; it never gets a value");
}

static int push_node(struct kl_node *n, struct kl_error **err) {
    n->mark = walk.mark;
    if (walk.n_stack == walk.stack_room) {
        void *v = walk.stack;
        KL_TRY(grow(&v, &walk.stack_room, sizeof *walk.stack, err));
        walk.stack = v;
    }
    walk.stack[walk.n_stack++] = (struct visit){n, 0};
    return KL_OK;
}

/* Puts the node of a on the stack unless there is nothing to do for that node. */
static int push(struct kl_array *a, struct kl_error **err) {
    struct kl_node *n = a->node;
    if (!n || n->claimed || n->mark == walk.mark) return KL_OK;
    if (n->task.op == KL_OP_PLACEHOLDER) return no_value(a, err);
    return push_node(n, err);
}

static bool is_elementwise(const struct kl_node *n) {
    return n && (kl_op_flags(n->task.op) & KL_OPF_ELEMENTWISE);
}

/* The next input of v to visit, or NULL. Element-wise inputs of an element-wise node come last, so
 * that no product that another input needs stands between operations that can run as one kernel:
 * silu(a @ b) * (c @ d) is two products and one kernel. */
static struct kl_array *next_input(struct visit *v) {
    struct kl_node *n = v->node;
    if (n->n_in < 2 || !is_elementwise(n)) return v->next < n->n_in ? n->in[v->next++] : NULL;
    for (; v->next < n->n_in; v->next++)
        if (!is_elementwise(n->in[v->next]->node)) return n->in[v->next++];
    return v->next < 2 * n->n_in ? n->in[v->next++ - n->n_in] : NULL;
}

static void count(const struct kl_node *n) {
    const int64_t size = n->out[0] ? n->out[0]->t.size : 0;
    if (size == 1)
        walk.n_scalar += kl_is_scalar_work(n);
    else if (size >= KL_FUSION_MIN_SIZE && is_elementwise(n)) {
        walk.n_fused++;
        walk.n_large += size >= KL_RECOMPUTE_MIN_SIZE;
    }
}

static int append(struct kl_node ***v, size_t *n, size_t *room, struct kl_node *node,
                  struct kl_error **err) {
    if (*n == *room) {
        void *p = *v;
        KL_TRY(grow(&p, room, sizeof **v, err));
        *v = p;
    }
    (*v)[(*n)++] = node;
    return KL_OK;
}

/* Appends what is on the stack to walk.order, and before it all that it needs. */
static int visit_stack(struct kl_error **err) {
    while (walk.n_stack) {
        struct kl_array *in = next_input(&walk.stack[walk.n_stack - 1]);
        if (in) {
            KL_TRY(push(in, err)); /* may move the memory of the stack */
            continue;
        }
        struct kl_node *v = walk.stack[--walk.n_stack].node;
        KL_TRY(append(&walk.order, &walk.n_order, &walk.order_room, v, err));
        count(v);
        if (!walk.sorted && kl_op_is_collective(v->task.op))
            KL_TRY(append(&walk.shared, &walk.n_shared, &walk.shared_room, v, err));
    }
    return KL_OK;
}

static int visit(struct kl_node *const *first, size_t n_first, struct kl_array *const *arrays,
                 size_t n, struct kl_error **err) {
    walk.mark++;
    walk.n_stack = walk.n_order = walk.n_scalar = walk.n_fused = walk.n_large = 0;
    for (size_t i = 0; i < n_first; i++) {
        if (first[i]->mark == walk.mark) continue;
        KL_TRY(push_node(first[i], err));
        KL_TRY(visit_stack(err));
    }
    for (size_t i = 0; i < n; i++) {
        KL_TRY(push(arrays[i], err));
        KL_TRY(visit_stack(err));
    }
    return KL_OK;
}

static int by_serial(const void *a, const void *b) {
    const uint64_t x = kl_collective_serial(&(*(struct kl_node *const *)a)->task);
    const uint64_t y = kl_collective_serial(&(*(struct kl_node *const *)b)->task);
    return x < y ? -1 : x > y;
}

/* Fills walk.order. It changes nothing but marks, so it may fail half way. Operations of groups
 * must come in the same order in all processes: that of building. So a second walk begins with
 * these, in that order, in which each comes after those that it needs. */
static int collect(struct kl_array *const *arrays, size_t n, struct kl_error **err) {
    walk.n_shared = 0;
    walk.sorted = false;
    KL_TRY(visit(NULL, 0, arrays, n, err));
    if (walk.n_shared < 2) return KL_OK;
    qsort(walk.shared, walk.n_shared, sizeof *walk.shared, by_serial);
    walk.sorted = true;
    return visit(walk.shared, walk.n_shared, arrays, n, err);
}

/* The order of the walk with single numbers made early. Without memory it stays as it is: only
 * speed is lost. */
static struct kl_node **scalars_early(struct kl_node **order, size_t n) {
    if (walk.arranged_room < walk.order_room) {
        void *nodes = kl_realloc(walk.arranged, walk.order_room * sizeof *walk.arranged);
        if (nodes) walk.arranged = nodes;
        void *places = kl_realloc(walk.places, (walk.order_room + 1) * sizeof *walk.places);
        if (places) walk.places = places;
        if (!nodes || !places) return order;
        walk.arranged_room = walk.order_room;
    }
    if (n >= INT32_MAX) return order;
    kl_scalars_early(order, n, walk.arranged, walk.places);
    return walk.arranged;
}

bool kl_node_is_valid(const struct kl_node *n) {
    if (n->claimed || n->n_out < 1) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!n->out[i] || n->out[i]->node != n || n->task.out[i] != &n->out[i]->t) return false;
    for (int i = 0; i < n->n_in; i++) {
        const struct kl_node *maker = n->in[i]->node;
        bool made = !maker || maker->claimed || (kl_op_flags(maker->task.op) & KL_OPF_VIEW);
        if (!made || n->task.in[i] != &n->in[i]->t) return false;
    }
    return true;
}

/* Claims the node of a view. A view is made when its base is made, so the node only drops the
 * base. */
static void claim_view(struct kl_node *n, struct kl_list *garbage) {
    if (n->may_be_kept) {
        kl_trace_keep(n);
        if (kl_list_linked(&n->kept)) return;
    }
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]) n->out[i]->node = NULL;
    kl_list_push(garbage, &n->task.link);
}

/* Whether the node does what somebody can see who never reads its output: a file is read or
 * written, the user is called, a kernel of the user runs, or other processes take part. Of these,
 * only calls and kernels have several outputs. */
static bool has_effect(const struct kl_node *n) {
    kl_assert(n->n_out == 1 || n->task.op == KL_OP_CALL || n->task.op == KL_OP_KERNEL);
    return n->task.op == KL_OP_CALL || n->task.op == KL_OP_KERNEL ||
           kl_op_is_collective(n->task.op);
}

/* The stream that runs the node: of the user, or for what other processes take part in the group's.
 * */
static struct kl_stream *stream_of(const struct kl_node *n) {
    return kl_op_is_collective(n->task.op) ? kl_collective_stream(&n->task) : n->stream;
}

static void claim(struct kl_node *n, uint64_t self, bool begins) {
    kl_assert_slow(kl_node_is_valid(n));
    struct kl_stream *s = stream_of(n);
    n->claimed = true;
    n->task.ticket = kl_stream_take_ticket(s);
    n->task.submitter = self;
    n->task.begins = begins;
    if (kl_op_is_collective(n->task.op))
        kl_collective_committed(&n->task, kl_stream_timeline(s), n->task.ticket);
    if (n->may_be_kept) kl_trace_keep(n);
    const bool keeps = kl_list_linked(&n->kept);
    for (int i = 0; i < n->n_out; i++) {
        struct kl_array *a = n->out[i];
        a->t.fate->timeline = kl_stream_timeline(s);
        a->t.fate->ticket = n->task.ticket;
        /* a node with several outputs owns them already */
        if (!a->multi || keeps) kl_array_retain(a);
    }
    if (keeps) { /* references for the task; the node keeps its own for the rules of transforms */
        atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
        for (int i = 0; i < n->n_in; i++) kl_array_retain(n->in[i]);
    } else { /* the outputs drop the node, which from here on belongs to the task alone */
        for (int i = 0; i < n->n_out; i++) n->out[i]->node = NULL;
        n->n_in = 0;
        /* From here on another thread may abandon the task. */
        if (!has_effect(n)) atomic_store_explicit(&n->out[0]->task, n, memory_order_release);
    }
    if (s != n->stream) kl_stream_shares(n->stream);
    kl_stream_stage(s, &n->task);
}

/* The stream of this thread's last commit. A caller that hands over more than that stream can take
 * is slowed down there. */
static __thread struct kl_stream *last_stream;

struct kept { /* a stream whose role the committing caller holds */
    struct kl_stream *stream;
    uint64_t ticket;    /* of the last task */
    uint64_t n_claimed; /* tasks of the commit */
};

/* The tasks that the caller of async_eval encodes for an idle device. More than twice as many begin
 * a command buffer: a program that evaluates the same again and again then gives the device the
 * same commands, whether or not it has the end of the evaluation before. */
enum { AT_ONCE = 64 };

/* Whether s belongs to a device and has nothing to do but the last n tasks. */
static bool idle_device(struct kl_stream *s, uint64_t last_ticket, uint64_t n) {
    return kl_stream_device_type(s) == KL_GPU &&
           last_ticket - kl_timeline_done(kl_stream_timeline(s)) <= n;
}

/* Commits the arrays. The caller keeps the role of the last node's stream when that role is free:
 * always, or only for a device that is idle. */
static int commit(struct kl_array *const *arrays, size_t n, bool always, struct kept *kept,
                  struct kl_error **err) {
    struct kl_list garbage; /* of view nodes, which are freed outside the lock */
    kl_list_init(&garbage);
    uint64_t self = kl_thread_id();
    kl_commit_lock();
    int rc = collect(arrays, n, err);
    struct kl_node **order = walk.order, *last = NULL;
    struct kl_array *unused = NULL;
    size_t n_order = walk.n_order;
    uint64_t n_claimed = 0;
    if (!rc) kl_arrange(order, n_order);
    if (!rc && walk.n_scalar && walk.n_fused > 1) order = scalars_early(order, n_order);
    /* A value that is computed twice has two readers, and so takes three operations. */
    if (!rc && walk.n_large > 2) unused = kl_recompute(&order, &n_order, walk.mark);
    for (size_t i = 0; i < n_order && !rc; i++) {
        if (kl_op_flags(order[i]->task.op) & KL_OPF_VIEW) {
            claim_view(order[i], &garbage);
        } else {
            last = order[i];
            claim(last, self, n_claimed++ == 0 && n_order > 2 * AT_ONCE);
        }
    }
    if (last) {
        struct kl_stream *s = last_stream = stream_of(last);
        uint64_t ticket = last->task.ticket;
        /* From here on the tasks may run, and may be freed. */
        bool keep = always || idle_device(s, ticket, n_claimed);
        if (kl_streams_append(keep ? s : NULL)) *kept = (struct kept){s, ticket, n_claimed};
    }
    kl_commit_unlock();
    for (struct kl_link *k; (k = kl_list_pop(&garbage));)
        kl_node_let_go(kl_container(k, struct kl_node, task.link));
    while (unused) {
        struct kl_array *a = unused;
        unused = a->next_dead;
        kl_array_release(a);
    }
    return rc;
}

bool kl_array_settled(const struct kl_array *a) {
    return kl_fate_settled(a->t.fate);
}

static bool all_settled(struct kl_array *const *arrays, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!kl_array_settled(arrays[i])) return false;
    return true;
}

static int prepare(struct kl_array *const *arrays, size_t n, struct kl_error **err) {
    KL_TRY(kl_runtime_ready(err));
    kl_wait_begin();
    return kl_runtime_back_pressure(last_stream, err);
}

int kl_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err) {
    if (!all_settled(arrays, n)) {
        struct kept kept = {NULL, 0, 0};
        KL_TRY(prepare(arrays, n, err));
        KL_TRY(commit(arrays, n, true, &kept, err));
        if (kept.stream) kl_stream_run_kept(kept.stream, kept.ticket, false);
        for (size_t i = 0; i < n; i++) KL_TRY(kl_wait_fate(arrays[i]->t.fate, err));
    }
    for (size_t i = 0; i < n; i++) {
        struct kl_error *e = kl_fate_error(arrays[i]->t.fate);
        if (!e) continue;
        kl_failures_delivered(e);
        return kl_fail_with(err, kl_error_retain(e));
    }
    return KL_OK;
}

int kl_async_eval(struct kl_array *const *arrays, size_t n, struct kl_error **err) {
    for (size_t i = 0; i < n; i++)
        if (kl_array_is_tracer(arrays[i]))
            return kl_fail(err, KL_ETRACE,
                           "Not allowed inside a graph transformation: array %zu depends on an "
                           "argument of a function that is being transformed: evaluate it with "
                           "eval, or after the function has returned",
                           i);
    if (all_settled(arrays, n)) return KL_OK;
    struct kept kept = {NULL, 0, 0};
    KL_TRY(prepare(arrays, n, err));
    KL_TRY(commit(arrays, n, false, &kept, err));
    /* Waking a thread of the pool takes longer than encoding a little work here, and an idle device
     * would have to wait for it. The pool encodes what comes after that, while the caller builds
     * what it wants next: a program that decodes a language model needs as long to build a step as
     * to encode it. */
    if (kept.stream)
        kl_stream_run_kept(kept.stream,
                           kept.n_claimed <= 2 * AT_ONCE ? UINT64_MAX
                                                         : kept.ticket - kept.n_claimed + AT_ONCE,
                           true);
    return KL_OK;
}

int kl_array_host(struct kl_array *a, void **data, struct kl_error **err) {
    static _Alignas(64) char nothing[64];
    KL_TRY(kl_eval(&a, 1, err));
    struct kl_backend *cpu;
    struct kl_block *b;
    KL_TRY(kl_device_backend(KL_CPU, 0, &cpu, err));
    KL_TRY(kl_buffer_reach(a->t.buffer, cpu->memory, &b, err));
    *data = b ? (char *)b->ptr + a->t.offset * (int64_t)kl_dtype_size(a->t.dtype) : nothing;
    return KL_OK;
}
