/* reverse.c - reverse mode: vector-Jacobian products and gradients. The tape of the function is
 * gone through from its end, and each operation's rule turns the cotangents of its outputs into the
 * cotangents of its inputs. */
#include <string.h>

#include "base/alloc.h"
#include "ops/build/check.h"
#include "ops/build/vjp.h"
#include "ops/ops.h"
#include "transforms/custom.h"
#include "transforms/deferred.h"
#include "transforms/tape.h"
#include "transforms/transforms.h"

enum { FEW = 8 }; /* inputs or outputs for which there is room on the stack */

/* The cotangents of all slots, and the scratch lists of one step. */
struct reverse {
    struct kl_tape tape;
    struct kl_arrays cotangents;
    struct kl_array **made, *few_made[FEW]; /* by a rule: one entry per input */
    bool *wanted, few_wanted[FEW];
    int room;
    struct kl_error **err;
};

static void reverse_free(struct reverse *r) {
    kl_arrays_free(&r->cotangents);
    kl_tape_free(&r->tape);
    if (r->made != r->few_made) kl_free(r->made);
    if (r->wanted != r->few_wanted) kl_free(r->wanted);
}

/* Room for a step of n inputs. */
static int make_room(struct reverse *r, int n) {
    if (n > r->room) {
        if (r->made != r->few_made) kl_free(r->made);
        if (r->wanted != r->few_wanted) kl_free(r->wanted);
        r->room = 2 * n;
        r->made = kl_malloc((size_t)r->room * sizeof *r->made);
        r->wanted = kl_malloc((size_t)r->room * sizeof *r->wanted);
        if (!r->made || !r->wanted) return kl_fail_nomem(r->err);
    }
    memset(r->made, 0, (size_t)n * sizeof *r->made);
    return KL_OK;
}

/* Adds g, which is taken, to the cotangent of a slot. */
static int add_to(struct reverse *r, int32_t slot, struct kl_array *g, struct kl_stream *s) {
    struct kl_array **at = &r->cotangents.v[slot], *sum;
    if (!*at) {
        *at = g;
        return KL_OK;
    }
    int rc = kl_add(&sum, *at, g, s, r->err);
    kl_array_release(g);
    if (rc) return rc;
    kl_array_release(*at);
    *at = sum;
    return KL_OK;
}

/* A rule needs the cotangents of all outputs of its operation: the missing ones become zeros. */
static int fill_zeros(struct reverse *r, const struct kl_tape_step *step, struct kl_stream *s) {
    const struct kl_node *n = step->node;
    for (int i = 0; i < n->n_out && n->n_out > 1; i++)
        if (!r->cotangents.v[step->slot + i])
            KL_TRY(kl_zeros_like(&r->cotangents.v[step->slot + i], n->out[i], s, r->err));
    return KL_OK;
}

/* The step that repeats an array for all batches of n, where the array itself will do for the rule
 * of n as its second input; else NULL. */
static const struct kl_tape_step *repeater(const struct reverse *r, const struct kl_node *n,
                                           const int32_t *edges) {
    if (!(kl_op_flags(n->task.op) & KL_OPF_SUMS_BATCHES) || edges[1] < 0) return NULL;
    const struct kl_tape_step *maker = kl_tape_maker(&r->tape, edges[1]);
    bool fits = maker && kl_op_flags(maker->node->task.op) & KL_OPF_REPEATS &&
                kl_vjp_sums_batches(n->in, maker->node->in[0]);
    return fits ? maker : NULL;
}

static int apply_rule(struct reverse *r, const struct kl_tape_step *step, struct kl_array **in,
                      struct kl_stream *s) {
    const struct kl_node *n = step->node;
    struct kl_vjp v = {.op = n->task.op,
                       .params = n->task.params,
                       .n_in = n->n_in,
                       .n_out = n->n_out,
                       .in = in,
                       .out = n->out,
                       .cotangent = &r->cotangents.v[step->slot],
                       .wanted = r->wanted,
                       .s = s};
    if (v.op == KL_OP_CUSTOM) return kl_custom_vjp(&v, r->made, r->err);
    kl_vjp_fn *rule = kl_vjp_rule(v.op);
    return rule ? rule(&v, r->made, r->err) : KL_OK;
}

