/* test_stream.c - default streams, streams that are used again, a thousand streams, and waiting for
 * a stream. */
#include "graph/graph_support.h"

#include "base/value/failures.h"
#include "runtime/device.h"

static struct kl_stream *default_of(enum kl_device_type type) {
    struct kl_stream *s = NULL;
    assert_int_equal(kl_stream_default(&s, type, 0, NULL), 0);
    kl_stream_release(s); /* the thread holds a reference */
    return s;
}

static void *ask_for_defaults(void *arg) {
    struct kl_stream **s = arg;
    s[0] = default_of(KL_CPU);
    s[1] = default_of(KL_GPU);
    s[2] = default_of(KL_CPU);
    struct kl_array *x = t_const(s[0], 1), *y = t_inc(s[1], x);
    s[3] = t_value(y) == 2 ? s[0] : NULL;
    kl_array_release(x);
    kl_array_release(y);
    return NULL;
}

static void a_default_per_thread_and_device(void **state) {
    struct kl_stream *cpu = default_of(KL_CPU), *gpu = default_of(KL_GPU), *theirs[4];
    assert_ptr_equal(default_of(KL_CPU), cpu);
    assert_ptr_equal(default_of(KL_GPU), gpu);
    assert_ptr_not_equal(cpu, gpu);
    assert_int_equal(kl_stream_device_type(cpu), KL_CPU);
    assert_int_equal(kl_stream_device_type(gpu), KL_GPU);
    assert_int_equal(kl_stream_device_index(gpu), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_for_defaults, theirs), 0);
    pthread_join(thread, NULL);
    assert_ptr_equal(theirs[0], theirs[2]);
    assert_ptr_equal(theirs[3], theirs[0]); /* the streams work */
    assert_ptr_not_equal(theirs[0], cpu);
    assert_ptr_not_equal(theirs[1], gpu);
    /* The thread has ended and released its default streams. */
    assert_int_equal(atomic_load(&theirs[0]->handles), 0);
    assert_int_equal(atomic_load(&theirs[1]->handles), 0);
    struct kl_stream *s = NULL;
    struct kl_error *e = NULL;
    assert_int_equal(kl_stream_default(&s, KL_GPU, 7, &e), KL_EDEVICE);
    assert_non_null(strstr(e->message, "gpu 7"));
    kl_error_release(e);
    assert_int_equal(kl_stream_default(&s, KL_GPU, 1000, NULL), KL_EDEVICE);
    assert_int_equal(kl_stream_default(&s, KL_GPU, -1, NULL), KL_EDEVICE);
    assert_int_equal(kl_stream_default(&s, KL_CPU, 1, NULL), KL_EDEVICE);
    assert_null(s);
}

static void set_default(void **state) {
    struct kl_stream *mine, *cpu = default_of(KL_CPU), *gpu = default_of(KL_GPU), *theirs[4];
    assert_int_equal(kl_stream_new(&mine, KL_CPU, 0, NULL), 0);
    kl_stream_retain(cpu);
    assert_int_equal(kl_stream_set_default(mine, NULL), 0);
    assert_ptr_equal(default_of(KL_CPU), mine);
    /* The default of the other device is not changed. */
    assert_ptr_equal(default_of(KL_GPU), gpu);
    assert_int_equal(kl_stream_set_default(mine, NULL), 0); /* setting it again changes nothing */
    assert_int_equal(atomic_load(&mine->handles), 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_for_defaults, theirs), 0);
    pthread_join(thread, NULL);
    assert_ptr_not_equal(theirs[0], mine); /* other threads keep their default */
    kl_stream_release(mine);               /* the default holds a reference */
    assert_ptr_equal(default_of(KL_CPU), mine);
    assert_int_equal(kl_stream_set_default(cpu, NULL), 0);
    assert_int_equal(atomic_load(&mine->handles), 0);
    kl_stream_release(cpu);
}

static void devices_that_do_not_exist(void **state) {
    struct kl_stream *s = NULL;
    struct kl_error *e = NULL;
    assert_int_equal(kl_stream_new(&s, KL_CPU, 1, &e), KL_EDEVICE);
    assert_non_null(strstr(e->message, "cpu 1"));
    kl_error_release(e);
    assert_int_equal(kl_stream_new(&s, KL_GPU, 1, NULL), KL_EDEVICE);
    assert_int_equal(kl_stream_new(&s, KL_GPU, -1, NULL), KL_EDEVICE);
    assert_null(s);
}

static void handed_out_again(void **state) {
    static const char *const kinds[] = {"c", "g"};
    for (int k = 0; k < 2; k++) {
        struct kl_stream *s, *again, *third;
        t_streams(kinds[k], &s);
        int index = kl_stream_index(s);
        struct kl_array *x = t_const(s, 1), *bad = t_fail(s, NULL), *all[2] = {x, bad};
        assert_int_equal(kl_async_eval(all, 2, NULL), 0);
        /* Nobody has read the error. */
        kl_timeline_block(bad->t.fate->timeline, bad->t.fate->ticket);
        uint64_t ticket = bad->t.fate->ticket;
        struct kl_array *lazy = t_inc(s, x);
        kl_stream_release(s);
        t_streams(kinds[k], &again); /* the lowest free index is reused first */
        assert_ptr_equal(again, s);
        assert_int_equal(kl_stream_index(again), index);
        /* The new owner is not told of the former owner's failures. */
        assert_int_equal(kl_stream_synchronize(again, NULL), 0);
        t_streams(kinds[k], &third);
        assert_ptr_not_equal(third, again);
        struct kl_array *y = t_const(again, 2);
        assert_int_equal(t_value(y), 2);
        assert_true(y->t.fate->ticket > ticket); /* tickets continue to rise */
        /* An array that the former owner built runs here, too. */
        assert_int_equal(t_value(lazy), 2);
        t_expect_error(bad, KL_EKERNEL);
        struct kl_array *worse = t_fail(again, NULL);
        assert_int_equal(kl_async_eval(&worse, 1, NULL), 0);
        /* The new owner is told of its own failure. */
        assert_int_equal(kl_stream_synchronize(again, NULL), KL_EKERNEL);
        kl_array_release(x);
        kl_array_release(bad);
        kl_array_release(lazy);
        kl_array_release(y);
        kl_array_release(worse);
        kl_stream_release(again);
        kl_stream_release(third);
    }
}

