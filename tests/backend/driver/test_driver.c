/* test_driver.c - what every driver must do, at the level of driver.h: the same suites for each.
 *
 * KEEL_TEST_DRIVER=sim|opencl|fake_cuda|cuda|empty chooses the driver (driver_support.h). A suite
 * names what it needs of a driver; one that the driver does not have is printed as not applicable.
 * docs/new-driver.md tells how a new driver is brought up with it. */
#include "backend/driver/driver_support.h"
#include "backend/driver/empty_suites.h"

enum { N = 3000 };

/* ---- memory ---- */

static void blocks_are_read_and_written(void **state) {
    static const size_t sizes[] = {0, 1, 63, 65535, 65536, (1 << 20) + 1, (9 << 20) + 3};
    size_t most = 10 << 20;
    unsigned char *a = malloc(most), *b = malloc(most);
    for (size_t i = 0; i < most; i++) a[i] = (unsigned char)(i * 7 + i / 251);
    char *p = new_block(most);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (size_t offset = 0; offset < 2000; offset += 1237) {
            size_t n = sizes[k];
            memset(b, 0, n + 1);
            WELL(drv->ops->write(drv, p, offset, a + k, n, &err));
            WELL(drv->ops->read(drv, p, offset, b, n, &err));
            assert_memory_equal(a + k, b, n);
            assert_int_equal(b[n], 0);
        }
    /* A write at an offset leaves the neighbouring bytes unchanged. */
    WELL(drv->ops->write(drv, p, 0, a, 1000, &err));
    WELL(drv->ops->write(drv, p, 500, a + 7, 10, &err));
    WELL(drv->ops->read(drv, p, 490, b, 30, &err));
    assert_memory_equal(b, a + 490, 10);
    assert_memory_equal(b + 10, a + 7, 10);
    assert_memory_equal(b + 20, a + 510, 10);
    free_block(p, most);
    free(a);
    free(b);
}

static void an_allocation_may_be_too_large(void **state) {
    void *p = NULL;
    ILL(drv->ops->alloc(drv, (size_t)1 << 48, &p, &err), KL_ENOMEM, "281474976710656 bytes");
    free_block(new_block(100), 100); /* the device can still be used */
}

/* Every allocation of memory of the host may fail: the slot then fails with KL_ENOMEM, or does
 * without. */
static void allocations_of_the_host_may_fail(void **state) {
    int n_failed = 0;
    for (int which = 0; which < 4; which++) {
        bool more = true;
        for (int n = 0; more; n++) {
            struct kl_fault_words w = {0};
            struct kl_error *err = NULL;
            void *made = NULL;
            kl_test_fail_alloc_at(n);
            int rc = which == 0   ? drv->ops->alloc(drv, 100, &made, &err)
                     : which == 1 ? drv->ops->queue_new(drv, 250, &made, &err)
                     : which == 2 ? drv->ops->event_new(drv, &made, &err)
                                  : drv->ops->words_new(drv, &w, &err);
            more = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            assert_true(rc == KL_OK || (more && rc == KL_ENOMEM));
            if (rc) {
                assert_int_equal(err->code, KL_ENOMEM);
                kl_error_release(err);
                n_failed++;
            } else {
                if (which == 0) free_block(made, 100);
                if (which == 1) keep(made);
                if (which == 2) drv->ops->event_free(drv, made);
                if (which == 3) keep(w.host);
            }
        }
    }
    assert_true(n_failed > 0);
}

static void threads_copy_at_once(void **state) {
    copy_on_threads(drv);
}

/* ---- queues, events, order ---- */

static void an_event_waits_for_its_submission(void **state) {
    void *e = new_event(), *q = new_queue();
    struct commands s;
    assert_int_equal(drv->ops->event_query(drv, e), 0);
    WELL(submit(q, &s, NULL, 0, NULL, NULL, e, &err)); /* a submission without commands */
    wait_for(e);
    drv->ops->event_free(drv, e);
    drv->ops->event_free(drv, new_event()); /* an event may be freed without a submission */
}

