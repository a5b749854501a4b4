/* test_npz.c - archives as NumPy writes them, damaged archives, and the archives that Keel
 * writes. */
#include "io_support.h"

/* libzip is not built for the thread sanitizer, which cannot see the lock inside the C library's
 * mktime that it calls. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) {
    return "called_from_lib:libzip.so\nrace:tzset_internal\n";
}

static void check_golden(struct kl_file *f) {
    assert_int_equal(f->n, 6);
    struct kl_array *a = array_of(f, "a", NULL), *b = array_of(f, "b", NULL),
                    *c = array_of(f, "c", NULL);
    struct kl_array *d = array_of(f, "d", NULL), *e = array_of(f, "e", NULL),
                    *g = array_of(f, "f", NULL);
    for (int i = 0; i < 6; i++) assert_true(((float *)host_of(a))[i] == 0.75f * (float)i - 2);
    for (int i = 0; i < 4; i++) assert_int_equal(((int64_t *)host_of(b))[i], 21 * i - 50);
    assert_int_equal(c->t.ndim, 0);
    assert_int_equal(*(uint8_t *)host_of(c), 0);
    assert_int_equal(d->t.size, 0);
    for (int i = 0; i < 2000; i++) assert_int_equal(((int32_t *)host_of(e))[i], 21 * i - 50);
    assert_int_equal(g->t.dims[0], 2);
    for (int i = 0; i < 6; i++)
        assert_true(((float *)host_of(g))[i / 3 * g->t.strides[0] + i % 3 * g->t.strides[1]] ==
                    0.75f * (float)i - 2);
    struct kl_array *all[] = {a, b, c, d, e, g};
    for (int i = 0; i < 6; i++) kl_array_release(all[i]);
}

static void numpy_archives_load(void **state) {
    static const char *const paths[] = {"tests/io/data/stored.npz", "tests/io/data/deflated.npz"};
    for (int i = 0; i < 2; i++) {
        struct kl_file *f = open_path(paths[i], KL_FORMAT_ANY);
        assert_int_equal(f->format, KL_FORMAT_NPZ);
        check_golden(f);
        kl_file_close(f);
    }
    struct kl_file *f = open_path("tests/io/data/empty.npz", KL_FORMAT_ANY);
    assert_int_equal(f->n, 0);
    kl_file_close(f);
}

static void archives_come_through_custom_readers(void **state) {
    struct bytes b = read_whole("tests/io/data/deflated.npz");
    struct memory m = {0};
    struct kl_source *s = memory_source(&m, b);
    struct kl_file *f;
    struct kl_error *err = NULL;
    expect_ok(kl_file_open(&f, s, KL_FORMAT_NPZ, &err), err);
    check_golden(f);
    kl_file_close(f);
    kl_source_release(s);
    memory_end(&m);
    free(b.p);
}

static void a_failing_reader_keeps_its_own_error(void **state) {
    struct bytes b = read_whole("tests/io/data/stored.npz");
    struct memory m = {0};
    struct kl_source *s = memory_source(&m, b);
    struct kl_file *f;
    struct kl_error *err = NULL;
    expect_ok(kl_file_open(&f, s, KL_FORMAT_NPZ, &err), err);
    struct kl_array *e = array_of(f, "e", NULL), *a = array_of(f, "a", NULL);
    m.raise_at = 4000; /* reads fail within member e */
    expect_array_fails(e, KL_EREADER, "e", "the disk is on fire");
    host_of(a);
    kl_array_release(a);
    kl_array_release(e);
    kl_file_close(f);
    kl_source_release(s);
    memory_end(&m);
    free(b.p);
}

static size_t find(struct bytes b, const char *text, size_t n) {
    for (size_t i = 0; i + n <= b.n; i++)
        if (!memcmp(b.p + i, text, n)) return i;
    fail_msg("not in the file");
    return 0;
}

static void a_damaged_member_fails_alone(void **state) {
    struct bytes b = read_whole("tests/io/data/stored.npz");
    int32_t element[2] = {21 * 100 - 50, 21 * 101 - 50};
    char big_endian[8];
    for (int i = 0; i < 8; i++) big_endian[i] = (char)(element[i / 4] >> (24 - 8 * (i % 4)));
    b.p[find(b, big_endian, 8)] ^= 1;
    struct kl_file *f = open_path(write_file("damaged.npz", b), KL_FORMAT_NPZ);
    struct kl_array *e = array_of(f, "e", NULL), *a = array_of(f, "a", NULL);
    expect_array_fails(e, KL_EFORMAT, "e", "CRC");
    host_of(a);
    kl_array_release(a);
    kl_array_release(e);
    kl_file_close(f);
    free(b.p);
}

