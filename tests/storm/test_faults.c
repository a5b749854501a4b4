/* test_faults.c - the fault storm: random graphs on 8 threads over CPU streams, simulated device
 * streams and a reader stream, with injected faults in reads, allocations, indices, submissions and
 * by device loss. A plain C reference knows every value. Each count must be zero: lost errors (a
 * value is good although its operation or an operand failed, or has another error), false errors (a
 * value fails without cause), wrong values, hangs. KEEL_STORM_GRAPHS (2,000), KEEL_STORM_SEED (1),
 * KEEL_STORM_FAULTS (7: the sum of 1 allocations, 2 submissions, 4 device loss; other faults always
 * occur). */
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "base/value/failures.h"
#include "graph/graph_support.h"
#include "ops/ops.h"
#include "runtime/block_pool.h"

enum {
    N = 16,
    THREADS = 8,
    PER_ROUND = 5,
    NODES = 32,
    CPU_STREAMS = 3,
    GPU_STREAMS = 3,
    STREAMS = CPU_STREAMS + GPU_STREAMS
};

struct value { /* the reference's record of an array */
    struct kl_array *a;
    int v[N];
    bool must_fail;      /* the operation itself has an out-of-range index or a failing read */
    struct value *in[3]; /* the operands, to find the cause of a failure; NULL beyond the last */
};

static _Atomic(uint64_t) n_lost_errors, n_false_errors, n_wrong_values, n_checked, n_failed,
    n_build_retries;
static struct kl_stream *streams[STREAMS], *reader;
static uint64_t seed;

static struct { /* one value that threads pass to each other */
    pthread_mutex_t mu;
    struct value *value;
} shared = {.mu = PTHREAD_MUTEX_INITIALIZER};

