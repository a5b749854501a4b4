/* test_wait_hook.c - a hook ends waits: for a reader, a device, a stream, work in flight, and the
 * tasks that the caller runs itself. The work goes on, and the values come. */
#include "barrier.h"
#include "graph/graph_support.h"

#include "base/value/wait_hook.h"
#include "runtime/block_pool.h"

static struct kl_stream *stream(void) {
    struct kl_stream *s = NULL;
    assert_int_equal(kl_stream_new(&s, KL_CPU, 0, NULL), 0);
    return s;
}

static struct kl_stream *reader(void) {
    struct kl_stream *s = NULL;
    assert_int_equal(kl_stream_new_reader(&s, NULL), 0);
    return s;
}

/* ---- the hook of the tests ---- */
struct hook {
    int n;               /* how often it was asked */
    int until;           /* from this time on it ends the wait */
    int (*then)(void *); /* called before it answers, or NULL */
    void *with;
    pthread_t thread; /* the one that asked last */
};

static int asked(void *ctx) {
    struct hook *h = ctx;
    h->thread = pthread_self();
    h->n++;
    if (h->then) h->then(h->with);
    return h->n >= h->until;
}

static struct kl_wait_hook hook_set(struct hook *h) {
    return kl_wait_hook_set((struct kl_wait_hook){h ? asked : NULL, h});
}

/* The call failed because of the hook, which this thread asked n times. */
static void expect_ended(int rc, struct kl_error *err, const struct hook *h, int n) {
    assert_int_equal(rc, KL_EINTERRUPTED);
    assert_non_null(err);
    assert_int_equal(err->code, KL_EINTERRUPTED);
    assert_non_null(strstr(err->message, "the work goes on"));
    kl_error_release(err);
    assert_int_equal(h->n, n);
    assert_true(pthread_equal(h->thread, pthread_self()));
}

static void each_thread_has_one(void **state) {
    struct hook h = {.n = 0};
    assert_null(hook_set(&h).fn);
    struct kl_wait_hook before = hook_set(NULL);
    assert_ptr_equal(before.ctx, &h);
    assert_true(before.fn == asked);
    assert_null(hook_set(NULL).fn);
}

static void a_wait_for_a_reader_ends(void **state) {
    struct kl_stream *r = reader(), *s = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *x = t_gated(r, NULL, &g, false), *y = t_inc(s, x);
    struct hook h = {.until = 2};
    hook_set(&h);
    struct kl_error *err = NULL;
    int rc = kl_eval(&y, 1, &err);
    expect_ended(rc, err, &h, 2);
    assert_false(kl_array_settled(x));
    assert_false(kl_array_settled(y));
    /* The next wait ends as well; a stream is waited for in the same way. */
    err = NULL;
    rc = kl_stream_synchronize(r, &err);
    expect_ended(rc, err, &h, 3);
    err = NULL;
    rc = kl_eval((struct kl_array *[]){x, y}, 2, &err);
    expect_ended(rc, err, &h, 4);
    void *data;
    err = NULL;
    rc = kl_array_host(x, &data, &err);
    expect_ended(rc, err, &h, 5);
    hook_set(NULL);
    gate_open(&g);
    assert_int_equal(t_value(y), 1);
    assert_int_equal(t_value(x), 0);
    assert_int_equal(kl_stream_synchronize(r, NULL), 0); /* nothing failed on it */
    kl_array_release(x);
    kl_array_release(y);
    kl_stream_release(r);
    kl_stream_release(s);
}

static int open_it(void *gate) {
    gate_open(gate);
    return 0;
}

/* A hook that lets the wait go on changes nothing; what is settled is read without asking it. */
static void a_wait_goes_on(void **state) {
    struct kl_stream *r = reader();
    struct gate g;
    gate_init(&g);
    struct kl_array *x = t_gated(r, NULL, &g, false);
    struct hook h = {.until = 1 << 30, .then = open_it, .with = &g};
    hook_set(&h);
    assert_int_equal(t_value(x), 0);
    int n = h.n;
    assert_true(n >= 1);
    h.until = 0;
    assert_int_equal(t_value(x), 0);
    assert_int_equal(kl_stream_synchronize(r, NULL), 0);
    assert_int_equal(h.n, n);
    hook_set(NULL);
    kl_array_release(x);
    kl_stream_release(r);
}

