/* test_custom.c - readers and writers of the user: the calls that they get, how their failures are
 * reported, and which threads wait. */
#include "io_support.h"

#include <sys/wait.h>

#include "base/value/wait_hook.h"

static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                             "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
                             "\"c\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}";
/* Offsets in the file at which the data of the three tensors begins. */
enum { DATA = 8 + sizeof header - 1, A = DATA, B = DATA + 4, C = DATA + 8 };

struct fixture {
    struct memory m;
    struct bytes b;
    struct kl_source *s;
    struct kl_file *f;
    struct kl_array *a, *b_, *c;
};

static void open_fixture(struct fixture *x) {
    struct kl_error *err = NULL;
    x->b = safetensors_bytes(header, 12);
    x->s = memory_source(&x->m, x->b);
    expect_ok(kl_file_open(&x->f, x->s, KL_FORMAT_SAFETENSORS, &err), err);
    x->a = array_of(x->f, "a", NULL);
    x->b_ = array_of(x->f, "b", NULL);
    x->c = array_of(x->f, "c", NULL);
}

static void close_fixture(struct fixture *x) {
    kl_array_release(x->a);
    kl_array_release(x->b_);
    kl_array_release(x->c);
    kl_file_close(x->f);
    kl_source_release(x->s);
    memory_end(&x->m);
    free(x->b.p);
}

static void reads_have_exactly_the_lengths_of_the_format(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    host_of(x.b_);
    char want[128];
    snprintf(want, sizeof want, "0+8 8+%zu %d+4 ", sizeof header - 1, B);
    bytes_add(&x.m.log, "", 1);
    assert_string_equal(x.m.log.p, want);
    assert_string_equal(kl_source_label(x.s), "memory");
    assert_ptr_equal(kl_source_desc(x.s), &x.m);
    close_fixture(&x);
}

/* The memory of the reader may be longer than the file in it. */
static void a_longer_buffer_loads(void **state) {
    struct memory m = {0};
    struct bytes b = safetensors_bytes(header, 12 + 1000);
    struct kl_error *err = NULL;
    struct kl_source *s = memory_source(&m, b);
    struct kl_file *f;
    expect_ok(kl_file_open(&f, s, KL_FORMAT_SAFETENSORS, &err), err);
    assert_int_equal(f->n, 3);
    struct kl_array *c = array_of(f, "c", NULL);
    assert_memory_equal(host_of(c), "\10\11\12\13", 4);
    kl_array_release(c);
    kl_file_close(f);
    kl_source_release(s);
    memory_end(&m);
    free(b.p);
}

static void an_error_raised_in_a_read_fails_that_tensor(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    x.m.raise_at = B + 1;
    for (int i = 0; i < 2; i++)
        expect_array_fails(x.b_, KL_EREADER, "b", "'b' failed: the disk is on fire");
    assert_int_equal(((uint8_t *)host_of(x.a))[3], 3);
    /* Good() stayed true, so later reads are made. */
    assert_int_equal(((uint8_t *)host_of(x.c))[3], 11);
    close_fixture(&x);
}

static void a_reader_that_goes_bad_fails_this_tensor_and_the_later_ones(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    host_of(x.a);
    x.m.bad_at = B;
    expect_array_fails(x.b_, KL_EREADER, "b", "good() became false");
    int n_reads = x.m.n_reads;
    expect_array_fails(x.c, KL_EREADER, "c",
                       "was not tried, good() is false since: load: memory: reading of 'b'");
    assert_int_equal(x.m.n_reads, n_reads);
    assert_int_equal(((uint8_t *)host_of(x.a))[3], 3);
    close_fixture(&x);
}

static void a_reader_that_raises_and_goes_bad_gives_its_message_to_all(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    x.m.bad_at = x.m.raise_at = A;
    expect_array_fails(x.a, KL_EREADER, "a", "the disk is on fire");
    expect_array_fails(x.b_, KL_EREADER, "b", "the disk is on fire");
    expect_array_fails(x.c, KL_EREADER, "c", "the disk is on fire");
    close_fixture(&x);
}

static void a_reader_that_is_bad_beforehand_is_not_read(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    x.m.not_good = true;
    int n_reads = x.m.n_reads;
    expect_array_fails(x.a, KL_EREADER, "a", "was not tried: good() is false");
    assert_int_equal(x.m.n_reads, n_reads);
    x.m.not_good = false; /* good() is true again */
    host_of(x.b_);
    close_fixture(&x);
}

