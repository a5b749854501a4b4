/* custom.c - see custom.h. */
#include "transforms/custom.h"

#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/refs.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/ops.h"
#include "transforms/deferred.h"
#include "transforms/transforms.h"

struct kl_custom_function {
    _Atomic(uint32_t) refs;
    bool checkpoint;
    struct kl_function f;
    struct kl_custom_rule vjp, jvp, vmap; /* call NULL: none */
};

static struct kl_custom_rule rule_retain(const struct kl_custom_rule *r) {
    if (!r) return (struct kl_custom_rule){0};
    if (r->retain) r->retain(r->ctx);
    return *r;
}

static void rule_release(struct kl_custom_rule *r) {
    if (r->release) r->release(r->ctx);
}

int kl_custom_function_new(struct kl_custom_function **out, const struct kl_function *f,
                           const struct kl_custom_rule *vjp, const struct kl_custom_rule *jvp,
                           const struct kl_custom_rule *vmap, struct kl_error **err) {
    struct kl_custom_function *c = kl_malloc(sizeof *c);
    if (!c) return kl_fail_nomem(err);
    atomic_init(&c->refs, 1);
    c->checkpoint = false;
    c->f = kl_function_retain(f);
    c->vjp = rule_retain(vjp);
    c->jvp = rule_retain(jvp);
    c->vmap = rule_retain(vmap);
    *out = c;
    return KL_OK;
}

int kl_checkpoint_new(struct kl_custom_function **out, const struct kl_function *f,
                      struct kl_error **err) {
    KL_TRY(kl_custom_function_new(out, f, NULL, NULL, NULL, err));
    (*out)->checkpoint = true;
    return KL_OK;
}

