/* test_threads.c - one thread against several, bit for bit: operations large enough to be cut into
 * chunks, run by the pool, by one thread, and by one thread that takes the chunks backwards. */
#include "base/op/op_params.h"
#include "ops/support/operations.h"
#include "ops/quantized.h"

#include "backend/cpu/cpu_backend.h"
#include "runtime/pool.h"

static _Atomic(int64_t) n_shared; /* number of loops that were offered to other threads */

static void by_pool(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    n_shared += n > 1;
    kl_pool_parallel(n, chunk, arg);
}
static void backwards(int64_t n, void (*chunk)(void *arg, int64_t i), void *arg) {
    while (n > 0) chunk(arg, --n);
}
static kl_parallel_fn *const loops[] = {by_pool, NULL, backwards};
static const char *const loop_names[] = {"several threads", "one thread", "the last share first"};
enum { N_LOOPS = sizeof loops / sizeof *loops };

typedef int build_fn(struct kl_array **out, struct kl_array *const *in, int which,
                     struct kl_error **err);

static int n_compared;

/* Builds from the evaluated arrays `in` and evaluates with each loop. The results have the same
 * bits, or every call refuses the dtype. */
static void compare(const char *name, build_fn *build, int which, struct kl_array *const *in) {
    if (!kl_test_takes("cpu", 6)) return;
    void *first = NULL;
    for (int way = 0; way < N_LOOPS; way++) {
        struct kl_array *out = NULL;
        struct kl_error *why = NULL;
        int rc = build(&out, in, which, &why);
        if (rc) {
            assert_int_equal(rc, KL_EDTYPE);
            kl_error_release(why);
            break;
        }
        kl_cpu_backend(loops[way], loops[way]);
        EXPECT_OK(kl_eval(&out, 1, &err));
        kl_cpu_backend(kl_pool_parallel, kl_pool_parallel_short);
        void *got = values_of(out);
        size_t bytes = (size_t)out->t.size * kl_dtype_size((enum kl_dtype)out->t.dtype);
        /* A difference in NaN's bits is checked below. */
        bool differs = first && memcmp(first, got, bytes) != 0;
        for (int64_t i = 0; differs && i < out->t.size; i++)
            if (!same_element((enum kl_dtype)out->t.dtype, first, got, i))
                fail_msg("%s of %s: element %lld differs between %s and %s", name,
                         kl_dtype_name((enum kl_dtype)in[0]->t.dtype), (long long)i, loop_names[0],
                         loop_names[way]);
        if (first)
            free(got);
        else
            first = got;
        n_compared++;
        kl_array_release(out);
    }
    free(first);
}

/* The kernels must have shared their work. A sample shares less, and nothing if it has none of a
 * family; the last test looks at all of them. */
static void assert_shared_since(int64_t before, int64_t least) {
    static int compared_before;
    if (kl_test_samples("cpu")) least = n_compared > compared_before;
    compared_before = n_compared;
    assert_in_range(n_shared - before, least, INT64_MAX);
}

/* ---- element by element ---- */

static int elementwise_of(struct kl_array **out, struct kl_array *const *in, int which,
                          struct kl_error **err) {
    return operation_build(which, out, in[0], in[1], err);
}

static void elementwise(void **state) {
    static const int dims[] = {3, 23003};
    int64_t before = n_shared;
    for (int d = 0; d < KL_N_DTYPES; d++) {
        struct kl_array *x = special_bits((enum kl_dtype)d, 2, dims, 3);
        struct kl_array *y = strided(special_bits((enum kl_dtype)d, 2, dims, 5));
        EXPECT_OK(kl_eval(&y, 1, &err));
        struct kl_array *const dense[] = {x, x}, *const transposed[] = {x, y};
        for (int k = 0; k < N_OPERATIONS; k++) {
            compare(operation_name(k), elementwise_of, k, dense);
            if (k >= N_UNARY && k < N_UNARY + N_BINARY)
                compare(operation_name(k), elementwise_of, k, transposed);
        }
        kl_array_release(x);
        kl_array_release(y);
    }
    assert_shared_since(before, 1000);
}

/* ---- along axes ---- */

static int along(struct kl_array **out, struct kl_array *const *in, int which,
                 struct kl_error **err) {
    return reductions[which / 2].build(out, in[0], which % 2, false, cpu(), err);
}

