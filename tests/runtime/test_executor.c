/* test_executor.c - which thread runs a stream, parked streams, which free their thread, and
 * callbacks that wait: inline evaluation, the deadlock error, back-pressure. */
#include "barrier.h"
#include "graph/graph_support.h"

#include <sched.h>

#include "backend/sim/sim.h"
#include "base/value/wait_hook.h"
#include "runtime/block_pool.h"
#include "runtime/pool.h"

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

static void block_on(struct kl_array *a) { /* waits without running any tasks itself */
    kl_timeline_block(a->t.fate->timeline, a->t.fate->ticket);
}

static void evaluate_async(struct kl_array *a) {
    assert_int_equal(kl_async_eval(&a, 1, NULL), 0);
}

/* ---- which thread runs a stream ---- These tests are the first ones, on streams that no thread of
 * the pool has run. A thread of the pool that has just settled a stream's last task may still hold
 * the executor role. */

struct probe {
    pthread_t thread;
    int n;
    struct kl_array *queue_inside; /* committed while the kernel runs */
};

static int k_probe(void *ctx, struct kl_launch *l, struct kl_error **err) {
    struct probe *p = ctx;
    p->thread = pthread_self();
    p->n++;
    if (p->queue_inside) evaluate_async(p->queue_inside);
    *(int *)l->out[0].data = l->n_in ? *(const int *)l->in[0].data + 1 : 1;
    return KL_OK;
}

static struct kl_array *probed(struct kl_stream *s, struct probe *p, struct kl_array *a) {
    struct kl_call_params c = {.name = "probe", .fn = k_probe, .ctx = p};
    return t_call(s, &c, &a, a != NULL, KL_I32, 0, NULL);
}

static void idle_stream_runs_on_the_caller(void **state) {
    struct kl_stream *a = stream(), *b = stream();
    struct probe p[3] = {{.n = 0}};
    struct kl_array *x = probed(a, &p[0], NULL), *y = probed(a, &p[1], x);
    assert_int_equal(t_value(y), 2);
    /* Its operand is settled, and belongs to another stream. */
    struct kl_array *z = probed(b, &p[2], y);
    assert_int_equal(t_value(z), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p[i].n, 1);
        assert_true(pthread_equal(p[i].thread, pthread_self()));
    }
    kl_array_release(x);
    kl_array_release(y);
    kl_array_release(z);
    kl_stream_release(a);
    kl_stream_release(b);
}

static void later_tasks_go_to_the_pool(void **state) {
    struct kl_stream *s = stream();
    struct probe later = {.n = 0}, now = {.n = 0};
    struct kl_array *y = probed(s, &later, NULL);
    now.queue_inside = y;
    struct kl_array *x = probed(s, &now, NULL);
    assert_int_equal(kl_eval(&x, 1, NULL), 0);
    assert_true(pthread_equal(now.thread, pthread_self()));
    block_on(y);
    assert_int_equal(later.n, 1);
    assert_false(pthread_equal(later.thread, pthread_self()));
    kl_array_release(x);
    kl_array_release(y);
    kl_stream_release(s);
}

static void async_eval_runs_nothing_on_the_caller(void **state) {
    struct kl_stream *s = stream();
    for (int round = 0; round < 50; round++) {
        struct probe p = {.n = 0}, q = {.n = 0};
        struct kl_array *x = probed(s, &p, NULL), *y = probed(s, &q, x);
        evaluate_async(y);
        block_on(y);
        assert_int_equal(p.n + q.n, 2);
        assert_false(pthread_equal(p.thread, pthread_self()));
        assert_false(pthread_equal(q.thread, pthread_self()));
        kl_array_release(x);
        kl_array_release(y);
    }
    kl_stream_release(s);
}

/* Every thread of the pool is in a callback until the gate opens. */
enum { MAX_THREADS = 512 };
struct busy_pool {
    struct gate gate;
    struct kl_stream *stream[MAX_THREADS];
    struct kl_array *task[MAX_THREADS];
    int n;
};

static void pool_begin_busy(struct busy_pool *p) {
    assert_int_equal(kl_pool_start(NULL), 0);
    p->n = kl_pool_n_threads();
    assert_in_range(p->n, 1, MAX_THREADS);
    gate_init(&p->gate);
    for (int i = 0; i < p->n; i++) {
        p->stream[i] = stream();
        p->task[i] = t_gated(p->stream[i], NULL, &p->gate, false);
        evaluate_async(p->task[i]);
    }
    gate_wait_arrived(&p->gate, p->n);
}

