/* test_attention_backward.c - the gradient of scaled_dot_product_attention by its backward pass:
 * against the definition in float64 for all masks, sinks, layouts, dtypes and lengths around those
 * of tiles; its own gradient; bounded memory; allocation failures; bad arguments. */
#include "ops/support/helpers.h"
#include "ops/support/vjp_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"
#include "runtime/block_pool.h"

/* The stream that is tested: of the device that KEEL_TEST_GPU names, else of the CPU. */
static struct kl_stream *where(void) {
    return getenv("KEEL_TEST_GPU") ? sim() : cpu();
}

struct shape {
    int b, heads, kv_heads, n, m, d, e;
};
enum masking { NO_MASK, CAUSAL, BOOLEAN, ADDITIVE };
enum { Q, K, V, MASK, SINKS, COTANGENT, N_OPERANDS };

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

/* The operands of a case: in float64, and as arrays, NULL where there is none. */
struct operands {
    struct shape s;
    enum masking masking;
    double scale;
    struct kl_array *a[N_OPERANDS];
    double *x[N_OPERANDS];
};

static struct operands make(struct shape s, enum kl_dtype dtype, enum masking masking,
                            bool with_sinks, bool transposed) {
    struct operands o = {.s = s, .masking = masking, .scale = s.d % 3 ? 0.37 : -0.37};
    o.scale = (double)(float)o.scale;
    o.a[Q] = random_array(dtype, 4, (int[]){s.b, s.heads, s.n, s.d}, 2);
    o.a[K] = random_array(dtype, 4, (int[]){s.b, s.kv_heads, s.m, s.d}, 1);
    o.a[V] = random_array(dtype, 4, (int[]){s.b, s.kv_heads, s.m, s.e}, 1);
    o.a[COTANGENT] = random_array(dtype, 4, (int[]){s.b, s.heads, s.n, s.e}, 1);
    const int dm[] = {s.n, s.m};
    if (masking == BOOLEAN) { /* the first row sees no key */
        struct kl_array *x = random_array(KL_F32, 2, dm, 1);
        bool *keep = malloc((size_t)s.n * (size_t)s.m + 1);
        float *v = values_of(x);
        for (int64_t i = 0; i < (int64_t)s.n * s.m; i++) keep[i] = i >= s.m && v[i] > -0.3F;
        o.a[MASK] = array_of(KL_BOOL, 2, dm, keep);
        kl_array_release(x);
        free(keep);
        free(v);
    }
    if (masking == ADDITIVE) o.a[MASK] = random_array(dtype, 2, dm, 2);
    if (with_sinks) o.a[SINKS] = random_array(dtype, 1, &s.heads, 2);
    for (int i = 0; transposed && i < 3; i++) o.a[i] = strided(o.a[i]);
    if (transposed) o.a[COTANGENT] = strided(o.a[COTANGENT]);
    for (int i = 0; i < N_OPERANDS; i++) o.x[i] = o.a[i] ? as_doubles(o.a[i]) : NULL;
    return o;
}

static void release(struct operands *o) {
    for (int i = 0; i < N_OPERANDS; i++) {
        kl_array_release(o->a[i]);
        free(o->x[i]);
    }
}

/* The gradients by their definition: grad[i] for operands 0 to 4, room for all of their elements;
 * and most[i], the largest sum of absolute values that went into an element. */
