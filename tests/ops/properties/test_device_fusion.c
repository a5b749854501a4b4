/* test_device_fusion.c - element-wise operations that a device runs as one generated kernel,
 * against the CPU (on_device.h chooses the device): random graphs of mixed dtypes, in which some
 * intermediate results stay alive, and groups whose kernels once did not compile. */
#include "ops/support/operations.h"
#include "ops/support/rows.h"
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"
#include "runtime/executor.h"
#include "ulp.h"

enum { LEAVES = 6, MOST_STEPS = 30, MOST_NODES = LEAVES + MOST_STEPS };

static struct kl_array *on_device_values(struct kl_array *a, enum kl_dtype t, const int *dims,
                                         int ndim) {
    struct kl_array *out, *flat;
    const void *p = read_elements(a, gpu_stream, &flat, "a result");
    OK(kl_array_new_data(&out, p, t, ndim, dims, &err));
    kl_array_release(flat);
    return out;
}

/* ---- one group after another ---- */

/* Step number 8 is stored, and a bool is in the group. The name generated for the step must not
 * hide the type b8. */
static void nine_squares_and_a_comparison(void **state) {
    enum { N = 1000, SQUARES = 9 };
    float v[N];
    for (int i = 0; i < N; i++) v[i] = (float)(i % 3);
    for (int kept = 0; kept <= SQUARES; kept++) {
        /* With kept == SQUARES all squares are kept alive, otherwise square number kept + 1. */
        struct kl_array *x, *square[SQUARES + 1], *last, *all[SQUARES + 1];
        size_t n_all = 0;
        OK(kl_array_new_data(&x, v, KL_F32, 1, (int[]){N}, &err));
        square[0] = x;
        for (int k = 1; k <= SQUARES; k++)
            OK(kl_square(&square[k], square[k - 1], gpu_stream, &err));
        OK(kl_greater(&last, square[SQUARES], x, gpu_stream, &err));
        all[n_all++] = last;
        for (int k = 1; k <= SQUARES; k++) {
            if (kept == SQUARES || kept == k - 1)
                all[n_all++] = square[k];
            else
                kl_array_release(square[k]);
        }
        OK(kl_eval(all, n_all, &err));
        for (size_t k = 0; k < n_all; k++) {
            struct kl_array *flat;
            const void *p = read_elements(all[k], gpu_stream, &flat, "squares");
            for (int i = 0; i < N; i++) {
                float want = i % 3 < 2 ? v[i] : 0; /* 0 and 1 are equal to their squares */
                if (i % 3 == 2) continue;          /* the repeated square of 2 overflows */
                if (k == 0)
                    assert_false(((const uint8_t *)p)[i]);
                else
                    assert_true(((const float *)p)[i] == want);
            }
            kl_array_release(flat);
        }
        for (size_t k = 0; k < n_all; k++) kl_array_release(all[k]);
        kl_array_release(x);
    }
}

/* ---- numbers of the host ---- */

/* (x * a + b) * (element 2 of the host's array) for the first elements of x. a, b: one number each,
 * released before the result is there. */
static struct kl_array *with_numbers(struct kl_array *x, double a, double b,
                                     struct kl_array *of_host, enum kl_dtype t) {
    struct kl_array *n[3], *y, *z;
    OK(kl_array_new_scalar(&n[0], a, t, &err));
    OK(kl_array_new_scalar(&n[1], b, t, &err));
    OK(kl_slice(&n[2], of_host, (int[]){2}, 1, (int[]){3}, 1, (int[]){1}, 1, gpu_stream, &err));
    OK(kl_multiply(&y, x, n[0], gpu_stream, &err));
    OK(kl_add(&z, y, n[1], gpu_stream, &err));
    kl_array_release(y);
    OK(kl_multiply(&y, z, n[2], gpu_stream, &err));
    kl_array_release(z);
    for (int i = 0; i < 3; i++) kl_array_release(n[i]);
    OK(kl_async_eval(&y, 1, &err));
    return y;
}

/* One element of the host's memory goes to a kernel as an argument: nothing is copied, each kernel
 * has its own numbers, equal ones too, and memory of the host may be used again at once. */
