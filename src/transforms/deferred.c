/* deferred.c - see deferred.h. */
#include "transforms/deferred.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "base/op/param_form.h"
#include "ops/build/build.h"
#include "ops/build/check.h"
#include "ops/build/vjp.h"
#include "ops/ops.h"
#include "transforms/transforms.h"

static int broken(struct kl_error **err) {
    return kl_fail(err, KL_EARG, "the arguments of a deferred transform are not those it takes");
}

/* ---- the operation that is transformed ---- */

static bool op_named(enum kl_op_id *op, const char *name) {
    for (int i = 0; i < KL_N_OPS; i++) {
        if (strcmp(kl_op_name((enum kl_op_id)i), name) != 0) continue;
        *op = (enum kl_op_id)i;
        return true;
    }
    return false;
}

static void add_field(struct kl_ints *l, char type, const char *p) {
    const size_t n = kl_param_bytes(type);
    uint32_t half[2] = {0, 0};
    if (n == 1)
        half[0] = *(const bool *)p;
    else
        memcpy(half, p, n);
    for (size_t i = 0; i < (n + 3) / 4; i++) kl_ints_add(l, (int)half[i]);
}

/* The parameters field by field, as function files have them: nothing depends on the layout of a
 * struct. */
static void add_params(struct kl_ints *l, const struct kl_node *n) {
    const struct kl_param_form *f = kl_param_form(n->task.op);
    const char *p = n->task.params;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        add_field(l, f->field[i].type, p + f->field[i].offset);
    if (!f->tail) return;
    const size_t item = kl_param_bytes(f->tail), count = (n->task.params_bytes - f->head) / item;
    kl_ints_add(l, (int)count);
    for (size_t i = 0; i < count; i++) add_field(l, f->tail, p + f->head + i * item);
}

static void next_field(struct kl_ints_reader *r, char type, char *to) {
    const size_t n = kl_param_bytes(type);
    uint32_t half[2] = {0, 0};
    for (size_t i = 0; i < (n + 3) / 4; i++) half[i] = (uint32_t)kl_ints_next(r);
    if (n > 1) {
        memcpy(to, half, n);
        return;
    }
    r->bad = r->bad || half[0] > 1;
    *(bool *)to = half[0] != 0;
}

/* Parameters of add_params in new memory; NULL: they are not those of the operation, or there is no
 * memory. */
static char *next_params(struct kl_ints_reader *r, enum kl_op_id op, size_t *bytes) {
    const struct kl_param_form *f = kl_param_form(op);
    char head[KL_PARAM_HEAD] = {0};
    if (!f) return NULL;
    for (int i = 0; i < KL_PARAM_FIELDS && f->field[i].type; i++)
        next_field(r, f->field[i].type, head + f->field[i].offset);
    const size_t item = f->tail ? kl_param_bytes(f->tail) : 0;
    const int n = f->tail ? kl_ints_count(r, (int)(item + 3) / 4) : 0;
    *bytes = f->head + (size_t)n * item;
    char *p = r->bad ? NULL : kl_malloc(*bytes + 1);
    if (!p) return NULL;
    memcpy(p, head, f->head);
    for (int i = 0; i < n; i++) next_field(r, f->tail, p + f->head + (size_t)i * item);
    return p;
}

/* The call that makes the operation of n. */
static void add_operation(struct kl_ints *l, const struct kl_node *n) {
    const struct kl_tensor *t = &n->out[0]->t;
    if (n->task.op == KL_OP_DEFERRED) {
        const struct kl_deferred_params *p = n->task.params;
        for (int i = 0; i < p->n; i++) kl_ints_add(l, p->v[i]);
        return;
    }
    const char *name = kl_op_name(n->task.op);
    kl_ints_add(l, KL_DEFERRED_OP);
    kl_ints_add_bytes(l, name, strlen(name));
    kl_ints_add(l, t->dtype);
    kl_ints_add_list(l, t->dims, (size_t)t->ndim);
    add_params(l, n);
}

