/* test_create_window.c - the shape and the symmetry of windows, and bad arguments. Golden rows
 * (test_create) have the values. */
#include "ops/support/helpers.h"

static kl_window_fn *const all[] = {kl_hanning, kl_hamming, kl_blackman, kl_bartlett};

static void windows(void **state) {
    for (int k = 0; k < 4; k++) {
        struct kl_array *out;
        EXPECT_OK(all[k](&out, 0, cpu(), &err));
        EXPECT_F32(out, SHAPE(0), 0);
        EXPECT_OK(all[k](&out, -3, cpu(), &err));
        EXPECT_F32(out, SHAPE(0), 0);
        EXPECT_OK(all[k](&out, 1, cpu(), &err));
        EXPECT_F32(out, SHAPE(1), 1);
        for (int n = 2; n < 40; n++) {
            EXPECT_OK(all[k](&out, n, cpu(), &err));
            float *v = values_of(out);
            for (int i = 0; i < n; i++) {
                assert_int_equal(kl_f32_bits(v[i]), kl_f32_bits(v[n - 1 - i]));
                assert_true(v[i] >= 0 && v[i] <= 1 && (n % 2 == 0 || v[n / 2] == 1));
            }
            assert_true(v[0] == (k == 1 ? 0.08f : 0.0f));
            free(v);
            kl_array_release(out);
        }
        EXPECT_FAIL(KL_EARG, all[k](&out, 3, NULL, &err));
    }
}

/* Nothing is computed when a window is built, and a device gives the CPU's bits. */
static void lazy(void **state) {
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 1000; n = 3 * n + 1) {
            struct kl_array *out, *other;
            EXPECT_OK(all[k](&out, n, cpu(), &err));
            EXPECT_OK(all[k](&other, n, sim(), &err));
            /* A window of one element is a constant. */
            assert_false(n > 1 && kl_fate_settled(out->t.fate));
            assert_false(n > 1 && kl_fate_settled(other->t.fate));
            float *v = values_of(out), *w = values_of(other);
            assert_memory_equal(v, w, (size_t)n * sizeof *v);
            free(v);
            free(w);
            kl_array_release(out);
            kl_array_release(other);
        }
    struct kl_array *out; /* 10^9 elements are not computed unless they are read */
    EXPECT_OK(kl_hanning(&out, 1000000000, cpu(), &err));
    kl_array_release(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows), cmocka_unit_test(lazy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
