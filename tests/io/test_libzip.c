/* test_libzip.c - a machine without libzip: .npz is rejected with an error that names libzip, and
 * the other formats work. */
#include "io_support.h"

static void npz_names_what_is_missing(void **state) {
    expect_open_fails("tests/io/data/stored.npz", KL_FORMAT_ANY, KL_EUNSUPPORTED,
                      "libzip (Debian: apt install libzip4)");
    struct kl_error *err = NULL;
    expect_error(kl_save_npz(kl_test_path("x.npz"), NULL, 0, false, &err), err, KL_EUNSUPPORTED,
                 "libzip");
    kl_file_close(open_path("tests/io/data/vector.npy", KL_FORMAT_ANY));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(npz_names_what_is_missing)};
    setenv("KEEL_LIBZIP", "/nonexistent/libzip.so", 1); /* set before the library is first loaded */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
