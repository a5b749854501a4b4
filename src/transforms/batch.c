/* batch.c - vmap. The function is traced once for one lane, with placeholders; then every operation
 * that depends on them is made for all lanes by the rule of its row. */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/check.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"
#include "transforms/custom.h"
#include "transforms/deferred.h"
#include "transforms/tape.h"
#include "transforms/transforms.h"

/* Checks the axes and finds the number of lanes. */
static int count_lanes(struct kl_array *const *inputs, size_t n, const int *in_axes, int *lanes,
                       struct kl_error **err) {
    *lanes = -1;
    for (size_t i = 0; i < n; i++) {
        if (in_axes[i] == KL_VMAP_NONE) continue;
        if (in_axes[i] < 0 || in_axes[i] >= inputs[i]->t.ndim)
            return kl_fail_axis(
                err, in_axes[i],
                "in_axes[%zu] is %d, and the input has %d axes (-1: the same for all "
                "lanes)",
                i, in_axes[i], inputs[i]->t.ndim);
        int extent = inputs[i]->t.dims[in_axes[i]];
        if (*lanes >= 0 && extent != *lanes)
            return kl_fail(err, KL_ESHAPE,
                           "axis %d of input %zu has size %d, and an earlier input has %d lanes",
                           in_axes[i], i, extent, *lanes);
        *lanes = extent;
    }
    if (*lanes < 0) return kl_fail(err, KL_EARG, "no input has an axis of lanes");
    return KL_OK;
}

static int placeholder_for(struct kl_array **out, struct kl_trace *t, const struct kl_array *x,
                           int axis, struct kl_error **err) {
    struct kl_shape lane = {0};
    for (int d = 0; d < x->t.ndim; d++)
        if (d != axis) lane.dims[lane.ndim++] = x->t.dims[d];
    KL_TRY(kl_trace_placeholder(out, t, (enum kl_dtype)x->t.dtype, lane.ndim, lane.dims, err));
    (*out)->shapeless = x->shapeless;
    return KL_OK;
}

int kl_vmap_trace(const struct kl_function *f, struct kl_array *const *inputs, size_t n_inputs,
                  const int *in_axes, struct kl_arrays *lane_inputs, struct kl_arrays *lane_outputs,
                  struct kl_error **err) {
    struct kl_trace *t;
    int lanes;
    KL_TRY(count_lanes(inputs, n_inputs, in_axes, &lanes, err));
    KL_TRY(kl_trace_begin(&t, err));
    int rc = kl_arrays_new(lane_inputs, n_inputs, err);
    for (size_t i = 0; i < n_inputs && !rc; i++)
        rc = placeholder_for(&lane_inputs->v[i], t, inputs[i], in_axes[i], err);
    if (!rc) rc = kl_function_call(f, lane_inputs->v, n_inputs, lane_outputs, err);
    if (rc) {
        kl_arrays_free(lane_inputs);
        kl_arrays_free(lane_outputs);
    }
    kl_trace_end(t);
    return rc;
}

/* The values of all slots for all lanes, and where their lanes are: 0, or -1. */
struct batch {
    struct kl_tape tape;
    struct kl_arrays value;
    int *axis;
    int lanes;
};

/* *a, which has its lanes along `axis`, with them along axis 0. */
static int to_front(struct kl_array **a, int axis, struct kl_stream *s, struct kl_error **err) {
    struct kl_array *moved;
    if (axis <= 0) return KL_OK;
    KL_TRY(kl_moveaxis(&moved, *a, axis, 0, s, err));
    kl_array_release(*a);
    *a = moved;
    return KL_OK;
}

static int by_rule(const struct kl_node *n, const struct kl_arrays *in, const bool *mapped,
                   int lanes, struct kl_stream *s, struct kl_array **out, int *axis,
                   struct kl_error **err) {
    kl_vmap_fn *rule = kl_vmap_rule(n->task.op);
    if (!rule) return kl_fail(err, KL_EUNSUPPORTED, "the operation has no form for all lanes");
    struct kl_vmap v = {.op = n->task.op,
                        .params = n->task.params,
                        .params_bytes = n->task.params_bytes,
                        .n_in = n->n_in,
                        .in = in->v,
                        .mapped = mapped,
                        .lanes = lanes,
                        .s = s,
                        .dtype = (enum kl_dtype)n->out[0]->t.dtype,
                        .ndim = n->out[0]->t.ndim,
                        .dims = n->out[0]->t.dims};
    return rule(&v, out, axis, err);
}

