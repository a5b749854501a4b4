/* import.c - reads functions; see export.h and docs/function-files.md. Nothing in a file is
 * believed: lengths and numbers are checked before they are used, and every operation goes through
 * its builder when the function is called. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/param_form.h"
#include "base/refs.h"
#include "graph/trace.h"
#include "io/source.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "transforms/export.h"
#include "transforms/function_file.h"
#include "transforms/plan.h"

struct function {
    struct kl_plan *plan;
    char **names; /* of the last n_names arguments; owned */
    size_t n_names;
};

struct kl_imported {
    _Atomic(uint32_t) refs;
    bool shapeless;
    uint64_t version; /* of the file */
    char *metadata;   /* owned; NULL: none */
    struct function *functions;
    size_t n_functions;
};

void kl_imported_release(struct kl_imported *m) {
    if (!m || !kl_refs_drop(&m->refs)) return;
    for (size_t i = 0; i < m->n_functions; i++) {
        struct function *f = &m->functions[i];
        kl_plan_release(f->plan);
        for (size_t k = 0; f->names && k < f->n_names; k++) kl_free(f->names[k]);
        kl_free(f->names);
    }
    kl_free(m->functions);
    kl_free(m->metadata);
    kl_free(m);
}

/* ---- reading ---- */

struct reader {
    const unsigned char *at, *end;
    const char *path;
    struct kl_arrays constants;
    struct use *used;  /* of each constant */
    uint32_t function; /* which function is being read; from 1 */
    uint64_t version;
    struct kl_error **err;
};

/* The last function that used a constant, and the number of the constant there. A function owns
 * only those that it uses: a file may have many of both. */
struct use {
    uint32_t function;
    int32_t number;
};

#define FAIL(r, ...) fail(r, __VA_ARGS__)
static int fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct reader *r, const char *fmt, ...) {
    char text[300], shown[KL_SHOWN];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    struct kl_error_info info = {.code = KL_EFORMAT, .file = r->path};
    return kl_fail_info(r->err, &info, "import: %s: %s", kl_show(shown, r->path), text);
}

static size_t left(const struct reader *r) {
    return (size_t)(r->end - r->at);
}

static int get_number(struct reader *r, uint64_t *x, size_t n, const char *what) {
    if (left(r) < n) return FAIL(r, "the file ends before %s", what);
    *x = 0;
    for (size_t i = 0; i < n; i++) *x |= (uint64_t)r->at[i] << (8 * i);
    r->at += n;
    return KL_OK;
}

/* A count of things that take at least `each` bytes of the file. */
static int get_count(struct reader *r, size_t *n, size_t each, const char *what) {
    uint64_t x;
    KL_TRY(get_number(r, &x, 4, what));
    if (x > left(r) / each)
        return FAIL(r, "%llu %s do not fit into the rest of the file", (unsigned long long)x, what);
    *n = (size_t)x;
    return KL_OK;
}

static int get_flag(struct reader *r, bool *flag, const char *what) {
    uint64_t x;
    KL_TRY(get_number(r, &x, 1, what));
    if (x > 1) return FAIL(r, "%s is %llu; 0 or 1 is taken", what, (unsigned long long)x);
    *flag = x != 0;
    return KL_OK;
}

static int get_shape(struct reader *r, struct kl_plan_spec *s, const char *what) {
    uint64_t dtype, ndim, d;
    int64_t size;
    KL_TRY(get_number(r, &dtype, 1, what));
    KL_TRY(get_number(r, &ndim, 1, what));
    if (!kl_dtype_valid((int)dtype))
        return FAIL(r, "%s: %llu is no dtype", what, (unsigned long long)dtype);
    if (ndim > KL_MAX_NDIM)
        return FAIL(r, "%s has %llu axes; at most %d are taken", what, (unsigned long long)ndim,
                    KL_MAX_NDIM);
    *s = (struct kl_plan_spec){(enum kl_dtype)dtype, 0, kl_malloc((ndim + 1) * sizeof(int))};
    if (!s->dims) return kl_fail_nomem(r->err);
    for (; (uint64_t)s->ndim < ndim; s->ndim++) {
        KL_TRY(get_number(r, &d, 4, what));
        if (d > INT32_MAX) return FAIL(r, "%s: axis %d has a negative size", what, s->ndim);
        s->dims[s->ndim] = (int)d;
    }
    if (!kl_shape_size(s->ndim, s->dims, kl_dtype_size(s->dtype), &size))
        return FAIL(r, "%s has more elements than can be addressed", what);
    return KL_OK;
}