static void a_busy_stream_is_not_handed_out(void **state) {
    struct kl_stream *r, *other, *again;
    struct gate g;
    gate_init(&g);
    assert_int_equal(kl_stream_new_reader(&r, NULL), 0);
    struct kl_array *x = t_gated(r, NULL, &g, false);
    assert_int_equal(kl_async_eval(&x, 1, NULL), 0);
    kl_stream_release(r); /* no handle is left, but there is work */
    assert_int_equal(kl_stream_new_reader(&other, NULL), 0);
    assert_ptr_not_equal(other, r);
    gate_wait_arrived(&g, 1);
    gate_open(&g);
    assert_int_equal(t_value(x), 0);
    kl_timeline_block(kl_stream_timeline(r), x->t.fate->ticket);
    assert_int_equal(kl_stream_new_reader(&again, NULL), 0);
    assert_ptr_equal(again, r);
    kl_array_release(x);
    kl_stream_release(again);
    kl_stream_release(other);
}

enum { MANY = 1000 };

static void a_thousand_streams(void **state) {
    static struct kl_stream *s[MANY];
    static struct kl_array *x[MANY], *y[MANY];
    for (int i = 0; i < MANY; i++) {
        t_streams(i % 10 == 9 ? "g" : "c", &s[i]);
        for (int k = 0; k < i % 7; k++) assert_ptr_not_equal(s[i], s[i - 1 - k]);
        x[i] = i ? t_inc(s[i], x[i - 1]) : t_const(s[0], 0);
    }
    for (int i = 0; i < MANY; i++) y[i] = t_add(s[MANY - 1 - i], x[i], x[MANY - 1 - i]);
    assert_int_equal(kl_async_eval(y, MANY / 2, NULL), 0); /* the arrays are on many streams */
    assert_int_equal(t_value(y[MANY - 1]), MANY - 1);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(t_value(y[i]), MANY - 1);
        assert_int_equal(t_value(x[i]), i);
        assert_int_equal(kl_stream_synchronize(s[i], NULL), 0);
    }
    int highest = 0;
    for (int i = 0; i < MANY; i++) {
        if (kl_stream_index(s[i]) > highest) highest = kl_stream_index(s[i]);
        kl_array_release(x[i]);
        kl_array_release(y[i]);
        kl_stream_release(s[i]);
    }
    struct kl_stream *more; /* all of them are free, so none must be made */
    t_streams("c", &more);
    assert_true(kl_stream_index(more) <= highest);
    kl_stream_release(more);
}

static void synchronize_waits_for_what_was_submitted(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        assert_int_equal(kl_stream_synchronize(a, NULL), 0); /* the stream has no work */
        struct kl_array *x[50];
        for (int i = 0; i < 50; i++) {
            x[i] = t_inc(i % 2 ? a : b, i ? x[i - 1] : NULL);
            assert_int_equal(kl_async_eval(&x[i], 1, NULL), 0);
        }
        assert_int_equal(kl_stream_synchronize(a, NULL), 0);
        for (int i = 1; i < 50; i += 2) assert_true(kl_array_settled(x[i]));
        for (int i = 0; i < 50; i++) {
            assert_int_equal(t_value(x[i]), i + 1);
            kl_array_release(x[i]);
        }
    }
}

static void synchronize_tells_each_failure_once_and_in_order(void **state) {
    FOR_EACH_PLACEMENT(a, b) {
        struct kl_error_info info = {.code = KL_EFILE};
        struct kl_array *x = NULL, *failed[3], *good = t_const(a, 1);
        for (int i = 0; i < 3; i++) {
            struct kl_error *e = kl_error_new(&info, "failure %d", i);
            assert_int_equal(kl_array_new_failed(&x, KL_I32, 0, NULL, e, NULL), 0);
            kl_error_release(e);
            failed[i] = t_inc(a, x);
            kl_array_release(x);
            assert_int_equal(kl_async_eval(&failed[i], 1, NULL), 0);
            assert_int_equal(kl_async_eval(&good, 1, NULL), 0);
        }
        for (int i = 0; i < 3; i++) {
            struct kl_error *e = NULL;
            char text[32];
            snprintf(text, sizeof text, "failure %d", i);
            assert_int_equal(kl_stream_synchronize(a, &e), KL_EFILE);
            assert_string_equal(e->message, text);
            kl_error_release(e);
        }
        assert_int_equal(kl_stream_synchronize(a, NULL), 0);
        assert_int_equal(kl_stream_synchronize(b, NULL), 0);
        for (int i = 0; i < 3; i++) {
            t_expect_error(failed[i], KL_EFILE);
            kl_array_release(failed[i]);
        }
        kl_array_release(good);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handed_out_again),
        cmocka_unit_test(a_busy_stream_is_not_handed_out),
        cmocka_unit_test(a_default_per_thread_and_device),
        cmocka_unit_test(set_default),
        cmocka_unit_test(devices_that_do_not_exist),
        cmocka_unit_test(a_thousand_streams),
        cmocka_unit_test(synchronize_waits_for_what_was_submitted),
        cmocka_unit_test(synchronize_tells_each_failure_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, t_use_sim, NULL);
}
