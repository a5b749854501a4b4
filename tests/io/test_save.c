/* test_save.c - a file is saved completely or not at all, and the same arrays give the same
 * bytes. */
#include "io/gguf.h"
#include "io_support.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static struct kl_array *numbers(enum kl_dtype dtype, int n) {
    char data[4096];
    struct kl_array *a = NULL;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(dtype == KL_BOOL ? i % 2 : i % 64);
    expect_ok(kl_array_new_data(&a, data, dtype, 1, &n, NULL), (struct kl_error *)NULL);
    return a;
}

static struct kl_dest to(const char *path) {
    return (struct kl_dest){.path = path};
}

static int n_entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static const char *fresh_dir(const char *name) {
    const char *dir = kl_test_path(name);
    assert_int_equal(mkdir(dir, 0700), 0);
    return dir;
}

static const char *in(const char *dir, const char *name) {
    static char path[2][512];
    static int next;
    next = !next;
    snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
    return path[next];
}

static void every_dtype_survives(void **state) {
    struct kl_named list[KL_N_DTYPES];
    char names[KL_N_DTYPES][16];
    for (int d = 0; d < KL_N_DTYPES; d++) {
        snprintf(names[d], sizeof names[d], "t%d", d);
        list[d] = (struct kl_named){names[d], numbers((enum kl_dtype)d, 7)};
    }
    struct kl_pair metadata[] = {{"z", "last"}, {"a", "\"quoted\" \n\u00fc"}};
    const char *path = kl_test_path("all.safetensors");
    struct kl_error *err = NULL;
    expect_ok(kl_save_safetensors(to(path), list, KL_N_DTYPES, metadata, 2, &err), err);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    assert_int_equal(f->n, KL_N_DTYPES);
    assert_string_equal(f->metadata[0].value, "\"quoted\" \n\u00fc");
    assert_string_equal(f->metadata[1].key, "z");
    for (int d = 0; d < KL_N_DTYPES; d++) {
        struct kl_array *a = array_of(f, names[d], NULL);
        assert_int_equal(a->t.dtype, d);
        assert_memory_equal(host_of(a), host_of(list[d].array),
                            7 * kl_dtype_size((enum kl_dtype)d));
        kl_array_release(a);
        kl_array_release(list[d].array);
    }
    kl_file_close(f);
}

static void the_header_is_sorted_and_padded(void **state) {
    struct kl_array *u8 = numbers(KL_U8, 3), *f32 = numbers(KL_F32, 1);
    struct kl_named one[] = {{"a", u8}, {"z", f32}, {"b", f32}},
                    two[] = {{"b", f32}, {"z", f32}, {"a", u8}};
    struct kl_pair metadata[] = {{"k", "v"}};
    const char *path = kl_test_path("one.safetensors"), *other = kl_test_path("two.safetensors");
    struct kl_error *err = NULL;
    expect_ok(kl_save_safetensors(to(path), one, 3, metadata, 1, &err), err);
    expect_ok(kl_save_safetensors(to(other), two, 3, metadata, 1, &err), err);
    struct bytes x = read_whole(path), y = read_whole(other);
    static const char want[] = "{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"F32\",\"shape\":"
                               "[1],\"data_offsets\":[0,4]},"
                               "\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                               "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.p, y.p, x.n);
    assert_memory_equal(x.p + 8, want, sizeof want - 1);
    assert_int_equal((x.n - 11) % 8, 0);
    expect_ok(kl_save_safetensors(to(path), NULL, 0, NULL, 0, &err), err);
    kl_file_close(open_path(path, KL_FORMAT_ANY));
    free(x.p);
    free(y.p);
    kl_array_release(u8);
    kl_array_release(f32);
}

static void the_suffix_is_added_once(void **state) {
    const char *dir = fresh_dir("suffix");
    struct kl_array *a = numbers(KL_F32, 4);
    struct kl_error *err = NULL;
    expect_ok(kl_save_npy(to(in(dir, "x")), a, &err), err);
    expect_ok(kl_save_npy(to(in(dir, "x.npy")), a, &err), err);
    expect_ok(kl_save_safetensors(to(in(dir, "x")), NULL, 0, NULL, 0, &err), err);
    expect_ok(kl_save_npz(in(dir, "x"), NULL, 0, false, &err), err);
    assert_int_equal(n_entries(dir), 3);
    assert_int_equal(access(in(dir, "x.safetensors"), R_OK), 0);
    assert_int_equal(access(in(dir, "x.npz"), R_OK), 0);
    kl_array_release(a);
}

