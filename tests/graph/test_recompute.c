/* test_recompute.c - element-wise values that two kernels read are computed twice rather than
 * stored: the results have the same bits as without it, in a perceptron with gelu and in random
 * graphs, also on several threads and on a device (on_device.h chooses it); less memory is taken;
 * values that somebody else has are stored; failures; every allocation fails in turn. */
#include "ops/support/operations.h"
#include "ops/support/on_device.h"

#include "graph/node.h"
#include "graph/recompute.h"
#include "runtime/block_pool.h"
#include "runtime/fusion.h"
#include "transforms/compile.h"
#include "transforms/transforms.h"

static void release_all(struct kl_array **v, int n) {
    for (int i = 0; i < n; i++) kl_array_release(v[i]);
}

/* The elements of a as stored; evaluates a. The caller frees them. */
static void *bytes_of(struct kl_array *a, struct kl_stream *s) {
    struct kl_array *flat;
    const size_t bytes = (size_t)a->t.size * kl_dtype_size((enum kl_dtype)a->t.dtype);
    void *copy = malloc(bytes);
    memcpy(copy, read_elements(a, s, &flat, "a result"), bytes);
    kl_array_release(flat);
    return copy;
}

/* ---- a perceptron ---- */

/* The hidden values have as many elements as values need that are computed twice, and no more, in
 * narrow products: PoCL runs them without optimisation. */
enum { ROWS = 1024, IN = 16, HIDDEN = 64, OUT = 8, DEPTH = 3 };
_Static_assert(ROWS *HIDDEN == KL_RECOMPUTE_MIN_SIZE, "large enough");
static const size_t hidden_elements = (size_t)ROWS * HIDDEN;

struct perceptron {
    struct kl_stream *s;
    enum kl_dtype dtype;
    struct kl_array *x;
    bool keeps;            /* a handle of the caller stays on the values below */
    struct kl_array *kept; /* x / sqrt 2, of the last call */
    bool evaluates;        /* the function itself evaluates the gelu */
    bool silu;             /* instead of gelu */
};

static struct kl_array *small(const struct perceptron *p, double x) {
    return scalar_of(p->dtype, x);
}

/* a * sigmoid(a) */
static struct kl_array *silu(struct perceptron *p, struct kl_array *a) {
    struct kl_array *v, *out;
    OK(kl_sigmoid(&v, a, p->s, &err));
    OK(kl_multiply(&out, a, v, p->s, &err));
    kl_array_release(v);
    return out;
}

/* a * 0.5 * (1 + erf(a / sqrt 2)) */
static struct kl_array *gelu(struct perceptron *p, struct kl_array *a) {
    struct kl_array *c[3] = {small(p, 0.5), small(p, 1), small(p, 0.70710678)}, *v[4], *out;
    OK(kl_multiply(&v[0], a, c[2], p->s, &err));
    OK(kl_erf(&v[1], v[0], p->s, &err));
    OK(kl_add(&v[2], v[1], c[1], p->s, &err));
    OK(kl_multiply(&v[3], a, c[0], p->s, &err));
    OK(kl_multiply(&out, v[3], v[2], p->s, &err));
    if (p->keeps) {
        kl_array_release(p->kept);
        p->kept = kl_array_retain(v[0]);
    }
    release_all(v, 4);
    release_all(c, 3);
    return out;
}

/* The sum of squares of y @ in[1], where y is DEPTH times gelu of a norm of x @ in[0]. */
static int loss(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                struct kl_error **e) {
    struct perceptron *p = ctx;
    struct kl_array *v[5];
    OK(kl_matmul(&v[0], p->x, in[0], p->s, &err));
    for (int k = 0; k < DEPTH; k++) {
        OK(kl_rms_norm(&v[1], v[0], NULL, 1e-5f, p->s, &err));
        kl_array_release(v[0]);
        v[0] = (p->silu ? silu : gelu)(p, v[1]);
        if (k < DEPTH - 1) kl_array_release(v[1]);
    }
    struct kl_array *norm = v[1];
    v[1] = v[0];
    v[0] = norm;
    if (p->evaluates) OK(kl_eval(&v[1], 1, &err));
    OK(kl_matmul(&v[2], v[1], in[1], p->s, &err));
    OK(kl_astype(&v[3], v[2], KL_F32, p->s, &err));
    OK(kl_square(&v[4], v[3], p->s, &err));
    OK(kl_arrays_new(outs, 1, e));
    OK(kl_sum(&outs->v[0], v[4], false, p->s, &err));
    release_all(v, 5);
    return KL_OK;
}

