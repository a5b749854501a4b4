/* test_attention.c - scaled_dot_product_attention against its definition in float64: both methods
 * of the CPU's kernel, the composed form on a device, masks, sinks, layouts; its gradient; bad
 * arguments. */
#include "ops/support/helpers.h"
#include "ops/support/vjp_support.h"

#include "backend/cpu/product/tiles_amx.h"
#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"

/* A GPU stream: of the simulated device, or of the device that KEEL_TEST_GPU names. */
static struct kl_stream *gpu(void) {
    return sim();
}

struct shape {
    int b, heads, kv_heads, n, m, d, e;
};
enum masking { NO_MASK, CAUSAL, BOOLEAN, ADDITIVE };

static uint32_t seed = 1;
static float draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float)(int)(seed >> 16) / 32768 - 1;
}

static struct kl_array *random_array(enum kl_dtype dtype, int ndim, const int *dims, float scale) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 4, &size));
    float *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) v[i] = draw() * scale;
    struct kl_array *a = array_of(KL_F32, ndim, dims, v), *b;
    free(v);
    EXPECT_OK(kl_astype(&b, a, dtype, cpu(), &err));
    EXPECT_OK(kl_eval(&b, 1, &err));
    kl_array_release(a);
    return b;
}

static double *as_doubles(struct kl_array *a) {
    struct kl_array *d;
    EXPECT_OK(kl_astype(&d, a, KL_F64, cpu(), &err));
    double *v = values_of(d);
    kl_array_release(d);
    return v;
}

/* Computes the result of one query by the formula, in double, and behind it the same of the sizes
 * of the values. */
static void reference(const struct shape *s, const double *q, const double *k, const double *v,
                      const double *mask, const double *sinks, enum masking masking, double scale,
                      int b, int h, int i, double *out, double *room) {
    int kh = h / (s->heads / s->kv_heads);
    double top = sinks ? sinks[h] : -INFINITY, total = 0;
    for (int j = 0; j < s->m; j++) {
        double x = 0;
        for (int c = 0; c < s->d; c++)
            x += q[((b * s->heads + h) * s->n + i) * s->d + c] *
                 k[((b * s->kv_heads + kh) * s->m + j) * s->d + c];
        x *= scale;
        if (masking == CAUSAL && j > i + s->m - s->n) x = -1e30;
        if (masking == BOOLEAN && mask[i * s->m + j] == 0) x = -1e30;
        if (masking == ADDITIVE) x += mask[i * s->m + j];
        room[j] = x;
        if (x > top) top = x;
    }
    if (sinks) total = exp(sinks[h] - top);
    for (int c = 0; c < 2 * s->e; c++) out[c] = 0;
    for (int j = 0; j < s->m; j++) {
        double w = exp(room[j] - top);
        total += w;
        for (int c = 0; c < s->e; c++) {
            double x = v[((b * s->kv_heads + kh) * s->m + j) * s->e + c];
            out[c] += w * x;
            out[s->e + c] += w * fabs(x);
        }
    }
    for (int c = 0; c < 2 * s->e; c++) out[c] = s->m ? out[c] / total : 0;
}

/* Whether the device multiplies values by weights that are rounded to their dtype: CUDA's tensor
 * cores do, and so do the CPU's tile registers, whose kernels the simulated device runs. */
static bool rounds_weights(void) {
    const char *device = getenv("KEEL_TEST_GPU");
    return device ? strcmp(device, "cuda") == 0 : kl_cpu_uses_amx();
}

/* Compares attention with the formula. q_scale: the size of the queries. Scores grow with it, and
 * with the root of the width. */
