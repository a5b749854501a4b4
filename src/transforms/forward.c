/* forward.c - forward mode: Jacobian-vector products. The tape of the function is gone through from
 * its beginning, and tangents travel with the values. An operation without a jvp rule of its own
 * gets one from its vjp rule: that is linear in the cotangent, so the gradient of its results with
 * respect to the cotangent is the product in the other direction (double application of reverse
 * mode; Townsend, "A new trick for calculating Jacobian vector products", 2017). */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/check.h"
#include "ops/build/jvp.h"
#include "ops/build/vjp.h"
#include "ops/ops.h"
#include "transforms/custom.h"
#include "transforms/deferred.h"
#include "transforms/tape.h"
#include "transforms/transforms.h"

/* The rule of vjp.h for step n with the arguments u of a trace as cotangents: what it gives for the
 * inputs that have a tangent. */
static int gradients_of(const struct kl_node *n, const struct kl_arrays *u,
                        struct kl_array *const *tangent, struct kl_stream *s,
                        struct kl_arrays *made, struct kl_error **err) {
    kl_vjp_fn *rule = kl_vjp_rule(n->task.op);
    bool *wanted = kl_malloc((size_t)n->n_in * sizeof *wanted);
    int rc = wanted ? kl_arrays_new(made, (size_t)n->n_in, err) : kl_fail_nomem(err);
    for (int i = 0; i < n->n_in && !rc; i++) wanted[i] = tangent[i] != NULL;
    if (!rc && rule) {
        struct kl_vjp v = {.op = n->task.op,
                           .params = n->task.params,
                           .n_in = n->n_in,
                           .n_out = n->n_out,
                           .in = n->in,
                           .out = n->out,
                           .cotangent = u->v,
                           .wanted = wanted,
                           .s = s};
        rc = rule(&v, made->v, err);
    }
    kl_free(wanted);
    return rc;
}

static int transpose_in(struct kl_trace *t, const struct kl_node *n,
                        struct kl_array *const *tangent, struct kl_stream *s, struct kl_array **out,
                        struct kl_error **err) {
    struct kl_arrays u = {0}, made = {0}, gradients = {0}, along = {0};
    int rc = kl_arrays_new(&u, (size_t)n->n_out, err);
    for (int i = 0; i < n->n_out && !rc; i++) {
        struct kl_array *zeros = NULL;
        rc = kl_zeros_like(&zeros, n->out[i], s, err);
        if (!rc) rc = kl_trace_argument(&u.v[i], t, zeros, err);
        kl_array_release(zeros);
    }
    if (!rc) rc = gradients_of(n, &u, tangent, s, &made, err);
    if (!rc) rc = kl_arrays_new(&gradients, (size_t)n->n_in, err);
    if (!rc) rc = kl_arrays_new(&along, (size_t)n->n_in, err);
    size_t used = 0;
    for (int i = 0; i < n->n_in && !rc; i++) {
        if (!made.v[i] || !tangent[i]) continue;
        gradients.v[used] = kl_array_retain(made.v[i]);
        along.v[used++] = kl_array_retain(tangent[i]);
    }
    if (!rc && used) rc = kl_pull_back(t, u.v, u.n, gradients.v, used, along.v, out, err);
    kl_arrays_free(&along);
    kl_arrays_free(&gradients);
    kl_arrays_free(&made);
    kl_arrays_free(&u);
    return rc;
}

static int by_transposing(const struct kl_node *n, struct kl_array *const *tangent,
                          struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    struct kl_trace *t;
    KL_TRY(kl_trace_begin(&t, err));
    int rc = transpose_in(t, n, tangent, s, out, err);
    kl_trace_end(t);
    return rc;
}

/* Whether all operands and the result are real numbers. */
static bool real(const struct kl_node *n) {
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->t.dtype == KL_C64) return false;
    return n->out[0]->t.dtype != KL_C64;
}

static int push_forward(const struct kl_tape *tape, const struct kl_tape_step *step,
                        struct kl_array **tangents, struct kl_error **err) {
    const struct kl_node *n = step->node;
    struct kl_stream *s = step->s;
    struct kl_arrays in = {0};
    bool any = false;
    if (!s) KL_TRY(kl_transform_stream(&s, err));
    KL_TRY(kl_arrays_new(&in, (size_t)n->n_in, err));
    for (int k = 0; k < n->n_in; k++) {
        int32_t from = tape->edges[step->edge + k];
        if (from < 0 || !tangents[from]) continue;
        in.v[k] = kl_array_retain(tangents[from]);
        any = true;
    }
    int rc = KL_OK;
    if (any) {
        kl_jvp_fn *rule =
            real(n) || kl_op_is_collective(n->task.op) ? kl_jvp_rule(n->task.op) : NULL;
        struct kl_origin o = kl_origin_of(KL_ORIGIN_DERIVATIVE, n), before = kl_origin_set(o);
        if (n->task.op == KL_OP_CUSTOM) {
            rc = kl_custom_jvp(n, in.v, s, &tangents[step->slot], err);
        } else if (kl_defers_rules(n, in.v, n->n_in)) {
            if (kl_has_gradient(n->out[0]))
                rc = kl_deferred_jvp(&tangents[step->slot], n, in.v, s, err);
        } else if (rule) {
            struct kl_jvp j = {.op = n->task.op,
                               .params = n->task.params,
                               .params_bytes = n->task.params_bytes,
                               .n_in = n->n_in,
                               .in = n->in,
                               .out = n->out[0],
                               .tangent = in.v,
                               .s = s};
            rc = rule(&j, &tangents[step->slot], err);
        } else {
            rc = by_transposing(n, in.v, s, &tangents[step->slot], err);
        }
        if (rc) kl_origin_name_error(o, err);
        kl_origin_set(before);
    }
    kl_arrays_free(&in);
    return rc;
}

