/* test_failures.c - failures that are not reported yet, per stream and thread; their number is
 * bounded, and failures that nobody read are counted. */
#include "barrier.h"
#include "support.h"

#include "base/value/failures.h"

enum { LISTED = 64 }; /* the most failures that are remembered per stream */

static int64_t next_stream; /* each test uses streams of its own */

static struct kl_error *failure(int number) {
    struct kl_error_info info = {.code = KL_EKERNEL};
    return kl_error_new(&info, "failure %d", number);
}

/* Notes a new failure of `thread` and returns it; the caller owns it. */
static struct kl_error *noted(int64_t stream, int number, uint64_t thread) {
    struct kl_error *e = failure(number);
    kl_failures_note(stream, e, thread);
    return e;
}

static void expect_oldest(int64_t stream, struct kl_error *e) {
    struct kl_error *oldest = kl_failures_oldest(stream);
    assert_ptr_equal(oldest, e);
    kl_error_release(oldest);
}

static void told_in_order_and_once(void **state) {
    int64_t s = next_stream++, other = next_stream++;
    uint64_t me = kl_thread_id(), unseen = kl_failures_n_unseen();
    struct kl_error *e[3];
    for (int i = 0; i < 3; i++) e[i] = noted(s, i, me);
    expect_oldest(other, NULL);
    assert_int_equal(kl_failures_n_unseen(), unseen + 3);
    for (int i = 0; i < 3; i++) {
        expect_oldest(s, e[i]);
        expect_oldest(s, e[i]); /* asking for the oldest does not mark it as reported */
        kl_failures_delivered(e[i]);
        assert_int_equal(atomic_load(&e[i]->seen), 1);
        assert_int_equal(kl_failures_n_unseen(), unseen + 2 - (uint64_t)i);
    }
    expect_oldest(s, NULL);
    for (int i = 0; i < 3; i++) kl_error_release(e[i]);
}

static void in_any_order_of_delivery(void **state) {
    int64_t s = next_stream++;
    uint64_t me = kl_thread_id();
    struct kl_error *a = noted(s, 1, me), *b = noted(s, 2, me);
    kl_failures_delivered(b);
    expect_oldest(s, a);
    kl_failures_delivered(a);
    expect_oldest(s, NULL);
    kl_failures_delivered(a); /* a second delivery changes nothing */
    kl_error_release(a);
    kl_error_release(b);
}

static void one_error_on_several_streams(void **state) {
    int64_t s = next_stream++, other = next_stream++;
    uint64_t me = kl_thread_id(), unseen = kl_failures_n_unseen();
    struct kl_error *e = failure(1);
    /* Ten values have failed of one cause. */
    for (int i = 0; i < 10; i++) kl_failures_note(s, e, me);
    kl_failures_note(other, e, me);
    assert_int_equal(kl_failures_n_unseen(), unseen + 1);
    kl_failures_delivered(e);
    expect_oldest(s, NULL);
    expect_oldest(other, NULL);
    assert_int_equal(kl_failures_n_unseen(), unseen);
    kl_error_release(e);
}

static void cancelled_work_is_not_noted(void **state) {
    int64_t s = next_stream++;
    uint64_t unseen = kl_failures_n_unseen();
    kl_failures_note(s, kl_error_static(KL_ECANCELLED), kl_thread_id());
    expect_oldest(s, NULL);
    assert_int_equal(kl_failures_n_unseen(), unseen);
}

/* ---- threads ---- */

struct other {
    struct t_barrier turn;
    int64_t stream;
    struct kl_error *mine, *theirs;
    struct kl_error *found_first, *found_then;
};

static void *other_thread(void *arg) {
    struct other *o = arg;
    o->mine = noted(o->stream, 2, kl_thread_id());
    t_barrier_wait(&o->turn); /* meeting 1: both threads have noted a failure */
    o->found_first = kl_failures_oldest(o->stream);
    /* This thread sees the other's failure too; the other thread must still be told. */
    kl_failures_delivered(o->theirs);
    t_barrier_wait(&o->turn); /* meeting 2 */
    o->found_then = kl_failures_oldest(o->stream);
    return NULL;
}

static void each_thread_is_told_of_its_own(void **state) {
    struct other o = {.stream = next_stream++};
    pthread_t thread;
    t_barrier_init(&o.turn, 2);
    struct kl_error *mine = noted(o.stream, 1, kl_thread_id());
    o.theirs = mine;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &o), 0);
    t_barrier_wait(&o.turn);
    expect_oldest(o.stream, mine);
    t_barrier_wait(&o.turn);
    expect_oldest(o.stream, mine);
    kl_failures_delivered(mine);
    pthread_join(thread, NULL);
    assert_ptr_equal(o.found_first, o.mine);
    assert_ptr_equal(o.found_then, o.mine);
    expect_oldest(o.stream, o.mine); /* The thread has ended, so any thread may be told. */
    kl_failures_delivered(o.mine);
    expect_oldest(o.stream, NULL);
    kl_error_release(o.found_first);
    kl_error_release(o.found_then);
    kl_error_release(o.mine);
    kl_error_release(mine);
    t_barrier_destroy(&o.turn);
}