static void check_scaled(struct shape s, enum kl_dtype dtype, enum masking masking, bool with_sinks,
                         bool transposed, struct kl_stream *stream, float q_scale) {
    if (!getenv("KEEL_TEST_GPU") && !kl_test_takes("cpu", 1)) return;
    int dq[] = {s.b, s.heads, s.n, s.d}, dk[] = {s.b, s.kv_heads, s.m, s.d},
        dv[] = {s.b, s.kv_heads, s.m, s.e}, dm[] = {s.n, s.m};
    struct kl_array *q = random_array(dtype, 4, dq, q_scale), *k = random_array(dtype, 4, dk, 1),
                    *v = random_array(dtype, 4, dv, 1), *mask = NULL, *sinks = NULL, *out;
    if (masking == BOOLEAN) {
        struct kl_array *zero = scalar_of(KL_F32, -0.3), *x = random_array(KL_F32, 2, dm, 1);
        EXPECT_OK(kl_greater(&mask, x, zero, cpu(), &err));
        kl_array_release(zero);
        kl_array_release(x);
    }
    if (masking == ADDITIVE) mask = random_array(dtype, 2, dm, 2);
    if (with_sinks) sinks = random_array(dtype, 1, &s.heads, 2);
    if (transposed) {
        q = strided(q);
        k = strided(k);
        v = strided(v);
    }
    double *x[5] = {as_doubles(q), as_doubles(k), as_doubles(v), mask ? as_doubles(mask) : NULL,
                    sinks ? as_doubles(sinks) : NULL};
    float scale = s.d % 3 ? 0.37F : -0.37F;
    EXPECT_OK(kl_attention(&out, q, k, v, scale, masking == CAUSAL ? "causal" : "", mask, sinks,
                           stream, &err));
    expect_shape(out, 4, (int[]){s.b, s.heads, s.n, s.e});
    assert_int_equal(out->t.dtype, dtype);
    double *got = as_doubles(out), *want = malloc((size_t)(2 * s.e + 1) * sizeof(double)),
           *room = malloc((size_t)(s.m + 1) * sizeof(double));
    double unit = dtype == KL_F64 ? 1e-13 : dtype == KL_F32 ? 1e-5 : dtype == KL_F16 ? 2e-3 : 2e-2;
    bool composed = stream != cpu();
    for (int b = 0; b < s.b; b++)
        for (int h = 0; h < s.heads; h++)
            for (int i = 0; i < s.n; i += 1 + s.n / 40) {
                reference(&s, x[0], x[1], x[2], x[3], x[4], masking, (double)scale, b, h, i, want,
                          room);
                for (int c = 0; c < s.e; c++) {
                    double y = got[((b * s.heads + h) * s.n + i) * s.e + c];
                    /* Devices compute 16-bit floats in float32 and round results. */
                    double u = dtype == KL_F16 ? 0x1p-11 : 0x1p-8;
                    if (composed && (dtype == KL_F16 || dtype == KL_BF16))
                        unit = 1e-5 * q_scale +
                               u * (fabs(want[c]) + (rounds_weights() ? want[s.e + c] : 0));
                    if (!(fabs(y - want[c]) <= unit))
                        fail_msg("%s (%d, %d/%d, %d, %d, %d, %d) mask %d sinks %d%s: head %d, "
                                 "query %d: %g, not %g",
                                 kl_dtype_name(dtype), s.b, s.heads, s.kv_heads, s.n, s.m, s.d, s.e,
                                 masking, with_sinks, transposed ? " transposed" : "", h, i, y,
                                 want[c]);
                }
            }
    for (int i = 0; i < 5; i++) free(x[i]);
    free(got);
    free(want);
    free(room);
    struct kl_array *all[] = {q, k, v, mask, sinks, out};
    for (int i = 0; i < 6; i++) kl_array_release(all[i]);
}

static void check(struct shape s, enum kl_dtype dtype, enum masking masking, bool with_sinks,
                  bool transposed, struct kl_stream *stream) {
    check_scaled(s, dtype, masking, with_sinks, transposed, stream, 3);
}

static const struct shape shapes[] = {
    {1, 2, 2, 1, 1, 4, 4},       {2, 4, 2, 1, 5, 8, 3},     {1, 8, 2, 1, 1100, 20, 17},
    {1, 3, 1, 4, 513, 16, 16},   {2, 2, 1, 33, 7, 9, 21},   {1, 4, 2, 40, 130, 32, 48},
    {1, 2, 1, 200, 300, 12, 5},  {1, 1, 1, 300, 300, 8, 8}, {2, 2, 2, 20, 0, 4, 4},
    {1, 2, 2, 1, 0, 4, 4},       {1, 2, 1, 0, 6, 4, 4},     {1, 2, 2, 17, 3, 4, 4},
    {1, 2, 1, 40, 1100, 64, 32}, {64, 1, 1, 300, 40, 8, 8}, {1, 4, 2, 75, 300, 61, 64},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void values(void **state) {
    for (int i = 0; i < N_SHAPES; i++)
        for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
            for (int sinks = 0; sinks < 2; sinks++)
                check(shapes[i], KL_F32, (enum masking)masking, sinks, (i + masking) % 3 == 0,
                      cpu());
}

static void types(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16, KL_F64};
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
                check(shapes[i], dtypes[d], (enum masking)masking, i % 2, i % 3 == 0, cpu());
}

