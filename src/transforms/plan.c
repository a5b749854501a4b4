/* plan.c - see plan.h. A replay builds the steps as lazy operations like any others, so fates,
 * checks, donation and fusion are those of plain code, and what is left out of a check is decided
 * again from the arrays of this replay. */
#include "transforms/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/refs.h"
#include "graph/tracing.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/ops.h"
#include "transforms/custom.h"
#include "transforms/deferred.h"
#include "base/op/param_form.h"

/* ---- the parts of a plan ---- */

static void *copy_of(const void *p, size_t bytes) {
    void *q = kl_malloc(bytes ? bytes : 1);
    if (q && bytes) memcpy(q, p, bytes);
    return q;
}

static int spec_of(struct kl_plan_spec *spec, const struct kl_array *a, struct kl_error **err) {
    *spec = (struct kl_plan_spec){(enum kl_dtype)a->t.dtype, a->t.ndim, NULL};
    spec->dims = copy_of(a->t.dims, (size_t)a->t.ndim * sizeof *a->t.dims);
    return spec->dims ? KL_OK : kl_fail_nomem(err);
}

static void params_release(const struct kl_plan_step *s) {
    if (!s->params) return;
    if (s->op == KL_OP_CUSTOM) {
        const struct kl_custom_params *p = s->params;
        p->release(p->custom);
    } else if (s->op == KL_OP_KERNEL) {
        kl_kernel_desc_release(((const struct kl_kernel_params *)s->params)->desc);
    } else if (s->op == KL_OP_CALL) {
        const struct kl_call_params *p = s->params;
        if (p->release) p->release(p->ctx);
    }
}

/* Takes one more reference to what the parameters own. */
static int params_retain(enum kl_op_id op, const void *params, struct kl_error **err) {
    if (op == KL_OP_CUSTOM) {
        kl_custom_function_retain(((const struct kl_custom_params *)params)->custom);
    } else if (op == KL_OP_KERNEL) {
        kl_kernel_desc_retain(((const struct kl_kernel_params *)params)->desc);
    } else if (op == KL_OP_CALL) {
        const struct kl_call_params *p = params;
        if (p->release && !p->retain)
            return kl_fail(err, KL_EUNSUPPORTED, "%s cannot be a part of a compiled function",
                           p->name);
        if (p->retain) p->retain(p->ctx);
    }
    return KL_OK;
}

static void step_free(struct kl_plan_step *s) {
    params_release(s);
    kl_free(s->params);
    kl_free(s->in);
    for (int i = 0; s->spec && i < s->n_out; i++) kl_free(s->spec[i].dims);
    kl_free(s->spec);
    kl_free(s->strides);
    kl_free(s->base_strides);
    kl_free(s->image);
}

struct kl_plan *kl_plan_new(struct kl_error **err) {
    struct kl_plan *p = kl_calloc(1, sizeof *p);
    if (!p) {
        kl_fail_nomem(err);
        return NULL;
    }
    atomic_init(&p->refs, 1);
    return p;
}

