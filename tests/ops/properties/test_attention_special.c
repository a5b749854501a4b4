/* test_attention_special.c - attention and its gradient with scores that leave the range of
 * float32, or are infinite, or no numbers: the CPU and a device give what the definition gives in
 * docs/numerics.md, whatever the kernel. Each case is one row of scores, for all queries. */
#include "ops/support/on_device.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/cpu_kernels.h"

enum { N_SCORES = 4, MANY = 300 };
#define LOWEST (-3.3895314e38F) /* of bfloat16; masks have it */

enum masking { NONE, CAUSAL, BOOLEAN, ADDITIVE };
/* CUDA's matrix units take rows of 64 elements; PoCL computes all of them one after another. */
static int width(void) {
    return strcmp(device_name(), "cuda") == 0 ? 64 : 12;
}
/* Query i is (q, 0, ...), key j is (k[j % 4], 0, ...), its value is (j % 4 + 1, ...). */
struct row {
    const char *name;
    float q, k[N_SCORES], scale;
    enum masking masking;
    float mask[N_SCORES]; /* of key j: mask[j % 4] */
    bool has_sink;
    float sink;
    bool wide; /* not for float16 */
};
static const struct row rows[] = {
    {.name = "plain", .q = 2, .k = {1, -1, 0.5F, 0}, .scale = 0.5F},
    {.name = "products overflow, small scores",
     .q = 3e19F,
     .k = {3e19F, 3.5e19F, -3e19F, 3.25e19F},
     .scale = 1e-38F,
     .wide = true},
    {.name = "products overflow, negative scale",
     .q = 3e19F,
     .k = {3e19F, 3.5e19F, -3e19F, 3.25e19F},
     .scale = -1e-38F,
     .wide = true},
    {.name = "products overflow, huge scores",
     .q = 0x1p66F,
     .k = {0x1p65F, 0x1p66F, -0x1p66F, 0x1p66F},
     .scale = 0x1p-10F,
     .wide = true},
    {.name = "products overflow, a sink",
     .q = 0x1p66F,
     .k = {0x1p65F, 0x1p66F, -0x1p66F, 0x1p66F},
     .scale = 0.09F,
     .has_sink = true,
     .sink = 1,
     .wide = true},
    {.name = "products overflow, a mask",
     .q = 3e19F,
     .k = {3e19F, 3.5e19F, -3e19F, 3.25e19F},
     .scale = 1e-38F,
     .masking = ADDITIVE,
     .mask = {0, -INFINITY, 1, 0.5F},
     .wide = true},
    {.name = "products overflow, causal",
     .q = 0x1p66F,
     .k = {0x1p65F, 0x1p66F, -0x1p66F, 0x1p66F},
     .scale = 0x1.8p-10F,
     .masking = CAUSAL,
     .wide = true},
    {.name = "scores far from 0", .q = 60000, .k = {60000, 59968, -60000, 60000}, .scale = 0.11F},
    {.name = "scores far from 0, causal",
     .q = 60000,
     .k = {-60000, -59968, -60000, -59968},
     .scale = 0.11F,
     .masking = CAUSAL},
    {.name = "a score overflows", .q = 3e19F, .k = {3e19F, 1, 0, 1}, .scale = 3, .wide = true},
    {.name = "scores overflow downwards",
     .q = 3e19F,
     .k = {-3e19F, 0, -3e19F, 0},
     .scale = 3,
     .wide = true},
    {.name = "all scores overflow downwards",
     .q = 3e19F,
     .k = {-3e19F, -3e19F, -3e19F, -3e19F},
     .scale = 3,
     .wide = true},
    {.name = "all scores overflow downwards, causal",
     .q = 3e19F,
     .k = {-3e19F, -3e19F, -3e19F, -3e19F},
     .scale = 3,
     .masking = CAUSAL,
     .wide = true},
    {.name = "an infinite key", .q = 1, .k = {INFINITY, 1, 2, 3}, .scale = 1},
    {.name = "infinite keys", .q = 1, .k = {-INFINITY, 1, -INFINITY, 3}, .scale = 1},
    {.name = "an infinite query", .q = INFINITY, .k = {1, 2, 3, 4}, .scale = 1},
    {.name = "NaN in a key", .q = 1, .k = {1, NAN, 2, 3}, .scale = 1},
    {.name = "NaN in a query", .q = NAN, .k = {1, 1, 2, 3}, .scale = 1},
    {.name = "a scale of 0", .q = 3e19F, .k = {3e19F, 2e19F, 1, 0}, .scale = 0, .wide = true},
    {.name = "an infinite scale", .q = 1, .k = {1, 2, 3, 4}, .scale = INFINITY},
    {.name = "a scale of NaN", .q = 1, .k = {1, 2, 3, 4}, .scale = NAN},
    {.name = "masked with -infinity",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {-INFINITY, 0, -INFINITY, 0}},
    {.name = "all masked with -infinity",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}},
    {.name = "all masked with -infinity, a sink",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
     .has_sink = true,
     .sink = 1},
    {.name = "all masked with the lowest number",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {LOWEST, LOWEST, LOWEST, LOWEST},
     .wide = true},
    {.name = "masked with the lowest number",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {LOWEST, 0, LOWEST, 0},
     .wide = true},
    {.name = "all masked", .q = 1, .k = {1, 2, 3, 4}, .scale = 1, .masking = BOOLEAN},
    {.name = "-infinity, the others masked",
     .q = 1,
     .k = {-INFINITY, 1, -INFINITY, 2},
     .scale = 1,
     .masking = BOOLEAN,
     .mask = {1, 0, 1, 0}},
    {.name = "a sink of -infinity",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .has_sink = true,
     .sink = -INFINITY},
    {.name = "a sink of -infinity, masked with it",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .masking = ADDITIVE,
     .mask = {-INFINITY, 0, 0, 0},
     .has_sink = true,
     .sink = -INFINITY},
    {.name = "an infinite sink",
     .q = 1,
     .k = {1, 2, 3, 4},
     .scale = 1,
     .has_sink = true,
     .sink = INFINITY},
    {.name = "a sink of NaN", .q = 1, .k = {1, 2, 3, 4}, .scale = 1, .has_sink = true, .sink = NAN},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* Makes an array of shape (1, 1, n, width) from the first element of each row; `all` elements of a
 * row are the same, or the others are 0. */
