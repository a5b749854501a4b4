/* Kernels along axes: chunks in any order, or none, give the same bits; each allocation that fails is an error and leaks nothing. */
#include "kernel_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"

enum { ROWS = 2, N = 140000 };
static const struct { int n_axes, axes[1]; } last = {1, {1}};
static const struct { int ddof, n_axes, axes[1]; } var = {1, 1, {1}};
static const struct kl_axis_params axis = {1};
static const struct kl_softmax_params softmax_last = {1, 1}, softmax_first = {0, 1};
static const struct kl_scan_params scan = {1, false, true}, back = {1, true, false};
static const struct kl_partition_params middle = {1, N / 2}, three = {1, 3}, half = {1, N / 2};
static const struct kl_norm_params rms = {1e-5f, true, false}, layer = {1e-5f, true, true};
static const struct kl_rope_params rope = {100, false, false, 10000, 1};

/* What goes in: x is (ROWS, N), but for rope (ROWS, 700, 200); out: the last extent, of the given dtype. */
static const struct {
    enum kl_op_id op;
    const void *params;
    int n_in, out_n;
    enum kl_dtype out;
} cases[] = {
    {KL_OP_SUM, &last, 1, 1, KL_F32},
    {KL_OP_PROD, &last, 1, 1, KL_F32},
    {KL_OP_ANY, &last, 1, 1, KL_BOOL},
    {KL_OP_LOGSUMEXP, &last, 1, 1, KL_F32},
    {KL_OP_VAR, &var, 1, 1, KL_F32},
    {KL_OP_ARGMAX, &axis, 1, 1, KL_U32},
    {KL_OP_SOFTMAX, &softmax_last, 1, N, KL_F32},
    {KL_OP_SOFTMAX, &softmax_first, 1, N, KL_F32},
    {KL_OP_CUMSUM, &scan, 1, N, KL_F32},
    {KL_OP_CUMMAX, &back, 1, N, KL_F32},
    {KL_OP_SORT, &axis, 1, N, KL_F32},
    {KL_OP_ARGSORT, &axis, 1, N, KL_U32},
    {KL_OP_PARTITION, &middle, 1, N, KL_F32},
    {KL_OP_ARGPARTITION, &middle, 1, N, KL_U32},
    {KL_OP_TOPK, &three, 1, 3, KL_F32},
    {KL_OP_TOPK, &half, 1, N / 2, KL_F32},
    {KL_OP_RMS_NORM, &rms, 2, N, KL_F32},
    {KL_OP_LAYER_NORM, &layer, 3, N, KL_F32},
    {KL_OP_ROPE, &rope, 2, N, KL_F32},
};
enum { N_CASES = (int)(sizeof cases / sizeof *cases) };

static float *numbers;
static int32_t offset = 3;

static int call(int i, void *result, bool shared, struct kl_error **err) {
    struct operand x, w, b, z;
    bool rotary = cases[i].op == KL_OP_ROPE;
    if (rotary)
        dense(&x, numbers, KL_F32, DIMS(ROWS, 700, 200));
    else
        dense(&x, numbers, KL_F32, DIMS(ROWS, N));
    if (rotary)
        dense(&w, &offset, KL_I32, 0, NULL);
    else
        dense(&w, numbers, KL_F32, DIMS(N));
    dense(&b, numbers + 7, KL_F32, DIMS(N));
    if (rotary)
        dense(&z, result, KL_F32, DIMS(ROWS, 700, 200));
    else
        dense(&z, result, cases[i].out, DIMS(ROWS, cases[i].out_n));
    struct kl_arg in[3] = {x.arg, w.arg, b.arg};
    struct kl_launch l = {.op = cases[i].op,
                          .params = cases[i].params,
                          .n_in = cases[i].n_in,
                          .n_out = 1,
                          .in = in,
                          .out = &z.arg,
                          .err = err,
                          .parallel = shared ? backwards : NULL};
    return kl_cpu_kernel(l.op)(&l);
}

static void any_order(void **state) {
    size_t room = (size_t)ROWS * N * sizeof(float);
    char *alone = malloc(room), *shared = malloc(room);
    for (int i = 0; i < N_CASES; i++) {
        size_t bytes = (size_t)(ROWS * cases[i].out_n) * kl_dtype_size(cases[i].out);
        n_shared = 0;
        assert_int_equal(call(i, alone, false, NULL), KL_OK);
        assert_int_equal(n_shared, 0);
        assert_int_equal(call(i, shared, true, NULL), KL_OK);
        if (n_shared < 2) fail_msg("case %d is not shared", i);
        if (memcmp(alone, shared, bytes)) fail_msg("case %d: other bits", i);
    }
    free(alone);
    free(shared);
}

static void no_memory(void **state) {
    void *result = malloc((size_t)ROWS * N * sizeof(float));
    int failures = 0;
    for (int i = 0; i < 2 * N_CASES; i++)
        for (int n = 0;; n++) {
            struct kl_error *err = NULL;
            int64_t live = kl_test_n_live();
            kl_test_fail_alloc_at(n);
            int rc = call(i / 2, result, i % 2, &err);
            bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (rc != (failed ? KL_ENOMEM : KL_OK))
                fail_msg("case %d, allocation %d: %d", i / 2, n, rc);
            if (failed) assert_non_null(err);
            kl_error_release(err);
            assert_int_equal(kl_test_n_live(), live);
            if (!failed) break;
            failures++;
        }
    assert_true(failures > 20);
    free(result);
}

int main(void) {
    uint32_t seed = 7;
    numbers = malloc((size_t)ROWS * N * sizeof *numbers);
    for (int i = 0; i < ROWS * N; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = (float)(int32_t)seed * 0x1p-30f;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_order), cmocka_unit_test(no_memory)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(numbers);
    return rc;
}