static void commands_run_in_order(void **state) {
    void *p[] = {new_block(N * 4), new_block(N * 4)}, *q = new_queue();
    struct call calls[MOST];
    static const int lengths[] = {1, 3, 5, 15, 31, 64, MOST};
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        const int length = lengths[k];
        count(&calls[0], p[0], 5, N);
        for (int i = 1; i < length; i++) add_one(&calls[i], p[(i - 1) % 2], p[i % 2], N);
        run(q, calls, length, NULL);
        expect_count(p[(length - 1) % 2], 5 + (uint32_t)length - 1, N);
    }
    free_block(p[0], N * 4);
    free_block(p[1], N * 4);
}

/* Each queue has counters of its own, which are 0 while no kernel runs, also after a submission
 * that was given up. */
static void counters_are_clear(void **state) {
    static uint32_t zero[KL_COUNTERS], words[KL_COUNTERS];
    void *q[] = {new_queue(), new_queue()}, *counters[2];
    for (int i = 0; i < 2; i++) {
        counters[i] = drv->ops->counters(q[i]);
        struct call c;
        void *p = new_block(N * 4);
        count(&c, p, 5, N);
        run(q[i], &c, 1, NULL);
        WELL(drv->ops->begin(drv, q[i], NULL, 0, &err));
        assert_int_equal(drv->ops->abandon(drv, q[i]), KL_OK);
        memset(words, 0xA5, sizeof words);
        WELL(drv->ops->read(drv, counters[i], 0, words, sizeof words, &err));
        assert_memory_equal(words, zero, sizeof words);
        free_block(p, N * 4);
    }
    const char *a = counters[0], *b = counters[1];
    assert_true(a + sizeof words <= b || b + sizeof words <= a);
}

/* Submissions of one queue run in order without events; the event of the last one tells that all
 * are complete. */
static void submissions_run_in_order(void **state) {
    enum { ROUNDS = 40 };
    void *p = new_block(N * 4), *q = new_queue(), *e[ROUNDS];
    static struct commands s[ROUNDS];
    static struct call calls[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        e[i] = new_event();
        if (i == 0) count(&calls[i], p, 0, N);
        if (i != 0) add_one(&calls[i], p, p, N);
        WELL(submit(q, &s[i], &calls[i], 1, NULL, NULL, e[i], &err));
    }
    wait_for(e[ROUNDS - 1]);
    expect_count(p, ROUNDS - 1, N);
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(e[i]);
        drv->ops->event_free(drv, e[i]);
    }
    free_block(p, N * 4);
}

/* Work alternates between two queues and always waits for the event of the other queue. */
static void events_order_queues(void **state) {
    enum { ROUNDS = 60 };
    void *p = new_block(N * 4), *q[2] = {new_queue(), new_queue()}, *e[ROUNDS];
    static struct commands s[ROUNDS];
    static struct call calls[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        e[i] = new_event();
        if (i == 0) count(&calls[i], p, 0, N);
        if (i != 0) add_one(&calls[i], p, p, N);
        WELL(submit(q[i % 2], &s[i], &calls[i], 1, i ? e[i - 1] : NULL, NULL, e[i], &err));
    }
    wait_for(e[ROUNDS - 1]);
    expect_count(p, ROUNDS - 1, N);
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(e[i]);
        drv->ops->event_free(drv, e[i]);
    }
    free_block(p, N * 4);
}

/* One submission waits for many others. */
static void a_submission_waits_for_many(void **state) {
    enum { QUEUES = 20 };
    void *p = new_block(QUEUES * 4), *e[QUEUES], *last = new_event(), *q = new_queue();
    static struct commands s[QUEUES], t;
    static struct call calls[QUEUES], more;
    for (uint32_t i = 0; i < QUEUES; i++) {
        e[i] = new_event();
        count(&calls[i], (uint32_t *)p + i, i, 1);
        WELL(submit(new_queue(), &s[i], &calls[i], 1, NULL, NULL, e[i], &err));
    }
    add_one(&more, p, p, QUEUES);
    t.c[0] = (struct kl_command){
        .kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = more.entry, .params = &more};
    WELL(kl_driver_submit(drv, q, t.c, 1, e, QUEUES, NULL, last, &err));
    wait_for(last);
    expect_count(p, 1, QUEUES);
    for (int i = 0; i < QUEUES; i++) {
        wait_for(e[i]);
        drv->ops->event_free(drv, e[i]);
    }
    drv->ops->event_free(drv, last);
    free_block(p, QUEUES * 4);
}