static void reference(const struct operands *o, double **grad, double *most) {
    const struct shape *s = &o->s;
    double *p = malloc((size_t)(s->m + 1) * sizeof *p),
           *dp = malloc((size_t)(s->m + 1) * sizeof *p);
    bool *seen = malloc((size_t)s->m + 1);
    for (int b = 0; b < s->b; b++)
        for (int h = 0; h < s->heads; h++)
            for (int i = 0; i < s->n; i++) {
                const int64_t row = ((int64_t)b * s->heads + h) * s->n + i;
                const int64_t keys =
                    ((int64_t)b * s->kv_heads + h / (s->heads / s->kv_heads)) * s->m;
                const double *q = o->x[Q] + row * s->d, *g = o->x[COTANGENT] + row * s->e;
                double top = o->x[SINKS] ? o->x[SINKS][h] : -1e30, total = 0, dot = 0;
                for (int j = 0; j < s->m; j++) {
                    double x = 0;
                    for (int c = 0; c < s->d; c++) x += q[c] * o->x[K][(keys + j) * s->d + c];
                    x *= o->scale;
                    seen[j] = !(o->masking == CAUSAL && j > i + s->m - s->n) &&
                              !(o->masking == BOOLEAN && o->x[MASK][i * s->m + j] == 0);
                    if (!seen[j]) x = -1e30;
                    if (o->masking == ADDITIVE) x += o->x[MASK][i * s->m + j];
                    p[j] = x;
                    if (x > top) top = x;
                }
                for (int j = 0; j < s->m; j++) total += p[j] = exp(p[j] - top);
                if (o->x[SINKS]) total += exp(o->x[SINKS][h] - top);
                for (int j = 0; j < s->m; j++) {
                    p[j] /= total;
                    dp[j] = 0;
                    for (int c = 0; c < s->e; c++) dp[j] += g[c] * o->x[V][(keys + j) * s->e + c];
                    dot += p[j] * dp[j];
                }
                for (int j = 0; j < s->m; j++) {
                    const double ds = seen[j] ? p[j] * (dp[j] - dot) : 0;
                    for (int c = 0; c < s->d; c++) {
                        grad[Q][row * s->d + c] += o->scale * ds * o->x[K][(keys + j) * s->d + c];
                        grad[K][(keys + j) * s->d + c] += o->scale * ds * q[c];
                    }
                    for (int c = 0; c < s->e; c++) grad[V][(keys + j) * s->e + c] += p[j] * g[c];
                    if (o->masking == ADDITIVE) grad[MASK][row * s->m + j] = ds;
                }
                if (o->x[SINKS]) grad[SINKS][h] -= exp(o->x[SINKS][h] - top) / total * dot;
            }
    const int64_t sizes[] = {o->a[Q]->t.size, o->a[K]->t.size, o->a[V]->t.size};
    for (int i = 0; i < 3; i++) {
        most[i] = 0;
        for (int64_t k = 0; k < sizes[i]; k++) most[i] = fmax(most[i], fabs(grad[i][k]));
    }
    most[SINKS] = most[MASK] = 1;
    free(p);
    free(dp);
    free(seen);
}

/* The gradients of the inputs of attention by its rule, with masks of the shape of the scores. */
static void gradients_of(struct kl_array **grad, const struct operands *o, bool of_mask,
                         struct kl_stream *s) {
    const struct shape *h = &o->s;
    struct kl_array *out, *cotangent = o->a[COTANGENT];
    struct kl_trace *trace = begin_trace(o->a, 3);
    EXPECT_OK(kl_attention(&out, o->a[Q], o->a[K], o->a[V], (float)o->scale,
                           o->masking == CAUSAL ? "causal" : "", o->a[MASK], o->a[SINKS], s, &err));
    leave_trace(o->a, 3);
    struct kl_node *node = out->node;
    assert_int_equal(node->task.op, KL_OP_ATTENTION);
    bool wanted[] = {true, true, true, true, true};
    if (o->a[MASK]) wanted[MASK] = of_mask;
    struct kl_array *made[5] = {NULL};
    struct kl_vjp v = {node->task.op, node->task.params, node->n_in, 1, node->in,
                       &out,          &cotangent,        wanted,     s};
    EXPECT_OK(kl_vjp_rule(KL_OP_ATTENTION)(&v, made, &err));
    for (int i = 0; i < 3; i++) {
        grad[i] = made[i];
        expect_shape(grad[i], 4, o->a[i]->t.dims);
    }
    grad[MASK] = o->a[MASK] ? made[3] : NULL;
    grad[SINKS] = o->a[SINKS] ? made[o->a[MASK] ? 4 : 3] : NULL;
    if (grad[MASK]) expect_shape(grad[MASK], 4, (int[]){h->b, h->heads, h->n, h->m});
    kl_trace_end(trace);
    kl_array_release(out);
}

