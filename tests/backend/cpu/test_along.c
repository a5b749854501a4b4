/* test_along.c - kernels along axes give the same bits with chunks in any order and without chunks;
 * each failing allocation is an error and leaks nothing. */
#include "backend/cpu/kernel_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/alloc.h"
#include "base/number/half.h"

enum { ROWS = 2, N = 140000 };
static const struct { int n_axes, axes[1]; } last = {1, {1}};
static const struct { int ddof, n_axes, axes[1]; } var = {1, 1, {1}};
static const struct kl_axis_params axis = {1};
static const struct kl_softmax_params softmax_last = {1, 1}, softmax_first = {0, 1};
static const struct kl_scan_params scan = {1, false, true}, back = {1, true, false};
static const struct kl_partition_params middle = {1, N / 2}, three = {1, 3}, half = {1, N / 2};
static const struct kl_norm_params rms = {1e-5f, true, false}, layer = {1e-5f, true, true};
static const struct kl_rope_params rope = {100, false, false, 10000, 1};

/* The operations. Input x has shape (ROWS, N), or (ROWS, 700, 200) for rope; `out` is the last
 * extent of the output, which has the given dtype. */
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

static bool same_number(enum kl_dtype dtype, const void *a, const void *b, int64_t i) {
    if (dtype == KL_F32) {
        float x = ((const float *)a)[i], y = ((const float *)b)[i];
        return kl_f32_bits(x) == kl_f32_bits(y) || (isnan(x) && isnan(y));
    }
    uint16_t x = ((const uint16_t *)a)[i], y = ((const uint16_t *)b)[i];
    bool nan = dtype == KL_F16 ? isnan(kl_f16_load(x)) && isnan(kl_f16_load(y))
                               : isnan(kl_bf16_load(x)) && isnan(kl_bf16_load(y));
    return x == y || nan;
}

/* Cumulative sums have the same bits in every variant and layout, at every length near those of
 * groups, registers and segments. Those of 16-bit floats are the sums of the widened numbers,
 * rounded. */
static void scans(void **state) {
    static const int sizes[][2] = {{1, 3},    {15, 2},    {16, 17},   {17, 33},   {127, 3},
                                   {128, 64}, {129, 20},  {255, 2},   {256, 3},   {257, 1},
                                   {511, 16}, {513, 100}, {1300, 37}, {20, 1025}, {66000, 17}};
    enum { N_SIZES = sizeof sizes / sizeof *sizes, MOST = 2 * 66000 * 17 };
    static const enum kl_dtype types[] = {KL_F16, KL_BF16, KL_F32};
    float *wide = malloc(MOST * sizeof *wide), *sums = malloc(MOST * sizeof *sums);
    void *in = malloc(MOST * sizeof(float)), *got = malloc(MOST * sizeof(float)),
         *want = malloc(MOST * sizeof(float));
    struct operand x, z;
    for (int k = 0; k < N_SIZES * 3 * 3 * 4 * 2; k++) {
        if (!kl_test_takes("cpu", 2)) continue;
        int n = sizes[k % N_SIZES][0], m = sizes[k % N_SIZES][1];
        enum kl_dtype dtype = types[k / N_SIZES % 3];
        int way = k / N_SIZES / 3 % 3, form = k / N_SIZES / 9 % 4;
        bool special = k / N_SIZES / 36;
        if (n > 2000 && form % 3) continue;
        /* The layouts are rows, columns, and rows with gaps between their elements. */
        bool rows = way != 1;
        int64_t along = way == 0 ? 1 : way == 1 ? m : 2, side = way == 0 ? n : way == 1 ? 1 : 2 * n;
        int64_t all = (way == 2 ? 2 : 1) * (int64_t)n * m;
        uint32_t seed = (uint32_t)k;
        for (int64_t i = 0; i < all; i++) {
            static const float specials[] = {-0.0f, INFINITY, -INFINITY, NAN};
            seed = seed * 1664525 + 1013904223;
            float f = (float)(int32_t)seed * 0x1p-34f;
            if (special) f = i < all / 4 || seed >> 22 ? -0.0f : specials[seed >> 20 & 3];
            uint16_t h = dtype == KL_F16 ? kl_f16_store(f) : kl_bf16_store(f);
            wide[i] = dtype == KL_F32 ? f : dtype == KL_F16 ? kl_f16_load(h) : kl_bf16_load(h);
            if (dtype == KL_F32)
                ((float *)in)[i] = f;
            else
                ((uint16_t *)in)[i] = h;
        }
        struct kl_scan_params p = {rows ? 1 : 0, form & 1, form & 2};
        int dims[] = {rows ? m : n, rows ? n : m};
        int64_t strides[] = {rows ? side : along, rows ? along : side};
        kl_cpu_use_variant(0);
        RUN(KL_OP_CUMSUM, &p, strided_operand(&z, sums, KL_F32, 2, dims, strides),
            IN(strided_operand(&x, wide, KL_F32, 2, dims, strides)), false);
        for (int o = 0; o < m; o++)
            for (int i = 0; i < n; i++) {
                int64_t at = o * side + i * along;
                if (dtype == KL_F32)
                    ((float *)want)[at] = sums[at];
                else
                    ((uint16_t *)want)[at] =
                        dtype == KL_F16 ? kl_f16_store(sums[at]) : kl_bf16_store(sums[at]);
            }
        for (int v = 0; v < kl_cpu_n_variants(); v++) {
            kl_cpu_use_variant(v);
            RUN(KL_OP_CUMSUM, &p, strided_operand(&z, got, dtype, 2, dims, strides),
                IN(strided_operand(&x, in, dtype, 2, dims, strides)), m < 16 || n > 2000);
            for (int o = 0; o < m; o++)
                for (int i = 0; i < n; i++)
                    if (!same_number(dtype, got, want, o * side + i * along))
                        fail_msg(
                            "%s of %d by %d, way %d, form %d, special %d, %s: element %d of %d",
                            kl_dtype_name(dtype), n, m, way, form, special, kl_cpu_variant_name(v),
                            i, o);
        }
    }
    kl_cpu_use_variant(kl_cpu_n_variants() - 1);
    free(wide);
    free(sums);
    free(in);
    free(got);
    free(want);
}

int main(void) {
    uint32_t seed = 7;
    numbers = malloc((size_t)ROWS * N * sizeof *numbers);
    for (int i = 0; i < ROWS * N; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = (float)(int32_t)seed * 0x1p-30f;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_order), cmocka_unit_test(no_memory),
                                       cmocka_unit_test(scans)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(numbers);
    return rc;
}
