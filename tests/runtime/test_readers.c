/* test_readers.c - reader threads, which may block: however many of them are blocked, the next item
 * gets a thread that is not blocked. */
#include "graph/graph_support.h"

#include "runtime/readers.h"

enum { READERS = 40 };

struct work {
    struct kl_item item;
    struct gate *gate; /* a gate that the item waits at; NULL: none */
    struct gate *done;
};

static void arrive(struct gate *g, bool wait) {
    pthread_mutex_lock(&g->mu);
    g->n_inside++;
    pthread_cond_broadcast(&g->changed);
    while (wait && !g->open) pthread_cond_wait(&g->changed, &g->mu);
    pthread_mutex_unlock(&g->mu);
}

static void run_work(struct kl_item *item) {
    struct work *w = kl_container(item, struct work, item);
    struct gate *done = w->done;
    if (w->gate) arrive(w->gate, true);
    arrive(done, false);
}

static void one_thread_to_begin_with(void **state) {
    struct kl_error *e = NULL;
    assert_int_equal(kl_readers_n_threads(), 0); /* this is the first test of the process */
    kl_test_fail_alloc_at(0);
    assert_int_equal(kl_readers_start(&e), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    assert_non_null(strstr(e->message, "reader"));
    kl_error_release(e);
    assert_int_equal(kl_readers_n_threads(), 0);
    assert_int_equal(kl_readers_start(NULL), 0);
    assert_int_equal(kl_readers_start(NULL), 0);
    assert_int_equal(kl_readers_n_threads(), 1);
}

static void a_blocked_reader_delays_nobody(void **state) {
    static struct work held[READERS], next[READERS];
    struct gate gate, held_done, next_done;
    gate_init(&gate);
    gate_init(&held_done);
    gate_init(&next_done);
    for (int i = 0; i < READERS; i++) {
        held[i] = (struct work){.item = {.run = run_work}, .gate = &gate, .done = &held_done};
        kl_readers_push(&held[i].item);
        next[i] = (struct work){.item = {.run = run_work}, .done = &next_done};
        kl_readers_push(&next[i].item);
        gate_wait_arrived(&gate, i + 1);      /* i + 1 threads are blocked */
        gate_wait_arrived(&next_done, i + 1); /* one more item runs all the same */
    }
    assert_int_equal(held_done.n_inside, 0);
    assert_true(kl_readers_n_threads() > READERS);
    gate_open(&gate);
    gate_wait_arrived(&held_done, READERS);
}

static void without_another_thread_it_waits_its_turn(void **state) {
    static struct work held[READERS * 3], last;
    struct gate gate, done;
    gate_init(&gate);
    gate_init(&done);
    int n = 0;
    do { /* until no thread is idle, so that the next item would need a new one */
        held[n] = (struct work){.item = {.run = run_work}, .gate = &gate, .done = &done};
        kl_readers_push(&held[n++].item);
        gate_wait_arrived(&gate, n);
    } while (n < kl_readers_n_threads());
    last = (struct work){.item = {.run = run_work}, .done = &done};
    kl_test_fail_alloc_at(0); /* fails: the new thread */
    kl_readers_push(&last.item);
    assert_true(kl_test_alloc_failed());
    kl_test_fail_alloc_at(-1);
    assert_int_equal(kl_readers_n_threads(), n);
    gate_open(&gate);
    gate_wait_arrived(&done, n + 1); /* an existing thread takes the item */
}

static void a_thousand_short_ones(void **state) {
    static struct work w[1000];
    struct gate done;
    gate_init(&done);
    for (int i = 0; i < 1000; i++) {
        w[i] = (struct work){.item = {.run = run_work}, .done = &done};
        kl_readers_push(&w[i].item);
    }
    gate_wait_arrived(&done, 1000);
    assert_true(kl_readers_n_threads() >= 1);
}

static void blocked_streams_delay_nobody(void **state) {
    struct kl_stream *s[READERS + 1];
    struct kl_array *x[READERS + 1];
    struct gate g;
    gate_init(&g);
    for (int i = 0; i <= READERS; i++) assert_int_equal(kl_stream_new_reader(&s[i], NULL), 0);
    for (int i = 0; i < READERS; i++) {
        x[i] = t_gated(s[i], NULL, &g, i % 5 == 0);
        assert_int_equal(kl_async_eval(&x[i], 1, NULL), 0);
    }
    gate_wait_arrived(&g, READERS);
    x[READERS] = t_const(s[READERS], 3);
    assert_int_equal(t_value(x[READERS]), 3);
    gate_open(&g);
    for (int i = 0; i <= READERS; i++) {
        if (i < READERS && i % 5 == 0)
            t_expect_error(x[i], KL_EKERNEL);
        else
            assert_int_equal(t_value(x[i]), i < READERS ? 0 : 3);
        kl_array_release(x[i]);
        kl_stream_release(s[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_to_begin_with),
        cmocka_unit_test(a_blocked_reader_delays_nobody),
        cmocka_unit_test(without_another_thread_it_waits_its_turn),
        cmocka_unit_test(a_thousand_short_ones),
        cmocka_unit_test(blocked_streams_delay_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
