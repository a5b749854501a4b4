/* export.c - writes functions; see export.h and docs/function-files.md. */
#include "transforms/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/param_form.h"
#include "io/sink.h"
#include "ops/build/check.h"
#include "ops/ops.h"
#include "transforms/function_file.h"
#include "transforms/plan.h"

struct exported {
    struct kl_plan *plan;
    char **names; /* of the last n_names arguments; owned */
    size_t n_names;
};

struct kl_exporter {
    char *path;
    char *metadata; /* owned; NULL: there is none */
    bool shapeless;
    struct exported *functions;
    size_t n_functions;
    struct kl_arrays constants; /* of all functions; no array twice */
};

int kl_exporter_new(struct kl_exporter **out, const char *path, bool shapeless,
                    struct kl_error **err) {
    if (!path) return kl_fail(err, KL_EARG, "the path of the file is NULL");
    struct kl_exporter *x = kl_calloc(1, sizeof *x);
    char *own = x ? kl_strdup(path) : NULL;
    if (!own) {
        kl_free(x);
        return kl_fail_nomem(err);
    }
    x->path = own;
    x->shapeless = shapeless;
    *out = x;
    return KL_OK;
}

int kl_exporter_set_metadata(struct kl_exporter *x, const char *text, struct kl_error **err) {
    char *own = kl_strdup(text);
    if (!own) return kl_fail_nomem(err);
    kl_free(x->metadata);
    x->metadata = own;
    return KL_OK;
}

static void exported_free(struct exported *e) {
    kl_plan_release(e->plan);
    for (size_t i = 0; e->names && i < e->n_names; i++) kl_free(e->names[i]);
    kl_free(e->names);
}

void kl_exporter_abort(struct kl_exporter *x) {
    if (!x) return;
    for (size_t i = 0; i < x->n_functions; i++) exported_free(&x->functions[i]);
    kl_free(x->functions);
    kl_arrays_free(&x->constants);
    kl_free(x->metadata);
    kl_free(x->path);
    kl_free(x);
}

/* ---- adding a function ---- */

/* Every operation must be one that a file can hold. */
static int check_steps(const struct kl_plan *p, struct kl_error **err) {
    for (int i = 0; i < p->n_steps; i++) {
        enum kl_op_id op = p->steps[i].op;
        if (op == KL_OP_CUSTOM || kl_params_have_form(op, p->steps[i].params_bytes)) continue;
        return kl_fail(err, KL_EUNSUPPORTED,
                       "the function calls %s, which cannot be written to a file", kl_op_name(op));
    }
    if (p->fixed)
        return kl_fail(err, KL_EUNSUPPORTED,
                       "the function calls %s with numbers of the extents of its arguments, so it "
                       "cannot be exported for any shapes",
                       kl_op_name(p->fixed_by));
    if (p->once)
        return kl_fail(err, KL_ETRACE,
                       "the function uses an argument of a function around it that is being "
                       "transformed, which has no lasting value");
    return KL_OK;
}

static bool same_kind(const struct exported *e, bool shapeless, struct kl_array *const *args,
                      size_t n, struct kl_names names) {
    if ((size_t)e->plan->n_args != n || e->n_names != names.n) return false;
    for (size_t i = 0; i < names.n; i++)
        if (strcmp(e->names[i], names.v[i]) != 0) return false;
    for (size_t i = 0; i < n; i++) {
        const struct kl_plan_spec *s = &e->plan->args[i];
        if (s->dtype != (enum kl_dtype)args[i]->t.dtype || s->ndim != args[i]->t.ndim) return false;
        if (!shapeless && !kl_shape_is(args[i], s->ndim, s->dims)) return false;
    }
    return true;
}

static int keep_names(struct exported *e, struct kl_names names, struct kl_error **err) {
    e->names = kl_calloc(names.n + 1, sizeof *e->names);
    if (!e->names) return kl_fail_nomem(err);
    for (e->n_names = 0; e->n_names < names.n; e->n_names++) {
        size_t n = strlen(names.v[e->n_names]);
        if (n > KL_FUNCTION_FILE_NAME_BYTES)
            return kl_fail(err, KL_ELIMIT,
                           "the name of an argument has %zu bytes; a file takes at most %d", n,
                           KL_FUNCTION_FILE_NAME_BYTES);
        e->names[e->n_names] = kl_strdup(names.v[e->n_names]);
        if (!e->names[e->n_names]) return kl_fail_nomem(err);
    }
    return KL_OK;
}

