/* test_cuda_fake.c - the CUDA driver over fake_cuda.c, without a device: order of commands, graphs,
 * limits, notification. */
#include "cuda_common.h"
#include "fake_cuda_support.h"
#include "graph/array.h"
#include "runtime/block_pool.h"
#include "runtime/device.h"
#include "runtime/executor.h"

static void test_found(void **state) {
    const char *why = "untouched";
    struct kl_gpu_facts f;
    struct kl_backend *b;
    assert_int_equal(kl_cuda_count(&why), 2);
    assert_null(why);
    /* The version of the fake NVRTC, not of an installed one. */
    assert_int_equal(kl_nvrtc_api(NULL)->minor, 99);
    kl_cuda_facts(1, &f);
    assert_string_equal(f.name, "Fake 1");
    assert_string_equal(f.architecture, "sm_90");
    assert_string_equal(f.driver, "CUDA 13.0");
    assert_int_equal(f.units, 7);
    assert_string_equal(cu->driver.identity, "cuda 13000, Fake 0, sm_90, nvrtc 13.99");
    ILL(kl_cuda_open(2, &b, &err), KL_ESUBMIT, "cuDeviceGet");
    ILL(kl_cuda_open(-1, &b, &err), KL_EDEVICE, "-1");
}

/* Kernels of a graph may start before the one before is complete. Where the driver takes no such
 * graphs, they are made without that. */
static void test_early(void **state) {
    uint64_t early = fake.number(EARLY), graphs = fake.number(GRAPHS);
    run_chain(new_queue(), 8 + 4, 3);
    assert_int_equal(fake.number(EARLY) - early, 7 + 3);
    assert_int_equal(fake.number(GRAPHS) - graphs, 2);
    for (int n = 0; n < 8; n += 7) { /* an edge is refused, or the whole graph */
        void *q = new_queue();
        early = fake.number(EARLY);
        graphs = fake.number(GRAPHS);
        fake.break_call(n ? "cuGraphInstantiateWithFlags" : "cuGraphAddDependencies", 0, INVALID);
        run_chain(q, 8 + 4, 5);
        assert_int_equal(fake.number(EARLY) - early, n);
        assert_int_equal(fake.number(GRAPHS) - graphs, 2);
        run_chain(q, 16, 5);
        assert_int_equal(fake.number(EARLY) - early, n);
        assert_int_equal(fake.number(GRAPHS) - graphs, 3);
    }
}

