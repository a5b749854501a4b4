/* test_places.c - the table of blocks by address: against a plain list, in any order of adding and
 * removing; bytes that are used; blocks of the host that are given twice, overlap, or find no
 * memory. */
#include "support.h"

#include "backend/gpu/places.h"

enum { N = 300, EACH = 64 };
static char memory[N * EACH + 1];

static void addresses_lead_to_their_blocks(void **state) {
    struct kl_places p = {.n = 0};
    bool there[N] = {false};
    uint32_t random = 1;
    kl_places_init(&p);
    for (int round = 0; round < 4000; round++) {
        random = random * 1664525u + 1013904223u;
        const int i = (int)(random >> 8) % N;
        char *base = memory + i * EACH;
        /* The end of a block is its own address too, and not the next one's. */
        struct kl_place b = {
            .base = base, .bytes = EACH - 1, .reserved = (size_t)i, .object = base};
        if (there[i]) {
            assert_int_equal(kl_places_remove(&p, base).reserved, i);
        } else {
            assert_true(kl_places_account(&p, b.bytes, SIZE_MAX));
            assert_int_equal(kl_places_add(&p, &b, NULL), KL_OK);
        }
        there[i] = !there[i];
        const int k = (int)(random >> 16) % (N * EACH);
        void *object = NULL;
        size_t offset = 0;
        assert_int_equal(kl_places_find(&p, memory + k, &object, &offset), there[k / EACH]);
        if (!there[k / EACH]) continue;
        assert_ptr_equal(object, memory + k / EACH * EACH);
        assert_int_equal(offset, k % EACH);
    }
    size_t n = 0;
    for (int i = 0; i < N; i++) n += there[i];
    assert_int_equal(p.n, n);
    assert_int_equal(p.used_bytes, n * (EACH - 1));
    kl_free(p.blocks);
}

static void bytes_have_a_limit(void **state) {
    struct kl_places p = {.n = 0};
    kl_places_init(&p);
    assert_true(kl_places_account(&p, 60, 100));
    assert_false(kl_places_account(&p, 41, 100));
    assert_false(kl_places_account(&p, SIZE_MAX, 100));
    assert_true(kl_places_account(&p, 40, 100));
    kl_places_unaccount(&p, 60);
    assert_int_equal(p.used_bytes, 40);
}

static int give(struct kl_places *p, int at, size_t bytes, bool *same, struct kl_error **err) {
    char *base = memory + at;
    struct kl_place b = {.base = base, .bytes = bytes, .object = base, .n_given = 1};
    return kl_places_give(p, &b, base + bytes - 1, same, err);
}

static void blocks_of_the_host_are_counted(void **state) {
    struct kl_places p = {.n = 0};
    struct kl_error *err = NULL;
    bool same = true;
    kl_places_init(&p);
    kl_test_fail_alloc_at(0);
    assert_int_equal(give(&p, 100, 50, &same, &err), KL_ENOMEM);
    kl_test_fail_alloc_at(-1);
    kl_error_release(err);
    assert_false(same);
    assert_int_equal(p.n, 0);
    assert_int_equal(give(&p, 100, 50, &same, NULL), KL_OK);
    assert_false(same);
    assert_int_equal(give(&p, 100, 50, &same, NULL), KL_OK);
    assert_true(same);
    static const struct {
        int at;
        size_t bytes;
        int rc;
    } cases[] = {{100, 49, KL_EUNSUPPORTED}, {149, 10, KL_EUNSUPPORTED}, {90, 11, KL_EUNSUPPORTED},
                 {90, 100, KL_EUNSUPPORTED}, {150, 10, KL_OK},           {90, 10, KL_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(give(&p, cases[i].at, cases[i].bytes, &same, NULL), cases[i].rc);
        assert_false(same);
    }
    assert_int_equal(p.n, 3);
    assert_null(kl_places_take_back(&p, memory + 100));
    assert_ptr_equal(kl_places_take_back(&p, memory + 100), memory + 100);
    assert_int_equal(p.n, 2);
    assert_int_equal(p.used_bytes, 0);
    kl_free(p.blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lead_to_their_blocks),
        cmocka_unit_test(bytes_have_a_limit),
        cmocka_unit_test(blocks_of_the_host_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