static void header_failures_fail_the_call(void **state) {
    struct bytes b = safetensors_bytes(header, 12);
    static const char *const messages[] = {"reading of header failed: the disk is on fire",
                                           "good() became false", "good() is false",
                                           "it is not open"};
    for (int i = 0; i < 4; i++) {
        struct memory m = {.raise_at = i == 0 ? 9 : 0,
                           .bad_at = i == 1 ? 9 : 0,
                           .not_good = i == 2,
                           .not_open = i == 3};
        struct kl_source *s = memory_source(&m, b);
        struct kl_file *f = NULL;
        struct kl_error *err = NULL;
        int rc = kl_file_open(&f, s, KL_FORMAT_ANY, &err);
        assert_null(f);
        assert_string_equal(err->file, "memory");
        expect_error(rc, err, KL_EREADER, messages[i]);
        kl_source_release(s);
        memory_end(&m);
    }
    free(b.p);
}

static void readers_with_fewer_callbacks(void **state) {
    struct bytes b = safetensors_bytes(header, 12);
    struct kl_reader_ops only_at = {.read_at_offset = memory_read_at, .free = memory_free};
    struct kl_reader_ops only_seek = {
        .seek = memory_seek, .read = memory_read, .free = memory_free};
    struct kl_reader_ops none = {.free = memory_free};
    const struct kl_reader_ops *ops[] = {&only_at, &only_seek, &none};
    for (int i = 0; i < 3; i++) {
        struct memory m = {.data = b.p, .n = b.n};
        struct kl_source *s;
        struct kl_file *f = NULL;
        struct kl_error *err = NULL;
        expect_ok(kl_source_new_reader(&s, ops[i], &m, &err), err);
        int rc = kl_file_open(&f, s, KL_FORMAT_SAFETENSORS, &err);
        if (i == 2) {
            expect_error(rc, err, KL_EREADER, "neither read_at_offset nor seek and read");
        } else {
            expect_ok(rc, err);
            struct kl_array *c = array_of(f, "c", NULL);
            assert_int_equal(((uint8_t *)host_of(c))[0], 8);
            kl_array_release(c);
        }
        kl_file_close(f);
        kl_source_release(s);
        memory_end(&m);
    }
    free(b.p);
}

static void readers_with_return_codes(void **state) {
    struct memory m = {0};
    struct bytes b = safetensors_bytes(header, 12);
    struct kl_source *s;
    struct kl_file *f;
    struct kl_error *err = NULL;
    m.data = b.p;
    m.n = b.n;
    m.bad_at = B;
    expect_ok(kl_source_new_read_at(&s, &memory_code_ops, &m, &err), err);
    expect_ok(kl_file_open(&f, s, KL_FORMAT_ANY, &err), err);
    struct kl_array *a = array_of(f, "a", NULL), *bad = array_of(f, "b", NULL);
    expect_array_fails(bad, KL_EREADER, "b", "the reader returned code 77");
    host_of(a);
    kl_array_release(a);
    kl_array_release(bad);
    kl_file_close(f);
    kl_source_release(s);
    memory_end(&m);
    expect_error(kl_source_new_read_at(&s, &(struct kl_read_at_ops){0}, NULL, &err), err, KL_EARG,
                 "no read_at");
    free(b.p);
}

static void a_blocked_reader_delays_nobody_else(void **state) {
    struct gate gate = GATE_INIT;
    struct fixture slow = {0}, fast = {0};
    struct kl_error *err = NULL;
    open_fixture(&slow);
    open_fixture(&fast);
    slow.m.gate = &gate;
    slow.m.block_at = A;
    struct kl_array *pending[] = {slow.a, slow.c};
    expect_ok(kl_async_eval(pending, 2, &err), err);
    gate_await(&gate);
    host_of(fast.a);
    struct kl_array *plain;
    struct kl_file *f = open_path("tests/io/data/vector.npy", KL_FORMAT_ANY);
    plain = array_of(f, "", NULL);
    host_of(plain);
    assert_false(kl_array_settled(slow.a));
    gate_open(&gate);
    assert_int_equal(((uint8_t *)host_of(slow.c))[1], 9);
    kl_array_release(plain);
    kl_file_close(f);
    close_fixture(&slow);
    close_fixture(&fast);
}

