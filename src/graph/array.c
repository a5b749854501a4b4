/* array.c - builds and frees arrays and nodes. eval.c evaluates them. */
#include "graph/array.h"

#include <string.h>

#include "base/alloc.h"
#include "base/number/half.h"
#include "base/op/bounds.h"
#include "base/op/op_params.h"
#include "base/refs.h"
#include "graph/node.h"
#include "graph/proof.h"
#include "graph/tracing.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

/* ---- freeing, without recursion ---- */

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

struct kl_array *kl_array_retain(struct kl_array *a) {
    if (a) atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void kl_array_release(struct kl_array *a) {
    if (a) free_all(drop_onto(a, NULL));
}

void kl_node_release(struct kl_node *n) {
    if (kl_refs_drop(&n->refs)) free_all(node_free(n, NULL));
}

/* ---- building ---- */

static size_t align16(size_t n) {
    return (n + 15) & ~(size_t)15;
}

static size_t array_bytes(int ndim) {
    return align16(sizeof(struct kl_array) + (size_t)ndim * (sizeof(int64_t) + sizeof(int)));
}

/* An array without a node, in memory of array_bytes(ndim). strides NULL: row-major. */
static void array_init(struct kl_array *a, enum kl_dtype dtype, int ndim, const int *dims,
                       const int64_t *strides, int64_t size, int64_t offset, struct kl_fate *fate,
                       struct kl_buffer *buffer) {
    size_t n = (size_t)ndim;
    int64_t *own_strides = (int64_t *)(a + 1);
    int *own_dims = (int *)(own_strides + n);
    if (n) memcpy(own_dims, dims, n * sizeof *dims);
    if (strides && n)
        memcpy(own_strides, strides, n * sizeof *strides);
    else
        kl_strides_row_major(ndim, dims, own_strides);
    atomic_init(&a->refs, 1);
    a->out_index = 0;
    a->has_range = false;
    a->implicit = false;
    a->multi = false;
    a->stopped = false;
    a->shapeless = false;
    a->is_let_go = false;
    atomic_init(&a->task, NULL);
    a->lo = a->hi = 0;
    a->node = NULL;
    a->trace = NULL;
    a->next_dead = NULL;
    a->parts = NULL;
    a->t = (struct kl_tensor){.dtype = (uint8_t)dtype,
                              .ndim = ndim,
                              .size = size,
                              .offset = offset,
                              .dims = own_dims,
                              .strides = own_strides,
                              .fate = fate,
                              .buffer = buffer};
    a->t.layout = kl_layout_of(ndim, own_dims, own_strides);
}

/* A row-major array with its own buffer, in memory of own_bytes(ndim). fate NULL: it also gets its
 * own pending fate. `more`: how many other parts share the allocation. */
static size_t own_bytes(int ndim) {
    return array_bytes(ndim) + align16(sizeof(struct kl_parts));
}

static struct kl_array *array_init_own(void *memory, enum kl_dtype dtype, int ndim, const int *dims,
                                       int64_t size, struct kl_fate *fate, uint32_t more) {
    struct kl_array *a = memory;
    struct kl_parts *p = (struct kl_parts *)((char *)a + array_bytes(ndim));
    kl_parts_init(p, a, (fate ? 2 : 3) + more, (size_t)size * kl_dtype_size(dtype));
    array_init(a, dtype, ndim, dims, NULL, size, 0, fate ? fate : &p->fate, &p->buffer);
    a->parts = p;
    return a;
}

/* Takes the fate, also on failure. */
static struct kl_array *array_new(enum kl_dtype dtype, int ndim, const int *dims, int64_t size,
                                  struct kl_fate *fate) {
    void *memory = kl_malloc(own_bytes(ndim));
    if (memory) return array_init_own(memory, dtype, ndim, dims, size, fate, 0);
    kl_fate_release(fate);
    return NULL;
}

static int check_shape(enum kl_dtype dtype, int ndim, const int *dims, int64_t *size,
                       struct kl_error **err) {
    if (!kl_dtype_valid((int)dtype)) return kl_fail(err, KL_EDTYPE, "%d is no dtype", (int)dtype);
    if (ndim < 0 || (ndim > 0 && !dims))
        return kl_fail(err, KL_ESHAPE, "a shape of %d axes without dims", ndim);
    for (int i = 0; i < ndim; i++)
        if (dims[i] < 0)
            return kl_fail(err, KL_ESHAPE, "axis %d has size %d; sizes are 0 or more", i, dims[i]);
    if (!kl_shape_size(ndim, dims, kl_dtype_size(dtype), size))
        return kl_fail(err, KL_ELIMIT, "the shape has more elements than can be addressed");
    return KL_OK;
}

static int cpu_memory(struct kl_memory **m, struct kl_error **err) {
    struct kl_backend *b;
    KL_TRY(kl_device_backend(KL_CPU, 0, &b, err));
    *m = b->memory;
    return KL_OK;
}

int kl_array_new_data(struct kl_array **out, const void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, struct kl_error **err) {
    int64_t size;
    struct kl_memory *m;
    KL_TRY(check_shape(dtype, ndim, dims, &size, err));
    KL_TRY(cpu_memory(&m, err));
    size_t bytes = (size_t)size * kl_dtype_size(dtype);
    struct kl_array *a = array_new(dtype, ndim, dims, size, kl_fate_ready());
    if (!a) return kl_fail_nomem(err);
    if (bytes) {
        int rc = kl_block_alloc(m, bytes, NULL, &a->t.buffer->block, err);
        if (rc) {
            kl_array_release(a);
            return rc;
        }
        if (data) memcpy(a->t.buffer->block->ptr, data, bytes);
    }
    *out = a;
    return KL_OK;
}

int kl_array_new_user(struct kl_array **out, void *data, enum kl_dtype dtype, int ndim,
                      const int *dims, void *payload, void (*dtor)(void *), struct kl_error **err) {
    int64_t size;
    KL_TRY(check_shape(dtype, ndim, dims, &size, err));
    size_t bytes = (size_t)size * kl_dtype_size(dtype);
    struct kl_array *a = array_new(dtype, ndim, dims, size, kl_fate_ready());
    if (!a) return kl_fail_nomem(err);
    struct kl_block *b = kl_block_new_user(data, bytes, payload, dtor);
    if (!b) {
        kl_array_release(a);
        return kl_fail_nomem(err);
    }
    a->t.buffer->block = b;
    *out = a;
    return KL_OK;
}

int kl_array_new_scalar(struct kl_array **out, double x, enum kl_dtype dtype,
                        struct kl_error **err) {
    union {
        uint64_t u64;
        float c64[2];
        double f64;
        float f32;
        uint16_t u16;
        uint8_t u8;
        uint32_t u32;
    } v = {0};
    /* Callers pass whole numbers for integer types; the number must fit into the type. */
    switch (dtype) {
    case KL_BOOL: v.u8 = x != 0; break;
    case KL_U8:
    case KL_I8: v.u8 = (uint8_t)(int64_t)x; break;
    case KL_U16:
    case KL_I16: v.u16 = (uint16_t)(int64_t)x; break;
    case KL_U32:
    case KL_I32: v.u32 = (uint32_t)(int64_t)x; break;
    case KL_U64: v.u64 = x < 9.2e18 ? (uint64_t)(int64_t)x : (uint64_t)x; break;
    case KL_I64: v.u64 = (uint64_t)(int64_t)x; break;
    case KL_F16:
        v.u16 = kl_f32_to_f16(kl_f64_to_f32_odd(x)); /* so that the value is rounded only once */
        break;
    case KL_BF16: v.u16 = kl_f32_to_bf16(kl_f64_to_f32_odd(x)); break;
    case KL_F32: v.f32 = (float)x; break;
    case KL_F64: v.f64 = x; break;
    case KL_C64: v.c64[0] = (float)x; break;
    default: return kl_fail(err, KL_EDTYPE, "%d is no dtype", (int)dtype);
    }
    return kl_array_new_data(out, &v, dtype, 0, NULL, err);
}

int kl_array_new_failed(struct kl_array **out, enum kl_dtype dtype, int ndim, const int *dims,
                        struct kl_error *e, struct kl_error **err) {
    int64_t size;
    KL_TRY(check_shape(dtype, ndim, dims, &size, err));
    struct kl_array *a = array_new(dtype, ndim, dims, size, NULL);
    if (!a) return kl_fail_nomem(err);
    kl_fate_set_failed(a->t.fate, e);
    *out = a;
    return KL_OK;
}

/* Whether a can still be walked back from. The end of a trace may clear the field meanwhile. */
static bool has_node(struct kl_array *a) {
    return __atomic_load_n(&a->node, __ATOMIC_ACQUIRE) != NULL;
}

static bool owns_input(struct kl_task *t, int i) {
    struct kl_node *n = kl_container(t, struct kl_node, task);
    struct kl_array *a = n->in[i];
    /* The only reference to the array is the task's, so no other thread can take one. The same
     * holds for the buffer. */
    return atomic_load_explicit(&a->refs, memory_order_acquire) == 1 && !has_node(a) &&
           kl_buffer_sole_owner(a->t.buffer);
}

static bool read_only_by(struct kl_task *t, int readers) {
    struct kl_node *n = kl_container(t, struct kl_node, task);
    struct kl_array *a = n->out[0];
    /* The task has a reference, and so has each input that is this array. No other thread can take
     * a reference from these. */
    return n->n_out == 1 && !a->multi &&
           atomic_load_explicit(&a->refs, memory_order_acquire) == 1 + (uint32_t)readers &&
           !has_node(a) && kl_buffer_sole_owner(a->t.buffer);
}

static void release_inputs(struct kl_task *t) {
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

static void finish(struct kl_task *t) {
    let_go(kl_container(t, struct kl_node, task));
}

void kl_node_let_go(struct kl_node *n) {
    if (n->n_out > 1)
        let_go(n);
    else
        kl_node_release(n);
}

static size_t node_bytes(size_t params_bytes, int n_in, int n_out) {
    return align16(sizeof(struct kl_node) + 2 * ((size_t)n_in + (size_t)n_out) * sizeof(void *)) +
           params_bytes;
}

static __thread struct kl_origin origin; /* of what this thread builds */

struct kl_origin kl_origin_set(struct kl_origin o) {
    struct kl_origin before = origin;
    origin = o;
    return before;
}

struct kl_origin kl_origin_get(void) {
    return origin;
}

struct kl_origin kl_alias_set(enum kl_alias alias) {
    struct kl_origin o = origin;
    if (o.kind == KL_ORIGIN_USER && !o.alias) o.alias = alias & 31;
    return kl_origin_set(o);
}

void kl_array_note_lanes(struct kl_array *a, int lanes, bool source) {
    struct kl_node *n = a->node;
    /* A builder may give a view, or an input, when there is nothing to do. */
    if (!n || !(kl_op_flags(n->task.op) & KL_OPF_CHECKED) || atomic_load(&a->refs) != 1) return;
    struct kl_origin *o = &n->task.origin;
    if (lanes) o->lanes = o->lanes ? o->lanes * lanes : lanes;
    o->lane_axes += source;
}

/* A node in memory of node_bytes, whose inputs are not set yet. Field by field, because compilers
 * clear a struct of this size with an instruction that takes 10 ns to start. */
static inline void node_init_alone(struct kl_node *n, struct kl_parts *parts,
                                   const struct kl_operation *o, int n_out) {
    const int n_in = o->n_in;
    _Static_assert(sizeof(void *) != 8 || sizeof(struct kl_node) == 216, "all fields are set here");
    n->parts = parts;
    atomic_init(&n->refs, 1);
    n->stream = o->stream;
    n->mark = 0;
    n->kept.prev = n->kept.next = NULL;
    n->may_be_kept = n->was_kept = n->claimed = false;
    n->index = 0;
    n->n_in = n_in;
    n->n_out = n_out;
    n->in = (struct kl_array **)(n + 1);
    n->out = n->in + n_in;
    n->task.in = (struct kl_tensor **)(n->out + n_out);
    n->task.out = n->task.in + n_in;
    void *own = (char *)n + node_bytes(0, n_in, n_out);
    if (o->params_bytes) memcpy(own, o->params, o->params_bytes);
    n->task.link.prev = n->task.link.next = NULL;
    n->task.ticket = n->task.submitter = 0;
    n->task.workspace = NULL;
    n->task.proved = false;
    atomic_init(&n->task.state, 0);
    n->task.op = o->op;
    n->task.params = own;
    n->task.params_bytes = o->params_bytes;
    n->task.n_in = n_in;
    n->task.n_out = n_out;
    n->task.owns_input = owns_input;
    n->task.read_only_by = read_only_by;
    n->task.release_inputs = release_inputs;
    n->task.finish = finish;
    n->task.origin = origin;
}

/* A node that retains its inputs. */
static void node_init(struct kl_node *n, struct kl_parts *parts, const struct kl_operation *o,
                      int n_out) {
    node_init_alone(n, parts, o, n_out);
    for (int i = 0; i < o->n_in; i++) {
        n->in[i] = kl_array_retain(o->in[i]);
        n->task.in[i] = &o->in[i]->t;
    }
}

static void set_out(struct kl_node *n, int i, struct kl_array *a) {
    a->out_index = (uint32_t)i;
    n->out[i] = a;
    n->task.out[i] = &a->t;
}

/* A node and its only output in one allocation. Nearly every operation is built this way. */
static int node_with_output(struct kl_node **node, const struct kl_out_spec *spec,
                            const struct kl_operation *o, struct kl_error **err) {
    int64_t size;
    KL_TRY(check_shape(spec->dtype, spec->ndim, spec->dims, &size, err));
    char *memory = kl_malloc(own_bytes(spec->ndim) + node_bytes(o->params_bytes, o->n_in, 1));
    if (!memory) return kl_fail_nomem(err);
    struct kl_array *a = array_init_own(memory, spec->dtype, spec->ndim, spec->dims, size, NULL, 1);
    struct kl_node *n = (struct kl_node *)(memory + own_bytes(spec->ndim));
    node_init(n, a->parts, o, 1);
    set_out(n, 0, a);
    *node = n;
    return KL_OK;
}

/* A node and several outputs, each in its own allocation, because they are freed at different
 * times. */
static int node_with_outputs(struct kl_node **node, int n_out, const struct kl_out_spec *specs,
                             const struct kl_operation *o, struct kl_error **err) {
    struct kl_node *n = kl_malloc(node_bytes(o->params_bytes, o->n_in, n_out));
    if (!n) return kl_fail_nomem(err);
    node_init(n, NULL, o, n_out);
    int rc = KL_OK, made = 0;
    for (; made < n_out; made++) {
        const struct kl_out_spec *spec = &specs[made];
        int64_t size;
        if ((rc = check_shape(spec->dtype, spec->ndim, spec->dims, &size, err))) break;
        struct kl_array *a = array_new(spec->dtype, spec->ndim, spec->dims, size, NULL);
        if (!a) {
            rc = kl_fail_nomem(err);
            break;
        }
        a->multi = true;
        atomic_store(&a->refs, 2); /* the caller's reference and the node's */
        set_out(n, made, a);
    }
    *node = n;
    if (!rc) return KL_OK;
    n->n_out = made;
    return rc;
}

/* Frees a node that could not be completed. The caller keeps whatever the parameters own. */
static void abandon(struct kl_node *n) {
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

static bool any_shapeless(struct kl_array *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i]->shapeless) return true;
    return false;
}

int kl_array_op(struct kl_array **outs, int n_out, const struct kl_out_spec *specs,
                const struct kl_operation *o, struct kl_error **err) {
    const enum kl_op_id op = o->op;
    kl_assert(n_out >= 1 && !(kl_op_flags(op) & KL_OPF_VIEW));
    struct kl_node *n = NULL;
    struct kl_trace *trace;
    KL_TRY(kl_trace_of_inputs(&trace, o->in, o->n_in, err));
    int rc = n_out == 1 ? node_with_output(&n, specs, o, err)
                        : node_with_outputs(&n, n_out, specs, o, err);
    if (!rc && op == KL_OP_CALL) {
        size_t bytes = ((const struct kl_call_params *)o->params)->workspace_bytes;
        if (bytes && !(n->task.workspace = kl_buffer_new(bytes))) rc = kl_fail_nomem(err);
    }
    if (rc) {
        if (n) abandon(n);
        return rc;
    }
    n->may_be_kept = trace || op == KL_OP_PLACEHOLDER;
    n->task.proved =
        (kl_op_flags(op) & KL_OPF_CHECKED) &&
        (!kl_bounds_checked() || kl_op_indices_proved(op, n->task.params, o->in, o->n_in));
    for (int i = 0; i < n_out; i++) {
        n->out[i]->node = n;
        n->out[i]->trace = kl_trace_retain(trace);
        n->out[i]->shapeless = trace && any_shapeless(o->in, o->n_in);
        outs[i] = n->out[i];
    }
    /* Only the user knows how the results of these follow from the extents. */
    if (op == KL_OP_CALL || op == KL_OP_KERNEL) kl_trace_note_fixed(outs[0], op);
    if (n_out == 1) kl_op_prove_range(outs[0], op, o->in, o->n_in);
    return KL_OK;
}

int kl_array_op1(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype, int ndim,
                 const int *dims, struct kl_error **err) {
    struct kl_out_spec spec = {dtype, ndim, dims};
    return kl_array_op(out, 1, &spec, o, err);
}

/* ---- the same operation many times ---- */

struct kl_image {
    size_t bytes, node; /* of the whole; where the node begins */
    bool is_integer;    /* the output may have a proved range */
    /* an array and its node, as node_with_output makes them, but for the inputs */
    _Alignas(16) char memory[];
};

int kl_image_new(struct kl_image **out, const struct kl_operation *o,
                 const struct kl_out_spec *spec, struct kl_error **err) {
    int64_t size, lo, hi;
    KL_TRY(check_shape(spec->dtype, spec->ndim, spec->dims, &size, err));
    const size_t node = own_bytes(spec->ndim),
                 bytes = node + node_bytes(o->params_bytes, o->n_in, 1);
    struct kl_image *m = kl_malloc(sizeof *m + bytes);
    if (!m) return kl_fail_nomem(err);
    m->bytes = bytes;
    m->node = node;
    m->is_integer = kl_int_limits(spec->dtype, &lo, &hi);
    struct kl_array *a =
        array_init_own(m->memory, spec->dtype, spec->ndim, spec->dims, size, NULL, 1);
    struct kl_node *n = (struct kl_node *)(m->memory + node);
    node_init_alone(n, a->parts, o, 1);
    set_out(n, 0, a);
    a->node = n;
    *out = m;
    return KL_OK;
}

/* Pointers into the image become pointers into its copy, `distance` bytes after it. */
static void move_pointers(struct kl_array *a, struct kl_node *n, ptrdiff_t distance) {
#define MOVE(type, p) ((p) = (type)((uintptr_t)(p) + (uintptr_t)distance))
    MOVE(struct kl_node *, a->node);
    MOVE(struct kl_parts *, a->parts);
    MOVE(const int *, a->t.dims);
    MOVE(const int64_t *, a->t.strides);
    MOVE(struct kl_fate *, a->t.fate);
    MOVE(struct kl_buffer *, a->t.buffer);
    MOVE(void *, a->parts->memory);
    MOVE(struct kl_parts *, a->parts->fate.parts);
    MOVE(struct kl_parts *, a->parts->buffer.parts);
    MOVE(struct kl_parts *, n->parts);
    MOVE(struct kl_array **, n->in);
    MOVE(struct kl_array **, n->out);
    MOVE(struct kl_tensor **, n->task.in);
    MOVE(struct kl_tensor **, n->task.out);
    MOVE(const void *, n->task.params);
    MOVE(struct kl_array *, n->out[0]);
    MOVE(struct kl_tensor *, n->task.out[0]);
#undef MOVE
}

int kl_array_of_image(struct kl_array **out, const struct kl_image *m, struct kl_array *const *in,
                      struct kl_stream *s, struct kl_error **err) {
    const int n_in = ((const struct kl_node *)(m->memory + m->node))->n_in;
    struct kl_trace *trace;
    KL_TRY(kl_trace_of_inputs(&trace, in, n_in, err));
    char *memory = kl_malloc(m->bytes);
    if (!memory) return kl_fail_nomem(err);
    memcpy(memory, m->memory, m->bytes);
    struct kl_array *a = (struct kl_array *)memory;
    struct kl_node *n = (struct kl_node *)(memory + m->node);
    move_pointers(a, n, memory - m->memory);
    n->stream = s;
    for (int i = 0; i < n_in; i++) {
        n->in[i] = in[i];
        n->task.in[i] = &in[i]->t;
    }
    if (trace) {
        n->may_be_kept = true;
        a->trace = kl_trace_retain(trace);
        a->shapeless = any_shapeless(in, n_in);
    }
    const enum kl_op_id op = n->task.op;
    if (kl_op_flags(op) & KL_OPF_CHECKED)
        n->task.proved = !kl_bounds_checked() || kl_op_indices_proved(op, n->task.params, in, n_in);
    if (m->is_integer) kl_op_prove_range(a, op, in, n_in);
    *out = a;
    return KL_OK;
}

int kl_array_view_as(struct kl_array **out, enum kl_op_id op, const void *params,
                     size_t params_bytes, struct kl_array *base, enum kl_dtype dtype, int ndim,
                     const int *dims, const int64_t *strides, int64_t start,
                     struct kl_error **err) {
    int64_t size;
    KL_TRY(check_shape(dtype, ndim, dims, &size, err));
    struct kl_array *a = kl_malloc(array_bytes(ndim));
    if (!a) return kl_fail_nomem(err);
    array_init(a, dtype, ndim, dims, strides, size, start, kl_fate_retain(base->t.fate),
               kl_buffer_retain(base->t.buffer));
    a->has_range = base->has_range && dtype == (enum kl_dtype)base->t.dtype;
    a->lo = base->lo;
    a->hi = base->hi;
    /* A view of a settled value needs no node to make it. A tracer keeps its node for the rules of
     * transforms. */
    struct kl_trace *trace = base->trace ? kl_trace_live(base->trace) : NULL;
    if (!kl_fate_settled(base->t.fate) || trace) {
        struct kl_node *n = kl_malloc(node_bytes(params_bytes, 1, 1));
        if (!n) {
            kl_array_release(a);
            return kl_fail_nomem(err);
        }
        struct kl_operation o = {
            .op = op, .params = params, .params_bytes = params_bytes, .in = &base, .n_in = 1};
        node_init(n, NULL, &o, 1);
        set_out(n, 0, a);
        a->node = n;
        n->may_be_kept = trace != NULL;
        a->trace = kl_trace_retain(trace);
        a->shapeless = base->shapeless;
    }
    *out = a;
    return KL_OK;
}

int kl_array_traced_view(struct kl_array **out, struct kl_array *x, struct kl_trace *t,
                         struct kl_error **err) {
    struct kl_array *a = kl_malloc(array_bytes(x->t.ndim));
    struct kl_node *n = a ? kl_malloc(node_bytes(0, 1, 1)) : NULL;
    if (!n) {
        kl_free(a);
        return kl_fail_nomem(err);
    }
    array_init(a, (enum kl_dtype)x->t.dtype, x->t.ndim, x->t.dims, x->t.strides, x->t.size,
               x->t.offset, kl_fate_retain(x->t.fate), kl_buffer_retain(x->t.buffer));
    struct kl_operation o = {.op = KL_OP_ARGUMENT, .in = &x, .n_in = 1};
    node_init(n, NULL, &o, 1);
    set_out(n, 0, a);
    a->node = n;
    a->has_range = x->has_range;
    a->lo = x->lo;
    a->hi = x->hi;
    a->trace = kl_trace_retain(t);
    a->shapeless = x->shapeless;
    n->may_be_kept = true;
    *out = a;
    return KL_OK;
}

int kl_array_view_many(struct kl_array **outs, int n_out, const struct kl_operation *o,
                       struct kl_error **err) {
    struct kl_trace *trace;
    KL_TRY(kl_trace_of_inputs(&trace, o->in, o->n_in, err));
    struct kl_node *n = kl_malloc(node_bytes(o->params_bytes, o->n_in, n_out));
    if (!n) return kl_fail_nomem(err);
    int made = 0;
    for (; made < n_out; made++) {
        struct kl_array *x = o->in[made], *a = kl_malloc(array_bytes(x->t.ndim));
        if (!a) break;
        array_init(a, (enum kl_dtype)x->t.dtype, x->t.ndim, x->t.dims, x->t.strides, x->t.size,
                   x->t.offset, kl_fate_retain(x->t.fate), kl_buffer_retain(x->t.buffer));
        outs[made] = a;
    }
    if (made < n_out) {
        while (made--) {
            kl_array_release(outs[made]);
            outs[made] = NULL;
        }
        kl_free(n);
        return kl_fail_nomem(err);
    }
    node_init(n, NULL, o, n_out);
    n->may_be_kept = trace != NULL;
    for (int i = 0; i < n_out; i++) {
        struct kl_array *a = outs[i];
        a->has_range = o->in[i]->has_range;
        a->lo = o->in[i]->lo;
        a->hi = o->in[i]->hi;
        a->trace = kl_trace_retain(trace);
        a->shapeless = trace && any_shapeless(o->in, o->n_in);
        set_out(n, i, a);
        a->node = n;
        if (n_out == 1) continue;
        a->multi = true;
        atomic_store(&a->refs, 2); /* the caller's reference and the node's */
    }
    return KL_OK;
}

int kl_array_view(struct kl_array **out, enum kl_op_id op, const void *params, size_t params_bytes,
                  struct kl_array *base, int ndim, const int *dims, const int64_t *strides,
                  int64_t offset, struct kl_error **err) {
    return kl_array_view_as(out, op, params, params_bytes, base, (enum kl_dtype)base->t.dtype, ndim,
                            dims, strides, base->t.offset + offset, err);
}

struct kl_stream *kl_array_stream(struct kl_array *a) {
    kl_commit_lock();
    struct kl_node *n = a->node;
    while (n && !n->stream && n->n_in > 0) n = n->in[0]->node; /* a view: go to its base */
    struct kl_stream *s = n && !n->claimed ? n->stream : NULL;
    kl_commit_unlock();
    return s;
}

bool kl_array_of_placeholder(struct kl_array *a) {
    if (!a->trace) return false;
    kl_commit_lock();
    struct kl_node *n = a->node;
    for (uint32_t i = a->out_index; n && (kl_op_flags(n->task.op) & KL_OPF_VIEW) && n->n_in > 0;) {
        struct kl_array *base = n->in[i];
        n = base->node;
        i = base->out_index;
    }
    bool found = n && n->task.op == KL_OP_PLACEHOLDER;
    kl_commit_unlock();
    return found;
}

void kl_array_set_range(struct kl_array *a, int64_t lo, int64_t hi) {
    a->has_range = true;
    a->lo = lo;
    a->hi = hi;
}