static void bad_archives(void **state) {
    expect_open_fails("tests/io/data/not_npy.npz", KL_FORMAT_NPZ, KL_EFORMAT,
                      "member 'readme.txt' is not a .npy");
    expect_open_fails("tests/io/data/bzip2.npz", KL_FORMAT_NPZ, KL_EFORMAT,
                      "compressed by method 12");
    expect_open_fails(write_file("none.npz", (struct bytes){0}), KL_FORMAT_NPZ, KL_EFORMAT,
                      "the file is empty");
    struct bytes b = read_whole("tests/io/data/stored.npz");
    b.n /= 2;
    expect_open_fails(write_file("half.npz", b), KL_FORMAT_NPZ, KL_EFORMAT, "npz");
    free(b.p);
    b = read_whole("tests/io/data/stored.npz");
    for (size_t i = 0; i + 5 <= b.n; i++) /* both names of b.npy become a.npy */
        if (!memcmp(b.p + i, "b.npy", 5)) b.p[i] = 'a';
    struct kl_source *s;
    struct kl_file *f = NULL;
    expect_ok(kl_source_open_file(&s, write_file("twice.npz", b), NULL), (struct kl_error *)NULL);
    assert_int_equal(kl_file_open(&f, s, KL_FORMAT_NPZ, NULL), KL_EFORMAT);
    kl_source_release(s);
    free(b.p);
}

static void what_we_save_loads_again(void **state) {
    struct kl_file *f = open_path("tests/io/data/deflated.npz", KL_FORMAT_ANY);
    struct kl_named list[6];
    for (size_t i = 0; i < 6; i++) {
        list[i].name = f->tensors[i].name;
        list[i].array = array_of(f, list[i].name, NULL);
    }
    for (int compressed = 0; compressed < 2; compressed++) {
        struct kl_error *err = NULL;
        const char *path = kl_test_path("saved.npz"), *again = kl_test_path("again.npz");
        expect_ok(kl_save_npz(path, list, 6, compressed, &err), err);
        struct kl_file *g = open_path(path, KL_FORMAT_NPZ);
        check_golden(g);
        kl_file_close(g);
        expect_ok(kl_save_npz(again, list, 6, compressed, &err), err);
        struct bytes one = read_whole(path), two = read_whole(again);
        assert_int_equal(one.n, two.n);
        assert_memory_equal(one.p, two.p, one.n);
        free(one.p);
        free(two.p);
    }
    struct kl_error *err = NULL;
    expect_ok(kl_save_npz(kl_test_path("nothing.npz"), NULL, 0, false, &err), err);
    struct kl_file *g = open_path(kl_test_path("nothing.npz"), KL_FORMAT_ANY);
    assert_int_equal(g->n, 0);
    kl_file_close(g);
    struct kl_named twice[2] = {list[0], list[0]};
    expect_error(kl_save_npz(kl_test_path("given_twice.npz"), twice, 2, false, &err), err, KL_EARG,
                 "given twice");
    assert_int_equal(access(kl_test_path("given_twice.npz"), F_OK), -1);
    for (size_t i = 0; i < 6; i++) kl_array_release(list[i].array);
    kl_file_close(f);
}

static void large_archives_are_read_by_several_handles_at_once(void **state) {
    enum { N = 4, ELEMENTS = 9 << 18 }; /* 9 MB each, which four lanes read */
    static const char *const names[N] = {"a", "b", "c", "d"};
    struct kl_named list[N];
    struct kl_array *again[N];
    struct kl_error *err = NULL;
    for (int i = 0; i < N; i++) {
        list[i].name = names[i];
        expect_ok(kl_array_new_data(&list[i].array, NULL, KL_I32, 1, (int[]){ELEMENTS}, &err), err);
        int32_t *p = host_of(list[i].array);
        for (int k = 0; k < ELEMENTS; k++) p[k] = i + k;
    }
    const char *path = kl_test_path("large.npz");
    expect_ok(kl_save_npz(path, list, N, false, &err), err);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    for (int i = 0; i < N; i++) again[i] = array_of(f, names[i], NULL);
    kl_file_close(f);
    expect_ok(kl_eval(again, N, &err), err);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(host_of(again[i]), host_of(list[i].array), 4 * ELEMENTS);
        kl_array_release(again[i]);
    }
    for (int i = 0; i < N; i++) kl_array_release(list[i].array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numpy_archives_load),
        cmocka_unit_test(archives_come_through_custom_readers),
        cmocka_unit_test(a_failing_reader_keeps_its_own_error),
        cmocka_unit_test(a_damaged_member_fails_alone),
        cmocka_unit_test(bad_archives),
        cmocka_unit_test(what_we_save_loads_again),
        cmocka_unit_test(large_archives_are_read_by_several_handles_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
