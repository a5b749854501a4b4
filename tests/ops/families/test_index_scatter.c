/* test_index_scatter.c - scatter with each way to combine values, put_along_axis, scatter_add_axis:
 * values, duplicates, NaN, faults, bad arguments. */
#include "ops/support/helpers.h"

static void assign(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(3), 2, 0, -1), *out;
    struct kl_array *u = F32(SHAPE(3, 1, 2), -1, -2, -3, -4, -5, -6);
    /* Of equal indices the last update stays. */
    EXPECT_OK(kl_scatter_single(&out, a, i, u, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), -3, -4, 2, 3, 4, 5, 6, 7, -5, -6, 10, 11);
    struct kl_array *j = I32(SHAPE(2, 1), 0, 3), *both[] = {j, i}, *v, *t;
    EXPECT_OK(kl_reshape(&v, u, LIST(2, 3, 1, 1), cpu(), &err));
    /* Shape (4, 3); j has the indices of axis 0, i those of axis 1. */
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_scatter(&out, t, both, 2, v, LIST(0, 1), cpu(), &err));
    EXPECT_I32(out, SHAPE(4, 3), -2, 4, -3, 1, 5, 9, 2, 6, 10, -5, 7, -6);
    struct kl_array *w = I32(SHAPE(2, 1), 70, 71);
    EXPECT_OK(kl_scatter(&out, a, NULL, 0, w, NULL, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), 70, 1, 2, 3, 71, 5, 6, 7, 8, 9, 10, 11);
    struct kl_array *none = count_up(SHAPE(0)), *nothing = count_up(SHAPE(0, 1, 4));
    EXPECT_OK(kl_scatter_single(&out, a, none, nothing, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    struct kl_array *flat = count_up(SHAPE(3, 0, 4));
    EXPECT_OK(kl_scatter_single(&out, a, i, flat, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    kl_array_release(flat);
    kl_array_release(none);
    kl_array_release(nothing);
    kl_array_release(w);
    kl_array_release(v);
    kl_array_release(t);
    kl_array_release(j);
    kl_array_release(u);
    kl_array_release(i);
    kl_array_release(a);
}

/* Every mode in every dtype, with two updates to one place: 5 op 2 op 3 at place 1. */
static void joins(void **state) {
    static const struct {
        kl_scatter_single_fn *fn;
        int want;
    } rows[] = {{kl_scatter_single, 3},
                {kl_scatter_add_single, 10},
                {kl_scatter_prod_single, 30},
                {kl_scatter_max_single, 5},
                {kl_scatter_min_single, 2}};
    for (int dtype = KL_U8; dtype < KL_N_DTYPES; dtype++)
        for (size_t r = 0; r < 5; r++) {
            struct kl_array *base = I32(SHAPE(3), 4, 5, 6), *up = I32(SHAPE(2, 1), 2, 3),
                            *i = array_of(KL_I8, SHAPE(2), (int8_t[]){1, -2}), *a, *u, *out, *back;
            EXPECT_OK(kl_astype(&a, base, dtype, cpu(), &err));
            EXPECT_OK(kl_astype(&u, up, dtype, cpu(), &err));
            EXPECT_OK(rows[r].fn(&out, a, i, u, 0, cpu(), &err));
            assert_int_equal(out->t.dtype, dtype);
            EXPECT_OK(kl_astype(&back, out, KL_I32, cpu(), &err));
            EXPECT_I32(back, SHAPE(3), 4, rows[r].want, 6);
            kl_array_release(out);
            kl_array_release(a);
            kl_array_release(u);
            kl_array_release(i);
            kl_array_release(base);
            kl_array_release(up);
        }
}

static void bools(void **state) {
    struct kl_array *a = array_of(KL_BOOL, SHAPE(2), (uint8_t[]){0, 1}),
                    *i = I32(SHAPE(3), 0, 0, 1),
                    *u = array_of(KL_BOOL, SHAPE(3, 1), (uint8_t[]){1, 1, 0}), *out;
    static const struct {
        kl_scatter_single_fn *fn;
        uint8_t want[2];
    } rows[] = {{kl_scatter_add_single, {1, 1}},
                {kl_scatter_prod_single, {0, 0}},
                {kl_scatter_max_single, {1, 1}},
                {kl_scatter_min_single, {0, 0}}};
    for (size_t r = 0; r < 4; r++) {
        EXPECT_OK(rows[r].fn(&out, a, i, u, 0, cpu(), &err));
        uint8_t *v = values_of(out);
        assert_memory_equal(v, rows[r].want, 2);
        free(v);
        kl_array_release(out);
    }
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(u);
}

static void nan_and_zero(void **state) {
    struct kl_array *a = F32(SHAPE(4), 1, NAN, -0.0f, 0.0f), *i = I32(SHAPE(4), 0, 1, 2, 3),
                    *u = F32(SHAPE(4, 1), NAN, 5, 0.0f, -0.0f), *out;
    EXPECT_OK(kl_scatter_max_single(&out, a, i, u, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), NAN, NAN, 0.0f, 0.0f);
    EXPECT_OK(kl_scatter_min_single(&out, a, i, u, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(4), NAN, NAN, -0.0f, -0.0f);
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(u);
}

static void along_axis(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *i = I32(SHAPE(2, 2), 0, -1, 1, 1),
                    *v = I32(SHAPE(2, 2), 10, 20, 30, 40), *s = scalar_of(KL_F32, 7.9), *out;
    EXPECT_OK(kl_put_along_axis(&out, a, i, v, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 10, 1, 20, 3, 40, 5);
    EXPECT_OK(kl_scatter_add_axis(&out, a, i, v, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 10, 1, 22, 3, 74, 5);
    EXPECT_OK(kl_put_along_axis(&out, a, i, s, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 7, 1, 7, 3, 7, 5);
    struct kl_array *row = count_up(SHAPE(1, 3)), *lead;
    EXPECT_OK(kl_put_along_axis(&out, row, i, v, 1, cpu(), &err)); /* the array broadcasts */
    EXPECT_I32(out, SHAPE(2, 3), 10, 1, 20, 0, 40, 2);
    EXPECT_OK(kl_reshape(&lead, v, LIST(1, 2, 2), cpu(), &err));
    EXPECT_OK(kl_put_along_axis(&out, a, i, lead, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 10, 1, 20, 3, 40, 5);
    struct kl_array *t;
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_put_along_axis(&out, t, i, v, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2), 10, 3, 30, 40, 2, 20);
    struct kl_array *flat = count_up(SHAPE(2)), *f = F32(SHAPE(2, 2), 0, 0, 0, 0),
                    *wide = count_up(SHAPE(5, 2, 2)), *three = count_up(SHAPE(2, 3));
    kl_scatter_single_fn *const fns[] = {kl_put_along_axis, kl_scatter_add_axis};
    for (int k = 0; k < 2; k++) {
        EXPECT_FAIL(KL_ESHAPE, fns[k](&out, a, flat, v, 1, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, fns[k](&out, a, i, three, 1, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, fns[k](&out, a, i, wide, 1, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, fns[k](&out, a, i, v, 0, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, fns[k](&out, a, i, v, 2, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, fns[k](&out, a, f, v, 1, cpu(), &err));
        EXPECT_FAIL(KL_EARG, fns[k](&out, NULL, i, v, 1, cpu(), &err));
        EXPECT_FAIL(KL_EARG, fns[k](&out, a, NULL, v, 1, cpu(), &err));
        EXPECT_FAIL(KL_EARG, fns[k](&out, a, i, NULL, 1, cpu(), &err));
        EXPECT_FAIL(KL_EARG, fns[k](&out, a, i, v, 1, NULL, &err));
    }
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(v);
    kl_array_release(s);
    kl_array_release(row);
    kl_array_release(lead);
    kl_array_release(t);
    kl_array_release(flat);
    kl_array_release(f);
    kl_array_release(wide);
    kl_array_release(three);
}

static void faults_on(struct kl_stream *s) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(3), 0, 2, 3),
                    *u = count_up(SHAPE(3, 1, 4)), *two = count_up(SHAPE(3, 2, 4)), *out;
    EXPECT_OK(kl_scatter_single(&out, a, i, u, 0, s, &err));
    expect_index_fault(out, 2, 0, 3, 3);
    /* The slice is rows 2 and 3, and row 3 does not exist. */
    EXPECT_OK(kl_scatter_add_single(&out, a, i, two, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "2");
    struct kl_array *j = I32(SHAPE(3, 1), 0, -5, 9), *v = scalar_of(KL_I32, 1);
    EXPECT_OK(kl_put_along_axis(&out, a, j, v, 1, s, &err));
    expect_eval_fails(out, KL_EINDEX, "-5");
    /* The indices of slices without elements are checked as well, and the base stays. */
    struct kl_array *nothing = count_up(SHAPE(3, 1, 0)), *good = I32(SHAPE(3), 0, 2, -3),
                    *e = count_up(SHAPE(3, 0));
    EXPECT_OK(kl_scatter_add_single(&out, a, good, nothing, 0, s, &err));
    EXPECT_I32(out, SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    EXPECT_OK(kl_scatter_add_single(&out, a, i, nothing, 0, s, &err));
    expect_index_fault(out, 2, 0, 3, 3);
    EXPECT_OK(kl_scatter_single(&out, a, i, nothing, 0, s, &err));
    expect_index_fault(out, 2, 0, 3, 3);
    EXPECT_OK(kl_scatter_single(&out, e, good, nothing, 0, s, &err));
    EXPECT_I32(out, SHAPE(3, 0), 0);
    EXPECT_OK(kl_scatter_single(&out, e, i, nothing, 0, s, &err));
    expect_index_fault(out, 2, 0, 3, 3);
    struct kl_array *huge = array_of(KL_U64, SHAPE(3), (uint64_t[]){0, UINT64_C(1) << 63, 1});
    EXPECT_OK(kl_scatter_single(&out, a, huge, u, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "index 9223372036854775808 is out of range for axis 0");
    EXPECT_OK(kl_scatter_single(&out, a, huge, nothing, 0, s, &err));
    expect_eval_fails(out, KL_EINDEX, "index 9223372036854775808 is out of range for axis 0");
    struct kl_array *no_index = I32(SHAPE(0), 0), *no_update = count_up(SHAPE(0, 1, 0));
    EXPECT_OK(kl_scatter_add_single(&out, e, no_index, no_update, 0, s, &err));
    EXPECT_I32(out, SHAPE(3, 0), 0);
    struct kl_array *used[] = {nothing, good, e, huge, no_index, no_update};
    for (int k = 0; k < 6; k++) kl_array_release(used[k]);
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(u);
    kl_array_release(two);
    kl_array_release(j);
    kl_array_release(v);
}

static void faults(void **state) {
    faults_on(cpu());
    faults_on(sim());
}

/* The base has no other owner, so each scatter writes into the result of the last one. */
static void repeated(void **state) {
    struct kl_array *x, *y, *one = I32(SHAPE(2, 1), 1, 1);
    EXPECT_OK(kl_zeros(&x, LIST(5), KL_I32, cpu(), &err));
    for (int k = 0; k < 4; k++) {
        struct kl_array *i = I32(SHAPE(2), k, k + 1);
        EXPECT_OK(kl_scatter_add_single(&y, x, i, one, 0, cpu(), &err));
        kl_array_release(i);
        kl_array_release(x);
        x = y;
    }
    EXPECT_I32(x, SHAPE(5), 1, 2, 2, 2, 1);
    kl_array_release(one);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(3, 4)), *i = I32(SHAPE(2), 0, 1),
                    *u = count_up(SHAPE(2, 1, 4)), *f = F32(SHAPE(2), 0, 1), *out;
    struct kl_array *s = scalar_of(KL_I32, 1), *three = count_up(SHAPE(3, 1, 4)),
                    *one = count_up(SHAPE(1, 1, 4)), *wide = count_up(SHAPE(2, 1, 5)),
                    *tall = count_up(SHAPE(2, 4, 4));
    struct kl_array *two[] = {i, i}, *null[] = {i, NULL};
    kl_scatter_single_fn *const single[] = {kl_scatter_single, kl_scatter_add_single,
                                            kl_scatter_prod_single, kl_scatter_max_single,
                                            kl_scatter_min_single};
    kl_scatter_fn *const many[] = {kl_scatter, kl_scatter_add, kl_scatter_prod, kl_scatter_max,
                                   kl_scatter_min};
    for (int k = 0; k < 5; k++) {
        EXPECT_FAIL(KL_ESHAPE, single[k](&out, a, i, s, 0, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, single[k](&out, a, i, three, 0, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, single[k](&out, a, i, one, 0, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, single[k](&out, a, i, wide, 0, cpu(), &err));
        EXPECT_FAIL(KL_ESHAPE, single[k](&out, a, i, tall, 0, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, single[k](&out, a, i, u, 2, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, single[k](&out, a, i, u, -1, cpu(), &err));
        EXPECT_FAIL(KL_EDTYPE, single[k](&out, a, f, u, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, single[k](&out, NULL, i, u, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, single[k](&out, a, NULL, u, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, single[k](&out, a, i, NULL, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, single[k](&out, a, i, u, 0, NULL, &err));
        EXPECT_FAIL(KL_EAXIS, many[k](&out, a, two, 2, u, LIST(1, 1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, many[k](&out, a, two, 2, u, LIST(1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, many[k](&out, a, null, 2, u, LIST(0, 1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, many[k](&out, a, NULL, 2, u, LIST(0, 1), cpu(), &err));
        EXPECT_FAIL(KL_EARG, many[k](&out, a, two, 2, u, NULL, 2, cpu(), &err));
    }
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(u);
    kl_array_release(f);
    kl_array_release(s);
    kl_array_release(three);
    kl_array_release(one);
    kl_array_release(wide);
    kl_array_release(tall);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assign),       cmocka_unit_test(joins),      cmocka_unit_test(bools),
        cmocka_unit_test(nan_and_zero), cmocka_unit_test(along_axis), cmocka_unit_test(faults),
        cmocka_unit_test(repeated),     cmocka_unit_test(bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