static int get_text(struct reader *r, char **out, const char *what, size_t most) {
    size_t n;
    uint64_t count;
    KL_TRY(get_number(r, &count, 4, what));
    if (count > left(r))
        return FAIL(r, "%llu bytes of %s do not fit into the rest of the file",
                    (unsigned long long)count, what);
    n = (size_t)count;
    if (n > most) return FAIL(r, "%s has %zu bytes; at most %zu are taken", what, n, most);
    if (memchr(r->at, 0, n)) return FAIL(r, "%s has a zero byte", what);
    char *text = kl_malloc(n + 1);
    if (!text) return kl_fail_nomem(r->err);
    memcpy(text, r->at, n);
    text[n] = 0;
    r->at += n;
    *out = text;
    return KL_OK;
}

static int get_constant(struct reader *r, struct kl_array **out) {
    struct kl_plan_spec s = {0};
    int64_t size = 0;
    bool implicit = false;
    int rc = get_shape(r, &s, "a constant");
    if (!rc) rc = get_flag(r, &implicit, "the flag of a constant");
    if (!rc) {
        kl_shape_size(s.ndim, s.dims, kl_dtype_size(s.dtype), &size);
        uint64_t bytes = (uint64_t)size * kl_dtype_size(s.dtype);
        if (bytes > left(r))
            rc = FAIL(r, "a constant of %llu bytes does not fit into the rest of the file",
                      (unsigned long long)bytes);
        if (!rc) rc = kl_array_new_data(out, r->at, s.dtype, s.ndim, s.dims, r->err);
        if (!rc) {
            (*out)->implicit = implicit;
            r->at += bytes;
        }
    }
    kl_free(s.dims);
    return rc;
}

static int op_by_name(struct reader *r, enum kl_op_id *op) {
    char *name = NULL, shown[KL_SHOWN];
    KL_TRY(get_text(r, &name, "the name of an operation", KL_FUNCTION_FILE_NAME_BYTES));
    for (int i = 0; i < KL_N_OPS; i++) {
        bool known = kl_op_can_build((enum kl_op_id)i) || i == KL_OP_DEFERRED;
        if (strcmp(kl_op_name((enum kl_op_id)i), name) != 0 || !known ||
            !kl_param_form((enum kl_op_id)i))
            continue;
        *op = (enum kl_op_id)i;
        kl_free(name);
        return KL_OK;
    }
    int rc = FAIL(r, "'%s' is no operation of this version", kl_show(shown, name));
    kl_free(name);
    return rc;
}

static int get_field(struct reader *r, char type, void *to) {
    uint64_t x;
    size_t n = kl_param_bytes(type);
    KL_TRY(get_number(r, &x, n, "a parameter"));
    if (type == 'b' && x > 1)
        return FAIL(r, "%llu stands for true or false in the parameters", (unsigned long long)x);
    if (n == 8)
        memcpy(to, &x, 8);
    else if (n == 4)
        memcpy(to, &(uint32_t){(uint32_t)x}, 4);
    else
        *(bool *)to = x != 0;
    return KL_OK;
}

static int get_params(struct reader *r, struct kl_plan_step *s) {
    const struct kl_param_form *f = kl_param_form(s->op);
    char head[KL_PARAM_HEAD] = {0};
    size_t n = 0, item = f->tail ? kl_param_bytes(f->tail) : 1;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        KL_TRY(get_field(r, f->field[i].type, head + f->field[i].offset));
    if (f->tail) KL_TRY(get_count(r, &n, item, "entries of a list of parameters"));
    s->params_bytes = f->head + n * item;
    s->params = kl_malloc(s->params_bytes + 1);
    if (!s->params) return kl_fail_nomem(r->err);
    memcpy(s->params, head, f->head);
    for (size_t i = 0; i < n; i++)
        KL_TRY(get_field(r, f->tail, (char *)s->params + f->head + i * item));
    return KL_OK;
}

