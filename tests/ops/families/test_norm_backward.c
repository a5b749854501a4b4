/* test_norm_backward.c - the gradients of rms_norm and layer_norm by their backward pass: against
 * the formulas in float64 for all dtypes, layouts and lengths; NaN and infinities; its own
 * gradient; allocation failures; bad arguments. */
#include "ops/support/no_f64.h"
#include "ops/support/helpers.h"
#include "ops/support/vjp_support.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/op/op_params.h"
#include "runtime/block_pool.h"

/* The stream that is tested: of the device that KEEL_TEST_GPU names, else of the CPU. */
static struct kl_stream *where(void) {
    return getenv("KEEL_TEST_GPU") ? sim() : cpu();
}

static uint32_t seed = 1;
static struct kl_array *random_array(enum kl_dtype dtype, int ndim, const int *dims) {
    int64_t size;
    assert_true(kl_shape_size(ndim, dims, 4, &size));
    float *v = malloc((size_t)(size + 1) * sizeof *v);
    for (int64_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(int)(seed >> 16) / 16384 - 1.75f;
    }
    struct kl_array *a = array_of(KL_F32, ndim, dims, v), *b;
    free(v);
    EXPECT_OK(kl_astype(&b, a, (int)dtype, cpu(), &err));
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

struct kind {
    bool centred, weight, bias; /* operands of the norm; */
    bool of_x, of_weight, of_bias;
};
static const struct kind kinds[] = {
    {false, false, false, true, false, false}, {false, true, false, true, true, false},
    {false, true, false, true, false, false},  {false, true, false, false, true, false},
    {true, false, false, true, false, false},  {true, true, false, true, true, false},
    {true, true, true, true, true, true},      {true, false, true, true, false, true},
    {true, true, true, false, true, true},     {true, true, true, false, false, true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* The gradients of the inputs of a norm by its rule; NULL where none is wanted. grad[2] is that of
 * the bias. */
static void gradients_of(struct kl_array **grad, const struct kind *k, struct kl_array *x,
                         struct kl_array *w, struct kl_array *b, struct kl_array *cotangent,
                         float eps) {
    struct kl_array *out, *in[3] = {x, w, b}, *made[3] = {NULL};
    struct kl_trace *trace = begin_trace(in, 1);
    if (k->centred)
        EXPECT_OK(kl_layer_norm(&out, x, w, b, eps, where(), &err));
    else
        EXPECT_OK(kl_rms_norm(&out, x, w, eps, where(), &err));
    leave_trace(in, 1);
    struct kl_node *node = out->node;
    const int at_bias = 1 + k->weight;
    bool wanted[3] = {k->of_x};
    if (k->weight) wanted[1] = k->of_weight;
    if (k->bias) wanted[at_bias] = k->of_bias;
    struct kl_vjp v = {node->task.op, node->task.params, node->n_in, 1,      node->in,
                       &out,          &cotangent,        wanted,     where()};
    EXPECT_OK(kl_vjp_rule(node->task.op)(&v, made, &err));
    grad[0] = made[0];
    grad[1] = k->weight ? made[1] : NULL;
    grad[2] = k->bias ? made[at_bias] : NULL;
    kl_trace_end(trace);
    kl_array_release(out);
}

/* want: of x (rows, n), of the weight and of the bias (n), of float64; most: the
 * largest sum of magnitudes that went into an element. */
static void reference(const struct kind *k, const double *x, const double *w, const double *c,
                      int64_t rows, int64_t n, double eps, double **want, double *most) {
    for (int64_t r = 0; r < rows; r++) {
        const double *xs = x + r * n, *cs = c + r * n;
        long double sum = 0, square = 0, shift = 0, along = 0;
        for (int64_t i = 0; i < n && k->centred; i++) sum += xs[i];
        const double mean = (double)(sum / n);
        for (int64_t i = 0; i < n; i++) square += (xs[i] - mean) * (xs[i] - mean);
        const double factor = 1 / sqrt((double)(square / n) + eps);
        for (int64_t i = 0; i < n; i++) {
            const double h = cs[i] * (w ? w[i] : 1), normal = (xs[i] - mean) * factor;
            shift += k->centred ? h / n : 0;
            along += h * normal / n;
            want[1][i] += cs[i] * normal;
            want[2][i] += cs[i];
            most[1] = fmax(most[1], fabs(want[1][i]));
            most[2] = fmax(most[2], fabs(want[2][i]));
        }
        for (int64_t i = 0; i < n; i++) {
            const double h = cs[i] * (w ? w[i] : 1), normal = (xs[i] - mean) * factor;
            want[0][r * n + i] = factor * (h - normal * (double)along - (double)shift);
            most[0] = fmax(most[0], fabs(h * factor) + fabs(normal * (double)along * factor));
        }
    }
}

enum { DENSE, STRIDED, BROADCAST, N_LAYOUTS };

static void check(const struct kind *k, enum kl_dtype dtype, int ndim, const int *dims,
                  int layout) {
    if (!(getenv("KEEL_TEST_GPU") ? kl_test_takes("kernels", 8) : kl_test_takes("cpu", 1))) return;
    const int n = dims[ndim - 1];
    const float eps = 1e-3f;
    struct kl_array *x = random_array(dtype, ndim, dims), *c, *got[3],
                    *w = k->weight ? random_array(dtype, 1, &n) : NULL,
                    *b = k->bias ? random_array(dtype, 1, &n) : NULL;
    if (layout == BROADCAST) {
        struct kl_array *one = random_array(dtype, 0, NULL);
        EXPECT_OK(kl_broadcast_to(&c, one, dims, (size_t)ndim, cpu(), &err));
        EXPECT_OK(kl_eval(&c, 1, &err));
        kl_array_release(one);
    } else {
        c = random_array(dtype, ndim, dims);
    }
    if (layout != DENSE && ndim > 1) x = strided(x);
    if (layout == STRIDED && ndim > 1) c = strided(c);
    double *xs = as_doubles(x), *cs = as_doubles(c), *ws = w ? as_doubles(w) : NULL, *want[3],
           most[3] = {0};
    const int64_t size = x->t.size, rows = n ? size / n : 0, sizes[] = {size, n, n};
    for (int i = 0; i < 3; i++) want[i] = calloc((size_t)sizes[i] + 1, sizeof **want);
    reference(k, xs, ws, cs, rows, n, (double)eps, want, most);
    gradients_of(got, k, x, w, b, c, eps);
    const bool wanted[] = {k->of_x, k->of_weight, k->of_bias};
    const double unit = dtype == KL_F64   ? 0x1p-48
                        : dtype == KL_F32 ? 0x1p-19
                        : dtype == KL_F16 ? 0x1p-10
                                          : 0x1p-7;
    for (int i = 0; i < 3; i++) {
        assert_true((got[i] != NULL) == wanted[i]);
        if (!got[i]) continue;
        assert_int_equal(got[i]->t.dtype, dtype);
        expect_shape(got[i], i ? 1 : ndim, i ? &n : dims);
        double *y = as_doubles(got[i]);
        const double wide = fmin(unit, 0x1p-19) * (i ? sqrt((double)rows) : 4);
        for (int64_t e = 0; e < sizes[i]; e++)
            if (!(fabs(y[e] - want[i][e]) <= unit * fabs(want[i][e]) + wide * fmax(most[i], 1)))
                fail_msg("%s%s%s, %s, %lld rows of %d, layout %d: gradient %d, element %lld is "
                         "%.9g, not %.9g",
                         k->centred ? "layer" : "rms", w ? ", weight" : "", b ? ", bias" : "",
                         kl_dtype_name(dtype), (long long)rows, n, layout, i, (long long)e, y[e],
                         want[i][e]);
        free(y);
    }
    for (int i = 0; i < 3; i++) {
        kl_array_release(got[i]);
        free(want[i]);
    }
    struct kl_array *made[] = {x, c, w, b};
    for (int i = 0; i < 4; i++) kl_array_release(made[i]);
    free(xs);
    free(cs);
    free(ws);
}

static const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_F64};
/* float64 is the last of them. */
static int n_types(void) {
    const int n = (int)(sizeof dtypes / sizeof *dtypes);
    return getenv("KEEL_TEST_GPU") && device_lacks_f64() ? n - 1 : n;
}

static void values(void **state) {
    static const int shapes[][3] = {
        {1, 1, 1},      {3, 2, 1},   {1, 1, 40},   {2, 3, 31},   {5, 7, 32},
        {2, 33, 64},    {1, 3, 100}, {2, 1, 4099}, {1, 1, 9001}, {40, 50, 6},
        {10, 300, 129}, {0, 3, 4},   {2, 3, 0},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int d = 0; d < n_types(); d++)
            for (int k = 0; k < N_KINDS; k++)
                for (int layout = 0; layout < N_LAYOUTS; layout++)
                    check(&kinds[k], dtypes[d], 3, shapes[s], layout);
    for (int k = 0; k < N_KINDS; k++) check(&kinds[k], KL_F32, 1, (int[]){70}, BROADCAST);
}

/* So many rows that every task has several blocks of them. */
static void many_rows(void **state) {
    static const int shapes[][2] = {{100000, 2}, {20000, 64}, {3000, 800}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int d = 0; d < 3; d++) {
            check(&kinds[1], dtypes[d], 2, shapes[s], DENSE);
            check(&kinds[6], dtypes[d], 2, shapes[s], s == 1 ? STRIDED : DENSE);
        }
}

/* Rows with NaN, infinities, numbers whose squares overflow, and zeros with eps 0 have NaN and
 * infinities where the composed form (the gradient of the weight alone is one; that of x is made
 * here of ordinary operations) has them. */
static void unusual_numbers(void **state) {
    enum { ROWS = 6, N = 35 };
    static const float special[ROWS] = {NAN, INFINITY, -INFINITY, 1e30f, 0, 1};
    for (int d = 0; d < 3; d++)
        for (int centred = 0; centred < 2; centred++) {
            float v[ROWS * N], g[ROWS * N];
            for (int i = 0; i < ROWS * N; i++) {
                const float s = special[i / N];
                v[i] = s == 0 ? 0 : i % N == 3 ? s : s == 1e30f ? 1e30f : (float)(i % 7);
                g[i] = (float)(i % 5) - 1;
            }
            g[5 * N + 4] = NAN;
            struct kl_array *x32 = array_of(KL_F32, SHAPE(ROWS, N), v),
                            *g32 = array_of(KL_F32, SHAPE(ROWS, N), g), *x, *c, *got[3];
            EXPECT_OK(kl_astype(&x, x32, (int)dtypes[d], cpu(), &err));
            EXPECT_OK(kl_astype(&c, g32, (int)dtypes[d], cpu(), &err));
            double *xs = as_doubles(x), *cs = as_doubles(c);
            struct kind k = {.centred = centred, .of_x = true};
            gradients_of(got, &k, x, NULL, NULL, c, 0);
            double *y = as_doubles(got[0]);
            for (int r = 0; r < ROWS; r++) {
                float mean = 0, square = 0, along = 0, shift = 0;
                for (int i = 0; i < N && centred; i++) mean += (float)xs[r * N + i];
                mean /= N;
                for (int i = 0; i < N; i++) {
                    const float from = (float)xs[r * N + i] - mean;
                    square += from * from / N;
                }
                const float root = sqrtf(square);
                for (int i = 0; i < N; i++) {
                    along += (float)cs[r * N + i] * (((float)xs[r * N + i] - mean) / root) / N;
                    shift += centred ? (float)cs[r * N + i] / N : 0;
                }
                for (int i = 0; i < N; i++) {
                    const float normal = ((float)xs[r * N + i] - mean) / root,
                                want = ((float)cs[r * N + i] - normal * along - shift) / root;
                    const double is = y[r * N + i];
                    /* A constant row is 0 from its mean, or a rounding of it. */
                    if (centred && (r == 3 || r == 4)) continue;
                    if (isnan(want) != isnan(is) || (isfinite(want) && !isfinite(is)))
                        fail_msg("%s, centred %d: row %d, element %d is %g, not %g",
                                 kl_dtype_name(dtypes[d]), centred, r, i, is, (double)want);
                }
            }
            struct kl_array *made[] = {x32, g32, x, c, got[0]};
            for (int i = 0; i < 5; i++) kl_array_release(made[i]);
            free(xs);
            free(cs);
            free(y);
        }
}

/* Every run has the same bits, and so has every variant of the CPU's kernels. */
static void same_bits(void **state) {
    const int dims[] = {300, 1000};
    for (int d = 0; d < n_types(); d++) {
        struct kl_array *x = random_array(dtypes[d], 2, dims),
                        *w = random_array(dtypes[d], 1, dims + 1),
                        *g = random_array(dtypes[d], 2, dims), *out;
        void *first = NULL;
        const int variants = getenv("KEEL_TEST_GPU") ? 0 : kl_cpu_n_variants();
        for (int variant = 0; variant < variants + 2; variant++) {
            kl_cpu_use_variant(variant < variants ? variant : kl_cpu_n_variants() - 1);
            EXPECT_OK(kl_norm_backward(
                &out, x, w, g, &(struct kl_norm_backward_params){1e-5f, true, true, true, true},
                where(), &err));
            void *v = values_of(out);
            const size_t bytes = (size_t)out->t.size * kl_dtype_size((enum kl_dtype)out->t.dtype);
            if (first) assert_memory_equal(first, v, bytes);
            if (first) free(v);
            if (!first) first = v;
            kl_array_release(out);
        }
        free(first);
        struct kl_array *made[] = {x, w, g};
        for (int i = 0; i < 3; i++) kl_array_release(made[i]);
    }
}

static int go_back(struct kl_array **out, struct kl_array *const *in, const void *how,
                   struct kl_error **err) {
    const struct kl_norm_backward_params *p = how;
    return kl_norm_backward(out, in[0], p->has_weight ? in[1] : NULL, in[1 + p->has_weight], p,
                            where(), err);
}

/* The operation's own gradient, with respect to all inputs, against central differences. */
static void second_derivative(void **state) {
    static const enum kl_dtype types[] = {KL_F32, KL_F64};
    for (int d = 0; d < (n_types() < 4 ? 1 : 2); d++)
        for (int which = 0; which < 16; which++) {
            const struct kl_norm_backward_params p = {0.1f, which & 1, which & 2, which & 4,
                                                      which & 8};
            struct kl_array *x = random_array(types[d], SHAPE(2, 3, 5)),
                            *w = random_array(types[d], SHAPE(5)),
                            *g = random_array(types[d], SHAPE(2, 3, 5));
            if (p.has_weight)
                check_vjp("with a weight", go_back, &p, (struct kl_array *[]){x, w, g}, 3, 0);
            else
                check_vjp("without", go_back, &p, (struct kl_array *[]){x, g}, 2, 0);
            struct kl_array *made[] = {x, w, g};
            for (int i = 0; i < 3; i++) kl_array_release(made[i]);
        }
}

/* The gradients of weight and bias do not keep the memory of x's. */
static void memory(void **state) {
    enum { ROWS = 4096, N = 256 };
    const int dims[] = {ROWS, N};
    struct kl_array *x = random_array(KL_F32, 2, dims), *w = random_array(KL_F32, 1, dims + 1),
                    *g = random_array(KL_F32, 2, dims), *got[3];
    const size_t before = kl_memory_active();
    gradients_of(got, &kinds[6], x, w, w, g, 1);
    EXPECT_OK(kl_eval(got, 3, &err));
    kl_array_release(got[0]);
    const size_t more = kl_memory_active() - before;
    if (more > sizeof(float) * ROWS * N / 4) fail_msg("%zu bytes are kept", more);
    struct kl_array *made[] = {x, w, g, got[1], got[2]};
    for (int i = 0; i < 5; i++) kl_array_release(made[i]);
}

/* Each allocation of an evaluation fails in turn, among them the kernel's own. The first evaluation
 * is whole, since compiled kernels are kept. */
static void no_memory(void **state) {
    for (int d = 0; d < 2; d++) {
        struct kl_array *x = strided(random_array(dtypes[d], SHAPE(40, 700))),
                        *w = random_array(dtypes[d], SHAPE(700)), *out;
        EXPECT_OK(kl_eval(&x, 1, &err));
        int failures = 0;
        for (int at = -1;; at++) {
            EXPECT_OK(kl_norm_backward(&out, x, w, x,
                                       &(struct kl_norm_backward_params){1, true, true, true, true},
                                       where(), &err));
            struct kl_error *why = NULL;
            int64_t live = kl_test_n_live();
            kl_test_fail_alloc_at(at);
            int rc = kl_eval(&out, 1, &why);
            bool failed = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            kl_array_release(out);
            if (!failed) assert_int_equal(rc, KL_OK);
            if (at < 0) continue;
            if (!failed) break;
            if (rc) {
                assert_int_equal(rc, KL_ENOMEM);
                failures++;
            }
            kl_error_release(why);
            kl_test_wait_for_live(live);
        }
        assert_true(failures > 0);
        kl_array_release(x);
        kl_array_release(w);
    }
}

static void bad(void **state) {
    static const struct kl_norm_backward_params p = {1, true, true, true, true};
    struct kl_array *x = random_array(KL_F32, SHAPE(2, 3)), *w = random_array(KL_F32, SHAPE(3)),
                    *other = random_array(KL_F32, SHAPE(3, 2)),
                    *whole = I32(SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *iw = I32(SHAPE(3), 1, 2, 3),
                    *none = random_array(KL_F32, 0, NULL), *big, *out;
    EXPECT_FAIL(KL_EARG, kl_norm_backward(&out, NULL, w, x, &p, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm_backward(&out, x, w, NULL, &p, cpu(), &err));
    EXPECT_FAIL(KL_EARG, kl_norm_backward(&out, x, w, x, &p, NULL, &err));
    EXPECT_FAIL(KL_ESHAPE, kl_norm_backward(&out, none, w, none, &p, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_norm_backward(&out, x, other, x, &p, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_norm_backward(&out, x, w, other, &p, cpu(), &err));
    EXPECT_FAIL(KL_ESHAPE, kl_norm_backward(&out, x, w, w, &p, cpu(), &err));
    EXPECT_FAIL(KL_EDTYPE, kl_norm_backward(&out, whole, iw, whole, &p, cpu(), &err));
    /* more gradients than one axis can have */
    EXPECT_OK(kl_broadcast_to(&big, none, LIST(1 << 15, 1 << 16), cpu(), &err));
    EXPECT_FAIL(KL_ELIMIT, kl_norm_backward(&out, big, NULL, big, &p, cpu(), &err));
    struct kl_array *made[] = {x, w, other, whole, iw, none, big};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) kl_array_release(made[i]);
}

int main(void) {
    const struct CMUnitTest everywhere[] = {
        cmocka_unit_test(values), cmocka_unit_test(many_rows), cmocka_unit_test(unusual_numbers),
        cmocka_unit_test(same_bits), cmocka_unit_test(no_memory)};
    /* The second derivative is made of ordinary operations, which other tests run on devices. */
    const struct CMUnitTest on_the_cpu[] = {cmocka_unit_test(second_derivative),
                                            cmocka_unit_test(memory), cmocka_unit_test(bad)};
    const char *device = getenv("KEEL_TEST_GPU");
    setenv("KEEL_GPU", device ? device : "sim", 1);
    int rc = cmocka_run_group_tests(everywhere, NULL, NULL);
    return device ? rc : rc + cmocka_run_group_tests(on_the_cpu, NULL, NULL);
}