static int check_tangents(struct kl_array *const *primals, size_t n_primals,
                          struct kl_array *const *tangents, size_t n_tangents,
                          struct kl_error **err) {
    if (n_tangents != n_primals)
        return kl_fail(err, KL_EARG, "%zu tangents for %zu arguments", n_tangents, n_primals);
    for (size_t i = 0; i < n_primals; i++) {
        const struct kl_array *x = primals[i], *v = tangents[i];
        if (!kl_has_gradient(x))
            return kl_fail(err, KL_EDTYPE,
                           "argument %zu is %s: only floats and complex64 have derivatives", i,
                           kl_dtype_name((enum kl_dtype)x->t.dtype));
        if (v->t.dtype != x->t.dtype)
            return kl_fail(err, KL_EDTYPE, "tangent %zu is %s, and its argument is %s", i,
                           kl_dtype_name((enum kl_dtype)v->t.dtype),
                           kl_dtype_name((enum kl_dtype)x->t.dtype));
        if (!kl_shape_is(v, x->t.ndim, x->t.dims))
            return kl_fail(err, KL_ESHAPE, "tangent %zu has shape %s, and its argument %s", i,
                           KL_SHAPE_TEXT_OF(v), KL_SHAPE_TEXT_OF(x));
    }
    return KL_OK;
}

/* The tangents of the outputs, from those of the arguments; slots that no tangent reaches are
 * zeros. */
static int tangents_of(struct kl_trace *t, const struct kl_arrays *args,
                       struct kl_array *const *tangents, const struct kl_arrays *outs,
                       struct kl_arrays *result, struct kl_error **err) {
    struct kl_tape tape = {0};
    struct kl_arrays all = {0};
    struct kl_stream *s = NULL;
    int32_t *slots = kl_malloc((outs->n + 1) * sizeof *slots);
    if (!slots) return kl_fail_nomem(err);
    int rc = kl_tape_record(&tape, t, args->v, args->n, outs->v, outs->n, slots, false, err);
    if (!rc) rc = kl_arrays_new(&all, (size_t)tape.n_slots, err);
    for (size_t i = 0; i < args->n && !rc; i++) all.v[i] = kl_array_retain(tangents[i]);
    for (int32_t i = 0; i < tape.n_steps && !rc; i++)
        rc = push_forward(&tape, &tape.steps[i], all.v, err);
    if (!rc) rc = kl_arrays_new(result, outs->n, err);
    for (size_t i = 0; i < outs->n && !rc; i++) {
        if (slots[i] >= 0 && all.v[slots[i]]) {
            result->v[i] = kl_array_retain(all.v[slots[i]]);
            continue;
        }
        if (!s) rc = kl_transform_stream(&s, err);
        if (!rc) rc = kl_zeros_like(&result->v[i], outs->v[i], s, err);
    }
    kl_free(slots);
    kl_arrays_free(&all);
    kl_tape_free(&tape);
    return rc;
}

int kl_jvp(const struct kl_function *f, struct kl_array *const *primals, size_t n_primals,
           struct kl_array *const *tangents, size_t n_tangents, struct kl_arrays *outs,
           struct kl_arrays *out_tangents, struct kl_error **err) {
    struct kl_trace *t;
    struct kl_arrays args = {0};
    KL_TRY(check_tangents(primals, n_primals, tangents, n_tangents, err));
    KL_TRY(kl_trace_begin(&t, err));
    int rc = kl_arrays_new(&args, n_primals, err);
    for (size_t i = 0; i < n_primals && !rc; i++)
        rc = kl_trace_argument(&args.v[i], t, primals[i], err);
    if (!rc) rc = kl_function_call(f, args.v, n_primals, outs, err);
    if (!rc) rc = tangents_of(t, &args, tangents, outs, out_tangents, err);
    kl_arrays_free(&args);
    if (rc) {
        kl_arrays_free(outs);
        kl_arrays_free(out_tangents);
    }
    kl_trace_end(t);
    return rc;
}