struct kl_plan *kl_plan_retain(struct kl_plan *p) {
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void kl_plan_release(struct kl_plan *p) {
    if (!p || !kl_refs_drop(&p->refs)) return;
    for (int i = 0; i < p->n_steps; i++) step_free(&p->steps[i]);
    for (int i = 0; i < p->n_constants; i++) kl_array_release(p->constants[i]);
    for (int i = 0; p->args && i < p->n_args; i++) kl_free(p->args[i].dims);
    kl_free(p->steps);
    kl_free(p->constants);
    kl_free(p->args);
    kl_free(p->outs);
    kl_free(p->guards);
    kl_free(p->uses);
    kl_free(p);
}

/* ---- making a plan of a tape ---- */

enum { FEW = 16 }; /* inputs or outputs of nearly every step */

/* Hash table from what a step computes to the step. */
struct known {
    int32_t *slot; /* of `room`, a power of two; -1: free */
    uint32_t room;
};

struct maker {
    struct kl_plan *p;
    const struct kl_tape *tape;
    int32_t *value; /* of each slot of the tape */
    bool *begins;   /* of each slot: an argument of a custom function or checkpoint */
    struct known known;
    int constants_room;
    bool simplify;
    struct kl_error **err;
};

static int constant(struct maker *m, struct kl_array *a, int32_t *number) {
    struct kl_plan *p = m->p;
    for (int i = p->n_constants; i-- > 0 && i >= p->n_constants - 8;) {
        if (p->constants[i] != a) continue;
        *number = -1 - i;
        return KL_OK;
    }
    if (p->n_constants == m->constants_room) {
        int more = m->constants_room ? 2 * m->constants_room : 16;
        void *v = kl_realloc(p->constants, (size_t)more * sizeof *p->constants);
        if (!v) return kl_fail_nomem(m->err);
        p->constants = v;
        m->constants_room = more;
    }
    *number = -1 - p->n_constants; /* a final number comes with kl_plan_complete */
    p->constants[p->n_constants++] = kl_array_retain(a);
    p->once |= kl_array_is_tracer(a);
    return KL_OK;
}

static uint32_t mix(uint32_t h, const void *data, size_t n) {
    const unsigned char *b = data;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 16777619u;
    return h;
}

static uint32_t hash_of(const struct kl_plan_step *s) {
    uint32_t h = mix(2166136261u, &s->op, sizeof s->op);
    h = mix(h, s->in, (size_t)s->n_in * sizeof *s->in);
    return mix(h, s->params, s->params_bytes);
}

static bool same(const struct kl_plan_step *a, const struct kl_plan_step *b) {
    return a->op == b->op && a->s == b->s && a->n_in == b->n_in && a->n_out == b->n_out &&
           a->params_bytes == b->params_bytes && a->origin.kind == b->origin.kind &&
           a->origin.op == b->origin.op && a->origin.lanes == b->origin.lanes &&
           a->origin.alias == b->origin.alias && a->implicit == b->implicit &&
           a->spec[0].dtype == b->spec[0].dtype && a->spec[0].ndim == b->spec[0].ndim &&
           memcmp(a->spec[0].dims, b->spec[0].dims, (size_t)a->spec[0].ndim * sizeof(int)) == 0 &&
           memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 &&
           memcmp(a->params, b->params, a->params_bytes) == 0;
}

/* Whether equal steps of the operation may be done once. */
static bool may_merge(const struct kl_plan_step *s) {
    switch (s->op) {
    case KL_OP_CUSTOM:
    case KL_OP_ARGUMENT:
    case KL_OP_CALL:
    case KL_OP_KERNEL:
    case KL_OP_DEPENDS: return false;
    default: return true;
    }
}

/* The earlier step that computes what s does; NULL: there is none, and s is known from now on. */
static const struct kl_plan_step *find(struct maker *m, const struct kl_plan_step *s) {
    struct known *k = &m->known;
    if (!k->room) return NULL;
    for (uint32_t at = hash_of(s) & (k->room - 1);; at = (at + 1) & (k->room - 1)) {
        if (k->slot[at] < 0) {
            k->slot[at] = m->p->n_steps;
            return NULL;
        }
        if (same(&m->p->steps[k->slot[at]], s)) return &m->p->steps[k->slot[at]];
    }
}

/* A view's layout, if its base was laid out as the base of every replay is likely to be. */
static int view_layout(struct kl_plan_step *s, const struct kl_node *n, struct kl_error **err) {
    const struct kl_tensor *t = &n->out[0]->t, *base = &n->in[0]->t;
    s->strides = copy_of(t->strides, (size_t)t->ndim * sizeof *t->strides);
    s->base_strides = copy_of(base->strides, (size_t)base->ndim * sizeof *base->strides);
    if (!s->strides || !s->base_strides) return kl_fail_nomem(err);
    s->offset = t->offset - base->offset;
    return KL_OK;
}

/* The bytes between the fields of the parameters may be anything: they become 0, so that equal
 * parameters are equal bytes. */
static void clear_padding(const struct kl_plan_step *s) {
    const struct kl_param_form *f = kl_param_form(s->op);
    char head[64] = {0};
    if (!f || f->head > sizeof head || f->head > s->params_bytes) return;
    if (!f->tail && f->head != s->params_bytes) return;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        memcpy(head + f->field[i].offset, (char *)s->params + f->field[i].offset,
               kl_param_bytes(f->field[i].type));
    memcpy(s->params, head, f->head);
}

static int copy_params(struct kl_plan_step *s, const struct kl_task *t, struct kl_error **err) {
    void *own = copy_of(t->params, t->params_bytes);
    if (!own) return kl_fail_nomem(err);
    int rc = params_retain(s->op, own, err);
    if (rc) {
        kl_free(own);
        return rc;
    }
    s->params = own;
    s->params_bytes = t->params_bytes;
    clear_padding(s);
    return KL_OK;
}

/* Whether an operation of such a step can be a copy of the first one. */
static bool has_image(const struct kl_plan_step *s) {
    return s->n_out == 1 && s->n_in <= FEW && !(kl_op_flags(s->op) & KL_OPF_VIEW) &&
           s->op != KL_OP_KERNEL && s->op != KL_OP_CALL && s->op != KL_OP_CUSTOM &&
           s->op != KL_OP_ARGUMENT && s->op != KL_OP_DEFERRED;
}

static int image_of(struct kl_plan_step *s, struct kl_error **err) {
    const struct kl_operation o = {
        .op = s->op, .params = s->params, .params_bytes = s->params_bytes, .n_in = s->n_in};
    const struct kl_out_spec spec = {s->spec[0].dtype, s->spec[0].ndim, s->spec[0].dims};
    struct kl_origin before = kl_origin_set(s->origin);
    int rc = kl_image_new(&s->image, &o, &spec, err);
    kl_origin_set(before);
    return rc;
}

/* Whether the operands of an element-wise operation have one shape. In a trace for any shapes they
 * are recorded as they are given, and each replay broadcasts them. */
static bool same_shapes(const struct kl_node *n) {
    if (!(kl_op_flags(n->task.op) & KL_OPF_ELEMENTWISE)) return true;
    for (int i = 0; i < n->n_in; i++)
        if (!kl_shape_is(n->in[i], n->out[0]->t.ndim, n->out[0]->t.dims)) return false;
    return true;
}

/* Fills in *s from a step of the tape. On failure what it holds is freed by the caller. */
static int fill_step(struct maker *m, struct kl_plan_step *s, const struct kl_tape_step *step) {
    const struct kl_node *n = step->node;
    s->op = n->task.op;
    s->origin = n->task.origin;
    s->s = n->stream;
    s->n_in = n->n_in;
    s->in = kl_malloc(((size_t)n->n_in + 1) * sizeof *s->in);
    s->spec = kl_calloc((size_t)n->n_out, sizeof *s->spec);
    if (!s->in || !s->spec) return kl_fail_nomem(m->err);
    s->n_out = n->n_out;
    KL_TRY(copy_params(s, &n->task, m->err));
    for (int i = 0; i < n->n_out; i++) KL_TRY(spec_of(&s->spec[i], n->out[i], m->err));
    for (int i = 0; i < n->n_in; i++) {
        int32_t slot = m->tape->edges[step->edge + i];
        if (slot >= 0)
            s->in[i] = m->value[slot];
        else
            KL_TRY(constant(m, n->in[i], &s->in[i]));
    }
    s->implicit = n->out[0]->implicit;
    s->loose = m->p->shapeless && !same_shapes(n);
    if (s->loose) return KL_OK;
    if (has_image(s)) return image_of(s, m->err);
    if ((kl_op_flags(s->op) & KL_OPF_VIEW) && n->n_out == 1 && s->op != KL_OP_CUSTOM &&
        s->op != KL_OP_ARGUMENT && n->in[0]->t.dtype == n->out[0]->t.dtype)
        return view_layout(s, n, m->err);
    return KL_OK;
}

static int make_step(struct maker *m, const struct kl_tape_step *step) {
    const struct kl_node *n = step->node;
    struct kl_plan_step *s = &m->p->steps[m->p->n_steps];
    /* The argument of a gradient, say. That of a checkpoint stays: there begins what is made
     * again. */
    if (n->task.op == KL_OP_ARGUMENT && n->n_in == 1 && !m->begins[step->slot]) {
        m->value[step->slot] = m->value[m->tape->edges[step->edge]];
        return KL_OK;
    }
    memset(s, 0, sizeof *s);
    int rc = fill_step(m, s, step);
    const struct kl_plan_step *earlier = !rc && m->simplify && may_merge(s) ? find(m, s) : NULL;
    if (rc || earlier) {
        if (earlier) m->value[step->slot] = earlier->out;
        step_free(s);
        return rc;
    }
    s->out = m->p->n_values;
    m->p->n_values += s->n_out;
    m->p->n_steps++;
    for (int i = 0; i < s->n_out; i++) m->value[step->slot + i] = s->out + i;
    return KL_OK;
}

static void note_arguments(struct maker *m, const struct kl_tape_step *step) {
    const struct kl_node *n = step->node;
    if (n->task.op != KL_OP_CUSTOM) return;
    for (int i = n->n_out; i < n->n_in; i++)
        if (m->tape->edges[step->edge + i] >= 0) m->begins[m->tape->edges[step->edge + i]] = true;
}

int kl_plan_complete(struct kl_plan *p, struct kl_error **err) {
    const int32_t n = p->n_constants, args = p->n_args;
#define RENUMBER(v) ((v) < 0 ? args - 1 - (v) : (v) >= args ? (v) + n : (v))
    for (int i = 0; i < p->n_steps; i++) {
        struct kl_plan_step *s = &p->steps[i];
        s->out = RENUMBER(s->out);
        for (int k = 0; k < s->n_in; k++) s->in[k] = RENUMBER(s->in[k]);
    }
    for (int i = 0; i < p->n_outs; i++) p->outs[i] = RENUMBER(p->outs[i]);
    for (int i = 0; i < p->n_guards; i++) p->guards[i].value = RENUMBER(p->guards[i].value);
#undef RENUMBER
    p->n_values += n;
    p->uses = kl_calloc((size_t)p->n_values + 1, sizeof *p->uses);
    if (!p->uses) return kl_fail_nomem(err);
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++) p->uses[p->steps[i].in[k]]++;
    for (int i = 0; i < p->n_outs; i++) p->uses[p->outs[i]]++;
    for (int i = 0; i < p->n_guards; i++)
        if (p->guards[i].value >= args) p->uses[p->guards[i].value]++;
    return KL_OK;
}

