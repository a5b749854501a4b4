/* test_errors.c - a failure reaches exactly the arrays that depend on it, every time they are read,
 * on every stream, from every thread. Each case runs on CPU streams, on the simulated device, and
 * on both together. */
#include "graph/graph_support.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/value/failures.h"
#include "runtime/block_pool.h"

static void release(struct kl_array *a) {
    kl_array_release(a);
}

static void failure_before_anyone_waits(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_fail(a, NULL), *y = t_inc(b, x);
        t_settle(x);
        t_settle(y);
        t_expect_error(y, KL_EKERNEL);
        t_expect_error(x, KL_EKERNEL);
        release(x);
        release(y);
    }
}

static void available_when_first_read(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_fail(a, NULL);
        assert_false(kl_array_settled(x));
        t_settle(x);
        assert_true(kl_array_settled(x));
        /* This operation is built when the failure has been known for long. */
        struct kl_array *y = t_inc(b, x);
        t_expect_error(y, KL_EKERNEL);
        t_expect_error(x, KL_EKERNEL);
        release(x);
        release(y);
    }
}

static void two_evaluations_queued_before_the_failure(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct gate g;
        gate_init(&g);
        struct kl_array *x = t_gated(a, NULL, &g, true);
        struct kl_array *y = t_inc(a, x), *z = t_inc(a, y), *other = t_const(b, 4);
        assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
        assert_int_equal(kl_async_eval(&z, 1, NULL), 0);
        assert_int_equal(kl_async_eval(&other, 1, NULL), 0);
        gate_wait_arrived(&g, 1);
        assert_false(kl_array_settled(y));
        gate_open(&g);
        struct kl_error *ez = t_error(z), *ey = t_error(y);
        assert_ptr_equal(ez, ey);
        kl_error_release(ez);
        kl_error_release(ey);
        assert_int_equal(t_value(other), 4);
        release(x);
        release(y);
        release(z);
        release(other);
    }
}

static void dependent_on_another_stream_queued_before(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct gate g;
        gate_init(&g);
        struct kl_array *x = t_gated(a, NULL, &g, true), *y = t_inc(b, x);
        assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
        gate_wait_arrived(&g, 1);
        gate_open(&g);
        t_expect_error(y, KL_EKERNEL);
        t_expect_error(x, KL_EKERNEL);
        release(x);
        release(y);
    }
}

static void a_good_producer_stays_good(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *good = t_const(a, 7), *bad = t_fail(b, NULL), *sum = t_add(a, good, bad),
                        *mus = t_add(b, bad, good);
        t_expect_error(sum, KL_EKERNEL);
        t_expect_error(mus, KL_EKERNEL);
        assert_int_equal(t_value(good), 7);
        release(good);
        release(bad);
        release(sum);
        release(mus);
    }
}

static void unrelated_work_on_the_same_stream(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x[5] = {t_const(a, 1), t_fail(a, NULL), t_const(a, 3), t_fail(b, NULL),
                                 t_const(a, 5)};
        for (int i = 0; i < 5; i++) assert_int_equal(kl_async_eval(&x[i], 1, NULL), 0);
        for (int i = 4; i >= 0; i--) {
            if (i % 2)
                t_expect_error(x[i], KL_EKERNEL);
            else
                assert_int_equal(t_value(x[i]), i + 1);
        }
        for (int i = 0; i < 5; i++) release(x[i]);
    }
}

static void *read_many_times(void *arg) {
    struct kl_array **x = arg;
    for (int round = 0; round < 50; round++) {
        t_expect_error(x[0], KL_EKERNEL);
        t_expect_error(x[1], KL_EKERNEL);
        assert_int_equal(t_value(x[2]), 9);
    }
    return NULL;
}

static void every_reader_every_time(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *bad = t_fail(a, NULL);
        struct kl_array *x[3] = {bad, t_inc(b, bad), t_const(b, 9)};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, read_many_times, x), 0);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        read_many_times(x);
        for (int i = 0; i < 3; i++) release(x[i]);
    }
}