/* The gradients of an operation whose extents are those of the trace only. */
static int defer_rule(struct reverse *r, const struct kl_node *n, struct kl_array *cotangent,
                      struct kl_stream *s) {
    if (n->task.op != KL_OP_DEFERRED && !kl_vjp_rule(n->task.op)) return KL_OK;
    for (int k = 0; k < n->n_in && kl_has_gradient(n->out[0]); k++)
        if (r->wanted[k] && kl_has_gradient(n->in[k]))
            KL_TRY(kl_deferred_vjp(&r->made[k], n, k, cotangent, s, r->err));
    return KL_OK;
}

static int step_back(struct reverse *r, const struct kl_tape_step *step) {
    const struct kl_node *n = step->node;
    const int32_t *edges = r->tape.edges + step->edge;
    struct kl_stream *s = step->s;
    bool any = false;
    for (int i = 0; i < n->n_out; i++) any |= r->cotangents.v[step->slot + i] != NULL;
    if (!any) return KL_OK;
    if (!s) KL_TRY(kl_transform_stream(&s, r->err));
    KL_TRY(make_room(r, n->n_in));
    KL_TRY(fill_zeros(r, step, s));
    for (int k = 0; k < n->n_in; k++) r->wanted[k] = edges[k] >= 0;
    struct kl_origin o = kl_origin_of(KL_ORIGIN_GRADIENT, n), before = kl_origin_set(o);
    const struct kl_tape_step *one = repeater(r, n, edges);
    struct kl_array *with_one[2] = {n->in[0], one ? one->node->in[0] : NULL};
    struct kl_array *const *given = &r->cotangents.v[step->slot];
    int rc = kl_defers_rules(n, given, n->n_out) ? defer_rule(r, n, *given, s)
                                                 : apply_rule(r, step, one ? with_one : n->in, s);
    if (rc) kl_origin_name_error(o, r->err);
    for (int k = 0; k < n->n_in; k++) {
        struct kl_array *g = r->made[k];
        if (!g) continue;
        if (rc || edges[k] < 0 || !kl_has_gradient(n->in[k]))
            kl_array_release(g);
        else
            rc = add_to(r, one && k == 1 ? r->tape.edges[one->edge] : edges[k], g, s);
    }
    kl_origin_set(before);
    for (int i = 0; i < n->n_out; i++) { /* nothing needs them any more */
        kl_array_release(r->cotangents.v[step->slot + i]);
        r->cotangents.v[step->slot + i] = NULL;
    }
    return rc;
}

int kl_pull_back(const struct kl_trace *t, struct kl_array *const *args, size_t n_args,
                 struct kl_array *const *outs, size_t n_outs, struct kl_array *const *cotangents,
                 struct kl_array **grads, struct kl_error **err) {
    struct reverse r = {.room = FEW, .err = err};
    r.made = r.few_made;
    r.wanted = r.few_wanted;
    int32_t few_slots[FEW], *slots = n_outs <= FEW ? few_slots : kl_malloc(n_outs * sizeof *slots);
    if (!slots) return kl_fail_nomem(err);
    int rc = kl_tape_record(&r.tape, t, args, n_args, outs, n_outs, slots, false, err);
    if (!rc) rc = kl_arrays_new(&r.cotangents, (size_t)r.tape.n_slots, err);
    for (size_t i = 0; i < n_outs && !rc; i++) {
        if (!cotangents[i] || slots[i] < 0 || !kl_has_gradient(outs[i])) continue;
        struct kl_stream *s = NULL;
        if (r.cotangents.v[slots[i]]) rc = kl_transform_stream(&s, err);
        if (!rc) rc = add_to(&r, slots[i], kl_array_retain(cotangents[i]), s);
    }
    for (int32_t i = r.tape.n_steps; i-- > 0 && !rc;) rc = step_back(&r, &r.tape.steps[i]);
    for (size_t i = 0; i < n_args && !rc; i++) {
        grads[i] = r.cotangents.v[i];
        r.cotangents.v[i] = NULL;
    }
    if (slots != few_slots) kl_free(slots);
    reverse_free(&r);
    return rc;
}

/* ---- the public transforms ---- */

static int check_primals(struct kl_array *const *primals, size_t n, struct kl_error **err) {
    for (size_t i = 0; i < n; i++)
        if (!kl_has_gradient(primals[i]))
            return kl_fail(err, KL_EDTYPE,
                           "argument %zu is %s: only floats and complex64 have gradients", i,
                           kl_dtype_name((enum kl_dtype)primals[i]->t.dtype));
    return KL_OK;
}