/* What the function saw of the shapes of values. All results of the tape behind n_outs are such
 * values. One that depends on the arguments in a way that the plan cannot follow (a lane of vmap)
 * stands for all extents of all arguments. */
static int make_guards(struct maker *m, const struct kl_trace *t, const int32_t *slots) {
    struct kl_plan *p = m->p;
    bool all = t->fixed;
    int n = 0, room = 0;
    for (int i = 0; i < t->n_reads; i++) {
        all = all || slots[i] < 0;
        room += t->reads[i].a->t.ndim;
    }
    for (int i = 0; i < p->n_args; i++) room += p->args[i].ndim;
    p->fixed = t->fixed;
    p->fixed_by = t->fixed_by;
    if (!(p->guards = kl_malloc(((size_t)room + 1) * sizeof *p->guards)))
        return kl_fail_nomem(m->err);
    for (int i = 0; i < p->n_args && all; i++)
        for (int d = 0; d < p->args[i].ndim; d++)
            p->guards[n++] = (struct kl_plan_guard){i, d, p->args[i].dims[d]};
    for (int of_args = 1; of_args >= 0; of_args--)
        for (int i = 0; i < t->n_reads; i++) {
            const struct kl_read *r = &t->reads[i];
            if (slots[i] < 0) continue;
            const int32_t value = m->value[slots[i]];
            if ((value >= 0 && value < p->n_args) != of_args || (of_args && all)) continue;
            for (int d = 0; d < r->a->t.ndim; d++)
                if (r->axes >> d & 1)
                    p->guards[n++] = (struct kl_plan_guard){value, d, r->a->t.dims[d]};
        }
    p->n_guards = n;
    return KL_OK;
}

