/* test_empty.c - arrays without elements: every operation, of every dtype, with an extent of 0 on
 * the axis it works along, on another axis, and on both; on the CPU in every variant and on the
 * simulated device. A result that has elements has the operation's value for no elements. */
#include "ops/support/operations.h"

#include "backend/cpu/cpu_kernels.h"

/* Operations along an axis that need longer rows in operations.h, or other arguments. */
ALONG(partition_first, kl_partition_axis(out, a, 0, axis, s, err))
ALONG(argpartition_first, kl_argpartition_axis(out, a, 0, axis, s, err))
ALONG(topk_none, kl_topk_axis(out, a, 0, axis, s, err))
ALONG(topk_one, kl_topk_axis(out, a, 1, axis, s, err))
ALONG(sort_along, kl_sort_axis(out, a, axis, s, err))
ALONG(argsort_along, kl_argsort_axis(out, a, axis, s, err))
ALONG(cumsum_before, kl_cumsum(out, a, axis, keepdims, false, s, err))
ALONG(cumprod_before, kl_cumprod(out, a, axis, keepdims, false, s, err))
ALONG(cummax_before, kl_cummax(out, a, axis, keepdims, false, s, err))
ALONG(cummin_before, kl_cummin(out, a, axis, keepdims, false, s, err))
ALONG(logcumsumexp_before, kl_logcumsumexp(out, a, axis, keepdims, false, s, err))
ALONG(total_sum, kl_sum(out, a, keepdims, s, err))
ALONG(total_logsumexp, kl_logsumexp(out, a, keepdims, s, err))
ALONG(total_softmax, kl_softmax(out, a, true, s, err))
ALONG(total_sort, kl_sort(out, a, s, err))
ALONG(total_argsort, kl_argsort(out, a, s, err))
ALONG(categorical, kl_random_categorical(out, a, axis, NULL, s, err))
ALONG(permutation, kl_random_permutation(out, a, axis, NULL, s, err))
static int rope_pairs(struct kl_array **out, struct kl_array *a, int axis, bool keepdims,
                      struct kl_stream *s, struct kl_error **err) {
    struct kl_array *offset = scalar_of(KL_I32, 5);
    struct kl_rope_base base = {true, 100};
    int rc = kl_rope(out, a, 2, keepdims, base, 1, offset, NULL, s, err);
    kl_array_release(offset);
    return rc;
}

/* needs: the code with which an axis without elements (or a last axis without elements) is
 * refused. */
struct along {
    const char *name;
    kl_reduce_axis_fn *build;
    int needs;
    bool last;
    double of_nothing;
};
#define OF(f) .name = #f, .build = f
static const struct along alongs[] = {
    {OF(kl_sum_axis), .of_nothing = 0},
    {OF(kl_prod_axis), .of_nothing = 1},
    {OF(kl_all_axis), .of_nothing = 1},
    {OF(kl_any_axis), .of_nothing = 0},
    {OF(kl_logsumexp_axis), .of_nothing = -INFINITY},
    {OF(kl_mean_axis), .of_nothing = NAN},
    {OF(var_axis), .of_nothing = NAN},
    {OF(std_axis), .of_nothing = NAN},
    {OF(kl_max_axis), .needs = KL_EARG},
    {OF(kl_min_axis), .needs = KL_EARG},
    {OF(kl_argmax_axis), .needs = KL_EARG},
    {OF(kl_argmin_axis), .needs = KL_EARG},
    {OF(median_axis), .needs = KL_EARG},
    {OF(partition_first), .needs = KL_EARG},
    {OF(argpartition_first), .needs = KL_EARG},
    {OF(topk_one), .needs = KL_EARG},
    {OF(categorical), .needs = KL_EARG},
    {OF(topk_none)},
    {OF(kl_softmax_axis)},
    {OF(sort_along)},
    {OF(argsort_along)},
    {OF(cumsum_axis)},
    {OF(cumprod_axis)},
    {OF(cummax_axis)},
    {OF(cummin_axis)},
    {OF(logcumsumexp_axis)},
    {OF(cumsum_before)},
    {OF(cumprod_before)},
    {OF(cummax_before)},
    {OF(cummin_before)},
    {OF(logcumsumexp_before)},
    {OF(permutation)},
    {OF(total_sum), .of_nothing = 0},
    {OF(total_logsumexp), .of_nothing = -INFINITY},
    {OF(total_softmax)},
    {OF(total_sort)},
    {OF(total_argsort)},
    {OF(rms_norm_axis)},
    {OF(layer_norm_axis)},
    {OF(rope_pairs), .needs = KL_EARG, .last = true},
};

static const int shapes[][4] = {/* the number of axes, then the extents */
                                {1, 0},       {2, 0, 3},    {2, 3, 0},    {2, 0, 0},
                                {3, 0, 2, 3}, {3, 2, 0, 3}, {3, 2, 3, 0}, {3, 0, 2, 0},
                                {3, 0, 0, 2}, {3, 2, 0, 0}, {3, 0, 0, 0}, {3, 1, 0, 1}};
