/* test_abandoned.c - queued work whose results nobody can read any more does not run; what somebody
 * can read, or see in another way, does. A gate holds the streams while handles are dropped. */
#include "graph/graph_support.h"

#include "base/value/failures.h"
#include "ops/ops.h"

static uint64_t before;

static uint64_t cancelled(void) {
    kl_until_quiet();
    return kl_test_n_cancelled() - before;
}

static struct kl_array *plus(struct kl_stream *s, struct kl_array *x, struct kl_array *y) {
    struct kl_array *sum = NULL;
    assert_int_equal(kl_add(&sum, x, y, s, NULL), 0);
    return sum;
}

static struct kl_array *one(void) {
    struct kl_array *a = NULL;
    assert_int_equal(kl_array_new_scalar(&a, 1, KL_I32, NULL), 0);
    return a;
}

static void start(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
}

/* n steps of + 1 behind x (taken), by turns on a and b; step `at` is given in *middle. */
static struct kl_array *chain(struct kl_stream *a, struct kl_stream *b, struct kl_array *x, int n,
                              int at, struct kl_array **middle) {
    struct kl_array *step = one();
    for (int i = 1; i <= n; i++) {
        struct kl_array *next = plus(i % 2 ? b : a, x, step);
        kl_array_release(x);
        x = next;
        if (i == at) *middle = kl_array_retain(x);
    }
    kl_array_release(step);
    return x;
}

/* Streams, and a gate at which the kernel `held` stands on the first of them. */
struct scene {
    struct kl_stream *s[2];
    struct gate g;
    struct kl_array *held;
};

static void set(struct scene *c, const char *kinds) {
    t_streams(kinds, c->s);
    gate_init(&c->g);
    c->held = t_gated(c->s[0], NULL, &c->g, false);
    start(c->held);
    gate_wait_arrived(&c->g, 1);
    before = kl_test_n_cancelled();
}

static void strike(struct scene *c) {
    kl_array_release(c->held);
    t_streams_free(2, c->s);
}

#ifdef __SANITIZE_THREAD__ /* twenty times slower */
enum { LONG = 100000 };
#else
enum { LONG = 1000000 };
#endif

static void a_long_chain_dropped_whole(void **state) {
    struct scene c;
    set(&c, "cc");
    struct kl_array *end = chain(c.s[0], c.s[1], plus(c.s[0], c.held, c.held), LONG - 1, 0, NULL);
    start(end);
    kl_array_release(end);
    gate_open(&c.g);
    assert_int_equal(cancelled(), LONG);
    assert_int_equal(kl_stream_synchronize(c.s[0], NULL), 0);
    assert_int_equal(kl_stream_synchronize(c.s[1], NULL), 0);
    assert_int_equal(kl_failures_n_unseen(), 0);
    assert_int_equal(t_value(c.held), 0);
    strike(&c);
}

static void drop_half(const char *kinds, int n) {
    struct scene c;
    struct kl_array *middle = NULL;
    set(&c, kinds);
    struct kl_array *end = chain(c.s[0], c.s[1], kl_array_retain(c.held), n, n / 2, &middle);
    start(end);
    kl_array_release(end);
    gate_open(&c.g);
    assert_int_equal(t_value(middle), n / 2);
    assert_int_equal(cancelled(), n / 2);
    kl_array_release(middle);
    strike(&c);
}

static void a_long_chain_dropped_half(void **state) {
    drop_half("cc", LONG);
}

/* Each step waits for one of the other stream, so none is handed to the device before its turn. */
static void work_of_a_device_that_it_has_not_got(void **state) {
    drop_half("cg", 2000);
    drop_half("gc", 2000);
}

/* A stream whose first task waits for another one: that task has not started either. */
static void a_task_that_waits_is_abandoned(void **state) {
    struct scene c;
    set(&c, "cc");
    struct kl_array *x = plus(c.s[1], c.held, c.held), *other = t_const(c.s[1], 7);
    struct kl_array *both[2] = {x, other};
    assert_int_equal(kl_async_eval(both, 2, NULL), 0);
    kl_array_release(x);
    gate_open(&c.g);
    assert_int_equal(t_value(other), 7);
    assert_int_equal(cancelled(), 1);
    kl_array_release(other);
    strike(&c);
}

static void every_reader_must_be_gone(void **state) {
    struct scene c;
    set(&c, "cc");
    struct kl_array *x = plus(c.s[0], c.held, c.held), *y = plus(c.s[1], x, x),
                    *z = plus(c.s[0], x, y), *w = plus(c.s[1], x, c.held);
    struct kl_array *all[] = {x, y, z, w};
    assert_int_equal(kl_async_eval(all, 4, NULL), 0);
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(z); /* and with it y, but x is read by w */
    gate_open(&c.g);
    assert_int_equal(t_value(w), 0);
    assert_int_equal(cancelled(), 2);
    kl_array_release(w);
    strike(&c);
}

static struct kl_array *reshaped(struct kl_array *x) {
    struct kl_array *v = NULL;
    assert_int_equal(
        kl_array_view(&v, KL_OP_RESHAPE, NULL, 0, x, 1, (int[]){1}, (int64_t[]){1}, 0, NULL), 0);
    return v;
}

