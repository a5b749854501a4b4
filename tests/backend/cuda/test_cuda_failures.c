/* test_cuda_failures.c - every failure of the CUDA driver over fake_cuda.c, without a device: of
 * submissions, graphs, making, and the loss of a device. */
#include "fake_cuda_support.h"
#include "graph/array.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"
#include "runtime/executor.h"

/* ---- failures ---- */

/* Each call that a submission makes fails in turn. Then no command of the submission is running,
 * its fault words are clear, and the next submission works. */
static void test_submit_failures(void **state) {
    static const struct {
        const char *call;
        int n, ran; /* the n-th call fails; ran: the number of kernels that run all the same */
    } cases[] = {{"cuStreamWaitEvent", 0, 0},
                 {"cuLaunchKernel", 0, 0},
                 {"cuLaunchKernel", 1, 1},
                 {"cuEventRecord", 0, 2}};
    uint32_t first = 1, n = 4, index = 5, position = 6;
    void *p = device_block(64), *q = new_queue(), *other = new_queue();
    struct kl_fault_words w = {0};
    WELL(drv->ops->words_new(drv, &w, &err));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct test_launch l[] = {raise_fault(w.device, &index, &position), count(p, &first, &n)};
        void *before = new_event(), *e = new_event(), *after = new_event();
        /* Nobody has asked whether this event is complete. */
        WELL(submit(other, NULL, 0, NULL, NULL, before, &err));
        uint64_t ran = fake.number(KERNELS_RUN);
        fake.break_call(cases[k].call, cases[k].n, INVALID);
        ILL(submit(q, l, 2, k ? NULL : before, &w, e, &err), KL_ESUBMIT, cases[k].call);
        assert_int_equal(fake.number(KERNELS_RUN) - ran, cases[k].ran);
        assert_int_equal(drv->ops->event_query(drv, e), 0); /* this event is never complete */
        WELL(submit(q, l + 1, 1, NULL, &w, after, &err));
        wait_for(after);
        for (int i = 0; i < KL_WORDS; i++) assert_int_equal(w.host[i], KL_WORD_CLEAR);
        WELL(drv->ops->words_fetch(drv, &w, &err));
        for (int i = 0; i < KL_WORDS; i++) assert_int_equal(w.host[i], KL_WORD_CLEAR);
        check_count(p, 1, n);
        wait_for(before);
        drv->ops->event_free(drv, before);
        drv->ops->event_free(drv, e);
        drv->ops->event_free(drv, after);
    }
    /* The kernels that were launched before the failure have run when it is reported, also on a
     * slow device. */
    struct test_launch two[] = {count(p, &first, &n), count(p, &first, &n)};
    void *slow = new_event();
    uint64_t ran_before = fake.number(KERNELS_RUN);
    fake.pause(2);
    fake.break_call("cuLaunchKernel", 1, INVALID);
    ILL(submit(q, two, 2, NULL, NULL, slow, &err), KL_ESUBMIT, "cuLaunchKernel");
    assert_int_equal(fake.number(KERNELS_RUN), ran_before + 1);
    drv->ops->event_free(drv, slow);
    /* Out of memory has a code of its own. */
    void *e = new_event();
    struct test_launch l = count(p, &first, &n);
    fake.break_call("cuLaunchKernel", 0, OOM);
    ILL(submit(q, &l, 1, NULL, NULL, e, &err), KL_ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY (2)");
    drv->ops->event_free(drv, e);
    device_free(p, 64);
}

/* Kernels that a graph does not take are launched one by one, each once. An error of one of these
 * launches is reported. */