static void every_output_of_a_failed_operation(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_const(a, 1), *bad[2], *good[2];
        t_pair(b, x, true, bad);
        t_pair(b, x, false, good);
        t_expect_error(bad[1], KL_EKERNEL);
        assert_true(kl_array_settled(bad[0]));
        t_expect_error(bad[0], KL_EKERNEL);
        assert_int_equal(t_value(good[1]), 3);
        assert_int_equal(t_value(good[0]), 2);
        for (int i = 0; i < 2; i++) {
            release(bad[i]);
            release(good[i]);
        }
        release(x);
    }
}

static void a_failed_evaluation_leaves_the_good_ones(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x[4] = {t_const(a, 1), t_fail(b, NULL), t_fail(a, NULL), t_const(b, 4)};
        struct kl_error *e = NULL;
        assert_int_equal(kl_eval(x, 4, &e), KL_EKERNEL);
        for (int i = 0; i < 4; i++) assert_true(kl_array_settled(x[i]));
        struct kl_error *first = t_error(x[1]);
        assert_ptr_equal(e, first); /* the error of the first operand, not of the first failure */
        kl_error_release(first);
        kl_error_release(e);
        assert_int_equal(t_value(x[0]), 1);
        assert_int_equal(t_value(x[3]), 4);
        for (int i = 0; i < 4; i++) release(x[i]);
    }
}

static void *fail_and_leave(void *stream) {
    struct kl_array *x = t_fail(stream, NULL);
    t_settle(x);
    release(x);
    return NULL;
}

static void *synchronize_quietly(void *stream) {
    return kl_stream_synchronize(stream, NULL) == KL_OK ? (void *)1 : NULL;
}

static void synchronize_reports_and_consumes_nothing(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_array *x = t_fail(a, NULL), *y = t_const(a, 2), *z = t_inc(b, x);
        assert_int_equal(kl_async_eval(&x, 1, NULL), 0);
        assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
        pthread_t other;
        void *quiet = NULL;
        assert_int_equal(pthread_create(&other, NULL, synchronize_quietly, a), 0);
        pthread_join(other, &quiet);
        assert_non_null(quiet); /* this thread has no failure to be told of */
        struct kl_error *e = NULL;
        assert_int_equal(kl_stream_synchronize(a, &e), KL_EKERNEL);
        kl_error_release(e);
        assert_int_equal(kl_stream_synchronize(a, NULL), KL_OK); /* a failure is reported once */
        t_expect_error(x, KL_EKERNEL); /* the value is still a failed one */
        t_expect_error(z, KL_EKERNEL);
        assert_int_equal(t_value(y), 2);
        /* This thread has read the error already. */
        assert_int_equal(kl_stream_synchronize(b, NULL), KL_OK);
        /* The failure of a thread that has ended is reported to the thread that asks. */
        assert_int_equal(pthread_create(&other, NULL, fail_and_leave, b), 0);
        pthread_join(other, NULL);
        assert_int_equal(kl_stream_synchronize(b, NULL), KL_EKERNEL);
        assert_int_equal(kl_stream_synchronize(b, NULL), KL_OK);
        release(x);
        release(y);
        release(z);
    }
}

static void synchronize_has_a_bounded_list(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int i = 0; i < 200; i++) {
            struct kl_array *x = t_fail(a, NULL);
            assert_int_equal(kl_async_eval(&x, 1, NULL), 0);
            release(x);
        }
        int n = 0;
        while (kl_stream_synchronize(a, NULL)) n++;
        assert_in_range(n, 1, 64);
        assert_true(kl_failures_n_unseen() >= 1);
    }
}

