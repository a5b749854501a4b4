/* test_block_pool.c - memory by size class: byte counts are exact, a block is reused only when
 * every use has ended, limits, and failing allocations. The memory is the test's own, which counts
 * blocks and can refuse. */
#include "support.h"

#include <pthread.h>

#include "runtime/block_pool.h"

static _Atomic(size_t) raw_used, raw_n, raw_room = (size_t)-1;

static int raw_alloc(struct kl_memory *m, size_t bytes, void **ptr, struct kl_error **err) {
    if (atomic_load(&raw_used) + bytes > atomic_load(&raw_room))
        return kl_fail(err, KL_ENOMEM, "no room for %zu bytes", bytes);
    *ptr = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(*ptr);
    atomic_fetch_add(&raw_used, bytes);
    atomic_fetch_add(&raw_n, 1);
    return KL_OK;
}

static void raw_free(struct kl_memory *m, void *ptr, size_t bytes) {
    free(ptr);
    atomic_fetch_sub(&raw_used, bytes);
    atomic_fetch_sub(&raw_n, 1);
}

static struct kl_memory memory = {
    .name = "test", .is_host = true, .raw_alloc = raw_alloc, .raw_free = raw_free};
static struct kl_timeline one, two;
static uint64_t last_one; /* the last ticket given */

static struct kl_block *take(size_t bytes, struct kl_timeline *t) {
    struct kl_block *b = NULL;
    assert_int_equal(kl_block_alloc(&memory, bytes, t, &b, NULL), 0);
    assert_true(b->bytes >= bytes);
    assert_int_equal((uintptr_t)b->ptr % 64, 0);
    return b;
}

static void give(struct kl_block *b) {
    memory.give_back(&memory, b);
}

static void use_and_give(struct kl_block *b, struct kl_timeline *t, uint64_t ticket) {
    assert_int_equal(kl_block_note_use(b, t, ticket), 0);
    give(b);
}

static void counts_hold(void) {
    assert_int_equal(kl_memory_active() + kl_memory_cached(), atomic_load(&raw_used));
}

static int attach(void **state) {
    kl_timeline_init(&one);
    kl_timeline_init(&two);
    return kl_pool_attach(&memory, NULL);
}

static int start_empty(void **state) {
    kl_memory_clear_cache();
    return kl_memory_active() || kl_memory_cached() || atomic_load(&raw_n) ? -1 : 0;
}

static void counts_are_exact(void **state) {
    static const size_t sizes[] = {
        1, 63, 64, 65, 80, 81, 1000, 4096, 100000, 1 << 20, (1 << 20) + 1, 5000000, 64 << 20};
    enum { N = sizeof sizes / sizeof *sizes };
    struct kl_block *b[N];
    size_t sum = 0;
    for (int i = 0; i < N; i++) {
        b[i] = take(sizes[i], NULL);
        sum += b[i]->raw_bytes;
        /* There are four size classes per power of two. */
        assert_true(b[i]->bytes <= (sizes[i] < 64 ? 64 : sizes[i] + sizes[i] / 4 + 1));
        assert_int_equal(kl_memory_active(), sum);
        assert_int_equal(kl_memory_cached(), 0);
        counts_hold();
    }
    for (int i = 0; i < N; i++) {
        sum -= b[i]->raw_bytes;
        give(b[i]);
        assert_int_equal(kl_memory_active(), sum);
        counts_hold();
    }
    kl_memory_clear_cache();
    assert_int_equal(atomic_load(&raw_n), 0);
    assert_int_equal(kl_memory_cached(), 0);
}

static void peak_is_the_highest_since_the_reset(void **state) {
    kl_memory_reset_peak();
    struct kl_block *a = take(1000, NULL), *b = take(1000, NULL);
    size_t most = kl_memory_active();
    assert_int_equal(kl_memory_peak(), most);
    give(a);
    assert_int_equal(kl_memory_peak(), most);
    /* A block of the cache becomes active again; the number of bytes is the same. */
    a = take(1000, NULL);
    assert_int_equal(kl_memory_peak(), most);
    give(a);
    give(b);
    kl_memory_reset_peak();
    a = take(64, NULL);
    assert_int_equal(kl_memory_peak(), a->raw_bytes);
    give(a);
}

