/* convolution_products.c - the gradient of a convolution's weight as products of matrices, one for
 * each row of the kernel: of the cotangent, transposed, with the elements that the row sees at each
 * position. Without strides and dilations these are views of the padded input; else copies. */
#include "base/op/op_params.h"
#include "ops/build/build.h"
#include "ops/build/views.h"
#include "ops/convolution_parts.h"

typedef struct kl_convolution_params params;

enum {
    /* The gradient of a weight of at most MOST_TAPS taps is computed so with more positions than
     * MANY, and with more than FEWER where both operands have WIDE channels or more, or the
     * cotangent has and a kernel of at most FEW_ROWS, for each of which it is packed, needs no
     * copies. */
    MANY_POSITIONS = 1 << 15,
    FEWER_POSITIONS = 64,
    WIDE = 32,
    FEW_ROWS = 3,
    MOST_TAPS = 64
};

/* Whether a tap's elements are those of the first tap, moved along the padded input, if the
 * cotangent gets zeros where that has padding. */
static bool is_plain(const params *p) {
    for (int i = 0; i < p->ndim; i++)
        if (p->stride[i] != 1 || p->dilation[i] != 1) return false;
    return !p->flip;
}

bool kl_by_products(const struct kl_vjp *v, const params *p) {
    const struct kl_array *w = v->in[1], *g = v->cotangent[0];
    const int n = p->ndim, o = g->t.dims[n + 1];
    int64_t taps = 1;
    for (int i = 0; i < n; i++) {
        taps *= w->t.dims[1 + i];
        if (p->input_dilation[i] != 1 || p->low[i] < 0) return false;
    }
    const bool few = is_plain(p) && taps <= FEW_ROWS * (int64_t)w->t.dims[n],
               wide = o >= WIDE && (w->t.dims[n + 1] >= WIDE || few);
    return p->groups == 1 && taps <= MOST_TAPS &&
           g->t.size / o > (wide ? FEWER_POSITIONS : MANY_POSITIONS) && g->t.size / o <= INT32_MAX;
}

/* Whether the elements that taps see are views of the padded input x. A fifth more positions take
 * as long as copies. */
static bool by_shifts(const struct kl_vjp *v, const params *p, const struct kl_array *x) {
    const struct kl_array *g = v->cotangent[0];
    const int64_t positions = g->t.size / g->t.dims[p->ndim + 1],
                  padded = x->t.size / x->t.dims[p->ndim + 1];
    return is_plain(p) && padded <= positions * 6 / 5 && padded <= INT32_MAX;
}

/* The cotangent with zeros where x has padding, and its positions up to the last one of its own:
 * (positions, o). */
static struct kl_array *spread_cotangent(struct kl_terms *t, const struct kl_vjp *v,
                                         const params *p, const struct kl_array *x) {
    int axes[KL_MAX_SPATIAL], low[KL_MAX_SPATIAL] = {0}, high[KL_MAX_SPATIAL];
    const struct kl_array *g = v->cotangent[0];
    const size_t n = (size_t)p->ndim;
    const int o = g->t.dims[n + 1];
    int64_t unused = 0;
    for (int i = 0; i < p->ndim; i++) {
        axes[i] = 1 + i;
        high[i] = x->t.dims[1 + i] - g->t.dims[1 + i];
        unused = unused * x->t.dims[1 + i] + high[i];
    }
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)g->t.dtype);
    struct kl_array *all = KL_TERM(t, kl_pad(&t->made, v->cotangent[0], axes, n, low, n, high, n,
                                             zero, "constant", t->s, t->err));
    if (t->rc) return NULL;
    const int shape[2] = {(int)(all->t.size / o - unused), o};
    return KL_TERM(
        t, kl_as_strided(&t->made, all, shape, 2, (const int64_t[]){o, 1}, 2, 0, t->s, t->err));
}

/* The same as columns_of_row where by_shifts: a view, in which rows overlap. */
static struct kl_array *shifted_row(struct kl_terms *t, const struct kl_vjp *v, const params *p,
                                    struct kl_array *x, const int *start, int positions) {
    const int c = v->in[1]->t.dims[p->ndim + 1];
    const int shape[2] = {positions, v->in[1]->t.dims[p->ndim] * c};
    int64_t first = 0;
    for (int i = 0; i < p->ndim; i++)
        first = first * x->t.dims[1 + i] + (i < p->ndim - 1 ? start[1 + i] : 0);
    return KL_TERM(t, kl_as_strided(&t->made, x, shape, 2, (const int64_t[]){c, 1}, 2,
                                    (size_t)(first * c), t->s, t->err));
}