static void saving_over_a_file_whose_tensors_are_still_unread(void **state) {
    const char *path = kl_test_path("over.safetensors");
    struct kl_array *old = numbers(KL_U8, 100), *fresh = numbers(KL_F64, 50);
    struct kl_error *err = NULL;
    expect_ok(kl_save_safetensors(to(path), (struct kl_named[]){{"x", old}}, 1, NULL, 0, &err),
              err);
    struct kl_file *f = open_path(path, KL_FORMAT_ANY);
    struct kl_array *lazy = array_of(f, "x", NULL);
    expect_ok(kl_save_safetensors(to(path), (struct kl_named[]){{"x", fresh}}, 1, NULL, 0, &err),
              err);
    assert_memory_equal(host_of(lazy), host_of(old), 100);
    kl_array_release(lazy);
    /* One of the arrays is lazy and comes from the file that is written over. */
    lazy = array_of(f, "x", NULL);
    expect_ok(kl_save_safetensors(to(path), (struct kl_named[]){{"x", lazy}}, 1, NULL, 0, &err),
              err);
    struct kl_file *g = open_path(path, KL_FORMAT_ANY);
    assert_int_equal(g->tensors[0].dtype, KL_U8);
    kl_file_close(g);
    kl_file_close(f);
    kl_array_release(lazy);
    kl_array_release(old);
    kl_array_release(fresh);
}