static void pool_end_busy(struct busy_pool *p) {
    gate_open(&p->gate);
    for (int i = 0; i < p->n; i++) {
        assert_int_equal(t_value(p->task[i]), 0);
        kl_array_release(p->task[i]);
        kl_stream_release(p->stream[i]);
    }
}

static void a_waiting_caller_helps_when_the_pool_is_busy(void **state) {
    static struct busy_pool busy;
    pool_begin_busy(&busy);
    struct kl_stream *a = stream(), *b = stream();
    struct probe p = {.n = 0}, q = {.n = 0};
    struct kl_array *x = probed(a, &p, NULL), *y = probed(b, &q, x);
    evaluate_async(y);               /* both streams are queued for a thread of the pool */
    assert_int_equal(t_value(y), 2); /* this thread runs b, which parks, then a, then b again */
    assert_true(pthread_equal(p.thread, pthread_self()));
    assert_true(pthread_equal(q.thread, pthread_self()));
    pool_end_busy(&busy);
    kl_array_release(x);
    kl_array_release(y);
    kl_stream_release(a);
    kl_stream_release(b);
}

static int let_go(void *ctx) {
    kl_sim_hold(0, false);
    return 0;
}

/* The device has what the caller waits for. What the stream has besides is left to the pool. */
static void a_caller_that_waits_for_a_device_encodes_nothing_else(void **state) {
    static struct busy_pool busy;
    struct kl_stream *s = NULL;
    assert_int_equal(kl_stream_new(&s, KL_GPU, 0, NULL), 0);
    pool_begin_busy(&busy);
    kl_sim_hold(0, true);
    struct kl_array *x = t_const(s, 1), *y = t_inc(s, x);
    evaluate_async(x);
    kl_timeline_block(x->t.fate->timeline->handed, x->t.fate->ticket);
    evaluate_async(y); /* the stream is queued for a thread of the pool */
    struct kl_wait_hook before = kl_wait_hook_set((struct kl_wait_hook){let_go, NULL});
    assert_int_equal(t_value(x), 1);
    kl_wait_hook_set(before);
    assert_true(kl_timeline_done(y->t.fate->timeline->handed) < y->t.fate->ticket);
    assert_int_equal(t_value(y), 2); /* the pool is still busy, so this thread encodes it now */
    pool_end_busy(&busy);
    kl_array_release(x);
    kl_array_release(y);
    kl_stream_release(s);
}

/* ---- parking ---- */

enum { PARKED = 400 };

static void a_parked_stream_frees_its_thread(void **state) {
    static struct kl_stream *s[PARKED];
    static struct kl_array *x[PARKED];
    struct kl_stream *r = reader(), *other = stream();
    struct gate g;
    gate_init(&g);
    /* Holds a reader thread, none of the pool. */
    struct kl_array *first = t_gated(r, NULL, &g, false);
    for (int i = 0; i < PARKED; i++) {
        s[i] = stream();
        x[i] = t_inc(s[i], i % 3 ? x[i - 1] : first);
        evaluate_async(x[i]);
    }
    gate_wait_arrived(&g, 1);
    /* This array is queued behind all of them. No caller helps, so it runs only if the parked
     * streams have freed their threads. */
    struct kl_array *y = t_const(other, 7);
    evaluate_async(y);
    block_on(y);
    assert_int_equal(t_value(y), 7);
    for (int i = 0; i < PARKED; i++) assert_false(kl_array_settled(x[i]));
    gate_open(&g);
    for (int i = 0; i < PARKED; i++) {
        block_on(x[i]);
        assert_int_equal(t_value(x[i]), 1 + i % 3);
        kl_array_release(x[i]);
        kl_stream_release(s[i]);
    }
    kl_array_release(y);
    kl_array_release(first);
    kl_stream_release(r);
    kl_stream_release(other);
}

/* ---- callbacks that wait ---- */

struct job {
    void (*body)(struct job *);
    struct kl_stream *own, *other;
    struct t_barrier *together;
    struct gate *gate;
    struct kl_array *in; /* in: an operand of the job */
    struct kl_array *x;  /* x: the array that the job evaluates */
    int rc;
    struct kl_error *err;
};

static void evaluate_inside(struct job *j) {
    j->rc = kl_eval(&j->x, 1, &j->err);
}

static void wait_for_own(struct job *j) {
    j->x = t_const(j->own, 5);
    evaluate_inside(j);
}