/* A view owns what it is a view of, also where it is made after the commit or read by others. */
static void views_are_owners(void **state) {
    for (int late = 0; late < 2; late++) {
        for (int order = 0; order < 2; order++) {
            struct scene c;
            set(&c, "cc");
            struct kl_array *x = plus(c.s[0], c.held, c.held);
            if (late) start(x);
            struct kl_array *v = reshaped(x), *y = plus(c.s[1], v, v);
            start(y);
            struct kl_array *drops[2] = {order ? x : y, order ? y : x};
            for (int i = 0; i < 2; i++) kl_array_release(drops[i]);
            gate_open(&c.g);
            int *data = NULL;
            assert_int_equal(kl_array_host(v, (void **)&data, NULL), 0);
            assert_int_equal(*data, 0);
            assert_int_equal(cancelled(), 1); /* y */
            kl_array_release(v);
            strike(&c);
            set(&c, "cc");
            x = plus(c.s[0], c.held, c.held);
            v = reshaped(x);
            y = plus(c.s[1], v, v);
            start(y);
            kl_array_release(order ? x : v);
            kl_array_release(order ? v : x);
            kl_array_release(y);
            gate_open(&c.g);
            assert_int_equal(cancelled(), 2);
            strike(&c);
        }
    }
}

static _Atomic(int) n_called;

static int count(void *ctx, struct kl_launch *l, struct kl_error **err) {
    atomic_fetch_add(&n_called, 1);
    *(int *)l->out[0].data = *(const int *)l->in[0].data;
    return KL_OK;
}

/* Callbacks and files are such tasks, and what they read is needed. */
static void what_has_an_effect_runs(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct gate g;
        gate_init(&g);
        struct kl_array *held = t_gated(a, NULL, &g, false);
        struct kl_array *x = plus(b, held, held);
        struct kl_array *y = t_call(a, &(struct kl_call_params){.name = "count", .fn = count}, &x,
                                    1, KL_I32, 0, NULL);
        atomic_store(&n_called, 0);
        before = kl_test_n_cancelled();
        start(y);
        kl_array_release(held);
        kl_array_release(x);
        kl_array_release(y);
        gate_open(&g);
        assert_int_equal(cancelled(), 0);
        assert_int_equal(atomic_load(&n_called), 1);
    }
}

/* What was abandoned reports nothing; what has failed is reported. */
static void failures_stay_reported(void **state) {
    struct scene c;
    set(&c, "cc");
    struct kl_array *f = t_fail(c.s[1], NULL), *g;
    t_settle(f);
    g = plus(c.s[0], f, c.held);
    start(g);
    kl_array_release(g);
    kl_array_release(f);
    gate_open(&c.g);
    assert_int_equal(cancelled(), 1);
    assert_int_equal(kl_failures_n_unseen(), 1);
    assert_int_equal(kl_stream_synchronize(c.s[0], NULL), 0);
    assert_int_equal(kl_stream_synchronize(c.s[1], NULL), KL_EKERNEL);
    strike(&c);
}

/* On devices too: whatever of it was handed over before it was dropped, all of it ends. */
static void on_every_device(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *middle = NULL, *end = chain(a, b, t_const(a, 1), 2000, 1000, &middle);
        start(end);
        kl_array_release(end);
        assert_int_equal(t_value(middle), 1001);
        kl_array_release(middle);
        kl_until_quiet();
    }
}

/* ---- dropped by other threads while the streams run ---- */
enum { ROUNDS = 150, STEPS = 60 };

static void *drop_each(void *arg) {
    struct kl_array **v = arg;
    for (int i = 0; i < STEPS; i++) kl_array_release(v[i]);
    return NULL;
}

static void dropped_while_it_runs(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int round = 0; round < ROUNDS; round++) {
            struct kl_array *v[STEPS], *again[STEPS], *step = one(), *kept = NULL;
            for (int i = 0; i < STEPS; i++) {
                struct kl_array *from = i ? v[i - 1] : step;
                v[i] = plus((i * 7 + round) % 3 ? a : b, from, i % 5 ? step : from);
                if (i == round % STEPS) kept = kl_array_retain(v[i]);
                again[i] = i % 4 ? kl_array_retain(v[i]) : reshaped(v[i]);
            }
            start(v[STEPS - 1]);
            pthread_t other;
            assert_int_equal(pthread_create(&other, NULL, drop_each, v), 0);
            drop_each(again);
            int want = 1;
            for (int i = 0; i <= round % STEPS; i++)
                want = (int)((unsigned)want + (i % 5 ? 1u : (unsigned)want));
            assert_int_equal(t_value(kept), want);
            pthread_join(other, NULL);
            kl_array_release(kept);
            kl_array_release(step);
        }
        kl_until_quiet();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_chain_dropped_whole),
        cmocka_unit_test(a_long_chain_dropped_half),
        cmocka_unit_test(work_of_a_device_that_it_has_not_got),
        cmocka_unit_test(a_task_that_waits_is_abandoned),
        cmocka_unit_test(every_reader_must_be_gone),
        cmocka_unit_test(views_are_owners),
        cmocka_unit_test(what_has_an_effect_runs),
        cmocka_unit_test(failures_stay_reported),
        cmocka_unit_test(on_every_device),
        cmocka_unit_test(dropped_while_it_runs),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