/* Where the CPU has tile registers, few of them in use and many give the same bits. */
static void few_and_many_tile_registers(void **state) {
    static const enum kl_dtype dtypes[] = {KL_BF16, KL_F32};
    for (int i = 0; i < 2 * N_SHAPES; i++) {
        const struct shape *s = &shapes[i / 2];
        enum kl_dtype dtype = dtypes[i % 2];
        struct kl_array *q = random_array(dtype, SHAPE(s->b, s->heads, s->n, s->d), 3),
                        *k = random_array(dtype, SHAPE(s->b, s->kv_heads, s->m, s->d), 1),
                        *v = random_array(dtype, SHAPE(s->b, s->kv_heads, s->m, s->e), 1), *out[2];
        void *bits[2];
        for (int few = 0; few < 2; few++) {
            EXPECT_OK(kl_attention(&out[few], q, k, v, 0.3F, "causal", NULL, NULL, cpu(), &err));
            kl_test_amx_few(few);
            EXPECT_OK(kl_array_host(out[few], &bits[few], &err));
            kl_test_amx_few(-1);
        }
        assert_memory_equal(bits[0], bits[1], (size_t)out[0]->t.size * kl_dtype_size(dtype));
        struct kl_array *all[] = {q, k, v, out[0], out[1]};
        for (int j = 0; j < 5; j++) kl_array_release(all[j]);
    }
}

/* Tile registers compute float32 by splitting it into bfloat16 parts. When an element cannot be
 * split, the result has the bits that vectors give; otherwise it has other bits. */
static void elements_that_cannot_be_split(void **state) {
    enum { N = 70, M = 300, D = 61 };
    int wide = kl_cpu_variant();
    if (!kl_cpu_uses_amx()) {
        print_message("no tile registers here\n");
        return;
    }
    static const struct {
        int operand; /* the operand with that element; 3: none */
        float special;
    } cases[] = {{3, 0}, {0, 0x1p-110F}, {1, 0x1p125F}, {1, NAN}, {2, INFINITY}, {2, 0x1p-70F}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kl_array *in[3] = {random_array(KL_F32, SHAPE(1, 1, N, D), 1),
                                  random_array(KL_F32, SHAPE(1, 1, M, D), 1),
                                  random_array(KL_F32, SHAPE(1, 1, M, D), 1)};
        void *data, *bits[2];
        struct kl_array *out[2];
        if (cases[i].operand < 3) {
            EXPECT_OK(kl_array_host(in[cases[i].operand], &data, &err));
            ((float *)data)[20 * D + 3] = cases[i].special;
        }
        for (int way = 0; way < 2; way++) {
            kl_cpu_use_variant(wide - way);
            EXPECT_OK(
                kl_attention(&out[way], in[0], in[1], in[2], 0.3F, "", NULL, NULL, cpu(), &err));
            EXPECT_OK(kl_array_host(out[way], &bits[way], &err));
            kl_cpu_use_variant(-1);
        }
        bool same = memcmp(bits[0], bits[1], sizeof(float) * N * D) == 0;
        if (same != (cases[i].operand < 3)) fail_msg("case %d: same bits: %d", (int)i, same);
        for (int j = 0; j < 5; j++) kl_array_release(j < 3 ? in[j] : out[j - 3]);
    }
}

/* Whether a case runs that may compile kernels of its own. Of those that take long where kernels
 * are not optimised fewer do. */
static bool takes(const struct shape *s) {
    const int64_t work = (int64_t)s->b * s->heads * s->n * s->m * (s->d + s->e);
    return !getenv("KEEL_TEST_GPU") || kl_test_takes("kernels", work > 4000000 ? 3 : 1);
}

