/* test_sim.c - the controls of the simulated device, on which other tests rely: pausing, holding,
 * completing one by one, refusing, losing, counting. */
#include "graph/graph_support.h"

#include "runtime/device.h"

static struct kl_stream *s[2];
static int name[2]; /* the names by which the controls know the two streams */

static int make_streams(void **state) {
    t_use_sim(NULL);
    t_streams("gg", s);
    for (int i = 0; i < 2; i++) name[i] = kl_stream_index(s[i]);
    return 0;
}

static struct kl_array *handed_over(struct kl_stream *on, struct kl_array *x) {
    assert_int_equal(kl_async_eval(&x, 1, NULL), 0);
    kl_timeline_block(kl_stream_timeline(on)->handed, x->t.fate->ticket);
    return x;
}

static void paused_nothing_executes(void **state) {
    kl_sim_pause(0, true);
    uint64_t before[2] = {kl_sim_executed(0, name[0]), kl_sim_executed(0, name[1])},
             launches = kl_sim_n_launches(0);
    struct kl_array *x = handed_over(s[0], t_const(s[0], 1)),
                    *y = handed_over(s[1], t_inc(s[1], x));
    assert_int_equal(kl_sim_executed(0, name[0]), before[0]);
    assert_int_equal(kl_sim_n_launches(0), launches);
    assert_false(kl_array_settled(x));
    kl_sim_pause(0, false);
    assert_int_equal(t_value(y), 2);
    assert_int_equal(kl_sim_executed(0, name[0]), before[0] + 1);
    assert_int_equal(kl_sim_executed(0, name[1]), before[1] + 1);
    assert_int_equal(kl_sim_n_launches(0), launches + 2);
    kl_array_release(x);
    kl_array_release(y);
}

static void held_commands_execute_without_completion(void **state) {
    struct kl_array *x[5];
    kl_sim_hold(0, true);
    uint64_t before = kl_sim_executed(0, name[0]);
    for (int i = 0; i < 5; i++) x[i] = handed_over(s[0], t_const(s[0], i));
    assert_true(kl_sim_wait_executed(0, name[0], before + 5));
    for (int i = 0; i < 5; i++) assert_false(kl_array_settled(x[i]));
    for (int i = 0; i < 5; i++) { /* the completions are seen one by one */
        kl_sim_complete(0, name[0], 1);
        kl_timeline_block(x[i]->t.fate->timeline, x[i]->t.fate->ticket);
        for (int k = 0; k < 5; k++) assert_int_equal(kl_array_settled(x[k]), k <= i);
    }
    kl_sim_hold(0, false);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t_value(x[i]), i);
        kl_array_release(x[i]);
    }
}

static void each_stream_is_completed_by_itself(void **state) {
    kl_sim_hold(0, true);
    struct kl_array *x = handed_over(s[0], t_const(s[0], 1)),
                    *y = handed_over(s[1], t_const(s[1], 2));
    kl_sim_complete(0, name[1], 1); /* waits until the command has been executed */
    kl_timeline_block(y->t.fate->timeline, y->t.fate->ticket);
    assert_false(kl_array_settled(x));
    kl_sim_complete(0, name[0], 1);
    assert_int_equal(t_value(x), 1);
    assert_int_equal(t_value(y), 2);
    kl_sim_hold(0, false);
    kl_array_release(x);
    kl_array_release(y);
}

/* The address of a block is moved by one byte, and back. A real device would fail at such an
 * address. */
static void an_address_between_items_is_refused(void **state) {
    struct kl_array *x = t_const(s[0], 7), *y = t_inc(s[0], x), *z = t_inc(s[0], x);
    struct kl_error *err = NULL;
    assert_int_equal(t_value(x), 7);
    struct kl_block *b = kl_buffer_block_on(x->t.buffer, kl_stream_backend(s[0])->memory);
    assert_non_null(b);
    b->ptr = (char *)b->ptr + 1;
    int rc = kl_eval(&y, 1, &err);
    b->ptr = (char *)b->ptr - 1;
    assert_int_equal(rc, KL_EVALIDATE);
    const char *const parts[] = {"kernel '", "argument 0", "not aligned to its items of"};
    for (int i = 0; i < 3; i++)
        if (!strstr(err->message, parts[i])) fail_msg("no \"%s\" in: %s", parts[i], err->message);
    kl_error_release(err);
    assert_int_equal(t_value(z), 8); /* the array itself has its value */
    struct kl_array *all[] = {x, y, z};
    for (int i = 0; i < 3; i++) kl_array_release(all[i]);
}

