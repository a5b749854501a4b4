/* test_sort.c - sort, argsort, partition, argpartition, topk. */
#include "ops/golden/golden.h"

#include "backend/cpu/cpu_kernels.h"
#include "ops/golden/golden_sort.inc"
#include "ops/support/vjp_support.h"

static void values(void **state) {
    GOLDEN_RUN_ALL(sort_cases);
}

/* Long rows with many equal keys: the result is sorted, stable, and a permutation. */
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

/* n elements with random bits, with few different values if `few` is set. Floats include zeros of
 * both signs, infinities and NaN. */
static struct kl_array *random_elements(enum kl_dtype dtype, int n, bool few) {
    size_t item = kl_dtype_size(dtype);
    unsigned char *v = malloc((size_t)n * item);
    uint32_t seed = 77;
    for (size_t i = 0; i < (size_t)n * item; i++) {
        seed = seed * 1664525 + 1013904223;
        v[i] = (unsigned char)(seed >> 24);
        if (dtype == KL_BOOL) v[i] &= 1;
        if (few) v[i] = i % item == item - 1 ? v[i] & 0x83 : 0;
        if (few && dtype == KL_BOOL) v[i] &= 1;
    }
    struct kl_array *bits = array_of(dtype, 1, &n, v), *special, *out;
    free(v);
    if (!kl_dtype_is_float(dtype)) return bits;
    struct kl_array *f = F32(SHAPE(5), 0.0f, -0.0f, INFINITY, NAN, -INFINITY);
    EXPECT_OK(kl_astype(&special, f, (int)dtype, cpu(), &err));
    EXPECT_OK(
        kl_concatenate_axis(&out, (struct kl_array *[]){bits, special, bits}, 3, 0, cpu(), &err));
    kl_array_release(bits);
    kl_array_release(special);
    kl_array_release(f);
    return out;
}

static const int sizes[] = {1, 2, 30, 511, 512, 700, 40000, 150000};
enum { N_SIZES = 8 };

/* SORT gives values and ARGSORT gives positions. Both must agree bit for bit, also for equal keys,
 * and the order must be right. */
static void sort_and_argsort_agree(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int s = 0; s < 2 * N_SIZES; s++) {
            if (!kl_test_takes("cpu", 1)) continue;
            struct kl_array *a = random_elements((enum kl_dtype)d, sizes[s / 2], s % 2), *sorted,
                            *order, *taken, *less;
            EXPECT_OK(kl_sort_axis(&sorted, a, 0, cpu(), &err));
            EXPECT_OK(kl_argsort_axis(&order, a, 0, cpu(), &err));
            EXPECT_OK(kl_take_axis(&taken, a, order, 0, cpu(), &err));
            int n = a->t.dims[0];
            size_t item = kl_dtype_size((enum kl_dtype)d);
            char *x = values_of(sorted), *y = values_of(taken), *before = values_of(a);
            if (memcmp(x, y, (size_t)n * item))
                fail_msg("%s, %d elements", kl_dtype_name((enum kl_dtype)d), n);
            struct kl_array *left, *right;
            EXPECT_OK(kl_slice(&left, sorted, LIST(0), LIST(n - 1), LIST(1), cpu(), &err));
            EXPECT_OK(kl_slice(&right, sorted, LIST(1), LIST(n), LIST(1), cpu(), &err));
            EXPECT_OK(kl_less(&less, right, left, cpu(), &err));
            bool *out_of_order = values_of(less);
            uint32_t *o = values_of(order);
            char *seen = calloc((size_t)n, 1);
            for (int i = 0; i < n; i++) {
                assert_true(o[i] < (uint32_t)n && !seen[o[i]]++);
                if (i == 0) continue;
                if (d != KL_C64) /* Numbers with a NaN part are ordered among themselves. */
                    assert_false(out_of_order[i - 1]);
                if (memcmp(x + (size_t)i * item, x + (size_t)(i - 1) * item, item) == 0)
                    assert_true(o[i - 1] < o[i]);
            }
            free(seen);
            free(o);
            free(out_of_order);
            free(x);
            free(y);
            free(before);
            struct kl_array *made[] = {a, sorted, order, taken, less, left, right};
            for (int k = 0; k < 7; k++) kl_array_release(made[k]);
        }
}