static void mode_and_links_are_kept(void **state) {
    const char *dir = fresh_dir("mode");
    struct kl_array *a = numbers(KL_U8, 5);
    struct kl_error *err = NULL;
    struct stat st;
    expect_ok(kl_save_npy(to(in(dir, "real.npy")), a, &err), err);
    assert_int_equal(chmod(in(dir, "real.npy"), 0640), 0);
    assert_int_equal(symlink("real.npy", in(dir, "link.npy")), 0);
    expect_ok(kl_save_npy(to(in(dir, "link.npy")), a, &err), err);
    assert_int_equal(lstat(in(dir, "link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(in(dir, "real.npy"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(n_entries(dir), 2);
    kl_array_release(a);
}

static int save_as_npy(const char *path, struct kl_array *a, struct kl_error **err) {
    return kl_save_npy(to(path), a, err);
}
static int save_as_npz(const char *path, struct kl_array *a, struct kl_error **err) {
    return kl_save_npz(path, (struct kl_named[]){{"x", a}}, 1, false, err);
}
static int save_as_safetensors(const char *path, struct kl_array *a, struct kl_error **err) {
    return kl_save_safetensors(to(path), (struct kl_named[]){{"x", a}}, 1, NULL, 0, err);
}
static int save_as_gguf(const char *path, struct kl_array *a, struct kl_error **err) {
    return kl_save_gguf(path, (struct kl_named[]){{"x", a}}, 1, NULL, 0, err);
}
static const struct {
    int (*save)(const char *path, struct kl_array *a, struct kl_error **err);
    const char *suffix;
} formats[] = {{save_as_npy, "npy"},
               {save_as_npz, "npz"},
               {save_as_safetensors, "safetensors"},
               {save_as_gguf, "gguf"}};

static void make_link(const char *dir, const char *name, const char *content) {
    assert_int_equal(symlink(content, in(dir, name)), 0);
}

static bool is_link(const char *path) {
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

static bool is_file(const char *path) {
    struct stat st;
    return !lstat(path, &st) && S_ISREG(st.st_mode);
}

/* A link that points to nothing yet: the file that it names comes to be, and the link stays. */
static void links_to_nothing_are_followed(void **state) {
    struct kl_array *a = numbers(KL_F32, 5);
    struct kl_error *err = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char name[32], link[32], absolute[512];
        snprintf(name, sizeof name, "links-%s", formats[i].suffix);
        snprintf(link, sizeof link, "link.%s", formats[i].suffix);
        const char *dir = fresh_dir(name);
        assert_int_equal(mkdir(in(dir, "sub"), 0700), 0);
        snprintf(absolute, sizeof absolute, "%s", in(dir, "sub/third"));
        /* Relative to the folder of the link; two links in a row, from one folder into another;
         * absolute. The target needs no suffix. */
        make_link(dir, link, "sub/first");
        expect_ok(formats[i].save(in(dir, link), a, &err), err);
        assert_true(is_link(in(dir, link)) && is_file(in(dir, "sub/first")));
        assert_int_equal(unlink(in(dir, link)), 0);
        make_link(dir, link, "sub/middle");
        make_link(dir, "sub/middle", "../second");
        expect_ok(formats[i].save(in(dir, link), a, &err), err);
        assert_true(is_link(in(dir, link)) && is_link(in(dir, "sub/middle")));
        assert_true(is_file(in(dir, "second")));
        assert_int_equal(unlink(in(dir, link)), 0);
        make_link(dir, link, absolute);
        expect_ok(formats[i].save(in(dir, link), a, &err), err);
        assert_true(is_link(in(dir, link)) && is_file(absolute));
        /* Once more, over what is there now. */
        expect_ok(formats[i].save(in(dir, link), a, &err), err);
        assert_true(is_link(in(dir, link)) && is_file(absolute));
        assert_int_equal(n_entries(dir), 3);            /* link, second, sub */
        assert_int_equal(n_entries(in(dir, "sub")), 3); /* first, middle, third */
    }
    kl_array_release(a);
}

static void links_that_lead_nowhere_are_errors(void **state) {
    struct kl_array *a = numbers(KL_F32, 5);
    struct kl_error *err = NULL;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char name[32], link[32], other[32];
        snprintf(name, sizeof name, "nowhere-%s", formats[i].suffix);
        snprintf(link, sizeof link, "link.%s", formats[i].suffix);
        snprintf(other, sizeof other, "other.%s", formats[i].suffix);
        const char *dir = fresh_dir(name);
        make_link(dir, link, other);
        make_link(dir, other, link);
        expect_error(formats[i].save(in(dir, link), a, &err), err, KL_EFILE,
                     "cannot be created: Too many levels of symbolic links");
        assert_int_equal(unlink(in(dir, link)), 0);
        make_link(dir, link, link);
        expect_error(formats[i].save(in(dir, link), a, &err), err, KL_EFILE,
                     "cannot be created: Too many levels of symbolic links");
        assert_int_equal(unlink(in(dir, link)), 0);
        make_link(dir, link, "no/such/folder");
        expect_error(formats[i].save(in(dir, link), a, &err), err, KL_EFILE,
                     "cannot be created: No such file");
        assert_int_equal(unlink(in(dir, link)), 0);
        make_link(dir, link, ".");
        expect_error(formats[i].save(in(dir, link), a, &err), err, KL_EFILE, "not a regular file");
        assert_true(is_link(in(dir, link)) && is_link(in(dir, other)));
        assert_int_equal(n_entries(dir), 2);
    }
    kl_array_release(a);
}

/* Every allocation on the way from a link to its target may fail. */
static void memory_is_missing_on_the_way_along_links(void **state) {
    const char *dir = fresh_dir("memory");
    struct kl_array *a = numbers(KL_F32, 5);
    make_link(dir, "link.npy", "middle");
    make_link(dir, "middle", "real.npy");
    bool worked = false;
    for (int64_t n = 0; !worked; n++) {
        struct kl_error *err = NULL;
        kl_test_fail_alloc_at(n);
        int rc = kl_save_npy(to(in(dir, "link.npy")), a, &err);
        worked = !kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (worked) {
            expect_ok(rc, err);
        } else if (rc) { /* that of the folder's name, after the file is there, is no failure */
            assert_int_equal(rc, KL_ENOMEM);
            kl_error_release(err);
        }
        assert_true(is_link(in(dir, "link.npy")) && is_link(in(dir, "middle")));
        assert_true(n < 100);
    }
    assert_true(is_file(in(dir, "real.npy")));
    kl_array_release(a);
}

static void where_nothing_can_be_written(void **state) {
    struct kl_array *a = numbers(KL_U8, 5);
    struct kl_error *err = NULL;
    const char *path = kl_test_path("no/such/dir/x.npy");
    int rc = kl_save_npy(to(path), a, &err);
    assert_string_equal(err->file, path);
    assert_string_equal(err->op, "save");
    expect_error(rc, err, KL_EFILE, "cannot be created: No such file");
    const char *fifo = kl_test_path("pipe.npy");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_error(kl_save_npy(to(fifo), a, &err), err, KL_EFILE, "not a regular file");
    expect_error(kl_save_npy(to(""), a, &err), err, KL_EARG, "path is empty");
    if (geteuid()) { /* root may write to every folder */
        const char *dir = fresh_dir("readonly");
        assert_int_equal(chmod(dir, 0500), 0);
        expect_error(kl_save_npy(to(in(dir, "x.npy")), a, &err), err, KL_EFILE,
                     "cannot be created: Permission denied");
    }
    kl_array_release(a);
}

static void a_full_disk_leaves_the_old_file(void **state) {
    const char *dir = fresh_dir("full"), *path = in(dir, "x.npy");
    struct kl_array *a = numbers(KL_U8, 5), *large = numbers(KL_F64, 500);
    struct kl_error *err = NULL;
    expect_ok(kl_save_npy(to(path), a, &err), err);
    struct rlimit before, small = {1000, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = kl_save_npy(to(path), large, &err);
    struct kl_error *err_npz = NULL;
    int rc_npz =
        kl_save_npz(in(dir, "y.npz"), (struct kl_named[]){{"x", large}}, 1, false, &err_npz);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_error(rc, err, KL_EFILE, "writing failed: File too large");
    expect_error(rc_npz, err_npz, KL_EFILE, "File too large");
    assert_int_equal(n_entries(dir), 1);
    struct kl_file *f = open_path(path, KL_FORMAT_NPY);
    assert_int_equal(f->tensors[0].bytes, 5);
    kl_file_close(f);
    kl_array_release(a);
    kl_array_release(large);
}

static void a_failed_array_writes_nothing(void **state) {
    const char *dir = fresh_dir("failed");
    struct kl_error *why = NULL, *err = NULL;
    kl_fail(&why, KL_EINDEX, "gather: bad index");
    struct kl_array *bad, *good = numbers(KL_U8, 5);
    expect_ok(kl_array_new_failed(&bad, KL_F32, 0, NULL, why, &err), err);
    struct kl_named list[] = {{"good", good}, {"bad", bad}};
    expect_error(kl_save_safetensors(to(in(dir, "x")), list, 2, NULL, 0, &err), err, KL_EINDEX,
                 "gather: bad index");
    expect_error(kl_save_npy(to(in(dir, "x")), bad, &err), err, KL_EINDEX, "gather: bad index");
    expect_error(kl_save_npz(in(dir, "x"), list, 2, false, &err), err, KL_EINDEX,
                 "gather: bad index");
    assert_int_equal(n_entries(dir), 0);
    kl_array_release(bad);
    kl_array_release(good);
    kl_error_release(why);
}

static void names_are_checked(void **state) {
    struct kl_array *a = numbers(KL_U8, 5);
    struct kl_error *err = NULL;
    static const struct {
        const char *name, *message;
    } cases[] = {{"\xff", "not UTF-8"},         {"\xc0\x80", "not UTF-8"},
                 {"\xed\xa0\x80", "not UTF-8"}, {"\xf4\x90\x80\x80", "not UTF-8"},
                 {"\xe2\x82", "not UTF-8"},     {"__metadata__", "cannot be named"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_error(kl_save_safetensors(to(kl_test_path("n")),
                                         (struct kl_named[]){{cases[i].name, a}}, 1, NULL, 0, &err),
                     err, KL_EARG, cases[i].message);
    struct kl_named twice[] = {{"a", a}, {"b", a}, {"a", a}};
    expect_error(kl_save_safetensors(to(kl_test_path("n")), twice, 3, NULL, 0, &err), err, KL_EARG,
                 "'a' is given twice");
    expect_error(kl_save_safetensors(to(kl_test_path("n")), NULL, 0,
                                     (struct kl_pair[]){{"k", "\xff"}}, 1, &err),
                 err, KL_EARG, "metadata 'k' is not UTF-8");
    expect_error(kl_save_npz(kl_test_path("n"), (struct kl_named[]){{"\xff", a}}, 1, false, &err),
                 err, KL_EARG, "not UTF-8");
    expect_error(kl_save_npy(to(kl_test_path("n")), NULL, &err), err, KL_EARG,
                 "empty array handle");
    expect_ok(kl_save_safetensors(to(kl_test_path("n")),
                                  (struct kl_named[]){{"\U0001F40B \u20ac", a}}, 1, NULL, 0, &err),
              err);
    kl_array_release(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_survives),
        cmocka_unit_test(the_header_is_sorted_and_padded),
        cmocka_unit_test(the_suffix_is_added_once),
        cmocka_unit_test(saving_over_a_file_whose_tensors_are_still_unread),
        cmocka_unit_test(mode_and_links_are_kept),
        cmocka_unit_test(links_to_nothing_are_followed),
        cmocka_unit_test(links_that_lead_nowhere_are_errors),
        cmocka_unit_test(memory_is_missing_on_the_way_along_links),
        cmocka_unit_test(where_nothing_can_be_written),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(a_failed_array_writes_nothing),
        cmocka_unit_test(names_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
