/* test_product_gather.c - gather_mm, segmented_mm and block_masked_mm against products of the
 * chosen parts: indices in any order, gradients, bad indices and arguments. */
#include "ops/build/check.h"
#include "ops/support/vjp_support.h"

#include "ops/build/jvp.h"

/* n numbers with fractions, in a pattern that does not repeat soon. */
static struct kl_array *numbers(enum kl_dtype dtype, int ndim, const int *dims, int from) {
    int64_t size;
    struct kl_array *wide, *out;
    assert_true(kl_shape_size(ndim, dims, 8, &size));
    double *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) v[i] = (double)((i * 7 + from) % 23 - 11) / 4;
    wide = array_of(KL_F64, ndim, dims, v);
    free(v);
    EXPECT_OK(kl_astype(&out, wide, dtype, cpu(), &err));
    kl_array_release(wide);
    return out;
}

static void expect_near(struct kl_array *a, struct kl_array *want, double eps, const char *what) {
    struct kl_array *x, *y;
    if (!kl_shape_is(a, want->t.ndim, want->t.dims)) fail_msg("%s: another shape", what);
    EXPECT_OK(kl_astype(&x, a, KL_F64, cpu(), &err));
    EXPECT_OK(kl_astype(&y, want, KL_F64, cpu(), &err));
    double *v = values_of(x), *w = values_of(y);
    for (int64_t i = 0; i < a->t.size; i++)
        if (!(fabs(v[i] - w[i]) <= eps * (1 + fabs(w[i]))))
            fail_msg("%s: element %lld is %g, not %g", what, (long long)i, v[i], w[i]);
    free(v);
    free(w);
    kl_array_release(x);
    kl_array_release(y);
}

/* a[left] b[right], from operations that are tested elsewhere. */
static struct kl_array *by_take(struct kl_array *a, struct kl_array *b, struct kl_array *left,
                                struct kl_array *right) {
    struct kl_array *x, *y, *c;
    EXPECT_OK(kl_take_axis(&x, a, left, 0, cpu(), &err));
    EXPECT_OK(kl_take_axis(&y, b, right, 0, cpu(), &err));
    EXPECT_OK(kl_matmul(&c, x, y, cpu(), &err));
    kl_array_release(x);
    kl_array_release(y);
    return c;
}

static void chosen(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_F16, KL_BF16};
    static const double eps[] = {1e-5, 1e-13, 2e-3, 2e-2};
    static const int sizes[][3] = {{1, 70, 33}, {3, 5, 4}, {40, 9, 130}, {600, 3, 2}};
    for (int d = 0; d < 4; d++)
        for (int k = 0; k < 4; k++)
            for (int way = 0; way < 2; way++) {
                const int *z = sizes[k];
                struct kl_array *a = numbers(dtypes[d], SHAPE(5, z[0], z[1]), 3),
                                *b = numbers(dtypes[d], SHAPE(4, z[1], z[2]), 8), *out,
                                *left = I32(SHAPE(9), 4, 0, -1, 2, 1, 1, 3, 0, 2),
                                *right = I32(SHAPE(9), 2, 0, 2, 2, 3, -4, 2, 1, 3);
                if (way) {
                    a = strided(a);
                    b = strided(b);
                }
                EXPECT_OK(kl_gather_mm(&out, a, b, left, right, cpu(), &err));
                struct kl_array *want = by_take(a, b, left, right);
                expect_near(out, want, eps[d], "gather_mm");
                struct kl_array *used[] = {a, b, left, right, out, want};
                for (int i = 0; i < 6; i++) kl_array_release(used[i]);
            }
}

