/* test_matmul_complex.c - products of complex64 have the bits of plain loops. */
#include "backend/cpu/kernel_support.h"

/* Each element of a complex product has the bits of a plain loop over k without fused steps, in
 * every variant: operands by rows and by columns, few rows, few columns, parts along k. */
static void complex_chains(void **state) {
    static const int sizes[][3] = {{1, 1, 1},     {2, 700, 2},  {1, 530, 32}, {16, 19, 272},
                                   {17, 130, 65}, {3, 260, 16}, {70, 9, 1},   {33, 600, 15}};
    for (int v = 0; v < kl_cpu_n_variants(); v++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turned = 0; turned < 4; turned++) {
                const int m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
                float *a = malloc(sizeof(float[2]) * m * k), *b = malloc(sizeof(float[2]) * k * n);
                float *c = malloc(sizeof(float[2]) * m * n);
                for (int e = 0; e < 2 * m * k; e++) a[e] = (float)(e * 37 % 101 - 50) / 7;
                for (int e = 0; e < 2 * k * n; e++) b[e] = (float)(e * 53 % 97 - 48) / 11;
                const int64_t a_row = turned & 1 ? 1 : k, a_col = turned & 1 ? m : 1,
                              b_row = turned & 2 ? 1 : n, b_col = turned & 2 ? k : 1;
                struct operand x, y, z;
                strided_operand(&x, a, KL_C64, DIMS(m, k), STRIDES(a_row, a_col));
                strided_operand(&y, b, KL_C64, DIMS(k, n), STRIDES(b_row, b_col));
                kl_cpu_use_variant(v);
                RUN(KL_OP_MATMUL, NULL, dense(&z, c, KL_C64, DIMS(m, n)), IN(&x, &y), true);
                for (int r = 0; r < m; r++)
                    for (int col = 0; col < n; col++) {
                        float re = 0, im = 0;
                        for (int e = 0; e < k; e++) {
                            const float *p = a + 2 * (r * a_row + e * a_col),
                                        *q = b + 2 * (e * b_row + col * b_col);
                            const float rr = p[0] * q[0], ii = p[1] * q[1], ri = p[0] * q[1],
                                        ir = p[1] * q[0];
                            re += rr - ii;
                            im += ri + ir;
                        }
                        const float *got = c + 2 * (r * n + col);
                        if (got[0] != re || got[1] != im)
                            fail_msg("%d x %d x %d, %d: %g, %g at %d, %d, not %g, %g", m, k, n,
                                     turned, got[0], got[1], r, col, re, im);
                    }
                free(a);
                free(b);
                free(c);
            }
    kl_cpu_use_variant(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(complex_chains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
