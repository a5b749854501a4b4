/* product.c - matrix products: 1-d operands and batches that broadcast are handled here. */
#include <string.h>

#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vjp.h"
#include "ops/build/vmap.h"
#include "ops/ops.h"

/* The shapes of both operands, as batches of matrices, and of the product. */
struct product {
    struct kl_shape a, b, out;
    /* whether the row or the column axis of the product is dropped, because an operand is 1-d */
    bool drop_row, drop_col;
};

static int product_shapes(struct product *p, const struct kl_array *a, const struct kl_array *b,
                          struct kl_error **err) {
    if (a->t.ndim == 0 || b->t.ndim == 0)
        return kl_fail(err, KL_ESHAPE, "operands of shapes %s and %s; each needs at least one axis",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b));
    p->a = kl_shape_of(a);
    p->b = kl_shape_of(b);
    p->drop_row = a->t.ndim == 1;
    p->drop_col = b->t.ndim == 1;
    if (p->drop_row) {
        p->a.dims[1] = p->a.dims[0];
        p->a.dims[0] = 1;
        p->a.ndim = 2;
    }
    if (p->drop_col) {
        p->b.dims[1] = 1;
        p->b.ndim = 2;
    }
    int na = p->a.ndim, nb = p->b.ndim, n = na > nb ? na : nb;
    int m = p->a.dims[na - 2], k = p->a.dims[na - 1], k_b = p->b.dims[nb - 2],
        cols = p->b.dims[nb - 1];
    if (k != k_b)
        return kl_fail(err, KL_ESHAPE,
                       "shapes %s and %s: the last axis of the first has size %d, the axis of the "
                       "second that meets it %d",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b), k, k_b);
    p->out.ndim = n;
    for (int i = 0; i < n - 2; i++) {
        int da = i - (n - na) >= 0 ? p->a.dims[i - (n - na)] : 1,
            db = i - (n - nb) >= 0 ? p->b.dims[i - (n - nb)] : 1;
        if (da != db && da != 1 && db != 1)
            return kl_fail(err, KL_ESHAPE, "the leading axes of shapes %s and %s do not broadcast",
                           KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b));
        p->out.dims[i] = da == 1 ? db : da;
    }
    p->out.dims[n - 2] = m;
    p->out.dims[n - 1] = cols;
    return KL_OK;
}

/* An operand as dtype, with at least two axes and the leading axes of the product. */
static int operand(struct kl_array **out, struct kl_array *a, const struct kl_shape *matrix,
                   const struct kl_shape *product, enum kl_dtype dtype, struct kl_stream *s,
                   struct kl_error **err) {
    struct kl_array *typed, *shaped;
    struct kl_shape to = *product;
    memcpy(to.dims + to.ndim - 2, matrix->dims + matrix->ndim - 2, 2 * sizeof(int));
    KL_TRY(kl_cast_to(&typed, a, dtype, s, err));
    int rc = kl_reshape_to(&shaped, typed, matrix->ndim, matrix->dims, s, err);
    kl_array_release(typed);
    if (rc) return rc;
    rc = kl_broadcast_view(out, shaped, to.ndim, to.dims, err);
    kl_array_release(shaped);
    return rc;
}

/* The operation, for operands with the same leading axes. */
static int product_of(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_array *in[] = {a, b};
    struct kl_shape to = kl_shape_of(a);
    to.dims[to.ndim - 1] = b->t.dims[to.ndim - 1];
    return kl_array_op1(
        out, &(struct kl_operation){.op = KL_OP_MATMUL, .stream = s, .in = in, .n_in = 2},
        (enum kl_dtype)a->t.dtype, to.ndim, to.dims, err);
}

/* ---- long sums ----
 * A sum of k products, one after the other, is off by k units of its last place where all have one
 * sign. From LONG on, blocks of products are summed so, and the blocks by the reduction, which adds
 * pairs. Their sums take less memory than the operands, and the tasks of a batch are even. */
enum {
    BLOCK = 1024,
    LONG = 1 << 15,
    LONG_16 = 1 << 18 /* 16-bit floats, which are summed in float32, show the error from here on */
};

static bool is_long(int64_t k, enum kl_dtype dtype, int ndim) {
    return dtype != KL_F64 && ndim < KL_MAX_NDIM &&
           k > (kl_dtype_size(dtype) == 2 ? LONG_16 : LONG);
}