static void test_graph_failures(void **state) {
    static const char *const making[] = {"cuGraphCreate", "cuGraphAddKernelNode",
                                         "cuGraphInstantiateWithFlags", "cuGraphLaunch"};
    enum { LENGTH = 8 + 4 + 1, N = 64 };
    void *q = new_queue(), *blocks[] = {device_block(N * 4), device_block(N * 4)};
    for (size_t k = 0; k < 4; k++)
        for (int n = 0; n < 2; n++) {
            uint64_t ran = fake.number(KERNELS_RUN), graphs = fake.number(GRAPHS);
            fake.break_call(making[k], n, OOM);
            run_chain_in(q = new_queue(), LENGTH, 3, blocks, N);
            assert_int_equal(fake.number(KERNELS_RUN) - ran, LENGTH);
            assert_int_equal(fake.number(GRAPHS) - graphs, 1);
            fake.break_call(making[k], n, OOM);
            run_chain_in(q, LENGTH, 4, blocks, N); /* now the whole chain would get a graph */
            assert_int_equal(fake.number(KERNELS_RUN) - ran, 2 * LENGTH);
            assert_int_equal(fake.number(GRAPHS) - graphs, n && k != 1 ? 2 : 3);
            fake.break_call(NULL, 0, 0);
            run_chain_in(q, LENGTH, 4, blocks, N); /* and gets it */
            assert_int_equal(fake.number(GRAPHS) - graphs, n && k != 1 ? 3 : 4);
        }
    /* Existing graphs do not take new parameters of a kernel: the one of the chain, then also the
     * one that is changed for each. */
    uint64_t ran = fake.number(KERNELS_RUN), graphs = fake.number(GRAPHS);
    fake.break_call("cuGraphExecKernelNodeSetParams", 0, INVALID);
    run_chain_in(q, LENGTH, 5, blocks, N);
    assert_int_equal(fake.number(KERNELS_RUN) - ran, LENGTH);
    assert_int_equal(fake.number(GRAPHS) - graphs, 2);
    run_chain_in(q, LENGTH, 5, blocks, N);
    assert_int_equal(fake.number(GRAPHS) - graphs, 3);
    fake.break_call("cuGraphExecKernelNodeSetParams", 0, INVALID);
    fake.break_call("cuGraphExecKernelNodeSetParams", 4, INVALID);
    run_chain_in(q, LENGTH, 6, blocks, N);
    assert_int_equal(fake.number(KERNELS_RUN) - ran, 3 * LENGTH);
    assert_int_equal(fake.number(GRAPHS) - graphs, 4);
    /* The launch of a single kernel fails as well. Then the kernels before it have run. */
    uint32_t first = 1, n = 4;
    void *p = device_block(64), *e = new_event();
    struct test_launch l[LENGTH];
    for (int i = 0; i < LENGTH; i++) l[i] = count(p, &first, &n);
    fake.break_call("cuGraphExecKernelNodeSetParams", 3, INVALID);
    fake.break_call("cuLaunchKernel", 5, INVALID);
    ran = fake.number(KERNELS_RUN);
    ILL(submit(q, l, LENGTH, NULL, NULL, e, &err), KL_ESUBMIT, "cuLaunchKernel");
    assert_int_equal(fake.number(KERNELS_RUN) - ran, 5);
    run_chain_in(q, LENGTH, 6, blocks, N); /* the parameters that waited in the graph are gone */
    /* When launching a graph fails again and again, graphs are given up. */
    for (int i = 0; i < 40; i++) {
        fake.break_call(NULL, 0, 0);
        fake.break_call("cuGraphLaunch", 0, INVALID);
        fake.break_call("cuGraphLaunch", 0, INVALID);
        run_chain_in(q, 4, (uint32_t)i, blocks, N);
    }
    fake.break_call(NULL, 0, 0);
    graphs = fake.number(GRAPHS);
    run_chain_in(q, LENGTH, 7, blocks, N);
    assert_int_equal(fake.number(GRAPHS), graphs);
    drv->ops->event_free(drv, e);
    device_free(p, 64);
    device_free(blocks[0], N * 4);
    device_free(blocks[1], N * 4);
}