/* The loss and its two gradients. */
static int step(void *ctx, struct kl_array *const *in, size_t n, struct kl_arrays *outs,
                struct kl_error **e) {
    const struct kl_function f = {.call = loss, .ctx = ctx};
    struct kl_arrays values = {0}, grads = {0};
    KL_TRY(kl_value_and_grad(&f, (int[]){0, 1}, 2, in, 2, &values, &grads, e));
    int rc = kl_arrays_new(outs, 3, e);
    struct kl_array *all[3] = {values.v[0], grads.v[0], grads.v[1]};
    for (int i = 0; i < 3 && !rc; i++) outs->v[i] = kl_array_retain(all[i]);
    kl_arrays_free(&values);
    kl_arrays_free(&grads);
    return rc;
}

/* Waves of moderate size, on the host. */
static struct kl_array *waves(enum kl_dtype dtype, int rows, int cols, float scale) {
    float *v = malloc((size_t)rows * (size_t)cols * sizeof *v);
    for (int i = 0; i < rows * cols; i++) v[i] = scale * (float)(i * 37 % 201 - 100) / 100;
    struct kl_array *a = array_of(KL_F32, 2, (int[]){rows, cols}, v), *b;
    free(v);
    OK(kl_astype(&b, a, dtype, cpu_stream, &err));
    OK(kl_eval(&b, 1, &err));
    kl_array_release(a);
    return b;
}

struct outcome {
    void *bytes[3];
    size_t sizes[3], peak;
    uint64_t again, groups;
};

/* How often the step runs before it is looked at: what is compiled, and kept on the device, is
 * there then. */
enum { WARM = 2 };

static struct outcome run_step(struct perceptron *p, bool compiled, bool recompute) {
    struct kl_array *w[2] = {waves(p->dtype, IN, HIDDEN, 0.5f), waves(p->dtype, HIDDEN, OUT, 0.3f)};
    struct kl_function plain = {.call = step, .ctx = p}, f = plain;
    struct outcome o = {0};
    p->x = waves(p->dtype, ROWS, IN, 1);
    kl_recompute_allow(recompute);
    if (compiled) OK(kl_compile(&f, &plain, 0, false, NULL, 0, &err));
    for (int k = 0; k <= WARM; k++) {
        struct kl_arrays outs = {0};
        kl_until_quiet();
        const size_t before = kl_memory_active();
        kl_memory_reset_peak();
        const uint64_t again = kl_recompute_count(), groups = kl_fusion_count();
        OK(kl_function_call(&f, w, 2, &outs, &err));
        OK(kl_eval(outs.v, 3, &err));
        o.peak = kl_memory_peak() - before;
        o.again = kl_recompute_count() - again;
        o.groups = kl_fusion_count() - groups;
        for (int i = 0; i < 3; i++) {
            free(o.bytes[i]);
            o.bytes[i] = bytes_of(outs.v[i], p->s);
            o.sizes[i] =
                (size_t)outs.v[i]->t.size * kl_dtype_size((enum kl_dtype)outs.v[i]->t.dtype);
        }
        kl_arrays_free(&outs);
        kl_array_release(p->kept);
        p->kept = NULL;
    }
    if (compiled) kl_function_release(&f);
    kl_recompute_allow(true);
    kl_array_release(p->x);
    release_all(w, 2);
    return o;
}

static void outcome_free(struct outcome *o) {
    for (int i = 0; i < 3; i++) free(o->bytes[i]);
}

static void same_bytes(const struct outcome *a, const struct outcome *b, const char *what) {
    for (int i = 0; i < 3; i++)
        if (a->sizes[i] != b->sizes[i] || memcmp(a->bytes[i], b->bytes[i], a->sizes[i]) != 0)
            fail_msg("%s: result %d is another one", what, i);
}

/* Three values of a gelu of x (x / sqrt 2, x / 2, 1 + erf) are not stored for the backward pass,
 * which makes them from x in four operations. At the peak two gelus wait for it, or more. */
