/* test_file.c - every allocation between a file and an array, and back, fails in turn: each failure
 * gives a clear error and leaves no partial result. The address sanitizer finds leaks. */
#include "io_support.h"

/* Runs `step` with allocation 0 failing, then 1, and so on until it succeeds. Streams and threads
 * that it made stay. */
static void every_allocation_fails(int (*step)(const char *, struct kl_error **),
                                   const char *path) {
    struct kl_error *err = NULL;
    expect_ok(step(path, &err), err); /* streams and threads exist after this */
    for (int n = 0;; n++) {
        assert_true(n < 5000);
        kl_test_fail_alloc_at(n);
        int rc = step(path, &err);
        bool failed = kl_test_alloc_failed();
        kl_test_fail_alloc_at(-1);
        if (rc && rc != KL_ENOMEM)
            fail_msg("allocation %d: %d: %s", n, rc, err ? err->message : "");
        if (rc && !err) fail_msg("allocation %d: no error object", n);
        if (rc && !failed) fail_msg("failed without cause: %s", err->message);
        kl_error_release(err);
        err = NULL;
        if (!failed) break;
    }
}

static int load_and_read(const char *path, struct kl_error **err) {
    struct kl_source *s = NULL;
    struct kl_file *f = NULL;
    struct kl_array *arrays[8] = {0};
    int rc = kl_source_open_file(&s, path, err);
    if (!rc) rc = kl_file_open(&f, s, KL_FORMAT_ANY, err);
    for (size_t i = 0; !rc && i < f->n; i++) rc = kl_file_array(&arrays[i], f, i, NULL, err);
    if (!rc) rc = kl_eval(arrays, f->n, err);
    for (int i = 0; i < 8; i++) kl_array_release(arrays[i]);
    kl_file_close(f);
    kl_source_release(s);
    return rc;
}

static void loading_survives_every_failed_allocation(void **state) {
    every_allocation_fails(load_and_read, "tests/io/data/five.safetensors");
    every_allocation_fails(load_and_read, "tests/io/data/fortran.npy");
    every_allocation_fails(load_and_read, "tests/io/data/deflated.npz");
}

static struct kl_array *to_save[2];
static const struct kl_pair metadata[] = {{"k", "v"}};

static int save_npy(const char *path, struct kl_error **err) {
    return kl_save_npy((struct kl_dest){.path = path}, to_save[1], err);
}
static int save_safetensors(const char *path, struct kl_error **err) {
    struct kl_named list[] = {{"a", to_save[0]}, {"b", to_save[1]}};
    return kl_save_safetensors((struct kl_dest){.path = path}, list, 2, metadata, 1, err);
}
static int save_npz(const char *path, struct kl_error **err) {
    struct kl_named list[] = {{"a", to_save[0]}, {"b", to_save[1]}};
    return kl_save_npz(path, list, 2, true, err);
}

static void saving_survives_every_failed_allocation(void **state) {
    struct kl_file *f = open_path("tests/io/data/vector.npy", KL_FORMAT_ANY);
    struct kl_file *g = open_path("tests/io/data/fortran.npy", KL_FORMAT_ANY);
    to_save[0] = array_of(f, "", NULL);
    to_save[1] = array_of(g, "", NULL);
    host_of(to_save[0]);
    host_of(to_save[1]);
    every_allocation_fails(save_npy, kl_test_path("s.npy"));
    every_allocation_fails(save_safetensors, kl_test_path("s.safetensors"));
    every_allocation_fails(save_npz, kl_test_path("s.npz"));
    kl_array_release(to_save[0]);
    kl_array_release(to_save[1]);
    kl_file_close(f);
    kl_file_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_survives_every_failed_allocation),
        cmocka_unit_test(saving_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
