/* turned.c - see turned.h. */
#include "ops/build/turned.h"

#include "ops/build/meet.h"
#include "ops/build/views.h"

enum { LEAST_KEPT = 512 /* elements from which on a result keeps an order */ };

static bool is_spread(const struct kl_tensor *t) {
    for (int i = 0; i < t->ndim; i++)
        if (t->strides[i] == 0 && t->dims[i] > 1) return true;
    return false;
}

static bool same_places(const struct kl_tensor *a, const struct kl_tensor *b) {
    for (int i = 0; i < a->ndim; i++)
        if (a->dims[i] > 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

/* The distance between elements along an axis; axes of size 1 come first. */
static int64_t distance(const struct kl_tensor *t, int axis) {
    return t->dims[axis] > 1 ? t->strides[axis] : INT64_MAX;
}

/* Whether the axes of t in the order of `perm`, the largest distance first, make rows. */
static bool order_of(const struct kl_tensor *t, int *perm) {
    int64_t places = 1;
    for (int i = 0; i < t->ndim; i++) {
        int at = i;
        for (; at > 0 && distance(t, perm[at - 1]) < distance(t, i); at--) perm[at] = perm[at - 1];
        perm[at] = i;
    }
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->dims[perm[i]] > 1 && t->strides[perm[i]] != places) return false;
        places *= t->dims[perm[i]];
    }
    return true;
}

/* Whether the elements of the last axis, of those with several, lie apart. */
static bool is_turned(const struct kl_tensor *t) {
    int last = t->ndim - 1;
    while (last > 0 && t->dims[last] == 1) last--;
    return last >= 0 && t->strides[last] > 1;
}

/* Whether the operands are turned, all in the same way: *perm, of their axes. Operands that are
 * broadcast do not count. */
static bool are_turned(struct kl_array *const *in, int n, int *perm) {
    const struct kl_tensor *lead = NULL;
    for (int i = 0; i < n; i++) {
        const struct kl_tensor *t = &in[i]->t;
        if (t->size < LEAST_KEPT || in[i]->shapeless) return false;
        if (!kl_shape_is(in[i], in[0]->t.ndim, in[0]->t.dims)) return false;
        if (is_spread(t)) continue;
        if (t->layout & KL_ROW_CONTIGUOUS || !(t->layout & KL_DENSE) || !is_turned(t)) return false;
        if (lead && !same_places(lead, t)) return false;
        lead = t;
    }
    return lead && order_of(lead, perm);
}

/* Whether base is `a` with its axes in that order. */
static bool has_axes(const struct kl_array *base, const struct kl_array *a, const int *perm) {
    for (int i = 0; i < a->t.ndim; i++)
        if (base->t.dims[i] != a->t.dims[perm[i]] ||
            (base->t.dims[i] > 1 && base->t.strides[i] != a->t.strides[perm[i]]))
            return false;
    return true;
}

/* a with its axes in that order; where a is a result of map_turned the array that was made there,
 * so that a chain of operations is one of arrays that are no views, and can become one kernel. */
static int moved_axes(struct kl_array **out, struct kl_array *a, const int *perm,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_array *base = kl_array_turned_map(a, s);
    if (base && has_axes(base, a, perm)) {
        *out = base;
        return KL_OK;
    }
    kl_array_release(base);
    return kl_permute(out, a, perm, err);
}

/* An element-wise result lies in memory as its operands do, as in MLX and NumPy: their axes are
 * brought in the order of memory, and those of the result back. So no memory is read across. */
static int map_turned(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype,
                      const int *perm, struct kl_error **err) {
    struct kl_array *moved[KL_MAX_OPERANDS], *made = NULL;
    int back[KL_MAX_NDIM], n = 0, rc = KL_OK;
    for (; n < o->n_in && !rc; n++) rc = moved_axes(&moved[n], o->in[n], perm, o->stream, err);
    if (rc) n--;
    struct kl_operation there = *o;
    there.in = moved;
    if (!rc) rc = kl_array_op1(&made, &there, dtype, moved[0]->t.ndim, moved[0]->t.dims, err);
    kl_release_all(moved, (size_t)n);
    if (rc) return rc;
    for (int i = 0; i < made->t.ndim; i++) back[perm[i]] = i;
    rc = kl_permute(out, made, back, err);
    kl_array_release(made);
    return rc;
}