enum { SHAPES = sizeof shapes / sizeof *shapes, ALONGS = sizeof alongs / sizeof *alongs };

/* Makes an operand: row-major, with its axes stored in reverse, or as a reversed view. */
static struct kl_array *operand(enum kl_dtype dtype, int ndim, const int *dims, int way) {
    static const char zeros[1024];
    struct kl_array *a = array_of(dtype, ndim, dims, zeros), *reversed;
    if (way == 0) return a;
    if (way == 1) return strided(a);
    int start[3], stop[3], step[3];
    for (int i = 0; i < ndim; i++) start[i] = dims[i] - 1, stop[i] = -dims[i] - 1, step[i] = -1;
    EXPECT_OK(kl_slice(&reversed, a, start, (size_t)ndim, stop, (size_t)ndim, step, (size_t)ndim,
                       cpu(), &err));
    kl_array_release(a);
    return reversed;
}

/* Evaluates and releases out; every element must be `want`, with an imaginary part of 0. */
static void expect_all(struct kl_array *out, double want, const char *what) {
    struct kl_array *wide;
    EXPECT_OK(kl_astype(&wide, out, KL_C64, cpu(), &err));
    float *v = values_of(wide);
    for (int64_t i = 0; i < 2 * out->t.size; i += 2) {
        const float re = v[i], im = v[i + 1];
        if (isnan(want) ? !isnan(re) : re != (float)want || im != 0)
            fail_msg("%s: %g + %gi, not %g", what, (double)re, (double)im, want);
    }
    free(v);
    kl_array_release(wide);
    kl_array_release(out);
}

static void along(const struct along *op, enum kl_dtype dtype, struct kl_stream *s, int way,
                  int *evaluated) {
    for (int k = 0; k < SHAPES; k++)
        for (int axis = 0; axis < shapes[k][0]; axis++) {
            const int ndim = shapes[k][0], *dims = shapes[k] + 1;
            int full[3];
            char what[160];
            struct kl_array *out = NULL, *a = operand(dtype, ndim, dims, way), *other;
            struct kl_error *err = NULL;
            for (int i = 0; i < ndim; i++) full[i] = dims[i] ? dims[i] : 4;
            other = operand(dtype, ndim, full, 0);
            /* A dtype that is rejected is also rejected for arrays without elements. */
            const int usual = op->build(&out, other, axis, true, s, NULL);
            if (usual == KL_OK) kl_array_release(out);
            const int rc = op->build(&out, a, axis, true, s, &err);
            snprintf(what, sizeof what, "%s of %s, shape %d of %d axes, along axis %d", op->name,
                     kl_dtype_name(dtype), k, ndim, axis);
            if (rc == KL_OK) {
                if (usual) fail_msg("%s: not refused", what);
                expect_all(out, op->of_nothing, what);
                (*evaluated)++;
            } else {
                const bool none = dims[op->last ? ndim - 1 : axis] == 0;
                const bool may = rc == usual || (op->needs == rc && none);
                if (!may) fail_msg("%s: %s", what, err->message);
                kl_error_release(err);
            }
            kl_array_release(a);
            kl_array_release(other);
        }
}

/* Every operation along an axis. */
static void along_an_axis(void **state) {
    for (int variant = 0; variant <= kl_cpu_n_variants(); variant++) {
        const bool on_device = variant == kl_cpu_n_variants();
        kl_cpu_use_variant(on_device ? variant - 1 : variant);
        for (int op = 0; op < ALONGS; op++) {
            int evaluated = 0;
            for (int d = 0; d < KL_N_DTYPES; d++)
                for (int way = 0; way < 3; way++)
                    along(&alongs[op], (enum kl_dtype)d, on_device ? sim() : cpu(), way,
                          &evaluated);
            if (!evaluated) fail_msg("%s took nothing", alongs[op].name);
        }
    }
}

/* Every element-wise operation, with operands of one shape and operands that broadcast. */
static void element_by_element(void **state) {
    for (int which = 0; which < N_OPERATIONS; which++) {
        int evaluated = 0;
        for (int d = 0; d < KL_N_DTYPES; d++)
            for (int k = 0; k < 2 * SHAPES; k++) {
                const int ndim = shapes[k / 2][0], *dims = shapes[k / 2] + 1, one = 1;
                const enum kl_dtype dtype = (enum kl_dtype)d;
                struct kl_array *a = operand(dtype, ndim, dims, k % 3), *out,
                                *b = operand(dtype, k % 2 ? ndim : 1, k % 2 ? dims : &one, 0),
                                *usual = operand(dtype, 1, &one, 0);
                struct kl_error *err = NULL;
                const int rc = operation_build(which, &out, a, b, &err);
                struct kl_array *of_one = NULL;
                assert_int_equal(operation_build(which, &of_one, usual, usual, NULL), rc);
                kl_array_release(of_one);
                kl_error_release(err);
                if (rc == KL_OK) {
                    expect_shape(out, ndim, dims);
                    expect_all(out, 0, operation_name(which));
                    evaluated++;
                }
                kl_array_release(a);
                kl_array_release(b);
                kl_array_release(usual);
            }
        if (!evaluated) fail_msg("%s took nothing", operation_name(which));
    }
}