/* A chain that comes again has a graph of its own, in which only what is new is changed. */
static void test_kept_graphs(void **state) {
    enum { LENGTH = 50, ROUNDS = 3, CHAINS = 5, N = 64 };
    const uint32_t n = N;
    void *q = new_queue(), *p[2] = {device_block(N * 4), device_block(N * 4)};
    uint64_t execs = fake.number(EXECS), graphs = fake.number(GRAPHS), changed = 0;
    for (uint32_t round = 0; round < ROUNDS + 2; round++) {
        changed = fake.number(CHANGED);
        /* Chains of the same kernels, of which each begins with a number of its own. */
        for (uint32_t c = 0; c < CHAINS; c++) {
            uint32_t first = 100 * c + (round == ROUNDS + 1);
            struct test_launch l[LENGTH];
            void *e = new_event();
            for (int i = 0; i < LENGTH; i++)
                l[i] = i % 10 ? add_one(p[(i - 1) % 2], p[i % 2], &n) : count(p[0], &first, &n);
            WELL(submit(q, l, LENGTH, NULL, NULL, e, &err));
            wait_for(e);
            check_count(p[1], first + 9, n);
            drv->ops->event_free(drv, e);
        }
    }
    assert_int_equal(fake.number(CHANGED) - changed, CHAINS * LENGTH / 10);
    /* The first time of all goes through graphs of 32 and 16. Later chains are alike but for a
     * tenth, so they share one graph. */
    assert_int_equal(fake.number(EXECS) - execs, 3);
    assert_int_equal(fake.number(GRAPHS) - graphs, 2 + CHAINS * (ROUNDS + 2) - 1);
    /* Many different chains, each of which comes again: there is an end to the graphs, 64 of them
     * and those of 4, 8, 16 and 32 kernels. */
    for (int round = 0; round < 4; round++)
        for (uint32_t bits = 0; bits < 128; bits++) {
            uint32_t first = bits;
            struct test_launch l[8];
            void *e = new_event();
            for (int i = 0; i < 8; i++)
                l[i] = bits >> i & 1 ? add_one(p[0], p[1], &n) : count(p[0], &first, &n);
            WELL(submit(q, l, 8, NULL, NULL, e, &err));
            wait_for(e);
            check_count(p[0], first, n);
            drv->ops->event_free(drv, e);
        }
    for (int i = 0; i < 4; i++) run_chain_in(q, 32 + 16 + 8 + 4, 3, p, n);
    assert_int_equal(fake.number(EXECS) - execs, 64 + 4);
    for (int i = 0; i < 600; i++)
        run_chain_in(q, 4 + i % 3, (uint32_t)i, p, n); /* others get stale */
    uint64_t before = fake.number(EXECS);
    for (int i = 0; i < 4; i++) { /* a new one takes the place of a stale one */
        uint32_t first = 7;
        struct test_launch l[] = {count(p[0], &first, &n), count(p[1], &first, &n),
                                  count(p[0], &first, &n), count(p[1], &first, &n),
                                  add_one(p[0], p[0], &n)};
        void *e = new_event();
        graphs = fake.number(GRAPHS);
        WELL(submit(q, l, 5, NULL, NULL, e, &err));
        wait_for(e);
        check_count(p[0], 8, n);
        drv->ops->event_free(drv, e);
        assert_int_equal(fake.number(GRAPHS) - graphs, 1);
    }
    assert_int_equal(fake.number(EXECS), before);
    device_free(p[0], N * 4);
    device_free(p[1], N * 4);
}

/* The host does not wait for small writes; kernels, copies on the device and reads do. */
static void test_small_writes(void **state) {
    enum { N = 3000 };
    const uint32_t one = 1, n = N;
    void *p = device_block(N * 4), *o = device_block(N * 4), *q = new_queue();
    for (uint32_t turn = 1; turn < 6; turn++) {
        void *e = new_event();
        fake.pause(turn == 1); /* the device is slow, so nothing has been written when */
        for (uint32_t i = 0; i < N; i++) {
            uint32_t v = turn * N + i; /* the kernels are handed over */
            if (turn > 1 || i < 1000) WELL(drv->ops->write(drv, p, i * 4, &v, 4, &err));
        }
        struct test_launch l = add_one(p, o, turn > 1 ? &n : &one);
        WELL(submit(q, &l, 1, NULL, NULL, e, &err));
        fake.pause(0);
        wait_for(e);
        check_count(o, turn * N + 1, turn > 1 ? N : 1);
        check_count(p, turn * N, turn > 1 ? N : 1000);
        drv->ops->event_free(drv, e);
    }
    /* The largest ones, of which few fit into the ring, and a staged read behind them. */
    size_t big = 20 << 20, piece = 8 << 10;
    char *host = malloc(big), *back = calloc(1, big);
    void *block = device_block(big);
    for (size_t i = 0; i < big; i++) host[i] = (char)(i * 7 + i / 1000);
    for (size_t i = 0; i < big; i += piece) {
        char copy[8 << 10];
        memcpy(copy, host + i, piece);
        WELL(drv->ops->write(drv, block, i, copy, piece, &err));
        memset(copy, 0, piece); /* the caller's memory is not needed any more */
    }
    WELL(drv->ops->read(drv, block, 0, back, big, &err));
    assert_memory_equal(host, back, big);
    uint32_t v = 9;
    fake.break_call("cuMemcpyHtoDAsync", 0, INVALID);
    ILL(drv->ops->write(drv, p, 0, &v, 4, &err), KL_ESUBMIT, "cuMemcpyHtoDAsync");
    for (int k = 0; k < 2; k++) { /* what waits for a write */
        void *e = new_event();
        struct test_launch l = count(o, &v, &one);
        WELL(drv->ops->write(drv, p, 0, &v, 4, &err));
        fake.break_call(k ? "cuStreamWaitEvent" : "cuEventRecord", 0, INVALID);
        ILL(submit(q, &l, 1, NULL, NULL, e, &err), KL_ESUBMIT,
            k ? "cuStreamWaitEvent" : "cuEventRecord");
        drv->ops->event_free(drv, e);
        e = new_event();
        WELL(submit(q, &l, 1, NULL, NULL, e, &err));
        wait_for(e);
        drv->ops->event_free(drv, e);
    }
    check_count(p, 9, 1);
    WELL(drv->ops->write(drv, p, 0, &v, 4, &err));
    device_free(p, N * 4); /* with a write that may not have run */
    device_free(o, N * 4);
    device_free(block, big);
    free(host);
    free(back);
}

