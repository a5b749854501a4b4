/* product_gather.c - products of matrices that indices choose (gather_mm), of parts of two matrices
 * (segmented_mm), and of matrices whose blocks are masked (block_masked_mm). Indices are checked by
 * an operation of their own (kl_term_checked), so the products get good ones, or none. */
#include "ops/build/build.h"
#include "ops/build/deferred.h"
#include "ops/build/jvp.h"
#include "ops/build/meet.h"
#include "ops/build/terms.h"
#include "ops/build/views.h"
#include "ops/build/vmap.h"
#include "ops/index_parts.h"

static int float_type(enum kl_dtype *dtype, struct kl_array *a, struct kl_array *b,
                      struct kl_error **err) {
    *dtype = kl_dtype_promote(a->t.dtype, b->t.dtype);
    if (kl_dtype_is_float(*dtype)) return KL_OK;
    return kl_fail(err, KL_EDTYPE, "operands of %s and %s; their common dtype must be floating",
                   kl_dtype_name(a->t.dtype), kl_dtype_name(b->t.dtype));
}

/* ---- gather_mm ---- */

/* The operation itself, of operands (s, m, k), (t, k, n) and two lists of good indices. */
static struct kl_array *gathered(struct kl_terms *t, struct kl_array *a, struct kl_array *b,
                                 struct kl_array *left, struct kl_array *right) {
    if (t->rc) return NULL;
    const int dims[] = {left->t.dims[0], a->t.dims[1], b->t.dims[2]};
    struct kl_array *in[] = {a, b, left, right};
    return KL_TERM(t, kl_array_op1(&t->made,
                                   &(struct kl_operation){
                                       .op = KL_OP_GATHER_MM, .stream = t->s, .in = in, .n_in = 4},
                                   (enum kl_dtype)a->t.dtype, 3, dims, t->err));
}

/* An operand as (number of matrices, rows, columns), in dtype. */
static struct kl_array *matrices(struct kl_terms *t, struct kl_array *a, enum kl_dtype dtype) {
    int64_t n = 1;
    struct kl_array *x = kl_term_cast(t, a, dtype);
    if (t->rc) return NULL;
    for (int i = 0; i < a->t.ndim - 2; i++) n *= a->t.dims[i];
    if (n > INT32_MAX) {
        t->rc = kl_fail(t->err, KL_ELIMIT, "%lld matrices in shape %s; at most %d are possible",
                        (long long)n, KL_SHAPE_TEXT_OF(a), INT32_MAX);
        return NULL;
    }
    const int dims[] = {(int)n, a->t.dims[a->t.ndim - 2], a->t.dims[a->t.ndim - 1]};
    return KL_TERM(t, kl_reshape_to(&t->made, x, 3, dims, t->s, t->err));
}

/* The indices of an operand of n matrices: those that are given, or all, in the shape of its
 * leading axes. */
static struct kl_array *indices_of(struct kl_terms *t, struct kl_array *given, struct kl_array *a,
                                   int n) {
    if (t->rc || given) return given;
    struct kl_array *all = KL_TERM(t, kl_arange(&t->made, 0, n, 1, KL_I32, t->s, t->err));
    return KL_TERM(t, kl_reshape_to(&t->made, all, a->t.ndim - 2, a->t.dims, t->s, t->err));
}

/* An operand with an axis of size 1 where it has one axis only. */
static struct kl_array *with_axis(struct kl_terms *t, struct kl_array *a, int axis) {
    if (a->t.ndim != 1) return a;
    return KL_TERM(t, kl_expand_dims(&t->made, a, axis, t->s, t->err));
}