static void synchronize_own(struct job *j) {
    j->x = t_const(j->own, 5);
    j->rc = kl_stream_synchronize(j->own, &j->err);
}

static void wait_for_other(struct job *j) {
    j->x = t_const(j->other, 5);
    evaluate_inside(j);
}

static void wait_for_what_waits_for_own(struct job *j) {
    struct kl_array *w = t_const(j->own, 4);
    j->x = t_inc(j->other, w);
    kl_array_release(w);
    evaluate_inside(j);
}

static void meet_then_wait_for_other(struct job *j) {
    t_barrier_wait(j->together);
    wait_for_other(j);
}

static int k_job(void *ctx, struct kl_launch *l, struct kl_error **err) {
    struct job *j = ctx;
    j->body(j);
    *(int *)l->out[0].data = 1;
    return KL_OK;
}

static struct kl_array *job_on(struct kl_stream *s, struct job *j) {
    struct kl_call_params c = {.name = "job", .fn = k_job, .ctx = j};
    return t_call(s, &c, NULL, 0, KL_I32, 0, NULL);
}

static void expect_deadlock(struct job *j) {
    assert_int_equal(j->rc, KL_EDEADLOCK);
    assert_non_null(j->err);
    assert_int_equal(j->err->code, KL_EDEADLOCK);
    assert_non_null(strstr(j->err->message, "callback"));
    kl_error_release(j->err);
    assert_int_equal(t_value(j->x), 5); /* work that was committed runs all the same */
    kl_array_release(j->x);
}

/* Runs body in a callback on a new stream: run by the caller, then by the pool. */
static void deadlock_of(void (*body)(struct job *)) {
    for (int async = 0; async < 2; async++) {
        struct kl_stream *a = stream(), *b = stream();
        struct job j = {.body = body, .own = a, .other = b};
        struct kl_array *y = job_on(a, &j);
        if (async) {
            evaluate_async(y);
            block_on(y);
        }
        assert_int_equal(t_value(y), 1);
        expect_deadlock(&j);
        kl_array_release(y);
        kl_stream_release(a);
        kl_stream_release(b);
    }
}

static void a_callback_that_waits_for_its_own_stream(void **state) {
    deadlock_of(wait_for_own);
    deadlock_of(wait_for_what_waits_for_own);
}

static void a_callback_that_synchronizes_its_own_stream(void **state) {
    struct kl_stream *a = stream();
    struct job j = {.body = synchronize_own, .own = a};
    struct kl_array *y = job_on(a, &j);
    assert_int_equal(t_value(y), 1);
    expect_deadlock(&j);
    kl_array_release(y);
    kl_stream_release(a);
}

static void run_dtor_job(void *payload) {
    struct job *j = payload;
    j->body(j);
}

static void a_destructor_that_waits_for_its_own_stream(void **state) {
    for (int async = 0; async < 2; async++) {
        struct kl_stream *a = stream();
        static int memory;
        memory = 6;
        struct job j = {.body = wait_for_own, .own = a};
        struct kl_array *x = NULL;
        assert_int_equal(kl_array_new_user(&x, &memory, KL_I32, 0, NULL, &j, run_dtor_job, NULL),
                         0);
        struct kl_array *y = t_inc(a, x);
        /* The task holds the last reference, so the destructor runs inside of it. */
        kl_array_release(x);
        if (async) {
            evaluate_async(y);
            block_on(y);
        }
        assert_int_equal(t_value(y), 7);
        expect_deadlock(&j);
        kl_array_release(y);
        kl_stream_release(a);
    }
}

static void *evaluate_job(void *arg) {
    struct job *j = arg;
    struct kl_array *y = job_on(j->own, j);
    int rc = kl_eval(&y, 1, NULL);
    kl_array_release(y);
    return rc ? NULL : arg;
}