static void calls_on_one_reader_never_overlap(void **state) {
    struct gate gate = GATE_INIT;
    struct fixture x = {0};
    struct kl_error *err = NULL;
    open_fixture(&x);
    x.m.gate = &gate;
    x.m.block_at = A;
    expect_ok(kl_async_eval(&x.a, 1, &err), err);
    gate_await(&gate);
    gate_open(&gate);
    /* This thread reads the header again while a reader thread may still be in the callback. */
    struct kl_file *again;
    expect_ok(kl_file_open(&again, x.s, KL_FORMAT_SAFETENSORS, &err), err);
    struct kl_array *all[] = {x.a, x.b_, x.c, array_of(again, "a", NULL),
                              array_of(again, "b", NULL)};
    expect_ok(kl_eval(all, 5, &err), err);
    kl_array_release(all[3]);
    kl_array_release(all[4]);
    kl_file_close(again);
    close_fixture(&x);
}

static int ends_the_wait(void *n) {
    ++*(int *)n;
    return 1;
}

/* A thread that waits for its turn with a reader may leave; the turn then goes to the others. */
static void a_wait_for_a_reader_may_end(void **state) {
    struct gate gate = GATE_INIT;
    struct fixture x = {0};
    struct kl_error *err = NULL;
    open_fixture(&x);
    x.m.gate = &gate;
    x.m.block_at = A;
    expect_ok(kl_async_eval(&x.a, 1, &err), err);
    gate_await(&gate);
    int asked = 0;
    struct kl_file *again;
    kl_wait_hook_set((struct kl_wait_hook){ends_the_wait, &asked});
    assert_int_equal(kl_file_open(&again, x.s, KL_FORMAT_SAFETENSORS, &err), KL_EINTERRUPTED);
    kl_wait_hook_set((struct kl_wait_hook){NULL, NULL});
    assert_int_equal(asked, 1);
    kl_error_release(err);
    err = NULL;
    gate_open(&gate);
    expect_ok(kl_file_open(&again, x.s, KL_FORMAT_SAFETENSORS, &err), err);
    assert_int_equal(((uint8_t *)host_of(x.a))[1], 1);
    kl_file_close(again);
    close_fixture(&x);
}

static int opens_the_gate(void *gate) {
    gate_open(gate);
    return 1;
}

/* The turn may come while the wait ends. */
static void a_turn_that_comes_at_the_end_is_handed_on(void **state) {
    for (int round = 0; round < 5; round++) {
        struct gate gate = GATE_INIT;
        struct fixture x = {0};
        struct kl_error *err = NULL;
        open_fixture(&x);
        x.m.gate = &gate;
        x.m.block_at = A;
        expect_ok(kl_async_eval(&x.a, 1, &err), err);
        gate_await(&gate);
        struct kl_file *again;
        kl_wait_hook_set((struct kl_wait_hook){opens_the_gate, &gate});
        assert_int_equal(kl_file_open(&again, x.s, KL_FORMAT_SAFETENSORS, &err), KL_EINTERRUPTED);
        kl_wait_hook_set((struct kl_wait_hook){NULL, NULL});
        kl_error_release(err);
        assert_int_equal(((uint8_t *)host_of(x.c))[1], 9);
        close_fixture(&x);
    }
}

/* ---- a callback that uses its own reader ---- */
static struct {
    struct kl_source *source;
    int rc;
} reentry;

static void reentering_read(void *desc, char *data, size_t n, size_t off) {
    struct kl_file *f;
    if (off >= DATA && reentry.source)
        reentry.rc = kl_file_open(&f, reentry.source, KL_FORMAT_ANY, NULL);
    memory_read_at(desc, data, n, off);
}

static void a_callback_that_uses_its_reader_is_told(void **state) {
    struct memory m = {0};
    struct bytes b = safetensors_bytes(header, 12);
    struct kl_reader_ops ops = memory_ops;
    struct kl_source *s;
    struct kl_file *f;
    struct kl_error *err = NULL;
    ops.read_at_offset = reentering_read;
    m.data = b.p;
    m.n = b.n;
    expect_ok(kl_source_new_reader(&s, &ops, &m, &err), err);
    expect_ok(kl_file_open(&f, s, KL_FORMAT_ANY, &err), err);
    reentry.source = s;
    struct kl_array *a = array_of(f, "a", NULL);
    host_of(a);
    assert_int_equal(reentry.rc, KL_EDEADLOCK);
    kl_array_release(a);
    kl_file_close(f);
    kl_source_release(s);
    memory_end(&m);
    free(b.p);
}