/* On a device each kind of mask and width compiles kernels of its own. */
static void check(struct shape s, enum kl_dtype dtype, enum masking masking, bool with_sinks,
                  bool transposed, bool of_mask) {
    if (!(getenv("KEEL_TEST_GPU") ? kl_test_takes("kernels", 14) : kl_test_takes("cpu", 2))) return;
    struct operands o = make(s, dtype, masking, with_sinks, transposed);
    double *want[N_OPERANDS - 1], most[N_OPERANDS - 1];
    struct kl_array *got[N_OPERANDS - 1];
    const int64_t sizes[] = {o.a[Q]->t.size, o.a[K]->t.size, o.a[V]->t.size,
                             (int64_t)s.b * s.heads * s.n * s.m, s.heads};
    for (int i = 0; i < 5; i++) want[i] = calloc((size_t)sizes[i] + 1, sizeof(double));
    reference(&o, want, most);
    gradients_of(got, &o, of_mask, where());
    assert_true((got[MASK] != NULL) == (of_mask && masking == ADDITIVE));
    assert_true((got[SINKS] != NULL) == with_sinks);
    /* The result that the dot product is made of has been rounded. */
    const double unit = dtype == KL_F32 ? 2e-5 : dtype == KL_F16 ? 4e-3 : 3e-2;
    for (int i = 0; i < 5; i++) {
        if (!got[i]) continue;
        assert_int_equal(got[i]->t.dtype, dtype);
        assert_int_equal(got[i]->t.size, sizes[i]);
        double *y = as_doubles(got[i]);
        const double room = unit * (i == SINKS ? sqrt((double)s.n * s.b) : fmax(most[i], 0.1));
        for (int64_t k = 0; k < sizes[i]; k++)
            if (!(fabs(y[k] - want[i][k]) <= room))
                fail_msg("%s (%d, %d/%d, %d, %d, %d, %d) mask %d sinks %d%s: gradient %d, "
                         "element %lld: %g, not %g",
                         kl_dtype_name(dtype), s.b, s.heads, s.kv_heads, s.n, s.m, s.d, s.e,
                         masking, with_sinks, transposed ? " transposed" : "", i, (long long)k,
                         y[k], want[i][k]);
        free(y);
    }
    for (int i = 0; i < 5; i++) {
        kl_array_release(got[i]);
        free(want[i]);
    }
    release(&o);
}

static const struct shape shapes[] = {
    {1, 2, 2, 1, 1, 4, 4},      {2, 4, 2, 1, 5, 8, 3},         {1, 8, 2, 1, 1100, 20, 17},
    {1, 3, 1, 4, 513, 16, 16},  {2, 2, 1, 33, 7, 9, 21},       {1, 4, 2, 40, 130, 32, 48},
    {1, 2, 1, 200, 300, 12, 5}, {1, 1, 1, 97, 64, 8, 8},       {2, 2, 2, 20, 0, 4, 4},
    {1, 2, 2, 1, 0, 4, 4},      {1, 2, 1, 0, 6, 4, 4},         {0, 2, 1, 3, 6, 4, 4},
    {1, 2, 2, 17, 3, 4, 4},     {1, 2, 1, 40, 1100, 64, 32},   {34, 1, 1, 100, 40, 8, 8},
    {1, 4, 2, 75, 300, 61, 64}, {1, 1, 1, 95, 63, 33, 80},     {1, 1, 1, 9, 11, 0, 4},
    {1, 1, 1, 9, 11, 4, 0},     {1, 1, 1, 130, 129, 128, 128},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void values(void **state) {
    for (int i = 0; i < N_SHAPES; i++)
        for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
            for (int sinks = 0; sinks < 2; sinks++)
                check(shapes[i], KL_F32, (enum masking)masking, sinks, (i + masking) % 3 == 0,
                      false);
}

/* The gradient of a mask is composed, and the others with it. */
static void with_the_gradient_of_a_mask(void **state) {
    for (int i = 0; i < N_SHAPES; i++)
        for (int sinks = 0; sinks < 2; sinks++) {
            check(shapes[i], KL_F32, ADDITIVE, sinks, false, true);
            check(shapes[i], KL_BF16, ADDITIVE, sinks, false, true);
        }
}

static void types(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F16, KL_BF16};
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < N_SHAPES; i++)
            for (int masking = NO_MASK; masking <= ADDITIVE; masking++)
                check(shapes[i], dtypes[d], (enum masking)masking, i % 2, i % 3 == 0, false);
}

/* Queries that see no key weigh all values the same, and their scores are constant: the composed
 * form, which the gradient of a mask asks for, agrees. */
static void rows_without_keys(void **state) {
    const struct shape s = {1, 2, 1, 7, 3, 4, 4};
    for (int sinks = 0; sinks < 2; sinks++) {
        check(s, KL_F32, CAUSAL, sinks, false, false);
        check(s, KL_F32, BOOLEAN, sinks, false, false);
    }
}