static int check_product(struct kl_array *a, struct kl_array *b, struct kl_error **err) {
    if (a->t.ndim == 0 || b->t.ndim == 0)
        return kl_fail(err, KL_ESHAPE, "operands of shapes %s and %s; each needs at least one axis",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b));
    const int k = a->t.dims[a->t.ndim - 1], other = b->t.dims[b->t.ndim == 1 ? 0 : b->t.ndim - 2];
    if (k == other) return KL_OK;
    return kl_fail(err, KL_ESHAPE,
                   "shapes %s and %s: the last axis of the first has size %d, the axis of the "
                   "second that meets it %d",
                   KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b), k, other);
}

int kl_gather_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                 struct kl_array *left, struct kl_array *right, struct kl_stream *s,
                 struct kl_error **err) {
    KL_DEFER(GATHER_MM, a, b, left, right);
    struct kl_terms t = kl_terms_begin(s, err);
    enum kl_dtype dtype;
    struct kl_shape shape;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(float_type(&dtype, a, b, err));
    KL_TRY(check_product(a, b, err));
    if (left) KL_TRY(kl_check_index_dtype(left, err));
    if (right) KL_TRY(kl_check_index_dtype(right, err));
    const bool drop_row = a->t.ndim == 1, drop_col = b->t.ndim == 1;
    a = with_axis(&t, a, 0);
    b = t.rc ? NULL : with_axis(&t, b, 1);
    struct kl_array *x = t.rc ? NULL : matrices(&t, a, dtype),
                    *y = t.rc ? NULL : matrices(&t, b, dtype);
    struct kl_array *in[] = {indices_of(&t, left, a, x ? x->t.dims[0] : 0),
                             indices_of(&t, right, b, y ? y->t.dims[0] : 0)};
    if (!t.rc) t.rc = kl_broadcast_shape(&shape, in, 2, err);
    if (!t.rc && shape.ndim + 2 > KL_MAX_NDIM)
        t.rc = kl_fail(err, KL_ESHAPE, "the result would have %d axes; at most %d are possible",
                       shape.ndim + 2, KL_MAX_NDIM);
    struct kl_array *valid[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        struct kl_array *all = in[i];
        if ((i ? right : left) != NULL && !t.rc)
            all = kl_term_checked(&t, all, (i ? y : x)->t.dims[0], KL_I32, KL_ALIAS_GATHER_MM,
                                  &valid[i]);
        all = KL_TERM(&t, kl_broadcast_view(&t.made, all, shape.ndim, shape.dims, err));
        in[i] = KL_TERM(&t, kl_flatten_all(&t.made, all, s, err));
    }
    struct kl_array *c = gathered(&t, x, y, in[0], in[1]);
    if (!t.rc && !drop_row) shape.dims[shape.ndim++] = x->t.dims[1];
    if (!t.rc && !drop_col) shape.dims[shape.ndim++] = y->t.dims[2];
    c = KL_TERM(&t, kl_reshape_to(&t.made, c, shape.ndim, shape.dims, s, err));
    for (int i = 0; i < 2; i++) c = kl_term_if_valid(&t, c, valid[i], !drop_row + !drop_col);
    return kl_terms_end(&t, c, out);
}

/* The products of the cotangent at each position, added where the indices say. */
static struct kl_array *added(struct kl_terms *t, struct kl_array *like, struct kl_array *indices,
                              struct kl_array *products) {
    if (t->rc) return NULL;
    const int *d = products->t.dims, dims[] = {d[0], 1, d[1], d[2]};
    struct kl_array *zeros = KL_TERM(t, kl_zeros_like(&t->made, like, t->s, t->err));
    struct kl_array *updates = KL_TERM(t, kl_reshape_to(&t->made, products, 4, dims, t->s, t->err));
    return KL_TERM(t, kl_scatter_add_single(&t->made, zeros, indices, updates, 0, t->s, t->err));
}

