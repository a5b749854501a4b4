/* export.c - mlx/c/export.h and keel/function.h: functions in files. */
#include "transforms/export.h"

#include <keel/function.h>

#include <string.h>

#include "api/handles/closure.h"
#include "base/alloc.h"

/* ---- named arguments ---- */

/* The arguments of a call as one list: the arrays of the vector, then those of the map in the order
 * of their names. */
struct arguments {
    struct kl_array **all; /* borrowed arrays */
    const char **names;    /* borrowed */
    size_t n, n_names;
};

static int arguments_of(struct arguments *a, const struct kl_vec *list, const struct kl_map *map,
                        struct kl_error **err) {
    const size_t n_names = map ? map->n : 0;
    a->all = kl_malloc((list->n + n_names + 1) * sizeof *a->all);
    a->names = kl_malloc((n_names + 1) * sizeof *a->names);
    if (!a->all || !a->names) return kl_fail_nomem(err);
    a->n_names = n_names;
    for (size_t i = 0; i < list->n; i++) a->all[a->n++] = kl_vec_array_items(list)[i];
    for (size_t i = 0; i < n_names; i++) { /* by insertion: there are few */
        const struct kl_map_entry *e = &map->entries[i];
        size_t at = i;
        for (; at > 0 && strcmp(a->names[at - 1], e->key) > 0; at--) {
            a->names[at] = a->names[at - 1];
            a->all[list->n + at] = a->all[list->n + at - 1];
        }
        a->names[at] = e->key;
        a->all[list->n + at] = e->value;
        a->n++;
    }
    return KL_OK;
}

static void arguments_free(struct arguments *a) {
    kl_free(a->all);
    kl_free(a->names);
}

/* A function of the user that takes named arrays, as a function of a list. */
struct named_function {
    const struct kl_closure *f;
    struct kl_names names;
};

static int call_named(void *ctx, struct kl_array *const *in, size_t n_in, struct kl_arrays *outs,
                      struct kl_error **err) {
    typedef int kwargs_fn(mlx_vector_array *, const mlx_vector_array,
                          const mlx_map_string_to_array);
    typedef int payload_fn(mlx_vector_array *, const mlx_vector_array,
                           const mlx_map_string_to_array, void *);
    const struct named_function *nf = ctx;
    const size_t n_list = n_in - nf->names.n;
    mlx_vector_array made = {NULL};
    struct kl_vec given = {.items = (void *)in, .n = n_list, .cap = n_list};
    struct kl_map *map = kl_map_new(&kl_map_of_arrays, err);
    struct kl_vec *list = map ? kl_vec_new(err) : NULL;
    int rc = list ? kl_vec_dup(&kl_vec_of_arrays, list, &given, err) : KL_ENOMEM;
    for (size_t i = 0; i < nf->names.n && !rc; i++)
        rc = kl_map_insert(map, nf->names.v[i], in[n_list + i], err);
    if (!rc) {
        mlx_vector_array l = {list};
        mlx_map_string_to_array m = {map};
        int code = nf->f->form == KL_CLOSURE_PAYLOAD
                       ? ((payload_fn *)nf->f->fun)(&made, l, m, nf->f->payload)
                       : ((kwargs_fn *)nf->f->fun)(&made, l, m);
        rc = kl_vector_contents(outs, made, code, err);
    }
    kl_vec_free(&kl_vec_of_arrays, list);
    kl_map_release(map);
    return rc;
}

/* ---- exporting ---- */

struct kl_exporter_box {
    struct kl_exporter *exporter;
    struct kl_closure *f;
    bool named; /* f takes named arrays */
};

/* Adds the trace of f for these arguments. */
static int add_trace(struct kl_exporter *x, struct kl_closure *f, bool named,
                     const struct kl_vec *list, const struct kl_map *map, struct kl_error **err) {
    struct arguments a = {0};
    int rc = arguments_of(&a, list, map, err);
    if (!rc) {
        struct kl_names names = {a.names, a.n_names};
        struct named_function nf = {f, names};
        struct kl_function function = named ? (struct kl_function){.call = call_named, .ctx = &nf}
                                            : kl_closure_as_function(f);
        rc = kl_exporter_add(x, &function, a.all, a.n, names, err);
        kl_function_release(&function);
    }
    arguments_free(&a);
    return rc;
}

/* A function to export at once, and how. */
struct export_of {
    void *fun, *args, *kwargs;
    bool named, shapeless;
    const char *metadata;
};