/* Runs this program again with an argument of the test; returns what it wrote to stderr. */
static int run_self(const char *what, char *text, size_t room) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        kl_test_run_again((const char *[]){what, NULL});
    }
    close(fd[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < room && (got = read(fd[0], text + n, room - 1 - n)) > 0) n += (size_t)got;
    text[n] = 0;
    close(fd[0]);
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

/* A child process: it lets work fail, reads some of the errors, and exits. */
static int child_unseen(const char *kinds, int n, int n_seen) {
    t_use_sim(NULL);
    struct kl_stream *s[2];
    t_streams(kinds, s);
    for (int i = 0; i < n; i++) {
        struct kl_array *x = t_fail(s[i % 2], NULL);
        t_settle(x);
        if (i < n_seen) t_expect_error(x, KL_EKERNEL);
        release(x);
    }
    exit(0);
}

static void printed_at_exit_when_nobody_saw_it(void **state) {
    char text[8192];
    assert_int_equal(run_self("unseen-2", text, sizeof text), 0);
    assert_int_equal(count(text, "nobody saw"), 2);
    assert_int_equal(run_self("seen", text, sizeof text), 0);
    assert_int_equal(count(text, "nobody saw"), 0);
    assert_int_equal(run_self("unseen-30", text, sizeof text), 0);
    assert_int_equal(count(text, "nobody saw this error"), 10);
    assert_non_null(strstr(text, "30 errors in all"));
    /* The exit of the process does not wait for kernels: a kernel without end does not keep it. */
    assert_int_equal(run_self("busy", text, sizeof text), 0);
}

static int child_busy(void) {
    static struct gate never;
    gate_init(&never);
    struct kl_array *x = t_gated(NULL, NULL, &never, false);
    assert_int_equal(kl_async_eval(&x, 1, NULL), 0);
    gate_wait_arrived(&never, 1);
    exit(0);
}

static void crosses_ten_streams_with_its_first_cause(void **state) {
    static const char *const kinds[] = {"cccccccccc", "gggggggggg", "cgcgcgcgcg", "ggcccggcgc"};
    for (int k = 0; k < 4; k++) {
        struct kl_stream *s[10];
        t_streams(kinds[k], s);
        struct kl_array *x[10], *good = t_const(s[0], 1);
        x[0] = t_fail(s[0], NULL);
        for (int i = 1; i < 10; i++)
            x[i] = t_add(s[i], i % 2 ? good : x[i - 1], i % 2 ? x[i - 1] : good);
        struct kl_error *first = t_error(x[9]), *cause = t_error(x[0]);
        assert_ptr_equal(first, cause);
        assert_int_equal(cause->has & KL_HAS_STREAM ? cause->stream : kl_stream_index(s[0]),
                         kl_stream_index(s[0]));
        kl_error_release(first);
        kl_error_release(cause);
        assert_int_equal(t_value(good), 1);
        for (int i = 0; i < 10; i++) release(x[i]);
        release(good);
        t_streams_free(10, s);
    }
}

static void lowest_input_decides(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        for (int round = 0; round < 20; round++) {
            struct kl_array *x = t_fail(a, NULL), *y = t_fail(b, NULL), *xy = t_add(b, x, y),
                            *yx = t_add(a, y, x);
            if (round % 2) t_settle(y); /* the failures become known in either order */
            struct kl_error *exy = t_error(xy), *eyx = t_error(yx), *ex = t_error(x),
                            *ey = t_error(y);
            assert_ptr_equal(exy, ex);
            assert_ptr_equal(eyx, ey);
            kl_error_release(exy);
            kl_error_release(eyx);
            kl_error_release(ex);
            kl_error_release(ey);
            release(x);
            release(y);
            release(xy);
            release(yx);
        }
    }
}

/* Elements of a vector, by index; the result has shape (n, 1). */
static struct kl_array *gather(struct kl_stream *s, struct kl_array *from, struct kl_array *index) {
    struct {
        struct kl_gather_params p;
        int v[2];
    } params = {{.n_axes = 1, .ndim = 1}, {0, 1}};
    int dims[2] = {index->t.dims[0], 1};
    struct kl_array *in[2] = {from, index}, *out = NULL;
    assert_int_equal(kl_array_op1(&out,
                                  &(struct kl_operation){.op = KL_OP_GATHER,
                                                         .stream = s,
                                                         .params = &params,
                                                         .params_bytes = sizeof params,
                                                         .in = in,
                                                         .n_in = 2},
                                  KL_I32, 2, dims, NULL),
                     0);
    return out;
}

static struct kl_array *ints(int n, const int *v) {
    struct kl_array *a = NULL;
    assert_int_equal(kl_array_new_data(&a, v, KL_I32, 1, &n, NULL), 0);
    return a;
}