static int make_steps(struct maker *m, const struct kl_trace *t, const struct kl_arrays *outs,
                      const int32_t *slots) {
    struct kl_plan *p = m->p;
    p->steps = kl_malloc(((size_t)m->tape->n_steps + 1) * sizeof *p->steps);
    m->begins = kl_calloc((size_t)m->tape->n_slots + 1, sizeof *m->begins);
    m->value = kl_malloc(((size_t)m->tape->n_slots + 1) * sizeof *m->value);
    p->outs = kl_malloc((outs->n + 1) * sizeof *p->outs);
    if (!p->steps || !m->begins || !m->value || !p->outs) return kl_fail_nomem(m->err);
    if (m->simplify) {
        for (m->known.room = 64; m->known.room < 2 * (uint32_t)m->tape->n_steps;)
            m->known.room *= 2;
        m->known.slot = kl_malloc(m->known.room * sizeof *m->known.slot);
        if (!m->known.slot) return kl_fail_nomem(m->err);
        memset(m->known.slot, 0xff, m->known.room * sizeof *m->known.slot);
    }
    for (int32_t i = 0; i < m->tape->n_steps; i++) note_arguments(m, &m->tape->steps[i]);
    p->n_values = p->n_args;
    for (int32_t i = 0; i < p->n_args; i++) m->value[i] = i;
    for (int32_t i = 0; i < m->tape->n_steps; i++) KL_TRY(make_step(m, &m->tape->steps[i]));
    for (size_t i = 0; i < outs->n; i++) {
        if (slots[i] >= 0)
            p->outs[i] = m->value[slots[i]];
        else
            KL_TRY(constant(m, outs->v[i], &p->outs[i]));
        p->n_outs++;
    }
    if (p->shapeless) KL_TRY(make_guards(m, t, slots + outs->n));
    return kl_plan_complete(p, m->err);
}