/* Tracers of the primals. */
static int arguments(struct kl_arrays *args, struct kl_trace *t, struct kl_array *const *primals,
                     size_t n, struct kl_error **err) {
    KL_TRY(kl_arrays_new(args, n, err));
    for (size_t i = 0; i < n; i++) KL_TRY(kl_trace_argument(&args->v[i], t, primals[i], err));
    return KL_OK;
}

static int check_cotangent(size_t i, const struct kl_array *g, const struct kl_array *out,
                           struct kl_error **err) {
    if (g->t.dtype != out->t.dtype)
        return kl_fail(err, KL_EDTYPE, "cotangent %zu is %s, and its output is %s", i,
                       kl_dtype_name((enum kl_dtype)g->t.dtype),
                       kl_dtype_name((enum kl_dtype)out->t.dtype));
    if (!kl_shape_is(g, out->t.ndim, out->t.dims))
        return kl_fail(err, KL_ESHAPE, "cotangent %zu has shape %s, and its output %s", i,
                       KL_SHAPE_TEXT_OF(g), KL_SHAPE_TEXT_OF(out));
    return KL_OK;
}

/* One cotangent for each output, in order. The outputs of stop_gradient take none: a cotangent for
 * such an output may be left out, and is not looked at. */
static int give_cotangents(struct kl_arrays *given, const struct kl_arrays *outs,
                           struct kl_array *const *cotangents, size_t n, struct kl_error **err) {
    const bool for_all = n == outs->n;
    size_t next = 0;
    KL_TRY(kl_arrays_new(given, outs->n, err));
    for (size_t i = 0; i < outs->n; i++) {
        if (outs->v[i]->stopped) {
            next += for_all;
            continue;
        }
        if (next == n) {
            return kl_fail(err, KL_EARG, "%zu cotangents are too few for %zu outputs", n, outs->n);
        }
        KL_TRY(check_cotangent(next, cotangents[next], outs->v[i], err));
        given->v[i] = kl_array_retain(cotangents[next++]);
    }
    if (next < n)
        return kl_fail(err, KL_EARG,
                       "%zu cotangents are too many for %zu outputs, %zu of which take "
                       "one",
                       n, outs->n, next);
    return KL_OK;
}

/* Entries that are NULL become zeros of the primals' shapes. */
static int zeros_for_rest(struct kl_arrays *grads, struct kl_array *const *primals,
                          struct kl_error **err) {
    struct kl_stream *s = NULL;
    for (size_t i = 0; i < grads->n; i++) {
        if (grads->v[i]) continue;
        if (!s) KL_TRY(kl_transform_stream(&s, err));
        KL_TRY(kl_zeros_like(&grads->v[i], primals[i], s, err));
    }
    return KL_OK;
}

static int vjp_in(struct kl_trace *t, const struct kl_function *f, struct kl_array *const *primals,
                  size_t n_primals, struct kl_array *const *cotangents, size_t n_cotangents,
                  struct kl_arrays *outs, struct kl_arrays *grads, struct kl_error **err) {
    struct kl_arrays args = {0}, given = {0};
    int rc = arguments(&args, t, primals, n_primals, err);
    if (!rc) rc = kl_function_call(f, args.v, n_primals, outs, err);
    if (!rc) rc = give_cotangents(&given, outs, cotangents, n_cotangents, err);
    if (!rc) rc = kl_arrays_new(grads, n_primals, err);
    if (!rc) rc = kl_pull_back(t, args.v, args.n, outs->v, outs->n, given.v, grads->v, err);
    if (!rc) rc = zeros_for_rest(grads, primals, err);
    kl_arrays_free(&given);
    kl_arrays_free(&args);
    if (rc) {
        kl_arrays_free(outs);
        kl_arrays_free(grads);
    }
    return rc;
}

int kl_vjp(const struct kl_function *f, struct kl_array *const *primals, size_t n_primals,
           struct kl_array *const *cotangents, size_t n_cotangents, struct kl_arrays *outs,
           struct kl_arrays *grads, struct kl_error **err) {
    struct kl_trace *t;
    KL_TRY(check_primals(primals, n_primals, err));
    KL_TRY(kl_trace_begin(&t, err));
    int rc = vjp_in(t, f, primals, n_primals, cotangents, n_cotangents, outs, grads, err);
    kl_trace_end(t);
    return rc;
}

