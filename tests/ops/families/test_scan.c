/* test_scan.c - cumulative operations against NumPy; shapes; the same tree of additions for every
 * layout and number of threads; gradients; bad arguments. */
#include "ops/golden/golden.h"

#include "backend/cpu/cpu_kernels.h"
#include "ops/golden/golden_scan.inc"
#include "ops/support/vjp_support.h"

static kl_scan_fn *const all[] = {kl_cumsum, kl_cumprod, kl_cummax, kl_cummin, kl_logcumsumexp};
enum { N_ALL = 5 };

static void values(void **state) {
    GOLDEN_RUN_ALL(scan_cases);
}

static void shapes(void **state) {
    struct kl_array *e = array_of(KL_F32, SHAPE(0, 3), NULL), *a = I32(SHAPE(1, 2), 4, 7),
                    *one = F32(SHAPE(1), -0.0f), *wide, *out;
    for (int i = 0; i < N_ALL; i++)
        for (int axis = 0; axis < 2; axis++)
            for (int way = 0; way < 4; way++) {
                EXPECT_OK(all[i](&out, e, axis, way & 1, way >> 1, cpu(), &err));
                EXPECT_F32(out, SHAPE(0, 3), 0);
            }
    EXPECT_OK(kl_cumsum(&out, a, 0, false, true, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 4, 7);
    EXPECT_OK(kl_cumsum(&out, a, -1, true, false, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), 7, 0);
    EXPECT_OK(kl_cummin(&out, a, 0, false, false, cpu(), &err));
    EXPECT_I32(out, SHAPE(1, 2), INT32_MAX, INT32_MAX);
    EXPECT_OK(kl_cumsum(&out, one, 0, false, true, cpu(), &err)); /* a zero keeps its sign */
    EXPECT_F32(out, SHAPE(1), -0.0f);
    EXPECT_OK(kl_broadcast_to(&wide, one, LIST(3, 1), cpu(), &err));
    EXPECT_OK(kl_cumprod(&out, wide, 0, false, true, cpu(), &err));
    EXPECT_F32(out, SHAPE(3, 1), -0.0f, 0.0f, -0.0f);
    kl_array_release(wide);
    kl_array_release(e);
    kl_array_release(a);
    kl_array_release(one);
}

/* Long scans as rows, as columns, and as one row that several segments share: the same bits, close
 * to the exact sum. */
static void one_reduction_tree(void **state) {
    static const int lengths[] = {1, 15, 16, 17, 33, 512, 513, 65536, 65537, 140001, 300017};
    enum { COLUMNS = 20 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int n = lengths[i], dims[2] = {n, COLUMNS};
        float *v = malloc((size_t)n * COLUMNS * sizeof *v);
        uint32_t seed = 4;
        for (int k = 0; k < COLUMNS * n; k++) {
            seed = seed * 1664525 + 1013904223;
            v[k] = (float)(int32_t)seed * 0x1p-31f;
        }
        struct kl_array *a = array_of(KL_F32, 2, dims, v), *t, *dense, *row, *s[3];
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
        EXPECT_OK(kl_slice(&row, dense, LIST(0, 0), LIST(1, n), LIST(1, 1), cpu(), &err));
        for (int way = 0; way < 4; way++) {
            bool reverse = way & 1, inclusive = way >> 1;
            EXPECT_OK(kl_cumsum(&s[0], a, 0, reverse, inclusive, cpu(), &err));
            EXPECT_OK(kl_cumsum(&s[1], dense, 1, reverse, inclusive, cpu(), &err));
            EXPECT_OK(kl_cumsum(&s[2], row, 1, reverse, inclusive, cpu(), &err));
            float *x = values_of(s[0]), *y = values_of(s[1]), *z = values_of(s[2]);
            double sum = 0;
            for (int k = 0; k < n; k++) {
                int at = reverse ? n - 1 - k : k;
                if (inclusive) sum += (double)v[at * COLUMNS];
                if (!(fabs(z[at] - sum) <= 2e-5 * sqrt(n)))
                    fail_msg("%d of %d: %g, not %g", at, n, (double)z[at], sum);
                if (!inclusive) sum += (double)v[at * COLUMNS];
                for (int c = 0; c < COLUMNS; c += 7)
                    assert_memory_equal(&x[at * COLUMNS + c], &y[c * n + at], sizeof *x);
            }
            assert_memory_equal(y, z, (size_t)n * sizeof *y);
            free(x);
            free(y);
            free(z);
            for (int k = 0; k < 3; k++) kl_array_release(s[k]);
        }
        free(v);
        kl_array_release(row);
        kl_array_release(a);
        kl_array_release(t);
        kl_array_release(dense);
    }
}

/* 16-bit floats are summed in float32. Every dtype is scanned by rows and by columns. */
static void every_dtype(void **state) {
    enum { N = 100, COLUMNS = 40 };
    for (int d = 0; d < KL_N_DTYPES; d++)
        for (int i = 0; i < N_ALL; i++) {
            /* The sign of a NaN part may differ. */
            if (d == KL_C64 && all[i] == kl_cumprod) continue;
            struct kl_array *ints, *a, *rows, *dense, *out, *transposed, *back;
            EXPECT_OK(kl_arange(&ints, 0, N * COLUMNS, 1, KL_I32, cpu(), &err));
            EXPECT_OK(kl_reshape(&rows, ints, LIST(N, COLUMNS), cpu(), &err));
            EXPECT_OK(kl_astype(&a, rows, d, cpu(), &err));
            EXPECT_OK(kl_transpose(&transposed, a, cpu(), &err));
            EXPECT_OK(kl_copy(&dense, transposed, cpu(), &err));
            EXPECT_OK(all[i](&out, a, 0, false, true, cpu(), &err));
            EXPECT_OK(all[i](&back, dense, 1, false, true, cpu(), &err));
            size_t bytes = kl_dtype_size((enum kl_dtype)out->t.dtype);
            char *x = values_of(out), *y = values_of(back);
            for (int r = 0; r < N; r++)
                for (int c = 0; c < COLUMNS; c++)
                    assert_memory_equal(x + (size_t)(r * COLUMNS + c) * bytes,
                                        y + (size_t)(c * N + r) * bytes, bytes);
            free(x);
            free(y);
            struct kl_array *made[] = {ints, a, rows, dense, out, transposed, back};
            for (int k = 0; k < 7; k++) kl_array_release(made[k]);
        }
    struct kl_array *a = F32(SHAPE(4), 2048, 1, 1, 1), *h, *out, *f;
    EXPECT_OK(kl_astype(&h, a, KL_F16, cpu(), &err));
    EXPECT_OK(kl_cumsum(&out, h, 0, false, true, cpu(), &err));
    EXPECT_OK(kl_astype(&f, out, KL_F32, cpu(), &err));
    EXPECT_F32(f, SHAPE(4), 2048, 2048, 2050, 2052);
    kl_array_release(out);
    kl_array_release(h);
    kl_array_release(a);
}

/* Groups of rows of 16-bit floats, which the kernels transpose in square tiles, in every variant.
 * Rows give the bits of columns, whose elements are added one after another. */
static void groups_of_rows(void **state) {
    static const int lengths[] = {127, 128, 129, 255, 256, 257, 511, 512, 513, 783, 4096, 70001};
    enum { COLUMNS = 20 };
    for (size_t i = 0; i < 2 * (sizeof lengths / sizeof *lengths); i++) {
        int n = lengths[i / 2], dims[2] = {n, COLUMNS};
        enum kl_dtype dtype = i % 2 ? KL_BF16 : KL_F16;
        uint16_t *v = malloc((size_t)n * COLUMNS * sizeof *v);
        uint32_t seed = 9;
        for (int k = 0; k < COLUMNS * n; k++) {
            seed = seed * 1664525 + 1013904223;
            v[k] = (uint16_t)(seed >> 16 & 0xbfff); /* numbers below 2 */
            if (k % COLUMNS == 1 && k > COLUMNS * n / 2) v[k] = dtype == KL_BF16 ? 0x7f80 : 0x7c00;
            if (k % COLUMNS == 2 && k == 2 + COLUMNS * (n / 3)) v[k] = 0x7fff; /* a NaN */
            if (k % COLUMNS == 3) v[k] = 0x8000;                               /* -0.0 */
        }
        struct kl_array *a = array_of(dtype, 2, dims, v), *t, *dense, *columns, *rows;
        EXPECT_OK(kl_transpose(&t, a, cpu(), &err));
        EXPECT_OK(kl_copy(&dense, t, cpu(), &err));
        kl_cpu_use_variant(0);
        EXPECT_OK(kl_cumsum(&columns, a, 0, false, true, cpu(), &err));
        uint16_t *x = values_of(columns);
        for (int variant = 0; variant < kl_cpu_n_variants(); variant++) {
            kl_cpu_use_variant(variant);
            EXPECT_OK(kl_cumsum(&rows, dense, 1, false, true, cpu(), &err));
            uint16_t *y = values_of(rows);
            for (int k = 0; k < COLUMNS * n; k++)
                if (x[k] != y[k % COLUMNS * n + k / COLUMNS])
                    fail_msg("%s: %d of %d, column %d: %x, not %x", kl_cpu_variant_name(variant),
                             k / COLUMNS, n, k % COLUMNS, y[k % COLUMNS * n + k / COLUMNS], x[k]);
            free(y);
            kl_array_release(rows);
        }
        kl_cpu_use_variant(-1);
        free(x);
        free(v);
        struct kl_array *made[] = {a, t, dense, columns};
        for (int k = 0; k < 4; k++) kl_array_release(made[k]);
    }
}

struct how {
    kl_scan_fn *scan;
    int axis;
    bool reverse, inclusive;
};
static int build(struct kl_array **out, struct kl_array *const *in, const void *how,
                 struct kl_error **err) {
    const struct how *h = how;
    return h->scan(out, in[0], h->axis, h->reverse, h->inclusive, cpu(), err);
}

static void gradients(void **state) {
    static const char *const names[] = {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"};
    double v[12] = {0.5, -1.25, 2, 0.75, 1.5, -0.5, 3, 0.25, -2, 1, 0.3, -0.7};
    struct kl_array *a = array_of(KL_F64, SHAPE(3, 4), v), *z;
    v[1] = v[5] = v[6] = 0; /* columns and rows with one zero, and with two */
    z = array_of(KL_F64, SHAPE(3, 4), v);
    for (int i = 0; i < N_ALL; i++)
        for (int way = 0; way < 8; way++) {
            struct how h = {all[i], way & 1, way >> 1 & 1, way >> 2};
            /* Without the element itself, the first result is an infinity. */
            if (i >= 2 && !h.inclusive) continue;
            check_vjp(names[i], build, &h, &a, 1, 0);
            if (i < 2) check_vjp(names[i], build, &h, &z, 1, 0);
        }
    kl_array_release(a);
    kl_array_release(z);
}

/* The gradient of float32 input; takes the input and the cotangent. */
static struct kl_array *grad_of(kl_scan_fn *scan, bool reverse, struct kl_array *in,
                                struct kl_array *ct) {
    struct kl_array *out, *grad = NULL;
    bool wanted = true;
    EXPECT_OK(scan(&out, in, 0, reverse, false, cpu(), &err));
    enum kl_op_id op = out->node->task.op;
    struct kl_vjp v = {op, out->node->task.params, 1, 1, &in, &out, &ct, &wanted, cpu()};
    EXPECT_OK(kl_vjp_rule(op)(&v, &grad, &err));
    kl_array_release(out);
    kl_array_release(in);
    kl_array_release(ct);
    return grad;
}

static void exclusive_gradients(void **state) {
    struct kl_array *g =
        grad_of(kl_cummax, false, F32(SHAPE(4), 1, 3, 3, 2), F32(SHAPE(4), 1, 2, 3, 4));
    EXPECT_F32(g, SHAPE(4), 2, 3, 4, 0);
    g = grad_of(kl_cummin, true, F32(SHAPE(4), 1, 3, 3, 2), F32(SHAPE(4), 1, 2, 3, 4));
    EXPECT_F32(g, SHAPE(4), 0, 0, 0, 6);
    float want[] = {1.5f, 0.5f, 0};
    g = grad_of(kl_logcumsumexp, false, F32(SHAPE(3), 0, 0, 5), F32(SHAPE(3), 1, 1, 1));
    float *v = values_of(g);
    for (int i = 0; i < 3; i++) assert_true(fabsf(v[i] - want[i]) < 1e-6f);
    free(v);
    kl_array_release(g);
}

static void bad(void **state) {
    struct kl_array *a = count_up(SHAPE(2, 3)), *s = scalar_of(KL_F32, 1), *out;
    for (int i = 0; i < N_ALL; i++) {
        EXPECT_FAIL(KL_EARG, all[i](&out, NULL, 0, false, true, cpu(), &err));
        EXPECT_FAIL(KL_EARG, all[i](&out, a, 0, false, true, NULL, &err));
        EXPECT_FAIL(KL_EAXIS, all[i](&out, a, 2, false, true, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, all[i](&out, a, -3, true, false, cpu(), &err));
        EXPECT_FAIL(KL_EAXIS, all[i](&out, s, 0, false, true, cpu(), &err));
    }
    kl_array_release(a);
    kl_array_release(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values),
                                       cmocka_unit_test(shapes),
                                       cmocka_unit_test(one_reduction_tree),
                                       cmocka_unit_test(every_dtype),
                                       cmocka_unit_test(groups_of_rows),
                                       cmocka_unit_test(gradients),
                                       cmocka_unit_test(exclusive_gradients),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