static void on_a_device(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
                for (int sinks = i % 2; shapes[i].m && sinks < 2; sinks += 2)
                    if (takes(&shapes[i]))
                        check(shapes[i], dtypes[d], (enum masking)masking, sinks, false, gpu());
}

/* Float32 of the widths that CUDA's matrix units take in two parts: groups of 128 rows and tiles of
 * 64 keys that end early, rows of several heads in a group, more queries than keys. */
static void wide_rows_on_a_device(void **state) {
    static const struct shape some[] = {
        {1, 2, 2, 17, 1, 64, 64},   {2, 4, 2, 75, 300, 64, 64},   {2, 2, 1, 150, 130, 128, 128},
        {1, 1, 1, 200, 90, 64, 64}, {1, 6, 1, 20, 129, 128, 128}, {1, 2, 2, 40, 1100, 128, 128}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
            if (takes(&some[i]))
                check(some[i], KL_F32, (enum masking)masking, (i + masking) % 2, i % 3 == 2, gpu());
}

/* There an element of one operand that has no two parts, or loses digits in them, has the result
 * that it has elsewhere: as the CPU's. All else is as large, so that it is seen. */
static void parts_on_a_device(void **state) {
    enum { N = 70, M = 150, D = 64 };
    static const struct {
        int operand; /* of which each element is multiplied by `size`, and one is `special` */
        float size, special;
    } cases[] = {{2, 1, INFINITY},  {2, 1, NAN},       {1, 1, INFINITY},  {1, 1, NAN},
                 {0, 1, -INFINITY}, {0, 0x1p-120F, 0}, {2, 0x1p-130F, 0}, {2, 0x1p-140F, 1},
                 {2, 0x1p120F, 0},  {1, 0x1p-130F, 0}, {2, 0, 0},         {2, 0x1p-70F, 0x1p-126F}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kl_array *x[3], *out[2];
        const float *y[2];
        void *data;
        if (!takes(&(struct shape){1, 1, 1, N, M, D, D})) continue;
        for (int k = 0; k < 3; k++) {
            const bool is_it = k == cases[i].operand;
            /* The other factor of a score takes back what makes this one small. */
            const float others =
                cases[i].size == 0x1p-120F || cases[i].size == 0x1p-130F ? 1 / cases[i].size : 1;
            x[k] = random_array(KL_F32, SHAPE(1, 1, k ? M : N, D),
                                is_it                           ? cases[i].size
                                : cases[i].operand < 2 && k < 2 ? others
                                                                : 1);
            EXPECT_OK(kl_array_host(x[k], &data, &err));
            if (is_it && !(fabsf(cases[i].special) == 0))
                ((float *)data)[30 * D + 5] = cases[i].special;
        }
        double largest = 0;
        for (int way = 0; way < 2; way++) {
            EXPECT_OK(kl_attention(&out[way], x[0], x[1], x[2], 0.3F, "", NULL, NULL,
                                   way ? gpu() : cpu(), &err));
            EXPECT_OK(kl_array_host(out[way], &data, &err));
            y[way] = data;
        }
        for (int c = 0; c < N * D; c++)
            if (isfinite(y[0][c])) largest = fmax(largest, (double)fabsf(y[0][c]));
        for (int c = 0; c < N * D; c++) {
            const double a = (double)y[0][c], b = (double)y[1][c];
            if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * largest + 0x1p-148))
                fail_msg("case %d, row %d, column %d: %g, the CPU has %g", (int)i, c / D, c % D, b,
                         a);
        }
        for (int k = 0; k < 5; k++) kl_array_release(k < 3 ? x[k] : out[k - 3]);
    }
}

/* So many sequences that keys are not cut into segments, and lengths around whole rounds of the
 * kernels: some load the keys of a round before those of the round before are taken. */
static void rounds_on_a_device(void **state) {
    static const struct shape some[] = {
        {34, 32, 8, 1, 128, 128, 128}, {34, 16, 8, 1, 129, 64, 64}, {34, 16, 8, 2, 143, 64, 64},
        {34, 16, 8, 1, 208, 128, 128}, {34, 16, 8, 1, 241, 64, 64}, {34, 32, 8, 3, 255, 64, 64}};
    for (int i = 0; i < 6; i++)
        if (takes(&some[i]))
            check(some[i], i % 2 ? KL_F16 : KL_BF16, i % 3 ? BOOLEAN : NO_MASK, i % 2, false,
                  gpu());
}