/* x with the padding that the positions of g see. */
static struct kl_array *padded(struct kl_terms *t, const struct kl_vjp *v, const params *p) {
    int axes[KL_MAX_SPATIAL], low[KL_MAX_SPATIAL], high[KL_MAX_SPATIAL];
    const struct kl_array *x = v->in[0], *w = v->in[1], *g = v->cotangent[0];
    const size_t n = (size_t)p->ndim;
    for (int i = 0; i < p->ndim; i++) {
        const int64_t seen = (g->t.dims[1 + i] - 1) * (int64_t)p->stride[i] +
                             (w->t.dims[1 + i] - 1) * (int64_t)p->dilation[i] + 1,
                      more = seen - p->low[i] - x->t.dims[1 + i];
        axes[i] = 1 + i;
        low[i] = p->low[i];
        if (!t->rc) t->rc = kl_as_padding(&high[i], more > 0 ? more : 0, t->err);
    }
    struct kl_array *zero = kl_term_number(t, 0, (enum kl_dtype)x->t.dtype);
    return KL_TERM(
        t, kl_pad(&t->made, v->in[0], axes, n, low, n, high, n, zero, "constant", t->s, t->err));
}

/* The elements of x that the taps of a row of the kernel see, side by side: (positions, taps * c).
 * start says where the first tap begins. */
static struct kl_array *columns_of_row(struct kl_terms *t, const struct kl_vjp *v, const params *p,
                                       struct kl_array *x, int *start) {
    const int n = p->ndim, taps = v->in[1]->t.dims[n];
    struct kl_array *seen[MOST_TAPS], *all = NULL;
    int step[KL_MAX_SPATIAL + 2];
    struct kl_shape part = kl_shape_of(v->cotangent[0]);
    part.dims[n + 1] = v->in[1]->t.dims[n + 1];
    step[0] = step[n + 1] = 1;
    for (int i = 0; i < n; i++) step[1 + i] = p->stride[i];
    for (int tap = 0; tap < taps; tap++) {
        start[n] = tap * p->dilation[n - 1];
        seen[p->flip ? taps - 1 - tap : tap] =
            KL_TERM(t, kl_slice_to(&t->made, x, start, step, part.dims, t->err));
    }
    all = KL_TERM(t, kl_concatenate_axis(&t->made, seen, (size_t)taps, -1, t->s, t->err));
    return KL_TERM(t, kl_flatten(&t->made, all, 0, -2, t->s, t->err));
}

struct kl_array *kl_weight_gradient_by_products(struct kl_terms *t, const struct kl_vjp *v,
                                                const params *p) {
    const struct kl_array *w = v->in[1];
    const int n = p->ndim;
    struct kl_array *x = padded(t, v, p), *part[MOST_TAPS];
    if (t->rc) return NULL;
    const bool shifts = by_shifts(v, p, x);
    struct kl_array *g =
        shifts ? spread_cotangent(t, v, p, x)
               : KL_TERM(t, kl_flatten(&t->made, v->cotangent[0], 0, -2, t->s, t->err));
    g = KL_TERM(t, kl_swapaxes(&t->made, g, 0, 1, t->s, t->err));
    int rows = 1, start[KL_MAX_SPATIAL + 2] = {0};
    if (t->rc) return NULL;
    for (int i = 0; i < n - 1; i++) rows *= w->t.dims[1 + i];
    for (int row = 0; row < rows; row++) {
        for (int i = n - 2, left = row; i >= 0; left /= w->t.dims[1 + i--])
            start[1 + i] = left % w->t.dims[1 + i] * p->dilation[i];
        struct kl_array *columns = shifts ? shifted_row(t, v, p, x, start, g->t.dims[1])
                                          : columns_of_row(t, v, p, x, start);
        part[p->flip ? rows - 1 - row : row] =
            KL_TERM(t, kl_matmul(&t->made, g, columns, t->s, t->err));
    }
    struct kl_array *all = KL_TERM(t, kl_stack_axis(&t->made, part, (size_t)rows, 1, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, all, w->t.ndim, w->t.dims, t->s, t->err));
}