static void numbers_of_the_host_are_arguments(void **state) {
    enum { N = 100, ROUNDS = 6 };
    const enum kl_dtype dtypes[] = {KL_F32, KL_F16, KL_BF16, KL_I32, KL_I64, KL_U8, KL_C64};
    const bool given = gpu_stream->backend->memory->takes_values;
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        const enum kl_dtype t = dtypes[k];
        struct kl_array *x = drawn(KL_F32, 1, (int[]){N}), *ones, *of_host, *y[ROUNDS];
        float v[] = {7, 8, 2, 9};
        struct kl_array *host;
        OK(kl_array_new_data(&host, v, KL_F32, 1, (int[]){4}, &err));
        OK(kl_astype(&of_host, host, t, cpu_stream, &err));
        OK(kl_abs(&ones, x, gpu_stream, &err));
        OK(kl_ceil(&y[0], ones, gpu_stream, &err)); /* 1, as nothing drawn is 0 */
        kl_array_release(ones);
        OK(kl_astype(&ones, y[0], t, gpu_stream, &err));
        OK(kl_eval((struct kl_array *[]){ones, of_host}, 2, &err));
        kl_array_release(y[0]);
        const uint64_t copied = kl_test_bytes_copied();
        for (int i = 0; i < ROUNDS; i++) y[i] = with_numbers(ones, i + 1, i % 2 + 1, of_host, t);
        OK(kl_eval(y, ROUNDS, &err));
        if (given)
            assert_int_equal(kl_test_bytes_copied(), copied);
        else
            assert_true(kl_test_bytes_copied() > copied);
        for (int i = 0; i < ROUNDS; i++) {
            struct kl_array *as_floats, *flat;
            OK(kl_astype(&as_floats, y[i], KL_F32, gpu_stream, &err));
            const float *p = read_elements(as_floats, gpu_stream, &flat, "numbers");
            for (int j = 0; j < N; j++) assert_true(p[j] == (float)(2 * (i + 1 + i % 2 + 1)));
            kl_array_release(flat);
            kl_array_release(as_floats);
            kl_array_release(y[i]);
        }
        kl_array_release(ones);
        kl_array_release(of_host);
        kl_array_release(host);
        kl_array_release(x);
    }
}

/* ---- random graphs ---- */

/* The allowed distance between a device's result and the CPU's, in units in the last place, from
 * the function's row or, where it has none, from here. Composed operations give the same bits. */
static double ulps_of(int which) {
    for (int i = 0; i < N_ROWS_OF_ONE && which < N_UNARY; i++)
        if (rows_of_one[i].build == unaries[which].build) return rows_of_one[i].device;
    if (which < N_UNARY || which >= N_UNARY + N_BINARY) return 0;
    for (int i = 0; i < N_ROWS_OF_TWO; i++)
        if (rows_of_two[i].build == binaries[which - N_UNARY].build) return rows_of_two[i].device;
    return binaries[which - N_UNARY].build == kl_silu_mul ? 8 : 0;
}

/* The complex results of these functions are computed in double on both sides and rounded once, but
 * not always in the same order. */
static double complex_ulps_of(int which) {
    const char *name = operation_name(which);
    if (ulps_of(which) > 0) return 16;
    return strcmp(name, "kl_sqrt") == 0 || strcmp(name, "kl_abs") == 0 ||
                   strcmp(name, "kl_divide") == 0 || strcmp(name, "kl_sign") == 0 ||
                   strcmp(name, "kl_reciprocal") == 0
               ? 4
               : 0;
}

struct node {
    int kind, which; /* LEAF, OPERATION, CAST, WHERE or NOTHING */
    int a, b, c;     /* numbers of the nodes that are operands */
    bool kept;       /* a handle of the test keeps it alive */
    double ulps;     /* allowed distance from the CPU's result of the same operands */
    enum kl_dtype dtype;
};
enum { LEAF, OPERATION, CAST, WHERE, NOTHING /* the result is operand a itself */ };

struct graph {
    uint32_t seed;
    int n, n_dims, dims[3];
    struct node node[MOST_NODES];
    struct kl_array *leaf[LEAVES];
};

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int apply(const struct node *d, struct kl_array **out, struct kl_array *const *v,
                 struct kl_stream *s, struct kl_error **err) {
    if (d->kind == CAST) return kl_astype(out, v[d->a], (int)d->dtype, s, err);
    if (d->kind == WHERE) return kl_where(out, v[d->c], v[d->a], v[d->b], s, err);
    if (d->which < N_UNARY) return unaries[d->which].build(out, v[d->a], s, err);
    return binaries[d->which - N_UNARY].build(out, v[d->a], v[d->b], s, err);
}

static enum kl_dtype any_dtype(uint32_t *seed) {
    enum kl_dtype t = (enum kl_dtype)(next_random(seed) % KL_N_DTYPES);
    return t == KL_F64 && device_lacks_f64() ? KL_F32 : t;
}

static struct kl_array *leaf_of(struct graph *g, int i, uint32_t *seed) {
    static const int row[] = {1};
    enum kl_dtype t = any_dtype(seed);
    g->node[i] = (struct node){.kind = LEAF, .dtype = t};
    if (i == 0) return special_bits(t, 1, row, next_random(seed));
    if (i == 1) return special_bits(t, 1, g->dims + g->n_dims - 1, next_random(seed));
    struct kl_array *a = special_bits(t, g->n_dims, g->dims, next_random(seed));
    return i == 2 ? strided(a) : a;
}

