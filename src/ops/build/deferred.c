/* deferred.c - see deferred.h. */
#include "ops/build/deferred.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/op/op_params.h"
#include "ops/build/check.h"
#include "ops/build/views.h"
#include "ops/fft.h"
#include "ops/linalg.h"
#include "ops/ops.h"
#include "ops/quantized_parts.h"

/* ---- lists of ints ---- */

void kl_ints_add(struct kl_ints *l, int x) {
    if (l->n < 0) return;
    if (l->n == l->room) {
        int more = l->room ? 2 * l->room : 32;
        int *v = kl_realloc(l->v, (size_t)more * sizeof *v);
        if (!v) {
            l->n = -1;
            return;
        }
        l->v = v;
        l->room = more;
    }
    l->v[l->n++] = x;
}

void kl_ints_add_list(struct kl_ints *l, const int *v, size_t n) {
    kl_ints_add(l, (int)n);
    for (size_t i = 0; i < n; i++) kl_ints_add(l, v[i]);
}

static void add_wide(struct kl_ints *l, int64_t x) {
    kl_ints_add(l, (int)(uint32_t)x);
    kl_ints_add(l, (int)(uint32_t)((uint64_t)x >> 32));
}

void kl_ints_add_bytes(struct kl_ints *l, const void *bytes, size_t n) {
    const unsigned char *b = bytes;
    kl_ints_add(l, (int)n);
    for (size_t i = 0; i < n; i += 4) {
        uint32_t x = 0;
        for (size_t k = 0; k < 4 && i + k < n; k++) x |= (uint32_t)b[i + k] << (8 * k);
        kl_ints_add(l, (int)x);
    }
}

void kl_ints_free(struct kl_ints *l) {
    kl_free(l->v);
    *l = (struct kl_ints){0};
}

int kl_ints_next(struct kl_ints_reader *r) {
    if (r->at < r->n) return r->v[r->at++];
    r->bad = true;
    return 0;
}

int kl_ints_count(struct kl_ints_reader *r, int each) {
    int n = kl_ints_next(r);
    if (n >= 0 && n <= (r->n - r->at) / each) return n;
    r->bad = true;
    return 0;
}

static int64_t next_wide(struct kl_ints_reader *r) {
    uint64_t low = (uint32_t)kl_ints_next(r);
    return (int64_t)(low | (uint64_t)(uint32_t)kl_ints_next(r) << 32);
}

char *kl_ints_bytes(struct kl_ints_reader *r, size_t *n) {
    int count = kl_ints_next(r);
    if (count < 0 || (count + (int64_t)3) / 4 > r->n - r->at) r->bad = true;
    char *b = r->bad ? NULL : kl_malloc((size_t)count + 1);
    if (!b) {
        r->bad = true;
        return NULL;
    }
    for (int i = 0; i < count; i += 4) {
        uint32_t x = (uint32_t)r->v[r->at++];
        for (int k = 0; k < 4 && i + k < count; k++) b[i + k] = (char)(x >> (8 * k));
    }
    b[count] = 0;
    *n = (size_t)count;
    return b;
}

/* ---- arguments ---- */

enum { MOST = 8 }; /* arguments of one letter */

struct kl_deferred_args {
    struct kl_array *a[MOST]; /* borrowed, like the lists */
    int i[MOST];
    double d[MOST];
    char *z[1]; /* owned; NULL: there is none */
    struct {
        const int *v;
        size_t n;
    } list[MOST];
    struct {
        int64_t *v; /* owned */
        size_t n;
    } wide[1];
    struct {
        struct kl_array *const *v;
        size_t n;
    } arrays[1];
};

static int broken(struct kl_error **err) {
    return kl_fail(err, KL_EARG, "the arguments of a deferred call are not those that it takes");
}

static void args_free(struct kl_deferred_args *x) {
    kl_free(x->z[0]);
    kl_free(x->wide[0].v);
}