static void index_error_has_every_field(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        int values[4] = {10, 11, 12, 13}, where[5] = {0, -4, 3, 4, -5};
        struct kl_array *v = ints(4, values), *i = ints(5, where), *x = gather(a, v, i),
                        *y = t_inc(b, x);
        struct kl_error *e = t_error(y);
        assert_int_equal(e->code, KL_EINDEX);
        assert_int_equal(e->has, KL_HAS_INDEX | KL_HAS_AXIS | KL_HAS_SIZE | KL_HAS_POSITION |
                                     KL_HAS_STREAM);
        assert_int_equal(e->index, 4);
        assert_int_equal(e->axis, 0);
        assert_int_equal(e->axis_size, 4);
        assert_int_equal(e->position, 3);
        assert_int_equal(e->stream, kl_stream_index(a));
        assert_string_equal(e->op, "gather");
        kl_error_release(e);
        release(v);
        release(i);
        release(x);
        release(y);
    }
}

static void a_consumer_could_settle_before_its_producer(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    int values[2] = {1, 2}, where[1] = {9};
    struct kl_array *v = ints(2, values), *i = ints(1, where), *x = gather(s[0], v, i),
                    *y = t_inc(s[1], x), *z = t_const(s[1], 5);
    kl_sim_hold(0, true);
    uint64_t before0 = kl_sim_executed(0, kl_stream_index(s[0])),
             before1 = kl_sim_executed(0, kl_stream_index(s[1]));
    struct kl_array *both[2] = {y, z};
    assert_int_equal(kl_async_eval(both, 2, NULL), 0);
    assert_true(kl_sim_wait_executed(0, kl_stream_index(s[0]), before0 + 1));
    assert_true(kl_sim_wait_executed(0, kl_stream_index(s[1]), before1 + 1));
    assert_false(kl_array_settled(x));
    assert_false(kl_array_settled(y));
    /* The host is notified of the consumer's command buffer only. */
    kl_sim_complete(0, kl_stream_index(s[1]), 1);
    t_expect_error(y, KL_EINDEX);
    assert_true(kl_array_settled(x)); /* settled first, by the thread that settled the consumer */
    t_expect_error(x, KL_EINDEX);
    assert_int_equal(t_value(z), 5);
    kl_sim_hold(0, false);
    release(v);
    release(i);
    release(x);
    release(y);
    release(z);
    t_streams_free(2, s);
}

static _Atomic(int) n_unsafe_runs;

static int k_unsafe(void *ctx, struct kl_launch *l, struct kl_error **err) {
    atomic_fetch_add(&n_unsafe_runs, 1);
    *(unsigned *)l->out[0].data = 1000 + *(const unsigned *)l->in[0].data;
    return KL_OK;
}

static void a_guarded_kernel_does_not_run(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        int values[2] = {1, 2};
        struct kl_call_params p = {.name = "unsafe", .fn = k_unsafe, .guarded = true};
        for (int bad = 0; bad < 2; bad++) {
            int where[1] = {bad ? 2 : 1};
            struct kl_array *v = ints(2, values), *i = ints(1, where), *x = gather(a, v, i),
                            *mid = t_inc(a, x);
            struct kl_array *y = t_call(b, &p, &mid, 1, KL_I32, 0, NULL);
            int before = atomic_load(&n_unsafe_runs);
            if (bad)
                t_expect_error(y, KL_EINDEX);
            else
                assert_int_equal(t_value(y), 1003);
            assert_int_equal(atomic_load(&n_unsafe_runs) - before, !bad);
            release(v);
            release(i);
            release(x);
            release(mid);
            release(y);
        }
    }
}

static void many_guards_are_merged(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    int values[2] = {1, 2}, good[1] = {0}, wrong[1] = {5};
    struct kl_array *v = ints(2, values), *gi = ints(1, good), *wi = ints(1, wrong);
    struct kl_call_params p = {.name = "unsafe", .fn = k_unsafe, .guarded = true};
    /* -1: no fault; otherwise one fault among forty positions. */
    for (int bad = -1; bad < 40; bad += 13) {
        struct kl_array *sum = t_const(s[0], 0);
        for (int k = 0; k < 40; k++) {
            struct kl_array *x = gather(s[k % 2], v, k == bad ? wi : gi),
                            *next = t_add(s[0], sum, x);
            release(sum);
            release(x);
            sum = next;
        }
        struct kl_array *y = t_call(s[1], &p, &sum, 1, KL_I32, 0, NULL);
        int before = atomic_load(&n_unsafe_runs);
        if (bad >= 0)
            t_expect_error(y, KL_EINDEX);
        else
            assert_int_equal(t_value(y), 1040);
        assert_int_equal(atomic_load(&n_unsafe_runs) - before, bad < 0);
        release(sum);
        release(y);
    }
    release(v);
    release(gi);
    release(wi);
    t_streams_free(2, s);
}