static int make_op(struct kl_ints_reader *r, struct kl_array *const *in, int n_in,
                   struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    struct kl_build b = {.in = in, .n_in = n_in, .s = s};
    size_t name_bytes;
    int64_t size;
    char *name = kl_ints_bytes(r, &name_bytes), *params = NULL;
    b.dtype = (enum kl_dtype)kl_ints_next(r);
    b.ndim = kl_ints_count(r, 1);
    b.dims = r->v + r->at;
    r->at += b.ndim;
    bool ok = !r->bad && b.ndim <= KL_MAX_NDIM && kl_dtype_valid((int)b.dtype) &&
              op_named(&b.op, name) && (params = next_params(r, b.op, &b.params_bytes)) &&
              !r->bad && r->at == r->n;
    for (int i = 0; i < b.ndim && ok; i++) ok = b.dims[i] >= 0;
    ok = ok && kl_shape_size(b.ndim, b.dims, kl_dtype_size(b.dtype), &size);
    b.params = params;
    int rc = ok ? kl_op_build(&b, out, err) : broken(err);
    kl_free(name);
    kl_free(params);
    return rc;
}

/* The operation as a function of some of its inputs; the others are constants. */
struct subject {
    const int *v;
    int n;
    struct kl_array *const *in;
    int n_in;
    const int *which; /* the inputs that are arguments */
    struct kl_stream *s;
};

static int call_subject(void *ctx, struct kl_array *const *args, size_t n, struct kl_arrays *outs,
                        struct kl_error **err) {
    const struct subject *f = ctx;
    struct kl_arrays in = {0};
    KL_TRY(kl_arrays_new(outs, 1, err));
    int rc = kl_arrays_new(&in, (size_t)f->n_in, err);
    for (int i = 0; i < f->n_in && !rc; i++) in.v[i] = f->in[i];
    for (size_t i = 0; i < n && !rc; i++) in.v[f->which[i]] = args[i];
    if (!rc) rc = kl_deferred_call(f->v, f->n, in.v, f->n_in, f->s, &outs->v[0], err);
    kl_free(in.v); /* the arrays are borrowed */
    if (rc) kl_arrays_free(outs);
    return rc;
}

/* ---- the transforms ---- */

/* The first of several results, which are all given back. */
static void take_first(struct kl_array **out, struct kl_arrays *a, int rc) {
    if (!rc) *out = kl_array_retain(a->v[0]);
    kl_arrays_free(a);
}

static int make_vjp(struct kl_ints_reader *r, struct kl_array *const *in, int n_in,
                    struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    const int n = kl_ints_next(r), k = kl_ints_next(r);
    if (r->bad || n < 1 || n_in != n + 1 || k < 0 || k >= n) return broken(err);
    struct subject x = {r->v + r->at, r->n - r->at, in, n, &k, s};
    struct kl_function f = {.call = call_subject, .ctx = &x};
    struct kl_arrays outs = {0}, grads = {0};
    int rc = kl_vjp(&f, &in[k], 1, &in[n], 1, &outs, &grads, err);
    take_first(out, &grads, rc);
    kl_arrays_free(&outs);
    return rc;
}

static int make_jvp(struct kl_ints_reader *r, struct kl_array *const *in, int n_in,
                    struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    const int n = kl_ints_next(r), count = kl_ints_count(r, 1), *which = r->v + r->at;
    r->at += count;
    if (r->bad || n < 1 || count < 1 || n_in != n + count) return broken(err);
    for (int i = 0; i < count; i++)
        if (which[i] < 0 || which[i] >= n || (i && which[i] <= which[i - 1])) return broken(err);
    struct subject x = {r->v + r->at, r->n - r->at, in, n, which, s};
    struct kl_function f = {.call = call_subject, .ctx = &x};
    struct kl_arrays outs = {0}, tangents = {0}, primals = {0};
    int rc = kl_arrays_new(&primals, (size_t)count, err);
    for (int i = 0; i < count && !rc; i++) primals.v[i] = kl_array_retain(in[which[i]]);
    if (!rc)
        rc = kl_jvp(&f, primals.v, (size_t)count, in + n, (size_t)count, &outs, &tangents, err);
    take_first(out, &tangents, rc);
    kl_arrays_free(&primals);
    kl_arrays_free(&outs);
    return rc;
}

static int make_vmap(struct kl_ints_reader *r, struct kl_array *const *in, int n_in,
                     struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    const int n = kl_ints_count(r, 1), *axes = r->v + r->at, to = 0;
    r->at += n;
    if (r->bad || n != n_in || n < 1) return broken(err);
    for (int i = 0; i < n; i++)
        if (axes[i] != 0 && axes[i] != KL_VMAP_NONE) return broken(err);
    int *all = kl_malloc((size_t)n * sizeof *all);
    if (!all) return kl_fail_nomem(err);
    for (int i = 0; i < n; i++) all[i] = i;
    struct subject x = {r->v + r->at, r->n - r->at, in, n, all, s};
    struct kl_function f = {.call = call_subject, .ctx = &x};
    struct kl_arrays lane_in = {0}, lane_out = {0}, outs = {0};
    int rc = kl_vmap_trace(&f, in, (size_t)n, axes, &lane_in, &lane_out, err);
    if (!rc) rc = kl_vmap_replace(in, (size_t)n, lane_in.v, lane_out.v, 1, axes, &to, &outs, err);
    take_first(out, &outs, rc);
    kl_arrays_free(&lane_in);
    kl_arrays_free(&lane_out);
    kl_free(all);
    return rc;
}