static void a_failure_of_an_unknown_thread_is_reported_to_any(void **state) {
    int64_t s = next_stream++;
    struct kl_error *e = noted(s, 1, 0); /* the thread that failed is not known */
    expect_oldest(s, e);
    kl_failures_delivered(e);
    expect_oldest(s, NULL);
    kl_error_release(e);
}

/* ---- bounds ---- */

static void a_list_then_a_count(void **state) {
    int64_t s = next_stream++;
    uint64_t me = kl_thread_id(), unseen = kl_failures_n_unseen();
    struct kl_error *e[LISTED + 36];
    for (int i = 0; i < LISTED + 36; i++) e[i] = noted(s, i, me);
    assert_int_equal(kl_failures_n_unseen(), unseen + LISTED + 36);
    for (int i = 0; i < LISTED; i++) {
        expect_oldest(s, e[i]);
        kl_failures_delivered(e[i]);
    }
    expect_oldest(s, NULL);
    assert_int_equal(kl_failures_n_unseen(), unseen + 36);
    struct kl_error *next = noted(s, 1000, me); /* there is room again */
    expect_oldest(s, next);
    kl_failures_delivered(next);
    kl_error_release(next);
    for (int i = LISTED; i < LISTED + 36; i++) kl_failures_delivered(e[i]);
    /* It was reported after all, so it is not counted as unseen. */
    assert_int_equal(kl_failures_n_unseen(), unseen);
    for (int i = 0; i < LISTED + 36; i++) kl_error_release(e[i]);
}

static void streams_far_apart(void **state) {
    uint64_t me = kl_thread_id();
    struct kl_error *low = noted(next_stream, 1, me), *high = noted(next_stream + 5000, 2, me);
    expect_oldest(next_stream, low); /* the table has grown and kept its entries */
    expect_oldest(next_stream + 5000, high);
    expect_oldest(next_stream + 100000, NULL);
    expect_oldest(-1, NULL);
    kl_failures_delivered(low);
    kl_failures_delivered(high);
    kl_error_release(low);
    kl_error_release(high);
    next_stream += 5001;
}

static void without_memory_it_is_counted(void **state) {
    int64_t s = next_stream++;
    uint64_t unseen = kl_failures_n_unseen();
    struct kl_error *e = failure(1);
    kl_test_fail_alloc_at(0);
    kl_failures_note(s, e, kl_thread_id());
    kl_test_fail_alloc_at(-1);
    expect_oldest(s, NULL);
    assert_int_equal(kl_failures_n_unseen(), unseen + 1);
    kl_error_release(e);
}

static void a_new_owner_of_the_stream(void **state) {
    int64_t s = next_stream++;
    uint64_t me = kl_thread_id(), unseen = kl_failures_n_unseen();
    struct kl_error *old = noted(s, 1, me);
    kl_failures_orphan(s);
    /* The new owner of the stream is not told of old failures. */
    expect_oldest(s, NULL);
    /* The old failure still counts as unseen. */
    assert_int_equal(kl_failures_n_unseen(), unseen + 1);
    struct kl_error *fresh = noted(s, 2, me);
    expect_oldest(s, fresh);
    kl_failures_delivered(old); /* the value was read, which reports the failure as well */
    kl_failures_delivered(fresh);
    assert_int_equal(kl_failures_n_unseen(), unseen);
    /* More failures than the list of ended threads holds. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LISTED; i++) kl_error_release(noted(s, i, me));
        kl_failures_orphan(s);
    }
    assert_int_equal(kl_failures_n_unseen(), unseen + 3 * LISTED);
    kl_error_release(old);
    kl_error_release(fresh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_in_order_and_once),
        cmocka_unit_test(in_any_order_of_delivery),
        cmocka_unit_test(one_error_on_several_streams),
        cmocka_unit_test(cancelled_work_is_not_noted),
        cmocka_unit_test(each_thread_is_told_of_its_own),
        cmocka_unit_test(a_failure_of_an_unknown_thread_is_reported_to_any),
        cmocka_unit_test(a_list_then_a_count),
        cmocka_unit_test(streams_far_apart),
        cmocka_unit_test(without_memory_it_is_counted),
        cmocka_unit_test(a_new_owner_of_the_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