/* The three dimensions and the size of shared memory reach CUDA unchanged. A kernel asks once for
 * all that there is beside what it declares itself, and not at its launches, which are many. */
static void test_launch_3d(void **state) {
    const unsigned *(*last_launch)(void);
    void *lib = dlopen(getenv("KEEL_CUDA_DRIVER"), RTLD_NOW), *p = dlsym(lib, "fake_last_launch");
    memcpy(&last_launch, &p, sizeof p);
    const uint32_t groups[] = {3, 4, 5}, local[] = {8, 2, 6};
    const size_t has = cu->driver.dynamic_bytes;
    uint32_t n = 1;
    struct kl_karg arg = KL_KARG(n);
    void *q = new_queue(), *module = NULL, *kernel = NULL;
    cu->driver.dynamic_bytes = 200000;
    WELL(cu->driver.ops->load(&cu->driver, "image", 6, &module, &err));
    WELL(cu->driver.ops->find(&cu->driver, module, "nothing", &kernel, &err));
    WELL(cu->driver.ops->launch_3d(&cu->driver, q, kernel, groups, local, 4096, &arg, 1, &err));
    const unsigned *last = last_launch();
    assert_memory_equal(last, ((const unsigned[]){3, 4, 5, 8, 2, 6, 4096, 200000}),
                        8 * sizeof *last);
    fake.break_call("cuFuncSetAttribute", 0, INVALID);
    fake.break_call("cuFuncGetAttribute", 0, INVALID);
    WELL(cu->driver.ops->launch_3d(&cu->driver, q, kernel, groups, local, 100000, &arg, 1, &err));
    WELL(cu->driver.ops->launch_3d(&cu->driver, q, kernel, groups, local, 60000, &arg, 1, &err));
    void *both = new_event();
    WELL(submit(q, NULL, 0, NULL, NULL, both, &err));
    wait_for(both);
    drv->ops->event_free(drv, both);
    assert_int_equal(last[6], 60000);
    ILL(cu->driver.ops->find(&cu->driver, module, "nothing", &kernel, &err), KL_ESUBMIT,
        "cuFuncGetAttribute");
    ILL(cu->driver.ops->find(&cu->driver, module, "nothing", &kernel, &err), KL_ESUBMIT,
        "cuFuncSetAttribute");
    fake.limits(1024, 40 << 10);
    WELL(cu->driver.ops->find(&cu->driver, module, "nothing", &kernel, &err));
    WELL(cu->driver.ops->launch_3d(&cu->driver, q, kernel, groups, local, 9 << 10, &arg, 1, &err));
    assert_int_equal(last[7], cu->driver.dynamic_bytes - (40 << 10));
    both = new_event();
    WELL(submit(q, NULL, 0, NULL, NULL, both, &err));
    wait_for(both);
    drv->ops->event_free(drv, both);
    fake.limits(1024, 0);
    WELL(cu->driver.ops->find(&cu->driver, module, "nothing", &kernel, &err));
    void *e = new_event(); /* the kernels must have run, since later tests count kernels */
    WELL(submit(q, NULL, 0, NULL, NULL, e, &err));
    wait_for(e);
    drv->ops->event_free(drv, e);
    cu->driver.dynamic_bytes = has;
    assert_int_equal(cu->driver.max_groups[0], INT32_MAX);
    assert_int_equal(cu->driver.max_groups[2], 65535);
    assert_int_equal(cu->driver.max_group[2], 64);
    assert_true(cu->driver.compiles_cuda);
}

