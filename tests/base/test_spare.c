/* test_spare.c - small blocks that are kept: who gets them, and how many there are at most. */
#include "base/spare.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/platform/memory.h"
#include "support.h"

enum { BYTES = 600, MANY = 20000, MOST = KL_SPARE_STEP * KL_SPARE_SIZES - 8 };

static void *block(size_t bytes) {
    char *p = malloc(kl_spare_room(bytes));
    assert_non_null(p);
    memset(p, 0x5A, bytes);
    return p;
}

static void give(void *p) {
    if (!kl_spare_give(p)) free(p);
}

/* Whether blocks are kept here at all: the C library must tell their size. */
static bool keeps(void) {
    char *p = block(BYTES);
    const bool kept = kl_spare_give(p);
    assert_int_equal(kept, kl_heap_block_bytes(p) > 0);
    if (!kept) free(p);
    kl_spare_drop();
    if (!kept) print_message("NOT RUN: the C library does not tell the size of a block\n");
    return kept;
}

static int n_taken(size_t bytes) {
    int n = 0;
    for (void *p; (p = kl_spare_take(bytes)); n++) free(p);
    return n;
}

static void a_block_serves_what_fits(void **state) {
    if (!keeps()) return;
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        char *p = block(bytes);
        assert_true(kl_heap_block_bytes(p) >= bytes);
        assert_true(kl_spare_give(p));
        char *q = kl_spare_take(bytes);
        assert_ptr_equal(q, p);
        give(q);
        assert_null(kl_spare_take(bytes + KL_SPARE_STEP));
        kl_spare_drop();
        assert_null(kl_spare_take(bytes));
    }
}

static void what_is_large_is_not_kept(void **state) {
    const size_t sizes[] = {MOST + 1, 4096, (size_t)1 << 20, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(kl_spare_room(sizes[i]), sizes[i]);
        assert_null(kl_spare_take(sizes[i]));
    }
    char *p = malloc(4096);
    assert_false(kl_spare_give(p));
    free(p);
}

static void *give_many(void *arg) {
    for (int i = 0; i < MANY; i++) give(block(BYTES));
    return NULL;
}

static void other_threads_get_batches_up_to_a_bound(void **state) {
    if (!keeps()) return;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, give_many, NULL), 0);
    pthread_join(t, NULL);
    /* What the thread had itself is freed with it. */
    const int batch = KL_SPARE_BATCH_BYTES / (int)(kl_spare_room(BYTES) + 8);
    const int n = n_taken(BYTES);
    assert_int_equal(n, batch * KL_SPARE_BATCHES);
    give_many(NULL);
    const int with_own = n_taken(BYTES);
    assert_true(with_own > n && with_own <= batch * (KL_SPARE_BATCHES + KL_SPARE_OWN_BATCHES));
}

/* Blocks that a thread makes and the next one frees; each has a number, at both ends. */
enum { THREADS = 4, PLACES = 64, TURNS = 20000 };
static _Atomic(uint64_t *) places[THREADS][PLACES];

static void *pass_on(void *arg) {
    const int me = (int)(intptr_t)arg;
    uint64_t random = (uint64_t)me + 1;
    for (int i = 0; i < TURNS; i++) {
        const uint64_t r = kl_test_random(&random) >> 33;
        const size_t words = 2 + r % 100;
        uint64_t *p = kl_spare_take(words * sizeof *p);
        if (!p) p = malloc(kl_spare_room(words * sizeof *p));
        assert_non_null(p);
        p[0] = words;
        p[words - 1] = words;
        uint64_t *old = atomic_exchange(&places[me][i % PLACES], p);
        uint64_t *of_other = atomic_exchange(&places[(me + 1) % THREADS][r % PLACES], old);
        if (!of_other) continue;
        assert_true(of_other[0] >= 2 && of_other[0] < 102);
        assert_int_equal(of_other[of_other[0] - 1], of_other[0]);
        give(of_other);
    }
    return NULL;
}

static void no_block_is_given_twice(void **state) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, pass_on, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS * PLACES; i++) {
        uint64_t *p = atomic_exchange(&places[i / PLACES][i % PLACES], NULL);
        if (!p) continue;
        assert_int_equal(p[p[0] - 1], p[0]);
        give(p);
    }
    kl_spare_drop();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_serves_what_fits),
        cmocka_unit_test(what_is_large_is_not_kept),
        cmocka_unit_test(other_threads_get_batches_up_to_a_bound),
        cmocka_unit_test(no_block_is_given_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