int kl_vjp_gather_mm(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *g = v->cotangent[0];
    struct kl_array *each = KL_TERM(&t, kl_arange(&t.made, 0, g->t.dims[0], 1, KL_I32, v->s, err));
    for (int k = 0; k < 2; k++) {
        if (!v->wanted[k]) continue;
        struct kl_array *other = KL_TERM(&t, kl_swapaxes(&t.made, v->in[1 - k], 1, 2, v->s, err));
        struct kl_array *p =
            k ? gathered(&t, other, g, v->in[2], each) : gathered(&t, g, other, each, v->in[3]);
        struct kl_array *sum = added(&t, v->in[k], v->in[2 + k], p);
        grad[k] = kl_terms_keep(&t, sum);
    }
    return kl_terms_end(&t, NULL, NULL);
}

/* The sum of the products with the tangent of one operand and the other operand. */
int kl_jvp_gather_mm(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *part[2] = {NULL};
    for (int k = 0; k < 2; k++)
        if (j->tangent[k])
            part[k] = gathered(&t, k ? j->in[0] : j->tangent[0], k ? j->tangent[1] : j->in[1],
                               j->in[2], j->in[3]);
    struct kl_array *sum = part[0] && part[1] ? kl_term2(&t, kl_add, part[0], part[1])
                           : part[0]          ? part[0]
                                              : part[1];
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

static int three_axes(const struct kl_build *b, struct kl_error **err) {
    for (int i = 0; i < 4; i++)
        if (b->in[i]->t.ndim != (i < 2 ? 3 : 1))
            return kl_fail(err, KL_EARG, "input %d of gather_mm has %d axes", i, b->in[i]->t.ndim);
    return KL_OK;
}

int kl_rebuild_gather_mm(const struct kl_build *b, struct kl_array **out, struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    KL_TRY(three_axes(b, err));
    return kl_gather_mm(out, b->in[0], b->in[1], b->in[2], b->in[3], b->s, err);
}

/* All lanes are one operation: the matrices of a mapped operand follow those of the lane before. */
int kl_vmap_gather_mm(const struct kl_vmap *v, struct kl_array **out, int *axis,
                      struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *in[4];
    *axis = 0;
    if (v->lanes == 0) return kl_vmap_each(v, out, err);
    for (int i = 0; i < 2; i++) {
        struct kl_array *x = v->in[i];
        const int n = x->t.dims[v->mapped[i]];
        struct kl_array *none; /* these indices are good: the operation's builder has seen to it */
        struct kl_array *indices =
            kl_term_checked(&t, v->in[2 + i], n, KL_I32, KL_ALIAS_GATHER_MM, &none);
        if (v->mapped[i]) {
            struct kl_array *lane = KL_TERM(&t, kl_vmap_lane_index(v, &t.made, 1, err));
            lane = kl_term_by(&t, kl_multiply, lane, n);
            indices = kl_term2(&t, kl_add, indices, lane);
            x = matrices(&t, x, (enum kl_dtype)x->t.dtype);
        }
        const int dims[] = {v->lanes, v->dims[0]};
        indices = KL_TERM(&t, kl_broadcast_view(&t.made, indices, 2, dims, err));
        in[2 + i] = KL_TERM(&t, kl_flatten_all(&t.made, indices, v->s, err));
        in[i] = x;
    }
    struct kl_array *c = gathered(&t, in[0], in[1], in[2], in[3]);
    const int to[] = {v->lanes, v->dims[0], v->dims[1], v->dims[2]};
    c = KL_TERM(&t, kl_reshape_to(&t.made, c, 4, to, v->s, err));
    return kl_terms_end(&t, c, out);
}

/* ---- segmented_mm ---- */

/* The operation itself, of two matrices and a list of good segments. */
static struct kl_array *of_segments(struct kl_terms *t, struct kl_array *a, struct kl_array *b,
                                    struct kl_array *segments) {
    if (t->rc) return NULL;
    const int dims[] = {segments->t.dims[0], a->t.dims[0], b->t.dims[1]};
    struct kl_array *in[] = {a, b, segments};
    return KL_TERM(t,
                   kl_array_op1(&t->made,
                                &(struct kl_operation){
                                    .op = KL_OP_SEGMENTED_MM, .stream = t->s, .in = in, .n_in = 3},
                                (enum kl_dtype)a->t.dtype, 3, dims, t->err));
}

int kl_segmented_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b,
                    struct kl_array *segments, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(SEGMENTED_MM, a, b, segments);
    struct kl_terms t = kl_terms_begin(s, err);
    enum kl_dtype dtype;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_array(segments, "segments", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(float_type(&dtype, a, b, err));
    KL_TRY(kl_check_index_dtype(segments, err));
    if (a->t.ndim != 2 || b->t.ndim != 2)
        return kl_fail(err, KL_ESHAPE, "operands of shapes %s and %s; two matrices are taken",
                       KL_SHAPE_TEXT_OF(a), KL_SHAPE_TEXT_OF(b));
    KL_TRY(check_product(a, b, err));
    struct kl_shape to = kl_shape_of(segments);
    if (to.ndim == 0 || to.dims[to.ndim - 1] != 2 || to.ndim + 1 > KL_MAX_NDIM)
        return kl_fail(err, KL_ESHAPE,
                       "segments of shape %s; the last axis has the first index and the one after "
                       "the last",
                       KL_SHAPE_TEXT_OF(segments));
    const int64_t n = segments->t.size / 2;
    const int k = a->t.dims[1], flat[] = {(int)n, 2};
    if (n > INT32_MAX || k == INT32_MAX)
        return kl_fail(err, KL_ELIMIT, "%lld segments of %d indices are too many", (long long)n, k);
    struct kl_array *in[] = {kl_term_cast(&t, a, dtype), kl_term_cast(&t, b, dtype)};
    /* As unsigned numbers, so that none counts from the end. */
    struct kl_array *x = kl_term_cast(&t, segments, KL_I64);
    x = KL_TERM(&t, kl_view(&t.made, x, KL_U64, s, err));
    struct kl_array *valid = NULL;
    if (!t.rc) x = kl_term_checked(&t, x, k + 1, KL_U32, KL_ALIAS_SEGMENTED_MM, &valid);
    if (valid) valid = KL_TERM(&t, kl_all_axis(&t.made, valid, -1, false, s, err));
    x = KL_TERM(&t, kl_reshape_to(&t.made, x, 2, flat, s, err));
    struct kl_array *c = of_segments(&t, in[0], in[1], x);
    to.dims[to.ndim - 1] = a->t.dims[0];
    to.dims[to.ndim++] = b->t.dims[1];
    c = KL_TERM(&t, kl_reshape_to(&t.made, c, to.ndim, to.dims, s, err));
    return kl_terms_end(&t, kl_term_if_valid(&t, c, valid, 2), out);
}

/* Whether index k belongs to each segment: (segments, k). */
static struct kl_array *members(struct kl_terms *t, struct kl_array *segments, int k) {
    struct kl_array *side[2], *all = KL_TERM(t, kl_arange(&t->made, 0, k, 1, KL_U32, t->s, t->err));
    for (int i = 0; i < 2; i++) {
        const int start[] = {0, i}, step[] = {1, 1}, dims[] = {segments->t.dims[0], 1};
        side[i] = KL_TERM(t, kl_slice_to(&t->made, segments, start, step, dims, t->err));
    }
    struct kl_array *begun = kl_term2(t, kl_greater_equal, all, side[0]);
    return kl_term2(t, kl_logical_and, begun, kl_term2(t, kl_less, all, side[1]));
}

/* The products of the cotangent with the whole of the other operand, where the indices belong to
 * the segment, added up. */
int kl_vjp_segmented_mm(const struct kl_vjp *v, struct kl_array **grad, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(v->s, err);
    struct kl_array *in = members(&t, v->in[2], v->in[0]->t.dims[1]), *g = v->cotangent[0];
    for (int k = 0; k < 2; k++) {
        if (!v->wanted[k]) continue;
        struct kl_array *other = KL_TERM(&t, kl_swapaxes(&t.made, v->in[1 - k], 0, 1, v->s, err));
        struct kl_array *p = kl_term2(&t, kl_matmul, k ? other : g, k ? g : other);
        struct kl_array *where = KL_TERM(&t, kl_expand_dims(&t.made, in, k ? 2 : 1, v->s, err));
        struct kl_array *zero = kl_term_number(&t, 0, (enum kl_dtype)g->t.dtype);
        p = kl_term_where(&t, where, p, zero);
        p = KL_TERM(&t, kl_sum_axis(&t.made, p, 0, false, v->s, err));
        grad[k] = kl_terms_keep(&t, p);
    }
    return kl_terms_end(&t, NULL, NULL);
}

int kl_jvp_segmented_mm(const struct kl_jvp *j, struct kl_array **tangent, struct kl_error **err) {
    struct kl_terms t = kl_terms_begin(j->s, err);
    struct kl_array *part[2] = {NULL};
    for (int k = 0; k < 2; k++)
        if (j->tangent[k])
            part[k] = of_segments(&t, k ? j->in[0] : j->tangent[0], k ? j->tangent[1] : j->in[1],
                                  j->in[2]);
    struct kl_array *sum = part[0] && part[1] ? kl_term2(&t, kl_add, part[0], part[1])
                           : part[0]          ? part[0]
                                              : part[1];
    *tangent = kl_terms_keep(&t, sum);
    return kl_terms_end(&t, NULL, NULL);
}

int kl_rebuild_segmented_mm(const struct kl_build *b, struct kl_array **out,
                            struct kl_error **err) {
    KL_TRY(kl_build_no_params(b, err));
    if (b->in[2]->t.ndim != 2)
        return kl_fail(err, KL_EARG, "the segments of segmented_mm have %d axes", b->in[2]->t.ndim);
    return kl_segmented_mm(out, b->in[0], b->in[1], b->in[2], b->s, err);
}

int kl_vmap_segmented_mm(const struct kl_vmap *v, struct kl_array **out, int *axis,
                         struct kl_error **err) {
    *axis = 0;
    return kl_vmap_each(v, out, err);
}

/* ---- block_masked_mm ---- */

/* x (..., rows, cols) with each block of it multiplied by an element of the mask, or, for a mask of
 * bools, kept or set to 0. `what` names the mask in messages. */
static struct kl_array *masked(struct kl_terms *t, struct kl_array *x, struct kl_array *mask,
                               int block, const char *what) {
    if (t->rc || !mask) return x;
    const int n = x->t.ndim, *d = x->t.dims;
    const int high = (d[n - 2] + block - 1) / block, wide = (d[n - 1] + block - 1) / block;
    struct kl_shape to = kl_shape_of(x), apart;
    to.dims[n - 2] = high;
    to.dims[n - 1] = wide;
    bool fits = mask->t.ndim <= n;
    for (int i = 0; fits && i < mask->t.ndim; i++) {
        const int extent = mask->t.dims[i];
        fits = extent == 1 || extent == to.dims[n - mask->t.ndim + i];
    }
    if (!fits) {
        t->rc = kl_fail(t->err, KL_ESHAPE,
                        "%s has shape %s; one that broadcasts to %s, an element for each block, is "
                        "taken",
                        what, KL_SHAPE_TEXT_OF(mask), KL_SHAPE_TEXT(n, to.dims));
        return NULL;
    }
    struct kl_array *m = KL_TERM(t, kl_broadcast_view(&t->made, mask, n, to.dims, t->err));
    /* each element as often as its block has rows and columns; what is too much is cut off */
    const int thin[] = {n - 1, n + 1};
    m = KL_TERM(t, kl_expand_dims_axes(&t->made, m, thin, 2, t->s, t->err));
    if (t->rc) return NULL;
    apart = kl_shape_of(m);
    apart.dims[n - 1] = apart.dims[n + 1] = block;
    m = KL_TERM(t, kl_broadcast_view(&t->made, m, n + 2, apart.dims, t->err));
    to.dims[n - 2] = high * block;
    to.dims[n - 1] = wide * block;
    m = KL_TERM(t, kl_reshape_to(&t->made, m, n, to.dims, t->s, t->err));
    int start[KL_MAX_NDIM] = {0}, step[KL_MAX_NDIM];
    for (int i = 0; i < n; i++) step[i] = 1;
    m = KL_TERM(t, kl_slice_to(&t->made, m, start, step, d, t->err));
    if (mask->t.dtype != KL_BOOL)
        return kl_term2(t, kl_multiply, x, kl_term_cast(t, m, (enum kl_dtype)x->t.dtype));
    return kl_term_where(t, m, x, kl_term_number(t, 0, (enum kl_dtype)x->t.dtype));
}

/* Blocks are multiplied in int, and shapes leave room for the axes of blocks. */
static int check_blocks(const struct kl_array *a, const struct kl_array *b, int block,
                        struct kl_error **err) {
    if (block < 1)
        return kl_fail(err, KL_EARG, "blocks of %d elements; 1 or more are taken", block);
    const struct kl_array *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (both[i]->t.ndim + 2 > KL_MAX_NDIM)
            return kl_fail(err, KL_ESHAPE, "an operand of %d axes; at most %d are possible",
                           both[i]->t.ndim, KL_MAX_NDIM - 2);
        for (int k = 0; k < both[i]->t.ndim; k++)
            if ((int64_t)both[i]->t.dims[k] + block > INT32_MAX)
                return kl_fail(err, KL_ELIMIT, "blocks of %d elements for shape %s", block,
                               KL_SHAPE_TEXT_OF(both[i]));
    }
    return KL_OK;
}

