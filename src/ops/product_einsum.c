/* product_einsum.c - Einstein summation, as diagonals, sums, permutations, products of matrices and
 * element-wise products of two operands at a time. The order of pairs has the fewest
 * multiplications for up to MOST_EXACT operands; for more, each step takes the pair whose result is
 * smallest in comparison with its operands. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"

enum {
    LETTERS = 52,
    LABELS = LETTERS + KL_MAX_NDIM, /* letters, then the axes of the ellipsis, the last one first */
    MOST_OPERANDS = 64,
    MOST_EXACT = 8,
};

struct labels { /* a set */
    uint64_t bits[2];
};
static void set_add(struct labels *s, int label) {
    s->bits[label / 64] |= UINT64_C(1) << label % 64;
}
static bool set_has(const struct labels *s, int label) {
    return s->bits[label / 64] >> label % 64 & 1;
}
static struct labels set_join(struct labels a, struct labels b) {
    return (struct labels){{a.bits[0] | b.bits[0], a.bits[1] | b.bits[1]}};
}
static struct labels set_meet(struct labels a, struct labels b) {
    return (struct labels){{a.bits[0] & b.bits[0], a.bits[1] & b.bits[1]}};
}

/* A list of labels: the axes of an operand, or of the result. */
struct list {
    int n;
    uint8_t label[KL_MAX_NDIM];
};
static struct labels set_of(const struct list *l) {
    struct labels s = {{0}};
    for (int i = 0; i < l->n; i++) set_add(&s, l->label[i]);
    return s;
}

struct operand {
    struct kl_array *a; /* owned */
    struct list axes;
};

struct summation {
    struct operand in[MOST_OPERANDS];
    int n_in;
    int extent[LABELS]; /* -1: no operand has the label */
    struct list out;
    struct kl_stream *s;
    struct kl_error **err;
};

/* ---- subscripts ---- */
static int label_of(char c) {
    return c >= 'a' ? c - 'a' + 26 : c - 'A'; /* in the order of ASCII */
}
static char letter_of(int label) {
    return (char)(label >= 26 ? label - 26 + 'a' : label + 'A');
}

/* One operand's part of the subscripts, as far as ',', '-' or the end. `dots`: the number of
 * letters before an ellipsis, or -1. */
struct part {
    int n, dots;
    uint8_t label[KL_MAX_NDIM];
};
static int read_part(struct part *p, const char **at, struct kl_error **err) {
    const char *c = *at;
    p->n = 0;
    p->dots = -1;
    for (;; c++) {
        if (*c == ' ') continue;
        if (*c == '\0' || *c == ',' || (c[0] == '-' && c[1] == '>')) break;
        if (c[0] == '.' && c[1] == '.' && c[2] == '.') {
            if (p->dots >= 0)
                return kl_fail(err, KL_EARG, "two ellipses in the subscripts of one operand");
            p->dots = p->n;
            c += 2;
            continue;
        }
        if (!isalpha((unsigned char)*c) || (unsigned char)*c >= 128)
            return kl_fail(err, KL_EARG,
                           "character 0x%02x in subscripts; letters, \"...\", ',', \"->\" and "
                           "spaces are taken",
                           (unsigned)(unsigned char)*c);
        if (p->n == KL_MAX_NDIM)
            return kl_fail(err, KL_EARG, "more than %d subscripts of one operand", KL_MAX_NDIM);
        p->label[p->n++] = (uint8_t)label_of(*c);
    }
    *at = c;
    return KL_OK;
}

static const char *name_of(int label, char room[40]) {
    if (label < LETTERS)
        snprintf(room, 40, "'%c'", letter_of(label));
    else
        snprintf(room, 40, "axis %d of the ellipsis", LETTERS - label - 1);
    return room;
}