static void a_perceptron_with_gelu(void **state) {
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16};
    struct kl_stream *streams[2] = {cpu_stream, gpu_stream};
    for (int k = 0; k < 12; k++) {
        if (!kl_test_takes("cpu", 1)) continue;
        if (k > 3 && k % 2 && !takes_case(1)) continue; /* PoCL takes a second for each */
        struct perceptron p = {.s = streams[k % 2], .dtype = dtypes[k / 4]};
        const bool compiled = k / 2 % 2;
        const size_t array = hidden_elements * kl_dtype_size(p.dtype);
        char what[64];
        snprintf(what, sizeof what, "%s of %s on %s", compiled ? "compiled step" : "step",
                 kl_dtype_name(p.dtype), k % 2 ? device_name() : "the CPU");
        struct outcome stored = run_step(&p, compiled, false), twice = run_step(&p, compiled, true);
        print_message("%s: peak %.2f arrays instead of %.2f\n", what,
                      (double)twice.peak / (double)array, (double)stored.peak / (double)array);
        same_bytes(&stored, &twice, what);
        assert_int_equal(stored.again, 0);
        assert_int_equal(twice.again, 4 * DEPTH);
        assert_in_range(twice.groups, 0, stored.groups);
        assert_in_range(twice.peak, array, stored.peak - 3 * array);
        outcome_free(&stored);
        outcome_free(&twice);
    }
}

/* The sigmoid of silu is computed twice on a device only: on a processor that takes longer than to
 * load it. */
static void a_function_for_one_value(void **state) {
    struct kl_stream *streams[2] = {cpu_stream, gpu_stream};
    for (int k = 0; k < 2; k++) {
        struct perceptron p = {.s = streams[k], .dtype = KL_F32, .silu = true};
        struct outcome stored = run_step(&p, false, false), twice = run_step(&p, false, true);
        same_bytes(&stored, &twice, "silu");
        assert_int_equal(twice.again, k * DEPTH);
        outcome_free(&stored);
        outcome_free(&twice);
    }
}

/* A value that a handle of the caller is on is stored, and so are those that the function itself
 * evaluates, on which the rules of gradients still look. */
static void others_have_the_value(void **state) {
    struct perceptron p = {.s = cpu_stream, .dtype = KL_F32}, kept = p, inside = p;
    kept.keeps = true;
    inside.evaluates = true;
    struct outcome want = run_step(&p, false, false), a = run_step(&kept, false, true),
                   b = run_step(&inside, false, true);
    same_bytes(&want, &a, "with a handle");
    same_bytes(&want, &b, "evaluated inside");
    assert_int_equal(a.again, 4 * DEPTH - 1); /* x / sqrt 2 is read from memory */
    assert_int_equal(b.again, 0);
    struct outcome *all[] = {&want, &a, &b};
    for (int i = 0; i < 3; i++) outcome_free(all[i]);
}

/* Without groups there is no kernel that could hold the values. */
static void no_groups(void **state) {
    struct perceptron p = {.s = cpu_stream, .dtype = KL_F32};
    kl_fusion_allow(false);
    struct outcome o = run_step(&p, false, true);
    kl_fusion_allow(true);
    assert_int_equal(o.again, 0);
    outcome_free(&o);
}

/* ---- random graphs ---- */

enum { LEAVES = 4, NODES = 34, ROWS_OF_GRAPH = 64, COLS = 1040, MOST_KEPT = 4 };

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Functions that keep the dtype, and whose results stay of moderate size. */
static kl_unary_fn *const unary[] = {kl_negative, kl_abs, kl_copy, kl_square};
static kl_unary_fn *const of_floats[] = {kl_erf, kl_sigmoid, kl_tanh, kl_sin};
static kl_binary_fn *const binary[] = {kl_add, kl_subtract, kl_multiply, kl_maximum, kl_minimum};

/* Every eighth operation is a sort, which ends the runs of element-wise operations. */
static struct kl_array *random_operation(struct kl_array *const *v, int n, uint32_t *seed,
                                         struct kl_stream *s) {
    struct kl_array *a = v[n - 1 - (int)(next_random(seed) % 3)],
                    *b = v[n - 1 - (int)(next_random(seed) % (n < 12 ? (uint32_t)n : 12u))],
                    *c = v[next_random(seed) % (uint32_t)n], *out = NULL;
    const uint32_t kind = next_random(seed) % 14, which = next_random(seed);
    if (n % 8 == 0) {
        OK(kl_sort_axis(&out, a, 1, s, &err));
    } else if (kind < 3) {
        static const enum kl_dtype to[] = {KL_F32, KL_BF16, KL_F16, KL_I32};
        OK(kl_astype(&out, a, (int)to[which % 4], s, &err));
    } else if (kind < 4) {
        struct kl_array *larger;
        OK(kl_greater(&larger, a, b, s, &err));
        OK(kl_where(&out, larger, b, c, s, &err));
        kl_array_release(larger);
    } else if (kind < 8) {
        const bool is_int = kl_dtype_is_int((enum kl_dtype)a->t.dtype);
        OK((is_int ? unary : of_floats)[which % 4](&out, a, s, &err));
    } else {
        OK(binary[which % 5](&out, a, b, s, &err));
    }
    return out;
}