/* wake ends a wait for an event that is not submitted; it also counts before the wait. */
static void wake_ends_a_wait(void **state) {
    void *e = new_event();
    drv->ops->wake(drv);
    drv->ops->wait_any(drv, &e, 1);
    assert_int_equal(drv->ops->event_query(drv, e), 0);
    drv->ops->event_free(drv, e);
}

/* ---- fault words ---- */

static void faults_are_the_smallest(void **state) {
    struct kl_fault_words *w = new_words(), *other = new_words();
    void *q = new_queue();
    struct call calls[3];
    expect_clear(w);
    assert_ptr_not_equal(w->device, other->device);
    raise_fault(&calls[0], w, 9, 1234);
    raise_fault(&calls[1], w, 3, 1234);
    raise_fault(&calls[2], w, 9, 77);
    run(q, calls, 3, w);
    assert_int_not_equal(w->host[0], KL_WORD_CLEAR);
    fetch(w);
    for (int k = 0; k < KL_WORDS; k++)
        assert_int_equal(w->host[k], k == 0 ? 3 : k == 3 ? 1234 : k == 9 ? 77 : KL_WORD_CLEAR);
    /* Other chunks are as they were. */
    run(q, NULL, 0, other);
    expect_clear(other);
    /* The host learns of a fault again after a clear. */
    drv->ops->words_clear(drv, w);
    run(q, NULL, 0, w);
    expect_clear(w);
    run(q, calls, 1, w);
    fetch(w);
    assert_int_equal(w->host[0], 9);
    assert_int_equal(w->host[9], 1234);
    drv->ops->words_clear(drv, w);
}

/* ---- preparing and submitting ---- */

static void commands_are_prepared(void **state) {
    struct call c;
    void *p = new_block(4);
    size_t bytes = 5;
    count(&c, p, 0, 1);
    WELL(prepare(&c, &bytes, &err));
    assert_int_equal(bytes, 0);
    free_block(p, 4);
}

static const char with_mistake[] = "KERNEL(k)(PARAM(u32, n)) {\n    MISTAKE;\n}\n";

static void kernels_that_do_not_compile_are_named(void **state) {
    struct call bad, absent, good;
    size_t bytes;
    of_source(&bad, "k", with_mistake);
    of_source(&absent, "absent", NULL);
    for (int i = 0; i < 2; i++) { /* a failure is not remembered: the compiler is asked again */
        ILL(prepare(&bad, &bytes, &err), KL_ECOMPILE, "MISTAKE");
        ILL(prepare(&absent, &bytes, &err), KL_ECOMPILE, "absent");
    }
    of_source(&good, "nothing", NULL);
    WELL(prepare(&good, &bytes, &err));
}

static void compilers_name_the_line(void **state) {
    struct call bad;
    size_t bytes;
    of_source(&bad, "k", with_mistake);
    ILL(prepare(&bad, &bytes, &err), KL_ECOMPILE, "2");
}

/* Starts to make what the call needs. */
static int start(struct call *call, struct kl_pending *pending, struct kl_error **err) {
    const struct kl_command c = {
        .kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .name = call->entry, .params = call};
    size_t bytes;
    return kl_driver_start(drv, &c, pending, &bytes, err);
}

/* Several programs are started before the first one is waited for, and one among them fails. A
 * driver with helper_begin compiles them at the same time. */
