/* test_cuda_nccl.c - joint sums of NCCL among the kernels of a chain, over fake_cuda.c and
 * fake_nccl.c: they are captured once and are nodes of graphs; whatever refuses that leads to a
 * call of NCCL; how a communicator ends. */
#include <sched.h>

#include "backend/cuda/fake_cuda_support.h"
#include "backend/exchange.h"

enum { N = 300, RANKS = 2, CAPTURED = 7, MOST_STEPS = 40 };

struct asked { /* the same struct as in fake_nccl.c */
    int n_calls, n_captured, n_ended;
};
static struct {
    void (*asked)(struct asked *out);
    void (*kernels)(int n);
    void (*fail_next)(void);
} nccl;

static struct asked asked(void) {
    struct asked a;
    nccl.asked(&a);
    return a;
}

/* ---- commands: kernels that add one, and sums ---- */

static void *comm;

struct step {
    struct kl_transfer t; /* to NULL: a kernel */
    struct test_launch kernel;
};

static int run_step(struct kl_emit *e, const struct kl_command *c) {
    const struct step *s = c->params;
    if (s->t.to) {
        const int rc = e->dry ? KL_OK : drv->ops->exchange(drv, e->queue, comm, &s->t, e->err);
        return rc ? rc : 1;
    }
    struct kl_command kernel = *c;
    kernel.params = &s->kernel;
    return test_override(e, &kernel);
}

/* Submits n steps and waits; returns the code of the submission. */
static int run(void *q, const struct step *steps, int n, struct kl_error **err) {
    static struct kl_command c[2 * MOST_STEPS];
    void *event = new_event();
    memset(c, 0, sizeof c);
    for (int i = 0; i < n; i++)
        c[i] = (struct kl_command){.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .params = &steps[i]};
    const int rc = kl_driver_submit(drv, q, c, n, NULL, 0, NULL, event, err);
    if (!rc) wait_for(event);
    drv->ops->event_free(drv, event);
    return rc;
}

static uint32_t length = N;

static struct step sum(const void *from, void *to, int64_t n) {
    return (struct step){.t = {.kind = KL_EXCHANGE_REDUCE,
                               .reduction = KL_REDUCE_SUM,
                               .dtype = KL_F32,
                               .n = n,
                               .from = from,
                               .to = to}};
}
static struct step add(void *in, void *out) {
    return (struct step){.kernel = add_one(in, out, &length)};
}

/* Blocks of N numbers, and a queue. */
struct blocks {
    void *a, *b, *q;
};
static struct blocks blocks_new(void) {
    return (struct blocks){device_block(N * 4), device_block(N * 4), new_queue()};
}
static void clear(void *block) {
    const float zeros[N] = {0};
    WELL(drv->ops->write(drv, block, 0, zeros, sizeof zeros, &err));
}
static void blocks_drop(struct blocks *x) {
    device_free(x->a, N * 4);
    device_free(x->b, N * 4);
}

/* A chain of four kernels, a sum, four kernels and a sum: the bits of denormal numbers, to which a
 * kernel adds one, are doubled by a sum of two ranks. Returns the code of the submission. */
enum { CHAIN = 10, AFTER_CHAIN = (4 * RANKS + 4) * RANKS };
static int run_chain_of(struct blocks *x, int64_t n, struct kl_error **err) {
    struct step s[CHAIN];
    clear(x->a);
    for (int half = 0; half < 2; half++) {
        void *from = half ? x->b : x->a, *to = half ? x->a : x->b;
        for (int i = 0; i < 4; i++) s[5 * half + i] = add(i % 2 ? to : from, i % 2 ? from : to);
        s[5 * half + 4] = sum(from, to, n);
    }
    return run(x->q, s, CHAIN, err);
}
static void check_chain(struct blocks *x, int64_t n) {
    uint32_t got[N];
    WELL(run_chain_of(x, n, &err));
    WELL(drv->ops->read(drv, x->a, 0, got, sizeof got, &err));
    for (int i = 0; i < n; i++) assert_int_equal(got[i], AFTER_CHAIN);
}

/* ---- communicators ---- */

static void comm_begin(void) {
    char id[KL_COMM_ID_BYTES];
    int state;
    WELL(drv->ops->comm_id(drv, id, &err));
    WELL(drv->ops->comm_new(drv, id, 0, RANKS, &comm, &err));
    while ((state = drv->ops->comm_state(drv, comm, NULL)) == 0) sched_yield();
    assert_int_equal(state, 1);
}
static void comm_stop(bool abort) {
    const int before = asked().n_ended;
    assert_true(drv->ops->comm_end(drv, comm, abort));
    while (asked().n_ended == before) sched_yield();
}

/* ---- tests ---- */

/* Sums alike are captured once, and a chain that comes again is one graph with its sums. */
static void test_captured(void **state) {
    struct blocks x = blocks_new();
    comm_begin();
    const struct asked before = asked();
    check_chain(&x, N);
    assert_int_equal(asked().n_captured - before.n_captured, 2);
    const int calls = asked().n_calls;
    check_chain(&x, N); /* gets a graph */
    const uint64_t graphs = fake.number(GRAPHS), ran = fake.number(KERNELS_RUN);
    check_chain(&x, N);
    assert_int_equal(fake.number(GRAPHS) - graphs, 1);
    assert_int_equal(fake.number(KERNELS_RUN) - ran, CHAIN);
    assert_int_equal(asked().n_captured - before.n_captured, 2);
    assert_int_equal(asked().n_calls, calls);
    check_chain(&x, N - 1); /* others */
    assert_int_equal(asked().n_captured - before.n_captured, 4);
    comm_stop(false);
    assert_int_equal(fake.number(CAPTURED), 0);
    blocks_drop(&x);
}