static void callbacks_that_wait_in_a_cycle(void **state) {
    for (int n = 2; n <= 4; n++) {
        struct kl_stream *s[4];
        struct job j[4];
        pthread_t threads[4];
        struct t_barrier together;
        t_barrier_init(&together, n);
        for (int i = 0; i < n; i++) s[i] = stream();
        for (int i = 0; i < n; i++) {
            j[i] = (struct job){.body = meet_then_wait_for_other,
                                .own = s[i],
                                .other = s[(i + 1) % n],
                                .together = &together};
            assert_int_equal(pthread_create(&threads[i], NULL, evaluate_job, &j[i]), 0);
        }
        int n_deadlocks = 0;
        for (int i = 0; i < n; i++) {
            void *ok = NULL;
            pthread_join(threads[i], &ok);
            assert_non_null(ok);
        }
        for (int i = 0; i < n; i++) {
            if (j[i].rc) {
                n_deadlocks++;
                expect_deadlock(&j[i]);
            } else {
                assert_null(j[i].err);
                assert_int_equal(t_value(j[i].x), 5);
                kl_array_release(j[i].x);
            }
        }
        /* Only the callback that closes the cycle fails; the others get their values. */
        assert_int_equal(n_deadlocks, 1);
        for (int i = 0; i < n; i++) kl_stream_release(s[i]);
        t_barrier_destroy(&together);
    }
}

/* Waits until a thread waits on the stream's timeline (or has returned). This is a state of the
 * program, not a delay. */
static void until_waited_for(struct kl_stream *s, _Atomic(int) *or_returned) {
    struct kl_timeline *t = kl_stream_timeline(s);
    while (!(atomic_load(&t->word) & 1) && !(or_returned && atomic_load(or_returned)))
        sched_yield();
}

static void a_stream_that_parks_later_closes_the_cycle(void **state) {
    for (int round = 0; round < 20; round++) {
        struct kl_stream *a = stream(), *b = reader();
        struct gate g;
        gate_init(&g);
        struct kl_array *held = t_gated(b, NULL, &g, false);
        evaluate_async(held);
        gate_wait_arrived(&g, 1);
        struct job j = {.body = wait_for_what_waits_for_own, .own = a, .other = b};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, evaluate_job, &j), 0);
        until_waited_for(b, NULL); /* b runs, so there is no cycle yet */
        gate_open(&g);             /* now b reaches the task that waits for a, and parks */
        void *ok = NULL;
        pthread_join(thread, &ok);
        assert_non_null(ok);
        expect_deadlock(&j);
        assert_int_equal(t_value(held), 0);
        kl_array_release(held);
        kl_stream_release(a);
        kl_stream_release(b);
    }
}

static void a_callback_may_wait_for_unrelated_work(void **state) {
    struct kl_stream *a = stream(), *b = stream();
    struct job j = {/* B is idle, so the callback's thread runs it. */
                    .body = wait_for_other,
                    .own = a,
                    .other = b};
    struct kl_array *y = job_on(a, &j);
    assert_int_equal(t_value(y), 1);
    assert_int_equal(j.rc, 0);
    assert_int_equal(t_value(j.x), 5);
    kl_array_release(j.x);
    kl_array_release(y);
    /* Stream b is busy: the callback blocks until another thread has run it. */
    struct kl_stream *r = reader();
    struct gate g;
    gate_init(&g);
    struct kl_array *held = t_gated(r, NULL, &g, false);
    evaluate_async(held);
    gate_wait_arrived(&g, 1);
    struct job k = {.body = wait_for_other, .own = a, .other = r};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, evaluate_job, &k), 0);
    until_waited_for(r, NULL);
    gate_open(&g);
    void *ok = NULL;
    pthread_join(thread, &ok);
    assert_non_null(ok);
    assert_int_equal(k.rc, 0);
    assert_int_equal(t_value(k.x), 5);
    kl_array_release(k.x);
    kl_array_release(held);
    kl_stream_release(a);
    kl_stream_release(b);
    kl_stream_release(r);
}

static void wait_for_other_behind_a_reader(struct job *j) {
    gate_pass(j->gate);
    j->x = t_inc(j->other, j->in);
    evaluate_inside(j);
}

/* Every thread of the pool is inside a callback when the streams for which the callbacks wait
 * become runnable, so no other thread can run these streams. taken_before: each of these streams
 * was run out of its turn before, so that it still has a place in the pool. */