/* The seed decides once what the graph does. The graph is then built for each device. An operation
 * that does not take its operand's dtype becomes NOTHING. */
static void plan_of(struct graph *g, uint32_t number) {
    static const int shapes[][3] = {{5, 1, 67}, {4, 3, 64}, {1, 1, 1}, {2, 129, 16}};
    uint32_t seed = 1000 + number;
    struct kl_array *v[MOST_NODES];
    *g = (struct graph){.seed = seed, .n = LEAVES, .n_dims = 3};
    memcpy(g->dims, shapes[next_random(&seed) % 4], sizeof g->dims);
    int n_nodes = LEAVES + 2 + (int)(next_random(&seed) % (MOST_STEPS - 1));
    /* One node in this many is kept, and the last one. */
    int kept_of = 1 + (int)(next_random(&seed) % 12);
    for (int i = 0; i < LEAVES; i++) v[i] = g->leaf[i] = leaf_of(g, i, &seed);
    for (; g->n < n_nodes; g->n++) {
        struct node *d = &g->node[g->n];
        uint32_t r = next_random(&seed), recent = next_random(&seed) % 3;
        /* For one operation in three, the first operand is the node before it, which makes
         * chains. */
        d->a = recent ? (int)(r % (uint32_t)g->n) : g->n - 1;
        d->b = (int)(next_random(&seed) % (uint32_t)g->n);
        d->c = (int)(next_random(&seed) % (uint32_t)g->n);
        d->which = (int)(next_random(&seed) % (N_UNARY + N_BINARY));
        d->dtype = any_dtype(&seed);
        uint32_t kind = next_random(&seed) % 10;
        d->kind = kind == 0 ? CAST : kind == 1 ? WHERE : OPERATION;
        d->kept = next_random(&seed) % (uint32_t)kept_of == 0 || g->n == n_nodes - 1;
        struct kl_error *e = NULL;
        if (apply(d, &v[g->n], v, cpu_stream, &e)) {
            kl_error_release(e);
            d->kind = NOTHING;
            d->kept = false;
            v[g->n] = kl_array_retain(v[d->a]);
        }
        d->dtype = v[g->n]->t.dtype;
        if (d->kind != OPERATION) continue;
        bool complex = d->dtype == KL_C64 || v[d->a]->t.dtype == KL_C64 ||
                       (d->which >= N_UNARY && v[d->b]->t.dtype == KL_C64);
        d->ulps = kl_dtype_is_int(d->dtype) ? 0
                  : complex                 ? complex_ulps_of(d->which)
                                            : ulps_of(d->which);
        /* A comparison of values that differ by one unit may give any difference. So a value that
         * may differ is kept, and then replaced by the device's value. */
        if (d->ulps > 0) d->kept = true;
    }
    for (int i = LEAVES; i < g->n; i++) kl_array_release(v[i]);
}

static double part_of(enum kl_dtype t, const char *p) {
    uint16_t h;
    float f;
    double d;
    switch (t) {
    case KL_F64: memcpy(&d, p, 8); return d;
    case KL_F16: memcpy(&h, p, 2); return (double)kl_f16_to_f32(h);
    case KL_BF16: memcpy(&h, p, 2); return (double)kl_bf16_to_f32(h);
    default: memcpy(&f, p, 4); return (double)f;
    }
}

/* Whether x and y differ by few units in the last place of the larger one. For complex numbers this
 * is the larger part. The results of logaddexp near 0 are small differences of its operands, so
 * their errors are those of the operands. */
static bool close_enough(const struct node *d, const void *got, const void *want, int64_t i) {
    enum kl_dtype t = d->dtype, part = t == KL_C64 ? KL_F32 : t;
    size_t item = kl_dtype_size(part), n = t == KL_C64 ? 2 : 1;
    const char *x = (const char *)got + (size_t)i * n * item,
               *y = (const char *)want + (size_t)i * n * item;
    double unit = kl_test_epsilon(t);
    bool logaddexp = d->which >= N_UNARY && strcmp(operation_name(d->which), "kl_logaddexp") == 0;
    double scale = logaddexp || t == KL_C64 ? 1 : 0, least = t == KL_F16 ? 0x1p-24 : 1e-37;
    bool nan[2] = {false, false};
    for (size_t k = 0; k < n; k++) {
        double p = part_of(part, x + k * item), q = part_of(part, y + k * item);
        nan[0] = nan[0] || isnan(p);
        nan[1] = nan[1] || isnan(q);
        if (isfinite(q)) scale = fmax(scale, fabs(q));
    }
    if (nan[0] || nan[1]) return nan[0] && nan[1];
    for (size_t k = 0; k < n; k++) {
        double p = part_of(part, x + k * item), q = part_of(part, y + k * item);
        if (p != q && !(fabs(p - q) <= d->ulps * unit * scale + least)) return false;
    }
    return true;
}

