/* test_create.c - the kernels RANDOM_BITS, ARANGE and CONCATENATE: batches of keys, and chunks that
 * run in any order. */
#include "backend/cpu/kernel_support.h"

#include "base/number/threefry.h"

static void batches(void **state) {
    static const int widths[] = {1, 2, 4};
    static const enum kl_dtype dtypes[] = {KL_U8, KL_U16, KL_U32};
    uint32_t keys[] = {1, 2, 3, 4, 5, 6};
    for (int w = 0; w < 3; w++)
        for (int n = 1; n < 20; n++) {
            struct kl_bits_params p = {widths[w]};
            unsigned char all[3 * 20 * 4], one[20 * 4];
            struct operand k, z;
            RUN(KL_OP_RANDOM_BITS, &p, dense(&z, all, dtypes[w], DIMS(3, n)),
                IN(dense(&k, keys, KL_U32, DIMS(3, 2))), true);
            for (int i = 0; i < 3; i++) {
                RUN(KL_OP_RANDOM_BITS, &p, dense(&z, one, dtypes[w], DIMS(n)),
                    IN(dense(&k, keys + 2 * i, KL_U32, DIMS(2))), false);
                assert_memory_equal(one, all + i * n * widths[w], (size_t)(n * widths[w]));
            }
        }
    /* The keys are transposed: an array stored with shape (2, 3) is read with shape (3, 2). */
    uint32_t columns[] = {1, 3, 5, 2, 4, 6}, x[12], y[12];
    struct kl_bits_params p = {4};
    struct operand k, z;
    strided_operand(&k, columns, KL_U32, DIMS(3, 2), STRIDES(1, 3));
    RUN(KL_OP_RANDOM_BITS, &p, dense(&z, x, KL_U32, DIMS(3, 4)), IN(&k), false);
    RUN(KL_OP_RANDOM_BITS, &p, dense(&z, y, KL_U32, DIMS(3, 4)),
        IN(dense(&k, keys, KL_U32, DIMS(3, 2))), false);
    assert_memory_equal(x, y, sizeof x);
}

static void chunks(void **state) {
    enum { N = 200003 };
    uint32_t key[] = {0, 9}, *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    struct kl_bits_params p = {4};
    struct operand k, z;
    dense(&k, key, KL_U32, DIMS(2));
    RUN(KL_OP_RANDOM_BITS, &p, dense(&z, a, KL_U32, DIMS(N)), IN(&k), false);
    n_shared = 0;
    RUN(KL_OP_RANDOM_BITS, &p, dense(&z, b, KL_U32, DIMS(N)), IN(&k), true);
    assert_true(n_shared > 1);
    assert_memory_equal(a, b, N * sizeof *a);
    struct kl_arange_params r = {5, -3};
    launch(KL_OP_ARANGE, &r, dense(&z, a, KL_I32, DIMS(N)), 0, NULL, true, 0, 0, true);
    for (int i = 0; i < N; i += 13) assert_int_equal((int32_t)a[i], 5 - 3 * i);
    /* The first half of the output is made before the second half. */
    struct kl_axis_params axis = {0};
    struct operand x, y;
    dense(&x, a, KL_U32, DIMS(N / 2));
    dense(&y, a + N / 2, KL_U32, DIMS(N - N / 2));
    RUN(KL_OP_CONCATENATE, &axis, dense(&z, b, KL_U32, DIMS(N)), IN(&x, &y), true);
    assert_memory_equal(a, b, N * sizeof *a);
    free(a);
    free(b);
}

/* The results that the authors of the generator (Threefry) publish for it. */
static void threefry(void **state) {
    struct kl_threefry zero = kl_threefry_2x32((struct kl_threefry){{0, 0}}, 0, 0);
    assert_true(zero.x[0] == 0x6b200159 && zero.x[1] == 0x99ba4efe);
    struct kl_threefry ones =
        kl_threefry_2x32((struct kl_threefry){{UINT32_MAX, UINT32_MAX}}, UINT32_MAX, UINT32_MAX);
    assert_true(ones.x[0] == 0x1cb996fc && ones.x[1] == 0xbb002be7);
    struct kl_threefry pi =
        kl_threefry_2x32((struct kl_threefry){{0x13198a2e, 0x03707344}}, 0x243f6a88, 0x85a308d3);
    assert_true(pi.x[0] == 0xc4923a9c && pi.x[1] == 0x483df7a0);
}

/* Every word belongs to the right pair of counters, in every variant: in whole and partial tiles,
 * in outputs of an odd length, and where the last word is cut. */
static void words(void **state) {
    static const int sizes[] = {1,    2,    3,    31,   1023,  1024, 1025,
                                1026, 1027, 2047, 2049, 65537, 70001};
    struct kl_threefry key = {{0x13198a2e, 0x03707344}};
    struct operand k, z;
    uint32_t want[70002], got[70002];
    dense(&k, key.x, KL_U32, DIMS(2));
    for (int v = 0; v < kl_cpu_n_variants(); v++) {
        kl_cpu_use_variant(v);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int width = 1; width <= 4; width *= 2) {
                int bytes = sizes[s] * width, n = (bytes + 3) / 4, pairs = (n + 1) / 2;
                struct kl_bits_params p = {width};
                for (int i = 0; i < pairs; i++) {
                    struct kl_threefry w = kl_threefry_pair(key, n, i);
                    want[i] = w.x[0];
                    if (pairs + i < n) want[pairs + i] = w.x[1];
                }
                RUN(KL_OP_RANDOM_BITS, &p,
                    dense(&z, got,
                          width == 1   ? KL_U8
                          : width == 2 ? KL_U16
                                       : KL_U32,
                          DIMS(sizes[s])),
                    IN(&k), true);
                assert_memory_equal(got, want, (size_t)bytes);
            }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches), cmocka_unit_test(chunks),
                                       cmocka_unit_test(words), cmocka_unit_test(threefry)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