int kl_block_masked_mm(struct kl_array **out, struct kl_array *a, struct kl_array *b, int block,
                       struct kl_array *mask_out, struct kl_array *mask_left,
                       struct kl_array *mask_right, struct kl_stream *s, struct kl_error **err) {
    KL_DEFER(BLOCK_MASKED_MM, a, b, block, mask_out, mask_left, mask_right);
    struct kl_terms t = kl_terms_begin(s, err);
    enum kl_dtype dtype;
    KL_TRY(kl_check_array(a, "a", err));
    KL_TRY(kl_check_array(b, "b", err));
    KL_TRY(kl_check_stream(s, err));
    KL_TRY(float_type(&dtype, a, b, err));
    KL_TRY(check_product(a, b, err));
    KL_TRY(check_blocks(a, b, block, err));
    struct kl_array *const masks[] = {mask_out, mask_left, mask_right};
    for (int i = 0; i < 3; i++)
        if (masks[i] && masks[i]->t.dtype == KL_C64)
            return kl_fail(err, KL_EDTYPE, "a mask of complex64; real numbers and bools are taken");
    const bool drop_row = a->t.ndim == 1, drop_col = b->t.ndim == 1;
    struct kl_array *x = kl_term_cast(&t, a, dtype), *y = kl_term_cast(&t, b, dtype);
    if (!t.rc) x = with_axis(&t, x, 0);
    if (!t.rc) y = with_axis(&t, y, 1);
    x = masked(&t, x, mask_left, block, "the mask of a");
    y = masked(&t, y, mask_right, block, "the mask of b");
    struct kl_array *c = kl_term2(&t, kl_matmul, x, y);
    c = masked(&t, c, mask_out, block, "the mask of the result");
    int gone[2];
    size_t n = 0;
    if (!t.rc && drop_row) gone[n++] = c->t.ndim - 2;
    if (!t.rc && drop_col) gone[n++] = c->t.ndim - 1;
    c = KL_TERM(&t, kl_squeeze_axes(&t.made, c, gone, n, s, err));
    return kl_terms_end(&t, c, out);
}