/* The axes of operand i, from its part; the extents of labels join those of other operands. */
static int take_operand(struct summation *m, int i, const struct part *p) {
    const struct kl_array *a = m->in[i].a;
    const int dots = a->t.ndim - p->n;
    struct list *l = &m->in[i].axes;
    if (dots < 0 || (dots > 0 && p->dots < 0))
        return kl_fail(m->err, KL_ESHAPE, "%d subscripts%s for operand %d of shape %s", p->n,
                       p->dots < 0 ? "" : " and an ellipsis", i, KL_SHAPE_TEXT_OF(a));
    l->n = 0;
    for (int k = 0; k <= p->n; k++) {
        if (k == p->dots)
            for (int d = dots; d > 0; d--) l->label[l->n++] = (uint8_t)(LETTERS + d - 1);
        if (k < p->n) l->label[l->n++] = p->label[k];
    }
    for (int k = 0; k < l->n; k++) {
        int *extent = &m->extent[l->label[k]], n = a->t.dims[k];
        char room[40];
        if (*extent >= 0 && n != 1 && *extent != 1 && n != *extent)
            return kl_fail(m->err, KL_ESHAPE,
                           "%s has %d elements in operand %d of shape %s, and %d before",
                           name_of(l->label[k], room), n, i, KL_SHAPE_TEXT_OF(a), *extent);
        if (*extent < 0 || *extent == 1) *extent = n;
    }
    return KL_OK;
}

static int add_result(struct summation *m, int label) {
    if (m->out.n == KL_MAX_NDIM)
        return kl_fail(m->err, KL_ESHAPE, "the result has more than %d axes", KL_MAX_NDIM);
    m->out.label[m->out.n++] = (uint8_t)label;
    return KL_OK;
}
static int add_ellipsis(struct summation *m) {
    for (int d = LABELS - 1; d >= LETTERS; d--)
        if (m->extent[d] >= 0) KL_TRY(add_result(m, d));
    return KL_OK;
}

/* The result, where the subscripts do not name it: the ellipsis, then the letters that occur once,
 * in order. */
static int implicit_result(struct summation *m) {
    int count[LETTERS] = {0};
    for (int i = 0; i < m->n_in; i++)
        for (int k = 0; k < m->in[i].axes.n; k++)
            if (m->in[i].axes.label[k] < LETTERS) count[m->in[i].axes.label[k]]++;
    KL_TRY(add_ellipsis(m));
    for (int k = 0; k < LETTERS; k++)
        if (count[k] == 1) KL_TRY(add_result(m, k));
    return KL_OK;
}

static int explicit_result(struct summation *m, const struct part *p) {
    struct labels seen = {{0}};
    for (int k = 0; k <= p->n; k++) {
        if (k == p->dots) KL_TRY(add_ellipsis(m));
        if (k == p->n) break;
        if (set_has(&seen, p->label[k]))
            return kl_fail(m->err, KL_EARG, "'%c' occurs twice in the result",
                           letter_of(p->label[k]));
        if (m->extent[p->label[k]] < 0)
            return kl_fail(m->err, KL_EARG, "'%c' of the result is in no operand",
                           letter_of(p->label[k]));
        set_add(&seen, p->label[k]);
        KL_TRY(add_result(m, p->label[k]));
    }
    return KL_OK;
}

static int read_subscripts(struct summation *m, const char *subscripts) {
    const char *at = subscripts;
    struct part p;
    int n = 1;
    for (const char *c = subscripts; *c && !(c[0] == '-' && c[1] == '>'); c++) n += *c == ',';
    if (n != m->n_in)
        return kl_fail(m->err, KL_EARG, "subscripts of %d operands; %d are given", n, m->n_in);
    for (int i = 0; i < LABELS; i++) m->extent[i] = -1;
    for (int i = 0; i < n; i++) {
        KL_TRY(read_part(&p, &at, m->err));
        KL_TRY(take_operand(m, i, &p));
        if (i + 1 < n) at++;
    }
    if (*at == '\0') return implicit_result(m);
    at += 2;
    KL_TRY(read_part(&p, &at, m->err));
    if (*at) return kl_fail(m->err, KL_EARG, "\"%c\" after the subscripts of the result", *at);
    return explicit_result(m, &p);
}

/* ---- one operand ---- */

/* Replaces the array of an operand by the result of a builder, which has been put into *made. */
static int replace(struct operand *o, int rc, struct kl_array *const *made) {
    if (rc) return rc;
    kl_array_release(o->a);
    o->a = *made;
    return KL_OK;
}

static void drop_axis(struct list *l, int axis) {
    memmove(l->label + axis, l->label + axis + 1, (size_t)(l->n - axis - 1));
    l->n--;
}