static void the_nth_submission_is_refused(void **state) {
    for (int n = 0; n < 4; n++) {
        struct kl_array *x[5];
        kl_sim_fail_submit_at(0, n);
        for (int i = 0; i < 5; i++) x[i] = handed_over(s[i % 2], t_const(s[i % 2], i));
        for (int i = 0; i < 5; i++) {
            if (i == n)
                t_expect_error(x[i], KL_ESUBMIT);
            else
                assert_int_equal(t_value(x[i]), i);
            kl_array_release(x[i]);
        }
    }
    kl_sim_fail_submit_random(0, 1);
    struct kl_array *x = t_const(s[0], 1);
    t_expect_error(x, KL_ESUBMIT);
    kl_sim_fail_submit_random(0, 0);
    kl_array_release(x);
    x = t_const(s[0], 1);
    assert_int_equal(t_value(x), 1);
    kl_array_release(x);
}

static void lost_and_revived(void **state) {
    uint64_t executed = kl_sim_executed(0, name[0]);
    kl_sim_pause(0, true);
    struct kl_array *x = handed_over(s[0], t_const(s[0], 1));
    kl_sim_lose(0);
    /* This command is never executed. */
    assert_false(kl_sim_wait_executed(0, name[0], executed + 1));
    t_expect_error(x, KL_EDEVICELOST);
    assert_int_equal(kl_sim_executed(0, name[0]), executed);
    kl_sim_complete(0, name[0], 1); /* nor does this call wait for ever */
    kl_sim_pause(0, false);
    kl_sim_revive(0);
    struct kl_array *y = t_const(s[0], 2);
    assert_int_equal(t_value(y), 2);
    kl_sim_lose_random(0, 1); /* the first command buffer loses the device */
    struct kl_array *z = t_const(s[0], 3), *w = t_const(s[0], 4);
    assert_int_equal(kl_async_eval(&z, 1, NULL), 0);
    (void)kl_sim_wait_executed(0, name[0], UINT64_MAX);
    t_expect_error(w, KL_EDEVICELOST);
    kl_sim_lose_random(0, 0);
    (void)kl_eval(&z, 1, NULL);
    assert_true(kl_array_settled(z)); /* the value may be good, since the command was executed */
    kl_sim_revive(0);
    struct kl_array *all[4] = {x, y, z, w};
    for (int i = 0; i < 4; i++) kl_array_release(all[i]);
}

static void memory_is_counted_and_bounded(void **state) {
    struct kl_backend *b;
    assert_int_equal(kl_device_backend(KL_GPU, 0, &b, NULL), 0);
    struct kl_memory *m = b->memory;
    size_t used = kl_sim_used(0);
    void *p = NULL, *q = NULL;
    kl_sim_budget(0, used + 1000);
    assert_int_equal(m->raw_alloc(m, 600, &p, NULL), 0);
    assert_int_equal(kl_sim_used(0), used + 600);
    struct kl_error *e = NULL;
    assert_int_equal(m->raw_alloc(m, 401, &q, &e), KL_ENOMEM);
    assert_int_equal(e->code, KL_ENOMEM);
    kl_error_release(e);
    assert_int_equal(m->raw_alloc(m, 400, &q, NULL), 0);
    char text[5] = "abcd", back[5] = "";
    assert_int_equal(m->write(m, p, 100, text, 4, NULL), 0);
    assert_int_equal(m->read(m, p, 101, back, 3, NULL), 0);
    assert_string_equal(back, "bcd");
    m->raw_free(m, p, 600);
    m->raw_free(m, q, 400);
    assert_int_equal(kl_sim_used(0), used);
    kl_sim_budget(0, (size_t)-1);
}

static void devices_by_the_environment(void **state) {
    static const struct {
        const char *value;
        int n;
    } cases[] = {{"3", 3}, {"0", 0}, {"-2", 0}, {"99", 4}, {"1", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("KEEL_SIM_DEVICES", cases[i].value, 1);
        assert_int_equal(kl_sim_n_devices(), cases[i].n);
    }
    unsetenv("KEEL_SIM_DEVICES");
    assert_int_equal(kl_sim_n_devices(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paused_nothing_executes),
        cmocka_unit_test(held_commands_execute_without_completion),
        cmocka_unit_test(each_stream_is_completed_by_itself),
        cmocka_unit_test(an_address_between_items_is_refused),
        cmocka_unit_test(the_nth_submission_is_refused),
        cmocka_unit_test(lost_and_revived),
        cmocka_unit_test(memory_is_counted_and_bounded),
        cmocka_unit_test(devices_by_the_environment),
    };
    return cmocka_run_group_tests(tests, make_streams, NULL);
}