static void callbacks_on_all_threads(bool taken_before) {
    enum { MOST = 256 };
    assert_int_equal(kl_pool_start(NULL), 0);
    int n = kl_pool_n_threads();
    assert_in_range(n, 1, MOST);
    struct kl_stream *r = reader(), *own[MOST], *other[MOST];
    struct job j[MOST];
    struct kl_array *y[MOST];
    struct gate g, together;
    gate_init(&g);
    gate_init(&together);
    struct kl_array *held = t_gated(r, NULL, &g, false);
    evaluate_async(held);
    gate_wait_arrived(&g, 1);
    for (int i = 0; i < n; i++) {
        own[i] = stream();
        other[i] = stream();
        j[i] = (struct job){.body = wait_for_other_behind_a_reader,
                            .other = other[i],
                            .in = held,
                            .gate = &together};
        y[i] = job_on(own[i], &j[i]);
        evaluate_async(y[i]);
    }
    gate_wait_arrived(&together, n);
    for (int i = 0; i < n && taken_before; i++) {
        struct kl_array *x = t_const(other[i], i);
        evaluate_async(x);
        assert_int_equal(t_value(x), i); /* this thread runs it, since no other one can */
        kl_array_release(x);
    }
    gate_open(&together);
    for (int i = 0; i < n; i++) until_waited_for(other[i], NULL);
    gate_open(&g);
    for (int i = 0; i < n; i++) {
        block_on(y[i]);
        assert_int_equal(j[i].rc, 0);
        assert_int_equal(t_value(j[i].x), 1);
        kl_array_release(j[i].x);
        kl_array_release(y[i]);
        kl_stream_release(own[i]);
        kl_stream_release(other[i]);
    }
    kl_array_release(held);
    kl_stream_release(r);
}

static void callbacks_on_every_thread_of_the_pool(void **state) {
    callbacks_on_all_threads(false);
}

static void callbacks_wait_for_streams_that_were_taken_out_of_turn(void **state) {
    callbacks_on_all_threads(true);
}

/* ---- back-pressure ---- */

static struct {
    struct kl_array *x;
    _Atomic(int) returned;
} caller;

static void *slow_caller(void *arg) {
    evaluate_async(caller.x);
    atomic_store(&caller.returned, 1);
    return NULL;
}

static void callers_wait_for_what_runs(void **state) {
    struct kl_stream *a = stream(), *b = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *kept = t_vector(b, 1000, 1), *running = t_gated(a, NULL, &g, false);
    assert_int_equal(t_value(kept), 1);
    evaluate_async(running);
    gate_wait_arrived(&g, 1);
    size_t old = kl_memory_set_limit(1);
    caller.x = t_vector(b, 1000, 2);
    atomic_store(&caller.returned, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, slow_caller, NULL), 0);
    until_waited_for(a, &caller.returned);
    /* The caller waits for work that runs on another stream. */
    assert_int_equal(atomic_load(&caller.returned), 0);
    gate_open(&g);
    pthread_join(thread, NULL);
    /* Nothing is in flight then, so the limit is exceeded. */
    assert_int_equal(t_value(caller.x), 2);
    kl_memory_set_limit(old);
    kl_array_release(kept);
    kl_array_release(running);
    kl_array_release(caller.x);
    kl_stream_release(a);
    kl_stream_release(b);
}

static int k_one(void *ctx, struct kl_launch *l, struct kl_error **err) {
    *(int *)l->out[0].data = 1;
    return KL_OK;
}

static void hold_at_gate(void *gate) {
    gate_pass(gate);
}

/* A stream whose task has ended is not in flight, though a thread still holds its role: the next
 * task may have to wait for a reader, which waits for the user, who would wait for the stream. Here
 * the thread is held where it releases what the task used. */
static void callers_do_not_wait_for_a_stream_between_tasks(void **state) {
    struct kl_stream *a = stream(), *b = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *kept = t_vector(b, 1000, 1), *more = t_vector(b, 1000, 2);
    assert_int_equal(t_value(kept), 1);
    struct kl_call_params call = {.name = "one", .fn = k_one, .ctx = &g, .release = hold_at_gate};
    struct kl_array *ended = t_call(a, &call, NULL, 0, KL_I32, 0, NULL);
    evaluate_async(ended);
    gate_wait_arrived(&g, 1);
    size_t old = kl_memory_set_limit(1);
    evaluate_async(more); /* returns while the gate is closed */
    kl_memory_set_limit(old);
    gate_open(&g);
    assert_int_equal(t_value(more), 2);
    assert_int_equal(t_value(ended), 1);
    kl_until_quiet(); /* the value was there before the gate */
    kl_array_release(kept);
    kl_array_release(more);
    kl_array_release(ended);
    kl_stream_release(a);
    kl_stream_release(b);
}

/* One more than the tasks that may wait behind the one that runs. */
enum { LONG_QUEUE = (1 << 16) + 1 };
static struct {
    struct kl_array *x[LONG_QUEUE], *one_more;
    _Atomic(int) handed_over, returned;
} long_queue;