static void a_wait_for_a_device_ends(void **state) {
    struct kl_stream *d, *c, *r = reader();
    t_streams("g", &d);
    t_streams("c", &c);
    struct gate g;
    gate_init(&g);
    struct kl_array *held = t_gated(r, NULL, &g, false), *x = t_inc(d, held), *y = t_inc(c, x);
    struct hook h = {.until = 1};
    hook_set(&h);
    struct kl_error *err = NULL;
    int rc = kl_eval(&y, 1, &err);
    expect_ended(rc, err, &h, 1);
    err = NULL;
    rc = kl_stream_synchronize(d, &err);
    expect_ended(rc, err, &h, 2);
    hook_set(NULL);
    gate_open(&g);
    assert_int_equal(t_value(y), 2);
    assert_int_equal(t_value(x), 1);
    kl_array_release(held);
    kl_array_release(x);
    kl_array_release(y);
    t_streams_free(1, &d);
    t_streams_free(1, &c);
    kl_stream_release(r);
}

/* ---- tasks that the waiting thread runs itself ---- */

/* Takes until the hook of a thread that waits would be asked. */
static int k_long(void *ctx, struct kl_launch *l, struct kl_error **err) {
    const struct kl_wait_hook any = {asked, NULL};
    while (!kl_wait_hook_due(&any)) kl_pause_cpu();
    _Atomic(int) *n = ctx;
    atomic_fetch_add(n, 1);
    *(int *)l->out[0].data = l->n_in ? *(const int *)l->in[0].data + 1 : 1;
    return KL_OK;
}

static struct kl_array *lengthy(struct kl_stream *s, _Atomic(int) *n, struct kl_array *a) {
    struct kl_call_params c = {.name = "long", .fn = k_long, .ctx = n};
    return t_call(s, &c, &a, a != NULL, KL_I32, 0, NULL);
}

/* Three such tasks, and one that waits for the gate: a thread of the pool may run what the caller
 * leaves, and must not come to the end before the hook is asked. */
struct chain {
    struct kl_stream *s;
    struct gate g;
    _Atomic(int) n;
    struct kl_array *x[4];
};

static void chain_make(struct chain *c) {
    c->s = stream();
    gate_init(&c->g);
    atomic_init(&c->n, 0);
    for (int i = 0; i < 3; i++) c->x[i] = lengthy(c->s, &c->n, i ? c->x[i - 1] : NULL);
    c->x[3] = t_gated(c->s, c->x[2], &c->g, false);
}

static void chain_end(struct chain *c) {
    assert_int_equal(t_value(c->x[3]), 3);
    assert_int_equal(atomic_load(&c->n), 3); /* each ran once */
    for (int i = 0; i < 4; i++) kl_array_release(c->x[i]);
    kl_stream_release(c->s);
}

static void a_caller_that_runs_the_tasks_comes_back_between_them(void **state) {
    struct chain c;
    chain_make(&c);
    struct hook h = {.until = 1};
    hook_set(&h);
    struct kl_error *err = NULL;
    int rc = kl_eval(&c.x[3], 1, &err);
    hook_set(NULL);
    expect_ended(rc, err, &h, 1);
    assert_true(atomic_load(&c.n) >= 1);
    gate_open(&c.g);
    chain_end(&c);
}

static int evaluate_more(void *chain) {
    struct chain *c = chain;
    struct kl_wait_hook mine = kl_wait_hook_set((struct kl_wait_hook){NULL, NULL});
    assert_int_equal(t_value(c->x[1]), 2); /* of the stream that the outer call waits for */
    gate_open(&c->g);
    assert_int_equal(t_value(c->x[3]), 3);
    kl_wait_hook_set(mine);
    return 0;
}

static void a_hook_may_wait_itself(void **state) {
    struct chain c;
    chain_make(&c);
    struct hook h = {.until = 1 << 30, .then = evaluate_more, .with = &c};
    hook_set(&h);
    assert_int_equal(t_value(c.x[3]), 3);
    hook_set(NULL);
    assert_int_equal(h.n, 1);
    chain_end(&c);
}