/* Adds the plan's constants to those of the file. */
static int keep_constants(struct kl_exporter *x, const struct kl_plan *p, struct kl_error **err) {
    for (int i = 0; i < p->n_constants; i++) {
        size_t at = 0;
        while (at < x->constants.n && x->constants.v[at] != p->constants[i]) at++;
        if (at < x->constants.n) continue;
        void *v = kl_realloc(x->constants.v, (x->constants.n + 1) * sizeof *x->constants.v);
        if (!v) return kl_fail_nomem(err);
        x->constants.v = v;
        x->constants.v[x->constants.n++] = kl_array_retain(p->constants[i]);
    }
    return KL_OK;
}

int kl_exporter_add(struct kl_exporter *x, const struct kl_function *f,
                    struct kl_array *const *args, size_t n_args, struct kl_names names,
                    struct kl_error **err) {
    struct exported e = {0};
    for (size_t i = 0; i < x->n_functions; i++)
        if (same_kind(&x->functions[i], x->shapeless, args, n_args, names))
            return kl_fail(err, KL_EARG,
                           "the function was exported for arguments of these dtypes and shapes "
                           "before");
    struct kl_plan_spec *specs = kl_malloc((n_args + 1) * sizeof *specs);
    void *room = kl_realloc(x->functions, (x->n_functions + 1) * sizeof *x->functions);
    if (room) x->functions = room;
    if (!specs || !room) {
        kl_free(specs);
        return kl_fail_nomem(err);
    }
    for (size_t i = 0; i < n_args; i++)
        specs[i] = (struct kl_plan_spec){(enum kl_dtype)args[i]->t.dtype, args[i]->t.ndim,
                                         (int *)args[i]->t.dims};
    int rc = kl_plan_trace(&e.plan, f, specs, n_args, true, x->shapeless, err);
    if (!rc) rc = check_steps(e.plan, err);
    if (!rc) rc = keep_names(&e, names, err);
    if (!rc) rc = keep_constants(x, e.plan, err);
    kl_free(specs);
    if (rc)
        exported_free(&e);
    else
        x->functions[x->n_functions++] = e;
    return rc;
}

/* ---- writing ---- */

struct writer {
    struct kl_sink sink;
    struct kl_error **err;
    int rc; /* the first failure; nothing is written after it */
};

static void put(struct writer *w, const void *p, size_t n) {
    if (!w->rc && n) w->rc = kl_sink_write(&w->sink, p, n, NULL, w->err);
}

/* The n low bytes of x, the lowest first. */
static void put_number(struct writer *w, uint64_t x, size_t n) {
    unsigned char b[8];
    for (size_t i = 0; i < n; i++) b[i] = (unsigned char)(x >> (8 * i));
    put(w, b, n);
}

static void put_shape(struct writer *w, enum kl_dtype dtype, int ndim, const int *dims) {
    put_number(w, dtype, 1);
    put_number(w, (uint64_t)ndim, 1);
    for (int i = 0; i < ndim; i++) put_number(w, (uint32_t)dims[i], 4);
}

static void put_text(struct writer *w, const char *text) {
    size_t n = strlen(text);
    put_number(w, n, 4);
    put(w, text, n);
}

static void put_field(struct writer *w, char type, const void *p) {
    uint64_t x = 0;
    if (type == 'b') {
        x = *(const bool *)p;
    } else if (kl_param_bytes(type) == 8) {
        memcpy(&x, p, 8);
    } else {
        uint32_t y;
        memcpy(&y, p, 4);
        x = y;
    }
    put_number(w, x, kl_param_bytes(type));
}

static void put_params(struct writer *w, const struct kl_plan_step *s) {
    const struct kl_param_form *f = kl_param_form(s->op);
    const char *p = s->params;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        put_field(w, f->field[i].type, p + f->field[i].offset);
    if (!f->tail) return;
    size_t item = kl_param_bytes(f->tail), n = (s->params_bytes - f->head) / item;
    put_number(w, n, 4);
    for (size_t i = 0; i < n; i++) put_field(w, f->tail, p + f->head + i * item);
}