struct kl_custom_function *kl_custom_function_retain(struct kl_custom_function *c) {
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void kl_custom_function_release(struct kl_custom_function *c) {
    if (!c || !kl_refs_drop(&c->refs)) return;
    kl_function_release(&c->f);
    rule_release(&c->vjp);
    rule_release(&c->jvp);
    rule_release(&c->vmap);
    kl_free(c);
}

/* One node CUSTOM over the results and the arguments. */
static int make_node(struct kl_custom_function *c, struct kl_array *const *in, int n_in, int n_args,
                     struct kl_array **outs, struct kl_error **err) {
    struct kl_custom_params p = {kl_custom_function_retain(c), kl_custom_function_release, n_args};
    struct kl_operation o = {
        .op = KL_OP_CUSTOM, .params = &p, .params_bytes = sizeof p, .in = in, .n_in = n_in};
    int rc = kl_array_view_many(outs, n_in - n_args, &o, err);
    if (rc) kl_custom_function_release(c);
    return rc;
}

/* The outermost trace of n arrays: it holds what follows from any of them. NULL: no array belongs
 * to a trace that has not ended. */
static struct kl_trace *trace_of(struct kl_array *const *a, size_t n) {
    struct kl_array *of = NULL;
    for (size_t i = 0; i < n; i++)
        if (kl_array_is_tracer(a[i]) && (!of || kl_trace_holds(a[i]->trace, of))) of = a[i];
    return of ? of->trace : NULL;
}

/* The function is called with views of the arguments, at which its own operations begin: what is
 * computed again begins there too. */
static int call_in_trace(struct kl_custom_function *c, struct kl_array *const *args, size_t n_args,
                         struct kl_arrays *outs, struct kl_error **err) {
    struct kl_arrays own = {0}, made = {0}, in = {0};
    int rc = kl_arrays_new(&own, n_args, err);
    for (size_t i = 0; i < n_args && !rc; i++) {
        struct kl_operation o = {.op = KL_OP_ARGUMENT, .in = &args[i], .n_in = 1};
        rc = kl_array_view_many(&own.v[i], 1, &o, err);
    }
    if (!rc) rc = kl_function_call(&c->f, own.v, n_args, &made, err);
    if (!rc && made.n == 0) rc = kl_arrays_new(outs, 0, err);
    if (!rc && made.n > 0) {
        rc = kl_arrays_new(&in, made.n + n_args, err);
        for (size_t i = 0; i < in.n && !rc; i++)
            in.v[i] = kl_array_retain(i < made.n ? made.v[i] : own.v[i - made.n]);
        if (!rc) rc = kl_arrays_new(outs, made.n, err);
        if (!rc) rc = make_node(c, in.v, (int)in.n, (int)n_args, outs->v, err);
        if (rc) kl_arrays_free(outs);
    }
    kl_arrays_free(&in);
    kl_arrays_free(&made);
    kl_arrays_free(&own);
    return rc;
}

int kl_custom_function_call(struct kl_custom_function *c, struct kl_array *const *args,
                            size_t n_args, struct kl_arrays *outs, struct kl_error **err) {
    if (!trace_of(args, n_args)) return kl_function_call(&c->f, args, n_args, outs, err);
    return call_in_trace(c, args, n_args, outs, err);
}

/* ---- making operations again ---- */

int kl_step_again(const struct kl_tape_step *step, struct kl_array *const *in, struct kl_stream *s,
                  struct kl_array **out, struct kl_error **err) {
    const struct kl_node *n = step->node;
    if (n->task.op == KL_OP_CUSTOM) {
        const struct kl_custom_params *p = n->task.params;
        return make_node(p->custom, in, n->n_in, p->n_args, out, err);
    }
    if (n->task.op == KL_OP_ARGUMENT) {
        struct kl_operation o = {.op = KL_OP_ARGUMENT, .in = in, .n_in = n->n_in};
        return kl_array_view_many(out, 1, &o, err);
    }
    if (n->task.op == KL_OP_DEFERRED)
        return kl_deferred_again(n->task.params, n->task.params_bytes, in, n->n_in, s, out, err);
    struct kl_build b = {.op = n->task.op,
                         .params = n->task.params,
                         .params_bytes = n->task.params_bytes,
                         .in = in,
                         .n_in = n->n_in,
                         .s = s,
                         .dtype = (enum kl_dtype)n->out[0]->t.dtype,
                         .ndim = n->out[0]->t.ndim,
                         .dims = n->out[0]->t.dims};
    return kl_op_build(&b, out, err);
}

/* The values of all steps of a tape, made again: values[i], for i below n_args, are given, and the
 * others are filled in. */
static int again(const struct kl_tape *t, struct kl_arrays *values, struct kl_error **err) {
    struct kl_arrays in = {0};
    int rc = KL_OK;
    for (int32_t i = 0; i < t->n_steps && !rc; i++) {
        const struct kl_tape_step *step = &t->steps[i];
        const struct kl_node *n = step->node;
        struct kl_stream *s = step->s;
        if (!s && (rc = kl_transform_stream(&s, err))) break;
        if ((rc = kl_arrays_new(&in, (size_t)n->n_in, err))) break;
        for (int k = 0; k < n->n_in; k++) {
            int32_t from = t->edges[step->edge + k];
            in.v[k] = kl_array_retain(from >= 0 ? values->v[from] : n->in[k]);
        }
        rc = kl_step_again(step, in.v, s, &values->v[step->slot], err);
        kl_arrays_free(&in);
    }
    return rc;
}

/* ---- vjp ---- */

/* The gradients that a rule gave must fit the arguments. */
static int check_given(const struct kl_arrays *given, struct kl_array *const *like, size_t n,
                       const char *rule, const char *what, struct kl_error **err) {
    if (given->n != n)
        return kl_fail(err, KL_ECALLBACK, "the custom %s rule gave %zu arrays for %zu %ss", rule,
                       given->n, n, what);
    for (size_t i = 0; i < n; i++) {
        const struct kl_array *g = given->v[i], *x = like[i];
        if (g->t.dtype == x->t.dtype && kl_shape_is(g, x->t.ndim, x->t.dims)) continue;
        if (!kl_has_gradient(x)) continue;
        return kl_fail(err, KL_ECALLBACK,
                       "the custom %s rule gave %s of shape %s for %s %zu, which is %s of shape %s",
                       rule, kl_dtype_name((enum kl_dtype)g->t.dtype), KL_SHAPE_TEXT_OF(g), what, i,
                       kl_dtype_name((enum kl_dtype)x->t.dtype), KL_SHAPE_TEXT_OF(x));
    }
    return KL_OK;
}

static int by_rule(const struct kl_vjp *v, struct kl_custom_function *c, struct kl_array **grad,
                   struct kl_error **err) {
    const int n_args = v->n_in - v->n_out;
    struct kl_arrays made = {0};
    struct kl_custom_call call = {.list = {v->in + v->n_out, v->cotangent, v->out},
                                  .n = {(size_t)n_args, (size_t)v->n_out, (size_t)v->n_out}};
    int rc = c->vjp.call(c->vjp.ctx, &call, &made, err);
    if (!rc) rc = check_given(&made, v->in + v->n_out, (size_t)n_args, "vjp", "argument", err);
    for (int k = 0; k < n_args && !rc; k++)
        if (v->wanted[v->n_out + k]) grad[v->n_out + k] = kl_array_retain(made.v[k]);
    kl_arrays_free(&made);
    return rc;
}

/* The arguments of a checkpoint, as views that are committed after the cotangents: so the values
 * are made again only when the backward pass has come to them. */
static int arguments_after(const struct kl_vjp *v, struct kl_trace *t, struct kl_arrays *args,
                           struct kl_error **err) {
    const int n_args = v->n_in - v->n_out;
    struct kl_arrays in = {0};
    int rc = kl_arrays_new(args, (size_t)n_args, err);
    if (!rc) rc = kl_arrays_new(&in, (size_t)v->n_out + 1, err);
    for (int j = 0; j < v->n_out && !rc; j++) in.v[j + 1] = kl_array_retain(v->cotangent[j]);
    for (int k = 0; k < n_args && !rc; k++) {
        struct kl_array *after = NULL;
        kl_array_release(in.v[0]);
        in.v[0] = kl_array_retain(v->in[v->n_out + k]);
        struct kl_operation o = {.op = KL_OP_ARGUMENT, .in = in.v, .n_in = (int)in.n};
        rc = kl_array_view_many(&after, 1, &o, err);
        if (!rc) rc = kl_trace_argument(&args->v[k], t, after, err);
        kl_array_release(after);
    }
    kl_arrays_free(&in);
    return rc;
}

static int by_recomputing(const struct kl_vjp *v, struct kl_trace *t, struct kl_array **grad,
                          struct kl_error **err) {
    const int n_args = v->n_in - v->n_out;
    struct kl_array *const *own = v->in + v->n_out;
    struct kl_trace *around = trace_of(v->in, (size_t)v->n_in);
    struct kl_arrays args = {0}, values = {0}, results = {0};
    struct kl_tape tape = {0};
    int32_t *slots = kl_malloc((size_t)v->n_out * sizeof *slots);
    int rc = slots ? arguments_after(v, t, &args, err) : kl_fail_nomem(err);
    if (!rc)
        rc = kl_tape_record(&tape, around, own, (size_t)n_args, v->in, (size_t)v->n_out, slots,
                            true, err);
    if (!rc) rc = kl_arrays_new(&values, (size_t)tape.n_slots, err);
    for (int k = 0; k < n_args && !rc; k++) values.v[k] = kl_array_retain(args.v[k]);
    if (!rc) rc = again(&tape, &values, err);
    if (!rc) rc = kl_arrays_new(&results, (size_t)v->n_out, err);
    for (int j = 0; j < v->n_out && !rc; j++)
        results.v[j] = kl_array_retain(slots[j] >= 0 ? values.v[slots[j]] : v->in[j]);
    if (!rc)
        rc = kl_pull_back(t, args.v, args.n, results.v, results.n, v->cotangent, grad + v->n_out,
                          err);
    kl_free(slots);
    kl_tape_free(&tape);
    kl_arrays_free(&results);
    kl_arrays_free(&values);
    kl_arrays_free(&args);
    return rc;
}

int kl_custom_vjp(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    const struct kl_custom_params *p = v->params;
    struct kl_custom_function *c = p->custom;
    if (c->vjp.call) return by_rule(v, c, grad, err);
    if (!c->checkpoint) { /* the gradient goes through the recorded operations */
        for (int i = 0; i < v->n_out; i++)
            if (v->wanted[i]) grad[i] = kl_array_retain(v->cotangent[i]);
        return KL_OK;
    }
    struct kl_trace *t;
    KL_TRY(kl_trace_begin(&t, err));
    int rc = by_recomputing(v, t, grad, err);
    kl_trace_end(t);
    return rc;
}

/* ---- jvp ---- */

int kl_custom_jvp(const struct kl_node *n, struct kl_array *const *tangent, struct kl_stream *s,
                  struct kl_array **out, struct kl_error **err) {
    const struct kl_custom_params *p = n->task.params;
    const struct kl_custom_function *c = p->custom;
    if (!c->jvp.call) {
        for (int i = 0; i < n->n_out; i++) out[i] = kl_array_retain(tangent[i]);
        return KL_OK;
    }
    struct kl_arrays with = {0}, made = {0};
    int *numbers = kl_malloc(((size_t)p->n_args + 1) * sizeof *numbers);
    size_t n_with = 0;
    int rc = numbers ? kl_arrays_new(&with, (size_t)p->n_args, err) : kl_fail_nomem(err);
    for (int k = 0; k < p->n_args && !rc; k++) {
        if (!tangent[n->n_out + k]) continue;
        numbers[n_with] = k;
        with.v[n_with++] = kl_array_retain(tangent[n->n_out + k]);
    }
    struct kl_custom_call call = {.list = {n->in + n->n_out, with.v},
                                  .n = {(size_t)p->n_args, n_with},
                                  .numbers = numbers,
                                  .n_numbers = n_with};
    if (!rc) rc = c->jvp.call(c->jvp.ctx, &call, &made, err);
    if (!rc) rc = check_given(&made, n->out, (size_t)n->n_out, "jvp", "output", err);
    for (int i = 0; i < n->n_out && !rc; i++)
        if (kl_has_gradient(n->out[i])) out[i] = kl_array_retain(made.v[i]);
    kl_free(numbers);
    kl_arrays_free(&made);
    kl_arrays_free(&with);
    return rc;
}

/* ---- vmap ---- */

/* The array that the rule gave for output i must be `one`, the output of one lane, with an axis of
 * lanes. */
static int check_lanes(const struct kl_array *a, int axis, const struct kl_array *one, int lanes,
                       int i, struct kl_error **err) {
    struct kl_shape want = {0};
    if (axis < -1 || axis > one->t.ndim || axis >= a->t.ndim)
        return kl_fail(err, KL_ECALLBACK,
                       "the custom vmap rule gave axis %d for output %d, which has %d axes", axis,
                       i, a->t.ndim);
    const int ndim = one->t.ndim + (axis >= 0);
    for (int d = 0; d < ndim && ndim == a->t.ndim; d++)
        want.dims[want.ndim++] = d == axis ? lanes : one->t.dims[d - (axis >= 0 && d > axis)];
    if (a->t.dtype == one->t.dtype && kl_shape_is(a, want.ndim, want.dims)) return KL_OK;
    return kl_fail(
        err, KL_ECALLBACK,
        "the custom vmap rule gave %s of shape %s for output %d, which is %s of shape %s "
        "with lanes",
        kl_dtype_name((enum kl_dtype)a->t.dtype), KL_SHAPE_TEXT_OF(a), i,
        kl_dtype_name((enum kl_dtype)one->t.dtype), KL_SHAPE_TEXT(want.ndim, want.dims));
}

int kl_custom_vmap(const struct kl_node *n, struct kl_array *const *in, const int *in_axes,
                   int lanes, struct kl_array **out, int *axis, struct kl_error **err) {
    const struct kl_custom_params *p = n->task.params;
    const struct kl_custom_function *c = p->custom;
    if (!c->vmap.call) {
        for (int i = 0; i < n->n_out; i++) axis[i] = in_axes[i];
        /* All lanes of a checkpoint are one. */
        if (c->checkpoint) return make_node(p->custom, in, n->n_in, p->n_args, out, err);
        for (int i = 0; i < n->n_out; i++) out[i] = kl_array_retain(in[i]);
        return KL_OK;
    }
    struct kl_arrays made = {0};
    struct kl_custom_call call = {.list = {in + n->n_out},
                                  .n = {(size_t)p->n_args},
                                  .numbers = in_axes + n->n_out,
                                  .n_numbers = (size_t)p->n_args,
                                  .out_axes = axis,
                                  .n_out_axes = (size_t)n->n_out};
    KL_TRY(c->vmap.call(c->vmap.ctx, &call, &made, err));
    int rc = KL_OK;
    if (made.n != (size_t)n->n_out)
        rc = kl_fail(err, KL_ECALLBACK, "the custom vmap rule gave %zu arrays for %d outputs",
                     made.n, n->n_out);
    for (int i = 0; i < n->n_out && !rc; i++)
        rc = check_lanes(made.v[i], axis[i], n->out[i], lanes, i, err);
    for (int i = 0; i < n->n_out && !rc; i++) out[i] = kl_array_retain(made.v[i]);
    kl_arrays_free(&made);
    return rc;
}