static void out_of_memory_in_the_middle(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        int big = 64 << 20;
        struct kl_array *x = t_const(a, 1), *y = t_vector(a, big, 2), *z = t_inc(b, y),
                        *w = t_inc(b, x);
        kl_memory_clear_cache();
        kl_test_memory_budget(kl_memory_active() + (16 << 20));
        struct kl_array *all[4] = {x, y, z, w};
        struct kl_error *e = NULL;
        assert_int_equal(kl_eval(all, 4, &e), KL_ENOMEM);
        kl_error_release(e);
        t_expect_error(y, KL_ENOMEM);
        t_expect_error(z, KL_ENOMEM);
        assert_int_equal(t_value(x), 1);
        assert_int_equal(t_value(w), 2);
        kl_test_memory_budget((size_t)-1);
        struct kl_array *again = t_vector(a, 1 << 20, 2); /* the next evaluation works */
        assert_int_equal(t_value(again), 2);
        release(again);
        for (int i = 0; i < 4; i++) release(all[i]);
    }
}

static void device_lost(void **state) {
    struct kl_stream *s[3];
    t_streams("ggc", s);
    struct kl_array *shadowed = t_const(s[0], 3), *unread = t_const(s[0], 4);
    assert_int_equal(t_value(shadowed), 3); /* makes the copy on the host */
    t_settle(unread);
    kl_sim_pause(0, true);
    struct kl_array *x = t_const(s[0], 1), *y = t_inc(s[1], x), *z = t_inc(s[2], y),
                    *cpu = t_const(s[2], 8);
    struct kl_array *all[2] = {z, cpu};
    assert_int_equal(kl_async_eval(&y, 1, NULL), 0);
    assert_int_equal(kl_async_eval(all, 2, NULL), 0);
    /* Waits until the device has been given the work. */
    kl_timeline_block(y->t.fate->timeline->handed, y->t.fate->ticket);
    kl_sim_lose(0);
    struct kl_error *e = t_error(z);
    assert_int_equal(e->code, KL_EDEVICELOST);
    /* The error names the probable cause, which is the oldest work. */
    assert_non_null(strstr(e->message, "const"));
    kl_error_release(e);
    t_expect_error(x, KL_EDEVICELOST);
    t_expect_error(y, KL_EDEVICELOST);
    assert_int_equal(t_value(cpu), 8);
    assert_int_equal(t_value(shadowed), 3);
    t_expect_error(unread, KL_EDEVICELOST);
    struct kl_array *later = t_const(s[0], 1); /* later work fails at once */
    t_expect_error(later, KL_EDEVICELOST);
    kl_sim_pause(0, false);
    kl_sim_revive(0);
    struct kl_array *again = t_const(s[1], 6);
    assert_int_equal(t_value(again), 6);
    release(again);
    release(later);
    release(shadowed);
    release(unread);
    release(x);
    release(y);
    release(z);
    release(cpu);
    t_streams_free(3, s);
}

static void refused_submission(void **state) {
    struct kl_stream *s[2];
    t_streams("gg", s);
    struct kl_array *before = t_const(s[0], 1);
    assert_int_equal(t_value(before), 1);
    kl_sim_fail_submit_at(0, 0);
    struct kl_array *x = t_inc(s[0], before), *y = t_inc(s[1], x), *z = t_inc(s[1], before);
    t_expect_error(x, KL_ESUBMIT);
    t_expect_error(y, KL_ESUBMIT);
    assert_int_equal(t_value(z), 2);
    struct kl_array *after = t_inc(s[0], before);
    assert_int_equal(t_value(after), 2);
    release(before);
    release(x);
    release(y);
    release(z);
    release(after);
    t_streams_free(2, s);
}

