/* test_fusion_reductions.c - a reduction, then operations on its results, or operations, then a sum
 * of their results, run in one pass and give the bits that they give one by one: for every way
 * through memory and all variants. */
#include "graph/fusion_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"
#include "runtime/block_pool.h"

static const enum kl_dtype floats[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
enum { N_FLOATS = sizeof floats / sizeof *floats };

/* The axes, of a shape of four, that are reduced. */
struct shape {
    int dims[4], n_axes, axes[3];
};

/* Evaluates what `build` makes of x, one by one and in groups, with each variant of the kernels.
 * groups: how many there are. */
static void same_in_groups(int build(struct kl_array **out, struct kl_array *x,
                                     const struct shape *s),
                           struct kl_array *x, const struct shape *s, uint64_t groups) {
    enum { MOST = 4 };
    const int before = kl_cpu_variant();
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        struct kl_array *out[2][MOST] = {{NULL}};
        int n = 0;
        kl_cpu_use_variant(v);
        for (int way = 0; way < 2; way++) {
            kl_fusion_allow(way == 1);
            n = build(out[way], x, s);
            const uint64_t so_far = kl_fusion_count();
            EXPECT_OK(kl_eval(out[way], (size_t)n, &err));
            if (way == 1 && kl_fusion_count() - so_far != groups)
                fail_msg("%llu groups of %s, %d x %d x %d x %d, %d axes from %d on",
                         (unsigned long long)(kl_fusion_count() - so_far),
                         kl_dtype_name((enum kl_dtype)x->t.dtype), s->dims[0], s->dims[1],
                         s->dims[2], s->dims[3], s->n_axes, s->axes[0]);
        }
        for (int i = 0; i < n; i++) {
            if (!same_values(out[0][i], out[1][i]))
                fail_msg("result %d of %s, %d x %d x %d x %d, variant %s", i,
                         kl_dtype_name((enum kl_dtype)x->t.dtype), s->dims[0], s->dims[1],
                         s->dims[2], s->dims[3], kl_cpu_variant_name(v));
            kl_array_release(out[0][i]);
            kl_array_release(out[1][i]);
        }
    }
    kl_cpu_use_variant(before);
}

/* ---- a reduction first ---- */

static kl_reduce_axes_fn *const first[] = {kl_sum_axes, kl_prod_axes, kl_max_axes, kl_min_axes};
static int chosen; /* of these */

/* r * 0.5 + row, |r|, and r itself, which is stored too. */
static int then_steps(struct kl_array **out, struct kl_array *x, const struct shape *s) {
    struct kl_array *half = scalar_of((enum kl_dtype)x->t.dtype, 0.5), *scaled, *row;
    EXPECT_OK(first[chosen](&out[2], x, s->axes, (size_t)s->n_axes, true, cpu(), &err));
    EXPECT_OK(kl_multiply(&scaled, out[2], half, cpu(), &err));
    EXPECT_OK(kl_broadcast_to(&row, half, out[2]->t.dims, 4, cpu(), &err));
    EXPECT_OK(kl_add(&out[0], scaled, row, cpu(), &err));
    EXPECT_OK(kl_abs(&out[1], out[2], cpu(), &err));
    kl_array_release(half);
    kl_array_release(scaled);
    kl_array_release(row);
    return 3;
}

static void steps_take_the_results_of_a_reduction(void **state) {
    static const struct shape shapes[] = {
        {{6, 10, 2, 64}, 1, {2}},      /* a few rows of short runs */
        {{3, 500, 3, 7}, 1, {2}},      /* narrow ones */
        {{2, 70, 19, 31}, 1, {1}},     /* columns that are no multiple of a vector */
        {{40, 5, 30, 16}, 1, {3}},     /* short rows */
        {{20, 50, 30, 16}, 2, {0, 3}}, /* outputs that are not contiguous in the input */
        {{12, 25, 5, 300}, 1, {3}},    /* longer rows, for several threads */
        {{300, 2, 3, 1100}, 1, {0}},   /* columns, for several threads */
    };
    uint32_t seed = 5;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; d < N_FLOATS; d++) {
            struct kl_array *x = random_of(floats[d], 4, shapes[i].dims, &seed);
            for (chosen = 0; chosen < 4; chosen++) same_in_groups(then_steps, x, &shapes[i], 1);
            kl_array_release(x);
        }
}

static int mean_of(struct kl_array **out, struct kl_array *x, const struct shape *s) {
    EXPECT_OK(kl_mean_axes(out, x, s->axes, (size_t)s->n_axes, false, cpu(), &err));
    return 1;
}

/* Of integers the sum is converted, divided and converted again. */
static void a_mean_is_one_pass(void **state) {
    static const struct shape windows = {{30, 2, 20, 34}, 1, {1}};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_I8, KL_I64, KL_BOOL, KL_C64};
    uint32_t seed = 6;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        struct kl_array *x = random_of(dtypes[d], 4, windows.dims, &seed);
        same_in_groups(mean_of, x, &windows, 1);
        kl_array_release(x);
    }
}

/* ---- a sum last ---- */