/* CUDA would refuse such a launch, and with it a whole command buffer. So it is refused when the
 * operation is encoded. */
static int prepare_grid(const char *source, uint32_t threads, size_t shared_bytes,
                        struct kl_error **err) {
    struct kl_emit e = {.lowering = cu->driver.lowering,
                        .driver = &cu->driver,
                        .queue = NULL,
                        .dry = true,
                        .err = err};
    struct kl_grid_launch g = {.name = "mine",
                               .source = source,
                               .entry = "nothing",
                               .bare = true,
                               .groups = {1, 1, 1},
                               .local = {threads / 2, 2, 1},
                               .shared_bytes = shared_bytes};
    return kl_emit_grid(&e, &g, NULL, 0);
}

static void test_limits(void **state) {
    size_t has = cu->driver.dynamic_bytes;
    cu->driver.dynamic_bytes = 100000;
    fake.limits(256, 40000);
    WELL(prepare_grid("a", 256, 60000, &err));
    ILL(prepare_grid("a", 258, 0, &err), KL_EARG,
        "kernel 'mine': thread group (129, 2, 1) is 258 threads; this device takes 256");
    ILL(prepare_grid("a", 256, 60001, &err), KL_EARG,
        "kernel 'mine': 40000 bytes of shared memory in its source and 60001 in the call; this "
        "device has 100000");
    fake.limits(256, 49153); /* only a larger size in the call would raise the limit */
    ILL(prepare_grid("b", 256, 0, &err), KL_EARG, "this device has 49152 per group");
    fake.limits(64, 0);
    struct test_launch l = {"nothing", "c", {{0}}, 0, 1};
    struct kl_command c = {.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .params = &l};
    ILL(kl_driver_prepare(drv, &c, &(size_t){0}, &err), KL_EUNSUPPORTED,
        "nothing: groups of 256 work-items; this device takes 64");
    fake.limits(1024, 0);
    fake.break_call("cuFuncGetAttribute", 1, OOM);
    ILL(prepare_grid("d", 256, 0, &err), KL_ENOMEM, "cuFuncGetAttribute");
    WELL(prepare_grid("d", 256, 0, &err));
    cu->driver.dynamic_bytes = has;
}

/* ---- notification ---- */

static void test_notification(void **state) {
    uint32_t first = 0, n = 10;
    void *p = device_block(64), *q = new_queue();
    struct sleeper s = {.event = new_event()};
    struct test_launch l = count(p, &first, &n);
    fake.pause(1);
    WELL(submit(q, &l, 1, NULL, NULL, s.event, &err));
    uint64_t calls = fake.number(HOST_CALLS);
    assert_int_equal(pthread_create(&s.thread, NULL, sleeps, &s), 0);
    while (!atomic_load(&((struct kl_cuda_event *)s.event)->armed)) sched_yield();
    assert_int_equal(drv->ops->event_query(drv, s.event), 0);
    fake.pause(0);
    pthread_join(s.thread, NULL);
    check_count(p, 0, n);
    assert_true(fake.number(HOST_CALLS) <= calls + 1);
    drv->ops->event_free(drv, s.event);
    /* Nobody slept, so nobody is notified. */
    void *e = new_event();
    WELL(submit(q, &l, 1, NULL, NULL, e, &err));
    check_count(p, 0, n);
    while (drv->ops->event_query(drv, e) == 0) sched_yield();
    drv->ops->event_free(drv, e);
    assert_true(fake.number(HOST_CALLS) <= calls + 1);
    device_free(p, 64);
}

