/* test_buffer.c - owners of buffers, uses of blocks, copies elsewhere, and the user's memory. */
#include "barrier.h"
#include "support.h"

#include "base/value/buffer.h"
#include "base/value/release.h"

static int n_given;
static struct kl_block *given[8];

static void note_given(struct kl_memory *m, struct kl_block *b) {
    given[n_given++] = b;
}

static struct kl_memory here = {.name = "here", .is_host = true, .give_back = note_given};
static struct kl_memory device_a = {.name = "a", .give_back = note_given},
                        device_b = {.name = "b", .give_back = note_given};

enum { STREAMS = 10 };
static struct kl_timeline t[STREAMS];

static int fresh(void **state) {
    n_given = 0;
    for (int i = 0; i < STREAMS; i++) kl_timeline_init(&t[i]);
    return 0;
}

static void owners(void **state) {
    int64_t live = kl_test_n_live();
    struct kl_block b = {.memory = &here};
    struct kl_buffer *x = kl_buffer_new(100);
    assert_int_equal(x->bytes, 100);
    assert_null(x->block);
    assert_true(kl_buffer_sole_owner(x));
    x->block = &b;
    assert_ptr_equal(kl_buffer_retain(x), x);
    assert_false(kl_buffer_sole_owner(x));
    kl_buffer_release(x);
    assert_int_equal(n_given, 0);
    assert_true(kl_buffer_sole_owner(x));
    kl_buffer_release(x);
    assert_int_equal(n_given, 1);
    assert_ptr_equal(given[0], &b);
    assert_int_equal(kl_test_n_live(), live);
    kl_buffer_release(kl_buffer_new(0)); /* a buffer that never gets memory */
    kl_buffer_release(NULL);
    assert_null(kl_buffer_retain(NULL));
    assert_int_equal(n_given, 1);
    kl_test_fail_alloc_at(0);
    assert_null(kl_buffer_new(100));
    kl_test_fail_alloc_at(-1);
}

static void copies_elsewhere(void **state) {
    struct kl_block own = {.memory = &here}, a = {.memory = &device_a}, b = {.memory = &device_b},
                    a2 = {.memory = &device_a};
    struct kl_buffer *x = kl_buffer_new(8);
    assert_null(kl_buffer_block_on(x, &here)); /* there is no copy yet */
    x->block = &own;
    assert_ptr_equal(kl_buffer_block_on(x, &here), &own);
    assert_null(kl_buffer_block_on(x, &device_a));
    kl_buffer_add_mirror(x, &a);
    kl_buffer_add_mirror(x, &b);
    /* Two streams made a copy at the same time; all see the first one. */
    kl_buffer_add_mirror(x, &a2);
    assert_ptr_equal(kl_buffer_block_on(x, &device_a), &a);
    assert_ptr_equal(kl_buffer_block_on(x, &device_b), &b);
    struct kl_memory other_host = {.name = "user", .is_host = true};
    /* The host can read all host memory. */
    assert_ptr_equal(kl_buffer_block_on(x, &other_host), &own);
    kl_buffer_release(x);
    assert_int_equal(n_given, 4);
    int n_each[4] = {0};
    for (int i = 0; i < 4; i++) {
        n_each[0] += given[i] == &own;
        n_each[1] += given[i] == &a;
        n_each[2] += given[i] == &b;
        n_each[3] += given[i] == &a2;
    }
    for (int i = 0; i < 4; i++) assert_int_equal(n_each[i], 1);
}

static void uses_of_many_streams(void **state) {
    for (int n = 1; n <= STREAMS; n++) { /* as many uses as the inline entries hold, and more */
        fresh(NULL);
        int64_t live = kl_test_n_live();
        struct kl_block b = {.memory = &here};
        assert_true(kl_block_free_for(&b, NULL)); /* the block has never been used */
        for (int i = 0; i < n; i++) assert_int_equal(kl_block_note_use(&b, &t[i], 1), 0);
        for (int i = 0; i < n; i++) /* The last use of a stream counts. */
            assert_int_equal(kl_block_note_use(&b, &t[i], 5), 0);
        assert_int_equal(kl_test_n_live() - live, n > KL_BLOCK_USES ? n - KL_BLOCK_USES : 0);
        for (int i = n - 1; i >= 0; i--) {
            assert_false(kl_block_free_for(&b, NULL));
            /* The block is free for its own stream only when the uses of all others have ended. */
            assert_int_equal(kl_block_free_for(&b, &t[i]), i == 0);
            kl_timeline_publish(&t[i], 4);
            assert_false(kl_block_free_for(&b, NULL));
            kl_timeline_publish(&t[i], 5);
        }
        assert_true(kl_block_free_for(&b, NULL));
        assert_true(kl_block_free_for(&b, &t[0]));
        assert_int_equal(kl_block_note_use(&b, &t[n - 1], 6), 0);
        assert_false(kl_block_free_for(&b, NULL));
        kl_block_begin(&b, NULL); /* the block gets a new tenant */
        assert_true(kl_block_free_for(&b, NULL));
        assert_int_equal(kl_test_n_live(), live);
        kl_block_begin(&b, &t[0]);
        /* This stream was named at the start, but it has not used the block. */
        assert_true(kl_block_free_for(&b, NULL));
        assert_int_equal(kl_block_note_use(&b, &t[0], 7), 0);
        assert_false(kl_block_free_for(&b, &t[1]));
        assert_true(kl_block_free_for(&b, &t[0]));
        kl_block_begin(&b, NULL);
    }
}

