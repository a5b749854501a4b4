/* test_eval.c - evaluation in two steps, commit and run: evaluations with nothing to do, one graph
 * evaluated by many threads, failures before the commit, and the order in which streams get
 * evaluations. */
#include "barrier.h"
#include "graph/graph_support.h"

#include "base/value/failures.h"
#include "graph/node.h"
#include "runtime/block_pool.h"

static void eval_one(struct kl_array *a) {
    assert_int_equal(kl_eval(&a, 1, NULL), 0);
}

static void async_one(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
}

/* A chain of n increments of a new constant. Only its last array is kept. */
static struct kl_array *chain(struct kl_stream *s, int n) {
    struct kl_array *x = t_const(s, 0);
    for (int i = 0; i < n; i++) {
        struct kl_array *y = t_inc(s, x);
        kl_array_release(x);
        x = y;
    }
    return x;
}

/* Waits until each thread of the pool has run an item, so that the memory for its start is
 * freed. */
static void until_the_pool_runs(void) {
    enum { MAX_THREADS = 512 };
    static struct kl_stream *s[MAX_THREADS];
    static struct kl_array *x[MAX_THREADS];
    struct gate g;
    gate_init(&g);
    assert_int_equal(kl_pool_start(NULL), 0);
    int n = kl_pool_n_threads();
    assert_in_range(n, 1, MAX_THREADS);
    for (int i = 0; i < n; i++) {
        t_streams("c", &s[i]);
        x[i] = t_gated(s[i], NULL, &g, false);
        async_one(x[i]);
    }
    gate_wait_arrived(&g, n);
    gate_open(&g);
    for (int i = 0; i < n; i++) {
        assert_int_equal(t_value(x[i]), 0);
        assert_int_equal(kl_stream_synchronize(s[i], NULL), 0);
        kl_array_release(x[i]);
    }
    t_streams_free(n, s);
}

/* Evaluates y while the next allocation fails. Neither y nor x may change. */
static void fail_before_the_commit(struct kl_array *x, struct kl_array *y, bool async) {
    struct kl_error *e = NULL;
    kl_test_fail_alloc_at(0);
    int rc = async ? kl_async_eval(&y, 1, &e) : kl_eval(&y, 1, &e);
    assert_true(kl_test_alloc_failed());
    kl_test_fail_alloc_at(-1);
    assert_int_equal(rc, KL_ENOMEM);
    assert_int_equal(e->code, KL_ENOMEM);
    kl_error_release(e);
    assert_false(kl_array_settled(x));
    assert_false(kl_array_settled(y));
    assert_non_null(y->node);
    assert_false(y->node->claimed);
    assert_false(x->node->claimed);
}

/* The first two tests of the process, in which neither the threads nor the lists for walking
 * through the graph exist yet. */
static void threads_that_cannot_be_had(void **state) {
    struct kl_stream *s;
    t_streams("c", &s);
    for (int async = 0; async < 2; async++) {
        struct kl_array *x = t_const(s, 1), *y = t_inc(s, x);
        /* Fails first: the pool's first thread; then the number of this thread. */
        fail_before_the_commit(x, y, async);
        if (!async) assert_int_equal(kl_pool_start(NULL), 0);
        kl_array_release(x);
        kl_array_release(y);
    }
    until_the_pool_runs();
    kl_stream_release(s);
}

static void a_failure_before_the_commit_leaves_everything_lazy(void **state) {
    struct kl_stream *s;
    t_streams("c", &s);
    const int rounds = kl_test_samples("cpu") ? 3 : 5; /* the last graph takes half of all time */
    for (int async = 0; async < 2; async++) {
        int64_t live = 0;
        for (int round = 0; round < rounds; round++) {
            int n = (512 << (rounds * async + round)) + 3; /* a longer graph than any before */
            struct kl_array *x = chain(s, n), *y = t_inc(s, x);
            /* The list for walking down fails first, then the list of the order. */
            for (int i = 0; i < 2; i++) {
                int64_t before = kl_test_n_live();
                fail_before_the_commit(x, y, async);
                /* The memory that was allocated before the failure is kept for the next
                 * evaluation. */
                assert_in_range(kl_test_n_live() - before, 0, 1);
            }
            if (async) async_one(y);
            assert_int_equal(t_value(y), n + 1);
            assert_int_equal(t_value(x), n);
            kl_array_release(x);
            kl_array_release(y);
            assert_int_equal(kl_stream_synchronize(s, NULL), 0);
            /* And nothing else is allocated. */
            if (round > 0) assert_int_equal(kl_test_n_live(), live);
            live = kl_test_n_live();
        }
    }
    kl_stream_release(s);
}