static void the_same_stream_may_have_it_at_once(void **state) {
    struct kl_block *b = take(500, &one), *same, *other;
    use_and_give(b, &one, ++last_one);
    other = take(500, &two); /* the use on timeline `one` has not ended */
    assert_ptr_not_equal(other, b);
    same = take(500, &one);
    assert_ptr_equal(same, b);
    give(other);
    use_and_give(same, &one, ++last_one);
    /* Wanted for use at once, so no outstanding use may be waited for. */
    struct kl_block *outside = take(500, NULL);
    assert_ptr_not_equal(outside, b);
    give(outside);
    kl_memory_clear_cache();
    kl_timeline_publish(&one, last_one - 1); /* the ticket before the last use */
    other = take(500, &two);
    assert_ptr_not_equal(other, b);
    give(other);
    kl_memory_clear_cache();
    kl_timeline_publish(&one, last_one);
    other = take(500, &two);
    assert_ptr_equal(other, b);
    give(other);
}

static void used_by_many_streams_it_waits_for_all(void **state) {
    static struct kl_timeline t[9];
    struct kl_block *b = take(500, NULL), *other;
    for (int i = 0; i < 9; i++) {
        kl_timeline_init(&t[i]);
        assert_int_equal(kl_block_note_use(b, &t[i], 1), 0);
    }
    give(b);
    for (int i = 8; i >= 0; i--) {
        other = take(500, i ? &t[0] : &two); /* t[0] may reuse a block whose last use is its own */
        assert_ptr_not_equal(other, b);
        give(other);
        kl_memory_clear_cache();
        kl_timeline_publish(&t[i], 1);
    }
    other = take(500, &two);
    assert_ptr_equal(other, b);
    give(other);
}

static void a_new_tenancy_has_no_uses(void **state) {
    struct kl_block *b = take(500, &one);
    use_and_give(b, &one, ++last_one);
    assert_ptr_equal(take(500, &one), b);
    give(b); /* this tenant has not used the block */
    assert_ptr_equal(take(500, &two), b);
    give(b);
    kl_timeline_publish(&one, last_one);
}

static void the_system_gets_it_only_when_done(void **state) {
    struct kl_block *b = take(500, &one);
    size_t bytes = b->raw_bytes;
    use_and_give(b, &one, ++last_one);
    kl_memory_clear_cache();
    assert_int_equal(atomic_load(&raw_n), 1);
    assert_int_equal(kl_memory_cached(), bytes);
    kl_timeline_publish(&one, last_one);
    kl_memory_clear_cache();
    assert_int_equal(atomic_load(&raw_n), 0);
    assert_int_equal(kl_memory_cached(), 0);
}

static void the_cache_has_a_limit(void **state) {
    struct kl_block *b[10];
    for (int i = 0; i < 10; i++) b[i] = take(4096, NULL);
    size_t each = b[0]->raw_bytes, old = kl_memory_cache_limit_set(3 * each);
    for (int i = 0; i < 10; i++) {
        give(b[i]);
        assert_int_equal(kl_memory_cached(), (i < 3 ? (size_t)i + 1 : 3) * each);
        counts_hold();
    }
    assert_int_equal(kl_memory_cache_limit_set(each), 3 * each);
    assert_int_equal(kl_memory_cached(), each);
    assert_int_equal(kl_memory_cache_limit_set(0), each);
    assert_int_equal(atomic_load(&raw_n), 0);
    b[0] = take(4096, &one);
    /* Stays cached although the limit is 0, since its use has not ended. */
    use_and_give(b[0], &one, ++last_one);
    assert_int_equal(kl_memory_cached(), each);
    kl_timeline_publish(&one, last_one);
    give(take(8192, NULL)); /* when the next block is given back, both leave the cache */
    assert_int_equal(atomic_load(&raw_n), 0);
    assert_int_equal(kl_memory_cache_limit_set(old), 0);
}

static void huge_blocks(void **state) {
    size_t mb = 1 << 20;
    struct kl_block *b = take(10 * mb, NULL);
    assert_int_equal(b->bytes, 10 * mb);
    give(b);
    /* More than a quarter of the block would be wasted. */
    struct kl_block *much_less = take(4 * mb, NULL);
    assert_ptr_not_equal(much_less, b);
    assert_int_equal(much_less->bytes, 4 * mb);
    struct kl_block *little_less = take(9 * mb, NULL);
    assert_ptr_equal(little_less, b);
    give(much_less);
    give(little_less);
    struct kl_block *rounded = take(3 * mb + 1, NULL); /* rounded up to whole pages */
    assert_int_equal(rounded->bytes, 3 * mb + 4096);
    give(rounded);
}

