/* test_index_masked.c - masked_scatter: order, broadcasting, too few elements. */
#include "ops/support/helpers.h"

#define BOOLS(shape, ...) array_of(KL_BOOL, shape, (bool[]){__VA_ARGS__})

static void masked(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *mask = BOOLS(SHAPE(2, 3), 1, 0, 1, 0, 1, 0),
                    *rows = BOOLS(SHAPE(2), 0, 1), *none = BOOLS(SHAPE(2, 3), 0, 0, 0, 0, 0, 0),
                    *all = scalar_of(KL_BOOL, 1), *src = F32(SHAPE(4), 10.9f, 11, 12, 13),
                    *parts = I32(SHAPE(1, 3), 10, 11, 12), *two = I32(SHAPE(2), 7, 8),
                    *one = scalar_of(KL_I32, -1), *e = count_up(SHAPE(0, 3)),
                    *e_mask = BOOLS(SHAPE(0), 0), *out;
    EXPECT_OK(kl_masked_scatter(&out, a, mask, src, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 10, 1, 11, 3, 12, 5);
    EXPECT_OK(kl_masked_scatter(&out, a, rows, parts, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 10, 11, 12);
    EXPECT_FAIL(KL_ESHAPE, kl_masked_scatter(&out, a, rows, src, cpu(), &err));
    EXPECT_OK(kl_masked_scatter(&out, a, none, two, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    /* A 0-d source is used for every place. */
    EXPECT_OK(kl_masked_scatter(&out, a, mask, one, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), -1, 1, -1, 3, -1, 5);
    EXPECT_OK(kl_masked_scatter(&out, a, all, one, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), -1, -1, -1, -1, -1, -1);
    EXPECT_OK(kl_masked_scatter(&out, e, e_mask, parts, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_FAIL(KL_ESHAPE, kl_masked_scatter(&out, e, e_mask, two, cpu(), &err));
    /* The source has no third element. */
    EXPECT_OK(kl_masked_scatter(&out, a, mask, two, cpu(), &err));
    expect_index_fault(out, 4, 0, 2, 2);
    EXPECT_FAIL(KL_EDTYPE, kl_masked_scatter(&out, a, a, two, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_masked_scatter(&out, a, e_mask, two, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_masked_scatter(&out, one, rows, two, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_masked_scatter(&out, NULL, mask, two, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_masked_scatter(&out, a, NULL, two, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_masked_scatter(&out, a, mask, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_masked_scatter(&out, a, mask, two, NULL, &err));
    struct kl_array *used[] = {a, mask, rows, none, all, src, two, one, e, e_mask, parts};
    for (int i = 0; i < 11; i++) kl_array_release(used[i]);
}

/* The shapes of sources that are taken, and the result, with a mask that leaves two of three
 * axes. */
static void sources(void **state) {
    static const struct {
        int ndim, dims[4];
        enum { REFUSED, MISSING, TAKEN } outcome;
        int32_t want[16]; /* the first two elements are compared when the source is taken */
    } cases[] = {
        {0, {0}, TAKEN, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {1, {1}, TAKEN, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {1, {4}, TAKEN, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}},
        {1, {2}, REFUSED, {0}},
        {1, {8}, REFUSED, {0}},
        {1, {16}, REFUSED, {0}},
        {1, {0}, REFUSED, {0}},
        {2, {1, 1}, TAKEN, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {2, {1, 4}, TAKEN, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}},
        {2, {2, 1}, TAKEN, {1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2}},
        {2, {2, 4}, TAKEN, {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}},
        {2, {3, 4}, REFUSED, {0}},
        {2, {4, 1}, REFUSED, {0}},
        {3, {2, 2, 4}, TAKEN, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {3, {3, 2, 4}, TAKEN, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
        {3, {2, 1, 4}, TAKEN, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8}},
        {3, {2, 1, 1}, TAKEN, {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}},
        {3, {1, 2, 4}, MISSING, {0}},
        {3, {1, 1, 1}, MISSING, {0}},
        {3, {0, 2, 4}, MISSING, {0}},
        {3, {2, 4, 2}, REFUSED, {0}},
        {4, {1, 1, 1, 1}, REFUSED, {0}},
        {4, {1, 2, 2, 4}, REFUSED, {0}},
    };
    bool flags[] = {1, 0, 1};
    struct kl_array *mask = array_of(KL_BOOL, SHAPE(3), flags), *a, *out;
    EXPECT_OK(kl_zeros(&a, LIST(3, 2, 4), KL_I32, cpu(), &err));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int32_t counted[64], want[24] = {0};
        for (int i = 0; i < 64; i++) counted[i] = i + 1;
        struct kl_array *src = array_of(KL_I32, cases[k].ndim, cases[k].dims, counted);
        if (cases[k].outcome == REFUSED) {
            EXPECT_FAIL(KL_ESHAPE, kl_masked_scatter(&out, a, mask, src, cpu(), &err));
        } else {
            EXPECT_OK(kl_masked_scatter(&out, a, mask, src, cpu(), &err));
            memcpy(want, cases[k].want, 8 * sizeof *want);
            memcpy(want + 16, cases[k].want + 8, 8 * sizeof *want);
            if (cases[k].outcome == TAKEN)
                expect_i32(out, SHAPE(3, 2, 4), want);
            else
                expect_eval_fails(out, KL_EINDEX, "index");
        }
        kl_array_release(src);
    }
    kl_array_release(a);
    kl_array_release(mask);
    /* A 0-d mask leaves all axes. Where no place is true, the source may have no elements. */
    struct kl_array *all = scalar_of(KL_BOOL, 1), *no = scalar_of(KL_BOOL, 0),
                    *three = count_up(SHAPE(3)), *row = I32(SHAPE(1, 3), 7, 8, 9),
                    *nothing = array_of(KL_I32, SHAPE(0, 3), NULL);
    EXPECT_OK(kl_masked_scatter(&out, three, all, row, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 7, 8, 9);
    EXPECT_OK(kl_masked_scatter(&out, three, no, row, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 0, 1, 2);
    EXPECT_OK(kl_masked_scatter(&out, three, no, nothing, cpu(), &err));
    EXPECT_I32(out, SHAPE(3), 0, 1, 2);
    struct kl_array *used[] = {all, no, three, row, nothing};
    for (int i = 0; i < 5; i++) kl_array_release(used[i]);
}

static void large(void **state) {
    enum { N = 300000 };
    bool *m = malloc(N);
    for (int i = 0; i < N; i++) m[i] = i % 3 == 1;
    struct kl_array *mask = array_of(KL_BOOL, SHAPE(N), m), *src = count_up(SHAPE(N / 3)), *a, *out;
    EXPECT_OK(kl_zeros(&a, LIST(N), KL_I32, cpu(), &err));
    EXPECT_OK(kl_masked_scatter(&out, a, mask, src, cpu(), &err));
    int32_t *v = values_of(out);
    for (int i = 0; i < N; i++) assert_int_equal(v[i], m[i] ? i / 3 : 0);
    free(v);
    free(m);
    struct kl_array *used[] = {mask, src, a, out};
    for (int i = 0; i < 4; i++) kl_array_release(used[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masked), cmocka_unit_test(sources),
                                       cmocka_unit_test(large)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