static void read_wide(struct kl_deferred_args *x, struct kl_ints_reader *r) {
    int n = kl_ints_count(r, 2);
    x->wide[0].v = kl_malloc(((size_t)n + 1) * sizeof *x->wide[0].v);
    if (!x->wide[0].v) r->bad = true;
    for (int k = 0; k < n && !r->bad; k++) x->wide[0].v[k] = next_wide(r);
    x->wide[0].n = (size_t)n;
}

static void read_text(struct kl_deferred_args *x, struct kl_ints_reader *r) {
    size_t n;
    if (r->at < r->n && r->v[r->at] == -1)
        r->at++;
    else
        x->z[0] = kl_ints_bytes(r, &n);
}

/* All arguments of a call by its form. On failure what is owned is freed. */
static int read_args(struct kl_deferred_args *x, const char *form, struct kl_ints_reader *r,
                     struct kl_array *const *in, int n_in, struct kl_error **err) {
    int n_a = 0, n_i = 0, n_d = 0, n_l = 0, used = 0;
    *x = (struct kl_deferred_args){0};
    for (; *form && !r->bad; form++) {
        int count = 0;
        switch (*form) {
        case 'i':
        case 'b': x->i[n_i++] = kl_ints_next(r); break;
        case 'd': {
            int64_t bits = next_wide(r);
            memcpy(&x->d[n_d++], &bits, sizeof bits);
            break;
        }
        case 'l':
            count = kl_ints_count(r, 1);
            x->list[n_l].v = r->v + r->at;
            x->list[n_l++].n = (size_t)count;
            r->at += count;
            break;
        case 'L': read_wide(x, r); break;
        case 'z': read_text(x, r); break;
        case 'v':
            count = kl_ints_next(r);
            if (count < 0 || count > n_in - used) {
                r->bad = true;
                break;
            }
            x->arrays[0].v = in + used;
            x->arrays[0].n = (size_t)count;
            used += count;
            break;
        default: /* a, o */
            if (*form == 'o' && !kl_ints_next(r)) {
                n_a++;
            } else if (used < n_in) {
                x->a[n_a++] = in[used++];
            } else {
                r->bad = true;
            }
        }
    }
    if (!r->bad && r->at == r->n && used == n_in) return KL_OK;
    args_free(x);
    return broken(err);
}

/* ---- calls that take more than a line ---- */

static struct kl_conv_list conv_list(const struct kl_deferred_args *x, int i) {
    return (struct kl_conv_list){x->list[i].v, x->list[i].n};
}

static int conv_transpose(struct kl_array **out, const struct kl_deferred_args *x,
                          struct kl_stream *s, struct kl_error **err) {
    for (int i = 0; i < 4; i++)
        if (x->list[i].n != (size_t)x->i[0]) return broken(err);
    return kl_conv_transpose(out, x->a[0], x->a[1], x->i[0], x->list[0].v, x->list[1].v,
                             x->list[2].v, x->list[3].v, x->i[1], s, err);
}

static int hadamard(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                    struct kl_error **err) {
    float scale = (float)x->d[0];
    return kl_hadamard_transform(out, x->a[0], x->i[0] ? &scale : NULL, s, err);
}

static int scatter(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                   struct kl_error **err) {
    kl_scatter_fn *const how[] = {kl_scatter, kl_scatter_add, kl_scatter_prod, kl_scatter_max,
                                  kl_scatter_min};
    if (x->i[0] < 0 || x->i[0] >= (int)(sizeof how / sizeof *how)) return broken(err);
    return how[x->i[0]](out, x->a[0], x->arrays[0].v, x->arrays[0].n, x->a[1], x->list[0].v,
                        x->list[0].n, s, err);
}

static int rope(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                struct kl_error **err) {
    const struct kl_rope_base base = {x->i[2], (float)x->d[0]};
    return kl_rope(out, x->a[0], x->i[0], x->i[1], base, (float)x->d[1], x->a[1], x->a[2], s, err);
}