/* The k largest elements are the end of the sorted row, also when elements are equal. */
static void topk_is_the_end_of_sort(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int s = 0; s < 2 * N_SIZES; s++) {
            if (!kl_test_takes("cpu", 1)) continue;
            struct kl_array *a = random_elements((enum kl_dtype)d, sizes[s / 2], s % 2), *sorted,
                            *top;
            int n = a->t.dims[0], ks[] = {1, 2, 10, 100, 1000, n / 2, n - 1, n, 63, 64, 65};
            size_t item = kl_dtype_size((enum kl_dtype)d);
            EXPECT_OK(kl_sort_axis(&sorted, a, 0, cpu(), &err));
            char *x = values_of(sorted);
            for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
                if (ks[k] > n) continue;
                EXPECT_OK(kl_topk_axis(&top, a, ks[k], 0, cpu(), &err));
                char *y = values_of(top);
                if (memcmp(x + (size_t)(n - ks[k]) * item, y, (size_t)ks[k] * item))
                    fail_msg("%s, %d of %d", kl_dtype_name((enum kl_dtype)d), ks[k], n);
                free(y);
                kl_array_release(top);
            }
            free(x);
            kl_array_release(a);
            kl_array_release(sorted);
        }
}

/* Runs in every variant, since a vector tests many elements at a time. */
static void the_largest_counts_at_every_place(void **state) {
    enum { N = 701, FIRST = 512 }; /* the kernel tests the first 512 one by one */
    for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
        kl_cpu_use_variant(variant);
        for (int at = FIRST - 1; at < N; at++)
            for (int nan = 0; nan < 2; nan++) {
                if (!kl_test_takes("cpu", 1)) continue;
                float v[N];
                for (int i = 0; i < N; i++) v[i] = i < 2 ? 0.0f : -1.0f;
                v[at] = nan ? NAN : 5.0f;
                /* Equal to the smallest of the k, and behind it. */
                if (at + 1 < N) v[at + 1] = 0.0f;
                struct kl_array *a = array_of(KL_F32, SHAPE(N), v), *top;
                EXPECT_OK(kl_topk_axis(&top, a, 2, 0, cpu(), &err));
                float *y = values_of(top);
                if (y[0] != 0.0f || (nan ? y[1] == y[1] : y[1] != 5.0f))
                    fail_msg("%s: %g and %g, place %d", kl_cpu_variant_name(variant), (double)y[0],
                             (double)y[1], at);
                free(y);
                kl_array_release(a);
                kl_array_release(top);
            }
    }
    kl_cpu_use_variant(-1);
}

/* Long rows of float32, which the kernel first scans for a threshold. The lengths are near those
 * from which on it does so, and long enough for one pass and more. */
/* Many elements of columns, whose results are apart. */
static void topk_of_columns(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++) {
        struct kl_array *flat = random_elements((enum kl_dtype)d, 900, d % 2), *a, *columns, *rows,
                        *turned, *top[3];
        const int n = flat->t.dims[0] / 3;
        EXPECT_OK(kl_slice(&a, flat, LIST(0), LIST(3 * n), LIST(1), cpu(), &err));
        EXPECT_OK(kl_reshape(&columns, a, LIST(n, 3), cpu(), &err));
        EXPECT_OK(kl_topk_axis(&top[0], columns, 100, 0, cpu(), &err));
        EXPECT_OK(kl_transpose(&turned, columns, cpu(), &err));
        EXPECT_OK(kl_contiguous(&rows, turned, false, cpu(), &err));
        EXPECT_OK(kl_topk_axis(&top[1], rows, 100, 1, cpu(), &err));
        EXPECT_OK(kl_transpose(&top[2], top[1], cpu(), &err));
        char *x = values_of(top[0]), *y = values_of(top[2]);
        assert_memory_equal(x, y, 300 * kl_dtype_size((enum kl_dtype)d));
        free(x);
        free(y);
        struct kl_array *made[] = {flat, a, columns, rows, turned, top[0], top[1], top[2]};
        for (int k = 0; k < 8; k++) kl_array_release(made[k]);
    }
}

