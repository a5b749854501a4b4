/* test_elementwise_unary.c - element-wise operations of one operand against NumPy; bad
 * arguments. */
#include "ops/golden/golden.h"

#include "ops/golden/golden_unary.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(unary_cases);
}

static void shapes(void **state) {
    struct kl_array *a = scalar_of(KL_F32, 2), *empty = array_of(KL_F32, SHAPE(3, 0), NULL), *out;
    EXPECT_OK(kl_negative(&out, a, cpu(), &err));
    EXPECT_F32(out, SCALAR, -2);
    EXPECT_OK(kl_exp(&out, empty, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 0), 0);
    kl_array_release(a);
    kl_array_release(empty);
}

/* Large enough for several threads and several tiles, with a tail. */
static void large(void **state) {
    int n = (1 << 18) + 700;
    struct kl_array *a = count_up(1, &n), *b, *out;
    EXPECT_OK(kl_astype(&b, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_negative(&out, a, cpu(), &err));
    int32_t *v = values_of(out);
    for (int i = 0; i < n; i++) assert_int_equal(v[i], -i);
    free(v);
    kl_array_release(out);
    EXPECT_OK(kl_negative(&out, b, cpu(), &err));
    uint16_t *h = values_of(out);
    for (int i = 0; i < n; i += 7) assert_int_equal(h[i], kl_f32_to_f16(-(float)i));
    free(h);
    kl_array_release(out);
    kl_array_release(b);
    kl_array_release(a);
}

/* ---- gradients ---- */

static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    return (*(kl_unary_fn *const *)how)(out, in[0], cpu(), err);
}

/* The sign of the operand decides. (The interval in the table has one sign only.) */
static void gradient_of_abs(void **state) {
    static kl_unary_fn *const size = kl_abs;
    struct kl_array *minus = array_of(KL_F64, SHAPE(2), (double[]){-0.3, 2});
    check_vjp("abs", build, &size, &minus, 1, 0);
    kl_array_release(minus);
}

/* The gradient of abs at 0 is 0, for real and complex numbers. */
static void gradient_at_zero(void **state) {
    for (int k = 0; k < 2; k++) {
        enum kl_dtype t = k ? KL_C64 : KL_F32;
        struct kl_array *zero = scalar_of(t, 0), *y, *one = scalar_of(KL_F32, 1), *g = NULL;
        EXPECT_OK(kl_abs(&y, zero, cpu(), &err));
        bool wanted = true;
        struct kl_vjp v = {KL_OP_ABS, NULL, 1, 1, &zero, &y, &one, &wanted, cpu()};
        EXPECT_OK(kl_vjp_rule(KL_OP_ABS)(&v, &g, &err));
        assert_int_equal(g->t.dtype, t);
        float *f = values_of(g);
        assert_true(f[0] == 0 && (!k || f[1] == 0));
        free(f);
        struct kl_array *all[] = {zero, y, one, g};
        for (int i = 0; i < 4; i++) kl_array_release(all[i]);
    }
}

/* When an allocation fails, the rule fails; the caller releases the gradients that the rule has
 * already made. */
static void gradient_without_memory(void **state) {
    struct kl_array *x = array_of(KL_C64, SHAPE(2), (float[]){1, 2, 3, 4}), *y, *g, *cotangent;
    EXPECT_OK(kl_sqrt(&y, x, cpu(), &err));
    EXPECT_OK(kl_ones_like(&cotangent, y, cpu(), &err));
    bool wanted = true;
    struct kl_vjp v = {KL_OP_SQRT, NULL, 1, 1, &x, &y, &cotangent, &wanted, cpu()};
    kl_until_quiet(); /* what was evaluated before is freed by other threads */
    int64_t live = kl_test_n_live();
    for (int n = 0;; n++) {
        g = NULL;
        kl_test_fail_alloc_at(n);
        int rc = kl_vjp_rule(KL_OP_SQRT)(&v, &g, NULL);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_int_equal(rc, failed ? KL_ENOMEM : KL_OK);
        kl_array_release(g);
        assert_int_equal(kl_test_n_live(), live);
        if (!failed) {
            assert_true(n >= 3);
            break;
        }
    }
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(cotangent);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(shapes),
                                       cmocka_unit_test(large),

                                       cmocka_unit_test(gradient_of_abs),
                                       cmocka_unit_test(gradient_at_zero),
                                       cmocka_unit_test(gradient_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