static int make_lanes(struct kl_ints_reader *r, struct kl_array *const *in, int n_in,
                      struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    const int axis = kl_ints_next(r), to = kl_ints_next(r);
    struct kl_shape with = {0};
    struct kl_array *room;
    if (r->bad || n_in != 2 || axis < 0 || axis >= in[1]->t.ndim || to < 0 || to > in[0]->t.ndim ||
        in[0]->t.ndim >= KL_MAX_NDIM)
        return broken(err);
    with.ndim = in[0]->t.ndim + 1;
    for (int d = 0, from = 0; d < with.ndim; d++)
        with.dims[d] = d == to ? in[1]->t.dims[axis] : in[0]->t.dims[from++];
    KL_TRY(kl_expand_dims(&room, in[0], to, s, err));
    int rc = kl_broadcast_to(out, room, with.dims, (size_t)with.ndim, s, err);
    kl_array_release(room);
    return rc;
}

/* Transforms of transforms nest; a file might nest them without end. */
enum { DEEPEST = 8 };
static __thread int depth;

static int call_one(const int *v, int n, struct kl_array *const *in, int n_in, struct kl_stream *s,
                    struct kl_array **out, struct kl_error **err) {
    struct kl_ints_reader r = {.v = v, .n = n};
    switch (kl_ints_next(&r)) {
    case KL_DEFERRED_OP: return make_op(&r, in, n_in, s, out, err);
    case KL_DEFERRED_VJP: return make_vjp(&r, in, n_in, s, out, err);
    case KL_DEFERRED_JVP: return make_jvp(&r, in, n_in, s, out, err);
    case KL_DEFERRED_VMAP: return make_vmap(&r, in, n_in, s, out, err);
    case KL_DEFERRED_LANES: return make_lanes(&r, in, n_in, s, out, err);
    default: return kl_deferred_build(v, n, in, n_in, s, out, err);
    }
}

int kl_deferred_call(const int *v, int n, struct kl_array *const *in, int n_in, struct kl_stream *s,
                     struct kl_array **out, struct kl_error **err) {
    if (depth == DEEPEST)
        return kl_fail(err, KL_ELIMIT, "more than %d transforms of one operation, for any shapes",
                       DEEPEST);
    depth++;
    int rc = call_one(v, n, in, n_in, s, out, err);
    depth--;
    return rc;
}

int kl_deferred_again(const void *params, size_t params_bytes, struct kl_array *const *in, int n_in,
                      struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    const struct kl_deferred_params *p = params;
    if (params_bytes < sizeof *p || p->n < 0 ||
        params_bytes != sizeof *p + (size_t)p->n * sizeof *p->v)
        return broken(err);
    if (!kl_any_shapeless(in, n_in)) return kl_deferred_call(p->v, p->n, in, n_in, s, out, err);
    const struct kl_ints l = {.v = (int *)p->v, .n = p->n};
    return kl_deferred_record(out, kl_deferred_call, &l, in, n_in, s, err);
}

/* Skips what stands before the call that is transformed; the words for it, or NULL. */
static const char *skip_transform(struct kl_ints_reader *r, int kind) {
    switch (kind) {
    case KL_DEFERRED_VJP: r->at += 2; return "gradient of ";
    case KL_DEFERRED_JVP: r->at++; break;
    case KL_DEFERRED_VMAP: break;
    default: return NULL;
    }
    r->at += kl_ints_count(r, 1);
    return kind == KL_DEFERRED_JVP ? "derivative of " : "batch of ";
}