static void out_of_memory_gives_back_what_is_cached(void **state) {
    struct kl_block *b[4], *x = NULL;
    for (int i = 0; i < 4; i++) b[i] = take(1 << 20, NULL);
    atomic_store(&raw_room, 4 << 20);
    struct kl_error *e = NULL;
    assert_int_equal(kl_block_alloc(&memory, 2 << 20, NULL, &x, &e), KL_ENOMEM);
    assert_int_equal(e->code, KL_ENOMEM);
    assert_non_null(strstr(e->message, "no room"));
    kl_error_release(e);
    assert_null(x);
    assert_int_equal(kl_memory_active(), 4 << 20); /* the call that failed changed nothing */
    give(b[0]);
    /* Freeing the cached block is not enough. */
    assert_int_equal(kl_block_alloc(&memory, 2 << 20, NULL, &x, NULL), KL_ENOMEM);
    give(b[1]);
    assert_int_equal(kl_block_alloc(&memory, 2 << 20, NULL, &x, NULL), KL_OK);
    assert_int_equal(atomic_load(&raw_used), 4 << 20);
    give(x);
    kl_memory_clear_cache();
    /* A cached block whose use has not ended cannot be freed. */
    use_and_give(b[2], &one, ++last_one);
    use_and_give(b[3], &one, last_one);
    x = NULL;
    assert_int_equal(kl_block_alloc(&memory, 3 << 20, NULL, &x, NULL), KL_ENOMEM);
    assert_int_equal(kl_memory_cached(), 2 << 20);
    kl_timeline_publish(&one, last_one);
    assert_int_equal(kl_block_alloc(&memory, 3 << 20, NULL, &x, NULL), KL_OK);
    give(x);
    atomic_store(&raw_room, (size_t)-1);
}

static void another_memory_gives_back_its_cache_too(void **state) {
    static struct kl_memory second = {
        .name = "second", .is_host = true, .raw_alloc = raw_alloc, .raw_free = raw_free};
    assert_int_equal(kl_pool_attach(&second, NULL), 0);
    struct kl_block *b = take(1 << 20, NULL), *x = NULL;
    give(b);
    atomic_store(&raw_room, 1 << 20); /* both memories are part of one machine's */
    assert_int_equal(kl_block_alloc(&second, 1 << 20, NULL, &x, NULL), KL_OK);
    assert_ptr_equal(x->memory, &second);
    second.give_back(&second, x);
    atomic_store(&raw_room, (size_t)-1);
}

static void impossible_sizes(void **state) {
    struct kl_block *x = NULL;
    struct kl_error *e = NULL;
    assert_int_equal(kl_block_alloc(&memory, (size_t)-1, NULL, &x, &e), KL_ENOMEM);
    assert_non_null(strstr(e->message, "test memory"));
    kl_error_release(e);
    assert_int_equal(kl_block_alloc(&memory, (size_t)1 << 60, NULL, &x, NULL), KL_ENOMEM);
    kl_test_fail_alloc_at(0); /* fails: the record of the block */
    assert_int_equal(kl_block_alloc(&memory, 64, NULL, &x, NULL), KL_ENOMEM);
    assert_true(kl_test_alloc_failed());
    kl_test_fail_alloc_at(-1);
    assert_null(x);
    assert_int_equal(atomic_load(&raw_n), 0);
    assert_int_equal(kl_memory_active(), 0);
}

static void limits_return_the_previous_one(void **state) {
    size_t limit = kl_memory_limit();
    assert_true(limit > 0);
    assert_int_equal(kl_memory_set_limit(12345), limit);
    assert_int_equal(kl_memory_limit(), 12345);
    assert_int_equal(kl_memory_set_limit(0), 12345);
    assert_int_equal(kl_memory_limit(), 0);
    assert_int_equal(kl_memory_set_limit(limit), 0);
    size_t wired = kl_memory_set_wired_limit(99);
    assert_int_equal(kl_memory_set_wired_limit(wired), 99);
}

/* 64 blocks that another stream still uses lie in front of those that are done. */
static void blocks_in_flight_do_not_hide_idle_ones(void **state) {
    enum { IDLE = 8, BUSY = 64 };
    struct kl_block *b[IDLE + BUSY];
    for (int i = 0; i < IDLE + BUSY; i++) b[i] = take(64, &one);
    for (int i = 0; i < IDLE; i++) give(b[i]);
    ++last_one;
    for (int i = IDLE; i < IDLE + BUSY; i++) use_and_give(b[i], &one, last_one);
    for (int i = 0; i < IDLE; i++) b[i] = take(64, &two);
    assert_int_equal(atomic_load(&raw_n), IDLE + BUSY);
    for (int i = 0; i < IDLE; i++) give(b[i]);
    kl_timeline_publish(&one, last_one);
}