/* Neighbouring scores that 16 bits would not distinguish or could not hold. They are up to 250
 * times larger than in the tests above. */
static void large_scores_on_a_device(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16};
    static const struct shape few[] = {{1, 4, 2, 9, 20, 64, 8}, {1, 2, 1, 1, 33, 16, 5}};
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 2; i++)
            for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
                for (int sinks = 0; sinks < 2; sinks++) {
                    check_scaled(few[i], dtypes[d], (enum masking)masking, sinks, false, gpu(), 8);
                    check_scaled(few[i], dtypes[d], (enum masking)masking, sinks, false, gpu(), 64);
                }
}

/* Scores of 65504 and more, which are infinities in float16. The largest score wins, and no result
 * is NaN. */
static void scores_beyond_float16_on_a_device(void **state) {
    enum { M = 7, D = 4 };
    float q[2 * D], k[M * D], v[M];
    for (int i = 0; i < 2 * D; i++) q[i] = 300;
    /* Gives scores of 120000 and 132000. */
    for (int i = 0; i < M * D; i++) k[i] = i / D == 4 ? 110 : 100;
    for (int i = 0; i < M; i++) v[i] = (float)i;
    struct kl_array *full[] = {array_of(KL_F32, SHAPE(1, 1, 2, D), q),
                               array_of(KL_F32, SHAPE(1, 1, M, D), k),
                               array_of(KL_F32, SHAPE(1, 1, M, 1), v)},
                    *x[3], *out, *wide;
    for (int i = 0; i < 3; i++) EXPECT_OK(kl_astype(&x[i], full[i], KL_F16, cpu(), &err));
    EXPECT_OK(kl_attention(&out, x[0], x[1], x[2], 1, "", NULL, NULL, gpu(), &err));
    EXPECT_OK(kl_astype(&wide, out, KL_F32, cpu(), &err));
    EXPECT_F32(wide, SHAPE(1, 1, 2, 1), 4, 4);
    kl_array_release(out);
    for (int i = 0; i < 3; i++) {
        kl_array_release(full[i]);
        kl_array_release(x[i]);
    }
}

/* The gradients with respect to q, k and v; in[3] is the cotangent. */
static void gradients_of(struct kl_array **grad, struct kl_array *const *in, struct kl_stream *s) {
    const struct kl_attention_params params = {.scale = 0.05F};
    const bool wanted[] = {true, true, true};
    struct kl_array *out;
    EXPECT_OK(kl_attention(&out, in[0], in[1], in[2], 0.05F, "", NULL, NULL, s, &err));
    struct kl_vjp v = {.op = KL_OP_ATTENTION,
                       .params = &params,
                       .n_in = 3,
                       .n_out = 1,
                       .in = in,
                       .out = &out,
                       .cotangent = in + 3,
                       .wanted = wanted,
                       .s = s};
    for (int i = 0; i < 3; i++) grad[i] = NULL;
    EXPECT_OK(kl_vjp_rule(KL_OP_ATTENTION)(&v, grad, &err));
    kl_array_release(out);
}

/* The gradient of 16-bit floats is computed in float32 as well, from weights that may be rounded
 * and from a result that is: these errors are multiplied by 0.05 * 40 at most. */
static void gradient_on_a_device(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16};
    for (int d = 0; d < 2; d++) {
        struct kl_array *half[4] = {random_array(dtypes[d], SHAPE(1, 4, 3, 16), 40),
                                    random_array(dtypes[d], SHAPE(1, 2, 5, 16), 40),
                                    random_array(dtypes[d], SHAPE(1, 2, 5, 8), 1),
                                    random_array(dtypes[d], SHAPE(1, 4, 3, 8), 1)},
                        *full[4], *got[3], *want[3];
        for (int i = 0; i < 4; i++) EXPECT_OK(kl_astype(&full[i], half[i], KL_F32, cpu(), &err));
        gradients_of(got, half, gpu());
        gradients_of(want, full, gpu());
        for (int i = 0; i < 3; i++) {
            assert_int_equal(got[i]->t.dtype, dtypes[d]);
            double *x = as_doubles(got[i]), *y = as_doubles(want[i]);
            const double u = dtypes[d] == KL_F16 ? 0x1p-11 : 0x1p-8;
            for (int64_t k = 0; k < got[i]->t.size; k++) {
                double room = u * (fabs(y[k]) + 2) + 1e-4;
                if (!(fabs(x[k] - y[k]) <= room))
                    fail_msg("%s, gradient %d, element %d: %g, not %g", kl_dtype_name(dtypes[d]), i,
                             (int)k, x[k], y[k]);
            }
            free(x);
            free(y);
            kl_array_release(got[i]);
            kl_array_release(want[i]);
        }
        for (int i = 0; i < 4; i++) {
            kl_array_release(half[i]);
            kl_array_release(full[i]);
        }
    }
}