/* The values that the caller keeps of graph `number`: one in 16, and the last. Evaluated together.
 */
static int random_graph(uint32_t number, struct kl_stream *s, struct kl_array **kept) {
    uint32_t seed = 77 + 1000 * number;
    static const enum kl_dtype dtypes[] = {KL_F32, KL_BF16, KL_F16, KL_I32};
    struct kl_array *v[NODES];
    int n_kept = 0;
    for (int i = 0; i < LEAVES; i++) {
        const enum kl_dtype t = dtypes[next_random(&seed) % 4];
        struct kl_array *w = waves(KL_F32, i == 1 ? 1 : ROWS_OF_GRAPH, COLS, 2);
        OK(kl_astype(&v[i], w, (int)t, cpu_stream, &err));
        OK(kl_eval(&v[i], 1, &err));
        kl_array_release(w);
    }
    for (int i = LEAVES; i < NODES; i++) v[i] = random_operation(v, i, &seed, s);
    for (int i = LEAVES; i < NODES; i++)
        if (i == NODES - 1 || (n_kept < MOST_KEPT - 1 && next_random(&seed) % 16 == 0))
            kept[n_kept++] = kl_array_retain(v[i]);
    release_all(v, NODES);
    OK(kl_eval(kept, (size_t)n_kept, &err));
    return n_kept;
}

struct reference {
    void *bytes[MOST_KEPT];
    int n;
};

static void compare_graph(uint32_t number, struct kl_stream *s, const struct reference *want) {
    struct kl_array *kept[MOST_KEPT];
    const int n = random_graph(number, s, kept);
    assert_int_equal(n, want->n);
    for (int i = 0; i < n; i++) {
        void *got = bytes_of(kept[i], s);
        const enum kl_dtype t = (enum kl_dtype)kept[i]->t.dtype;
        for (int64_t k = 0; k < kept[i]->t.size; k++)
            if (!same_element(t, got, want->bytes[i], k))
                fail_msg("graph %u, value %d, element %lld", number, i, (long long)k);
        free(got);
    }
    release_all(kept, n);
}

static void make_reference(uint32_t number, struct kl_stream *s, struct reference *r) {
    struct kl_array *kept[MOST_KEPT];
    kl_recompute_allow(false);
    r->n = random_graph(number, s, kept);
    for (int i = 0; i < r->n; i++) r->bytes[i] = bytes_of(kept[i], s);
    release_all(kept, r->n);
    kl_recompute_allow(true);
}

/* A device that compiles kernels takes seconds for a graph. Every sample has one there in which
 * something is computed twice, whose kernels are then in the cache of the stages that follow. Where
 * a sample has none all the same, all are run until there is one. */
static void graphs_on(struct kl_stream *s, int n) {
    const uint64_t before = kl_recompute_count();
    const bool compiles = s == gpu_stream && strcmp(device_name(), "sim") != 0;
    int n_run = 0;
    for (int i = 0; i < n || (i < 2 * n && kl_recompute_count() == before); i++) {
        struct reference r;
        const uint32_t g = (uint32_t)(i % n);
        const bool always = i >= n || (i == 1 && compiles);
        if (!always && !(compiles ? kl_test_takes("kernels", 1) : kl_test_takes("cpu", 4)))
            continue;
        make_reference(g, s, &r);
        compare_graph(g, s, &r);
        for (int k = 0; k < r.n; k++) free(r.bytes[k]);
        n_run++;
    }
    print_message("%d graphs of %d, %llu operations twice\n", n_run, n,
                  (unsigned long long)(kl_recompute_count() - before));
    assert_true(kl_recompute_count() > before);
}

static void random_graphs_on_the_cpu(void **state) {
    graphs_on(cpu_stream, 150);
}

static void random_graphs_on_the_device(void **state) {
    graphs_on(gpu_stream, strcmp(device_name(), "sim") == 0 ? 60 : 6);
}

enum { THREADS = 4, EACH = 10 };
static uint32_t n_each; /* of them that this run takes */
static struct reference references[EACH];

static void *thread_of_graphs(void *stream) {
    for (uint32_t g = 0; g < n_each; g++) compare_graph(g, stream, &references[g]);
    return NULL;
}