struct how {
    bool causal;
    int mask, sinks; /* inputs; 0: none */
};
static int go_back(struct kl_array **out, struct kl_array *const *in, const void *how,
                   struct kl_error **err) {
    const struct how *h = how;
    const int n = 3 + (h->mask > 0) + (h->sinks > 0);
    return kl_attention_backward(out, in, 0.5F, h->causal, h->mask ? in[h->mask] : NULL,
                                 h->sinks ? in[h->sinks] : NULL, in[n], in[n + 1], where(), err);
}

/* The operation's own gradient, with respect to all inputs, against central differences. The result
 * is any array, since the operation takes it as it is given. */
static void second_derivative(void **state) {
    struct kl_array *q = random_array(KL_F32, SHAPE(2, 4, 3, 5), 1),
                    *k = random_array(KL_F32, SHAPE(2, 2, 4, 5), 1),
                    *v = random_array(KL_F32, SHAPE(2, 2, 4, 3), 1),
                    *added = random_array(KL_F32, SHAPE(2, 4, 3, 4), 1),
                    *sinks = random_array(KL_F32, SHAPE(4), 1),
                    *o = random_array(KL_F32, SHAPE(2, 4, 3, 3), 1),
                    *g = random_array(KL_F32, SHAPE(2, 4, 3, 3), 1), *keep;
    bool flags[96];
    for (int i = 0; i < 96; i++) flags[i] = i / 4 % 5 != 1 && i % 3 > 0; /* some see no key */
    keep = array_of(KL_BOOL, SHAPE(2, 4, 3, 4), flags);
    check_vjp("plain", go_back, &(struct how){false, 0, 0}, (struct kl_array *[]){q, k, v, o, g}, 5,
              0);
    check_vjp("causal", go_back, &(struct how){true, 0, 0}, (struct kl_array *[]){q, k, v, o, g}, 5,
              0);
    check_vjp("sinks", go_back, &(struct how){false, 0, 3},
              (struct kl_array *[]){q, k, v, sinks, o, g}, 6, 0);
    check_vjp("mask", go_back, &(struct how){false, 3, 0},
              (struct kl_array *[]){q, k, v, added, o, g}, 6, 0);
    check_vjp("bool mask", go_back, &(struct how){false, 3, 0},
              (struct kl_array *[]){q, k, v, keep, o, g}, 6, 0);
    check_vjp("mask and sinks", go_back, &(struct how){false, 3, 4},
              (struct kl_array *[]){q, k, v, added, sinks, o, g}, 7, 0);
    /* more queries than keys: the first see none */
    struct kl_array *less = random_array(KL_F32, SHAPE(2, 1, 3, 5), 1),
                    *fewer = random_array(KL_F32, SHAPE(2, 1, 3, 3), 1),
                    *v2 = random_array(KL_F32, SHAPE(2, 2, 4, 3), 1);
    check_vjp("causal, long", go_back, &(struct how){true, 0, 0},
              (struct kl_array *[]){k, less, fewer, v, v2}, 5, 0);
    struct kl_array *all[] = {q, k, v, added, sinks, o, g, keep, less, fewer, v2};
    for (int i = 0; i < 11; i++) kl_array_release(all[i]);
}

/* Memory grows with queries plus keys, not with their product. */
static void memory(void **state) {
    enum { LONG = 8192, WIDE = 16 };
    struct kl_array *in[3], *out, *cotangent;
    for (int i = 0; i < 3; i++) in[i] = random_array(KL_F32, SHAPE(1, 1, LONG, WIDE), 1);
    cotangent = random_array(KL_F32, SHAPE(1, 1, LONG, WIDE), 1);
    EXPECT_OK(kl_attention(&out, in[0], in[1], in[2], 0.25F, "causal", NULL, NULL, cpu(), &err));
    struct kl_array *grad;
    EXPECT_OK(
        kl_attention_backward(&grad, in, 0.25F, true, NULL, NULL, out, cotangent, cpu(), &err));
    kl_memory_reset_peak();
    EXPECT_OK(kl_eval(&grad, 1, &err));
    const size_t peak = kl_memory_peak(), scores = (size_t)LONG * LONG * sizeof(float);
    if (peak > scores / 16) fail_msg("%zu bytes, and all scores have %zu", peak, scores);
    float *y = values_of(grad);
    double sum = 0; /* the rows of ds have the sum 0 */
    for (int64_t i = 0; i < grad->t.size; i++) assert_true(isfinite(y[i]));
    for (int i = 0; i < LONG; i++) sum += (double)y[(2 * LONG + i) * WIDE];
    float *g = values_of(cotangent);
    for (int i = 0; i < LONG; i++) sum -= (double)g[i * WIDE];
    assert_true(fabs(sum) < 1); /* the columns of the gradient of values and of the cotangent */
    free(y);
    free(g);
    struct kl_array *all[] = {in[0], in[1], in[2], cotangent, out, grad};
    for (int i = 0; i < 6; i++) kl_array_release(all[i]);
}