static void ticks(int n) {
    for (int i = 0; i < n; i++) kl_memory_tick();
}

/* A cache of keys and values that grows by concatenation: no size is asked for twice. */
static void sizes_that_grow_keep_little(void **state) {
    const size_t mb = 1 << 20;
    struct kl_block *last = take(mb + 4096, NULL);
    for (size_t i = 1; i <= 64; i++) {
        struct kl_block *next = take(mb + 4096 + i * mb / 4, NULL);
        give(last);
        last = next;
        ticks(1);
        assert_true(kl_memory_cached() <= 32 * mb + kl_memory_active() / 2 + 4 * last->bytes);
        counts_hold();
    }
    give(last);
}

/* The same within one commit, where no block is ever old. */
static void one_commit_that_grows_is_bounded(void **state) {
    const size_t mb = 1 << 20;
    ticks(2 * 64); /* forgets the peak of earlier tests */
    struct kl_block *last = take(mb + 4096, NULL);
    for (size_t i = 1; i <= 64; i++) {
        struct kl_block *next = take(mb + 4096 + i * mb / 4, NULL);
        give(last);
        last = next;
        assert_true(kl_memory_cached() <= 64 * mb + 4 * 2 * last->bytes + last->bytes);
        counts_hold();
    }
    give(last);
}

static void what_each_step_needs_stays(void **state) {
    enum { N = 6 };
    struct kl_block *b[N];
    for (int step = 0; step < 50; step++) { /* 126 MB, far more than is kept at ease */
        for (int i = 0; i < N; i++) b[i] = take((size_t)2 << (20 + i), NULL);
        for (int i = 0; i < N; i++) give(b[i]);
        assert_int_equal(atomic_load(&raw_n), N);
        ticks(20);
    }
}

static void idle_blocks_go_back_after_many_commits(void **state) {
    struct kl_block *small = take(100, NULL), *large = take(5 << 20, NULL), *used = take(999, NULL);
    give(small);
    give(large);
    for (int i = 0; i < 1500; i++) {
        give(used);
        ticks(1);
        struct kl_block *again = take(999, NULL);
        assert_ptr_equal(again, used);
    }
    assert_int_equal(kl_memory_cached(), 0);
    assert_int_equal(atomic_load(&raw_n), 1);
    give(used);
}

static void what_is_in_flight_stays_however_old(void **state) {
    use_and_give(take(5 << 20, &one), &one, ++last_one);
    ticks(3000);
    assert_int_equal(atomic_load(&raw_n), 1);
    kl_timeline_publish(&one, last_one);
    ticks(256);
    assert_int_equal(atomic_load(&raw_n), 0);
}

static void the_memory_limit_counts_what_is_kept(void **state) {
    const size_t mb = 1 << 20;
    struct kl_block *a = take(2 * mb, NULL), *b = take(4 * mb, NULL), *c = take(8 * mb, NULL);
    give(a);
    give(b);
    assert_int_equal(kl_memory_cached(), 6 * mb);
    const size_t old = kl_memory_set_limit(12 * mb);
    assert_true(kl_memory_active() + kl_memory_cached() <= 12 * mb);
    assert_int_equal(kl_memory_active(), 8 * mb);
    a = take(4 * mb, NULL); /* nothing kept fits: room is made for it before it is taken */
    assert_int_equal(kl_memory_active() + kl_memory_cached(), 12 * mb);
    b = take(1 * mb, NULL); /* the limit is soft */
    give(b);                /* but nothing above it is kept */
    assert_int_equal(kl_memory_cached(), 0);
    give(a);
    assert_int_equal(kl_memory_cached(), 4 * mb);
    use_and_give(c, &one, ++last_one); /* in flight: it cannot go back yet */
    assert_int_equal(kl_memory_set_limit(mb), 12 * mb);
    assert_int_equal(kl_memory_cached(), 8 * mb);
    kl_timeline_publish(&one, last_one);
    kl_memory_within_limit(0);
    assert_int_equal(kl_memory_cached(), 0);
    kl_memory_set_limit(old);
}

enum { THREADS = 4, HELD = 16, STEPS = 3000 };