static int check_argnums(const int *argnums, size_t n, struct kl_array *const *args, size_t n_args,
                         struct kl_error **err) {
    if (n == 0) return kl_fail(err, KL_EARG, "no argument number is given");
    for (size_t k = 0; k < n; k++) {
        if (argnums[k] < 0 || (size_t)argnums[k] >= n_args)
            return kl_fail(err, KL_EARG, "argument number %d, and the function has %zu arguments",
                           argnums[k], n_args);
        for (size_t j = 0; j < k; j++)
            if (argnums[j] == argnums[k])
                return kl_fail(err, KL_EARG, "argument number %d is given twice", argnums[k]);
        if (!kl_has_gradient(args[argnums[k]]))
            return kl_fail(err, KL_EDTYPE,
                           "argument %d is %s: only floats and complex64 have gradients",
                           argnums[k], kl_dtype_name((enum kl_dtype)args[argnums[k]]->t.dtype));
    }
    return KL_OK;
}

static int check_value(const struct kl_arrays *values, struct kl_error **err) {
    if (values->n == 0) return kl_fail(err, KL_EARG, "the function has no result");
    const struct kl_array *v = values->v[0];
    if (v->t.ndim != 0)
        return kl_fail(err, KL_ESHAPE,
                       "only a result without axes has a gradient; the first one has %d axes and "
                       "%lld elements",
                       v->t.ndim, (long long)v->t.size);
    if (!kl_has_gradient(v))
        return kl_fail(err, KL_EDTYPE, "the first result is %s: it has no gradient",
                       kl_dtype_name((enum kl_dtype)v->t.dtype));
    return KL_OK;
}

/* tracers: one for each argument number; all: the arguments of f, these among them; wrt: the
 * arguments themselves. */
static int grad_in(struct kl_trace *t, const struct kl_function *f, const int *argnums,
                   size_t n_argnums, struct kl_array *const *args, size_t n_args,
                   struct kl_arrays *values, struct kl_arrays *grads, struct kl_error **err) {
    struct kl_arrays tracers = {0}, all = {0}, wrt = {0};
    struct kl_array *one = NULL;
    int rc = kl_arrays_new(&wrt, n_argnums, err);
    for (size_t k = 0; k < n_argnums && !rc; k++) wrt.v[k] = kl_array_retain(args[argnums[k]]);
    if (!rc) rc = arguments(&tracers, t, wrt.v, n_argnums, err);
    if (!rc) rc = kl_arrays_new(&all, n_args, err);
    for (size_t i = 0; i < n_args && !rc; i++) all.v[i] = kl_array_retain(args[i]);
    for (size_t k = 0; k < n_argnums && !rc; k++) {
        kl_array_release(all.v[argnums[k]]);
        all.v[argnums[k]] = kl_array_retain(tracers.v[k]);
    }
    if (!rc) rc = kl_function_call(f, all.v, n_args, values, err);
    if (!rc) rc = check_value(values, err);
    if (!rc) rc = kl_array_new_scalar(&one, 1, (enum kl_dtype)values->v[0]->t.dtype, err);
    if (!rc) rc = kl_arrays_new(grads, n_argnums, err);
    if (!rc) rc = kl_pull_back(t, tracers.v, n_argnums, values->v, 1, &one, grads->v, err);
    if (!rc) rc = zeros_for_rest(grads, wrt.v, err);
    kl_array_release(one);
    kl_arrays_free(&wrt);
    kl_arrays_free(&all);
    kl_arrays_free(&tracers);
    if (rc) {
        kl_arrays_free(values);
        kl_arrays_free(grads);
    }
    return rc;
}

int kl_value_and_grad(const struct kl_function *f, const int *argnums, size_t n_argnums,
                      struct kl_array *const *args, size_t n_args, struct kl_arrays *values,
                      struct kl_arrays *grads, struct kl_error **err) {
    struct kl_trace *t;
    KL_TRY(check_argnums(argnums, n_argnums, args, n_args, err));
    KL_TRY(kl_trace_begin(&t, err));
    int rc = grad_in(t, f, argnums, n_argnums, args, n_args, values, grads, err);
    kl_trace_end(t);
    return rc;
}