/* When all values are 1, the result is 1, however the weights are rounded. A NaN in a value that a
 * query sees gives NaN. */
static void weights_add_up(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
    enum { N = 70, M = 300, D = 61 };
    float *q = malloc(sizeof(float[N]) * D), *k = malloc(sizeof(float[M]) * D),
          *v = malloc(sizeof(float[M]) * D), *mask = malloc(sizeof(float[M]));
    for (int i = 0; i < N * D; i++) q[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < M * D; i++) k[i] = (float)(i * 5 % 13 - 6) / 4;
    for (int i = 0; i < M * D; i++) v[i] = 1;
    for (int i = 0; i < M; i++) mask[i] = i % 3 ? 0 : -INFINITY;
    for (int d = 0; d < 3; d++)
        for (int nan = 0; nan < 2; nan++) {
            if (nan) k[(M - 1) * D] = NAN; /* in the value of a key that only the last query sees */
            struct kl_array *full[] = {array_of(KL_F32, SHAPE(1, 1, N, D), q),
                                       array_of(KL_F32, SHAPE(1, 1, M, D), k),
                                       array_of(KL_F32, SHAPE(1, 1, M, D), v),
                                       array_of(KL_F32, SHAPE(1, M), mask)},
                            *x[4], *out, *wide;
            for (int i = 0; i < 4; i++)
                EXPECT_OK(kl_astype(&x[i], full[i], dtypes[d], cpu(), &err));
            EXPECT_OK(kl_attention(&out, x[0], x[1], x[2], 1, nan ? "causal" : "array",
                                   nan ? NULL : x[3], NULL, cpu(), &err));
            EXPECT_OK(kl_astype(&wide, out, KL_F32, cpu(), &err));
            float *got = values_of(wide);
            for (int i = 0; i < N * D; i++)
                assert_true(nan && i / D == N - 1 ? isnan(got[i])
                                                  : fabsf(got[i] - 1) <= (d ? 0 : 1e-5f));
            free(got);
            kl_array_release(wide);
            kl_array_release(out);
            for (int i = 0; i < 4; i++) {
                kl_array_release(x[i]);
                kl_array_release(full[i]);
            }
            k[(M - 1) * D] = 0;
        }
    free(q);
    free(k);
    free(v);
    free(mask);
}

/* Scores that overflow exp by far, and masks that leave a single key. */
static void extremes(void **state) {
    enum { M = 700 };
    static float k[M * 4], v[M * 2];
    float *mask = malloc(M * sizeof *mask);
    for (int n = 1; n <= 40; n += 39) {
        float *q = malloc((size_t)n * 4 * sizeof *q);
        for (int i = 0; i < n * 4; i++) q[i] = 100;
        for (int i = 0; i < M * 4; i++) k[i] = (float)(i / 4) - 350;
        for (int i = 0; i < M * 2; i++) v[i] = (float)i;
        for (int i = 0; i < M; i++) mask[i] = i == 3 ? 0 : -INFINITY;
        struct kl_array *aq = array_of(KL_F32, SHAPE(1, 1, n, 4), q),
                        *ak = array_of(KL_F32, SHAPE(1, 1, M, 4), k),
                        *av = array_of(KL_F32, SHAPE(1, 1, M, 2), v),
                        *am = array_of(KL_F32, SHAPE(1, M), mask), *out;
        EXPECT_OK(kl_attention(&out, aq, ak, av, 1, NULL, NULL, NULL, cpu(), &err));
        float *got = values_of(out);
        for (int i = 0; i < n; i++)
            assert_true(got[2 * i] == 2 * (M - 1) && got[2 * i + 1] == 2 * M - 1);
        free(got);
        kl_array_release(out);
        EXPECT_OK(kl_attention(&out, aq, ak, av, 1, "array", am, NULL, cpu(), &err));
        got = values_of(out);
        for (int i = 0; i < n; i++) assert_true(got[2 * i] == 6 && got[2 * i + 1] == 7);
        free(got);
        struct kl_array *all[] = {aq, ak, av, am, out};
        for (int i = 0; i < 5; i++) kl_array_release(all[i]);
        free(q);
    }
    free(mask);
}