static struct kl_array *make(enum kl_dtype dtype, int n, int width, bool all, const float *first,
                             int n_first) {
    float *x = calloc((size_t)n * (size_t)width, sizeof *x);
    for (int i = 0; i < n * width; i++)
        if (all || i % width == 0) x[i] = first[i / width % n_first];
    struct kl_array *a, *b;
    OK(kl_array_new_data(&a, x, KL_F32, 4, (int[]){1, 1, n, width}, &err));
    OK(kl_astype(&b, a, dtype, cpu_stream, &err));
    OK(kl_eval(&b, 1, &err));
    kl_array_release(a);
    free(x);
    return b;
}

/* The operands of a case, rounded to a dtype. */
struct operands {
    struct kl_array *q, *k, *v, *mask, *sink;
};
static struct operands operands_of(const struct row *r, enum kl_dtype dtype, int n, int m) {
    static const float numbers[N_SCORES] = {1, 2, 3, 4};
    struct operands o = {.q = make(dtype, n, width(), false, &r->q, 1),
                         .k = make(dtype, m, width(), false, r->k, N_SCORES),
                         .v = make(dtype, m, width(), true, numbers, N_SCORES)};
    if (r->masking == BOOLEAN || r->masking == ADDITIVE) {
        float *x = malloc(sizeof *x * (size_t)(n * m));
        for (int i = 0; i < n * m; i++) x[i] = r->mask[i % m % N_SCORES];
        struct kl_array *a;
        OK(kl_array_new_data(&a, x, KL_F32, 2, (int[]){n, m}, &err));
        OK(kl_astype(&o.mask, a, r->masking == BOOLEAN ? KL_BOOL : dtype, cpu_stream, &err));
        kl_array_release(a);
        free(x);
    }
    if (r->has_sink) {
        struct kl_array *a;
        OK(kl_array_new_data(&a, &r->sink, KL_F32, 1, (int[]){1}, &err));
        OK(kl_astype(&o.sink, a, dtype, cpu_stream, &err));
        kl_array_release(a);
    }
    return o;
}
static void release(struct operands *o) {
    struct kl_array *all[] = {o->q, o->k, o->v, o->mask, o->sink};
    for (int i = 0; i < 5; i++) kl_array_release(all[i]);
}
/* The row with its numbers rounded to a dtype. */
static struct row rounded(const struct row *r, enum kl_dtype dtype) {
    struct row y = *r;
    float *const parts[] = {&y.q, y.k, y.mask, &y.sink};
    static const int sizes[] = {1, N_SCORES, N_SCORES, 1};
    for (int i = 0; i < 4; i++) {
        struct kl_array *a = make(dtype, sizes[i], 1, true, parts[i], sizes[i]), *wide, *keep;
        OK(kl_astype(&wide, a, KL_F32, cpu_stream, &err));
        memcpy(parts[i], read_elements(wide, cpu_stream, &keep, r->name),
               (size_t)sizes[i] * sizeof(float));
        kl_array_release(keep);
        kl_array_release(wide);
        kl_array_release(a);
    }
    return y;
}

