/* test_error.c - the error object: its fields, the rule that the first error wins, and reporting
 * that never fails. */
#include "support.h"

static const struct kl_error_info full = {.code = KL_EINDEX,
                                          .op = "gather",
                                          .tensor = "weights",
                                          .file = "/tmp/model",
                                          .has = KL_HAS_BYTES | KL_HAS_INDEX | KL_HAS_AXIS |
                                                 KL_HAS_SIZE | KL_HAS_POSITION | KL_HAS_STREAM,
                                          .byte_begin = 10,
                                          .byte_end = 30,
                                          .index = -7,
                                          .axis = 2,
                                          .axis_size = 5,
                                          .position = 11,
                                          .stream = 3};

static void expect_full(const struct kl_error *e) {
    assert_int_equal(e->code, KL_EINDEX);
    assert_int_equal(e->has, full.has);
    assert_string_equal(e->tensor, "weights");
    assert_string_equal(e->file, "/tmp/model");
    assert_int_equal(e->byte_begin, 10);
    assert_int_equal(e->byte_end, 30);
    assert_int_equal(e->index, -7);
    assert_int_equal(e->axis, 2);
    assert_int_equal(e->axis_size, 5);
    assert_int_equal(e->position, 11);
    assert_int_equal(e->stream, 3);
}

static void every_field(void **state) {
    char op[8] = "gather";
    struct kl_error_info info = full;
    info.op = op;
    struct kl_error *e = kl_error_new(&info, "index %d of %s", -7, "weights");
    strcpy(op, "other"); /* the error has a copy of the string */
    expect_full(e);
    assert_string_equal(e->op, "gather");
    assert_string_equal(e->message, "index -7 of weights");
    assert_false(e->is_static);
    assert_int_equal(atomic_load(&e->seen), 0);
    kl_error_release(e);
    struct kl_error_info bare = {.code = KL_EARG};
    e = kl_error_new(&bare, "%s", "");
    assert_null(e->op);
    assert_null(e->tensor);
    assert_null(e->file);
    assert_int_equal(e->has, 0);
    assert_string_equal(e->message, "");
    kl_error_release(e);
}

static void references(void **state) {
    int64_t live = kl_test_n_live();
    struct kl_error *e = kl_error_new(&full, "x");
    assert_ptr_equal(kl_error_retain(e), e);
    kl_error_release(e);
    assert_int_equal(kl_test_n_live(), live + 1);
    assert_string_equal(e->message, "x");
    kl_error_release(e);
    assert_int_equal(kl_test_n_live(), live);
    kl_error_release(NULL);
    assert_null(kl_error_retain(NULL));
}

static void long_messages_are_not_cut(void **state) {
    for (int n = 500; n < 530; n++) { /* lengths around the size of the buffer on the stack */
        char *text = malloc((size_t)n + 1);
        memset(text, 'a', (size_t)n);
        text[n] = 0;
        struct kl_error *e = kl_error_new(&full, "%s", text);
        assert_string_equal(e->message, text);
        kl_error_release(e);
        free(text);
    }
    char *text = malloc(100001);
    memset(text, 'b', 100000);
    text[100000] = 0;
    struct kl_error *e = NULL;
    assert_int_equal(kl_fail(&e, KL_EFILE, "path %s: %s", text, "not found"), KL_EFILE);
    assert_int_equal(strlen(e->message), 100000 + strlen("path : not found"));
    assert_non_null(strstr(e->message, "not found"));
    kl_error_release(e);
    /* When the memory for the message is missing, the error object still exists. */
    kl_test_fail_alloc_at(0);
    e = kl_error_new(&full, "%s", text);
    kl_test_fail_alloc_at(-1);
    assert_false(e->is_static);
    expect_full(e);
    assert_int_equal(strlen(e->message), 511);
    kl_error_release(e);
    free(text);
}