/* A device can be lost in every call, and while a kernel runs. */
static void test_loss(void **state) {
    static const char *const calls[] = {"cuLaunchKernel", "cuEventRecord"};
    uint32_t first = 1, n = 4;
    char b[16];
    void *p = device_block(64), *q = new_queue();
    struct kl_fault_words w = {0};
    struct test_launch good = count(p, &first, &n), bad = crash();
    WELL(drv->ops->words_new(drv, &w, &err));
    for (int k = 0; k < 2; k++) {
        void *e = new_event();
        fake.break_call(calls[k], 0, LAUNCH_FAILED);
        ILL(submit(q, &good, 1, NULL, &w, e, &err), KL_EDEVICELOST, calls[k]);
        ILL(drv->ops->read(drv, p, 0, b, 16, &err), KL_EDEVICELOST, "CUDA_ERROR_LAUNCH_FAILED");
        ILL(drv->ops->write(drv, p, 0, b, 16, &err), KL_EDEVICELOST, "lost");
        ILL(submit(q, &good, 1, NULL, NULL, e, &err), KL_EDEVICELOST, "lost");
        assert_int_equal(drv->ops->event_query(drv, e), KL_EDEVICELOST);
        drv->ops->wait_any(drv, &e, 1); /* returns at once */
        mend();
        drv->ops->event_free(drv, e);
    }
    fake.break_call("cuMemcpyDtoHAsync", 0, LAUNCH_FAILED);
    ILL(drv->ops->words_fetch(drv, &w, &err), KL_EDEVICELOST, "cuMemcpyDtoHAsync");
    mend();
    /* A kernel loses the device while the settlement thread sleeps. CUDA does not call back
     * then. */
    struct sleeper s = {.event = new_event()};
    uint64_t calls_before = fake.number(HOST_CALLS);
    fake.pause(1);
    WELL(submit(q, &bad, 1, NULL, &w, s.event, &err));
    pthread_create(&s.thread, NULL, sleeps, &s);
    while (!atomic_load(&((struct kl_cuda_event *)s.event)->armed)) sched_yield();
    fake.pause(0);
    pthread_join(s.thread, NULL);
    assert_int_equal(drv->ops->event_query(drv, s.event), KL_EDEVICELOST);
    assert_int_equal(fake.number(HOST_CALLS), calls_before);
    keep(s.event);
    mend();
    /* When an event cannot be queried, the device counts as lost. */
    void *e = new_event();
    WELL(submit(q, &good, 1, NULL, NULL, e, &err));
    fake.break_call("cuEventQuery", 0, 400);
    assert_int_equal(drv->ops->event_query(drv, e), KL_EDEVICELOST);
    mend();
    /* The device is lost in the middle of a staged copy. */
    size_t big = 20 << 20;
    char *host = calloc(1, big);
    void *block = device_block(big);
    for (int k = 0; k < 5; k++) {
        fake.break_call("cuMemcpyDtoHAsync", k, LAUNCH_FAILED);
        ILL(drv->ops->read(drv, block, 0, host, big, &err), KL_EDEVICELOST, "cuMemcpyDtoHAsync");
        mend();
        fake.break_call("cuMemcpyHtoDAsync", k, INVALID);
        ILL(drv->ops->write(drv, block, 0, host, big, &err), KL_ESUBMIT, "cuMemcpyHtoDAsync");
        WELL(drv->ops->write(drv, block, 0, host, big, &err));
    }
    device_free(block, big);
    free(host);
    drv->ops->event_free(drv, e);
    device_free(p, 64);
}

/* Evaluates a, and waits until the device has been given its command buffer. */
static void hand_over(struct kl_array *a) {
    struct kl_fate *f = a->t.fate;
    WELL(kl_async_eval(&a, 1, &err));
    while (kl_timeline_done(f->timeline->handed) < f->ticket) sched_yield();
}

/* A query of an event notices the loss. The error of every value says which error of CUDA ended the
 * device: of the values that the device was computing, and of a later value. */