/* More than a chain holds, and more sizes than are kept. */
static void test_many(void **state) {
    struct blocks x = blocks_new();
    comm_begin();
    for (int round = 0; round < 3; round++) {
        struct step s[2 * MOST_STEPS];
        for (int i = 0; i < 2 * MOST_STEPS; i++) s[i] = sum(x.a, x.b, N);
        WELL(run(x.q, s, 2 * MOST_STEPS, &err));
    }
    const struct asked before = asked();
    for (int n = 1; n <= MOST_STEPS; n++) check_chain(&x, n);
    assert_in_range(asked().n_captured - before.n_captured, 20, MOST_STEPS);
    assert_true(asked().n_calls > before.n_calls);
    comm_stop(true);
    assert_int_equal(fake.number(CAPTURED), 0);
    blocks_drop(&x);
}

/* Each of these makes NCCL be called as usual, with the same results. */
static void test_refused(void **state) {
    static const char *const calls[] = {
        "cuStreamBeginCapture", "cuStreamEndCapture",         "cuGraphGetNodes",
        "cuGraphNodeGetType",   "cuGraphKernelNodeGetParams", "cuGraphEventRecordNodeGetEvent"};
    struct blocks x = blocks_new();
    for (size_t i = 0; i < 2 + sizeof calls / sizeof *calls; i++) {
        comm_begin();
        const struct asked before = asked();
        if (i == 0)
            nccl.kernels(2);
        else if (i == 1)
            nccl.fail_next();
        else
            fake.break_call(calls[i - 2], 0, INVALID);
        check_chain(&x, N);
        nccl.kernels(1);
        for (int k = 0; k < 3; k++) check_chain(&x, N);
        assert_true(asked().n_calls > before.n_calls);
        comm_stop(i % 2);
        assert_int_equal(fake.number(CAPTURED), 0);
    }
    blocks_drop(&x);
}

/* Graphs that do not take such a node: no chain of this queue tries it again. */
static void test_no_node(void **state) {
    static const char *const calls[] = {"cuGraphKernelNodeCopyAttributes",
                                        "cuGraphAddEventRecordNode"};
    for (int i = 0; i < 2; i++) {
        struct blocks x = blocks_new();
        comm_begin();
        check_chain(&x, N);
        fake.break_call(calls[i], 0, INVALID);
        check_chain(&x, N);
        const int before = asked().n_calls;
        for (int k = 1; k < 4; k++) {
            check_chain(&x, N);
            assert_int_equal(asked().n_calls - before, 2 * k);
        }
        comm_stop(false);
        blocks_drop(&x);
    }
}

/* A sum that fails, or comes after its communicator was ended, fails the submission; what waits is
 * dropped. */
static void test_failures(void **state) {
    struct kl_error *why = NULL;
    struct blocks x = blocks_new();
    comm_begin();
    check_chain(&x, N);
    check_chain(&x, N);
    fake.break_call("cuGraphLaunch", 0, INVALID); /* the kernels and sums are launched alone */
    const int before = asked().n_calls;
    check_chain(&x, N);
    assert_int_equal(asked().n_calls - before, 2);
    comm_stop(true);
    assert_int_equal(run_chain_of(&x, N, &why), KL_EGROUP);
    assert_non_null(strstr(why->message, "the group was broken before an exchange began"));
    kl_error_release(why);
    blocks_drop(&x);
}

/* Another exchange, whose words go along, is no part of a chain. */
static void test_words(void **state) {
    struct blocks x = blocks_new();
    void *words = device_block(KL_EXCHANGE_BYTES);
    comm_begin();
    const struct asked before = asked();
    struct step s[2] = {add(x.a, x.b), sum(x.b, x.a, N)};
    clear(x.a);
    s[1].t.words = words;
    WELL(run(x.q, s, 2, &err));
    check_count(x.a, 2, 1);
    assert_int_equal(asked().n_captured, before.n_captured);
    assert_int_equal(asked().n_calls - before.n_calls, 1);
    comm_stop(false);
    device_free(words, KL_EXCHANGE_BYTES);
    blocks_drop(&x);
}

static int set_up(void **state) {
    static const char *const names[] = {"fake_nccl_asked", "fake_nccl_kernels",
                                        "fake_nccl_fail_next"};
    char path[4300];
    setup(state);
    snprintf(path, sizeof path, "%s/lib64/libnccl.so", getenv("KEEL_CUDA_PATH"));
    setenv("KEEL_NCCL", path, 1);
    void *lib = dlopen(path, RTLD_NOW);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *p = lib ? dlsym(lib, names[i]) : NULL;
        assert_non_null(p);
        memcpy((char *)&nccl + i * sizeof p, &p, sizeof p);
    }
    test_ops.override = run_step;
    assert_null(drv->ops->comm_missing(drv));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_captured), cmocka_unit_test(test_many),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_no_node),
        cmocka_unit_test(test_failures), cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