/* The result of query i by the definition: scale is multiplied into the queries, in float32, and
 * products are added up in float32. */
static double want_of(const struct row *r, int n, int m, int i) {
    float score[MANY], top = -FLT_MAX;
    double total = 0, sum = 0;
    for (int j = 0; j < m; j++) {
        const int c = j % N_SCORES, last = i + m - n;
        /* In all other places a query has scale times 0. */
        float s = r->q * r->scale * r->k[c] + 0 * r->scale;
        if (r->masking == ADDITIVE) s += r->mask[c];
        if (r->masking == BOOLEAN && r->mask[c] == 0) s = -FLT_MAX;
        if (r->masking == CAUSAL && n > 1 && j > last) s = last < 0 ? -FLT_MAX : -INFINITY;
        score[j] = s;
        if (s > top) top = s;
    }
    if (r->has_sink) {
        if (!(r->sink < top)) top = r->sink;
        total = exp((double)r->sink - (double)top);
    }
    for (int j = 0; j < m; j++) {
        const double w = exp((double)score[j] - (double)top);
        total += w;
        sum += w * (j % N_SCORES + 1);
    }
    return sum / total;
}

static bool near(double a, double b, double room) {
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= room;
}
static const char *mode_of(const struct row *r) {
    return r->masking == CAUSAL ? "causal" : r->masking == NONE ? "" : "array";
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16};
/* Few queries, and more than those that kernels for few take; a few keys, and more than one tile.
 * Gradients of the first three. */
static const int lengths[][2] = {{1, 6}, {20, 70}, {40, 30}, {1, MANY}, {20, MANY}};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_BACK = 3 };

static void check(const struct row *r, enum kl_dtype dtype, int n, int m) {
    struct operands o = operands_of(r, dtype, n, m);
    const struct row by = rounded(r, dtype);
    struct kl_stream *streams[] = {cpu_stream, gpu_stream};
    for (int d = 0; d < 2; d++) {
        struct kl_array *out, *wide, *keep;
        OK(kl_attention(&out, o.q, o.k, o.v, r->scale, mode_of(r), o.mask, o.sink, streams[d],
                        &err));
        OK(kl_astype(&wide, out, KL_F32, streams[d], &err));
        const float *y = read_elements(wide, streams[d], &keep, r->name);
        for (int i = 0; i < n; i++) {
            const double want = want_of(&by, n, m, i);
            for (int c = 0; c < width(); c++)
                if (!near((double)y[i * width() + c], want, dtype == KL_F32 ? 2e-5 : 0.03))
                    fail_msg("%s, %s, %d queries, %d keys, %s: query %d, column %d: %g, not %g",
                             r->name, kl_dtype_name(dtype), n, m, d ? device_name() : "cpu", i, c,
                             (double)y[i * width() + c], want);
        }
        kl_array_release(keep);
        kl_array_release(wide);
        kl_array_release(out);
    }
    release(&o);
}

