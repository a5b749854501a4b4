/* cuda_common.h - the tests of the CUDA driver that run on fake_cuda.c and on a real device. */
#pragma once
#include "cuda_support.h"

static void test_copies(void **state) {
    static const size_t sizes[] = {
        0, 1, 63, 65535, 65536, 300001, (1 << 20) + 1, (9 << 20) + 3, 40 << 20};
    size_t most = 41 << 20;
    unsigned char *a = malloc(most), *b = malloc(most);
    for (size_t i = 0; i < most; i++) a[i] = (unsigned char)(i * 7 + i / 251);
    char *p = device_block(most);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t offset = 0; offset < 2000; offset += 1237) {
            size_t n = sizes[k];
            memset(b, 0, n + 1);
            WELL(drv->ops->write(drv, p, offset, a + k, n, &err));
            WELL(drv->ops->read(drv, p, offset, b, n, &err));
            assert_memory_equal(a + k, b, n);
            assert_int_equal(b[n], 0);
        }
    /* A write at an offset changes the bytes there and leaves the neighbouring bytes unchanged. */
    WELL(drv->ops->write(drv, p, 0, a, 1000, &err));
    WELL(drv->ops->write(drv, p, 500, a + 7, 10, &err));
    WELL(drv->ops->read(drv, p, 490, b, 30, &err));
    assert_memory_equal(b, a + 490, 10);
    assert_memory_equal(b + 10, a + 7, 10);
    assert_memory_equal(b + 20, a + 510, 10);
    device_free(p, most);
    free(a);
    free(b);
}

static void test_copies_of_threads(void **state) {
    copy_on_threads(drv);
}

static void test_kernels(void **state) {
    uint32_t first = 5, n = 3000;
    void *p = device_block(n * 4), *o = device_block(n * 4), *q = new_queue(), *e = new_event();
    assert_int_equal(drv->ops->event_query(drv, e), 0); /* the event is not submitted yet */
    struct test_launch l[] = {count(p, &first, &n), add_one(p, o, &n), add_one(o, o, &n)};
    WELL(submit(q, l, 3, NULL, NULL, e, &err));
    wait_for(e);
    check_count(p, 5, n);
    check_count(o, 7, n);
    drv->ops->event_free(drv, e);
    /* A copy on the device, through the driver. */
    e = new_event();
    WELL(cu->driver.ops->copy(&cu->driver, q, p, o, n * 4, &err));
    WELL(submit(q, NULL, 0, NULL, NULL, e, &err));
    wait_for(e);
    check_count(p, 7, n);
    drv->ops->event_free(drv, e);
    device_free(p, n * 4);
    device_free(o, n * 4);
}

static void test_chains(void **state) {
    static const int lengths[] = {1, 3, 4, 5, 8, 15, 31, 63, 64, 65, 127, 128, MOST};
    void *q[] = {new_queue(), new_queue()};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (uint32_t i = 0; i < 4; i++) run_chain(q[i % 2], lengths[k], 100 * i);
}

/* Arguments of thousands of bytes each, which together are more than the buffer of waiting
 * arguments. */
static void test_long_arguments(void **state) {
    enum { BYTES = 3000, LAUNCHES = 40 };
    static char big[BYTES];
    static const char source[] = "struct big {\n    u32 v[750];\n};\n"
                                 "KERNEL(add_last)(struct big b, PTR(out)) {\n"
                                 "    if (gid() == 0) AT(u32, out)[0] += b.v[749];\n"
                                 "}\n";
    uint32_t first = 7, one = 1, *last = (uint32_t *)(big + BYTES - 4);
    void *p = device_block(4), *q = new_queue(), *e = new_event();
    struct test_launch l[LAUNCHES];
    *last = 5;
    l[0] = count(p, &first, &one);
    for (int i = 1; i < LAUNCHES; i++)
        l[i] = (struct test_launch){"add_last", source, {{big, BYTES, 0}, KL_KARG_PTR(p, 1)}, 2, 1};
    WELL(submit(q, l, LAUNCHES, NULL, NULL, e, &err));
    *last = 6; /* the arguments were copied at the submission */
    wait_for(e);
    check_count(p, 7 + 5 * (LAUNCHES - 1), 1);
    drv->ops->event_free(drv, e);
    device_free(p, 4);
}

/* Work alternates between two queues and always waits for the event of the other queue. */
static void test_events_between_queues(void **state) {
    enum { ROUNDS = 60 };
    uint32_t first = 0, n = 100000;
    void *p = device_block(n * 4), *q[2] = {new_queue(), new_queue()}, *e[ROUNDS];
    struct test_launch l = count(p, &first, &n), more = add_one(p, p, &n);
    for (int i = 0; i < ROUNDS; i++) {
        e[i] = new_event();
        WELL(submit(q[i % 2], i ? &more : &l, 1, i ? e[i - 1] : NULL, NULL, e[i], &err));
    }
    wait_for(e[ROUNDS - 1]);
    check_count(p, ROUNDS - 1, n);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(drv->ops->event_query(drv, e[i]), 1);
        drv->ops->event_free(drv, e[i]);
    }
    device_free(p, n * 4);
}

/* Reads the fault words as settlement does. */
static void fetch(struct kl_fault_words *w) {
    if (w->host[0] != KL_WORD_CLEAR) WELL(drv->ops->words_fetch(drv, w, &err));
}

