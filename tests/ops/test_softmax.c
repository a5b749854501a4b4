/* softmax. */
#include "golden.h"

#include "golden_softmax.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(softmax_cases);
}

static void special_rows(void **state) {
    struct kl_array *a = F32(SHAPE(4, 2), 1000, 1000, -INFINITY, 3, -INFINITY, -INFINITY, NAN, 1),
                    *out;
    EXPECT_OK(kl_softmax_axis(&out, a, 1, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(4, 2), 0.5f, 0.5f, 0, 1, NAN, NAN, NAN, NAN);
    EXPECT_OK(kl_softmax_axes(&out, a, NULL, 0, false, cpu(), &err)); /* each alone */
    EXPECT_F32(out, SHAPE(4, 2), 1, 1, NAN, 1, NAN, NAN, NAN, 1);
    kl_array_release(a);
    struct kl_array *s = scalar_of(KL_I32, 5), *e = array_of(KL_F32, SHAPE(0, 3), NULL);
    EXPECT_OK(kl_softmax(&out, s, false, cpu(), &err));
    EXPECT_F32(out, SCALAR, 1);
    EXPECT_OK(kl_softmax_axis(&out, e, 0, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    EXPECT_OK(kl_softmax_axis(&out, e, 1, false, cpu(), &err));
    EXPECT_F32(out, SHAPE(0, 3), 0);
    kl_array_release(s);
    kl_array_release(e);
}

/* A row over many tiles, in float32 and float16. */
static void long_rows(void **state) {
    enum { N = 5000 };
    struct kl_array *a, *b, *out, *sum;
    EXPECT_OK(kl_arange(&a, 0, 50, 0.01, KL_F32, cpu(), &err));
    EXPECT_OK(kl_softmax(&out, a, true, cpu(), &err));
    EXPECT_OK(kl_sum(&sum, out, false, cpu(), &err));
    float *v = values_of(out), *total = values_of(sum);
    assert_true(fabsf(total[0] - 1) < 1e-6f);
    for (int i = 1; i < N; i += 99) assert_true(fabs(v[i] / v[i - 1] - exp(0.01)) < 1e-5);
    free(v);
    free(total);
    kl_array_release(sum);
    kl_array_release(out);
    EXPECT_OK(kl_astype(&b, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_softmax(&out, b, true, cpu(), &err));
    assert_int_equal(out->t.dtype, KL_F16);
    uint16_t *h = values_of(out);
    assert_true(fabsf(kl_f16_to_f32(h[N - 1]) - 0.00995f) < 2e-4f);
    free(h);
    kl_array_release(out);
    kl_array_release(a);
    kl_array_release(b);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *out;
    EXPECT_FAIL(KL_EARG, kl_softmax(&out, NULL, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax(&out, a, true, NULL, &err));
    EXPECT_FAIL(KL_EAXIS, kl_softmax_axis(&out, a, 2, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axis(&out, NULL, 0, true, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_softmax_axes(&out, a, LIST(0, 0), true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axes(&out, a, NULL, 1, true, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_softmax_axes(&out, NULL, NULL, 0, true, cpu(), &err));
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(special_rows),
                                       cmocka_unit_test(long_rows), cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