/* Three ints of the arguments as a format, which may come from a file. */
static int format_of(struct kl_quant_format *f, const int *v, struct kl_error **err) {
    if (v[0] < 0 || v[0] >= KL_N_QUANT_MODES) return broken(err);
    *f = (struct kl_quant_format){(enum kl_quant_mode)v[0], v[1], v[2]};
    return kl_quant_check_format(f, err);
}

static int quantize(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                    struct kl_error **err) {
    struct kl_quant_format f;
    struct kl_array *made[3] = {NULL};
    int n = 0;
    KL_TRY(format_of(&f, x->i, err));
    KL_TRY(kl_quantize(made, &n, x->a[0], &f, x->a[1], s, err));
    const int which = x->i[3];
    for (int i = 0; i < n; i++)
        if (i != which) kl_array_release(made[i]);
    if (which < 0 || which >= n) return broken(err);
    *out = made[which];
    return KL_OK;
}

static int dequantize(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_quant_format f;
    KL_TRY(format_of(&f, x->i, err));
    return kl_dequantize(out, x->a[0], x->a[1], x->a[2], &f, x->a[3], x->i[3] ? &x->i[4] : NULL, s,
                         err);
}

static int quantized_matmul(struct kl_array **out, const struct kl_deferred_args *x,
                            struct kl_stream *s, struct kl_error **err) {
    struct kl_quant_format f;
    KL_TRY(format_of(&f, x->i + 1, err));
    return kl_quantized_matmul(out, x->a[0], x->a[1], x->a[2], x->a[3], x->i[0], &f, s, err);
}

static int gather_qmm(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                      struct kl_error **err) {
    struct kl_quant_format f;
    KL_TRY(format_of(&f, x->i + 1, err));
    return kl_gather_qmm(out, x->a[0], x->a[1], x->a[2], x->a[3], x->a[4], x->a[5], x->i[0], &f, s,
                         err);
}

static int qqmm(struct kl_array **out, const struct kl_deferred_args *x, struct kl_stream *s,
                struct kl_error **err) {
    struct kl_quant_format f;
    KL_TRY(format_of(&f, x->i, err));
    return kl_qqmm(out, x->a[0], x->a[1], x->a[2], &f, x->a[3], x->a[4], s, err);
}

/* One of the arrays of a list that a builder made, which is given back. */
static int pick(struct kl_array **out, int which, struct kl_array **many, size_t n,
                struct kl_error **err) {
    bool there = which >= 0 && (size_t)which < n;
    if (there) *out = kl_array_retain(many[which]);
    for (size_t i = 0; i < n; i++) kl_array_release(many[i]);
    kl_free(many);
    return there ? KL_OK : broken(err);
}

/* ---- making a call ---- */

static int run(enum kl_deferred_kind kind, struct kl_array **out, const struct kl_deferred_args *x,
               struct kl_stream *s, struct kl_error **err) {
    struct kl_array **many = NULL; /* of builders that make several */
    size_t n = 0;
    int rc = 0;
#define KL_DEFERRED(number, NAME, form, call) \
    if (kind == number) return call;
#include "ops/build/deferred.def"
    return kl_fail(err, KL_EARG, "there is no deferred call of number %d", (int)kind);
}

static const char *const forms[KL_DEFERRED_END] = {
#define KL_DEFERRED(number, NAME, form, call) [number] = form,
#include "ops/build/deferred.def"
};