/* Products whose operands or results have no elements. A sum without terms is 0. */
static void products(void **state) {
    /* Batches, rows, common extent. The result has 3 - rows columns. */
    static const int cases[][3] = {{1, 2, 0}, {0, 2, 4}, {2, 0, 4},
                                   {2, 3, 4}, {2, 0, 0}, {0, 2, 0}};
    for (int variant = 0; variant <= kl_cpu_n_variants(); variant++) {
        const bool on_device = variant == kl_cpu_n_variants();
        struct kl_stream *s = on_device ? sim() : cpu();
        kl_cpu_use_variant(on_device ? variant - 1 : variant);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
            for (int d = 0; d < KL_N_DTYPES; d++) {
                const enum kl_dtype dtype = (enum kl_dtype)d;
                const int *n = cases[k], columns = 3 - n[1];
                struct kl_array *a = operand(dtype, SHAPE(n[0], n[1], n[2]), 1),
                                *b = operand(dtype, SHAPE(n[0], n[2], columns), 1),
                                *c = operand(dtype, SHAPE(n[0], columns, n[2]), 0), *out;
                const int refused = kl_dtype_is_float(dtype) || dtype == KL_C64 ? KL_OK : KL_EDTYPE;
                int rc = kl_matmul(&out, a, b, s, NULL);
                assert_int_equal(rc, refused);
                if (rc == KL_OK) {
                    expect_shape(out, SHAPE(n[0], n[1], columns));
                    expect_all(out, 0, "matmul");
                }
                EXPECT_OK(kl_outer(&out, a, b, s, &err));
                expect_all(out, 0, "outer");
                EXPECT_OK(kl_kron(&out, a, b, s, &err));
                expect_all(out, 0, "kron");
                rc = kl_inner(&out, a, c, s, NULL);
                assert_int_equal(rc, refused);
                if (rc == KL_OK) expect_all(out, 0, "inner");
                rc = kl_tensordot(&out, a, c, (int[]){0, 2}, 2, (int[]){0, 2}, 2, s, NULL);
                assert_int_equal(rc, refused);
                if (rc == KL_OK) {
                    expect_shape(out, SHAPE(n[1], columns));
                    expect_all(out, 0, "tensordot");
                }
                struct kl_array *ones, *one = scalar_of(dtype, 1);
                EXPECT_OK(kl_full_like(&ones, one, one, d, cpu(), &err));
                rc = kl_addmm(&out, ones, a, b, 5, 2, s, NULL);
                assert_int_equal(rc, refused);
                if (rc == KL_OK) expect_all(out, n[2] == 0 ? 2 : 0, "addmm");
                struct kl_array *made[] = {a, b, c, ones, one};
                for (int i = 0; i < 5; i++) kl_array_release(made[i]);
            }
    }
}

/* Attention without batches, heads, queries, keys, width of keys, or width of values. A query that
 * sees no key gets a sum without terms, which is 0. */
static void attention(void **state) {
    enum { DIMS = 6 };
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F32, KL_F64};
    for (int variant = 0; variant <= kl_cpu_n_variants(); variant++) {
        const bool on_device = variant == kl_cpu_n_variants();
        kl_cpu_use_variant(on_device ? variant - 1 : variant);
        for (int which = 1; which < 1 << DIMS; which++)
            for (int k = 0; k < 8; k++) {
                int x[DIMS] = {2, 2, 3, 5, 4, 4}; /* batches, heads, queries, keys, widths */
                for (int i = 0; i < DIMS; i++)
                    if (which >> i & 1) x[i] = 0;
                const enum kl_dtype dtype = dtypes[k / 2];
                struct kl_array *q = operand(dtype, SHAPE(x[0], x[1], x[2], x[4]), 0),
                                *keys = operand(dtype, SHAPE(x[0], x[1], x[3], x[4]), 0),
                                *values = operand(dtype, SHAPE(x[0], x[1], x[3], x[5]), 0), *out;
                EXPECT_OK(kl_attention(&out, q, keys, values, 0.5f, k % 2 ? "causal" : "", NULL,
                                       NULL, on_device ? sim() : cpu(), &err));
                expect_shape(out, SHAPE(x[0], x[1], x[2], x[5]));
                struct kl_array *in[] = {q, keys, values}, *result = kl_array_retain(out);
                expect_all(out, 0, "attention");
                if (dtype != KL_F64) {
                    EXPECT_OK(kl_attention_backward(&out, in, 0.5f, k % 2, NULL, NULL, result,
                                                    result, on_device ? sim() : cpu(), &err));
                    expect_shape(out, SHAPE((int)(q->t.size + keys->t.size + values->t.size)));
                    expect_all(out, 0, "the backward pass of attention");
                }
                kl_array_release(result);
                kl_array_release(q);
                kl_array_release(keys);
                kl_array_release(values);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(along_an_axis),
                                       cmocka_unit_test(element_by_element),
                                       cmocka_unit_test(products), cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