/* Sums of x * row - x, of which the product is stored where `kept`. */
static bool kept;
static int then_a_sum(struct kl_array **out, struct kl_array *x, const struct shape *s) {
    struct kl_array *row, *product, *less;
    EXPECT_OK(kl_max_axes(&row, x, (const int[]){0, 1, 2}, 3, true, cpu(), &err));
    EXPECT_OK(kl_eval(&row, 1, &err));
    EXPECT_OK(kl_multiply(&product, x, row, cpu(), &err));
    EXPECT_OK(kl_subtract(&less, product, x, cpu(), &err));
    EXPECT_OK(kl_sum_axes(&out[0], less, s->axes, (size_t)s->n_axes, true, cpu(), &err));
    kl_array_release(row);
    kl_array_release(less);
    if (kept)
        out[1] = product;
    else
        kl_array_release(product);
    return 1 + kept;
}

static void a_sum_takes_the_values_of_steps(void **state) {
    static const struct shape shapes[] = {
        {{2, 3, 70, 8}, 3, {0, 1, 2}},    /* less than a segment */
        {{7, 9, 31, 64}, 3, {0, 1, 2}},   /* a last leaf of a few rows, several threads */
        {{5, 7, 129, 200}, 3, {0, 1, 2}}, /* rows that no tile holds a whole number of */
        {{3, 130, 2, 200}, 2, {0, 1}},    /* wide rows */
        {{131, 2, 2, 128}, 1, {0}},       /* the widest of float64: 4 KB */
    };
    uint32_t seed = 7;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int d = 0; d < N_FLOATS; d++) {
            struct kl_array *x = random_of(floats[d], 4, shapes[i].dims, &seed);
            for (int k = 0; k < 2; k++) {
                kept = k == 1;
                same_in_groups(then_a_sum, x, &shapes[i], 1);
            }
            kl_array_release(x);
        }
}

/* All elements are added up in the order of a row, whatever the number of segments. */
static void a_sum_of_all(void **state) {
    static const struct shape shapes[] = {{{1, 1, 11, 100}, 3, {1, 2, 3}},
                                          {{1, 3, 1, 90001}, 3, {1, 2, 3}}};
    uint32_t seed = 8;
    kept = false;
    for (size_t i = 0; i < 2; i++)
        for (int d = 0; d < N_FLOATS; d++) {
            struct kl_array *x = random_of(floats[d], 4, shapes[i].dims, &seed);
            same_in_groups(then_a_sum, x, &shapes[i], 1);
            kl_array_release(x);
        }
}

/* Sums that no group takes in: over trailing axes, and of operands that are stored transposed. */
static void other_sums(void **state) {
    static const struct shape trailing = {{3, 4, 50, 64}, 2, {2, 3}},
                              leading = {{30, 4, 50, 64}, 3, {0, 1, 2}};
    static const int turned[] = {64, 50, 4, 30};
    uint32_t seed = 9;
    struct kl_array *x = random_of(KL_F32, 4, trailing.dims, &seed),
                    *y = random_of(KL_F32, 4, turned, &seed), *t;
    EXPECT_OK(kl_transpose(&t, y, cpu(), &err));
    kept = false;
    same_in_groups(then_a_sum, x, &trailing, 1);
    same_in_groups(then_a_sum, t, &leading, 1);
    struct kl_array *all[] = {x, y, t};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

/* ---- memory ---- */

/* Sums of 600,000 products in 64 columns need memory for the sums alone. */
static void products_are_not_stored(void **state) {
    static const int dims[] = {600000 / 64, 64};
    struct kl_array *a = count_up(2, dims), *x, *square, *sum;
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    kl_array_release(a);
    EXPECT_OK(kl_multiply(&square, x, x, cpu(), &err));
    EXPECT_OK(kl_sum_axis(&sum, square, 0, false, cpu(), &err));
    kl_array_release(square);
    kl_memory_reset_peak();
    const size_t before = kl_memory_active();
    EXPECT_OK(kl_eval(&sum, 1, &err));
    assert_in_range(kl_memory_peak() - before, 0, 1 << 16);
    kl_array_release(x);
    kl_array_release(sum);
}

/* Without memory for what its threads add up, a sum runs alone after the steps, or fails. */
static void out_of_memory(void **state) {
    static const int dims[] = {3000, 64};
    struct kl_array *a = count_up(2, dims), *x;
    EXPECT_OK(kl_astype(&x, a, KL_F32, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    kl_array_release(a);
    float *want = NULL;
    bool done = false;
    for (int64_t n = -1; !done; n++) {
        struct kl_array *square, *sum, *half;
        struct kl_error *why = NULL;
        EXPECT_OK(kl_multiply(&square, x, x, cpu(), &err));
        EXPECT_OK(kl_negative(&half, square, cpu(), &err));
        EXPECT_OK(kl_sum_axis(&sum, half, 0, false, cpu(), &err));
        kl_array_release(square);
        kl_array_release(half);
        if (n >= 0) kl_test_fail_alloc_at(n);
        const int rc = kl_eval(&sum, 1, &why);
        if (n >= 0) done = kl_test_n_alloc_attempts() <= n;
        kl_test_fail_alloc_at(-1);
        if (rc) {
            assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(why);
        } else {
            float *got = values_of(sum);
            if (want)
                assert_memory_equal(want, got, 64 * sizeof *got);
            else
                want = got;
            if (want != got) free(got);
        }
        kl_array_release(sum);
    }
    free(want);
    kl_array_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_the_results_of_a_reduction),
        cmocka_unit_test(a_mean_is_one_pass),
        cmocka_unit_test(a_sum_takes_the_values_of_steps),
        cmocka_unit_test(a_sum_of_all),
        cmocka_unit_test(other_sums),
        cmocka_unit_test(products_are_not_stored),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