static void *take_and_give(void *arg) {
    struct kl_timeline *t = arg;
    struct kl_block *held[HELD] = {NULL};
    uint64_t rng = (uint64_t)(uintptr_t)t, ticket = 0;
    for (int i = 0; i < STEPS; i++) {
        kl_test_random(&rng);
        struct kl_block **b = &held[(rng >> 33) % HELD];
        if (*b) { /* no other thread may have written into this block */
            for (size_t k = 0; k < (*b)->bytes; k += 64)
                assert_ptr_equal(*(void **)((char *)(*b)->ptr + k), b);
            use_and_give(*b, t, ++ticket);
            *b = NULL;
            if (ticket % 3 == 0) kl_timeline_publish(t, ticket);
        } else {
            *b = take(1 + (rng >> 40) % 2000, t);
            for (size_t k = 0; k < (*b)->bytes; k += 64) *(void **)((char *)(*b)->ptr + k) = b;
        }
    }
    for (int i = 0; i < HELD; i++)
        if (held[i]) use_and_give(held[i], t, ++ticket);
    kl_timeline_publish(t, ticket);
    return NULL;
}

static void several_threads(void **state) {
    static struct kl_timeline t[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        kl_timeline_init(&t[i]);
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &t[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(kl_memory_active(), 0);
    counts_hold();
    kl_memory_clear_cache();
    assert_int_equal(atomic_load(&raw_n), 0);
}

static void too_many_memories(void **state) {
    static struct kl_memory more[64];
    int n = 0, rc = KL_OK;
    while (n < 64 && !(rc = kl_pool_attach(&more[n], NULL))) n++;
    assert_int_equal(rc, KL_ELIMIT);
    assert_true(n > 0 && n < 64);
}

static struct kl_memory of_device = {
    .name = "device", .raw_alloc = raw_alloc, .raw_free = raw_free};

static void *give_to_device(void *b) {
    of_device.give_back(&of_device, b);
    return NULL;
}

/* Which thread gives a block of a device back, in which order, and which one takes one, makes no
 * difference: the addresses of a step of a program are those of the step before. */
static void a_device_gives_the_lowest_to_any_thread(void **state) {
    enum { N = 3 };
    struct kl_block *b[N];
    pthread_t t;
    assert_int_equal(kl_pool_attach(&of_device, NULL), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(kl_block_alloc(&of_device, 1000, NULL, &b[i], NULL), 0);
    for (int first = 0; first < N; first++) {
        give_to_device(b[first]);
        assert_int_equal(pthread_create(&t, NULL, give_to_device, b[(first + 1) % N]), 0);
        pthread_join(t, NULL);
        give_to_device(b[(first + 2) % N]);
        for (int i = 0; i < N; i++) {
            assert_int_equal(kl_block_alloc(&of_device, 1000, NULL, &b[i], NULL), 0);
            assert_true(i == 0 || (uintptr_t)b[i - 1]->ptr < (uintptr_t)b[i]->ptr);
        }
    }
    for (int i = 0; i < N; i++) give_to_device(b[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(counts_are_exact, start_empty),
        cmocka_unit_test_setup(peak_is_the_highest_since_the_reset, start_empty),
        cmocka_unit_test_setup(the_same_stream_may_have_it_at_once, start_empty),
        cmocka_unit_test_setup(used_by_many_streams_it_waits_for_all, start_empty),
        cmocka_unit_test_setup(a_new_tenancy_has_no_uses, start_empty),
        cmocka_unit_test_setup(the_system_gets_it_only_when_done, start_empty),
        cmocka_unit_test_setup(the_cache_has_a_limit, start_empty),
        cmocka_unit_test_setup(huge_blocks, start_empty),
        cmocka_unit_test_setup(out_of_memory_gives_back_what_is_cached, start_empty),
        cmocka_unit_test_setup(another_memory_gives_back_its_cache_too, start_empty),
        cmocka_unit_test_setup(impossible_sizes, start_empty),
        cmocka_unit_test_setup(limits_return_the_previous_one, start_empty),
        cmocka_unit_test_setup(blocks_in_flight_do_not_hide_idle_ones, start_empty),
        cmocka_unit_test_setup(sizes_that_grow_keep_little, start_empty),
        cmocka_unit_test_setup(one_commit_that_grows_is_bounded, start_empty),
        cmocka_unit_test_setup(what_each_step_needs_stays, start_empty),
        cmocka_unit_test_setup(idle_blocks_go_back_after_many_commits, start_empty),
        cmocka_unit_test_setup(what_is_in_flight_stays_however_old, start_empty),
        cmocka_unit_test_setup(the_memory_limit_counts_what_is_kept, start_empty),
        cmocka_unit_test_setup(several_threads, start_empty),
        cmocka_unit_test_setup(a_device_gives_the_lowest_to_any_thread, start_empty),
        cmocka_unit_test_setup(too_many_memories, start_empty),
    };
    return cmocka_run_group_tests(tests, attach, NULL);
}