static void fork_while_four_streams_are_busy(void **state) {
    kl_test_skip_under_emulator("a child of fork that starts threads");
    struct kl_stream *s[4];
    t_streams("cccg", s);
    struct gate g;
    gate_init(&g);
    struct kl_array *settled = t_const(s[0], 11), *settled_gpu = t_const(s[3], 12);
    assert_int_equal(t_value(settled), 11);
    assert_int_equal(t_value(settled_gpu), 12);
    /* When the process forks, one stream runs, one is parked behind it, and another stream and the
     * device have work that waits. */
    struct kl_array *x[4];
    x[0] = t_gated(s[0], NULL, &g, false);
    for (int i = 1; i < 4; i++) x[i] = t_inc(s[i], x[i - 1]);
    assert_int_equal(kl_async_eval(x, 4, NULL), 0);
    gate_wait_arrived(&g, 1);
    struct kl_array *lazy = t_inc(s[1], settled);
    fflush(NULL);
    pid_t pid = fork();
    /* An assertion that fails in the child would return into the parent's test runner. */
    if (pid == 0) {
        int bad = 0;
        void *p = NULL;
        bad |= (kl_array_host(settled, &p, NULL) || *(int *)p != 11) << 0;
        bad |= (kl_array_host(settled_gpu, &p, NULL) || *(int *)p != 12)
               << 1; /* its copy on the host was made before the fork */
        for (int i = 0; i < 4; i++) bad |= (kl_eval(&x[i], 1, NULL) != KL_EFORK) << 2;
        /* CPU streams work in the child. */
        bad |= (kl_array_host(lazy, &p, NULL) || *(int *)p != 12) << 3;
        struct kl_array *more = t_inc(s[0], settled);
        bad |= (kl_async_eval(&more, 1, NULL) || kl_array_host(more, &p, NULL) || *(int *)p != 12)
               << 4;
        struct kl_array *gpu = t_inc(s[3], settled);
        bad |= (kl_eval(&gpu, 1, NULL) != KL_EDEVICE) << 5;
        bad |= (kl_stream_synchronize(s[1], NULL) != KL_OK) << 6;
        _exit(bad);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    gate_open(&g); /* the parent goes on as without the fork */
    assert_int_equal(t_value(x[3]), 3);
    assert_int_equal(t_value(lazy), 12);
    for (int i = 0; i < 4; i++) release(x[i]);
    release(settled);
    release(settled_gpu);
    release(lazy);
    t_streams_free(4, s);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "unseen-2")) return child_unseen("cg", 2, 0);
    if (argc > 1 && !strcmp(argv[1], "seen")) return child_unseen("cg", 2, 2);
    if (argc > 1 && !strcmp(argv[1], "unseen-30")) return child_unseen("gc", 30, 0);
    if (argc > 1 && !strcmp(argv[1], "busy")) return child_busy();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_before_anyone_waits),
        cmocka_unit_test(available_when_first_read),
        cmocka_unit_test(two_evaluations_queued_before_the_failure),
        cmocka_unit_test(dependent_on_another_stream_queued_before),
        cmocka_unit_test(a_good_producer_stays_good),
        cmocka_unit_test(unrelated_work_on_the_same_stream),
        cmocka_unit_test(every_reader_every_time),
        cmocka_unit_test(every_output_of_a_failed_operation),
        cmocka_unit_test(a_failed_evaluation_leaves_the_good_ones),
        cmocka_unit_test(synchronize_reports_and_consumes_nothing),
        cmocka_unit_test(synchronize_has_a_bounded_list),
        cmocka_unit_test(printed_at_exit_when_nobody_saw_it),
        cmocka_unit_test(crosses_ten_streams_with_its_first_cause),
        cmocka_unit_test(lowest_input_decides),
        cmocka_unit_test(index_error_has_every_field),
        cmocka_unit_test(a_consumer_could_settle_before_its_producer),
        cmocka_unit_test(a_guarded_kernel_does_not_run),
        cmocka_unit_test(many_guards_are_merged),
        cmocka_unit_test(out_of_memory_in_the_middle),
        cmocka_unit_test(device_lost),
        cmocka_unit_test(refused_submission),
        cmocka_unit_test(fork_while_four_streams_are_busy),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