static void reduced(void **state) {
    static const int dims[][2] = {{3, 100003}, {100003, 3}, {521, 523}};
    int64_t before = n_shared;
    for (int shape = 0; shape < 3; shape++)
        for (int d = 0; d < KL_N_DTYPES; d++) {
            struct kl_array *x = special_bits((enum kl_dtype)d, 2, dims[shape], 9);
            for (int k = 0; k < (int)(sizeof reductions / sizeof *reductions); k++)
                for (int axis = 0; axis < 2; axis++) {
                    if (dims[shape][1] < 40 && reductions[k].build == rope_axis) continue;
                    /* The rows of topk and partition have at least 18 elements. */
                    if (dims[shape][axis] < 18) continue;
                    compare(reductions[k].name, along, 2 * k + axis, &x);
                }
            kl_array_release(x);
        }
    assert_shared_since(before, 500);
}

/* ---- products, moves, indices, random numbers ---- */

static int product(struct kl_array **out, struct kl_array *const *in, int which,
                   struct kl_error **err) {
    return kl_matmul(out, in[0], in[1], cpu(), err);
}

static void products(void **state) {
    /* Batch, m, k, n; whether the second operand is transposed, and is batched. */
    static const int shapes[][6] = {{1, 261, 300, 277, 0, 0}, {1, 261, 300, 277, 1, 0},
                                    {1, 1, 2003, 1009, 0, 0}, {1, 1, 2003, 1009, 1, 0},
                                    {1, 5, 700, 900, 0, 0},   {1, 900, 700, 3, 0, 0},
                                    {700, 16, 16, 16, 0, 1},  {9, 65, 129, 33, 1, 1}};
    static const enum kl_dtype types[] = {KL_F32, KL_F16, KL_BF16, KL_F64, KL_C64};
    int64_t before = n_shared;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            const int *s = shapes[k];
            const int a[] = {s[0], s[1], s[2]};
            const int b[] = {s[5] ? s[0] : 1, s[4] ? s[3] : s[2], s[4] ? s[2] : s[3]};
            uint32_t seed = 17 + (uint32_t)k;
            struct kl_array *in[2], *key, *x;
            for (int i = 0; i < 2; i++) {
                EXPECT_OK(kl_random_key(&key, seed + (uint32_t)i, &err));
                EXPECT_OK(kl_random_normal(&x, i ? b : a, 3, KL_F32, 0, 1, key, cpu(), &err));
                EXPECT_OK(kl_astype(&in[i], x, types[t], cpu(), &err));
                kl_array_release(x);
                kl_array_release(key);
            }
            if (s[4]) {
                EXPECT_OK(kl_swapaxes(&x, in[1], 1, 2, cpu(), &err));
                kl_array_release(in[1]);
                in[1] = x;
            }
            EXPECT_OK(kl_eval(in, 2, &err));
            compare("matmul", product, 0, in);
            kl_array_release(in[0]);
            kl_array_release(in[1]);
        }
    assert_shared_since(before, 20);
}

static const struct kl_quant_format formats[] = {
    {KL_QUANT_AFFINE, 64, 4}, {KL_QUANT_AFFINE, 32, 3}, {KL_QUANT_AFFINE, 128, 8},
    {KL_QUANT_MXFP4, 32, 4},  {KL_QUANT_MXFP8, 32, 8},  {KL_QUANT_NVFP4, 16, 4}};

/* in = {x, packed numbers, scales, perhaps biases} */
static int quantized_product(struct kl_array **out, struct kl_array *const *in, int which,
                             struct kl_error **err) {
    const struct kl_quant_format *f = &formats[which / 2];
    struct kl_array *biases = f->mode == KL_QUANT_AFFINE ? in[3] : NULL;
    return kl_quantized_matmul(out, in[0], in[1], in[2], biases, which % 2, f, cpu(), err);
}
static int quantized_back(struct kl_array **out, struct kl_array *const *in, int which,
                          struct kl_error **err) {
    struct kl_array *biases = formats[which].mode == KL_QUANT_AFFINE ? in[2] : NULL;
    return kl_dequantize(out, in[0], in[1], biases, &formats[which], NULL, NULL, cpu(), err);
}
static int quantized(struct kl_array **out, struct kl_array *const *in, int which,
                     struct kl_error **err) {
    struct kl_array *made[3];
    int n;
    KL_TRY(kl_quantize(made, &n, in[0], &formats[which / 2], NULL, cpu(), err));
    *out = made[which % 2];
    for (int i = 0; i < n; i++)
        if (i != which % 2) kl_array_release(made[i]);
    return KL_OK;
}

