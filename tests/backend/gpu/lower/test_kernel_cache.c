/* test_kernel_cache.c - compiled kernels on disk, with a compiler that counts its calls: which
 * files are used, which are rejected, folders that cannot be written, several writers at once. */
#include "barrier.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/gpu/lower/fake_driver.h"
#include "backend/gpu/lower/kernel_cache.h"

/* ---- a driver whose binaries are "bin:" and the source ---- */

struct fake {
    struct kl_driver driver; /* first, so that a driver is a fake */
    int n_compiled, n_loaded, n_refused;
    bool refuse_once; /* the next load is refused */
    int load_fails;   /* every load fails with this code */
};
static struct fake *fake_of(struct kl_driver *p) {
    return (struct fake *)p;
}

static int fake_compile(struct kl_driver *p, const char *source, const char *name, void **binary,
                        size_t *bytes, struct kl_error **err) {
    fake_of(p)->n_compiled++;
    if (strstr(source, "#error"))
        return kl_fail(err, KL_ECOMPILE, "%s:1: this source is in error", name);
    size_t n = strlen(source) + 4;
    char *b = kl_malloc(n);
    if (!b) return kl_fail_nomem(err);
    memcpy(b, "bin:", 4);
    memcpy(b + 4, source, n - 4);
    *binary = b;
    *bytes = n;
    return KL_OK;
}

/* Loads a binary; the module is a copy of the binary's text. */
static int fake_load(struct kl_driver *p, const void *binary, size_t bytes, void **module,
                     struct kl_error **err) {
    struct fake *f = fake_of(p);
    if (f->load_fails) return kl_fail(err, f->load_fails, "load fails");
    if (f->refuse_once) {
        f->refuse_once = false;
        f->n_refused++;
        return kl_fail(err, KL_ECOMPILE, "not mine");
    }
    /* The cache must never pass a damaged binary. */
    assert_true(bytes >= 4 && memcmp(binary, "bin:", 4) == 0);
    char *m = malloc(bytes + 1);
    assert_non_null(m);
    memcpy(m, binary, bytes);
    m[bytes] = 0;
    *module = m;
    f->n_loaded++;
    return KL_OK;
}

static const struct kl_driver_ops fake_ops = {
    .compile = fake_compile, .load = fake_load, .find = fd_find};

static struct fake fake_new(const char *identity) {
    struct fake f = {.driver = fd_driver(&fake_ops)};
    snprintf(f.driver.identity, sizeof f.driver.identity, "%s", identity);
    return f;
}

/* The cache must give the module of this source, compiled or from the disk. */
static void get(struct fake *f, const char *source) {
    void *module = NULL;
    struct kl_error *err = NULL;
    assert_int_equal(kl_kernel_cache_module(&f->driver, source, "text", &module, &err), KL_OK);
    assert_null(err);
    assert_memory_equal(module, "bin:", 4);
    assert_string_equal((char *)module + 4, source);
    free(module);
}

/* ---- the folder ---- */

static const char *dir;

/* Names a cache folder that does not exist yet, two levels deep. Each test has its own. */
static int fresh_folder(void **state) {
    static int n;
    char name[32];
    snprintf(name, sizeof name, "c%d", n++);
    char *path = strdup(kl_test_path(name));
    assert_non_null(path);
    assert_int_equal(mkdir(path, 0700), 0);
    static char inner[512];
    snprintf(inner, sizeof inner, "%s/a/b", path);
    free(path);
    dir = inner;
    return setenv("KEEL_CACHE_DIR", dir, 1);
}