/* An event may be given back before CUDA notifies. No other submission may get this event until the
 * notification has come. */
static void test_late_notification(void **state) {
    void *q = new_queue(), *e = new_event(), *others[8];
    uint64_t calls = fake.number(HOST_CALLS);
    fake.pause(1);
    WELL(submit(q, NULL, 0, NULL, NULL, e, &err));
    struct sleeper s = {.event = e};
    pthread_create(&s.thread, NULL, sleeps, &s);
    while (!atomic_load(&((struct kl_cuda_event *)e)->armed)) sched_yield();
    /* The GPU layer sets this when a consumer has proved the event's work complete. */
    atomic_store(&((struct kl_cuda_event *)e)->done, true);
    drv->ops->wake(drv);
    pthread_join(s.thread, NULL);
    drv->ops->event_free(drv, e);
    for (int i = 0; i < 8; i++) assert_ptr_not_equal(others[i] = new_event(), e);
    fake.pause(0);
    while (fake.number(HOST_CALLS) == calls) sched_yield();
    for (int i = 0; i < 8; i++) {
        /* No other event is complete by mistake. */
        assert_int_equal(drv->ops->event_query(drv, others[i]), 0);
        drv->ops->event_free(drv, others[i]);
    }
}

/* When CUDA refuses to notify, the sleeping thread polls. */
static void test_no_notification(void **state) {
    void *q = new_queue();
    static const char *const calls[] = {"cuStreamWaitEvent", "cuLaunchHostFunc"};
    for (int k = 0; k < 2; k++) {
        struct sleeper s = {.event = new_event()};
        fake.pause(1);
        WELL(submit(q, NULL, 0, NULL, NULL, s.event, &err));
        fake.break_call(calls[k], 0, INVALID);
        pthread_create(&s.thread, NULL, sleeps, &s);
        while (!atomic_load(&((struct kl_cuda_event *)s.event)->armed))
            sched_yield(); /* set even when CUDA refuses */
        fake.pause(0);
        pthread_join(s.thread, NULL);
        drv->ops->event_free(drv, s.event);
    }
}

/* Without page-locked memory, large copies work and are only slower. */
static void test_no_staging(void **state) {
    assert_null(cu->staging[0].host); /* no test before this one makes large copies */
    size_t n = 1 << 20;
    unsigned char *a = malloc(n), *b = calloc(1, n);
    for (size_t i = 0; i < n; i++) a[i] = (unsigned char)(i * 31);
    void *p = device_block(n);
    fake.break_call("cuMemHostAlloc", 0, OOM);
    WELL(drv->ops->write(drv, p, 0, a, n, &err));
    assert_null(cu->staging[0].host);
    fake.break_call("cuMemHostAlloc", 1, OOM);
    WELL(drv->ops->read(drv, p, 0, b, n, &err));
    assert_memory_equal(a, b, n);
    assert_non_null(cu->staging[0].host);
    assert_null(cu->staging[1].host);
    device_free(p, n);
    free(a);
    free(b);
}

/* An allocation beyond the device's memory is KL_ENOMEM, and the message has the size. */
static void test_budget(void **state) {
    void *p = NULL;
    fake.budget(1000);
    ILL(drv->ops->alloc(drv, 5000, &p, &err), KL_ENOMEM, "5000 bytes wanted");
    p = device_block(1000);
    fake.budget(0);
    device_free(p, 1000);
}