static void programs_are_started_together(void **state) {
    enum { STARTED = 8 };
    static char text[STARTED][sizeof kernels_text + 32];
    struct call c[STARTED], bad;
    struct kl_pending good = {0}, failing = {0};
    struct kl_error *why = NULL;
    void *p = new_block(N * 4);
    of_source(&bad, "k", with_mistake);
    for (int i = 0; i < STARTED; i++) {
        snprintf(text[i], sizeof text[i], "/* program %d */\n%s", i, kernels_text);
        if (i == 0)
            count(&c[i], p, 3, N);
        else
            add_one(&c[i], p, p, N);
        c[i].source = text[i];
        WELL(start(&c[i], &good, &err));
        if (i != STARTED / 2) continue;
        int rc = start(&bad, &failing, &why);
        if (!rc) rc = kl_driver_wait(drv, &failing, &why);
        assert_int_equal(rc, KL_ECOMPILE);
        assert_non_null(strstr(why->message, "MISTAKE"));
        kl_error_release(why);
    }
    WELL(kl_driver_wait(drv, &good, &err));
    assert_true(kl_driver_is_ready(&good));
    run(new_queue(), c, STARTED, NULL);
    expect_count(p, 3 + STARTED - 1, N);
    free_block(p, N * 4);
}

/* A submission fails after some of it was launched. On return nothing of it runs, its words are
 * clear, and its event is not complete; then the queue can be used. */
static void expect_nothing_left(void *q, void *p, void *e, struct kl_fault_words *w) {
    struct call c;
    assert_int_equal(drv->ops->event_query(drv, e), 0);
    drv->ops->event_free(drv, e);
    expect_clear(w);
    run(q, NULL, 0, w);
    expect_clear(w);
    count(&c, p, 7, N);
    run(q, &c, 1, w);
    expect_count(p, 7, N);
}

static void a_command_of_a_submission_may_fail(void **state) {
    struct kl_fault_words *w = new_words();
    void *p = new_block(N * 4), *q = new_queue(), *e = new_event();
    struct commands s;
    struct call calls[3];
    count(&calls[0], p, 0, N);
    raise_fault(&calls[1], w, 5, 6);
    of_source(&calls[2], "k", with_mistake);
    ILL(submit(q, &s, calls, 3, NULL, w, e, &err), KL_ECOMPILE, "MISTAKE");
    expect_nothing_left(q, p, e, w);
    free_block(p, N * 4);
}

static void a_submission_may_be_refused(void **state) {
    struct kl_fault_words *w = new_words();
    void *p = new_block(N * 4), *q = new_queue(), *e = new_event();
    struct commands s;
    struct call calls[2];
    count(&calls[0], p, 0, N);
    raise_fault(&calls[1], w, 5, 6);
    kl_sim_fail_submit_at(0, 0);
    ILL(submit(q, &s, calls, 2, NULL, w, e, &err), KL_ESUBMIT, "refused a submission");
    expect_nothing_left(q, p, e, w);
    free_block(p, N * 4);
}

/* Every allocation of memory of the host may fail while a kernel is made and while commands are
 * submitted. */
static void allocations_of_a_submission_may_fail(void **state) {
    enum { WAITS = 20 };
    static const char fresh[] = "KERNEL(nothing)(PARAM(u32, n)) {\n    (void)n;\n}\n";
    void *p = new_block(N * 4), *q = new_queue(), *e[WAITS];
    struct commands s;
    struct call c, of_fresh;
    struct kl_command command = {.kind = KL_CMD_LAUNCH, .op = KL_OP_CALL, .params = &c};
    of_source(&of_fresh, "nothing", fresh);
    for (int i = 0; i < WAITS; i++) {
        e[i] = new_event();
        WELL(submit(q, &s, NULL, 0, NULL, NULL, e[i], &err));
    }
    count(&c, p, 9, N);
    command.name = c.entry;
    for (int which = 0; which < 2; which++) {
        bool more = true;
        for (int n = 0; more; n++) {
            size_t bytes;
            struct kl_error *err = NULL;
            void *done = new_event();
            kl_test_fail_alloc_at(n);
            int rc = which == 0 ? prepare(&of_fresh, &bytes, &err)
                                : kl_driver_submit(drv, q, &command, 1, e, WAITS, NULL, done, &err);
            more = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (rc && !(more && rc == KL_ENOMEM)) fail_msg("%d: %s", rc, err ? err->message : "");
            if (rc) assert_int_equal(drv->ops->event_query(drv, done), 0);
            if (rc) kl_error_release(err);
            if (!rc && which == 1) wait_for(done);
            drv->ops->event_free(drv, done);
        }
    }
    expect_count(p, 9, N);
    for (int i = 0; i < WAITS; i++) {
        wait_for(e[i]);
        drv->ops->event_free(drv, e[i]);
    }
    free_block(p, N * 4);
}