/* `count` indices from `from` on of one of the last two axes. */
static struct kl_array *part_of(struct kl_terms *t, struct kl_array *a, int axis, int from,
                                int count) {
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    if (t->rc) return NULL;
    struct kl_shape shape = kl_shape_of(a);
    for (int i = 0; i < shape.ndim; i++) step[i] = 1;
    start[axis] = from;
    shape.dims[axis] = count;
    return KL_TERM(t, kl_slice_to(&t->made, a, start, step, shape.dims, t->err));
}

/* The blocks of k along `axis`, one of the last two, as one more axis before these two. */
static struct kl_array *blocks_of(struct kl_terms *t, struct kl_array *a, int axis, int blocks) {
    if (t->rc) return NULL;
    struct kl_shape apart = kl_shape_of(a);
    const int n = apart.ndim++;
    for (int i = n; i > axis; i--) apart.dims[i] = apart.dims[i - 1];
    apart.dims[axis] = blocks;
    apart.dims[axis + 1] = BLOCK;
    a = part_of(t, a, axis, 0, blocks * BLOCK);
    a = KL_TERM(t, kl_reshape_to(&t->made, a, apart.ndim, apart.dims, t->s, t->err));
    return axis == n - 2 ? a : KL_TERM(t, kl_swapaxes(&t->made, a, n - 1, n - 2, t->s, t->err));
}

static int long_product(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                        struct kl_stream *s, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    const int n = a->t.ndim, k = a->t.dims[n - 1], blocks = k / BLOCK, whole = blocks * BLOCK;
    const enum kl_dtype dtype = (enum kl_dtype)a->t.dtype;
    if (kl_dtype_size(dtype) == 2) {
        a = kl_term_cast(&t, a, KL_F32);
        b = kl_term_cast(&t, b, KL_F32);
    }
    if (a && b && a->t.dims[n - 2] == 1 && b->t.dims[n - 1] == 1) { /* a plain sum of products */
        struct kl_array *row = KL_TERM(&t, kl_swapaxes(&t.made, b, n - 1, n - 2, s, err));
        const int last = n - 1;
        row = kl_term_reduce(&t, kl_sum_axes, kl_term2(&t, kl_multiply, a, row), &last, 1);
        return kl_terms_end(&t, kl_term_cast(&t, row, dtype), out);
    }
    struct kl_array *x = blocks_of(&t, a, n - 1, blocks), *y = blocks_of(&t, b, n - 2, blocks);
    struct kl_array *sum = KL_TERM(&t, product_of(&t.made, x, y, s, err));
    sum = KL_TERM(&t, kl_sum_axis(&t.made, sum, n - 2, false, s, err));
    if (whole < k) {
        x = part_of(&t, a, n - 1, whole, k - whole);
        y = part_of(&t, b, n - 2, whole, k - whole);
        sum = kl_term2(&t, kl_add, sum, KL_TERM(&t, product_of(&t.made, x, y, s, err)));
    }
    return kl_terms_end(&t, kl_term_cast(&t, sum, dtype), out);
}

int kl_matmul(struct kl_array **out, struct kl_array *a, struct kl_array *b, struct kl_stream *s,
              struct kl_error **err) {
    KL_DEFER(MATMUL, a, b);
    struct product p;
    struct kl_array *in[2], *c;
    int axes[2], n = 0;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_stream(s, err));
    enum kl_dtype dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    if (!kl_dtype_is_float(dtype) && dtype != KL_C64)
        return kl_fail(err, KL_EDTYPE, "operands of %s and %s; one must be floating or complex",
                       kl_dtype_name(a->t.dtype), kl_dtype_name(b->t.dtype));
    KL_TRY(product_shapes(&p, a, b, err));
    KL_TRY(operand(&in[0], a, &p.a, &p.out, dtype, s, err));
    int rc = operand(&in[1], b, &p.b, &p.out, dtype, s, err);
    if (!rc) {
        bool is_long_sum = is_long(in[0]->t.dims[p.out.ndim - 1], dtype, p.out.ndim);
        rc = (is_long_sum ? long_product : product_of)(&c, in[0], in[1], s, err);
        kl_array_release(in[1]);
    }
    kl_array_release(in[0]);
    if (rc) return rc;
    if (p.drop_row) axes[n++] = p.out.ndim - 2;
    if (p.drop_col) axes[n++] = p.out.ndim - 1;
    rc = kl_squeeze_axes(out, c, axes, (size_t)n, s, err);
    kl_array_release(c);
    return rc;
}