static uint32_t draw(uint64_t *rng) {
    uint64_t z = *rng += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

/* ---- kernels of our own ---- */

static int k_index(void *ctx, struct kl_launch *l,
                   /* Makes an index array from data: its values modulo N. */
                   struct kl_error **err) {
    const int *x = l->in[0].data;
    int *y = l->out[0].data;
    int64_t stride = l->in[0].strides[0];
    for (int i = 0; i < N; i++)
        y[i] = (int)((uint32_t)x[i * stride] % N) + (i == (int)(intptr_t)ctx - 1 ? N : 0);
    return KL_OK;
}

static int k_table(void *ctx, struct kl_launch *l,
                   struct kl_error **err) { /* may not run on unchecked indices */
    const int *x = l->in[0].data;
    int *y = l->out[0].data;
    static const int table[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
    int64_t stride = l->in[0].strides[0];
    for (int i = 0; i < N; i++) y[i] = table[(uint32_t)x[i * stride] % N];
    return KL_OK;
}

static int k_read(void *ctx, struct kl_launch *l, struct kl_error **err) {
    int *y = l->out[0].data;
    if (!ctx) return kl_fail(err, KL_EREADER, "read: the reader failed");
    for (int i = 0; i < N; i++) y[i] = (int)(intptr_t)ctx + i;
    return KL_OK;
}

static int call(struct kl_array **out, const char *name,
                int (*fn)(void *, struct kl_launch *, struct kl_error **), void *ctx, bool guarded,
                struct kl_array *a, struct kl_stream *s, struct kl_error **err) {
    struct kl_call_params p = {.name = name, .fn = fn, .ctx = ctx, .guarded = guarded};
    int n = N;
    return kl_array_op1(out,
                        &(struct kl_operation){.op = KL_OP_CALL,
                                               .stream = s,
                                               .params = &p,
                                               .params_bytes = sizeof p,
                                               .in = &a,
                                               .n_in = a != NULL},
                        KL_I32, 1, &n, err);
}

/* ---- building ---- */

/* Builds again while an injected allocation failure makes the call fail. A failed call changes
 * nothing. */
#define BUILD(statement)                                                       \
    do {                                                                       \
        struct kl_error *build_error = NULL;                                   \
        int build_rc = (statement);                                            \
        if (!build_rc) break;                                                  \
        if (build_rc != KL_ENOMEM)                                             \
            fail_msg("%s", build_error ? build_error->message : "no message"); \
        kl_error_release(build_error);                                         \
        atomic_fetch_add(&n_build_retries, 1);                                 \
    } while (1)

static struct value *value_new(struct value *a, struct value *b, struct value *c) {
    struct value *v = calloc(1, sizeof *v);
    v->in[0] = a;
    v->in[1] = b;
    v->in[2] = c;
    return v;
}

static struct value *make_leaf(uint64_t *rng) {
    struct value *x = value_new(NULL, NULL, NULL);
    int n = N;
    if (draw(rng) % 4 == 0) { /* reads a tensor */
        int base = (int)(draw(rng) % 1000) + 1;
        x->must_fail = draw(rng) % 12 == 0;
        for (int i = 0; i < N; i++) x->v[i] = base + i;
        BUILD(call(&x->a, "read", k_read, (void *)(intptr_t)(x->must_fail ? 0 : base), false, NULL,
                   reader, &build_error));
        return x;
    }
    for (int i = 0; i < N; i++) x->v[i] = (int)(draw(rng) % 1000);
    BUILD(kl_array_new_data(&x->a, x->v, KL_I32, 1, &n, &build_error));
    return x;
}

static struct value *make_node(uint64_t *rng, struct value **known, int n_known) {
    struct value *a = known[draw(rng) % (uint32_t)n_known],
                 *b = known[draw(rng) % (uint32_t)n_known], *x;
    struct kl_stream *s = streams[draw(rng) % STREAMS];
    switch (draw(rng) % 8) {
    case 0:
    case 1:
        x = value_new(a, b, NULL);
        for (int i = 0; i < N; i++) x->v[i] = (int)((uint32_t)a->v[i] + (uint32_t)b->v[i]);
        BUILD(kl_add(&x->a, a->a, b->a, s, &build_error));
        return x;
    case 2: /* makes a reversed view */ {
        x = value_new(a, NULL, NULL);
        x->must_fail = false;
        for (int i = 0; i < N; i++) x->v[i] = a->v[N - 1 - i];
        int start = N - 1, stop = -N - 1, step = -1;
        BUILD(kl_slice(&x->a, a->a, &start, 1, &stop, 1, &step, 1, s, &build_error));
        return x;
    }
    case 3: /* gathers by an index array made from data, sometimes with a wrong index */ {
        int bad = draw(rng) % 10 == 0 ? 1 + (int)(draw(rng) % N) : 0;
        struct value *index = value_new(a, NULL, NULL);
        for (int i = 0; i < N; i++)
            index->v[i] = (int)((uint32_t)a->v[i] % N) + (i == bad - 1 ? N : 0);
        BUILD(
            call(&index->a, "index", k_index, (void *)(intptr_t)bad, false, a->a, s, &build_error));
        x = value_new(b, index, NULL);
        x->must_fail = bad != 0;
        for (int i = 0; i < N; i++) x->v[i] = b->v[index->v[i] % N];
        BUILD(kl_take_axis(&x->a, b->a, index->a, 0, streams[draw(rng) % STREAMS], &build_error));
        return x;
    }
    case 4: /* scatter_add by constant indices, sometimes with a wrong one */ {
        struct value *index = value_new(NULL, NULL, NULL);
        int n = N, shape[2] = {N, 1};
        x = value_new(a, b, index);
        memcpy(x->v, a->v, sizeof x->v);
        for (int i = 0; i < N; i++) {
            index->v[i] = (int)(draw(rng) % (2 * N)) - N;
            int at = index->v[i] < 0 ? index->v[i] + N : index->v[i];
            x->v[at] = (int)((uint32_t)x->v[at] + (uint32_t)b->v[i]);
        }
        if (draw(rng) % 10 == 0) {
            index->v[draw(rng) % N] = draw(rng) % 2 ? N : -N - 1;
            x->must_fail = true;
        }
        BUILD(kl_array_new_data(&index->a, index->v, KL_I32, 1, &n, &build_error));
        struct kl_array *updates = NULL;
        BUILD(kl_reshape(&updates, b->a, shape, 2, s, &build_error));
        BUILD(kl_scatter_add_single(&x->a, a->a, index->a, updates, 0, s, &build_error));
        kl_array_release(updates);
        return x;
    }
    case 5:
        x = value_new(a, NULL, NULL);
        for (int i = 0; i < N; i++) {
            static const int table[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
            x->v[i] = table[(uint32_t)a->v[i] % N];
        }
        BUILD(call(&x->a, "table", k_table, NULL, true, a->a, s, &build_error));
        return x;
    case 6:
        x = value_new(a, NULL, NULL);
        for (int i = 0; i < N; i++) x->v[i] = (int)(0u - (uint32_t)a->v[i]);
        BUILD(kl_negative(&x->a, a->a, s, &build_error));
        return x;
    default: return make_leaf(rng);
    }
}

/* ---- checking ---- */

static struct kl_error *error_of(struct kl_array *a) {
    return kl_fate_error(a->t.fate);
}

static void check(struct value *x) {
    void *data = NULL;
    struct kl_error *e = NULL;
    int rc;
    /* A failure before the commit leaves the array lazy, so the next call must work. */
    while ((rc = kl_array_host(x->a, &data, &e)) == KL_ENOMEM &&
           (!kl_array_settled(x->a) || !error_of(x->a))) {
        kl_error_release(e);
        e = NULL;
    }
    atomic_fetch_add(&n_checked, 1);
    struct kl_error *cause = NULL;
    for (int i = 0; i < 3 && !cause; i++)
        if (x->in[i]) cause = error_of(x->in[i]->a);
    /* The value is good, but no copy reaches the host: the device is lost, or memory is missing. */
    if (rc && !error_of(x->a)) {
        if (e->code != KL_EDEVICELOST) atomic_fetch_add(&n_false_errors, 1);
        kl_error_release(e);
        return;
    }
    if (rc) atomic_fetch_add(&n_failed, 1);
    if (cause) {
        if (e != cause) atomic_fetch_add(&n_lost_errors, 1);
    } else if (x->must_fail) {
        if (!rc) atomic_fetch_add(&n_lost_errors, 1);
    } else if (rc) {
        bool injected = e->code == KL_ENOMEM || e->code == KL_ESUBMIT || e->code == KL_EDEVICELOST;
        if (!injected) {
            atomic_fetch_add(&n_false_errors, 1);
            print_message("false error: %s\n", e->message);
        }
    }
    if (!rc && !x->must_fail && !cause) {
        const int *p = data;
        int64_t stride = x->a->t.strides[0];
        for (int i = 0; i < N; i++)
            if (p[i * stride] != x->v[i]) {
                atomic_fetch_add(&n_wrong_values, 1);
                print_message("wrong value at %d: %d, expected %d\n", i, p[i * stride], x->v[i]);
                break;
            }
    }
    kl_error_release(e);
}

static void one_graph(uint64_t *rng) {
    struct value *known[NODES];
    int n = 0;
    struct value foreign = {0};
    pthread_mutex_lock(&shared.mu);
    if (shared.value) { /* takes a value that another thread may still be computing */
        foreign = *shared.value;
        foreign.a = kl_array_retain(foreign.a);
        memset(foreign.in, 0, sizeof foreign.in);
    }
    pthread_mutex_unlock(&shared.mu);
    if (foreign.a) known[n++] = &foreign;
    int first = n;
    known[n++] = make_leaf(rng);
    while (n < NODES) {
        known[n] = make_node(rng, known, n);
        /* Gives a value to other threads before the other operations are built. */
        if (draw(rng) % 5 == 0) {
            struct kl_array *a = known[draw(rng) % (uint32_t)(n + 1)]->a;
            struct kl_error *e = NULL;
            if (kl_async_eval(&a, 1, &e) && e->code != KL_ENOMEM) fail_msg("%s", e->message);
            kl_error_release(e);
        }
        n++;
    }
    if (draw(rng) % 3 == 0) {
        struct value *give = known[first + (int)(draw(rng) % (uint32_t)(n - first))],
                     *copy = calloc(1, sizeof *copy), *old;
        *copy = *give;
        /* Only the thread that made the value knows its cause. For other threads it is as it turns
         * out. */
        memset(copy->in, 0, sizeof copy->in);
        copy->a = kl_array_retain(give->a);
        pthread_mutex_lock(&shared.mu);
        old = shared.value;
        shared.value = copy;
        pthread_mutex_unlock(&shared.mu);
        if (old) kl_array_release(old->a);
        free(old);
    }
    /* Reads the values in random order. The operands of a value are read before it is judged, so
     * that its causes are settled. */
    for (int i = n - 1; i >= first; i--) {
        int j = first + (int)(draw(rng) % (uint32_t)(i - first + 1));
        struct kl_array *a = known[j]->a;
        (void)kl_array_settled(a);
        if (draw(rng) % 2) {
            struct kl_error *e = NULL;
            (void)kl_eval(&a, 1, &e);
            kl_error_release(e);
        }
    }
    for (int i = first; i < n; i++) {
        for (int k = 0; k < 3; k++) {
            struct value *in = known[i]->in[k];
            if (in && !kl_array_settled(in->a)) { /* an inner node, such as an index array */
                struct kl_error *e = NULL;
                while (kl_eval(&in->a, 1, &e) && !kl_array_settled(in->a)) {
                    kl_error_release(e);
                    e = NULL;
                }
                kl_error_release(e);
            }
        }
        check(known[i]);
    }
    for (int i = first; i < n; i++)
        for (int k = 0; k < 3; k++) { /* inner nodes are not in the list of values */
            struct value *in = known[i]->in[k];
            bool listed = in == NULL;
            for (int j = 0; j < n && !listed; j++) listed = known[j] == in;
            if (!listed) {
                if (in->in[0]) check(in);
                kl_array_release(in->a);
                free(in);
                known[i]->in[k] = NULL;
            }
        }
    for (int i = first; i < n; i++) {
        kl_array_release(known[i]->a);
        free(known[i]);
    }
    kl_array_release(foreign.a);
}

static void *storm_thread(void *arg) {
    uint64_t rng = seed * 1000003 + (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < PER_ROUND; i++) one_graph(&rng);
    return NULL;
}

static void hang(int sig) {
    static const char text[] = "storm: hangs 1\n";
    (void)!write(2, text, sizeof text - 1);
    abort();
}

static uint64_t env_number(const char *name, uint64_t otherwise) {
    const char *v = getenv(name);
    return v && *v ? strtoull(v, NULL, 10) : otherwise;
}

static void fault_storm(void **state) {
    uint64_t graphs = env_number("KEEL_STORM_GRAPHS", kl_test_share("storm", 2000)), done = 0;
    uint64_t first_seed = env_number("KEEL_STORM_SEED", 1),
             faults = env_number("KEEL_STORM_FAULTS", 7);
    signal(SIGALRM, hang);
    t_streams("cccggg", streams);
    assert_int_equal(kl_stream_new_reader(&reader, NULL), 0);
    /* Makes the pool's threads before allocations fail. */
    struct kl_array *warm = t_const(streams[0], 1);
    assert_int_equal(t_value(warm), 1);
    kl_array_release(warm);
    size_t active = kl_memory_active();
    for (uint64_t round = 0; done < graphs; round++, done += THREADS * PER_ROUND) {
        seed = first_seed + round;
        alarm(300); /* counts as a hang; no result depends on this time */
        kl_sim_seed(0, seed);
        kl_test_fail_alloc_random(seed, faults & 1 && round % 3 == 0 ? 400 : 0);
        kl_sim_fail_submit_random(0, faults & 2 && round % 4 == 1 ? 40 : 0);
        kl_sim_lose_random(0, faults & 4 && round % 5 == 2 ? 300 : 0);
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, storm_thread, (void *)i), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        kl_test_fail_alloc_random(0, 0);
        kl_sim_fail_submit_random(0, 0);
        kl_sim_lose_random(0, 0);
        if (shared.value) kl_array_release(shared.value->a);
        free(shared.value);
        shared.value = NULL;
        for (int i = 0; i < STREAMS; i++) (void)kl_stream_synchronize(streams[i], NULL);
        (void)kl_stream_synchronize(reader, NULL);
        if (round % 5 == 2) kl_sim_revive(0);
    }
    alarm(0);
    printf("storm: %" PRIu64 " graphs, seeds from %" PRIu64 ": %" PRIu64 " values checked, %" PRIu64
           " of them failed, %" PRIu64 " builds retried\nstorm: lost errors %" PRIu64
           ", false errors %" PRIu64 ", wrong values %" PRIu64 ", hangs 0\n",
           done, first_seed, atomic_load(&n_checked), atomic_load(&n_failed),
           atomic_load(&n_build_retries), atomic_load(&n_lost_errors), atomic_load(&n_false_errors),
           atomic_load(&n_wrong_values));
    assert_int_equal(atomic_load(&n_lost_errors), 0);
    assert_int_equal(atomic_load(&n_false_errors), 0);
    assert_int_equal(atomic_load(&n_wrong_values), 0);
    assert_true(atomic_load(&n_failed) > 0);
    assert_int_equal(kl_memory_active(), active); /* nothing leaks, whatever failed */
    t_streams_free(STREAMS, streams);
    kl_stream_release(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fault_storm)};
    int rc = cmocka_run_group_tests(tests, t_use_sim, NULL);
    fflush(NULL);
    /* Leaves out the report of errors that nobody read, since the storm does not read all. */
    _exit(rc);
}