static void *caller_of_many(void *arg) {
    bool good = kl_async_eval(long_queue.x, LONG_QUEUE, NULL) == 0;
    atomic_store(&long_queue.handed_over, 1);
    good = kl_async_eval(&long_queue.one_more, 1, NULL) == 0 && good;
    atomic_store(&long_queue.returned, 1);
    return good ? arg : NULL;
}

static void a_long_queue_slows_its_callers(void **state) {
    struct kl_stream *a = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *running = t_gated(a, NULL, &g, false);
    evaluate_async(running);
    gate_wait_arrived(&g, 1);
    for (int i = 0; i < LONG_QUEUE; i++) long_queue.x[i] = t_const(a, i);
    long_queue.one_more = t_const(a, -1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, caller_of_many, a), 0);
    until_waited_for(a, &long_queue.returned);
    assert_int_equal(atomic_load(&long_queue.handed_over), 1); /* the next call has to wait */
    assert_int_equal(atomic_load(&long_queue.returned), 0);
    gate_open(&g);
    void *good = NULL;
    pthread_join(thread, &good);
    assert_non_null(good);
    for (int i = 0; i < LONG_QUEUE; i++) {
        assert_int_equal(t_value(long_queue.x[i]), i);
        kl_array_release(long_queue.x[i]);
    }
    assert_int_equal(t_value(long_queue.one_more), -1);
    kl_array_release(long_queue.one_more);
    kl_array_release(running);
    kl_stream_release(a);
}

enum { CALLERS = 4, ROUNDS = 60 };

static void *allocating_caller(void *arg) {
    struct kl_stream *s[2];
    t_streams("cg", s);
    struct kl_array *x = t_vector(s[0], 500, 1);
    bool good = true;
    for (int i = 0; i < ROUNDS; i++) {
        struct kl_array *y = t_vector(s[i % 2], 500, i), *z = t_add(s[(i + 1) % 2], x, y);
        evaluate_async(z);
        kl_array_release(y);
        if (i % 5 == 0) good = good && t_value(z) == i + 1;
        kl_array_release(z);
    }
    kl_array_release(x);
    t_streams_free(2, s);
    return good ? arg : NULL;
}

static void a_tiny_limit_never_deadlocks(void **state) {
    struct kl_stream *r = reader(), *behind = stream();
    struct gate g;
    gate_init(&g);
    struct kl_array *held = t_gated(r, NULL, &g, false), *parked = t_inc(behind, held),
                    *kept = t_const(behind, 3);
    assert_int_equal(t_value(kept), 3); /* some memory is in use all the time */
    evaluate_async(parked);
    gate_wait_arrived(&g, 1); /* a reader that is blocked, and a stream parked behind it */
    size_t old = kl_memory_set_limit(1);
    static char caller_mark[1];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocating_caller, caller_mark), 0);
    for (int i = 0; i < CALLERS; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_false(kl_array_settled(parked));
    kl_memory_set_limit(old);
    gate_open(&g);
    assert_int_equal(t_value(parked), 1);
    kl_array_release(held);
    kl_array_release(parked);
    kl_array_release(kept);
    kl_stream_release(r);
    kl_stream_release(behind);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_stream_runs_on_the_caller),
        cmocka_unit_test(later_tasks_go_to_the_pool),
        cmocka_unit_test(async_eval_runs_nothing_on_the_caller),
        cmocka_unit_test(a_waiting_caller_helps_when_the_pool_is_busy),
        cmocka_unit_test(a_caller_that_waits_for_a_device_encodes_nothing_else),
        cmocka_unit_test(a_parked_stream_frees_its_thread),
        cmocka_unit_test(a_callback_that_waits_for_its_own_stream),
        cmocka_unit_test(a_callback_that_synchronizes_its_own_stream),
        cmocka_unit_test(a_destructor_that_waits_for_its_own_stream),
        cmocka_unit_test(callbacks_that_wait_in_a_cycle),
        cmocka_unit_test(a_stream_that_parks_later_closes_the_cycle),
        cmocka_unit_test(a_callback_may_wait_for_unrelated_work),
        cmocka_unit_test(callbacks_on_every_thread_of_the_pool),
        cmocka_unit_test(callbacks_wait_for_streams_that_were_taken_out_of_turn),
        cmocka_unit_test(callers_wait_for_what_runs),
        cmocka_unit_test(callers_do_not_wait_for_a_stream_between_tasks),
        cmocka_unit_test(a_long_queue_slows_its_callers),
        cmocka_unit_test(a_tiny_limit_never_deadlocks),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
