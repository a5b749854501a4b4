/* plan.c - makes a plan of a tape; see plan.h. replay.c builds its operations again. */
#include "transforms/plan.h"

#include <string.h>

#include "backend/collective/group.h"
#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/refs.h"
#include "graph/tracing.h"
#include "ops/build/check.h"
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

void kl_plan_params_release(const struct kl_plan_step *s) {
    if (!s->params) return;
    if (s->op == KL_OP_CUSTOM) {
        const struct kl_custom_params *p = s->params;
        p->release(p->custom);
    } else if (kl_op_is_collective(s->op)) {
        kl_group_release(((const struct kl_collective_params *)s->params)->group);
    } else if (s->op == KL_OP_KERNEL) {
        kl_kernel_desc_release(((const struct kl_kernel_params *)s->params)->desc);
    } else if (s->op == KL_OP_CALL) {
        const struct kl_call_params *p = s->params;
        if (p->release) p->release(p->ctx);
    }
}

int kl_plan_params_retain(enum kl_op_id op, const void *params, struct kl_error **err) {
    if (op == KL_OP_CUSTOM) {
        kl_custom_function_retain(((const struct kl_custom_params *)params)->custom);
    } else if (kl_op_is_collective(op)) {
        kl_group_retain(((const struct kl_collective_params *)params)->group);
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
    kl_plan_params_release(s);
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
    default: return !kl_op_is_collective(s->op); /* each is done, by all ranks */
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
    int rc = kl_plan_params_retain(s->op, own, err);
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
    return s->n_out == 1 && s->n_in <= KL_PLAN_FEW && !(kl_op_flags(s->op) & KL_OPF_VIEW) &&
           s->op != KL_OP_KERNEL && s->op != KL_OP_CALL && s->op != KL_OP_CUSTOM &&
           s->op != KL_OP_ARGUMENT && s->op != KL_OP_DEFERRED && !kl_op_is_collective(s->op);
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

/* The numbers that the operations of groups had in the order of building. */
static void note_serials(struct kl_plan *p) {
    uint64_t first = UINT64_MAX, last = 0;
    for (int i = 0; i < p->n_steps; i++) {
        if (!kl_op_is_collective(p->steps[i].op)) continue;
        const uint64_t serial = ((const struct kl_collective_params *)p->steps[i].params)->serial;
        first = serial < first ? serial : first;
        last = serial > last ? serial : last;
    }
    p->first_serial = first;
    p->n_serials = last ? last - first + 1 : 0;
}

int kl_plan_complete(struct kl_plan *p, struct kl_error **err) {
    note_serials(p);
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

/* The extents that the function saw. All results of the tape after the first n_outs are values
 * whose extents it saw. A value that depends on the arguments in a way that the plan cannot follow
 * (a lane of vmap) stands for all extents of all arguments. */
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