/* A NaN in a key reaches the queries that see this key, and no others. */
static void nan_stays_with_its_queries(void **state) {
    enum { N = 30 };
    float x[N * 2];
    for (int i = 0; i < N * 2; i++) x[i] = (float)(i % 7);
    struct kl_array *q = array_of(KL_F32, SHAPE(1, 1, N, 2), x), *out;
    x[2 * 20] = NAN;
    struct kl_array *k = array_of(KL_F32, SHAPE(1, 1, N, 2), x);
    EXPECT_OK(kl_attention(&out, q, k, q, 1, "causal", NULL, NULL, cpu(), &err));
    float *got = values_of(out);
    for (int i = 0; i < N; i++) assert_int_equal(isnan(got[2 * i]), i >= 20);
    free(got);
    kl_array_release(q);
    kl_array_release(k);
    kl_array_release(out);
}

/* Each allocation of an evaluation fails in turn, among them the kernel's own. */
static void no_memory(void **state) {
    for (int n_queries = 1; n_queries <= 40; n_queries += 39) {
        struct kl_array *q = random_array(KL_F16, SHAPE(1, 2, n_queries, 8), 1),
                        *k = random_array(KL_F16, SHAPE(1, 2, 50, 8), 1), *out;
        int failures = 0;
        for (int at = 0;; at++) {
            EXPECT_OK(kl_attention(&out, q, k, k, 1, "causal", NULL, NULL, cpu(), &err));
            struct kl_error *why = NULL;
            int64_t live = kl_test_n_live();
            kl_test_fail_alloc_at(at);
            int rc = kl_eval(&out, 1, &why);
            bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            kl_array_release(out);
            if (!failed) {
                assert_int_equal(rc, KL_OK);
                break;
            }
            if (rc) {
                assert_int_equal(rc, KL_ENOMEM);
                failures++;
            }
            kl_error_release(why);
            kl_test_wait_for_live(live);
        }
        assert_true(failures > 0);
        kl_array_release(q);
        kl_array_release(k);
    }
}

struct how {
    const char *mode;
    int n_in; /* 3: no mask; 4: a mask; 5: a mask and sinks */
};
static int attend(struct kl_array **out, struct kl_array *const *in, const void *how,
                  struct kl_error **err) {
    const struct how *h = how;
    return kl_attention(out, in[0], in[1], in[2], 0.5F, h->mode, h->n_in > 3 ? in[3] : NULL,
                        h->n_in > 4 ? in[4] : NULL, cpu(), err);
}

static void gradient(void **state) {
    static const struct how ways[] = {{"", 3}, {"causal", 3}, {"array", 4}, {"array", 5}};
    struct kl_array *in[5] = {
        random_array(KL_F32, SHAPE(2, 4, 3, 5), 1), random_array(KL_F32, SHAPE(2, 2, 4, 5), 1),
        random_array(KL_F32, SHAPE(2, 2, 4, 3), 1), random_array(KL_F32, SHAPE(2, 4, 3, 4), 1),
        random_array(KL_F32, SHAPE(4), 1)};
    for (int i = 0; i < 4; i++) check_vjp("attention", attend, &ways[i], in, ways[i].n_in, 0);
    for (int i = 0; i < 5; i++) kl_array_release(in[i]);
}