static void test_loss_of_values(void **state) {
    struct kl_stream *s = NULL;
    struct kl_array *a = NULL, *b = NULL;
    struct test_launch bad = crash();
    const int dims[] = {4};
    setenv("KEEL_GPU", "cuda", 1);
    WELL(kl_stream_new(&s, KL_GPU, 0, &err));
    for (int both = 0; both < 2; both++) {
        fake.pause(1);
        WELL(kl_array_op1(
            &a,
            &(struct kl_operation){
                .op = KL_OP_ARANGE, .stream = s, .params = &bad, .params_bytes = sizeof bad},
            KL_U32, 1, dims, &err));
        WELL(kl_array_op1(
            &b,
            &(struct kl_operation){
                .op = KL_OP_ARANGE, .stream = s, .params = &bad, .params_bytes = sizeof bad},
            KL_U32, 1, dims, &err));
        hand_over(a);
        if (both) hand_over(b);
        fake.pause(0);
        ILL(kl_eval(&a, 1, &err), KL_EDEVICELOST,
            "device 'cuda0' was lost with CUDA_ERROR_LAUNCH_FAILED (719), probably while running "
            "'arange'");
        ILL(kl_eval(&b, 1, &err), KL_EDEVICELOST, "CUDA_ERROR_LAUNCH_FAILED (719)");
        kl_array_release(a);
        kl_array_release(b);
        kl_until_quiet();
        mend();
        kl_gpu_revive(cu->backend);
    }
    kl_stream_release(s);
}

/* Makes an object of each kind. The test lets every allocation fail in turn, and every call of CUDA
 * that may fail. */
static int make_all(struct kl_error **err) {
    void *p = NULL, *q = NULL, *e = NULL;
    struct kl_fault_words w = {0};
    int rc = drv->ops->alloc(drv, 1000, &p, err);
    if (!rc) rc = drv->ops->queue_new(drv, 1, &q, err);
    if (q) keep(q);
    if (!rc) rc = drv->ops->event_new(drv, &e, err);
    for (int i = 0; !rc && i <= KL_SLAB_WORDS; i++) rc = drv->ops->words_new(drv, &w, err);
    if (p) drv->ops->free(drv, p, 1000);
    if (e) drv->ops->event_free(drv, e);
    return rc;
}

static void test_failures_of_making(void **state) {
    bool worked = false;
    for (int64_t n = 0; !worked; n++) {
        struct kl_error *e = NULL;
        kl_test_fail_alloc_at(n);
        int rc = make_all(&e);
        bool fired = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc) assert_int_equal(rc, KL_ENOMEM);
        if (rc) assert_non_null(e);
        worked = !fired;
        if (worked) assert_int_equal(rc, KL_OK);
        kl_error_release(e);
        assert_true(n < 100);
    }
    static const char *const calls[] = {"cuMemAlloc", "cuStreamCreate", "cuMemHostAlloc",
                                        "cuMemcpyHtoDAsync", "cuMemsetD32Async"};
    for (int k = 0; k < 5; k++)
        for (int n = 0; n < 2; n++) {
            uint64_t streams = fake.number(STREAMS);
            size_t used = fake.used();
            fake.break_call(calls[k], n, OOM);
            struct kl_error *e = NULL;
            int rc = make_all(&e);
            fake.break_call(NULL, 0, 0);
            assert_true(rc == KL_OK || rc == KL_ENOMEM);
            if (n == 0) assert_int_equal(rc, KL_ENOMEM);
            if (k == 1) { /* the queue that was half made is destroyed */
                assert_int_equal(rc, KL_ENOMEM);
                assert_int_equal(fake.number(STREAMS), streams);
            }
            if (k == 4 && n == 0) {
                assert_int_equal(fake.number(STREAMS), streams);
                assert_int_equal(fake.used(), used);
            }
            /* So is the slab; the queue keeps its counters. */
            if (k == 2 && n == 0)
                assert_int_equal(fake.used(), used + KL_COUNTERS * sizeof(uint32_t));
            kl_error_release(e);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit_failures),
        cmocka_unit_test(test_graph_failures),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_of_values),
        cmocka_unit_test(test_failures_of_making),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
