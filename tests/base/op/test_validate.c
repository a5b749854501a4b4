/* test_validate.c - guards around a block: every changed byte is found, and the kinds of damage are
 * told apart. */
#include "support.h"

#include "base/op/validate.h"

enum { ROOM = 1000 };
static _Alignas(64) unsigned char raw[ROOM + 2 * KL_GUARD_BYTES];
static unsigned char *const body = raw + KL_GUARD_BYTES;

static void every_byte_counts(void **state) {
    static const size_t sizes[] = {0, 1, 7, 8, 63, 64, 65, ROOM};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        memset(raw, 0x55, sizeof raw);
        kl_guard_write(body, n, 77);
        /* The bytes of the block itself are not changed. */
        for (size_t i = 0; i < n; i++) assert_int_equal(body[i], 0x55);
        assert_int_equal(kl_guard_check(body, n, 77), KL_GUARD_INTACT);
        memset(body, 0xFF, n);
        assert_int_equal(kl_guard_check(body, n, 77), KL_GUARD_INTACT);
        for (int i = 0; i < KL_GUARD_BYTES; i++) {
            raw[i] ^= 1;
            assert_int_equal(kl_guard_check(body, n, 77), KL_GUARD_BEFORE);
            raw[i] ^= 1;
            body[n + (size_t)i] ^= 0x80;
            assert_int_equal(kl_guard_check(body, n, 77), KL_GUARD_AFTER);
            body[n + (size_t)i] ^= 0x80;
        }
        assert_int_equal(kl_guard_check(body, n, 77), KL_GUARD_INTACT);
    }
}

static void another_tenant(void **state) {
    kl_guard_write(body, 100, 5);
    assert_int_equal(kl_guard_check(body, 100, 6), KL_GUARD_OTHER_TENANT);
    kl_guard_write(body, 100, 6);
    assert_int_equal(kl_guard_check(body, 100, 6), KL_GUARD_INTACT);
    assert_int_equal(kl_guard_check(body, 100, 5), KL_GUARD_OTHER_TENANT);
    body[-3] ^= 1; /* after this no tenant fits the guard */
    assert_int_equal(kl_guard_check(body, 100, 5), KL_GUARD_BEFORE);
    /* A smaller tenant got the same memory: its rear guard lies inside of our block, and our guards
     * are unchanged. */
    kl_guard_write(body, 100, 5);
    kl_guard_write(body, 50, 6);
    assert_int_equal(kl_guard_check(body, 100, 5), KL_GUARD_OTHER_TENANT);
}

static void blocks(void **state) {
    struct kl_block b = {.ptr = body, .bytes = 100, .tenant = 9};
    kl_guard_fill(&b);
    assert_int_equal(kl_guard_check(body, 100, 9), KL_GUARD_INTACT);
    memset(body, 1, 100);
    kl_guard_poison(&b);
    for (int i = 0; i < 100; i++) assert_int_equal(body[i], 0xDB);
    /* The end of the block is known to the byte. */
    assert_int_equal(kl_guard_check(body, 100, 9), KL_GUARD_INTACT);
}

static void reports(void **state) {
    static const struct {
        int operand;
        enum kl_guard_finding finding;
        const char *names, *says;
    } cases[] = {{0, KL_GUARD_BEFORE, "input 0 of 'add'", "in front of its first byte"},
                 {1, KL_GUARD_AFTER, "input 1 of 'add'", "after its last byte"},
                 {2, KL_GUARD_OTHER_TENANT, "output 0 of 'add'", "handed on"},
                 {3, KL_GUARD_AFTER, "output 1 of 'add'", "after its last byte"},
                 {4, KL_GUARD_AFTER, "workspace of 'add'", "after its last byte"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kl_error *e = NULL;
        kl_guard_report(&e, "add", cases[i].operand, 2, 2, 1234, cases[i].finding, 6);
        assert_int_equal(e->code, KL_EVALIDATE);
        assert_string_equal(e->op, "add");
        assert_int_equal(e->has, KL_HAS_STREAM);
        assert_int_equal(e->stream, 6);
        assert_non_null(strstr(e->message, cases[i].names));
        assert_non_null(strstr(e->message, cases[i].says));
        assert_non_null(strstr(e->message, "1234 bytes"));
        kl_guard_report(&e, "other", 0, 1, 1, 1, KL_GUARD_BEFORE, 0); /* the first error stays */
        assert_string_equal(e->op, "add");
        kl_error_release(e);
    }
    /* Without an error to fill, the report is printed. */
    kl_guard_report(NULL, "add", 0, 1, 1, 1, KL_GUARD_BEFORE, 0);
}

/* This is the first time that the process asks. */
static void read_once_from_the_environment(void **state) {
    setenv("KEEL_VALIDATE", "1", 1);
    assert_true(kl_validating());
    setenv("KEEL_VALIDATE", "0", 1);
    assert_true(kl_validating());
    kl_test_set_validating(false);
    assert_false(kl_validating());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_once_from_the_environment),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(another_tenant),
        cmocka_unit_test(blocks),
        cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
