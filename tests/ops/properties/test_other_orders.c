/* test_other_orders.c - operations along each axis of large arrays whose axes lie in memory in any
 * order, which are copied in the order of rows first, give what they give of one slice after the
 * other, which is not. */
#include "ops/support/helpers.h"

#include "base/alloc.h"
#include "graph/fusion_support.h"
#include "ops/build/views.h"

enum { NDIM = 3 };
static const int dims[NDIM] = {24, 30, 26}; /* 18,720 elements; of a slice at most 780 */
static const int orders[][NDIM] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
enum { N_ORDERS = sizeof orders / sizeof *orders, KTH = 7, K = 5 };

typedef int function(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err);

static int sorted(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_sort_axis(out, x, axis, cpu(), err);
}
static int places(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_argsort_axis(out, x, axis, cpu(), err);
}
/* The order of the elements before and after the one in its place is not fixed. */
static int parted(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    struct kl_array *all, *part;
    int start[NDIM] = {0}, step[NDIM] = {1, 1, 1}, size[NDIM];
    KL_TRY(kl_partition_axis(&all, x, KTH, axis, cpu(), err));
    memcpy(size, all->t.dims, sizeof size);
    start[axis] = KTH;
    size[axis] = 1;
    int rc = kl_slice_to(&part, all, start, step, size, err);
    kl_array_release(all);
    *out = part;
    return rc;
}
static int part_places(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    struct kl_array *all, *there;
    int start[NDIM] = {0}, step[NDIM] = {1, 1, 1}, size[NDIM];
    KL_TRY(kl_argpartition_axis(&all, x, KTH, axis, cpu(), err));
    memcpy(size, all->t.dims, sizeof size);
    start[axis] = KTH;
    size[axis] = 1;
    int rc = kl_slice_to(&there, all, start, step, size, err);
    kl_array_release(all);
    *out = there;
    return rc;
}
static int largest(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    struct kl_array *any;
    KL_TRY(kl_topk_axis(&any, x, K, axis, cpu(), err));
    int rc = kl_sort_axis(out, any, axis, cpu(), err);
    kl_array_release(any);
    return rc;
}
static int soft(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_softmax_axis(out, x, axis, true, cpu(), err);
}
static int sums(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_cumsum(out, x, axis, false, true, cpu(), err);
}
static int products(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_cumprod(out, x, axis, true, false, cpu(), err);
}
static int rms(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_rms_norm(out, x, NULL, 1e-5f, cpu(), err);
}
static int layer(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_layer_norm(out, x, NULL, NULL, 1e-5f, cpu(), err);
}

