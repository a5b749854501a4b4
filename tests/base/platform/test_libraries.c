/* test_libraries.c - names of libraries of others, and loading one with a variable. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform/libraries.h"

static void every_list_has_names(void **state) {
    const char *const *const lists[] = {kl_libraries_zip, kl_libraries_lapack,
                                        kl_libraries_open_mpi, kl_libraries_mpich};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_non_null(lists[i][0]);
        for (const char *const *name = lists[i]; *name; name++) assert_true(strlen(*name) > 3);
    }
    assert_true(strlen(kl_library_opencl) > 3);
    const char *const installs[] = {kl_install_zip, kl_install_mpi, kl_install_opencl,
                                    kl_install_opencl_driver};
    for (int i = 0; i < 4; i++) assert_non_null(strstr(installs[i], " install "));
}

static void the_environment_is_as_before(void **state) {
    static const char variable[] = "KEEL_TEST_OF_LIBRARIES=1";
    assert_int_equal(setenv("KEEL_TEST_BEFORE", "kept", 1), 0);
    for (int i = 0; i < 3; i++) assert_null(kl_library_open_with(variable, "/nonexistent/library"));
    assert_null(getenv("KEEL_TEST_OF_LIBRARIES"));
    assert_string_equal(getenv("KEEL_TEST_BEFORE"), "kept");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_list_has_names),
        cmocka_unit_test(the_environment_is_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