/* A value that was made before. In the file the order is: arguments, constants of the file, results
 * of the operations; in the plan, until kl_plan_complete: see there. */
static int get_value(struct reader *r, int32_t *number, struct kl_plan *p, const char *what) {
    const uint64_t args = (uint64_t)p->n_args, shared = r->constants.n;
    const uint64_t made = args + shared + (uint64_t)p->n_steps;
    uint64_t x;
    KL_TRY(get_number(r, &x, 4, what));
    if (x >= made)
        return FAIL(r, "%s is value %llu, and %llu values were made before", what,
                    (unsigned long long)x, (unsigned long long)made);
    if (x < args || x >= args + shared) {
        *number = (int32_t)(x < args ? x : x - shared);
        return KL_OK;
    }
    struct use *u = &r->used[x - args];
    if (u->function != r->function) {
        void *v = kl_realloc(p->constants, ((size_t)p->n_constants + 1) * sizeof *p->constants);
        if (!v) return kl_fail_nomem(r->err);
        p->constants = v;
        *u = (struct use){r->function, p->n_constants};
        p->constants[p->n_constants++] = kl_array_retain(r->constants.v[x - args]);
    }
    *number = -1 - u->number;
    return KL_OK;
}

static int get_step(struct reader *r, struct kl_plan *p) {
    struct kl_plan_step *s = &p->steps[p->n_steps];
    size_t n_in;
    *s = (struct kl_plan_step){0};
    KL_TRY(op_by_name(r, &s->op));
    KL_TRY(get_flag(r, &s->implicit, "the flag of an operation"));
    KL_TRY(get_count(r, &n_in, 4, "inputs of an operation"));
    if (s->implicit && (s->op != KL_OP_BROADCAST || n_in != 1))
        return FAIL(r, "only a broadcast of one input has the flag of an operation");
    s->in = kl_malloc((n_in + 1) * sizeof *s->in);
    s->spec = kl_calloc(1, sizeof *s->spec);
    if (!s->in || !s->spec) return kl_fail_nomem(r->err);
    s->n_out = 1;
    for (; (size_t)s->n_in < n_in; s->n_in++) KL_TRY(get_value(r, &s->in[s->n_in], p, "an input"));
    KL_TRY(get_shape(r, &s->spec[0], kl_op_name(s->op)));
    KL_TRY(get_params(r, s));
    s->out = p->n_values++;
    return KL_OK;
}

/* Strictly ascending, so that no name is there twice. */
static int get_names(struct reader *r, struct function *f) {
    size_t n;
    KL_TRY(get_count(r, &n, 4, "names of arguments"));
    if (n > (size_t)f->plan->n_args)
        return FAIL(r, "%zu names for %d arguments", n, f->plan->n_args);
    f->names = kl_calloc(n + 1, sizeof *f->names);
    if (!f->names) return kl_fail_nomem(r->err);
    for (; f->n_names < n; f->n_names++) {
        char **name = &f->names[f->n_names];
        KL_TRY(get_text(r, name, "the name of an argument", KL_FUNCTION_FILE_NAME_BYTES));
        if (f->n_names && strcmp(name[-1], name[0]) >= 0) {
            f->n_names++;
            return FAIL(r, "the names of arguments are not in order");
        }
    }
    return KL_OK;
}

/* The extents that the function saw: of arguments first, then of results of operations. */
static int get_guards(struct reader *r, struct kl_plan *p) {
    size_t n;
    KL_TRY(get_count(r, &n, 12, "extents"));
    if (!(p->guards = kl_malloc((n + 1) * sizeof *p->guards))) return kl_fail_nomem(r->err);
    for (; (size_t)p->n_guards < n; p->n_guards++) {
        struct kl_plan_guard g;
        uint64_t axis, extent;
        KL_TRY(get_value(r, &g.value, p, "the array of an extent"));
        KL_TRY(get_number(r, &axis, 4, "the axis of an extent"));
        KL_TRY(get_number(r, &extent, 4, "an extent"));
        const bool of_argument = g.value < p->n_args;
        if (g.value < 0 || axis >= KL_MAX_NDIM || extent > INT32_MAX ||
            (of_argument && (int)axis >= p->args[g.value].ndim))
            return FAIL(r, "an extent is not one of an argument or a result");
        if (of_argument && p->n_guards && p->guards[p->n_guards - 1].value >= p->n_args)
            return FAIL(r, "the extents are not in order");
        g.axis = (int)axis;
        g.extent = (int)extent;
        p->guards[p->n_guards] = g;
    }
    return KL_OK;
}