/* Labels that an operand has twice become diagonals. */
static int take_diagonals(const struct summation *m, struct operand *o) {
    for (int i = 0; i < o->axes.n; i++)
        for (int k = i + 1; k < o->axes.n; k++) {
            const int label = o->axes.label[i];
            struct kl_array *made;
            if (o->axes.label[k] != label) continue;
            if (o->a->t.dims[i] != o->a->t.dims[k]) {
                char room[40];
                return kl_fail(m->err, KL_ESHAPE, "%s has %d and %d elements in one operand",
                               name_of(label, room), o->a->t.dims[i], o->a->t.dims[k]);
            }
            KL_TRY(replace(o, kl_diagonal(&made, o->a, 0, i, k, m->s, m->err), &made));
            drop_axis(&o->axes, k);
            drop_axis(&o->axes, i);
            o->axes.label[o->axes.n++] = (uint8_t)label; /* the diagonal is the last axis */
            i = -1; /* from the beginning, as axes have moved */
            break;
        }
    return KL_OK;
}

/* Removes axes of one element whose label has more elsewhere: there the operand is a constant. */
static int drop_constants(const struct summation *m, struct operand *o) {
    int one[KL_MAX_NDIM];
    size_t n = 0;
    struct list left = {0};
    struct kl_array *made;
    for (int i = 0; i < o->axes.n; i++)
        if (o->a->t.dims[i] == 1 && m->extent[o->axes.label[i]] != 1)
            one[n++] = i;
        else
            left.label[left.n++] = o->axes.label[i];
    o->axes = left;
    if (n == 0) return KL_OK;
    return replace(o, kl_squeeze_axes(&made, o->a, one, n, m->s, m->err), &made);
}

/* Sums over the labels that are not in `kept`. */
static int reduce_to(const struct summation *m, struct operand *o, struct labels kept) {
    int gone[KL_MAX_NDIM];
    size_t n = 0;
    struct list left = {0};
    struct kl_array *made;
    for (int i = 0; i < o->axes.n; i++)
        if (set_has(&kept, o->axes.label[i]))
            left.label[left.n++] = o->axes.label[i];
        else
            gone[n++] = i;
    o->axes = left;
    if (n == 0) return KL_OK;
    return replace(o, kl_sum_axes(&made, o->a, gone, n, false, m->s, m->err), &made);
}

/* ---- two operands ---- */

/* The axes of a with these labels, one after the other, and then from `first` on one axis of them
 * all: (axes of each label of `lead`, one axis for each of the sets). */
struct order {
    int n, perm[KL_MAX_NDIM];
    struct kl_shape to;
};
static int find_axis(const struct list *l, int label) {
    for (int i = 0; i < l->n; i++)
        if (l->label[i] == label) return i;
    return -1;
}
static void order_add(struct order *r, const struct operand *o, int label) {
    const int axis = find_axis(&o->axes, label);
    r->perm[r->n++] = axis;
    r->to.dims[r->to.ndim++] = o->a->t.dims[axis];
}
/* All labels of a list as one axis of their product. */
static int order_joined(struct order *r, const struct operand *o, const struct list *l,
                        struct kl_error **err) {
    int64_t n = 1;
    for (int i = 0; i < l->n; i++) {
        const int axis = find_axis(&o->axes, l->label[i]);
        r->perm[r->n++] = axis;
        n *= o->a->t.dims[axis];
        if (n > INT32_MAX)
            return kl_fail(err, KL_ELIMIT, "a product of matrices with a side of over %d elements",
                           INT32_MAX);
    }
    r->to.dims[r->to.ndim++] = (int)n;
    return KL_OK;
}
static struct kl_array *ordered(struct kl_terms *t, const struct operand *o,
                                const struct order *r) {
    struct kl_array *x = KL_TERM(t, kl_permute(&t->made, o->a, r->perm, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, x, r->to.ndim, r->to.dims, t->s, t->err));
}

