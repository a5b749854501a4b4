/* replay.c - replays of plans. A replay builds the steps as lazy operations like any others, so
 * fates, checks, donation and fusion are those of plain code, and what is left out of a check is
 * decided again from the arrays of this replay. */
#include "transforms/plan.h"

#include <string.h>

#include "backend/collective/group.h"
#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/ops.h"
#include "transforms/deferred.h"

/* Every value has as many references as the plan has uses of it, from the moment it is made: a node
 * takes those of its inputs over, and a result that of the replay. Counting them one by one, with
 * atomic instructions, would take as long as all else. */
struct replay {
    const struct kl_plan *p;
    struct kl_array **value; /* NULL: not made yet */
    bool exact;
    uint64_t serial; /* for the operations of groups; see kl_plan.first_serial */
    struct kl_error **err;
};

/* A value of which the replay has one reference gets one for each of its uses. */
static void share(struct kl_array *a, uint32_t uses) {
    if (uses == 0)
        kl_array_release(a);
    else if (uses > 1)
        atomic_fetch_add_explicit(&a->refs, uses - 1, memory_order_relaxed);
}

static bool laid_out_as(const struct kl_array *a, const int64_t *strides) {
    for (int i = 0; i < a->t.ndim; i++)
        if (a->t.strides[i] != strides[i] && a->t.dims[i] > 1) return false;
    return true;
}

int kl_plan_not_broadcast(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                          struct kl_error **err) {
    int start[KL_MAX_NDIM] = {0}, stop[KL_MAX_NDIM], step[KL_MAX_NDIM];
    const size_t n = (size_t)a->t.ndim;
    for (int i = 0; i < a->t.ndim; i++) {
        stop[i] = a->t.strides[i] == 0 && a->t.dims[i] > 1 ? 1 : a->t.dims[i];
        step[i] = 1;
    }
    return kl_slice(out, a, start, n, stop, n, step, n, s, err);
}

/* Whether the kernel takes row-contiguous inputs only. The inputs of the trace may have been
 * row-contiguous; a replay has other inputs. */
static bool wants_rows(const struct kl_plan_step *s) {
    return ((const struct kl_kernel_params *)s->params)->desc->row_contiguous;
}

/* Releases those of the first n inputs that are not values. */
static void release_made(const struct replay *r, const struct kl_plan_step *s,
                         struct kl_array *const *in, int n) {
    for (int k = 0; k < n; k++)
        if (in[k] != r->value[s->in[k]]) kl_array_release(in[k]);
}

/* The inputs of a step: values, or where the step needs something else arrays made of these. The
 * references of the values stay the replay's, those of the others are the caller's. */
static int inputs_of(struct replay *r, const struct kl_plan_step *s, struct kl_stream *stream,
                     struct kl_array **in) {
    const int first = r->p->n_args, last = first + r->p->n_constants;
    const bool rows = (s->op == KL_OP_KERNEL && wants_rows(s)) || kl_op_is_collective(s->op);
    for (int k = 0; k < s->n_in; k++) {
        struct kl_array *a = r->value[s->in[k]];
        bool is_constant = s->in[k] >= first && s->in[k] < last;
        int rc = KL_OK;
        in[k] = a;
        if (!r->exact && is_constant && a->implicit)
            rc = kl_plan_not_broadcast(&in[k], a, stream, r->err);
        else if (rows)
            rc = kl_row_contiguous(&in[k], a, stream, r->err);
        else
            continue;
        if (!rc && in[k] == a) kl_array_release(a); /* nothing was to be done */
        if (!rc) continue;
        in[k] = a;
        release_made(r, s, in, k);
        return rc;
    }
    return KL_OK;
}

/* The operation itself, with the dtypes and shapes that were recorded. */
static int build_exact(const struct kl_plan_step *s, struct kl_array *const *in,
                       struct kl_stream *stream, struct kl_array **out, struct kl_error **err) {
    struct kl_out_spec few[KL_PLAN_FEW], *specs = s->n_out <= KL_PLAN_FEW ? few : NULL;
    struct kl_operation o = {.op = s->op,
                             .stream = stream,
                             .params = s->params,
                             .params_bytes = s->params_bytes,
                             .in = in,
                             .n_in = s->n_in};
    if (!specs && !(specs = kl_malloc((size_t)s->n_out * sizeof *specs))) return kl_fail_nomem(err);
    for (int i = 0; i < s->n_out; i++)
        specs[i] = (struct kl_out_spec){s->spec[i].dtype, s->spec[i].ndim, s->spec[i].dims};
    int rc = kl_plan_params_retain(s->op, s->params, err);
    if (!rc) {
        rc = kl_array_op(out, s->n_out, specs, &o, err);
        if (rc) kl_plan_params_release(s);
    }
    if (specs != few) kl_free(specs);
    return rc;
}