/* In files of the first version a function for any shapes had numbers of the extents that it was
 * traced with among its operations, so it holds for those only. */
static int guard_all(struct reader *r, struct kl_plan *p) {
    int n = 0;
    for (int i = 0; i < p->n_args; i++) n += p->args[i].ndim;
    if (!(p->guards = kl_malloc(((size_t)n + 1) * sizeof *p->guards))) return kl_fail_nomem(r->err);
    for (int i = 0; i < p->n_args; i++)
        for (int d = 0; d < p->args[i].ndim; d++)
            p->guards[p->n_guards++] = (struct kl_plan_guard){i, d, p->args[i].dims[d]};
    return KL_OK;
}

static int get_function(struct reader *r, struct function *f, bool shapeless) {
    size_t n;
    struct kl_plan *p = f->plan = kl_plan_new(r->err);
    if (!p) return KL_ENOMEM;
    KL_TRY(get_count(r, &n, 2, "arguments"));
    if (!(p->args = kl_calloc(n + 1, sizeof *p->args))) return kl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        p->n_args++;
        KL_TRY(get_shape(r, &p->args[i], "an argument"));
    }
    KL_TRY(get_names(r, f));
    p->n_values = p->n_args;
    KL_TRY(get_count(r, &n, 11, "operations"));
    if (n > INT32_MAX / 4) return FAIL(r, "%zu operations are too many", n);
    if (!(p->steps = kl_malloc((n + 1) * sizeof *p->steps))) return kl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        int rc = get_step(r, p);
        p->n_steps++; /* what the step holds is freed with the plan */
        KL_TRY(rc);
    }
    KL_TRY(get_count(r, &n, 4, "results"));
    if (!(p->outs = kl_malloc((n + 1) * sizeof *p->outs))) return kl_fail_nomem(r->err);
    for (; (size_t)p->n_outs < n; p->n_outs++)
        KL_TRY(get_value(r, &p->outs[p->n_outs], p, "a result"));
    if (r->version >= KL_FUNCTION_FILE_EXTENTS)
        KL_TRY(get_guards(r, p));
    else if (shapeless)
        KL_TRY(guard_all(r, p));
    p->shapeless = shapeless;
    return kl_plan_complete(p, r->err);
}

/* MLX begins with its version as text, and the length of that in eight bytes before it. */
static bool from_mlx(const struct reader *r) {
    size_t n = left(r) > 8 ? r->at[0] : 0;
    if (n < 3 || n > 32 || n > left(r) - 8) return false;
    for (int i = 1; i < 8; i++)
        if (r->at[i]) return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789.", r->at[8 + i]) || !r->at[8 + i]) return i > 4;
    return true;
}