static void bad(void **state) {
    struct kl_array *q = random_array(KL_F32, SHAPE(1, 4, 3, 8), 1),
                    *k = random_array(KL_F32, SHAPE(1, 2, 5, 8), 1), *out;
    struct kl_array *v = random_array(KL_F32, SHAPE(1, 2, 5, 6), 1),
                    *three = random_array(KL_F32, SHAPE(4, 3, 8), 1),
                    *heads = random_array(KL_F32, SHAPE(1, 3, 3, 8), 1),
                    *batch = random_array(KL_F32, SHAPE(2, 4, 3, 8), 1),
                    *width = random_array(KL_F32, SHAPE(1, 4, 3, 7), 1),
                    *length = random_array(KL_F32, SHAPE(1, 2, 4, 6), 1),
                    *ints = random_array(KL_I32, SHAPE(1, 4, 3, 8), 1),
                    *half = random_array(KL_F16, SHAPE(1, 4, 3, 8), 1),
                    *complex = random_array(KL_C64, SHAPE(1, 4, 3, 8), 1),
                    *mask = random_array(KL_F32, SHAPE(3, 5), 1),
                    *other = random_array(KL_F32, SHAPE(2, 5), 1),
                    *five = random_array(KL_F32, SHAPE(1, 1, 4, 3, 5), 1),
                    *sinks = random_array(KL_F32, SHAPE(4), 1),
                    *two = random_array(KL_F32, SHAPE(2), 1),
                    *hk = random_array(KL_F16, SHAPE(1, 2, 5, 8), 1),
                    *hv = random_array(KL_F16, SHAPE(1, 2, 5, 6), 1),
                    *ik = random_array(KL_I32, SHAPE(1, 2, 5, 8), 1),
                    *iv = random_array(KL_I32, SHAPE(1, 2, 5, 6), 1);
#define ATTEND(q, k, v, mode, mask, sinks) \
    kl_attention(&out, q, k, v, 1, mode, mask, sinks, cpu(), &err)
    EXPECT_FAIL(KL_EARG, ATTEND(NULL, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_EARG, ATTEND(q, NULL, v, "", NULL, NULL));
    EXPECT_FAIL(KL_EARG, ATTEND(q, k, NULL, "", NULL, NULL));
    EXPECT_FAIL(KL_EARG, kl_attention(&out, q, k, v, 1, "", NULL, NULL, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(three, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(heads, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(batch, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(width, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(q, k, length, "", NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, ATTEND(ints, ik, iv, "", NULL, NULL));
    EXPECT_FAIL(KL_EDTYPE, ATTEND(complex, k, v, "", NULL, NULL));
    EXPECT_FAIL(KL_EARG, ATTEND(q, k, v, "other", NULL, NULL));
    EXPECT_FAIL(KL_EARG, ATTEND(q, k, v, "causal", mask, NULL));
    EXPECT_FAIL(KL_EARG, ATTEND(q, k, v, "array", NULL, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(q, k, v, "", other, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(q, k, v, "", five, NULL));
    EXPECT_FAIL(KL_EDTYPE, ATTEND(half, hk, hv, "", mask, NULL));
    EXPECT_FAIL(KL_ESHAPE, ATTEND(q, k, v, "", NULL, two));
    EXPECT_FAIL(KL_EDTYPE, ATTEND(half, hk, hv, "", NULL, sinks));
    struct kl_array *all[] = {q,       k,    v,     three, heads, batch, width, length, ints, half,
                              complex, mask, other, five,  sinks, two,   hk,    hv,     ik,   iv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(types),
        cmocka_unit_test(few_and_many_tile_registers),
        cmocka_unit_test(elements_that_cannot_be_split),
        cmocka_unit_test(extremes),
        cmocka_unit_test(weights_add_up),
        cmocka_unit_test(nan_stays_with_its_queries),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(gradient),
        cmocka_unit_test(bad),
    };
    const struct CMUnitTest on_devices[] = {
        cmocka_unit_test(on_a_device),
        cmocka_unit_test(rounds_on_a_device),
        cmocka_unit_test(wide_rows_on_a_device),
        cmocka_unit_test(parts_on_a_device),
        cmocka_unit_test(large_scores_on_a_device),
        cmocka_unit_test(scores_beyond_float16_on_a_device),
        cmocka_unit_test(gradient_on_a_device),
    };
    const char *device = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", device ? device : "sim", 1);
    int rc = cmocka_run_group_tests(on_devices, NULL, NULL);
    return device ? rc : rc + cmocka_run_group_tests(tests, NULL, NULL);
}