static struct kl_array *normal(int rows, int cols, uint32_t seed) {
    struct kl_array *key, *x;
    EXPECT_OK(kl_random_key(&key, seed, &err));
    EXPECT_OK(kl_random_normal(&x, LIST(rows, cols), KL_F32, 0, 1, key, cpu(), &err));
    EXPECT_OK(kl_eval(&x, 1, &err));
    kl_array_release(key);
    return x;
}

static void quantized_products(void **state) {
    static const int rows[] = {1, 5, 40};
    int64_t before = n_shared;
    for (int k = 0; k < (int)(sizeof formats / sizeof *formats); k++) {
        struct kl_array *w = normal(700, 896, 3), *in[4] = {NULL};
        int n;
        compare("quantize", quantized, 2 * k, &w);
        compare("the scales of quantize", quantized, 2 * k + 1, &w);
        EXPECT_OK(kl_quantize(in + 1, &n, w, &formats[k], NULL, cpu(), &err));
        EXPECT_OK(kl_eval(in + 1, (size_t)n, &err));
        compare("dequantize", quantized_back, k, in + 1);
        for (int r = 0; r < 3; r++)
            for (int transpose = 0; transpose < 2; transpose++) {
                in[0] = normal(rows[r], transpose ? 896 : 700, 5);
                compare("quantized_matmul", quantized_product, 2 * k + transpose, in);
                kl_array_release(in[0]);
            }
        for (int i = 0; i < n; i++) kl_array_release(in[1 + i]);
        kl_array_release(w);
    }
    assert_shared_since(before, 40);
}