static void shapes(void **state) {
    struct kl_array *a = F32(SHAPE(2, 1, 2), 1, 2, 3, 4), *b = F32(SHAPE(2, 2, 1), 1, 10, 2, 20),
                    *v = F32(SHAPE(2), 1, 1), *out, *rows = I32(SHAPE(2, 1), 0, 1),
                    *cols = I32(SHAPE(3), 1, 0, 1), *one = scalar_of(KL_U8, 1),
                    *none = I32(SHAPE(0), 0);
    EXPECT_OK(kl_gather_mm(&out, a, b, NULL, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1, 1), 21, 86);
    EXPECT_OK(kl_gather_mm(&out, a, b, rows, cols, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 3, 1, 1), 42, 21, 42, 86, 43, 86);
    EXPECT_OK(kl_gather_mm(&out, a, b, NULL, one, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1, 1), 42, 86);
    EXPECT_OK(kl_gather_mm(&out, v, b, NULL, cols, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 1), 22, 11, 22);
    EXPECT_OK(kl_gather_mm(&out, a, v, rows, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(2, 1, 1), 3, 7);
    EXPECT_OK(kl_gather_mm(&out, a, b, one, one, cpu(), &err));
    EXPECT_F32(out, SHAPE(1, 1), 86);
    EXPECT_OK(kl_gather_mm(&out, a, b, none, none, cpu(), &err));
    expect_shape(out, SHAPE(0, 1, 1));
    struct kl_array *used[] = {a, b, v, out, rows, cols, one, none};
    for (int i = 0; i < 8; i++) kl_array_release(used[i]);
}

static int gathers(struct kl_array **out, struct kl_array *const *in, const void *how,
                   struct kl_error **err) {
    return kl_gather_mm(out, in[0], in[1], in[2], in[3], cpu(), err);
}
static int parts_of(struct kl_array **out, struct kl_array *const *in, const void *how,
                    struct kl_error **err) {
    return kl_segmented_mm(out, in[0], in[1], in[2], cpu(), err);
}
static void gradients(void **state) {
    for (int k = 0; k < 2; k++) {
        const enum kl_dtype d = k ? KL_F32 : KL_F64;
        struct kl_array *a = numbers(d, SHAPE(3, 2, 3), 1), *b = numbers(d, SHAPE(2, 3, 2), 5),
                        *left = I32(SHAPE(4), 2, 0, 2, 2), *right = I32(SHAPE(4), 1, 1, 0, 1);
        check_vjp("gather_mm", gathers, NULL, (struct kl_array *[]){a, b, left, right}, 4, 0);
        struct kl_array *x = numbers(d, SHAPE(2, 5), 1), *y = numbers(d, SHAPE(5, 3), 5),
                        *s = I32(SHAPE(4, 2), 0, 3, 2, 5, 4, 1, 2, 2);
        check_vjp("segmented_mm", parts_of, NULL, (struct kl_array *[]){x, y, s}, 3, 0);
        struct kl_array *used[] = {a, b, left, right, x, y, s};
        for (int i = 0; i < 7; i++) kl_array_release(used[i]);
    }
}

/* The tangents are those of products: what changes when an operand moves, which is exact in whole
 * numbers, less the product of both changes. in: two operands, their changes, then indices. */
static void check_tangents(vjp_build_fn *build, enum kl_op_id op, struct kl_array *const *in,
                           int n_in) {
    for (int which = 0; which < 4; which++) {
        struct kl_array *moved[4], *out, *to, *want, *tangent[4] = {NULL}, *got = NULL;
        for (int i = 0; i < n_in; i++) moved[i] = kl_array_retain(in[i < 2 ? i : i + 2]);
        struct kl_trace *trace = begin_trace(moved, 2);
        EXPECT_OK(build(&out, moved, NULL, &err));
        leave_trace(moved, 2);
        for (int i = 0; i < 2; i++) {
            if (!(which >> i & 1)) continue;
            tangent[i] = in[i + 2];
            EXPECT_OK(kl_add(&to, moved[i], tangent[i], cpu(), &err));
            kl_array_release(moved[i]);
            moved[i] = to;
        }
        EXPECT_OK(build(&to, moved, NULL, &err));
        EXPECT_OK(kl_subtract(&want, to, out, cpu(), &err));
        kl_array_release(to);
        if (which == 3) {
            struct kl_array *less, *changes[4] = {in[2], in[3], moved[2], moved[n_in - 1]};
            EXPECT_OK(build(&to, changes, NULL, &err));
            EXPECT_OK(kl_subtract(&less, want, to, cpu(), &err));
            kl_array_release(to);
            kl_array_release(want);
            want = less;
        }
        struct kl_node *n = out->node;
        while (n->task.op != op) n = n->in[0]->node; /* reshaped */
        const struct kl_jvp j = {.op = op,
                                 .n_in = n->n_in,
                                 .in = n->in,
                                 .out = n->out[0],
                                 .tangent = tangent,
                                 .s = cpu()};
        EXPECT_OK(kl_jvp_rule(op)(&j, &got, &err));
        assert_true((got != NULL) == (which != 0));
        if (got) expect_near(got, want, 0, "tangent");
        kl_trace_end(trace);
        for (int i = 0; i < n_in; i++) kl_array_release(moved[i]);
        struct kl_array *used[] = {out, want, got};
        for (int i = 0; i < 3; i++) kl_array_release(used[i]);
    }
}

static void tangents(void **state) {
    struct kl_array *x[6] = {F32(SHAPE(2, 1, 2), 1, 2, 3, 4),  F32(SHAPE(2, 2, 1), 1, 10, 2, 20),
                             F32(SHAPE(2, 1, 2), 2, -1, 0, 5), F32(SHAPE(2, 2, 1), -3, 1, 4, 7),
                             I32(SHAPE(3), 1, 0, 1),           I32(SHAPE(3), 0, 1, 1)};
    check_tangents(gathers, KL_OP_GATHER_MM, x, 4);
    struct kl_array *y[5] = {F32(SHAPE(1, 3), 1, 2, 3), F32(SHAPE(3, 1), 1, 10, 100),
                             F32(SHAPE(1, 3), 4, 0, -2), F32(SHAPE(3, 1), 5, -6, 7),
                             I32(SHAPE(2, 2), 0, 2, 1, 3)};
    check_tangents(parts_of, KL_OP_SEGMENTED_MM, y, 3);
    for (int i = 0; i < 6; i++) kl_array_release(x[i]);
    for (int i = 0; i < 5; i++) kl_array_release(y[i]);
}

/* An index out of range fails its result alone, on the CPU and on a device. */
static void bad_indices(void **state) {
    struct kl_array *a = F32(SHAPE(2, 1, 2), 1, 2, 3, 4), *b = F32(SHAPE(2, 2, 1), 1, 10, 2, 20),
                    *m = F32(SHAPE(1, 2), 1, 2), *w = F32(SHAPE(2, 1), 1, 10), *out,
                    *good = I32(SHAPE(3), 0, 1, 1), *far = I32(SHAPE(3), 0, 2, 1),
                    *below = I32(SHAPE(2), -1, 2), *past = I32(SHAPE(2, 2), 0, 2, 1, 3);
    for (int k = 0; k < 2; k++) {
        struct kl_stream *s = k ? sim() : cpu();
        EXPECT_OK(kl_gather_mm(&out, a, b, good, far, s, &err));
        expect_index_fault(out, 1, 0, 2, 2);
        EXPECT_OK(kl_gather_mm(&out, a, b, far, good, s, &err));
        expect_index_fault(out, 1, 0, 2, 2);
        EXPECT_OK(kl_segmented_mm(&out, m, w, past, s, &err));
        expect_index_fault(out, 3, 0, 3, 3);
        EXPECT_OK(kl_segmented_mm(&out, m, w, below, s, &err));
        expect_eval_fails(out, KL_EINDEX, "18446744073709551615");
    }
    struct kl_array *used[] = {a, b, m, w, good, far, below, past};
    for (int i = 0; i < 8; i++) kl_array_release(used[i]);
}

static void segments(void **state) {
    static const int parts[][2] = {{0, 4}, {4, 10}, {2, 9}, {5, 5}, {7, 3}, {0, 10}, {10, 10}};
    for (int d = 0; d < 2; d++) {
        const enum kl_dtype dtype = d ? KL_BF16 : KL_F32;
        struct kl_array *a = numbers(dtype, SHAPE(3, 10), 1),
                        *b = strided(numbers(dtype, SHAPE(10, 4), 2)),
                        *s = array_of(KL_I32, SHAPE(7, 1, 2), parts), *out;
        EXPECT_OK(kl_segmented_mm(&out, a, b, s, cpu(), &err));
        expect_shape(out, SHAPE(7, 1, 3, 4));
        for (int i = 0; i < 7; i++) {
            const int from = parts[i][0], to = parts[i][1] > from ? parts[i][1] : from;
            struct kl_array *x, *y, *z, *w;
            EXPECT_OK(kl_slice(&x, a, LIST(0, from), LIST(3, to), LIST(1, 1), cpu(), &err));
            EXPECT_OK(kl_slice(&y, b, LIST(from, 0), LIST(to, 4), LIST(1, 1), cpu(), &err));
            EXPECT_OK(kl_matmul(&z, x, y, cpu(), &err));
            EXPECT_OK(kl_slice(&w, out, LIST(i, 0, 0, 0), LIST(i + 1, 1, 3, 4), LIST(1, 1, 1, 1),
                               cpu(), &err));
            kl_array_release(x);
            EXPECT_OK(kl_reshape(&x, w, LIST(3, 4), cpu(), &err));
            expect_near(x, z, d ? 2e-2 : 1e-5, "segmented_mm");
            struct kl_array *used[] = {x, y, z, w};
            for (int k = 0; k < 4; k++) kl_array_release(used[k]);
        }
        struct kl_array *used[] = {a, b, s, out};
        for (int k = 0; k < 4; k++) kl_array_release(used[k]);
    }
}

static void masks(void **state) {
    struct kl_array *a = F32(SHAPE(3, 2), 1, 2, 3, 4, NAN, 6), *b = F32(SHAPE(2, 2), 1, 2, 3, 4),
                    *out, *keep = array_of(KL_BOOL, SHAPE(2, 1), (bool[]){true, false}),
                    *by = F32(SHAPE(2, 1), 2, 0), *whole = I32(SHAPE(1), 3),
                    *v = F32(SHAPE(2), 1, 1);
    EXPECT_OK(kl_block_masked_mm(&out, a, b, 2, NULL, keep, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 2), 7, 10, 15, 22, 0, 0);
    EXPECT_OK(kl_block_masked_mm(&out, a, b, 2, keep, NULL, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 2), 7, 10, 15, 22, 0, 0);
    EXPECT_OK(kl_block_masked_mm(&out, a, b, 2, by, NULL, whole, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 2), 42, 60, 90, 132, NAN, NAN);
    EXPECT_OK(kl_block_masked_mm(&out, a, b, 64, NULL, whole, whole, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 2), 63, 90, 135, 198, NAN, NAN);
    EXPECT_OK(kl_block_masked_mm(&out, v, b, 1, NULL, NULL, by, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 2, 4);
    EXPECT_OK(kl_block_masked_mm(&out, b, v, 1, by, NULL, NULL, cpu(), &err));
    EXPECT_F32(out, SHAPE(2), 6, 0);
    EXPECT_FAIL(KL_EARG, kl_block_masked_mm(&out, a, b, 0, NULL, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT,
                kl_block_masked_mm(&out, a, b, INT32_MAX, NULL, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_block_masked_mm(&out, a, b, 1, keep, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_block_masked_mm(&out, b, a, 1, NULL, NULL, NULL, cpu(), &err));
    struct kl_array *used[] = {a, b, keep, by, whole, v};
    for (int k = 0; k < 6; k++) kl_array_release(used[k]);
}

static void bad(void **state) {
    struct kl_array *a = F32(SHAPE(2, 1, 2), 1, 2, 3, 4), *i = count_up(SHAPE(2, 2)),
                    *f = F32(SHAPE(2, 2), 0, 0, 0, 0), *s = scalar_of(KL_F32, 1),
                    *three = I32(SHAPE(3), 0, 0, 0), *two = I32(SHAPE(2), 0, 0),
                    *c = array_of(KL_C64, SHAPE(2, 1), (float[]){0, 0, 0, 0}), *out;
    EXPECT_FAIL(KL_EARG, kl_gather_mm(&out, NULL, f, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_mm(&out, a, NULL, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_gather_mm(&out, a, f, NULL, NULL, NULL, &err));
    EXPECT_FAIL(KL_EDTYPE, kl_gather_mm(&out, i, i, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_gather_mm(&out, a, c, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_gather_mm(&out, a, f, f, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_gather_mm(&out, a, f, NULL, f, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_mm(&out, a, a, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_mm(&out, s, f, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_mm(&out, a, f, two, three, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_gather_mm(&out, a, f, NULL, three, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_segmented_mm(&out, i, i, two, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_segmented_mm(&out, f, f, f, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_segmented_mm(&out, f, f, three, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_segmented_mm(&out, a, f, two, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_segmented_mm(&out, f, f, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_block_masked_mm(&out, f, f, 1, c, NULL, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_block_masked_mm(&out, i, i, 1, NULL, NULL, NULL, cpu(), &err));
    struct kl_array *used[] = {a, i, f, s, three, two, c};
    for (int k = 0; k < 7; k++) kl_array_release(used[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chosen),      cmocka_unit_test(shapes),
                                       cmocka_unit_test(gradients),   cmocka_unit_test(tangents),
                                       cmocka_unit_test(bad_indices), cmocka_unit_test(segments),
                                       cmocka_unit_test(masks),       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
