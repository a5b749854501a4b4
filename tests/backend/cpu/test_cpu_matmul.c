/* MATMUL: any order of tasks and any layout gives the same bits. */
#include "kernel_support.h"

static void same_bits(void **state) {
    enum { M = 150, K = 300, N = 130 };
    float *a = malloc(M * K * sizeof *a), *at = malloc(M * K * sizeof *a),
          *b = malloc(K * N * sizeof *b);
    float *c[3];
    for (int i = 0; i < 3; i++) c[i] = malloc(M * N * sizeof(float));
    for (int i = 0; i < M * K; i++) a[i] = sinf((float)i);
    for (int i = 0; i < K * N; i++) b[i] = cosf((float)i);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) at[k * M + i] = a[i * K + k];
    struct operand x, y, z;
    dense(&x, a, KL_F32, DIMS(M, K));
    dense(&y, b, KL_F32, DIMS(K, N));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c[0], KL_F32, DIMS(M, N)), IN(&x, &y), false);
    n_shared = 0;
    RUN(KL_OP_MATMUL, NULL, dense(&z, c[1], KL_F32, DIMS(M, N)), IN(&x, &y), true);
    assert_true(n_shared > 1);
    strided_operand(&x, at, KL_F32, DIMS(M, K), STRIDES(1, M));
    RUN(KL_OP_MATMUL, NULL, dense(&z, c[2], KL_F32, DIMS(M, N)), IN(&x, &y), true);
    assert_memory_equal(c[0], c[1], M * N * sizeof(float));
    assert_memory_equal(c[0], c[2], M * N * sizeof(float));
    /* One column of it, which is computed the other way round. */
    float column[M];
    strided_operand(&y, b + 7, KL_F32, DIMS(K, 1), STRIDES(N, 1));
    RUN(KL_OP_MATMUL, NULL, dense(&z, column, KL_F32, DIMS(M, 1)), IN(&x, &y), false);
    for (int i = 0; i < M; i++) assert_true(column[i] == c[0][i * N + 7]);
    for (int i = 0; i < 3; i++) free(c[i]);
    free(a);
    free(at);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