static int convolved(struct kl_array **out, struct kl_array *const *in, int which,
                     struct kl_error **err) {
    const struct kl_convolution_params p[] = {
        {2, 1, 0, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        {2, 1, 1, {2, 1}, {0, 3}, {1, 0}, {1, 2}, {1, 2}},
        {2, 70, 0, {1, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    };
    return kl_convolution(out, in[0], in[which == 2 ? 2 : 1], &p[which], cpu(), err);
}

static void convolutions(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
    static const int dims[][4] = {{3, 25, 40, 70}, {65, 3, 3, 70}, {70, 3, 3, 1}};
    int64_t before = n_shared;
    for (int t = 0; t < 4; t++) {
        struct kl_array *in[3], *key, *x;
        for (int i = 0; i < 3; i++) {
            EXPECT_OK(kl_random_key(&key, (uint64_t)i + 50, &err));
            EXPECT_OK(kl_random_normal(&x, dims[i], 4, KL_F32, 0, 1, key, cpu(), &err));
            EXPECT_OK(kl_astype(&in[i], x, types[t], cpu(), &err));
            kl_array_release(x);
            kl_array_release(key);
        }
        EXPECT_OK(kl_eval(in, 3, &err));
        for (int which = 0; which < 3; which++) compare("convolution", convolved, which, in);
        for (int i = 0; i < 3; i++) kl_array_release(in[i]);
    }
    assert_shared_since(before, 8);
}

static int attended(struct kl_array **out, struct kl_array *const *in, int which,
                    struct kl_error **err) {
    return kl_attention(out, in[0], in[1], in[2], 0.125f, which ? "causal" : "", NULL, NULL, cpu(),
                        err);
}

static int attended_backward(struct kl_array **out, struct kl_array *const *in, int which,
                             struct kl_error **err) {
    return kl_attention_backward(out, in, 0.125f, which, NULL, NULL, in[0], in[0], cpu(), err);
}

static void attention(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F16, KL_BF16};
    static const int rows[] = {1, 300};
    int64_t before = n_shared;
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 2; r++) {
            struct kl_array *in[3], *key, *x;
            for (int i = 0; i < 3; i++) {
                const int dims[] = {2, i ? 2 : 6, i ? 700 : rows[r], 64};
                EXPECT_OK(kl_random_key(&key, (uint64_t)i + 5, &err));
                EXPECT_OK(kl_random_normal(&x, dims, 4, KL_F32, 0, 1, key, cpu(), &err));
                EXPECT_OK(kl_astype(&in[i], x, types[t], cpu(), &err));
                kl_array_release(x);
                kl_array_release(key);
            }
            EXPECT_OK(kl_eval(in, 3, &err));
            compare("attention", attended, 0, in);
            compare("causal attention", attended, 1, in);
            compare("attention backward", attended_backward, 0, in);
            compare("causal attention backward", attended_backward, 1, in);
            for (int i = 0; i < 3; i++) kl_array_release(in[i]);
        }
    assert_shared_since(before, 12);
}

/* in: the values (n, width) and the indices (m). */
static int indexed(struct kl_array **out, struct kl_array *const *in, int which,
                   struct kl_error **err) {
    struct kl_array *a = in[0], *at = in[1], *updates, *none;
    if (which == 0) return kl_take_axis(out, a, at, 0, cpu(), err);
    if (which == 1) return kl_sort_axis(out, a, 0, cpu(), err);
    if (which == 2) return kl_argsort_axis(out, a, 0, cpu(), err);
    static kl_scatter_single_fn *const scatters[] = {kl_scatter_single, kl_scatter_add_single,
                                                     kl_scatter_max_single, kl_scatter_prod_single};
    /* Indexed with as many rows in another order. */
    KL_TRY(kl_take_axis(&none, a, at, 0, cpu(), err));
    int rc = kl_expand_dims(&updates, none, 1, cpu(), err);
    kl_array_release(none);
    if (rc) return rc;
    rc = scatters[which - 3](out, a, at, updates, 0, cpu(), err);
    kl_array_release(updates);
    return rc;
}

static void indices(void **state) {
    static const int shapes[][2] = {{5003, 64}, {300007, 1}};
    for (int shape = 0; shape < 2; shape++)
        for (int d = 0; d < KL_N_DTYPES; d++) {
            int n = shapes[shape][0], m = n * 2;
            int32_t *at = malloc((size_t)m * sizeof *at);
            uint32_t seed = 1;
            for (int i = 0; i < m; i++) {
                seed = seed * 1664525u + 1013904223u;
                at[i] = (int32_t)((uint64_t)seed * (unsigned)n >> 32) - (i % 3 == 0 ? n : 0);
            }
            struct kl_array *in[] = {special_bits((enum kl_dtype)d, 2, shapes[shape], 21),
                                     array_of(KL_I32, 1, &m, at)};
            free(at);
            static const char *const names[] = {
                "take",    "sort",        "argsort",     "",
                "scatter", "scatter_add", "scatter_max", "scatter_prod"};
            for (int which = 0; which < 7; which++) compare(names[which], indexed, which, in);
            kl_array_release(in[0]);
            kl_array_release(in[1]);
        }
}

static int drawn(struct kl_array **out, struct kl_array *const *in, int which,
                 struct kl_error **err) {
    static const int n = 300007, keys = 100003;
    struct kl_array *key, *low, *high;
    KL_TRY(kl_random_key(&key, 3, err));
    KL_TRY(kl_array_new_scalar(&low, -1, KL_F32, err));
    KL_TRY(kl_array_new_scalar(&high, 1, KL_F32, err));
    int rc = which == 0   ? kl_random_bits(out, &n, 1, 4, key, cpu(), err)
             : which == 1 ? kl_random_uniform(out, low, high, &n, 1, KL_F32, key, cpu(), err)
             : which == 2 ? kl_random_normal(out, &n, 1, KL_BF16, 0, 1, key, cpu(), err)
             : which == 3 ? kl_random_split_num(out, key, keys, cpu(), err)
                          : kl_random_permutation_arange(out, n, key, cpu(), err);
    kl_array_release(key);
    kl_array_release(low);
    kl_array_release(high);
    return rc;
}

static void random_numbers(void **state) {
    static const char *const names[] = {"bits", "uniform", "normal", "split", "permutation"};
    struct kl_array *x = scalar_of(KL_U32, 0);
    for (int which = 0; which < 5; which++) compare(names[which], drawn, which, &x);
    kl_array_release(x);
    /* One of three ways counts what is shared. Of what was drawn (kl_test_takes) much is. */
    assert_true(n_compared > 0 && n_shared > n_compared / 6);
    printf("%d results, %lld shared\n", n_compared, (long long)n_shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),  cmocka_unit_test(reduced),
        cmocka_unit_test(products),     cmocka_unit_test(quantized_products),
        cmocka_unit_test(convolutions), cmocka_unit_test(attention),
        cmocka_unit_test(indices),      cmocka_unit_test(random_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
