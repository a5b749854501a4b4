/* test_product.c - matmul: values, shapes, gradients in the order of their operands, bad
 * arguments. */
#include "ops/golden/golden.h"
#include "ops/support/vjp_support.h"

#include "ops/build/check.h"
#include "ops/build/meet.h"

#include "ops/golden/golden_matmul.inc"

static void values(void **state) {
    GOLDEN_RUN_ALL(matmul_cases);
}

/* Sizes near multiples of the tile's. The numbers are whole, so the result must be exactly the
 * sum. */
static void sizes_near_tiles(void **state) {
    static const int sizes[][3] = {{63, 65, 64},  {65, 1, 130}, {1, 200, 129},
                                   {130, 129, 1}, {5, 300, 66}, {67, 127, 15}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
        float *a = malloc((size_t)(m * k) * 4), *b = malloc((size_t)(k * n) * 4);
        for (int i = 0; i < m * k; i++) a[i] = (float)(i * 7 % 11 - 5);
        for (int i = 0; i < k * n; i++) b[i] = (float)(i * 5 % 13 - 6);
        struct kl_array *x = array_of(KL_F32, SHAPE(m, k), a),
                        *y = strided(array_of(KL_F32, SHAPE(k, n), b)), *out;
        EXPECT_OK(kl_matmul(&out, x, y, cpu(), &err));
        float *c = values_of(out);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float want = 0;
                for (int l = 0; l < k; l++) want += a[i * k + l] * b[l * n + j];
                assert_true(c[i * n + j] == want);
            }
        free(a);
        free(b);
        free(c);
        kl_array_release(out);
        kl_array_release(x);
        kl_array_release(y);
    }
}

static int product(struct kl_array **out, struct kl_array *const *in, const void *how,
                   struct kl_error **e) {
    return kl_matmul(out, in[0], in[1], cpu(), e);
}

/* The gradient of a transposed matrix is stored as the matrix is: transposed back, it is dense. */
static void gradients_of_transposed(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F64, KL_F32, KL_C64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int c = 0; c < 3; c++) {
            struct kl_array *x, *w, *in[2], *g, *out, *grad[2] = {NULL};
            /* x (5, 3) or (2, 5, 3) by the transpose of (4, 3) or (2, 4, 3) */
            struct kl_array *rows = c ? count_up(SHAPE(2, 5, 3)) : count_up(SHAPE(5, 3));
            struct kl_array *columns = c == 2 ? count_up(SHAPE(2, 4, 3)) : count_up(SHAPE(4, 3));
            EXPECT_OK(kl_astype(&x, rows, (int)dtypes[d], cpu(), &err));
            EXPECT_OK(kl_astype(&w, columns, (int)dtypes[d], cpu(), &err));
            in[0] = x;
            EXPECT_OK(kl_swapaxes(&in[1], w, -1, -2, cpu(), &err));
            EXPECT_OK(kl_eval((struct kl_array *[]){x, in[1]}, 2, &err));
            check_vjp("a transposed matrix", product, NULL, in, 2, 0);

            struct kl_trace *trace = begin_trace(in, 2);
            EXPECT_OK(kl_matmul(&out, in[0], in[1], cpu(), &err));
            leave_trace(in, 2);
            EXPECT_OK(kl_ones_like(&g, out, cpu(), &err));
            struct kl_vjp v = {KL_OP_MATMUL, NULL, 2, 1, in, &out, &g, (bool[]){true, true}, cpu()};
            EXPECT_OK(kl_vjp_rule(KL_OP_MATMUL)(&v, grad, &err));
            kl_trace_end(trace);
            const int n = grad[1]->t.ndim;
            assert_true(kl_shape_is(grad[1], in[1]->t.ndim, in[1]->t.dims));
            assert_true(grad[1]->t.strides[n - 2] == 1 && grad[1]->t.strides[n - 1] == 3);
            assert_true(grad[0]->t.layout & KL_ROW_CONTIGUOUS);
            struct kl_array *all[] = {x, w, in[1], g, out, grad[0], grad[1], rows, columns};
            kl_release_all(all, sizeof all / sizeof *all);
        }
}

static void bad(void **state) {
    struct kl_array *a = F32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *i = count_up(SHAPE(3, 2)),
                    *s = scalar_of(KL_F32, 1), *out;
    struct kl_array *p, *q;
    EXPECT_OK(kl_broadcast_to(&p, a, LIST(2, 2, 3), cpu(), &err));
    EXPECT_OK(kl_zeros(&q, LIST(3, 3, 1), KL_F32, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, a, a, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, s, a, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, a, s, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_matmul(&out, p, q, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_matmul(&out, i, i, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, NULL, a, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, a, NULL, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_matmul(&out, a, i, NULL, &err));
    kl_array_release(a);
    kl_array_release(i);
    kl_array_release(s);
    kl_array_release(p);
    kl_array_release(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(sizes_near_tiles),
                                       cmocka_unit_test(gradients_of_transposed),
                                       cmocka_unit_test(bad)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