/* The product of a and b, summed over the labels of both that are not in `kept`. Takes both. */
static int contract(const struct summation *m, struct operand *a, struct operand *b,
                    struct labels kept) {
    struct list batch = {0}, left = {0}, right = {0}, sum = {0}, out = {0};
    struct order x = {0}, y = {0};
    struct kl_shape to = {0};
    for (int i = 0; i < a->axes.n; i++) {
        const int label = a->axes.label[i];
        struct list *l = find_axis(&b->axes, label) < 0 ? &left
                         : set_has(&kept, label)        ? &batch
                                                        : &sum;
        l->label[l->n++] = (uint8_t)label;
    }
    for (int i = 0; i < b->axes.n; i++)
        if (find_axis(&a->axes, b->axes.label[i]) < 0) right.label[right.n++] = b->axes.label[i];
    if (batch.n + left.n + right.n > KL_MAX_NDIM - 2)
        return kl_fail(m->err, KL_ESHAPE, "a product of two operands would have %d axes",
                       batch.n + left.n + right.n);
    for (int i = 0; i < batch.n; i++) {
        order_add(&x, a, batch.label[i]);
        order_add(&y, b, batch.label[i]);
        out.label[out.n++] = batch.label[i];
    }
    for (int i = 0; i < left.n; i++) out.label[out.n++] = left.label[i];
    for (int i = 0; i < right.n; i++) out.label[out.n++] = right.label[i];
    for (int i = 0; i < out.n; i++) to.dims[to.ndim++] = m->extent[out.label[i]];
    struct kl_terms t = kl_terms_begin(m->s, m->err);
    struct kl_array *made;
    if (sum.n == 0) { /* element by element; also for integers */
        for (int i = 0; i < left.n; i++) order_add(&x, a, left.label[i]);
        for (int i = 0; i < right.n; i++) x.to.dims[x.to.ndim++] = 1;
        for (int i = 0; i < left.n; i++) y.to.dims[y.to.ndim++] = 1;
        for (int i = 0; i < right.n; i++) order_add(&y, b, right.label[i]);
        made = kl_term2(&t, kl_multiply, ordered(&t, a, &x), ordered(&t, b, &y));
    } else {
        t.rc = order_joined(&x, a, &left, m->err);
        if (!t.rc) t.rc = order_joined(&x, a, &sum, m->err);
        if (!t.rc) t.rc = order_joined(&y, b, &sum, m->err);
        if (!t.rc) t.rc = order_joined(&y, b, &right, m->err);
        struct kl_array *p = ordered(&t, a, &x), *q = ordered(&t, b, &y);
        made = kl_term2(&t, kl_matmul, p, q);
        made = KL_TERM(&t, kl_reshape_to(&t.made, made, to.ndim, to.dims, m->s, m->err));
    }
    struct kl_array *result;
    KL_TRY(kl_terms_end(&t, made, &result));
    kl_array_release(a->a);
    kl_array_release(b->a);
    a->a = result;
    b->a = NULL;
    a->axes = out;
    return KL_OK;
}

/* ---- the order of pairs ---- */

static double elements_of(const struct summation *m, struct labels s) {
    double n = 1;
    for (int w = 0; w < 2; w++)
        for (uint64_t left = s.bits[w]; left; left &= left - 1)
            n *= m->extent[64 * w + __builtin_ctzll(left)];
    return n;
}

/* The labels of the operands in `some` (a set of bits) that the result or other operands need. */
static struct labels kept_by(const struct summation *m, uint64_t some) {
    struct labels inside = {{0}}, outside = set_of(&m->out);
    for (int i = 0; i < m->n_in; i++) {
        if (!m->in[i].a) continue;
        struct labels own = set_of(&m->in[i].axes);
        if (some >> i & 1)
            inside = set_join(inside, own);
        else
            outside = set_join(outside, own);
    }
    return set_meet(inside, outside);
}

/* The best way to compute the product of each set of operands: its cost, and the first of the two
 * sets of which it is made. */
struct choice {
    double cost;
    unsigned part;
};

static int contract_set(struct summation *m, const struct choice *best, unsigned set, int *at) {
    int left, right;
    if ((set & (set - 1)) == 0) {
        *at = __builtin_ctz(set);
        return KL_OK;
    }
    KL_TRY(contract_set(m, best, best[set].part, &left));
    KL_TRY(contract_set(m, best, set & ~best[set].part, &right));
    *at = left;
    return contract(m, &m->in[left], &m->in[right],
                    kept_by(m, UINT64_C(1) << left | UINT64_C(1) << right));
}

