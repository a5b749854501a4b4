/* image.c - the same operation many times: an array with its node, built once and then copied, as
 * replays of plans do. */
#include <string.h>

#include "base/alloc.h"
#include "base/op/bounds.h"
#include "graph/node.h"
#include "graph/proof.h"
#include "graph/tracing.h"

struct kl_image {
    size_t bytes, node; /* of the whole; where the node begins */
    bool is_integer;    /* the output may have a proved range */
    /* an array and its node, as kl_array_op makes them, but for the inputs */
    _Alignas(16) char memory[];
};

int kl_image_new(struct kl_image **out, const struct kl_operation *o,
                 const struct kl_out_spec *spec, struct kl_error **err) {
    int64_t size, lo, hi;
    size_t node, bytes;
    KL_TRY(kl_array_op_size(o, spec, &size, &node, &bytes, err));
    struct kl_image *m = kl_malloc(sizeof *m + bytes);
    if (!m) return kl_fail_nomem(err);
    m->bytes = bytes;
    m->node = node;
    m->is_integer = kl_int_limits(spec->dtype, &lo, &hi);
    kl_array_op_init(m->memory, o, spec, size);
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
        a->shapeless = kl_inputs_shapeless(in, n_in);
    }
    const enum kl_op_id op = n->task.op;
    if (kl_op_flags(op) & KL_OPF_CHECKED)
        n->task.proved = !kl_bounds_checked() || kl_op_indices_proved(op, n->task.params, in, n_in);
    if (m->is_integer) kl_op_prove_range(a, op, in, n_in);
    *out = a;
    return KL_OK;
}