static void results(void **state) {
    (void)state;
    for (int i = 0; i < N_ROWS; i++)
        for (int d = 0; d < 3; d++)
            for (int l = 0; l < N_LENGTHS; l++)
                /* Many queries of many keys take long where kernels are not optimised. */
                if (!(dtypes[d] == KL_F16 && rows[i].wide) && (l < N_LENGTHS - 1 || takes_case(1)))
                    check(&rows[i], dtypes[d], lengths[l][0], lengths[l][1]);
}

/* The gradients of queries, keys, values and the sink, one behind the other, in float32. The
 * cotangent is not the same in all elements, so that those of scores are not 0. */
static const float *gradients_of(const struct row *r, const struct operands *o, enum kl_dtype dtype,
                                 int n, struct kl_stream *s, struct kl_array **keep) {
    static const float cotangents[] = {0x1p-6F, 0x1p-7F, -0x1p-5F};
    struct kl_array *g = make(dtype, n, width(), true, cotangents, 3), *result, *all, *wide;
    OK(kl_attention(&result, o->q, o->k, o->v, r->scale, mode_of(r), o->mask, o->sink, cpu_stream,
                    &err));
    OK(kl_attention_backward(&all, (struct kl_array *[]){o->q, o->k, o->v}, r->scale,
                             r->masking == CAUSAL, o->mask, o->sink, result, g, s, &err));
    OK(kl_astype(&wide, all, KL_F32, s, &err));
    const float *y = read_elements(wide, s, keep, r->name);
    struct kl_array *done[] = {g, result, all, wide};
    for (int i = 0; i < 4; i++) kl_array_release(done[i]);
    return y;
}

static double largest(const float *x, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) most = fmax(most, (double)fabsf(x[i]));
    return most;
}

/* Gradients of the CPU and of the device: the same up to rounding. What is rounded are weights of 1
 * together, times products of cotangents and values, which add up to DOTS at most. */
static void check_gradients(const struct row *r, enum kl_dtype dtype, int n, int m) {
    enum { DOTS = 8 };
    struct operands o = operands_of(r, dtype, n, m);
    struct kl_array *keep[2];
    const float *want = gradients_of(r, &o, dtype, n, cpu_stream, &keep[0]),
                *got = gradients_of(r, &o, dtype, n, gpu_stream, &keep[1]);
    const int sizes[] = {n * width(), m * width(), m * width(), r->has_sink};
    const double unit = dtype == KL_F32   ? 1e-5
                        : dtype == KL_F16 ? 2e-3
                                          : 1e-2,
                 scale = isfinite(r->scale) ? (double)fabsf(r->scale) : 0,
                 rooms[] = {DOTS * scale * largest(r->k, N_SCORES),
                            DOTS * scale * largest(&r->q, 1) * n, n, DOTS * n};
    for (int part = 0; part < 4; part++) {
        for (int i = 0; i < sizes[part]; i++)
            if (!near((double)got[i], (double)want[i],
                      unit * (rooms[part] + (double)fabsf(want[i]))))
                fail_msg("%s, %s, %d queries, %d keys, gradient %d, element %d: %g, the CPU has %g",
                         r->name, kl_dtype_name(dtype), n, m, part, i, (double)got[i],
                         (double)want[i]);
        want += sizes[part];
        got += sizes[part];
    }
    kl_array_release(keep[0]);
    kl_array_release(keep[1]);
    release(&o);
}

static void gradients(void **state) {
    (void)state;
    for (int i = 0; i < N_ROWS; i++)
        for (int d = 0; d < 3; d++)
            for (int l = 0; l < N_BACK; l++)
                if (!(dtypes[d] == KL_F16 && rows[i].wide))
                    check_gradients(&rows[i], dtypes[d], lengths[l][0], lengths[l][1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