/* ---- gradient ---- */
/* The conjugate transpose of the last two axes. */
static int adjoint(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(s, err);
    struct kl_array *x = a;
    if (a->t.dtype == KL_C64) x = KL_TERM(&t, kl_conjugate(&t.made, x, s, err));
    x = KL_TERM(&t, kl_swapaxes(&t.made, x, -1, -2, s, err));
    return kl_terms_end(&t, x, out);
}

/* Whether the last two axes of a are stored column by column, as those of a transposed matrix. */
static bool by_columns(const struct kl_array *a) {
    const int n = a->t.ndim;
    return n >= 2 && a->t.dims[n - 2] > 1 && a->t.strides[n - 2] == 1 && a->t.strides[n - 1] != 1;
}

/* a times b, the gradient of `of`, stored in the order of `of`. An optimizer then reads both along
 * memory; gradients of transposed weights would be read across it. */
static struct kl_array *product_like(struct kl_terms *t, struct kl_array *a, struct kl_array *b,
                                     const struct kl_array *of) {
    if (!by_columns(of)) return KL_TERM(t, kl_matmul(&t->made, a, b, t->s, t->err));
    struct kl_array *left = KL_TERM(t, kl_swapaxes(&t->made, b, -1, -2, t->s, t->err));
    struct kl_array *right = KL_TERM(t, kl_swapaxes(&t->made, a, -1, -2, t->s, t->err));
    struct kl_array *made = KL_TERM(t, kl_matmul(&t->made, left, right, t->s, t->err));
    return KL_TERM(t, kl_swapaxes(&t->made, made, -1, -2, t->s, t->err));
}

bool kl_vjp_sums_batches(struct kl_array *const *in, const struct kl_array *one) {
    const struct kl_tensor *rows = &in[0]->t, *all = &in[1]->t;
    const int length = rows->dims[rows->ndim - 1];
    return all->ndim > 2 && one->t.ndim == 2 &&
           memcmp(one->t.dims, all->dims + all->ndim - 2, 2 * sizeof(int)) == 0 &&
           rows->size / (length ? length : 1) <= INT32_MAX; /* all rows become one axis */
}

int kl_vjp_matmul(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    for (int k = 0; k < 2; k++) {
        if (!v->wanted[k]) continue;
        struct kl_array *other = v->in[1 - k], *g = v->cotangent[0];
        /* The second input may be one matrix for all batches of the first, which the product
         * itself repeats for each batch: then all rows of all batches are summed in one product. */
        if (k == 1 && v->in[1]->t.ndim < v->in[0]->t.ndim) {
            other = KL_TERM(&t, kl_flatten(&t.made, other, 0, -2, v->s, err));
            g = KL_TERM(&t, kl_flatten(&t.made, g, 0, -2, v->s, err));
        }
        other = KL_TERM(&t, adjoint(&t.made, other, v->s, err));
        grad[k] = kl_terms_keep(&t, product_like(&t, k ? other : g, k ? g : other, v->in[k]));
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* ---- made again ---- */
int kl_rebuild_matmul(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    return kl_matmul(out, b->in[0], b->in[1], b->s, err);
}

/* ---- batches ---- */
/* Lanes of rows times one matrix are one product with more rows, when the lanes follow each other
 * in memory. */
static int more_rows(const struct kl_vmap *v, struct kl_array **out, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    const int *dims = v->in[0]->t.dims, flat[2] = {dims[0] * dims[1], dims[2]};
    const int apart[3] = {dims[0], dims[1], v->in[1]->t.dims[1]};
    struct kl_array *a = KL_TERM(&t, kl_reshape_to(&t.made, v->in[0], 2, flat, v->s, err));
    struct kl_array *c = KL_TERM(&t, kl_matmul(&t.made, a, v->in[1], v->s, err));
    c = KL_TERM(&t, kl_reshape_to(&t.made, c, 3, apart, v->s, err));
    return kl_terms_end(&t, c, out);
}

/* Both operands of one lane have as many axes, so the lane axis is one more axis of the batch. */
int kl_vmap_matmul(const struct kl_vmap *v, struct kl_array **out, int *axis,
                   struct kl_error **err) {
    struct kl_array *a = v->in[0], *in[2];
    *axis = 0;
    if (v->mapped[0] && !v->mapped[1] && a->t.ndim == 3 && (a->t.layout & KL_ROW_CONTIGUOUS) &&
        (int64_t)a->t.dims[0] * a->t.dims[1] <= INT32_MAX)
        return more_rows(v, out, err);
    KL_TRY(kl_vmap_inputs(v, in, err));
    int rc = kl_matmul(out, in[0], in[1], v->s, err);
    kl_release_all(in, 2);
    return rc;
}