static void nothing_to_do_costs_nothing(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_const(a, 1), *y = t_inc(b, x), *bad = t_fail(b, x),
                        *both[2] = {x, y};
        void *data = NULL, *again = NULL;
        eval_one(y);
        /* Device values get their copy on the host here. */
        assert_int_equal(kl_array_host(x, &data, NULL), 0);
        t_expect_error(bad, KL_EKERNEL);
        /* The thread that settled each array has released its inputs. */
        for (int i = 0; i < 2; i++) {
            assert_int_equal(kl_stream_synchronize(a, NULL), 0);
            assert_int_equal(kl_stream_synchronize(b, NULL), 0);
        }
        kl_test_fail_alloc_at(-1); /* allocations are counted from here */
        uint64_t ticket_a = atomic_load(&a->last_ticket), ticket_b = atomic_load(&b->last_ticket);
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(kl_eval(both, 2, NULL), 0);
            assert_int_equal(kl_async_eval(both, 2, NULL), 0);
            assert_int_equal(kl_async_eval(&bad, 1, NULL), 0);
            assert_int_equal(kl_eval(&bad, 1, NULL), KL_EKERNEL);
            assert_int_equal(kl_array_host(x, &again, NULL), 0);
            assert_ptr_equal(again, data);
        }
        assert_int_equal(kl_eval(NULL, 0, NULL), 0);
        assert_int_equal(kl_async_eval(NULL, 0, NULL), 0);
        assert_int_equal(kl_test_n_alloc_attempts(), 0);
        assert_int_equal(atomic_load(&a->last_ticket), ticket_a);
        assert_int_equal(atomic_load(&b->last_ticket), ticket_b);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(bad);
    }
}

/* ---- many threads, one graph ---- */

enum { THREADS = 8, NODES = 120, GRAPHS = 20 };

static _Atomic(int) runs[NODES];

static int k_counted(void *ctx, struct kl_launch *l, struct kl_error **err) {
    atomic_fetch_add(&runs[(intptr_t)ctx], 1);
    *(int *)l->out[0].data =
        *(const int *)l->in[0].data + (l->n_in > 1 ? *(const int *)l->in[1].data % 2 : 0) + 1;
    return KL_OK;
}

struct shared {
    struct t_barrier start;
    struct kl_array *nodes[NODES];
    int expected[NODES];
};
struct evaluator {
    struct shared *g;
    int first; /* first: the node that this thread asks for first */
    bool good;
};

static void *evaluate(void *arg) {
    struct evaluator *e = arg;
    e->good = true;
    t_barrier_wait(&e->g->start);
    for (int i = 0; i < NODES; i += 7) {
        int k = (e->first + i) % NODES;
        if (i % 2) async_one(e->g->nodes[k]);
        e->good = e->good && t_value(e->g->nodes[k]) == e->g->expected[k];
    }
    return NULL;
}

static void many_threads_evaluate_one_graph(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int round = 0; round < GRAPHS; round++) {
            struct shared g;
            struct kl_array *zero = t_const(a, 0);
            for (int i = 0; i < NODES; i++) {
                struct kl_call_params c = {
                    .name = "counted", .fn = k_counted, .ctx = (void *)(intptr_t)i};
                struct kl_array *in[2] = {i ? g.nodes[i - 1] : zero, i > 3 ? g.nodes[i - 3] : NULL};
                g.nodes[i] = t_call(i % 5 < 3 ? a : b, &c, in, 1 + (i > 3), KL_I32, 0, NULL);
                g.expected[i] =
                    (i ? g.expected[i - 1] : 0) + (i > 3 ? g.expected[i - 3] % 2 : 0) + 1;
                atomic_store(&runs[i], 0);
            }
            pthread_t threads[THREADS];
            struct evaluator e[THREADS];
            t_barrier_init(&g.start, THREADS);
            for (int i = 0; i < THREADS; i++) {
                e[i] = (struct evaluator){&g, i * 17 % NODES, false};
                assert_int_equal(pthread_create(&threads[i], NULL, evaluate, &e[i]), 0);
            }
            for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                assert_true(e[i].good);
            }
            t_barrier_destroy(&g.start);
            for (int i = 0; i < NODES; i++) {
                assert_int_equal(t_value(g.nodes[i]), g.expected[i]);
                assert_int_equal(atomic_load(&runs[i]), 1);
                kl_array_release(g.nodes[i]);
            }
            kl_array_release(zero);
        }
    }
}