/* A constant; one that a builder had broadcast is written as it was before. */
static void put_constant(struct writer *w, struct kl_array *a) {
    struct kl_array *own = NULL;
    if (!w->rc && a->implicit) {
        struct kl_stream *s;
        w->rc = kl_transform_stream(&s, w->err);
        if (!w->rc) w->rc = kl_plan_not_broadcast(&own, a, s, w->err);
    }
    struct kl_array *from = own ? own : a;
    put_shape(w, (enum kl_dtype)from->t.dtype, from->t.ndim, from->t.dims);
    put_number(w, a->implicit, 1);
    if (!w->rc) w->rc = kl_sink_array(&w->sink, from, NULL, w->err);
    kl_array_release(own);
}

static uint32_t constant_number(const struct kl_exporter *x, const struct kl_array *a) {
    uint32_t i = 0;
    while (x->constants.v[i] != a) i++;
    return i;
}

/* The steps, with numbers that leave out custom functions: their outputs are the results that they
 * were given. number[] is by the numbers of the plan. */
static void put_steps(struct writer *w, const struct kl_exporter *x, const struct kl_plan *p,
                      uint32_t *number) {
    uint32_t next = (uint32_t)p->n_args, n_steps = 0;
    for (int i = 0; i < p->n_args; i++) number[i] = (uint32_t)i;
    for (int i = 0; i < p->n_constants; i++)
        number[p->n_args + i] = next + constant_number(x, p->constants[i]);
    next += (uint32_t)x->constants.n;
    for (int i = 0; i < p->n_steps; i++)
        n_steps += p->steps[i].op != KL_OP_CUSTOM && p->steps[i].op != KL_OP_ARGUMENT;
    put_number(w, n_steps, 4);
    for (int i = 0; i < p->n_steps; i++) {
        const struct kl_plan_step *s = &p->steps[i];
        if (s->op == KL_OP_CUSTOM || s->op == KL_OP_ARGUMENT) {
            for (int k = 0; k < s->n_out; k++) number[s->out + k] = number[s->in[k]];
            continue;
        }
        number[s->out] = next++;
        put_text(w, kl_op_name(s->op));
        put_number(w, s->implicit, 1);
        put_number(w, (uint64_t)s->n_in, 4);
        for (int k = 0; k < s->n_in; k++) put_number(w, number[s->in[k]], 4);
        put_shape(w, s->spec[0].dtype, s->spec[0].ndim, s->spec[0].dims);
        put_params(w, s);
    }
}

/* Whether the file has what the first version had not. */
static bool is_second(const struct kl_exporter *x) {
    return x->shapeless || x->metadata;
}

static void put_guards(struct writer *w, const struct kl_plan *p, const uint32_t *number) {
    put_number(w, (uint64_t)p->n_guards, 4);
    for (int i = 0; i < p->n_guards; i++) {
        put_number(w, number[p->guards[i].value], 4);
        put_number(w, (uint64_t)p->guards[i].axis, 4);
        put_number(w, (uint64_t)p->guards[i].extent, 4);
    }
}

static void put_function(struct writer *w, const struct kl_exporter *x, const struct exported *e) {
    const struct kl_plan *p = e->plan;
    uint32_t *number = kl_malloc(((size_t)p->n_values + 1) * sizeof *number);
    if (!number && !w->rc) w->rc = kl_fail_nomem(w->err);
    if (w->rc) {
        kl_free(number);
        return;
    }
    put_number(w, (uint64_t)p->n_args, 4);
    for (int i = 0; i < p->n_args; i++)
        put_shape(w, p->args[i].dtype, p->args[i].ndim, p->args[i].dims);
    put_number(w, e->n_names, 4);
    for (size_t i = 0; i < e->n_names; i++) put_text(w, e->names[i]);
    put_steps(w, x, p, number);
    put_number(w, (uint64_t)p->n_outs, 4);
    for (int i = 0; i < p->n_outs; i++) put_number(w, number[p->outs[i]], 4);
    if (is_second(x)) put_guards(w, p, number);
    kl_free(number);
}