/* An exporter with one trace; NULL: c has the error. */
static struct kl_exporter *traced(struct kl_call *c, const char *file, const struct export_of *e) {
    struct kl_closure *f = kl_in_closure(c, e->fun, "fun");
    const struct kl_vec *list = kl_in_vec(c, e->args, "args");
    const struct kl_map *map = e->named && e->kwargs ? kl_in_map(c, e->kwargs, "kwargs") : NULL;
    struct kl_exporter *x = NULL;
    if (c->err || kl_exporter_new(&x, file, e->shapeless, &c->err)) return NULL;
    int rc = e->metadata ? kl_exporter_set_metadata(x, e->metadata, &c->err) : KL_OK;
    if (!rc) rc = add_trace(x, f, e->named, list, map, &c->err);
    if (!rc) return x;
    kl_exporter_abort(x);
    return NULL;
}

static int export_once(const char *func, const char *file, const struct export_of *e) {
    struct kl_call c = {.func = func};
    struct kl_exporter *x = traced(&c, file, e);
    if (x) kl_exporter_finish(x, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_export_function(const char *file, const mlx_closure fun, const mlx_vector_array args,
                        bool shapeless) {
    const struct export_of e = {.fun = fun.ctx, .args = args.ctx, .shapeless = shapeless};
    return export_once(__func__, file, &e);
}

int mlx_export_function_kwargs(const char *file, const mlx_closure_kwargs fun,
                               const mlx_vector_array args, const mlx_map_string_to_array kwargs,
                               bool shapeless) {
    struct kl_call c = {.func = __func__};
    kl_in_map(&c, kwargs.ctx, "kwargs");
    if (c.err) return kl_call_end_plain(&c);
    const struct export_of e = {fun.ctx, args.ctx, kwargs.ctx, true, shapeless, NULL};
    return export_once(__func__, file, &e);
}

int keel_export_function(const char *file, const mlx_closure_kwargs fun,
                         const mlx_vector_array args, const mlx_map_string_to_array kwargs,
                         bool shapeless, const char *metadata) {
    const struct export_of e = {fun.ctx, args.ctx, kwargs.ctx, true, shapeless, metadata};
    return export_once(__func__, file, &e);
}

static mlx_function_exporter new_exporter(const char *func, const char *file, void *fun, bool named,
                                          bool shapeless, const char *metadata) {
    struct kl_call c = {.func = func};
    struct kl_closure *f = kl_in_closure(&c, fun, "fun");
    struct kl_exporter_box *box = NULL;
    struct kl_exporter *x = NULL;
    if (!c.err) kl_exporter_new(&x, file, shapeless, &c.err);
    if (x && metadata) kl_exporter_set_metadata(x, metadata, &c.err);
    if (x && !c.err && !(box = kl_malloc(sizeof *box))) kl_fail_nomem(&c.err);
    if (box)
        *box = (struct kl_exporter_box){x, kl_closure_retain(f), named};
    else
        kl_exporter_abort(x);
    kl_call_end_plain(&c);
    return (mlx_function_exporter){box};
}

mlx_function_exporter mlx_function_exporter_new(const char *file, const mlx_closure fun,
                                                bool shapeless) {
    return new_exporter(__func__, file, fun.ctx, false, shapeless, NULL);
}

mlx_function_exporter keel_function_exporter_new(const char *file, const mlx_closure_kwargs fun,
                                                 bool shapeless, const char *metadata) {
    return new_exporter(__func__, file, fun.ctx, true, shapeless, metadata);
}

int mlx_function_exporter_free(mlx_function_exporter xfunc) {
    struct kl_call c = {.func = __func__};
    struct kl_exporter_box *box = xfunc.ctx;
    if (!box) return 0;
    kl_exporter_finish(box->exporter, &c.err);
    kl_closure_release(box->f);
    kl_free(box);
    return kl_call_end_plain(&c);
}

static struct kl_exporter_box *in_exporter(struct kl_call *c, mlx_function_exporter xfunc) {
    if (!xfunc.ctx) kl_fail(&c->err, KL_EARG, "xfunc is an empty handle");
    return xfunc.ctx;
}

static int exporter_apply(const char *func, mlx_function_exporter xfunc, void *args, void *kwargs,
                          bool named) {
    struct kl_call c = {.func = func};
    struct kl_exporter_box *box = in_exporter(&c, xfunc);
    const struct kl_vec *list = kl_in_vec(&c, args, "args");
    const struct kl_map *map = named ? kl_in_map(&c, kwargs, "kwargs") : NULL;
    if (!c.err && map && map->n && !box->named)
        kl_fail(&c.err, KL_EARG,
                "the exporter's function takes no named arrays: that of a "
                "keel_function_exporter_new does");
    if (!c.err) add_trace(box->exporter, box->f, box->named, list, map, &c.err);
    return kl_call_end_plain(&c);
}

int mlx_function_exporter_apply(const mlx_function_exporter xfunc, const mlx_vector_array args) {
    return exporter_apply(__func__, xfunc, args.ctx, NULL, false);
}

int mlx_function_exporter_apply_kwargs(const mlx_function_exporter xfunc,
                                       const mlx_vector_array args,
                                       const mlx_map_string_to_array kwargs) {
    return exporter_apply(__func__, xfunc, args.ctx, kwargs.ctx, true);
}

/* ---- describing ---- */

struct description {
    keel_export_visitor *visitor;
    void *payload;
};

static void values_of(keel_export_value *to, const struct kl_export_value *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] =
            (keel_export_value){v[i].number, (mlx_dtype)v[i].dtype, (size_t)v[i].ndim, v[i].dims};
}

static int tell(void *ctx, const struct kl_export_event *e, struct kl_error **err) {
    const struct description *d = ctx;
    keel_export_value *values = kl_malloc((e->n_in + e->n_out + 1) * sizeof *values);
    if (!values) return kl_fail_nomem(err);
    values_of(values, e->in, e->n_in);
    values_of(values + e->n_in, e->out, e->n_out);
    struct kl_array_box box = {e->constant}; /* borrowed for the call */
    const keel_export_event event = {(keel_export_kind)e->kind,
                                     e->name,
                                     e->parameters,
                                     values,
                                     values + e->n_in,
                                     e->n_in,
                                     e->n_out,
                                     e->names.v,
                                     e->names.n,
                                     (mlx_array){e->constant ? &box : NULL}};
    int code = d->visitor(&event, d->payload);
    kl_free(values);
    return code ? kl_fail(err, KL_ECALLBACK, "the visitor returned %d", code) : KL_OK;
}

int keel_export_describe(keel_export_visitor *visitor, void *payload, const mlx_closure_kwargs fun,
                         const mlx_vector_array args, const mlx_map_string_to_array kwargs,
                         bool shapeless) {
    struct kl_call c = {.func = __func__};
    struct description d = {visitor, payload};
    const struct export_of e = {fun.ctx, args.ctx, kwargs.ctx, true, shapeless, NULL};
    if (!visitor) kl_fail(&c.err, KL_EARG, "the visitor is NULL");
    struct kl_exporter *x = c.err ? NULL : traced(&c, "", &e);
    if (x) kl_exporter_visit(x, tell, &d, &c.err);
    kl_exporter_abort(x);
    return kl_call_end_plain(&c);
}

/* ---- importing ---- */

mlx_imported_function mlx_imported_function_new(const char *file) {
    struct kl_call c = {.func = __func__};
    struct kl_imported *m = NULL;
    kl_import(&m, file, &c.err);
    kl_call_end_plain(&c);
    return (mlx_imported_function){m};
}

int mlx_imported_function_free(mlx_imported_function xfunc) {
    kl_imported_release(xfunc.ctx);
    return 0;
}

const char *keel_imported_function_metadata(const mlx_imported_function xfunc) {
    return xfunc.ctx ? kl_imported_metadata(xfunc.ctx) : NULL;
}

static int imported_apply(const char *func, mlx_vector_array *res, mlx_imported_function xfunc,
                          void *args, void *kwargs, bool named) {
    struct kl_call c = kl_call_begin(func, res);
    const struct kl_vec *list = kl_in_vec(&c, args, "args");
    const struct kl_map *map = named ? kl_in_map(&c, kwargs, "kwargs") : NULL;
    struct arguments a = {0};
    struct kl_arrays outs = {0};
    if (!c.err && !xfunc.ctx) kl_fail(&c.err, KL_EARG, "xfunc is an empty handle");
    if (!c.err) arguments_of(&a, list, map, &c.err);
    if (!c.err) {
        struct kl_names names = {a.names, a.n_names};
        kl_imported_call(xfunc.ctx, a.all, a.n, names, &outs, &c.err);
    }
    arguments_free(&a);
    return kl_call_end_arrays(&c, res, &outs);
}

int mlx_imported_function_apply(mlx_vector_array *res, const mlx_imported_function xfunc,
                                const mlx_vector_array args) {
    return imported_apply(__func__, res, xfunc, args.ctx, NULL, false);
}

int mlx_imported_function_apply_kwargs(mlx_vector_array *res, const mlx_imported_function xfunc,
                                       const mlx_vector_array args,
                                       const mlx_map_string_to_array kwargs) {
    return imported_apply(__func__, res, xfunc, args.ctx, kwargs.ctx, true);
}