static void no_memory_for_another_use(void **state) {
    struct kl_block b = {.memory = &here};
    for (int i = 0; i < KL_BLOCK_USES; i++) {
        kl_test_fail_alloc_at(0);
        /* An inline entry needs no allocation. */
        assert_int_equal(kl_block_note_use(&b, &t[i], 1), 0);
    }
    assert_int_equal(kl_block_note_use(&b, &t[KL_BLOCK_USES], 1), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    for (int i = 0; i < KL_BLOCK_USES; i++) kl_timeline_publish(&t[i], 1);
    assert_true(kl_block_free_for(&b, NULL)); /* a use that was refused is not noted */
    kl_block_begin(&b, NULL);
}

static struct t_barrier start;
static struct kl_block contested;

static void *note_often(void *arg) {
    t_barrier_wait(&start);
    for (uint64_t ticket = 1; ticket <= 200; ticket++)
        if (kl_block_note_use(&contested, arg, ticket)) return arg;
    return NULL;
}

static void several_threads_note(void **state) {
    for (int round = 0; round < 20; round++) {
        pthread_t threads[8];
        fresh(NULL);
        contested = (struct kl_block){.memory = &here};
        t_barrier_init(&start, 8);
        for (int i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, note_often, &t[i]), 0);
        for (int i = 0; i < 8; i++) {
            void *bad = NULL;
            pthread_join(threads[i], &bad);
            assert_null(bad);
        }
        for (int i = 0; i < 8; i++) {
            assert_false(kl_block_free_for(&contested, NULL));
            kl_timeline_publish(&t[i], 200);
        }
        /* Each use was noted, and a stream has one entry, with its latest ticket. */
        assert_true(kl_block_free_for(&contested, NULL));
        kl_block_begin(&contested, NULL);
        t_barrier_destroy(&start);
    }
}

/* ---- the user's memory ---- */

static void count_dtor(void *n) {
    ++*(int *)n;
}

static struct kl_buffer *user_buffer(int *n) {
    static int data;
    struct kl_buffer *x = kl_buffer_new(sizeof data);
    x->block = kl_block_new_user(&data, sizeof data, n, count_dtor);
    assert_ptr_equal(x->block->ptr, &data);
    assert_true(x->block->memory->is_host);
    return x;
}

static void the_destructor_runs_once(void **state) {
    int64_t live = kl_test_n_live();
    int n = 0;
    struct kl_buffer *x = user_buffer(&n);
    kl_buffer_retain(x);
    kl_buffer_release(x);
    assert_int_equal(n, 0);
    kl_buffer_release(x);
    assert_int_equal(n, 1);
    x = user_buffer(&n);
    /* The use was on a CPU stream, whose task owned the buffer. So the use has ended. */
    assert_int_equal(kl_block_note_use(x->block, &t[0], 1), 0);
    kl_buffer_release(x);
    assert_int_equal(n, 2);
    struct kl_block *b = kl_block_new_user(NULL, 0, NULL, NULL); /* the block has no destructor */
    b->memory->give_back(b->memory, b);
    assert_int_equal(kl_test_n_live(), live);
    kl_test_fail_alloc_at(0);
    assert_null(kl_block_new_user(&n, sizeof n, &n, count_dtor));
    kl_test_fail_alloc_at(-1);
    assert_int_equal(n, 2);
}

static void nothing(struct kl_release *r) {
}

static void not_before_devices_are_done(void **state) {
    struct kl_release first = {
        .run = nothing}; /* the thread runs, and has freed the memory that its start needed */
    kl_release_later(&first);
    kl_release_drain();
    int64_t live = kl_test_n_live();
    int n = 0;
    for (int used = 1; used <= 7; used++) {
        fresh(NULL);
        struct kl_buffer *x = user_buffer(&n);
        for (int i = 0; i < used; i++) {
            t[i].is_device = true;
            assert_int_equal(kl_block_note_use(x->block, &t[i], 3), 0);
        }
        kl_buffer_release(x);
        for (int i = used - 1; i >= 0; i--) {
            assert_int_equal(n, used - 1);
            kl_timeline_publish(&t[i], 2);
            assert_int_equal(n, used - 1);
            kl_timeline_publish(&t[i], 3);
        }
        kl_release_drain(); /* the destructor does not run on the thread that publishes */
        assert_int_equal(n, used);
        for (int i = 0; i < used; i++) kl_timeline_publish(&t[i], 9);
        kl_release_drain();
        assert_int_equal(n, used); /* each destructor ran once */
    }
    assert_int_equal(kl_test_n_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(owners, fresh),
        cmocka_unit_test_setup(copies_elsewhere, fresh),
        cmocka_unit_test_setup(uses_of_many_streams, fresh),
        cmocka_unit_test_setup(no_memory_for_another_use, fresh),
        cmocka_unit_test_setup(several_threads_note, fresh),
        cmocka_unit_test_setup(the_destructor_runs_once, fresh),
        cmocka_unit_test_setup(not_before_devices_are_done, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