const char *kl_deferred_name(char text[KL_DEFERRED_NAME], const void *params, size_t params_bytes) {
    const struct kl_deferred_params *p = params;
    struct kl_ints_reader r = {.v = p->v, .n = p->n};
    const char *words;
    size_t n, at = 0;
    snprintf(text, KL_DEFERRED_NAME, "deferred");
    if (params_bytes != sizeof *p + (size_t)p->n * sizeof *p->v) return text;
    int kind = kl_ints_next(&r);
    for (; (words = skip_transform(&r, kind)) && at < KL_DEFERRED_NAME / 2; kind = kl_ints_next(&r))
        at += (size_t)snprintf(text + at, KL_DEFERRED_NAME - at, "%s", words);
    const char *builder = kl_deferred_builder(kind);
    char *name = kind == KL_DEFERRED_OP && !r.bad ? kl_ints_bytes(&r, &n) : NULL;
    const char *from = name ? name : builder ? builder : "a result for all lanes";
    for (; *from && at + 1 < KL_DEFERRED_NAME; from++)
        text[at++] = *from >= 'A' && *from <= 'Z' ? (char)(*from - 'A' + 'a') : *from;
    text[at] = 0;
    kl_free(name);
    return text;
}

/* ---- recording ---- */

bool kl_defers_rules(const struct kl_node *n, struct kl_array *const *with, int n_with) {
    switch (n->task.op) {
    case KL_OP_CUSTOM:
    case KL_OP_ARGUMENT:
    case KL_OP_STOP_GRADIENT:
    case KL_OP_KERNEL:
    case KL_OP_CALL: return false;
    default: break;
    }
    /* Rules of functions of one number use no extents. */
    if ((kl_op_flags(n->task.op) & KL_OPF_ELEMENTWISE) && n->n_in == 1) return false;
    return kl_any_shapeless(n->in, n->n_in) || kl_any_shapeless(with, n_with);
}

/* Records the call l, which is freed, on arrays in two lists, of which entries may be NULL. */
static int record(struct kl_array **out, struct kl_ints *l, struct kl_array *const *first,
                  int n_first, struct kl_array *const *second, int n_second, struct kl_stream *s,
                  struct kl_error **err) {
    int n = 0, rc = KL_OK;
    struct kl_array **in = kl_malloc((size_t)(n_first + n_second + 1) * sizeof *in);
    if (!in) rc = kl_fail_nomem(err);
    for (int i = 0; i < n_first && !rc; i++) in[n++] = first[i];
    for (int i = 0; i < n_second && !rc; i++)
        if (second[i]) in[n++] = second[i];
    if (!rc) rc = kl_deferred_record(out, kl_deferred_call, l, in, n, s, err);
    kl_free(in);
    kl_ints_free(l);
    return rc;
}

int kl_deferred_vjp(struct kl_array **out, const struct kl_node *n, int k,
                    struct kl_array *cotangent, struct kl_stream *s, struct kl_error **err) {
    struct kl_ints l = {0};
    kl_ints_add(&l, KL_DEFERRED_VJP);
    kl_ints_add(&l, n->n_in);
    kl_ints_add(&l, k);
    add_operation(&l, n);
    return record(out, &l, n->in, n->n_in, &cotangent, 1, s, err);
}

int kl_deferred_jvp(struct kl_array **out, const struct kl_node *n, struct kl_array *const *tangent,
                    struct kl_stream *s, struct kl_error **err) {
    struct kl_ints l = {0};
    int count = 0;
    for (int i = 0; i < n->n_in; i++) count += tangent[i] != NULL;
    kl_ints_add(&l, KL_DEFERRED_JVP);
    kl_ints_add(&l, n->n_in);
    kl_ints_add(&l, count);
    for (int i = 0; i < n->n_in; i++)
        if (tangent[i]) kl_ints_add(&l, i);
    add_operation(&l, n);
    return record(out, &l, n->in, n->n_in, tangent, n->n_in, s, err);
}

int kl_deferred_vmap(struct kl_array **out, const struct kl_node *n, struct kl_array *const *in,
                     const bool *mapped, struct kl_stream *s, struct kl_error **err) {
    struct kl_ints l = {0};
    kl_ints_add(&l, KL_DEFERRED_VMAP);
    kl_ints_add(&l, n->n_in);
    for (int i = 0; i < n->n_in; i++) kl_ints_add(&l, mapped[i] ? 0 : KL_VMAP_NONE);
    add_operation(&l, n);
    return record(out, &l, in, n->n_in, NULL, 0, s, err);
}

int kl_deferred_lanes(struct kl_array **out, struct kl_array *a, int out_axis,
                      struct kl_array *mapped, int axis, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_ints l = {0};
    kl_ints_add(&l, KL_DEFERRED_LANES);
    kl_ints_add(&l, axis);
    kl_ints_add(&l, out_axis);
    struct kl_array *const both[2] = {a, mapped};
    return record(out, &l, both, 2, NULL, 0, s, err);
}