/* ---- order ---- */

static struct {
    pthread_mutex_t mu;
    int n, seen[1024];
} trail = {.mu = PTHREAD_MUTEX_INITIALIZER};

static int k_trail(void *ctx, struct kl_launch *l, struct kl_error **err) {
    pthread_mutex_lock(&trail.mu);
    trail.seen[trail.n++] = (int)(intptr_t)ctx;
    pthread_mutex_unlock(&trail.mu);
    *(int *)l->out[0].data = 1;
    return KL_OK;
}

static struct kl_array *step(struct kl_stream *s, int number, struct kl_array *after) {
    struct kl_call_params c = {.name = "step", .fn = k_trail, .ctx = (void *)(intptr_t)number};
    return t_call(s, &c, &after, after != NULL, KL_I32, 0, NULL);
}

static void expect_trail(int n) {
    assert_int_equal(trail.n, n);
    for (int i = 0; i < n; i++) assert_int_equal(trail.seen[i], i);
    trail.n = 0;
}

static void one_stream_runs_in_the_order_of_evaluation(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x[200];
        /* Built in reverse order, evaluated in the order of building. */
        for (int i = 199; i >= 0; i--) x[i] = step(a, i, NULL);
        for (int i = 0; i < 200; i++) async_one(x[i]);
        for (int i = 199; i >= 0; i--) assert_int_equal(t_value(x[i]), 1);
        expect_trail(200);
        for (int i = 1; i < 200; i++) assert_true(x[i]->t.fate->ticket > x[i - 1]->t.fate->ticket);
        for (int i = 0; i < 200; i++) kl_array_release(x[i]);
    }
}

static void across_streams_data_decides(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x[100];
        for (int i = 0; i < 100; i++) x[i] = step(i % 3 ? a : b, i, i ? x[i - 1] : NULL);
        async_one(x[40]);
        async_one(x[99]);
        assert_int_equal(t_value(x[99]), 1);
        expect_trail(100);
        for (int i = 0; i < 100; i++) kl_array_release(x[i]);
    }
}

static void only_what_is_asked_for_is_run(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = step(a, 0, NULL), *y = step(b, 1, x), *z = step(a, 2, y),
                        *twice[3] = {y, y, x};
        assert_int_equal(kl_eval(twice, 3, NULL), 0); /* an array may be given twice */
        expect_trail(2);
        assert_true(kl_array_settled(x));
        assert_false(kl_array_settled(z));
        assert_non_null(z->node);
        kl_array_release(x);
        kl_array_release(y);
        kl_array_release(z); /* never evaluated */
    }
}

static void async_eval_succeeds_for_work_that_will_fail(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_fail(a, NULL), *y = t_inc(b, x), *z = t_const(b, 3),
                        *all[3] = {x, y, z};
        struct kl_error *e = NULL;
        assert_int_equal(kl_async_eval(all, 3, &e), 0);
        /* The result is the same, queued or settled. */
        assert_int_equal(kl_async_eval(all, 3, &e), 0);
        t_expect_error(y, KL_EKERNEL);
        /* This array has failed, and the failure was reported. */
        assert_int_equal(kl_async_eval(all, 3, &e), 0);
        assert_null(e);
        t_expect_error(x, KL_EKERNEL);
        assert_int_equal(t_value(z), 3);
        for (int i = 0; i < 3; i++) kl_array_release(all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_cannot_be_had),
        cmocka_unit_test(a_failure_before_the_commit_leaves_everything_lazy),
        cmocka_unit_test(nothing_to_do_costs_nothing),
        cmocka_unit_test(many_threads_evaluate_one_graph),
        cmocka_unit_test(one_stream_runs_in_the_order_of_evaluation),
        cmocka_unit_test(across_streams_data_decides),
        cmocka_unit_test(only_what_is_asked_for_is_run),
        cmocka_unit_test(async_eval_succeeds_for_work_that_will_fail),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
