/* array.c - builds arrays and nodes. lifetime.c frees them, eval.c evaluates them. */
#include "graph/array.h"

#include <string.h>

#include "backend/collective/group.h"
#include "base/alloc.h"
#include "base/number/half.h"
#include "base/op/bounds.h"
#include "base/op/op_params.h"
#include "graph/node.h"
#include "graph/proof.h"
#include "graph/tracing.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

struct kl_array *kl_array_retain(struct kl_array *a) {
    if (a) atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
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

/* A node in memory of node_bytes bytes, whose inputs are not set yet. Field by field, because
 * compilers clear a struct of this size with an instruction that takes 10 ns to start. */
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
    n->task.owns_input = kl_node_owns_input;
    n->task.read_only_by = kl_node_read_only_by;
    n->task.release_inputs = kl_node_release_inputs;
    n->task.finish = kl_node_finish;
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

int kl_array_op_size(const struct kl_operation *o, const struct kl_out_spec *spec, int64_t *size,
                     size_t *node, size_t *bytes, struct kl_error **err) {
    KL_TRY(check_shape(spec->dtype, spec->ndim, spec->dims, size, err));
    *node = own_bytes(spec->ndim);
    *bytes = *node + node_bytes(o->params_bytes, o->n_in, 1);
    return KL_OK;
}

void kl_array_op_init(char *memory, const struct kl_operation *o, const struct kl_out_spec *spec,
                      int64_t size) {
    struct kl_array *a = array_init_own(memory, spec->dtype, spec->ndim, spec->dims, size, NULL, 1);
    struct kl_node *n = (struct kl_node *)(memory + own_bytes(spec->ndim));
    node_init_alone(n, a->parts, o, 1);
    set_out(n, 0, a);
    a->node = n;
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
    if (!rc && kl_op_is_collective(op))
        rc = kl_collective_prepare(&n->task, o->stream, kl_stream_index(o->stream), err);
    if (rc) {
        if (n) kl_node_abandon(n);
        return rc;
    }
    n->may_be_kept = trace || op == KL_OP_PLACEHOLDER;
    n->task.proved =
        (kl_op_flags(op) & KL_OPF_CHECKED) &&
        (!kl_bounds_checked() || kl_op_indices_proved(op, n->task.params, o->in, o->n_in));
    for (int i = 0; i < n_out; i++) {
        n->out[i]->node = n;
        n->out[i]->trace = kl_trace_retain(trace);
        n->out[i]->shapeless = trace && kl_inputs_shapeless(o->in, o->n_in);
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
        a->shapeless = trace && kl_inputs_shapeless(o->in, o->n_in);
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

/* Whether n is still to compute its array on the stream s by an element-wise operation without
 * parameters. */
static bool is_map(const struct kl_node *n, const struct kl_stream *s) {
    return n && !n->claimed && n->stream == s && n->n_in <= KL_MAP_INPUTS &&
           kl_op_flags(n->task.op) & KL_OPF_ELEMENTWISE && !n->task.params_bytes;
}

struct kl_array *kl_array_turned_map(struct kl_array *a, const struct kl_stream *s) {
    struct kl_array *base = NULL;
    kl_commit_lock();
    const struct kl_node *n = a->node;
    if (n && n->task.op == KL_OP_TRANSPOSE && is_map(n->in[0]->node, s))
        base = kl_array_retain(n->in[0]);
    kl_commit_unlock();
    return base;
}

bool kl_array_map_parts(struct kl_array *a, const struct kl_stream *s, struct kl_map_parts *p) {
    kl_commit_lock();
    const struct kl_node *n = a->node;
    const bool is = is_map(n, s);
    if (is) {
        p->op = n->task.op;
        p->n_in = n->n_in;
        for (int i = 0; i < n->n_in; i++) p->in[i] = kl_array_retain(n->in[i]);
    }
    kl_commit_unlock();
    return is;
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