static void topk_of_long_rows(void **state) {
    enum { ROWS = 9 };
    static const int lengths[] = {511,   683,   1024,  2047,   2048,   2049,   27306,
                                  27307, 44032, 65537, 131071, 131072, 131073, 131072 + 513};
    static const int ks[] = {1, 2, 3, 40, 64, 65, 100};
    uint32_t seed = 5;
    for (size_t c = 0; c < sizeof lengths / sizeof *lengths; c++) {
        int n = lengths[c];
        float *v = malloc((size_t)n * ROWS * sizeof *v);
        for (int i = 0; i < n * ROWS; i++) {
            int at = i % n, row = i / n;
            seed = seed * 1664525 + 1013904223;
            v[i] = (float)(int32_t)seed; /* row 0 has random numbers */
            if (row == 1) v[i] = (float)at;
            if (row == 2) v[i] = (float)-at;
            if (row == 3) v[i] = 1.0f;
            if (row == 4) v[i] = seed >> 31 ? 0.0f : -0.0f;
            if (row == 5) v[i] = seed >> 18 ? -INFINITY : v[i];
            if (row == 6) v[i] = (float)(seed >> 29);
            if (row == 7 && seed >> 24 == 0) v[i] = seed >> 23 & 1 ? NAN : -NAN;
            if (row == 8) v[i] = seed >> 22 ? -INFINITY : at % 2 ? NAN : -NAN;
        }
        struct kl_array *a = array_of(KL_F32, SHAPE(ROWS, n), v), *sorted, *top;
        EXPECT_OK(kl_sort_axis(&sorted, a, 1, cpu(), &err));
        float *x = values_of(sorted);
        for (int variant = 0; variant < kl_cpu_n_variants(); variant++)
            for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
                kl_cpu_use_variant(variant);
                EXPECT_OK(kl_topk_axis(&top, a, ks[k], 1, cpu(), &err));
                float *y = values_of(top);
                for (int row = 0; row < ROWS; row++)
                    if (memcmp(x + (row + 1) * n - ks[k], y + row * ks[k],
                               (size_t)ks[k] * sizeof *y))
                        fail_msg("%s: %d of %d, row %d", kl_cpu_variant_name(variant), ks[k], n,
                                 row);
                free(y);
                kl_array_release(top);
            }
        kl_cpu_use_variant(-1);
        free(x);
        free(v);
        kl_array_release(a);
        kl_array_release(sorted);
    }
}

static void partitions(void **state) {
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int s = 0; s < 2 * N_SIZES; s++) {
            if (!kl_test_takes("cpu", 1)) continue;
            struct kl_array *a = random_elements((enum kl_dtype)d, sizes[s / 2], s % 2), *sorted,
                            *parted, *order, *taken;
            int n = a->t.dims[0], kths[] = {0, n / 3, n - 1, -1, -n};
            size_t item = kl_dtype_size((enum kl_dtype)d);
            EXPECT_OK(kl_sort_axis(&sorted, a, 0, cpu(), &err));
            for (int k = 0; k < 5; k++) {
                struct kl_array *part[2], *again, *both;
                int kth = kths[k], at = kth < 0 ? kth + n : kth;
                EXPECT_OK(kl_partition_axis(&parted, a, kth, 0, cpu(), &err));
                EXPECT_OK(kl_argpartition_axis(&order, a, kth, -1, cpu(), &err));
                assert_true(order->has_range && order->hi == n - 1);
                EXPECT_OK(kl_take_axis(&taken, a, order, 0, cpu(), &err));
                char *x = values_of(parted), *y = values_of(taken), *z = values_of(sorted);
                assert_memory_equal(x, y, (size_t)n * item);
                free(x);
                free(y);
                /* When each side is sorted, the result is the sorted row, except that equal
                 * elements may be exchanged. */
                EXPECT_OK(kl_slice(&part[0], parted, LIST(0), LIST(at), LIST(1), cpu(), &err));
                EXPECT_OK(kl_slice(&part[1], parted, LIST(at), LIST(n), LIST(1), cpu(), &err));
                for (int side = 0; side < 2; side++) {
                    EXPECT_OK(kl_sort_axis(&again, part[side], 0, cpu(), &err));
                    kl_array_release(part[side]);
                    part[side] = again;
                }
                EXPECT_OK(kl_concatenate_axis(&both, part, 2, 0, cpu(), &err));
                x = values_of(both);
                assert_memory_equal(x, z, (size_t)n * item);
                free(x);
                free(z);
                struct kl_array *made[] = {parted, order, taken, part[0], part[1], both};
                for (int i = 0; i < 6; i++) kl_array_release(made[i]);
            }
            kl_array_release(a);
            kl_array_release(sorted);
        }
}