int kl_exporter_finish(struct kl_exporter *x, struct kl_error **err) {
    struct writer w = {.err = err};
    int rc = kl_eval(x->constants.v, x->constants.n, err);
    if (!rc) rc = kl_sink_open(&w.sink, (struct kl_dest){.path = x->path}, "", err);
    if (rc) {
        kl_exporter_abort(x);
        return rc;
    }
    put(&w, KL_FUNCTION_FILE_MAGIC, KL_FUNCTION_FILE_MAGIC_BYTES);
    put_number(&w, is_second(x) ? KL_FUNCTION_FILE_EXTENTS : KL_FUNCTION_FILE_EXTENTS - 1, 4);
    put_number(&w, x->shapeless, 1);
    if (is_second(x)) put_text(&w, x->metadata ? x->metadata : "");
    put_number(&w, x->constants.n, 4);
    for (size_t i = 0; i < x->constants.n; i++) put_constant(&w, x->constants.v[i]);
    put_number(&w, x->n_functions, 4);
    for (size_t i = 0; i < x->n_functions; i++) put_function(&w, x, &x->functions[i]);
    rc = w.rc;
    if (rc)
        kl_sink_abort(&w.sink);
    else
        rc = kl_sink_finish(&w.sink, err);
    kl_exporter_abort(x);
    return rc;
}

/* ---- describing ---- */

/* Text that grows. */
struct text {
    char *v; /* owned; NULL at first, and after a failure */
    size_t n, room;
    bool failed;
};

static void add_text(struct text *t, const char *more) {
    const size_t n = strlen(more);
    if (t->failed) return;
    if (t->n + n + 1 > t->room) {
        t->room = 2 * (t->n + n) + 64;
        char *v = kl_realloc(t->v, t->room);
        if (!v) {
            t->failed = true;
            return;
        }
        t->v = v;
    }
    memcpy(t->v + t->n, more, n + 1);
    t->n += n;
}

static void add_field(struct text *t, char type, const char *p) {
    char number[64];
    double d = 0;
    float f;
    int64_t wide = 0;
    int i;
    switch (type) {
    case 'b': snprintf(number, sizeof number, "%s", *(const bool *)p ? "true" : "false"); break;
    case 'l':
        memcpy(&wide, p, sizeof wide);
        snprintf(number, sizeof number, "%lld", (long long)wide);
        break;
    case 'i':
        memcpy(&i, p, sizeof i);
        snprintf(number, sizeof number, "%d", i);
        break;
    default:
        if (type == 'f') {
            memcpy(&f, p, sizeof f);
            d = (double)f;
        } else {
            memcpy(&d, p, sizeof d);
        }
        snprintf(number, sizeof number,
                 isnan(d)   ? "NaN"
                 : isinf(d) ? (d > 0 ? "Infinity" : "-Infinity")
                            : (type == 'f' ? "%.9g" : "%.17g"),
                 d);
    }
    add_text(t, number);
}

/* The parameters as a list: the fields, then their list of numbers. */
static void add_params(struct text *t, const struct kl_plan_step *s) {
    const struct kl_param_form *f = kl_param_form(s->op);
    const char *p = s->params;
    int n = 0;
    add_text(t, "[");
    for (; n < KL_PARAM_FIELDS && f->field[n].type; n++) {
        if (n) add_text(t, ", ");
        add_field(t, f->field[n].type, p + f->field[n].offset);
    }
    if (f->tail) {
        const size_t item = kl_param_bytes(f->tail), count = (s->params_bytes - f->head) / item;
        add_text(t, n ? ", [" : "[");
        for (size_t i = 0; i < count; i++) {
            if (i) add_text(t, ", ");
            add_field(t, f->tail, p + f->head + i * item);
        }
        add_text(t, "]");
    }
    add_text(t, "]");
}

/* A walk through a function. values[]: by the numbers of the plan; one that a custom function only
 * hands on has the number of what it hands on. */
struct visit {
    kl_export_visit_fn *fn;
    void *ctx;
    const struct kl_plan *p;
    struct kl_export_value *values, *some;
    struct kl_error **err;
};