/* The number of files in the folder, and the path of the last one. */
static int files(char *path, size_t room) {
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (path) snprintf(path, room, "%s/%s", dir, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static size_t read_file(const char *path, char **data) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *data = malloc(1 << 16);
    assert_non_null(*data);
    size_t n = fread(*data, 1, 1 << 16, f);
    fclose(f);
    return n;
}

static void write_text(const char *path, const char *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* ---- tests ---- */

static void second_run_compiles_nothing(void **state) {
    struct fake one = fake_new("a device"), two = fake_new("a device");
    uint64_t compiled = kl_kernel_cache_compiled(), found = kl_kernel_cache_found();
    get(&one, "source A");
    get(&one, "source B");
    assert_int_equal(one.n_compiled, 2);
    assert_int_equal(kl_kernel_cache_compiled() - compiled, 2);
    assert_int_equal(kl_kernel_cache_found() - found, 0);
    get(&two, "source A");
    get(&two, "source B");
    assert_int_equal(two.n_compiled, 0);
    assert_int_equal(two.n_loaded, 2);
    assert_int_equal(kl_kernel_cache_compiled() - compiled, 2);
    assert_int_equal(kl_kernel_cache_found() - found, 2);
    assert_int_equal(files(NULL, 0), 2); /* no temporary file is left */
    get(&two, "source C");
    assert_int_equal(two.n_compiled, 1);
}

static void identities_do_not_meet(void **state) {
    struct fake one = fake_new("driver 1"), two = fake_new("driver 2");
    get(&one, "source");
    get(&two, "source");
    assert_int_equal(two.n_compiled, 1);
    assert_int_equal(files(NULL, 0), 2);
}

/* Each byte of an entry is changed in turn. */
static void damaged_entries_are_made_anew(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    char path[512], *good, *now;
    assert_int_equal(files(path, sizeof path), 1);
    size_t n = read_file(path, &good);
    for (size_t at = 0; at < n; at++) {
        good[at] ^= 0x20;
        write_text(path, good, n);
        good[at] ^= 0x20;
        f.n_compiled = 0;
        get(&f, "source");
        assert_int_equal(f.n_compiled, 1);
        assert_int_equal(read_file(path, &now), n); /* the damaged entry was replaced */
        assert_memory_equal(now, good, n);
        free(now);
    }
    get(&f, "source");
    assert_int_equal(f.n_compiled, 1); /* by the last round only */
    free(good);
}

static void truncated_and_longer_entries_are_made_anew(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    char path[512], *good;
    assert_int_equal(files(path, sizeof path), 1);
    size_t n = read_file(path, &good);
    for (size_t keep = 0; keep <= n + 1; keep++) {
        if (keep == n) continue;
        good[n] = 'x';
        write_text(path, good, keep);
        f.n_compiled = 0;
        get(&f, "source");
        assert_int_equal(f.n_compiled, 1);
    }
    f.n_compiled = 0;
    get(&f, "source");
    assert_int_equal(f.n_compiled, 0);
    free(good);
}

/* A valid entry under the name of another source: two sources whose hashes collide would give
 * this. */
static void foreign_entries_are_not_believed(void **state) {
    static const char *const sources[2] = {"source", "ecruos"}, *const identities[2] = {"driver 1",
                                                                                        "driver 2"};
    for (int by_identity = 0; by_identity < 2; by_identity++) {
        struct fake f = fake_new(identities[0]), g = fake_new(identities[by_identity]);
        const char *of_g = sources[!by_identity];
        fresh_folder(NULL);
        char theirs[512], ours[512], *data;
        get(&g, of_g);
        assert_int_equal(files(theirs, sizeof theirs), 1);
        size_t n = read_file(theirs, &data);
        unlink(theirs);
        get(&f, sources[0]);
        assert_int_equal(files(ours, sizeof ours), 1);
        assert_string_not_equal(ours, theirs);
        write_text(ours, data, n);
        free(data);
        f.n_compiled = 0;
        get(&f, sources[0]);
        assert_int_equal(f.n_compiled, 1);
        get(&f, sources[0]);
        assert_int_equal(f.n_compiled, 1);
    }
}

static void refused_binaries_are_made_anew(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    f.refuse_once = true;
    get(&f, "source");
    assert_int_equal(f.n_refused, 1);
    assert_int_equal(f.n_compiled, 2);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 2);
}

static void other_failures_of_load_are_reported(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    static const int codes[] = {KL_ENOMEM, KL_EDEVICELOST};
    for (int i = 0; i < 2; i++) {
        void *module = NULL;
        struct kl_error *err = NULL;
        f.load_fails = codes[i];
        assert_int_equal(kl_kernel_cache_module(&f.driver, "source", "text", &module, &err),
                         codes[i]);
        assert_string_equal(err->message, "load fails");
        kl_error_release(err);
    }
    assert_int_equal(f.n_compiled, 1);
    /* A binary that was just compiled and that the driver refuses is not stored, and is not
     * compiled again without end. */
    void *module = NULL;
    f.load_fails = KL_ECOMPILE;
    assert_int_equal(kl_kernel_cache_module(&f.driver, "source 2", "text", &module, NULL),
                     KL_ECOMPILE);
    assert_int_equal(f.n_compiled, 2);
    assert_int_equal(files(NULL, 0), 1);
}

static void errors_of_the_compiler_are_reported(void **state) {
    struct fake f = fake_new("a device");
    for (int i = 1; i <= 2; i++) { /* each call compiles, so nothing was stored */
        void *module = NULL;
        struct kl_error *err = NULL;
        assert_int_equal(kl_kernel_cache_module(&f.driver, "#error", "my.kl", &module, &err),
                         KL_ECOMPILE);
        assert_string_equal(err->message, "my.kl:1: this source is in error");
        kl_error_release(err);
        assert_int_equal(f.n_compiled, i);
    }
    assert_int_equal(files(NULL, 0), 0);
}

static void folders_that_cannot_be_written_do_no_harm(void **state) {
    struct fake f = fake_new("a device");
    char path[600];
    /* A file stands in the place of the folder, then of the folder above it. This fails for root as
     * well. */
    snprintf(path, sizeof path, "%s", dir);
    *strrchr(path, '/') = 0;
    write_text(path, "a file", 6);
    get(&f, "source");
    get(&f, "source");
    assert_int_equal(f.n_compiled, 2);
    assert_int_equal(setenv("KEEL_CACHE_DIR", path, 1), 0);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 3);
    char *data;
    assert_int_equal(read_file(path, &data), 6); /* the file is unchanged */
    free(data);
    assert_int_equal(setenv("KEEL_CACHE_DIR", "/dev/null/nowhere", 1), 0);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 4);
    /* A folder stands in the place of the entry. */
    fresh_folder(NULL);
    get(&f, "source");
    assert_int_equal(files(path, sizeof path), 1);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 6);
    assert_int_equal(files(NULL, 0), 1); /* the temporary file is removed */
}