static void partition_shapes(void **state) {
    struct kl_array *a = I32(SHAPE(2, 3), 3, 1, 2, 6, 4, 5), *e = count_up(SHAPE(0, 3)), *out, *t,
                    *s = scalar_of(KL_I32, 9);
    EXPECT_OK(kl_partition_axis(&out, a, 0, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 1, 3, 2, 4, 6, 5);
    /* The kernel of a device sorts the whole row. */
    EXPECT_OK(kl_partition_axis(&out, a, 1, 1, sim(), &err));
    EXPECT_I32(out, SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    EXPECT_OK(kl_topk_axis(&out, a, 2, 1, sim(), &err));
    EXPECT_I32(out, SHAPE(2, 2), 2, 3, 5, 6);
    EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
    EXPECT_OK(kl_partition_axis(&out, t, 1, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(3, 2), 3, 6, 1, 4, 2, 5);
    EXPECT_OK(kl_topk_axis(&out, t, 1, 0, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 3, 6);
    EXPECT_OK(kl_partition(&out, a, -6, cpu(), &err));
    EXPECT_I32(out, SHAPE(6), 1, 3, 2, 6, 4, 5);
    EXPECT_OK(kl_argpartition(&out, s, 0, cpu(), &err));
    expect_shape(out, SHAPE(1));
    assert_int_equal(out->t.dtype, KL_U32);
    kl_array_release(out);
    EXPECT_OK(kl_partition_axis(&out, e, 2, 1, cpu(), &err));
    EXPECT_I32(out, SHAPE(0, 3), 0);
    EXPECT_FAIL(KL_EARG, kl_partition_axis(&out, e, 0, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_partition_axis(&out, a, 3, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_argpartition_axis(&out, a, -4, 1, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_partition(&out, a, 6, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_argpartition_axis(&out, a, 0, 2, cpu(), &err));
    EXPECT_FAIL(KL_EAXIS, kl_partition_axis(&out, s, 0, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_partition(&out, NULL, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_argpartition(&out, a, 0, NULL, &err));
    EXPECT_FAIL(KL_EARG, kl_partition_axis(&out, NULL, 0, 0, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_argpartition_axis(&out, a, 0, 0, NULL, &err));
    struct kl_array *made[] = {a, e, t, s};
    for (int i = 0; i < 4; i++) kl_array_release(made[i]);
}

struct how {
    int which, axis;
};
static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    const struct how *h = how;
    if (h->which == 0) return kl_sort_axis(out, in[0], h->axis, cpu(), err);
    if (h->which == 1) return kl_partition_axis(out, in[0], 1, h->axis, cpu(), err);
    return kl_topk_axis(out, in[0], 2, h->axis, cpu(), err);
}

static void gradients(void **state) {
    double v[12] = {0.5, -1.25, 2, 0.75, 1.5, -0.5, 3, 0.25, -2, 1, 0.3, -0.7};
    struct kl_array *a = array_of(KL_F64, SHAPE(3, 4), v);
    for (int which = 0; which < 3; which++)
        for (int axis = 0; axis < 2; axis++)
            check_vjp("order", build, &(struct how){which, axis}, &a, 1, 0);
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
                                       cmocka_unit_test(sort_and_argsort_agree),
                                       cmocka_unit_test(topk_is_the_end_of_sort),
                                       cmocka_unit_test(the_largest_counts_at_every_place),
                                       cmocka_unit_test(topk_of_columns),
                                       cmocka_unit_test(topk_of_long_rows),
                                       cmocka_unit_test(partitions),
                                       cmocka_unit_test(partition_shapes),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