static int plan_of(struct kl_plan *p, const struct kl_trace *t, const struct kl_arrays *args,
                   const struct kl_arrays *outs, bool simplify, struct kl_error **err) {
    struct kl_tape tape;
    const size_t n = outs->n + (size_t)t->n_reads;
    int32_t *slots = kl_malloc((n + 1) * sizeof *slots);
    struct kl_array **ends = kl_malloc((n + 1) * sizeof *ends);
    int rc = slots && ends ? KL_OK : kl_fail_nomem(err);
    for (size_t i = 0; i < n && !rc; i++)
        ends[i] = i < outs->n ? outs->v[i] : t->reads[i - outs->n].a;
    if (!rc) rc = kl_tape_record(&tape, t, args->v, args->n, ends, n, slots, true, err);
    if (!rc) {
        struct maker m = {.p = p, .tape = &tape, .simplify = simplify, .err = err};
        rc = make_steps(&m, t, outs, slots);
        kl_free(m.value);
        kl_free(m.begins);
        kl_free(m.known.slot);
        kl_tape_free(&tape);
    }
    kl_free(slots);
    kl_free(ends);
    return rc;
}

int kl_plan_trace(struct kl_plan **out, const struct kl_function *f,
                  const struct kl_plan_spec *specs, size_t n_args, bool simplify, bool shapeless,
                  struct kl_error **err) {
    struct kl_arrays args = {0}, outs = {0};
    struct kl_trace *t;
    struct kl_plan *p = kl_plan_new(err);
    if (!p) return KL_ENOMEM;
    int rc = kl_trace_begin(&t, err);
    if (rc) {
        kl_plan_release(p);
        return rc;
    }
    p->shapeless = shapeless;
    if (shapeless) kl_trace_set_shapeless(t);
    rc = kl_arrays_new(&args, n_args, err);
    if (!rc && !(p->args = kl_calloc(n_args + 1, sizeof *p->args))) rc = kl_fail_nomem(err);
    for (size_t i = 0; i < n_args && !rc; i++) {
        rc = kl_trace_placeholder(&args.v[i], t, specs[i].dtype, specs[i].ndim, specs[i].dims, err);
        if (!rc) rc = spec_of(&p->args[i], args.v[i], err);
        p->n_args++;
    }
    if (!rc) rc = kl_function_call(f, args.v, n_args, &outs, err);
    if (!rc) rc = plan_of(p, t, &args, &outs, simplify, err);
    kl_arrays_free(&outs);
    kl_arrays_free(&args);
    kl_trace_end(t);
    if (rc)
        kl_plan_release(p);
    else
        *out = p;
    return rc;
}