static int get_all(struct reader *r, struct kl_imported *m) {
    size_t n;
    if (left(r) < KL_FUNCTION_FILE_MAGIC_BYTES ||
        memcmp(r->at, KL_FUNCTION_FILE_MAGIC, KL_FUNCTION_FILE_MAGIC_BYTES) != 0) {
        return FAIL(r, from_mlx(r)
                           ? "the file was exported by MLX, whose functions cannot be read here"
                           : "the file does not begin with " KL_FUNCTION_FILE_MAGIC
                             ": it was not written by mlx_export_function of Keel");
    }
    r->at += KL_FUNCTION_FILE_MAGIC_BYTES;
    KL_TRY(get_number(r, &r->version, 4, "its version"));
    if (r->version < 1 || r->version > KL_FUNCTION_FILE_VERSION)
        return FAIL(r, "the file has version %llu; this library reads versions 1 to %d",
                    (unsigned long long)r->version, KL_FUNCTION_FILE_VERSION);
    m->version = r->version;
    KL_TRY(get_flag(r, &m->shapeless, "the flag for any shapes"));
    if (r->version >= KL_FUNCTION_FILE_EXTENTS)
        KL_TRY(get_text(r, &m->metadata, "the metadata", SIZE_MAX));
    KL_TRY(get_count(r, &n, 3, "constants"));
    KL_TRY(kl_arrays_new(&r->constants, n, r->err));
    if (!(r->used = kl_calloc(n + 1, sizeof *r->used))) return kl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) KL_TRY(get_constant(r, &r->constants.v[i]));
    KL_TRY(get_count(r, &n, 16, "functions"));
    if (!(m->functions = kl_calloc(n + 1, sizeof *m->functions))) return kl_fail_nomem(r->err);
    for (size_t i = 0; i < n; i++) {
        m->n_functions++;
        r->function++;
        KL_TRY(get_function(r, &m->functions[i], m->shapeless));
    }
    if (left(r)) return FAIL(r, "%zu bytes follow the last function", left(r));
    return KL_OK;
}

static int read_all(struct kl_source *source, const char *path, unsigned char **out, size_t *n,
                    struct kl_error **err) {
    uint64_t size;
    KL_TRY(kl_source_measure(source, &size, err));
    if (size > SIZE_MAX / 2) return kl_fail(err, KL_ELIMIT, "import: %s is too large", path);
    unsigned char *p = kl_malloc((size_t)size + 1);
    if (!p) return kl_fail_nomem(err);
    int rc = kl_source_read(source, p, (size_t)size, 0, &(struct kl_bytes_of){NULL, 0, size}, err);
    if (rc) {
        kl_free(p);
        return rc;
    }
    *out = p;
    *n = (size_t)size;
    return KL_OK;
}

int kl_import_bytes(struct kl_imported **out, const void *bytes, size_t n, const char *path,
                    struct kl_error **err) {
    struct reader r = {.at = bytes, .path = path, .err = err};
    struct kl_imported *m = kl_calloc(1, sizeof *m);
    if (!m) return kl_fail_nomem(err);
    r.end = r.at + n;
    atomic_init(&m->refs, 1);
    int rc = get_all(&r, m);
    kl_arrays_free(&r.constants);
    kl_free(r.used);
    if (rc)
        kl_imported_release(m);
    else
        *out = m;
    return rc;
}

int kl_import(struct kl_imported **out, const char *path, struct kl_error **err) {
    struct kl_source *source;
    unsigned char *bytes = NULL;
    size_t n = 0;
    if (!path) return kl_fail(err, KL_EARG, "the path of the file is NULL");
    KL_TRY(kl_source_open_file(&source, path, err));
    int rc = read_all(source, path, &bytes, &n, err);
    kl_source_release(source);
    if (!rc) rc = kl_import_bytes(out, bytes, n, path, err);
    kl_free(bytes);
    return rc;
}

const char *kl_imported_metadata(const struct kl_imported *m) {
    return m->metadata ? m->metadata : "";
}

const struct kl_plan *kl_imported_plan(const struct kl_imported *m, size_t i,
                                       struct kl_names *names) {
    if (i >= m->n_functions) return NULL;
    const struct function *f = &m->functions[i];
    *names = (struct kl_names){(const char *const *)f->names, f->n_names};
    return f->plan;
}

/* ---- calling ---- */

/* The arguments in the order in which f takes them. Where f has one place without a name more than
 * the call gives (`spare`), an argument whose name f does not know takes it, as in MLX. The names
 * of such places are not in files, so of two places it would not be known which one is meant. */