static void several_threads(void **state) {
    pthread_t thread[THREADS];
    struct kl_stream *own[THREADS];
    n_each = 1 + kl_test_share("cpu", EACH - 1);
    for (uint32_t g = 0; g < n_each; g++) make_reference(g, cpu_stream, &references[g]);
    for (int i = 0; i < THREADS; i++) {
        OK(kl_stream_new(&own[i], KL_CPU, 0, &err));
        assert_int_equal(pthread_create(&thread[i], NULL, thread_of_graphs, own[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        kl_stream_release(own[i]);
    }
    for (uint32_t g = 0; g < n_each; g++)
        for (int i = 0; i < references[g].n; i++) free(references[g].bytes[i]);
}

/* ---- failures ---- */

/* What depends on a failed operand fails with the operand's error, whichever of the two operations
 * made it; what does not has its value. */
static void failures_stay_where_they_belong(void **state) {
    for (int way = 0; way < 4; way++) {
        struct kl_stream *s = way % 2 ? gpu_stream : cpu_stream;
        const int n = 1 << 17;
        int32_t index[1] = {way / 2 ? n : 0};
        struct kl_array *a = count_up(1, &n), *i = array_of(KL_I32, 1, (int[]){1}, index), *v[9];
        kl_recompute_allow(true);
        const uint64_t before = kl_recompute_count();
        OK(kl_take(&v[0], a, i, s, &err)); /* (1,): an index that may be wrong */
        OK(kl_sort_axis(&v[1], a, 0, s, &err));
        OK(kl_subtract(&v[2], v[1], v[0], s, &err));
        OK(kl_negative(&v[3], v[2], s, &err));
        OK(kl_maximum(&v[4], v[2], v[3], s, &err)); /* the first kernel */
        OK(kl_sort_axis(&v[5], v[4], 0, s, &err));
        OK(kl_add(&v[6], v[5], v[2], s, &err)); /* the second one */
        OK(kl_add(&v[7], v[6], v[3], s, &err));
        OK(kl_square(&v[8], a, s, &err));
        release_all(v + 1, 6);
        struct kl_error *e = NULL;
        assert_int_equal(kl_eval(&v[7], 1, &e), way / 2 ? KL_EINDEX : KL_OK);
        assert_int_equal(kl_recompute_count() - before, 2);
        kl_error_release(e);
        void *squares = bytes_of(v[8], s);
        assert_int_equal(((int32_t *)squares)[30000], 30000 * 30000);
        free(squares);
        if (way / 2 == 0) {
            int32_t *sum = bytes_of(v[7], s);
            for (int k = 0; k < n; k++) assert_int_equal(sum[k], k);
            free(sum);
        }
        kl_array_release(v[0]);
        kl_array_release(v[7]);
        kl_array_release(v[8]);
        kl_array_release(a);
        kl_array_release(i);
    }
}

/* Every allocation of an evaluation fails in turn: it fails, or gives the value. Nothing leaks. */
static void without_memory(void **state) {
    struct perceptron p = {.s = cpu_stream, .dtype = KL_BF16};
    struct outcome want = run_step(&p, false, true);
    struct kl_array *w[2] = {waves(p.dtype, IN, HIDDEN, 0.5f), waves(p.dtype, HIDDEN, OUT, 0.3f)};
    p.x = waves(p.dtype, ROWS, IN, 1);
    bool fired = true;
    int failures = 0;
    for (int n = 0; fired; n++) {
        if (n > 1 && failures > 0 && !kl_test_takes("cpu", 4)) continue;
        struct kl_arrays outs = {0};
        struct kl_error *e = NULL;
        kl_until_quiet();
        kl_memory_clear_cache();
        const int64_t live = kl_test_n_live();
        OK(step(&p, w, 2, &outs, &err));
        kl_test_fail_alloc_at(n);
        int rc = kl_eval(outs.v, 3, &e);
        fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        assert_true(rc == KL_OK || (rc == KL_ENOMEM && fired));
        failures += rc != KL_OK;
        kl_error_release(e);
        for (int i = 0; i < 3 && !rc; i++) {
            void *got = bytes_of(outs.v[i], p.s);
            assert_memory_equal(got, want.bytes[i], want.sizes[i]);
            free(got);
        }
        kl_arrays_free(&outs);
        kl_until_quiet();
        kl_memory_clear_cache();
        if (n > 0) assert_int_equal(kl_test_n_live(), live); /* lists that are kept grow once */
    }
    print_message("%d allocations failed an evaluation\n", failures);
    assert_true(failures > 0);
    kl_array_release(p.x);
    release_all(w, 2);
    outcome_free(&want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_perceptron_with_gelu),
        cmocka_unit_test(a_function_for_one_value),
        cmocka_unit_test(others_have_the_value),
        cmocka_unit_test(no_groups),
        cmocka_unit_test(random_graphs_on_the_cpu),
        cmocka_unit_test(random_graphs_on_the_device),
        cmocka_unit_test(several_threads),
        cmocka_unit_test(failures_stay_where_they_belong),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