const char *kl_deferred_builder(int kind) {
    static const struct {
        int kind;
        const char *name;
    } names[] = {
#define KL_DEFERRED(number, NAME, form, call) {number, #NAME},
#include "ops/build/deferred.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind) return names[i].name;
    return NULL;
}

int kl_deferred_build(const int *v, int n, struct kl_array *const *in, int n_in,
                      struct kl_stream *s, struct kl_array **out, struct kl_error **err) {
    struct kl_ints_reader r = {.v = v, .n = n};
    struct kl_deferred_args x;
    const int kind = kl_ints_next(&r);
    const bool known = kind >= 0 && kind < KL_DEFERRED_END && forms[kind];
    KL_TRY(read_args(&x, known ? forms[kind] : "", &r, in, n_in, err));
    struct kl_array *made;
    int rc = run(kind, &made, &x, s, err);
    args_free(&x);
    if (!rc) *out = made;
    return rc;
}

int kl_deferred_record(struct kl_array **out, kl_deferred_fn *call, const struct kl_ints *l,
                       struct kl_array *const *in, int n_in, struct kl_stream *s,
                       struct kl_error **err) {
    struct kl_array *made;
    if (l->n < 0) return kl_fail_nomem(err);
    kl_extents_known_begin();
    int rc = call(l->v, l->n, in, n_in, s, &made, err);
    kl_extents_known_end();
    if (rc) return rc;
    const size_t bytes = sizeof(struct kl_deferred_params) + (size_t)l->n * sizeof(int);
    struct kl_deferred_params *p = kl_malloc(bytes);
    if (p) {
        p->n = l->n;
        memcpy(p->v, l->v, (size_t)l->n * sizeof(int));
        rc = kl_array_op1(out,
                          &(struct kl_operation){.op = KL_OP_DEFERRED,
                                                 .stream = s,
                                                 .params = p,
                                                 .params_bytes = bytes,
                                                 .in = in,
                                                 .n_in = n_in},
                          (enum kl_dtype)made->t.dtype, made->t.ndim, made->t.dims, err);
        if (!rc) (*out)->stopped = made->stopped;
    } else {
        rc = kl_fail_nomem(err);
    }
    kl_free(p);
    kl_array_release(made);
    return rc;
}

/* ---- recording a call ---- */

/* The arguments of a call as they are collected. */
struct collected {
    struct kl_ints l;
    struct kl_array **in; /* borrowed arrays; the list is owned unless it is `few` */
    struct kl_array *few[16];
    int n_in, room;
    bool whole; /* no required array is missing, and there was memory */
    bool open;  /* an array is shapeless */
};

static void add_array(struct collected *c, struct kl_array *a) {
    if (c->n_in == c->room) {
        struct kl_array **more = kl_malloc(2 * (size_t)c->room * sizeof(struct kl_array *));
        if (!more) {
            c->l.n = -1;
            return;
        }
        memcpy(more, c->in, (size_t)c->n_in * sizeof(struct kl_array *));
        if (c->in != c->few) kl_free(c->in);
        c->in = more;
        c->room *= 2;
    }
    c->whole = c->whole && a;
    c->open = c->open || kl_is_shapeless(a);
    c->in[c->n_in++] = a;
}

static void add_text(struct kl_ints *l, const char *text) {
    if (text)
        kl_ints_add_bytes(l, text, strlen(text));
    else
        kl_ints_add(l, -1);
}

/* Whether an array among the arguments is shapeless; nearly always none is. */
static bool any_open(const char *form, va_list args) {
    bool open = false;
    for (; *form; form++) switch (*form) {
        case 'i':
        case 'b': (void)va_arg(args, int); break;
        case 'd': (void)va_arg(args, double); break;
        case 'z': (void)va_arg(args, const char *); break;
        case 'l': (void)va_arg(args, const int *), (void)va_arg(args, size_t); break;
        case 'L': (void)va_arg(args, const int64_t *), (void)va_arg(args, size_t); break;
        case 'v': {
            struct kl_array *const *v = va_arg(args, struct kl_array *const *);
            size_t n = va_arg(args, size_t);
            for (size_t i = 0; v && i < n; i++) open = open || kl_is_shapeless(v[i]);
            break;
        }
        default: open = open || kl_is_shapeless(va_arg(args, struct kl_array *));
        }
    return open;
}

static void collect(struct collected *c, const char *form, va_list args) {
    for (; *form; form++) switch (*form) {
        case 'i':
        case 'b': kl_ints_add(&c->l, va_arg(args, int)); break;
        case 'd': {
            double d = va_arg(args, double);
            int64_t bits;
            memcpy(&bits, &d, sizeof bits);
            add_wide(&c->l, bits);
            break;
        }
        case 'z': add_text(&c->l, va_arg(args, const char *)); break;
        case 'l': {
            const int *v = va_arg(args, const int *);
            size_t n = va_arg(args, size_t);
            c->whole = c->whole && (v || n == 0) && n <= INT32_MAX;
            if (c->whole) kl_ints_add_list(&c->l, v, n);
            break;
        }
        case 'L': {
            const int64_t *v = va_arg(args, const int64_t *);
            size_t n = va_arg(args, size_t);
            c->whole = c->whole && (v || n == 0) && n <= INT32_MAX / 2;
            kl_ints_add(&c->l, (int)n);
            for (size_t i = 0; c->whole && i < n; i++) add_wide(&c->l, v[i]);
            break;
        }
        case 'v': {
            struct kl_array *const *v = va_arg(args, struct kl_array *const *);
            size_t n = va_arg(args, size_t);
            c->whole = c->whole && (v || n == 0) && n <= INT32_MAX;
            kl_ints_add(&c->l, (int)n);
            for (size_t i = 0; c->whole && i < n; i++) add_array(c, v[i]);
            break;
        }
        default: {
            struct kl_array *a = va_arg(args, struct kl_array *);
            if (*form == 'o') kl_ints_add(&c->l, a != NULL);
            if (*form == 'a' || a) add_array(c, a);
        }
        }
}

/* A call that cannot be taken as it is (an array or a list is NULL) is left to the builder, which
 * says so. last: a number after the other arguments; -1: none. */
static bool defer(int *rc, struct kl_array **out, enum kl_deferred_kind kind, int last,
                  struct kl_stream *s, struct kl_error **err, va_list args) {
    struct collected c = {.in = c.few, .room = 16, .whole = true};
    va_list again;
    va_copy(again, args);
    bool open = any_open(forms[kind], again);
    va_end(again);
    if (!open) return false;
    kl_ints_add(&c.l, kind);
    va_copy(again, args);
    collect(&c, forms[kind], again);
    va_end(again);
    if (last >= 0 && c.l.n > 0) c.l.v[c.l.n - 1] = last;
    if (c.whole) *rc = kl_deferred_record(out, kl_deferred_build, &c.l, c.in, c.n_in, s, err);
    if (c.in != c.few) kl_free(c.in);
    kl_ints_free(&c.l);
    return c.whole;
}

bool kl_defer(int *rc, struct kl_array **out, enum kl_deferred_kind kind, struct kl_stream *s,
              struct kl_error **err, ...) {
    va_list args;
    va_start(args, err);
    bool deferred = defer(rc, out, kind, -1, s, err, args);
    va_end(args);
    return deferred;
}

bool kl_defer_many(int *rc, struct kl_array ***outs, size_t *n_outs, size_t count,
                   enum kl_deferred_kind kind, struct kl_stream *s, struct kl_error **err, ...) {
    va_list args;
    va_start(args, err);
    va_list again;
    va_copy(again, args);
    bool open = any_open(forms[kind], again);
    va_end(again);
    struct kl_array **made = open ? kl_malloc((count + 1) * sizeof *made) : NULL;
    if (open && !made) *rc = kl_fail_nomem(err);
    size_t done = 0;
    bool deferred = open;
    for (*rc = made ? KL_OK : *rc; made && deferred && done < count; done++) {
        deferred = defer(rc, &made[done], kind, (int)done, s, err, args);
        if (!deferred || *rc) break;
    }
    va_end(args);
    if (made && deferred && !*rc) {
        *outs = made;
        *n_outs = count;
        return true;
    }
    for (size_t i = 0; made && i < done; i++) kl_array_release(made[i]);
    kl_free(made);
    return deferred;
}