static int make_step(struct batch *b, const struct kl_tape_step *step, const struct kl_arrays *in,
                     int *axes, bool *mapped, struct kl_stream *s, struct kl_error **err) {
    const struct kl_node *n = step->node;
    struct kl_array **out = &b->value.v[step->slot];
    int *axis = &b->axis[step->slot];
    bool any = false;
    for (int k = 0; k < n->n_in; k++) {
        int32_t from = b->tape.edges[step->edge + k];
        axes[k] = from >= 0 ? b->axis[from] : -1;
        mapped[k] = axes[k] >= 0;
        any |= mapped[k];
    }
    for (int i = 0; i < n->n_out; i++) axis[i] = -1;
    if (n->task.op == KL_OP_CUSTOM) {
        KL_TRY(kl_custom_vmap(n, in->v, axes, b->lanes, out, axis, err));
    } else if (!any || n->task.op == KL_OP_ARGUMENT) {
        KL_TRY(kl_step_again(step, in->v, s, out, err));
        axis[0] = axes[0];
    } else if (kl_defers_rules(n, in->v, n->n_in)) {
        KL_TRY(kl_deferred_vmap(out, n, in->v, mapped, s, err));
        axis[0] = 0;
    } else {
        KL_TRY(by_rule(n, in, mapped, b->lanes, s, out, axis, err));
    }
    for (int i = 0; i < n->n_out; i++) {
        KL_TRY(to_front(&out[i], axis[i], s, err));
        if (axis[i] > 0) axis[i] = 0;
    }
    return KL_OK;
}

static int batch_step(struct batch *b, const struct kl_tape_step *step, struct kl_error **err) {
    const struct kl_node *n = step->node;
    const size_t n_in = (size_t)n->n_in;
    struct kl_stream *s = step->s;
    struct kl_arrays in = {0};
    if (!s) KL_TRY(kl_transform_stream(&s, err));
    int *axes = kl_malloc((n_in + 1) * (sizeof *axes + sizeof(bool)));
    if (!axes) return kl_fail_nomem(err);
    int rc = kl_arrays_new(&in, n_in, err);
    for (size_t k = 0; k < n_in && !rc; k++) {
        int32_t from = b->tape.edges[step->edge + (int32_t)k];
        in.v[k] = kl_array_retain(from >= 0 ? b->value.v[from] : n->in[k]);
    }
    struct kl_origin o = kl_origin_of(KL_ORIGIN_BATCH, n), before = kl_origin_set(o);
    if (!rc) rc = make_step(b, step, &in, axes, (bool *)(axes + n_in + 1), s, err);
    if (rc) kl_origin_name_error(o, err);
    kl_origin_set(before);
    kl_arrays_free(&in);
    kl_free(axes);
    return rc;
}

/* An input that has lanes, and along which axis. */
struct lanes_of {
    struct kl_array *a;
    int axis;
};

/* Output i of the function for all lanes, with the lanes where the caller wants them. */
static int give_output(struct kl_array **out, struct kl_array *a, int axis, int out_axis, int lanes,
                       const struct lanes_of *of, size_t i, struct kl_stream *s,
                       struct kl_error **err) {
    const int ndim = a->t.ndim + (axis < 0);
    if (out_axis == KL_VMAP_NONE) {
        if (axis >= 0)
            return kl_fail(err, KL_EAXIS,
                           "out_axes[%zu] is -1, and output %zu is not the same for all lanes", i,
                           i);
        *out = kl_array_retain(a);
        return KL_OK;
    }
    if (out_axis < 0 || out_axis >= ndim)
        return kl_fail_axis(err, out_axis,
                            "out_axes[%zu] is %d, and output %zu has %d axes with lanes", i,
                            out_axis, i, ndim);
    if (axis >= 0) return kl_moveaxis(out, a, 0, out_axis, s, err);
    if (kl_is_shapeless(a) || kl_is_shapeless(of->a))
        return kl_deferred_lanes(out, a, out_axis, of->a, of->axis, s, err);
    struct kl_shape with = {.ndim = ndim};
    struct kl_array *room;
    for (int d = 0, from = 0; d < ndim; d++)
        with.dims[d] = d == out_axis ? lanes : a->t.dims[from++];
    KL_TRY(kl_expand_dims(&room, a, out_axis, s, err));
    int rc = kl_broadcast_to(out, room, with.dims, (size_t)ndim, s, err);
    kl_array_release(room);
    return rc;
}