static int contract_exactly(struct summation *m, int *at) {
    struct choice best[1 << MOST_EXACT];
    struct labels labels[1 << MOST_EXACT];
    const unsigned all = (1u << m->n_in) - 1;
    for (unsigned set = 1; set <= all; set++) {
        labels[set] = kept_by(m, set);
        best[set] = (struct choice){0, 0};
        if ((set & (set - 1)) == 0) continue;
        best[set].cost = -1;
        for (unsigned part = (set - 1) & set; part; part = (part - 1) & set) {
            const unsigned rest = set & ~part;
            if (part < rest) continue; /* each pair once */
            const double cost = best[part].cost + best[rest].cost +
                                elements_of(m, set_join(labels[part], labels[rest]));
            if (best[set].cost >= 0 && cost >= best[set].cost) continue;
            best[set] = (struct choice){cost, part};
        }
    }
    return contract_set(m, best, all, at);
}

static int contract_greedily(struct summation *m, int *at) {
    for (int left = m->n_in; left > 1; left--) {
        int a = -1, b = -1;
        double least = 0;
        for (int i = 0; i < m->n_in; i++)
            for (int k = i + 1; k < m->n_in; k++) {
                if (!m->in[i].a || !m->in[k].a) continue;
                const double grows =
                    elements_of(m, kept_by(m, UINT64_C(1) << i | UINT64_C(1) << k)) -
                    elements_of(m, set_of(&m->in[i].axes)) - elements_of(m, set_of(&m->in[k].axes));
                if (a >= 0 && grows >= least) continue;
                least = grows;
                a = i;
                b = k;
            }
        KL_TRY(contract(m, &m->in[a], &m->in[b], kept_by(m, UINT64_C(1) << a | UINT64_C(1) << b)));
        *at = a;
    }
    return KL_OK;
}

/* ---- all of it ---- */

static int compute(struct summation *m, struct kl_array **out) {
    int at = 0, perm[KL_MAX_NDIM];
    for (int i = 0; i < m->n_in; i++) KL_TRY(take_diagonals(m, &m->in[i]));
    for (int i = 0; i < m->n_in; i++) KL_TRY(drop_constants(m, &m->in[i]));
    for (int i = 0; i < m->n_in; i++) KL_TRY(reduce_to(m, &m->in[i], kept_by(m, UINT64_C(1) << i)));
    if (m->n_in > MOST_EXACT)
        KL_TRY(contract_greedily(m, &at));
    else if (m->n_in > 1)
        KL_TRY(contract_exactly(m, &at));
    struct operand *last = &m->in[at];
    for (int i = 0; i < m->out.n; i++) perm[i] = find_axis(&last->axes, m->out.label[i]);
    return kl_permute(out, last->a, perm, m->err);
}

int kl_einsum(struct kl_array **out, const char *subscripts, struct kl_array *const *operands,
              size_t n, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(EINSUM, subscripts, operands, n);
    if (!subscripts) return kl_fail(err, KL_EARG, "the subscripts are NULL");
    KL_TRY(kl_check_arrays(operands, n, "the operands", err));
    KL_TRY(kl_check_stream(s, err));
    if (n == 0 || n > MOST_OPERANDS)
        return kl_fail(err, n ? KL_ELIMIT : KL_EARG, "%zu operands; 1 to %d are taken", n,
                       MOST_OPERANDS);
    struct summation *m = kl_calloc(1, sizeof *m);
    if (!m) return kl_fail_nomem(err);
    m->n_in = (int)n;
    m->s = s;
    m->err = err;
    int rc = KL_OK;
    for (size_t i = 0; i < n; i++) {
        m->in[i].a = kl_array_retain(operands[i]);
        if (!rc && operands[i]->t.ndim > KL_MAX_NDIM)
            rc = kl_fail(err, KL_ESHAPE, "operand %zu has %d axes; at most %d are possible", i,
                         operands[i]->t.ndim, KL_MAX_NDIM);
    }
    if (!rc) rc = read_subscripts(m, subscripts);
    if (!rc) rc = compute(m, out);
    for (size_t i = 0; i < n; i++)
        if (m->in[i].a) kl_array_release(m->in[i].a);
    kl_free(m);
    return rc;
}