static const struct {
    const char *name;
    function *build;
    double ulps;    /* of the largest result; 0: the same bits */
    bool last_only; /* it is along the last axis */
} functions[] = {{"sort", sorted, 0, false},      {"argsort", places, 0, false},
                 {"partition", parted, 0, false}, {"argpartition", part_places, 0, false},
                 {"topk", largest, 0, false},     {"softmax", soft, 4, false},
                 {"cumsum", sums, 40, false},     {"cumprod", products, 40, false},
                 {"rms_norm", rms, 8, true},      {"layer_norm", layer, 8, true}};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static void expect_near(struct kl_array *got, struct kl_array *want, double ulps,
                        const char *name) {
    assert_int_equal(got->t.size, want->t.size);
    if (ulps == 0) {
        if (!same_values(got, want)) fail_msg("%s: other values", name);
        return;
    }
    float *a = values_of(got), *b = values_of(want), most = 0;
    for (int64_t i = 0; i < want->t.size; i++) most = fmaxf(most, fabsf(b[i]));
    for (int64_t i = 0; i < want->t.size; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= ulps * 0x1p-23 * (double)most))
            fail_msg("%s: %g, not %g", name, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

/* Slice `at` of an axis, which stays as one of size 1. */
static struct kl_array *slice_of(struct kl_array *x, int axis, int at) {
    struct kl_array *out;
    int start[NDIM] = {0}, step[NDIM] = {1, 1, 1}, size[NDIM];
    memcpy(size, x->t.dims, sizeof size);
    start[axis] = at;
    size[axis] = 1;
    EXPECT_OK(kl_slice_to(&out, x, start, step, size, &err));
    return out;
}

static void as_by_slices(void **state) {
    uint32_t seed = 11;
    for (int k = 0; k < N_ORDERS; k++) {
        struct kl_array *rows = random_of(KL_F32, NDIM, dims, &seed), *x;
        EXPECT_OK(kl_permute(&x, rows, orders[k], &err));
        for (int f = 0; f < N_FUNCTIONS; f++)
            for (int axis = functions[f].last_only ? NDIM - 1 : 0; axis < NDIM; axis++) {
                struct kl_array *all;
                const int by = axis ? 0 : 1; /* slices along another axis */
                EXPECT_OK(functions[f].build(&all, x, axis, &err));
                for (int at = 0; at < x->t.dims[by]; at += 5) {
                    struct kl_array *part = slice_of(x, by, at), *want;
                    struct kl_array *got = slice_of(all, by, at);
                    EXPECT_OK(functions[f].build(&want, part, axis, &err));
                    expect_near(got, want, functions[f].ulps, functions[f].name);
                    kl_array_release(part);
                    kl_array_release(want);
                    kl_array_release(got);
                }
                kl_array_release(all);
            }
        kl_array_release(x);
        kl_array_release(rows);
    }
}

/* Results lie in memory as rows, whatever the order of the operand. */
static void results_are_rows(void **state) {
    uint32_t seed = 12;
    struct kl_array *rows = random_of(KL_F32, NDIM, dims, &seed), *x;
    EXPECT_OK(kl_permute(&x, rows, orders[5], &err));
    for (int f = 0; f < N_FUNCTIONS; f++) {
        struct kl_array *out;
        if (functions[f].build == parted || functions[f].build == part_places) continue; /* views */
        EXPECT_OK(functions[f].build(&out, x, NDIM - 1, &err));
        assert_true(out->t.layout & KL_ROW_CONTIGUOUS);
        kl_array_release(out);
    }
    kl_array_release(x);
    kl_array_release(rows);
}

/* ---- what moves elements, and reductions of several axes ---- */

static int joined(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_concatenate_axis(out, (struct kl_array *[]){x, x}, 2, axis, cpu(), err);
}
static int sum_of_others(struct kl_array **out, struct kl_array *x, int axis,
                         struct kl_error **err) {
    const int axes[2] = {axis == 0, axis == 2 ? 1 : 2};
    return kl_sum_axes(out, x, axes, 2, true, cpu(), err);
}
static int sum_of_all(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_sum_axes(out, x, (const int[]){0, 1, 2}, 3, true, cpu(), err);
}
static int least(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    return kl_min_axes(out, x, (const int[]){0, 1, 2}, 3, false, cpu(), err);
}
/* x in a larger array of ones, at the start of the axis. */
static int put(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    struct kl_array *one = scalar_of(KL_I32, 1), *ones;
    int start[NDIM] = {0}, step[NDIM] = {1, 1, 1}, size[NDIM];
    memcpy(size, x->t.dims, sizeof size);
    size[axis] += 3;
    int rc = kl_broadcast_to(&ones, one, size, NDIM, cpu(), err);
    kl_array_release(one);
    if (rc) return rc;
    rc = kl_slice_update(out, ones, x, start, NDIM, x->t.dims, NDIM, step, NDIM, cpu(), err);
    kl_array_release(ones);
    return rc;
}
/* 7 is added to rows 3 and 5 of the first axis. */
static int added(struct kl_array **out, struct kl_array *x, int axis, struct kl_error **err) {
    struct kl_array *at = I32(SHAPE(2), 3, 5), *seven = scalar_of(KL_I32, 7), *rows;
    int size[NDIM + 1] = {2, 1, x->t.dims[1], x->t.dims[2]};
    int rc = kl_broadcast_to(&rows, seven, size, NDIM + 1, cpu(), err);
    if (!rc) {
        rc = kl_scatter_add(out, x, (struct kl_array *[]){at}, 1, rows, (const int[]){0}, 1, cpu(),
                            err);
        kl_array_release(rows);
    }
    kl_array_release(at);
    kl_array_release(seven);
    return rc;
}
static function *const movers[] = {joined, sum_of_others, sum_of_all, least, put, added};

/* The same as of a copy in the order of rows, also with four axes of which two are reduced that do
 * not lie together in memory. */
static void as_of_rows(void **state) {
    for (int k = 0; k < N_ORDERS; k++) {
        struct kl_array *all = count_up(NDIM, dims), *x, *rows, *got, *want;
        EXPECT_OK(kl_permute(&x, all, orders[k], &err));
        EXPECT_OK(kl_copy(&rows, x, cpu(), &err));
        for (size_t f = 0; f < sizeof movers / sizeof *movers; f++)
            for (int axis = 0; axis < NDIM; axis++) {
                EXPECT_OK(movers[f](&got, x, axis, &err));
                EXPECT_OK(movers[f](&want, rows, axis, &err));
                if (!same_values(got, want)) fail_msg("mover %d, order %d", (int)f, k);
                kl_array_release(got);
                kl_array_release(want);
            }
        kl_array_release(all);
        kl_array_release(x);
        kl_array_release(rows);
    }
    struct kl_array *pictures = count_up(SHAPE(4, 16, 20, 24)), *x, *rows, *got, *want;
    EXPECT_OK(kl_permute(&x, pictures, (const int[]){0, 2, 3, 1}, &err));
    EXPECT_OK(kl_copy(&rows, x, cpu(), &err));
    for (int set = 1; set < 16; set++) {
        int axes[4];
        size_t n = 0;
        for (int i = 0; i < 4; i++)
            if (set >> i & 1) axes[n++] = i;
        EXPECT_OK(kl_sum_axes(&got, x, axes, n, true, cpu(), &err));
        EXPECT_OK(kl_sum_axes(&want, rows, axes, n, true, cpu(), &err));
        if (!same_values(got, want)) fail_msg("axes %d", set);
        kl_array_release(got);
        kl_array_release(want);
    }
    kl_array_release(pictures);
    kl_array_release(x);
    kl_array_release(rows);
}

/* Without memory for one of its steps nothing is left. */
static void no_memory(void **state) {
    uint32_t seed = 13;
    struct kl_array *rows = random_of(KL_F32, NDIM, dims, &seed), *x;
    EXPECT_OK(kl_permute(&x, rows, orders[5], &err));
    for (int f = 0; f < N_FUNCTIONS; f++) {
        bool done = false;
        for (int64_t n = 0; !done; n++) {
            struct kl_array *out = NULL;
            struct kl_error *why = NULL;
            kl_test_fail_alloc_at(n);
            const int rc = functions[f].build(&out, x, functions[f].last_only ? 2 : 0, &why);
            done = kl_test_n_alloc_attempts() <= n;
            kl_test_fail_alloc_at(-1);
            if (!rc != done || (rc && rc != KL_ENOMEM))
                fail_msg("%s, allocation %d: %d", functions[f].name, (int)n, rc);
            kl_error_release(why);
            if (!rc) kl_array_release(out);
        }
    }
    kl_array_release(x);
    kl_array_release(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_by_slices),
        cmocka_unit_test(results_are_rows),
        cmocka_unit_test(as_of_rows),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