/* ---- a fork in the middle of a read ---- */
static void a_reader_that_was_in_use_at_a_fork_is_refused_in_the_child(void **state) {
    struct gate gate = GATE_INIT;
    struct fixture x = {0};
    struct kl_error *err = NULL;
    open_fixture(&x);
    x.m.gate = &gate;
    x.m.block_at = A;
    expect_ok(kl_async_eval(&x.a, 1, &err), err);
    gate_await(&gate);
    pid_t child = fork();
    if (child == 0) {
        struct kl_file *f;
        _exit(kl_file_open(&f, x.s, KL_FORMAT_ANY, NULL) == KL_EFORK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gate_open(&gate);
    assert_int_equal(((uint8_t *)host_of(x.a))[3], 3);
    close_fixture(&x);
}

/* ---- writers ---- */
struct writer {
    struct bytes got;
    size_t room; /* a write beyond this size makes good() false */
    bool raises, not_good;
};
static void writer_write(void *desc, const char *data, size_t n) {
    struct writer *w = desc;
    if (w->got.n + n > w->room) {
        if (w->raises)
            memory_raise("no space left in the cloud");
        else
            w->not_good = true;
        return;
    }
    bytes_add(&w->got, data, n);
}
static bool writer_good(void *desc) {
    return !((struct writer *)desc)->not_good;
}
static const struct kl_reader_ops writer_ops = {.good = writer_good, .write = writer_write};

static void writers_get_the_same_bytes_as_a_file(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    struct writer w = {.room = 10000};
    struct kl_source *to;
    struct kl_error *err = NULL;
    expect_ok(kl_source_new_reader(&to, &writer_ops, &w, &err), err);
    struct kl_named list[] = {{"a", x.a}, {"b", x.b_}};
    struct kl_pair metadata[] = {{"k", "v"}};
    const char *path = kl_test_path("w.safetensors");
    expect_ok(kl_save_safetensors((struct kl_dest){.writer = to}, list, 2, metadata, 1, &err), err);
    expect_ok(kl_save_safetensors((struct kl_dest){.path = path}, list, 2, metadata, 1, &err), err);
    struct bytes want = read_whole(path);
    assert_int_equal(want.n, w.got.n);
    assert_memory_equal(want.p, w.got.p, want.n);
    free(want.p);
    free(w.got.p);
    kl_source_release(to);
    close_fixture(&x);
}

static void writers_that_fail_fail_the_call(void **state) {
    struct fixture x = {0};
    open_fixture(&x);
    for (int i = 0; i < 3; i++) {
        struct writer w = {.room = i == 2 ? 10000 : 130, .raises = i == 0, .not_good = i == 2};
        static const char *const messages[] = {"no space left in the cloud", "good() became false",
                                               "good() is false"};
        struct kl_source *to;
        struct kl_error *err = NULL;
        expect_ok(kl_source_new_reader(&to, &writer_ops, &w, &err), err);
        int rc = kl_save_npy((struct kl_dest){.writer = to}, x.a, &err);
        assert_string_equal(err->op, "save");
        expect_error(rc, err, KL_EREADER, messages[i]);
        kl_source_release(to);
        free(w.got.p);
    }
    struct kl_source *to;
    struct kl_error *err = NULL;
    expect_ok(kl_source_new_reader(&to, &(struct kl_reader_ops){0}, NULL, &err), err);
    expect_error(kl_save_npy((struct kl_dest){.writer = to}, x.a, &err), err, KL_EREADER,
                 "has no write");
    kl_source_release(to);
    close_fixture(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_have_exactly_the_lengths_of_the_format),
        cmocka_unit_test(a_longer_buffer_loads),
        cmocka_unit_test(an_error_raised_in_a_read_fails_that_tensor),
        cmocka_unit_test(a_reader_that_goes_bad_fails_this_tensor_and_the_later_ones),
        cmocka_unit_test(a_reader_that_raises_and_goes_bad_gives_its_message_to_all),
        cmocka_unit_test(a_reader_that_is_bad_beforehand_is_not_read),
        cmocka_unit_test(header_failures_fail_the_call),
        cmocka_unit_test(readers_with_fewer_callbacks),
        cmocka_unit_test(readers_with_return_codes),
        cmocka_unit_test(a_blocked_reader_delays_nobody_else),
        cmocka_unit_test(calls_on_one_reader_never_overlap),
        cmocka_unit_test(a_wait_for_a_reader_may_end),
        cmocka_unit_test(a_turn_that_comes_at_the_end_is_handed_on),
        cmocka_unit_test(a_callback_that_uses_its_reader_is_told),
        cmocka_unit_test(a_reader_that_was_in_use_at_a_fork_is_refused_in_the_child),
        cmocka_unit_test(writers_get_the_same_bytes_as_a_file),
        cmocka_unit_test(writers_that_fail_fail_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
