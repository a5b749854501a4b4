/* test_linalg_lapack.c - how OpenBLAS is loaded: with kernels that fit the processor, also where it
 * is older than the processor, and without a trace in the environment. */
#include "backend/cpu/linalg_support.h"

#include <dlfcn.h>

#include "backend/cpu/linalg/lapack.h"
#include "platform/self.h"

static void kernels_fit(void **state) {
    char **before = t_environment();
    const char *chosen = getenv("OPENBLAS_CORETYPE");
    const struct kl_lapack *lapack = kl_lapack();
    assert_ptr_equal(t_environment(), before);
    assert_true(getenv("OPENBLAS_CORETYPE") == chosen);
    if (!lapack) {
        print_message("NOT RUN: there is no OpenBLAS\n");
        return;
    }
    Dl_info of;
    char *(*corename)(void);
    void *at;
    memcpy(&at, &lapack->sgesdd, sizeof at);
    assert_true(dladdr(at, &of) != 0);
    void *library = dlopen(of.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    at = dlsym(library, "openblas_get_corename");
    memcpy(&corename, &at, sizeof at);
#if defined __x86_64__
    if (at && !chosen && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        assert_string_not_equal(corename(), "Prescott");
#endif
    dlclose(library);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