static bool in_order(const struct function *f, struct kl_array *const *args, size_t n,
                     struct kl_names names, bool spare, struct kl_array **to) {
    const size_t places = (size_t)f->plan->n_args, unnamed = places - f->n_names;
    const size_t given = n - names.n;
    size_t next = 0; /* both lists of names are sorted */
    if (places != n || given + spare != unnamed) return false;
    for (size_t i = 0; i < given; i++) to[i] = args[i];
    for (size_t i = 0; i < names.n; i++) {
        if (next < f->n_names && strcmp(f->names[next], names.v[i]) == 0) {
            to[unnamed + next++] = args[given + i];
        } else {
            if (!spare) return false;
            to[unnamed - 1] = args[given + i];
            spare = false;
        }
    }
    return true;
}

static bool fits(const struct kl_imported *m, const struct function *f,
                 struct kl_array *const *args) {
    for (int i = 0; i < f->plan->n_args; i++) {
        const struct kl_plan_spec *s = &f->plan->args[i];
        if (s->dtype != (enum kl_dtype)args[i]->t.dtype || s->ndim != args[i]->t.ndim) return false;
        if (!m->shapeless && !kl_shape_is(args[i], s->ndim, s->dims)) return false;
    }
    return true;
}

/* The kinds of arguments, as "(float32 (2,3), int32 () named mask)". */
static void say_kind(char *text, size_t room, const struct function *f) {
    size_t at = 0, n = (size_t)f->plan->n_args;
    text[0] = 0;
    for (size_t i = 0; i < n && at < room; i++) {
        const struct kl_plan_spec *s = &f->plan->args[i];
        bool named = i >= n - f->n_names;
        int wrote = snprintf(text + at, room - at, "%s%s %s%s%s", i ? ", " : "",
                             kl_dtype_name(s->dtype), KL_SHAPE_TEXT(s->ndim, s->dims),
                             named ? " named " : "", named ? f->names[i - (n - f->n_names)] : "");
        at += wrote > 0 ? (size_t)wrote : room;
    }
}

/* The function saw an extent of an argument as a number, and this argument has another. */
static int another_extent(const struct kl_imported *m, const struct function *f,
                          const struct kl_plan_guard *g, struct kl_array *const *args,
                          struct kl_error **err) {
    const int first = f->plan->n_args - (int)f->n_names;
    const bool named = g->value >= first;
    return kl_fail(
        err, KL_ESHAPE,
        "argument %d%s%s%s has size %d along axis %d; the function was exported with %d%s",
        (int)g->value, named ? " (" : "", named ? f->names[g->value - first] : "", named ? ")" : "",
        args[g->value]->t.dims[g->axis], g->axis, g->extent,
        m->version < KL_FUNCTION_FILE_EXTENTS
            ? ", and a file of version 1 holds for no other; export it again"
            : ", and read that number");
}

static int call(const struct kl_imported *m, const struct function *f, struct kl_array *const *args,
                struct kl_arrays *outs, struct kl_error **err) {
    const struct kl_plan_guard *g = kl_plan_failed_guard(f->plan, args);
    if (g) return another_extent(m, f, g, args, err);
    for (int k = 0; k < f->plan->n_args && !m->shapeless; k++)
        kl_trace_note_read(args[k], KL_ALL_AXES);
    return kl_plan_replay(f->plan, args, false, outs, err);
}

int kl_imported_call(const struct kl_imported *m, struct kl_array *const *args, size_t n_args,
                     struct kl_names names, struct kl_arrays *outs, struct kl_error **err) {
    char known[200] = "";
    struct kl_array **ordered = kl_malloc((n_args + 1) * sizeof *ordered);
    if (!ordered) return kl_fail_nomem(err);
    for (size_t i = 0; i < 2 * m->n_functions; i++) {
        const bool spare = i >= m->n_functions;
        const struct function *f = &m->functions[i - (spare ? m->n_functions : 0)];
        if (!in_order(f, args, n_args, names, spare, ordered) || !fits(m, f, ordered)) continue;
        const int rc = call(m, f, ordered, outs, err);
        kl_free(ordered);
        return rc;
    }
    kl_free(ordered);
    if (m->n_functions) say_kind(known, sizeof known, &m->functions[0]);
    return kl_fail(err, KL_EARG,
                   "nothing was exported for %zu arguments of these dtypes, shapes and names; "
                   "the first of %zu functions takes (%s)%s",
                   n_args, m->n_functions, known, m->shapeless ? ", of any sizes" : "");
}