static int k_no_hook(void *ctx, struct kl_launch *l, struct kl_error **err) {
    struct kl_wait_hook mine = kl_wait_hook_set((struct kl_wait_hook){NULL, NULL});
    *(int *)l->out[0].data = mine.fn == NULL;
    kl_wait_hook_set(mine);
    return KL_OK;
}

/* A hook that ended a wait of a callback would make its task fail. */
static void a_task_has_no_hook(void **state) {
    struct kl_stream *s = stream();
    struct kl_call_params c = {.name = "no_hook", .fn = k_no_hook};
    struct kl_array *x = t_call(s, &c, NULL, 0, KL_I32, 0, NULL);
    struct hook h = {.until = 1};
    hook_set(&h);
    assert_int_equal(t_value(x), 1);
    assert_true(hook_set(NULL).fn == asked);
    kl_array_release(x);
    kl_stream_release(s);
}

/* ---- work in flight ---- */
static void back_pressure_ends(void **state) {
    struct kl_stream *a = stream(), *b = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *kept = t_vector(b, 1000, 1), *running = t_gated(a, NULL, &g, false);
    assert_int_equal(t_value(kept), 1);
    assert_int_equal(kl_async_eval(&running, 1, NULL), 0);
    gate_wait_arrived(&g, 1);
    size_t old = kl_memory_set_limit(1);
    struct kl_array *x = t_vector(b, 1000, 2);
    struct hook h = {.until = 1};
    hook_set(&h);
    struct kl_error *err = NULL;
    int rc = kl_async_eval(&x, 1, &err);
    expect_ended(rc, err, &h, 1);
    assert_non_null(x->node); /* nothing was committed */
    hook_set(NULL);
    gate_open(&g);
    assert_int_equal(t_value(x), 2);
    kl_memory_set_limit(old);
    kl_array_release(kept);
    kl_array_release(running);
    kl_array_release(x);
    kl_stream_release(a);
    kl_stream_release(b);
}

/* ---- the end of a wait, and the wake-up ---- */
struct race {
    struct kl_timeline t;
    struct t_barrier both;
    uint64_t ticket;
};

static int publish_it(void *race) {
    struct race *r = race;
    kl_timeline_publish(&r->t, r->ticket);
    return 0;
}

/* The wake-up has come when the hook ends the wait. */
static void woken_before_the_end(void **state) {
    struct race r = {.ticket = 1};
    kl_timeline_init(&r.t);
    struct hook h = {.until = 1, .then = publish_it, .with = &r};
    hook_set(&h);
    assert_false(kl_timeline_wait(&r.t, 1));
    hook_set(NULL);
    assert_true(kl_timeline_wait(&r.t, 1));
    kl_timeline_deinit(&r.t); /* nobody is registered */
}

static int meet(void *race) {
    struct race *r = race;
    t_barrier_wait(&r->both);
    return 0;
}

enum { ROUNDS = 20 };

static void *publisher(void *race) {
    struct race *r = race;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        t_barrier_wait(&r->both);
        kl_timeline_publish(&r->t, i);
    }
    return NULL;
}

/* The wake-up comes while the wait ends. The waiter lives on the stack of the thread that waits. */
static void woken_at_the_end(void **state) {
    struct race r = {.ticket = 1};
    t_barrier_init(&r.both, 2);
    kl_timeline_init(&r.t);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, publisher, &r), 0);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct hook h = {.until = 1, .then = meet, .with = &r};
        hook_set(&h);
        assert_false(kl_timeline_wait(&r.t, i));
        hook_set(NULL);
        assert_true(kl_timeline_wait(&r.t, i));
    }
    pthread_join(thread, NULL);
    t_barrier_destroy(&r.both);
    kl_timeline_deinit(&r.t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_has_one),
        cmocka_unit_test(a_wait_for_a_reader_ends),
        cmocka_unit_test(a_wait_goes_on),
        cmocka_unit_test(a_wait_for_a_device_ends),
        cmocka_unit_test(a_caller_that_runs_the_tasks_comes_back_between_them),
        cmocka_unit_test(a_hook_may_wait_itself),
        cmocka_unit_test(a_task_has_no_hook),
        cmocka_unit_test(back_pressure_ends),
        cmocka_unit_test(woken_before_the_end),
        cmocka_unit_test(woken_at_the_end),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