static int replace_in(struct batch *b, struct kl_array *const *inputs, size_t n_inputs,
                      struct kl_array *const *lane_inputs, struct kl_array *const *lane_outputs,
                      size_t n_outputs, const int *in_axes, const int *out_axes, int32_t *slots,
                      struct kl_arrays *outputs, struct kl_error **err) {
    struct kl_stream *s;
    KL_TRY(kl_transform_stream(&s, err));
    KL_TRY(kl_tape_record(&b->tape, lane_inputs[0]->trace, lane_inputs, n_inputs, lane_outputs,
                          n_outputs, slots, true, err));
    KL_TRY(kl_arrays_new(&b->value, (size_t)b->tape.n_slots, err));
    b->axis = kl_malloc((size_t)b->tape.n_slots * sizeof *b->axis);
    if (!b->axis) return kl_fail_nomem(err);
    for (size_t i = 0; i < n_inputs; i++) {
        b->value.v[i] = kl_array_retain(inputs[i]);
        b->axis[i] = in_axes[i] == KL_VMAP_NONE ? -1 : 0;
        KL_TRY(to_front(&b->value.v[i], in_axes[i], s, err));
    }
    for (int32_t i = 0; i < b->tape.n_steps; i++) KL_TRY(batch_step(b, &b->tape.steps[i], err));
    KL_TRY(kl_arrays_new(outputs, n_outputs, err));
    struct lanes_of of = {0};
    for (size_t i = 0; i < n_inputs && !of.a; i++)
        if (in_axes[i] != KL_VMAP_NONE) of = (struct lanes_of){inputs[i], in_axes[i]};
    for (size_t i = 0; i < n_outputs; i++) {
        struct kl_array *a = slots[i] >= 0 ? b->value.v[slots[i]] : lane_outputs[i];
        int axis = slots[i] >= 0 ? b->axis[slots[i]] : -1;
        KL_TRY(give_output(&outputs->v[i], a, axis, out_axes[i], b->lanes, &of, i, s, err));
    }
    return KL_OK;
}

/* Lane inputs must be placeholders of one trace that fit the inputs. */
static int check_lane_inputs(struct kl_array *const *inputs, struct kl_array *const *lane_inputs,
                             size_t n, const int *in_axes, struct kl_error **err) {
    for (size_t i = 0; i < n; i++) {
        const struct kl_array *p = lane_inputs[i], *x = inputs[i];
        kl_commit_lock();
        bool ok = p->node && p->node->task.op == KL_OP_PLACEHOLDER;
        kl_commit_unlock();
        if (!ok || p->trace != lane_inputs[0]->trace)
            return kl_fail(err, KL_EARG, "traced input %zu is not an argument of this trace", i);
        struct kl_shape lane = {0};
        for (int d = 0; d < x->t.ndim; d++)
            if (d != in_axes[i]) lane.dims[lane.ndim++] = x->t.dims[d];
        if (p->t.dtype != x->t.dtype || !kl_shape_is(p, lane.ndim, lane.dims))
            return kl_fail(err, KL_ESHAPE, "input %zu is not of the shape and dtype of the trace",
                           i);
    }
    return KL_OK;
}

int kl_vmap_replace(struct kl_array *const *inputs, size_t n_inputs,
                    struct kl_array *const *lane_inputs, struct kl_array *const *lane_outputs,
                    size_t n_outputs, const int *in_axes, const int *out_axes,
                    struct kl_arrays *outputs, struct kl_error **err) {
    struct batch b = {0};
    KL_TRY(count_lanes(inputs, n_inputs, in_axes, &b.lanes, err));
    KL_TRY(check_lane_inputs(inputs, lane_inputs, n_inputs, in_axes, err));
    int32_t *slots = kl_malloc((n_outputs + 1) * sizeof *slots);
    if (!slots) return kl_fail_nomem(err);
    int rc = replace_in(&b, inputs, n_inputs, lane_inputs, lane_outputs, n_outputs, in_axes,
                        out_axes, slots, outputs, err);
    if (rc) kl_arrays_free(outputs);
    kl_free(slots);
    kl_free(b.axis);
    kl_arrays_free(&b.value);
    kl_tape_free(&b.tape);
    return rc;
}