/* ---- in rows again ---- */

enum { MOST_AGAIN = 8 /* operations of a chain that are built a second time */ };

/* `a`, whose axes are in the order of memory, with its axes in the order of `back`: where it is
 * still to be computed another result of the same operations, which are built again. */
static int in_rows(struct kl_array **out, struct kl_array *a, const int *back, struct kl_stream *s,
                   int *budget, struct kl_error **err) {
    struct kl_map_parts p = {.n_in = 0};
    if (*budget == 0 || !kl_array_map_parts(a, s, &p)) return kl_permute(out, a, back, err);
    struct kl_array *moved[KL_MAX_OPERANDS];
    int n = 0, rc = KL_OK;
    --*budget;
    for (; n < p.n_in && !rc; n++) rc = in_rows(&moved[n], p.in[n], back, s, budget, err);
    if (rc) n--;
    const struct kl_operation o = {.op = p.op, .stream = s, .in = moved, .n_in = p.n_in};
    if (!rc)
        rc = kl_array_op1(out, &o, (enum kl_dtype)a->t.dtype, moved[0]->t.ndim, moved[0]->t.dims,
                          err);
    kl_release_all(moved, (size_t)n);
    kl_release_all(p.in, (size_t)p.n_in);
    return rc;
}

static bool may_be_again(const struct kl_array *a) {
    return a->t.size >= LEAST_KEPT && !(a->t.layout & KL_ROW_CONTIGUOUS) && is_turned(&a->t);
}

/* A result that is turned and still to be computed, in rows, so that memory is read across once and
 * not twice. *out is NULL where a is no such thing. */
static int again_in_rows(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                         struct kl_error **err) {
    int perm[KL_MAX_NDIM], back[KL_MAX_NDIM], budget = MOST_AGAIN, rc = KL_OK;
    struct kl_array *base = may_be_again(a) ? kl_array_turned_map(a, s) : NULL;
    *out = NULL;
    if (base && order_of(&a->t, perm) && has_axes(base, a, perm)) {
        for (int i = 0; i < a->t.ndim; i++) back[perm[i]] = i;
        rc = in_rows(out, base, back, s, &budget, err);
    }
    kl_array_release(base);
    return rc;
}

/* The operands are not all turned in the same way, so the result is in rows: operands that are
 * still to be computed are so, too, and are one kernel with it. */
static int map_in_rows(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype,
                       bool *done, struct kl_error **err) {
    struct kl_array *rows[KL_MAX_OPERANDS];
    int n = 0, rc = KL_OK;
    bool any = false;
    for (int i = 0; i < o->n_in; i++) any = any || may_be_again(o->in[i]);
    if (!any) return KL_OK;
    for (; n < o->n_in && !rc; n++) {
        rc = again_in_rows(&rows[n], o->in[n], o->stream, err);
        *done = *done || (!rc && rows[n]);
        if (!rc && !rows[n]) rows[n] = kl_array_retain(o->in[n]);
    }
    if (rc) n--;
    struct kl_operation there = *o;
    there.in = rows;
    if (!rc && *done) rc = kl_array_op1(out, &there, dtype, rows[0]->t.ndim, rows[0]->t.dims, err);
    kl_release_all(rows, (size_t)n);
    return rc;
}

int kl_map_turned(struct kl_array **out, const struct kl_operation *o, enum kl_dtype dtype,
                  bool *done, struct kl_error **err) {
    int perm[KL_MAX_NDIM];
    *done = false;
    if (kl_stream_device_type(o->stream) != KL_CPU) return KL_OK;
    if (o->op == KL_OP_COPY) {
        struct kl_array *rows;
        KL_TRY(again_in_rows(&rows, o->in[0], o->stream, err));
        *done = rows != NULL;
        if (rows) *out = rows;
        return KL_OK;
    }
    if (!are_turned(o->in, o->n_in, perm)) return map_in_rows(out, o, dtype, done, err);
    *done = true;
    return map_turned(out, o, dtype, perm, err);
}
