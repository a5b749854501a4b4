/* sort, argsort, topk. */
#include "golden.h"

#include "golden_sort.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(sort_cases);
}

/* Long rows with many equal keys: ordered, stable, a permutation. */
static void long_rows(void **state) {
    static const enum kl_dtype dtypes[] = {KL_U8, KL_I16, KL_F32, KL_I64, KL_F64};
    enum { N = 20011 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        int32_t *v = malloc(N * sizeof *v);
        uint32_t seed = 99;
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525 + 1013904223;
            v[i] = (int32_t)(seed >> 24) % 100;
        }
        struct kl_array *raw = array_of(KL_I32, SHAPE(N), v), *a, *order, *sorted, *as_int;
        EXPECT_OK(kl_astype(&a, raw, dtypes[d], cpu(), &err));
        EXPECT_OK(kl_argsort(&order, a, cpu(), &err));
        EXPECT_OK(kl_sort(&sorted, a, cpu(), &err));
        EXPECT_OK(kl_astype(&as_int, sorted, KL_I32, cpu(), &err));
        uint32_t *o = values_of(order);
        int32_t *s = values_of(as_int);
        for (int i = 0; i < N; i++) {
            assert_true(o[i] < N && v[o[i]] == s[i]);
            if (i) assert_true(s[i - 1] < s[i] || (s[i - 1] == s[i] && o[i - 1] < o[i]));
        }
        free(o);
        free(s);
        free(v);
        kl_array_release(raw);
        kl_array_release(a);
        kl_array_release(order);
        kl_array_release(sorted);
        kl_array_release(as_int);
    }
}

static void zeros_keep_their_order(void **state) {
    struct kl_array *a = F32(SHAPE(5), 0.0f, -0.0f, NAN, -1, 0.0f), *out;
    EXPECT_OK(kl_sort_axis(&out, a, 0, cpu(), &err));
    EXPECT_F32(out, SHAPE(5), -1, 0.0f, -0.0f, 0.0f, NAN);
    kl_array_release(a);
}

static void shapes(void **state) {
    struct kl_array *a = I32(SHAPE(2, 2), 4, 1, 3, 2), *s = scalar_of(KL_I32, 9),
                    *e = count_up(SHAPE(0, 3)), *out;
    EXPECT_OK(kl_sort(&out, a, cpu(), &err));
    EXPECT_I32(out, SHAPE(4), 1, 2, 3, 4);
    EXPECT_OK(kl_sort(&out, s, cpu(), &err));
    EXPECT_I32(out, SHAPE(1), 9);
    EXPECT_OK(kl_sort_axis(&out, e, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_sort_axis(&out, e, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_argsort_axis(&out, a, 1, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_U32);
    assert_true(out->has_range && out->lo == 0 && out->hi == 1);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(s);
    kl_array_release(e);
}

static void topk(void **state) {
    struct kl_array *a = I32(SHAPE(2, 3), 4, 1, 3, 2, 6, 5), *out;
    EXPECT_OK(kl_topk(&out, a, 2, cpu(), &err));
    EXPECT_I32(out, SHAPE(2), 5, 6);
    EXPECT_OK(kl_topk_axis(&out, a, 2, -1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 3, 4, 5, 6);
    EXPECT_OK(kl_topk_axis(&out, a, 2, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 2, 1, 3, 4, 6, 5);
    EXPECT_OK(kl_topk_axis(&out, a, 0, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_FAIL(KL_EARG, kl_topk(&out, a, 7, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_topk(&out, a, -1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_topk_axis(&out, a, 3, 0, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_topk_axis(&out, a, 1, 2, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_topk(&out, NULL, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_topk_axis(&out, NULL, 1, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_topk(&out, a, 1, NULL, &err));
    kl_array_release(a);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *s = scalar_of(KL_I32, 1), *out;
    kl_unary_fn *const flat[] = {kl_sort, kl_argsort};
    golden_along_fn *const along[] = {kl_sort_axis, kl_argsort_axis};
    for (int i = 0; i < 2; i++) {
        EXPECT_FAIL(KL_EARG, flat[i](&out, NULL, cpu(), &err));
        EXPECT_FAIL(KL_EARG, flat[i](&out, a, NULL, &err));
        EXPECT_FAIL(KL_EARG, along[i](&out, NULL, 0, cpu(), &err));
        EXPECT_FAIL(KL_EARG, along[i](&out, a, 0, NULL, &err));
        EXPECT_FAIL(KL_EAXIS, along[i](&out, a, 2, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, along[i](&out, s, 0, cpu(), &err));
    }
    kl_array_release(a);
    kl_array_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(long_rows),
                                       cmocka_unit_test(zeros_keep_their_order),
                                       cmocka_unit_test(shapes),
                                       cmocka_unit_test(topk),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