/* ---- replay ---- */

/* Every value has as many references as the plan has uses of it, from the moment it is made: a node
 * takes those of its inputs over, and a result that of the replay. Counting them one by one, with
 * atomic instructions, would take as long as all else. */
struct replay {
    const struct kl_plan *p;
    struct kl_array **value; /* NULL: not made yet */
    bool exact;
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

/* Whether the kernel takes row-contiguous inputs only. Those of the trace may have been; a replay
 * has others. */
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
    const bool rows = s->op == KL_OP_KERNEL && wants_rows(s);
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
    struct kl_out_spec few[FEW], *specs = s->n_out <= FEW ? few : NULL;
    struct kl_operation o = {.op = s->op,
                             .stream = stream,
                             .params = s->params,
                             .params_bytes = s->params_bytes,
                             .in = in,
                             .n_in = s->n_in};
    if (!specs && !(specs = kl_malloc((size_t)s->n_out * sizeof *specs))) return kl_fail_nomem(err);
    for (int i = 0; i < s->n_out; i++)
        specs[i] = (struct kl_out_spec){s->spec[i].dtype, s->spec[i].ndim, s->spec[i].dims};
    int rc = params_retain(s->op, s->params, err);
    if (!rc) {
        rc = kl_array_op(out, s->n_out, specs, &o, err);
        if (rc) params_release(s);
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
        KL_TRY(params_retain(s->op, s->params, r->err));
        int rc = kl_array_view_many(out, s->n_out, &o, r->err);
        if (rc) params_release(s);
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

/* What a plan says of a result must be true of the one that a builder made. */
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
    struct kl_array *in[FEW], **out = &r->value[s->out];
    for (int k = 0; k < s->n_in; k++) in[k] = r->value[s->in[k]];
    KL_TRY(kl_array_of_image(out, s->image, in, stream, r->err));
    (*out)->implicit = s->implicit;
    share(*out, r->p->uses[s->out]);
    return KL_OK;
}

static int replay_step(struct replay *r, const struct kl_plan_step *s) {
    struct kl_array *few[FEW], **in = few, **out = &r->value[s->out];
    const uint32_t *uses = &r->p->uses[s->out];
    struct kl_stream *stream = s->s;
    if (s->implicit && !r->exact) { /* the builder of the operation that reads it does it again */
        *out = r->value[s->in[0]];
        share(*out, uses[0]);
        return KL_OK;
    }
    if (!stream) KL_TRY(kl_transform_stream(&stream, r->err));
    if (s->image && r->exact) return replay_image(r, s, stream);
    if (s->n_in > FEW && !(in = kl_malloc((size_t)s->n_in * sizeof *in)))
        return kl_fail_nomem(r->err);
    int rc = inputs_of(r, s, stream, in);
    if (!rc) {
        struct kl_origin before = kl_origin_set(s->origin);
        rc = build_step(r, s, in, stream, out);
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