static int build_step(struct replay *r, const struct kl_plan_step *s, struct kl_array *const *in,
                      struct kl_stream *stream, struct kl_array **out) {
    struct kl_operation o = {.op = s->op,
                             .params = s->params,
                             .params_bytes = s->params_bytes,
                             .in = in,
                             .n_in = s->n_in};
    if (s->op == KL_OP_CUSTOM || s->op == KL_OP_ARGUMENT) {
        KL_TRY(kl_plan_params_retain(s->op, s->params, r->err));
        int rc = kl_array_view_many(out, s->n_out, &o, r->err);
        if (rc) kl_plan_params_release(s);
        return rc;
    }
    if (s->op == KL_OP_DEFERRED)
        return kl_deferred_again(s->params, s->params_bytes, in, s->n_in, stream, out, r->err);
    const bool by_user = s->op == KL_OP_KERNEL || s->op == KL_OP_CALL;
    if (by_user && !r->exact && !r->p->fixed)
        return kl_fail(r->err, KL_EUNSUPPORTED,
                       "a function that calls a custom kernel was compiled for any shapes; it can "
                       "be called with those of the first call only");
    if (by_user || (r->exact && !s->loose && !(kl_op_flags(s->op) & KL_OPF_VIEW)))
        return build_exact(s, in, stream, out, r->err);
    if (r->exact && s->strides && laid_out_as(in[0], s->base_strides)) {
        KL_TRY(kl_array_view(out, s->op, s->params, s->params_bytes, in[0], s->spec[0].ndim,
                             s->spec[0].dims, s->strides, s->offset, r->err));
        (*out)->stopped = s->op == KL_OP_STOP_GRADIENT;
        return KL_OK;
    }
    struct kl_build b = {.op = s->op,
                         .params = s->params,
                         .params_bytes = s->params_bytes,
                         .in = in,
                         .n_in = s->n_in,
                         .s = stream,
                         .dtype = s->spec[0].dtype,
                         .ndim = s->spec[0].ndim,
                         .dims = s->spec[0].dims};
    return kl_op_build(&b, out, r->err);
}

/* The array that a builder made must be as the plan says. */
static int check_made(const struct kl_plan_step *s, const struct kl_array *a,
                      struct kl_error **err) {
    if (a->t.dtype == s->spec[0].dtype && a->t.ndim == s->spec[0].ndim) return KL_OK;
    char name[KL_DEFERRED_NAME];
    return kl_fail(err, KL_ESHAPE,
                   "%s gives %s with %d axes, and gave %s with %d when the function was traced",
                   s->op == KL_OP_DEFERRED ? kl_deferred_name(name, s->params, s->params_bytes)
                                           : kl_op_name(s->op),
                   kl_dtype_name((enum kl_dtype)a->t.dtype), a->t.ndim,
                   kl_dtype_name(s->spec[0].dtype), s->spec[0].ndim);
}

/* The common case: a copy of the operation of the trace, to which the references of the inputs go.
 */
static int replay_image(struct replay *r, const struct kl_plan_step *s, struct kl_stream *stream) {
    struct kl_array *in[KL_PLAN_FEW], **out = &r->value[s->out];
    for (int k = 0; k < s->n_in; k++) in[k] = r->value[s->in[k]];
    KL_TRY(kl_array_of_image(out, s->image, in, stream, r->err));
    (*out)->implicit = s->implicit;
    share(*out, r->p->uses[s->out]);
    return KL_OK;
}

static uint64_t serial_of(const struct replay *r, const struct kl_plan_step *s) {
    const struct kl_collective_params *p = s->params;
    return r->serial + (p->serial - r->p->first_serial);
}