/* ---- launches ---- */

static void blocks_are_copied_on_the_device(void **state) {
    void *from = new_block(N * 4), *to = new_block(N * 4), *q = new_queue(), *e = new_event();
    struct call c;
    count(&c, from, 11, N);
    run(q, &c, 1, NULL);
    WELL(drv->ops->begin(drv, q, NULL, 0, &err));
    WELL(drv->ops->copy(drv, q, to, from, N * 4, &err));
    WELL(drv->ops->end(drv, q, NULL, e, &err));
    wait_for(e);
    expect_count(to, 11, N);
    drv->ops->event_free(drv, e);
    free_block(from, N * 4);
    free_block(to, N * 4);
}

/* What begin began can be given up before anything was launched. */
static void a_submission_is_abandoned(void **state) {
    void *q = new_queue(), *p = new_block(N * 4);
    struct call c;
    WELL(drv->ops->begin(drv, q, NULL, 0, &err));
    assert_int_equal(drv->ops->abandon(drv, q), KL_OK);
    count(&c, p, 3, N);
    run(q, &c, 1, NULL);
    expect_count(p, 3, N);
    free_block(p, N * 4);
}

static void the_facts_fit_together(void **state) {
    assert_non_null(drv->lowering);
    assert_non_null(drv->prelude);
    assert_true(drv->identity[0]);
    assert_true(drv->max_local >= 1 && drv->n_units >= 1 && drv->subgroup >= 1);
    assert_true(drv->argument_bytes >= 1024 && drv->argument_bytes <= 4096);
    assert_int_equal(drv->ops->load_program == NULL, drv->ops->launch_program == NULL);
    assert_int_equal(drv->counts_groups, drv->ops->counters != NULL);
    assert_null(drv->ops->run);
}

static void the_table_of_run_has_no_programs(void **state) {
    assert_null(drv->lowering);
    assert_non_null(drv->ops->run);
    assert_true(!drv->ops->begin && !drv->ops->end && !drv->ops->compile && !drv->ops->launch);
}

/* ---- shared memory ---- */

static void blocks_are_shared(void **state) {
    enum { MANY = 1 << 18 };
    const size_t bytes = MANY * 4;
    uint32_t *mine = new_block(bytes), *theirs = NULL;
    void *q = new_queue();
    struct kl_error *e = NULL;
    struct call c;
    count(&c, mine, 21, MANY);
    run(q, &c, 1, NULL);
    int rc = drv->ops->share(drv, mine, bytes, true, &e);
    assert_true(rc == KL_OK || rc == KL_EUNSUPPORTED);
    assert_null(e);
    if (!rc) {
        for (uint32_t i = 0; i < MANY; i++) assert_int_equal(mine[i], 21 + i);
        drv->ops->unshare(drv, mine, bytes, true);
    }
    assert_int_equal(posix_memalign((void **)&theirs, 4096, bytes), 0);
    for (uint32_t i = 0; i < MANY; i++) theirs[i] = i;
    rc = drv->ops->share(drv, theirs, bytes, false, &e);
    assert_true(rc == KL_OK || rc == KL_EUNSUPPORTED);
    assert_null(e);
    if (!rc) {
        WELL(drv->ops->share(drv, theirs, bytes, false, &err)); /* shares are counted */
        drv->ops->unshare(drv, theirs, bytes, false);
        add_one(&c, theirs, mine, MANY);
        run(q, &c, 1, NULL);
        drv->ops->unshare(drv, theirs, bytes, false);
        expect_count(mine, 1, MANY);
    }
    free(theirs);
    free_block(mine, bytes);
}

/* ---- fork ---- */