static size_t some_values(struct visit *v, const int32_t *numbers, size_t n) {
    for (size_t i = 0; i < n; i++) v->some[i] = v->values[numbers[i]];
    return n;
}

static int visit_step(struct visit *v, const struct kl_plan_step *s) {
    struct text params = {0};
    struct kl_export_event e = {.kind = KL_EXPORT_OPERATION, .name = kl_op_name(s->op)};
    if (s->op == KL_OP_CUSTOM || s->op == KL_OP_ARGUMENT) return KL_OK;
    add_params(&params, s);
    e.parameters = params.v;
    e.in = v->some;
    e.n_in = some_values(v, s->in, (size_t)s->n_in);
    e.out = &v->values[s->out];
    e.n_out = 1;
    int rc = params.failed ? kl_fail_nomem(v->err) : v->fn(v->ctx, &e, v->err);
    kl_free(params.v);
    return rc;
}

static void number_all(struct visit *v) {
    const struct kl_plan *p = v->p;
    int next = 0;
    for (int i = 0; i < p->n_args; i++)
        v->values[i] =
            (struct kl_export_value){next++, p->args[i].dtype, p->args[i].ndim, p->args[i].dims};
    for (int i = 0; i < p->n_constants; i++) {
        const struct kl_tensor *t = &p->constants[i]->t;
        v->values[p->n_args + i] =
            (struct kl_export_value){next++, (enum kl_dtype)t->dtype, t->ndim, t->dims};
    }
    for (int i = 0; i < p->n_steps; i++) {
        const struct kl_plan_step *s = &p->steps[i];
        bool handed = s->op == KL_OP_CUSTOM || s->op == KL_OP_ARGUMENT;
        for (int k = 0; k < s->n_out; k++)
            v->values[s->out + k] =
                handed ? v->values[s->in[k]]
                       : (struct kl_export_value){next++, s->spec[k].dtype, s->spec[k].ndim,
                                                  s->spec[k].dims};
    }
}

static int visit_all(struct visit *v, struct kl_names names) {
    const struct kl_plan *p = v->p;
    struct kl_export_event e = {.kind = KL_EXPORT_INPUTS, .in = v->values, .names = names};
    e.n_in = (size_t)p->n_args;
    KL_TRY(v->fn(v->ctx, &e, v->err));
    e = (struct kl_export_event){.kind = KL_EXPORT_OUTPUTS, .out = v->some};
    e.n_out = some_values(v, p->outs, (size_t)p->n_outs);
    KL_TRY(v->fn(v->ctx, &e, v->err));
    for (int i = 0; i < p->n_constants; i++) {
        e = (struct kl_export_event){.kind = KL_EXPORT_CONSTANT, .n_out = 1};
        e.out = &v->values[p->n_args + i];
        e.constant = p->constants[i];
        KL_TRY(v->fn(v->ctx, &e, v->err));
    }
    for (int i = 0; i < p->n_steps; i++) KL_TRY(visit_step(v, &p->steps[i]));
    return KL_OK;
}

int kl_exporter_visit(const struct kl_exporter *x, kl_export_visit_fn *visit, void *ctx,
                      struct kl_error **err) {
    if (!x->n_functions) return kl_fail(err, KL_EARG, "no function was added");
    const struct exported *f = &x->functions[0];
    struct visit v = {.fn = visit, .ctx = ctx, .p = f->plan, .err = err};
    const size_t n = (size_t)f->plan->n_values + 1;
    size_t most = (size_t)f->plan->n_outs;
    for (int i = 0; i < f->plan->n_steps; i++)
        if ((size_t)f->plan->steps[i].n_in > most) most = (size_t)f->plan->steps[i].n_in;
    v.values = kl_calloc(n, sizeof *v.values);
    v.some = kl_calloc(most + 1, sizeof *v.some);
    int rc = v.values && v.some ? KL_OK : kl_fail_nomem(err);
    if (!rc) {
        number_all(&v);
        rc = visit_all(&v, (struct kl_names){(const char *const *)f->names, f->n_names});
    }
    kl_free(v.values);
    kl_free(v.some);
    return rc;
}