/* Compares node k's result on the device with the CPU's result of the same operands. */
static void check_node(const struct graph *g, int k, const struct kl_array *got_of,
                       struct kl_array *want_of) {
    const struct node *d = &g->node[k];
    enum kl_dtype t = d->dtype;
    struct kl_array *flat[2];
    const void *want = read_elements(want_of, cpu_stream, &flat[0], operation_name(d->which));
    const void *got =
        read_elements((struct kl_array *)got_of, gpu_stream, &flat[1], operation_name(d->which));
    assert_int_equal(flat[0]->t.dtype, flat[1]->t.dtype);
    assert_int_equal(flat[0]->t.size, flat[1]->t.size);
    for (int64_t i = 0; i < flat[0]->t.size; i++) {
        if (same_element(t, got, want, i)) continue;
        if (d->ulps > 0 && close_enough(d, got, want, i)) continue;
        uint64_t bits[2] = {0, 0};
        memcpy(&bits[0], (const char *)got + (size_t)i * kl_dtype_size(t), kl_dtype_size(t));
        memcpy(&bits[1], (const char *)want + (size_t)i * kl_dtype_size(t), kl_dtype_size(t));
        fail_msg("graph %u, node %d (%s, %s): element %lld is %#llx on %s, %#llx on the CPU",
                 g->seed - 1000, k,
                 d->kind == OPERATION ? operation_name(d->which)
                 : d->kind == CAST    ? "cast"
                                      : "where",
                 kl_dtype_name(t), (long long)i, (unsigned long long)bits[0], device_name(),
                 (unsigned long long)bits[1]);
    }
    kl_array_release(flat[0]);
    kl_array_release(flat[1]);
}

static void run_graph(uint32_t number) {
    struct graph g;
    struct kl_array *v[MOST_NODES], *want[MOST_NODES], *kept[MOST_NODES];
    size_t n_kept = 0;
    plan_of(&g, number);
    for (int i = 0; i < g.n; i++) {
        const struct node *d = &g.node[i];
        if (d->kind == LEAF || d->kind == NOTHING)
            v[i] = kl_array_retain(d->kind == LEAF ? g.leaf[i] : v[d->a]);
        else
            OK(apply(d, &v[i], v, gpu_stream, &err));
        if (d->kept) kept[n_kept++] = v[i];
    }
    /* A value that only the graph holds need not be stored. */
    for (int i = 0; i < g.n; i++)
        if (!g.node[i].kept) kl_array_release(v[i]);
    struct kl_error *e = NULL;
    if (kl_eval(kept, n_kept, &e)) fail_msg("graph %u: %s", number, e->message);
    for (int i = 0; i < g.n; i++) {
        const struct node *d = &g.node[i];
        if (d->kind == LEAF || d->kind == NOTHING)
            want[i] = kl_array_retain(d->kind == LEAF ? g.leaf[i] : want[d->a]);
        else
            OK(apply(d, &want[i], want, cpu_stream, &err));
        if (!d->kept) continue;
        check_node(&g, i, v[i], want[i]);
        if (d->ulps > 0) { /* the next operations get the device's value as operand */
            struct kl_array *same =
                on_device_values(v[i], d->dtype, want[i]->t.dims, want[i]->t.ndim);
            kl_array_release(want[i]);
            want[i] = same;
        }
        kl_array_release(v[i]);
    }
    for (int i = 0; i < g.n; i++) kl_array_release(want[i]);
    for (int i = 0; i < LEAVES; i++) kl_array_release(g.leaf[i]);
}

/* KEEL_TEST_GRAPHS is the number of graphs, and KEEL_TEST_GRAPH the number of the first one, to
 * repeat a failure. OpenCL's and CUDA's compilers take some seconds for each graph. */
static void random_graphs(void **state) {
    const char *many = getenv("KEEL_TEST_GRAPHS"), *first = getenv("KEEL_TEST_GRAPH");
    int n = many ? atoi(many) : strcmp(device_name(), "sim") == 0 ? 400 : 8;
    uint32_t from = first ? (uint32_t)atoi(first) : 0;
    assert_true(n > 0);
    for (int k = 0; k < n; k++) run_graph(from + (uint32_t)k);
    printf("%d graphs on %s\n", n, device_name());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nine_squares_and_a_comparison),
        cmocka_unit_test(numbers_of_the_host_are_arguments),
        cmocka_unit_test(random_graphs),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