/* In the child the device is refused, and what the parent made is let go of without harm. */
static void the_child_of_a_fork_is_refused(void **state) {
    void *p = new_block(64), *e = new_event();
    struct kl_fault_words *w = new_words();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char b[64] = {0};
        struct kl_error *err = NULL;
        drv->ops->forked(drv);
        int bad = drv->ops->read(drv, p, 0, b, 64, &err) != KL_EDEVICE;
        bad |= (!err || !strstr(err->message, "forked")) << 1;
        bad |= (drv->ops->write(drv, p, 0, b, 64, NULL) != KL_EDEVICE) << 2;
        drv->ops->words_clear(drv, w);
        drv->ops->event_free(drv, e);
        drv->ops->free(drv, p, 64);
        drv->ops->wake(drv);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    WELL(drv->ops->write(drv, p, 0, &status, 4, &err)); /* the parent's device still works */
    drv->ops->event_free(drv, e);
    free_block(p, 64);
}

/* ---- which suite runs on which driver ---- */

#define SUITE(test, needs) \
    { #test, test, needs }
static const struct suite {
    const char *name;
    void (*run)(void **state);
    unsigned needs;
} suites[] = {
    SUITE(blocks_are_read_and_written, WORKS),
    SUITE(an_allocation_may_be_too_large, WORKS),
    SUITE(allocations_of_the_host_may_fail, WORKS),
    SUITE(threads_copy_at_once, WORKS),
    SUITE(an_event_waits_for_its_submission, WORKS),
    SUITE(commands_run_in_order, WORKS),
    SUITE(counters_are_clear, WORKS | COUNTS),
    SUITE(submissions_run_in_order, WORKS),
    SUITE(events_order_queues, WORKS),
    SUITE(a_submission_waits_for_many, WORKS),
    SUITE(wake_ends_a_wait, WORKS),
    SUITE(faults_are_the_smallest, WORKS),
    SUITE(commands_are_prepared, WORKS),
    SUITE(kernels_that_do_not_compile_are_named, WORKS | PROGRAMS),
    SUITE(compilers_name_the_line, WORKS | COMPILES),
    SUITE(programs_are_started_together, WORKS | PROGRAMS),
    SUITE(a_command_of_a_submission_may_fail, WORKS | PROGRAMS),
    SUITE(a_submission_may_be_refused, WORKS | RUNS),
    SUITE(allocations_of_a_submission_may_fail, WORKS),
    SUITE(blocks_are_copied_on_the_device, WORKS | PROGRAMS),
    SUITE(a_submission_is_abandoned, WORKS | PROGRAMS),
    SUITE(the_facts_fit_together, WORKS | PROGRAMS),
    SUITE(the_table_of_run_has_no_programs, WORKS | RUNS),
    SUITE(blocks_are_shared, WORKS | SHARES),
    SUITE(the_child_of_a_fork_is_refused, WORKS),
    SUITE(every_slot_is_unsupported, EMPTY),
    SUITE(slots_without_a_result_do_nothing, EMPTY),
    SUITE(answers_reach_the_callers, EMPTY),
};
enum { N_SUITES = sizeof suites / sizeof *suites };

static const char *driver_name;
static unsigned can;

static int open_one(void **state) {
    can = open_driver(&driver_name);
    return 0;
}

/* A suite that needs more than the driver can says so and ends. */
static void run_one(void **state) {
    const struct suite *s = *state;
    const unsigned lacks = s->needs & ~can;
    if (!lacks) {
        s->run(state);
        return;
    }
    for (size_t i = 0; i < sizeof capability_names / sizeof *capability_names; i++)
        if (lacks >> i & 1)
            print_message("NOT APPLICABLE on %s: %s needs %s\n", driver_name, s->name,
                          capability_names[i]);
    skip();
}

int main(void) {
    struct CMUnitTest tests[N_SUITES];
    for (int i = 0; i < N_SUITES; i++)
        tests[i] = (struct CMUnitTest){suites[i].name, run_one, NULL, NULL, (void *)&suites[i]};
    return cmocka_run_group_tests(tests, open_one, NULL);
}