static void test_fault_words(void **state) {
    enum { CHUNKS = KL_SLAB_WORDS + 3 }; /* needs more than one slab */
    static struct kl_fault_words w[CHUNKS];
    uint32_t index = 9, position = 1234, other = 3, lower = 77;
    void *q = new_queue(), *e = new_event();
    for (int i = 0; i < CHUNKS; i++) {
        WELL(drv->ops->words_new(drv, &w[i], &err));
        for (int k = 0; k < KL_WORDS; k++) assert_int_equal(w[i].host[k], KL_WORD_CLEAR);
        for (int k = 0; k < i; k++) assert_ptr_not_equal(w[i].device, w[k].device);
    }
    struct test_launch l[] = {raise_fault(w[1].device, &index, &position),
                              raise_fault(w[1].device, &other, &position),
                              raise_fault(w[1].device, &index, &lower)};
    WELL(submit(q, l, 3, NULL, &w[1], e, &err));
    wait_for(e);
    assert_int_not_equal(w[1].host[0], KL_WORD_CLEAR);
    fetch(&w[1]);
    for (int k = 0; k < KL_WORDS; k++)
        assert_int_equal(w[1].host[k], k == 0 ? 3 : k == 3 ? 1234 : k == 9 ? 77 : KL_WORD_CLEAR);
    /* The neighbouring words have not fired, on the host and on the device. */
    void *e2 = new_event();
    WELL(submit(q, NULL, 0, NULL, &w[2], e2, &err));
    wait_for(e2);
    assert_int_equal(w[2].host[0], KL_WORD_CLEAR);
    drv->ops->words_clear(drv, &w[1]);
    assert_int_equal(w[1].host[9], KL_WORD_CLEAR);
    memset(w[1].host, 0, KL_WORDS * 4);
    fetch(&w[1]);
    for (int k = 0; k < KL_WORDS; k++) assert_int_equal(w[1].host[k], KL_WORD_CLEAR);
    /* The host is notified again after a clear. */
    void *e3 = new_event();
    WELL(submit(q, l, 1, NULL, &w[1], e3, &err));
    wait_for(e3);
    fetch(&w[1]);
    assert_int_equal(w[1].host[9], 1234);
    drv->ops->words_clear(drv, &w[1]);
    drv->ops->event_free(drv, e);
    drv->ops->event_free(drv, e2);
    drv->ops->event_free(drv, e3);
}

static void test_compile_errors(void **state) {
    struct test_launch bad = {"k", "KERNEL(k)(u32 n) {\n    MISTAKE;\n}\n", {{0}}, 0, 1};
    struct test_launch absent = {"absent", NULL, {{0}}, 0, 1};
    struct kl_command c = {.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .params = &bad};
    ILL(kl_driver_prepare(drv, &c, &(size_t){0}, &err), KL_ECOMPILE, "MISTAKE");
    ILL(kl_driver_prepare(drv, &c, &(size_t){0}, &err), KL_ECOMPILE,
        "(2)"); /* the compilation is tried again */
    c.params = &absent;
    ILL(kl_driver_prepare(drv, &c, &(size_t){0}, &err), KL_ECOMPILE, "absent");
    struct test_launch good = {"nothing", NULL, {{0}}, 0, 1};
    c.params = &good;
    WELL(kl_driver_prepare(drv, &c, &(size_t){0}, &err));
}

static void test_out_of_memory(void **state) {
    void *p = NULL;
    ILL(drv->ops->alloc(drv, (size_t)1 << 48, &p, &err), KL_ENOMEM, "281474976710656 bytes wanted");
    p = device_block(100); /* the device can still be used */
    device_free(p, 100);
}

static void test_wake(void **state) {
    void *e = new_event();
    drv->ops->wake(drv);
    drv->ops->wait_any(drv, &e, 1); /* returns because of the earlier wake */
    drv->ops->wake(drv);
    drv->ops->wait_any(drv, NULL, 0);
    assert_int_equal(drv->ops->event_query(drv, e), 0);
    drv->ops->event_free(drv, e);
}

/* The last test: in the child process the device refuses all work, without a call of CUDA. */
static void test_fork(void **state) {
    void *p = device_block(64), *q = new_queue(), *e = new_event();
    struct kl_fault_words w = {0};
    WELL(drv->ops->words_new(drv, &w, &err));
    pid_t child = fork();
    if (child == 0) {
        char b[64];
        void *x;
        struct kl_error *err = NULL;
        drv->ops->forked(drv);
        int bad = 0;
        bad |= (drv->ops->read(drv, p, 0, b, 64, &err) != KL_EDEVICE) << 0;
        bad |= (!err || !strstr(err->message, "forked")) << 1;
        bad |= (drv->ops->write(drv, p, 0, b, 64, NULL) != KL_EDEVICE) << 2;
        bad |= (drv->ops->alloc(drv, 64, &x, NULL) != KL_EDEVICE) << 3;
        bad |= (drv->ops->event_new(drv, &x, NULL) != KL_EDEVICE) << 4;
        bad |= (submit(q, NULL, 0, NULL, NULL, e, NULL) != KL_EDEVICE) << 5;
        drv->ops->words_clear(drv, &w);
        drv->ops->event_free(drv, e);
        drv->ops->free(drv, p, 64);
        drv->ops->wake(drv);
        drv->ops->wait_any(drv, &e, 1);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    drv->ops->event_free(drv, e);
    device_free(p, 64);
}

#define COMMON_TESTS                                                                         \
    cmocka_unit_test(test_copies), cmocka_unit_test(test_copies_of_threads),                 \
        cmocka_unit_test(test_kernels), cmocka_unit_test(test_chains),                       \
        cmocka_unit_test(test_long_arguments), cmocka_unit_test(test_events_between_queues), \
        cmocka_unit_test(test_fault_words), cmocka_unit_test(test_compile_errors),           \
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_wake),                   \
        cmocka_unit_test(test_fork)