/* The first use of the device makes the context. When that fails, the next use tries again. */
static void test_context(void **state) {
    static const char *const calls[] = {"cuDevicePrimaryCtxRetain", "cuStreamCreate",
                                        "cuStreamCreate"};
    void *p = NULL;
    assert_null(atomic_load(&cu->context));
    for (int k = 0; k < 3; k++) {
        fake.break_call(calls[k], k == 2, OOM);
        ILL(drv->ops->alloc(drv, 64, &p, &err), KL_ENOMEM, calls[k]);
        assert_null(atomic_load(&cu->context));
    }
    p = device_block(64);
    assert_non_null(atomic_load(&cu->context));
    assert_int_equal(fake.number(STREAMS), 2);
    device_free(p, 64);
}

/* An integrated device: its blocks are memory of the host, and its kernels may use blocks of the
 * host. */
static void test_shared(void **state) {
    struct kl_backend *b = NULL;
    struct kl_cuda *card = cu;
    assert_false(cu->driver.shares);
    WELL(kl_cuda_open(1, &b, &err));
    struct kl_memory *m = b->memory;
    drv = kl_gpu_device_of(b)->driver;
    cu = kl_cuda_of(drv);
    cu->driver.ops = &test_ops;
    assert_true(drv->shares && m->share);
    uint32_t n = 3000, *mine = NULL;
    _Alignas(64) static uint32_t given[3000];
    void *q = new_queue(), *e = new_event();
    for (uint32_t i = 0; i < n; i++) given[i] = i;
    /* The host reads a block of the device in place, and the device uses a block of the host in
     * place. */
    WELL(kl_pool_attach(m, &err));
    struct kl_buffer *out = kl_buffer_new(n * 4), *in = kl_buffer_new(n * 4);
    struct kl_block *seen = NULL;
    WELL(kl_block_alloc(m, n * 4, NULL, &out->block, &err));
    in->block = kl_block_new_user(given, n * 4, NULL, NULL);
    WELL(kl_buffer_reach(in, m, &seen, &err));
    assert_ptr_equal(seen, in->block);
    struct test_launch l = add_one(seen->ptr, out->block->ptr, &n);
    WELL(submit(q, &l, 1, NULL, NULL, e, &err));
    wait_for(e);
    struct kl_memory host = {.is_host = true};
    WELL(kl_buffer_reach(out, &host, &seen, &err));
    assert_ptr_equal(seen, out->block);
    mine = seen->ptr;
    for (uint32_t i = 0; i < n; i++) assert_int_equal(mine[i], i + 1);
    assert_null(atomic_load(&in->mirrors));
    assert_null(atomic_load(&out->mirrors));
    drv->ops->event_free(drv, e);
    /* A misaligned address would end the context, so such a block is copied. */
    struct kl_buffer *misaligned = kl_buffer_new(100);
    misaligned->block = kl_block_new_user(&given[1], 100, NULL, NULL);
    WELL(kl_buffer_reach(misaligned, m, &seen, &err));
    assert_ptr_not_equal(seen, misaligned->block);
    assert_ptr_equal(atomic_load(&misaligned->block->shared_by), &kl_memory_copied);
    kl_buffer_release(misaligned);
    kl_buffer_release(in);
    kl_buffer_release(out);
    kl_memory_clear_cache();
    fake.break_call("cuMemAllocManaged", 0, OOM);
    void *p = NULL;
    ILL(drv->ops->alloc(drv, 64, &p, &err), KL_ENOMEM, "64 bytes wanted");
    cu = card;
    drv = &cu->driver;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),           cmocka_unit_test(test_context),
        cmocka_unit_test(test_no_staging),      COMMON_TESTS,
        cmocka_unit_test(test_notification),    cmocka_unit_test(test_late_notification),
        cmocka_unit_test(test_no_notification), cmocka_unit_test(test_launch_3d),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_kept_graphs),
        cmocka_unit_test(test_early),           cmocka_unit_test(test_small_writes),
        cmocka_unit_test(test_budget),          cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
