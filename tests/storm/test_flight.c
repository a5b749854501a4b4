/* test_flight.c - buffers in flight: threads run text generations on several CPU and device
 * streams, and compare every value with the same computation on one CPU stream. A generation is a
 * key-value cache that grows by slice updates, attention over it, gathers and scatters by tokens,
 * element-wise chains, and custom kernels. Each operation goes to a random stream, arrays lose
 * their last owner before they run, and some generations are dropped half-way. A block reused too
 * early gives a wrong value. KEEL_TEST_GPU names the device. KEEL_STORM_THREADS (32), _ROUNDS per
 * thread (24) or _SECONDS, _SEED (1). */
#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "backend/opencl/opencl_internal.h"
#include "base/op/validate.h"
#include "graph/graph_support.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"

enum { STEPS = 6, D = 8, VOCAB = 16, N_CPU = 3, N_GPU = 4, N_STREAMS = N_CPU + N_GPU };

static struct kl_stream *streams[N_STREAMS];
static bool simulated; /* only the simulated device runs kernels that are C functions */
static uint64_t seed, rounds;
static double deadline; /* in seconds; 0: the number of rounds counts */
static _Atomic(uint64_t) n_generations, n_dropped, n_compared, n_wrong, n_errors;

static uint32_t draw(uint64_t *rng) {
    uint64_t z = *rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- one generation ---- */

struct generation {
    /* The state from which streams are drawn; NULL: everything on the first CPU stream. */
    uint64_t *choice;
    struct kl_array *table, *to_key, *to_value, *half, *one; /* constants of the generation */
    struct kl_array *token, *keys, *values, *counts, *sum;   /* arrays that the steps replace */
};
enum { N_FIELDS = 10, N_RESULTS = 5 };
static struct kl_array **fields(struct generation *g) {
    return &g->table;
}
static struct kl_array **results(struct generation *g) {
    return &g->token;
}
_Static_assert(offsetof(struct generation, sum) - offsetof(struct generation, table) ==
                   (N_FIELDS - 1) * sizeof(struct kl_array *),
               "fields in a row");

static struct kl_stream *pick(const struct generation *g) {
    return g->choice ? streams[draw(g->choice) % N_STREAMS] : streams[0];
}

/* An assertion works on the main thread only. So a thread counts and prints an error, and gives its
 * generation up. */
static bool failed(int rc, struct kl_error *e, const char *what) {
    if (!rc) return false;
    atomic_fetch_add(&n_errors, 1);
    printf("flight: %s: %s\n", what, e ? e->message : "no message");
    kl_error_release(e);
    return true;
}
#define TRY(call)                                   \
    do {                                            \
        struct kl_error *err = NULL;                \
        if (failed(call, err, #call)) return false; \
    } while (0)

static bool floats(struct kl_array **out, uint64_t *rng, int rows, int cols) {
    float v[VOCAB * D];
    int dims[2] = {rows, cols};
    for (int i = 0; i < rows * cols; i++) v[i] = (float)(draw(rng) % 2001) / 1000 - 1;
    TRY(kl_array_new_data(out, v, KL_F32, 2, dims, &err));
    return true;
}

static bool start(struct generation *g, uint64_t *data) {
    int vocab = VOCAB, cache[2] = {STEPS, D}, row[2] = {1, D}, single[2] = {1, 1}, n = 1,
        first = (int)(draw(data) % VOCAB), one = 1;
    float half = 0.5f;
    if (!floats(&g->table, data, VOCAB, D) || !floats(&g->to_key, data, D, D) ||
        !floats(&g->to_value, data, D, D))
        return false;
    TRY(kl_array_new_data(&g->half, &half, KL_F32, 0, NULL, &err));
    TRY(kl_array_new_data(&g->one, &one, KL_I32, 2, single, &err));
    TRY(kl_array_new_data(&g->token, &first, KL_I32, 1, &n, &err));
    TRY(kl_zeros(&g->keys, cache, 2, KL_F32, pick(g), &err));
    TRY(kl_zeros(&g->values, cache, 2, KL_F32, pick(g), &err));
    TRY(kl_zeros(&g->counts, &vocab, 1, KL_I32, pick(g), &err));
    TRY(kl_zeros(&g->sum, row, 2, KL_F32, pick(g), &err));
    return true;
}

/* Replaces *a by b. The old array may lose its last owner while its value is still to be
 * computed. */
static void become(struct kl_array **a, struct kl_array *b) {
    kl_array_release(*a);
    *a = b;
}
/* Replaces *a by the result of the operation on *a and b. */
static bool join(struct generation *g, kl_binary_fn *fn, struct kl_array **a, struct kl_array *b) {
    struct kl_array *r;
    TRY(fn(&r, *a, b, pick(g), &err));
    become(a, r);
    return true;
}

static bool append(struct generation *g, struct kl_array **cache, struct kl_array *row, int at,
                   bool dynamic) {
    struct kl_array *r, *where = NULL;
    if (dynamic) {
        int n = 1, axis = 0;
        TRY(kl_array_new_data(&where, &at, KL_I32, 1, &n, &err));
        struct kl_error *e = NULL;
        int rc = kl_slice_update_dynamic(&r, *cache, row, where, &axis, 1, pick(g), &e);
        kl_array_release(where);
        if (failed(rc, e, "slice_update_dynamic")) return false;
    } else {
        int from[2] = {at, 0}, to[2] = {at + 1, D}, step[2] = {1, 1};
        TRY(kl_slice_update(&r, *cache, row, from, 2, to, 2, step, 2, pick(g), &err));
    }
    become(cache, r);
    return true;
}

/* On a device this kernel also runs on input that is not valid yet, so every int becomes a
 * token. */
static int k_next(void *ctx, struct kl_launch *l, struct kl_error **err) {
    *(int *)l->out[0].data = (int)((*(const uint32_t *)l->in[0].data * 5 + 3) % VOCAB);
    return KL_OK;
}

static bool next_token(struct generation *g) {
    struct kl_call_params p = {.name = "next_token", .fn = k_next};
    struct kl_stream *s = pick(g);
    struct kl_array *r;
    int n = 1;
    if (!simulated && g->choice) s = streams[draw(g->choice) % N_CPU];
    TRY(kl_array_op1(&r,
                     &(struct kl_operation){.op = KL_OP_CALL,
                                            .stream = s,
                                            .params = &p,
                                            .params_bytes = sizeof p,
                                            .in = &g->token,
                                            .n_in = 1},
                     KL_I32, 1, &n, &err));
    become(&g->token, r);
    return true;
}

struct step { /* arrays that one step makes */
    struct kl_array *x, *key, *value, *turned, *p;
};
static bool attend(struct generation *g, struct step *t, int at, bool dynamic) {
    TRY(kl_take_axis(&t->x, g->table, g->token, 0, pick(g), &err));
    TRY(kl_matmul(&t->key, t->x, g->to_key, pick(g), &err));
    TRY(kl_matmul(&t->value, t->x, g->to_value, pick(g), &err));
    if (!join(g, kl_add, &t->key, t->x) || !join(g, kl_multiply, &t->key, g->half) ||
        !join(g, kl_maximum, &t->key, g->half) || !append(g, &g->keys, t->key, at, dynamic) ||
        !append(g, &g->values, t->value, at, !dynamic))
        return false;
    TRY(kl_transpose(&t->turned, g->keys, pick(g), &err));
    TRY(kl_matmul(&t->p, t->x, t->turned, pick(g), &err));
    struct kl_array *soft;
    TRY(kl_softmax_axis(&soft, t->p, 1, false, pick(g), &err));
    become(&t->p, soft);
    return join(g, kl_matmul, &t->p, g->values) && join(g, kl_add, &g->sum, t->p);
}

static bool step(struct generation *g, int at, bool dynamic) {
    struct step t = {0};
    bool ok = attend(g, &t, at, dynamic);
    struct kl_array *made[] = {t.x, t.key, t.value, t.turned, t.p};
    for (int i = 0; i < 5; i++) kl_array_release(made[i]);
    if (!ok) return false;
    struct kl_array *counts;
    TRY(kl_scatter_add_single(&counts, g->counts, g->token, g->one, 0, pick(g), &err));
    become(&g->counts, counts);
    return next_token(g);
}

/* Gives the same values for the same data, whatever streams are chosen. */
static bool generate(struct generation *g, uint64_t data) {
    if (!start(g, &data)) return false;
    for (int i = 0; i < STEPS; i++) {
        if (!step(g, i, draw(&data) % 2)) return false;
        if (g->choice && draw(g->choice) % 4 == 0) {
            struct kl_array *some[2] = {g->sum, g->counts};
            TRY(kl_async_eval(some, 1 + draw(g->choice) % 2, &err));
        }
    }
    return true;
}

static void drop(struct generation *g) {
    for (int i = 0; i < N_FIELDS; i++) kl_array_release(fields(g)[i]);
}

/* ---- threads ---- */

static bool compare(struct kl_array *want, struct kl_array *got, const char *name) {
    struct kl_array *w, *c;
    void *p, *q;
    TRY(kl_contiguous(&w, want, false, streams[0], &err));
    TRY(kl_contiguous(&c, got, false, streams[0], &err));
    TRY(kl_array_host(c, &q, &err));
    TRY(kl_array_host(w, &p, &err));
    for (int64_t i = 0; i < w->t.size; i++) {
        bool same = ((const int *)p)[i] == ((const int *)q)[i];
        float a = ((const float *)p)[i], b = ((const float *)q)[i];
        if (w->t.dtype == KL_F32) same = fabsf(a - b) <= 1e-4f * (1 + fabsf(a));
        if (same) continue;
        if (atomic_fetch_add(&n_wrong, 1) < 10)
            printf("flight: %s: element %d is %#x, on the CPU %#x\n", name, (int)i,
                   ((const unsigned *)q)[i], ((const unsigned *)p)[i]);
        break;
    }
    atomic_fetch_add(&n_compared, 1);
    kl_array_release(w);
    kl_array_release(c);
    return true;
}

static void one_round(uint64_t data, uint64_t *choice) {
    static const char *const names[] = {"token", "keys", "values", "counts", "sum"};
    struct generation here = {.choice = choice}, there = {0};
    bool ok = generate(&here, data);
    atomic_fetch_add(&n_generations, 1);
    if (ok && draw(choice) % 8 == 0) {
        atomic_fetch_add(&n_dropped, 1);
    } else if (ok && generate(&there, data)) {
        uint32_t first = draw(choice);
        for (uint32_t i = 0; i < N_RESULTS && ok; i++) {
            uint32_t k = (first + i) % N_RESULTS;
            ok = compare(results(&there)[k], results(&here)[k], names[k]);
        }
    }
    drop(&here);
    drop(&there);
}

static void *thread(void *arg) {
    uint64_t choice = seed * 1000003 + (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; deadline > 0 ? now() < deadline : i < rounds; i++)
        one_round(choice + i, &choice);
    return NULL;
}

static uint64_t env_number(const char *name, uint64_t otherwise) {
    const char *v = getenv(name);
    return v && *v ? strtoull(v, NULL, 10) : otherwise;
}

static void flight_storm(void **state) {
    enum { MOST = 256 };
    pthread_t threads[MOST];
    uint64_t n = env_number("KEEL_STORM_THREADS", 32),
             seconds = env_number("KEEL_STORM_SECONDS", 0);
    assert_true(n >= 1 && n <= MOST);
    seed = env_number("KEEL_STORM_SEED", 1);
    rounds = env_number("KEEL_STORM_ROUNDS", kl_test_share("storm", 24));
    deadline = seconds ? now() + (double)seconds : 0;
    t_streams("cccgggg", streams);
    size_t active = kl_memory_active();
    if (simulated) kl_sim_seed(0, seed);
    for (uintptr_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread, (void *)i), 0);
    for (uint64_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N_STREAMS; i++)
        assert_int_equal(kl_stream_synchronize(streams[i], NULL), 0);
    printf("flight: seed %" PRIu64 ", %" PRIu64 " threads%s: %" PRIu64 " generations, %" PRIu64
           " dropped, %" PRIu64 " values compared, %" PRIu64 " wrong, %" PRIu64 " errors\n",
           seed, n, kl_validating() ? ", validating" : "", atomic_load(&n_generations),
           atomic_load(&n_dropped), atomic_load(&n_compared), atomic_load(&n_wrong),
           atomic_load(&n_errors));
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_int_equal(atomic_load(&n_errors), 0);
    assert_true(atomic_load(&n_compared) > 0);
    assert_int_equal(kl_memory_active(), active); /* all arrays are released */
    t_streams_free(N_STREAMS, streams);
}

static int set_up(void **state) {
    const char *device = getenv("KEEL_TEST_GPU");
    struct kl_backend *b;
    if (!device || !*device) device = "sim";
    simulated = strcmp(device, "sim") == 0;
    if (setenv("KEEL_GPU", device, 1)) return -1;
    if (strcmp(device, "opencl") == 0 && kl_device_backend(KL_GPU, 0, &b, NULL) == 0)
        kl_opencl_of(kl_opencl_driver(0))->share_from = 1; /* small blocks are shared as well */
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(flight_storm)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