/* The folder is read-only: its entries are used, and none is added. */
static void folders_that_may_only_be_read_are_read(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    assert_int_equal(chmod(dir, 0500), 0);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 1);
    get(&f, "source 2"); /* root may write even here */
    assert_int_equal(files(NULL, 0), geteuid() == 0 ? 2 : 1);
    assert_int_equal(chmod(dir, 0700), 0);
}

static void an_empty_name_switches_it_off(void **state) {
    struct fake f = fake_new("a device");
    get(&f, "source");
    assert_int_equal(setenv("KEEL_CACHE_DIR", "", 1), 0);
    get(&f, "source");
    get(&f, "source");
    assert_int_equal(f.n_compiled, 3);
    assert_int_equal(setenv("KEEL_CACHE_DIR", dir, 1), 0);
    get(&f, "source");
    assert_int_equal(f.n_compiled, 3);
}

static void the_usual_places(void **state) {
    struct fake f = fake_new("a device");
    char xdg[600], home[600], path[700];
    struct stat st;
    snprintf(xdg, sizeof xdg, "%s/xdg", dir);
    snprintf(home, sizeof home, "%s/home", dir);
    unsetenv("KEEL_CACHE_DIR");
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    get(&f, "source");
    snprintf(path, sizeof path, "%s/keel", xdg);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(stat(home, &st), -1);
    unsetenv("XDG_CACHE_HOME");
    get(&f, "source");
    snprintf(path, sizeof path, "%s/.cache/keel", home);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(f.n_compiled, 2);
    unsetenv("HOME");
    get(&f, "source"); /* no cache folder is known */
    assert_int_equal(f.n_compiled, 3);
}

/* ---- writers that meet ---- */

enum { THREADS = 8, ROUNDS = 40 };
static struct t_barrier together;

static void *writer(void *arg) {
    struct fake *f = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char source[32];
        snprintf(source, sizeof source, "source %d", i);
        t_barrier_wait(&together);
        void *module = NULL;
        if (kl_kernel_cache_module(&f->driver, source, "text", &module, NULL)) return arg;
        if (strcmp((char *)module + 4, source) != 0) return arg;
        free(module);
    }
    return NULL;
}

static void writers_that_meet_do_no_harm(void **state) {
    struct fake f[THREADS];
    pthread_t threads[THREADS];
    t_barrier_init(&together, THREADS);
    for (int i = 0; i < THREADS; i++) {
        f[i] = fake_new("a device");
        assert_int_equal(pthread_create(&threads[i], NULL, writer, &f[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    t_barrier_destroy(&together);
    assert_int_equal(files(NULL, 0), ROUNDS);
    struct fake after = fake_new("a device");
    for (int i = 0; i < ROUNDS; i++) {
        char source[32];
        snprintf(source, sizeof source, "source %d", i);
        get(&after, source);
    }
    assert_int_equal(after.n_compiled, 0);
}

/* Each allocation fails in turn, with an entry on disk and without one. The result is a module or
 * out of memory, and nothing leaks. */
static void allocations_may_fail(void **state) {
    for (int stored = 0; stored < 2; stored++) {
        bool more = true;
        for (int n = 0; more; n++) {
            struct fake f = fake_new("a device");
            fresh_folder(NULL);
            if (stored) get(&f, "source");
            int64_t live = kl_test_n_live();
            void *module = NULL;
            struct kl_error *err = NULL;
            kl_test_fail_alloc_at(n);
            int rc = kl_kernel_cache_module(&f.driver, "source", "text", &module, &err);
            more = kl_test_alloc_failed();
            kl_test_fail_alloc_at(-1);
            if (rc) {
                assert_int_equal(rc, KL_ENOMEM);
                assert_int_equal(err->code, KL_ENOMEM);
                kl_error_release(err);
            } else {
                assert_string_equal((char *)module + 4, "source");
                free(module);
            }
            assert_int_equal(kl_test_n_live(), live);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup(f, fresh_folder)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(second_run_compiles_nothing),
        TEST(identities_do_not_meet),
        TEST(damaged_entries_are_made_anew),
        TEST(truncated_and_longer_entries_are_made_anew),
        TEST(foreign_entries_are_not_believed),
        TEST(refused_binaries_are_made_anew),
        TEST(other_failures_of_load_are_reported),
        TEST(errors_of_the_compiler_are_reported),
        TEST(folders_that_cannot_be_written_do_no_harm),
        TEST(folders_that_may_only_be_read_are_read),
        TEST(an_empty_name_switches_it_off),
        TEST(the_usual_places),
        TEST(writers_that_meet_do_no_harm),
        TEST(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