static void the_first_error_wins(void **state) {
    struct kl_error *e = NULL;
    assert_int_equal(kl_fail(&e, KL_ESHAPE, "first"), KL_ESHAPE);
    /* The code belongs to this call. */
    assert_int_equal(kl_fail(&e, KL_EDTYPE, "second"), KL_EDTYPE);
    assert_int_equal(kl_fail_info(&e, &full, "third"), KL_EINDEX);
    assert_int_equal(kl_fail_nomem(&e), KL_ENOMEM);
    int64_t live = kl_test_n_live();
    /* The second error is taken and released. */
    assert_int_equal(kl_fail_with(&e, kl_error_new(&full, "fourth")), KL_EINDEX);
    assert_int_equal(kl_test_n_live(), live);
    assert_string_equal(e->message, "first");
    assert_int_equal(e->code, KL_ESHAPE);
    kl_error_release(e);
    e = NULL;
    assert_int_equal(kl_fail_info(&e, &full, "with %d", 1), KL_EINDEX);
    expect_full(e);
    assert_string_equal(e->message, "with 1");
    struct kl_error *f = NULL;
    assert_int_equal(kl_fail_with(&f, e), KL_EINDEX); /* the error was moved, not copied */
    assert_ptr_equal(f, e);
    kl_error_release(f);
}

static void nobody_wants_the_message(void **state) {
    int64_t live = kl_test_n_live();
    kl_test_fail_alloc_at(-1);
    assert_int_equal(kl_fail(NULL, KL_EAXIS, "%s", "x"), KL_EAXIS);
    assert_int_equal(kl_fail_info(NULL, &full, "x"), KL_EINDEX);
    assert_int_equal(kl_fail_nomem(NULL), KL_ENOMEM);
    assert_int_equal(kl_test_n_alloc_attempts(), 0); /* no message is made when nobody wants it */
    assert_int_equal(kl_fail_with(NULL, kl_error_new(&full, "x")), KL_EINDEX);
    assert_int_equal(kl_test_n_live(), live);
}

static void without_memory_there_is_a_static_one(void **state) {
#define KL_CODE(NAME, number, text)                                                      \
    {                                                                                    \
        kl_test_fail_alloc_at(0);                                                        \
        struct kl_error *e = NULL;                                                       \
        assert_int_equal(kl_fail(&e, KL_##NAME, "never built"), number);                 \
        kl_test_fail_alloc_at(-1);                                                       \
        assert_true(e->is_static);                                                       \
        assert_int_equal(e->code, number);                                               \
        assert_string_equal(e->message, text);                                           \
        assert_ptr_equal(e, kl_error_static(number));                                    \
        kl_error_release(e);                                                             \
        kl_error_release(kl_error_retain(e));                                            \
        assert_string_equal(e->message,                                                  \
                            text); /* it is static, so any number of releases is fine */ \
    }
#include "base/error_list.def"
#undef KL_CODE
    kl_test_fail_alloc_at(-1);
    struct kl_error *e = NULL;
    assert_int_equal(kl_fail_nomem(&e), KL_ENOMEM);
    assert_int_equal(kl_test_n_alloc_attempts(), 0);
    assert_ptr_equal(e, kl_error_static(KL_ENOMEM));
    static const int no_codes[] = {0, 1, -1000, -2147483647};
    for (int i = 0; i < 4; i++) assert_int_equal(kl_error_static(no_codes[i])->code, KL_EINTERNAL);
}

static void named(void **state) {
    int64_t live = kl_test_n_live();
    struct kl_error_info info = full;
    info.op = NULL;
    struct kl_error *e = kl_error_new(&info, "index out of range"), *n = kl_error_named(e, "take");
    expect_full(n);
    assert_string_equal(n->op, "take");
    assert_string_equal(n->message, "take: index out of range");
    assert_ptr_equal(kl_error_named(n, "other"), n); /* an error that has a name keeps it */
    assert_string_equal(n->op, "take");
    kl_error_release(n);
    assert_int_equal(kl_test_n_live(), live); /* the error without a name was taken */
    struct kl_error *s = kl_error_static(KL_ENOMEM);
    /* The static error is shared by all threads, so it gets no name. */
    assert_ptr_equal(kl_error_named(s, "take"), s);
    e = kl_error_new(&info, "x");
    kl_test_fail_alloc_at(0);
    n = kl_error_named(e, "take");
    kl_test_fail_alloc_at(-1);
    assert_int_equal(n->code, KL_EINDEX);
    kl_error_release(n);
    assert_int_equal(kl_test_n_live(), live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field),
        cmocka_unit_test(references),
        cmocka_unit_test(long_messages_are_not_cut),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(nobody_wants_the_message),
        cmocka_unit_test(without_memory_there_is_a_static_one),
        cmocka_unit_test(named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