static int replay_step(struct replay *r, const struct kl_plan_step *s) {
    struct kl_array *few[KL_PLAN_FEW], **in = few, **out = &r->value[s->out];
    const uint32_t *uses = &r->p->uses[s->out];
    struct kl_stream *stream = s->s;
    if (s->implicit && !r->exact) { /* the builder of the operation that reads it does it again */
        *out = r->value[s->in[0]];
        share(*out, uses[0]);
        return KL_OK;
    }
    if (!stream) KL_TRY(kl_transform_stream(&stream, r->err));
    if (s->image && r->exact) return replay_image(r, s, stream);
    if (s->n_in > KL_PLAN_FEW && !(in = kl_malloc((size_t)s->n_in * sizeof *in)))
        return kl_fail_nomem(r->err);
    int rc = inputs_of(r, s, stream, in);
    if (!rc) {
        struct kl_origin before = kl_origin_set(s->origin);
        if (kl_op_is_collective(s->op)) kl_collective_next_serial(serial_of(r, s));
        rc = build_step(r, s, in, stream, out);
        kl_collective_next_serial(0);
        kl_origin_set(before);
        if (!rc && !r->exact && s->n_out == 1 && (rc = check_made(s, *out, r->err))) {
            kl_array_release(*out);
            *out = NULL;
        }
        release_made(r, s, in, s->n_in);
    }
    for (int k = 0; !rc && k < s->n_in; k++) kl_array_release(r->value[s->in[k]]);
    if (!rc && s->implicit) (*out)->implicit = true;
    for (int i = 0; !rc && i < s->n_out; i++) share(out[i], uses[i]);
    if (in != few) kl_free(in);
    return rc;
}

/* Drops the references for what was not done: steps from `step` on, and results. */
static void give_up(const struct replay *r, int step) {
    const struct kl_plan *p = r->p;
    for (int i = step; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++) kl_array_release(r->value[p->steps[i].in[k]]);
    for (int i = 0; i < p->n_outs; i++) kl_array_release(r->value[p->outs[i]]);
    for (int i = 0; i < p->n_guards; i++)
        if (p->guards[i].value >= p->n_args) kl_array_release(r->value[p->guards[i].value]);
}

/* Where this replay belongs to a trace of its own, that has seen the extent too. */
static bool passes(const struct kl_plan_guard *g, struct kl_array *a) {
    if (g->axis >= a->t.ndim || a->t.dims[g->axis] != g->extent) return false;
    if (a->shapeless) kl_trace_note_read(a, g->axis);
    return true;
}

const struct kl_plan_guard *kl_plan_failed_guard(const struct kl_plan *p,
                                                 struct kl_array *const *args) {
    for (int i = 0; i < p->n_guards && p->guards[i].value < p->n_args; i++)
        if (!passes(&p->guards[i], args[p->guards[i].value])) return &p->guards[i];
    return NULL;
}

static int check_guards(const struct replay *r) {
    const struct kl_plan *p = r->p;
    for (int i = 0; i < p->n_guards; i++) {
        const struct kl_plan_guard *g = &p->guards[i];
        const struct kl_array *a = r->value[g->value];
        if (g->value < p->n_args || passes(g, r->value[g->value])) continue;
        return kl_fail(r->err, KL_ESHAPE,
                       "an array of shape %s has %d elements along axis %d; the function was "
                       "traced with %d, and read that number",
                       KL_SHAPE_TEXT_OF(a), g->axis < a->t.ndim ? a->t.dims[g->axis] : 0, g->axis,
                       g->extent);
    }
    return KL_OK;
}

int kl_plan_replay(const struct kl_plan *p, struct kl_array *const *args, bool exact,
                   struct kl_arrays *outs, struct kl_error **err) {
    struct replay r = {.p = p, .exact = exact, .err = err};
    r.value = kl_calloc((size_t)p->n_values + 1, sizeof *r.value);
    if (!r.value) return kl_fail_nomem(err);
    for (int i = 0; i < p->n_args + p->n_constants; i++) {
        r.value[i] = kl_array_retain(i < p->n_args ? args[i] : p->constants[i - p->n_args]);
        share(r.value[i], p->uses[i]);
    }
    if (p->n_serials) r.serial = kl_collective_serials(p->n_serials);
    int rc = KL_OK, step = 0;
    while (step < p->n_steps && !(rc = replay_step(&r, &p->steps[step]))) step++;
    if (!rc) rc = check_guards(&r);
    if (!rc) rc = kl_arrays_new(outs, (size_t)p->n_outs, err);
    if (rc) give_up(&r, step);
    for (int i = 0; i < p->n_outs && !rc; i++) outs->v[i] = r.value[p->outs[i]];
    for (int i = 0; i < p->n_guards && !rc; i++)
        if (p->guards[i].value >= p->n_args) kl_array_release(r.value[p->guards[i].value]);
    kl_free(r.value);
    return rc;
}