/* Each allocation of an evaluation fails in turn, among them the kernel's own. */
static void no_memory(void **state) {
    struct kl_array *q = random_array(KL_F16, SHAPE(1, 2, 40, 8), 1),
                    *k = random_array(KL_F16, SHAPE(1, 2, 50, 8), 1), *out;
    int failures = 0;
    /* Before the first failure: a device that is used for the first time keeps its kernels. */
    EXPECT_OK(kl_attention_backward(&out, (struct kl_array *[]){q, k, k}, 1, true, NULL, NULL, q, q,
                                    where(), &err));
    EXPECT_OK(kl_eval(&out, 1, &err));
    kl_array_release(out);
    for (int at = 0;; at++) {
        EXPECT_OK(kl_attention_backward(&out, (struct kl_array *[]){q, k, k}, 1, true, NULL, NULL,
                                        q, q, where(), &err));
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

static void bad(void **state) {
    struct kl_array *q = random_array(KL_F32, SHAPE(1, 4, 3, 8), 1),
                    *k = random_array(KL_F32, SHAPE(1, 2, 5, 8), 1),
                    *v = random_array(KL_F32, SHAPE(1, 2, 5, 6), 1),
                    *o = random_array(KL_F32, SHAPE(1, 4, 3, 6), 1),
                    *other = random_array(KL_F32, SHAPE(1, 4, 3, 5), 1),
                    *three = random_array(KL_F32, SHAPE(4, 3, 6), 1),
                    *wide = random_array(KL_F64, SHAPE(1, 4, 3, 8), 1),
                    *two = random_array(KL_F32, SHAPE(2), 1),
                    *flat = random_array(KL_F32, SHAPE(2, 5), 1), *out;
#define BACK(q, k, v, mask, sinks, o, g)                                                     \
    kl_attention_backward(&out, (struct kl_array *[]){q, k, v}, 1, false, mask, sinks, o, g, \
                          cpu(), &err)
    EXPECT_FAIL(KL_EARG, BACK(NULL, k, v, NULL, NULL, o, o));
    EXPECT_FAIL(KL_EARG, BACK(q, k, v, NULL, NULL, NULL, o));
    EXPECT_FAIL(KL_EARG, BACK(q, k, v, NULL, NULL, o, NULL));
    EXPECT_FAIL(KL_EARG, kl_attention_backward(&out, (struct kl_array *[]){q, k, v}, 1, false, NULL,
                                               NULL, o, o, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, q, v, NULL, NULL, o, o));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, NULL, NULL, other, o));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, NULL, NULL, o, other));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, NULL, NULL, three, o));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, NULL, NULL, o, three));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, flat, NULL, o, o));
    EXPECT_FAIL(KL_ESHAPE, BACK(q, k, v, NULL, two, o, o));
    EXPECT_FAIL(KL_EDTYPE, BACK(wide, k, v, NULL, NULL, o, o));
    /* more gradients than one axis can have */
    struct kl_array *one = random_array(KL_F32, SHAPE(1, 1, 1, 1), 1), *big;
    EXPECT_OK(kl_broadcast_to(&big, one, LIST(1, 1, 1 << 15, 1 << 15), cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, BACK(big, big, big, NULL, NULL, big, big));
    struct kl_array *all[] = {q, k, v, o, other, three, wide, two, flat, one, big};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) kl_array_release(all[i]);
}

int main(void) {
    const struct CMUnitTest everywhere[] = {
        cmocka_unit_test(values),    cmocka_unit_test(with_the_gradient_of_a_mask),
        cmocka_unit_test(types),     cmocka_unit_test(rows_without_keys),
        cmocka_unit_test(no_memory),
    };
    /* The second derivative is made of ordinary operations, which other tests run on devices. */
    const struct CMUnitTest on_the_cpu[] = {cmocka_unit_test(second_derivative),
                                            cmocka_unit_test(memory), cmocka_unit_test(bad)};
    const char *device = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", device ? device : "sim", 1);
    int rc = cmocka_run_group_tests(everywhere, NULL, NULL);
    return device ? rc : rc + cmocka_run_group_tests(on_the_cpu, NULL, NULL);
}
